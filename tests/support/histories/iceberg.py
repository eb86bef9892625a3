"""Random histories of Iceberg tables, by pyiceberg."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.types import LongType

ROWS = pa.schema({"id": pa.int64(), "s": pa.string(), "n": pa.int32(), "part": pa.string()})


class IcebergHistory:
    """A table with unique ids, to which random changes are made by pyiceberg."""

    def __init__(self, catalog: InMemoryCatalog, seed: int) -> None:
        self._chance = random.Random(seed)
        version = self._chance.choice(["1", "2"])
        properties = {"format-version": version, "write.parquet.row-group-limit": "10"}
        self.table = catalog.create_table("w.t", ROWS, properties=properties)
        if self._chance.random() < 0.5:
            with self.table.update_spec() as update:
                update.add_identity("part")
        self._next = 0
        self._append(30)

    def _rows(self, ids: Sequence[int]) -> pa.Table:
        chance = self._chance
        columns: dict[str, Any] = {
            "id": pa.array(ids, pa.int64()),
            "s": pa.array([chance.choice(["a", "ü", None]) for _ in ids], pa.string()),
            "n": pa.array([chance.choice([1, 2, None]) for _ in ids], pa.int32()),
            "part": pa.array([chance.choice(["x y", "ü"]) for _ in ids], pa.string()),
        }
        schema = self.table.schema().as_arrow()
        more = {one: pa.nulls(len(ids), pa.int64()) for one in schema.names if one not in columns}
        return pa.table({name: {**columns, **more}[name] for name in schema.names})

    def _append(self, count: int) -> None:
        self.table.append(self._rows(range(self._next, self._next + count)))
        self._next += count

    def change(self) -> str:
        """Change the table in one way out of several, and return which."""
        chance = self._chance
        low = chance.randint(0, self._next)
        what = chance.choice(["append", "append", "overwrite", "part", "delete", "delete",
                              "upsert", "upsert", "rewrite", "back", "add"])  # fmt: skip
        match what:
            case "append":
                self._append(chance.choice([0, 1, 10]))
            case "overwrite":
                self.table.overwrite(self._rows(range(chance.choice([0, 1, 20]))))
            case "part":
                rows = self._rows(range(self._next, self._next + 3))
                self._next += 3
                self.table.overwrite(rows, f"id >= {low} and id < {low + 9}")
            case "delete":
                self.table.delete(f"id >= {low} and id < {low + chance.choice([1, 9])}")
            case "upsert" if len(self.table.schema().fields) == len(ROWS):  # else pyiceberg fails
                ids = chance.sample(range(self._next + 5), 5)
                self._next = max(self._next, *(one + 1 for one in ids))
                self.table.upsert(self._rows(ids), join_cols=["id"])
            case "rewrite":
                self.table.overwrite(self.table.scan().to_arrow())
            case "back":
                names = [one.snapshot_id for one in self.table.metadata.snapshots]
                with self.table.manage_snapshots() as update:
                    update.set_current_snapshot(chance.choice(names[-4:]))
            case "add" if chance.random() < 0.2:
                with self.table.update_schema() as update:
                    update.add_column(f"x{len(self.table.schema().fields)}", LongType())
        return what
