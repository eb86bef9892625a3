"""Keep the statistics of all base files of a table, one row per file.

A version of the statistics is one file with a checksum, so that damaged statistics are not used. It
names base files by path and size. Base files never change, so that their statistics stay true.

The content is an Arrow stream, sealed by `layout.sealed`, with a struct for each column of the
table that statistics are kept of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import CorruptionError
from lookupstore.filters.column_bounds import Answers, ColumnBounds, may_be
from lookupstore.filters.predicates import Predicate, columns_of
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.sealed import HEAD, seal, unseal
from lookupstore.hudi.layout.statistics.file_statistics import FileStatistics
from lookupstore.parquet.column_statistics import ColumnStatistics

_MAGIC = b"LSSTATS1"
# Maximum size and compression ratio of a file that is decompressed.
_MOST_BYTES, _MOST_RATIO = 256 << 20, 64

_FILE = [
    pa.field("path", pa.string(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("rows", pa.int64(), nullable=False),
]
_COUNTS = [
    pa.field("nulls", pa.int64()),
    pa.field("nans", pa.int64()),
    pa.field("least_is_exact", pa.bool_()),
    pa.field("greatest_is_exact", pa.bool_()),
]
# Prefix of the names of columns, which may be any names.
_PREFIX = "."
# Pattern of the name of a base file after the id of its group.
_AFTER_GROUP = r"_[^_/]*_[^_/]*$"


@dataclass(frozen=True, eq=False)
class TableStatistics:
    """Statistics of base files.

    Attributes:
        table: Arrow table with one row per file: its path, size in bytes, number of rows, and a
            struct of the statistics of each column.
    """

    table: pa.Table

    @classmethod
    def of(cls, files: Sequence[FileStatistics], columns: pa.Schema) -> TableStatistics:
        """Combine the statistics of some files, in the types of the table's columns."""
        arrays = [
            pa.array([one.path for one in files], pa.string()),
            pa.array([one.bytes for one in files], pa.int64()),
            pa.array([one.rows for one in files], pa.int64()),
        ]
        nothing = ColumnStatistics()
        for column in columns:
            known = [one.columns.get(column.name, nothing) for one in files]
            children = [
                pa.array([one.least for one in known], column.type),
                pa.array([one.greatest for one in known], column.type),
                pa.array([one.nulls for one in known], pa.int64()),
                pa.array([one.nans for one in known], pa.int64()),
                pa.array([one.least_is_exact for one in known], pa.bool_()),
                pa.array([one.greatest_is_exact for one in known], pa.bool_()),
            ]
            arrays.append(pa.StructArray.from_arrays(children, fields=_fields(column.type)))
        return cls(pa.table(arrays, schema=_schema(columns)))

    @property
    def columns(self) -> pa.Schema:
        """Return the columns that statistics are kept of, with their types."""
        return pa.schema([pa.field(one.name[1:], one.type.field(0).type) for one in self._structs])

    def bounds(self, name: str) -> ColumnBounds:
        """Return the bounds and counts of one column."""
        struct = self.table[_name(name)].combine_chunks()
        least, greatest, nulls, nans = (struct.field(at) for at in range(4))
        return ColumnBounds(least, greatest, nulls, nans, self.table["rows"].combine_chunks())

    def in_types(self, columns: pa.Schema) -> dict[str, ColumnBounds]:
        """Return the bounds of columns in the current types of the table, by name.

        Columns whose cast does not keep the order of values are left out.

        Args:
            columns: Current columns of the table; other columns are left out.
        """
        found = {}
        for name in self.columns.names:
            if name in columns.names:
                try:
                    wide = self.bounds(name).in_type(columns.field(name).type)
                except pa.ArrowException:
                    wide = None
                if wide is not None:
                    found[name] = wide
        return found

    def may_match(self, predicate: Predicate, columns: pa.Schema) -> Answers:
        """Return for each file whether a predicate may be true of one of its rows.

        Args:
            predicate: Predicate to evaluate.
            columns: Columns of the table, with the types that the predicate compares in.
        """
        asked = set(columns_of(predicate))
        known = self.in_types(pa.schema([one for one in columns if one.name in asked]))
        return may_be(predicate, known, self.table.num_rows)[0]

    def rows_of(self, files: Sequence[FileSlice]) -> pa.Array:
        """Return the number of the row of each file, null without statistics."""
        paths = self.table["path"].combine_chunks()
        rows = pc.index_in(pa.array([one.path for one in files], pa.string()), value_set=paths)
        sizes = self.table["bytes"].take(rows).combine_chunks()
        same = pc.equal(sizes, pa.array([one.bytes for one in files], pa.int64()))
        return pc.if_else(same, rows, None)

    def of_file(self, path: str, nbytes: int) -> FileStatistics | None:
        """Return the statistics of one file.

        None: no file of this path and size has statistics.

        Args:
            path: Path of the file, relative to the table.
            nbytes: Size of the file, in bytes.
        """
        at = pc.index(self.table["path"], path).as_py()
        if at < 0 or self.table["bytes"][at].as_py() != nbytes:
            return None
        columns = {}
        for name in self.columns.names:
            said = self.table[_name(name)].combine_chunks()
            least, greatest, nulls, nans, *exact = (one[at] for one in said.flatten())
            columns[name] = ColumnStatistics(
                least if least.is_valid else None,
                greatest if greatest.is_valid else None,
                nulls.as_py(),
                nans.as_py(),
                *(bool(one.as_py()) for one in exact),
            )
        return FileStatistics(path, nbytes, self.table["rows"][at].as_py(), columns)

    def without(self, paths: Collection[str], groups: Collection[str] = ()) -> TableStatistics:
        """Return the statistics without those of some files.

        Args:
            paths: Paths of the files to leave out.
            groups: File groups to leave out with all their files: partition path and id, joined by
                `/`. Default: none.
        """
        gone = pc.is_in(self.table["path"], pa.array(sorted(paths), pa.string()))
        if groups:
            also = pc.is_in(self._groups, pa.array(sorted(groups), pa.string()))
            gone = pc.or_(gone, also)
        return TableStatistics(self.table.filter(pc.invert(gone)))

    def groups(self) -> list[str]:
        """Return the partition path and group id of each file, joined by `/`."""
        found: list[str] = self._groups.to_pylist()
        return found

    @property
    def _groups(self) -> pa.ChunkedArray:
        return pc.replace_substring_regex(self.table["path"], _AFTER_GROUP, "")

    def with_files(self, other: TableStatistics) -> TableStatistics:
        """Add the statistics of other files, and keep only their columns."""
        fitted = self.in_types(other.columns)
        arrays = [self.table[one.name] for one in _FILE]
        for column in other.columns:
            bounds = fitted.get(column.name)
            if bounds is None:
                arrays.append(pa.nulls(self.table.num_rows, pa.struct(_fields(column.type))))
                continue
            before = self.table[_name(column.name)].combine_chunks()
            children = [bounds.least, bounds.greatest, *(before.field(at) for at in range(2, 6))]
            arrays.append(pa.StructArray.from_arrays(children, fields=_fields(column.type)))
        mine = pa.table(arrays, schema=other.table.schema)
        return TableStatistics(pa.concat_tables([mine, other.table]).combine_chunks())

    def encode(self) -> bytes:
        """Return the content of the file of a version."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table.combine_chunks())
        return seal(_MAGIC, sink.getvalue())

    @classmethod
    def decode(cls, data: bytes, path: str) -> TableStatistics:
        """Return the statistics in the file of a version.

        Args:
            data: Content of the file.
            path: Path of the file, for errors.

        Raises:
            CorruptionError: If the file is damaged.
        """
        most = max(_MOST_BYTES, _MOST_RATIO * len(data))
        plain = unseal(_MAGIC, data, path, "statistics of columns", most)
        try:
            table = pa.ipc.open_stream(plain).read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptionError(path, HEAD, "an Arrow stream", error) from error
        found = cls(table)
        if not found._is_whole:
            raise CorruptionError(path, HEAD, "columns of statistics", table.schema)
        return found

    @property
    def _structs(self) -> list[pa.Field]:
        return list(self.table.schema)[len(_FILE) :]

    @property
    def _is_whole(self) -> bool:
        """Return whether the table has exactly the columns that `of` makes."""
        schema = self.table.schema
        if list(schema)[: len(_FILE)] != _FILE or len(set(schema.names)) != len(schema.names):
            return False
        if any(self.table.column(at).null_count for at in range(len(_FILE))):
            return False
        for one in self._structs:
            if not one.name.startswith(_PREFIX) or not pa.types.is_struct(one.type):
                return False
            if one.type.num_fields == 0:
                return False
            if list(one.type) != _fields(one.type.field(0).type):
                return False
        return True


def _name(column: str) -> str:
    return f"{_PREFIX}{column}"


def _fields(kind: pa.DataType) -> list[pa.Field]:
    return [pa.field("least", kind), pa.field("greatest", kind), *_COUNTS]


def _schema(columns: pa.Schema) -> pa.Schema:
    structs = [pa.field(_name(one.name), pa.struct(_fields(one.type))) for one in columns]
    return pa.schema([*_FILE, *structs])
