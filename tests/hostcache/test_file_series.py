"""Files of a host that are made one after another: the quota is kept, and only whole files are."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lookupstore.errors import DiskQuotaError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.folder import COPY, LOCK, MAKING, flock

QUOTA = 1 << 20


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=QUOTA)


def name_of(number: int) -> str:
    return f"{number:032x}"


def test_a_file_is_there_once_it_is_finished(residency: Residency) -> None:
    with residency.file_series() as series:
        file = series.begin(name_of(1))
        file.write(b"abc" * 5_000)
        assert not residency.lookup_files.has(name_of(1))
        assert residency.used >= 15_000
        file.finish()
        file.discard()
        pinned = residency.lookup_files.pin(name_of(1))
        assert pinned is not None
        with pinned:
            path = Path(pinned.path)
            assert path.read_bytes() == b"abc" * 5_000
            assert path.stat().st_mode & 0o777 == 0o600
        dropped = series.begin(name_of(2))
        dropped.write(b"x")
        dropped.discard()
        open_one = series.begin(name_of(3))
        open_one.write(b"x")
    open_one.discard()
    assert [one.name for one in Path(residency.folder).glob("*.sst")] == [name_of(1) + COPY]
    assert not list(Path(residency.folder, MAKING).iterdir())
    assert residency.used == 16_384
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        residency.file_series().begin("../other")


def test_the_bytes_of_a_file_stay_when_it_is_evicted(residency: Residency) -> None:
    files = residency.lookup_files
    assert files.mapped(name_of(1)) is None
    with residency.file_series() as series:
        for number, content in ((1, b"abc" * 5_000), (2, b"")):
            file = series.begin(name_of(number))
            file.write(content)
            file.finish()
    path = Path(files.path_of(name_of(1)))
    os.utime(path, ns=(0, 1_000))
    # A process that makes room has the lock.
    with flock(str(path.parent / LOCK)):
        mapped = files.mapped(name_of(1))
    assert path.stat().st_atime_ns > 0
    assert path.stat().st_mtime_ns == 1_000
    files.discard(name_of(1))
    assert mapped is not None
    assert bytes(mapped) == b"abc" * 5_000
    assert files.mapped(name_of(1)) is None
    assert files.mapped(name_of(2)) == b""


def test_the_quota_is_kept_and_older_files_give_way(residency: Residency, seed: int) -> None:
    chance = random.Random(seed)
    with residency.file_series() as series:
        for number in range(200):
            file = series.begin(name_of(number))
            for _ in range(chance.randrange(4)):
                file.write(bytes(chance.randrange(20_000)))
                assert residency.used <= QUOTA
            if chance.random() < 0.2:
                file.discard()
            else:
                file.finish()
            assert residency.used <= QUOTA
    kept = sum(file.stat().st_blocks * 512 for file in Path(residency.folder).glob("*.sst"))
    assert QUOTA // 2 < kept == residency.used


def test_files_in_use_and_too_large_files_are_errors(residency: Residency) -> None:
    with residency.file_series() as series:
        big = series.begin(name_of(1))
        with pytest.raises(DiskQuotaError, match="LOOKUPSTORE_CACHE_BYTES"):
            big.write(bytes(QUOTA))
        big.discard()
        first = series.begin(name_of(2))
        first.write(bytes(QUOTA * 3 // 4))
        first.finish()
        pinned = residency.lookup_files.pin(name_of(2))
        second = series.begin(name_of(3))
        with pytest.raises(DiskQuotaError, match="in use"):
            second.write(bytes(QUOTA // 2))
        assert pinned is not None
        pinned.close()
        second.write(bytes(QUOTA // 2))
        second.finish()
        assert not residency.lookup_files.has(name_of(2))
        assert residency.lookup_files.size(name_of(3)) == QUOTA // 2


def test_threads_share_the_room(residency: Residency) -> None:
    raised: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 25):
                file = series.begin(name_of(number))
                file.write(bytes([number]) * 3_000)
                file.finish()
        except BaseException as error:
            raised.append(error)

    with residency.file_series() as series:
        threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 200, 25)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert not raised
    assert residency.used == 200 * 4096
    for number in range(200):
        path = Path(residency.folder, name_of(number) + COPY)
        assert path.read_bytes() == bytes([number]) * 3_000


def test_the_last_of_two_makers_of_a_file_replaces_it(residency: Residency) -> None:
    other = Residency(residency.folder, quota=QUOTA)
    with residency.file_series() as series, other.file_series() as others:
        both = [series.begin(name_of(1)), others.begin(name_of(1))]
        for file in both:
            file.write(b"same")
        for file in both:
            file.finish()
    assert Path(residency.folder, name_of(1) + COPY).read_bytes() == b"same"
    assert residency.used == 4096


def test_what_a_killed_maker_leaves_is_removed(residency: Residency) -> None:
    program = f"""if True:
        import os, signal
        from lookupstore.hostcache.cache import Residency
        series = Residency({residency.folder!r}, quota={QUOTA}).file_series()
        for number in (1, 2):
            file = series.begin(f"{{number:032x}}")
            file.write(b"x" * 100_000)
            if number == 1:
                file.finish()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert residency.lookup_files.has(name_of(1))
    assert not residency.lookup_files.has(name_of(2))
    assert len(os.listdir(Path(residency.folder, MAKING))) == 1
    with residency.file_series() as series:
        file = series.begin(name_of(3))
        file.finish()
    assert not list(Path(residency.folder, MAKING).iterdir())
    assert residency.used == 102_400
