"""The planner of Paimon tables.

Source: "Primary Key Table", "Append Table" and "Table Mode" in the documentation of Paimon;
`DataTableBatchScan` and `MergeTreeSplitGenerator` of Apache Paimon.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import xxhash
from pyarrow import fs

from lookupstore.arrow.types import is_text
from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.keys.schema import KeySchema
from lookupstore.source.source import Source
from lookupstore.storage.trees import answers
from lookupstore.tables.history import SnapshotMoment
from lookupstore.tables.paimon.binary_row import values_of
from lookupstore.tables.paimon.columns import ColumnsOfFiles, check_orc, ids_in, table_columns
from lookupstore.tables.paimon.deletion_vectors import VectorInFile
from lookupstore.tables.paimon.engine import (
    AGGREGATION,
    PARTIAL_UPDATE,
    ignores_deletes,
    merge_engine,
    refused_error,
)
from lookupstore.tables.paimon.merge import Buckets, KeyMerge, ReplacedRows, sections
from lookupstore.tables.paimon.merged_rows import MergedSection
from lookupstore.tables.paimon.metadata import MAIN, Metadata, PaimonFile, Place, Vector
from lookupstore.tables.paimon.opened import opened_table
from lookupstore.tables.paimon.row_order import SYSTEM, LeveledFile, Section, SequenceOrder
from lookupstore.tables.paimon.statistics import ColumnsOfStatistics, FileInManifest, KeysOfFiles
from lookupstore.tables.rows import snapshot_source
from lookupstore.tables.snapshot import Snapshot, TableFile

# Options that change which rows a read returns, with the values that change nothing.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "batch-scan-mode": ("none",),
    "chain-table.enabled": ("false",),
    "data-evolution.enabled": ("false",),
    "data-file.path-directory": (),
    "incremental-between": (),
    "incremental-between-timestamp": (),
    "index-file-in-data-file-dir": ("false",),
    "pk-clustering-override": ("false",),
    "query-auth.enabled": ("false",),
    "record-level.expire-time": (),
    "row-tracking.enabled": ("false",),
    "scan.fallback-branch": (),
    "scan.file-creation-time-millis": (),
    "scan.mode": ("default", "full", "latest", "latest-full"),
    "scan.primary-branch": (),
    "scan.snapshot-id": (),
    "scan.tag-name": (),
    "scan.timestamp": (),
    "scan.timestamp-millis": (),
    "scan.version": (),
    "scan.watermark": (),
    "sequence.field.sort-order": ("ascending", "descending"),
    "sequence.snapshot-ordering": ("false",),
    "type": ("table",),
}
_DEFAULT_VALUE = re.compile(r"fields\..+\.default-value")
_DEDUPLICATE, _FIRST_ROW = "deduplicate", "first-row"
# Engines that make a row of several.
_MERGING = (PARTIAL_UPDATE, AGGREGATION)
_ENGINES = (_DEDUPLICATE, _FIRST_ROW, *_MERGING)
_FORMATS = ("parquet", "orc")
# Characters that Paimon escapes in the names of folders.
_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{}\\[\\]^]")
_EPOCH = datetime.date(1970, 1, 1)


def table_source(given: Any) -> Source:
    """Return the rows of a Paimon table as the source of a store.

    Args:
        given: Folder or URI of the table, for its newest snapshot; or a table of pypaimon, for the
            snapshot that its options choose.

    Raises:
        FormatError: If the table has something that is not supported, which the error names.
        ValueError: If the options of the table of pypaimon choose a snapshot that is not there.
        CorruptionError: If a metadata file is damaged.
        StaleStoreError: If a metadata file is gone.
        ImportError: If fastavro is not installed.
    """
    return snapshot_source(table_snapshot(given))


def table_snapshot(given: Any) -> Snapshot:
    """Return the files of a Paimon table.

    Args:
        given: Table as `table_source` takes it.

    Raises the errors of `table_source`.
    """
    table = opened_table(given)
    return snapshot_at(Metadata(table.location, table.number))


def snapshot_at(metadata: Metadata) -> Snapshot:
    """Return the files of a snapshot of a Paimon table.

    Args:
        metadata: Metadata of the table at the snapshot.

    Raises the errors of `table_source`.
    """
    return _Planner(metadata).snapshot()


class PaimonHistory:
    """A Paimon table at its newest snapshot, with its former ones.

    Args:
        given: Folder or URI of the table; or a table of pypaimon.

    Raises:
        ValueError: If the options of the table of pypaimon choose a snapshot.

    Also raises the errors of `table_source`.
    """

    def __init__(self, given: Any) -> None:
        table = opened_table(given)
        if table.chosen_by:
            raise ValueError(
                f"table is open with {table.chosen_by}, and so never changes; open it without this "
                "option"
            )
        self._metadata = Metadata(table.location)
        #: The newest snapshot.
        self.newest: SnapshotMoment = SnapshotMoment(_Planner(self._metadata).snapshot())

    def former(self, snapshot_id: str) -> SnapshotMoment | None:
        """Return a former snapshot, in the columns of the newest one. None: it is gone.

        Args:
            snapshot_id: Number of the snapshot.
        """
        try:
            found = _Planner(self._metadata.at(int(snapshot_id))).snapshot()
        except StaleStoreError:  # it expired, or the table was rolled back
            return None
        return SnapshotMoment(found)


#: The history of a table of the format, by its folder, URI or object.
table_history = PaimonHistory


class _Planner:
    """The planner of one snapshot.

    Args:
        metadata: Metadata of the table.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._location = metadata.location
        self._schema = schema = metadata.schema
        self._description = f"Paimon table {metadata.uri} at snapshot {metadata.number}"
        self._check_options()
        self._columns = table_columns(schema.fields, self._error)
        named = {*schema.partition_keys, *schema.primary_keys, *self._sequence}
        if not named <= set(self._columns.names):
            missing = sorted(named - set(self._columns.names))
            path = metadata.location.show(f"schema/schema-{schema.number}")
            raise CorruptionError(path, 0, f"the columns {missing}", "none")
        self._check_columns()
        if schema.primary_keys and self._engine in _MERGING:
            merge_engine(schema, self._columns, self._sequence, self._description)
        self._of_schemas: dict[int, ColumnsOfFiles] = {}
        self._of_statistics: dict[int, ColumnsOfStatistics] = {}
        self._checked_orc: set[int] = set()
        self._vectors: Mapping[tuple[bytes, int, str], Vector] = {}

    def snapshot(self) -> Snapshot:
        """Return the files of the snapshot."""
        self._vectors = self._metadata.vectors()
        if self._vectors and not self._has_vectors:
            raise self._error("deletion vectors that 'deletion-vectors.enabled' turns off")
        buckets: dict[Place, list[PaimonFile]] = {}
        for file in self._metadata.data_files():
            if self._is_read(file):
                buckets.setdefault((file.partition, file.bucket), []).append(file)
        partitions = {place[0]: self._values(those[0]) for place, those in buckets.items()}
        folders = self._folders(buckets, partitions)
        made = {
            place: [
                (file, self._file(file, folders[place], partitions[place[0]])) for file in those
            ]
            for place, those in buckets.items()
        }
        files = (file for those in self._merged(made).values() for file in those)
        return Snapshot(
            self._description,
            self._columns,
            self._columns,
            self._columns,
            tuple(sorted(files, key=lambda file: file.address.path)),
            ids_of_columns={field["name"]: str(ids_in(field)) for field in self._schema.fields},
            table_id=self._metadata.table_id,
            snapshot_id=str(self._metadata.number),
            deletes_by_position=self._has_vectors,
        )

    def _merged(
        self, made: Mapping[Place, Sequence[tuple[PaimonFile, TableFile]]]
    ) -> dict[Place, list[TableFile]]:
        """Return the files of each bucket, without the rows that do not count."""
        to_merge = {place: [*self._sections(those)] for place, those in made.items()}
        makes_rows = self._engine in _MERGING
        found: dict[Place, dict[str, TableFile]] = {
            place: {file.address.path: file for _, file in those} for place, those in made.items()
        }
        if makes_rows and self._schema.primary_keys:
            for place, parts in to_merge.items():
                for section in parts:
                    if len(section) > 1:
                        merged = self._merged_section(section)
                        for one in section:
                            del found[place][one.file.address.path]
                        found[place][merged.address.path] = merged
                to_merge[place] = [section for section in parts if len(section) == 1]
        rule = KeyMerge(self._order, self._merge_columns, ignores_deletes(self._schema))
        buckets = Buckets(rule, {place: those for place, those in to_merge.items() if those})
        for place, parts in to_merge.items():
            for section in parts:
                identity = _identity(section, f"{self._order.identity}{rule.ignores_deletes}")
                for one in section:
                    path = one.file.address.path
                    rows = ReplacedRows(buckets, place, one.file, identity)
                    found[place][path] = replace(found[place][path], deleted=rows)
        return {place: [*those.values()] for place, those in found.items()}

    def _merged_section(self, section: Section) -> TableFile:
        """Return the rows of several files, one for each key."""
        schema, files = self._schema, [one.file for one in section]
        engine = merge_engine(schema, self._columns, self._sequence, self._description)
        identity = _identity(section, f"{self._order.identity}{engine.identity}")
        columns = pa.schema([*self._columns, *SYSTEM])
        first = min(files, key=lambda file: file.address.path)
        known = [file.statistics for file in files if file.statistics is not None]  # all have some
        return TableFile(
            first.address,
            sum(file.nbytes for file in files),
            first.file_format,
            num_rows=sum(file.num_rows or 0 for file in files),
            written=identity,
            partition=first.partition,
            statistics=KeysOfFiles(known, schema.bucket_keys[0]),
            merged=MergedSection(self._order, engine, columns, section),
        )

    @property
    def _has_vectors(self) -> bool:
        return self._schema.option("deletion-vectors.enabled") == "true"

    @property
    def _sequence(self) -> tuple[str, ...]:
        """Return the names of the columns that decide which row is newer."""
        text = self._schema.options.get("sequence.field", "")
        return tuple(name.strip() for name in text.split(",") if name.strip())

    @property
    def _order(self) -> SequenceOrder:
        """Return the order of the rows of a key."""
        schema = self._schema
        looks_up = (
            schema.option("changelog-producer") == "lookup"
            or self._has_vectors
            or schema.option("force-lookup") == "true"
        )
        return SequenceOrder(
            self._description,
            schema.bucket_keys,
            self._sequence,
            schema.option("sequence.field.sort-order") == "descending",
            looks_up,
        )

    @property
    def _engine(self) -> str:
        return self._schema.option("merge-engine", _DEDUPLICATE)

    @property
    def _skips_new_files(self) -> bool:
        """Return whether files count once they are compacted, and need no merge then."""
        if not self._schema.primary_keys:
            return False
        if self._has_vectors:
            return self._schema.option("deletion-vectors.merge-on-read") != "true"
        return self._engine == _FIRST_ROW

    @property
    def _merge_columns(self) -> pa.Schema:
        names = dict.fromkeys((*self._schema.bucket_keys, *self._sequence))
        if self._engine in _MERGING:
            return pa.schema([*self._columns, *SYSTEM])
        return pa.schema([*(self._columns.field(name) for name in names), *SYSTEM])

    def _check_options(self) -> None:
        schema = self._schema
        for name, harmless in _OPTIONS.items():
            value = schema.options.get(name)
            if value is not None and str(value).lower() not in harmless:
                raise self._error(f"the option {name!r} ({value!r})")
        for name in schema.options:
            if _DEFAULT_VALUE.fullmatch(name):
                raise self._error(f"the option {name!r}")
        if str(schema.options.get("branch", MAIN)) not in (MAIN, self._metadata.branch):
            raise self._error(f"the option 'branch' ({schema.options['branch']!r})")
        if schema.primary_keys and self._engine not in _ENGINES:
            raise self._error(f"the merge engine {self._engine!r}")
        if schema.option("bucket") == "-2":
            raise self._error("postponed buckets (bucket = -2)")

    def _check_columns(self) -> None:
        for name in (*self._schema.primary_keys, *self._sequence):
            if pa.types.is_floating(self._columns.field(name).type):
                raise self._error(f"a key or sequence of floats ({name!r})")
        for name in self._schema.partition_keys:
            kind = self._columns.field(name).type
            types = pa.types
            is_number = types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind)
            if not (is_number or is_text(kind)):
                raise self._error(f"partitions by a column of type {kind} ({name!r})")

    def _is_read(self, file: PaimonFile) -> bool:
        """Return whether the rows of a data file count."""
        if self._skips_new_files and file.level == 0:
            return False
        if file.elsewhere:
            raise self._error("files outside its folder (external paths)")
        if file.has_some_columns:
            raise self._error("files with some of the columns (data evolution)")
        if file.bucket < 0:
            raise self._error(f"the bucket {file.bucket}")
        if self._engine == _FIRST_ROW and file.num_deletes:
            raise self._error("deleted rows with the merge engine 'first-row'")
        return True

    def _values(self, file: PaimonFile) -> dict[str, pa.Scalar]:
        """Return the values of the partition of a file, by the names of the columns."""
        names = self._schema.partition_keys
        kinds = [self._columns.field(name).type for name in names]
        return dict(zip(names, self._row(file, file.partition, kinds, "partition"), strict=True))

    def _row(
        self, file: PaimonFile, row: bytes, kinds: Sequence[pa.DataType], what: str
    ) -> list[pa.Scalar]:
        try:
            return values_of(row, kinds)
        except (ValueError, pa.ArrowException, OverflowError) as error:
            expected = f"a {what} of {file.name!r}"
            raise CorruptionError(file.manifest, 0, expected, error) from None

    def _folders(
        self,
        buckets: Mapping[Place, Sequence[PaimonFile]],
        partitions: Mapping[bytes, Mapping[str, pa.Scalar]],
    ) -> dict[Place, str]:
        """Return the folder of each bucket, relative to the table.

        Writers have several forms for the values of a partition. Where they differ, the file system
        is asked for the first file of the bucket.
        """
        filesystem, _ = self._location.resolve("")
        found: dict[Place, str] = {}
        unclear: list[tuple[Place, list[str]]] = []
        for place in buckets:
            partition, bucket = place
            forms = [
                "".join(f"{part}/" for part in parts) + f"bucket-{bucket}"
                for parts in self._forms(partitions[partition])
            ]
            forms = [*dict.fromkeys(forms)]
            found[place] = forms[0]
            if len(forms) > 1:
                unclear.append((place, forms))
        names = [f"{form}/{buckets[place][0].name}" for place, forms in unclear for form in forms]
        paths = [self._location.address(name).path for name in names]
        there = iter(answers(filesystem, partial(_is_file, filesystem), paths))
        for place, forms in unclear:
            known = [form for form in forms if next(there)]
            found[place] = (known or forms)[0]
        return found

    def _forms(self, values: Mapping[str, pa.Scalar]) -> Iterator[list[str]]:
        """Yield the names of the folders of a partition: as Java and Python write them."""
        default = self._schema.options.get("partition.default-name", "__DEFAULT_PARTITION__")
        known = {name: value.as_py() for name, value in values.items()}
        days = {
            name: (value - _EPOCH).days if isinstance(value, datetime.date) else value
            for name, value in known.items()
        }
        for those in (days, known):  # Java has days as numbers, unless it is told otherwise
            texts = {name: _java_text(value) for name, value in those.items()}
            yield [
                f"{_escaped(name)}={_escaped(text) if text.strip() else default}"
                for name, text in texts.items()
            ]
        if not any("/" in str(value) for value in known.values()):
            yield [f"{name}={default if value is None else value}" for name, value in known.items()]

    def _file(self, file: PaimonFile, folder: str, partition: Mapping[str, pa.Scalar]) -> TableFile:
        """Return a data file, with the rows that are deleted by its vector."""
        file_format = file.name.rpartition(".")[2].lower()
        if file_format not in _FORMATS:
            raise self._error(f"{file_format} files")
        columns = self._columns_of(file.schema, file_format)
        constants = {
            name: pa.scalar(None, self._columns.field(name).type) for name in columns.missing
        }
        stored = None if columns.stored == self._columns else columns.stored
        return TableFile(
            self._location.address(f"{folder}/{file.name}"),
            file.nbytes,
            file_format,
            num_rows=file.num_rows,
            constants={**constants, **partition},
            partition=partition,
            deleted=self._vector(file),
            statistics=FileInManifest(file, self._statistics_of(file.schema), self._ends(file)),
            stored=stored,
        )

    def _vector(self, file: PaimonFile) -> VectorInFile | None:
        vector = self._vectors.get((file.partition, file.bucket, file.name))
        if vector is None:
            return None
        if vector.elsewhere:
            raise self._error("deletion vectors outside its folder (external paths)")
        address = self._location.address(f"index/{vector.file}")
        return VectorInFile(address, vector, self._metadata.contents)

    def _columns_of(self, number: int, file_format: str) -> ColumnsOfFiles:
        """Return the columns of files that were written with a schema."""
        there = self._metadata.schema_of(number)
        if file_format == "orc" and number not in self._checked_orc:
            check_orc(there.fields, self._error)
            self._checked_orc.add(number)
        if number not in self._of_schemas:
            self._of_schemas[number] = ColumnsOfFiles(
                self._schema.fields, self._columns, there.fields, self._error
            )
        return self._of_schemas[number]

    def _statistics_of(self, number: int) -> ColumnsOfStatistics:
        """Return the columns of statistics of files that were written with a schema."""
        if number not in self._of_statistics:
            there = self._metadata.schema_of(number)
            columns = self._columns
            if number != self._schema.number:
                columns = table_columns(there.fields, self._error)
            of_ids = {field["id"]: field["name"] for field in there.fields}
            same = {
                field["name"]: of_ids[field["id"]]
                for field in self._schema.fields
                if field["id"] in of_ids
                and columns.field(of_ids[field["id"]]).type
                == self._columns.field(field["name"]).type
            }
            first = next(iter(self._schema.bucket_keys), None)
            self._of_statistics[number] = ColumnsOfStatistics(columns, same, first)
        return self._of_statistics[number]

    def _ends(self, file: PaimonFile) -> tuple[pa.Scalar, pa.Scalar] | None:
        """Return the least and greatest value of the first column of keys in a data file."""
        if not self._schema.bucket_keys:
            return None
        least, greatest = (values[0] for values in self._key_values(file))
        return least, greatest

    def _key_values(self, file: PaimonFile) -> list[list[pa.Scalar]]:
        """Return the least and greatest key of a data file."""
        kinds = [self._columns.field(name).type for name in self._schema.bucket_keys]
        found = [self._row(file, row, kinds, "key") for row in file.keys]
        if not all(value.is_valid for values in found for value in values):
            raise CorruptionError(file.manifest, 0, f"the keys of {file.name!r}", "null")
        return found

    def _sections(self, files: Sequence[tuple[PaimonFile, TableFile]]) -> Iterator[Section]:
        """Yield the files of a bucket that have rows which do not count, and others near them."""
        if not self._schema.primary_keys:
            return
        if self._skips_new_files:
            parts = [[at] for at in range(len(files))]
        else:
            columns = pa.schema([
                self._columns.field(name) for name in self._schema.bucket_keys
            ])  # fmt: skip
            ends = [
                KeySchema(columns).encode([
                    pa.array([value.as_py() for value in values], field.type)
                    for values, field in zip(
                        zip(*self._key_values(file), strict=True), columns, strict=True
                    )
                ])
                for file, _ in files
            ]  # fmt: skip
            parts = sections([(one[0].as_py(), one[1].as_py()) for one in ends])
        for part in parts:
            first = files[part[0]][0]
            # pypaimon counts no deletions in new files; compacted files are those of Java.
            if len(part) > 1 or first.level == 0 or first.num_deletes != 0:
                yield tuple(
                    LeveledFile(self._to_merge(files[at][1]), files[at][0].level) for at in part
                )

    def _to_merge(self, file: TableFile) -> TableFile:
        """Return a data file with the columns that decide which of its rows count."""
        names = self._merge_columns.names[: -len(SYSTEM)]
        stored = self._columns if file.stored is None else file.stored
        fields = [stored.field(self._columns.get_field_index(name)) for name in names]
        return replace(file, stored=pa.schema([*fields, *SYSTEM]))

    def _error(self, what: str) -> FormatError:
        return refused_error(self._description, what)


def _identity(section: Section, rule: str) -> str:
    """Return a text that differs between sections with other rows, or that are merged otherwise."""
    files = sorted(f"{one.level}:{':'.join(one.file.stored_identity)}" for one in section)
    return xxhash.xxh3_128_hexdigest("\n".join([rule, *files]).encode())


def _is_file(filesystem: fs.FileSystem, path: str) -> bool:
    return bool(filesystem.get_file_info(path).type is fs.FileType.File)


def _java_text(value: object) -> str:
    """Return a value of a partition as Java writes it; empty for null."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    """Return a text as a part of the name of a folder.

    >>> _escaped("a/b=ü")
    'a%2Fb%3Dü'
    """
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)
