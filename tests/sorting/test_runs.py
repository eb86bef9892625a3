"""Sorted runs against a Python dict: sort, spill, merge, and every rule for repeated keys."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lookupstore.sorting import rows as rows_module
from lookupstore.sorting import runs
from lookupstore.sorting._sort import is_ascending
from lookupstore.sorting.runs import MIN_MEMORY, RepeatedKeyError, RunSorter, aligned, merge

NUMBERS = range(4)


def batch_of(rows: list[tuple[bytes, bytes, bytes]], fixed: bool = False) -> pa.RecordBatch:
    kind = pa.binary(4) if fixed else pa.large_binary()
    columns = list(zip(*rows, strict=True)) if rows else ([], [], [])
    return pa.record_batch(
        {
            "key": pa.array(columns[0], kind),
            "rank": pa.array(columns[1], pa.large_binary()),
            "value": pa.array(columns[2], pa.large_binary()),
        }
    )


def random_rows(rng: random.Random, count: int, distinct: int, fixed: bool):
    rows = []
    for i in range(count):
        number = rng.randrange(distinct)
        key = number.to_bytes(4, "big") if fixed else b"\xff" * (number % 3) + str(number).encode()
        rows.append((key, bytes([rng.randrange(4)]), b"%d" % i + b"x" * rng.randrange(30)))
    return rows


def expected(rows, keep: str) -> dict[bytes, bytes]:
    """Play the rule in plain Python, row by row."""
    best: dict[bytes, tuple[bytes, bytes]] = {}
    for key, rank, value in rows:
        if key not in best or keep == "last" or (keep == "max" and rank >= best[key][0]):
            best[key] = (rank, value)
    return {key: best[key][1] for key in sorted(best)}


def drained(batches: Iterator[pa.RecordBatch]) -> list[tuple[bytes, bytes]]:
    return [
        pair
        for batch in batches
        for pair in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]


def by_length(keys: pa.Array):
    """Partition keys in three by their last byte: any function of the key works."""
    return pa.array([key[-1] % 3 for key in keys.to_pylist()], pa.uint32()).to_numpy()


@pytest.mark.few(4)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("keep", ["first", "last", "max"])
@pytest.mark.parametrize("memory", [1 << 16, 1 << 20, 64 << 20])
def test_sorter_against_a_dict(tmp_path, number, keep, memory, seed_of_the_day):
    rng = random.Random(seed_of_the_day * 1000 + number)
    fixed = bool(number % 2)
    rows = random_rows(rng, 30_000, rng.choice([50, 5_000, 10**6]), fixed)
    partitions = rng.choice([1, 3])
    with RunSorter(
        keep, memory=memory, folder=str(tmp_path), partitions=partitions, partition=by_length
    ) as sorter:
        start = 0
        while start < len(rows):
            size = rng.randrange(1, 700)
            sorter.add(batch_of(rows[start : start + size], fixed))
            start += size
        found = [drained(sorter.sorted_batches(p)) for p in range(partitions)]
        again = [drained(sorter.sorted_batches(p)) for p in range(partitions)]
    assert found == again
    want = expected(rows, keep)
    for p, part in enumerate(found):
        mine = [pair for pair in want.items() if partitions == 1 or pair[0][-1] % 3 == p]
        assert part == mine, f"number {number}, {keep}, memory {memory}, partition {p}"
    # Rows take 30 to 60 bytes: a budget of 64 KiB spills a dozen times and more.
    assert (sorter.spills >= 12) == (memory == 1 << 16)
    assert os.listdir(tmp_path) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("keep", ["first", "last", "max"])
def test_more_runs_than_one_merge_holds(tmp_path, monkeypatch, keep):
    monkeypatch.setattr(runs, "MERGE_COPIES", 16)  # a merge of four runs at a time
    rng = random.Random(7)
    rows = random_rows(rng, 30_000, 5_000, False)
    with RunSorter(keep, memory=1 << 16, folder=str(tmp_path)) as sorter:
        for start in range(0, len(rows), 500):
            sorter.add(batch_of(rows[start : start + 500]))
        found = drained(sorter.sorted_batches(0))
        assert sorter.spills > 4 * 4
        assert len(sorter._runs) <= 4
    assert found == list(expected(rows, keep).items())


@pytest.mark.skipif(sys.platform != "linux", reason="others do not list what is open in /proc")
def test_runs_that_were_merged_give_their_room_back(tmp_path, monkeypatch):
    """Two spill files are there at a time, at most: one that is read and one that is written."""
    monkeypatch.setattr(runs, "MERGE_COPIES", 1000)  # a merge of two runs at a time
    rows = random_rows(random.Random(7), 9000, 5000, False)
    opened = []

    class Watched(runs.SpillFile):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            opened.append(len(open_files(tmp_path)))

    monkeypatch.setattr(runs, "SpillFile", Watched)
    with RunSorter("last", memory=1 << 16, folder=str(tmp_path)) as sorter:
        for start in range(0, len(rows), 500):
            sorter.add(batch_of(rows[start : start + 500]))
        assert drained(sorter.sorted_batches(0)) == list(expected(rows, "last").items())
        assert len(opened) >= 3
        assert max(opened) <= 2
        assert len(open_files(tmp_path)) == 1
    assert open_files(tmp_path) == []


def open_files(folder):
    """Return the files in a folder, with or without a name, that this process has open."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in found if path.startswith(f"{folder}/")]


def test_a_sorted_source_is_one_run_and_never_sorted(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "sort_keys", lambda keys: pytest.fail("keys were sorted"))
    rows = [(b"%08d" % i, b"", b"%d" % i) for i in range(40_000)]
    with RunSorter("error", memory=1 << 16, folder=str(tmp_path)) as sorter:
        for start in range(0, len(rows), 1000):
            sorter.add(batch_of(rows[start : start + 1000]))
        found = drained(sorter.sorted_batches(0))
        assert sorter.spills > 10
        assert len(sorter._runs) == 1
    assert found == [(key, value) for key, _, value in rows]


def test_a_run_ends_where_the_next_chunk_repeats_its_last_key(tmp_path):
    with RunSorter("last", memory=1 << 16, folder=str(tmp_path)) as sorter:
        for value in (b"old", b"new"):
            padding = b"x" * (1 << 16)
            sorter.add(batch_of([(b"k", b"", value + padding)]))
        assert [v[:3] for _, v in drained(sorter.sorted_batches(0))] == [b"new"]


def test_rows_of_very_different_sizes_are_spilled_in_small_batches(tmp_path):
    rng = random.Random(3)
    rows = [
        (b"%06d" % rng.randrange(10**6), b"", b"x" * (200_000 if i == 50 else 9))
        for i in range(8_000)
    ]
    with RunSorter("first", memory=1 << 18, folder=str(tmp_path)) as sorter:
        for start in range(0, len(rows), 100):
            sorter.add(batch_of(rows[start : start + 100]))
        batches = list(sorter.sorted_batches(0))
    assert drained(iter(batches)) == list(expected(rows, "first").items())


@pytest.mark.parametrize("memory", [1 << 16, 64 << 20])
def test_a_repeated_key_is_named(tmp_path, memory):
    rows = [(b"%05d" % (i * 7919 % 10_007), b"", b"v" * 20) for i in range(10_000)]
    rows.append((b"00042", b"", b""))
    with RunSorter("error", memory=memory, folder=str(tmp_path)) as sorter:

        def sort_all():
            for start in range(0, len(rows), 500):
                sorter.add(batch_of(rows[start : start + 500]))
            drained(sorter.sorted_batches(0))

        with pytest.raises(RepeatedKeyError) as caught:
            sort_all()
        assert caught.value.key == b"00042"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("reverse", [False, True])
def test_merge_both_ways(reverse, seed_of_the_day):
    for number in NUMBERS:
        rng = random.Random(seed_of_the_day * 1000 + number)
        keys = [b"%d" % number for number in rng.sample(range(100_000), 3_000)]
        parts = [sorted(keys[p::5], reverse=reverse) for p in range(5)] + [[]]
        sources = []
        for part in parts:
            cuts = sorted(rng.sample(range(len(part) + 1), min(4, len(part))))
            edges = zip([0, *cuts], [*cuts, len(part)], strict=True)
            sources.append([batch_of([(k, b"", b"v" + k) for k in part[a:b]]) for a, b in edges])
        found = drained(merge(sources, "error", reverse=reverse))
        assert found == [(k, b"v" + k) for k in sorted(keys, reverse=reverse)], f"number {number}"


@pytest.mark.parametrize("reverse", [False, True])
def test_merge_of_runs_that_share_a_key(reverse):
    sources = [[batch_of([(b"a", b"", b"1")])], [batch_of([(b"a", b"", b"2")])]]
    assert drained(merge(sources, "first", reverse=reverse)) == [(b"a", b"1")]
    assert drained(merge(sources, "last", reverse=reverse)) == [(b"a", b"2")]
    with pytest.raises(RepeatedKeyError):
        drained(merge(sources, "error", reverse=reverse))


@pytest.mark.parametrize("most", [0, 3, 200])
def test_two_runs_side_by_side(seed, most):
    """Each row comes once, in the range of its key; ranges ascend, and are not shared."""
    rng = random.Random(seed)

    def run() -> list[pa.RecordBatch]:
        rows = sorted(
            {row[0]: row for row in random_rows(rng, rng.randint(0, most), 300, False)}.values()
        )
        batches = []
        while rows:
            count = rng.choice([0, 1, 2, 40])
            batches.append(batch_of(rows[:count]))
            rows = rows[count:]
        return batches

    sides = run(), run()
    found: tuple[list[bytes], list[bytes]] = ([], [])
    end = None
    for pair in aligned(*sides):
        keys = [batch["key"].to_pylist() for batch in pair]
        both = sorted(keys[0] + keys[1])
        assert end is None or both[0] > end
        end = both[-1]
        for side, some in zip(found, keys, strict=True):
            side.extend(some)
    for side, some in zip(found, sides, strict=True):
        assert side == [key for batch in some for key in batch["key"].to_pylist()]


def test_ascending_is_strict_and_unsigned():
    for kind in (pa.binary(), pa.large_binary(), pa.binary(2)):
        assert is_ascending(pa.array([b"\x00\x01", b"\x7f\xff", b"\x80\x00"], kind))
        assert not is_ascending(pa.array([b"aa", b"aa"], kind))
        assert not is_ascending(pa.array([b"ab", b"aa"], kind))
        assert is_ascending(pa.array([], kind))
    late = [b"%05d" % i for i in range(3_000)]
    late[2_999] = late[2_998]
    assert not is_ascending(pa.array(late))


@pytest.mark.parametrize(
    ("keep", "kept"), [("max", [0, 3, 4, 5]), ("first", [0, 1, 4, 5]), ("last", [0, 3, 4, 6])]
)
def test_greatest_rank_wins_and_of_equal_ranks_the_later_row(tmp_path, keep, kept):
    keys = [b"a", b"b", b"b", b"b", b"c", b"d", b"d"]
    ranks = [b"0", b"2", b"9", b"9", b"0", b"5", b"1"]
    values = [b"%d" % i for i in range(len(keys))]
    with RunSorter(keep, memory=MIN_MEMORY, folder=str(tmp_path)) as sorter:
        sorter.add(pa.record_batch({"key": keys, "rank": ranks, "value": values}))
        found = pa.Table.from_batches(sorter.sorted_batches(0))
    assert found["value"].to_pylist() == [b"%d" % i for i in kept]


def test_arguments_are_checked(tmp_path):
    with pytest.raises(ValueError, match="memory is 1000; give at least 65536"):
        RunSorter("first", memory=1000, folder=str(tmp_path))
    with pytest.raises(ValueError, match="2 partitions need a function"):
        RunSorter("first", memory=1 << 20, folder=str(tmp_path), partitions=2)
    with RunSorter("first", memory=1 << 20, folder=str(tmp_path)) as sorter:
        assert drained(sorter.sorted_batches(0)) == []
        with pytest.raises(RuntimeError, match="after sorted_batches"):
            sorter.add(batch_of([(b"a", b"", b"")]))


def test_a_spill_is_known_before(tmp_path):
    keys = [b"%06d" % at for at in range(100)]
    batch = pa.record_batch({"key": keys, "value": [b"v" * 99] * 100})
    with runs.RunSorter("last", memory=1 << 16, folder=str(tmp_path)) as sorter:
        assert not sorter.would_spill(batch)
        added = 0
        while not sorter.would_spill(batch):
            sorter.add(batch)
            added += 1
        assert (added > 1, sorter.spills) == (True, 0)
        sorter.add(batch)
        assert sorter.spills == 1
        assert not sorter.would_spill(batch), "nothing is in memory"
