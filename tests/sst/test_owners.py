"""Tables of the files that may have a key, compared with a dict of the records of each file."""

from __future__ import annotations

import errno
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.forks import fork, in_child
from support.sst_files import run_all

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.folder import CLAIM, COPY, MAKING
from lookupstore.sst import Reader, Writer, owners, shared
from lookupstore.sst._answers import Values
from lookupstore.sst._hits import FileHits, SeveralRowsError
from lookupstore.sst._layer import FileRanges, Layer
from lookupstore.sst._owners import MOST_FILES, MadeOwners, OwnedFiles, Owners, owners_size
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.owners import OwnerTables
from lookupstore.sst.ranged_files import RangedFiles
from lookupstore.sst.reader import lookup_of, reads_of
from lookupstore.sst.shared import PlacesLostError

pytestmark = pytest.mark.drawn(0.5)

AN_HOUR_AGO = time.time() - 3600
MOST = 3000  # number of keys of all files
Records = dict[bytes, bytes]


def key_of(number: int) -> bytes:
    return b"key-%06d" % number


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of few records are made soon, in many calls, and shared."""
    monkeypatch.setattr(owners, "LEAST_BYTES", 0)
    monkeypatch.setattr(owners, "LOOKS_APART", 100)


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


class Files:
    """Files of a folder, with the records of each. `open` opens some, as another process would."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.records: list[Records] = []

    def add(self, numbers: Sequence[int]) -> None:
        """Write a file with the keys of some numbers."""
        records = {
            key_of(number): self.rng.randbytes(self.rng.choice([0, 3, 30]))
            for number in sorted(numbers)
        }
        path = self.folder / f"{len(self.records)}.sst"
        with Writer(path, compression="none", block_size=1000) as writer:
            writer.put_many(list(records), list(records.values()))
        os.utime(path, (AN_HOUR_AGO, AN_HOUR_AGO))
        self.records.append(records)

    def add_some(self, count: int, share: float = 0.3, wide: bool = True) -> None:
        """Write files with keys of the whole range, or of ranges of which most overlap."""
        ends = {0, MOST - 1} if wide else set()
        for _ in range(count):
            most = 1 + self.rng.randrange(int(share * MOST))
            self.add([*ends.union(self.rng.sample(range(MOST), most))])

    def readers(self, numbers: Sequence[int]) -> list[Reader]:
        cache = BlockCache()
        return [Reader(self.folder / f"{number}.sst", cache=cache) for number in numbers]

    def open(self, numbers: Sequence[int], tables: OwnerTables | None) -> RangedFiles:
        return RangedFiles(self.readers(numbers), tables)

    def check(self, files: RangedFiles, numbers: Sequence[int], count: int = 400) -> None:
        """Look up some keys, most of which some files have, and compare the answers."""
        asked, found = self.check_hits(files, numbers, count)
        if files.numbers:
            self.check_rows(files, asked, found)

    def check_hits(
        self, files: RangedFiles, numbers: Sequence[int], count: int
    ) -> tuple[list[bytes | None], list[tuple[int, bytes]]]:
        """Look up some keys by one call, and return them, and the rows by the numbers of keys."""
        rng = self.rng
        keys = [key_of(rng.randrange(MOST + 300)) for _ in range(count)]
        asked = [rng.choice([None, b"", key[:4]]) if rng.random() < 0.05 else key for key in keys]
        hits = FileHits(len(asked))
        first = rng.choice([0, 7])
        files.find(pa.array(asked, pa.binary()), hits, first)
        rows = Values(len(hits))
        hits.read(np.arange(len(hits)), rows)
        found = sorted(
            (at, numbers[files.numbers[owner - first]], row)
            for at, owner, row in zip(
                hits.keys().to_pylist(), hits.files().to_pylist(), rows.array().to_pylist(),
                strict=True,
            )
        )  # fmt: skip
        assert found == [
            (at, number, self.records[number][key])
            for at, key in enumerate(asked)
            for number in sorted(numbers)
            if key in self.records[number]
        ]
        return asked, [(at, row) for at, _, row in found]

    def check_rows(
        self, files: RangedFiles, asked: Sequence[bytes | None], found: Sequence[tuple[int, bytes]]
    ) -> None:
        """Look up the same keys, and then those of them that at most one file has."""
        counts = Counter(at for at, _ in found)
        row_of = dict(found)
        if len(row_of) < len(found):
            with pytest.raises(SeveralRowsError, match="several files have one of the keys"):
                files.lookup(pa.array(asked, pa.binary()), Values(len(asked)))
        single = [at for at in range(len(asked)) if counts[at] <= 1]
        rows = Values(len(single))
        files.lookup(pa.array([asked[at] for at in single], pa.binary()), rows)
        assert rows.array().to_pylist() == [row_of.get(at) for at in single]


@pytest.fixture
def files(tmp_path: Path, seed: int) -> Files:
    return Files(tmp_path, random.Random(seed))


def sets_of(tables: OwnerTables) -> list[int]:
    """Return the number of files of each table in use."""
    return sorted(len(one.names) for one in tables.in_use)


def made(files: Files, opened: RangedFiles, numbers: Sequence[int], tables: OwnerTables) -> None:
    """Look keys up until all layers are in tables."""
    for _ in range(100):
        files.check(opened, numbers)
        if opened._owners is not None and tables.in_use:
            opened._owners.owned()
            if opened._owners.layers_left == 0:
                break
    assert opened._owners is not None
    assert opened._owners.layers_left == 0


def tables_on(residency: Residency) -> list[Path]:
    """Return the files of tables on a host, without the list of them."""
    found = Path(residency.folder).glob(f"*{COPY}")
    return sorted(path for path in found if path.read_bytes()[-8:] == b"LSOWNER1")


def is_shared(tables: OwnerTables) -> bool:
    return any(one.owners is not None and one.owners.is_shared for one in tables.in_use)


@pytest.mark.parametrize("count", [4, 9, 40])
@pytest.mark.parametrize("share", [0.02, 0.6])
def test_files_answer_as_dicts(files: Files, count: int, share: float) -> None:
    """Before there is a table, while it is made, and with it."""
    files.add_some(count, share, wide=False)
    numbers = list(range(count))
    tables = OwnerTables(None, "t")
    opened = files.open(numbers, tables)
    if opened._layer is None or opened._owners is None:
        return  # few ranges overlap
    for _ in range(30):
        files.check(opened, numbers, files.rng.choice([1, 30, 3000]))
    made(files, opened, numbers, tables)
    for count in (0, 1, 5000):
        files.check(opened, numbers, count)
    assert sets_of(tables) == [len({*opened.numbers})]
    files.check(files.open(numbers, tables), numbers)


def test_a_key_in_every_file(files: Files) -> None:
    """A key has more candidates than a line has entries, and more than there is room for."""
    for _ in range(80):
        files.add([1, *files.rng.sample(range(2, 300), 20), 300])
    tables = OwnerTables(None, "t")
    opened = files.open(range(80), tables)
    made(files, opened, range(80), tables)
    hits = FileHits(20_000)
    opened.find(pa.array([key_of(1)] * 20_000), hits, 0)
    assert len(hits) == 80 * 20_000
    assert np.bincount(hits.files().to_numpy()).tolist() == [20_000] * 80


def test_more_files_than_a_table_has(files: Files) -> None:
    for _ in range(MOST_FILES + 30):
        files.add([0, *files.rng.sample(range(1, MOST), 3), MOST - 1])
    numbers = range(MOST_FILES + 30)
    tables = OwnerTables(None, "t")
    opened = files.open(numbers, tables)
    made(files, opened, numbers, tables)
    assert sets_of(tables) == [30, MOST_FILES]
    files.check(opened, numbers, 3000)


def test_files_that_are_replaced(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is used as long as it has some of the files; new ones cost their own records."""
    begun: list[int] = []

    def counted(records: int) -> MadeOwners:
        begun.append(records)
        return MadeOwners(records)

    monkeypatch.setattr(owners, "MadeOwners", counted)
    files.add_some(60, 0.1)
    numbers = list(range(60))
    tables = OwnerTables(None, "t")
    made(files, files.open(numbers, tables), numbers, tables)
    all_records = sum(len(one) for one in files.records)
    assert begun == [all_records]
    for _ in range(60):
        files.rng.shuffle(numbers)
        del numbers[: files.rng.randrange(4)]
        files.add_some(2, 0.1)
        numbers += range(len(files.records) - 2, len(files.records))
        opened = files.open(numbers, tables)
        for _ in range(1 + files.rng.randrange(6)):
            files.check(opened, numbers, 600)
        assert len(tables.in_use) <= 6
        if opened._owners is not None:
            assert opened._owners.layers_left < 30
    # Each record was added few times, not once for each of 60 commits.
    written = sum(len(one) for one in files.records)
    assert sum(begun) < 5 * written


def test_tables_of_snapshots_beside_each_other(files: Files) -> None:
    files.add_some(30)
    tables = OwnerTables(None, "t")
    old, new = range(20), range(8, 30)
    opened = [(files.open(old, tables), old), (files.open(new, tables), new)]
    for _ in range(60):
        files.check(*files.rng.choice(opened))
    assert tables.in_use


def test_another_process_finds_the_table(files: Files, residency: Residency) -> None:
    files.add_some(12)
    numbers = range(12)
    first = OwnerTables(residency.shared_tables, "t")
    made(files, files.open(numbers, first), numbers, first)
    assert is_shared(first)
    (path,) = tables_on(residency)
    assert path.stat().st_mode & 0o777 == 0o600
    second = OwnerTables(residency.shared_tables, "t")
    readers = files.readers(numbers)
    opened = RangedFiles(readers, second)
    files.check(opened, numbers, 200)
    assert sets_of(second) == [12]
    assert is_shared(second)
    files.check(opened, numbers)
    blocks = sum(reader.info().data_blocks for reader in readers)
    for _ in range(5):
        files.check(opened, numbers)
    assert sum(reads_of(reader).blocks_read for reader in readers) < 2 * blocks


def test_another_process_finds_a_table_with_some_of_its_files(
    files: Files, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.add_some(26)
    first = OwnerTables(residency.shared_tables, "t")
    made(files, files.open(range(20), first), range(20), first)
    numbers = range(3, 26)
    made(files, files.open(numbers, first), numbers, first)
    begun: list[int] = []

    def begin(_: object, records: int) -> bool:
        begun.append(records)
        return False

    monkeypatch.setattr(owners._Known, "begin", begin)
    second = OwnerTables(Residency(residency.folder).shared_tables, "t")
    opened = files.open(numbers, second)
    for _ in range(4):
        files.check(opened, numbers)
    assert sets_of(second) == sets_of(first)
    assert begun == []
    other = OwnerTables(residency.shared_tables, "another family")
    files.check(files.open(numbers, other), numbers)
    assert other.in_use == () or len(first.in_use) == 1


def damages(rng: random.Random, size: int) -> list[tuple[str, int]]:
    cuts = [0, 1, 63, 64, size - 64, size - 1, rng.randrange(size), rng.randrange(size)]
    flips = [*range(size - 64, size), *(rng.randrange(size) for _ in range(20))]
    zeros = [rng.randrange(size) for _ in range(5)]
    return [
        *(("cut", at) for at in cuts),
        *(("flip", at) for at in flips),
        *(("zero", at) for at in zeros),
    ]


@pytest.mark.parametrize("of", ["table", "list"])
def test_a_damaged_table_is_made_again(files: Files, residency: Residency, of: str) -> None:
    rng = files.rng
    files.add_some(5, 0.05)
    numbers = range(5)
    tables = OwnerTables(residency.shared_tables, "t")
    made(files, files.open(numbers, tables), numbers, tables)
    (table,) = tables_on(residency)
    (listed,) = {*Path(residency.folder).glob(f"*{COPY}")} - {table}
    path = table if of == "table" else listed
    content = path.read_bytes()
    for damage, at in damages(rng, len(content)):
        changed = bytearray(content)
        if damage == "cut":
            del changed[at:]
        elif damage == "flip":
            changed[at] ^= 1 << rng.randrange(8)
        else:
            changed[at : at + 500] = bytes(len(changed[at : at + 500]))
        path.write_bytes(changed)
        other = OwnerTables(residency.shared_tables, "t")
        made(files, files.open(numbers, other), numbers, other)
        assert sets_of(other) == [5]
        assert is_shared(other)
        assert path.read_bytes() == content


def test_a_table_of_other_files_is_not_used(files: Files, residency: Residency) -> None:
    files.add_some(10)
    for numbers in (range(5), range(5, 10)):
        tables = OwnerTables(residency.shared_tables, f"{numbers}")
        made(files, files.open(numbers, tables), numbers, tables)
    one, other = tables_on(residency)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    for numbers in (range(5), range(5, 10)):
        tables = OwnerTables(residency.shared_tables, f"{numbers}")
        made(files, files.open(numbers, tables), numbers, tables)


@pytest.mark.parametrize("at", ["the start", "the middle", "the end"])
def test_a_table_that_is_cut_while_it_is_used(files: Files, residency: Residency, at: str) -> None:
    """The lookup raises, and the next ones answer, and make it again."""
    files.add_some(20, 0.9)
    tables = OwnerTables(residency.shared_tables, "t")
    opened = files.open(range(20), tables)
    made(files, opened, range(20), tables)
    (path,) = tables_on(residency)
    size = path.stat().st_size
    os.truncate(path, {"the start": 0, "the middle": size // 2, "the end": size - 3}[at])
    with pytest.raises(PlacesLostError, match="a shared table of owners was truncated"):
        files.check(opened, range(20))
    assert tables.in_use == ()
    assert not path.exists()
    made(files, opened, range(20), tables)
    assert path.exists()


@pytest.mark.parametrize("fault", ["quota", "read only", "no space", "claimed"])
def test_without_room_a_process_has_its_own(
    files: Files, residency: Residency, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.add_some(8)
    if fault == "quota":
        residency = Residency(residency.folder, quota=1000)
    elif fault == "read only":
        blocked = files.folder / "blocked"
        blocked.write_bytes(b"a file where the folder would be")
        residency = Residency(blocked / "cache")
    elif fault == "no space":

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(shared, "_write", full)
    tables = OwnerTables(residency.shared_tables, "t")
    opened = files.open(range(8), tables)
    if fault == "claimed":  # another process makes it: filters are tested meanwhile
        monkeypatch.setattr(residency.shared_tables, "claim", lambda _: False)
        for _ in range(50):
            files.check(opened, range(8))
        assert tables.in_use == ()
        return
    made(files, opened, range(8), tables)
    assert not is_shared(tables)
    assert fault == "read only" or tables_on(residency) == []
    making = Path(residency.folder) / MAKING
    assert not making.exists() or [*making.glob(f"*/*{COPY}")] == []


def test_a_table_that_comes_meanwhile_is_used(files: Files, residency: Residency) -> None:
    files.add_some(8)
    first, second = (OwnerTables(Residency(residency.folder).shared_tables, "t") for _ in range(2))
    one, other = files.open(range(8), first), files.open(range(8), second)
    while first._next is None:
        files.check(one, range(8), 50)
    for _ in range(20):
        files.check(other, range(8))
    assert second.in_use == ()
    assert [*(Path(residency.folder) / MAKING).glob(f"*/{CLAIM}")]
    made(files, one, range(8), first)
    files.check(other, range(8))
    assert is_shared(second)


def test_threads_make_it_together(files: Files, residency: Residency) -> None:
    files.add_some(12)
    tables = OwnerTables(residency.shared_tables, "t")
    opened = files.open(range(12), tables)
    keys = pa.array([key_of(number) for number in range(MOST)])
    expected = sum(len(records) for records in files.records)

    def ask() -> None:
        for _ in range(20):
            hits = FileHits(MOST)
            opened.find(keys, hits, 0)
            assert len(hits) == expected

    run_all([ask] * 4)
    assert sets_of(tables) == [12]


@fork
def test_a_child_of_fork_goes_on(files: Files, residency: Residency) -> None:
    files.add_some(12)
    tables = OwnerTables(residency.shared_tables, "t")
    opened = files.open(range(12), tables)
    while tables._next is None:
        files.check(opened, range(12), 50)

    def work() -> bool:
        for _ in range(3):
            files.check(opened, range(12))
        return True

    with tables._lock:  # held by another thread, at the moment of the fork
        assert in_child(work)
    made(files, opened, range(12), tables)
    assert in_child(work)


def test_a_damaged_block_gets_no_table(files: Files) -> None:
    files.add_some(6)
    path = files.folder / "3.sst"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, (AN_HOUR_AGO, AN_HOUR_AGO))
    tables = OwnerTables(None, "t")
    opened = files.open(range(6), tables)
    far = pa.array([key_of(MOST + number) for number in range(2000)])
    for _ in range(20):
        hits = FileHits(len(far))
        opened.find(far, hits, 0)
        assert len(hits) == 0
    assert tables.in_use == ()
    with pytest.raises(CorruptionError, match=r"3\.sst"):
        files.check(opened, range(6), 5000)


def test_files_of_a_moment_ago_get_no_table(files: Files) -> None:
    """They could still change; their filters are tested until they are older."""
    files.add_some(8)
    for number in range(3):
        os.utime(files.folder / f"{number}.sst")
    tables = OwnerTables(None, "t")
    opened = files.open(range(8), tables)
    for _ in range(20):
        files.check(opened, range(8))
    assert sets_of(tables) == [5]


def test_a_table_larger_than_its_share_of_the_memory(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "memory_limit", lambda: 3 * 64)
    files.add_some(8)
    tables = OwnerTables(None, "t")
    opened = files.open(range(8), tables)
    for _ in range(20):
        files.check(opened, range(8))
    assert tables.in_use == ()


def test_files_that_are_closed_while_a_table_is_made(files: Files) -> None:
    files.add_some(8)
    tables = OwnerTables(None, "t")
    opened = files.open(range(8), tables)
    while tables._next is None:
        files.check_hits(opened, range(8), 50)
    fewer = files.open(range(2, 8), tables)
    files.check_hits(fewer, range(2, 8), 50)
    assert tables._next is None
    made(files, fewer, range(2, 8), tables)
    assert sets_of(tables) == [6]


def test_a_table_of_files_without_lookups_is_given_up(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.add_some(16)
    tables = OwnerTables(None, "t")
    old, new = files.open(range(8), tables), files.open(range(8, 16), tables)
    while tables._next is None:
        files.check(old, range(8), 50)
    files.check(new, range(8, 16))
    assert tables._next is not None
    monkeypatch.setattr(owners, "MOST_IDLE", 1000)
    made(files, new, range(8, 16), tables)
    assert sets_of(tables) == [8]


def test_memory_of_a_row() -> None:
    assert owners_size(10_000_000) / 10_000_000 < 3


def test_arguments_are_checked(files: Files) -> None:
    files.add_some(5)
    readers = files.readers(range(5))
    lookups = tuple(map(lookup_of, readers))
    ranges = [[(info.min_key or b"", info.max_key or b"")] for info in (r.info() for r in readers)]
    layer = Layer(lookups, ranges=FileRanges(ranges))
    table = Owners(100)
    with pytest.raises(ValueError, match="give files that have ranges"):
        OwnedFiles(Layer(lookups), [])
    with pytest.raises(ValueError, match="file 5 is in two tables, or not in the layer"):
        OwnedFiles(layer, [(table, [5])])
    with pytest.raises(ValueError, match="file 3 is in two tables, or not in the layer"):
        OwnedFiles(layer, [(table, [3]), (table, [-1, 3])])
    with pytest.raises(ValueError, match="257 files of a table; give at most 256"):
        OwnedFiles(layer, [(table, [-1] * 257)])
    with pytest.raises(ValueError, match=r"records; a table has fewer"):
        Owners(2**60)
    with pytest.raises(ValueError, match="257 files; give at most 256"):
        MadeOwners(1).add([lookups[0].data] * 257, 1)
    with pytest.raises(CorruptionError, match="records of the block"):  # more than expected
        MadeOwners(1).add([lookup.data for lookup in lookups], 10**6)
    with Writer(files.folder / "compressed.sst", compression="zstd") as writer:
        writer.put_many([b"a"], [b"1" * 100])
    compressed = lookup_of(Reader(files.folder / "compressed.sst")).data
    with pytest.raises(ValueError, match="give files that are used in place"):
        MadeOwners(1).add([compressed], 1)
    owned = OwnedFiles(layer, [(table, [0, 1, -1, 4])])
    assert owned.layers_left == 2
    other: Any = Layer(lookups, ranges=FileRanges(ranges))
    with pytest.raises(ValueError, match="give tables of owners of the same layer"):
        FileHits(1).find(other, BinaryColumn([b"a"]), 0, owned)
