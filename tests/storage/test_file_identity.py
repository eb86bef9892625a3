"""The rule that tells a file from every other that has its path."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from support.remote import Remote
from support.replaced import WAYS, replace_file, write_in_place

from lookupstore.errors import CorruptionError, StaleStoreError
from lookupstore.storage import file_identity
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.file_identity import (
    FileIdentity,
    identity_now,
    identity_of,
    listed_identity,
    open_identified,
    open_settled,
    opened_unchanged,
)

HOUR = 3600
SECOND_NS = 1_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"old")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def address_of(path: Path) -> FileAddress:
    return FileAddress.on(fs.LocalFileSystem(), str(path))


def test_all_ways_to_look_at_a_local_file_agree(path: Path) -> None:
    status, address = os.stat(path), address_of(path)
    file, opened = open_identified(address)
    assert file.read() == b"old"
    file.close()
    (info,) = address.filesystem.get_file_info([str(path)])
    seen = [identity_of(str(path), status), identity_now(address), opened]
    seen += [listed_identity(address.filesystem, info), open_settled(address)[1]]
    expected = FileIdentity(str(path), 3, 1_700_000_000 * SECOND_NS, status.st_ino)
    assert seen == [expected] * 5
    path.unlink()
    for look in (identity_now, open_identified, open_settled):
        with pytest.raises(FileNotFoundError):
            look(address)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_replaced_is_another_one(path: Path, way: str) -> None:
    before = identity_now(address_of(path))
    WAYS[way](path, b"new")
    after = identity_now(address_of(path))
    assert not after.matches(before)
    assert after.parts != before.parts


def test_what_nobody_knows_is_not_compared() -> None:
    known = FileIdentity("/a", 9, 7, 5, "tag", "footer")
    for field, other in [("written", 8), ("inode", 6), ("etag", "gat"), ("footer", "x")]:
        parts = {"path": "/a", "nbytes": 9, field: other}
        assert not FileIdentity(**parts).matches(known)  # type: ignore[arg-type]
        assert not known.matches(FileIdentity(**parts))  # type: ignore[arg-type]
    assert FileIdentity("/a", 9).matches(known)
    assert known.matches(FileIdentity("/a", 9))
    assert not FileIdentity("/a", 8).matches(known)
    assert not FileIdentity("/b", 9).matches(known)


@pytest.mark.parametrize(
    ("age_ns", "is_whole", "is_settled"),
    [
        # As FAT and old file systems have times: two seconds, or one.
        (0, True, False),
        (SECOND_NS, True, False),
        (3 * SECOND_NS, True, True),
        # Times with digits come from a clock that ticks a hundred times a second.
        (0, False, False),
        (500_000_000, False, True),
        (-HOUR * SECOND_NS, False, False),
    ],
)
def test_files_as_young_as_a_tick_are_not_settled(
    path: Path, age_ns: int, is_whole: bool, is_settled: bool
) -> None:
    written = time.time_ns() - age_ns
    written = written // SECOND_NS * SECOND_NS if is_whole else written | 1
    os.utime(path, ns=(written, written))
    one, other = identity_now(address_of(path)), identity_now(address_of(path))
    assert (one.unsettled == "") == is_settled
    assert (one.parts == other.parts) == is_settled
    assert one.matches(other)
    assert one.is_young == (age_ns < 2 * SECOND_NS)


def test_a_file_that_was_written_this_moment_is_waited_for(path: Path) -> None:
    for _ in range(3):
        path.write_bytes(b"new")
        now = time.time_ns() | 1
        os.utime(path, ns=(now, now))
        file, identity = open_settled(address_of(path))
        file.close()
        assert identity.unsettled == ""


def test_the_open_file_is_the_identified_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow opens a path again, which may name another file by then."""
    really = FileAddress.open
    contents = [b"new", b"one", b"two"]

    def replaced(address: FileAddress) -> pa.NativeFile:
        if contents:
            replace_file(path, contents.pop(0))
        return really(address)

    monkeypatch.setattr(FileAddress, "open", replaced)
    file, identity = open_identified(address_of(path))
    assert file.read() == b"two"
    assert identity.inode == path.stat().st_ino

    def always(address: FileAddress) -> pa.NativeFile:
        replace_file(path, b"new")
        return really(address)

    monkeypatch.setattr(FileAddress, "open", always)
    open_files = len(os.listdir("/dev/fd"))
    with pytest.raises(StaleStoreError, match=r"a\.parquet: rewritten"):
        open_identified(address_of(path))
    assert len(os.listdir("/dev/fd")) == open_files


def test_a_file_that_is_replaced_while_it_is_open_is_read_to_its_end(path: Path) -> None:
    with opened_unchanged(address_of(path)) as file:
        replace_file(path, b"new")
        assert file.read() == b"old"
    with opened_unchanged(address_of(path)) as file:
        path.unlink()
        assert file.read() == b"new"


def test_a_file_that_is_written_while_it_is_open(path: Path) -> None:
    for error in (None, CorruptionError("a.parquet", 0, "rows", "none"), ValueError("no")):
        path.write_bytes(b"old")
        with pytest.raises(StaleStoreError, match=r"a\.parquet: rewritten while") as raised:  # noqa: PT012, SIM117
            with opened_unchanged(address_of(path)):
                write_in_place(path, b"new")
                if error is not None:
                    raise error
        assert raised.value.__cause__ is error
    with pytest.raises(ValueError, match="another reason"), opened_unchanged(address_of(path)):
        raise ValueError("another reason")


def test_another_file_than_the_known_one_is_not_read(path: Path) -> None:
    known = identity_now(address_of(path))
    with opened_unchanged(address_of(path), known) as file:
        assert file.read() == b"old"
    replace_file(path, b"new")
    with (
        pytest.raises(StaleStoreError, match="rewritten"),
        opened_unchanged(address_of(path), known),
    ):
        raise AssertionError("it was opened")


def test_who_reads_a_part_only_does_not_look_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts() -> Generator[bytes, None, None]:
        with opened_unchanged(address_of(path)) as file:
            while True:
                yield file.read(1)

    reading = parts()
    assert next(reading) == b"o"
    monkeypatch.setattr(file_identity, "_is_still", lambda *_: pytest.fail("looked"))
    reading.close()


class Answers:
    """An object whose store says something of it."""

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = said

    def metadata(self) -> dict[str, bytes]:
        return {name: text.encode() for name, text in self._said.items()}

    def size(self) -> int:
        return 3


def said(path: Path, **metadata: str) -> FileIdentity:
    answer: Any = Answers({name.replace("_", "-"): text for name, text in metadata.items()})
    handler = Remote(path.parent, "s3")
    address = FileAddress.on(fs.PyFileSystem(handler), path.name)
    return file_identity._identity_of_opened(address, answer)


def test_what_object_stores_say_of_objects(path: Path) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    tagged = said(path, ETag='"12ab"', Last_Modified=now)
    assert (tagged.etag, tagged.unsettled) == ("12ab", "")
    assert tagged == said(path, ETag='"12ab"', Last_Modified=now)
    # S3 with versions, Azure, Google.
    assert said(path, ETag='"1"', VersionId="v1", Last_Modified=now).etag == "1 v1"
    assert said(path, Etag="0x8D", Last_Modified=now).etag == "0x8D"
    assert said(path, etag="CJ=", generation="17", updated="2026").etag == "CJ= 17"
    # None, an empty one, and one that may stay when bytes change.
    for tag in ({}, {"ETag": '""'}, {"ETag": 'W/"12ab"'}):
        one = said(path, Last_Modified=now, **tag)
        assert one.etag == ""
        assert one.unsettled != ""
        old = said(path, Last_Modified="2023-11-14T22:13:20Z", **tag)
        assert (old.written, old.unsettled) == (1_700_000_000 * SECOND_NS, "")


def test_what_fsspec_says_of_objects(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/bucket/a.parquet", b"old")
    address = FileAddress.on(fs.PyFileSystem(fs.FSSpecHandler(memory)), "/bucket/a.parquet")
    assert identity_now(address).unsettled != ""  # it has no ETags, and says no time
    for names in (
        {"ETag": '"12ab"', "LastModified": "2023-11-14 22:13:20+00:00"},  # s3fs
        {"etag": "12ab", "last_modified": "2023-11-14 22:13:20+00:00"},  # adlfs
    ):
        monkeypatch.setattr(memory, "info", lambda path, *, _=names: {"size": 3, **_})
        now = identity_now(address)
        assert (now.etag, now.written, now.unsettled) == ("12ab", 1_700_000_000 * SECOND_NS, "")


@pytest.mark.parametrize("text", ["", "yesterday", "1970-01-01T00:00:00Z"])
def test_a_time_that_says_nothing_is_asked_for(path: Path, text: str) -> None:
    assert said(path, Last_Modified=text).written == 1_700_000_000 * SECOND_NS


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(b"new!"), Path.unlink])
def test_an_object_that_changes_while_it_is_open(
    path: Path, change: Callable[[Path], object]
) -> None:
    handler = Remote(path.parent, "s3")
    address = FileAddress.on(fs.PyFileSystem(handler), path.name)
    with opened_unchanged(address) as file:
        assert file.read() == b"old"
    handler.restart()
    with opened_unchanged(address):
        pass
    # One look when it is opened, as the answer has no time, and one at the end.
    assert [name for name, _ in handler.done].count("info") == 2
    with pytest.raises(StaleStoreError, match=r"a\.parquet: (rewritten|deleted) while it was read"):  # noqa: SIM117
        with opened_unchanged(address):
            change(path)
