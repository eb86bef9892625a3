"""Paimon tables written and read by Java: `golden/paimon/tables/java.zip`, and random histories.

The sdist of pypaimon 0.2.0 has Paimon 0.9 for Java in one jar. PySpark's jars have the classes of
Hadoop that it needs.

    pip download pypaimon==0.2.0 --no-deps --no-binary pypaimon, and extract the jar from it
    PYTHONPATH=tests python tests/support/java_paimon.py JAR --folder FOLDER
    PYTHONPATH=tests python tests/support/java_paimon.py JAR --seeds 100

The first writes the golden tables; the second compares random tables, at each snapshot.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import io
import json
import os
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lookupstore.source.table_objects import source_at

TYPES = {
    "id": "INT NOT NULL",
    "part": "STRING NOT NULL",
    "name": "STRING",
    "price": "DECIMAL(9, 2)",
    "long": "DECIMAL(30, 3)",
    "day": "DATE",
    "at": "TIMESTAMP(6)",
    "second": "TIMESTAMP(3)",
    "real": "FLOAT",
    "double": "DOUBLE",
    "flag": "BOOLEAN",
    "small": "SMALLINT",
    "tiny": "TINYINT",
    "count": "BIGINT",
    "bytes": "BYTES",
    "tags": "ARRAY<STRING>",
    "change": "STRING NOT NULL",
}
VALUES: dict[str, list[Any]] = {
    "part": ["a", "b/=%", "ü"],
    "name": ["", "x y", "ü%", "a name of more than twelve bytes", None],
    "price": [decimal.Decimal("-1.50"), decimal.Decimal("0.01"), None],
    "long": [decimal.Decimal("-123456789012345678901234567.125"), decimal.Decimal("0.001"), None],
    "day": [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None],
    "at": [datetime.datetime(2024, 2, 29, 1, 2, 3, 4), datetime.datetime(1901, 1, 1), None],
    "second": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000), None],
    "real": [1.5, -0.25, None],
    "double": [1e300, -0.1, None],
    "flag": [True, False, None],
    "small": [-(2**15), 7, None],
    "tiny": [-(2**7), 7, None],
    "count": [-(2**63), 7, None],
    "bytes": [b"", b"\0\xff", None],
    "tags": [["a", None], [], ["some longer text than that"], None],
    "change": ["+I", "+U", "-D"],
}

KINDS = {"rowkind.field": "change"}
#: Keys and options of the tables, by name.
TABLES: dict[str, dict[str, Any]] = {
    "key": {"keys": ["id"], "options": {"bucket": "2", **KINDS}},
    "key-and-partition": {
        "keys": ["id", "part"],
        "parts": ["part"],
        "options": {"bucket": "1", **KINDS},
    },
    "key-orc": {"keys": ["part", "id"], "options": {"bucket": "1", "file.format": "orc", **KINDS}},
    "sequence": {
        "keys": ["id"],
        "options": {"bucket": "1", "sequence.field": "count,small", **KINDS},
    },
    "changelog": {
        "keys": ["id"],
        "options": {"bucket": "1", "changelog-producer": "lookup", **KINDS},
    },
    "first-row": {
        "keys": ["id"],
        "options": {
            "bucket": "1",
            "merge-engine": "first-row",
            "changelog-producer": "lookup",
        },
    },
    "vectors": {
        "keys": ["id"],
        "options": {"bucket": "1", "deletion-vectors.enabled": "true", **KINDS},
    },
    "partial-update": {
        "keys": ["id"],
        "options": {
            "bucket": "1",
            "merge-engine": "partial-update",
            "ignore-delete": "true",
            **KINDS,
        },
    },
    "sequence-groups": {
        "keys": ["id"],
        "options": {
            "bucket": "1",
            "merge-engine": "partial-update",
            "fields.count.sequence-group": "name,price",
            "fields.small.sequence-group": "day,at,real,flag",
            "fields.real.aggregate-function": "sum",
        },
    },
    "aggregation": {
        "keys": ["id"],
        "options": {
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "last_non_null_value",
            "fields.name.aggregate-function": "listagg",
            "fields.price.aggregate-function": "sum",
            "fields.long.aggregate-function": "min",
            "fields.day.aggregate-function": "max",
            "fields.at.aggregate-function": "first_value",
            "fields.second.aggregate-function": "first_non_null_value",
            "fields.real.aggregate-function": "last_value",
            "fields.flag.aggregate-function": "bool_and",
            "fields.small.aggregate-function": "min",
            "fields.tiny.aggregate-function": "max",
        },
    },
    "append": {"options": {"bucket": "-1"}},
    "append-buckets": {
        "parts": ["part"],
        "options": {"bucket": "2", "bucket-key": "id", "file.format": "orc"},
    },
}


class JavaPaimon:
    """Paimon in a Java virtual machine of its own.

    Args:
        jar: Jar with Paimon.
        warehouse: Folder of the tables.
    """

    def __init__(self, jar: Path, warehouse: Path) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        path = [str(jar), *map(str, jars.glob("hadoop-client-*.jar"))]
        path += map(str, jars.glob("commons-logging*.jar"))
        port = launch_gateway(
            classpath=os.pathsep.join(path),
            javaopts=["--add-opens=java.base/java.nio=ALL-UNNAMED", "-Xmx1g"],
            die_on_exit=True,
            redirect_stderr=None,
        )
        self.gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True)
        )
        self.paimon = self.gateway.jvm.org.apache.paimon
        options = self.paimon.options.Options({"warehouse": warehouse.as_uri()})
        context = self.paimon.catalog.CatalogContext.create(options)
        self.catalog = self.paimon.catalog.CatalogFactory.createCatalog(context)
        self.catalog.createDatabase("w", True)
        self.buffers = self.paimon.disk.IOManager.create(tempfile.mkdtemp())

    def __enter__(self) -> JavaPaimon:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.gateway.shutdown()

    def type_of(self, text: str) -> Any:
        """Return the data type of a text such as `DECIMAL(9, 2) NOT NULL`."""
        if text.endswith(" NOT NULL"):
            return self.type_of(text[: -len(" NOT NULL")]).notNull()
        types = self.paimon.types.DataTypes
        if text.startswith("ARRAY<"):
            return types.ARRAY(self.type_of(text[6:-1]))
        name, _, digits = text.rstrip(")").partition("(")
        return getattr(types, name)(*[int(one) for one in digits.split(",") if one])


class JavaTable:
    """A table that Java writes.

    Args:
        java: Paimon.
        name: Name of the table.
        types: Types of the columns, by name.
        keys: Names of the columns of the primary key.
        parts: Names of the columns of partitions.
        options: Options of the table.
    """

    def __init__(
        self,
        java: JavaPaimon,
        name: str,
        types: Mapping[str, str] = TYPES,
        keys: Sequence[str] = (),
        parts: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._java = java
        self.name, self.types = name, dict(types)
        self.keys, self.parts = list(keys), list(parts)
        builder = java.paimon.schema.Schema.newBuilder()
        for column, kind in types.items():
            builder.column(column, java.type_of(kind))
        builder.partitionKeys(self.parts).primaryKey(self.keys).options(dict(options or {}))
        self._place = java.paimon.catalog.Identifier.create("w", name)
        java.catalog.createTable(self._place, builder.build(), False)

    @property
    def table(self) -> Any:
        return self._java.catalog.getTable(self._place)

    def write(self, rows: Sequence[Mapping[str, Any]], *, compact: bool = False) -> None:
        """Write and commit rows, and compact the buckets that they are in.

        Their kinds are in the column that the option `rowkind.field` names.
        """
        java = self._java
        builder = java.paimon.python.InvocationUtil.getBatchWriteBuilder(self.table)
        writer = builder.newWrite().withIOManager(java.buffers)
        kind = builder.rowType()
        schema = pa.ipc.read_schema(
            pa.py_buffer(java.paimon.python.SchemaUtil.getArrowSchema(kind))
        )
        arrow = pa.Table.from_pylist(list(rows), schema=schema)
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, schema) as stream:
            stream.write_table(arrow)
        java.paimon.python.InvocationUtil.createBytesWriter(writer, kind).write(sink.getvalue())
        if compact:
            for part, bucket in self._buckets(writer, rows):
                writer.compact(part, bucket, True)
        commit = builder.newCommit()
        commit.commit(writer.prepareCommit())
        writer.close()
        commit.close()

    def _buckets(self, writer: Any, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, int]]:
        """Return the partitions and buckets of rows, which their ids and parts decide."""
        data = self._java.paimon.data
        found = {}
        names = list(self.types)
        for row in rows:
            fields = data.GenericRow(len(names))
            fields.setField(names.index("id"), row["id"])
            fields.setField(names.index("part"), data.BinaryString.fromString(row["part"]))
            bucket = writer.getBucket(fields)
            found[row["part"] if self.parts else "", bucket] = (
                writer.getPartition(fields).copy(), bucket,
            )  # fmt: skip
        return list(found.values())

    def alter(self, *changes: Any) -> None:
        """Change the schema."""
        changes_of = self._java.gateway.jvm.java.util.ArrayList()
        for change in changes:
            changes_of.add(change)
        self._java.catalog.alterTable(self._place, changes_of, False)

    @property
    def changes(self) -> Any:
        return self._java.paimon.schema.SchemaChange

    def snapshots(self) -> list[int]:
        """Return the numbers of the snapshots."""
        newest = self.table.snapshotManager().latestSnapshotId()
        return [] if newest is None else list(range(1, newest + 1))

    def rows(self, snapshot: int) -> list[dict[str, Any]]:
        """Return the rows of a snapshot as Java reads them."""
        java = self._java
        table = self.table.copy({"scan.snapshot-id": str(snapshot)})
        builder = java.paimon.python.InvocationUtil.getReadBuilder(table)
        splits = builder.newScan().plan().splits()
        if not len(splits):
            return []
        read = builder.newRead().withIOManager(java.buffers)
        bytes_of = java.paimon.python.InvocationUtil.createParallelBytesReader(
            read, builder.readType(), 1
        )
        bytes_of.setSplits(splits)
        found: list[dict[str, Any]] = []
        while (content := bytes_of.next()) is not None:
            found += pa.ipc.open_stream(content).read_all().to_pylist()
        return found


class JavaHistory:
    """Random changes of a table by Java."""

    def __init__(self, java: JavaPaimon, name: str, chance: random.Random) -> None:
        said = TABLES[name]
        # Options name columns: they keep their names. Java cannot read all types of merged rows.
        self._is_merged = "fields." in str(said["options"])
        columns = [one for one in TYPES if not (self._is_merged and one in ("bytes", "tags"))]
        self.java, self.chance = java, chance
        self.table = JavaTable(
            java, name, {column: TYPES[column] for column in columns},
            said.get("keys", ()), said.get("parts", ()), said["options"],
        )  # fmt: skip
        self._values = {one: VALUES[one] for one in columns if one != "id"}
        if self._is_merged:  # versions of Paimon join empty texts in different ways
            self._values["name"] = [one for one in VALUES["name"] if one != ""]

    def change(self) -> None:
        """Write random rows, after a change of the schema now and then."""
        chance, table = self.chance, self.table
        kept = ("id", "part", "count", "small", "tiny", "change")
        free = [name for name in table.types if name not in kept]
        match 2 if self._is_merged else chance.randrange(12):
            case 0:
                old = chance.choice(free)
                new = f"{old}{chance.randrange(10**6)}"
                table.alter(table.changes.renameColumn(old, new))
                table.types = {
                    new if name == old else name: kind for name, kind in table.types.items()
                }
                self._values[new] = self._values.pop(old)
            case 1 if len(free) > 3:
                old = chance.choice(free)
                table.alter(table.changes.dropColumn(old))
                del table.types[old], self._values[old]
            case 2:
                new = f"new{chance.randrange(10**6)}"
                table.alter(table.changes.addColumn(new, self.java.type_of("BIGINT")))
                table.types[new] = "BIGINT"
                self._values[new] = [None, 2**40]
            case 3 if table.types.get("tiny") == "TINYINT":
                table.alter(table.changes.updateColumnType("tiny", self.java.type_of("INT")))
                table.types["tiny"] = "INT"
        count = chance.choice([1, 5, 40])
        rows = [
            {"id": one, **{name: chance.choice(values) for name, values in self._values.items()}}
            for one in chance.choices(range(60), k=count)
        ]
        table.write(rows, compact=bool(table.keys) and chance.random() < 0.4)


def plain(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as JSON has them."""
    return json.loads(json.dumps(rows, default=str))


def read(folder: Path, snapshot: int) -> Any:
    """Return the rows of a snapshot as lookupstore reads them, as JSON has them."""
    source = source_at(str(folder), version=snapshot, as_of=None)
    batches = source.batches(source.schema.names)
    return plain(pa.Table.from_batches(batches, source.schema).to_pylist())


def check(folder: Path, expected: Mapping[int, Any]) -> int:
    """Compare the rows of each snapshot of a table, and return the number of snapshots."""
    for snapshot, rows in expected.items():
        found = read(folder, snapshot)
        assert sorted(map(str, found)) == sorted(map(str, rows)), f"{folder}, snapshot {snapshot}"
    return len(expected)


def write(java: JavaPaimon, name: str, chance: random.Random, commits: int) -> dict[int, Any]:
    """Write a table, and return the rows of each snapshot as Java reads them."""
    history = JavaHistory(java, name, chance)
    for _ in range(commits):
        history.change()
    return {number: plain(history.table.rows(number)) for number in history.table.snapshots()}


def main() -> None:
    """Write the golden tables, or compare random ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jar", type=Path)
    parser.add_argument("--folder", type=Path, help="folder for the golden tables")
    parser.add_argument("--seeds", type=int, default=10, help="number of tables of each kind")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    asked = parser.parse_args()
    if asked.folder is not None:
        with JavaPaimon(asked.jar, asked.folder.resolve()) as java:
            for name in TABLES:
                rows = write(java, name, random.Random(7), 6)
                path = asked.folder / "w.db" / name / "rows.json"
                path.write_text(json.dumps(rows, indent=1))
        return
    snapshots = 0
    for seed in range(asked.first, asked.first + asked.seeds):
        with (
            tempfile.TemporaryDirectory(prefix="java-paimon-") as place,
            JavaPaimon(asked.jar, Path(place)) as java,
        ):
            for name in TABLES:
                rows = write(java, name, random.Random(seed), 8)
                snapshots += check(Path(place, "w.db", name), rows)
        print(f"seeds from {asked.first} to {seed}: {snapshots} snapshots are equal", flush=True)


if __name__ == "__main__":
    main()
