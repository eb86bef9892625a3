"""Find the files and row groups that a condition rules out, by statistics of their columns.

Rows of the others are read, and the condition decides about each of them. So statistics that are
wider than the values, or unknown, cost only time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import plain_type
from lookupstore.filters.column_bounds import Answers, ColumnBounds, may_be
from lookupstore.filters.predicates import columns_of, predicate_of
from lookupstore.filters.row_filter import RowFilter
from lookupstore.parquet.column_statistics import ColumnStatistics, group_statistics
from lookupstore.parquet.footer import ParquetFooter

_UNKNOWN = ColumnStatistics()


class StatisticsFilter:
    """A condition of rows, as statistics of columns answer it.

    Args:
        condition: The condition.
        columns: Columns of the rows.

    Attributes:
        columns: Columns whose statistics count, in the types of their bounds.
    """

    def __init__(self, condition: RowFilter, columns: pa.Schema) -> None:
        self._predicate = predicate_of(condition.expression)
        self.columns: pa.Schema = pa.schema(
            [
                pa.field(name, _type_of_bounds(columns.field(name).type))
                for name in columns_of(self._predicate)
            ]
        )

    def only(self, names: Sequence[str]) -> StatisticsFilter | None:
        """Return the condition, as statistics of only some columns answer it. None: they do not.

        Args:
            names: Names of the columns.
        """
        columns = [field for field in self.columns if field.name in names]
        if not columns:
            return None
        found = copy(self)
        found.columns = pa.schema(columns)
        return found

    def may_match(
        self, known: Sequence[Mapping[str, ColumnStatistics]], rows: Sequence[int | None]
    ) -> Answers:
        """Return for each of several sets of rows whether one of them may meet the condition.

        Args:
            known: Statistics of columns in each set, by the names of the columns.
            rows: Number of rows of each set. None: unknown.

        >>> late = RowFilter(pc.field("day") > 5, ("day",))
        >>> days = [ColumnStatistics(*map(pa.scalar, ends)) for ends in ((1, 4), (3, 9))]
        >>> by_day = StatisticsFilter(late, pa.schema({"day": pa.int64()}))
        >>> by_day.may_match([{"day": one} for one in days], [10, 10]).tolist()
        [False, True]
        """
        bounds = {
            field.name: _bounds([one.get(field.name, _UNKNOWN) for one in known], field.type, rows)
            for field in self.columns
        }
        return may_be(self._predicate, bounds, len(rows))[0]

    def groups(
        self,
        footer: ParquetFooter,
        names: Mapping[str, str],
        constants: Mapping[str, pa.Scalar],
    ) -> RowGroups:
        """Return the row groups of a file that may have rows which meet the condition.

        Args:
            footer: Footer of the file.
            names: Names of columns in the file, by the names that the condition has.
            constants: Values of columns that are the same in all rows of the file, by name.
        """
        rows = [group.rows for group in footer.groups]
        known: list[dict[str, ColumnStatistics]] = [{} for _ in rows]
        for field in self.columns:
            found: Sequence[ColumnStatistics] | None = None
            if field.name in constants:
                found = [constant_statistics(constants[field.name], count) for count in rows]
            elif field.name in names:
                found = group_statistics(footer, names[field.name], field.type)
            for one, said in zip(known, found or (), strict=False):
                one[field.name] = said
        return RowGroups(tuple(rows), tuple(self.may_match(known, rows).tolist()))


@dataclass(frozen=True)
class RowGroups:
    """The row groups of a file that are read.

    Attributes:
        rows: Number of rows of each row group of the file.
        are_read: Whether each of them is read.
    """

    rows: tuple[int, ...]
    are_read: tuple[bool, ...]

    def runs(self) -> list[tuple[int, list[int]]]:
        """Return the row groups that are next to each other and are read.

        Each is the position of their first row in the file, and the numbers of the row groups.

        >>> RowGroups((5, 5, 5, 5), (True, True, False, True)).runs()
        [(0, [0, 1]), (15, [3])]
        """
        found: list[tuple[int, list[int]]] = []
        start = 0
        for number, (rows, is_read) in enumerate(zip(self.rows, self.are_read, strict=True)):
            if is_read and number and self.are_read[number - 1]:
                found[-1][1].append(number)
            elif is_read:
                found.append((start, [number]))
            start += rows
        return found


def constant_statistics(value: pa.Scalar, rows: int | None) -> ColumnStatistics:
    """Return the statistics of a column that has one value in all rows.

    Args:
        value: The value, which may be null.
        rows: Number of rows. None: unknown.

    >>> constant_statistics(pa.scalar(None, pa.int64()), 3).nulls
    3
    """
    if not value.is_valid:
        return ColumnStatistics(nulls=rows, nans=0)
    if pa.types.is_floating(value.type) and pc.is_nan(value).as_py():
        return ColumnStatistics(nulls=0, nans=rows)
    return ColumnStatistics(value, value, 0, 0, True, True)


def _bounds(
    known: Sequence[ColumnStatistics], kind: pa.DataType, rows: Sequence[int | None]
) -> ColumnBounds:
    counted = zip(known, rows, strict=True)
    return ColumnBounds(
        _scalars([one.least for one in known], kind),
        _scalars([one.greatest for one in known], kind),
        pa.array([None if count is None else one.nulls for one, count in counted], pa.int64()),
        pa.array([one.nans for one in known], pa.int64()),
        pa.array([count or 0 for count in rows], pa.int64()),
    )


def _scalars(values: Sequence[pa.Scalar | None], kind: pa.DataType) -> pa.Array:
    return pa.array([None if one is None else one.cast(kind) for one in values], kind)


def _type_of_bounds(kind: pa.DataType) -> pa.DataType:
    """Return the type of the bounds of a column.

    >>> _type_of_bounds(pa.dictionary(pa.int8(), pa.large_string()))
    DataType(string)
    """
    kind = plain_type(kind)
    short = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return short.get(kind, kind)
