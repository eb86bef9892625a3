"""Versions: which is current, who may still read, what is written again, what is removed when."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from pyarrow import fs
from support.remote import KINDS, FaultyDisk, Killed, Remote
from support.samples import some_of

import lookupstore
from lookupstore import (
    CommitConflictError,
    CorruptionError,
    FormatError,
    Location,
    LookupStore,
    StaleStoreError,
    build,
    expire,
    publish,
)
from lookupstore.hostcache.cache import Residency
from lookupstore.store.local_files import files_of
from lookupstore.store.manifest import Manifest, manifest_bytes
from lookupstore.store.marks import MARK_AGE
from lookupstore.store.new_version import NewVersion
from lookupstore.store.publish_step import publish_version
from lookupstore.store.version_files import (
    VersionName,
    list_names,
    name_of,
    read_newest,
    read_versions,
)

pytestmark = pytest.mark.drawn(0.5)


@pytest.fixture(autouse=True)
def own_copies(tmp_path, monkeypatch):
    """Keep a test from finding the local copies of another one, which has the same content."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "copies-of-this-test"))


MODULES = {
    name: importlib.import_module(f"lookupstore.{name}")
    for name in (
        "builder.in_process",
        "source.search",
        "source.files",
        "storage.local",
        "storage.naming",
        "store.expiry",
        "store.marks",
        "store.new_version",
        "store.publish_step",
        "store.store",
        "store.version_files",
    )
}

KEYS = 400


def table_of(version: int, keys: int = KEYS) -> pa.Table:
    """Return rows whose values all say the version."""
    return pa.table({"id": range(keys), "v": [version] * keys})


def changed(rows: dict[int, int]) -> pa.Table:
    return pa.table({"id": list(rows), "v": list(rows.values())})


def model_of(table: pa.Table) -> dict[int, int]:
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def content(store: LookupStore) -> dict[int, int]:
    """Read a whole store in two ways, and check that they agree."""
    rows = {row["id"]: row["v"] for row in store.scan().read_all().to_pylist()}
    assert store.lookup(list(rows), ["v"])["v"].to_pylist() == list(rows.values())
    return rows


def files_at(place: Location) -> set[str]:
    return {file.name for file in place.files(recursive=True)}


def named_by(place: Location) -> set[str]:
    """Return the files of all versions, as their JSON says, read without our reader."""
    names = set()
    for file in place.files("versions"):
        if file.name.startswith("versions/."):
            continue
        fields = json.loads(place.read(file.name))
        names |= {file.name, *(one["name"] for one in fields["files"])}
    return names


def make_old(folder: Path, seconds: float) -> None:
    """Let all files be written that long ago."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture(params=["local", *KINDS])
def place(request, tmp_path) -> Location:
    if request.param == "local":
        return Location(tmp_path / "store")
    return Remote(tmp_path, request.param).location()


# --- which there are, and which is open


def test_versions_of_a_store(place):
    for number in (1, 2, 3):
        build(table_of(number, number), place, key="id", overwrite=True, buckets=2).close()
    before = datetime.now(timezone.utc)
    found = lookupstore.versions(place)
    assert [one.number for one in found] == [1, 2, 3]
    assert [one.num_rows for one in found] == [1, 2, 3]
    assert [one.current for one in found] == [False, False, True]
    for one in found:
        assert before - timedelta(minutes=1) < one.created <= before
        with lookupstore.open(place, version=one.number) as store:
            assert (store.version, store.id, store.created) == (one.number, one.id, one.created)
            assert content(store) == model_of(table_of(one.number, one.number))
            assert (store.info().version, store.info().bytes) == (one.number, one.bytes)
            assert store.verify().stray == ()
        assert datetime.fromisoformat(one.to_json()["created"]) == one.created
    with pytest.raises(FileNotFoundError, match=r"store: no version 4; the store has 1, 2, 3"):
        lookupstore.open(place, version=4)
    with pytest.raises(TypeError, match="version is '1'"):
        lookupstore.open(place, version="1")


def test_a_store_as_of_a_time(tmp_path):
    created = []
    for n in range(1, 4):
        with lookupstore.build({"id": [n]}, tmp_path, key="id", overwrite=True) as store:
            created.append(store.created)
        time.sleep(0.002)
    paris = timezone(timedelta(hours=1))
    for n, moment in enumerate(created, 1):
        given = [
            moment,
            moment.astimezone(paris),
            moment.isoformat(),
            moment + timedelta(0, 0, 900),
        ]
        given.append(moment.replace(tzinfo=None).isoformat(" "))
        for one in given:
            with lookupstore.open(tmp_path, as_of=one) as store:
                assert (store.version, list(store)) == (n, [n])
    with lookupstore.open(tmp_path, as_of=created[2] - timedelta(0, 0, 900)) as store:
        assert store.version == 2
    for given, error, said in (
        ({"as_of": created[0] - timedelta(1)}, ValueError, "had no version yet; give a later time"),
        ({"as_of": "2200-01-01"}, ValueError, "after now"),
        ({"as_of": "soon"}, ValueError, "as_of is 'soon'; give a time such as 2026-"),
        ({"as_of": "2"}, ValueError, "as_of is '2'; give 2 as version$"),
        ({"as_of": 1.5}, TypeError, "as_of is 1.5; give a datetime, or a time as text"),
        ({"as_of": datetime(2020, 1, 1)}, ValueError, "without a zone"),
        ({"as_of": 2}, TypeError, "as_of is 2; give a time, or a number as version"),
        ({"as_of": created[0], "version": 1}, ValueError, "version and as_of both choose"),
    ):
        with pytest.raises(error, match=said):
            lookupstore.open(tmp_path, **given)
    with pytest.raises(FileNotFoundError, match="no such store folder"):
        lookupstore.open(tmp_path / "none", as_of=created[0])
    lookupstore.expire(tmp_path, retain=0)
    with pytest.raises(FileNotFoundError, match="versions of that time have been removed"):
        lookupstore.open(tmp_path, as_of=created[1])
    assert lookupstore.open(tmp_path, as_of=created[2]).version == 3


def test_a_reader_stays_at_its_version_and_finds_the_newest(place):
    old = build(table_of(1), place, key="id", buckets=3)
    assert old.newest() is old
    sent = pickle.dumps(old)
    build(table_of(2), place, key="id", buckets=3, overwrite=True).close()
    with old.newest() as new:
        assert (new.version, content(new)) == (2, model_of(table_of(2)))
        assert new.newest() is new
    assert content(old) == model_of(table_of(1))
    assert old.verify().num_rows == KEYS
    with pickle.loads(sent) as copy:
        assert (copy.version, content(copy)) == (1, model_of(table_of(1)))
    expire(place, retain=0)
    assert content(old) == model_of(table_of(1))  # all its files are open here
    for use in (old.verify, lambda: pickle.loads(sent)):
        with pytest.raises(StaleStoreError, match="version 1"):
            use()
    with old.newest() as new:
        assert new.version == 2
    old.close()


def test_a_listing_that_lags_behind_never_leads_back(tmp_path):
    remote = Remote(tmp_path, "s3")
    place = remote.location()
    build(table_of(1), place, key="id").close()
    with build(table_of(2), place, key="id", overwrite=True) as store:
        remote.late = {Path(list_names(place)[-1].file).name}
        assert store.newest() is store
        with lookupstore.open(place) as other:  # who has seen nothing newer may
            assert other.version == 1
        remote.late |= {path.name for path in (tmp_path / "bucket/store/versions").iterdir()}
        assert store.newest() is store


def test_a_listing_that_falls_back_between_two_looks(tmp_path, monkeypatch):
    """The first look sees a newer version, the second one only those that are older than ours."""
    remote = Remote(tmp_path, "s3")
    place = remote.location()
    build(table_of(1), place, key="id").close()
    with build(table_of(2), place, key="id", overwrite=True) as store:
        build(table_of(3), place, key="id", overwrite=True).close()
        real = MODULES["store.store"].list_names

        def list_names_once(location):
            names = real(location)
            remote.late = {Path(name.file).name for name in names[1:]}
            return names

        monkeypatch.setattr(MODULES["store.store"], "list_names", list_names_once)
        assert store.newest() is store
        remote.late = set()
        monkeypatch.setattr(MODULES["store.store"], "list_names", real)
        with store.newest() as new:
            assert new.version == 3


def test_the_newest_after_a_version_was_withdrawn(place):
    """Another of the same number is the store now, whatever its id."""
    build(table_of(1), place, key="id").close()
    store = build(table_of(2), place, key="id", overwrite=True)
    own = VersionName(store.version, store.id)
    manifest = read_newest(place)
    place.delete(own.file)
    smaller = "0" * 32
    publish_version(place, replaced(manifest, smaller), overwrite=True)
    with store.newest() as new:
        assert (new.version, new.id) == (2, smaller)
    store.close()


def replaced(manifest: Manifest, new_id: str) -> Manifest:
    return replace(manifest, id=new_id)


# --- publishers that race


def test_of_two_publishers_of_one_number_the_greater_id_stays(place, monkeypatch):
    """Each order in which two publishers can list, write and list again."""
    build(table_of(0), place, key="id").close()
    manifest = read_newest(place)
    small, great = replaced(manifest, "1" * 32), replaced(manifest, "e" * 32)
    for first, second in ((small, great), (great, small)):
        held = len(list_names(place))
        real = type(place).write

        results: list[Manifest] = []

        def meanwhile(location, name, chunks, second=second, real=real, results=results):
            """Let the second publish between the list of the first and its write."""
            monkeypatch.setattr(type(place), "write", real)
            results.append(publish_version(location, second, overwrite=True))
            real(location, name, chunks)

        monkeypatch.setattr(type(place), "write", meanwhile)
        if first is small:
            with pytest.raises(CommitConflictError, match=f"{great.id}.*{small.id}.*again"):
                publish_version(place, first, overwrite=True)
        else:
            results.append(publish_version(place, first, overwrite=True))
        names = list_names(place)
        assert names[-1].id == great.id
        assert names[-1].number == results[-1].version == names[0].number + held
        # Who was told that it is published is there, and was the current one.
        assert {one.id for one in results} <= {name.id for name in names}


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_new_stores_at_once_at_most_one_is_told_so(tmp_path, monkeypatch, kind):
    """Without a link that fails, who sees another version of its number gives way."""
    place = Remote(tmp_path, kind).location()
    real = type(place).write

    def meanwhile(location, name, chunks):
        if name.startswith("versions/"):
            monkeypatch.setattr(type(place), "write", real)
            build(table_of(1), location, key="id").close()
        real(location, name, chunks)

    monkeypatch.setattr(type(place), "write", meanwhile)
    with pytest.raises(CommitConflictError, match="withdrawn: build or upsert again"):
        build(table_of(2), place, key="id")
    with lookupstore.open(place) as store:
        assert (store.version, content(store)) == (1, model_of(table_of(1)))
        assert store.verify().stray == ()


def test_what_was_withdrawn_may_be_in_use(place, monkeypatch):
    """A build that began on a version, for the moment that it was there, may name its files."""
    build(table_of(1), place, key="id", buckets=2).close()
    real = type(place).write
    first = read_newest(place)
    later = NewVersion(place, overwrite=True, retain=0)
    stack = ExitStack()
    seen = []

    def meanwhile(location, name, chunks):
        real(location, name, chunks)
        if name.startswith("versions/"):
            monkeypatch.setattr(type(place), "write", real)
            stack.enter_context(later)
            seen.append(later.current())
            rival = replace(first, version=2, id="f" * 32)
            real(location, name_of(rival).file, [manifest_bytes(rival)])

    monkeypatch.setattr(type(place), "write", meanwhile)
    with pytest.raises(CommitConflictError):
        build(table_of(2), place, key="id", buckets=2, overwrite=True, retain=0)
    assert [name.number for name in list_names(place)] == [1, 2]
    assert expire(place, retain=0).files == 0
    with stack:
        later.publish(replace(seen[0], id=later.id))
    with lookupstore.open(place) as store:
        assert (store.version, content(store)) == (3, model_of(table_of(2)))
        assert store.verify().stray == ()
    assert files_at(place) == named_by(place)


def test_an_existing_store_stays(place):
    build(table_of(1), place, key="id").close()
    before = files_at(place)
    with pytest.raises(FileExistsError, match="there is already a store; pass overwrite=True"):
        build(table_of(2), place, key="id")
    assert files_at(place) == before


# --- failures and kills


def build_with(place: Location, version: int) -> None:
    build(table_of(version, 50), place, key="id", buckets=2, overwrite=True, retain=0).close()


def publish_with(place: Location, version: int) -> None:
    """Publish from beside the place, so that only operations at the place count."""
    with lookupstore.open(f"{SOURCES[0]}/{version}") as store:
        publish(store, place, overwrite=True, retain=0).close()


SOURCES: list[str] = []


@pytest.fixture
def sources(tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("sources")
    for version in (1, 2):
        build(table_of(version, 50), folder / str(version), key="id", buckets=2).close()
    SOURCES[:] = [str(folder)]


def outcome(run: Callable[[], object]) -> BaseException | None:
    try:
        run()
    except BaseException as error:
        return error
    return None


def check_after(
    place: Location, folder: Path, raised: BaseException | None, *, was_there: bool
) -> None:
    """Whatever happened: old or new, whole; and what is left can be removed.

    Without an error the new one is there, but perhaps files that could not be deleted.
    """
    killed = isinstance(raised, Killed)
    models = [model_of(table_of(version, 50)) for version in (1, 2)]
    if list_names(place):
        with lookupstore.open(place) as store:
            assert content(store) in (models if killed else models[raised is None :][:1])
            assert named_by(place) <= files_at(place)
            stray = store.verify().stray
            assert raised is None or killed or all("-runs" in name for name in stray), stray
    else:
        assert not was_there
        with pytest.raises((FormatError, FileNotFoundError)):
            lookupstore.open(place)
    make_old(folder, MARK_AGE.total_seconds() + 10)
    build_with(place, 1)
    assert files_at(place) == named_by(place)
    assert [name for name in place.names() if name.startswith(".")] == []
    with lookupstore.open(place) as store:
        assert content(store) == models[0]
        assert len(files_at(place)) == 3


@pytest.mark.few(4)
@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
@pytest.mark.parametrize("was_there", [False, True], ids=["new", "replace"])
@pytest.mark.parametrize("verb", [build_with, publish_with])
@pytest.mark.parametrize("kind", KINDS)
def test_every_remote_operation_fails_once(tmp_path, sources, kind, verb, was_there, kill):
    remote = Remote(tmp_path / "clean", kind)
    if was_there:
        build_with(remote.location(), 1)
    remote.restart()
    verb(remote.location(), 2)
    operations = remote.done
    assert len(operations) > 12
    marks = [name == "delete" and path.endswith("-runs") for name, path in operations]
    last = len(marks) - 1 - marks[::-1].index(True)
    for at in some_of(range(len(operations))):
        folder = tmp_path / str(at)
        folder.mkdir()
        remote = Remote(folder, kind)
        if was_there:
            build_with(remote.location(), 1)
        remote.restart(at, kill=kill)
        raised = outcome(lambda remote=remote: verb(remote.location(), 2))
        assert isinstance(raised, (Killed, OSError, lookupstore.LookupStoreError, type(None)))
        assert isinstance(raised, Killed) is kill, operations[at]
        if at > last and not kill:
            raised = None  # it is published, and was to be opened for the caller
        published = raised is None
        remote.restart()
        names = list_names(remote.location())
        assert not published or names[-1].number == 1 + was_there
        print(at, operations[at], published)
        check_after(remote.location(), folder, raised, was_there=was_there)


@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
@pytest.mark.parametrize("was_there", [False, True], ids=["new", "replace"])
@pytest.mark.parametrize("verb", [build_with, publish_with])
def test_every_local_operation_fails_once(tmp_path, sources, monkeypatch, verb, was_there, kill):
    def run(folder: Path, disk: FaultyDisk) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("storage.local", "storage.naming", "store.new_version"):
                patch.setattr(MODULES[name], "os", disk)
            verb(Location(folder / "store"), 2)

    (tmp_path / "clean").mkdir()
    clean = FaultyDisk()
    if was_there:
        build_with(Location(tmp_path / "clean" / "store"), 1)
    run(tmp_path / "clean", clean)
    assert {name for name, _ in clean.done} >= {"link", "fsync", "unlink"}
    for at, operation in some_of(enumerate(clean.done)):
        folder = tmp_path / str(at)
        folder.mkdir()
        if was_there:
            build_with(Location(folder / "store"), 1)
        raised = outcome(lambda folder=folder, at=at: run(folder, FaultyDisk(at, kill=kill)))
        assert isinstance(raised, (Killed, OSError, lookupstore.LookupStoreError, type(None)))
        assert isinstance(raised, Killed) is kill, operation
        print(at, operation)
        check_after(Location(folder / "store"), folder, raised, was_there=was_there)


# --- expire


class Clock:
    """The time, for those who publish and expire."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = time.time()
        monkeypatch.setattr(MODULES["store.publish_step"], "datetime", self)
        for name in ("store.expiry", "store.marks"):
            monkeypatch.setattr(MODULES[name], "time", self)

    def now(self, zone: timezone) -> datetime:
        return datetime.fromtimestamp(self.seconds, zone)

    def time(self) -> float:
        return self.seconds


def test_expire_against_a_model(tmp_path, monkeypatch, seed):
    """Random histories: what goes is what the rule says, computed here from dates alone."""
    rng = random.Random(seed)
    for history in range(12):
        folder = tmp_path / str(history)
        place = Location(folder)
        clock = Clock(monkeypatch)
        start = clock.seconds
        moments, files = [], []
        rows = dict.fromkeys(range(60), 0)
        for version in range(rng.randrange(1, 7)):
            clock.seconds += rng.choice([1, 10, 100])
            rows[rng.randrange(60)] = version + 1
            with build(
                changed(rows), place, key="id", buckets=6, overwrite=True, retain=10**9
            ) as store:
                moments.append(clock.seconds)
                files.append({file.name for file in read_newest(place).files})
                assert store.version == version + 1
        for name in set.union(*files):
            os.utime(folder / name, (start, start))
        (folder / "data" / "dead-00000.sst").write_bytes(b"12345")
        age = rng.choice([5, 50])
        os.utime(folder / "data" / "dead-00000.sst", (clock.seconds - age,) * 2)
        retain, keep = rng.choice([0, 5, 20, 150]), rng.choice([1, 2, 3])
        gone = {
            i
            for i in range(len(moments) - keep)
            if round(clock.seconds - moments[i + 1], 3) >= retain
        }
        stay = set.union(*(names for i, names in enumerate(files) if i not in gone))
        removed = set.union(*files) - stay
        sizes = {name: (folder / name).stat().st_size for name in removed}
        if age >= retain:
            sizes["data/dead-00000.sst"] = 5
        told = expire(place, retain=retain, keep=keep)
        assert told.versions == tuple(sorted(i + 1 for i in gone))
        assert (told.files, told.bytes) == (len(sizes), sum(sizes.values()))
        left = {p.relative_to(folder).as_posix() for p in (folder / "data").iterdir()}
        assert left == stay | ({"data/dead-00000.sst"} - set(sizes))
        assert told.to_json()["versions"] == [*told.versions]
        with lookupstore.open(place) as store:
            assert content(store) == rows


def test_publishers_remove_versions_some_at_a_time(tmp_path, monkeypatch):
    """A version a minute: each goes in time, and most publishers read no other's manifest."""
    clock, place = Clock(monkeypatch), Location(tmp_path / "s")
    calls = []
    real = MODULES["store.expiry"].expire
    monkeypatch.setattr(
        MODULES["store.expiry"],
        "expire",
        lambda where, **more: calls.append(clock.seconds) or real(where, **more),
    )
    start, published = clock.seconds, {}
    for minute in range(100):
        clock.seconds = start + 60 * minute
        build(table_of(minute + 1), place, key="id", overwrite=True, retain="20m").close()
        published[minute + 1] = clock.seconds
        for file in (tmp_path / "s" / "versions").glob(f"{minute + 1:010d}-*"):
            os.utime(file, (clock.seconds, clock.seconds))
        left = {name.number for name in list_names(place)}
        for number in range(1, minute + 1):
            replaced = clock.seconds - published[number + 1]
            if number in left:
                assert replaced < 20 * 60 * 1.1
            else:
                assert replaced >= 20 * 60
    assert 20 <= len(calls) < 50  # every third or second minute, once there are old versions
    named = {file.name for one in read_versions(place) for file in one.files}
    assert {f"data/{file.name}" for file in (tmp_path / "s" / "data").iterdir()} == named


def test_the_last_time_of_a_version_counts(tmp_path, monkeypatch):
    """A publisher that paused dates its version, and removes its mark, while another expires."""
    clock, place = Clock(monkeypatch), Location(tmp_path / "s")
    clock.seconds -= 7200
    for rows in (1, 2):
        build(table_of(rows), place, key="id", overwrite=True, retain=10**9).close()
    (file,) = (tmp_path / "s" / "versions").glob("0000000002-*")
    os.utime(file, (clock.seconds, clock.seconds))
    clock.seconds += 7200
    real = MODULES["store.expiry"].running_builds

    def running_builds(*given):
        os.utime(file, (clock.seconds, clock.seconds))
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(MODULES["store.expiry"], "running_builds", running_builds)
        assert expire(place).versions == ()
    clock.seconds += 3600
    assert expire(place).versions == (1,)


def test_the_default_is_an_hour(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    build(table_of(1), tmp_path / "s", key="id").close()
    build(table_of(2), tmp_path / "s", key="id", overwrite=True).close()
    for seconds, gone in [(3599, ()), (2, (1,))]:
        clock.seconds += seconds
        assert expire(tmp_path / "s").versions == gone
    for wrong, error in [
        (-1, ValueError),
        (float("nan"), ValueError),
        ("soon", ValueError),
        (None, TypeError),
    ]:
        with pytest.raises(error, match="retain is"):
            expire(tmp_path / "s", retain=wrong)
        with pytest.raises(error, match="retain is"):
            build(table_of(2), tmp_path / "s", key="id", overwrite=True, retain=wrong)
    with pytest.raises(ValueError, match="keep is 0"):
        expire(tmp_path / "s", keep=0)
    with pytest.raises(FileNotFoundError):
        expire(tmp_path / "none")


@pytest.mark.parametrize("kind", KINDS)
def test_an_expire_that_is_killed_leaves_strays_only(tmp_path, kind):
    def prepared(folder: Path) -> Remote:
        folder.mkdir()
        remote = Remote(folder, kind)
        for version in range(4):
            build(table_of(version, 50), remote.location(), key="id", overwrite=True).close()
        remote.restart()
        return remote

    remote = prepared(tmp_path / "clean")
    assert expire(remote.location(), retain=0).versions == (1, 2, 3)
    done = remote.done
    for at, operation in enumerate(done):
        remote = prepared(tmp_path / str(at))
        place = remote.location()
        remote.restart(at, kill=True)
        with pytest.raises(Killed):
            expire(place, retain=0)
        remote.restart()
        assert named_by(place) <= files_at(place), operation
        for one in lookupstore.versions(place):
            with lookupstore.open(place, version=one.number) as store:
                assert content(store) == model_of(table_of(one.number - 1, 50))
        expire(place, retain=0)
        assert files_at(place) == named_by(place)
        assert [one.number for one in lookupstore.versions(place)] == [4]


def test_a_version_that_cannot_be_removed_keeps_the_newer_ones(tmp_path, monkeypatch):
    """The oldest goes first: no version has a gap before it."""
    remote = Remote(tmp_path, "s3")
    place = remote.location()
    for version in range(4):
        build(table_of(version), place, key="id", overwrite=True).close()
    names = sorted(list_names(place), key=lambda name: name.number)
    step = remote.step

    def refuse(name: str, path: str) -> str:
        if name == "delete" and path.endswith(names[1].file):
            raise PermissionError(13, "Access Denied", path)
        return step(name, path)

    with monkeypatch.context() as patched:
        patched.setattr(remote, "step", refuse)
        assert expire(place, retain=0).versions == (1,)
        assert [one.number for one in lookupstore.versions(place)] == [2, 3, 4]
        for one in lookupstore.versions(place):
            with lookupstore.open(place, version=one.number) as store:
                assert content(store) == model_of(table_of(one.number - 1))
    assert expire(place, retain=0).versions == (2, 3)


def test_no_data_file_goes_while_a_build_runs(place, tmp_path):
    """It may be about to name files of the version that it began with."""
    build(table_of(1), place, key="id", buckets=4).close()
    rows = model_of(table_of(1)) | {7: 8}
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        build(table_of(2), place, key="id", buckets=4, overwrite=True, retain=0).close()
        seen.append((expire(place, retain=0), [name.number for name in list_names(place)]))
        yield from changed(rows).to_batches()

    source = pa.RecordBatchReader.from_batches(changed(rows).schema, batches())
    with build(source, place, key="id", buckets=4, overwrite=True, retain=0) as store:
        assert [(one.files, numbers) for one, numbers in seen] == [(0, [2])]
        assert (store.version, store.info().rewritten_buckets) == (3, 1)
        assert content(store) == rows
        assert store.verify().stray == ()
    assert files_at(place) == named_by(place)
    assert [name.number for name in list_names(place)] == [3]


def test_the_mark_of_a_dead_build_holds_back_for_a_day(tmp_path):
    place = Location(tmp_path)
    build(table_of(1), place, key="id").close()
    mark = f"data/.{'a' * 32}-runs"
    stray = f"data/{'a' * 32}-00000.sst"
    for name in (mark, stray, ".left.tmp"):
        place.write(name, [b"x"])
    assert expire(place, retain=0).files == 0
    make_old(tmp_path, MARK_AGE.total_seconds() - 60)
    assert expire(place, retain=0).files == 0
    make_old(tmp_path, MARK_AGE.total_seconds() + 60)
    assert expire(place, retain=timedelta(days=2)).files == 0
    assert expire(place, retain=0).files == 3
    assert files_at(place) == named_by(place)


def test_nothing_is_removed_where_a_version_is_damaged(tmp_path, caplog):
    place = Location(tmp_path)
    for version in (1, 2):
        build(table_of(version), place, key="id", overwrite=True).close()
    first = tmp_path / list_names(place)[0].file
    first.write_bytes(first.read_bytes()[:-9])
    before = files_at(place)
    with pytest.raises(CorruptionError, match="0000000001-"):
        expire(place, retain=0)
    assert files_at(place) == before
    with build(table_of(3), place, key="id", overwrite=True, retain=0) as store:
        assert content(store) == model_of(table_of(3))
    assert "old versions were not removed" in caplog.text
    assert before < files_at(place)


def test_a_damaged_current_version_is_replaced(tmp_path, caplog):
    place = Location(tmp_path)
    build(table_of(1), place, key="id").close()
    newest = tmp_path / list_names(place)[-1].file
    newest.write_bytes(b"{")
    with build(table_of(2), place, key="id", overwrite=True) as store:
        assert (store.version, content(store)) == (2, model_of(table_of(2)))
        assert store.info().rewritten_buckets == 1
    assert "the version being replaced is damaged" in caplog.text


# --- what is written again


def test_equal_rows_are_equal_files_whatever_they_came_from(tmp_path, seed):
    rows = list(model_of(table_of(5)).items())
    random.Random(seed).shuffle(rows)
    pq.write_table(changed(dict(rows)), tmp_path / "t.parquet")
    sources = [table_of(5), str(tmp_path / "t.parquet"), changed(dict(rows)).to_batches()]
    contents = []
    for i, source in enumerate(sources):
        build(source, tmp_path / str(i), key="id", buckets=3, threads=1 + i).close()
        files = read_newest(Location(tmp_path / str(i))).files
        contents.append([(tmp_path / str(i) / file.name).read_bytes() for file in files])
    assert len(contents[0]) == 3
    assert contents[0] == contents[1] == contents[2]


def test_only_buckets_that_changed_are_written_again(place, seed):
    """Which bucket a key is in is asked of the hash that the format names, not of the store."""
    rng = random.Random(seed)
    rows = model_of(table_of(0))
    buckets = 8
    with build(changed(rows), place, key="id", buckets=buckets) as store:
        assert store.info().rewritten_buckets == buckets
    for _ in range(5):
        before = {file.bucket: file.name for file in read_newest(place).files}
        touched = rng.sample(range(KEYS), rng.randrange(4))
        for key in touched:
            rows[key] += 1
        with build(changed(rows), place, key="id", buckets=buckets, overwrite=True) as store:
            after = {file.bucket: file.name for file in read_newest(place).files}
            encoded = store.key_schema.encode([pa.array(touched, pa.int64())])
            expected = {xxhash.xxh64_intdigest(key.as_py()) % buckets for key in encoded}
            assert {b for b in after if after[b] != before[b]} == expected
            assert store.info().rewritten_buckets == len(expected)
            assert content(store) == rows
            assert store.verify().stray == ()
    # A bucket that loses its last row loses its file.
    few = {key: rows[key] for key in (0, 1)}
    with build(changed(few), place, key="id", buckets=buckets, overwrite=True, retain=0) as store:
        assert content(store) == few
        assert store.info().files <= 2
    assert files_at(place) == named_by(place)


@pytest.mark.parametrize(
    "arguments",
    [
        {"buckets": 3},
        {"block_size": 4096},
        {"compression": "zstd"},
        {"on_duplicate": "last"},
        {"columns": []},
        {"nullable_keys": "id"},
    ],
    ids=str,
)
def test_other_arguments_write_all_again(tmp_path, arguments):
    """Also where the bytes happen to be equal: the manifest must say what was asked for."""
    pq.write_table(table_of(1), tmp_path / "t.parquet")
    make_old(tmp_path, 60)
    given = {"key": "id", "buckets": 2}
    build(tmp_path / "t.parquet", tmp_path / "s", **given).close()
    given |= arguments
    with build(tmp_path / "t.parquet", tmp_path / "s", overwrite=True, **given) as store:
        assert store.info().rewritten_buckets == store.info().files == store.info().buckets


@pytest.mark.parametrize("damage", ["flipped", "gone", "cut"])
@pytest.mark.parametrize("by", ["files", "table"])
def test_a_damaged_file_is_written_again(tmp_path, damage, by):
    pq.write_table(table_of(1), tmp_path / "t.parquet")
    make_old(tmp_path, 60)
    source = table_of(1) if by == "table" else tmp_path / "t.parquet"
    build(source, tmp_path / "s", key="id", buckets=2).close()
    path = tmp_path / "s" / read_newest(Location(tmp_path / "s")).files[1].name
    held = bytearray(path.read_bytes())
    path.unlink()
    if damage != "gone":
        held[20] ^= 1
        path.write_bytes(held if damage == "flipped" else held[:-1])
    with build(source, tmp_path / "s", key="id", buckets=2, overwrite=True) as store:
        assert store.info().rewritten_buckets == 1
        assert content(store) == model_of(table_of(1))
        assert store.verify().num_rows == KEYS


def not_read(monkeypatch) -> None:
    def fail(*_, **__):
        raise AssertionError("the source was read")

    monkeypatch.setattr(MODULES["source.files"], "read_to_store", fail)


@pytest.mark.parametrize("remote", [False, True])
def test_files_that_have_not_changed_are_not_read(tmp_path, monkeypatch, caplog, remote):
    caplog.set_level("INFO", "lookupstore")
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(3):
        pq.write_table(table_of(i).slice(100 * i, 100), folder / f"{i}.parquet")
    make_old(folder, 60)
    place = Remote(tmp_path, "s3").location() if remote else Location(tmp_path / "s")
    with build(folder, place, key="id", buckets=2) as store:
        first = content(store)
    names = {file.name for file in read_newest(place).files}
    with monkeypatch.context() as patch:
        not_read(patch)
        with build(folder, place, key="id", buckets=2, overwrite=True) as store:
            assert (store.version, store.info().rewritten_buckets) == (2, 0)
            assert content(store) == first
        assert {file.name for file in read_newest(place).files} == names
        assert "no change in" in caplog.text
        ways: list[Callable[[], object]] = [
            lambda: os.utime(folder / "0.parquet", (time.time() - 30,) * 2),
            lambda: (folder / "1.parquet").rename(folder / "9.parquet"),
            lambda: (folder / "0.parquet").unlink(),
            lambda: pq.write_table(table_of(9).slice(300, 7), folder / "a.parquet"),
        ]
    for way in ways:
        way()
        with monkeypatch.context() as patch:
            not_read(patch)
            with pytest.raises(AssertionError, match="the source was read"):
                build(folder, place, key="id", buckets=2, overwrite=True)
        build(folder, place, key="id", buckets=2, overwrite=True).close()


def test_files_that_were_just_written_may_change_under_their_time(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    for age, is_known in [(0, False), (1, False), (3, True)]:
        pq.write_table(table_of(1), path)
        os.utime(path, (time.time() - age,) * 2)
        build(path, tmp_path / "s", key="id", overwrite=True).close()
        assert (read_newest(Location(tmp_path / "s")).source_fingerprint is not None) == is_known
    monkeypatch.setattr(MODULES["builder.in_process"], "WRITER", "lookupstore of another day")
    not_read(monkeypatch)
    with pytest.raises(AssertionError, match="the source was read"):
        build(path, tmp_path / "s", key="id", overwrite=True)


def test_a_source_with_credentials(tmp_path, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    remote = Remote(tmp_path, "s3")
    (tmp_path / "bucket").mkdir()
    pq.write_table(table_of(1), tmp_path / "bucket" / "t.parquet")
    monkeypatch.setattr(
        MODULES["source.search"],
        "open_uri",
        lambda uri: (fs.PyFileSystem(remote), "bucket/t.parquet"),
    )
    uri = "s3://AKIA123:s3cr3t@bucket/t.parquet?session_token=t0ken"
    with build(uri, tmp_path / "s", key="id") as store:
        shown = "s3://***@bucket/t.parquet?session_token=*** (1 Parquet file)"
        assert store.info().source == shown
        assert content(store) == model_of(table_of(1))
    everything = caplog.text.encode() + b"".join(
        path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()
    )
    for secret in (b"AKIA123", b"s3cr3t", b"t0ken"):
        assert secret not in everything
    (tmp_path / "bucket" / "t.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"s3://\*\*\*@bucket") as caught:
        build(uri, tmp_path / "s", key="id", overwrite=True)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_upload_that_does_not_arrive(tmp_path, monkeypatch, kind):
    remote = Remote(tmp_path, kind)
    real = Location.size

    def short(location, name):
        found = real(location, name)
        return None if found is None or not name.endswith(".sst") else found - 1

    monkeypatch.setattr(Location, "size", short)
    with pytest.raises(OSError, match=r"bytes were written, found \d+ bytes: .*://bucket/store/"):
        build(table_of(1), remote.location(), key="id")
    assert files_at(remote.location()) == set()


# --- publish


def test_publish(place, tmp_path):
    store = build(table_of(1), tmp_path / "here", key="id", buckets=3)
    with publish(store, place) as copy:
        assert (copy.id, copy.version, content(copy)) == (store.id, 1, model_of(table_of(1)))
        assert copy.info().rewritten_buckets == 3
        assert copy.verify().stray == ()
    before = files_at(place)
    publish(store, place).close()  # it is there already
    publish(tmp_path / "here", place, overwrite=True).close()
    assert files_at(place) == before
    rows = model_of(table_of(1)) | {5: 6}
    new = build(changed(rows), tmp_path / "here", key="id", buckets=3, overwrite=True)
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        publish(new, place)
    with publish(new, place, overwrite=True, retain=0) as copy:
        assert (copy.version, copy.info().rewritten_buckets) == (2, 1)
        assert content(copy) == rows
    assert files_at(place) == named_by(place)
    with publish(store, place, overwrite=True) as copy:  # back to the older one
        assert (copy.version, copy.id) == (3, store.id)
        assert content(copy) == model_of(table_of(1))
    for one in (store, new):
        one.close()


def test_publish_of_what_is_damaged_or_gone(tmp_path):
    place = Remote(tmp_path, "s3").location()
    store = build(table_of(1), tmp_path / "here", key="id", buckets=2)
    path = tmp_path / "here" / read_newest(Location(tmp_path / "here")).files[1].name
    held = path.read_bytes()
    for damaged in (held[:-1] + b"?", held[:-1], None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(CorruptionError, match=path.name):
            publish(store, place)
        assert files_at(place) == set()
    build(table_of(2), tmp_path / "here", key="id", overwrite=True, retain=0).close()
    with pytest.raises(StaleStoreError, match="version 1"):
        publish(store, place)
    with pytest.raises(FileNotFoundError):
        publish(tmp_path / "nothing", place)
    store.close()


def test_a_damaged_copy_is_copied_again(tmp_path, monkeypatch):
    there = tmp_path / "there"
    with build(table_of(1), tmp_path / "here", key="id", buckets=2) as store:
        publish(store, there).close()
        path = there / read_newest(Location(there)).files[0].name
        build(table_of(2), there, key="id", overwrite=True).close()
        good = path.read_bytes()

        def damage() -> None:
            path.unlink()
            path.write_bytes(good[:10] + b"?" + good[11:])

        damage()
        with publish(store, there, overwrite=True) as copy:
            assert (copy.version, copy.info().rewritten_buckets) == (3, 1)
            assert copy.verify().num_rows == KEYS
        # What is repaired stays repaired, because older versions name it, if publishing fails then.
        build(table_of(3), there, key="id", overwrite=True).close()
        damage()

        def fail(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(MODULES["store.new_version"], "publish_version", fail)
        with pytest.raises(KeyboardInterrupt):
            publish(store, there, overwrite=True)
        assert path.read_bytes() == good
        assert named_by(Location(there)) == files_at(Location(there))


# --- stores that are not local


@pytest.fixture(params=KINDS)
def remote(request, tmp_path) -> Remote:
    return Remote(tmp_path, request.param)


def test_a_remote_store_answers(remote, tmp_path, seed):
    place = remote.location()
    rng = random.Random(seed)
    rows = {key: rng.randrange(10**6) for key in rng.sample(range(10**5), 3000)}
    with build(changed(rows), place, key="id", buckets=5, block_size=1000) as store:
        assert content(store) == rows
        asked = rng.sample(range(10**5), 3000)
        assert store.contains(asked).to_pylist() == [key in rows for key in asked]
        assert [store.get(key) for key in asked[:300]] == [
            {"v": rows[key]} if key in rows else None for key in asked[:300]
        ]
        assert store.path == f"py::{remote.kind}://bucket/store"
        assert store.verify().num_rows == 3000
        with pytest.raises(TypeError):
            store.get("x")


def test_data_files_are_fetched_when_their_bucket_is_asked_for(remote):
    place = remote.location()
    build(table_of(1), place, key="id", buckets=4).close()
    remote.restart()
    with lookupstore.open(place) as store:
        assert remote.count("read") == 1  # the manifest
        bucket = xxhash.xxh64_intdigest(store.key_schema.encode_one(7)) % 4
        for _ in range(3):
            assert store.get(7) == {"v": 1}
        wanted = next(f.name for f in read_newest(place).files if f.bucket == bucket)
        read = [path for name, path in remote.done if name == "read" and "/data/" in path]
        assert read == [f"bucket/store/{wanted}"]
        assert len(store.lookup([*range(KEYS)])) == KEYS
        assert sum("/data/" in path for name, path in remote.done if name == "read") == 4


def test_what_a_remote_store_downloads_serves_children_and_those_who_open_it_later(
    remote, tmp_path
):
    place = remote.location()
    store = build(table_of(1), place, key="id", buckets=2, compression="none")
    assert store.get(1) == {"v": 1}
    copies = tmp_path / "copies-of-this-test"
    assert len(list(copies.glob("*.sst"))) == 1
    child = os.fork()
    if child == 0:
        answer = store.get(1)
        store.close()  # which must not remove what the parent reads
        os._exit(0 if answer == {"v": 1} else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert content(store) == model_of(table_of(1))
    store.close()
    assert len(list(copies.glob("*.sst"))) == 2
    with lookupstore.open(place) as again:
        assert content(again) == model_of(table_of(1))


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_remote_file_that_is_wrong_is_named(remote, tmp_path, damage):
    place = remote.location()
    build(table_of(1), place, key="id").close()
    (file,) = read_newest(place).files
    path = tmp_path / "bucket" / "store" / file.name
    held = bytearray(path.read_bytes())
    path.unlink()
    if damage != "gone":
        held[20] ^= 1
        path.write_bytes(held if damage == "flipped" else held[:-1])
    with lookupstore.open(place) as store:
        for use in (lambda: store.get(7), lambda: store.lookup([7]), store.verify):
            with pytest.raises(CorruptionError) as caught:
                use()
            assert caught.value.path == place.show(file.name)
    if damage == "gone":
        with lookupstore.open(place) as store:
            build(table_of(2), place, key="id", overwrite=True, retain=0).close()
            with pytest.raises(StaleStoreError, match=r"version 1 .* was replaced"):
                store.get(7)


def test_a_download_that_fails_is_tried_again(remote):
    place = remote.location()
    build(table_of(1), place, key="id").close()
    with lookupstore.open(place) as store:
        remote.restart(0)
        assert store.get(7) == {"v": 1}
        assert files_of(store).counts().retries == 1


def test_a_pickled_store_takes_the_copies_of_the_host_where_it_is_opened(
    remote, tmp_path, monkeypatch
):
    place = remote.location()
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "here"))
    build(table_of(1), place, key="id").close()
    with lookupstore.open(place) as store:
        assert store.get(7) == {"v": 1}
        sent = pickle.dumps(store)
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "there"))
    with pickle.loads(sent) as copy:
        assert copy.get(7) == {"v": 1}
        assert len(list((tmp_path / "there").glob("*.sst"))) == 1


def test_what_comes_before_a_copy_is_opened_is_counted(remote, tmp_path, monkeypatch):
    pin = Residency.pin

    def slowly(*given, **options):
        copy = pin(*given, **options)
        assert copy.wait(30)
        return copy

    place = remote.location()
    build(table_of(1), place, key="id", buckets=2).close()
    monkeypatch.setattr(Residency, "pin", slowly)
    with LookupStore(place, residency=Residency(tmp_path / "copies", quota=1 << 26)) as store:
        assert content(store) == model_of(table_of(1))
        fetched = files_of(store).counts().bytes_fetched
        assert fetched == sum(file.bytes for file in read_newest(place).files)


def test_copies_stay_where_a_residency_keeps_them(remote, tmp_path):
    place = remote.location()
    build(table_of(1), place, key="id", buckets=2, compression="none").close()
    residency = Residency(tmp_path / "copies", quota=1 << 26)
    with LookupStore(place, residency=residency) as store:
        assert residency.used == 0
        assert content(store) == model_of(table_of(1))
        files = read_newest(place).files
        held = {f"{file.xxh64}-{file.bytes}.sst" for file in files}
        assert {path.name for path in (tmp_path / "copies").glob("*.sst")} == held
        assert files_of(store).counts().bytes_fetched == sum(file.bytes for file in files)
    reads = [one for one in remote.done if one[0] == "read" and one[1].endswith(".sst")]
    with LookupStore(place, residency=residency) as again:
        assert content(again) == model_of(table_of(1))
        with pickle.loads(pickle.dumps(again)) as copy:
            assert content(copy) == model_of(table_of(1))
    later = [one for one in remote.done if one[0] == "read" and one[1].endswith(".sst")]
    assert later == reads


def test_an_older_version_is_checked_although_the_newest_is_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for rows in (1, 2):
        table = pa.table({"id": range(rows)})
        lookupstore.build(table, tmp_path / "s", key="id", overwrite=True).close()
    newest = max((tmp_path / "s" / "versions").glob("*.json"))
    newest.write_text("garbage")
    with lookupstore.open(tmp_path / "s", version=1) as store:
        checked = store.verify()
    assert (checked.num_rows, checked.stray) == (1, ())
    assert "were not looked for" in caplog.text
    assert newest.name in caplog.text
