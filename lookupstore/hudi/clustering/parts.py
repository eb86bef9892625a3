"""What tasks do of a clustering that see some of its files each, as those of a cluster do.

A part of the files is sampled; the samples of a partition say where its rows go; each row gets the
number of its file; and one file is written from the rows that have its number.
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

# Rows of the sample for each file that is to come, and bytes of a row where they are not wide.
_ROWS_OF_FILE = 1 << 12
_ROW_BYTES = 1 << 8
# Parts may differ in how many rows their bytes are.
_SPARE = 2
_LEAST_ROWS = 1 << 6
# Multiples of it, without their whole part, fill the unit interval evenly, however many they are.
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class PartSample:
    """Some rows of a part of the files, in the columns of the layout.

    Attributes:
        rows: of the sample.
        share: of all rows of the part, that are in it.
        count: how many rows the part has.
    """

    rows: pa.Table
    share: float
    count: int


@dataclass(frozen=True)
class ClusterFiles:
    """The files of a clustering, those that go and those that come.

    Attributes:
        location: of the table.
        schema: of the table.
        choice: of the layout.
        format: of the files that come.
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
            part: the files.
            most_rows: of the sample.

        Raises: what `SliceRows` and its `batches` do.
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
        """Yield the rows of a file; raises what `SliceRows` and its `batches` do."""
        yield from plain_batches(
            SliceRows(self.location, file, self.rows, threads=False), self.rows
        )

    def write(self, file: NewFile, batches: Iterable[Sequence[pa.Array]]) -> WriteStat:
        """Write a new file, and return what is said of it.

        Args:
            file: that is written.
            batches: columns of rows in their order.

        Raises:
            OSError: it cannot be written.
        """
        with BaseFileWriter(self.location, file, self.schema, self.format) as into:
            for columns in batches:
                into.add(list(columns))
        return stat_of(into.result(), None, RowCounts(into.rows, into.rows))


def rows_to_sample(part_bytes: int, partition_bytes: int, files: int) -> int:
    """Return how many rows of a part of a partition to sample at most.

    Args:
        part_bytes: of the files of the part.
        partition_bytes: of all files of the partition.
        files: how many are to come.

    >>> rows_to_sample(100, 1000, 5)
    4096
    """
    wanted = min(SAMPLE_ROWS, _ROWS_OF_FILE * files)
    return max(_LEAST_ROWS, _SPARE * wanted * part_bytes // max(1, partition_bytes))


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the rows of a partition go, as a sample of them says.

    Attributes:
        layout: gives each row its position.
        ranges: of positions, one for each file.
    """

    layout: Layout
    ranges: EvenRanges

    @classmethod
    def of(cls, samples: Sequence[PartSample], choice: LayoutChoice, files: int) -> Placement:
        """Learn from samples of all parts.

        Args:
            samples: of the parts; some of them have rows.
            choice: of the layout.
            files: how many files there are to be.

        Raises:
            TypeError: a column of the layout has a type without an order.
        """
        chance = np.random.default_rng(0)
        least = min(one.share for one in samples)
        # Of each part as large a share as of the one of which there is the least.
        kept = []
        for one in samples:
            stays = chance.random(len(one.rows)) * one.share < least
            kept.append(one.rows.take(pa.array(np.flatnonzero(stays))))
        sample = pa.concat_tables(kept).combine_chunks()
        layout = Layout.fit(sample, tuple(choice.by), choice.curve, choice.mapping, files)
        return cls(layout, EvenRanges(layout.positions(sample), files))

    def files(self, rows: pa.RecordBatch, first: int) -> tuple[pa.Array, npt.NDArray[np.int32]]:
        """Return the position of each row, and the number of its file.

        Args:
            rows: of a file, that follow each other.
            first: how many rows of the file are before them.
        """
        positions = self.layout.positions(rows)
        where = np.arange(first, first + rows.num_rows) * _GOLDEN % 1
        return positions, self.ranges.numbers(positions, where)
