"""Random histories of Delta tables with deletion vectors and column mapping, beside a model."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.delta_writer import Column, DeltaLog, File
from support.histories.columns import PLACED, Values
from support.histories.model import Model

_KINDS = {
    "s": "string", "n": "integer", "part": "string", "price": "decimal(9,2)", "day": "date",
    "at": "timestamp", "local": "timestamp_ntz", "flag": "boolean", "real": "float",
    "wide": "double", "blob": "binary",
}  # fmt: skip

Row = dict[str, Any]  # values by stored name


class DeltaLogHistory:
    """A table with unique ids whose log is written by `DeltaLog`, and a model of its rows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self._values = Values(chance)
        names = ["s", "n", "part", *chance.sample(sorted(set(_KINDS) - {"s", "n", "part"}), 2)]
        mapping = chance.choice(["none", "name", "name", "id"])
        columns = [Column("id", "id", 1, "long")]
        for number, name in enumerate(names, 2):
            stored = name if mapping == "none" else f"col-{number}"
            columns.append(Column(name, stored, number, _KINDS[name]))
        # Values of each column are those of a column of `KINDS`.
        self._sources = {one.stored: one.name for one in columns[1:]}
        may = [one for one in names if one in PLACED]
        by = chance.sample(may, min(len(may), chance.choice([0, 1, 1, 2])))
        placed = [one.stored for one in columns if one.name in by]
        self.table = DeltaLog(folder, columns, placed, mapping)
        self._rows: dict[str, list[Row]] = {}  # by the path of their file
        self._next, self._last = 0, len(columns)
        #: The rows of each version.
        self.snapshots: dict[int, Model] = {0: {}}
        self._former: list[list[File]] = []
        self._append(range(20))

    def change(self) -> str:
        """Make one commit, and return what it is."""
        chance, table = self._chance, self.table
        what = chance.choice(["append", "vectors", "vectors", "vectors", "update", "update",
                              "remove", "compact", "restore", "overwrite", "checkpoint",
                              "rename", "drop", "add", "swap"])  # fmt: skip
        match what:
            case "append":
                self._append(range(self._next, self._next + chance.choice([0, 1, 8])))
            case "vectors":
                removed, added, _ = self._deleted()
                self._commit(added, removed)
            case "update":
                removed, added, ids = self._deleted()
                self._commit([*added, *self._written(list(map(self._row, ids)))], removed)
            case "remove" if table.files:
                self._commit([], [chance.choice(table.files)])
            case "compact":
                gone = self._chosen()
                rows = [row for one in gone for row in self._alive(one)]
                self._commit(self._written(rows), gone)
            case "restore" if self._former:
                old = chance.choice(self._former[-4:])
                now = table.files
                self._commit([one for one in old if one not in now],
                             [one for one in now if one not in old])  # fmt: skip
            case "overwrite":
                rows = list(map(self._row, range(chance.choice([0, 5, 20]))))
                self._commit(self._written(rows), table.files)
            case "checkpoint":
                forget = chance.random() < 0.4
                table.checkpoint(forget=forget)
                if forget:
                    newest = table.version
                    self.snapshots = {newest: self.snapshots[newest]}
            case "rename" | "drop" | "add" | "swap":
                self._evolve(what)
        return what

    # Writes.

    def _commit(self, added: Sequence[File], removed: Sequence[File] = ()) -> None:
        self._former.append(self.table.files)
        self.table.commit(added, removed)
        self.snapshots[self.table.version] = self.expected()

    def _append(self, ids: Sequence[int]) -> None:
        self._next = max([self._next, *(one + 1 for one in ids)])
        self._commit(self._written(list(map(self._row, ids))))

    def _row(self, one: int) -> Row:
        row: Row = {"id": one}
        for column in self.table.columns[1:]:
            row[column.stored] = self._values.one(self._sources[column.stored])
        return row

    def _written(self, rows: Sequence[Row]) -> list[File]:
        """Write data files, one for each partition."""
        chance, by = self._chance, self.table.by
        places: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            places.setdefault(tuple(row[name] for name in by), []).append(row)
        files = []
        for place, those in places.items():
            values = {name: _text(one) for name, one in zip(by, place, strict=True)}
            folder = chance.choice(["", "ab", "a b%20/ü=#?"])
            columns = {
                column.stored: [row[column.stored] for row in those]
                for column in self.table.columns
            }
            file = self.table.data_file(columns, values, folder)
            self._rows[file.path] = those
            files.append(file)
        return files

    def _deleted(self) -> tuple[list[File], list[File], list[int]]:
        """Delete rows of some files, and return these before and after, and the ids."""
        removed, added, ids = [], [], []
        for one in self._chosen():
            there = [at for at in range(one.rows) if at not in one.deleted]
            gone = self._chance.sample(there, min(len(there), self._chance.choice([1, 2, 9])))
            if gone:
                removed.append(one)
                added.append(self.table.with_deleted(one, gone, self._chance.choice("iup")))
                ids += [self._rows[one.path][at]["id"] for at in gone]
        return removed, added, ids

    def _chosen(self) -> list[File]:
        files = [one for one in self.table.files if one.rows]
        return self._chance.sample(files, min(len(files), self._chance.choice([1, 3])))

    def _evolve(self, what: str) -> None:
        """Change the columns of the table."""
        chance, columns = self._chance, list(self.table.columns)
        if self.table.mapping == "none" and what != "add":
            return
        free = [one for one in columns[1:] if one.stored not in self.table.by]
        match what:
            case "rename":
                one = chance.choice(columns[1:])
                name = f"r {chance.randrange(10**6)}"
                columns[columns.index(one)] = replace(one, name=name)
            case "swap":
                one, other = chance.sample(columns[1:], 2)
                columns[columns.index(one)] = replace(one, name=other.name)
                columns[columns.index(other)] = replace(other, name=one.name)
            case "drop" if len(free) > 1:
                columns.remove(chance.choice(free))
            case "add":
                self._last += 1
                source = chance.choice(["n", "s", "day", "at"])
                stored = f"x{self._last}"
                self._sources[stored] = source
                columns.append(Column(f"x{self._last}", stored, self._last, _KINDS[source]))
        self.table.evolve(columns)
        self.snapshots[self.table.version] = self.expected()

    # The model.

    def _alive(self, file: File) -> list[Row]:
        names = [column.stored for column in self.table.columns]
        rows = self._rows[file.path]
        return [
            {name: row.get(name) for name in names}
            for at, row in enumerate(rows)
            if at not in file.deleted
        ]

    def expected(self) -> Model:
        """Return the rows of the table, by the rules."""
        rows = [row for one in self.table.files for row in self._alive(one)]
        assert len({row["id"] for row in rows}) == len(rows)
        names = [column.stored for column in self.table.columns[1:]]
        return {row["id"]: tuple(row[name] for name in names) for row in rows}


def _text(value: Any) -> str | None:
    """Return the value of a partition as the log has it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)
