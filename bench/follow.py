"""A store that follows a Delta table, beside a build of all rows after each change.

follow           1% of the data files get other rows by an update of deltalake; the store follows,
                 beside a build of all rows of the table
bytes read       by calls of this process meanwhile, of what the build reads
follow compact   all files become one, and no row changes: all are read, and none is written

Rows have an int64 key and five columns. The files have equal ranges of keys. At last the store is
compacted and compared with the build, file by file.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import deltalake
import numpy as np
import pyarrow as pa
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, command_line

import lookupstore

WORKLOAD = "follow"
BUILT = "built"

BARS = (
    Bar("follow 1% of the files", WORKLOAD, "follow", OURS, 1.0, at_most=True),
    Bar("bytes read / build", WORKLOAD, "bytes read", OURS, 3, at_most=True),
)


def rows_of(first: int, count: int) -> pa.Table:
    """Return rows of a range of keys."""
    ids = np.arange(first, first + count, dtype=np.int64)
    return pa.table(
        {
            "id": ids,
            "a": ids * 31,
            "b": ids ^ 1 << 40,
            "c": ids / 3,
            "d": pa.array(ids * 1000).cast(pa.timestamp("us", "UTC")),
            "e": pa.array(ids % 1000).cast(pa.string()),
        }
    )


def bytes_read() -> int:
    """Return the bytes that this process has read by calls."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def costs(run: Callable[[], object]) -> tuple[float, int]:
    """Return the seconds and the bytes read that something needs."""
    before, start = bytes_read(), time.perf_counter()
    run()
    return time.perf_counter() - start, bytes_read() - before


def contents(path: Path) -> list[bytes]:
    """Return the data files of a store, once it is compacted."""
    with lookupstore.open(path) as store, store.compact() as compacted:
        files = sorted(Path(path, "data").iterdir(), key=lambda one: one.stat().st_mtime_ns)
        return sorted(one.read_bytes() for one in files[-compacted.info().files :])


def main(given: Sequence[str] | None = None) -> None:
    """Measure a store that follows a table, and judge it."""
    parser = command_line(
        "make bench-follow", __doc__, records=20_000_000, files=200, rounds=5
    )  # fmt: skip
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-follow.jsonl")
    asked = parser.parse_args(given)
    run = Run({name: getattr(asked, name) for name in ("records", "files", "rounds")})
    found: dict[tuple[str, str], list[float]] = {}

    def note(verb: str, who: str, number: float) -> None:
        found.setdefault((verb, who), []).append(number)

    with TemporaryDirectory(prefix="bench-follow-") as name:
        table, path, built = (Path(name, one) for one in ("table", "store", "built"))
        each, changed = asked.records // asked.files, max(1, asked.files // 100)
        for file in range(asked.files):
            deltalake.write_deltalake(table, rows_of(file * each, each), mode="append")
        store = lookupstore.follow(table, path, key="id")
        for turn in range(asked.rounds):
            first = turn * changed * each
            where = f"id >= {first} and id < {first + changed * each}"
            deltalake.DeltaTable(table).update(
                updates={"a": f"a + {turn + 1}"}, predicate=f"{where} and id % 10 = 0"
            )
            seconds, followed = costs(store.sync)
            note("follow", OURS, seconds)
            store = store.newest()
            assert "rebuilt" not in store.info().follows
            shutil.rmtree(built, ignore_errors=True)
            seconds, all_bytes = costs(lambda: lookupstore.build(table, built, key="id").close())
            note("follow", BUILT, seconds)
            note("bytes read", OURS, 100 * followed / all_bytes)
        deltalake.DeltaTable(table).optimize.compact(target_size=1 << 40)
        seconds, _ = costs(store.sync)
        note("follow compact", OURS, seconds)
        assert store.newest().info().rewritten_buckets == 0
        assert contents(path) == contents(built)
    for (verb, who), rounds in found.items():
        run.add(Measurement(Subject(WORKLOAD, verb, who), tuple(rounds)))
    run.judge([one for one in BARS if asked.only in one.name], {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
