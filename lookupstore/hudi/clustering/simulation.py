"""Simulated files of sampled rows in the order of a clustering, and their bounds.

The bounds of a real file are wider than those of the few sampled rows in it. If n rows are spread
evenly over a range, their minimum and maximum are closer together than its ends by a share of
2 / (n + 1) on average. The bounds are therefore moved apart by that share, counted in distinct
values of the sample. They are moved less if more of the rows are sampled. A bound that several
sampled rows share is not moved, because a value beyond it is improbable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.column_bounds import ColumnBounds
from lookupstore.hudi.layout.choice import Curve
from lookupstore.hudi.layout.curves.layout import Layout
from lookupstore.sorting._sort import argsort

Ints: TypeAlias = npt.NDArray[np.int64]

# Stand for the number of a value that is null or NaN.
_NULL, _NAN = -1, -2


@dataclass(frozen=True, eq=False)
class NumberedColumn:
    """A column of a sample, with each value replaced by its rank.

    Attributes:
        values: Distinct values, ascending, without null and NaN.
        numbers: Index in `values` of each row's value: int64, -1 for null, -2 for NaN.
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
        """Return the estimated bounds of simulated files.

        Args:
            rows: Numbers of sampled rows, in the order of the files.
            starts: Index in `rows` of the first row of each file.
            unsampled: Share of the rows of the table that are not in the sample, from 0 to 1.
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
    """A partition with its part of the sample.

    Attributes:
        bytes: Size of the files of the partition, in bytes.
        times: Number of partitions of the table that the partition represents, by its bytes.
        rows: Sampled rows of the partition, in the columns that orders and queries use.
        first: Number in the whole sample of the first row of `rows`.
    """

    bytes: int
    times: float
    rows: pa.Table
    first: int

    def files(self, target_file_size: int) -> int:
        """Return how many files a clustering would write for the partition."""
        return max(1, round(self.bytes / target_file_size))

    def in_order(self, by: Sequence[str], curve: Curve, files: int) -> Ints:
        """Return the numbers of the sampled rows in the order of a clustering."""
        if not self.rows.num_rows:
            return np.zeros(0, np.int64)
        sample = self.rows.select(list(by))
        layout = Layout.fit(sample, by, curve, "sample", files)
        return argsort(layout.positions(sample)).astype(np.int64) + self.first


def simulated_bounds(
    rows: Ints, files: int, columns: Mapping[str, NumberedColumn], unsampled: float
) -> tuple[dict[str, ColumnBounds], int]:
    """Return the estimated bounds of files, by column, and the number of files.

    All files have about as many rows. The number is smaller than `files` if the sample has fewer
    than two rows for each file.

    Args:
        rows: Numbers of the partition's sampled rows, in order.
        files: Number of files for all rows of the partition.
        columns: Columns to find bounds of, by name.
        unsampled: Share of the rows of the table that are not in the sample, from 0 to 1.
    """
    count = max(1, min(files, len(rows) // 2))
    starts = np.arange(count, dtype=np.int64) * len(rows) // count
    return {name: one.bounds(rows, starts, unsampled) for name, one in columns.items()}, count
