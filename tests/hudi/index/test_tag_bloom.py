"""The bloom index: footers of every form, what each step leaves, lookup files, damage, memory."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.hudi.small_tables import SmallTable
from support.hudi.tag_tables import SCHEMA, filter_of, indexes, range_of, whole_footer, write

import lookupstore
from lookupstore.columnar import open_lookups
from lookupstore.errors import CorruptionError, DuplicateKeyError, FormatError, StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi.file_group.bloom import FILTER_KEY, KIND_KEY, OLD_FILTER_KEY, BloomFilter
from lookupstore.hudi.file_group.key_entries import GREATEST_KEY, LEAST_KEY
from lookupstore.hudi.index.bloom import BloomIndex
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.memory import MemoryIndex
from lookupstore.hudi.index.tagging import Tagged, tag


def tagged(table: SmallTable, keys: list[str], index: str | KeyIndex) -> Tagged:
    return tag(table.view(), pa.array([""] * len(keys)), pa.array(keys), index=index)


def numbered(start: int, count: int, prefix: str = "k") -> list[str]:
    return [f"{prefix}{number:05}" for number in range(start, start + count)]


def two_files(tmp_path: Path, footers: list[dict[bytes, bytes]]) -> SmallTable:
    """Write k00000 to k00099, and k00100 to k00199, with given footers."""
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    given = iter(footers)
    files = {("", "a-0"): numbered(0, 100), ("", "b-0"): numbered(100, 100)}
    write(table, files, lambda keys: next(given))
    return table


KEYS = [numbered(0, 100), numbered(100, 100)]
WHOLE = [whole_footer(keys) for keys in KEYS]


def simple_under_the_old_name(keys: list[str]) -> dict[bytes, bytes]:
    return {OLD_FILTER_KEY: filter_of(keys, "SIMPLE")[FILTER_KEY]}


@pytest.mark.parametrize(
    ("footers", "tests", "files_read"),
    [
        ([range_of(keys) for keys in KEYS], 0, 1),  # no filter: whatever is in range
        ([filter_of(keys) for keys in KEYS], 20, 2),  # no range: every key, and filters
        ([filter_of(keys, "SIMPLE") for keys in KEYS], 20, 2),
        ([filter_of(keys, "DYNAMIC_V0", 9) for keys in KEYS], 20, 2),  # some rows
        ([simple_under_the_old_name(keys) for keys in KEYS], 20, 2),
        ([{}, {}], 0, 2),
        (WHOLE, 10, 1),
        ([WHOLE[0] | {GREATEST_KEY: b"a"}, WHOLE[1]], 10, 1),  # least above greatest: no range
        ([{FILTER_KEY: WHOLE[0][FILTER_KEY], KIND_KEY: b"DYNAMIC_V0"}, {}], 10, 2),
    ],
)
def test_footers_of_every_form(
    tmp_path: Path,
    residency: Residency,
    footers: list[dict[bytes, bytes]],
    tests: int,
    files_read: int,
) -> None:
    table = two_files(tmp_path, footers)
    keys = numbered(5, 10)
    index = BloomIndex(build="never", residency=residency)
    found = tagged(table, keys, index)
    assert found.positions.tolist() == list(range(5, 15))
    assert {found.slices[number].group.file_id for number in found.slice_numbers} == {"a-0"}
    funnel = found.funnel
    assert (funnel.found, funnel.pairs) == (10, 20)
    assert funnel.filter_tests == tests, funnel
    assert funnel.filter_positives <= tests
    assert funnel.false_positives == funnel.filter_positives - (10 if tests else 0)
    # A filter of a rate of 0.01 may pass one of ten other keys.
    assert files_read - 1 <= funnel.files_read <= files_read, funnel
    assert tagged(table, numbered(200, 5), index).funnel.found == 0


def test_ranges_on_and_off(tmp_path: Path, residency: Residency) -> None:
    table = two_files(tmp_path, WHOLE)
    keys = numbered(90, 4) + numbered(300, 6)
    funnels = {}
    for prune in ("tree", "list", "off"):
        index = BloomIndex(prune=prune, build="never", residency=residency)
        found = tagged(table, keys, index)
        assert found.positions.tolist() == [90, 91, 92, 93] + [-1] * 6
        funnels[prune] = found.funnel
    for prune in ("tree", "list"):
        assert (funnels[prune].pairs_in_range, funnels[prune].files_in_range) == (4, 1)
        assert funnels[prune].filter_tests == 4
    assert (funnels["off"].pairs_in_range, funnels["off"].files_in_range) == (20, 2)
    assert funnels["off"].filter_tests == 20


def test_keys_that_java_orders_otherwise_are_not_pruned(
    tmp_path: Path, residency: Residency
) -> None:
    """By UTF-16 unit, U+FF21 is above U+1D49C; by UTF-8 it is not."""
    keys = ["\U0001d49c", "\uff21"]
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    by_java = {LEAST_KEY: keys[0].encode(), GREATEST_KEY: keys[1].encode()}
    write(table, {("", "a-0"): keys}, lambda own: filter_of(own) | by_java)
    for build in ("never", "always"):
        index = BloomIndex(build=build, residency=residency)
        assert tagged(table, keys, index).positions.tolist() == [0, 1]


def test_many_keys_of_one_file_touch_one_file(tmp_path: Path, residency: Residency) -> None:
    """More keys than the sample by which ranges are judged, and files in the order of keys."""
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    files = {("", f"{number}-0"): numbered(2000 * number, 2000) for number in range(8)}
    write(table, files, whole_footer)
    keys = numbered(6000, 2000)
    random.Random(5).shuffle(keys)
    for build in ("never", "always"):
        found = tagged(table, keys, BloomIndex(build=build, residency=residency))
        assert found.positions.tolist() == [int(key[1:]) - 6000 for key in keys]
        funnel = found.funnel
        assert (funnel.files, funnel.files_in_range, funnel.pairs_in_range) == (8, 1, 2000)
        assert funnel.files_read + funnel.files_looked_up == 1


def test_ranges_that_leave_nothing_out_are_not_asked(tmp_path: Path, residency: Residency) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    keys = numbered(0, 8000)
    write(table, {("", f"{i}-0"): keys[i::4] for i in range(4)}, whole_footer)
    found = tagged(table, keys, BloomIndex(build="never", residency=residency))
    assert found.positions.tolist() == [row // 4 for row in range(8000)]
    assert found.funnel.pairs_in_range == found.funnel.pairs == 32_000


def test_of_many_keys_a_file_is_not_tested_that_has_some_of_them(
    tmp_path: Path, residency: Residency
) -> None:
    """One file has a tenth of the keys, one a single one, one none; all have all in range."""
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    keys = [f"{number:06}" for number in range(70_000)]
    ends = ["-", "~"]
    files = {("", "a-0"): [*ends, *keys[::10]], ("", "b-0"): [*ends[:1], keys[5], *ends[1:]]}
    files["", "c-0"] = ends
    footer = {
        name: range_of(held) | filter_of(held, entries=len(held)) for name, held in files.items()
    }
    given = iter(footer.values())
    write(table, files, lambda held: next(given))
    index = BloomIndex(build="never", residency=residency)
    found = tagged(table, keys, index)
    places = [
        (0, 2 + row // 10) if row % 10 == 0 else (1, 1) if row == 5 else (-1, -1)
        for row in range(70_000)
    ]
    assert list(zip(found.slice_numbers.tolist(), found.positions.tolist(), strict=True)) == places
    # The two others are tested with all keys, for the sample has at most false positives of them.
    assert found.funnel.filter_tests == 140_000
    assert found.funnel.files_read in (2, 3)
    # Fewer keys are all tested.
    assert tagged(table, keys[:60_000], index).funnel.filter_tests == 180_000


# ---- lookup files


def test_files_are_read_until_that_costs_as_much_as_a_lookup_file(
    tmp_path: Path, residency: Residency
) -> None:
    table = two_files(tmp_path, WHOLE)
    index = BloomIndex(residency=residency)
    ways = []
    for _ in range(5):
        funnel = tagged(table, numbered(0, 10), index).funnel
        ways.append((funnel.files_read, funnel.files_looked_up))
        assert funnel.found == 10
    assert ways == [(1, 0), (1, 0), (1, 0), (0, 1), (0, 1)]
    assert len(list(Path(residency.folder).glob("*.sst"))) == 1  # of the file that had keys
    # Another process of the host uses what this one has made, without Hudi's filters.
    funnel = tagged(table, numbered(0, 10), BloomIndex(residency=residency)).funnel
    assert (funnel.files_read, funnel.files_looked_up) == (0, 1)
    assert set(funnel.seconds) == {"list", "footers", "ranges", "look up"}
    assert (funnel.filter_tests, funnel.filter_positives, funnel.false_positives) == (10, 10, 0)


def open_lookup_files(residency: Residency) -> int:
    """Return how many files of a residency this process has open."""
    paths = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return sum(path.startswith(residency.folder) for path in set(paths))


def test_room_that_gets_short_is_shared(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lookup files stay open for the next keys, but where the quota is half full."""
    table = two_files(tmp_path, WHOLE)
    for quota, expected in ((1 << 30, 2), (residency.used + 12_000, 0)):
        monkeypatch.setattr(Residency, "quota", property(lambda _, quota=quota: quota))
        index = BloomIndex(build="always", residency=residency)
        for _ in range(2):
            assert tagged(table, numbered(50, 100), index).funnel.files_looked_up == 2
            assert open_lookup_files(residency) == expected
        index._open.release()


def test_keys_that_filters_rule_out_make_no_lookup_file(
    tmp_path: Path, residency: Residency
) -> None:
    table = two_files(tmp_path, WHOLE)
    index = BloomIndex(build="always", prune="off", residency=residency)
    funnel = tagged(table, ["m1"], index).funnel
    assert (funnel.filter_tests, funnel.filter_positives, funnel.files_looked_up) == (2, 0, 0)
    assert residency.used == 0


def test_lookup_files_that_were_evicted_are_made_again(
    tmp_path: Path, residency: Residency
) -> None:
    table = two_files(tmp_path, WHOLE)
    index = BloomIndex(build="always", residency=residency)
    keys = numbered(50, 100)
    expected = [row % 100 for row in range(50, 150)]
    assert tagged(table, keys, index).positions.tolist() == expected
    made = sorted(Path(residency.folder).glob("*.sst"))
    assert len(made) == 2
    for path in made:
        path.unlink()  # who has it open goes on
    assert tagged(table, keys, index).positions.tolist() == expected
    index._open.release()
    found = tagged(table, keys, index)
    assert found.positions.tolist() == expected
    assert found.funnel.files_looked_up == 2
    assert sorted(Path(residency.folder).glob("*.sst")) == made
    # Damage of a lookup file is not damage of the table.
    index._open.release()
    for path in made:
        content = bytearray(path.read_bytes())
        content[20] ^= 1
        path.write_bytes(content)
    assert tagged(table, keys, index).positions.tolist() == expected


def test_a_quota_without_room_means_reading(tmp_path: Path) -> None:
    table = two_files(tmp_path, WHOLE)
    index = BloomIndex(build="always", residency=Residency(tmp_path / "local", quota=1 << 16))
    for _ in range(2):
        found = tagged(table, numbered(50, 100), index)
        assert found.positions.tolist() == [row % 100 for row in range(50, 150)]
        assert (found.funnel.files_read, found.funnel.files_looked_up) == (2, 0)


def test_a_quota_with_room_for_one_file_is_kept(tmp_path: Path) -> None:
    """Files let go of each other's room: none waits for what this process itself holds."""
    table = two_files(tmp_path, WHOLE)
    quota = (1 << 20) + (1 << 18)
    residency = Residency(tmp_path / "local", quota=quota)
    index = BloomIndex(build="always", residency=residency, threads=1)
    for start in (0, 100, 0, 100):
        found = tagged(table, numbered(start, 100), index)
        assert found.positions.tolist() == list(range(100))
        assert residency.used <= quota


def test_a_key_twice_in_a_file_matters_to_who_asks_for_it(
    tmp_path: Path, residency: Residency
) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    write(table, {("", "a-0"): ["k", "m", "m"]}, whole_footer)
    for index in (BloomIndex(build="always", residency=residency), "in-memory", "simple"):
        assert tagged(table, ["k"], index).positions.tolist() == [0]
        with pytest.raises(DuplicateKeyError, match=r"'m' is in rows .*/a-0_"):
            tagged(table, ["k", "m"], index)


def test_a_key_in_two_files_is_found_in_lookup_files_too(
    tmp_path: Path, residency: Residency
) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    write(table, {("", "a-0"): ["k", "m"], ("", "b-0"): ["m", "n"]}, whole_footer)
    for build in ("never", "always"):
        index = BloomIndex(build=build, residency=residency)
        with pytest.raises(DuplicateKeyError, match=r"'m' is in .*/a-0_.* and in .*/b-0_"):
            tagged(table, ["m"], index)
        assert tagged(table, ["k", "n"], index).positions.tolist() == [0, 1]


def test_files_of_many_batches(tmp_path: Path, residency: Residency) -> None:
    """Rows are counted over the batches that a file is read in, and repeated keys found there."""
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    keys = numbered(0, 200_000)
    random.Random(3).shuffle(keys)
    write(table, {("", "a-0"): keys}, range_of)
    asked = keys[::1000] + keys[:2]
    expected = [*range(0, 200_000, 1000), 0, 1]
    for index in indexes(residency).values():
        assert tagged(table, asked, index).positions.tolist() == expected
    other = SmallTable(tmp_path / "u", 9, SCHEMA)
    write(other, {("", "a-0"): [*keys, keys[7]]}, range_of)
    for index in indexes(residency).values():
        with pytest.raises(DuplicateKeyError, match=f"record key {keys[7]!r} is in rows"):
            tagged(other, [keys[7]], index)
        assert tagged(other, [keys[8]], index).positions.tolist() == [8]


def test_a_base_file_that_was_written_again_is_noticed(
    tmp_path: Path, residency: Residency
) -> None:
    """It never should be. Its time is of no interest, its footer is."""
    table = two_files(tmp_path, WHOLE)
    index = BloomIndex(residency=residency)
    assert tagged(table, ["k00000"], index).positions.tolist() == [0]
    path = tmp_path / "t" / tagged(table, ["k"], "simple").slices[0].path
    os.utime(path, ns=(1, 1))
    for _ in range(3):
        assert tagged(table, ["k00000"], index).positions.tolist() == [0]
    assert len(list(Path(residency.folder).glob("*.sst"))) == 1
    path = tmp_path / "t" / tagged(table, ["k"], "simple").slices[1].path
    index = BloomIndex(residency=residency, build="always")
    assert tagged(table, ["no"], index).funnel.found == 0  # its footer is known
    content = path.read_bytes()
    assert content.count(b"parquet-cpp") == 1
    path.write_bytes(content.replace(b"parquet-cpp", b"parquet-CPP"))
    with pytest.raises(StaleStoreError, match=r"/b-0_.*rewritten since"):
        tagged(table, ["k00100"], index)


# ---- damage


def damaged(footer: dict[bytes, bytes], at: int) -> dict[bytes, bytes]:
    content = bytearray(base64.b64decode(footer[FILTER_KEY]))
    content[at] ^= 0xFF
    return footer | {FILTER_KEY: base64.b64encode(content)}


@pytest.mark.parametrize(
    ("footer", "message"),
    [
        (WHOLE[1] | {FILTER_KEY: b"no base64!"}, "expected base64"),
        (WHOLE[1] | {FILTER_KEY: WHOLE[1][FILTER_KEY][:80]}, "expected all the bits"),
        (damaged(WHOLE[1], 4), "hashes"),
        (WHOLE[1] | {KIND_KEY: b"SIMPLE"}, "expected the end of the filter"),
    ],
)
def test_damaged_filters(
    tmp_path: Path, residency: Residency, footer: dict[bytes, bytes], message: str
) -> None:
    table = two_files(tmp_path, [WHOLE[0], footer])
    with pytest.raises(CorruptionError, match=rf"/b-0_.*{message}"):
        tagged(table, numbered(95, 10), BloomIndex(residency=residency))
    assert tagged(table, numbered(95, 10), "simple").funnel.found == 10


def test_filters_of_an_unknown_kind(tmp_path: Path, residency: Residency) -> None:
    table = two_files(tmp_path, [WHOLE[0], WHOLE[1] | {KIND_KEY: b"DYNAMIC_V9"}])
    with pytest.raises(FormatError, match=r"/b-0_.*DYNAMIC_V9"):
        tagged(table, ["k"], BloomIndex(residency=residency))


@pytest.mark.parametrize("index", ["bloom", "simple", "in-memory"])
def test_damaged_footers_and_pages(tmp_path: Path, index: str) -> None:
    table = two_files(tmp_path, WHOLE)
    paths = [file.path for file in tagged(table, ["k"], "simple").slices]
    path = tmp_path / "t" / paths[1]
    content = path.read_bytes()
    for wrong in (content[:-9], content[:4], content[:-8] + b"\xff\xff\xff\x7fPAR1", b""):
        path.write_bytes(wrong)
        with pytest.raises(CorruptionError, match="/b-0_"):
            tagged(table, numbered(95, 10), index)


def test_a_base_file_without_record_keys(tmp_path: Path, residency: Residency) -> None:
    table = two_files(tmp_path, WHOLE)
    path = tmp_path / "t" / tagged(table, ["k"], "simple").slices[0].path
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": ["k"]}), path)
    with pytest.raises(CorruptionError, match=r"/a-0_.*a column _hoodie_record_key"):
        tagged(table, ["k"], BloomIndex(residency=residency))


def test_a_row_without_a_record_key(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = two_files(tmp_path, WHOLE)
    path = tmp_path / "t" / tagged(table, ["k"], "simple").slices[0].path
    pq.write_table(pa.table({"_hoodie_record_key": ["k", None]}), path)
    for index in ("simple", "in-memory"):
        with pytest.raises(CorruptionError, match=r"/a-0_.*a _hoodie_record_key in each row"):
            tagged(table, ["k"], index)


# ---- what stays, and how much memory that takes


def test_the_in_memory_index_reads_what_it_does_not_know(tmp_path: Path) -> None:
    table = two_files(tmp_path, WHOLE)
    index = MemoryIndex()
    reads = []
    for _ in range(2):
        found = tagged(table, numbered(95, 10), index)
        assert found.positions.tolist() == [95, 96, 97, 98, 99, 0, 1, 2, 3, 4]
        reads.append(found.funnel.files_read)
    write(table, {("", "b-0"): ["k00100", "new"]})
    for _ in range(2):
        found = tagged(table, ["new", "k00101", "k00000"], index)
        assert found.positions.tolist() == [1, -1, 0]
        reads.append(found.funnel.files_read)
    assert reads == [2, 0, 1, 0]
    (kept,) = index._kept.values()
    assert sorted(file.group.file_id for file in kept) == ["a-0", "b-0"]


def test_footers_are_read_once(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookupstore.hudi.file_group import key_files

    table = two_files(tmp_path, WHOLE)
    index = BloomIndex(build="never", residency=residency)
    tagged(table, numbered(95, 10), index)
    monkeypatch.setattr(key_files, "read_key_file", None)
    assert tagged(table, numbered(95, 10), index).funnel.found == 10


def test_filters_that_have_no_room_are_read_again(tmp_path: Path) -> None:
    from lookupstore.hudi.file_group.key_files import KnownFiles

    table = two_files(tmp_path, WHOLE)
    slices = [group.current for group in table.view().groups(None)]
    location = table.table.location
    size = BloomFilter.from_footer(WHOLE[0]).nbytes  # type: ignore[union-attr]
    known = KnownFiles(filter_bytes=size + 10)
    for _ in range(2):
        for file, keys in zip(slices, KEYS, strict=True):
            bloom = known.filter(location, file)
            assert bloom is not None
            assert bloom.test(pa.array(keys)).all()
            assert 0 < known.filter_bytes <= size + 10
    assert KnownFiles(filter_bytes=size - 1).filter(location, slices[0]) is not None


def test_footers_of_more_files_than_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookupstore.hudi.file_group import key_files

    table = two_files(tmp_path, WHOLE)
    location = table.table.location
    first, second = (group.current for group in table.view().groups(None))
    known = key_files.KnownFiles(most_files=1)
    assert known.file(location, first).least == b"k00000"
    assert known.file(location, second).least == b"k00100"
    monkeypatch.setattr(key_files, "read_key_file", None)
    assert known.file(location, second).greatest == b"k00199"
    with pytest.raises(TypeError):
        known.file(location, first)


def test_the_footer_that_was_asked_for_longest_ago_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookupstore.hudi.file_group import key_files

    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    write(table, {("", f"{at}-0"): numbered(100 * at, 9) for at in range(3)}, whole_footer)
    location = table.table.location
    first, second, third = (group.current for group in table.view().groups(None))
    known = key_files.KnownFiles(most_files=2)
    for file in (first, second, first, third):
        known.file(location, file)
    monkeypatch.setattr(key_files, "read_key_file", None)
    assert known.file(location, first).least == b"k00000"
    assert known.file(location, third).least == b"k00200"
    with pytest.raises(TypeError):
        known.file(location, second)


def test_more_filters_than_there_is_room_for_are_not_all_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookupstore.hudi.file_group import key_files

    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    files = {("", f"{number:02}-0"): numbered(100 * number, 100) for number in range(40)}
    write(table, files, whole_footer)
    slices = [group.current for group in table.view().groups(None)]
    size = BloomFilter.from_footer(WHOLE[0]).nbytes  # type: ignore[union-attr]
    known = key_files.KnownFiles(filter_bytes=30 * size)
    reads = []
    read = key_files.read_key_file
    monkeypatch.setattr(
        key_files, "read_key_file", lambda *which: (reads.append(which), read(*which))[1]
    )
    for turn in range(8):
        for file in slices:
            assert known.filter(table.table.location, file) is not None
        assert known.filter_bytes <= 30 * size
        assert len(reads) < 60 + 30 * turn, turn
    assert known.filter_bytes > 28 * size


def test_few_lookup_files_stay_open(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_lookups, "MOST_OPEN", 2)
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    files = {("", f"{number}-0"): numbered(100 * number, 100) for number in range(9)}
    write(table, files, whole_footer)
    index = BloomIndex(build="always", residency=residency, threads=1)
    for _ in range(3):
        found = tagged(table, numbered(0, 900), index)
        assert found.positions.tolist() == list(range(100)) * 9
        assert found.funnel.files_looked_up == 9
        assert 0 < open_lookup_files(residency) <= 2


MEMORY_SCRIPT = r"""
import re, sys
from pathlib import Path
import numpy as np, pyarrow as pa
from lookupstore.hudi import HudiTable
from lookupstore.hudi.index.bloom import BloomIndex

keys = np.random.default_rng(7).integers(0, 1 << 60, 100_000)
keys[::50] = np.random.default_rng(3).integers(0, 1 << 60, (1000, 60))[:, :2].ravel()
keys = pa.array([f"{key:020}" for key in keys])
print(HudiTable.open(sys.argv[1]).explain_tag(keys, index=BloomIndex(build="never")))
# Not ru_maxrss, which begins with what the process had that started this one.
print("peak", re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is in /proc")
def test_memory_is_not_that_of_keys_times_files(tmp_path: Path) -> None:
    """100,000 random keys against 1,000 files whose ranges overlap: below 500 MB."""
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    everything = np.random.default_rng(3).integers(0, 1 << 60, (1000, 60))
    files = {
        ("", f"{number:04}-0"): [f"{key:020}" for key in own]
        for number, own in enumerate(everything.tolist())
    }
    write(table, files, whole_footer)
    environment = {**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parents[1])}
    script = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT, str(tmp_path / "t")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    print(script.stdout)
    lines = (line.split(maxsplit=1) for line in script.stdout.splitlines())
    values = {name: value.replace(",", "") for name, value in lines}
    assert (values["files"], values["found"]) == ("1000", "2000")
    assert int(values["pairs_in_range"]) > 90_000_000
    assert int(values["files_read"]) > 900  # the false positives of small filters
    assert int(values["peak"]) < 500 << 10


# ---- the index by name


class OnlyTheFirst:
    """An index of somebody: it knows one key."""

    is_global = True
    made = 0

    def __init__(self) -> None:
        OnlyTheFirst.made += 1

    def locate(self, view, files, keys, tally):  # type: ignore[no-untyped-def]
        from lookupstore.hudi.index.interface import Hits

        tally.add(files_read=len(files))
        rows = np.flatnonzero(np.array(keys.to_pylist()) == b"k00000")
        yield Hits(0, rows, np.zeros(len(rows), np.int64))


def test_a_class_of_ones_own(tmp_path: Path) -> None:
    table = two_files(tmp_path, WHOLE)
    for _ in range(2):
        found = tagged(table, ["x", "k00000"], f"{__name__}.OnlyTheFirst")
        assert found.slice_numbers.tolist() == [-1, 0]
        assert found.funnel.files_read == 2
    made = sys.modules[OnlyTheFirst.__module__].OnlyTheFirst.made
    assert made == 1


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("no.such.Module", ValueError, "No module named 'no'"),
        ("collections.NoSuchName", ValueError, "NoSuchName"),
        ("nothing", ValueError, "'simple', 'bloom', 'global-bloom', 'global-simple' or the name"),
        ("collections.OrderedDict", TypeError, "without `is_global` or `locate`; give a KeyIndex"),
    ],
)
def test_names_of_no_index(tmp_path: Path, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tagged(two_files(tmp_path, WHOLE), ["k"], name)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"prune": "no"}, "prune"), ({"build": "no"}, "build"), ({"threads": 0}, "threads")],
)
def test_options_of_the_bloom_index(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"{message} is"):
        BloomIndex(**options)  # type: ignore[arg-type]
