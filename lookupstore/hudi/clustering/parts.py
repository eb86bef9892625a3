"""Steps of a clustering for tasks that each read a part of the files.

Spark runs such tasks. Each task samples a part of the files. The samples of a partition decide
which new file each of its rows belongs to. Each row gets the number of its new file, and each new
file is written from the rows that have its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.clustering.rows import plain_batches, plain_schema
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.merging import RowCounts, row_schema
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.file_group.writer import BaseFileWriter, NewFile
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.layout.choice import LayoutChoice
from lookupstore.hudi.layout.curves.layout import Layout
from lookupstore.hudi.layout.sample import SAMPLE_ROWS, Sample
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.write.files import stat_of
from lookupstore.sorting.ranges import EvenRanges
from lookupstore.storage.location import Location

# Number of sampled rows for each new file, and estimated size of a row in bytes unless rows are
# wide.
_ROWS_OF_FILE = 1 << 12
_ROW_BYTES = 1 << 8
# Factor for parts whose numbers of rows per byte differ.
_SPARE = 2
_LEAST_ROWS = 1 << 6
# The fractional parts of its multiples are evenly distributed over the unit interval, for any
# number of multiples.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class PartSample:
    """Some rows of a part of the files, in the columns of the layout.

    Attributes:
        rows: Sampled rows, with the columns of the layout.
        share: Approximate share of the rows of the part that were sampled, from 0 to 1.
        count: Number of rows of the part.
    """

    rows: pa.Table
    share: float
    count: int


@dataclass(frozen=True)
class ClusterFiles:
    """The files that a clustering replaces, and the new files that it writes.

    Attributes:
        location: Location of the table.
        schema: Schema of the table.
        choice: Columns, curve, mapping and file sizes of the layout.
        format: Compression, row group size and key filter of the new files.
    """

    location: Location
    schema: TableSchema
    choice: LayoutChoice
    format: FileFormat

    @property
    def rows(self) -> pa.Schema:
        """Return the columns of the rows: their own meta columns, then the data columns."""
        return plain_schema(row_schema(self.schema.columns))

    def sample(self, part: Sequence[FileSlice], most_rows: int) -> PartSample:
        """Sample a part of the files.

        Args:
            part: Files to sample.
            most_rows: Maximum number of rows in the sample.

        Raises:
            CorruptionError: If a file is damaged.
            FormatError: If a column of a file cannot be widened to the type in the table.
            StaleStoreError: If a file was deleted.
            OSError: If a file cannot be read.
        """
        wanted = pa.schema([self.rows.field(name) for name in self.choice.by])
        sample = Sample(wanted, _ROW_BYTES * most_rows, most_rows)
        count = 0
        for one in part:
            stored = SliceRows(self.location, one, wanted, threads=False)
            count += sum(stored.group_rows)
            for batch in plain_batches(stored, wanted):
                sample.add(batch)
        return PartSample(sample.rows(), sample.share, count)

    def batches(self, file: FileSlice) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file.

        Raises:
            CorruptionError: If the file is damaged.
            FormatError: If a column of the file cannot be widened to the type in the table.
            StaleStoreError: If the file was deleted.
            OSError: If the file cannot be read.
        """
        yield from plain_batches(
            SliceRows(self.location, file, self.rows, threads=False), self.rows
        )

    def write(self, file: NewFile, batches: Iterable[Sequence[pa.Array]]) -> WriteStat:
        """Write a new file, and return its entry for the commit.

        Args:
            file: File to write.
            batches: Batches of rows in the order of the file, each as a list of its columns.

        Raises:
            OSError: If the file cannot be written.
        """
        with BaseFileWriter(self.location, file, self.schema, self.format) as into:
            for columns in batches:
                into.add(list(columns))
        return stat_of(into.result(), None, RowCounts(into.rows, into.rows))


def rows_to_sample(part_bytes: int, partition_bytes: int, files: int) -> int:
    """Return how many rows of a part of a partition to sample at most.

    Args:
        part_bytes: Size of the files of the part, in bytes.
        partition_bytes: Size of all files of the partition, in bytes.
        files: Number of files to write for the partition.

    >>> rows_to_sample(100, 1000, 5)
    4096
    """
    wanted = min(SAMPLE_ROWS, _ROWS_OF_FILE * files)
    return max(_LEAST_ROWS, _SPARE * wanted * part_bytes // max(1, partition_bytes))


@dataclass(frozen=True, eq=False)
class Placement:
    """The assignment of the rows of a partition to new files, learned from a sample.

    Attributes:
        layout: Layout that gives each row its position.
        ranges: Ranges of positions, one for each new file.
    """

    layout: Layout
    ranges: EvenRanges

    @classmethod
    def of(cls, samples: Sequence[PartSample], choice: LayoutChoice, files: int) -> Placement:
        """Learn the assignment from samples of all parts.

        Args:
            samples: Samples of all parts of the partition; at least one has rows.
            choice: Columns, curve and mapping of the layout.
            files: Number of files to write.

        Raises:
            TypeError: If a column of the layout has a type without an order.
        """
        chance = np.random.default_rng(0)
        least = min(one.share for one in samples)
        # The same share of each part is kept: that of the part with the smallest share in the
        # sample.
        kept = []
        for one in samples:
            stays = chance.random(len(one.rows)) * one.share < least
            kept.append(one.rows.take(pa.array(np.flatnonzero(stays))))
        sample = pa.concat_tables(kept).combine_chunks()
        layout = Layout.fit(sample, tuple(choice.by), choice.curve, choice.mapping, files)
        return cls(layout, EvenRanges(layout.positions(sample), files))

    def files(self, rows: pa.RecordBatch, first: int) -> tuple[pa.Array, npt.NDArray[np.int32]]:
        """Return the position of each row, and the number of its new file.

        Args:
            rows: Consecutive rows of one file.
            first: Number of rows of the file before the first of `rows`.
        """
        positions = self.layout.positions(rows)
        where = np.arange(first, first + rows.num_rows) * _GOLDEN % 1
        return positions, self.ranges.numbers(positions, where)
