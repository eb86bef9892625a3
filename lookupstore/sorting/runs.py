"""Sort batches of byte keys in runs within a memory budget, and merge the runs.

All columns are byte strings. A batch has the column `key`, for the rule `max` the column `rank`,
whose order decides between equal keys, and other columns such as `value`. A run is a sequence of
batches in which keys ascend strictly: repeats are resolved before a run is stored. Therefore a key
is at most once in a run, and a merge needs only the batches that it holds.

Source order decides between repeats: batches are added in source order, the sort is stable, and
runs are merged in the order in which they were made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lookupstore.sorting._sort import upper_bound
from lookupstore.sorting.rows import (
    RUN_BYTES,
    HeldRows,
    Keep,
    Partition,
    RepeatedKeyError,
    RowBatches,
    one_batch,
    pieces,
)
from lookupstore.storage.naming import naming

__all__ = [
    "BATCH_BYTES",
    "KEEP_RULES",
    "MERGE_COPIES",
    "MIN_MEMORY",
    "Keep",
    "RepeatedKeyError",
    "RunSorter",
    "SpillFile",
    "aligned",
    "joined",
    "merge",
    "one_batch",
]

KEEP_RULES: tuple[Keep, ...] = ("error", "first", "last", "max")
BATCH_BYTES = 1 << 20
MIN_MEMORY = 1 << 16

# Part of the budget for held rows; the rest is for batches that come in, are sorted, and go out.
_FOR_ROWS = 0.875
# Rows that are sorted at once take at most the budget divided by this: they are held twice then.
_RUNS = 32
#: Copies of a batch that a merge holds: of each run, decompressed, and of the rows just merged.
MERGE_COPIES = 4


def merge(
    runs: Sequence[Iterable[pa.RecordBatch]], keep: Keep, *, reverse: bool = False
) -> Iterator[pa.RecordBatch]:
    """Merge runs into one, holding one batch of each run.

    The keys of every run ascend strictly (with `reverse` descend), and so do those of the result.
    If runs share a key, `keep` decides, in the order of `runs`.

    Raises:
        RepeatedKeyError: If two runs share a key and `keep` is `error`.

    >>> runs = [[pa.record_batch({"key": [b"a", b"c"]})], [pa.record_batch({"key": [b"b"]})]]
    >>> [batch["key"].to_pylist() for batch in merge(runs, "error")]
    [[b'a', b'b'], [b'c']]
    """
    heads = [head for run in runs if (head := _Head(iter(run), reverse)).load()]
    while len(heads) > 1:
        # All keys up to the smallest last key of a batch are in memory: no run has another one.
        bound = max(h.edge for h in heads) if reverse else min(h.edge for h in heads)
        parts = [part for h in heads if (part := h.take_to(bound)).num_rows]
        merged = parts[0] if len(parts) == 1 else RowBatches(parts).sorted(keep)
        yield _flipped(merged) if reverse else merged
        heads = [h for h in heads if h.batch.num_rows or h.load()]
    for head in heads:
        yield _flipped(head.batch) if reverse else head.batch
        yield from head.run


def joined(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches joined to at least `size` bytes each, except the last one.

    A merge takes one step for each batch of its runs.

    >>> batches = [pa.record_batch({"n": [i]}) for i in range(5)]
    >>> [batch["n"].to_pylist() for batch in joined(batches, 16)]
    [[0, 1], [2, 3], [4]]
    """
    held: list[pa.RecordBatch] = []
    nbytes = 0
    for batch in batches:
        held.append(batch)
        nbytes += batch.nbytes
        if nbytes >= size:
            yield one_batch(held)
            held, nbytes = [], 0
    if held:
        yield one_batch(held)


def aligned(
    one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield the rows of two runs side by side, holding one batch of each.

    Each pair contains all rows of both runs in one range of keys; one of them may have no rows. The
    ranges ascend.

    Args:
        one: Batches of a run, whose keys ascend strictly.
        other: Batches of another run, with the same columns.

    >>> one = [pa.record_batch({"key": [b"a", b"c"]})]
    >>> other = [pa.record_batch({"key": [b"a"]}), pa.record_batch({"key": [b"b", b"d"]})]
    >>> for pair in aligned(one, other):
    ...     print([batch["key"].to_pylist() for batch in pair])
    [[b'a'], [b'a']]
    [[b'c'], [b'b']]
    [[], [b'd']]
    """
    left, right = (_Head(iter(run), False) for run in (one, other))
    has_left, has_right = left.load(), right.load()
    while has_left and has_right:
        bound = min(left.edge, right.edge)
        yield left.take_to(bound), right.take_to(bound)
        has_left = left.batch.num_rows > 0 or left.load()
        has_right = right.batch.num_rows > 0 or right.load()
    while has_left:
        yield left.batch, left.batch.slice(0, 0)
        has_left = left.load()
    while has_right:
        yield right.batch.slice(0, 0), right.batch
        has_right = right.load()


class RunSorter:
    """A sorter of any number of rows by key, within a memory budget and by partition.

    `add` adds rows, and `sorted_batches` yields them. Rows that do not fit into the budget are
    spilled as sorted runs to unnamed temporary files, which the system frees however the process
    ends.

    Args:
        keep: Rule for repeated keys.
        memory: Budget for held rows, their sort and their merge, at least 64 KiB, in bytes.
        folder: Folder to spill to. An `OSError` of spilling, such as a full disk, names it.
        partitions: Number of partitions.
        partition: Function that returns the partition of each key. It is needed if there are
            several partitions.
        threads: Number of threads that sort, including the caller's. It does not change the result.

    >>> with RunSorter("last", memory=1 << 20, folder=".") as sorter:
    ...     sorter.add(pa.record_batch({"key": [b"b", b"a", b"b"], "value": [b"1", b"2", b"3"]}))
    ...     [batch.to_pylist() for batch in sorter.sorted_batches(0)]
    [[{'key': b'a', 'value': b'2'}, {'key': b'b', 'value': b'3'}]]
    """

    def __init__(
        self,
        keep: Keep,
        *,
        memory: int,
        folder: str,
        partitions: int = 1,
        partition: Partition | None = None,
        threads: int = 1,
    ) -> None:
        if partitions > 1 and partition is None:
            raise ValueError(f"partition is None; {partitions} partitions need a function")
        if memory < MIN_MEMORY:
            raise ValueError(f"memory is {memory}; give at least {MIN_MEMORY} bytes")
        self._keep = keep
        self._folder = folder
        self._partitions = partitions
        self._partition = partition
        self._limit = int(memory * _FOR_ROWS)
        self._run_bytes = max(1, min(RUN_BYTES, memory // _RUNS))
        self._batch_bytes = max(1, min(BATCH_BYTES, memory // 64))
        self._fan_in = max(2, memory // (self._batch_bytes * MERGE_COPIES))
        self._helpers = threads - 1
        self._pool = ThreadPoolExecutor(threads - 1, "lookupstore-sort") if threads > 1 else None
        self._held = self._no_rows()
        self._ended = False
        self._spill: SpillFile | None = None
        self._runs: list[_Run] = []
        self.spills: int = 0

    def _no_rows(self) -> HeldRows:
        return HeldRows(
            self._keep,
            self._partitions,
            self._partition,
            self._run_bytes,
            self._batch_bytes,
            self._pool,
            self._helpers,
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows that follow all earlier ones in source order.

        Raises:
            RepeatedKeyError: If rows in memory were sorted, and a key is repeated.
        """
        if self._ended:
            raise RuntimeError("rows cannot be added after sorted_batches")
        self._held.add(batch)
        if self._held.nbytes >= self._limit:
            self._spill_rows()

    def would_spill(self, batch: pa.RecordBatch) -> bool:
        """Return whether adding these rows would spill the rows in memory."""
        return self._held.nbytes > 0 and self._held.nbytes + batch.nbytes >= self._limit

    def spread(self, partitions: int, partition: Partition) -> None:
        """Move the rows that were added, and those to come, to other partitions.

        Args:
            partitions: Number of partitions. Until now there was one.
            partition: Function that returns the partition of each key.

        Raises:
            RepeatedKeyError: If rows in memory were sorted, and a key is repeated.
        """
        if self._partitions > 1 or self._ended:
            raise RuntimeError("rows are spread while they are added, and once")
        self._partitions, self._partition = partitions, partition
        spill, runs, held = self._spill, self._runs, self._held
        if spill is None:
            held.spread(partitions, partition)
            return
        self._spill, self._runs, self._held = None, [], self._no_rows()
        try:
            spill.end()
            for run in runs:  # in the order of the source
                for batch in spill.read(run.batches[0]):
                    self.add(batch)
        finally:
            spill.close()
        for batch in held.taken():
            self.add(batch)

    def sorted_batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition in strictly ascending key order.

        This method may be called again.

        Raises:
            RepeatedKeyError: If a key is repeated and the rule is `error`.
        """
        self._end()
        if self._spill is None:
            return self._held.batches(partition)
        return merge([self._spill.read(run.batches[partition]) for run in self._runs], self._keep)

    def rows_at_most(self, partition: int) -> int:
        """Return the largest number of rows that one partition can have.

        A key that several runs share is counted in each.

        Raises:
            RepeatedKeyError: If a key is repeated and the rule is `error`.
        """
        self._end()
        if self._spill is None:
            return self._held.count(partition)
        return sum(run.rows[partition] for run in self._runs)

    def _end(self) -> None:
        """Sort the rows in memory, and spill them if others were spilled before.

        No more rows may be added.
        """
        if self._ended:
            return
        if self._spill is None:
            self._held.end()
        else:
            self._spill_rows()
            self._spill.end()
            self._reduce_runs()
        self._ended = True

    def close(self) -> None:
        """Free memory and temporary files."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._held = self._no_rows()
        self._runs.clear()
        if self._spill is not None:
            self._spill.close()

    def __enter__(self) -> RunSorter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _spill_rows(self) -> None:
        held, self._held = self._held, self._no_rows()
        held.end()
        if held.schema is None:
            return
        if self._spill is None:
            self._spill = SpillFile(self._folder, held.schema)
        # Rows that come in key order continue the last run: a sorted source is one run.
        if not (self._runs and held.comes_after(self._runs[-1].last_keys)):
            self._runs.append(_Run.empty(self._partitions))
        run = self._runs[-1]
        for partition in range(self._partitions):
            for batch in held.batches(partition):
                run.append(partition, self._spill.append(batch), batch)
        self.spills += 1

    def _reduce_runs(self) -> None:
        """Merge neighbouring runs until the rest can be merged at once."""
        while len(self._runs) > self._fan_in and self._spill is not None:
            source = self._spill
            target = SpillFile(self._folder, source.schema)
            self._spill = target
            groups = [
                self._runs[i : i + self._fan_in] for i in range(0, len(self._runs), self._fan_in)
            ]
            self._runs = []
            try:
                for group in groups:
                    run = _Run.empty(self._partitions)
                    for partition in range(self._partitions):
                        sources = [source.read(part.batches[partition]) for part in group]
                        for batch in merge(sources, self._keep):
                            for piece in pieces(batch, self._batch_bytes):
                                run.append(partition, target.append(piece), piece)
                    self._runs.append(run)
            finally:
                source.close()
            target.end()


@dataclass
class _Run:
    """The batches of one run in the spill file, and the last key of each partition."""

    batches: list[list[int]]
    last_keys: list[bytes | None]
    rows: list[int]

    @classmethod
    def empty(cls, partitions: int) -> _Run:
        return cls([[] for _ in range(partitions)], [None] * partitions, [0] * partitions)

    def append(self, partition: int, number: int, batch: pa.RecordBatch) -> None:
        self.batches[partition].append(number)
        self.last_keys[partition] = _key(batch, -1)
        self.rows[partition] += batch.num_rows


class SpillFile:
    """Numbered batches in an unnamed temporary file: written once, then read in any order."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self.schema = schema
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".lookupstore-")  # noqa: SIM115
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with naming(folder):
            self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), schema, options=options)
        self._reader: pa.RecordBatchFileReader | None = None
        self._count = 0

    def append(self, batch: pa.RecordBatch) -> int:
        with naming(self._folder):
            self._writer.write_batch(batch)
        self._count += 1
        return self._count - 1

    def end(self) -> None:
        with naming(self._folder):
            self._writer.close()
            self._file.flush()
        self._reader = pa.ipc.open_file(pa.PythonFile(self._file, "r"))

    def read(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        if self._reader is None:
            raise RuntimeError("the spill file is still being written")
        for number in numbers:
            yield self._reader.get_batch(number)

    def close(self) -> None:
        # It writes what a full disk has refused, which would replace the error that names the file.
        with suppress(OSError):
            self._file.close()


@dataclass
class _Head:
    """The current batch of one run in a merge.

    Its keys always ascend.
    """

    run: Iterator[pa.RecordBatch]
    reverse: bool
    batch: pa.RecordBatch = field(init=False)
    edge: bytes = field(init=False, default=b"")

    def load(self) -> bool:
        """Load the next batch that has rows, and return whether there is one."""
        for batch in self.run:
            if batch.num_rows:
                self.batch = _flipped(batch) if self.reverse else batch
                self.edge = _key(self.batch, 0 if self.reverse else -1)
                return True
        return False

    def take_to(self, bound: bytes) -> pa.RecordBatch:
        """Remove and return the rows from the near end of the run through the bound."""
        keys = self.batch.column("key")
        count = int(upper_bound(keys, bound))
        if not self.reverse:
            taken, self.batch = self.batch.slice(0, count), self.batch.slice(count)
            return taken
        if count and keys[count - 1].as_py() == bound:
            count -= 1
        taken, self.batch = self.batch.slice(count), self.batch.slice(0, count)
        return taken


def _flipped(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(np.arange(batch.num_rows)[::-1]))


def _key(batch: pa.RecordBatch, i: int) -> bytes:
    return bytes(batch.column("key")[i].as_py())
