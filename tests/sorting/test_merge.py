"""Ranges of sorted runs against Python's sort."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.sorting._merge import SortedRuns
from lookupstore.sorting.runs import RepeatedKeyError, RunSorter


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(3)])
def test_ranges_are_cut_sorted_and_taken(seed, kind):
    rng = random.Random(seed)
    fixed = pa.types.is_fixed_size_binary(kind)

    def key() -> bytes:
        return bytes(rng.choices(b"abc", k=3 if fixed else rng.randrange(12)))

    rows = [sorted((key(), b"%d-%d" % (r, i)) for i in range(rng.randrange(40))) for r in range(9)]
    runs = SortedRuns(
        [
            [
                pa.array([one for one, _ in run], kind),
                pa.array([other for _, other in run], pa.large_binary()),
            ]
            for run in rows
        ]
    )
    starts = numbers(*(rng.randrange(len(run) + 1) for run in rows))
    ends = numbers(*(rng.randint(start, len(run)) for start, run in zip(starts, rows, strict=True)))
    bound = key()
    stops = runs.cut(starts, ends, bound)
    inside = [
        [row for row in run[start:end] if row[0] <= bound]
        for run, start, end in zip(rows, starts, ends, strict=True)
    ]
    assert (stops - starts).tolist() == [len(run) for run in inside]
    together = [row for run in inside for row in run]
    order, same = runs.sort(starts, stops)
    wanted = sorted(together, key=lambda row: row[0])
    assert [together[at] for at in order] == wanted
    repeats = [i > 0 and wanted[i][0] == wanted[i - 1][0] for i in range(len(wanted))]
    assert (repeats == [False] * len(wanted)) if same is None else (same.tolist() == repeats)
    for column in (0, 1):
        taken = runs.take(starts, stops, order, column)
        assert taken.to_pylist() == [row[column] for row in wanted]
        assert taken.type == (kind if column == 0 else pa.large_binary())


def test_wrong_ranges_are_refused():
    keys = pa.array([b"a", b"b"])
    runs = SortedRuns([[keys, keys]])
    for start, stop in ((0, 3), (-1, 1), (2, 1)):
        with pytest.raises(IndexError, match="of 2"):
            runs.sort(numbers(start), numbers(stop))
    with pytest.raises(ValueError, match="each of the 1 runs"):
        runs.cut(numbers(0, 0), numbers(2, 2), b"a")
    with pytest.raises(IndexError, match="row 2 of 2"):
        runs.take(numbers(0), numbers(2), np.array([2], np.uint32), 1)
    with pytest.raises(IndexError, match="column 2 of 2"):
        runs.take(numbers(0), numbers(2), np.array([0], np.uint32), 2)
    with pytest.raises(ValueError, match="null"):
        SortedRuns([[pa.array([None, b"a"])]])
    with pytest.raises(TypeError, match="types"):
        SortedRuns([[keys], [keys.cast(pa.large_binary())]])
    with pytest.raises(ValueError, match="lengths"):
        SortedRuns([[keys, keys.slice(1)]])


@pytest.mark.few(3)
@pytest.mark.parametrize("keep", ["error", "first", "last", "max"])
@pytest.mark.parametrize("memory", [1 << 16, 4 << 20])
def test_threads_change_nothing(tmp_path, seed, keep, memory):
    rng = random.Random(seed)
    keys = [b"%d" % n for n in rng.sample(range(30_000), 20_000)]
    if keep != "error":
        keys = [rng.choice(keys) for _ in keys]
    ranks = [b"%d" % rng.randrange(9) for _ in keys]

    def drained(threads: int) -> list[object]:
        with RunSorter(
            keep,
            memory=memory,
            folder=str(tmp_path),
            partitions=2,
            partition=lambda keys: np.array([key[-1] % 2 for key in keys.to_pylist()], np.uint32),
            threads=threads,
        ) as sorter:
            for at in range(0, len(keys), 300):
                values = [b"%d" % row for row in range(at, at + 300)]
                columns = {"key": keys[at : at + 300], "rank": ranks[at : at + 300]}
                count = len(columns["key"])
                sorter.add(pa.record_batch({**columns, "value": values[:count]}))
            sizes = [sorter.rows_at_most(p) for p in (0, 1)]
            tables = [pa.Table.from_batches(sorter.sorted_batches(p)) for p in (0, 1)]
            return [sizes, *(table.to_pylist() for table in tables)]

    assert drained(1) == drained(3)


def test_a_repeat_that_a_thread_finds_is_raised(tmp_path):
    with RunSorter("error", memory=1 << 20, folder=str(tmp_path), threads=3) as sorter:

        def sort_all() -> None:
            for at in range(200):
                sorter.add(pa.record_batch({"key": [b"%04d" % at] * 2, "value": [b"v" * 999] * 2}))
            list(sorter.sorted_batches(0))

        with pytest.raises(RepeatedKeyError):
            sort_all()
