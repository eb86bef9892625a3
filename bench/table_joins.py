"""Joins with a table of each format by its data files, beside a store of the same rows.

join           an Arrow table of facts with random keys, in this process, once all lookup files are
               on this host
in one file    the same for keys of one data file
overlapping    the same if each data file has keys of the whole range
crowded        the same with ten times as many data files, and as many rows

Otherwise the data files have equal ranges of keys. README.md says how to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, clocked, command_line, in_turns
from lake_tables import FORMATS

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency

STORE = "a store"
OVERLAPPING = "overlapping"
CROWDED = "crowded"
VERBS = {"join": 1.1, "in one file": 1.1, OVERLAPPING: 2.5, CROWDED: 2.5}
#: Verbs that are measured with one table.
TOGETHER = (("join", "in one file"), (OVERLAPPING,), (CROWDED,))

BARS = tuple(
    Bar(f"{verb} / a store", name, verb, OURS, 1 / most, STORE)
    for name in FORMATS
    for verb, most in VERBS.items()
)


def facts_of(keys: int, count: int, first: int = 0) -> pa.Table:
    """Return facts with random keys."""
    rng = np.random.default_rng(49)
    ids = rng.integers(first, first + keys, count)
    return pa.table({"id": ids, "amount": rng.random(count)})


def joined(lookups: Any, facts: pa.Table, expected: pa.ChunkedArray) -> Callable[[], float]:
    """Check and return a join with all columns."""
    assert lookups.join(facts, "id")["a"].equals(expected)
    return clocked(lambda: lookups.join(facts, "id"))


def main(given: Sequence[str] | None = None) -> None:
    """Measure joins with tables, and judge them."""
    parser = command_line(
        "make bench-follow", __doc__, rows=20_000_000, files=20, many=1_000_000, rounds=5
    )  # fmt: skip
    parser.add_argument("--format", choices=[*FORMATS, "all"], default="all")
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-table-joins.jsonl")
    asked = parser.parse_args(given)
    run = Run({name: getattr(asked, name) for name in ("rows", "files", "many", "rounds")})
    names = list(FORMATS) if asked.format == "all" else [asked.format]
    for name, verbs in ((name, verbs) for name in names for verbs in TOGETHER):
        count = asked.files * 10 if verbs == (CROWDED,) else asked.files
        each = asked.rows // count
        all_facts = {
            verb: facts_of(each, asked.many, each * (count - 1))
            if verb == "in one file"
            else facts_of(each * count, asked.many)
            for verb in verbs
        }
        with TemporaryDirectory(prefix="bench-table-joins-") as path:
            folder = Path(path)
            table = FORMATS[name](folder / "table", count, each)
            table.overlapping = verbs in ((OVERLAPPING,), (CROWDED,))
            table.write()
            residency = Residency(folder / "copies", quota="100GB")
            with (
                ColumnarFiles(table.given, key="id", residency=residency) as files,
                lookupstore.build(table.given, folder / "store", key="id") as store,
            ):
                files.prepare(progress=False)
                assert files.num_rows == len(store) == each * count
                for verb, facts in all_facts.items():
                    expected = pa.chunked_array([facts["id"].combine_chunks().to_numpy() * 31])
                    turns = {
                        OURS: joined(files, facts, expected),
                        STORE: joined(store, facts, expected),
                    }
                    for who, found in in_turns(
                        turns, asked.rounds, uncounted=1, to_and_fro=True
                    ).items():
                        run.add(Measurement(Subject(name, verb, who), found, asked.many))
    run.judge([one for one in BARS if asked.only in one.name and one.workload in names], {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
