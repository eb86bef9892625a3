"""A store that follows a table of each format, beside a build of all rows after each change.

follow           1% of the data files get other rows; the store follows, beside a build of all rows
bytes read       by calls of this process meanwhile, of what the build reads
follow deletes   one row of a thousand is deleted in every file, and the data files stay; the table
                 is on a server of this machine; not for Hudi, which rewrites the files
bytes of deletes answered by the server meanwhile, of its answers to the build
follow compact   all files become one, and no row changes: all are read, and none is written

Rows have an int64 key and five columns. The files have equal ranges of keys. At last the store is
compacted and compared with the build, file by file. Tables on the server have deletes when the
store is built, and the cache of the host is empty.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, command_line
from lake_tables import CHANGING, ChangingTable, DeletingTable, nbytes, pyiceberg_names
from support.object_store import BUCKET, FOR_WRITES, Proxy, has_server, object_store
from support.quick_store import QuickStore, quick_store

import lookupstore

BUILT = "built"
#: Formats whose rows can be deleted without other data files, by name.
DELETING = {name: one for name, one in CHANGING.items() if issubclass(one, DeletingTable)}

BARS = tuple(
    bar
    for name in CHANGING
    for bar in (
        Bar("follow 1% of the files", name, "follow", OURS, 1.0, at_most=True),
        Bar("bytes read / build", name, "bytes read", OURS, 3, at_most=True),
        Bar("follow deletes", name, "follow deletes", OURS, 1.0, at_most=True),
        Bar("bytes of deletes / build", name, "bytes of deletes", OURS, 3, at_most=True),
    )
    if name in DELETING or not bar.verb.endswith("deletes")
)


def bytes_read() -> int:
    """Return the bytes that this process has read by calls."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def costs(run: Callable[[], object], read: Callable[[], int]) -> tuple[float, int]:
    """Return the seconds and the bytes read that something needs.

    Args:
        run: Function to measure.
        read: Function that returns the number of all bytes that were read.
    """
    before, start = read(), time.perf_counter()
    run()
    return time.perf_counter() - start, read() - before


class Answered:
    """The bytes that a server has answered.

    Args:
        quick: The server.
    """

    def __init__(self, quick: QuickStore) -> None:
        self._quick = quick
        self._total = 0

    def __call__(self) -> int:
        self._total += sum(nbytes(one, self._quick.store) for one, _ in self._quick.asked())
        return self._total


def contents(path: Path) -> list[bytes]:
    """Return the data files of a store, once it is compacted."""
    with lookupstore.open(path) as store, store.compact() as compacted:
        files = sorted(Path(path, "data").iterdir(), key=lambda one: one.stat().st_mtime_ns)
        return sorted(one.read_bytes() for one in files[-compacted.info().files :])


class Follower:
    """A store that follows a table, beside a build of all rows.

    Args:
        table: The table, which is written.
        given: Function that returns what lookupstore is given of the table.
        read: Function that returns the number of all bytes that were read.
        folder: Folder for the stores.
    """

    def __init__(
        self,
        table: ChangingTable,
        given: Callable[[], Any],
        read: Callable[[], int],
        folder: Path,
    ) -> None:
        self.table, self.path, self.built = table, folder / "store", folder / "built"
        self.given, self.read = given, read
        self.found: dict[tuple[str, str], list[float]] = {}
        self.store = lookupstore.follow(given(), self.path, key="id")

    def note(self, verb: str, who: str, number: float) -> None:
        self.found.setdefault((verb, who), []).append(number)

    def turn(self, verb: str, share: str) -> None:
        """Follow a change, beside a build."""
        seconds, followed = costs(self.sync, self.read)
        self.note(verb, OURS, seconds)
        assert "rebuilt" not in (self.store.info().follows or {})
        shutil.rmtree(self.built, ignore_errors=True)
        given = self.given()
        seconds, whole = costs(
            lambda: lookupstore.build(given, self.built, key="id").close(), self.read
        )
        self.note(verb, BUILT, seconds)
        self.note(share, OURS, 100 * followed / whole)
        with lookupstore.open(self.built) as built:
            assert len(self.store) == len(built)

    def sync(self) -> None:
        self.store = lookupstore.follow(self.given(), self.path, key="id")

    def check(self) -> None:
        """Compare the store with the last build."""
        self.store.close()
        assert contents(self.path) == contents(self.built)


@contextmanager
def served(
    name: str, folder: Path, files: int, each: int
) -> Iterator[tuple[DeletingTable, Follower]]:
    """Write a table with deletes in the bucket of a server, and follow it."""
    with object_store(folder / "s3") as server, closing(Proxy(server)) as proxy:
        place = folder / "s3" / BUCKET / name
        more: dict[str, Any] = {}
        if name == "Iceberg":
            options = pyiceberg_names(proxy.store)
            more = {"warehouse": f"s3://{BUCKET}/{name}", "options": options}
        table = DELETING[name](place, files, each, **more)
        table.write()
        table.delete(0)
        with quick_store(folder / "s3", 0) as quick:
            follower = Follower(table, lambda: table.at(quick.store), Answered(quick), folder)
            yield table, follower


def measure(name: str, folder: Path, files: int, each: int, rounds: int) -> dict[Any, list[float]]:
    """Measure the changes of a table, and then deletes in another one."""
    table = CHANGING[name](folder / "table", files, each)
    table.write()
    follower = Follower(table, lambda: table.given, bytes_read, folder)
    changed = max(1, files // 100)
    for turn in range(rounds):
        table.change(range(turn * changed, (turn + 1) * changed), turn + 1)
        follower.turn("follow", "bytes read")
    if table.compact():
        seconds, _ = costs(follower.sync, bytes_read)
        follower.note("follow compact", OURS, seconds)
        assert follower.store.info().rewritten_buckets == 0
    follower.check()
    found = follower.found
    if name not in DELETING:
        return found
    shutil.rmtree(folder)
    folder.mkdir()
    cache = {"LOOKUPSTORE_CACHE": str(folder / "cache"), **FOR_WRITES}
    with (
        mock.patch.dict(os.environ, cache),
        served(name, folder, files, each) as (deleting, follower),
    ):
        for turn in range(1, rounds + 1):
            deleting.delete(turn)
            follower.turn("follow deletes", "bytes of deletes")
        follower.check()
    return found | follower.found


def main(given: Sequence[str] | None = None) -> None:
    """Measure stores that follow tables, and judge them."""
    parser = command_line(
        "make bench-follow", __doc__, rows=20_000_000, files=200, rounds=5
    )  # fmt: skip
    parser.add_argument("--format", choices=[*CHANGING, "all"], default="all")
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-follow.jsonl")
    asked = parser.parse_args(given)
    if not has_server():
        print("rclone is not installed")
        return
    run = Run({name: getattr(asked, name) for name in ("rows", "files", "rounds")})
    names = CHANGING if asked.format == "all" else (asked.format,)
    for name in names:
        with TemporaryDirectory(prefix="bench-follow-") as folder:
            each, place = asked.rows // asked.files, Path(folder, "w")
            place.mkdir()
            found = measure(name, place, asked.files, each, asked.rounds)
        for (verb, who), rounds in found.items():
            run.add(Measurement(Subject(name, verb, who), tuple(rounds)))
    wanted = [one for one in BARS if asked.only in one.name and one.workload in names]
    run.judge(wanted, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
