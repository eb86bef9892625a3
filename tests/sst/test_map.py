"""Files seen through a map: cut, grown again and closed, while something looks at them."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.sst_files import fresh, written

from lookupstore.errors import CorruptionError
from lookupstore.sst import Reader, scans
from lookupstore.sst._map import FileMap
from lookupstore.sst.stored import StoredFile

PAGE = os.sysconf("SC_PAGESIZE")
SIZE = 4 * PAGE + 1234
CONTENT = random.Random(1).randbytes(SIZE - 4) + b"ends"


def mapped(path: Path) -> FileMap:
    """Map a file; the descriptor is not needed afterwards."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return FileMap(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mapped"
    path.write_bytes(CONTENT)
    return path


# -- the map


@pytest.mark.parametrize("size", [1, 3, 4, PAGE - 1, PAGE, PAGE + 1, SIZE])
def test_a_map_is_the_bytes_of_the_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "mapped"
    path.write_bytes(CONTENT[-size:])
    file_map = mapped(path)
    assert len(file_map) == size
    assert memoryview(file_map) == CONTENT[-size:]
    assert memoryview(file_map).readonly
    assert not file_map.broken


CUTS = [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 4 * PAGE, 4 * PAGE + 1, SIZE - 4, SIZE - 1]


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize("touched", [False, True])
def test_a_cut_breaks_the_map(path: Path, size: int, touched: bool) -> None:
    """The bytes before the cut stay, zeros take the place of those behind it."""
    file_map = mapped(path)
    view = memoryview(file_map)
    if touched:
        assert bytes(view) == CONTENT
    os.truncate(path, size)
    assert bytes(view) == CONTENT[:size].ljust(SIZE, b"\0")
    assert file_map.broken


@pytest.mark.parametrize("size", CUTS)
def test_a_cut_is_seen_without_a_look_at_the_bytes(path: Path, size: int) -> None:
    file_map = mapped(path)
    os.truncate(path, size)
    assert file_map.broken


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize("looked", [False, True])
def test_cut_and_grown_again(path: Path, size: int, looked: bool) -> None:
    """What grows back are zeros; where the bytes come back, a cut that was met is not forgotten."""
    file_map = mapped(path)
    os.truncate(path, size)
    met = looked and file_map.broken and size <= 4 * PAGE  # else the last page stays
    os.truncate(path, SIZE)
    assert file_map.broken
    path.write_bytes(CONTENT)
    assert file_map.broken == met


def test_a_file_made_longer_is_whole(path: Path) -> None:
    file_map = mapped(path)
    with path.open("ab") as file:
        file.write(CONTENT)
    assert not file_map.broken
    assert memoryview(file_map) == CONTENT


def test_a_cut_touched_in_more_pages_than_a_process_may_have_maps(tmp_path: Path) -> None:
    """Each hole in a map makes it two maps, of which the kernel allows a process some 65,000."""
    path = tmp_path / "sparse"
    size = 100_000 * 2 * PAGE
    path.write_bytes(b"")
    os.truncate(path, size)
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"ends")
    for order in (1, -1):
        file_map = mapped(path)
        os.truncate(path, PAGE)
        every_other_page = memoryview(file_map)[:: 2 * PAGE]
        assert bytes(every_other_page[::order]) == bytes(100_000)
        assert file_map.broken
        os.truncate(path, size)
        with path.open("r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"ends")


def test_a_view_outlives_the_map_and_the_file(path: Path) -> None:
    view = memoryview(mapped(path))[PAGE - 5 : PAGE + 5]
    path.unlink()
    gc.collect()
    others = [mapped_anew(path.with_name("other"), b"x" * SIZE) for _ in range(3)]
    assert view == CONTENT[PAGE - 5 : PAGE + 5]
    del others


def test_a_view_of_a_cut_file_outlives_the_map(path: Path) -> None:
    view = memoryview(mapped(path))
    os.truncate(path, PAGE)
    gc.collect()
    assert bytes(view) == CONTENT[:PAGE].ljust(SIZE, b"\0")


def mapped_anew(path: Path, content: bytes) -> FileMap:
    path.write_bytes(content)
    return mapped(path)


def test_many_maps_opened_and_closed(tmp_path: Path, seed: int) -> None:
    """A map takes the entry of a closed one, and nothing of what befell that one."""
    rng = random.Random(seed)
    paths = [tmp_path / str(i) for i in range(40)]
    open_maps: dict[Path, tuple[FileMap, bytes, int]] = {}
    for _ in range(1500):
        path = rng.choice(paths)
        if path not in open_maps:
            content = rng.randbytes(rng.randrange(1, 3 * PAGE)) + b"ends"
            open_maps[path] = mapped_anew(path, content), content, len(content)
        elif rng.random() < 0.3:
            _, content, size = open_maps[path]
            size = rng.randrange(size + 1)
            os.truncate(path, size)
            open_maps[path] = open_maps[path][0], content, size
        elif rng.random() < 0.5:
            del open_maps[path]
            path.unlink()  # or the next one would be cut with it
        for file_map, content, size in rng.sample(list(open_maps.values()), len(open_maps) // 4):
            assert file_map.broken == (size < len(content))
            assert bytes(memoryview(file_map)) == content[:size].ljust(len(content), b"\0")


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="size=0: an empty file cannot be mapped"):
        mapped(path)


def test_what_can_not_be_mapped(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        FileMap(-1, 5)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match=r"No such device|not supported"):
        FileMap(descriptor, 5)
    os.close(descriptor)


# -- bus errors of others

FOREIGN = """
import faulthandler, mmap, os, signal, sys
from lookupstore.sst._map import FileMap

path, kind = sys.argv[1:]
if kind == "ignored":
    signal.signal(signal.SIGBUS, signal.SIG_IGN)
if kind == "faulthandler":
    faulthandler.enable()
else:
    assert not faulthandler.is_enabled()
descriptor = os.open(path, os.O_RDONLY)
ours = FileMap(descriptor, os.fstat(descriptor).st_size)
theirs = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
os.truncate(path, 0)
assert ours.broken and not any(memoryview(ours))
print("survived ours", flush=True)
if kind == "sent":
    os.kill(os.getpid(), signal.SIGBUS)
else:
    theirs[0]
print("survived theirs", flush=True)
"""


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, without a fault handler of Python's or a sanitizer's."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONFAULTHANDLER"}
    environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":handle_sigbus=0"
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("kind", ["default", "ignored", "faulthandler", "sent"])
def test_a_bus_error_of_others_is_theirs(path: Path, kind: str) -> None:
    """It kills, as it does without us, or reaches the handler that was there before ours."""
    run = run_python(FOREIGN, str(path), kind)
    assert run.returncode == -signal.SIGBUS, run.stderr
    assert run.stdout == "survived ours\n"
    assert ("Fatal Python error: Bus error" in run.stderr) == (kind == "faulthandler")


# -- readers of files that are cut

BLOCK = 65536
MODEL = {
    b"%08d" % (i * 7919 % 100_000_007): b"%d " % i * (1 + i % 40) + random.Random(i).randbytes(20)
    for i in range(3600)
}
RECORDS = sorted(MODEL.items())
KINDS: dict[str, dict[str, Any]] = {
    "none": {"compression": "none"},
    "zstd": {"compression": "zstd"},
    "paimon": {"compression": "none", "dialect": "paimon"},
    "paimon-zstd": {"compression": "zstd", "dialect": "paimon"},
    "mixed": {"compression": "zstd"},  # zstd makes some blocks no smaller: they are stored plainly
}


def records_of(kind: str) -> list[tuple[bytes, bytes]]:
    """Return the records of a file of that kind: several blocks of many pages each."""
    if kind != "mixed":
        return RECORDS
    half = len(RECORDS) // 2
    noise = random.Random(7)
    return [
        (key, noise.randbytes(90) if number < half else value)
        for number, (key, value) in enumerate(RECORDS)
    ]


def outcome(call: Callable[[], object]) -> object:
    """Return what a call gives, or the one error that it may raise."""
    try:
        return call()
    except CorruptionError as error:
        return error


def check_cut(reader: Reader, path: Path, records: list[tuple[bytes, bytes]], seed: int) -> int:
    """Ask everything of a reader whose file was cut; return how many calls were answered."""
    rng = random.Random(seed)
    model = dict(records)
    keys = list(model)
    some = rng.sample(keys, 30)
    absent = [key + b"0" for key in some]
    asked = rng.sample(keys, 1500) + absent
    low, high = sorted(rng.sample(keys, 2))
    within = [one for one in records if low <= one[0] < high]
    calls: list[tuple[str, Callable[[], object], object]] = [
        *((f"get {key!r}", lambda key=key: reader.get(key), model[key]) for key in some),
        *((f"get {key!r}", lambda key=key: reader.get(key), None) for key in absent),
        ("lookup", lambda: reader.lookup(asked).to_pylist(), [*map(model.get, asked)]),
        ("contains", lambda: reader.contains(asked).to_pylist(),
         [key in model for key in asked]),
        ("scan", lambda: list(reader.items()), records),
        ("range", lambda: list(reader.items(start=low, stop=high)), within),
        ("reverse", lambda: list(reader.items(start=low, stop=high, reverse=True)), within[::-1]),
        ("prefix", lambda: list(reader.items(starts_with=low)), [(low, model[low])]),
        ("verify", lambda: reader.verify().num_records, len(records)),
    ]  # fmt: skip
    rng.shuffle(calls)
    refused = 0
    for name, call, right in calls:
        found = outcome(call)
        if isinstance(found, CorruptionError):
            refused += 1
            assert found.path == str(path), name
            assert "file of" in found.expected, f"{name}: {found}"
            assert str(path.stat().st_size) in found.found, f"{name}: {found}"
            assert str(reader.info().file_bytes) in found.expected, f"{name}: {found}"
        else:
            assert found == right, f"{name} after {refused} refusals"
    return len(calls) - refused


def warm(reader: Reader, records: list[tuple[bytes, bytes]]) -> None:
    """Make every block ready and touch every byte."""
    keys, values = zip(*records, strict=True)
    assert reader.lookup(list(keys)).to_pylist() == list(values)
    assert list(reader.items()) == records


def cuts_of(size: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    pages = range(0, size, PAGE)
    return sorted(
        {0, 1, size - 1, size - 5, *rng.sample(pages, 4), *(rng.randrange(size) for _ in range(8))}
    )


def check_all_cuts(path: Path, kind: str, seed: int) -> None:
    records = records_of(kind)
    written(path, records, block_size=BLOCK, **KINDS[kind])
    stored = path.read_bytes()
    for size in cuts_of(len(stored), seed):
        for hot in (False, True):
            # Another inode for each: the readers of the others keep their blocks.
            path.unlink()
            path.write_bytes(stored)
            reader = fresh(path)
            if hot:
                warm(reader, records)
            os.truncate(path, size)
            # A map tells of any cut, whatever a call then needs of the file.
            assert check_cut(reader, path, records, seed) == 0, (size, hot)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_readers_of_a_file_that_is_cut(tmp_path: Path, kind: str, seed: int) -> None:
    """No answer is wrong, and no signal kills: the work is done in a process of its own."""
    code = (
        "import sys; from pathlib import Path; from test_map import check_all_cuts\n"
        "check_all_cuts(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))"
    )
    run = run_python(code, str(tmp_path / "cut.sst"), kind, str(seed))
    assert run.returncode == 0, f"status {run.returncode}\n{run.stderr}"


def test_the_mixed_file_has_both_kinds_of_blocks(tmp_path: Path) -> None:
    path = written(tmp_path / "x.sst", records_of("mixed"), block_size=BLOCK, **KINDS["mixed"])
    codecs = fresh(path).info().codecs
    assert codecs is not None
    assert min(codecs["none"], codecs["zstd"]) >= 1


def test_a_file_cut_and_grown_again_under_a_reader(tmp_path: Path) -> None:
    path = written(tmp_path / "x.sst", RECORDS, block_size=BLOCK, compression="none")
    size = path.stat().st_size
    reader = fresh(path)
    warm(reader, RECORDS)
    os.truncate(path, 5000)
    os.truncate(path, size)
    with pytest.raises(
        CorruptionError, match=f"a file of {size} bytes, found .*truncated"
    ) as caught:
        reader.get(RECORDS[0][0])
    assert caught.value.path == str(path)


def test_an_answer_given_before_the_cut_stays(tmp_path: Path) -> None:
    path = written(tmp_path / "x.sst", RECORDS, block_size=BLOCK, compression="none")
    reader = fresh(path)
    keys = [key for key, _ in RECORDS]
    answers, batches = reader.lookup(keys), list(reader.scan())
    os.truncate(path, 0)
    assert answers.to_pylist() == [value for _, value in RECORDS]
    assert [key for batch in batches for key in batch.column("key").to_pylist()] == keys
    with pytest.raises(CorruptionError):
        reader.get(keys[0])


# All of one size: zeros in the place of such records are records, too, with empty keys.
EVEN = [(b"%08d" % i, b"%032d" % i) for i in range(4500)]


@pytest.mark.parametrize("records", [RECORDS, EVEN], ids=["uneven", "even"])
@pytest.mark.parametrize("bounds", [(None, None), (0, None), (None, -1), (0, -1)])
def test_a_file_cut_between_two_batches_of_a_scan(
    tmp_path: Path,
    records: list[tuple[bytes, bytes]],
    bounds: tuple[int | None, int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lookupstore.sst.scans._BATCH", 1)  # each batch is a block
    path = written(tmp_path / "x.sst", records, block_size=BLOCK, compression="none")
    reader = fresh(path)
    warm(reader, records)
    start, stop = (None if at is None else records[at][0] for at in bounds)
    batches = reader.scan(start=start, stop=stop)
    next(batches)
    os.truncate(path, 0)
    with pytest.raises(CorruptionError, match="found 0"):
        next(batches)


def test_a_file_cut_while_records_are_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "x.sst", EVEN, block_size=BLOCK, compression="none")
    reader, gather = fresh(path), scans.records_of

    def cut_first(*given: Any) -> Any:
        os.truncate(path, 0)
        return gather(*given)

    monkeypatch.setattr(scans, "records_of", cut_first)
    with pytest.raises(CorruptionError, match="found 0"):
        list(reader.items())


@pytest.mark.parametrize("size", [0, 40])
def test_a_range_of_a_file_of_one_block_that_is_cut(tmp_path: Path, size: int) -> None:
    """An index of one record is one that zeros make, too: it says that the range is empty."""
    path = written(tmp_path / "x.sst", EVEN[:50], block_size=BLOCK, compression="none")
    reader = fresh(path)
    os.truncate(path, size)
    for start, stop in ((EVEN[7][0], None), (EVEN[7][0], EVEN[9][0]), (None, EVEN[9][0])):
        with pytest.raises(CorruptionError, match=f"found {size}"):
            list(reader.items(start=start, stop=stop))


def test_a_file_cut_while_it_is_being_opened(tmp_path: Path, monkeypatch: Any) -> None:
    """Between the look at its size and its map, where the map finds no last bytes to remember."""
    path = written(tmp_path / "x.sst", RECORDS[:99])

    def cut_first(descriptor: int, size: int) -> FileMap:
        os.truncate(path, 0)
        return FileMap(descriptor, size)

    monkeypatch.setattr("lookupstore.sst.stored.FileMap", cut_first)
    with pytest.raises(CorruptionError, match="found 0"):
        StoredFile(str(path))


@pytest.mark.parametrize(
    ("offset", "size"), [(0, SIZE), (SIZE - 1, 1), (5, 0), (SIZE, 9), (1, SIZE)]
)
def test_what_is_asked_for_ahead_may_lie_anywhere(path: Path, offset: int, size: int) -> None:
    file_map = mapped(path)
    file_map.ahead(offset, size)
    os.truncate(path, PAGE)
    file_map.ahead(offset, size)
    assert memoryview(file_map)[:PAGE] == CONTENT[:PAGE]
    assert file_map.broken


@pytest.mark.parametrize(
    ("offset", "size"), [(0, SIZE), (SIZE - 1, 1), (5, 0), (SIZE, 9), (1, SIZE)]
)
def test_what_is_read_ahead_may_lie_anywhere(path: Path, offset: int, size: int) -> None:
    file_map = mapped(path)
    file_map.populate(offset, size)
    assert memoryview(file_map) == CONTENT
    os.truncate(path, PAGE)
    file_map.populate(offset, size)
    assert memoryview(file_map)[:PAGE] == CONTENT[:PAGE]
    assert file_map.broken
    assert not any(memoryview(file_map)[PAGE:])


def test_what_is_read_ahead_leaves_the_advice_to_lookups(path: Path) -> None:
    """A page that a lookup touches later is read alone."""
    file_map = mapped(path)
    file_map.populate(0, SIZE)
    assert memoryview(file_map) == CONTENT
    maps = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.M)
    (own,) = (one for one in maps if str(path) in one)
    flags = re.findall("VmFlags: (.*)", own)[0].split()
    assert "rr" in flags
    assert not {"sr", "hg", "nh"} & set(flags)


def test_the_system_tells_what_is_in_memory(tmp_path: Path) -> None:
    """None where it does not: before Linux 6.5, or if nothing of the file is in memory."""
    path = tmp_path / "file"
    size = 64 * PAGE
    with path.open("wb") as file:
        file.truncate(size)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert FileMap.is_cached(descriptor, size) is None
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(descriptor, 1, 5 * PAGE)
        some = FileMap.is_cached(descriptor, size)
        assert some in (False, None)
        os.pread(descriptor, size, 0)
        assert FileMap.is_cached(descriptor, size) is (None if some is None else True)
    finally:
        os.close(descriptor)
    assert FileMap.is_cached(-1, 1) is None


def test_a_file_that_was_just_read_is_in_memory(tmp_path: Path) -> None:
    """The file itself keeps no descriptor: the question needs one of its own."""
    records = [(b"key %06d" % i, b"value") for i in range(5000)]
    path = written(tmp_path / "file.sst", records, compression="none")
    file = StoredFile(str(path))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.pread(descriptor, file.size, 0)
        assert file.is_cached() is FileMap.is_cached(descriptor, file.size)
    finally:
        os.close(descriptor)


def test_the_first_call_of_a_process_may_ask_what_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    code = (
        "import os, sys\nfrom lookupstore.sst._map import FileMap\n"
        "print(FileMap.is_cached(os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file"), str(SIZE)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() in ("True", "None")
