"""Random histories of Paimon tables whose columns change, beside a model of the rules.

Keys are merged, or replaced rows are deleted by deletion vectors, or rows are only appended.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lookupstore.compacted.schema import paimon_schema
from support.histories.columns import PLACES, Values
from support.histories.model import Model
from support.paimon_tables import BITMAP, BITMAP64, File, PaimonTable

_KINDS: dict[str, Any] = {
    "s": "STRING", "n": "INT", "price": "DECIMAL(9, 2)", "large": "DECIMAL(38, 10)", "day": "DATE",
    "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "local": "TIMESTAMP(6)", "flag": "BOOLEAN",
    "real": "FLOAT", "wide": "DOUBLE", "blob": "BYTES",
    "tags": {"type": "ARRAY", "element": "STRING"},
    "pairs": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
}  # fmt: skip
_WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DECIMAL(9, 2)": "DECIMAL(12, 2)"}
_EPOCH = datetime.date(1970, 1, 1)
# Characters that the names of folders have as their numbers.
_ESCAPED = "\"#%'*/:=?\\\x7f{}[]^"
#: Values of partitions, by the type of their column.
_PLACES: dict[str, list[Any]] = {
    "STRING": [one for one in [*PLACES, "", " ", "[a]", "{b}^"] if one is not None],
    "INT": [-1, 0, 7],
    "DATE": [datetime.date(1969, 12, 31), _EPOCH, datetime.date(2024, 2, 29)],
    "BOOLEAN": [True, False],
}

Row = dict[int, Any]  # values by field id


@dataclass
class _Data:
    """A data file.

    Attributes:
        file: The file.
        rows: Its rows, in their order.
        numbers: Their sequence numbers.
        kinds: Their kinds.
        place: Its partition and bucket.
        level: Its level.
        deleted: Positions in its deletion vector.
    """

    file: File
    rows: list[Row]
    numbers: list[int]
    kinds: list[int]
    place: tuple[Any, int]
    level: int
    deleted: set[int] = field(default_factory=set)


class TypesHistory:
    """A table with unique ids to which random changes are made, and a model of its rows.

    Args:
        folder: Folder of the table.
        seed: Seed of all choices.

    Attributes:
        table: The table.
        mode: `keys`: rows of one key are merged. `vectors`: deletion vectors delete those that are
            replaced. `append`: the table has no key.
        has_pypaimon: Whether pypaimon can read the table: its deletion vectors have 32 bits.
        snapshots: The rows of each snapshot.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self._values = Values(chance)
        self.mode: str = chance.choice(["keys", "vectors", "append"])
        names = ["s", "n", *chance.sample(sorted(set(_KINDS) - {"s", "n"}), 3)]
        kind = chance.choice([None, "STRING", "STRING", "INT", "DATE", "BOOLEAN"])
        places = _PLACES[kind] if kind else [None]
        self._places = chance.sample(places, min(len(places), 3))
        if kind and self.mode == "append":
            self._places[0] = None
        fields: dict[str, Any] = {"id": "BIGINT NOT NULL", **{name: _KINDS[name] for name in names}}
        fields |= {"part": kind} if kind else {}
        parts = ["part"] if kind else []
        options = {"bucket": "-1" if self.mode == "append" else "2"}
        if self.mode != "keys":
            options["deletion-vectors.enabled"] = "true"
        keys = [] if self.mode == "append" else ["id", *parts]
        if keys and kind:
            fields["part"] = f"{kind} NOT NULL"
        self.table = PaimonTable(folder, fields, keys, parts, options)
        # Values of each column are those of a column of `KINDS`, by its field id.
        self._sources = {self.table.ids[name]: name for name in names}
        self._magic = chance.choice([BITMAP, BITMAP64])
        self.has_pypaimon: bool = self.mode == "keys" or self._magic == BITMAP
        self._data: list[_Data] = []
        self._next = self._number = 0
        self.snapshots: dict[int, Model] = {}
        self._write(range(12))

    def change(self) -> str:
        """Make one commit or change of the schema, and return what it is."""
        chance = self._chance
        what = chance.choice(["write", "write", "update", "update", "delete", "delete", "compact",
                              "nothing", "add", "rename", "drop", "widen", "move"])  # fmt: skip
        some = chance.sample(range(self._next + 2), 4)
        match what:
            case "write":
                self._write(range(self._next, self._next + chance.choice([1, 8])))
            case "update":
                self._write(some)
            case "delete":
                self._delete(some)
            case "compact":
                self._compact()
            case "nothing":
                self._commit([])
            case _:
                self._evolve(what)
        return what

    # Writes.

    def _place(self, one: int) -> tuple[Any, int]:
        return self._places[one % len(self._places)], (0 if self.mode == "append" else one // 3 % 2)

    def _row(self, one: int) -> Row:
        row: Row = {self.table.ids["id"]: one}
        for name, number in self.table.ids.items():
            if name == "part":
                row[number] = self._place(one)[0]
            elif name != "id":
                row[number] = self._values.one(self._sources[number])
        return row

    def _write(self, ids: Sequence[int]) -> None:
        self._next = max([self._next, *(one + 1 for one in ids)])
        if self.mode != "keys":
            self._delete_positions(ids)
        self._commit(self._files([self._row(one) for one in ids], [0] * len(ids)))

    def _delete(self, ids: Sequence[int]) -> None:
        if self.mode == "keys":
            kinds = [self._chance.choice([3, 3, 1]) for _ in ids]
            self._commit(self._files([self._row(one) for one in ids], kinds))
        else:
            self._delete_positions(ids)
            self._commit([])

    def _delete_positions(self, ids: Sequence[int]) -> None:
        key = self.table.ids["id"]
        for one in self._data:
            one.deleted |= {at for at, row in enumerate(one.rows) if row[key] in ids}

    def _files(
        self,
        rows: Sequence[Row],
        kinds: Sequence[int],
        numbers: Sequence[int] | None = None,
        level: int | None = None,
    ) -> list[_Data]:
        """Write data files, one for each place."""
        key = self.table.ids["id"]
        if numbers is None:
            numbers = range(self._number, self._number + len(rows))
            self._number += len(rows)
        if level is None:
            level = 0 if self.mode != "vectors" else 1
        places: dict[tuple[Any, int], list[tuple[Row, int, int]]] = {}
        for one in zip(rows, numbers, kinds, strict=True):
            places.setdefault(self._place(one[0][key]), []).append(one)
        return [
            self._file(sorted(those, key=lambda one: one[0][key]), place, level)
            for place, those in places.items()
        ]

    def _file(self, those: list[tuple[Row, int, int]], place: tuple[Any, int], level: int) -> _Data:
        rows, numbers, kinds = ([one[at] for one in those] for at in range(3))
        schema = self.schema
        zoned = any(pa.types.is_timestamp(kind) and kind.tz for kind in schema.types)
        has_parts = bool(self.table.partition_keys)
        file = self.table.add(
            pa.table(
                [
                    pa.array([row[self.table.ids[name]] for row in rows], schema.field(name).type)
                    for name in schema.names
                ],
                schema=schema,
            ),
            partition=[_folder(place[0])] if has_parts else [],
            values=[_stored(place[0])] if has_parts else [],
            bucket=place[1],
            level=level,
            sequence=numbers,
            kinds=kinds,
            file_format="parquet" if zoned else self._chance.choice(["parquet", "orc"]),
        )
        return _Data(file, rows, numbers, kinds, place, level)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns in the types of Arrow."""
        named = [{"name": name, "type": kind} for name, kind in self.table.fields.items()]
        return pa.schema([one.remove_metadata() for one in paimon_schema(named)])

    def _commit(self, added: Sequence[_Data], removed: Sequence[_Data] = ()) -> None:
        self._data = [one for one in self._data if one not in removed] + list(added)
        for one in self._data:  # the table looks up entries of files by their names
            self.table.files[one.file.name] = one.file
        vectors = {one.file.name: sorted(one.deleted) for one in self._data if one.deleted}
        self.table.commit(
            *(one.file for one in added),
            removed=[one.file for one in removed],
            vectors=vectors,
            magic=self._magic,
        )
        self.snapshots[self.table.snapshot] = self.expected()

    def _compact(self) -> None:
        """Write the rows of a place again, as they are."""
        if not self._data:
            return
        place = self._chance.choice(self._data).place
        gone = [one for one in self._data if one.place == place]
        rows, numbers = [], []
        for number, row in self._alive(gone):
            rows.append(self._now(row))
            numbers.append(number)
        made = self._files(rows, [0] * len(rows), numbers, 0 if self.mode == "append" else 5)
        self._commit(made, gone)

    # The schema.

    def _evolve(self, what: str) -> None:
        chance, fields = self._chance, dict(self.table.fields)
        plain = [name for name in fields if name not in ("id", "part")]
        name = chance.choice(plain)
        renamed: dict[str, str] = {}
        match what:
            case "add":
                name, source = f"x{chance.randrange(10**6)}", chance.choice(["n", "s", "day"])
                fields[name] = _KINDS[source]
            case "rename":
                new = f"r {chance.randrange(10**6)}"
                fields = {new if one == name else one: kind for one, kind in fields.items()}
                renamed = {new: name}
            case "drop" if len(plain) > 2:
                del fields[name]
            case "widen" if isinstance(fields[name], str):
                fields[name] = _WIDER.get(fields[name], fields[name])
            case "move":
                fields = {"id": fields["id"], name: fields[name], **fields}
        self.table.evolve(fields, renamed)
        if what == "add":
            self._sources[self.table.ids[name]] = source

    # The model.

    def _now(self, row: Row) -> Row:
        return {number: row.get(number) for number in self.table.ids.values()}

    def _alive(self, files: Sequence[_Data]) -> list[tuple[int, Row]]:
        """Return the rows of files, with their sequence numbers."""
        rows = [
            (number, kind, row)
            for one in files
            for at, (number, kind, row) in enumerate(
                zip(one.numbers, one.kinds, one.rows, strict=True)
            )
            if at not in one.deleted
        ]
        if self.mode == "keys":
            key = self.table.ids["id"]
            newest = {row[key]: (number, kind, row) for number, kind, row in sorted(
                rows, key=lambda one: one[0]
            )}  # fmt: skip
            rows = [one for one in newest.values() if one[1] in (0, 2)]
        return [(number, row) for number, _, row in rows]

    def expected(self) -> Model:
        """Return the rows of the table, by the rules."""
        rows = [self._now(row) for _, row in self._alive(self._data)]
        names = [name for name in self.table.fields if name != "id"]
        key = self.table.ids["id"]
        assert len({row[key] for row in rows}) == len(rows)
        return {row[key]: tuple(row[self.table.ids[name]] for name in names) for row in rows}


def _stored(value: Any) -> Any:
    """Return the value of a partition as manifests have it."""
    return (value - _EPOCH).days if isinstance(value, datetime.date) else value


def _folder(value: Any) -> Any:
    """Return the value of a partition as the name of its folder has it."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str):
        return "".join(f"%{ord(one):02X}" if one in _ESCAPED else one for one in value)
    return str(_stored(value)).lower()
