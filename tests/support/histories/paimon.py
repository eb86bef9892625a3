"""Random histories of Paimon tables, beside a model of its rules."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.paimon_tables import File, PaimonTable

ROWS = {"id": "INT NOT NULL", "name": "STRING", "at": "BIGINT"}
TYPES = pa.schema([pa.field("id", pa.int32()), ("name", pa.string()), ("at", pa.int64())])


class PaimonHistory:
    """A table with a primary key to which random changes are made, and a model of its rows.

    The model knows rules of Paimon, not files: it has all rows ever written.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self._parts = chance.random() < 0.5
        self._sequence = chance.random() < 0.4
        fields = {**ROWS, **({"day": "STRING"} if self._parts else {})}
        options = {"bucket": "2", **({"sequence.field": "at"} if self._sequence else {})}
        self.table = PaimonTable(
            folder,
            fields,
            ["id", *(["day"] if self._parts else [])],
            ["day"] if self._parts else [],
            options,
            codec=chance.choice(["null", "deflate", "zstandard"]),
        )
        self._number = 0
        # Rows of each file in their order: key, values that decide, kind, row.
        self._rows: dict[str, list[tuple[Any, Any, int, dict[str, Any]]]] = {}
        self._levels: dict[str, tuple[tuple[Any, ...], int, int]] = {}

    def _place(self) -> tuple[tuple[Any, ...], int]:
        day = (self._chance.choice(["x", "a day=1", "", None]),) if self._parts else ()
        return day, self._chance.randrange(2)

    def _file(
        self, rows: list[tuple[Any, Any, int, dict[str, Any]]], place: Any, level: int
    ) -> File:
        rows = sorted(rows, key=lambda row: row[0])
        names = list(self.table.fields)
        columns = {name: [row[3][name] for row in rows] for name in names}
        kinds = {"id": pa.int32(), "at": pa.int64()}
        table = pa.table({
            name: pa.array(values, kinds.get(name, pa.string())) for name, values in columns.items()
        })  # fmt: skip
        file = self.table.add(
            table,
            partition=["a day%3D1" if one == "a day=1" else one for one in place[0]],
            values=place[0],
            bucket=place[1],
            level=level,
            sequence=[row[1][1] for row in rows],
            kinds=[row[2] for row in rows],
            file_format=self._chance.choice(["parquet", "orc"]),
        )
        self._rows[file.name] = rows
        self._levels[file.name] = (*place, level)
        return file

    def change(self) -> str:
        """Make one commit, and return what it is."""
        chance, place = self._chance, self._place()
        there = [name for name, (*where, _) in self._levels.items() if tuple(where) == place]
        if len(there) > 1 and chance.random() < 0.3:
            self._compact(place, there)
            return "compact"
        keys = sorted(chance.sample(range(place[1], 30, 2), chance.choice([1, 3, 12])))
        rows = []
        for key in keys:
            self._number += 1
            at = chance.choice([None, *range(5)])
            row = {"id": key, "name": chance.choice(["", "ü", f"n{self._number}", None]), "at": at}
            if self._parts:
                row["day"] = place[0][0]
            kind = chance.choices([0, 2, 3, 1], [6, 2, 2, 1])[0]
            first = (-1 if at is None else at) if self._sequence else 0
            rows.append((key, (first, self._number), kind, row))
        self.table.commit(self._file(rows, place, 0))
        return "write"

    def _compact(self, place: Any, there: list[str]) -> None:
        """Merge some files into one of a level, as a compaction does; keep deletions or not."""
        chance = self._chance
        whole = chance.random() < 0.5
        chosen = there if whole else self._newest(there)
        rows = self._merged([row for name in chosen for row in self._rows[name]])
        if whole:
            rows = [row for row in rows if row[2] in (0, 2)]
        made = [self._file(rows, place, 5 if whole else 3)] if rows else []
        removed = [self.table.files[name] for name in chosen]
        self.table.commit(*made, removed=removed)
        for name in chosen:
            del self._rows[name], self._levels[name]

    def _newest(self, there: list[str]) -> list[str]:
        return sorted(there, key=lambda name: max(row[1][1] for row in self._rows[name]))[-2:]

    @staticmethod
    def _merged(rows: Sequence[Any]) -> list[Any]:
        newest: dict[Any, Any] = {}
        for row in rows:
            if row[0] not in newest or newest[row[0]][1] < row[1]:
                newest[row[0]] = row
        return list(newest.values())

    def expected(self) -> list[dict[str, Any]]:
        """Return the rows of the table, by the rules."""
        places: dict[Any, list[Any]] = {}
        for name, (*where, _) in self._levels.items():
            places.setdefault(tuple(where), []).extend(self._rows[name])
        return [
            row[3] for rows in places.values() for row in self._merged(rows) if row[2] in (0, 2)
        ]
