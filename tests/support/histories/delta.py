"""Random histories of Delta tables, by deltalake and DuckDB."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from support.histories.columns import PLACED, Values, more_columns


class DeltaHistory:
    """A table with unique ids, to which random changes are made by deltalake.

    Attributes:
        is_partitioned: Whether the table may have partitions.
    """

    is_partitioned = True

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self._chance = path, random.Random(seed)
        self._values = Values(self._chance)
        # Values of each column are those of a column of `KINDS`.
        self._names = {name: name for name in ["s", "n", "part", *more_columns(self._chance)]}
        may = [[name] for name in PLACED if name in self._names]
        self._by = self._chance.choice([None, *may, ["part", "n"]]) if self.is_partitioned else None
        self._next = 0
        deltalake.write_deltalake(path, self._rows(30), partition_by=self._by)

    def _rows(self, count: int, ids: Sequence[int] | None = None) -> pa.Table:
        if ids is None:
            ids = range(self._next, self._next + count)
            self._next += count
        columns: dict[str, pa.Array] = {"id": pa.array(ids, pa.int64())}
        for name, kind in self._names.items():
            columns[name] = self._values.column(kind, len(ids))
        return pa.table(columns)

    def _append(self, rows: pa.Table) -> None:
        deltalake.write_deltalake(self.path, rows, mode="append")

    def _table(self) -> Any:
        return deltalake.DeltaTable(self.path)

    def change(self) -> str:
        """Change the table in one way out of several, and return which."""
        chance = self._chance
        low = chance.randint(0, max(1, self._next))
        high = low + chance.choice([1, 5, 40])
        what = chance.choice(["append", "append", "delete", "update", "merge", "merge", "compact",
                              "z-order", "restore", "overwrite", "nothing", "part", "place",
                              "column", "replace", "vacuum"])  # fmt: skip
        match what:
            case "append":
                self._append(self._rows(chance.choice([0, 1, 10])))
            case "overwrite":
                rows = self._rows(0, range(chance.choice([0, 5, 30])))
                deltalake.write_deltalake(self.path, rows, mode="overwrite")
            case "delete":
                self._table().delete(f"id >= {low} and id < {high}")
            case "update":
                self._table().update(updates={"n": "7"}, predicate=f"id >= {low} and id < {high}")
            case "part":
                predicate = f"id >= {low} and id < {high}"
                self._table().update(updates={"part": "'ü'"}, predicate=predicate)
            case "place" if self._by == ["part"]:
                rows = self._rows(chance.choice([1, 5]))
                rows = rows.set_column(
                    rows.schema.get_field_index("part"), "part", pa.array(["x y"] * len(rows))
                )
                deltalake.write_deltalake(
                    self.path, rows, mode="overwrite", predicate="part = 'x y'"
                )
            case "merge":
                ids = chance.sample(range(self._next + 9), 8)
                self._next = max(self._next, *(one + 1 for one in ids))
                merger = self._table().merge(self._rows(0, ids), "s.id = t.id", "s", "t")
                merger = merger.when_matched_update_all().when_not_matched_insert_all()
                if chance.random() < 0.5:
                    merger = merger.when_not_matched_by_source_delete(f"t.id < {low} - 20")
                merger.execute()
            case "compact":
                self._table().optimize.compact()
            case "z-order":
                self._table().optimize.z_order(["id"])
            case "restore":
                table = self._table()
                former = chance.randint(max(0, table.version() - 4), max(0, table.version() - 1))
                old = deltalake.DeltaTable(self.path, version=former)
                if old.schema() == table.schema():
                    with suppress(DeltaError):  # its files may be gone
                        table.restore(former)
            case "column" if chance.random() < 0.3:
                kind = chance.choice(["n", *more_columns(chance)])
                others = [int(name[1:]) for name in self._names if name[1:].isdigit()]
                self._names[f"x{max(others, default=len(self._names)) + 1}"] = kind
                rows = self._rows(2)
                deltalake.write_deltalake(self.path, rows, mode="append", schema_mode="merge")
            case "replace" if chance.random() < 0.3:
                fixed = {"s", "n", "part", *(self._by or ())}
                gone = chance.choice(sorted(set(self._names) - fixed) or [""])
                self._names.pop(gone, None)
                rows = self._rows(chance.choice([1, 20]))
                deltalake.write_deltalake(
                    self.path, rows, mode="overwrite", schema_mode="overwrite"
                )
            case "vacuum" if chance.random() < 0.3:
                self._table().vacuum(0, dry_run=False, enforce_retention_duration=False)
            case "nothing":
                self._table().create_checkpoint()
        return what


class DuckDbDeltaHistory(DeltaHistory):
    """A Delta table to which DuckDB appends rows, and deltalake makes the other changes.

    Args:
        path: Path of the table.
        seed: Seed of the changes.
        insert: Function that lets DuckDB append the rows of the file of a number, next to the
            table, and returns whether it did.
    """

    is_partitioned = False  # DuckDB 2.0.1 names folders in other letters than its log

    def __init__(self, path: Path, seed: int, insert: Callable[[Path, int], bool]) -> None:
        super().__init__(path, seed)
        self._insert, self._given = insert, 0

    def _append(self, rows: pa.Table) -> None:
        self._given += 1
        pq.write_table(rows, f"{self.path}-{self._given}.parquet")
        if not self._insert(self.path, self._given):
            super()._append(rows)
