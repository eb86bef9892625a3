"""Compaction beside writers: in the background, and under runs that came meanwhile."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.changelog import check_changes
from support.remote import FaultyDisk, Killed, Remote
from support.samples import some_of

import lookupstore
from lookupstore import Location, LookupStore, build, expire, upsert
from lookupstore.store import background
from lookupstore.store.changed_bucket import BucketChanger
from lookupstore.store.manifest import manifest_bytes
from lookupstore.store.publish_step import numbered
from lookupstore.store.version_files import name_of, named_files, read_newest

pytestmark = pytest.mark.drawn(0.4)

changing = importlib.import_module("lookupstore.store.changing")
new_version = importlib.import_module("lookupstore.store.new_version")
os_modules = [
    importlib.import_module(f"lookupstore.{name}")
    for name in ("storage.local", "storage.naming", "store.new_version", "store.changed_bucket")
]

KEEP: dict[str, Any] = {"max_runs": 64, "max_run_share": float("inf")}
Model = dict[int, tuple[Any, ...]]


def table(rows: Model) -> pa.Table:
    return pa.table({"id": list(rows), "n": [row[0] for row in rows.values()]})


def rows_of(store: LookupStore) -> Model:
    return {row["id"]: (row["n"],) for row in store.scan().read_all().to_pylist()}


def bases(place: Any) -> dict[int, tuple[str, int]]:
    return {f.bucket: (f.xxh64, f.bytes) for f in read_newest(Location(place)).files}


def wait_for_compactions() -> None:
    for thread in threading.enumerate():
        if thread.name == "lookupstore-compaction":
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen once, when a compaction has written its first bucket."""

    def arrange(happen: Callable[[], object]) -> None:
        real = BucketChanger.compact

        def instead(self: BucketChanger, *args: Any, **named: Any) -> Any:
            done = real(self, *args, **named)
            monkeypatch.setattr(BucketChanger, "compact", real)
            happen()
            return done

        monkeypatch.setattr(BucketChanger, "compact", instead)

    return arrange


@pytest.fixture
def started(tmp_path: Path) -> tuple[str, Model]:
    """A store of three buckets with runs in each, and its rows."""
    place = str(tmp_path / "s")
    model: Model = {i: (i,) for i in range(300)}
    build(table(model), place, key="id", buckets=3, block_size=256).close()
    changes: Model = {i: (-i,) for i in range(100, 400, 2)}
    upsert(place, table(changes), deletes=[1, 2, 3], **KEEP).close()
    model = {**model, **changes}
    for key in (1, 2, 3):
        del model[key]
    return place, model


def compacted(place: str, **options: Any) -> LookupStore:
    with lookupstore.open(place) as store:
        return store.compact(**options)


def test_upserts_meanwhile_stay_above_the_new_bases(tmp_path, started, meanwhile, seed):
    place, model = started
    build(table(model), tmp_path / "fresh", key="id", buckets=3, block_size=256).close()
    rng = random.Random(seed)
    newer: Model = {rng.randrange(500): (1000 + i,) for i in range(5)}
    gone = next(key for key in model if key not in newer)

    def change() -> None:
        upsert(place, table(newer), deletes=[gone], **KEEP).close()
        upsert(place, table({7: (7777,)}), **KEEP).close()

    meanwhile(change)
    with compacted(place) as store:
        before, model = model, {**model, **newer, 7: (7777,)}
        model.pop(gone)
        assert store.version == 5
        manifest = read_newest(store.location)
        assert {len(runs) for runs in manifest.runs_by_bucket().values()} <= {1, 2}
        assert len(manifest.runs) >= 2
        # What was merged is what a build of these rows writes; nothing else was written again.
        assert bases(place) == bases(tmp_path / "fresh")
        assert rows_of(store) == model
        assert len(store) == len(model)
        assert store.lookup([7, gone], found=True)["found"].to_pylist() == [True, False]
        store.verify()
        check_changes(store.changes(2, 5), before, model)
        check_changes(store.changes(1, 5), {i: (i,) for i in range(300)}, model)
        assert store.changes(4, 5).read_all().num_rows == 0


def test_a_compaction_meanwhile_is_enough(started, meanwhile):
    place, model = started
    meanwhile(lambda: compacted(place).close())
    with compacted(place) as store:
        assert store.version == 3
        assert store.info().runs == 0
        assert rows_of(store) == model
    expire(place, retain=0)
    location = Location(place)
    assert {f.name for f in location.files(recursive=True)} == named_files(location)


def test_a_bucket_that_others_compacted_stays_as_they_made_it(started, meanwhile):
    place, model = started
    with lookupstore.open(place) as store:
        # One key, whose bucket alone is compacted by the upsert.
        meanwhile(lambda: store.upsert(table({5: (5555,)}), max_runs=0).close())
        with store.compact() as newest:
            manifest = read_newest(newest.location)
            assert newest.version == 4
            assert manifest.runs == ()
            assert manifest.rewritten_buckets == 2
            assert rows_of(newest) == {**model, 5: (5555,)}
            newest.verify()


def test_a_build_meanwhile_is_not_undone(started, meanwhile):
    """Also not where it has as many files again, of other rows."""
    place, _ = started
    built: Model = {i: (1,) for i in range(30)}

    def rebuild() -> None:
        build(table(built), place, key="id", overwrite=True, buckets=3, block_size=256).close()
        upsert(place, table({i: (2,) for i in range(20)}), **KEEP).close()

    meanwhile(rebuild)
    with compacted(place) as store:
        assert store.version == 4
        assert rows_of(store) == {**built, **{i: (2,) for i in range(20)}}


def test_each_try_has_an_identity_of_its_own(started, monkeypatch):
    """Who has seen a version that was withdrawn does not take the next try for it."""
    place, model = started
    real, seen = new_version.publish_version, []

    def overtaken(location: Any, manifest: Any, **named: Any) -> Any:
        seen.append(manifest.id)
        marks = [f.name for f in location.files("data") if f.name.endswith("-runs")]
        assert any(manifest.id in mark for mark in marks)
        if len(seen) <= 2:
            with monkeypatch.context() as patch:
                patch.setattr(new_version, "publish_version", real)
                upsert(place, table({9: (len(seen),)}), **KEEP).close()
        return real(location, manifest, **named)

    monkeypatch.setattr(new_version, "publish_version", overtaken)
    with compacted(place) as store:
        assert len(set(seen)) == len(seen) == 3
        assert store.id == seen[-1]
        assert rows_of(store) == {**model, 9: (2,)}
    assert [f.name for f in Location(place).files("data") if f.name.endswith("-runs")] == []


@pytest.mark.sampled
@pytest.mark.parametrize("kill", [False, True], ids=["fail", "kill"])
def test_every_operation_of_an_overtaken_compaction_fails_once(tmp_path, monkeypatch, kill):
    """The upsert that came meanwhile is there, whatever becomes of the compaction."""
    old: Model = {i: (1,) for i in range(40)}
    new: Model = {**old, **{i: (2,) for i in range(30, 50)}, 3: (3,)}
    real = BucketChanger.compact

    def run(folder: Path, disk: FaultyDisk) -> BaseException | None:
        place = folder / "s"
        build(table(old), place, key="id", buckets=2).close()
        upsert(place, table({i: (2,) for i in range(30, 50)}), **KEEP).close()
        with pytest.MonkeyPatch.context() as patch:

            def instead(self: BucketChanger, *args: Any, **named: Any) -> Any:
                done = real(self, *args, **named)
                (folder / "changed").touch()
                for module in os_modules:
                    patch.setattr(module, "os", os)
                patch.setattr(BucketChanger, "compact", real)
                upsert(place, table({3: (3,)}), **KEEP).close()
                for module in os_modules:
                    patch.setattr(module, "os", disk)
                return done

            patch.setattr(BucketChanger, "compact", instead)
            for module in os_modules:
                patch.setattr(module, "os", disk)
            try:
                compacted(str(place), retain=0).close()
            except BaseException as error:
                return error
        return None

    clean = FaultyDisk()
    assert run(tmp_path / "clean", clean) is None
    assert len(clean.done) > 12
    for at in some_of(range(len(clean.done))):
        folder = tmp_path / str(at)
        raised = run(folder, FaultyDisk(at, kill=kill))
        print(at, clean.done[at], raised)
        known = (Killed, OSError, lookupstore.LookupStoreError, type(None))
        assert isinstance(raised, known)
        with lookupstore.open(folder / "s") as store:
            changed = (folder / "changed").exists()
            assert rows_of(store) == (new if changed else {**new, 3: (1,)})
            store.verify()
        with compacted(str(folder / "s")) as store:
            assert store.info().runs == 0


def test_a_remote_store(tmp_path, meanwhile):
    remote = Remote(tmp_path, "s3")
    place = remote.location()
    model: Model = {i: (i,) for i in range(500)}
    build(table(model), place, key="id", buckets=2).close()
    upsert(place, table({1: (-1,), 600: (6,)}), **KEEP).close()
    meanwhile(lambda: upsert(place, table({2: (-2,)}), **KEEP).close())
    with lookupstore.open(place) as store, store.compact() as newest:
        assert newest.version == 4
        assert rows_of(newest) == {**model, 1: (-1,), 2: (-2,), 600: (6,)}
        assert newest.info().runs == 1


# --- in the background


def test_the_background_compacts_what_is_due(tmp_path, seed):
    rng = random.Random(seed)
    place = str(tmp_path / "s")
    model: Model = {i: (i,) for i in range(2000)}
    build(table(model), place, key="id", buckets=3).close()
    for at in range(25):
        changes: Model = {rng.randrange(2500): (at,) for _ in range(40)}
        gone = [key for key in rng.sample(range(2500), 9) if key not in changes]
        with upsert(
            place, table(changes), deletes=gone, max_runs=2, max_run_share=100, background=True
        ) as store:
            model.update(changes)
            for key in gone:
                model.pop(key, None)
            assert rows_of(store) == model
            assert read_newest(store.location).applied == ()
    wait_for_compactions()
    with lookupstore.open(place) as store:
        assert rows_of(store) == model
        assert store.version > 26  # some were compactions
        manifest = read_newest(store.location)
        assert all(len(runs) <= 2 for runs in manifest.runs_by_bucket().values())
        store.verify()
        store.compact().close()
    build(table(model), tmp_path / "fresh", key="id", buckets=3).close()
    assert bases(place) == bases(tmp_path / "fresh")


def test_the_upsert_does_not_wait_for_the_background(tmp_path, monkeypatch):
    place = str(tmp_path / "s")
    build(table({1: (1,)}), place, key="id").close()
    real, go_on, begun = BucketChanger.compact, threading.Event(), threading.Event()

    def slow(self: BucketChanger, *args: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return real(self, *args, **named)

    monkeypatch.setattr(BucketChanger, "compact", slow)
    for at in range(3):
        with lookupstore.open(place) as store:
            store.upsert(table({2: (at,)}), max_runs=0, background=True).close()
    assert begun.wait(60)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("lookupstore-compaction") == 1
    with lookupstore.open(place) as store:
        assert store.info().runs >= 1
    go_on.set()
    wait_for_compactions()
    with lookupstore.open(place) as store:
        # What came while it ran was due, too, and done by the same thread.
        assert store.info().runs == 0
        assert rows_of(store) == {1: (1,), 2: (2,)}


def test_what_fails_in_the_background_is_logged(tmp_path, monkeypatch, caplog):
    place = str(tmp_path / "s")
    build(table({1: (1,)}), place, key="id").close()

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "no space left")

    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(BucketChanger, "compact", full)
        upsert(place, table({2: (2,)}), max_runs=0, background=True).close()
        wait_for_compactions()
    assert "not compacted, its runs stay" in caplog.text
    upsert(place, table({3: (3,)}), max_runs=0, background=True).close()
    wait_for_compactions()
    with lookupstore.open(place) as store:
        assert store.info().runs == 0
        assert rows_of(store) == {1: (1,), 2: (2,), 3: (3,)}


def test_a_change_opens_what_it_published(tmp_path, monkeypatch):
    """Also while a compaction that was overtaken has not withdrawn its version yet."""
    store = build(table({1: (1,), 2: (2,)}), tmp_path / "s", key="id")
    rival = replace(read_newest(store.location), id="f" * 32, parent=store.id)

    def published(real):
        def publish(location, *arguments, **options):
            name = real(location, *arguments, **options)
            # Its publisher stands still, before it looks whether it was first.
            seen = numbered(rival, name.number)
            location.write(name_of(seen).file, [manifest_bytes(seen)])
            assert read_newest(location).id == rival.id
            return name

        return publish

    module = importlib.import_module("lookupstore.store.changing")
    with monkeypatch.context() as patch:
        upsert_version = published(module.upsert_version)
        patch.setattr(module, "upsert_version", upsert_version)
        patch.setattr("lookupstore.store.upserting.upsert_version", upsert_version)
        with upsert(tmp_path / "s", table({1: (5,)}), **KEEP) as changed:
            assert rows_of(changed) == {1: (5,), 2: (2,)}
        os.remove(max((tmp_path / "s" / "versions").glob("*ffffffff*")))
        with store.upsert(table({2: (7,)}), **KEEP) as changed:
            assert rows_of(changed) == {1: (5,), 2: (7,)}
        os.remove(max((tmp_path / "s" / "versions").glob("*ffffffff*")))
        patch.setattr(module, "compact_version", published(module.compact_version))
        with store.compact() as changed:
            assert rows_of(changed) == {1: (5,), 2: (7,)}
            assert changed.info().runs == 0
    store.close()


def test_what_nobody_expects_does_not_end_the_background(monkeypatch, caplog):
    """Neither an error of any kind nor a thread that does not start keeps later calls away."""
    ran = threading.Event()

    def fail():
        raise KeyError("surprise")

    def settled():
        for thread in threading.enumerate():
            if thread.name == "lookupstore-compaction":
                thread.join()

    background.compact_in_background("one", fail)
    settled()
    assert "one: not compacted" in caplog.text
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError))
        background.compact_in_background("one", ran.set)
    assert not ran.is_set()
    background.compact_in_background("one", ran.set)
    settled()
    assert ran.is_set()


def test_a_full_bucket_is_compacted_at_once(tmp_path, monkeypatch):
    place = str(tmp_path / "s")
    build(table({1: (1,)}), place, key="id").close()
    monkeypatch.setattr("lookupstore.store.changing.compact_in_background", lambda *_: None)
    for at in range(66):
        upsert(place, table({2: (at,)}), background=True).close()
    with lookupstore.open(place) as store:
        assert store.info().runs == 1
        assert store.get(2) == {"n": 65}


def test_a_process_that_ends_waits_for_the_background(tmp_path):
    script = """
import sys, pyarrow as pa, lookupstore
store = lookupstore.build(pa.table({"id": range(9)}), sys.argv[1], key="id")
store.upsert(pa.table({"id": [9]}), max_runs=0, background=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "s")], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    with lookupstore.open(tmp_path / "s") as store:
        assert (store.version, store.info().runs, len(store)) == (3, 0, 10)


def _upsert_in_child(place: str) -> None:
    upsert(place, table({3: (3,)}), max_runs=0, background=True).close()
    wait_for_compactions()


def test_a_forked_child_has_threads_of_its_own(tmp_path, monkeypatch):
    place = str(tmp_path / "s")
    build(table({1: (1,)}), place, key="id").close()
    # As if a compaction of the parent ran while it forks.
    monkeypatch.setattr(background, "_running", {Location(place).uri})
    child = multiprocessing.get_context("fork").Process(target=_upsert_in_child, args=(place,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    with lookupstore.open(place) as store:
        assert store.info().runs == 0
        assert rows_of(store) == {1: (1,), 3: (3,)}


MEASURED = """
import sys
import pyarrow as pa
from lookupstore import LookupStore, build
def peak():  # ru_maxrss would do, but a child inherits its parent's
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))
small = build(pa.table({"id": [1]}), sys.argv[1] + "-small", key="id")
small.upsert(pa.table({"id": [2]}), max_runs=64, max_run_share=100).compact().close()
start = peak()
with LookupStore(sys.argv[1]) as store:
    store.compact().close()
print(peak() - start)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.skipif(
    os.environ.get("LOOKUPSTORE_BUILD") == "sanitize", reason="AddressSanitizer keeps freed memory"
)
def test_memory_is_bounded_by_blocks(tmp_path):
    """Compact 200 MB of rows, which are few bytes of files: those are mapped, and would count."""
    count = 500_000
    texts = pa.array([f"{i:08d}" * 50 for i in range(count)])
    rows = pa.table({"id": range(count), "text": texts})
    build(rows, tmp_path / "s", key="id", buckets=1, compression="zstd").close()
    for start in range(3):
        upsert(tmp_path / "s", rows[start::50], **KEEP).close()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path / "s")],
        capture_output=True,
        text=True,
        check=True,
        # Arrow's own pools keep up to 70 MiB that nobody uses, more on a busy machine.
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    with LookupStore(tmp_path / "s") as store:
        assert store.info().runs == 0
        assert store.info().bytes < 40 << 20
        assert store.get(count - 1) == {"text": texts[-1].as_py()}
    assert int(done.stdout) < 100, f"{done.stdout.strip()} MiB"
