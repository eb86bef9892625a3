"""``ColumnarFiles``: Parquet or ORC files that answer what is at a key, without a store."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lookupstore.columnar.evolution import common_schema
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.columnar.lookup_file import (
    MODES,
    LookupFilePlan,
    Mode,
    plan_lookup_file,
)
from lookupstore.columnar.paimon_files import plan_paimon_file, write_paimon_file
from lookupstore.columnar.planned_files import (
    Parts,
    Places,
    PlannedFiles,
    given_paths,
    value_fields,
)
from lookupstore.columnar.published import (
    PublishedFile,
    forget_old,
    location_of,
    publish_file,
    published_files,
)
from lookupstore.columnar.rent import BUILDS, Build
from lookupstore.columnar.source_file import source_files
from lookupstore.compacted.schema import Types, arrow_schema
from lookupstore.errors import DuplicateKeyError, FormatError, listed
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.quantities import Size, bytes_of
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting.runs import MIN_MEMORY, RepeatedKeyError, merge
from lookupstore.source.search import FoundTable, find_source, shown_path
from lookupstore.source.table_readers import table_reader
from lookupstore.sst.typed import KIND, SEQUENCE
from lookupstore.storage.location import Location, as_location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.data_files import FileOptions

Given = str | os.PathLike[str] | Location | Sequence[str | os.PathLike[str] | Location]
Rule = Literal["error", "first", "last"]
_RULES: tuple[Rule, ...] = ("error", "first", "last")
_MEMORY = 128 << 20

_log = logging.getLogger(__name__)


class ColumnarFiles(PlannedFiles):
    """Lookups in Parquet or ORC files, each of which has a lookup file.

    Lookup files are made on the host that looks up, when they pay, within the quota of its cache;
    other processes, later jobs and other queries with the same columns use them. A file that is
    written again gets a new one; those of the other files stay. Lookups see the files as they were
    when this object was made.

    Rows with a null in the key never match. Columns of the files that differ:
    `lookupstore.columnar.evolution`.

    Args:
        source: path, URI, glob or folder of Parquet or ORC files, or a list of these; or the
            folder or URI of a Hudi table: its data columns, in the base files that have its rows.
            A `Location` is a path, too.
        key: the key columns, which every file has.
        columns: the value columns; None takes all that are not in the key.
        mode: what a lookup returns: `value`: its value columns; `position`: the columns `_file`
            and `_pos`, the path of its file and its row there, from 0; `value_and_position`: both;
            `presence`: only whether it is there.
        on_duplicate: what happens to a key that comes more than once: `"error"`; `"first"` or
            `"last"` keep that row, files by ascending path. Under `"error"`, a key that two files
            hold is an error when it is looked up.
        latest_partition: name of the `name=value` folders of which only the greatest value counts,
            by number if all values are numbers, else as text: the partition of the last day.
        build: when to make a lookup file: `auto`: when looks into the row groups of the file that
            may hold the keys would cost as much; `always`: at the first key; `never`.
        memory: budget for rows that are sorted, at least 64 KiB, in bytes or as a text such as
            `"1GB"`.
        residency: where lookup files of this host are; None takes that of the host.
        storage_options: of the URIs, as of `lookupstore.Location`.

    Raises:
        FileNotFoundError: the source names no files.
        KeyError: a column does not exist, or a file lacks a key column.
        TypeError: a key column whose type cannot be ordered, or a value that cannot be stored.
        ValueError: an argument out of range, or columns of several files that do not agree.
        CorruptionError: a footer is damaged.
        FormatError: the files are those of a table: the error names the line to write instead; or
            a folder has other files, or its `name=value` folders do not agree.
        ImportError: the source is a Hudi table, and the extra `hudi` is not installed.

    Source: LookupLevels of Apache Paimon and its processors of values, positions and presence;
    `max_pt()` of its lookup joins.

    >>> import os, tempfile, pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [2, 1], "name": ["b", "a"]}), f"{folder}/1.parquet")
    >>> pq.write_table(pa.table({"id": [3], "name": ["c"]}), f"{folder}/2.parquet")
    >>> with ColumnarFiles(f"{folder}/*.parquet", key="id") as files:
    ...     files.lookup([3, 1, 7]).to_pydict()
    {'name': ['c', 'a', None]}
    >>> with ColumnarFiles(folder, key="id", mode="position") as files:
    ...     [(os.path.basename(row["_file"]), row["_pos"]) for row in files.lookup([1]).to_pylist()]
    [('1.parquet', 1)]
    """

    def __init__(
        self,
        source: Given,
        *,
        key: str | Sequence[str],
        columns: str | Sequence[str] | None = None,
        mode: Mode = "value",
        on_duplicate: Rule = "error",
        latest_partition: str | None = None,
        build: Build = "auto",
        memory: Size = _MEMORY,
        residency: Residency | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        for argument, value, known in (
            ("mode", mode, MODES),
            ("on_duplicate", on_duplicate, _RULES),
            ("build", build, BUILDS),
        ):
            if value not in known:
                raise ValueError(f"{argument} is {value!r}; give {', '.join(map(repr, known))}")
        memory = bytes_of(memory, "memory", least=MIN_MEMORY)
        names = [key] if isinstance(key, str) else list(key)
        values = [columns] if isinstance(columns, str) else columns
        (source,) = paths_with_options(storage_options, source=source)
        paths = given_paths(source)
        wanted = [*names, *(values or ())]
        found = find_source(paths)
        everything = values is None and mode in ("value", "value_and_position")
        if is_table := isinstance(found, FoundTable):
            read = table_reader("hudi").table_files
            schema, sources = read(found.path, latest_partition=latest_partition)
            those = f"the table has [{listed(schema.names)}]"
            # Rows of files that are older than a key column have a null in it.
            sources = [file for file in sources if set(names) <= set(file.schema.names)]
        else:
            sources = source_files(found, latest_partition=latest_partition)
            schema = common_schema(
                ((file.uri, file.schema) for file in sources), None if everything else wanted
            )
            those = f"the first one has [{listed(sources[0].schema.names)}]"
        counts = Counter(schema.names)
        for name in wanted:
            if name not in counts:
                raise KeyError(f"the files have no column {name!r}; {those}")
        for name in schema.names if everything else wanted:
            if counts[name] > 1:
                raise ValueError(
                    f"the files have several columns named {name!r}; rename them, or choose the "
                    "others with columns=[...]"
                )
        plans = [plan_lookup_file(file, names, values, mode, on_duplicate) for file in sources]
        self._start(
            uri=shown_path(paths[0]),
            mode=mode,
            rule=on_duplicate,
            key=KeySchema(pa.schema([schema.field(name).with_nullable(False) for name in names])),
            values=value_fields(schema, names, values, mode),
            columns=None if values is None else list(values),
            plans=plans,
            published={} if is_table else _published(plans),
            is_table=is_table,
            build=build,
            memory=memory,
            residency=residency,
        )

    def _start(
        self,
        *,
        uri: str,
        mode: Mode,
        rule: Rule,
        key: KeySchema,
        values: pa.Schema,
        columns: list[str] | None,
        plans: Sequence[LookupFilePlan],
        published: dict[str, PublishedFile],
        is_table: bool,
        build: Build,
        memory: int,
        residency: Residency | None,
    ) -> None:
        self.path: str = uri
        self._rule = rule
        self._columns = columns
        self._published = published
        self._is_table = is_table
        self._set_up(
            mode=mode,
            key=key,
            values=values,
            plans=plans,
            published=published,
            build=build,
            memory=memory,
            residency=residency,
        )
        names = "".join(plan.name for plan in plans)
        self.id: str = xxhash.xxh3_128_hexdigest(f"{names} {values} {mode} {rule} {build}".encode())

    def __reduce__(self) -> tuple[Any, ...]:
        state = {
            "uri": self.path,
            "mode": self.mode,
            "rule": self._rule,
            "key": self._key,
            "values": self._values,
            "columns": self._columns,
            "plans": self._plans,
            "published": self._published,
            "is_table": self._is_table,
            "build": self._build,
            "memory": self._memory,
            "residency": None,
        }
        return _restored, (state,)

    def _places(self, keys: Any) -> tuple[Places, Parts]:
        encoded: dict[KeySchema, pa.Array] = {}
        places: Places | None = None
        parts: Parts = []
        count = 0
        order = range(len(self._plans))
        for number in reversed(order) if self._rule == "last" else order:
            schema = self._plans[number].build.key_schema
            if schema not in encoded:
                encoded[schema] = encode_keys(keys, schema)
            wanted = encoded[schema]
            if places is None:
                places = np.full(len(wanted), -1, dtype=np.int64)
            rest: npt.NDArray[np.int64] | None = None
            if self._rule != "error" and count:
                rest = np.flatnonzero(places < 0)
                if not len(rest):
                    break
                wanted = wanted.take(pa.array(rest))
            positions, rows = self._lookups[number].lookup(wanted)
            if not len(positions):
                continue
            if rest is not None:
                positions = rest[positions]
            again = np.flatnonzero(places[positions] >= 0)
            if len(again):
                key = encoded[schema][int(positions[again[0]])].as_py()
                raise self._in_two_files_error(key, number, int(places[positions[again[0]]]), parts)
            places[positions] = np.arange(count, count + len(positions))
            parts.append((number, rows))
            count += len(positions)
        if places is None:  # a table without files
            places = np.full(len(encode_keys(keys, self._key)), -1, dtype=np.int64)
        return places, parts

    def _scan(
        self, names: Sequence[str], start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of encoded keys, by the lookup files, which are made."""
        rows = RowSchema(pa.schema([self._values.field(name) for name in names]))
        runs = [
            self._records(number, rows, start, stop, reverse) for number in range(len(self._plans))
        ]
        try:
            yield from self._decoded(merge(runs, self._rule, reverse=reverse), rows)
        except RepeatedKeyError as error:
            self._places(self._key.decode(pa.array([error.key], pa.large_binary())))
            raise

    def _in_two_files_error(
        self, key: bytes, number: int, place: int, parts: Parts
    ) -> DuplicateKeyError:
        starts = np.cumsum([0, *(len(rows) for _, rows in parts)])
        first = parts[int(np.searchsorted(starts, place, "right")) - 1][0]
        values = self._plans[number].build.key_schema.decode(pa.array([key], pa.large_binary()))
        shown = ", ".join(f"{name}={value!r}" for name, value in values.to_pylist()[0].items())
        return DuplicateKeyError(
            f"the key {shown} is in {self._plans[first].source.uri} and in "
            f"{self._plans[number].source.uri}; pass on_duplicate='first' or 'last' to choose the "
            "row to return",
            key=shown,
        )

    def publish(self, *, threads: int = 1, progress: bool | None = None) -> int:
        """Write the lookup files beside their columnar files, so that other hosts fetch them.

        They go into the folder `_lookup` of the source. Existing ones stay as they are; those of
        files that have changed are removed a day later, by the next `publish`. Files that may
        still change without a difference that can be seen are left out, with a warning in the log:
        those of the last minute, on an object store without ETags.

        Args:
            threads: how many are made at the same time.
            progress: show a progress bar; None shows it on a terminal or in a notebook.

        Returns:
            how many were written.

        Raises:
            OSError: the source's folder cannot be written.
            FormatError: the source is a Hudi table, whose folder takes nothing but its own files.
            Exception: what `lookup` raises.
        """
        if self._is_table:
            raise FormatError(
                f"{self.path}: a Hudi table gets no lookup files beside its base files; publish a "
                f"store of it: lookupstore.build({self.path!r}, 'a new folder or URI', key=...)"
            )
        present = _published(self._plans)

        def one(lookup: FileLookup) -> None:
            plan = lookup.plan
            if plan.source.stored.unsettled:
                _log.warning(
                    "%s: not published: written a moment ago, and it could change again unseen; "
                    "list the files and publish again in a minute",
                    plan.source.uri,
                )
            elif plan.name not in present:
                location = location_of(plan.source)
                published[plan.name] = publish_file(
                    location, plan.name, plan.source, lookup.reader().path
                )

        published: dict[str, PublishedFile] = {}
        self._each(one, threads, progress, "Publishing lookup files")
        self._published = present | published
        sources: dict[Location, list[str]] = {}
        for plan in self._plans:
            location = location_of(plan.source)
            sources.setdefault(location, []).append(plan.source.below)
        for location, below in sources.items():
            forget_old(location, below, [plan.name for plan in self._plans])
        return len(published)

    def write_paimon_files(
        self,
        folder: str | os.PathLike[str] | Location,
        *,
        types: Types | None = None,
        sequence: str | int = SEQUENCE,
        kind: str | int = KIND,
        compression: str = "zstd",
        level: int | None = None,
        block_size: Size = 65536,
        bloom_fpp: float = 0.05,
        overwrite: bool = False,
        threads: int = 1,
        progress: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Write the lookup file that Apache Paimon would make of each columnar file.

        It is called ``DATAFILE.BYTES.MODE.v1.lookup``, as Paimon looks for it beside the data file;
        `lookupstore.sst.Reader` opens it with the same types. Rows are sorted if they are not in
        the order of Paimon's keys, nulls first, within `memory`. Values are whole rows, with the
        key columns in them, or those of `columns`. Modes are, in Paimon's words: `value`;
        `position`; `value_and_position`: ``position-and-value``; `presence`: ``empty``.

        Args:
            folder: folder or URI of the files; a folder is made if it is missing.
            types: of the table's columns, as an Arrow schema or as the fields in a schema file of
                Paimon's; None takes the types that the files have, and the order of their columns.
                A key column ``_KEY_x`` has the type of ``x``.
            sequence: column of the sequence numbers, or one number for all rows.
            kind: column of the row kinds (0 +I, 1 -U, 2 +U, 3 -D), or one for all rows.
            compression: as of `lookupstore.sst.Writer`, as are the next three; Paimon's default is
                zstd of level 1.
            level: of the compression.
            block_size: bytes of a block before compression.
            bloom_fpp: rate of false positives of the filter; 0 for none.
            overwrite: replace files that were made of the same columnar files.
            threads: how many files are made at the same time, each with `memory` for its rows.
            progress: show a progress bar; None shows it on a terminal or in a notebook.
            storage_options: of the URI of the folder, as of `lookupstore.Location`.

        Returns:
            the names of the files in the folder, in the order of the columnar files' paths.

        Raises:
            KeyError: a column that a file, or `types`, does not have.
            TypeError: a column has a type that Paimon's rows do not have.
            ValueError: a value that its type cannot hold, a null where none may be, or a key that
                comes twice under the rule `error`.
            FileExistsError: a file is there, and `overwrite` is False.
            StaleStoreError: a columnar file has been written again, or is gone.
            CorruptionError: a columnar file is damaged.

        Source: LookupLevels and RemoteLookupFileManager of Apache Paimon.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
        >>> from lookupstore.sst import Reader
        >>> folder = tempfile.mkdtemp()
        >>> rows = {"id": [2, 1], "name": ["b", "a"], "_SEQUENCE_NUMBER": [5, 9]}
        >>> pq.write_table(pa.table(rows), f"{folder}/data-1.parquet")
        >>> with ColumnarFiles(f"{folder}/data-1.parquet", key="id") as files:
        ...     (name,) = files.write_paimon_files(folder, kind=0)
        >>> keys = pa.schema([("_KEY_id", pa.int64())])
        >>> values = pa.schema([("id", pa.int64()), ("name", pa.string())])
        >>> Reader(f"{folder}/{name}", key_types=keys, value_types=values).get(2)
        {'id': 2, 'name': 'b', '_SEQUENCE_NUMBER': 5, '_VALUE_KIND': 0}
        """
        for argument, given, most in (("sequence", sequence, (1 << 63) - 1), ("kind", kind, 3)):
            if not isinstance(given, str) and not 0 <= given <= most:
                raise ValueError(
                    f"{argument} is {given}; give a column, or a number from 0 to {most}"
                )
        schema = None if types is None else arrow_schema(types)
        plans = {
            lookup: plan_paimon_file(
                lookup.plan.source, self.key, self._columns, schema, self.mode, sequence, kind,
                self._rule,
            )
            for lookup in self._lookups
        }  # fmt: skip
        bases = [os.path.basename(plan.source.path) for plan in plans.values()]
        for base, count in Counter(bases).items():
            if count > 1:
                raise ValueError(
                    f"source: {count} files are called {base}; write those of each "
                    "folder into a folder of their own"
                )
        location = as_location(folder, storage_options)
        options = FileOptions(compression, level, bytes_of(block_size, "block_size"), bloom_fpp)
        location.make_folder("")
        written: dict[FileLookup, str] = {}

        def one(lookup: FileLookup) -> None:
            plan = plans[lookup]
            written[lookup] = write_paimon_file(plan, location, options, self._memory, overwrite)

        self._each(one, threads, progress, "Writing Paimon's lookup files")
        return [written[lookup] for lookup in self._lookups]

    def _options(self) -> dict[str, Any]:
        return {"mode": self.mode, "on_duplicate": self._rule, "build": self._build}

    def __repr__(self) -> str:
        return (
            f"<ColumnarFiles {self.path}: {self.num_files} files, {self.num_rows:,} rows, key "
            f"{', '.join(self.key)}>"
        )


def _restored(state: dict[str, Any]) -> ColumnarFiles:
    files = ColumnarFiles.__new__(ColumnarFiles)
    files._start(**state)
    return files


def _published(plans: Sequence[LookupFilePlan]) -> dict[str, PublishedFile]:
    """Return the lookup files that are beside the columnar files, by name."""
    names: dict[Location, list[str]] = {}
    for plan in plans:
        names.setdefault(location_of(plan.source), []).append(plan.name)
    found: dict[str, PublishedFile] = {}
    for location, wanted in names.items():
        found |= published_files(location, wanted)
    return found
