"""What a planner says of a table: the files of one snapshot, and what counts of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lookupstore.filters.column_bounds import Answers
from lookupstore.filters.constants import which_may_match
from lookupstore.filters.row_filter import RowFilter
from lookupstore.parquet.column_statistics import ColumnStatistics
from lookupstore.source.skipping import StatisticsFilter, constant_statistics
from lookupstore.storage.file_address import FileAddress
from lookupstore.tables.positions import absent


class Deletes(Protocol):
    """The deleted rows of a data file, which may have to be read first.

    Attributes:
        identity: Text that differs between sets of deleted rows.
        count: Number of deleted rows. None: unknown before they are read.
    """

    @property
    def identity(self) -> str: ...
    @property
    def count(self) -> int | None: ...
    def load(self, asked: StatisticsFilter | None = None) -> DeletedRows:
        """Return the deleted rows.

        Args:
            asked: Condition of the rows that are asked for. Deleted rows that it rules out may be
                missing. None: all rows are asked for.

        Raises: The errors of reading the files that list them.
        """


@dataclass(frozen=True)
class DeletedRows:
    """The rows of a data file that are deleted.

    Attributes:
        positions: Positions of the rows in the file, from 0, ascending, each once: int64.
    """

    positions: npt.NDArray[np.int64]

    @property
    def count(self) -> int:
        """Return the number of deleted rows."""
        return len(self.positions)

    @property
    def end(self) -> int:
        """Return the number of rows that a file has at least."""
        return int(self.positions[-1]) + 1 if len(self.positions) else 0

    @cached_property
    def identity(self) -> str:
        """Return 32 hexadecimal digits that differ between sets of rows."""
        return xxhash.xxh3_128_hexdigest(self.positions.tobytes())

    def load(self, asked: StatisticsFilter | None = None) -> DeletedRows:
        """Return this object, whatever is asked for."""
        return self

    def kept(self, start: int, count: int) -> pa.BooleanArray | None:
        """Return which of some rows are not deleted: Arrow booleans. None: all of them.

        Args:
            start: Position of the first row.
            count: Number of rows.

        >>> DeletedRows(np.array([1, 5])).kept(4, 3).to_pylist()
        [True, False, True]
        """
        first, last = np.searchsorted(self.positions, [start, start + count])
        if first == last:
            return None
        kept = np.ones(count, dtype=np.bool_)
        kept[self.positions[first:last] - start] = False
        return pa.array(kept)

    def kept_among(self, positions: npt.NDArray[np.int64]) -> pa.BooleanArray | None:
        """Return which rows at some positions, in any order, are not deleted. None: all of them.

        >>> DeletedRows(np.array([1, 5])).kept_among(np.array([5, 4])).to_pylist()
        [False, True]
        """
        kept = absent(positions, self.positions)
        return None if kept.all() else pa.array(kept)


class RecordedStatistics(Protocol):
    """The statistics of a data file that the metadata of its table has."""

    def of(self, name: str) -> ColumnStatistics | None:
        """Return the statistics of a column of the table. None: unknown.

        Bounds are those of all rows in the file, deleted ones included, and may be wider. A number
        of nulls other than 0 and the number of rows may be wrong.

        Args:
            name: Name of the column.
        """


class RowCondition(Protocol):
    """A condition that decides by some columns of a row whether it is a row of the table.

    Attributes:
        identity: Text that differs between conditions.
        names: Names of the columns of the table that decide.
    """

    @property
    def identity(self) -> str: ...
    @property
    def names(self) -> Sequence[str]: ...
    def kept(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows meet the condition: Arrow booleans, never null.

        Args:
            rows: The columns that decide, in the types of the table.

        Raises: The errors of reading the files that the condition is in.
        """


class MergedFiles(Protocol):
    """Rows of a table that are made of those of several data files.

    Attributes:
        identity: Text that differs between files with other rows, as the table has them.
    """

    @property
    def identity(self) -> str: ...
    def batches(
        self, names: Sequence[str], asked: StatisticsFilter | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows, in the types of the table.

        Args:
            names: Names of the columns.
            asked: Condition of the rows that are asked for. Rows that it rules out may be missing.
                None: all rows are asked for.

        Raises: The errors of reading the files.
        """


@dataclass(frozen=True)
class TableFile:
    """A data file of a snapshot.

    Tables never write a file again at the same path.

    Attributes:
        address: Address of the file.
        nbytes: Size of the file.
        file_format: Format of the file: `parquet` or `orc`.
        num_rows: Number of its rows, with deleted ones. None: unknown.
        written: Text that changes if another file is written at the path, if a table does so after
            all, such as a time.
        constants: Values of columns that count instead of those in the file, by the names of the
            columns.
        defaults: Values of columns if the file lacks these, by the names of the columns. Default of
            other columns: null.
        partition: Values of the columns by which the file is partitioned, by their names.
        deleted: Rows that are deleted by position. None: none.
        deleted_keys: Conditions that leave out rows with deleted keys.
        stored: Columns of the table as this file names them, if `Snapshot.stored` has other names.
        statistics: Statistics of its columns. None: unknown.
        merged: Rows that are made of those of this file and of others. The address is that of the
            first file, `nbytes` and `num_rows` are sums, and `written` tells all files. None: the
            rows are those of the file.
    """

    address: FileAddress
    nbytes: int
    file_format: str = "parquet"
    num_rows: int | None = None
    written: str = ""
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    partition: Mapping[str, pa.Scalar] = field(default_factory=dict)
    deleted: Deletes | None = None
    deleted_keys: tuple[RowCondition, ...] = ()
    stored: pa.Schema | None = None
    statistics: RecordedStatistics | None = field(default=None, compare=False, repr=False)
    merged: MergedFiles | None = None

    @property
    def to_read(self) -> TableFile:
        """Return the file without statistics, which are not sent to other processes."""
        return replace(self, statistics=None)

    @property
    def rows_left(self) -> int | None:
        """Return the number of rows that are not deleted. None: unknown."""
        deleted = 0 if self.deleted is None else self.deleted.count
        is_known = self.merged is None and not self.deleted_keys
        if self.num_rows is None or deleted is None or not is_known:
            return None
        return self.num_rows - deleted

    @property
    def data_identity(self) -> tuple[str, ...]:
        """Return texts that differ between files with different rows, deleted ones included."""
        return self.address.shown, str(self.nbytes), self.written, *self._values

    @property
    def stored_identity(self) -> tuple[str, ...]:
        """Return texts that differ between files with different rows, whatever columns are read."""
        deleted = "" if self.deleted is None else self.deleted.identity
        keys = [one.identity for one in self.deleted_keys]
        return self.address.shown, str(self.nbytes), self.written, deleted, *keys

    @property
    def identity(self) -> tuple[str, ...]:
        """Return texts that differ between files with different rows, as the table has them."""
        return *self.stored_identity, *self._values

    @property
    def _values(self) -> Iterator[str]:
        for given in (self.constants, self.defaults):
            yield from (f"{name}={value}" for name, value in sorted(given.items()))
        if self.stored is not None:
            yield self.stored.to_string()
        if self.merged is not None:
            yield self.merged.identity


@dataclass(frozen=True)
class Snapshot:
    """A table at one moment.

    Attributes:
        description: Description of the table and the moment, in one line for people.
        schema: Columns of the rows that are asked for.
        columns: All columns that reading the files needs: those of `schema`, of the keys of
            deleted rows, and of the filter.
        stored: The same columns as `columns`, with nested ones, as the files name them. A field
            with the metadata `PARQUET:field_id` is found by its id, another one by its name.
        files: Data files, in ascending order of their paths.
        ids_of_names: Field ids of the columns of files without such ids, by the names that lead to
            each. None: Files without field ids are not read, if `stored` has ids.
        filter: Condition for the rows. None: all rows count.
        ids_of_columns: Identity of each column by its name, which another column of that name does
            not have. Empty: fields of `stored` have ids, or columns have only names.
        table_id: Identity of the table, which another table at its place does not have.
        snapshot_id: Identity of the snapshot in the table.
        deletes_by_position: Whether commits of the table may delete rows of a data file by their
            positions in it.
    """

    description: str
    schema: pa.Schema
    columns: pa.Schema
    stored: pa.Schema
    files: tuple[TableFile, ...]
    ids_of_names: Mapping[tuple[str, ...], int] | None = None
    filter: RowFilter | None = None
    ids_of_columns: Mapping[str, str] = field(default_factory=dict)
    table_id: str = ""
    snapshot_id: str = ""
    deletes_by_position: bool = False

    def where(self, condition: RowFilter) -> Snapshot:
        """Return the snapshot with only the rows that meet one more condition.

        Files that their partition rules out are left out. `files_to_read` leaves out others, too.
        """
        whole = condition.and_also(self.filter)
        partitions = [file.partition for file in self.files]
        may_match = which_may_match(condition, self.columns, partitions)
        files = (file for file, kept in zip(self.files, may_match, strict=True) if kept)
        return replace(self, filter=whole, files=tuple(files))

    @cached_property
    def by_statistics(self) -> StatisticsFilter | None:
        """Return the filter, as statistics of columns answer it. None: all rows count."""
        return None if self.filter is None else StatisticsFilter(self.filter, self.columns)

    @cached_property
    def files_to_read(self) -> tuple[TableFile, ...]:
        """Return the data files that may have rows which meet the filter, by their statistics.

        `files` keeps the other ones, so that snapshots with and without statistics can be compared.
        """
        if self.by_statistics is None:
            return self.files
        may_match = which_files(self.files, self.by_statistics)
        return tuple(file for file, kept in zip(self.files, may_match, strict=True) if kept)

    def conditions(self, file: TableFile) -> tuple[RowCondition, ...]:
        """Return the conditions that rows of a file must meet, besides not being deleted by place.

        Args:
            file: A data file of the table.
        """
        return (*file.deleted_keys, *(() if self.filter is None else (self.filter,)))

    def stored_in(self, file: TableFile) -> pa.Schema:
        """Return the columns of `columns` as a file names them."""
        return self.stored if file.stored is None else file.stored

    def stored_field(self, file: TableFile, name: str) -> pa.Field:
        """Return a column of the table as a file names it."""
        return self.stored_in(file).field(self.columns.get_field_index(name))

    @property
    def num_rows(self) -> int | None:
        """Return the number of rows. None: unknown."""
        counts = [file.rows_left for file in self.files]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) and self.filter is None else None

    @property
    def fingerprint(self) -> str:
        """Return a text that changes whenever rows or columns do."""
        columns = [one.to_string() for one in (self.schema, self.columns, self.stored)]
        files = [file.identity for file in self.files]
        condition = "" if self.filter is None else self.filter.identity
        said = [*columns, files, str(self.ids_of_names), condition]
        return xxhash.xxh3_128_hexdigest(json.dumps(said).encode())


def which_files(files: Sequence[TableFile], asked: StatisticsFilter) -> Answers:
    """Return for each data file whether it may have rows that meet a condition: NumPy booleans.

    Args:
        files: Data files of a table.
        asked: The condition.
    """
    names = asked.columns.names
    known = [dict(_known_of(file, names)) for file in files]
    return asked.may_match(known, [file.num_rows for file in files])


def _known_of(file: TableFile, names: Sequence[str]) -> Iterator[tuple[str, ColumnStatistics]]:
    """Yield names of columns, and the statistics of each that are known of a data file."""
    for name in names:
        if name in file.constants:
            yield name, constant_statistics(file.constants[name], file.num_rows)
        elif file.statistics is not None:
            found = file.statistics.of(name)
            if found is not None:
                yield name, found
