"""The first keys of a table at a URI of which nothing is on this host.

first keys     seconds of a call with random keys, from the URI of the table to the rows
requests       that the server was asked for meanwhile
MiB            of the answers

Rivals are the scans of deltalake and pyiceberg with a filter of the same keys. The server is on
this machine, and its answers are late. What is counted is counted there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, command_line
from lake_tables import FORMATS, IcebergTable, nbytes, pyiceberg_names
from pyiceberg.expressions import In
from pyiceberg.table import StaticTable
from support.object_store import (
    BUCKET,
    FOR_WRITES,
    ObjectStore,
    Proxy,
    deltalake_names,
    has_server,
    object_store,
)
from support.quick_store import QuickStore, quick_store

from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency

VERBS = ("first keys", "requests", "MiB")
LIBRARIES = {"Delta": "deltalake", "Iceberg": "pyiceberg"}

BARS = tuple(
    Bar(f"{verb} / {rival}", name, verb, OURS, 1.0, rival, at_most=True)
    for name, rival in LIBRARIES.items()
    for verb in VERBS
)

Answer = Callable[[], pa.Table]


class Tables:
    """The tables in a bucket, and what is asked of them.

    Args:
        names: Names of the formats.
        folder: Folder for the bucket, and for copies.
        files: Number of data files of each table.
        each: Number of rows of a data file.
    """

    def __init__(self, names: Sequence[str], folder: Path, files: int, each: int) -> None:
        self.names, self.folder, self.copies = names, folder, 0
        with object_store(folder / "s3") as server, closing(Proxy(server)) as proxy:
            for name in names:
                place = folder / "s3" / BUCKET / name
                if name == "Iceberg":
                    warehouse = {"warehouse": f"s3://{BUCKET}/{name}"}
                    options = pyiceberg_names(proxy.store)
                    iceberg = IcebergTable(place, files, each, options=options, **warehouse)
                    iceberg.write()
                    self.metadata = iceberg.given.metadata_location
                else:
                    FORMATS[name](place, files, each).write()

    def ours(self, name: str, store: ObjectStore, keys: pa.Array) -> Answer:
        """Return what answers keys on what is a new host."""
        self.copies += 1
        residency = Residency(self.folder / f"copies-{self.copies}", quota="100GB")

        def answer() -> pa.Table:
            given: Any = store.uri(name)
            if name == "Iceberg":
                given = StaticTable.from_metadata(self.metadata, pyiceberg_names(store))
            with ColumnarFiles(given, key="id", residency=residency) as files:
                return files.lookup(keys)

        return answer

    def rival(self, name: str, store: ObjectStore, keys: pa.Array) -> Answer:
        """Return what answers keys by the library of a format."""

        def delta() -> pa.Table:
            options = deltalake_names(store)
            table = deltalake.DeltaTable(f"s3://{BUCKET}/{name}", storage_options=options)
            return table.to_pyarrow_table(filters=pc.field("id").isin(keys))

        def iceberg() -> pa.Table:
            table = StaticTable.from_metadata(self.metadata, pyiceberg_names(store))
            return table.scan(In("id", keys.to_pylist())).to_arrow()  # type: ignore[arg-type]

        return {"Delta": delta, "Iceberg": iceberg}[name]


def cost(answer: Answer, quick: QuickStore, keys: pa.Array) -> tuple[float, float, float]:
    """Return the seconds, requests and MiB of an answer."""
    quick.asked()
    start = time.perf_counter()
    rows = answer()
    seconds = time.perf_counter() - start
    requests = [one for one, _ in quick.asked()]
    assert rows.num_rows == len(keys)
    assert rows["a"].null_count == 0
    size = sum(nbytes(one, quick.store) for one in requests)
    return seconds, len(requests), size / (1 << 20)


def measure(tables: Tables, quick: QuickStore, run: Run, keys: pa.Array, rounds: int) -> None:
    """Measure the first keys of each table."""
    for name in tables.names:
        whos = {OURS: tables.ours, **({LIBRARIES[name]: tables.rival} if name in LIBRARIES else {})}
        for who, asked in whos.items():
            found = [cost(asked(name, quick.store, keys), quick, keys) for _ in range(rounds)]
            for verb, numbers in zip(VERBS, zip(*found, strict=True), strict=True):
                run.add(Measurement(Subject(name, verb, who), numbers))


def main(given: Sequence[str] | None = None) -> None:
    """Count and time the first keys of tables at a URI, and print how they meet the bars."""
    parser = command_line(
        "make bench-follow", __doc__, rows=2_000_000, files=20, keys=1000, rounds=3
    )  # fmt: skip
    parser.add_argument("--delay", type=float, default=0.03, help="of answers (%(default)s s)")
    parser.add_argument("--format", choices=[*FORMATS, "all"], default="all")
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-table-cold.jsonl")
    asked = parser.parse_args(given)
    if not has_server():
        print("rclone is not installed")
        return
    sizes = ("rows", "files", "keys", "rounds", "delay")
    run = Run({name: getattr(asked, name) for name in sizes})
    os.environ.update(FOR_WRITES)
    names = list(FORMATS) if asked.format == "all" else [asked.format]
    each = asked.rows // asked.files
    ids = np.random.default_rng(49).choice(each * asked.files, asked.keys, replace=False)
    with TemporaryDirectory(prefix="bench-table-cold-") as path:
        tables = Tables(names, Path(path), asked.files, each)
        with quick_store(Path(path, "s3"), asked.delay) as quick:
            measure(tables, quick, run, pa.array(ids), asked.rounds)
    run.judge([one for one in BARS if asked.only in one.name and one.workload in names], {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
