"""Tag: find the base file, and the row in it, where each of many keys is.

Source: org.apache.hudi.index.HoodieIndex (tagLocation), HoodieIndexUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import as_binary
from lookupstore.errors import DuplicateKeyError, FormatError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.index.funnel import Funnel, Tally
from lookupstore.hudi.index.interface import KeyIndex, PreparedIndex
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.keys.duplicate_key import duplicate_key_error
from lookupstore.hudi.view import TableView
from lookupstore.progress import Advance, not_shown

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tagged:
    """Where keys are.

    Attributes:
        slices: base files that were looked at, by partition path and file id.
        slice_numbers: number of the slice that has each key, int32; -1: none has it.
        positions: row of each key in that base file, int64; -1: none has it.
        funnel: what was looked at.
        rows: number of the key that each of these is said of, first of all keys, then of those
            that the table has again; None: it has each once, and they are said of all in order.
    """

    slices: tuple[FileSlice, ...]
    slice_numbers: npt.NDArray[np.int32]
    positions: Rows
    funnel: Funnel
    rows: Rows | None = None

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """Return whether a base file has each key."""
        found: npt.NDArray[np.bool_] = self.slice_numbers >= 0
        return found


def tag(
    view: TableView,
    partitions: pa.Array | pa.ChunkedArray,
    keys: pa.Array | pa.ChunkedArray,
    *,
    index: str | KeyIndex = "bloom",
    slices: Sequence[FileSlice] | None = None,
    repeated: bool = False,
    bar: Callable[[int], Advance] | None = None,
) -> Tagged:
    """Find the current base file, and the row in it, of each key.

    Args:
        view: the table.
        partitions: partition path of each key, string or dictionary of strings, no nulls; empty
            text if the table is not partitioned.
        keys: record keys, string or binary, no nulls; repeated ones are found each time.
        index: name of an index, see `lookupstore.hudi.index.names`, or one that was made.
        slices: current base files, by partition path and file id, of who knows them; None: they
            are listed.
        repeated: whether every row of a key counts that the table has more than once, with an index
            for all partitions also in several of them.
        bar: opens a progress bar of that many files; None: nobody would see it.

    Raises:
        ValueError: a key is null or empty, a partition is null, or there are more of the ones than
            of the others.
        FormatError: base files have no record keys; or, unless `repeated`, an index for all
            partitions found a key in two of them.
        DuplicateKeyError: a key is in several rows of a partition, unless `repeated`.
        CorruptionError: a base file is damaged.
        StaleStoreError: a base file is gone: a clean came between.
    """
    chosen = index_of(index)
    if not view.options.meta_fields:
        raise FormatError(f"{view.location.uri}: base files have no record keys")
    column = _checked(keys)
    codes, paths = _coded(partitions, len(column))
    tally = Tally()
    if slices is None:
        with tally.step("list"):
            slices = [group.current for group in view.groups(None)]
    if chosen.everywhere:
        files = list(slices)
        tasks = [_Task(0, files, None)] if len(column) else []
    else:
        files, tasks = _tasks(slices, codes, paths)
    tally.add(
        keys=len(column),
        partitions=len({file.group.partition for file in files}),
        files=len(files),
        pairs=sum(
            len(task.files) * (len(column) if task.rows is None else len(task.rows))
            for task in tasks
        ),
    )
    if isinstance(chosen, PreparedIndex):
        chosen.prepare(view, files, tally)
    advance = not_shown if bar is None else bar(len(files))
    places = _Places(view, files, column, repeated)
    for task in tasks:
        wanted = column if task.rows is None else column.take(pa.array(task.rows))
        looked_at = 0
        for hits in chosen.locate(view, task.files, wanted, tally):
            rows = hits.rows if task.rows is None else task.rows[hits.rows]
            places.put(task.first + hits.file, rows, hits.positions)
            looked_at += 1
            advance(1)
        advance(len(task.files) - looked_at)  # the others have none of these keys
    tally.add(found=int(np.count_nonzero(places.numbers >= 0)))
    return places.tagged(tally.funnel())


@dataclass(frozen=True, eq=False)
class _Task:
    """Files, and the keys that are looked for in them.

    Attributes:
        first: number of the first file.
        files: that are looked at.
        rows: of the keys; None: all.
    """

    first: int
    files: Sequence[FileSlice]
    rows: Rows | None


class _Places:
    """Where keys are, as far as it has been found."""

    def __init__(
        self, view: TableView, slices: Sequence[FileSlice], keys: pa.Array, repeated: bool
    ) -> None:
        self._view = view
        self._slices = slices
        self._keys = keys
        self._repeated = repeated
        self._more: list[tuple[Rows, npt.NDArray[np.int32], Rows]] = []
        self.numbers = np.full(len(keys), -1, np.int32)
        self.positions = np.full(len(keys), -1, np.int64)

    def put(self, number: int, rows: Rows, positions: Rows) -> None:
        elsewhere = self.numbers[rows] >= 0
        if elsewhere.any() and not self._repeated:
            raise self._in_two_error(int(rows[np.argmax(elsewhere)]), number)
        again = elsewhere.copy()
        again[1:] |= rows[1:] == rows[:-1]
        if again.any():
            if not self._repeated:
                raise self._twice_error(int(np.argmax(again)), number, rows, positions)
            numbers = np.full(np.count_nonzero(again), number, np.int32)
            self._more.append((rows[again], numbers, positions[again]))
            rows, positions = rows[~again], positions[~again]
        self.numbers[rows] = number
        self.positions[rows] = positions

    def tagged(self, funnel: Funnel) -> Tagged:
        """Return what has been found."""
        if not self._more:
            return Tagged(tuple(self._slices), self.numbers, self.positions, funnel)
        rows, numbers, positions = map(np.concatenate, zip(*self._more, strict=True))
        return Tagged(
            tuple(self._slices),
            np.concatenate([self.numbers, numbers]),
            np.concatenate([self.positions, positions]),
            funnel,
            np.concatenate([np.arange(len(self._keys)), rows]),
        )

    def _twice_error(self, at: int, number: int, rows: Rows, positions: Rows) -> DuplicateKeyError:
        path = self._view.location.show(self._slices[number].path)
        where = f"rows {positions[at - 1]} and {positions[at]} of {path}"
        return duplicate_key_error(self._shown(int(rows[at])), where)

    def _in_two_error(self, row: int, number: int) -> DuplicateKeyError | FormatError:
        one, other = self._slices[int(self.numbers[row])], self._slices[number]
        show = self._view.location.show
        if one.group.partition == other.group.partition:
            where = f"{show(one.path)} and in {show(other.path)}"
            return duplicate_key_error(self._shown(row), where)
        return FormatError(
            f"the record key {self._shown(row)} is in {show(one.path)} and in {show(other.path)}: "
            "in this table a key is unique only within its partition; pass index='bloom', and the "
            "partition's columns"
        )

    def _shown(self, row: int) -> str:
        return repr(self._keys[row].as_py().decode("utf-8", "replace"))


def _checked(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = as_binary(keys).cast(pa.large_binary())
    if column.null_count:
        row = column.is_valid().index(False).as_py()
        raise ValueError(f"keys[{row}] is null; a record key is a string")
    offsets = np.frombuffer(column.buffers()[1] or b"", np.int64)
    sizes = np.diff(offsets[column.offset : column.offset + len(column) + 1])
    if not sizes.all():
        row = int(np.argmin(sizes))
        raise ValueError(f"keys[{row}] is empty; a record key has at least one byte")
    return column


def _coded(
    partitions: pa.Array | pa.ChunkedArray, count: int
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the different partitions, and for each key which one it is of."""
    if len(partitions) != count:
        raise ValueError(f"partitions has {len(partitions)} rows, keys {count}")
    if partitions.null_count:
        raise ValueError("partitions contains a null; every key is in a partition")
    if not pa.types.is_dictionary(partitions.type):
        partitions = partitions.dictionary_encode()
    if isinstance(partitions, pa.ChunkedArray):
        partitions = partitions.unify_dictionaries().combine_chunks()
    if isinstance(partitions, pa.ChunkedArray):  # what pyarrow makes of no chunks
        return np.zeros(0, np.int64), []
    paths = partitions.dictionary.to_pylist()
    if None in paths:
        raise ValueError("partitions contains a null; every key is in a partition")
    numbers = {path: number for number, path in enumerate(dict.fromkeys(paths))}
    of_path = np.array([numbers[path] for path in paths], np.int64)
    codes = partitions.indices.to_numpy(zero_copy_only=False)
    return of_path[codes] if count else np.zeros(0, np.int64), list(numbers)


def _tasks(
    slices: Sequence[FileSlice], codes: npt.NDArray[np.int64], paths: Sequence[str]
) -> tuple[list[FileSlice], list[_Task]]:
    """Return the files of the keys' partitions, and the keys for each."""
    numbers = {path: number for number, path in enumerate(paths)}
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(paths) + 1))
    used: list[FileSlice] = []
    tasks = []
    for partition, files in _by_partition(slices):
        number = numbers.get(partition)
        if number is None or starts[number] == starts[number + 1]:
            continue
        rows = None
        if len(paths) > 1:
            rows = order[starts[number] : starts[number + 1]]
        tasks.append(_Task(len(used), files, rows))
        used += files
    return used, tasks


def _by_partition(slices: Sequence[FileSlice]) -> Iterator[tuple[str, list[FileSlice]]]:
    for partition, files in groupby(slices, lambda file: file.group.partition):
        yield partition, list(files)
