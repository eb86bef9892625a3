"""Tables of places that processes share: a second one reads no block; no fault costs an answer."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.sst_files import run_all

import lookupstore
from lookupstore.errors import DiskQuotaError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.folder import CLAIM, CLAIM_SECONDS, COPY, MAKING, MOST_CLAIM_SECONDS
from lookupstore.sst import Reader, Writer, shared
from lookupstore.sst._hits import FileHits
from lookupstore.sst._making_places import adopt, blocks_added, checks
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.ranged_files import RangedFiles
from lookupstore.sst.reader import lookup_of, reads_of
from lookupstore.sst.shared import HostTables
from lookupstore.sst.stored import StoredFile
from lookupstore.sst.warming import warmed
from lookupstore.storage import descriptors

pytestmark = pytest.mark.drawn(0.4)

COUNT = 6000
RECORDS = [(b"%06d" % (3 * i), b"%d" % i) for i in range(COUNT)]
MODEL = dict(RECORDS)
KEYS = pa.array([b"%06d" % i for i in range(3 * COUNT)], pa.binary())
ANSWERS = [MODEL.get(key) for key in KEYS.to_pylist()]
AN_HOUR_AGO = time.time() - 3600


@pytest.fixture(autouse=True)
def _small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookupstore.sst.reader.LEAST_BYTES", 0)


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=10 << 20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "x.sst")


def write(path: Path, records: list[tuple[bytes, bytes]] = RECORDS) -> Path:
    with Writer(path, compression="none", block_size=500) as writer:
        writer.put_many(*map(list, zip(*records, strict=True)))
    os.utime(path, (AN_HOUR_AGO, AN_HOUR_AGO))
    return path


def opened(path: Path, tables: HostTables) -> Reader:
    """Open a file as another process would, which has read none of its blocks."""
    return Reader(path, tables=tables, cache=BlockCache())


def is_shared(reader: Reader) -> bool:
    places = lookup_of(reader).data.table.places
    return places is not None and places.is_shared


def ask(reader: Reader) -> None:
    """Ask often enough for the places to be made, and compare all answers."""
    for _ in range(3):
        assert reader.lookup(KEYS).to_pylist() == ANSWERS
    assert reader.contains(KEYS).to_pylist() == [answer is not None for answer in ANSWERS]
    assert reader.get(RECORDS[7][0]) == RECORDS[7][1]
    assert reader.get(b"?") is None


def files_of(residency: Residency) -> list[Path]:
    return sorted(Path(residency.folder).glob(f"*{COPY}"))


def test_a_second_process_reads_no_block(path: Path, residency: Residency) -> None:
    with opened(path, residency.shared_tables) as first:
        ask(first)
        assert is_shared(first)
        assert reads_of(first).blocks_read == first.info().data_blocks
    (file,) = files_of(residency)
    assert file.stat().st_mode & 0o777 == 0o600
    assert residency.used >= file.stat().st_size
    with opened(path, residency.shared_tables) as second:
        ask(second)
        assert is_shared(second)
        assert reads_of(second).blocks_read == 0
        assert list(second.items()) == RECORDS


def test_gets_use_it_as_well(path: Path, residency: Residency) -> None:
    with opened(path, residency.shared_tables) as first:
        ask(first)
    with opened(path, residency.shared_tables) as second:
        for key, value in RECORDS[:1100]:
            assert second.get(key) == value
        assert is_shared(second)
        read = reads_of(second).blocks_read
        for key, value in RECORDS[1100:]:
            assert second.get(key) == value
        assert reads_of(second).blocks_read == read


def test_warming_publishes_it_and_uses_it(path: Path, residency: Residency) -> None:
    for _ in range(2):
        with opened(path, residency.shared_tables) as reader:
            assert sum(warmed(reader)) > 0
            assert is_shared(reader)
            read = reads_of(reader).blocks_read
            assert list(warmed(reader)) == []
            ask(reader)
            assert reads_of(reader).blocks_read == read
    assert read == 0


def test_processes_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each makes no table that another one has made; all have the same answers."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    rows = pa.table({"id": range(400_000), "v": [f"value {i}" for i in range(400_000)]})
    lookupstore.build(rows, tmp_path / "s", key="id", buckets=2).close()
    for file in (tmp_path / "s" / "data").iterdir():
        os.utime(file, (AN_HOUR_AGO, AN_HOUR_AGO))
    script = (
        "import sys, lookupstore, pyarrow as pa\n"
        "from lookupstore.sst.reader import reads_of\n"
        "store = lookupstore.open(sys.argv[1])\n"
        "for _ in range(3):\n"
        "    found = store.lookup(pa.array(range(0, 800_000, 3)))['v'].to_pylist()\n"
        "assert found == [f'value {i}' if i < 400_000 else None for i in range(0, 800_000, 3)]\n"
        "print(sum(store._files.with_reader(number, lambda one: reads_of(one).blocks_read)\n"
        "          for number in range(2)))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "s")]
    read = [int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in "12"]
    assert read[0] > 100
    assert read[1] == 0


@pytest.mark.parametrize("damaged", [False, True])
def test_changes_above_a_file_whose_table_another_process_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    """They are noted in the table, once all of it is checked."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(cache))
    rows = pa.table({"id": range(200_000), "v": range(200_000)})
    store = lookupstore.build(rows, tmp_path / "s", key="id", buckets=1)
    os.utime(next((tmp_path / "s" / "data").iterdir()), (AN_HOUR_AGO, AN_HOUR_AGO))
    changes = pa.table({"id": range(0, 200_000, 1000), "v": [-1] * 200})
    store.upsert(changes)
    store.close()
    script = (
        "import sys, lookupstore, pyarrow as pa\n"
        "from lookupstore.sst.reader import reads_of\n"
        "store = lookupstore.open(sys.argv[1])\n"
        "wanted = [i if i % 1000 else -1 for i in range(0, 200_000, 4)]\n"
        "for _ in range(4):\n"
        "    assert store.lookup(pa.array(range(0, 200_000, 4)))['v'].to_pylist() == wanted\n"
        "    assert [store.get(i)['v'] for i in (4, 5000, 8)] == [4, -1, 8]\n"
        "print(store._files.with_reader(0, lambda one: reads_of(one).blocks_read))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "s")]
    subprocess.run(command, check=True)
    (file,) = cache.glob(f"*{COPY}")
    content = file.read_bytes()
    if damaged:
        file.write_bytes(content[: 1 << 20] + bytes(200_000) + content[(1 << 20) + 200_000 :])
    read = int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert (read > 0) == damaged
    assert file.read_bytes() == content


def test_many_processes_at_once(path: Path, residency: Residency, tmp_path: Path) -> None:
    """One of them makes the table, and the others go on in blocks until it is there."""
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_ask_alone, args=(path, residency)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert len(files_of(residency)) == 1
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
        assert is_shared(reader)


def _ask_alone(path: Path, residency: Residency) -> None:
    reader = opened(path, residency.shared_tables)
    rng = random.Random(os.getpid())
    for _ in range(60):
        keys = [rng.choice(RECORDS)[0] for _ in range(300)]
        if reader.lookup(keys).to_pylist() != [MODEL[key] for key in keys]:
            os._exit(1)
    os._exit(0)


def _damages(rng: random.Random, size: int) -> Iterator[tuple[str, int]]:
    yield from [("cut", at) for at in (0, 1, 63, 64, size - 64, size - 1)]
    yield from [("cut", rng.randrange(size)) for _ in range(10)]
    yield from [("flip", at) for at in range(size - 64, size)]
    yield from [("flip", rng.randrange(size)) for _ in range(60)]
    yield from [("zero", rng.randrange(size)) for _ in range(10)]


def test_a_damaged_table_is_made_again(path: Path, residency: Residency, seed: int) -> None:
    rng = random.Random(seed)
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
    (file,) = files_of(residency)
    content = file.read_bytes()
    for damage, at in _damages(rng, len(content)):
        changed = bytearray(content)
        if damage == "cut":
            del changed[at:]
        elif damage == "flip":
            changed[at] ^= 1 << rng.randrange(8)
        else:
            changed[at : at + 5000] = bytes(len(changed[at : at + 5000]))
        file.write_bytes(changed)
        with opened(path, residency.shared_tables) as reader:
            ask(reader)
            assert is_shared(reader)
            blocks = 0 if changed == content else reader.info().data_blocks
            assert reads_of(reader).blocks_read == blocks, (damage, at)
        assert file.read_bytes() == content


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose table is so large that it is not checked at once."""
    path = tmp_path_factory.mktemp("large") / "x.sst"
    keys, values = LARGE
    with Writer(path, compression="none") as writer:
        writer.put_many(keys, values)
    os.utime(path, (AN_HOUR_AGO, AN_HOUR_AGO))
    return path


LARGE = ([b"%08d" % (3 * i) for i in range(200_000)], [b"%d" % i for i in range(200_000)])


def ask_some(reader: Reader, rng: random.Random, count: int) -> None:
    """Compare the answers of all ways to ask for keys, of which two of three are absent."""
    numbers = [rng.randrange(3 * len(LARGE[0])) for _ in range(count)]
    keys = [b"%08d" % number for number in numbers]
    wanted = [None if number % 3 else b"%d" % (number // 3) for number in numbers]
    assert reader.lookup(keys).to_pylist() == wanted
    assert reader.contains(keys).to_pylist() == [one is not None for one in wanted]
    assert [reader.get(key) for key in keys[:50]] == wanted[:50]


def test_a_large_table_is_used_before_all_of_it_is_checked(
    large: Path, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    with opened(large, residency.shared_tables) as first:
        list(warmed(first))
        assert is_shared(first)
        assert not checks(lookup_of(first).data)
    with opened(large, residency.shared_tables) as second:
        second.lookup(LARGE[0][::100])
        assert is_shared(second)
        assert reads_of(second).blocks_read == 0
        assert checks(lookup_of(second).data)
        calls = 0
        while checks(lookup_of(second).data):
            ask_some(second, rng, 2000)
            calls += 1
        assert 1 < calls < 40
        read = reads_of(second).blocks_read
        assert read <= second.info().data_blocks // 2  # keys that pass the filter and are absent
        ask_some(second, rng, 20_000)
        assert reads_of(second).blocks_read == read
    with opened(large, residency.shared_tables) as third:
        assert list(warmed(third))
        assert not checks(lookup_of(third).data)
        assert reads_of(third).blocks_read == 0


def test_the_process_that_makes_a_table_checks_all_of_it(large: Path, residency: Residency) -> None:
    with opened(large, residency.shared_tables) as reader:
        keys = LARGE[0][::2]
        for _ in range(20):
            assert reader.contains(keys).to_pylist() == [True] * len(keys)
            if is_shared(reader):
                break
        assert is_shared(reader)
        assert not checks(lookup_of(reader).data)


def test_tables_are_checked_before_many_keys_are_searched_in_layers(
    large: Path, residency: Residency, seed: int
) -> None:
    """Each filter lets some keys of other files pass, which would all be searched in blocks."""
    with opened(large, residency.shared_tables) as first:
        list(warmed(first))
    rng = random.Random(seed)
    asked = [rng.randrange(len(LARGE[0])) for _ in range(60_000)]
    keys = pa.array([b"%08d" % (3 * number + number % 2) for number in asked])
    with (
        opened(large, residency.shared_tables) as second,
        opened(large, residency.shared_tables) as third,
    ):
        files = RangedFiles([second, third])
        assert not files.are_disjoint
        hits = FileHits(len(keys))
        files.find(keys, hits, 0)
        assert len(hits) == 2 * sum(number % 2 == 0 for number in asked)
        for reader in (second, third):
            assert is_shared(reader)
            assert not checks(lookup_of(reader).data)
            assert reads_of(reader).blocks_read == 0


def test_the_filter_excludes_missing_keys_before_all_of_a_table_is_checked(
    large: Path, residency: Residency, seed: int
) -> None:
    """Otherwise each of them is searched in its block, also where only one of ten is missing."""
    rng = random.Random(seed)
    numbers = [rng.randrange(len(LARGE[0])) for _ in range(20_000)]
    missing = {place for place in range(20_000) if rng.random() < 0.1}
    keys = [b"%08d" % (3 * number + (at in missing)) for at, number in enumerate(numbers)]
    wanted = [None if at in missing else b"%d" % number for at, number in enumerate(numbers)]
    with opened(large, residency.shared_tables) as first:
        list(warmed(first))
    with opened(large, residency.shared_tables) as second:
        second.lookup(LARGE[0][::100])
        assert is_shared(second)
        assert checks(lookup_of(second).data)
        before = reads_of(second).filter_negatives
        assert second.lookup(keys).to_pylist() == wanted
        assert reads_of(second).filter_negatives - before > 0.95 * len(missing)


def test_a_large_table_that_is_damaged_costs_no_answer(
    large: Path, residency: Residency, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed)
    with opened(large, residency.shared_tables) as reader:
        list(warmed(reader))
    (file,) = files_of(residency)
    content = file.read_bytes()
    for damage in ["flips", "zeros", "moved", "ones", "cut"]:
        changed = bytearray(content)
        for _ in range(2000):
            at = rng.randrange((1 << 20) + 200, len(content) - 64)
            if damage == "flips":
                changed[at] ^= 1 << rng.randrange(8)
            elif damage == "zeros":
                changed[at : at + 200] = bytes(len(changed[at : at + 200]))
            elif damage == "ones":
                changed[at : at + 200] = b"\xff" * len(changed[at : at + 200])
            elif damage == "moved":
                changed[at : at + 64] = changed[at - 64 : at]
        changed[-64:] = content[-64:]
        file.write_bytes(changed)
        caplog.clear()
        with opened(large, residency.shared_tables) as reader:
            reader.lookup(LARGE[0][::100])
            assert is_shared(reader), damage
            if damage == "cut":
                os.truncate(file, len(content) // 2 // 4096 * 4096)
            while checks(lookup_of(reader).data):
                ask_some(reader, rng, 2000)
            assert not file.exists()
            assert damage == "cut" or "XXH3-64" in caplog.text
            for _ in range(12):
                ask_some(reader, rng, 10_000)
            assert is_shared(reader) or damage == "cut"
        if damage == "cut":
            with opened(large, residency.shared_tables) as reader:
                list(warmed(reader))
        assert file.read_bytes() == content, damage


def test_a_table_of_another_file(path: Path, residency: Residency, tmp_path: Path) -> None:
    other = write(tmp_path / "y.sst", [(key, b"other") for key, _ in RECORDS])
    for one in (path, other):
        with opened(one, residency.shared_tables) as reader:
            for _ in range(3):
                reader.lookup(KEYS)
    first, second = files_of(residency)
    first.write_bytes(second.read_bytes())
    second.write_bytes(first.read_bytes())
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
    with opened(other, residency.shared_tables) as reader:
        assert set(reader.lookup(KEYS).to_pylist()) == {b"other", None}


def test_after_a_restart_of_the_host_blocks_are_checked_again(
    path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
    with opened(path, residency.shared_tables) as reader:
        adopt(lookup_of(reader).data)
        assert is_shared(reader)
    monkeypatch.setattr(shared, "boot_id", lambda: "after a restart")
    with opened(path, residency.shared_tables) as reader:
        adopt(lookup_of(reader).data)
        assert not is_shared(reader)
        ask(reader)
        assert reads_of(reader).blocks_read > 0
        assert is_shared(reader)


def test_a_file_that_is_replaced_has_another_table(path: Path, residency: Residency) -> None:
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
    write(path.with_suffix(".new"), [(key, b"new") for key, _ in RECORDS])
    os.replace(path.with_suffix(".new"), path)
    with opened(path, residency.shared_tables) as reader:
        for _ in range(3):
            assert set(reader.lookup(KEYS).to_pylist()) == {b"new", None}
        assert is_shared(reader)
    assert len(files_of(residency)) == 2


@pytest.mark.parametrize("ask_first", ["lookup", "get", "contains"])
@pytest.mark.parametrize("at", ["the start", "the middle", "the end"])
def test_a_table_that_is_cut_while_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, ask_first: str
) -> None:
    """The lookup that sees it answers from the file's blocks, and the next one makes a table."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    rows = pa.table({"id": range(60_000), "v": [f"value {i}" for i in range(60_000)]})
    lookupstore.build(rows, tmp_path / "s", key="id", buckets=1).close()
    for file in (tmp_path / "s" / "data").iterdir():
        os.utime(file, (AN_HOUR_AGO, AN_HOUR_AGO))
    keys = pa.array(range(0, 90_000, 5))
    wanted = [f"value {i}" if i < 60_000 else None for i in range(0, 90_000, 5)]
    with lookupstore.open(tmp_path / "s") as store:
        while not store._files.with_reader(0, is_shared):
            assert store.lookup(keys)["v"].to_pylist() == wanted
        (file,) = (tmp_path / "cache").glob(f"*{COPY}")
        size = file.stat().st_size
        os.truncate(file, {"the start": 0, "the middle": size // 2, "the end": size - 3}[at])
        if ask_first == "get":
            assert [store.get(key) for key in (5, 70_000)] == [{"v": "value 5"}, None]
        if ask_first == "contains":
            assert store.contains(keys).to_pylist() == [one is not None for one in wanted]
        assert not file.exists() or ask_first == "lookup"
        for _ in range(4):
            assert store.lookup(keys)["v"].to_pylist() == wanted
        assert not file.exists()
        assert not store._files.with_reader(0, is_shared)


def test_a_claim_keeps_others_from_making_it(path: Path, residency: Residency) -> None:
    """Until it has ended: who has made the claim may be dead, or have nothing to do."""
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
    (file,) = files_of(residency)
    content = file.read_bytes()
    file.unlink()
    claim = Path(residency.folder) / MAKING / file.name / CLAIM
    claim.parent.mkdir(mode=0o700)
    claim.touch(mode=0o600)
    other = Residency(residency.folder, quota=10 << 20)
    with opened(path, other.shared_tables) as reader:
        ask(reader)
        assert lookup_of(reader).data.table.places is None
        assert other.used < 100_000
        ended = time.time() - CLAIM_SECONDS
        os.utime(claim, (ended, ended))
        time.sleep(0.6)  # it looks that often
        ask(reader)
        assert is_shared(reader)
    assert files_of(residency) == [file]
    assert file.read_bytes() == content
    assert not claim.exists()


def test_only_who_makes_the_table_releases_pages(
    path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others read single blocks meanwhile, of which each call needs those of calls before."""
    released: list[str] = []
    monkeypatch.setattr(StoredFile, "drop_scattered", lambda file: released.append(file.path))
    for makes in (False, True):
        tables = Residency(residency.folder).shared_tables
        monkeypatch.setattr(tables, "claim", lambda name, makes=makes: makes)
        with opened(path, tables) as reader:
            for key, value in RECORDS[: COUNT // 4]:
                assert reader.get(key) == value
            assert (lookup_of(reader).data.table.places is not None) == makes
        assert released == [str(path)] * makes


def test_a_claim_ends_in_any_case(residency: Residency) -> None:
    """A maker that is asked seldom renews its claim, and still keeps nobody waiting for long."""
    ours, theirs = (Residency(residency.folder).shared_tables for _ in range(2))
    name = "ab" * 16
    assert ours.claim(name)
    assert ours.claim(name)
    assert not theirs.claim(name)
    began = time.time() - MOST_CLAIM_SECONDS
    os.utime(Path(residency.folder) / MAKING / f"{name}{COPY}", (began, began))
    assert theirs.claim(name)
    assert not ours.claim(name)


def test_a_table_that_comes_meanwhile_is_used(path: Path, residency: Residency) -> None:
    """A process that was told to wait has its table when the other one has published it."""
    first, second = (opened(path, Residency(residency.folder).shared_tables) for _ in range(2))
    few = KEYS[: len(KEYS) // 20]
    while blocks_added(lookup_of(first).data) == 0:
        assert first.lookup(few).to_pylist() == ANSWERS[: len(few)]
    ask(second)
    assert lookup_of(second).data.table.places is None
    ask(first)
    assert is_shared(first)
    ask(second)
    assert is_shared(second)


@pytest.mark.parametrize("fault", ["quota", "read only", "no space", "of another user"])
def test_without_room_each_process_has_its_own(
    path: Path, residency: Residency, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: HostTables = residency.shared_tables
    if fault == "quota":
        tables = Residency(residency.folder, quota=20_000).shared_tables
        with pytest.raises(DiskQuotaError):
            tables.make("ab" * 16, 50_000, lambda _: None)
    elif fault == "read only":
        blocked = path.parent / "blocked"
        blocked.write_bytes(b"a file where the folder would be")
        tables = Residency(blocked / "cache").shared_tables
    elif fault == "no space":

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(shared, "_write", full)
    else:
        with opened(path, tables) as reader:
            ask(reader)
        (file,) = files_of(residency)
        file.chmod(0o666)
        file.write_bytes(bytes(file.stat().st_size))
    with opened(path, tables) as reader:
        ask(reader)
        places = lookup_of(reader).data.table.places
        assert places is not None
        assert places.is_shared == (fault == "of another user")  # that one was made again
    if fault != "of another user":
        assert files_of(residency) == []
    making = Path(residency.folder) / MAKING
    assert not making.exists() or [*making.iterdir()] == []


@pytest.mark.parametrize("step", [*range(40)])
@pytest.mark.few(8)
def test_a_maker_that_is_killed(path: Path, residency: Residency, step: int) -> None:
    """Killed at one of its file operations: others answer as before, and make the table."""
    child = multiprocessing.get_context("fork").Process(
        target=_die_at_step, args=(path, residency, step)
    )
    child.start()
    child.join()
    assert child.exitcode in (0, 9)
    (claim := Path(residency.folder) / MAKING).mkdir(parents=True, exist_ok=True)
    for left in claim.glob(f"*/{CLAIM}"):
        os.utime(left, (AN_HOUR_AGO, AN_HOUR_AGO))
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
        assert is_shared(reader)
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
        assert reads_of(reader).blocks_read == 0
    assert len(files_of(residency)) == 1
    with residency._host.locked():
        residency._host.evict(0)  # as the next process does that needs room
    assert [*claim.iterdir()] == []


def _die_at_step(path: Path, residency: Residency, step: int) -> None:
    left = [step]

    def watch(event: str, args: tuple[object, ...]) -> None:
        if event in ("open", "os.rename", "os.utime", "os.truncate", "os.remove", "os.chmod",
                     "os.mkdir", "os.rmdir", "fcntl.flock", "shutil.rmtree"):  # fmt: skip
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)

    reader = opened(path, residency.shared_tables)
    sys.addaudithook(watch)
    for _ in range(4):
        reader.lookup(KEYS)
    os._exit(0)


def test_a_child_of_fork_goes_on(path: Path, residency: Residency) -> None:
    reader = opened(path, residency.shared_tables)
    few = KEYS[: len(KEYS) // 20]
    while blocks_added(lookup_of(reader).data) == 0:
        reader.lookup(few)
    child = multiprocessing.get_context("fork").Process(target=ask, args=(reader,))
    child.start()
    ask(reader)
    child.join()
    assert child.exitcode == 0
    assert is_shared(reader)


def test_threads_find_and_publish_it(path: Path, residency: Residency) -> None:
    for _ in range(3):
        reader = opened(path, residency.shared_tables)
        run_all([lambda reader=reader: ask(reader) for _ in range(4)])
        assert is_shared(reader)


def test_a_table_gives_way_and_answers(path: Path, residency: Residency, tmp_path: Path) -> None:
    """Others may take its room on the disk; the mapped bytes stay until nobody uses them."""
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
        before = descriptors.total
        (file,) = files_of(residency)
        with residency._host.locked():
            residency._host.evict(1 << 30)
        assert file.exists()  # it is in use
        descriptors.all_give_way()
        assert descriptors.total < before
        with residency._host.locked():
            residency._host.evict(1 << 30)
        assert not file.exists()
        ask(reader)
        assert is_shared(reader)


def test_a_young_file_is_shared_once_it_is_older(tmp_path: Path, residency: Residency) -> None:
    path = write(tmp_path / "young.sst")
    os.utime(path)
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
        assert not is_shared(reader)
    assert files_of(residency) == []
    reader = opened(path, residency.shared_tables)
    time.sleep(2.1)
    ask(reader)
    assert is_shared(reader)


def test_a_small_file_is_not_shared(
    path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with opened(path, residency.shared_tables) as reader:
        ask(reader)
        assert lookup_of(reader).data.table.places is not None
        assert not is_shared(reader)
    assert files_of(residency) == []
