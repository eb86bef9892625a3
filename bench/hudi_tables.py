"""The tables of the Hudi benches: 10 columns with random int64 keys, ours and that of a rival.

What a table has to hold after a write is known from what was written before, and DuckDB tells what
it holds: neither depends on who wrote it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi import HudiTable
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing

SEED = 20260308
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "account": pa.int64(),
        "amount": pa.float64(),
        "rate": pa.float64(),
        "balance": pa.float64(),
        "parts": pa.int32(),
        "kind": pa.string(),
        "code": pa.string(),
        "note": pa.string(),
        "seen": pa.timestamp("us", "UTC"),
    }
)
_KINDS = pa.array(["order", "return", "transfer", "correction", "fee"])


def random_rows(ids: npt.NDArray[np.int64], *, seed: int) -> pa.Table:
    """Return rows of some ids."""
    random, rows = np.random.default_rng(seed), len(ids)
    return pa.table(
        [
            ids,
            random.integers(0, 1 << 48, rows),
            random.random(rows),
            np.round(random.random(rows), 4),
            random.normal(0, 1e6, rows),
            random.integers(0, 1000, rows, np.int32),
            _KINDS.take(pa.array(random.integers(0, len(_KINDS), rows))),
            _hexadecimal(random, rows, 12),
            _hexadecimal(random, rows, 56),
            pa.array(1_700_000_000_000_000 + random.integers(0, 1 << 44, rows)).cast(
                SCHEMA.field("seen").type
            ),
        ],
        schema=SCHEMA,
    )


def _hexadecimal(random: np.random.Generator, rows: int, width: int) -> pa.Array:
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[
        random.integers(0, 16, rows * width, np.uint8)
    ]
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width)
    return pa.StringArray.from_buffers(rows, offsets.buffers()[1], pa.py_buffer(digits))


@dataclass(frozen=True)
class Sum:
    """What rows come to, whatever their order: how many there are, and their hashes added up.

    Sums can be added and subtracted, so that what a write has to leave is known without a look.
    """

    rows: int
    hashes: int

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.rows + other.rows, self.hashes + other.hashes)

    def __sub__(self, other: Sum) -> Sum:
        return Sum(self.rows - other.rows, self.hashes - other.hashes)


def sum_of_rows(rows: pa.Table) -> Sum:
    """Return what rows in memory come to."""
    with duckdb.connect() as connection:
        connection.register("given", rows)
        return _sum(connection, "given", rows.schema)


def sum_of_files(paths: Sequence[str], schema: pa.Schema = SCHEMA) -> Sum:
    """Return what the rows of Parquet files come to; only the table's own columns count."""
    with duckdb.connect() as connection:
        return _sum(connection, f"read_parquet({list(paths)!r})", schema)


def _sum(connection: duckdb.DuckDBPyConnection, rows: str, schema: pa.Schema) -> Sum:
    columns = ", ".join(schema.names).replace("seen", "epoch_us(seen)")
    query = f"select count(*), sum(hash({columns})::hugeint) from {rows}"
    (found,) = connection.execute(query).fetchall()
    return Sum(found[0], found[1] or 0)


@dataclass(frozen=True, eq=False)
class Ids:
    """The ids of a bench: those of each file, and those that a write brings.

    Attributes:
        files: that the table has, file by file.
        updated: some of them.
        inserted: others, that it has not.
    """

    files: list[npt.NDArray[np.int64]]
    updated: npt.NDArray[np.int64]
    inserted: npt.NDArray[np.int64]


def random_ids(rows: int, files: int, changes: int) -> Ids:
    """Return random int64 ids, all different, half of the changes of either kind."""
    random = np.random.default_rng(SEED)
    wanted = rows + changes - changes // 2
    ids = np.unique(random.integers(1 << 40, 1 << 62, wanted + wanted // 50 + 10))
    random.shuffle(ids)
    updated = random.choice(ids[:rows], changes // 2, replace=False)
    return Ids(np.array_split(ids[:rows], files), updated, ids[rows:wanted])


def write_hudi(folder: Path, files: Iterable[pa.Table], schema: pa.Schema = SCHEMA) -> HudiTable:
    """Write a table with a base file for each of some tables, whose ids are in their order."""
    table = HudiTable.create(folder, schema, record_key=["id"], name="bench")
    for number, rows in enumerate(files):
        # Whatever it holds, it is one file.
        sizing = FileSizing(max_file_size=1 << 40)
        options = WriteOptions(sizing=sizing, new_file_id=lambda number=number: f"{number:04}-0")
        table.bulk_insert(rows, options=options)
    return table


def write_delta(folder: Path, files: Iterable[pa.Table]) -> None:
    """Write the same with Delta Lake."""
    from deltalake import write_deltalake

    for rows in files:
        write_deltalake(str(folder), rows, mode="append")


def base_files(table: HudiTable) -> list[str]:
    """Return the paths of the current base files of a table of this machine."""
    folder = Path(table.location.uri)
    return [str(folder / group.current.path) for group in table.file_groups()]


def delta_files(folder: Path) -> list[str]:
    """Return the paths of the current files of a Delta table of this machine."""
    from deltalake import DeltaTable

    return DeltaTable(str(folder)).file_uris()


def linked_copy(table: Path, copy: Path) -> None:
    """Copy a table, without a byte of its rows."""
    shutil.copytree(table, copy, copy_function=_link_data)


def _link_data(source: str, target: str) -> None:
    """Copy a file of a table: data files never change, so that a second name is enough."""
    if source.endswith(".parquet"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
