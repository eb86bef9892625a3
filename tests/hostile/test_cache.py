"""The cache folder of a host: what another user put there is neither believed nor overwritten."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.remote import Remote

import lookupstore
from lookupstore import LookupStore, columnar
from lookupstore.hostcache import stats
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.counts import Counts
from lookupstore.hostcache.folder import HostFolder
from lookupstore.sst import Reader, Writer
from lookupstore.store.local_files import files_of

ROWS = {key: f"right {key}" for key in range(500)}
STRANGER = 54321
AWAY = ["told", pytest.param("given", marks=pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give a file away"))]  # fmt: skip

Answers = Callable[[], list[str | None]]


def table(word: str = "right") -> pa.Table:
    return pa.table({"id": list(ROWS), "v": [f"{word} {key}" for key in ROWS]})


def give_away(path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file be another user's: really, or by what the system says of it."""
    if how == "given":
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        return
    number = os.lstat(path).st_ino
    if path.is_file():  # else the next file may get the number
        os.link(path, path.parents[1] / "kept")

    def told(real: Callable[..., os.stat_result]) -> Callable[..., object]:
        def status(*args: object, **named: object) -> object:
            found = real(*args, **named)
            if found.st_ino != number:
                return found
            fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
            return SimpleNamespace(**{**fields, "st_uid": os.geteuid() + 1})

        return status

    for name in ("stat", "lstat", "fstat"):
        monkeypatch.setattr(os, name, told(getattr(os, name)))


def remote_store(tmp_path: Path) -> Callable[[Residency | None], list[str | None]]:
    place = Remote(tmp_path, "s3").location()
    lookupstore.build(table(), place, key="id", compression="none").close()

    def answers(residency: Residency | None) -> list[str | None]:
        with LookupStore(place, residency=residency) as store:
            found: list[str | None] = store.lookup(list(ROWS))["v"].to_pylist()
            with files_of(store).original(0, whole=True):
                return found

    return answers


def columnar_files(tmp_path: Path) -> Callable[[Residency | None], list[str | None]]:
    source = tmp_path / "source.parquet"
    pq.write_table(table(), source)
    source.chmod(0o600)

    def answers(residency: Residency | None) -> list[str | None]:
        with columnar.ColumnarFiles(
            str(source), key="id", build="always", residency=residency
        ) as files:
            found: list[str | None] = files.lookup(list(ROWS))["v"].to_pylist()
            return found

    return answers


KINDS = [remote_store, columnar_files]


def wrong_copy(path: Path) -> None:
    """Write a good sorted file of the same size and wrong answers in the place of a copy."""
    with Reader(path) as reader:
        info, records = reader.info(), dict(reader.items())
    wrong = {key: value.replace(b"right", b"wrong") for key, value in records.items()}
    assert wrong != records
    with Writer(
        path, compression="none", overwrite=True, key_schema=info.key_schema,
        value_schema=info.value_schema, source=info.source, metadata=info.metadata,
        expected_entries=info.num_records,
    ) as writer:  # fmt: skip
        writer.put_many(list(wrong), list(wrong.values()))


def only_copy(folder: Path) -> Path:
    (path,) = folder.rglob("*.sst")
    return path


def modes(folder: Path) -> dict[str, int]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: stat.S_IMODE(path.lstat().st_mode) for name, path in found.items()}


@pytest.mark.parametrize("make", KINDS)
def test_folder_and_files_are_of_their_user_alone(
    tmp_path: Path, make: Callable[[Path], Callable[[Residency], object]]
) -> None:
    before = os.umask(0)
    try:
        answers = make(tmp_path)
        folder = tmp_path / "cache"
        assert answers(Residency(folder, quota="9MB")) == list(ROWS.values())
        stats.add(folder, "app", "query", "store", 1, Counts(tasks=1))
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found = modes(folder)
    assert "lock" in found
    assert stats.FILE_NAME in found
    assert {name for name in found if name.endswith(".sst")}
    folders = {name for name in found if (folder / name).is_dir()}
    assert {name: mode for name, mode in found.items() if mode & 0o077} == dict.fromkeys(
        folders & {"making"}, found.get("making")
    )


@pytest.mark.parametrize("how", AWAY)
@pytest.mark.parametrize("make", KINDS)
def test_a_copy_of_another_user_does_not_answer(
    tmp_path: Path,
    make: Callable[[Path], Callable[[Residency], object]],
    how: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = make(tmp_path)
    folder = tmp_path / "cache"
    answers(Residency(folder, quota="9MB"))
    planted = only_copy(folder)
    wrong_copy(planted)
    give_away(planted, how, monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert answers(Residency(folder, quota="9MB")) == list(ROWS.values())
    assert "not a file of this user alone" in caplog.text
    monkeypatch.undo()
    assert only_copy(folder).lstat().st_uid == os.geteuid()


@pytest.mark.parametrize("kind", ["link", "mode"])
@pytest.mark.parametrize("make", KINDS)
def test_a_copy_that_is_a_link_or_that_others_may_write_does_not_answer(
    tmp_path: Path, make: Callable[[Path], Callable[[Residency], object]], kind: str
) -> None:
    answers = make(tmp_path)
    folder = tmp_path / "cache"
    answers(Residency(folder, quota="9MB"))
    planted = only_copy(folder)
    wrong_copy(planted)
    if kind == "link":
        planted.rename(tmp_path / "elsewhere")
        planted.symlink_to(tmp_path / "elsewhere")
    else:
        planted.chmod(0o666)
    assert answers(Residency(folder, quota="9MB")) == list(ROWS.values())
    assert not only_copy(folder).is_symlink()
    assert stat.S_IMODE(only_copy(folder).stat().st_mode) == 0o600
    if kind == "link":
        assert (tmp_path / "elsewhere").exists()


def test_files_of_another_user_are_evicted_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = remote_store(tmp_path)
    folder = tmp_path / "cache"
    residency = Residency(folder, quota="9MB")
    answers(residency)
    planted = folder / f"{'0' * 16}-77.sst"
    planted.write_bytes(bytes(77))
    give_away(planted, "told", monkeypatch)
    (folder / f"{'1' * 16}-77.sst").symlink_to(tmp_path / "nothing")
    host = HostFolder(str(folder), residency.quota)
    with host.locked():
        host.evict(1 << 30)
    assert not list(folder.rglob("*.sst"))


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
@pytest.mark.parametrize("make", KINDS)
def test_a_folder_that_others_may_write_is_refused(
    tmp_path: Path, make: Callable[[Path], Callable[[Residency], object]], mode: int
) -> None:
    answers = make(tmp_path)
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(PermissionError, match="others may write") as caught:
        answers(Residency(folder, quota="9MB"))
    assert caught.value.filename == str(folder)
    assert caught.value.errno == errno.EACCES
    for remedy in ("LOOKUPSTORE_CACHE", f"chmod 700 {folder}", "LOOKUPSTORE_CACHE_SHARED=1"):
        assert remedy in str(caught.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("how", AWAY)
def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose volume has the owner that its image has not."""
    folder = tmp_path / "cache"
    folder.mkdir()
    give_away(folder, how, monkeypatch)
    with pytest.raises(PermissionError, match=r"belongs to user \d+") as caught:
        remote_store(tmp_path)(Residency(folder, quota="9MB"))
    assert "LOOKUPSTORE_CACHE_SHARED=1" in str(caught.value)
    assert list(folder.iterdir()) == []


def test_a_folder_by_a_link_that_others_may_change_is_refused(tmp_path: Path) -> None:
    answers = remote_store(tmp_path)
    (tmp_path / "real").mkdir()
    everybody = tmp_path / "everybody"
    everybody.mkdir()
    (everybody / "cache").symlink_to(tmp_path / "real")
    assert answers(Residency(everybody / "cache", quota="9MB")) == list(ROWS.values())
    everybody.chmod(0o1777)
    with pytest.raises(PermissionError, match="link that others may change"):
        answers(Residency(everybody / "cache", quota="9MB"))


def test_a_link_to_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real").chmod(0o777)
    (tmp_path / "cache").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError, match="others may write"):
        remote_store(tmp_path)(Residency(tmp_path / "cache", quota="9MB"))


def test_a_folder_of_an_earlier_version_is_taken_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = remote_store(tmp_path)
    folder = tmp_path / "cache"
    answers(Residency(folder, quota="9MB"))
    folder.chmod(0o755)
    kept = only_copy(folder)
    kept.chmod(0o644)
    number = kept.stat().st_ino
    with caplog.at_level(logging.WARNING):
        assert answers(Residency(folder, quota="9MB")) == list(ROWS.values())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert only_copy(folder).stat().st_ino == number
    assert not caplog.records
    # A folder that is also something else keeps its mode.
    (tmp_path / "home" / "public").mkdir(parents=True)
    (tmp_path / "home").chmod(0o755)
    assert answers(Residency(tmp_path / "home", quota="9MB")) == list(ROWS.values())
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o755


@pytest.mark.parametrize("make", KINDS)
def test_a_shared_folder_has_a_folder_of_each_user(
    tmp_path: Path,
    make: Callable[[Path], Callable[[Residency | None], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = make(tmp_path)
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(folder))
    monkeypatch.setenv("LOOKUPSTORE_CACHE_SHARED", "1")
    own = folder / f"user-{os.geteuid()}"
    # What others put into the folder itself is not looked at.
    with monkeypatch.context() as alone:
        alone.delenv("LOOKUPSTORE_CACHE_SHARED")
        answers(Residency(tmp_path / "other", quota="9MB"))
    planted = only_copy(tmp_path / "other")
    wrong_copy(planted)
    planted.rename(folder / planted.name)
    assert answers(None) == list(ROWS.values())
    assert Residency().folder == str(own)
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    own.chmod(0o770)
    with pytest.raises(PermissionError, match="others may write"):
        answers(None)
    own.chmod(0o700)
    own.rename(folder / "mine")
    own.symlink_to(folder / "mine")
    with pytest.raises(PermissionError, match="link that others may change"):
        answers(None)


def test_a_copy_in_a_shared_folder_is_compared_with_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = remote_store(tmp_path)
    monkeypatch.setenv("LOOKUPSTORE_CACHE_SHARED", "1")
    folder = tmp_path / "cache"
    assert answers(Residency(folder, quota="9MB")) == list(ROWS.values())
    right = only_copy(folder)
    number = right.stat().st_ino
    assert answers(Residency(folder, quota="9MB")) == list(ROWS.values())
    assert only_copy(folder).stat().st_ino == number
    wrong_copy(right)
    with caplog.at_level(logging.WARNING):
        assert answers(Residency(folder, quota="9MB")) == list(ROWS.values())
    assert "its XXH64 is not" in caplog.text


def test_a_wrong_word_for_a_shared_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE_SHARED", "yes")
    with pytest.raises(ValueError, match="LOOKUPSTORE_CACHE_SHARED is 'yes'; give 1 or 0"):
        _ = Residency().folder


def test_a_published_lookup_file_is_no_more_open_than_its_source(tmp_path: Path) -> None:
    source = tmp_path / "source.parquet"
    pq.write_table(table(), source)
    for mode in (0o600, 0o644):
        source.chmod(mode)
        with columnar.ColumnarFiles(
            str(source), key="id", residency=Residency(tmp_path / "cache", quota="9MB")
        ) as files:
            files.publish()
        published = modes(tmp_path / "_lookup")
        assert set(published.values()) == {mode}
        for path in (tmp_path / "_lookup").iterdir():
            path.unlink()
