"""Count what queries read of a table to which rows are appended, and what keeping order writes.

    python bench/layout_incremental.py              # 20,000,000 rows in 110 files
    python bench/layout_incremental.py --rows 2000000 --only uniform

A table of a key and two columns is put in order by both. Ten times a twentieth of its rows is
appended by `bulk_insert`, and `cluster(incremental=True)` follows. After
each of these the share of files that queries read is counted by the bounds of all files, as in
`layout.py`, whose workloads, queries and computed ideal grid these are. Of each kind of query the
worst of the ten times counts. What is rewritten is all that the ten clusterings wrote.

Files of one size cannot meet both bars at once if values are uniform: see the decision 0031.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, add_sizes
from layout import FILES, IDEAL, WORKLOADS, Queries, Values

from lookupstore.hudi import HudiTable
from lookupstore.hudi.layout import known_bounds

APPENDS, SHARE, SEED = 10, 20, 7
REWRITTEN, APPENDED = "bytes rewritten", "appended"
SCHEMA = pa.schema({"id": pa.int64(), "a": pa.int64(), "b": pa.int64()})
BARS = [
    bar
    for workload in WORKLOADS
    for bar in (
        *(Bar(f"{verb} / ideal", workload, verb, OURS, 1.4, IDEAL, at_most=True) for verb in FILES),
        Bar(f"{REWRITTEN} / {APPENDED}", workload, REWRITTEN, OURS, 2.5, APPENDED, at_most=True),
    )
]


def _rows(first: int, columns: tuple[Values, Values]) -> pa.Table:
    ids = np.arange(first, first + len(columns[0]))
    return pa.table([ids, *columns], schema=SCHEMA)


def _shares(table: HudiTable, queries: Queries) -> dict[str, tuple[float, float]]:
    """Return what queries read and what an ideal grid would have them read, in percent."""
    view = table.view()
    files = [group.current for group in view.groups(None)]
    known = known_bounds(view, files, ["a", "b"])
    ranges = [
        (known[name].least.to_numpy(), known[name].greatest.to_numpy()) for name in ("a", "b")
    ]
    return {verb: (queries.read(verb, ranges), queries.ideal(verb, len(files))) for verb in FILES}


def measured(workload: str, rows: int, files: int, folder: Path) -> Iterator[Measurement]:
    """Append to a table of a workload, keep it in order, and yield what that came to."""
    rng = np.random.default_rng(SEED)
    columns = WORKLOADS[workload](rng, rows)
    queries = Queries(rng, columns)
    table = HudiTable.create(folder, SCHEMA, record_key=["id"], name="bench")
    table.bulk_insert(_rows(0, columns))
    table.collect_statistics()
    del columns
    file_bytes = sum(group.current.bytes for group in table.file_groups()) // files
    order = {"target_file_size": file_bytes, "incremental": True}
    table.cluster(["a", "b"], **order)
    worst = dict.fromkeys(FILES, (0.0, 1.0))
    rewritten = appended = 0
    for at in range(APPENDS):
        before = {group.current.path for group in table.file_groups()}
        count = rows // SHARE
        more = _rows(rows + at * count, WORKLOADS[workload](rng, count))
        table.bulk_insert(more)
        new = [one.current for one in table.file_groups() if one.current.path not in before]
        appended += sum(one.bytes for one in new)
        done = table.cluster(["a", "b"], **order)
        rewritten += done.bytes_after
        shares = _shares(table, queries)
        for verb, pair in shares.items():
            worst[verb] = max(worst[verb], pair, key=lambda one: one[0] / one[1])
        said = ", ".join(f"{ours / ideal:.2f}" for ours, ideal in shares.values())
        print(
            f"{workload} {at + 1}: {len(new)} files came, {done.files_before} became "
            f"{done.files_after} of {len(table.file_groups())}; {said} x ideal; "
            f"{rewritten / appended:.2f} x rewritten",
            flush=True,
        )
    for verb, (ours, ideal) in worst.items():
        yield Measurement(Subject(workload, verb, OURS), (ours,))
        yield Measurement(Subject(workload, verb, IDEAL), (ideal,))
    yield Measurement(Subject(workload, REWRITTEN, OURS), (rewritten,))
    yield Measurement(Subject(workload, REWRITTEN, APPENDED), (appended,))


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    program = "python bench/layout_incremental.py"
    parser = argparse.ArgumentParser(
        prog=program, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_sizes(parser, rows=20_000_000, files=110)
    add_choice(parser, "workloads")
    add_json_lines(parser, "bench-layout.jsonl")
    asked = parser.parse_args(given)
    chosen = [one for one in WORKLOADS if asked.only in one]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no workload")
    run = Run({name: getattr(asked, name) for name in ("rows", "files")})
    for workload in chosen:
        with tempfile.TemporaryDirectory(prefix="bench-layout-") as folder:
            for one in measured(workload, asked.rows, asked.files, Path(folder) / "table"):
                run.add(one)
    run.judge([one for one in BARS if one.workload in chosen], {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
