"""Read a store from several processes and threads while another process replaces it.

Every row says the version of the store that it belongs to, and what it must hold follows from key
and version: each answer is compared with that, and all answers of one open store must be of the
version that the process which built it says. `make soak` runs this for five minutes, the test suite
for some seconds. The exit status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import random
import statistics
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import lookupstore
from lookupstore.errors import ClosedError, StaleStoreError
from lookupstore.sst.reader import shared_cache

PROCESSES = 2
THREADS = 2
#: Seconds that each reads at least.
LEAST_SECONDS = 2.0
KEYS = 20_000

# Far below what all versions of a run would fill: blocks of old stores must make room.
CACHE_BYTES = 4 << 20

# A reader that kept the slots and the index of each version, some 100 KiB, would grow by 20 MiB
# between the middles of the first and the last third of 300 seconds with a version a second; one
# that kept maps or blocks, by ten times that. Allocators move by some 5 MiB when they are warm.
MOST_GROWTH = 16 << 20

# In a shorter run the first third is when caches and allocators fill: its growth says nothing.
SHORTEST_FOR_GROWTH = 60.0

# How versions are stored, in turn: views of a map and evictable blocks follow each other in one
# process.
OPTIONS: tuple[dict[str, Any], ...] = (
    {"compression": "zstd", "buckets": 1, "block_size": 4096},
    {"compression": "none", "buckets": 3, "block_size": 4096},
    {"compression": "lz4", "buckets": 2, "block_size": 65536},
    {"compression": "none", "buckets": 1, "block_size": 65536},
)


def is_there(key: int, version: int) -> bool:
    """Say whether a version of the store holds a key: each lacks another fifth of them."""
    return 0 <= key < KEYS and (key + version) % 5 != 0


def text_of(key: int, version: int) -> str:
    """Return what the row holds beside its version: of another size in each version."""
    return f"{version}-{key}-" + "x" * ((key * 31 + version * 7) % 90)


def row_of(key: int, version: int) -> dict[str, object] | None:
    """Return the row that a version of the store holds at a key."""
    return {"version": version, "text": text_of(key, version)} if is_there(key, version) else None


def table_of(version: int) -> pa.Table:
    """Return all rows of a version."""
    keys = [key for key in range(KEYS) if is_there(key, version)]
    return pa.table(
        {
            "key": keys,
            "version": pa.array([version] * len(keys), pa.int64()),
            "text": [text_of(key, version) for key in keys],
        }
    )


@dataclass
class Found:
    """What one process has seen."""

    calls: Counter[str] = field(default_factory=Counter)
    versions: dict[str, int] = field(default_factory=dict)  # by the id of the store
    rss: list[int] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def replace(path: str, published: str, end: float, interval: float) -> Found:
    """Build a new version of the store, again and again."""
    found = Found()
    version = 0
    try:
        while time.monotonic() < end:
            started = time.monotonic()
            version += 1
            options = OPTIONS[version % len(OPTIONS)]
            with lookupstore.build(
                table_of(version),
                path,
                key="key",
                overwrite=True,
                retain=interval / 2,
                progress=False,
                **options,
            ) as store:
                found.versions[store.id] = version
            Path(published + ".new").write_text(str(version))
            os.replace(published + ".new", published)
            time.sleep(max(0.0, interval - (time.monotonic() - started)))
    except Exception:
        found.findings.append(f"the writer, version {version}: {traceback.format_exc()}")
    found.calls["versions built"] = version
    return found


class Readers:
    """Threads that read one store, and open it anew from time to time."""

    def __init__(self, path: str, published: str, end: float, seed: int) -> None:
        self.path = path
        self.published = Path(published)
        self.end = end
        self.seed = seed
        self.found = Found()
        self.lock = threading.Lock()  # of `found` and `store`
        self.store = self.opened(random.Random(seed))

    def run(self) -> Found:
        """Read until the time is over."""
        # On a busy machine a process may take longer to start, and to open, than all is to last.
        self.end = max(self.end, time.monotonic() + LEAST_SECONDS)
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.found.rss.append(rss())
            time.sleep(0.2)
        return self.found

    def opened(self, rng: random.Random) -> lookupstore.LookupStore:
        """Open the store, which must not be older than what was published before."""
        while True:
            before = int(self.published.read_text())
            try:
                store = lookupstore.open(self.path, cache_bytes=rng.choice([None, CACHE_BYTES]))
            except StaleStoreError:
                # Allowed: it was replaced each time that this looked.
                self.count("open was overtaken")
                continue
            self.count("open")
            key = next(key for key in range(KEYS) if store.get(key) is not None)
            version = self.version(store, store.get(key))
            assert version >= before, f"opened version {version} after {before} was published"
            return store

    def version(self, store: lookupstore.LookupStore, row: dict[str, object] | None) -> int:
        """Return the version of a store, which the first row of it tells."""
        assert row is not None
        assert isinstance(row["version"], int)
        with self.lock:
            return self.found.versions.setdefault(store.id, row["version"])

    def count(self, what: str) -> None:
        with self.lock:
            self.found.calls[what] += 1

    def work(self, number: int) -> None:
        """Be one of the threads."""
        rng = random.Random(self.seed + 1000 * (number + 1))
        calls = [self.lookup] * 8 + [self.get] * 6 + [self.contains] * 4 + [self.scan, self.reopen]
        calls += [self.send, self.verify] if number == 0 else []
        while time.monotonic() < self.end:
            call = rng.choice(calls)
            store = self.store
            try:
                call(store, rng)
                self.count(call.__name__)
            except ClosedError:
                # Allowed: another thread has opened the store anew, and closed this one.
                assert store is not self.store
                self.count("closed by another thread")
            except BaseException:
                with self.lock:
                    self.found.findings.append(f"{call.__name__}: {traceback.format_exc()}")
                return

    def lookup(self, store: lookupstore.LookupStore, rng: random.Random) -> None:
        """Look up many keys: all rows are of the version of the store."""
        version = self.found.versions[store.id]
        keys = [rng.randrange(-9, KEYS + 9) for _ in range(int(4000 ** rng.random()))]
        table = store.lookup(keys, found=True)
        rows = [row_of(key, version) for key in keys]
        assert table.column("found").to_pylist() == [row is not None for row in rows]
        for name in ("version", "text"):
            right = [None if row is None else row[name] for row in rows]
            assert table.column(name).to_pylist() == right, f"{name} of version {version}"

    def get(self, store: lookupstore.LookupStore, rng: random.Random) -> None:
        """Look up keys one by one."""
        version = self.found.versions[store.id]
        for key in [rng.randrange(-9, KEYS + 9) for _ in range(50)]:
            assert store.get(key) == row_of(key, version), f"key {key} of version {version}"

    def contains(self, store: lookupstore.LookupStore, rng: random.Random) -> None:
        """Ask which of many keys are there."""
        version = self.found.versions[store.id]
        keys = [rng.randrange(-9, KEYS + 9) for _ in range(1000)]
        assert store.contains(keys).to_pylist() == [is_there(key, version) for key in keys]

    def scan(self, store: lookupstore.LookupStore, rng: random.Random) -> None:
        """Read a range."""
        version = self.found.versions[store.id]
        start = rng.randrange(KEYS)
        right = [
            {"key": key, **row}
            for key in range(start, start + 500)
            if (row := row_of(key, version)) is not None
        ]
        assert store.scan(start=start, stop=start + 500).read_all().to_pylist() == right

    def reopen(self, store: lookupstore.LookupStore, rng: random.Random) -> None:
        """Open the store anew, and close the old one, or leave it to those who still have it."""
        new = self.opened(rng)
        with self.lock:
            old, self.store = self.store, new
        if rng.random() < 0.5:
            old.close()

    def send(self, store: lookupstore.LookupStore, rng: random.Random) -> None:
        """Pickle the store and open what comes out: the same version, or told that it is gone."""
        sent = pickle.dumps(store)
        try:
            with pickle.loads(sent) as other:
                assert other.id == store.id
                self.get(other, rng)
        except StaleStoreError:
            self.count("pickled, then replaced")

    def verify(self, store: lookupstore.LookupStore, rng: random.Random) -> None:
        """Check all of the store, unless it has been replaced."""
        if rng.random() < 0.5:  # it takes long
            return
        try:
            assert store.verify().num_rows == len(store)
        except StaleStoreError:
            self.count("verified after it was replaced")


def read(path: str, published: str, end: float, seed: int) -> Found:
    """Be a reading process."""
    shared_cache.resize(CACHE_BYTES)
    try:
        return Readers(path, published, end, seed).run()
    except Exception:
        return Found(findings=[f"a reader: {traceback.format_exc()}"])


def rss() -> int:
    """Return the bytes of memory that this process has now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except FileNotFoundError:
        return 0


def growth(samples: list[int]) -> tuple[int, int]:
    """Return the medians of the first and of the last third."""
    third = max(1, len(samples) // 3)
    return int(statistics.median(samples[:third])), int(statistics.median(samples[-third:]))


def judge(writer: Found, readers: list[Found], seconds: float) -> list[str]:
    """Return what is wrong with what the processes have seen."""
    findings = [text for one in (writer, *readers) for text in one.findings]
    for number, one in enumerate(readers):
        findings += [
            f"reader {number}: store {name} answered as version {version}, "
            f"and was built as {writer.versions.get(name)}"
            for name, version in one.versions.items()
            if writer.versions.get(name) != version
        ]
        first, last = growth(one.rss)
        if seconds >= SHORTEST_FOR_GROWTH and last - first > MOST_GROWTH:
            findings.append(f"reader {number}: grew from {first:,} to {last:,} bytes")
    return findings


def soak(seconds: float, interval: float, seed: int) -> list[str]:
    """Run all processes, print a summary, and return what was found."""
    with tempfile.TemporaryDirectory(prefix="lookupstore-soak-") as folder:
        path, published = os.path.join(folder, "store"), os.path.join(folder, "published")
        # The version before the first: the readers need something to open.
        lookupstore.build(table_of(0), path, key="key", progress=False, **OPTIONS[0]).close()
        with lookupstore.open(path) as store:
            first = store.id
        Path(published).write_text("0")
        end = time.monotonic() + seconds
        with ProcessPoolExecutor(
            PROCESSES + 1, mp_context=multiprocessing.get_context("spawn")
        ) as pool:
            futures = [pool.submit(replace, path, published, end, interval)]
            futures += [
                pool.submit(read, path, published, end, seed + number)
                for number in range(PROCESSES)
            ]
            # A process that a signal killed breaks the pool, which is an exception here.
            writer, *readers = [future.result() for future in futures]
        writer.versions[first] = 0
        left = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    findings = judge(writer, readers, seconds)
    print(
        f"seed {seed}, {seconds:g} seconds, {writer.calls['versions built']} versions built, "
        f"{left:,} bytes in the folder at the end"
    )
    for number, one in enumerate(readers):
        first_third, last_third = growth(one.rss)
        print(
            f"reader {number}: {len(one.versions)} versions seen; "
            f"RSS {first_third:,} bytes in the first third, {last_third:,} in the last"
        )
        print("  " + ", ".join(f"{name} {count:,}" for name, count in sorted(one.calls.items())))
    for text in findings[:5]:
        print(f"FOUND: {text}")
    print(f"{len(findings)} findings" if findings else "nothing found")
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--interval", type=float, default=1, help="between two versions")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    arguments = parser.parse_args()
    sys.exit(bool(soak(arguments.seconds, arguments.interval, arguments.seed)))


if __name__ == "__main__":
    main()
