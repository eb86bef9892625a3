"""What a store at a URI fetches of which nothing is on the host: counted at the server.

The model is a dict; the server is of the tests, and late, so that what waits for what is seen.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.object_store import BUCKET
from support.quick_store import QuickStore, is_part, quick_store
from support.remote import Remote

import lookupstore
from lookupstore import CorruptionError, Location, LookupStore
from lookupstore.errors import DiskQuotaError
from lookupstore.hostcache import copy as local_copy
from lookupstore.hostcache.cache import Residency
from lookupstore.storage import remote_file, s3_client
from lookupstore.store.local_files import files_of
from lookupstore.store.version_files import NEWEST_COPY

pytestmark = pytest.mark.drawn(0.4)

pytest.importorskip("obstore")

COUNT = 40_000
DELAY = 0.03
MODEL = {3 * i: random.Random(i).randbytes(60) + bytes(60) for i in range(COUNT)}


def build(folder: Path, name: str = "store", *, seed: int = 0, **options: object) -> Path:
    """Build a store in the bucket under a folder; return its folder there."""
    values = [seed.to_bytes(2, "big") + value for value in MODEL.values()]
    rows = pa.table({"id": list(MODEL), "v": values})
    place = Remote(folder, "s3").location(f"{BUCKET}/{name}")
    usual = {"block_size": 4096, "overwrite": True}
    lookupstore.build(rows, place, key="id", **{**usual, **options}).close()  # type: ignore[arg-type]
    path = folder / BUCKET / name
    copy_newest(path)
    return path


def copy_newest(path: Path) -> None:
    """Write what a publisher on S3 writes."""
    newest = max((path / "versions").glob("0*.json"))
    shutil.copy(newest, path / NEWEST_COPY)


def value_of(key: int, seed: int = 0) -> dict[str, bytes] | None:
    return {"v": seed.to_bytes(2, "big") + MODEL[key]} if key in MODEL else None


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuickStore]:
    folder = tmp_path_factory.mktemp("s3")
    build(folder)
    with quick_store(folder, DELAY) as quick:
        yield quick


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[QuickStore]:
    """A server of a store of the test's own."""
    build(tmp_path / "s3")
    with quick_store(tmp_path / "s3", 0.0) as quick:
        yield quick


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "copies", quota=100 << 20)


def opened(quick: QuickStore, residency: Residency, name: str = "store") -> LookupStore:
    return LookupStore(Location(quick.store.uri(name)), residency=residency)


def parts_of(quick: QuickStore) -> list[tuple[int, int]]:
    """Return the ranges of data files that were asked for, in order, none of which overlap."""
    parts = sorted((one.start, one.size) for one, _ in quick.asked() if is_part(one))
    for (start, size), (following, _) in itertools.pairwise(parts):
        assert start + size <= following, "asked for twice"
    return parts


def test_the_first_answer_takes_three_trips(served: QuickStore, residency: Residency) -> None:
    served.asked()
    with opened(served, residency) as store:
        assert store.get(3000) == value_of(3000)
    asked = served.asked()
    assert served.trips(asked) == 3
    names = sorted(one.path.partition("?")[0].rpartition("/")[2] for one, _ in asked)
    assert len(names) == 4
    assert {"bucket", "newest.json"} < set(names)
    assert sum(map(is_part, (one for one, _ in asked))) == 2
    assert {one.method for one, _ in asked} == {"GET"}


def test_a_key_takes_a_request_and_a_missing_one_none(
    served: QuickStore, residency: Residency, seed: int
) -> None:
    rng = random.Random(seed)
    with opened(served, residency) as store:
        assert store.get(3000) == value_of(3000)
        served.asked()
        keys = rng.sample(sorted(MODEL), 60)
        for key in keys:
            assert store.get(key) == value_of(key)
        parts = parts_of(served)
        assert 0 < len(parts) <= 1.05 * len(keys)
        assert sum(size for _, size in parts) <= 8192 * len(keys)
        for key in keys:
            assert store.get(key) == value_of(key)
        assert parts_of(served) == []
        missing = [3 * rng.randrange(COUNT) + 1 for _ in range(60)]
        assert not any(key in store for key in missing)
        # Those that the filter lets pass, and no others.
        assert len(parts_of(served)) <= 12


def test_a_call_asks_for_each_block_once(
    served: QuickStore, residency: Residency, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copy, "GAP_CHUNKS", 0)
    monkeypatch.setattr(local_copy.LocalCopy, "download", lambda copy: None)
    keys = random.Random(seed).choices(range(3 * COUNT), k=1000)
    with opened(served, residency) as store:
        store.get(3000)
        served.asked()
        found = store.lookup(keys)["v"].to_pylist()
        assert found == [(value_of(key) or {"v": None})["v"] for key in keys]
        parts = parts_of(served)
        blocks = files_of(store).counts().blocks_read
        assert 100 < len(parts) <= blocks
        assert sum(size for _, size in parts) <= 8192 * blocks
        store.lookup(keys)
        assert parts_of(served) == []


def test_requests_of_a_call_wait_together(
    served: QuickStore, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_copy, "GAP_CHUNKS", 0)
    monkeypatch.setattr(local_copy.LocalCopy, "download", lambda copy: None)
    with opened(served, residency) as store:
        store.get(3000)
        served.asked()
        store.lookup(list(MODEL)[:: COUNT // 128])
        asked = served.asked()
        assert len(asked) > 100
        assert served.trips(asked) <= len(asked) // (remote_file.AT_ONCE // 4)


def test_lookups_pay_for_the_download(
    quick: QuickStore, residency: Residency, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins when they have fetched an eighth, whichever stores and copies that was for."""
    keys = random.Random(seed).sample(sorted(MODEL), 5000)
    wanted: list[local_copy.LocalCopy] = []
    with opened(quick, residency) as store:
        nbytes = store.info().bytes
        store.get(3000)
        fetched = 0
        quick.asked()
        with monkeypatch.context() as patched:
            patched.setattr(local_copy.LocalCopy, "download", lambda copy: wanted.append(copy))
            while not wanted:
                assert fetched < nbytes / local_copy.PAID_PART
                with opened(quick, residency) as other:
                    key = keys.pop()
                    assert other.get(key) == value_of(key)
                fetched += sum(size for _, size in parts_of(quick))
        # The end of the file is nobody's: it is less than a tenth.
        assert fetched > 0.85 * nbytes / local_copy.PAID_PART
        with opened(quick, residency) as other:
            assert other.get(key) == value_of(key)
            until = time.monotonic() + 30
            while store.info().bytes_here < nbytes:
                assert time.monotonic() < until, "who opens a copy goes on with it"
                time.sleep(0.01)


def test_a_scan_of_all_downloads_all(quick: QuickStore, residency: Residency) -> None:
    with opened(quick, residency) as store:
        assert store.scan().read_all()["id"].to_pylist() == list(MODEL)
        until = time.monotonic() + 30
        while store.info().bytes_here < store.info().bytes:
            assert time.monotonic() < until
            time.sleep(0.01)
    assert parts_of(quick)


@pytest.mark.parametrize("copy", ["none", "of an older version", "damaged", "of another store"])
def test_the_copy_of_the_newest_manifest_is_not_needed(
    quick: QuickStore, residency: Residency, copy: str
) -> None:
    path = quick.store.folder / "store"
    content = (path / NEWEST_COPY).read_bytes()
    if copy == "of another store":
        content = (build(path.parents[1], "other", seed=1) / NEWEST_COPY).read_bytes()
    build(path.parents[1], seed=2)
    if copy == "none":
        (path / NEWEST_COPY).unlink()
    elif copy == "damaged":
        content = (path / NEWEST_COPY).read_bytes().replace(b'"num_rows": 4', b'"num_rows": 5')
    if copy != "none":
        (path / NEWEST_COPY).write_bytes(content)
    with opened(quick, residency) as store:
        assert store.version == 2
        assert store.get(3000) == value_of(3000, 2)
    assert lookupstore.open(Location(quick.store.uri("store")), version=1).version == 1


CHILD = """
import random, sys
from lookupstore import Location, LookupStore
from lookupstore.hostcache.cache import Residency
uri, cache, seed = sys.argv[1:4]
store = LookupStore(Location(uri), residency=Residency(cache, quota=100 << 20))
print("open", flush=True)
sys.stdin.readline()
rng = random.Random(int(seed))
for _ in range(40):
    assert 3 * rng.randrange(40_000) in store
"""


def test_processes_fetch_a_block_once(served: QuickStore, residency: Residency, seed: int) -> None:
    served.asked()
    arguments = [served.store.uri("store"), residency.folder, str(seed % 1000)]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60)
    assert [child.returncode for child in children] == [0, 0]
    # Blocks that touch share a chunk, so that one of them may come in two parts.
    assert 20 < len(parts_of(served)) <= 44


def test_another_file_in_the_place_of_an_object(quick: QuickStore, residency: Residency) -> None:
    """Of the same size, and right in itself, but with other keys: the manifest tells."""
    folder = quick.store.folder.parent
    right = build(folder, "plain", compression="none")
    rows = pa.table({"id": [3 * i + 3 for i in range(COUNT)], "v": [bytes(122)] * COUNT})
    place = Remote(folder, "s3").location(f"{BUCKET}/other")
    lookupstore.build(rows, place, key="id", block_size=4096, compression="none").close()
    (wrong,) = (folder / BUCKET / "other" / "data").glob("*.sst")
    (path,) = (right / "data").glob("*.sst")
    assert wrong.stat().st_size == path.stat().st_size
    shutil.copy(wrong, path)
    with (
        opened(quick, residency, "plain") as store,
        pytest.raises(CorruptionError, match=rf"{path.name}.*least key"),
    ):
        store.get(3)


@pytest.mark.parametrize("size", [0, 100_000, -1])
def test_an_object_that_was_cut(quick: QuickStore, residency: Residency, size: int) -> None:
    (path,) = (quick.store.folder / "store" / "data").glob("*.sst")
    content = path.read_bytes()
    path.write_bytes(content[:size])
    with pytest.raises(CorruptionError, match=f"{path.name}.*{len(content)} bytes"):
        opened(quick, residency).get(3)


def test_copies_with_few_blocks_give_way(tmp_path: Path, seed: int) -> None:
    """They count in full, since all of them may come."""
    rng = random.Random(seed)
    paths = [build(tmp_path / "s3", f"store-{i}", seed=i) for i in range(3)]
    (file,) = (paths[0] / "data").glob("*.sst")
    residency = Residency(tmp_path / "copies", quota=2 * file.stat().st_size + (200 << 10))
    with quick_store(tmp_path / "s3", 0.0) as quick:
        stores = [opened(quick, residency, path.name) for path in paths]
        for _ in range(20):
            number, key = rng.randrange(3), rng.choice(list(MODEL))
            assert stores[number].get(key) == value_of(key, number)
            assert residency.used <= residency.quota
        assert len(list(Path(residency.folder).glob("*.sst"))) == 2
        small = Residency(tmp_path / "small", quota=file.stat().st_size // 2)
        with pytest.raises(DiskQuotaError):
            opened(quick, small, paths[0].name).get(3)


def test_what_only_pyarrow_knows_is_asked_of_pyarrow(
    served: QuickStore, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem, _ = Location(served.store.uri("store")).resolve("")
    assert s3_client.reads_of(filesystem) is not None
    given = s3_client.options_of(filesystem)
    for other in (
        {"role_arn": "arn:aws:iam::1:role/r"},
        {"tls_ca_file_path": "/ca.pem"},
        {"proxy_options": {"scheme": "http", "host": "h", "port": 1}},
        {"access_key": "", "secret_key": ""},
    ):
        with monkeypatch.context() as patched:
            patched.setattr(s3_client, "options_of", lambda _, other=other: {**given, **other})
            patched.delenv("AWS_ACCESS_KEY_ID", raising=False)
            assert s3_client.reads_of(filesystem) is None
    monkeypatch.setattr(s3_client, "is_there", lambda extra: False)
    assert s3_client.reads_of(filesystem) is None
    served.asked()
    with opened(served, residency) as store:
        assert store.get(3000) == value_of(3000)
    assert "HEAD" in {one.method for one, _ in served.asked()}


def test_what_obstore_never_answered_is_not_asked_of_it_again(
    served: QuickStore, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(self: object, path: str, options: object) -> None:
        asked.append(path)
        raise OSError("refused")

    monkeypatch.setattr(s3_client, "_known", {})
    monkeypatch.setattr(s3_client.S3Reads, "_get", refuse)
    with opened(served, residency) as store:
        for key in random.Random(0).sample(sorted(MODEL), 20):
            assert store.get(key) == value_of(key)
        assert files_of(store).counts().retries == 1
    assert len([path for path in asked if path.endswith(".sst")]) == 1
