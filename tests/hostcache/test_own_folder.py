"""Where a cache folder cannot be, and how much fits in one. What others may do: tests/hostile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lookupstore.errors import DiskQuotaError
from lookupstore.hostcache.folder import BLOCK_BYTES, HostFolder
from lookupstore.hostcache.own_folder import make_own_folder


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    path.write_text("not a folder")
    path.chmod(0o600)
    with pytest.raises(NotADirectoryError) as raised:
        make_own_folder(str(path))
    assert raised.value.filename == str(path)
    said = "cannot keep local copies and lookup files here; set LOOKUPSTORE_CACHE to a writable fol"
    with pytest.raises(NotADirectoryError, match=said):
        HostFolder(path, quota=1 << 20).make()
    assert path.read_text() == "not a folder"


def test_a_file_may_take_the_whole_quota(tmp_path: Path) -> None:
    folder = HostFolder(tmp_path / "cache", quota=8 * BLOCK_BYTES)
    with folder.locked():
        for nbytes, beside in ((8 * BLOCK_BYTES, 0), (7 * BLOCK_BYTES - 1, BLOCK_BYTES)):
            folder.reserve(nbytes, "a.sst", "it takes", "split it", beside)
        for nbytes, beside in ((8 * BLOCK_BYTES + 1, 0), (8 * BLOCK_BYTES, 1)):
            with pytest.raises(DiskQuotaError, match=r"but the quota of the cache .* 32768 bytes"):
                folder.reserve(nbytes, "a.sst", "it takes", "split it", beside)


def test_a_full_disk_needs_room_and_not_a_larger_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    monkeypatch.delenv("LOOKUPSTORE_CACHE_BYTES", raising=False)
    folder = HostFolder(tmp_path / "cache", quota=None)
    with folder.locked(), pytest.raises(DiskQuotaError) as caught:
        folder.reserve(BLOCK_BYTES, "a.sst", "it takes", "split it")
    assert str(caught.value) == (
        f"a.sst: it takes {BLOCK_BYTES} bytes, but the quota of the cache {folder.path} is 500 "
        "bytes, half of the free space of its disk; free some space, or set LOOKUPSTORE_CACHE to a "
        "folder on a larger disk, or split it"
    )
