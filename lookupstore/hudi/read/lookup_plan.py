"""Plans of lookups in a table, which can be pickled.

A row of the table shows whether record keys and partition paths are made of columns as by Hudi's
usual key generators. Keys of other generators would not be found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.columnar.file_filter import FileFilter
from lookupstore.columnar.rent import Build
from lookupstore.errors import FormatError
from lookupstore.filters import Filter
from lookupstore.filters.row_filter import row_filter
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_files import read_key_file
from lookupstore.hudi.keys.key_generator import partition_paths, record_keys
from lookupstore.hudi.log.changes import ordering_column
from lookupstore.hudi.log.merged_rows import SliceReader
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.hudi.options import COPY_ON_WRITE, SNAPSHOT, TableOptions
from lookupstore.hudi.read.looked_up_rows import as_promoted
from lookupstore.hudi.read.scan_plan import scan_of
from lookupstore.hudi.view import TableView, check_begun
from lookupstore.keys.schema import KeySchema
from lookupstore.storage.location import Location


@dataclass(frozen=True)
class LookupPlan:
    """The files, keys and columns of a `TableLookup`; pickled with it.

    Attributes:
        location: Location of the table.
        options: Options of the table.
        schema: All columns of the table.
        files: Slices with the rows, by partition path and file id: base files, or `MergedSlice`
            with log files.
        key: Schema of the key columns that lookups take.
        named: Whether a record key of one column is written `name:value`.
        is_global: Whether to look for a key in all partitions, instead of only in its own.
        values: Schema of the columns of an answer.
        build: When to make lookup files: `auto`, `always` or `never`; see `ColumnarFiles`.
        filter: Condition that rows must meet to be found. None: all rows do.
        position: Position of the newest commit to read. Empty: the table has no commit.
        is_fixed: Whether the caller chose the moment of the files with `as_of`.
        every_column: Whether the value columns are all data columns that are not in the key.
        query_type: `snapshot` or `read_optimized`.
    """

    location: Location
    options: TableOptions
    schema: pa.Schema
    files: tuple[FileSlice, ...]
    key: KeySchema
    named: bool
    is_global: bool
    values: pa.Schema
    build: Build
    filter: FileFilter | None = None
    position: str = ""
    is_fixed: bool = False
    every_column: bool = False
    query_type: str = SNAPSHOT

    @property
    def texts(self) -> list[str]:
        """Return the key columns whose values are ambiguous in a record key.

        Record keys of several columns, and partition paths, are not escaped, so that different
        values can make the same text.
        """
        options = self.options
        parts = options.record_key if len(options.record_key) > 1 else ()
        if not self.is_global:
            parts += options.partition_by
        return [f.name for f in self.key.schema if f.name in parts and pa.types.is_string(f.type)]

    @property
    def stored(self) -> pa.Schema:
        """Return the columns in lookup files, which do not depend on log files."""
        names = [*self.values.names, *self.texts]
        if self.filter is not None:
            names += self.filter.columns.names
        ordering = ordering_column(self.options) if self.may_have_logs else None
        if ordering in self.schema.names:
            names.append(ordering)
        fields = (self.schema.field(name) for name in dict.fromkeys(names))
        return pa.schema([field.with_nullable(True) for field in fields])

    @property
    def may_have_logs(self) -> bool:
        """Return whether rows of base files may be merged with log files."""
        return self.options.table_type != COPY_ON_WRITE and self.query_type == SNAPSHOT

    @property
    def paths(self) -> list[str]:
        """Return the paths of all base files and log files, relative to the table."""
        found = []
        for one in self.files:
            base = one.base if isinstance(one, MergedSlice) else one
            found += [] if base is None else [base.path]
            found += [log.path for log in one.logs] if isinstance(one, MergedSlice) else []
        return found

    @property
    def identity(self) -> list[str]:
        """Return texts that differ between plans with different rows or columns."""
        merged = [one for one in self.files if isinstance(one, MergedSlice)]
        logs = [f"{log.path} {log.bytes}" for one in merged for log in one.logs]
        # In version 6, a log file has blocks of instants that do not count.
        committed = {one.committed: one.committed.identity for one in merged}
        files = [*(file.path for file in self.files), *logs, *committed.values()]
        others = (self.key.schema, self.values, self.build)
        return [self.location.uri, *files, self.filter_identity, *map(str, others)]

    @property
    def filter_identity(self) -> str:
        """Return a text that differs between conditions of the plan."""
        return "" if self.filter is None else self.filter.identity


def plan_lookup(
    view: TableView,
    key: Sequence[str] | None,
    columns: Sequence[str] | None,
    as_of: str | None,
    build: Build,
    where: Filter | None = None,
    until: str | None = None,
) -> LookupPlan:
    """Plan lookups in a table; for arguments and errors see `TableLookup`.

    `until` is the position of the last commit to read. Default: the newest.
    """
    options, uri = view.options, view.location.uri
    if not (options.meta_fields and options.record_key):
        raise FormatError(f"{uri}: base files have no record keys")
    names, is_global = _key_names(options, key, uri)
    schema, columns_there = view.schema, view.table_schema.columns
    for name in names:
        kind = schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_signed_integer(kind)):
            raise TypeError(
                f"key: the column {name!r} is {kind}, whose text in a key depends on settings of "
                "Hudi; keys are of strings and integers. Build a store of the table's rows: "
                "lookupstore.build(table.scan_batches(), path, key=...)"
            )
    values = [name for name in columns_there.names if name not in names]
    if columns is not None:
        if RECORD_KEY in columns:
            raise KeyError(f"columns: {RECORD_KEY!r} is computed from the key; leave it out")
        values = [name for name in view.names(columns) if name not in names]
    chosen = None if where is None else _table_filter(where, columns_there)
    files = view.slices(as_of) if until is None else view.slices_until(until)
    if as_of is not None and not files:  # files whose commits were archived count
        check_begun(view, as_of)
    position = until
    if position is None:
        instants = (one for one in view.timeline.writes() if as_of is None or one.time <= as_of)
        position = max((one.position for one in instants), default="")
    key_schema = KeySchema(pa.schema([schema.field(name).with_nullable(False) for name in names]))
    return LookupPlan(
        location=view.location,
        options=options,
        schema=schema,
        files=_files_left(view, files, chosen),
        key=key_schema,
        named=_is_named(view, files, is_global),
        is_global=is_global,
        values=pa.schema([schema.field(name).with_nullable(True) for name in values]),
        build=build,
        filter=chosen,
        position=position,
        is_fixed=as_of is not None,
        every_column=columns is None,
        query_type=view.query_type,
    )


def _table_filter(where: Filter, columns: pa.Schema) -> FileFilter:
    """Return a filter of the rows of base files, after checking that it fits the data columns."""
    condition = row_filter(where, columns)
    needed = pa.schema([columns.field(name).with_nullable(True) for name in condition.names])
    return FileFilter(condition, needed, as_promoted)


def _files_left(
    view: TableView, files: Sequence[FileSlice], chosen: FileFilter | None
) -> tuple[FileSlice, ...]:
    """Return the slices that can have rows of a filter, by partitions and statistics."""
    if chosen is None:
        return tuple(files)
    return scan_of(view, files).narrowed(chosen.condition.expression).files


def newest_position(view: TableView, until: str | None = None) -> str:
    """Return the position of the newest commit up to a position, or an empty text."""
    positions = (one.position for one in view.timeline.writes())
    return max((one for one in positions if until is None or one <= until), default="")


def _key_names(
    options: TableOptions, key: Sequence[str] | None, uri: str
) -> tuple[list[str], bool]:
    """Return the key columns, and whether to look for keys in all partitions."""
    both = list(dict.fromkeys([*options.record_key, *options.partition_by]))
    for names in (both, list(options.record_key)):
        if key is None or sorted(key) == sorted(names):
            partitioned = bool(options.partition_by) and set(options.partition_by) <= set(names)
            return names, not partitioned
    assert key is not None
    more = [name for name in options.partition_by if name not in options.record_key]
    with_partition = f", or these and the partition columns {more}" if more else ""
    raise KeyError(
        f"key is {list(key)}; the record key of {uri} is {list(options.record_key)}: give these "
        f"columns{with_partition}"
    )


def _is_named(view: TableView, files: Sequence[FileSlice], is_global: bool) -> bool:
    """Return whether one-column record keys are written `name:value`, by a stored row.

    Raises:
        FormatError: If the row has another key, or is in another folder, than its columns give.
    """
    options = view.options
    wanted = list(dict.fromkeys([*options.record_key, *options.partition_by]))
    for file in files:
        shown = view.location.show(file.path)
        for batch in _stored_rows(view, file, [RECORD_KEY, *wanted]):
            if not batch.num_rows:
                continue
            row = batch.slice(0, 1)
            stored = row.column(RECORD_KEY)[0].as_py()
            for named in (False, True) if len(options.record_key) == 1 else (True,):
                if record_keys(row, options.record_key, named=named)[0].as_py() == stored:
                    break
            else:
                raise FormatError(
                    f"{shown}: the record key {stored!r} is not what Hudi's key generators "
                    f"make of the columns {', '.join(options.record_key)}. Build a store of the "
                    "table's rows: lookupstore.build(table.scan_batches(), path, key=...)"
                )
            path = None if is_global else _paths(row, options)[0].as_py()
            if path not in (None, file.group.partition):
                raise FormatError(
                    f"{shown}: the columns {', '.join(options.partition_by)} make the "
                    f"partition path {path!r} of its first row, not that of its folder; give the "
                    "record key alone, which is looked up in all partitions"
                )
            return named
    return False


def _stored_rows(view: TableView, file: FileSlice, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows of a slice: those of its base file, or else of its log files."""
    base = file.base if isinstance(file, MergedSlice) else file
    if base is not None:
        known, _ = read_key_file(view.location, base)
        yield from known.source.batches(names)
    if isinstance(file, MergedSlice):
        reader = SliceReader(view.location, view.options, view.schema)
        yield from reader.batches(file, names, threads=False)


def partition_codes(
    given: pa.RecordBatch, options: TableOptions
) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    """Return the partition paths, and the number of the path of each row."""
    columns = given.select(list(options.partition_by))
    schema = KeySchema(columns.schema)
    coded = schema.encode(columns).dictionary_encode()
    values = schema.decode(coded.dictionary.cast(pa.large_binary()))
    try:
        of_value: list[str | None] = _paths(values, options).to_pylist()
    except ValueError:  # a part such as `..`, which no table has
        of_value = [_path_or_none(values.slice(at, 1), options) for at in range(len(values))]
    numbers = {path: number for number, path in enumerate(dict.fromkeys(of_value))}
    codes = np.array([numbers[path] for path in of_value], np.int64)
    return codes[coded.indices.to_numpy(zero_copy_only=False)], list(numbers)


def _path_or_none(row: pa.RecordBatch, options: TableOptions) -> str | None:
    try:
        path: str | None = _paths(row, options)[0].as_py()
    except ValueError:
        path = None
    return path


def _paths(rows: pa.RecordBatch, options: TableOptions) -> pa.DictionaryArray:
    return partition_paths(
        rows, options.partition_by, hive_style=options.hive_style, url_encode=options.url_encode
    )
