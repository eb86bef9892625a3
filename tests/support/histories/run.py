"""Read random histories of tables by lookupstore and by other readers: `make histories`.

Each seed makes a history of each format. After each change, all rows, lookups in data files and a
store that follows are compared with the rows that another reader has: deltalake, pyiceberg, or a
model of Paimon's rules. At last all snapshots are read by their numbers and compared.

pypaimon needs an older pyarrow. `--pypaimon PYTHON` names the interpreter of an environment that
has it, where one process reads each snapshot of Paimon, too.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.source.opening import open_source
from lookupstore.source.table_objects import source_at
from support.changelog import check_changes
from support.histories.delta import DeltaHistory
from support.histories.iceberg import IcebergHistory
from support.histories.model import Model, model_of
from support.histories.paimon import PaimonHistory
from support.histories.paimon_engines import EngineHistory

#: Changes of a history.
CHANGES = 12


def read(given: Any, version: int | None = None) -> pa.Table:
    """Return all rows that lookupstore reads of a table, or of a version of it."""
    if version is None:
        source = open_source(given)
    else:
        source = source_at(given, version=version, as_of=None)
    return pa.Table.from_batches(source.batches(source.schema.names), source.schema)


def check_lookups(given: Any, expected: Model, chance: random.Random, residency: Residency) -> None:
    """Compare lookups of present and missing keys with the rows of a table."""
    ids = [*expected, -1, 10**6, *chance.choices(range(200), k=20)]
    chance.shuffle(ids)
    build = chance.choice(["auto", "never", "always"])
    with ColumnarFiles(given, key="id", build=build, residency=residency) as files:
        found = files.lookup(pa.array(ids, pa.int64()))
        rows = zip(*(found[name].to_pylist() for name in found.column_names), strict=True)
        missing = (None,) * found.num_columns
        assert list(rows) == [expected.get(one, missing) for one in ids]
        assert files.contains(ids).to_pylist() == [one in expected for one in ids]


def delta(folder: Path, seed: int) -> int:
    """Check a history of a Delta table, and return the number of its snapshots."""
    history = DeltaHistory(folder / "t", seed)

    def scanned(table: deltalake.DeltaTable | None = None) -> Model:
        table = deltalake.DeltaTable(folder / "t") if table is None else table
        names = pa.schema(table.schema().to_arrow()).names
        return model_of(pa.RecordBatchReader.from_stream(table.scan()).read_all().select(names))

    Follower(folder, folder / "t", scanned, seed).check(history.change)
    newest = deltalake.DeltaTable(folder / "t").version()
    versions = 0
    for version in range(newest + 1):
        table = deltalake.DeltaTable(folder / "t", version=version)
        try:
            expected = scanned(table)
        except Exception as error:  # a vacuum has removed files
            assert "not found" in str(error).lower(), error  # noqa: PT017
            continue
        found = read(folder / "t", version) if version % 2 else read(table)
        assert model_of(found) == expected, version
        versions += 1
    return versions


def iceberg(folder: Path, seed: int) -> int:
    """Check a history of an Iceberg table, and return the number of its snapshots."""
    catalog = InMemoryCatalog("w", warehouse=f"file://{folder}/w")
    catalog.create_namespace("w")
    history = IcebergHistory(catalog, seed)
    given = catalog.load_table("w.t")

    def scanned() -> Model:
        return model_of(history.table.scan().to_arrow())

    follower = Follower(folder, given, scanned, seed)
    follower.newest = lambda: history.table
    follower.check(history.change)
    for at, snapshot in enumerate(history.table.metadata.snapshots):
        scan = history.table.scan(snapshot_id=snapshot.snapshot_id)
        found = read(history.table, snapshot.snapshot_id) if at % 2 else read(scan)
        assert model_of(found) == model_of(scan.to_arrow()), snapshot.snapshot_id
    return len(history.table.metadata.snapshots)


def paimon(folder: Path, seed: int) -> int:
    """Check a history of a Paimon table, and return the number of its snapshots."""
    return snapshots_of(PaimonHistory(folder / "t", seed), folder, seed)


def paimon_engines(folder: Path, seed: int) -> int:
    """Check a history of a Paimon table of any engine, and return the number of its snapshots."""
    return snapshots_of(EngineHistory(folder / "t", seed), folder, seed)


def snapshots_of(history: PaimonHistory | EngineHistory, folder: Path, seed: int) -> int:
    """Compare rows and lookups with a model after each change, and return the number of these."""
    chance, residency = random.Random(seed), Residency(folder / "cache", quota=64 << 20)
    keys = list(history.table.primary_keys)
    snapshots: dict[int, list[str]] = {}
    for _ in range(CHANGES):
        history.change()
        expected = history.expected()
        snapshots[history.table.snapshot] = texts_of(expected)
        assert texts_of(read(folder / "t").to_pylist()) == texts_of(expected)
        rows = [row for row in expected if None not in [row[name] for name in keys]]
        given = pa.table({
            name: pa.array([row[name] for row in rows], pa.int32() if name == "id" else pa.string())
            for name in keys
        })  # fmt: skip
        build = chance.choice(["auto", "never", "always"])
        with ColumnarFiles(folder / "t", key=keys, build=build, residency=residency) as files:
            answers = map(comparable, files.lookup(given).to_pylist())
            others = [{name: row[name] for name in row if name not in keys} for row in rows]
            assert list(answers) == list(map(comparable, others))
    for number, texts in snapshots.items():
        assert texts_of(read(folder / "t", number).to_pylist()) == texts, number
        # pypaimon reads no sequence groups.
        if PyPaimon.started is not None and isinstance(history, PaimonHistory):
            assert texts_of(PyPaimon.started.rows(folder / "t", number)) == texts, number
    return len(snapshots)


def texts_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return rows as texts, in an order of their own."""
    return sorted(map(comparable, rows))


class PyPaimon:
    """A process that reads Paimon tables by pypaimon, in another environment.

    Attributes:
        started: The process of `--pypaimon`. None: not given.
    """

    started: PyPaimon | None = None

    def __init__(self, python: str) -> None:
        program = Path(__file__).with_name("pypaimon_reader.py")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [python, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def rows(self, folder: Path, snapshot: int) -> list[dict[str, Any]]:
        """Return the rows of a snapshot."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([str(folder), snapshot]), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        assert "rows" in answer, answer
        rows: list[dict[str, Any]] = answer["rows"]
        return rows


def comparable(row: Mapping[str, Any]) -> str:
    """Return a row as a text, with maps as lists of pairs, as Arrow has them."""
    pairs = {
        name: list(value.items()) if isinstance(value, dict) else value
        for name, value in row.items()
    }
    return str(sorted(pairs.items()))


class Follower:
    """A store that follows a table, and lookups in its files, beside another reader.

    Args:
        folder: for the store and lookup files.
        given: the table, as a store follows it.
        scanned: returns the rows of the newest snapshot by the other reader.
        seed: of the choices.
    """

    def __init__(self, folder: Path, given: Any, scanned: Callable[[], Model], seed: int) -> None:
        self.chance = random.Random(seed)
        self.residency = Residency(folder / "cache", quota=64 << 20)
        self.scanned = scanned
        self.newest: Callable[[], Any] = lambda: given
        buckets = self.chance.choice([1, 3])
        self.store = lookupstore.follow(given, folder / "s", key="id", buckets=buckets)

    def check(self, change: Callable[[], str]) -> None:
        """Make changes, and compare all readers after each."""
        before = model_of(self.store.scan().read_all())
        for _ in range(CHANGES):
            done = [change() for _ in range(self.chance.choice([1, 1, 2]))]
            expected = self.scanned()
            assert model_of(read(self.newest())) == expected, done
            check_lookups(self.newest(), expected, self.chance, self.residency)
            newer = self.store.sync()
            after = model_of(newer.scan().read_all())
            assert after == expected, done
            if newer.value_schema == self.store.value_schema:
                check_changes(newer.changes(self.store.version), before, after)
            newer.verify()
            self.store, before = newer, after


FORMATS: dict[str, Callable[[Path, int], int]] = {
    "delta": delta,
    "iceberg": iceberg,
    "paimon": paimon,
    "paimon-engines": paimon_engines,
}


def main(given: Sequence[str] | None = None) -> int:
    """Check histories, print each that fails with its seed, and return an exit status."""
    parser = argparse.ArgumentParser(prog="make histories", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="number of histories of each format")
    parser.add_argument("--first", type=int, default=None, help="first seed; default: random")
    parser.add_argument("--format", choices=[*FORMATS, "all"], default="all")
    parser.add_argument("--pypaimon", metavar="PYTHON", help="Python that has pypaimon")
    asked = parser.parse_args(given)
    first = random.SystemRandom().randrange(1 << 31) if asked.first is None else asked.first
    names = list(FORMATS) if asked.format == "all" else [asked.format]
    PyPaimon.started = PyPaimon(asked.pypaimon) if asked.pypaimon else None
    failed, histories, snapshots, start = 0, 0, 0, time.monotonic()
    for seed in range(first, first + asked.seeds):
        for name in names:
            histories += 1
            with tempfile.TemporaryDirectory(prefix="histories-") as folder:
                try:
                    snapshots += FORMATS[name](Path(folder), seed)
                except Exception:
                    failed += 1
                    traceback.print_exc()
                    print(f"FAILED: --format {name} --first {seed} --seeds 1", flush=True)
        if (seed - first) % 5 == 4 or seed == first + asked.seeds - 1:
            print(
                f"seeds from {first}: {histories} histories, {snapshots} snapshots, {failed} "
                f"failed, {time.monotonic() - start:.0f} s; continue with --first {seed + 1}",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    os.fsync = os.fstat  # as in tests/conftest.py: nothing here outlives the machine's power
    warnings.filterwarnings("ignore", "Delete operation did not match any records")
    logging.getLogger("lookupstore").setLevel(logging.ERROR)
    sys.exit(main())
