"""Paimon's own lookup files of columnar files, as its LookupLevels makes and opens them.

A file with rows in the order of Paimon's keys, such as the files of its tables, is streamed. Rows
in any other order are sorted within a memory budget, by bytes that sort like the keys.
"""

from __future__ import annotations

import logging
import os
import posixpath
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import plain_type
from lookupstore.columnar.source_file import SourceFile, source_files
from lookupstore.compacted.schema import TYPE
from lookupstore.errors import DuplicateKeyError, StaleStoreError, listed
from lookupstore.sorting.runs import Keep, RepeatedKeyError, RunSorter
from lookupstore.source.reading import fitted
from lookupstore.source.search import FoundFiles
from lookupstore.sst.typed import KIND, POSITION, SEQUENCE, TypedRecords
from lookupstore.sst.writer import Writer
from lookupstore.storage.local import file_chunks
from lookupstore.storage.location import Location
from lookupstore.storage.naming import temporary_name
from lookupstore.store.data_files import FileOptions

#: Prefix of the names of key columns if values have columns of the same names.
KEY_PREFIX = "_KEY_"
#: Names in Paimon of the modes of columnar files.
PAIMON_MODES = {
    "value": "value",
    "position": "position",
    "value_and_position": "position-and-value",
    "presence": "empty",
}
# Version of the serializer of these rows; Paimon opens only files of its own version.
_SERIALIZER = "v1"

_ORDINARY = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}

# Bytes of columns that are encoded at a time.
_PIECE = 4 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PaimonFilePlan:
    """The contents of Paimon's lookup file of one columnar file.

    Attributes:
        source: The columnar file.
        mode: Mode in Paimon's words, which defines the content of the values.
        records: Encoder of keys and values as bytes.
        keys: Column of each key field, by name.
        added: Source of each column that the mode adds, by name: a column, or a number for all
            rows. None: the position of the row.
        keep: Rule for repeated keys: `error`, or the row to keep.
    """

    source: SourceFile
    mode: str
    records: TypedRecords
    keys: Mapping[str, str]
    added: Mapping[str, str | int | None]
    keep: Keep

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns that are read from the source."""
        values = [name for name in self.records.value_schema.names if name not in self.added]
        added = [one for one in self.added.values() if isinstance(one, str)]
        return list(dict.fromkeys([*self.keys.values(), *values, *added]))

    def name(self, nbytes: int) -> str:
        """Return the name that Paimon gives to the file if it has `nbytes` bytes."""
        base = posixpath.basename(self.source.path)
        return f"{base}.{nbytes}.{self.mode}.{_SERIALIZER}.lookup"

    def is_name(self, name: str) -> bool:
        """Return whether a name is one that `name` returns for some size."""
        start, end = self.name(0).split(".0.")
        middle = name[len(start) + 1 : -len(end) - 1]
        return name == f"{start}.{middle}.{end}" and middle.isdecimal()

    def encoded(self, nbytes: int) -> Iterator[pa.RecordBatch]:
        """Yield `row`, a key as Paimon writes it, and `value`, in batches of about that size."""
        first = 0
        for batch in self.source.batches(self.columns):
            rows = max(1, batch.num_rows * nbytes // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, rows):
                piece = batch.slice(start, rows)
                yield self._encode(piece, first)
                first += piece.num_rows

    def _encode(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        count = batch.num_rows
        keys = {
            field.name: self._column(batch, self.keys[field.name], field)
            for field in self.records.key_schema
        }
        values = {}
        for field in self.records.value_schema:
            found = self.added.get(field.name, field.name)
            if found is None:
                values[field.name] = pa.array(np.arange(first, first + count), field.type)
            elif isinstance(found, int):
                values[field.name] = pa.repeat(pa.scalar(found, field.type), count)
            else:
                values[field.name] = self._column(batch, found, field)
        try:
            rows = self.records.key_rows(keys).array
            encoded = self.records.value_rows(values or None, count).array
        except ValueError as error:
            raise ValueError(f"{self.source.uri}: from row {first + 1} on: {error}") from None
        return pa.RecordBatch.from_arrays([rows, encoded], names=["row", "value"])

    def _column(self, batch: pa.RecordBatch, name: str, field: pa.Field) -> pa.Array:
        return fitted(batch.column(name), field, self.source.uri, "in types=")

    def repeated_error(self, key: bytes) -> DuplicateKeyError:
        """Return the error for a repeated key, given the bytes by which it sorts."""
        for batch in self.encoded(_PIECE):
            keys = self.records.sort_keys(batch.column("row"))
            at = pc.index(keys, pa.scalar(key, keys.type)).as_py()
            if at >= 0:
                columns = self.records.keys_of(batch.column("row").slice(at, 1))
                names = self.records.key_schema.names
                shown = ", ".join(
                    f"{self.keys[name]}={column[0].as_py()!r}"
                    for name, column in zip(names, columns, strict=True)
                )
                return DuplicateKeyError(
                    f"{self.source.uri}: the key {shown} comes more than once; pass "
                    "on_duplicate='first' or 'last' to choose the row",
                    key=shown,
                )
        raise StaleStoreError(f"{self.source.uri}: rewritten while it was read")


def plan_paimon_file(
    source: SourceFile,
    key: Sequence[str],
    columns: Sequence[str] | None,
    types: pa.Schema | None,
    mode: str,
    sequence: str | int,
    kind: str | int,
    keep: Keep,
) -> PaimonFilePlan:
    """Plan Paimon's lookup file of a columnar file.

    Args:
        source: The columnar file.
        key: Names of the key columns.
        columns: Columns of the rows in values. None: all columns of `types`, or else of the file.
            The columns that Paimon adds itself are always left out.
        types: Types of the columns. None: those of the file.
        mode: Mode of the lookups, a key of `PAIMON_MODES`.
        sequence: Column of the sequence numbers, or one number for all rows.
        kind: Column of the row kinds, or one kind for all rows.
        keep: Rule for repeated keys: `error`, or the row to keep.

    Raises:
        KeyError: If the file or `types` lack a column.
        TypeError: If the type of a column does not exist in rows of Paimon.
    """
    source = _as_it_is(source)
    known = source.schema if types is None else types
    paimons = PAIMON_MODES[mode]
    names: list[str] = []
    if paimons not in ("position", "empty"):
        names = [
            name
            for name in (known.names if columns is None else columns)
            if not name.startswith(KEY_PREFIX) and name not in (SEQUENCE, KIND)
        ]
    key_names = {KEY_PREFIX + name if name in names else name: name for name in key}
    key_fields = []
    for field_name, column in key_names.items():
        plain = column.removeprefix(KEY_PREFIX)
        field = _field(known, column if types is None or column in types.names else plain)
        key_fields.append(field.with_name(field_name))
    added: dict[str, str | int | None] = {}
    if "position" in paimons:
        added[POSITION] = None
    if "value" in paimons:
        added |= {SEQUENCE: sequence, KIND: kind}
    records = TypedRecords(
        pa.schema(key_fields),
        pa.schema([_field(known, name) for name in names]) if "value" in paimons else None,
        paimons,
    )
    plan = PaimonFilePlan(source, paimons, records, key_names, added, keep)
    for name in plan.columns:
        if name not in source.schema.names:
            remedy = ""
            for argument, given in (("sequence", sequence), ("kind", kind)):
                if given == name:
                    remedy = f"; {argument}= takes a column, or a number for all rows"
            there = f"it has [{listed(source.schema.names)}]"
            raise KeyError(f"{source.uri} has no column {name!r}; {there}{remedy}")
    return plan


def write_paimon_file(
    plan: PaimonFilePlan, location: Location, options: FileOptions, memory: int, overwrite: bool
) -> str:
    """Write Paimon's lookup file of a columnar file, and return its name.

    Args:
        plan: Plan of the lookup file.
        location: Location of the folder for the new file.
        options: Options of the file: compression, size of blocks and filter.
        memory: Budget for sorting rows, in bytes.
        overwrite: Whether to replace the files of the same columnar file and mode.

    Raises:
        FileExistsError: If there is a file of the same columnar file and mode, and `overwrite` is
            false.
        DuplicateKeyError: If a key is repeated under the rule `error`.
        StaleStoreError: If the source was written again meanwhile, or is gone.
        CorruptionError: If the source is damaged.
    """
    there = [file.name for file in location.files() if plan.is_name(file.name)]
    if there and not overwrite:
        raise FileExistsError(
            f"{location.show(there[0])} exists; pass overwrite=True to replace it"
        )
    if location.in_place:
        temporary = temporary_name(posixpath.basename(plan.source.path))
        _, path = location.resolve(temporary)
        try:
            name = plan.name(_write(plan, path, options, memory))
            if name in there:
                location.delete(name)
            location.move(temporary, name)
        finally:
            location.delete(temporary)
    else:
        with tempfile.TemporaryDirectory(prefix="lookupstore-") as folder:
            path = f"{folder}/lookup"
            nbytes = _write(plan, path, options, memory)
            name = plan.name(nbytes)
            location.write(name, file_chunks(path))
            location.check_size(name, nbytes)
    for old in there:
        if old != name:
            location.delete(old)
    return name


def _write(plan: PaimonFilePlan, path: str, options: FileOptions, memory: int) -> int:
    """Write the file to a path of this host, and return its size."""
    source = plan.source
    _log.info("%s: writing Paimon's lookup file of %d rows", source.uri, source.num_rows)
    size = min(_PIECE, memory // 8)
    if not _stream(plan, path, options, size):
        _log.info("%s: not in the order of Paimon's keys: sorting it", source.uri)
        try:
            _sort(plan, path, options, memory, size)
        except RepeatedKeyError as error:
            raise plan.repeated_error(error.key) from None
    source.check_unchanged()
    return os.path.getsize(path)


def _stream(plan: PaimonFilePlan, path: str, options: FileOptions, size: int) -> bool:
    """Write rows in source order; return whether their keys were in ascending order."""
    writer = _writer(plan, path, options)
    try:
        for batch in plan.encoded(size):
            try:
                writer.put_many(batch.column("row"), batch.column("value"))
            except ValueError:  # out of order, or repeated: sorting decides which
                writer.abort()
                return False
        writer.close()
    except BaseException:
        writer.abort()
        raise
    return True


def _sort(plan: PaimonFilePlan, path: str, options: FileOptions, memory: int, size: int) -> None:
    with RunSorter(plan.keep, memory=memory, folder=os.path.dirname(path)) as sorter:
        for batch in plan.encoded(size):
            keys = plan.records.sort_keys(batch.column("row"))
            sorter.add(batch.add_column(0, "key", keys))
        with _writer(plan, path, options) as writer:
            for batch in sorter.sorted_batches(0):
                writer.put_many(batch.column("row"), batch.column("value"))


def _writer(plan: PaimonFilePlan, path: str, options: FileOptions) -> Writer:
    # Java makes the filter for as many keys as the data file has rows.
    return Writer(
        path,
        dialect="paimon",
        order=plan.records.order,
        expected_entries=plan.source.num_rows or None,
        compression=options.compression,
        level=options.level,
        block_size=options.block_size,
        bloom_fpp=options.bloom_fpp,
    )


def _as_it_is(source: SourceFile) -> SourceFile:
    """Return the file with its own columns only, without those of its folders.

    Raises:
        StaleStoreError: If the file was written again.
    """
    if not source.constants:
        return source
    info = source.filesystem.get_file_info(source.path)
    (own,) = source_files([FoundFiles(source.filesystem, (info,), (source.file_format,), None)])
    if not own.stored.matches(source.stored):
        raise StaleStoreError(
            f"{source.uri}: rewritten since the files were listed; list them again"
        )
    return replace(own, base=source.base)


def _field(schema: pa.Schema, name: str) -> pa.Field:
    """Return a column in Paimon's types: without Arrow's layouts and inner non-null fields."""
    if schema.names.count(name) != 1:
        raise KeyError(f"no single column {name!r} among [{listed(schema.names)}]")
    field = schema.field(name)
    metadata = {k: v for k, v in (field.metadata or {}).items() if k == TYPE}
    kind = field.type if metadata else _relaxed(plain_type(field.type))
    return pa.field(name, kind, field.nullable, metadata=metadata or None)


def _relaxed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return pa.struct([_relaxed_field(field) for field in fields])
    if pa.types.is_list(kind):
        return pa.list_(_relaxed_field(kind.value_field))
    if pa.types.is_map(kind):
        key = pa.field("key", _relaxed(kind.key_type), nullable=False)
        return pa.map_(key, _relaxed_field(kind.item_field).with_name("value"))
    return _ORDINARY.get(kind, kind)


def _relaxed_field(field: pa.Field) -> pa.Field:
    if TYPE in (field.metadata or {}):
        return field
    return pa.field(field.name, _relaxed(field.type))
