"""What is known of the columns of all base files of a table, a row for each file.

A version of it is one file with a checksum over every byte: what is damaged is not used. It names
base files, which never change, by path and size, so that it says nothing wrong of others.

What it has is an Arrow stream, sealed (`layout.sealed`). Each column of the table that statistics
are kept of is a struct in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.filters.predicates import Predicate, columns_of
from lookupstore.hudi.layout.sealed import HEAD, seal, unseal
from lookupstore.hudi.layout.statistics.column_bounds import Answers, ColumnBounds, may_be
from lookupstore.hudi.layout.statistics.file_statistics import ColumnStatistics, FileStatistics

_MAGIC = b"LSSTATS1"
# What a file may claim to be when it is decompressed.
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
# Before the names of columns, which may be any.
_PREFIX = "."
# Of a base file: what comes after the id of its group.
_AFTER_GROUP = r"_[^_/]*_[^_/]*$"


@dataclass(frozen=True, eq=False)
class TableStatistics:
    """What is known of base files.

    Attributes:
        table: a row for each file: path, size, rows, and a struct for each column.
    """

    table: pa.Table

    @classmethod
    def of(cls, files: Sequence[FileStatistics], columns: pa.Schema) -> TableStatistics:
        """Return what is known of some files, in the types of the table's columns."""
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
        """Return the columns of the table that something is known of."""
        return pa.schema([pa.field(one.name[1:], one.type.field(0).type) for one in self._structs])

    def bounds(self, name: str) -> ColumnBounds:
        """Return what is known of one of the columns."""
        struct = self.table[_name(name)].combine_chunks()
        least, greatest, nulls, nans = (struct.field(at) for at in range(4))
        return ColumnBounds(least, greatest, nulls, nans, self.table["rows"].combine_chunks())

    def in_types(self, columns: pa.Schema) -> dict[str, ColumnBounds]:
        """Return what is known of columns as it is when they have wider types.

        Args:
            columns: of the table now; of those that it has no more, nothing is known.
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
        """Return for each file whether a row of it may be one for which a predicate is true.

        Args:
            predicate: that is asked.
            columns: of the table, in whose types it compares.
        """
        asked = set(columns_of(predicate))
        known = self.in_types(pa.schema([one for one in columns if one.name in asked]))
        return may_be(predicate, known, self.table.num_rows)[0]

    def rows_of(self, files: Sequence[FileSlice]) -> pa.Array:
        """Return the row of each of some files; null: nothing is known of it."""
        paths = self.table["path"].combine_chunks()
        rows = pc.index_in(pa.array([one.path for one in files], pa.string()), value_set=paths)
        sizes = self.table["bytes"].take(rows).combine_chunks()
        same = pc.equal(sizes, pa.array([one.bytes for one in files], pa.int64()))
        return pc.if_else(same, rows, None)

    def of_file(self, path: str, nbytes: int) -> FileStatistics | None:
        """Return what is known of one file; None: nothing.

        Args:
            path: of the file.
            nbytes: its size.
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
        """Return what is known of other files.

        Args:
            paths: of files that are left out.
            groups: of which all files are left out: partition path and id, joined by `/`.
        """
        gone = pc.is_in(self.table["path"], pa.array(sorted(paths), pa.string()))
        if groups:
            also = pc.is_in(self._groups, pa.array(sorted(groups), pa.string()))
            gone = pc.or_(gone, also)
        return TableStatistics(self.table.filter(pc.invert(gone)))

    def groups(self) -> list[str]:
        """Return the file groups of the files, as `without` takes them."""
        found: list[str] = self._groups.to_pylist()
        return found

    @property
    def _groups(self) -> pa.ChunkedArray:
        return pc.replace_substring_regex(self.table["path"], _AFTER_GROUP, "")

    def with_files(self, other: TableStatistics) -> TableStatistics:
        """Return what is known of other files, too, in their columns."""
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
        """Return the file of a version."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table.combine_chunks())
        return seal(_MAGIC, sink.getvalue())

    @classmethod
    def decode(cls, data: bytes, path: str) -> TableStatistics:
        """Return what the file of a version says.

        Args:
            data: of the file.
            path: of it, for errors.

        Raises:
            CorruptionError: it is damaged.
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
        """Return whether the columns are those that `of` makes."""
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
