"""Random histories of Paimon tables of all merge engines, beside a model of their rules."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from lookupstore.compacted.schema import paimon_schema
from support.histories.merge_model import DELETE, MergeModel, Row
from support.paimon_tables import File, PaimonTable

_ANY = ["last_value", "last_non_null_value", "first_value", "first_non_null_value"]
_NUMBER = [*_ANY, "sum", "product", "max", "min"]
# Types of columns, their values, and functions of them.
_COLUMNS: dict[str, tuple[Any, list[Any], list[str]]] = {
    "n": ("BIGINT", [-3, -2, -1, 1, 2], _NUMBER),
    "t": ("STRING", ["a", "b", "a,,c", "ü"], [*_ANY, "max", "min", "listagg"]),
    "f": ("DOUBLE", [0.5, -0.25, 2.0, 4.0], _NUMBER),
    "d": ("DECIMAL(18, 2)", [Decimal("0.05"), Decimal("-1.50"), Decimal("3.00")], _NUMBER),
    "b": ("BOOLEAN", [True, False], [*_ANY, "bool_and", "bool_or"]),
    "l": ({"type": "ARRAY", "element": "INT"}, [[], [1], [1, 2, 2], [3]], [*_ANY, "collect"]),
    "m": (
        {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
        [{}, {"x": 1}, {"x": 2, "y": 3}],
        [*_ANY, "merge_map"],
    ),
    "g": ("INT", [1, 2, 3], [*_ANY, "sum"]),
    "h": ("INT", [1, 2], [*_ANY, "max"]),
    "at": ("BIGINT", [0, 1, 2, 3, 4], _NUMBER),
}
_TAKEN_BACK = {"last_value", "last_non_null_value", "sum", "product", "collect", "merge_map"}


class EngineHistory:
    """A table of any engine to which random changes are made, and a model of its rows.

    Args:
        folder: Folder of the table.
        seed: Seed of all choices.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self.options = self._options()
        self._parts = chance.random() < 0.4
        fields: dict[str, Any] = {"id": "INT NOT NULL"}
        fields |= {name: kind for name, (kind, _, _) in _COLUMNS.items()}
        fields |= {"day": "STRING"} if self._parts else {}
        keys = ["id", *(["day"] if self._parts else [])]
        self.table = PaimonTable(folder, fields, keys, keys[1:], self.options)
        types = {name: str(kind) for name, kind in fields.items()}
        self.model = MergeModel(types, keys, self.options)
        named = [{"name": name, "type": kind} for name, kind in fields.items()]
        self.schema: pa.Schema = paimon_schema(named)
        self._number = 0
        self._rows: dict[str, list[Row]] = {}
        self._places: dict[str, tuple[Any, ...]] = {}

    def _options(self) -> dict[str, str]:
        chance = self._chance
        engine = chance.choice(["partial-update", "partial-update", "aggregation", "deduplicate"])
        options = {"merge-engine": engine, "bucket": "2"}
        if chance.random() < 0.4:
            options["sequence.field"] = chance.choice(["at", "at,h", "h"])
            options["sequence.field.sort-order"] = chance.choice(["ascending", "descending"])
        if chance.random() < 0.3:
            options["changelog-producer"] = "lookup"
        grouped: list[str] = []
        if engine == "partial-update" and chance.random() < 0.7:
            names = chance.sample(["n", "t", "f", "d", "b", "l", "m"], 5)
            options["fields.g.sequence-group"] = ",".join(names[:3])
            other = chance.choice(["h", "h,at"])
            options[f"fields.{other}.sequence-group"] = ",".join(names[3:])
            grouped = names
            if chance.random() < 0.4:
                removing = "partial-update.remove-record-on-sequence-group"
                options[removing] = chance.choice(["g", "h", "g,h"])
        elif engine == "partial-update":
            option = chance.choice(["ignore-delete", "partial-update.ignore-delete", "", "remove"])
            option = option.replace("remove", "partial-update.remove-record-on-delete")
            options |= {option: "true"} if option else {}
        elif chance.random() < 0.4:
            removes = "aggregation.remove-record-on-delete"
            options[removes if engine == "aggregation" else "ignore-delete"] = "true"
        for name, (_, _, functions) in _COLUMNS.items():
            is_sequence = name in options.get("sequence.field", "").split(",")
            may = engine == "aggregation" or (name in grouped and chance.random() < 0.7)
            if is_sequence or not may:
                continue
            function = chance.choice(functions)
            options[f"fields.{name}.aggregate-function"] = function
            if function in ("collect", "listagg") and chance.random() < 0.5:
                options[f"fields.{name}.distinct"] = "true"
            if function == "listagg" and chance.random() < 0.5:
                options[f"fields.{name}.list-agg-delimiter"] = chance.choice(["; ", ""])
                options.pop(f"fields.{name}.distinct", None)
            removes = options.get("aggregation.remove-record-on-delete") == "true"
            # `at` may be 0, by which nothing is divided.
            cannot = function not in _TAKEN_BACK or (function == "product" and name in ("d", "at"))
            if not removes and (cannot or chance.random() < 0.1):
                options[f"fields.{name}.ignore-retract"] = "true"
        if engine == "partial-update" and grouped and chance.random() < 0.2:
            options["fields.default-aggregate-function"] = "last_non_null_value"
        return options

    @property
    def _kinds(self) -> list[int]:
        """Return kinds of rows that Paimon merges."""
        options, chance = self.options, self._chance
        engine = options["merge-engine"]
        if engine == "partial-update":
            names = ("ignore-delete", "partial-update.ignore-delete")
            names = (*names, "partial-update.remove-record-on-delete")
            may = self.model.groups or any(name in options for name in names)
        elif engine == "aggregation" and "aggregation.remove-record-on-delete" in options:
            return chance.choices([0, 2, DELETE], [6, 2, 3])
        else:
            may = True
        return chance.choices([0, 2, 1, DELETE], [6, 2, 1, 2] if may else [6, 2, 0, 0])

    def _place(self) -> tuple[Any, ...]:
        day = (self._chance.choice(["x", "y", None]),) if self._parts else ()
        return day, self._chance.randrange(2)

    def _file(self, rows: Sequence[Row], place: Any, level: int) -> File:
        rows = sorted(rows, key=lambda row: row.values["id"])
        columns = {
            field.name: pa.array([_arrow(row.values[field.name]) for row in rows], field.type)
            for field in self.schema
        }
        file = self.table.add(
            pa.table(columns, schema=self.schema),
            partition=place[0],
            values=place[0],
            bucket=place[1],
            level=level,
            sequence=[row.number for row in rows],
            kinds=[row.kind for row in rows],
            file_format=self._chance.choice(["parquet", "orc"]),
        )
        self._rows[file.name] = [Row(row.values, row.kind, row.number, level) for row in rows]
        self._places[file.name] = (*place, level)
        return file

    def change(self) -> str:
        """Make one commit, and return what it is."""
        chance, place = self._chance, self._place()
        there = [name for name, (*where, _) in self._places.items() if tuple(where) == place]
        if len(there) > 1 and chance.random() < 0.3:
            self._compact(place, there)
            return "compact"
        rows = []
        for key in sorted(chance.sample(range(place[1], 16, 2), chance.choice([1, 3, 8]))):
            self._number += 1
            values: dict[str, Any] = {"id": key}
            for name, (_, known, _) in _COLUMNS.items():
                values[name] = chance.choice([None, *known])
            if self._parts:
                values["day"] = place[0][0]
            rows.append(Row(values, self._kinds[0], self._number))
        self.table.commit(self._file(rows, place, 0))
        return "write"

    def _compact(self, place: Any, there: list[str]) -> None:
        """Merge files into one of a level: all of them, or those of level 0."""
        chance = self._chance
        whole = chance.random() < 0.5
        levels = {name: self._places[name][-1] for name in there}
        chosen = there if whole else [name for name in there if levels[name] in (0, 3)]
        keys: dict[Any, list[Row]] = {}
        for name in chosen:
            for row in self._rows[name]:
                keys.setdefault(row.values["id"], []).append(row)
        if self.model.looks_up and not whole:  # what a compaction looks up
            for name in set(there) - set(chosen):
                for row in self._rows[name]:
                    if row.values["id"] in keys:
                        keys[row.values["id"]].append(row)
        level = 5 if whole else 3
        merged = [self.model.merged(rows, level) for rows in keys.values()]
        left = [row for row in merged if row is not None and (row.adds or not whole)]
        made = [self._file(left, place, level)] if left else []
        self.table.commit(*made, removed=[self.table.files[name] for name in chosen])
        for name in chosen:
            del self._rows[name], self._places[name]

    def expected(self) -> list[Mapping[str, Any]]:
        """Return the rows of the table, by the rules."""
        return self.model.rows([row for rows in self._rows.values() for row in rows])


def _arrow(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value
