"""Sorted runs: sort batches of byte keys within a memory budget, merge them, resolve repeats.

This module knows bytes only. A batch has the column `key`, for the rule `max` the column `rank`,
byte strings whose order says which of two equal keys wins, and columns of byte strings that go
with their key, such as `value`. A run is a sequence of batches in which keys ascend strictly:
repeats are resolved before a run is stored, so a key is at most once in a run, and a merge never
has to look past the batches in its hands.

Source order decides between repeats: batches are added in source order, the sort is stable, and
runs are merged in the order in which they were made.
"""

from __future__ import annotations

import bisect
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.sorting._sort import (
    Gather,
    argsort,
    is_ascending,
    sort_keys,
    upper_bound,
)
from lookupstore.storage.naming import naming

# What happens to a key that comes more than once.
Keep = Literal["error", "first", "last", "max"]
# Says for each key of a binary array which partition it belongs to (uint32).
Partition = Callable[[pa.Array], npt.NDArray[np.uint32]]
Positions = npt.NDArray[np.int64]

KEEP_RULES: tuple[Keep, ...] = ("error", "first", "last", "max")
BATCH_BYTES = 1 << 20
MIN_MEMORY = 1 << 16

# The rest of the budget is for the batch that comes in and the one that goes out.
_FOR_ROWS = 0.75
# Beside its bytes, a row costs its key once more, two places in the sort and those in the order.
_ROW_OVERHEAD = 48
#: A merge holds a batch of each run, its decompressed form, and what it has just put together.
MERGE_COPIES = 4


class RepeatedKeyError(Exception):
    """A repeated key under the rule `error`; `key` is its bytes."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        super().__init__(key)


def _winners(
    same: npt.NDArray[np.bool_], ranks: pa.Array | None, keep: Literal["first", "last", "max"]
) -> Positions:
    """Return the positions of the rows that stay; `same` says which repeat the key before."""
    if keep == "first":
        return np.flatnonzero(~same)
    ends = np.empty_like(same)
    ends[:-1] = ~same[1:]
    ends[-1] = True
    if keep == "last" or ranks is None:
        return np.flatnonzero(ends)
    # Greatest rank of each group of equal keys; of equal ranks the later row. Only rows of groups
    # with repeats are sorted, by rank and then (stably) by group: the last of a group wins.
    group = np.cumsum(~same)
    repeated = np.flatnonzero(same | ~ends)
    by_rank = repeated[argsort(ranks.take(pa.array(repeated)))]
    by_group = by_rank[np.argsort(group[by_rank], kind="stable")]
    last = np.empty(len(by_group), dtype=bool)
    last[:-1] = group[by_group[1:]] != group[by_group[:-1]]
    last[-1] = True
    alone = np.flatnonzero(ends & ~same)
    return np.sort(np.concatenate([alone, by_group[last]]))


def merge(
    runs: Sequence[Iterable[pa.RecordBatch]], keep: Keep, *, reverse: bool = False
) -> Iterator[pa.RecordBatch]:
    """Merge runs into one, holding one batch of each run.

    The keys of every run ascend strictly (with `reverse` descend), and so do those of the result.
    Of runs that share a key, `keep` decides, in the order of `runs`.

    Raises:
        RepeatedKeyError: two runs share a key and `keep` is `error`.

    >>> runs = [[pa.record_batch({"key": [b"a", b"c"]})], [pa.record_batch({"key": [b"b"]})]]
    >>> [batch["key"].to_pylist() for batch in merge(runs, "error")]
    [[b'a', b'b'], [b'c']]
    """
    heads = [head for run in runs if (head := _Head(iter(run), reverse)).load()]
    while len(heads) > 1:
        # Keys up to the smallest last key in hand are all in hand: no run can bring another.
        bound = max(h.edge for h in heads) if reverse else min(h.edge for h in heads)
        parts = [part for h in heads if (part := h.take_to(bound)).num_rows]
        merged = parts[0] if len(parts) == 1 else _Rows(parts).sorted(keep)
        yield _flipped(merged) if reverse else merged
        heads = [h for h in heads if h.batch.num_rows or h.load()]
    for head in heads:
        yield _flipped(head.batch) if reverse else head.batch
        yield from head.run


def aligned(
    one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield the rows of two runs side by side, holding one batch of each.

    Both have all their rows of the same range of keys; one may have none. The ranges ascend.

    Args:
        one: a run, whose keys ascend strictly.
        other: another one, with the same columns.

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

    Rows go in by `add` and come out by `sorted_batches`. What does not fit the budget is spilled
    as sorted runs to unnamed temporary files, which the system frees however the process ends.

    Args:
        keep: what happens to repeated keys.
        memory: budget in bytes, at least 64 KiB, for rows held, their sort and their merge.
        folder: where to spill; an `OSError` of that, such as a full disk, names it.
        partitions: number of partitions.
        partition: says to which partition keys belong; needed if there are several.

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
        self._batch_bytes = max(1, min(BATCH_BYTES, memory // 64))
        self._fan_in = max(2, memory // (self._batch_bytes * MERGE_COPIES))
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._in_memory: _SortedRows | None = None
        self._spill: SpillFile | None = None
        self._runs: list[_Run] = []
        self.spills: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, later in source order than all before.

        Raises:
            RepeatedKeyError: the rows in memory had to be sorted, and repeat a key.
        """
        if self._in_memory is not None:
            raise RuntimeError("rows cannot be added after sorted_batches")
        self._pending.append(batch)
        self._pending_bytes += _bytes_held(batch)
        if self._pending_bytes >= self._limit:
            self._spill_rows(self._take_rows())

    def would_spill(self, batch: pa.RecordBatch) -> bool:
        """Return whether rows are in memory that would be spilled if these were added."""
        return bool(self._pending) and self._pending_bytes + _bytes_held(batch) >= self._limit

    def sorted_batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition in strictly ascending key order; may be called again.

        Raises:
            RepeatedKeyError: a key is repeated and the rule is `error`.
        """
        rest = self._sort_rest()
        if self._spill is None:
            return rest.batches(partition, self._batch_bytes)
        return merge([self._spill.read(run.batches[partition]) for run in self._runs], self._keep)

    def rows_at_most(self, partition: int) -> int:
        """Return how many rows one partition can have: keys that runs share are counted in each.

        Raises:
            RepeatedKeyError: a key is repeated and the rule is `error`.
        """
        rest = self._sort_rest()
        if self._spill is None:
            return int(rest.starts[partition + 1] - rest.starts[partition])
        return sum(run.rows[partition] for run in self._runs)

    def _sort_rest(self) -> _SortedRows:
        """Sort what is in memory, and spill it if anything was: no more rows may come."""
        if self._in_memory is None:
            sorted_rows = self._take_rows()
            if self._spill is not None:
                self._spill_rows(sorted_rows)
                sorted_rows = _SortedRows(None, None, np.zeros(self._partitions + 1, np.int64))
                self._spill.end()
                self._reduce_runs()
            self._in_memory = sorted_rows
        return self._in_memory

    def close(self) -> None:
        """Free memory and temporary files."""
        self._pending.clear()
        self._runs.clear()
        if self._spill is not None:
            self._spill.close()

    def __enter__(self) -> RunSorter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _take_rows(self) -> _SortedRows:
        """Sort what is pending into partitions."""
        if not self._pending:
            return _SortedRows(None, None, np.zeros(self._partitions + 1, np.int64))
        held = _Rows(self._pending)
        self._pending = []
        self._pending_bytes = 0
        order = held.winning_order(self._keep)
        if self._partition is None or self._partitions == 1:
            rows = held.num_rows if order is None else len(order)
            return _SortedRows(held, order, np.array([0, rows], np.int64))
        partitions = self._partition(held.keys)
        if order is not None:
            partitions = partitions[order]
        by_partition = np.argsort(partitions, kind="stable")
        counts = np.bincount(partitions, minlength=self._partitions)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return _SortedRows(held, by_partition if order is None else order[by_partition], starts)

    def _spill_rows(self, sorted_rows: _SortedRows) -> None:
        if sorted_rows.rows is None:
            return
        if self._spill is None:
            self._spill = SpillFile(self._folder, sorted_rows.rows.schema)
        # Rows that come in key order continue the run before: a sorted source is one run.
        if not (self._runs and sorted_rows.follows(self._runs[-1])):
            self._runs.append(_Run.empty(self._partitions))
        run = self._runs[-1]
        for partition in range(self._partitions):
            for batch in sorted_rows.batches(partition, self._batch_bytes):
                run.append(partition, self._spill.append(batch), batch)
        self.spills += 1

    def _reduce_runs(self) -> None:
        """Merge neighbouring runs until all that are left can be merged at once."""
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
                            for piece in _pieces(batch, self._batch_bytes):
                                run.append(partition, target.append(piece), piece)
                    self._runs.append(run)
            finally:
                source.close()
            target.end()


@dataclass
class _Run:
    """Where the batches of one run are in the spill file, and where each partition ends."""

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


class _Rows:
    """Batches that count as one. Only keys are laid end to end: rows are taken where they are."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = list(batches)
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)]).tolist()
        self.schema: pa.Schema = batches[0].schema
        self.num_rows: int = self._starts[-1]
        self.nbytes: int = sum(batch.nbytes for batch in batches)
        self.keys = self._column("key")
        self._gather: list[Gather] | None = None

    def _column(self, name: str) -> pa.Array:
        return pa.concat_arrays([batch.column(name) for batch in self._batches])

    def winning_order(self, keep: Keep) -> Positions | None:
        """Return the positions of the rows to keep, in key order; None: all as they are.

        Raises:
            RepeatedKeyError: a key is repeated and `keep` is `error`.
        """
        if is_ascending(self.keys):
            return None
        rows, same = sort_keys(self.keys)
        order: Positions = rows.astype(np.int64)
        if same is None:
            return order
        if keep == "error":
            raise RepeatedKeyError(self.keys[int(order[np.argmax(same)])].as_py())
        ranks = self._column("rank").take(pa.array(order)) if keep == "max" else None
        return order[_winners(same, ranks, keep)]

    def sorted(self, keep: Keep) -> pa.RecordBatch:
        """Return all rows in ascending key order with repeats resolved."""
        order = self.winning_order(keep)
        return self.take(np.arange(self.num_rows) if order is None else order)

    def take(self, order: Positions) -> pa.RecordBatch:
        """Return the rows at these positions as one batch."""
        if self._gather is None:
            self._gather = [
                Gather([self.keys] if name == "key" else [b.column(name) for b in self._batches])
                for name in self.schema.names
            ]
        columns = [gather.take(order) for gather in self._gather]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def between(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from `start` to `stop` as they are."""
        at = bisect.bisect_right(self._starts, start) - 1
        while self._starts[at] < stop:
            first, end = (min(max(edge, start), stop) for edge in self._starts[at : at + 2])
            yield self._batches[at].slice(first - self._starts[at], end - first)
            at += 1


@dataclass
class _SortedRows:
    """Rows in memory with the order in which they leave: partition p is order[starts[p:p+2]]."""

    rows: _Rows | None
    order: Positions | None
    starts: Positions

    def batches(self, partition: int, size: int) -> Iterator[pa.RecordBatch]:
        start, stop = int(self.starts[partition]), int(self.starts[partition + 1])
        if self.rows is None or start == stop:
            return
        count = max(1, self.rows.num_rows * size // max(1, self.rows.nbytes))
        for i in range(start, stop, count):
            end = min(i + count, stop)
            if self.order is None:
                parts = self.rows.between(i, end)
            else:
                parts = iter([self.rows.take(self.order[i:end])])
            for part in parts:
                yield from _pieces(part, size)

    def follows(self, run: _Run) -> bool:
        if self.rows is None:
            return True
        for last, start, stop in zip(run.last_keys, self.starts, self.starts[1:], strict=False):
            first = int(start) if self.order is None or start == stop else int(self.order[start])
            if last is not None and start < stop and self.rows.keys[first].as_py() <= last:
                return False
        return True


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
        self._file.close()


@dataclass
class _Head:
    """The batch in hand of one run in a merge; its keys always ascend."""

    run: Iterator[pa.RecordBatch]
    reverse: bool
    batch: pa.RecordBatch = field(init=False)
    edge: bytes = field(init=False, default=b"")

    def load(self) -> bool:
        """Take the next batch that has rows; False at the end of the run."""
        for batch in self.run:
            if batch.num_rows:
                self.batch = _flipped(batch) if self.reverse else batch
                self.edge = _key(self.batch, 0 if self.reverse else -1)
                return True
        return False

    def take_to(self, bound: bytes) -> pa.RecordBatch:
        """Take the rows from the run's near end to the bound, which is included."""
        keys = self.batch.column("key")
        count = int(upper_bound(keys, bound))
        if not self.reverse:
            taken, self.batch = self.batch.slice(0, count), self.batch.slice(count)
            return taken
        if count and keys[count - 1].as_py() == bound:
            count -= 1
        taken, self.batch = self.batch.slice(count), self.batch.slice(0, count)
        return taken


def _bytes_held(batch: pa.RecordBatch) -> int:
    """Return what a batch takes of the budget until it is sorted."""
    return int(batch.nbytes + batch.column("key").nbytes + _ROW_OVERHEAD * batch.num_rows)


def _pieces(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch whose rows differ much in size until each piece is near the wanted size."""
    if batch.nbytes <= 2 * size or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half), size)
    yield from _pieces(batch.slice(half), size)


def _flipped(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(np.arange(batch.num_rows)[::-1]))


def _key(batch: pa.RecordBatch, i: int) -> bytes:
    return bytes(batch.column("key")[i].as_py())
