"""Publishers, expirers and readers that meet at one step: who is told what, and what stays.

`test_store_sim.py` tries all steps in any order; these are the ones that went wrong once.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.remote import KINDS, Remote

import lookupstore
from lookupstore import (
    CommitConflictError,
    CommitUnknownError,
    Location,
    StaleStoreError,
    build,
    expire,
    publish,
)
from lookupstore.cli import main
from lookupstore.storage.local import LocalFolder
from lookupstore.storage.location import FoundFile
from lookupstore.storage.object_store import RemoteFolder
from lookupstore.store.expiry import names_all_in_use
from lookupstore.store.version_files import list_names, read_newest

# The package gives functions under the names of some modules.
local_module: Any = importlib.import_module("lookupstore.storage.local")
versions_module: Any = importlib.import_module("lookupstore.store.version_files")
step_module: Any = importlib.import_module("lookupstore.store.publish_step")


@pytest.fixture(autouse=True)
def own_copies(tmp_path, monkeypatch):
    """Keep a test from finding the local copies of another one, which has the same content."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies-of-this-test"))


@pytest.fixture(params=["local", *KINDS])
def place(request, tmp_path) -> Location:
    if request.param == "local":
        return Location(tmp_path / "store")
    return Remote(tmp_path, request.param).location()


def make(place: Location, value: int, retain: float = 3600) -> None:
    """Build a version whose rows all say a value."""
    table = pa.table({"id": range(9), "v": [value] * 9})
    build(table, place, key="id", overwrite=True, retain=retain).close()


def value_of(place: Location) -> int:
    with lookupstore.open(place) as store:
        assert store.verify().num_rows == 9
        return store.get(7)["v"]


def numbers(place: Location) -> list[int]:
    return [name.number for name in list_names(place)]


def around_the_write(
    patch: pytest.MonkeyPatch,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> None:
    """Let something be done right before, or after, the next file of a version is written."""
    real = {kind: kind.write for kind in (LocalFolder, RemoteFolder)}

    def write(location: Any, name: str, chunks: Any) -> None:
        if not name.startswith("versions/"):
            return real[type(location)](location, name, chunks)
        for kind, own in real.items():
            patch.setattr(kind, "write", own)
        if before is not None:
            before()
        real[type(location)](location, name, chunks)
        if after is not None:
            after()
        return None

    for kind in real:
        patch.setattr(kind, "write", write)


def next_listing(patch: pytest.MonkeyPatch, does: Callable[[], list[FoundFile]]) -> None:
    """Let the next listing of versions be something else."""
    real = {kind: kind.files for kind in (LocalFolder, RemoteFolder)}

    def files(location: Any, folder: str = "", **named: Any) -> list[FoundFile]:
        if folder != "versions":
            return real[type(location)](location, folder, **named)
        for kind, own in real.items():
            patch.setattr(kind, "files", own)
        return does()

    for kind in real:
        patch.setattr(kind, "files", files)


def fail() -> list[FoundFile]:
    raise OSError("no listing now")


@pytest.mark.parametrize("verb", ["build", "publish"])
def test_what_is_withdrawn_has_replaced_nothing(place, monkeypatch, tmp_path, verb):
    """An expirer between the write and the look of a publisher, whose look then fails."""
    make(place, 1)
    make(Location(tmp_path / "elsewhere"), 2)

    def others() -> None:
        assert expire(place, retain=0).versions == ()
        next_listing(monkeypatch, fail)

    around_the_write(monkeypatch, after=others)
    verbs: dict[str, Callable[[], object]] = {
        "build": lambda: make(place, 2),
        "publish": lambda: publish(tmp_path / "elsewhere", place, overwrite=True),
    }
    with pytest.raises(OSError, match="no listing now"):
        verbs[verb]()
    assert (numbers(place), value_of(place)) == ([1], 1)
    make(place, 3, retain=0)
    assert (numbers(place), value_of(place)) == ([2], 3)


@pytest.mark.parametrize("failures", [2, 3, 4])
def test_a_withdrawal_is_tried_three_times(place, monkeypatch, failures):
    """The look for rivals fails, and then as many withdrawals as are left."""
    make(place, 1)
    left = [failures]

    def fail_again() -> list[FoundFile]:
        left[0] -= 1
        if left[0] > 0:
            next_listing(monkeypatch, fail_again)
        return fail()

    around_the_write(monkeypatch, after=lambda: next_listing(monkeypatch, fail_again))
    with pytest.raises(CommitUnknownError if failures > 3 else OSError):
        make(place, 2)
    assert left == [0]
    assert numbers(place) == ([1, 2] if failures > 3 else [1])


def test_the_last_version_is_not_withdrawn(place, monkeypatch):
    """Whoever removed the one before did not ask: then nobody knows, and nothing is deleted."""
    make(place, 1)
    before = list_names(place)[0].file

    def others() -> None:
        place.delete(before)
        next_listing(monkeypatch, fail)

    around_the_write(monkeypatch, after=others)
    with pytest.raises(CommitUnknownError, match="may be published"):
        make(place, 2)
    assert (numbers(place), value_of(place)) == ([2], 2)


@pytest.mark.parametrize("retain", [0, 3600])
def test_who_stood_still_is_told_of_those_that_came_between(place, monkeypatch, retain):
    """Two others publish between the look of a publisher for the newest version and its write."""
    make(place, 1)

    def others() -> None:
        make(place, 2, retain)
        make(place, 3, retain)

    around_the_write(monkeypatch, before=others)
    with pytest.raises(CommitConflictError, match=r"version 3 .*withdrawn: build or upsert again"):
        make(place, 4, retain)
    assert numbers(place) == ([3] if retain == 0 else [1, 2, 3])
    assert value_of(place) == 3
    with lookupstore.open(place) as store:
        # The last of the others left what it might have used.
        expire(place, retain=0)
        assert store.verify().stray == ()


@pytest.mark.parametrize("shown", ["old and ours", "ours", "old"])
def test_a_listing_that_misses_those_that_came_between(place, monkeypatch, shown):
    """It shows what was there when it began, or ours, and nothing else that came or went since."""
    make(place, 1)
    old = place.files("versions")

    def others() -> None:
        make(place, 2, retain=0)
        make(place, 3, retain=0)

    def late() -> list[FoundFile]:
        ours = [file for file in place.files("versions") if "/0000000002-" in file.name]
        assert len(ours) == 1
        return [*(old if "old" in shown else []), *(ours if "ours" in shown else [])]

    around_the_write(monkeypatch, others, lambda: next_listing(monkeypatch, late))
    with pytest.raises(CommitConflictError, match=r"version 3 .*withdrawn: build or upsert again"):
        make(place, 4)
    assert (numbers(place), value_of(place)) == ([3], 3)


def test_a_listing_that_misses_a_version_since_another_was_withdrawn(place, monkeypatch):
    """What was greater when ours came is withdrawn for one that is greater still."""
    make(place, 1)
    greater = "versions/0000000002-" + "f" * 32

    def late() -> list[FoundFile]:
        began = [one for one in place.files("versions") if one.name != f"{greater}.json"]
        make(place, 3)
        place.delete(f"{greater}.json")
        return began

    def others() -> None:
        place.write(f"{greater}.json", [b"{}"])
        next_listing(monkeypatch, late)

    around_the_write(monkeypatch, after=others)
    with pytest.raises(CommitConflictError, match=r"version 3 .*withdrawn: build or upsert again"):
        make(place, 2)
    assert (numbers(place), value_of(place)) == ([1, 3], 3)


def test_a_manifest_that_nobody_could_read_is_not_published(place, monkeypatch):
    make(place, 1)
    monkeypatch.setattr("lookupstore.store.manifest.MOST_MANIFEST_BYTES", 500)
    with pytest.raises(ValueError, match=r"the limit is 500: .* shorter keys or fewer buckets"):
        make(place, 2)
    monkeypatch.undo()
    assert (numbers(place), value_of(place)) == ([1], 1)


def test_one_empty_listing_says_nothing(place, monkeypatch):
    """A version that is replaced and removed while a folder is read can hide the next one, too."""
    make(place, 1)
    ways: list[Callable[[], object]] = [
        lambda: value_of(place),
        lambda: lookupstore.versions(place),
        lambda: expire(place, retain=0),
        lambda: make(place, 1),
    ]
    for way in ways:
        next_listing(monkeypatch, list)
        way()
        assert value_of(place) == 1
    next_listing(monkeypatch, list)
    with pytest.raises(FileExistsError, match="already a store"):
        build(pa.table({"id": [1]}), place, key="id")
    # Nothing is there if no listing shows anything.
    with pytest.raises(FileNotFoundError, match="no such store folder"):
        lookupstore.open(place.uri + "-none" if place.in_place else "/no/such/store")


def test_young_temporary_files_are_nobodys_to_remove(tmp_path, monkeypatch):
    """An expirer between a temporary file of a build, its first included, and the link to it."""
    place = Location(tmp_path / "s")
    make(place, 1)
    real, links = os.link, []

    def link(source: str, target: str) -> None:
        if not links or links[-1] != target:
            links.append(target)
            expire(tmp_path / "s", retain=0)
        real(source, target)

    monkeypatch.setattr(local_module.os, "link", link)
    make(place, 2, retain=0)
    assert value_of(place) == 2
    assert any(name.endswith("-runs") for name in links)
    assert any("/versions/" in name for name in links)


def test_the_folder_of_versions_goes_while_one_is_written(tmp_path, monkeypatch):
    """The only version that there was is withdrawn, and the next one is the first to stay."""
    place = Location(tmp_path)
    make(place, 1)
    real = os.link

    def link(source: str, target: str) -> None:
        if "/versions/" in target and numbers(place) == [1]:
            place.delete(list_names(place)[0].file)
            os.rmdir(tmp_path / "versions")
        real(source, target)

    monkeypatch.setattr(local_module.os, "link", link)
    make(place, 2)
    assert (numbers(place), value_of(place)) == ([2], 2)


@pytest.mark.parametrize("times", [1, 99])
def test_folders_that_another_build_removes(tmp_path, monkeypatch, times):
    """A build that fails removes the folders that it made, before another has files there."""
    real, left = os.link, [times]

    def link(source: str, target: str) -> None:
        if left[0] and target.endswith("-runs"):
            left[0] -= 1
            os.unlink(source)
            os.rmdir(tmp_path / "s" / "data")
            os.rmdir(tmp_path / "s")
        real(source, target)

    monkeypatch.setattr(local_module.os, "link", link)
    if times == 1:
        make(Location(tmp_path / "s"), 1)
        assert value_of(Location(tmp_path / "s")) == 1
    else:
        with pytest.raises(CommitConflictError, match="another process removed its folder"):
            make(Location(tmp_path / "s"), 1)
        assert os.listdir(tmp_path) == []


def test_a_version_that_goes_while_it_is_opened_by_its_number(place, monkeypatch):
    make(place, 1)
    real = versions_module.read_version

    def late(*given: Any) -> Any:
        monkeypatch.setattr(versions_module, "read_version", real)
        make(place, 2, retain=0)
        return real(*given)

    monkeypatch.setattr(versions_module, "read_version", late)
    with pytest.raises(StaleStoreError, match=r"version 1 .*the newest is 2: open it again"):
        lookupstore.open(place, version=1)


def test_a_copy_that_another_published_is_not_withdrawn(tmp_path, monkeypatch):
    """Two publish one store to one folder; the one whose write fails leaves the other's."""
    make(Location(tmp_path / "a"), 1)
    make(Location(tmp_path / "b"), 2)
    place = Location(tmp_path / "a")

    def other() -> None:
        publish(tmp_path / "b", place, overwrite=True).close()
        raise OSError("the disk is going")

    around_the_write(monkeypatch, before=other)
    with pytest.raises(OSError, match="the disk is going"):
        publish(tmp_path / "b", place, overwrite=True)
    assert (numbers(place), value_of(place)) == ([1, 2], 2)
    assert lookupstore.open(place).verify().stray == ()


def test_a_copy_names_no_file_that_may_be_about_to_go(place, tmp_path):
    """A file that no version names belongs to whoever expires, whatever is in it."""
    make(Location(tmp_path / "a"), 1)
    publish(tmp_path / "a", place).close()
    (orphan,) = read_newest(place).files
    place.delete(list_names(place)[0].file)
    with publish(tmp_path / "a", place) as store:
        assert store.info().rewritten_buckets == 1
        assert store.verify().stray == (orphan.name,)
    assert value_of(place) == 1


def test_a_build_that_stood_still_replaced_when_it_wrote(tmp_path, monkeypatch):
    """What it replaces stays for `retain` from then on, whatever time the new version states."""
    make(Location(tmp_path), 1)
    real = step_module.numbered

    def long_ago(manifest: Any, number: int) -> Any:
        numbered = real(manifest, number)
        return step_module.replace(numbered, created="2001-02-03T04:05:06.789+00:00")

    monkeypatch.setattr(step_module, "numbered", long_ago)
    make(Location(tmp_path), 2)
    assert numbers(Location(tmp_path)) == [1, 2]
    (path,) = Path(tmp_path, "versions").glob("*2-*.json")
    os.utime(path, (0, 0))
    assert expire(tmp_path).versions == (1,)


def test_newer_versions_stay_where_an_older_one_cannot_be_removed(place, monkeypatch):
    for value in (1, 2, 3):
        make(place, value)
    oldest = list_names(place)[0].file
    real = type(place).delete

    def delete(location: Location, name: str) -> None:
        if name == oldest:
            raise PermissionError("not yours")
        real(location, name)

    monkeypatch.setattr(type(place), "delete", delete)
    assert expire(place, retain=0).versions == ()
    assert numbers(place) == [1, 2, 3]
    monkeypatch.setattr(type(place), "delete", real)
    assert expire(place, retain=0).versions == (1, 2)


def test_no_data_file_goes_if_versions_come_and_go_meanwhile(place, monkeypatch):
    """A look that shows what was known before does not say that nothing else came."""
    make(place, 1)
    known, old = [read_newest(place)], place.files("versions")
    assert names_all_in_use(place, known)
    make(place, 2)
    assert not names_all_in_use(place, known)
    expire(place, retain=0)
    next_listing(monkeypatch, lambda: old)
    assert not names_all_in_use(place, known)
    assert names_all_in_use(place, [read_newest(place)])


def test_a_version_that_is_published_again_says_which_it_is(tmp_path):
    place = tmp_path / "store"
    for number in range(3):
        table = pa.table({"id": [1], "v": [number]})
        lookupstore.build(table, place, key="id", overwrite=True, retain="1d").close()
    for older in (2, 1, 2):
        with lookupstore.open(place, version=older) as store:
            publish(store, place, overwrite=True).close()
    found = {one.number: one.same_as for one in lookupstore.versions(place)}
    assert found == {1: None, 2: None, 3: None, 4: 2, 5: 1, 6: 2}
    listed = CliRunner().invoke(main, ["versions", str(place), "--output", "json"]).output
    assert [one["same_as"] for one in json.loads(listed)] == [*found.values()]
    listed = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["versions", str(place)]).output
    assert [line.split("│")[4].strip() for line in listed.splitlines() if "│" in line] == [
        "", "", "", "2", "1", "2"
    ]  # fmt: skip
    # The first of those that are kept counts.
    expire(place, retain=0, keep=3)
    found = {one.number: one.same_as for one in lookupstore.versions(place)}
    assert found == {4: None, 5: None, 6: 4}


@pytest.mark.parametrize("there", ["the same place", "a copy of it"])
def test_the_only_copy_of_a_file_is_not_deleted_for_a_damaged_one(tmp_path, there):
    """An older version is published at its own place, with a file of a later one, damaged."""
    place = tmp_path / "store"
    make(Location(place), 1)
    with lookupstore.open(place) as older:
        older.upsert(pa.table({"id": [1], "v": [2]}), max_run_share=100).close()
        (path,) = place.glob(f"data/{older.id}-*.sst")
        damaged = bytearray(path.read_bytes())
        damaged[3] ^= 1
        path.write_bytes(damaged)
        target = place
        if there == "a copy of it":  # under the same names, whole or not
            target = tmp_path / "copy"
            shutil.copytree(place, target)
        before = {one: one.read_bytes() for one in target.rglob("*") if one.is_file()}
        with pytest.raises(lookupstore.CorruptionError) as caught:
            publish(older, target, overwrite=True)
        assert caught.value.path == str(path)
    assert {one: one.read_bytes() for one in target.rglob("*") if one.is_file()} == before


def test_a_damaged_file_is_replaced_by_a_whole_one(tmp_path):
    make(Location(tmp_path / "store"), 1)
    with publish(tmp_path / "store", tmp_path / "copy") as copy:
        copy.upsert(pa.table({"id": [1], "v": [2]}), max_run_share=100).close()
        (path,) = (tmp_path / "copy").glob("data/*-00000.sst")
    whole = path.read_bytes()
    path.write_bytes(whole[:3] + bytes([whole[3] ^ 1]) + whole[4:])
    with publish(tmp_path / "store", tmp_path / "copy", overwrite=True) as again:
        assert again.verify().num_rows == 9
    assert path.read_bytes() == whole


def test_a_change_that_others_removed_may_have_happened(place):
    """Newer versions may have it in them; if its parent has gone, it has not happened."""
    make(place, 1)
    make(place, 2)
    parent, change = list_names(place)
    place.delete(parent.file)
    with pytest.raises(CommitConflictError):
        step_module.find_sibling(place, change, parent)
    place.delete(change.file)
    with pytest.raises(CommitUnknownError, match=r"0000000002-.* removed by others right after"):
        step_module.find_sibling(place, change, parent)
