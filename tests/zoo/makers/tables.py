"""Delta tables by deltalake and Iceberg tables by pyiceberg."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from zoo.makers.made import Made
from zoo.sample_columns import ROWS, table_of

TYPES = (
    "int64 string date32 timestamp_us_utc timestamp_us_local decimal_38_10 list struct map binary"
)


def make(made: Made) -> None:
    """Write all tables."""
    deltas(made)
    icebergs(made)


def deltas(made: Made) -> None:
    """Write Delta tables: types, partitions, and each operation that leaves files behind."""
    from deltalake import DeltaTable, write_deltalake

    for name in TYPES.split():
        with made.file(f"delta/types-{name}") as path:
            write_deltalake(path, table_of(name))
    days = pa.table({"id": range(6), "day": [f"2020-01-0{1 + i % 3}" for i in range(6)]})
    odd = pa.table({"id": range(3), "part": ["a b", "x/y=z", None]})
    for name, rows, by in (("partitions", days, "day"), ("partitions-odd", odd, "part")):
        with made.file(f"delta/{name}") as path:
            write_deltalake(path, rows, partition_by=[by])
    actions: dict[str, Any] = {
        "append": lambda path: write_deltalake(path, days.slice(0, 2), mode="append"),
        "overwrite": lambda path: write_deltalake(path, days.slice(0, 2), mode="overwrite"),
        "delete": lambda path: DeltaTable(path).delete("id = 1"),
        "update": lambda path: DeltaTable(path).update({"day": "'x'"}, predicate="id = 2"),
        "optimize": lambda path: DeltaTable(path).optimize.compact(),
        "checkpoint": lambda path: DeltaTable(path).create_checkpoint(),
        "more-columns": lambda path: write_deltalake(
            path, pa.table({"id": [99], "more": [1.5]}), mode="append", schema_mode="merge"
        ),
    }
    for name, action in actions.items():
        with made.file(f"delta/{name}") as path:
            write_deltalake(path, days)
            action(path)


def icebergs(made: Made) -> None:
    """Write Iceberg tables: types, appends, deletes, other names of columns."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder = (made.folder / "iceberg").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("zoo", uri="sqlite:///:memory:", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    for name in TYPES.split():
        with made.file(f"iceberg/db/types_{name}"):
            rows = table_of(name)
            catalog.create_table(f"db.types_{name}", rows.schema).append(rows)
    rows = table_of("string")
    for name in ("appended", "deleted", "renamed", "more_columns", "overwritten", "empty"):
        with made.file(f"iceberg/db/{name}"):
            table = catalog.create_table(f"db.{name}", rows.schema)
            if name != "empty":
                table.append(rows)
            if name == "appended":
                table.append(rows.set_column(0, "id", pa.array(range(50, 50 + ROWS), pa.int32())))
            if name == "deleted":
                table.delete("id = 3")
            if name == "overwritten":
                table.overwrite(rows.slice(0, 2))
            if name == "renamed":
                with table.update_schema() as update:
                    update.rename_column("value", "other")
            if name == "more_columns":
                from pyiceberg.types import LongType

                with table.update_schema() as update:
                    update.add_column("more", LongType())
