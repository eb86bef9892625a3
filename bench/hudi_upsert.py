"""Measure upserts into a Hudi table against Delta Lake, and scans against pyarrow's dataset.

    python bench/hudi_upsert.py                     # 1,000,000 rows into 10,000,000 in 16 files
    python bench/hudi_upsert.py --rows 200000 --files 4 --keys 20000 --rounds 1

Half of the rows change rows that are there, half are new; ids are random int64. Each round of each
contender is a process of its own, on a fresh copy of its table (links, no bytes), and contenders
take turns. What a table holds after a round is compared with what it has to hold before its time
counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bars import OURS, Bar, Measurement, Subject, bars_table, judge
from hudi_tables import (
    Sum,
    random_ids,
    random_rows,
    sum_of_files,
    sum_of_rows,
    write_delta,
    write_hudi,
)
from report import machine_lines

from lookupstore.hudi import HudiTable

DELTA = "deltalake"
PYARROW = "pyarrow"
BARS = (
    Bar("upsert / deltalake", "upsert", "upsert seconds", OURS, 0.6, DELTA, at_most=True),
    Bar("peak memory / deltalake", "upsert", "upsert memory", OURS, 0.7, DELTA, at_most=True),
    Bar("scan / pyarrow dataset", "scan", "scan seconds", OURS, 1.2, PYARROW, at_most=True),
)
Found = dict[str, Any]


class Bench:
    """The tables of a run."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder = folder
        ids = random_ids(asked.rows, asked.files, asked.keys)
        with_delta = find_spec(DELTA) is not None
        self.lacking = {} if with_delta else {DELTA: f"{DELTA}: not installed"}
        base = write_hudi(folder / OURS, self._rows(ids.files))
        if with_delta:
            write_delta(folder / DELTA, self._rows(ids.files))
        new = random_rows(np.concatenate([ids.updated, ids.inserted]), seed=asked.files)
        new = new.take(pa.array(np.random.default_rng(0).permutation(len(new))))
        self._save("new", new)
        self.base = self._files(base)
        self._save("files", pa.table({"path": self.base}))
        replaced = [self._of_ids(rows, ids.updated) for rows in self._rows(ids.files)]
        self.sum = sum_of_files(self.base)
        self.expected = self.sum + sum_of_rows(new)
        for one in replaced:
            self.expected -= one
        self.bytes_changed = sum(one.nbytes for one in new.columns)

    def _rows(self, files: Sequence[Any]) -> Iterator[pa.Table]:
        for number, ids in enumerate(files):
            yield random_rows(ids, seed=number)

    def _of_ids(self, rows: pa.Table, ids: Any) -> Sum:
        return sum_of_rows(rows.filter(pa.array(np.isin(rows["id"].to_numpy(), ids))))

    def _save(self, name: str, rows: pa.Table) -> None:
        with pa.OSFile(self._path(name), "wb") as file, pa.ipc.new_file(file, rows.schema) as into:
            into.write_table(rows)

    def _path(self, name: str) -> str:
        return str(self.folder / f"{name}.arrow")

    @staticmethod
    def _files(table: HudiTable) -> list[str]:
        folder = Path(table.location.uri)
        return [str(folder / group.current.path) for group in table.file_groups()]

    def upsert(self, contender: str) -> Found:
        """Write the rows into a copy of a contender's table, and check what it holds then."""
        copy = self.folder / "copy"
        shutil.copytree(self.folder / contender, copy, copy_function=_link_data)
        try:
            found = self._once("upsert", contender, copy, "new")
            if contender == OURS:
                files = self._files(HudiTable.open(copy))
            else:
                from deltalake import DeltaTable

                files = DeltaTable(str(copy)).file_uris()
            held = sum_of_files(files)
        finally:
            shutil.rmtree(copy)
        if held != self.expected:
            raise AssertionError(f"{contender} holds {held} afterwards, not {self.expected}")
        return found

    def scan(self, contender: str) -> Found:
        """Read our table, or its files."""
        found = self._once("scan", contender, self.folder / OURS, "files")
        if found["rows"] != self.sum.rows:
            raise AssertionError(f"{contender} reads {found['rows']} rows, not {self.sum.rows}")
        return found

    def _once(self, verb: str, contender: str, table: Path, rows: str) -> Found:
        script = str(Path(__file__).with_name("hudi_once.py"))
        command = [sys.executable, script, verb, contender, str(table), self._path(rows)]
        # Lookup files of the round before would be of a table that is not there any more.
        environment = os.environ | {"LOOKUPSTORE_CACHE": str(self.folder / "cache")}
        os.sync()  # what is left of the round before is no part of this one
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{verb}, {contender}: {done.stderr}")
        found: Found = json.loads(done.stdout)
        return found


def _link_data(source: str, target: str) -> None:
    """Copy a file of a table: data files never change, so that a second name is enough."""
    if source.endswith(".parquet"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def shares(rounds: Sequence[Found]) -> str:
    """Return what share of our upserts each step takes, as text."""
    steps: dict[str, float] = {}
    for found in rounds:
        for name, seconds in found["steps"].items():
            steps[name] = steps.get(name, 0.0) + seconds
    total = sum(found["seconds"] for found in rounds)
    return ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in steps.items())


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="in the table (%(default)s)")
    parser.add_argument("--files", type=int, default=16, help="that they are in (%(default)s)")
    parser.add_argument("--keys", type=int, default=1_000_000, help="to upsert (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each (%(default)s)")
    asked = parser.parse_args(given)
    print("\n".join(machine_lines()))
    measured: dict[Subject, Measurement] = {}
    with tempfile.TemporaryDirectory(prefix="bench-hudi-") as folder:
        bench = Bench(Path(folder), asked)
        rounds: dict[tuple[str, str], list[Found]] = {}
        turns = [("upsert", OURS), ("upsert", DELTA), ("scan", OURS), ("scan", PYARROW)]
        for number in range(asked.rounds):
            # To and fro: whoever comes after one that let go of much memory gets it back soonest.
            for verb, contender in turns[:: -1 if number % 2 else 1]:
                if contender not in bench.lacking:
                    # Memory is slow until a virtual machine has it: the first time is for that, so
                    # that it is not whoever comes after much else that pays.
                    getattr(bench, verb)(contender)
                    found = getattr(bench, verb)(contender)
                    rounds.setdefault((verb, contender), []).append(found)
        for (verb, contender), all_found in rounds.items():
            for what, name in (("seconds", "seconds"), ("memory", "peak"), ("cpu", "cpu")):
                subject = Subject(verb, f"{verb} {what}", contender)
                numbers = tuple(found[name] or 0 for found in all_found)
                measured[subject] = Measurement(subject, numbers)
                shown = statistics.median(numbers)
                unit = f"{shown / 1e6:10.1f} MB" if what == "memory" else f"{shown:10.2f} s"
                print(f"{verb:<8}{contender:<14}{what:<8}{unit}")
        ours = rounds["upsert", OURS]
        last = ours[-1]
        ratio = last["rewritten"] / bench.bytes_changed
        print(f"bytes written {last['written']:,}; {ratio:.1f} rewritten for one that changes")
        print(f"steps: {shares(ours)}")
    outcomes = [judge(one, measured, bench.lacking) for one in BARS]
    print(f"\n{bars_table(outcomes, measured)}")


if __name__ == "__main__":
    main()
