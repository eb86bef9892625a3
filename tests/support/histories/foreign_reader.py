"""Read snapshots of tables by pypaimon and DuckDB, for a process that has other libraries.

Run this in an environment of its own, which has pypaimon, duckdb, and its extensions as packages:
duckdb-extension-avro, duckdb-extension-delta, duckdb-extension-iceberg. Each line of the standard
input is a JSON list: the reader, a path, and the number of a snapshot. Each answer is a line with a
number of bytes and these bytes: the rows as an Arrow stream. If the number is negative, the bytes
are an error.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa


def paimon(folder: str, snapshot: int) -> pa.Table:
    """Return the rows of a snapshot as pypaimon reads them."""
    from pypaimon.table.file_store_table import (  # type: ignore[import-not-found]
        FileStoreTable,
    )

    table = FileStoreTable.from_path(folder).copy({"scan.snapshot-id": str(snapshot)})
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


@cache
def connection() -> Any:
    """Return a connection of DuckDB with its extensions."""
    import duckdb

    found = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "1"})
    for name in ("avro", "delta", "iceberg"):
        package = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert package is not None, f"install duckdb-extension-{name}"
        (file,) = Path(str(package.origin)).parent.rglob(f"{name}.duckdb_extension")
        found.execute(f"LOAD '{file}'")
    return found


def delta(folder: str, version: int) -> pa.Table:
    """Return the rows of a version as DuckDB reads them."""
    return connection().execute(f"FROM delta_scan(?, version={version})", [folder]).to_arrow_table()


def iceberg(metadata: str, snapshot: int) -> pa.Table:
    """Return the rows of a snapshot as DuckDB reads them."""
    query = f"FROM iceberg_scan(?, snapshot_from_id={snapshot}::UBIGINT)"
    return connection().execute(query, [metadata]).to_arrow_table()


def write(folder: str, seed: int) -> pa.Table:
    """Write a random table, and return nothing."""
    from pypaimon import CatalogFactory  # type: ignore[import-not-found,unused-ignore]

    from support.pypaimon_writer import (  # type: ignore[import-not-found,unused-ignore]
        ENGINES,
        TABLES,
        History,
    )

    chance = random.Random(seed)
    catalog = CatalogFactory.create({"warehouse": folder})
    catalog.create_database("w", True)
    history = History(catalog, chance.choice([*TABLES, *ENGINES]), chance)
    for _ in range(12):
        history.change()
    return pa.table({})


def insert(folder: str, number: int) -> pa.Table:
    """Let DuckDB append the rows of a Parquet file to a Delta table, and return nothing.

    Args:
        folder: Path of the table. The file is next to it: `<folder>-<number>.parquet`.
        number: Number of the file.
    """
    connection().execute(f"ATTACH '{folder}' AS written (TYPE delta)")
    try:
        connection().execute(f"INSERT INTO written BY NAME FROM '{folder}-{number}.parquet'")
    finally:
        connection().execute("DETACH written")
    return pa.table({})


READERS: dict[str, Callable[[str, int], pa.Table]] = {
    "paimon": paimon,
    "write": write,
    "insert": insert,
    "delta": delta,
    "iceberg": iceberg,
}


def main() -> None:
    """Answer requests until the standard input ends."""
    for line in sys.stdin:
        reader, path, snapshot = json.loads(line)
        sign = 1
        try:
            rows = READERS[reader](path, snapshot)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows)
            answer = sink.getvalue().to_pybytes()
        except Exception as error:
            connection.cache_clear()  # DuckDB answers nothing after an internal error
            sign, answer = -1, f"{type(error).__name__}: {error}".encode()
        sys.stdout.buffer.write(f"{sign * len(answer)}\n".encode() + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
