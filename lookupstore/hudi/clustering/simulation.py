"""Rows of a sample, put in order and cut into files as a clustering would, and their bounds.

A file of a few sampled rows has wider bounds than these: of n rows spread evenly over a range, the
least and greatest are on average a share of 2 / (n + 1) closer together than its ends. So bounds
are moved apart by as much, counted in values of the sample, by which every column is spread evenly:
less, the more of the rows are sampled, and not where several rows have the value at the end, beyond
which there is hardly another one then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.layout.choice import Curve
from lookupstore.hudi.layout.curves.layout import Layout
from lookupstore.hudi.layout.statistics.column_bounds import ColumnBounds
from lookupstore.sorting._sort import argsort

Ints: TypeAlias = npt.NDArray[np.int64]

# In the place of a value's number.
_NULL, _NAN = -1, -2


@dataclass(frozen=True, eq=False)
class NumberedColumn:
    """A column of a sample, each value as its number in their order.

    Attributes:
        values: that there are, each once, ascending.
        numbers: of each row; below 0 where there is no value.
    """

    values: pa.Array
    numbers: Ints

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> NumberedColumn:
        """Number the values of a column."""
        encoded = column.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        values = encoded.dictionary
        order = pc.sort_indices(values).to_numpy()
        numbers_of = np.empty(len(values) + 1, np.int64)
        numbers_of[order] = np.arange(len(values))
        numbers_of[-1] = _NULL
        values = values.take(pa.array(order))
        if pa.types.is_floating(values.type) and len(values) and pc.is_nan(values[-1]).as_py():
            numbers_of[numbers_of == len(values) - 1] = _NAN
            values = values.slice(0, len(values) - 1)
        at = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
        return cls(values, numbers_of[at])

    def bounds(self, rows: Ints, starts: Ints, unsampled: float) -> ColumnBounds:
        """Return what would be known of files.

        Args:
            rows: of the sample, in the order of the files.
            starts: where each file begins among these.
            unsampled: share of the rows of the table that are not in the sample.
        """
        numbers = self.numbers[rows]
        sizes = np.diff(np.append(starts, len(rows)))
        known = numbers >= 0
        low = np.minimum.reduceat(np.where(known, numbers, len(self.values)), starts)
        high = np.maximum.reduceat(np.where(known, numbers, -1), starts)
        count = np.add.reduceat(known.astype(np.int64), starts)
        beyond = unsampled * (high - low) / np.maximum(count - 1, 1)
        alone = [
            np.add.reduceat((numbers == np.repeat(one, sizes)).astype(np.int64), starts) == 1
            for one in (low, high)
        ]
        low = np.maximum(np.rint(low - beyond * alone[0]).astype(np.int64), 0)
        high = np.rint(high + beyond * alone[1]).astype(np.int64)
        high = np.minimum(high, len(self.values) - 1)
        least, greatest = (
            self.values.take(pa.array(np.where(count > 0, one, 0), mask=count == 0))
            for one in (low, high)
        )
        nulls, nans = (
            pa.array(np.add.reduceat((numbers == one).astype(np.int64), starts))
            for one in (_NULL, _NAN)
        )
        return ColumnBounds(least, greatest, nulls, nans, pa.array(sizes))


@dataclass(frozen=True, eq=False)
class SampledPartition:
    """A partition, of which some rows are known.

    Attributes:
        bytes: of its files.
        times: how many partitions of the table it stands for.
        rows: its rows, in the columns that may be ordered by.
        first: number of the first of these in the whole sample.
    """

    bytes: int
    times: float
    rows: pa.Table
    first: int

    def files(self, target_file_size: int) -> int:
        """Return how many files a clustering would make of it."""
        return max(1, round(self.bytes / target_file_size))

    def in_order(self, by: Sequence[str], curve: Curve, files: int) -> Ints:
        """Return the rows of the sample as a clustering would put them."""
        if not self.rows.num_rows:
            return np.zeros(0, np.int64)
        sample = self.rows.select(list(by))
        layout = Layout.fit(sample, by, curve, "sample", files)
        return argsort(layout.positions(sample)).astype(np.int64) + self.first


def simulated_bounds(
    rows: Ints, files: int, columns: Mapping[str, NumberedColumn], unsampled: float
) -> tuple[dict[str, ColumnBounds], int]:
    """Return what would be known of files of as many rows each; and how many there are.

    There are fewer if the sample does not have two rows for each.

    Args:
        rows: of the sample, in order.
        files: that all rows of the partition make.
        columns: that are asked for.
        unsampled: share of the rows of the table that are not in the sample.
    """
    count = max(1, min(files, len(rows) // 2))
    starts = np.arange(count, dtype=np.int64) * len(rows) // count
    return {name: one.bounds(rows, starts, unsampled) for name, one in columns.items()}, count
