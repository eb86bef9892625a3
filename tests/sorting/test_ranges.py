"""Rows by position, range by range: against NumPy's stable sort, whatever the memory."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from support.samples import amount

from lookupstore.sorting import ranges, shared_values
from lookupstore.sorting.pieces import Piece, PieceFile
from lookupstore.sorting.ranges import EvenRanges, RangeSorter, cuts_of, ends_of

pytestmark = pytest.mark.drawn(0.4)


def positions_of(numbers: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array([int(one).to_bytes(4, "big") for one in numbers], pa.binary(4))


def batch_of(texts: Sequence[str]) -> pa.RecordBatch:
    return pa.record_batch({"n": np.arange(len(texts)), "text": pa.array(texts, pa.string())})


def sorter_of(
    numbers: npt.NDArray[np.int64],
    rows: pa.RecordBatch,
    cuts: list[bytes],
    memory: int,
    folder: Path,
    threads: int = 1,
) -> RangeSorter:
    """Return a sorter of rows by numbers, which it finds by their column `n`."""
    positions = positions_of(numbers)
    where = str(folder)
    return RangeSorter(
        cuts,
        ["n"],
        lambda some: positions.take(some["n"]),
        rows.schema,
        memory=memory,
        folder=where,
        threads=threads,
    )


def sorted_by(
    numbers: npt.NDArray[np.int64],
    rows: pa.RecordBatch,
    cuts: list[bytes],
    memory: int,
    folder: Path,
    step: int,
    threads: int = 1,
) -> tuple[pa.Table, float]:
    """Return rows as they leave, and how often they were spilled."""
    positions = positions_of(numbers)
    with sorter_of(numbers, rows, cuts, memory, folder, threads) as sorter:
        for at in range(0, len(numbers), step):
            sorter.add(rows.slice(at, step))
        sorter.end()
        found = []
        for number, count in enumerate(sorter.rows):
            batches = list(sorter.batches(number))
            assert sum(batch.num_rows for batch in batches) == count
            found += batches
            low = cuts[number - 1] if number else b""
            high = cuts[number] if number < len(cuts) else b"\xff" * 5
            for batch in batches:
                for place in batch["n"].to_pylist():
                    assert low < positions[place].as_py() <= high
        spilled = sorter.spilled_bytes / max(1, rows.nbytes)
    assert list(folder.iterdir()) == []
    return pa.Table.from_batches(found, rows.schema), spilled


@pytest.mark.sampled
def test_rows_leave_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(ranges, "_PIECE_BYTES", 1)  # else so few rows keep one thread busy
    chance = np.random.default_rng(seed)
    spilled = 0
    for _ in range(amount(40, 400)):
        count = int(chance.integers(0, 3000))
        numbers = chance.integers(0, int(chance.choice([1, 2, 5, 50, 10**6])), count)
        if count and chance.random() < 0.3:
            numbers[: count // 2] = numbers[0]
        rows = batch_of(["x" * int(one) for one in chance.integers(0, 30, count)])
        # The sample may be all of the rows, or not at all like them.
        known = numbers[: int(chance.choice([1, 20, count]))]
        cuts = cuts_of(positions_of(known), int(chance.integers(1, 30)))
        memory = int(chance.choice([1000, 20000, 1 << 22]))
        step, threads = int(chance.integers(1, 500)), int(chance.integers(1, 4))
        found, times = sorted_by(numbers, rows, cuts, memory, tmp_path, step, threads)
        wanted = pa.table(rows).take(pa.array(np.argsort(numbers, kind="stable")))
        assert found.equals(wanted), seed
        spilled += times > 0
    assert spilled > amount(13, 130)


@pytest.mark.sampled
def test_columns_that_come_as_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """They leave so if all rows came so, and values were few; and rows are the same otherwise."""
    chance = np.random.default_rng(seed)
    monkeypatch.setattr(shared_values, "_MOST", 40)
    left = []
    for _ in range(amount(25, 200)):
        count = int(chance.integers(1, 3000))
        numbers = chance.integers(0, int(chance.choice([2, 50, 10**6])), count)
        values = [*map(str, range(int(chance.choice([3, 30, 60])))), None]
        texts = [values[at] for at in chance.integers(0, len(values), count)]
        rows = pa.record_batch({"n": np.arange(count), "text": pa.array(texts, pa.string())})
        as_one = int(chance.choice([0, 0, count // 2]))
        cuts = cuts_of(positions_of(numbers[:50]), int(chance.integers(1, 30)))
        memory, threads = int(chance.choice([1000, 20000, 1 << 22])), int(chance.integers(1, 4))
        step = int(chance.integers(1, 500))
        with sorter_of(numbers, rows, cuts, memory, tmp_path, threads) as sorter:
            for at in range(0, count, step):
                some = rows.slice(at, step)
                if at >= as_one:
                    shared = some["text"].dictionary_encode()
                    some = some.set_column(1, "text", shared)
                sorter.add(some)
            sorter.end()
            found = [one for at in range(len(sorter.rows)) for one in sorter.batches(at)]
            assert sorter.shared <= {"text"}
        kinds = {pa.types.is_dictionary(one["text"].type) for one in found}
        assert kinds == {bool(sorter.shared)}, seed
        distinct = {one for one in texts if one is not None}
        assert bool(sorter.shared) == (not as_one and len(distinct) <= 40), seed
        whole = [one for batch in found for one in batch.to_pylist()]
        wanted = rows.take(pa.array(np.argsort(numbers, kind="stable")))
        assert whole == wanted.to_pylist(), seed
        left.append((bool(sorter.shared), sorter.spilled_bytes > 0))
        if sorter.shared:
            for one in found:
                assert set(one["text"].dictionary.to_pylist()) == {
                    *one["text"].drop_null().to_pylist()
                }
    assert set(left) == {(False, False), (False, True), (True, False), (True, True)}


def test_several_threads_fail_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = batch_of(["x" * 20] * 20_000)
    calls = itertools.count()

    def full(*_: object) -> Piece:
        if next(calls) < 3:
            return append(*_)  # type: ignore[arg-type]
        raise OSError(errno.ENOSPC, "no room")

    append = PieceFile.append
    monkeypatch.setattr(PieceFile, "append", full)
    monkeypatch.setattr(ranges, "_PIECE_BYTES", 1)
    with pytest.raises(OSError, match="no room"):
        sorted_by(np.arange(len(rows)), rows, [], 1 << 18, tmp_path, 500, threads=3)


def test_a_good_sample_spills_once(tmp_path: Path, seed: int) -> None:
    chance = np.random.default_rng(seed)
    numbers = chance.integers(0, 10**6, 20_000)
    rows = batch_of(["x" * 20] * len(numbers))
    cuts = cuts_of(positions_of(numbers[::10]), 40)
    _, times = sorted_by(numbers, rows, cuts, rows.nbytes // 3, tmp_path, 1000)
    assert 0.9 < times < 1.1


def test_a_range_of_one_position_is_spilled_once(tmp_path: Path) -> None:
    """It needs no order, however large it is."""
    numbers = np.full(20_000, 7)
    rows = batch_of(["x" * 20] * len(numbers))
    found, times = sorted_by(numbers, rows, [], rows.nbytes // 20, tmp_path, 1000)
    assert found.equals(pa.table(rows))
    assert 0.9 < times < 1.1


def test_no_more_is_in_memory_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Also where the sample was wrong, and all rows came to one range."""
    largest = 0
    joined = ranges._joined

    def watched(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        nonlocal largest
        largest = max(largest, sum(batch.nbytes for batch in batches))
        return joined(batches)

    monkeypatch.setattr(ranges, "_joined", watched)
    numbers = np.random.default_rng(seed).integers(0, 10**6, 50_000)
    rows = batch_of(["x" * 20] * len(numbers))
    memory = rows.nbytes // 10
    sorted_by(numbers, rows, [], memory, tmp_path, 500)
    # What comes last may be as much more.
    assert 0 < largest < memory // 4 + rows.nbytes // 50


def test_ends_and_cuts() -> None:
    numbers = np.array([1, 2, 3, 5, 5, 5, 5, 8])
    ends = [int.from_bytes(one, "big") for one in ends_of(positions_of(numbers), 4)]
    assert ends == [2, 5]
    cuts = [int.from_bytes(one, "big") for one in cuts_of(positions_of(numbers), 4)]
    assert cuts == [2, 4, 5]
    assert ends_of(positions_of(numbers[:0]), 4) == cuts_of(positions_of(numbers[:0]), 4) == []
    # There is nothing before the first position.
    assert cuts_of(positions_of(np.zeros(9, np.int64)), 3) == [b"\0\0\0\0"]
    # Of an even spread, each end is that of its share.
    even = ends_of(positions_of(np.arange(1000)), 10)
    assert [int.from_bytes(one, "big") for one in even] == list(range(99, 999, 100))


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    rows = batch_of(["x"] * 1000)
    missing = tmp_path / "missing"
    with sorter_of(np.arange(1000), rows, [], 100, missing) as sorter:  # noqa: SIM117
        with pytest.raises(OSError, match="missing"):
            sorter.add(rows)


def test_even_ranges_of_whatever_there_is(seed: int) -> None:
    """Ranges do not cross, and have as many rows each; only one position is in several."""
    chance = np.random.default_rng(seed)
    for _ in range(200):
        rows, count = int(chance.integers(1, 4000)), int(chance.integers(1, 12))
        numbers = chance.integers(0, int(chance.choice([1, 2, 5, 50, 10**6])), rows)
        heavy = chance.random(rows) < chance.choice([0, 0.3, 0.9])
        numbers[heavy] = int(chance.integers(0, 50))
        where = np.arange(rows) * 0.6180339887498949 % 1
        found = EvenRanges(positions_of(numbers), count).numbers(positions_of(numbers), where)
        assert found.dtype == np.int32
        assert 0 <= found.min() <= found.max() < count
        order = np.lexsort([found, numbers])
        assert (np.diff(found[order]) >= 0).all()
        # A range ends with a position, unless that is more than a range by itself.
        each = np.unique(numbers, return_counts=True)[1]
        for number in np.unique(numbers):
            here = numbers == number
            assert len(np.unique(found[here])) <= 1 or here.sum() > rows // count
        sizes = np.bincount(found, minlength=count)
        light = int(each[each <= rows / count].max(initial=0))
        even = rows / count
        assert sizes.max() <= even + light + 6 * even**0.5 + 2, (sizes, rows, count)


def test_rows_that_the_sample_did_not_have_are_in_a_range(seed: int) -> None:
    chance = np.random.default_rng(seed)
    sample, numbers = (np.sort(chance.integers(0, 10**6, rows)) for rows in (500, 5000))
    even = EvenRanges(positions_of(sample), 7)
    found = even.numbers(positions_of(numbers), np.zeros(len(numbers)))
    ends = [int.from_bytes(one, "big") for one in ends_of(positions_of(sample), 7)]
    assert found.tolist() == np.searchsorted(ends, numbers, "left").tolist()
    few = EvenRanges(positions_of(sample[:3]), 7)
    assert few.numbers(positions_of(sample[:3]), np.zeros(3)).max() < 7
    assert EvenRanges(positions_of(sample[:0]), 3).numbers(positions_of(sample), sample).max() == 0
