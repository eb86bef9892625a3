"""Sort rows of byte keys in memory: sort runs of a few megabytes, and merge them.

A sort of all rows at once would access memory in random order, several times. Therefore a few
megabytes of added rows, which fit into caches, are sorted as a run. At the end, ranges of keys are
merged from all runs, one after the other. A sample of the keys cuts the ranges, so that they are
small whatever the keys are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.sorting._merge import SortedRuns
from lookupstore.sorting._sort import Gather, argsort, is_ascending, sort_keys
from lookupstore.sorting.ahead import done_ahead

# Rule for a key that occurs more than once.
Keep = Literal["error", "first", "last", "max"]
# Function that returns the partition (uint32) of each key of a binary array.
Partition = Callable[[pa.Array], npt.NDArray[np.uint32]]
Positions = npt.NDArray[np.int64]
Order = npt.NDArray[np.uint32]
# Start and end of a range of keys in each run.
_Range = tuple[Positions, Positions]

#: Bytes of rows that are sorted at once.
RUN_BYTES = 2 << 20
# Number of sampled keys of a run, for as many bytes of its rows as a range should have.
_SAMPLES = 32
# Rows are held in small pages: whole huge pages are the last that a busy system has left.
_POOL = pa.system_memory_pool()


class RepeatedKeyError(Exception):
    """A repeated key under the rule `error`.

    `key` contains its bytes.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        super().__init__(key)


class RowBatches:
    """Batches that count as one.

    Only their keys are copied together.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = list(batches)
        self.schema: pa.Schema = batches[0].schema
        self.keys: pa.Array = self._column("key")
        self.num_rows: int = len(self.keys)

    def _column(self, name: str) -> pa.Array:
        if len(self._batches) == 1:
            return self._batches[0].column(name)
        return pa.concat_arrays([batch.column(name) for batch in self._batches])

    def winning_order(self, keep: Keep) -> Positions | None:
        """Return the positions of the rows to keep, in key order.

        None: Keep all rows in their present order.

        Raises:
            RepeatedKeyError: If a key is repeated and `keep` is `error`.
        """
        if is_ascending(self.keys):
            return None
        order, same = sort_keys(self.keys)
        if same is not None:
            order = winners(
                order,
                same,
                keep,
                lambda at: self.keys[at].as_py(),
                lambda rows: self._column("rank").take(pa.array(rows)),
            )
        return order.astype(np.int64)

    def sorted(self, keep: Keep) -> pa.RecordBatch:
        """Return all rows in ascending key order with repeats resolved."""
        order = self.winning_order(keep)
        return self.take(np.arange(self.num_rows) if order is None else order)

    def take(self, order: Positions, pool: pa.MemoryPool | None = None) -> pa.RecordBatch:
        """Return the rows at these positions as one batch, in memory of a pool."""
        columns = []
        for name in self.schema.names:
            arrays = [self.keys] if name == "key" else [b.column(name) for b in self._batches]
            columns.append(Gather(arrays).take(order, pool))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def winners(
    order: Order,
    same: npt.NDArray[np.bool_],
    keep: Keep,
    key: Callable[[int], bytes],
    ranks: Callable[[Order], pa.Array],
) -> Order:
    """Return the rows of an order that are kept.

    Args:
        order: Numbers of rows, in the order of their keys.
        same: Whether each of these rows repeats the key before.
        keep: Rule for repeated keys.
        key: Function that returns the key of a row.
        ranks: Function that returns the ranks of rows. It is called only for the rule `max`.

    Raises:
        RepeatedKeyError: If a key is repeated and `keep` is `error`.
    """
    if keep == "error":
        raise RepeatedKeyError(key(int(order[np.argmax(same)])))
    if keep == "first":
        return order[~same]
    ends = np.empty_like(same)
    ends[:-1] = ~same[1:]
    ends[-1] = True
    if keep == "last":
        return order[ends]
    # Greatest rank of each group of equal keys; of equal ranks the later row. Only rows of groups
    # with repeats are sorted, by rank and then (stably) by group: the last of a group wins.
    group = np.cumsum(~same)
    repeated = np.flatnonzero(same | ~ends)
    by_rank = repeated[argsort(ranks(order[repeated]))]
    by_group = by_rank[np.argsort(group[by_rank], kind="stable")]
    last = np.empty(len(by_group), dtype=bool)
    last[:-1] = group[by_group[1:]] != group[by_group[:-1]]
    last[-1] = True
    alone = np.flatnonzero(ends & ~same)
    greatest: Order = order[np.sort(np.concatenate([alone, by_group[last]]))]
    return greatest


@dataclass(frozen=True)
class _Run:
    """Sorted rows, with a sample of their keys.

    Partition p begins at starts[p].

    `lengths` contains the lengths of the added batches, if the rows were added in this order.
    """

    rows: pa.RecordBatch
    lengths: list[int]
    starts: Positions
    sample: pa.Array
    sampled: Positions  # the partition of each key of the sample


class HeldRows:
    """Rows in memory, which are read by partition in key order, with repeats resolved.

    `add` adds rows in source order, and `end` ends the adding. Then several threads may read
    partitions at once.

    Args:
        keep: Rule for repeated keys.
        partitions: Number of partitions.
        partition: Function that returns the partition of each key. It is needed if there are
            several partitions.
        run_bytes: Size of the rows that are sorted at once, in bytes.
        batch_bytes: Approximate size of a batch that is read, in bytes.
        pool: Threads that sort in addition to the caller's. None: There are none.
        threads: Number of threads in the pool.

    Attributes:
        nbytes: Size of the added rows in bytes, including repeated ones. It decides when rows are
            spilled, which changes files, and therefore does not depend on threads.
    """

    def __init__(
        self,
        keep: Keep,
        partitions: int,
        partition: Partition | None,
        run_bytes: int,
        batch_bytes: int,
        pool: ThreadPoolExecutor | None,
        threads: int,
    ) -> None:
        self.nbytes: int = 0
        self._pool = pool
        self._threads = threads
        self._sorting: deque[Future[_Run]] = deque()
        self._keep = keep
        self._partitions = partitions
        self._partition = partition
        self._run_bytes = run_bytes
        self._batch_bytes = batch_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._runs: list[_Run] = []
        self._merged: SortedRuns | None = None
        self._starts = np.zeros((0, partitions + 1), np.int64)
        self._came_in_order = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            RepeatedKeyError: If the rows repeat a key of rows that were added shortly before.
        """
        if not batch.num_rows:
            return
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        self.nbytes += batch.nbytes
        if self._pending_bytes >= self._run_bytes:
            self._sort_pending()

    def end(self) -> None:
        """End the adding of rows.

        Raises:
            RepeatedKeyError: If the last rows repeat a key.
        """
        if self._pending:
            self._sort_pending()
        self._settle()
        if self._runs:
            names = self._names
            self._merged = SortedRuns([[run.rows.column(n) for n in names] for run in self._runs])
            self._starts = np.stack([run.starts for run in self._runs])
            self._came_in_order = self._partitions == 1 and all(
                run.lengths and (before is None or _key(before, -1) < _key(run, 0))
                for before, run in zip([None, *self._runs], self._runs, strict=False)
            )

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema of the rows.

        None: No row was added.
        """
        return self._runs[0].rows.schema if self._runs else None

    @property
    def _names(self) -> list[str]:
        """Return the names of the columns, with the key column first."""
        assert self.schema is not None
        return ["key", *(name for name in self.schema.names if name != "key")]

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition in ascending key order, `batch_bytes` at a time.

        Raises:
            RepeatedKeyError: If a key is repeated and the rule is `error`.
        """
        found = (
            self._as_they_came()
            if self._came_in_order
            else done_ahead(self._in_order, self._ranges(partition), self._threads)
        )
        for rows in found:
            yield from pieces(rows, self._batch_bytes)

    def _as_they_came(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in the batches in which they were added."""
        for run in self._runs:
            start = 0
            for length in run.lengths:
                yield run.rows.slice(start, length)
                start += length

    def count(self, partition: int) -> int:
        """Return the number of rows that `batches` yields for a partition.

        Raises:
            RepeatedKeyError: If a key is repeated and the rule is `error`.
        """
        if self._keep == "error" or len(self._runs) < 2:  # a merge drops no row
            return int((self._starts[:, partition + 1] - self._starts[:, partition]).sum())
        return sum(done_ahead(self._count, self._ranges(partition), self._threads))

    def _count(self, rows: _Range) -> int:
        """Return the number of distinct keys of a range."""
        starts, stops = rows
        _, same = self._sorted(starts, stops)
        return int((stops - starts).sum()) - (0 if same is None else int(np.count_nonzero(same)))

    def comes_after(self, last_keys: Sequence[bytes | None]) -> bool:
        """Return whether all rows of each partition are after its last key.

        None: The partition has no last key.
        """
        for partition, last in enumerate(last_keys):
            for run in self._runs if last is not None else ():
                start, stop = run.starts[partition : partition + 2].tolist()
                if start < stop and run.rows.column("key")[start].as_py() <= last:
                    return False
        return True

    def spread(self, partitions: int, partition: Partition) -> None:
        """Move all rows to other partitions, run by run, without more memory.

        Args:
            partitions: Number of partitions. Until now there was one, and `end` was not called.
            partition: Function that returns the partition of each key.
        """
        self._settle()
        self._partitions, self._partition = partitions, partition
        self._starts = np.zeros((0, partitions + 1), np.int64)
        runs, self._runs = deque(self._runs), []
        while runs:
            self._sort([runs.popleft().rows])

    def taken(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, run by run, and drop them.

        `end` must not have been called.
        """
        self._settle()
        runs, self._runs = deque(self._runs), []
        while runs:
            yield runs.popleft().rows
        yield from self._pending

    def _settle(self) -> None:
        """Wait for the runs that threads are sorting."""
        while self._sorting:
            self._runs.append(self._sorting.popleft().result())

    def _sort_pending(self) -> None:
        """Sort the pending rows as a run."""
        batches, self._pending, self._pending_bytes = self._pending, [], 0
        self._sort(batches)

    def _sort(self, batches: Sequence[pa.RecordBatch]) -> None:
        if self._pool is None:
            self._runs.append(self._run(batches))
            return
        self._sorting.append(self._pool.submit(self._run, batches))
        if len(self._sorting) > 2 * self._threads:
            self._runs.append(self._sorting.popleft().result())

    def _run(self, batches: Sequence[pa.RecordBatch]) -> _Run:
        """Return the rows of some batches in order."""
        held = RowBatches(batches)
        order = held.winning_order(self._keep)
        starts = np.array([0, held.num_rows if order is None else len(order)], np.int64)
        if self._partition is not None and self._partitions > 1:
            partitions = self._partition(held.keys)
            if order is not None:
                partitions = partitions[order]
            if self._partitions <= 1 << 16:
                partitions = partitions.astype(np.uint16)  # NumPy sorts these by digits
            by_partition = np.argsort(partitions, kind="stable")
            order = by_partition if order is None else order[by_partition]
            counts = np.bincount(partitions, minlength=self._partitions)
            starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = one_batch(batches) if order is None else held.take(order, _POOL)
        step = max(1, rows.num_rows * self._batch_bytes // max(1, rows.nbytes * _SAMPLES))
        at = np.arange(step // 2, rows.num_rows, step)
        sample = rows.column("key").take(pa.array(at))
        lengths = [batch.num_rows for batch in batches] if order is None else []
        return _Run(rows, lengths, starts, sample, np.searchsorted(starts, at, "right") - 1)

    def _ranges(self, partition: int) -> Iterator[_Range]:
        """Yield ranges of keys, in order: their beginning and end in every run."""
        if self._merged is None:
            return
        starts, ends = self._starts[:, partition], self._starts[:, partition + 1]
        starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
        for bound in self._bounds(partition):
            stops = self._merged.cut(starts, ends, bound)
            yield starts, stops
            starts = stops
        yield starts, ends

    def _bounds(self, partition: int) -> list[bytes]:
        """Return the greatest keys of all ranges of a partition but the last."""
        if len(self._runs) == 1:
            sample = self._runs[0].sample.filter(pa.array(self._runs[0].sampled == partition))
            order = np.arange(len(sample), dtype=np.uint32)
        else:
            chosen = [
                run.sample.filter(pa.array(run.sampled == partition))
                if self._partitions > 1
                else run.sample
                for run in self._runs
            ]
            sample = pa.concat_arrays(chosen)
            order = argsort(sample)
        bounds: list[bytes] = sample.take(pa.array(order[_SAMPLES - 1 :: _SAMPLES])).to_pylist()
        return list(dict.fromkeys(bounds))

    def _sorted(
        self, starts: Positions, stops: Positions
    ) -> tuple[Order | None, npt.NDArray[np.bool_] | None]:
        """Return the order of the rows of a range (None: sorted), and which repeat a key."""
        assert self._merged is not None
        if np.count_nonzero(stops - starts) < 2:
            return None, None
        order, same = self._merged.sort(starts, stops)
        return order, same

    def _in_order(self, rows: _Range) -> pa.RecordBatch:
        """Return the rows of a range in key order, repeats resolved."""
        assert self._merged is not None
        starts, stops = rows
        merged, names, schema = self._merged, self._names, self._runs[0].rows.schema
        order, same = self._sorted(starts, stops)
        if order is None:  # all rows are in one run
            at = int(np.argmax(stops - starts))
            return self._runs[at].rows.slice(starts[at], stops[at] - starts[at])
        if same is not None:
            order = winners(
                order,
                same,
                self._keep,
                lambda row: merged.take(starts, stops, np.array([row], np.uint32), 0)[0].as_py(),
                lambda ranked: merged.take(starts, stops, ranked, names.index("rank")),
            )
        columns = {name: merged.take(starts, stops, order, at) for at, name in enumerate(names)}
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _key(run: _Run, row: int) -> bytes:
    return bytes(run.rows.column("key")[row].as_py())


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of some batches as one."""
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays(parts) for parts in zip(*(b.columns for b in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def pieces(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Yield pieces of a batch near a size, even if its rows differ much in size."""
    if batch.nbytes <= 2 * size or batch.num_rows == 1:
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from pieces(batch.slice(0, half), size)
    yield from pieces(batch.slice(half), size)
