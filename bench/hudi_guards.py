"""Measure what markers, locks and the metadata table cost an upsert of a Hudi table.

    python bench/hudi_guards.py TABLE.zip             # ten rows, and 1,000,000
    python bench/hudi_guards.py TABLE.zip --rows 100000 --rounds 1

TABLE.zip is a table of version 8 or 9 that Apache Hudi wrote, with a metadata table, which nothing
here can begin. Each upsert goes to a fresh copy, and brings new keys. Counted is the time in the
functions that make and delete markers, take and give back locks, and write the metadata table; that
of threads beside each other is added up.
"""

from __future__ import annotations

import contextlib
import importlib
import shutil
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from bars import Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, command_line, in_turns

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.meta_columns import META_COLUMNS

FEW, MANY = "ten rows", "many rows"
UPSERT, GUARDS = "the upsert", "markers, locks, metadata"
#: Where each part is done: a module, and what of it is called there.
PARTS = {
    "markers": (
        ("lookupstore.hudi.file_group.writer", "mark"),
        ("lookupstore.hudi.locking.heartbeat", "delete_markers"),
    ),
    "locks": (
        ("lookupstore.hudi.write.writable", "table_lock"),
        ("lookupstore.hudi.write.transaction", "table_lock"),
    ),
    "metadata": (
        ("lookupstore.hudi.write.writable", "prepared"),
        ("lookupstore.hudi.metadata.maintain", "MetadataTable.add"),
    ),
}
BARS = (
    Bar("guards of ten rows", FEW, "guards seconds", GUARDS, 0.06, at_most=True),
    Bar("guards / upsert", MANY, "guards seconds", GUARDS, 0.05, UPSERT, at_most=True),
)


class Clock:
    """The seconds of each part, of all threads."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count the time of a block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.seconds[part] += time.perf_counter() - start

    def counted(self, part: str, act: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same, and is counted."""

        def call(*given: Any, **named: Any) -> Any:
            with self.of(part):
                return act(*given, **named)

        return call

    def counted_lock(self, part: str, lock: Callable[..., Any]) -> Callable[..., Any]:
        """Return a lock of which taking and giving back are counted, and what it is for is not."""

        @contextlib.contextmanager
        def held(*given: Any, **named: Any) -> Iterator[Any]:
            with contextlib.ExitStack() as stack:
                with self.of(part):
                    found = stack.enter_context(lock(*given, **named))
                yield found
                with self.of(part):
                    stack.close()

        return held

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Count while the block runs."""
        with contextlib.ExitStack() as stack:
            for part, places in PARTS.items():
                wrap = self.counted_lock if part == "locks" else self.counted
                for module, name in places:
                    owner: Any = importlib.import_module(module)
                    *within, name = name.split(".")
                    for one in within:
                        owner = getattr(owner, one)
                    stack.callback(setattr, owner, name, getattr(owner, name))
                    setattr(owner, name, wrap(part, getattr(owner, name)))
            yield


class Bench:
    """A table, and what is upserted into copies of it."""

    def __init__(self, archive: Path, folder: Path, rows: int) -> None:
        self.folder = folder
        with zipfile.ZipFile(archive) as file:
            names = [one for one in file.namelist() if "__MACOSX" not in one]
            file.extractall(folder / "archive", names)
        (self.table,) = (folder / "archive").iterdir()
        table = HudiTable.open(self.table)
        row = table.scan().drop_columns(list(META_COLUMNS)).slice(0, 1)
        # Other indexes go before anything is counted.
        table.upsert(row, options=WriteOptions(metadata="reduce"))
        (key,) = table.options.record_key
        self.rows = {FEW: self._new(row, key, 10), MANY: self._new(row, key, rows)}
        self.first = table.scan().num_rows

    @staticmethod
    def _new(row: pa.Table, key: str, count: int) -> pa.Table:
        rows = row.take(pa.array([0] * count))
        keys = pa.array([f"bench-{number:09}" for number in range(count)])
        return rows.set_column(rows.schema.get_field_index(key), key, keys)

    def round(self, workload: str) -> dict[str, float]:
        """Upsert the rows of a workload, and return the seconds of it and of each part."""
        path = self.folder / "copy"
        shutil.copytree(self.table, path)
        table = HudiTable.open(path)
        clock = Clock()
        with clock.on():
            start = time.perf_counter()
            table.upsert(self.rows[workload], options=WriteOptions(metadata="maintain"))
            seconds = time.perf_counter() - start
        held = table.scan(columns=[]).num_rows
        shutil.rmtree(path)
        if held != self.first + len(self.rows[workload]):
            raise AssertionError(f"the table has {held} rows")
        return {UPSERT: seconds, **clock.seconds}


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = command_line("python bench/hudi_guards.py", __doc__, rounds=9, rows=1_000_000)
    parser.add_argument("table", type=Path, metavar="TABLE.zip")
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-hudi.jsonl")
    asked = parser.parse_args(given)
    chosen = [one for one in BARS if asked.only in one.name]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no bar")
    run = Run({name: getattr(asked, name) for name in ("rows", "rounds")})
    with tempfile.TemporaryDirectory(prefix="bench-hudi-") as folder:
        bench = Bench(asked.table, Path(folder), asked.rows)
        turns = {one.workload: partial(bench.round, one.workload) for one in chosen}
        for workload, rounds in in_turns(turns, asked.rounds, uncounted=1).items():
            for name in PARTS:
                numbers = tuple(found[name] for found in rounds)
                run.add(Measurement(Subject(workload, "guards seconds", name), numbers))
            sums = tuple(sum(found[name] for name in PARTS) for found in rounds)
            run.add(Measurement(Subject(workload, "guards seconds", GUARDS), sums))
            whole = tuple(found[UPSERT] for found in rounds)
            run.add(Measurement(Subject(workload, "guards seconds", UPSERT), whole))
    run.judge(chosen, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
