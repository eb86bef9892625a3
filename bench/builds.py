"""Builds of a store from Parquet in no order of its keys, against their bars.

Ours are the README's line, `lookupstore.build(path, folder, key=...)`, with default options, and
with `compression="zstd"`; DuckDB writes the same rows as Parquet in order of the key, on two
threads and within 2 GB. Each round is a process of its own. README.md says how to read it;
`make bench-spark` has the builds by Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_json_lines, command_line, in_a_process, in_turns
from workloads import SEED

ROWS = "W1"
ZSTD = "lookupstore, zstd"
DUCKDB = "DuckDB"
CONTENDERS = (OURS, ZSTD, DUCKDB)
#: Rows of a row group.
PART = 1 << 20

BARS = (
    Bar("build", ROWS, "build seconds", OURS, 5, at_most=True),
    Bar("build, zstd", ROWS, "build seconds", ZSTD, 8, at_most=True),
    Bar("memory", ROWS, "build memory", OURS, 2e9, at_most=True),
    Bar("memory, zstd", ROWS, "build memory", ZSTD, 2e9, at_most=True),
)


def write_source(path: Path, records: int) -> None:
    """Write an int64 key in random order, an int64, a double, an int32 and a text."""
    random = np.random.default_rng(SEED)
    ids = random.permutation(records).astype(np.int64) * 7919
    parts = [ids[start : start + PART] for start in range(0, records, PART)]
    columns = {"id": "int64", "a": "int64", "b": "double", "c": "int32", "d": "string"}
    with pq.ParquetWriter(path, pa.schema(columns)) as writer:
        for part in parts:
            texts = pa.array(random.integers(0, 100_000, len(part))).cast(pa.string())
            values = {
                "id": part,
                "a": random.integers(0, 1 << 40, len(part)),
                "b": random.random(len(part)),
                "c": random.integers(0, 1000, len(part)).astype(np.int32),
                "d": texts,
            }
            writer.write_table(pa.table(values))


def main(given: Sequence[str] | None = None) -> None:
    """Build by each contender in turns, and print how ours meet the bars."""
    parser = command_line("make bench-builds", __doc__, records=20_000_000, rounds=3)
    add_json_lines(parser, "bench-builds.jsonl")
    asked = parser.parse_args(given)
    run = Run({"records": asked.records, "rounds": asked.rounds})
    with TemporaryDirectory(prefix="bench-builds-") as path:
        source = Path(path, "source.parquet")
        write_source(source, asked.records)

        def build(contender: str) -> tuple[float, float]:
            with TemporaryDirectory(dir=path) as folder:
                target = str(Path(folder, "built"))
                found = in_a_process("builds_once.py", contender, str(source), target)
            if found.get("rows", asked.records) != asked.records:
                raise AssertionError(f"{contender}: {found['rows']} rows of {asked.records}")
            return found["seconds"], found["memory"]

        rounds = {one: lambda one=one: build(one) for one in CONTENDERS}
        for contender, found in in_turns(rounds, asked.rounds).items():
            for verb, numbers in zip(
                ("build seconds", "build memory"), zip(*found, strict=True), strict=True
            ):
                run.add(Measurement(Subject(ROWS, verb, contender), numbers))
        run.judge(BARS, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
