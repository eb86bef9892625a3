"""Sort rows by their positions, range by range, within a memory budget.

`runs` merges rows that are bytes. Here rows are columns, and they are compared only within a range
that fits into memory. This needs a sample of the positions before the first row. Rows that do not
fit are spilled once, cut at the ends of ranges. A range that is larger than the sample predicted is
spilled once more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.sorting._sort import Scatter, argsort, upper_bound
from lookupstore.sorting.pieces import Piece, PieceFile
from lookupstore.sorting.shared_values import SharedValues

#: Size of the sample of positions for cutting a range once more.
_SAMPLE = 1 << 16
# Most rows that are yielded at once, and most bytes of them, approximately.
_ROWS, _BYTES = 1 << 16, 8 << 20
# Rows that are sorted at once take the budget divided by this: they are held twice, and yielded.
_SHARE = 4
# Most bytes of rows in one array: offsets of texts have 32 bits.
_MOST = 1 << 30
# Bytes of rows to spill at once: so many bytes stay in caches and need no new memory each time.
# With many ranges it is more, as small pieces are slow.
_AT_ONCE, _PIECE_BYTES = 16 << 20, 32 << 10


def ends_of(positions: pa.Array, count: int) -> list[bytes]:
    """Return the ends of ranges with about the same number of rows each.

    Args:
        positions: Positions of a sample of the rows: byte strings of one width, which are compared.
        count: Number of ranges. There are fewer if one position has more rows than a range.

    Returns:
        Last position of each range but the final one, ascending. Rows after all of them are one
        more range.

    >>> ends_of(pa.array([b"a", b"b", b"c", b"d"], pa.binary(1)), 2)
    [b'b']
    """
    return list(dict.fromkeys(_ends(positions, count)))


def cuts_of(positions: pa.Array, count: int) -> list[bytes]:
    """Return ends of ranges, with a range for each position that has more rows than a range.

    The rows of such a range need no sorting.

    >>> cuts_of(pa.array([b"a", b"c", b"c", b"c"], pa.binary(1)), 4)
    [b'a', b'b', b'c']
    """
    ends = _ends(positions, count)
    alone = {_before(end) for end, other in pairwise(ends) if end == other}
    return sorted({*ends, *alone} - {b""})


def _ends(positions: pa.Array, count: int) -> list[bytes]:
    order = argsort(positions)
    last = np.arange(1, count) * len(order) // count - 1
    ends: list[bytes] = positions.take(pa.array(order[last[last >= 0]])).to_pylist()
    return ends


class EvenRanges:
    """Ranges of positions with about the same number of rows, for several tasks.

    A position with more rows than a range is spread over several ranges.

    Args:
        positions: Positions of a sample of the rows: byte strings of one width, which are compared.
        count: Number of ranges.

    >>> positions = pa.array([b"a", b"c", b"c", b"c"], pa.binary(1))
    >>> EvenRanges(positions, 4).numbers(positions, np.array([0, 0, 0.4, 0.8])).tolist()
    [0, 1, 2, 3]
    """

    def __init__(self, positions: pa.Array, count: int) -> None:
        ends = _ends(positions, count)
        firsts = [at for at, end in enumerate(ends) if not at or end != ends[at - 1]]
        self._ends = [ends[at] for at in firsts]
        # Numbers of the ranges up to each end, and of the one after the last end.
        self._numbers = np.array([*firsts, len(ends)], np.int32)
        # Rows of the sample before each range, as a share of all rows of the sample.
        rows = max(1, len(positions))
        starts = np.arange(1, count) * rows // count
        self._starts = starts[starts > 0] / rows
        #: Positions with more rows than a range: shares of the sample before them, and up to them.
        self._spread: dict[bytes, tuple[float, float]] = {}
        ascending = positions.take(pa.array(argsort(positions)))
        for end in self._ends:
            before, after = _equal(ascending, end)
            if (after - before) * count > rows:
                self._spread[end] = before / rows, after / rows

    def numbers(self, positions: pa.Array, where: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
        """Return the number of the range of each row.

        Args:
            positions: Positions of the rows.
            where: Numbers from 0 to 1, one for each row, evenly distributed. Rows of one position
                are spread over several ranges by them.
        """
        order = argsort(positions)
        ascending = positions.take(pa.array(order))
        cuts = [0, *(int(upper_bound(ascending, end)) for end in self._ends), len(order)]
        found = np.repeat(self._numbers, np.diff(cuts))
        for end, (before, after) in self._spread.items():
            start, stop = _equal(ascending, end)
            places = before + where[order[start:stop]] * (after - before)
            found[start:stop] = np.searchsorted(self._starts, places, "right")
        numbers = np.empty(len(order), np.int32)
        numbers[order] = found
        return numbers


@dataclass
class _Range:
    """The known facts about the rows of a range.

    Attributes:
        rows: Number of rows.
        mixed: Whether the positions of the rows differ.
        first: Position of the first row, if rows were spilled. None: no row was spilled.
        bytes: Size of the spilled rows, in bytes.
        pieces: Pieces of the spilled rows, in the order in which they were added.
    """

    rows: int = 0
    mixed: bool = False
    first: bytes | None = None
    bytes: int = 0
    pieces: list[Piece] = field(default_factory=list)

    def add(self, later: _Range) -> None:
        """Add the facts about rows that were added later."""
        if self.rows and later.rows:
            self.mixed |= self.first != later.first
        self.mixed |= later.mixed
        self.first = self.first if self.rows else later.first
        self.rows += later.rows
        self.bytes += later.bytes
        self.pieces += later.pieces


@dataclass(frozen=True, eq=False)
class _Scattered:
    """Rows, their positions, and for each range its rows and whether positions differ."""

    rows: pa.RecordBatch
    positions: pa.Array
    ranges: list[tuple[npt.NDArray[np.uint32], bool]]


class RangeSorter:
    """A stable sorter of rows by their positions, in ranges of positions.

    `add` adds rows, and `batches` yields them, range by range. Rows that do not fit into memory are
    kept in an unnamed temporary file.

    Args:
        cuts: Ends of the ranges, as returned by `cuts_of`: ascending positions.
        by: Names of the columns from which positions are made.
        positions: Function that returns the positions of rows, in several threads at once. It is
            called twice for each row, which costs less than keeping its results.
        schema: Schema of the rows, without dictionaries. Text columns may nevertheless be added as
            dictionaries. Such a column is yielded as dictionaries if all of its rows were, and its
            distinct values are few.
        memory: Budget for held rows, in bytes.
        folder: Folder to spill to. An `OSError` of spilling, such as a full disk, names it.
        threads: Number of threads that spill at the same time, and that may read ranges afterwards.

    >>> schema, order = pa.schema({"n": pa.binary()}), lambda rows: rows.column("n")
    >>> with RangeSorter([b"b"], ["n"], order, schema, memory=1 << 20, folder=".") as rows:
    ...     rows.add(pa.record_batch({"n": [b"c", b"a", b"b"]}))
    ...     rows.end()
    ...     [[one for batch in rows.batches(at) for one in batch["n"].to_pylist()] for at in (0, 1)]
    [[b'a', b'b'], [b'c']]
    """

    def __init__(
        self,
        cuts: Sequence[bytes],
        by: Sequence[str],
        positions: Callable[[pa.RecordBatch], pa.Array],
        schema: pa.Schema,
        *,
        memory: int,
        folder: str,
        threads: int = 1,
    ) -> None:
        self._scatter = Scatter(list(cuts))
        self._by = list(by)
        self._positions = positions
        self._schema = schema
        self._memory_of_range = memory // threads
        self._folder = folder
        self._most = max(1, min(_MOST, memory // _SHARE))
        self._most_of_range = max(1, min(_MOST, self._memory_of_range // _SHARE))
        # Each thread spills rows while others arrive: together no more than may wait.
        wanted = max(min(_AT_ONCE, self._most // (threads + 1)), _PIECE_BYTES * (len(cuts) + 1))
        self._most_at_once = max(1, min(self._most, wanted))
        self._threads = max(1, min(threads, self._most // self._most_at_once - 1))
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._ranges = [_Range() for _ in range(len(cuts) + 1)]
        # Values of columns that were added as dictionaries; names of columns that were added
        # otherwise.
        self._values: dict[str, SharedValues] = {}
        self._plain: set[str] = set()
        self._held: _Scattered | None = None
        self._file: PieceFile | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._spilling: deque[Future[list[_Range]]] = deque()
        # Several threads may read ranges.
        self._lock = threading.Lock()
        #: Number of rows of each range, after `end`.
        self.rows: list[int] = []
        #: Names of the columns that are yielded as dictionaries, after `end`.
        self.shared: frozenset[str] = frozenset()
        #: Bytes of spilled rows, as in memory; those of ranges that are cut again count twice.
        self.spilled_bytes: int = 0

    def __enter__(self) -> RangeSorter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            OSError: If the folder is full, or cannot be written to.
        """
        names = self._schema.names
        columns = [self._numbered(name, rows.column(name)) for name in names]
        batch = pa.RecordBatch.from_arrays(columns, names)
        most = self._most if self._file is None else self._most_at_once
        if self._waiting and self._waiting_bytes + batch.nbytes > most:
            self._spill_waiting()
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= most:
            self._spill_waiting()

    def end(self) -> None:
        """End the adding of rows, and set `rows` to the number of rows of each range.

        Raises:
            OSError: If the folder is full, or cannot be written to.
        """
        if self._file is not None:
            self._spill_waiting()
            while self._spilling:
                self._note(self._spilling.popleft().result())
        elif self._waiting:
            self._held = self._scattered(self._waiting)
            self._note([_Range(len(order), mixed) for order, mixed in self._held.ranges])
        self._waiting = []
        self.rows = [one.rows for one in self._ranges]
        self.shared = frozenset(self._values.keys() - self._plain)

    def close(self) -> None:
        """Free memory and temporary files."""
        self._waiting = []
        self._held = None
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._file is not None:
            self._file.close()

    def batches(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range in order.

        Several ranges may be read at the same time.

        Raises:
            OSError: If the folder is full, or cannot be read.
        """
        one = self._ranges[number]
        if not one.rows:
            return
        if self._held is not None:
            order, mixed = self._held.ranges[number]
            if mixed:
                order = order[argsort(self._held.positions.take(pa.array(order)))]
            yield from self._ordered(self._held.rows, order)
        elif not one.mixed:
            for batch in self._read(one):
                yield self._restored(batch)
        elif one.bytes > self._most_of_range:
            yield from self._cut_again(one)
        else:
            rows = _joined(self._alike(list(self._read(one))))
            yield from self._ordered(rows, argsort(self._positions_of(rows)))

    def _cut_again(self, one: _Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range that is too large, after cutting it into smaller ones."""
        step = max(1, one.rows // _SAMPLE)
        sample = [
            self._positions_of(batch.take(pa.array(np.arange(0, batch.num_rows, step))))
            for batch in self._read(one)
        ]
        parts = 2 * one.bytes // self._most_of_range + 1
        positions = pa.concat_arrays(sample)
        # The positions of the sample may all be the same; other rows are before or after them.
        cuts = cuts_of(positions, parts)
        cuts = sorted({*cuts, _before(cuts[0]), cuts[-1]} - {b""})
        memory, folder = self._memory_of_range, self._folder
        with RangeSorter(
            cuts, self._by, self._positions, self._schema, memory=memory, folder=folder
        ) as sorter:
            for batch in self._read(one):
                sorter.add(self._restored(batch))
            sorter.end()
            for part in range(len(sorter.rows)):
                yield from sorter.batches(part)
            with self._lock:
                self.spilled_bytes += sorter.spilled_bytes

    # ---- columns with numbers in the place of values, while rows wait ----------------------------

    def _numbered(self, name: str, column: pa.Array) -> pa.Array:
        """Return numbers for the values of a text column that is a dictionary."""
        if not pa.types.is_dictionary(column.type):
            self._plain.add(name)
            return column
        if name not in self._plain and column.type.value_type == pa.string():
            values = self._values.setdefault(name, SharedValues())
            numbers = values.numbers(column)
            if numbers is not None:
                return numbers
        self._plain.add(name)
        return column.dictionary_decode()

    def _alike(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Return batches with values instead of numbers, if some of them have values."""
        if all(one.schema == batches[0].schema for one in batches):
            return batches
        return [self._valued(one, self._schema.names, frozenset()) for one in batches]

    def _restored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows in their form in batches that are yielded."""
        return self._valued(rows, self._schema.names, self.shared)

    def _positions_of(self, rows: pa.RecordBatch) -> pa.Array:
        return self._positions(self._valued(rows, self._by, frozenset()))

    def _valued(
        self, rows: pa.RecordBatch, names: Sequence[str], shared: frozenset[str]
    ) -> pa.RecordBatch:
        """Return columns with values or, if they are shared, dictionaries."""
        columns = []
        for name in names:
            column = rows.column(name)
            if column.type != self._schema.field(name).type:
                values = self._values[name]
                column = values.dictionary(column) if name in shared else values.values(column)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, list(names))

    def _ordered(
        self, rows: pa.RecordBatch, order: npt.NDArray[np.uint32]
    ) -> Iterator[pa.RecordBatch]:
        for batch in _taken(rows, order):
            yield self._restored(batch)

    # ---- spilling --------------------------------------------------------------------------------

    def _spill_waiting(self) -> None:
        """Spill all waiting rows, in parts of limited size."""
        if self._file is None:
            self._file = PieceFile(self._folder)
            if self._threads > 1:
                self._pool = ThreadPoolExecutor(self._threads, "lookupstore-sort")
        waiting, self._waiting = self._waiting[::-1], []
        self._waiting_bytes = 0
        while waiting:
            some = [waiting.pop()]
            nbytes = some[0].nbytes
            while waiting and (nbytes := nbytes + waiting[-1].nbytes) <= self._most_at_once:
                some.append(waiting.pop())
            if self._pool is None:
                self._note(self._spilled(self._file, some))
                continue
            if len(self._spilling) == self._threads:
                self._note(self._spilling.popleft().result())
            self._spilling.append(self._pool.submit(self._spilled, self._file, some))

    def _spilled(self, file: PieceFile, batches: list[pa.RecordBatch]) -> list[_Range]:
        """Spill rows, and return the facts about those of each range."""
        scattered = self._scattered(batches)
        batches.clear()
        found = []
        for order, mixed in scattered.ranges:
            one = _Range(len(order), mixed)
            if len(order):
                one.first = scattered.positions[int(order[0])].as_py()
            for piece in _taken(scattered.rows, order):
                one.pieces.append(file.append(piece))
                one.bytes += piece.nbytes
            found.append(one)
        return found

    def _scattered(self, batches: list[pa.RecordBatch]) -> _Scattered:
        rows = _joined(self._alike(batches))
        positions = self._positions_of(rows)
        order, ends, mixed = self._scatter.rows(positions)
        parts = [order[start:stop] for start, stop in pairwise(ends.tolist())]
        return _Scattered(rows, positions, list(zip(parts, mixed.tolist(), strict=True)))

    def _note(self, spilled: Sequence[_Range]) -> None:
        for one, more in zip(self._ranges, spilled, strict=True):
            one.add(more)
            self.spilled_bytes += more.bytes

    def _read(self, one: _Range) -> Iterator[pa.RecordBatch]:
        assert self._file is not None
        for piece in one.pieces:
            yield self._file.read(piece)


def _equal(ascending: pa.Array, position: bytes) -> tuple[int, int]:
    """Return the first row of a position, and the row after its last one."""
    before = _before(position)
    start = int(upper_bound(ascending, before)) if before else 0
    return start, int(upper_bound(ascending, position))


def _before(position: bytes) -> bytes:
    """Return the position before another one.

    Empty: There is none.
    """
    number = int.from_bytes(position, "big")
    return (number - 1).to_bytes(len(position), "big") if number else b""


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one, a column at a time."""
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([one.column(at) for one in batches])
        for at in range(batches[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def _taken(rows: pa.RecordBatch, order: npt.NDArray[np.uint32]) -> Iterator[pa.RecordBatch]:
    """Yield rows in an order, a few at a time."""
    step = min(_ROWS, max(1, _BYTES * rows.num_rows // max(1, rows.nbytes)))
    for start in range(0, len(order), step):
        yield rows.take(pa.array(order[start : start + step]))
