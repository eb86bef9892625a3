"""Tagging: find the base file of each key, and its row there.

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
    """The base file and row of each key.

    Attributes:
        slices: Base files that were searched, by partition path and file id.
        slice_numbers: Number of the base file that has each key, int32. -1: no file has the key.
        positions: Row of each key in that base file, int64. -1: no file has the key.
        funnel: Counts and times of each step.
        rows: Number of the key that each entry of `slice_numbers` and `positions` belongs to: first
            of all keys in order, then of the further rows of repeated keys. None: one entry for
            each key, in order.
    """

    slices: tuple[FileSlice, ...]
    slice_numbers: npt.NDArray[np.int32]
    positions: Rows
    funnel: Funnel
    rows: Rows | None = None

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """Return which keys have a base file."""
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
        view: Table with the keys.
        partitions: Partition path of each key, string or dictionary of strings, without nulls.
            Empty text if the table is not partitioned.
        keys: Record keys, string or binary, without nulls. Repeated keys are found each time.
        index: Name of an index, see `lookupstore.hudi.index.names`, or an index object.
        slices: Current base files, by partition path and file id. None: lists them.
        repeated: Whether to return every row of a key that the table has more than once. With a
            global index, the rows may be in several partitions.
        bar: Function that opens a progress bar for a number of files. None: no progress bar.

    Raises:
        ValueError: If a key is null or empty, a partition is null, or `partitions` and `keys` have
            different lengths.
        FormatError: If base files have no record keys; or, unless `repeated`, a global index finds
            a key in two partitions.
        DuplicateKeyError: If a key is in several rows of a partition, unless `repeated`.
        CorruptionError: If a base file is damaged.
        StaleStoreError: If a clean deleted a base file during the search.
    """
    chosen = index_of(index)
    if not view.options.meta_fields:
        raise FormatError(f"{view.location.uri}: base files have no record keys")
    column = _checked(keys)
    codes, paths = _coded(partitions, len(column))
    tally = Tally()
    if slices is None:
        with tally.step("list"):
            slices = view.current()
    if chosen.is_global:
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
        advance(len(task.files) - looked_at)  # the other files have none of these keys
    tally.add(found=int(np.count_nonzero(places.numbers >= 0)))
    return places.tagged(tally.funnel())


@dataclass(frozen=True, eq=False)
class _Task:
    """Files, and the keys to look for in them.

    Attributes:
        first: Number of the first file.
        files: Files to search.
        rows: Numbers of the keys to look for. None: all keys.
    """

    first: int
    files: Sequence[FileSlice]
    rows: Rows | None


class _Places:
    """Places of the keys found so far."""

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
        """Return the places found so far."""
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
    """Return the different partitions, and the number of the partition of each key."""
    if len(partitions) != count:
        raise ValueError(f"partitions has {len(partitions)} rows, keys {count}")
    if partitions.null_count:
        raise ValueError("partitions contains a null; every key is in a partition")
    if not pa.types.is_dictionary(partitions.type):
        partitions = partitions.dictionary_encode()
    if isinstance(partitions, pa.ChunkedArray):
        partitions = partitions.unify_dictionaries().combine_chunks()
    if isinstance(partitions, pa.ChunkedArray):  # pyarrow returns this for zero chunks
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
