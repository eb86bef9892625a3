"""The kinds of lookups, each made of the same table, whose key is its column `id`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.keys.lookups import Lookups


def store(table: pa.Table, folder: Path) -> Lookups:
    return lookupstore.build(table, folder / "store", key="id")


def bucketed(table: pa.Table, folder: Path) -> Lookups:
    return lookupstore.build(table, folder / "store", key="id", buckets=5)


def columnar(table: pa.Table, folder: Path) -> Lookups:
    half = table.num_rows // 2
    for number, part in enumerate((table[:half], table[half:])):
        pq.write_table(part, folder / f"{number}.parquet")
    return ColumnarFiles(folder / "*.parquet", key="id")


def hudi(table: pa.Table, folder: Path) -> Lookups:
    written = HudiTable.create(folder / "table", table.schema, record_key="id")
    written.insert(table)
    return TableLookup(folder / "table")


KINDS = [store, bucketed, columnar, hudi]
