"""Lookup compaction of columnar levels, beside merges that read all of them.

    python bench/levels.py                          # 20,000,000 rows, 200,000 changes
    python bench/levels.py --rows 1000000 --keys 10000

Level 2 is a sorted run of 19 in 20 rows, level 1 one with newer rows for the others' keys, and the
changes are four files of level 0: updates, inserts and deletes of random keys.

warm               lookup_compact; the lookup files of the levels are on this host
cold               the same; there are none yet
rewriting, duckdb  reads all, and writes the changelog and all rows as one sorted run, as a full
                   compaction does
reading, duckdb    reads all, and writes what lookup_compact writes: the changelog, and level 0 as
                   one file

Everybody writes Parquet with zstd. Before times count, all changelogs are compared. At last the
changes become more, until the merge that rewrites all is faster than lookups.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bars import Bar, Measurement, Subject
from harness import Run, add_json_lines, clocked, command_line, in_turns

from lookupstore.columnar import Levels, lookup_compact
from lookupstore.hostcache.cache import Residency

SEED = 20
FILES = {1: 2, 2: 20}
LEVEL0 = 4
WARM = "warm"
COLD = "cold"
REWRITING = "rewriting, duckdb"
READING = "reading, duckdb"
CHANGED = "changes"
SHARES = (0.03, 0.1, 0.3)
BARS = (
    Bar("warm / rewriting", "levels", CHANGED, WARM, 5, REWRITING),
    Bar("warm / reading", "levels", CHANGED, WARM, 1, READING),
    Bar("cold / rewriting", "levels", CHANGED, COLD, 0.5, REWRITING),
)
#: Columns of a row beside its key.
VALUES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Files:
    """Levels on the disk.

    Attributes:
        folder: that they are in.
        levels: paths of level 1 and level 2.
        ids: all keys of level 2.
    """

    folder: Path
    levels: list[list[str]]
    ids: np.ndarray

    def level0(self, count: int, seed: int) -> list[str]:
        """Write files of level 0 with so many changes in all, and return them, the newest first."""
        rng = np.random.default_rng(seed)
        folder = self.folder / f"level0-{seed}"
        folder.mkdir()
        paths = []
        for number in range(LEVEL0):
            keys = np.unique(rng.choice(self.ids, count // LEVEL0))
            keys[rng.random(len(keys)) < 0.2] += 1  # keys of level 2 are even
            keys = np.unique(keys)
            kinds = rng.choice([0, 2, 2, 3], len(keys)).astype(np.int8)
            table = rows(keys, rng).append_column("_VALUE_KIND", pa.array(kinds))
            paths.append(str(folder / f"{number}.parquet"))
            pq.write_table(table, paths[-1], compression="zstd")
        return paths[::-1]


def rows(ids: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Return random rows of these keys."""
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "a": rng.integers(1 << 40, size=count),
            "b": rng.integers(1000, size=count),
            "c": rng.random(count),
            "d": pa.array(rng.integers(1 << 50, size=count)).cast(pa.timestamp("us")),
        }
    )


def write_levels(folder: Path, count: int) -> Files:
    """Write level 1 and level 2."""
    rng = np.random.default_rng(SEED)
    few = count // 20
    ids = np.sort(rng.choice(count * 4, count - few, replace=False)) * 2
    levels = []
    for level, keys in ((1, np.sort(rng.choice(ids, few, replace=False))), (2, ids)):
        paths = []
        for number, part in enumerate(np.array_split(keys, FILES[level])):
            path = folder / f"{level}-{number}.parquet"
            pq.write_table(rows(part, rng), path, compression="zstd", row_group_size=1 << 17)
            paths.append(str(path))
        levels.append(paths)
    return Files(folder, levels, ids)


def ours(files: Files, level0: list[str], out: Path, residency: Residency) -> None:
    """Compact level 0."""
    lookup_compact(
        level0, files.levels, out / "merged.parquet", out / "changelog.parquet", key="id",
        residency=residency,
    )  # fmt: skip


def duckdb_merge(files: Files, level0: list[str], out: Path, *, rewrites: bool) -> None:
    """Merge with DuckDB on two threads."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 2")
    one, two = files.levels
    below = (
        f"(select * from read_parquet({one}) union all"
        f" select * from read_parquet({two}) where id not in (select id from read_parquet({one})))"
    )
    newest = " union all ".join(
        f"select *, {turn} turn from read_parquet('{path}')" for turn, path in enumerate(level0)
    )
    connection.execute(
        f"create table new as select *, _VALUE_KIND in (1, 3) gone from ({newest}) "
        "qualify row_number() over (partition by id order by turn) = 1"
    )
    before = ", ".join(f"below.{name} old_{name}" for name in VALUES)
    connection.execute(
        f"create table joined as select new.*, below.id is not null was, {before} "
        f"from new left join {below} below using (id)"
    )
    old, new = (", ".join(f"{which}{name} {name}" for name in VALUES) for which in ("old_", ""))
    differs = " or ".join(f"{name} is distinct from old_{name}" for name in VALUES)
    connection.execute(
        f"""copy (
            select 'delete' change, id, {old} from joined where was and gone
            union all select 'insert', id, {new} from joined where not was and not gone
            union all select 'update_before', id, {old} from joined
                where was and not gone and ({differs})
            union all select 'update_after', id, {new} from joined
                where was and not gone and ({differs})
            order by id, change desc
        ) to '{out}/changelog.parquet' (format parquet, compression zstd)"""
    )
    values = ", ".join(VALUES)
    query = f"select id, {values}, _VALUE_KIND from joined where not gone or was"
    if rewrites:
        query = (
            f"select id, {values} from new where not gone union all "
            f"select id, {values} from {below} where id not in (select id from new)"
        )
    connection.execute(
        f"copy ({query} order by id) to '{out}/merged.parquet' (format parquet, compression zstd)"
    )


def changelog(out: Path) -> pa.Table:
    """Return the changelog that somebody has written, in an order that all have."""
    table = pq.read_table(out / "changelog.parquet")
    table = table.set_column(0, "change", pc.cast(table["change"], pa.string()))
    return table.sort_by([("id", "ascending"), ("change", "descending")]).combine_chunks()


def measure(run: Run, asked: argparse.Namespace, folder: Path) -> None:
    """Measure everybody at levels in a folder."""
    files = write_levels(folder, asked.rows)
    warm = Residency(folder / "warm", quota=asked.quota)
    with Levels([], files.levels, key="id", residency=warm) as levels:
        seconds = clocked(levels.prepare)()
    print(f"lookup files of the levels: made in {seconds:.1f} s, {warm.used:,} bytes", flush=True)
    out = folder / "out"

    def empty() -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()

    def cold(level0: list[str]) -> None:
        ours(files, level0, out, Residency(folder / "cold", quota=asked.quota))

    def runs_of(level0: list[str]) -> dict[str, Callable[[], object]]:
        return {
            WARM: lambda: ours(files, level0, out, warm),
            COLD: lambda: cold(level0),
            REWRITING: lambda: duckdb_merge(files, level0, out, rewrites=True),
            READING: lambda: duckdb_merge(files, level0, out, rewrites=False),
        }

    def set_up() -> None:
        empty()
        shutil.rmtree(folder / "cold", ignore_errors=True)
        os.sync()  # nobody waits for what others have left to be written

    level0 = files.level0(asked.keys, 1)
    runs = runs_of(level0)
    said: dict[str, pa.Table] = {}
    for name, one in runs.items():
        set_up()
        one()
        said[name] = changelog(out)
        assert said[name].equals(said[WARM]), f"{name}: another changelog"
    print(f"changelog: {len(said[WARM]):,} rows, the same by all", flush=True)
    spent: dict[str, list[float]] = {name: [] for name in runs}

    def spending(name: str) -> None:
        start = time.process_time()
        runs[name]()
        spent[name].append(time.process_time() - start)

    clocks = {name: clocked(partial(spending, name), set_up) for name in runs}
    for name, rounds in in_turns(clocks, asked.rounds).items():
        run.add(Measurement(Subject("levels", CHANGED, name), rounds, asked.keys))
    every = (f"{name} {statistics.median(seconds):.2f}" for name, seconds in spent.items())
    print(f"seconds of a processor: {'; '.join(every)}", flush=True)

    slower = None
    for number, share in enumerate(SHARES, 2):
        level0 = files.level0(int(asked.rows * share), number)
        two = {name: one for name, one in runs_of(level0).items() if name in (WARM, REWRITING)}
        once = {name: clocked(one, set_up) for name, one in two.items()}
        seconds_of = {name: rounds[0] for name, rounds in in_turns(once, 1).items()}
        print(
            f"{share:>6.0%} of the rows changed: "
            + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in seconds_of.items()),
            flush=True,
        )
        if slower is None and seconds_of[WARM] > seconds_of[REWRITING]:
            slower = share
    above = f"up to {max(SHARES):.0%}" if slower is None else f"below {slower:.0%}"
    print(f"lookups are faster {above} of changed rows")


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = command_line("make bench-levels", __doc__, rows=20_000_000, keys=200_000, rounds=3)
    parser.add_argument("--quota", type=int, default=8 << 30, help="bytes of lookup files")
    parser.add_argument("--folder", type=Path, help="an empty one, which stays")
    add_json_lines(parser, "bench-levels.jsonl")
    asked = parser.parse_args(given)
    run = Run({name: getattr(asked, name) for name in ("rows", "keys", "rounds")})
    with ExitStack() as stack:
        folder = asked.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measure(run, asked, folder)
    run.judge(BARS, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
