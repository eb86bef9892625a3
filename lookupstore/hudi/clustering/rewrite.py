"""Rewrite the rows of a partition from its old files to new ones.

There are two passes. The first samples the columns of the layout to find the ends of the new files.
The second assigns all rows to their files, in memory or in a temporary file. Each file is then
sorted by itself, several at the same time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise

import pyarrow as pa

from lookupstore.errors import CorruptionError
from lookupstore.hudi.clustering.order import ClusteringOrder
from lookupstore.hudi.clustering.plan import PartitionPlan
from lookupstore.hudi.clustering.rows import plain_batches, plain_schema, stored_batches
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.merging import RowCounts, row_schema
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.file_group.writer import BaseFileWriter, NewFile
from lookupstore.hudi.layout import KeptLayout, Layout, LayoutChoice
from lookupstore.hudi.layout.sample import Sample
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.files import stat_of
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.steps import Steps
from lookupstore.hudi.write.transaction import Transaction
from lookupstore.processors import processors
from lookupstore.progress import Advance, Bars, not_shown
from lookupstore.sorting.ranges import RangeSorter, cuts_of
from lookupstore.storage.location import Location

# Bytes that a row takes in memory besides its pages, in which repeated texts are stored once.
_ROW_BYTES = 48
# Divisor of the memory for a range: it is in memory twice when it is read back, and the estimate of
# its size from the sample may be wrong.
_SHARE = 6


class Rewrite:
    """A writer of the new files of a clustering.

    Args:
        view: View of the table for which the clustering was planned.
        choice: Columns, curve, mapping and file sizes of the layout.
        options: Memory, threads, spill folder and file format of the write.
        transaction: Transaction of the clustering.
        steps: Recorder of the time that each step takes.
        incremental: Whether to keep layouts that a later clustering continues.
        bars: Factory of progress bars. Default: no progress bars.
    """

    def __init__(
        self,
        view: TableView,
        choice: LayoutChoice,
        options: WriteOptions,
        transaction: Transaction,
        steps: Steps,
        *,
        incremental: bool,
        bars: Bars | None = None,
    ) -> None:
        self._bars = bars
        self._tell_sorted: Advance = not_shown
        self._tell_written: Advance = not_shown
        self._incremental = incremental
        self._location = view.location
        self._schema = view.table_schema
        #: Schema of the rows, without dictionaries, which differ between files.
        self._rows = plain_schema(row_schema(self._schema.columns))
        self._choice = choice
        self._options = options
        self._threads = options.threads or processors()
        self._folder = options.spill_folder or view.location.spill_folder()
        self._transaction = transaction
        self._step = steps.step
        self._numbers = count()
        #: Number of rows that were written.
        self.rows: int = 0
        #: Number of bytes of rows that were spilled.
        self.spilled_bytes: int = 0
        #: Layouts to keep, by partition.
        self.kept: dict[str, KeptLayout] = {}

    def write_all(self, plans: Sequence[PartitionPlan]) -> list[WriteStat]:
        """Write the files of all partitions, and return their entries for the commit.

        Raises:
            CorruptionError: If a file is damaged.
            FormatError: If a column of a file cannot be widened to the type in the table.
            StaleStoreError: If a file was deleted.
            OSError: If a file cannot be read or written, or there is no room to spill.
        """
        if self._bars is not None:
            # The unit is bytes, because the number of rows is only in the footers.
            total = sum(one.bytes for one in plans) / 1e6
            self._tell_sorted = self._bars("Sorting", total, "MB")
            self._tell_written = self._bars("Writing", total, "MB")
        return [stat for one in plans for stat in self.write(one)]

    def write(self, plan: PartitionPlan) -> list[WriteStat]:
        """Write the files of a partition, and return their entries for the commit.

        Raises:
            CorruptionError: If a file is damaged.
            FormatError: If a column of a file cannot be widened to the type in the table.
            StaleStoreError: If a file was deleted.
            OSError: If a file cannot be read or written, or there is no room to spill.
        """
        with self._step("sample"):
            sample, rows, nbytes = self._sampled(plan.slices)
            if not rows:
                self._tell_sorted(plan.bytes / 1e6)
                self._tell_written(plan.bytes / 1e6)
                return []
            order = self._order(plan, sample, rows)
            positions = order.layout.positions(sample)
            ends = order.ends_of_files(positions, rows, plan.files)
            files = max(len(ends) + 1, plan.files)
            most = max(1, self._options.memory // (_SHARE * self._threads))
            parts = -(-(nbytes + _ROW_BYTES * rows) // (most * files))
            cuts = sorted({*ends, *cuts_of(positions, files * parts)})
            width = positions.type.byte_width
            del sample, positions
        with RangeSorter(
            cuts,
            order.layout.by,
            order.layout.positions,
            self._rows,
            memory=self._options.memory,
            folder=self._folder,
            threads=self._threads,
        ) as sorter:
            with self._step("sort"):
                for batch in self._read(plan.slices, self._rows):
                    sorter.add(batch)
                sorter.end()
            if sum(sorter.rows) != rows:
                shown = self._location.show(plan.partition)
                raise CorruptionError(shown, 0, f"{rows} rows, as footers say", sum(sorter.rows))
            with self._step("write"):
                stats = self._write(plan, sorter, _by_file(cuts, ends), order.rows_per_file)
            self.spilled_bytes += sorter.spilled_bytes
        self.rows += rows
        if self._incremental:
            self.kept[plan.partition] = order.kept(ends, width, stats, self._transaction.time)
        return [stat for some in stats for stat in some]

    def _order(self, plan: PartitionPlan, sample: pa.Table, rows: int) -> ClusteringOrder:
        """Return the order of a partition, from its kept layout or from a sample."""
        if plan.continuation is not None:
            return ClusteringOrder.going_on(plan.continuation)
        choice = self._choice
        layout = Layout.fit(sample, tuple(choice.by), choice.curve, choice.mapping, plan.files)
        per_file = -(-rows // plan.files)
        if not self._incremental:
            return ClusteringOrder(layout, per_file)
        return ClusteringOrder.first(choice, layout, layout.positions(sample), per_file, plan.files)

    def _sampled(self, slices: Sequence[FileSlice]) -> tuple[pa.Table, int, int]:
        """Return a sample of the layout's columns, the number of rows, and their bytes."""
        wanted = pa.schema([self._rows.field(name) for name in self._choice.by])
        sample = Sample(wanted, self._options.memory // 4)
        rows = nbytes = 0
        for one in slices:
            stored = SliceRows(self._location, one, wanted, threads=True)
            rows += sum(stored.group_rows)
            nbytes += sum(group.plain_bytes for group in stored.footer.groups)
            for batch in plain_batches(stored, wanted):
                sample.add(batch)
        return sample.rows(), rows, nbytes

    def _read(self, slices: Sequence[FileSlice], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for one in slices:
            yield from stored_batches(SliceRows(self._location, one, schema, threads=True))
            self._tell_sorted(one.bytes / 1e6)

    def _write(
        self,
        plan: PartitionPlan,
        sorter: RangeSorter,
        by_file: Sequence[range],
        per_file: int,
    ) -> list[list[WriteStat]]:
        """Write the files, and return the commit entries of each range of files.

        A range has several files if many of its rows have one position.
        """
        self._transaction.open_partition(plan.partition)
        row_bytes = plan.bytes / sum(sorter.rows)

        def tell(rows: float) -> None:
            self._tell_written(rows * row_bytes / 1e6)

        work = []
        for ranges in by_file:
            there = sum(sorter.rows[at] for at in ranges)
            count = _files(there, per_file) if there else 0
            files = [self._new_file(plan.partition) for _ in range(count)]
            work.append((sorter, ranges, there, files, tell))
        if self._threads == 1 or len(work) == 1:
            return [self._write_files(*one) for one in work]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="lookupstore-hudi") as pool:
            futures = [pool.submit(self._write_files, *one) for one in work]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _new_file(self, partition: str) -> NewFile:
        number, time = next(self._numbers), self._transaction.time
        return NewFile(partition, self._options.new_file_id(), number, time)

    def _write_files(
        self,
        sorter: RangeSorter,
        ranges: range,
        rows: int,
        files: Sequence[NewFile],
        tell: Advance,
    ) -> list[WriteStat]:
        """Write the rows of some ranges to the given files, and report each file."""
        batches = (batch for at in ranges for batch in sorter.batches(at))
        rest: pa.RecordBatch | None = None
        stats = []
        for at, file in enumerate(files, 1):
            wanted = rows * at // len(files) - rows * (at - 1) // len(files)
            with BaseFileWriter(self._location, file, self._schema, self._options.format) as into:
                into.share(sorter.shared)
                while into.rows < wanted:
                    batch = next(batches) if rest is None else rest
                    taken = batch.slice(0, wanted - into.rows)
                    rest = batch.slice(taken.num_rows) if taken.num_rows < len(batch) else None
                    into.add(taken.columns)
            stats.append(stat_of(into.result(), None, RowCounts(into.rows, into.rows)))
            tell(into.rows)
        return stats


def stored_rows(location: Location, file: FileSlice) -> int:
    """Return the number of rows in the footer of a base file.

    Raises:
        CorruptionError: If the file is damaged.
        StaleStoreError: If the file was deleted.
        OSError: If the file cannot be read.
    """
    return sum(SliceRows(location, file, pa.schema([]), threads=False).group_rows)


def _files(rows: int, per_file: int) -> int:
    return max(1, round(rows / per_file))


def _by_file(cuts: Sequence[bytes], ends: Sequence[bytes]) -> list[range]:
    """Return the ranges of rows between the ends of the files."""
    starts = [0, *(bisect_left(cuts, end) + 1 for end in ends), len(cuts) + 1]
    return [range(start, stop) for start, stop in pairwise(starts)]
