"""Random histories of Iceberg tables with delete files of every kind, beside a model of the rules.

Source: "Scan Planning" and "Delete Formats" of the specification.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.histories.columns import KINDS, Values
from support.histories.model import Model
from support.iceberg_writer import (
    TYPES,
    Column,
    File,
    IcebergTable,
    Part,
    transformed,
)

_KINDS = {
    "s": "string", "n": "int", "part": "string", "price": "decimal(9, 2)", "day": "date",
    "at": "timestamptz", "local": "timestamp", "flag": "boolean", "real": "float",
    "wide": "double", "blob": "binary",
}  # fmt: skip
_WIDER = {"int": "long", "float": "double", "decimal(9, 2)": "decimal(12, 2)"}
_TIMES = ["identity", "year", "month", "day"]
_TRANSFORMS = {
    "part": ["identity", "truncate[2]"], "s": ["identity", "truncate[1]"],
    "n": ["identity", "truncate[10]", "void"], "day": _TIMES,
    "at": ["year", "month", "day", "identity"], "local": ["year", "day"], "flag": ["identity"],
}  # fmt: skip

Row = dict[int, Any]  # values by field id


@dataclass
class _Data:
    """A data file."""

    file: File
    sequence: int
    rows: list[Row]
    positions: set[int] = field(default_factory=set)  # of position delete files
    vector: set[int] | None = None


@dataclass
class _Keys:
    """An equality delete file."""

    file: File
    sequence: int
    ids: Sequence[int]
    keys: list[tuple[Any, ...]]


class DeletesHistory:
    """A table that merges on read, and a model of its rows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self._values = Values(chance)
        names = ["s", "n", "part", *chance.sample(sorted(set(_KINDS) - {"s", "n", "part"}), 2)]
        columns = [Column(1, "id", "long")]
        columns += [Column(at, name, _KINDS[name]) for at, name in enumerate(names, 2)]
        # Values of each column are those of a column of `KINDS`.
        self._sources = {column.number: column.name for column in columns[1:]}
        self.table = IcebergTable(folder, columns, version=chance.choice([2, 2, 3]))
        self._next, self._last, self._parts = 0, len(columns), 1000
        self._data: list[_Data] = []
        self._keys: list[_Keys] = []
        #: The rows of each snapshot, and whether it has deleted keys.
        self.snapshots: dict[int, Model] = {}
        self.has_keys: dict[int, bool] = {}
        #: Whether DuckDB 2.0.1 may read other rows than the specification.
        self.duckdb_may_differ: dict[int, bool] = {}
        self._vectors: list[File] = []
        if chance.random() < 0.5:
            self._place()
        self._commit(self._appended(range(20)))

    def change(self) -> str:
        """Make one commit, and return what it is."""
        chance = self._chance
        what = chance.choice(["append", "positions", "positions", "keys", "keys", "upsert",
                              "upsert", "vectors", "place", "add", "rename", "drop", "widen",
                              "compact", "remove", "nothing", "upgrade"])  # fmt: skip
        match what:
            case "append":
                count = chance.choice([0, 1, 8])
                self._commit(self._appended(range(self._next, self._next + count)))
            case "positions" if self.table.version == 2:
                self._delete_positions()
            case "vectors" | "positions":
                self._delete_by_vectors()
            case "keys":
                self._commit([], self._deleted_keys(None))
            case "upsert":
                ids = chance.sample(range(self._next + 3), 3)
                # Rows of these ids in older files are deleted.
                self._commit(self._appended(ids), self._deleted_keys(ids))
            case "place":
                self._place()
                self._commit(self._appended(range(self._next, self._next + 3)))
            case "compact":
                self._compact()
            case "remove" if self._data:
                gone = chance.choice(self._data)
                self._data.remove(gone)
                self._commit([], removed=[gone.file])
            case "nothing":
                self._commit([])
            case "upgrade":
                self.table.version = 3
            case _:
                self._evolve(what)
        return what

    # Writes.

    def _commit(
        self,
        data: Sequence[_Data],
        keys: Sequence[_Keys] = (),
        others: Sequence[File] = (),
        removed: Sequence[File] = (),
    ) -> None:
        new: list[_Data | _Keys] = [*data, *keys]
        number = self.table.commit([*(one.file for one in new), *others], removed)
        for one in new:
            one.sequence = self.table.sequence
        self._data += data
        self._keys += keys
        self.snapshots[number] = self.expected()
        self.has_keys[number] = bool(self._keys)
        self.duckdb_may_differ[number] = any(
            self._meets_null(keys) or self._is_elsewhere(keys) for keys in self._keys
        )

    def _row(self, one: int) -> Row:
        row: Row = {1: one}
        for column in self.table.columns[1:]:
            row[column.number] = self._values.one(self._sources[column.number])
        return row

    def _appended(self, ids: Sequence[int]) -> list[_Data]:
        """Write data files with new rows, one for each partition."""
        self._next = max([self._next, *(one + 1 for one in ids)])
        return self._written([self._row(one) for one in ids])

    def _written(self, rows: Sequence[Row]) -> list[_Data]:
        places: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            places.setdefault(self._place_of(row), []).append(row)
        return [
            _Data(self.table.data_file(self._arrow(those), place), 0, those)
            for place, those in places.items()
        ]

    def _arrow(self, rows: Sequence[Row]) -> pa.Table:
        schema = self.table.arrow
        return pa.table(
            [
                pa.array([row[column.number] for row in rows], TYPES[column.kind])
                for column in self.table.columns
            ],
            schema=schema,
        )

    def _place_of(self, row: Row) -> tuple[Any, ...]:
        parts = self.table.specs[self.table.spec]
        return tuple(transformed(part.transform, row.get(part.source)) for part in parts)

    def _delete_positions(self) -> None:
        """Delete rows by their positions; files with a deletion vector have none."""
        places: dict[tuple[Any, ...], dict[Path, list[int]]] = {}
        for one in self._chosen():
            gone = self._chance.sample(range(len(one.rows)), min(2, len(one.rows)))
            place = (one.file.spec, one.file.values)
            places.setdefault(place, {})[one.file.path] = gone
            one.positions |= set(gone)
        files = [self.table.positions_file(those, *place) for place, those in places.items()]
        self._commit([], others=files)

    def _delete_by_vectors(self) -> None:
        if self.table.version == 2:
            return
        said = {}
        for one in self._chosen():
            gone = self._chance.sample(range(len(one.rows)), min(2, len(one.rows)))
            # Readers leave out the older position deletes of a file that has a vector.
            one.vector = {*(one.positions if one.vector is None else one.vector), *gone}
            said[one.file.path] = sorted(one.vector), one.file.spec, one.file.values
        if said:
            paths = {f"file://{path}" for path in said}
            former = [one for one in self._vectors if one.said["referenced_data_file"] in paths]
            files = self.table.vector_files(said)
            self._vectors = [one for one in self._vectors if one not in former] + files
            self._commit([], others=files, removed=former)

    def _chosen(self) -> list[_Data]:
        files = [one for one in self._data if one.rows]
        return self._chance.sample(files, min(len(files), self._chance.choice([1, 3])))

    def _deleted_keys(self, ids: Sequence[int] | None) -> list[_Keys]:
        """Write deleted keys: of ids in all partitions, or of random columns."""
        chance = self._chance
        columns = self.table.columns[:1]
        if ids is None and chance.random() < 0.7:
            columns = sorted(chance.sample(self.table.columns, chance.choice([1, 2])),
                             key=self.table.columns.index)  # fmt: skip
        count = chance.choice([1, 3])
        rows = [{1: one} for one in ids] if ids is not None else [
            self._row(chance.randrange(self._next + 1)) for _ in range(count)
        ]  # fmt: skip
        keys = [tuple(row[column.number] for column in columns) for row in rows]
        table = pa.table({
            column.name: pa.array([key[at] for key in keys], TYPES[column.kind])
            for at, column in enumerate(columns)
        })  # fmt: skip
        places: list[tuple[int, tuple[Any, ...]]] = [(0, ())]
        if ids is None and self._data and chance.random() < 0.5:
            places = [(one.file.spec, one.file.values) for one in self._chosen()][:1] or places
        return [
            _Keys(self.table.keys_file(table, *place), 0, [one.number for one in columns], keys)
            for place in places
        ]

    def _compact(self) -> None:
        """Write the rows of some files again, as they are."""
        gone = self._chosen()
        rows = [self._now(row) for one in gone for row in self._alive_of(one)]
        for one in gone:
            self._data.remove(one)
        paths = {f"file://{one.file.path}" for one in gone}
        vectors = [one for one in self._vectors if one.said["referenced_data_file"] in paths]
        self._vectors = [one for one in self._vectors if one not in vectors]
        self._commit(self._written(rows), removed=[*(one.file for one in gone), *vectors])

    # Schemas and partitions.

    def _place(self) -> None:
        """Change the columns by which new files are partitioned."""
        chance, parts = self._chance, []
        may = [one for one in self.table.columns[1:] if self._sources[one.number] in _TRANSFORMS]
        for column in chance.sample(may, min(len(may), chance.choice([0, 1, 2]))):
            transform = chance.choice(_TRANSFORMS[self._sources[column.number]])
            kind = column.kind
            if transform in ("year", "month"):
                kind = "int"
            elif transform == "day":
                kind = "date"
            parts.append(Part(self._parts, column.number, f"p{self._parts}", transform, kind))
            self._parts += 1
        if chance.random() < 0.3:  # as if the partitions of a table of version 1 are removed
            parts = [replace(one, transform="void") for one in self.table.specs[self.table.spec]]
        self.table.place_by(parts)

    def _evolve(self, what: str) -> None:
        """Change the columns of the table."""
        chance, columns = self._chance, list(self.table.columns)
        sources = {part.source for spec in self.table.specs for part in spec}
        plain = [one for one in columns[1:] if one.number not in sources]
        used = {one for keys in self._keys for one in keys.ids}
        free = [one for one in plain if one.number not in used]
        match what:
            case "add":
                self._last += 1
                name = chance.choice(["n", "s", "day"])
                self._sources[self._last] = name
                default = None
                if self.table.version > 2 and chance.random() < 0.5:
                    default = {"n": 5, "s": "new", "day": "2024-02-29"}[name]
                columns.append(Column(self._last, f"x{self._last}", _KINDS[name], default))
            case "rename":
                one = chance.choice(columns[1:])
                columns[columns.index(one)] = replace(one, name=f"r{chance.randrange(10**6)}")
            case "drop" if len(free) > 1:
                columns.remove(chance.choice(free))
            case "widen" if plain:
                one = chance.choice(plain)
                wider = replace(one, kind=_WIDER.get(one.kind, one.kind))
                columns[columns.index(one)] = wider
        self.table.evolve(columns)

    # The model.

    def _now(self, row: Row) -> Row:
        """Return a row in the columns of the newest schema."""
        return {
            column.number: row.get(column.number, _default(column)) for column in self.table.columns
        }

    def _alive_of(self, one: _Data) -> list[Row]:
        gone = one.positions if one.vector is None else one.vector
        return [
            row
            for at, row in enumerate(one.rows)
            if at not in gone and not any(self._deletes(keys, one, row) for keys in self._keys)
        ]

    def _is_elsewhere(self, keys: _Keys) -> bool:
        """Return whether a row that stays has one of the keys.

        That is a row in another partition, or in a file as new as the keys that has a vector.
        """
        return any(
            self._has_key(keys, row) and not self._deletes(keys, one, row)
            for one in self._data
            if keys.sequence > one.sequence or one.vector is not None
            for row in one.rows
        )

    def _meets_null(self, keys: _Keys) -> bool:
        """Return whether keys are compared with null, or with a column that a file lacks."""
        rows = [row for one in self._data for row in one.rows]
        there = [row.get(number) for row in rows for number in keys.ids]
        return None in there or any(None in key for key in keys.keys)

    def _deletes(self, keys: _Keys, one: _Data, row: Row) -> bool:
        # Those of a spec without partitions are deleted in all partitions.
        is_there = all(part.transform == "void" for part in self.table.specs[keys.file.spec]) or (
            (keys.file.spec, keys.file.values) == (one.file.spec, one.file.values)
        )
        return is_there and keys.sequence > one.sequence and self._has_key(keys, row)

    def _has_key(self, keys: _Keys, row: Row) -> bool:
        now = self._now(row)
        return tuple(now[number] for number in keys.ids) in keys.keys

    def _alive(self) -> list[Row]:
        return [row for one in self._data for row in self._alive_of(one)]

    def expected(self) -> Model:
        """Return the rows of the table, by the rules."""
        numbers = [column.number for column in self.table.columns[1:]]
        rows = [self._now(row) for row in self._alive()]
        assert len({row[1] for row in rows}) == len(rows)
        return {row[1]: tuple(row[number] for number in numbers) for row in rows}


def _default(column: Column) -> Any:
    if column.default is None or column.kind != "date":
        return column.default
    return KINDS["day"][1][1]
