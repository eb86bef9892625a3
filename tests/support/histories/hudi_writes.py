"""Random histories of Hudi tables, by lookupstore, beside a model."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from lookupstore.hudi import HudiTable, WriteOptions
from support.histories.columns import KINDS, Values, more_columns
from support.histories.model import Model

_EVOLVES = WriteOptions(evolve=True)
# hudi-rs has no timestamps without a time zone.
_WITHOUT = {"local"}


class HudiHistory:
    """A table with unique ids, to which random changes are made, and a model of its rows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self._values = Values(chance)
        # Values of each column are those of a column of `KINDS`.
        self._names = {name: name for name in ["s", "n", *more_columns(chance, _WITHOUT)]}
        self._parts = chance.random() < 0.6
        self.table = HudiTable.create(
            folder,
            self.schema,
            record_key="id",
            partition_by="part" if self._parts else None,
            version=chance.choice([6, 8, 9]),
            hive_style=chance.random() < 0.5,
            url_encode=True,
        )
        self._next = 0
        self._rows: Model = {}
        #: The rows of each instant.
        self.snapshots: dict[str, Model] = {}
        self._columns: dict[str, dict[str, str]] = {}
        self._saved: list[str] = []
        self._write("insert", range(20))

    @property
    def schema(self) -> pa.Schema:
        kinds = {name: KINDS[kind][0] for name, kind in self._names.items()}
        return pa.schema({"id": pa.int64(), "part": pa.string(), **kinds})

    def change(self) -> str:
        """Make one change, and return which."""
        chance = self._chance
        what = chance.choice(["upsert", "upsert", "insert", "bulk_insert", "delete", "delete",
                              "insert_overwrite", "insert_overwrite_table", "delete_partition",
                              "add", "rollback", "savepoint", "restore", "clean",
                              "cluster", "update"])  # fmt: skip
        match what:
            case "insert" | "bulk_insert":
                count = chance.choice([1, 10])
                self._write(what, range(self._next, self._next + count))
            case "add" if chance.random() < 0.3:
                self._names[f"x{len(self._names)}"] = chance.choice(["n", "s", "day"])
                self._rows = {one: (*row, None) for one, row in self._rows.items()}
                self._write("upsert", self._some())
            case "upsert":
                self._write(what, self._some())
            case "delete":
                ids = self._some()
                rows = self._arrow({one: self._row(one) for one in ids})
                self.table.delete(rows)
                self._done({one: row for one, row in self._rows.items() if one not in ids})
            case "update":
                low = chance.randrange(self._next + 1)
                self.table.update({"n": "7"}, where=f"id >= {low} and id < {low + 5}")
                at = list(self._names).index("n") + 1
                self._done({
                    one: (*row[:at], 7, *row[at + 1:]) if low <= one < low + 5 else row
                    for one, row in self._rows.items()
                })  # fmt: skip
            case "insert_overwrite_table":
                self._write(what, range(chance.choice([1, 20])), {})
            case "insert_overwrite":
                ids = self._some()
                places = {self._place(one) for one in ids}
                kept = {one: row for one, row in self._rows.items() if row[0] not in places}
                self._write(what, ids, kept)
            case "delete_partition" if self._parts:
                groups = sorted({group.id.partition for group in self.table.file_groups()})
                gone = chance.choice(groups or [""])
                if gone:
                    self._delete_partition(gone)
            case "cluster":
                self.table.cluster(["n"], curve="linear")
                self._done(self._rows)
            case "savepoint" if self._times()[-1] not in self._saved:
                self._saved.append(self.table.savepoint(user="me").time)
            case "restore" if self._saved:
                self.table.restore(self._saved[-1])
                self._back_to(self._saved[-1])
            case "rollback":
                times = self._times()
                if len(times) > 1 and times[-2] in self.snapshots:
                    with suppress(ValueError):  # a savepoint or a clean keeps it
                        self.table.rollback(times[-1])
                        self._back_to(times[-2])
            case "clean":
                self._clean(1 + chance.randrange(5))
        return what

    def _delete_partition(self, name: str) -> None:
        # The texts of the folders of partitions are compared by their rows.
        there = self.table.scan().to_pylist()
        ids = {row["id"] for row in there if row["_hoodie_partition_path"] == name}
        self.table.delete_partition(name)
        self._done({one: row for one, row in self._rows.items() if one not in ids})

    def _clean(self, retained: int) -> None:
        self.table.clean(retain_commits=retained)
        times = list(self.snapshots)
        for time in times[: -retained or None]:
            if time not in self._saved:
                del self.snapshots[time]

    # Writes.

    def _some(self) -> list[int]:
        return self._chance.sample(range(self._next + 3), 5)

    def _place(self, one: int) -> str | None:
        return self._values.places[one % 3] if self._parts else "x"

    def _row(self, one: int) -> tuple[Any, ...]:
        values = (self._values.one(kind) for kind in self._names.values())
        return (self._place(one), *values)

    def _arrow(self, rows: Model) -> pa.Table:
        names = self.schema.names[1:]
        columns = {"id": [*rows]}
        columns |= {name: [row[at] for row in rows.values()] for at, name in enumerate(names)}
        return pa.table(columns, schema=self.schema)

    def _write(self, verb: str, ids: Iterable[int], kept: Model | None = None) -> None:
        """Write rows, and keep others. Default: all."""
        rows = {one: self._row(one) for one in ids}
        self._next = max([self._next, *(one + 1 for one in rows)])
        getattr(self.table, verb)(self._arrow(rows), options=_EVOLVES)
        self._done({**(self._rows if kept is None else kept), **rows})

    def _done(self, rows: Model) -> None:
        """Record the rows of the newest instant."""
        self._rows = rows
        newest = self._times()[-1]
        self.snapshots[newest], self._columns[newest] = rows, dict(self._names)

    def _times(self) -> list[str]:
        return [one.time for one in self.table.timeline() if one.is_completed and one.is_write]

    def _back_to(self, time: str) -> None:
        """Forget what came after an instant."""
        self._rows, self._names = self.snapshots[time], dict(self._columns[time])
        for later in [one for one in self.snapshots if one > time]:
            del self.snapshots[later]

    def expected(self) -> Model:
        """Return the rows of the table."""
        return self._rows

    def expected_at(self, time: str) -> Model:
        """Return the rows of an instant, in the columns of the newest schema."""
        count = len(self.schema) - 1
        return {
            one: row + (None,) * (count - len(row)) for one, row in self.snapshots[time].items()
        }
