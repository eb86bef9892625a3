"""A store that changes by batches, beside RocksDB with the same batches, and DuckDB.

upsert           a batch of changes is published: nine tenths are updates, the others inserts and
                 deletes, all at random; in a process that has the store open
upsert, cold     the same in a new process, from a Parquet file; its imports are not counted
bytes written    of the store's bytes, for a batch
lookup           the four columns at many typed keys in random order, in one call, of a store with
                 four runs and of the same store compacted, each in a process of its own; RocksDB
                 is given bytes, in lists
lookup, hot      the same of stores that have answered twenty such calls
get              one key, in a Python loop, of these two stores
changelog        the rows that one batch changed, before and after; DuckDB compares both tables
batch            the same upserts as rows a second. RocksDB is given the same Arrow batch, which
                 becomes a sorted file that it ingests; `sorted bytes` is what it takes from there
compact          ten runs become one base, beside a build of the same rows from sorted Parquet
bytes of files   of the version with ten runs, and of the compacted one, beside such a build

Rows have an int64 key and four columns. What is found is compared with what was written: all rows
that are looked up, and each row of a changelog.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from bars import OURS, Bar, Measurement, Subject
from changes_once import GETS
from harness import (
    Run,
    add_choice,
    add_json_lines,
    clocked,
    command_line,
    in_a_process,
    in_turns,
)
from rivals import Rocksdict, RocksdictHandle
from workloads import SEED

import lookupstore
from lookupstore import LookupStore

Ints = npt.NDArray[np.int64]

WORKLOAD = "changes"
COLD = "lookupstore, new process"
RUNS = "four runs"
COMPACTED = "compacted"
TEN_RUNS = "ten runs"
BUILT = "built"
ROCKS = "rocksdict"
SORTED = "rocksdict, sorted bytes"
DUCKDB = "duckdb"

#: Batches before lookups are timed, and all of them.
SOME, ALL = 4, 10
#: So that each batch is a run; one of a hundredth of the rows is, with the defaults, eight times.
KEEP: dict[str, Any] = {"max_runs": ALL, "max_run_share": float(ALL)}
#: Rows that are made, or compared, at a time.
ROWS_AT_ONCE = 1 << 20


def bar(name: str, verb: str, who: str, bound: float, rival: str | None = None) -> Bar:
    """Return a bar that must not be passed; those of rates have to be reached."""
    return Bar(
        name,
        WORKLOAD,
        verb,
        who,
        bound,
        rival,
        at_most=verb not in ("lookup", "lookup, hot", "get", "batch"),
    )


BARS = (
    bar("upsert", "upsert", OURS, 0.8),
    bar("upsert, new process", "upsert", COLD, 0.8),
    bar("bytes written", "bytes written", OURS, 3),
    bar("batch / rocksdict", "batch", OURS, 1.0, ROCKS),
    bar("lookup, four runs / compacted", "lookup", RUNS, 0.85, COMPACTED),
    bar("the same, hot", "lookup, hot", RUNS, 0.85, COMPACTED),
    bar("lookup, four runs / rocksdict", "lookup", RUNS, 35, ROCKS),
    bar("get, four runs / compacted", "get", RUNS, 1 / (1 + SOME * 0.15), COMPACTED),
    bar("changelog", "changelog", OURS, 0.8),
    bar("changelog / duckdb", "changelog", OURS, 1 / 15, DUCKDB),
    bar("compact / build", "compact", OURS, 1.1, BUILT),
    bar("bytes, ten runs / built", "bytes of files", TEN_RUNS, 1.5, BUILT),
    bar("bytes, compacted / built", "bytes of files", COMPACTED, 1.2, BUILT),
)

# ---- rows ---------------------------------------------------------------------------------------


def columns_of(ids: Ints, versions: Ints) -> dict[str, Any]:
    """Return the columns of rows, which follow from their keys and the batch that wrote them."""
    return {
        "a": ids * 31 + versions,
        "b": ids ^ versions << 40,
        "c": (ids + versions) / 3,
        "d": pa.array(ids * 1000 + versions).cast(pa.timestamp("us")),
    }


def rows_of(ids: Ints, versions: Ints) -> pa.Table:
    """Return rows with their key `id`."""
    return pa.table({"id": ids, **columns_of(ids, versions)})


def bytes_of(rows: pa.Table) -> tuple[list[bytes], list[bytes]]:
    """Return rows as RocksDB has them: keys in their order as big-endian bytes, and 32 bytes."""
    keys = rows["id"].to_numpy().astype(">i8").tobytes()
    values = np.column_stack(
        [np.asarray(rows[name].cast(pa.int64() if name == "d" else rows[name].type))
         .view(np.int64) for name in "abcd"]
    ).tobytes()  # fmt: skip
    count = len(rows)
    return (
        [keys[at : at + 8] for at in range(0, 8 * count, 8)],
        [values[at : at + 32] for at in range(0, 32 * count, 32)],
    )


@dataclass(frozen=True)
class Batch:
    """A batch of changes.

    Attributes:
        rows: to upsert.
        deletes: keys to delete.
    """

    rows: pa.Table
    deletes: pa.Array


class Model:
    """What is stored: of each key the batch that wrote its row, 0 for the first rows, -1: none.

    Args:
        records: stored at first, of twice as many keys.
    """

    def __init__(self, records: int) -> None:
        self._random = np.random.default_rng(SEED)
        self.versions = np.full(2 * records, -1, np.int64)
        self.first = self._random.permutation(2 * records)[:records].astype(np.int64)
        self.versions[self.first] = 0
        self._batches = 0

    def batch(self, size: int) -> Batch:
        """Return the next batch, which is stored from now on."""
        self._batches += 1
        stored = self._random.permutation(np.flatnonzero(self.versions >= 0))
        absent = self._random.permutation(np.flatnonzero(self.versions < 0))
        few = size // 20
        updates, deletes = stored[: size - 2 * few], stored[size - 2 * few : size - few]
        ids = self._random.permutation(np.concatenate([updates, absent[:few]]))
        self.versions[ids] = self._batches
        self.versions[deletes] = -1
        return Batch(rows_of(ids, np.full(len(ids), self._batches)), pa.array(deletes))

    def queries(self, count: int) -> Ints:
        """Return keys of stored rows, in random order."""
        stored = np.flatnonzero(self.versions >= 0)
        return stored[self._random.integers(0, len(stored), count)]

    def write_sorted(self, path: Path) -> None:
        """Write the rows to Parquet in key order."""
        ids = np.flatnonzero(self.versions >= 0)
        with pq.ParquetWriter(path, rows_of(ids[:0], ids[:0]).schema) as writer:
            for at in range(0, len(ids), ROWS_AT_ONCE):
                some = ids[at : at + ROWS_AT_ONCE]
                writer.write_table(rows_of(some, self.versions[some]))


# ---- rivals -------------------------------------------------------------------------------------


class Rocks:
    """A RocksDB with the same rows, open for writing; None where it is not installed."""

    def __init__(self, folder: Path, rows: Path) -> None:
        import rocksdict

        self.options = Rocksdict().options("none")
        writer = rocksdict.SstFileWriter(self.options)
        writer.open(str(folder / "ingest.sst"))
        for batch in pq.ParquetFile(rows).iter_batches(ROWS_AT_ONCE):
            for key, value in zip(*bytes_of(pa.table(batch)), strict=True):
                writer[key] = value
        writer.finish()
        self.database = rocksdict.Rdict(str(folder / "rocksdb"), self.options)
        ingest = rocksdict.IngestExternalFileOptions()
        ingest.set_move_files(True)
        self.database.ingest_external_file([str(folder / "ingest.sst")], ingest)
        self.folder = folder

    def upsert(self, batch: Batch) -> tuple[float, float]:
        """Write a batch as a sorted file that is ingested, the fastest way for many.

        Returns:
            The seconds of all of it, and those without the making of sorted bytes.
        """
        import rocksdict

        start = time.perf_counter()
        order = batch.rows.sort_by("id")
        gone = batch.deletes.to_numpy().astype(">i8").tobytes()
        deletes = [(gone[at : at + 8], None) for at in range(0, len(gone), 8)]
        every = sorted([*zip(*bytes_of(order), strict=True), *deletes])
        path = str(self.folder / "batch.sst")
        sorted_at = time.perf_counter()
        writer = rocksdict.SstFileWriter(self.options)
        writer.open(path)
        for key, value in every:
            if value is None:
                del writer[key]
            else:
                writer[key] = value
        writer.finish()
        ingest = rocksdict.IngestExternalFileOptions()
        ingest.set_move_files(True)
        self.database.ingest_external_file([path], ingest)
        end = time.perf_counter()
        return end - start, end - sorted_at


def by_duckdb(before: Path, after: Path) -> Callable[[], pa.Table]:
    """Return what compares all rows of two Parquet files, once they are tables of DuckDB."""
    import duckdb

    connection = duckdb.connect()
    for name, path in (("before", before), ("after", after)):
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM '{path}'")
    differ = " OR ".join(f"o.{name} IS DISTINCT FROM n.{name}" for name in "abcd")
    query = (
        "SELECT coalesce(o.id, n.id) AS id, o.* EXCLUDE id, n.* EXCLUDE id FROM before o "
        f"FULL JOIN after n ON o.id = n.id WHERE o.id IS NULL OR n.id IS NULL OR {differ}"
    )

    def compare() -> pa.Table:
        found: pa.Table = connection.sql(query).to_arrow_table()
        return found

    return compare


# ---- the bench ----------------------------------------------------------------------------------


def linked(store: Path, to: Path) -> Path:
    """Copy a store by links to its files, none of which is ever written again."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(store, to, copy_function=os.link)
    return to


def bytes_in(folder: Path) -> int:
    """Return the bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Bench:
    """One run over one store.

    Args:
        folder: for everything.
        model: what is stored.
        run: keeps what is measured.
        size: changes of a batch.
        queries: keys of a lookup.
        rounds: of everything but upserts, of which each batch is one.
    """

    def __init__(
        self, folder: Path, model: Model, run: Run, size: int, queries: int, rounds: int
    ) -> None:
        self.folder = folder
        self.model = model
        self.size = size
        self.queries = queries
        self.rounds = rounds
        self._run = run
        self.path = folder / "store"
        source = folder / "rows.parquet"
        pq.write_table(rows_of(model.first, model.versions[model.first]), source)
        self.store = lookupstore.build(source, self.path, key="id")
        source.unlink()
        self.rocks: Rocks | None = None
        self.found: dict[tuple[str, str], list[float]] = {}

    def note(self, verb: str, who: str, *rounds: float, operations: int = 1) -> None:
        """Keep what rounds found."""
        subject = Subject(WORKLOAD, verb, who)
        self._run.add(Measurement(subject, tuple(rounds), operations))

    def upserts(self, count: int, *, cold: bool) -> None:
        """Publish batches, and write them to RocksDB."""
        for _ in range(count):
            batch = self.model.batch(self.size)
            self.store.lookup(pa.array(self.model.first[:1000]))
            if cold:
                self.cold_upsert(batch)
            if self.rocks is not None:
                os.sync()
                seconds, of_writing = self.rocks.upsert(batch)
                self.keep("batch", ROCKS, seconds)
                self.keep("batch", SORTED, of_writing)
            before, kept = bytes_in(self.path), self.store
            os.sync()
            start = time.perf_counter()
            self.store = kept.upsert(batch.rows, deletes=batch.deletes, **KEEP)
            seconds = time.perf_counter() - start
            kept.close()
            self.keep("upsert", OURS, seconds)
            self.keep("batch", OURS, seconds)
            written = bytes_in(self.path) - before
            self.keep("bytes written", OURS, 100 * written / self.store.info().bytes)

    def keep(self, verb: str, who: str, number: float) -> None:
        """Keep a round, of which more follow."""
        self.found.setdefault((verb, who), []).append(number)

    def note_upserts(self) -> None:
        """Keep what all batches needed."""
        for (verb, who), rounds in self.found.items():
            self.note(verb, who, *rounds, operations=self.size if verb == "batch" else 1)

    def cold_upsert(self, batch: Batch) -> None:
        """Publish a batch to a copy of the store, in a new process."""
        copy = linked(self.path, self.folder / "copy")
        for name, rows in (("rows", batch.rows), ("deletes", pa.table({"id": batch.deletes}))):
            pq.write_table(rows, self.folder / f"{name}.parquet")
        os.sync()
        names = [str(self.folder / f"{name}.parquet") for name in ("rows", "deletes")]
        found = in_a_process("changes_once.py", "upsert", str(copy), *names)
        self.keep("upsert", COLD, found["seconds"])
        shutil.rmtree(copy)

    def lookups(self) -> None:
        """Time lookups with runs, without them, and of RocksDB."""
        ids = self.model.queries(self.queries)
        expected = rows_of(ids, self.model.versions[ids])
        rows = self.folder / "asked.parquet"
        pq.write_table(expected, rows)
        copy = linked(self.path, self.folder / "copy")
        with lookupstore.open(copy) as store:
            store.compact().close()

        def of(verb: str, store: Path) -> Callable[[], float]:
            paths = str(store), str(rows)
            return lambda: float(in_a_process("changes_once.py", verb, *paths)["seconds"])

        gets = {RUNS: of("get", self.path), COMPACTED: of("get", copy)}
        for who, seconds in in_turns(gets, self.rounds, to_and_fro=True).items():
            self.note("get", who, *seconds, operations=min(GETS, len(ids)))
        hot = {RUNS: of("hot", self.path), COMPACTED: of("hot", copy)}
        for who, seconds in in_turns(hot, self.rounds, to_and_fro=True).items():
            self.note("lookup, hot", who, *seconds, operations=len(ids))
        runs = {RUNS: of("lookup", self.path), COMPACTED: of("lookup", copy)}
        if self.rocks is not None:
            handle = RocksdictHandle(self.rocks.database)
            listed, values = bytes_of(expected)
            assert handle.lookup(listed) == values
            runs[ROCKS] = clocked(lambda: handle.lookup(listed))
        for who, seconds in in_turns(runs, self.rounds, to_and_fro=True).items():
            self.note("lookup", who, *seconds, operations=len(ids))

    def changelog(self) -> None:
        """Time the changes that one more batch made."""
        before = self.folder / "before.parquet"
        self.model.write_sorted(before)
        old, version = self.model.versions.copy(), self.store.version
        self.upserts(1, cold=False)
        changes = self.store.changes(version).read_all()
        check_changes(changes, old, self.model.versions)
        runs: dict[str, Callable[[], pa.Table]] = {
            OURS: lambda: self.store.changes(version).read_all()
        }
        if find_spec("duckdb") is not None:
            after = self.folder / "after.parquet"
            self.model.write_sorted(after)
            runs[DUCKDB] = by_duckdb(before, after)
            assert len(runs[DUCKDB]()) == len(set(changes["id"].to_pylist()))
            after.unlink()
        before.unlink()
        timed = {who: clocked(run) for who, run in runs.items()}
        for who, seconds in in_turns(timed, self.rounds).items():
            self.note("changelog", who, *seconds)

    def compaction(self) -> None:
        """Time the compaction of all runs beside a build, and weigh their files."""
        rows = self.folder / "sorted.parquet"
        self.model.write_sorted(rows)
        copy, built = self.folder / "copy", self.folder / "built"
        self.note("bytes of files", TEN_RUNS, self.store.info().bytes)
        assert self.store.info().runs == ALL
        opened: list[LookupStore] = []

        def ready() -> None:
            opened.append(lookupstore.open(linked(self.path, copy)))
            os.sync()

        def clear() -> None:
            shutil.rmtree(built, ignore_errors=True)
            os.sync()

        runs = {
            OURS: clocked(lambda: opened.pop().compact().close(), ready),
            BUILT: clocked(lambda: lookupstore.build(rows, built, key="id").close(), clear),
        }
        for who, seconds in in_turns(runs, self.rounds).items():
            self.note("compact", who, *seconds)
        with lookupstore.open(copy) as compacted, lookupstore.open(built) as fresh:
            files = [sorted(path.read_bytes() for path in data_files(one))
                     for one in (compacted, fresh)]  # fmt: skip
            assert files[0] == files[1]
            self.note("bytes of files", COMPACTED, compacted.info().bytes)
            self.note("bytes of files", BUILT, fresh.info().bytes)


def data_files(store: LookupStore) -> list[Path]:
    """Return the newest data files of a store, one for each bucket."""
    every = sorted(Path(store.path, "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return every[-store.info().files :]


def check_changes(changes: pa.Table, old: Ints, new: Ints) -> None:
    """Compare a changelog with the batches that wrote the rows of each key, before and after."""
    was, now = old >= 0, new >= 0
    cases = {
        "insert": (np.flatnonzero(~was & now), new),
        "update_before": (np.flatnonzero(was & now & (old != new)), old),
        "update_after": (np.flatnonzero(was & now & (old != new)), new),
        "delete": (np.flatnonzero(was & ~now), old),
    }
    for name, (ids, versions) in cases.items():
        found = changes.filter(pa.compute.equal(changes["change"], name)).drop_columns("change")
        expected = rows_of(ids, versions[ids])
        assert found.sort_by("id").cast(expected.schema).equals(expected), name
    assert len(changes) == sum(len(ids) for ids, _ in cases.values())


def main(given: Sequence[str] | None = None) -> None:
    """Measure a store that changes, and judge it."""
    parser = command_line(
        "make bench-changes", __doc__,
        records=20_000_000, changes=200_000, queries=1_000_000, rounds=5,
    )  # fmt: skip
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-changes.jsonl")
    asked = parser.parse_args(given)
    bars = [one for one in BARS if asked.only in one.name]
    names = ("records", "changes", "queries", "rounds")
    run = Run({name: getattr(asked, name) for name in names})
    verbs = {one.verb for one in bars}
    lacking: dict[Subject, str] = {}
    with TemporaryDirectory(prefix="bench-changes-") as name:
        model = Model(asked.records)
        bench = Bench(Path(name), model, run, asked.changes, asked.queries, asked.rounds)
        for one in (ROCKS, DUCKDB):
            if find_spec(one) is None:
                wanted = [each for own in bars for each in own.subjects if each.contender == one]
                lacking |= dict.fromkeys(wanted, "not installed")
        if find_spec(ROCKS) is not None and verbs & {"batch", "lookup"}:
            rows = Path(name, "sorted.parquet")
            model.write_sorted(rows)
            bench.rocks = Rocks(Path(name), rows)
        bench.upserts(SOME, cold="upsert" in verbs)
        if verbs & {"lookup", "lookup, hot", "get"}:
            bench.lookups()
        if "changelog" in verbs:
            bench.changelog()
        bench.upserts(ALL - bench.store.info().runs, cold=False)
        bench.note_upserts()
        if verbs & {"compact", "bytes of files"}:
            bench.compaction()
        bench.store.close()
    run.judge(bars, lacking)
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
