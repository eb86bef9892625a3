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
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, command_line, in_a_process, in_turns, shares
from hudi_tables import (
    Sum,
    base_files,
    delta_files,
    linked_copy,
    random_ids,
    random_rows,
    sum_of_files,
    sum_of_rows,
    write_delta,
    write_hudi,
)

from lookupstore.hudi import HudiTable

DELTA = "deltalake"
PYARROW = "pyarrow"
# Of rows in what a second, warm upsert of one process brings, and in the one before it.
FEW = 1000
BARS = (
    Bar("upsert / deltalake", "upsert", "upsert seconds", OURS, 0.6, DELTA, at_most=True),
    Bar("peak memory / deltalake", "upsert", "upsert memory", OURS, 0.7, DELTA, at_most=True),
    Bar("few rows / deltalake", "upsert again", "few rows seconds", OURS, 1.0, DELTA, at_most=True),
    Bar("scan / pyarrow dataset", "scan", "scan seconds", OURS, 1.2, PYARROW, at_most=True),
)
Found = dict[str, Any]


class Bench:
    """The tables of a run."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder = folder
        ids = random_ids(asked.rows, asked.files, asked.keys)
        with_delta = find_spec(DELTA) is not None
        self.lacking = {} if with_delta else {DELTA: "not installed"}
        base = write_hudi(folder / OURS, self._rows(ids.files))
        if with_delta:
            write_delta(folder / DELTA, self._rows(ids.files))
        new = random_rows(np.concatenate([ids.updated, ids.inserted]), seed=asked.files)
        new = new.take(pa.array(np.random.default_rng(0).permutation(len(new))))
        self.brought = {"upsert": new, "upsert again": new.slice(0, 2 * FEW)}
        for verb, rows in self.brought.items():
            self._save(verb, rows)
        self.base = base_files(base)
        self._save("files", pa.table({"path": self.base}))
        self.sum = sum_of_files(self.base)
        self.expected = {verb: self.sum + sum_of_rows(new) for verb, new in self.brought.items()}
        for old in self._rows(ids.files):
            for verb, rows in self.brought.items():
                self.expected[verb] -= self._of_ids(old, rows["id"].to_numpy())
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

    def round(self, verb: str, contender: str) -> Found:
        """Do a verb twice, and return what the second time took.

        Memory is slow until a virtual machine has it: the first time is for that, so that it is not
        whoever comes after much else that pays.
        """
        do = self.scan if verb == "scan" else partial(self.upsert, verb)
        do(contender)
        return do(contender)

    def upsert(self, verb: str, contender: str) -> Found:
        """Write rows into a copy of a contender's table, and check what it holds then."""
        copy = self.folder / "copy"
        linked_copy(self.folder / contender, copy)
        try:
            found = self._once(verb, contender, copy, verb)
            is_ours = contender == OURS
            held = sum_of_files(base_files(HudiTable.open(copy)) if is_ours else delta_files(copy))
        finally:
            shutil.rmtree(copy)
        if held != (expected := self.expected[verb]):
            raise AssertionError(f"{contender} holds {held} afterwards, not {expected}")
        return found

    def scan(self, contender: str) -> Found:
        """Read our table, or its files."""
        found = self._once("scan", contender, self.folder / OURS, "files")
        if found["rows"] != self.sum.rows:
            raise AssertionError(f"{contender} reads {found['rows']} rows, not {self.sum.rows}")
        return found

    def _once(self, verb: str, contender: str, table: Path, rows: str) -> Found:
        os.sync()  # so that this round does not pay for the one before
        # Lookup files of the round before would be of a table that is not there any more.
        cache = str(self.folder / "cache")
        arguments = (verb, contender, str(table), self._path(rows))
        return in_a_process("hudi_once.py", *arguments, LOOKUPSTORE_CACHE=cache)


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = command_line(
        "python bench/hudi_upsert.py",
        __doc__,
        rows=10_000_000,
        files=16,
        keys=1_000_000,
        rounds=5,
    )
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-hudi.jsonl")
    asked = parser.parse_args(given)
    chosen = [one for one in BARS if asked.only in one.name]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no bar")
    run = Run({name: getattr(asked, name) for name in ("rows", "files", "keys", "rounds")})
    subjects = [subject for one in chosen for subject in one.subjects]
    with tempfile.TemporaryDirectory(prefix="bench-hudi-") as folder:
        bench = Bench(Path(folder), asked)
        lacking = {
            one: bench.lacking[one.contender] for one in subjects if one.contender in bench.lacking
        }
        turns = dict.fromkeys(
            (one.workload, one.contender) for one in subjects if one not in lacking
        )
        # To and fro: whoever comes after one that let go of much memory gets it back soonest.
        rounds = in_turns(
            {turn: partial(bench.round, *turn) for turn in turns}, asked.rounds, to_and_fro=True
        )
        for (verb, contender), found in rounds.items():
            if verb == "upsert again":
                # The peak and the processor's time are of both, and so say nothing of one.
                numbers = tuple(one["seconds"] for one in found)
                run.add(Measurement(Subject(verb, "few rows seconds", contender), numbers))
                continue
            for what, name in (("seconds", "seconds"), ("memory", "peak"), ("cpu", "cpu")):
                numbers = tuple(one[name] or 0 for one in found)
                run.add(Measurement(Subject(verb, f"{verb} {what}", contender), numbers))
        if ours := rounds.get(("upsert", OURS)):
            ratio = ours[-1]["rewritten"] / bench.bytes_changed
            written = ours[-1]["written"]
            print(f"bytes written {written:,}; {ratio:.1f} rewritten for one that changes")
            print(f"steps: {shares(ours)}")
    run.judge(chosen, lacking)
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
