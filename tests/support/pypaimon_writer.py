"""Write Paimon tables by pypaimon, and what pypaimon reads of them: `golden/paimon/tables`.

pypaimon needs an older pyarrow than these tests. Run this in an environment of its own, with the
folder to write to: python tests/support/pypaimon_writer.py FOLDER [engines]
"""

from __future__ import annotations

import datetime
import decimal
import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema  # type: ignore[import-not-found]
from pypaimon.schema.data_types import AtomicType  # type: ignore[import-not-found]
from pypaimon.schema.schema_change import SchemaChange  # type: ignore[import-not-found]

FIELDS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("name", pa.string()),
    pa.field("price", pa.decimal128(9, 2)),
    pa.field("day", pa.date32()),
    pa.field("at", pa.timestamp("us")),
    pa.field("real", pa.float32()),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("count", pa.int32()),
    pa.field("change", pa.string(), nullable=False),
]
VALUES: dict[str, list[Any]] = {
    "name": ["", "x y", "ü%", None],
    "price": [decimal.Decimal("-1.50"), decimal.Decimal("0.01"), None],
    "day": [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None],
    "at": [datetime.datetime(2024, 2, 29, 1, 2, 3, 4), None],
    "real": [1.5, -0.25, None],
    "tags": [["a", None], [], None],
    "kind": ["a", "b"],
    "count": [-1, 7, None],
    "change": ["+I", "+U", "-D"],
}
TABLES: dict[str, dict[str, Any]] = {
    "key": {"primary_keys": ["id"], "options": {"bucket": "2", "rowkind.field": "change"}},
    "key-and-partition": {
        "primary_keys": ["id", "kind"],
        "partition_keys": ["kind"],
        "options": {"bucket": "1"},
    },
    "key-orc": {"primary_keys": ["kind", "id"], "options": {"bucket": "1", "file.format": "orc"}},
    "first-row": {"primary_keys": ["id"], "options": {"bucket": "1", "merge-engine": "first-row"}},
    "append": {"options": {}},
    "append-orc": {"partition_keys": ["kind"], "options": {"file.format": "orc"}},
}
#: Tables of other engines, in an archive of their own.
ENGINES: dict[str, dict[str, Any]] = {
    "partial-update": {
        "primary_keys": ["id"],
        "options": {"bucket": "2", "merge-engine": "partial-update"},
    },
    "aggregation": {
        "primary_keys": ["id"],
        "options": {
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.name.aggregate-function": "max",
            "fields.price.aggregate-function": "sum",
            "fields.day.aggregate-function": "max",
            "fields.at.aggregate-function": "min",
            "fields.real.aggregate-function": "sum",
            "fields.tags.aggregate-function": "collect",
            "fields.kind.aggregate-function": "listagg",
            "fields.change.aggregate-function": "first_value",
            "fields.count.aggregate-function": "product",
        },
    },
    "aggregation-partition": {
        "primary_keys": ["id", "kind"],
        "partition_keys": ["kind"],
        "options": {
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "last_value",
            "fields.price.aggregate-function": "first_non_null_value",
            "fields.day.aggregate-function": "min",
            "fields.count.aggregate-function": "sum",
        },
    },
    "sequence": {
        "primary_keys": ["id"],
        "options": {
            "bucket": "1",
            "sequence.field": "count,day",
            "sequence.field.sort-order": "descending",
        },
    },
}
COMMITS = 6


class History:
    """A table to which random changes are made by pypaimon.

    Args:
        catalog: Catalog of the table.
        name: Name of the table, a key of `TABLES` or `ENGINES`.
        chance: Source of the changes.
    """

    def __init__(self, catalog: Any, name: str, chance: random.Random) -> None:
        self._catalog, self._name, self._chance = catalog, f"w.{name}", chance
        self._names = {field.name: field.name for field in FIELDS}  # now, by the first name
        self._added: list[str] = []
        self._sequence = (TABLES | ENGINES)[name]["options"].get("sequence.field", "")
        said = Schema.from_pyarrow_schema(pa.schema(FIELDS), **(TABLES | ENGINES)[name])
        catalog.create_table(self._name, said, False)

    @property
    def table(self) -> Any:
        return self._catalog.get_table(self._name)

    def change(self) -> None:
        """Change the table in one way out of several."""
        chance, names = self._chance, self._names
        match chance.choice(["write", "write", "write", "rename", "drop", "add", "widen"]):
            case "rename":
                name = chance.choice(["name", "price", "tags"])
                if name in names:
                    new = f"{name}{chance.randrange(10**6)}"
                    self._alter(SchemaChange.rename_column(names[name], new))
                    names[name] = new
            case "drop":
                name = chance.choice(["day", "price", "real", "at"])
                if name in names and name not in self._sequence:
                    self._alter(SchemaChange.drop_column(names.pop(name)))
            case "add":
                name = chance.choice(["day", "price", "real", f"new{chance.randrange(10**6)}"])
                if name not in [*names.values(), *self._added]:
                    self._alter(SchemaChange.add_column(name, AtomicType("BIGINT")))
                    self._added.append(name)
            case "widen":
                if "count" in names:
                    self._alter(
                        SchemaChange.update_column_type(names["count"], AtomicType("BIGINT"))
                    )
        self.write()

    def write(self) -> None:
        """Write random rows, each with a key of its own."""
        chance, count = self._chance, self._chance.choice([1, 5, 40])
        builder = self.table.new_batch_write_builder()
        columns: dict[str, Any] = {"id": chance.sample(range(80), count)}
        for name, values in VALUES.items():
            if name in self._names:
                columns[self._names[name]] = chance.choices(values, k=count)
        for name in self._added:
            columns[name] = [chance.choice([None, 2**40]) for _ in range(count)]
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(pa.table(columns, schema=self.schema))
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    @property
    def schema(self) -> pa.Schema:
        from pypaimon.schema.data_types import PyarrowFieldParser

        return PyarrowFieldParser.from_paimon_schema(self.table.table_schema.fields)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table as pypaimon reads them."""
        builder = self.table.new_read_builder()
        found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        return list(found.to_pylist())

    def _alter(self, change: Any) -> None:
        self._catalog.alter_table(self._name, [change])


def write(folder: Path, seed: int, tables: Iterable[str]) -> None:
    """Write some tables, with the rows that pypaimon reads."""
    catalog = CatalogFactory.create({"warehouse": str(folder)})
    catalog.create_database("w", True)
    chance = random.Random(seed)
    for name in tables:
        history = History(catalog, name, chance)
        for _ in range(COMMITS):
            history.change()
        expected = folder / "w.db" / name / "rows.json"
        expected.write_text(json.dumps(history.rows(), default=str, indent=1))


if __name__ == "__main__":
    write(Path(sys.argv[1]), 7, ENGINES if sys.argv[2:] == ["engines"] else TABLES)
