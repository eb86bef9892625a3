"""Avro schemas of tables, beside those of Apache Hudi and what Arrow writes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.keys.avro_types import arrow_schema, avro_schema
from lookupstore.hudi.options import read_options
from lookupstore.hudi.timeline.commit import parse_commit
from lookupstore.storage.location import Location


def test_schemas_of_real_commits_are_written_as_they_are(real_tables: Path) -> None:
    seen = 0
    for table in sorted(path for path in real_tables.iterdir() if path.name.startswith("v")):
        options = read_options(Location(table))
        for path in sorted(table.glob(".hoodie/**/2*commit")):
            if "metadata" in path.parts:
                continue
            text = parse_commit(path.read_bytes(), str(path)).schema
            assert text is not None
            columns = arrow_schema(text, str(path))
            name, namespace = (json.loads(text)[key] for key in ("name", "namespace"))
            assert (name, namespace) == (options.record_name, options.namespace)
            assert avro_schema(columns, name, namespace) == json.loads(text)
            seen += 1
    assert seen == 41


def test_a_decimal_has_the_bytes_that_arrow_writes() -> None:
    for digits in range(1, 39):
        schema = pa.schema({"x": pa.decimal128(digits, 1)})
        file = io.BytesIO()
        pq.write_table(schema.empty_table(), file)
        file.seek(0)
        (stored,) = avro_schema(schema, "r", "n")["fields"]
        assert stored["type"][1]["size"] == pq.ParquetFile(file).schema.column(0).length


def column(kind: object) -> pa.DataType:
    """Return the Arrow type of a column."""
    record = {
        "type": "record",
        "name": "r",
        "namespace": "n",
        "fields": [{"name": "x", "type": kind}],
    }
    return arrow_schema(json.dumps(record), "w").field("x").type


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("long", pa.int64()),
        (["string", "null"], pa.string()),
        ({"type": "long"}, pa.int64()),
        ({"type": {"type": "int", "logicalType": "date"}}, pa.date32()),
        ({"type": "int", "logicalType": "of tomorrow"}, pa.int32()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5}, pa.decimal128(5, 0)),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        (["null", {"type": "long", "logicalType": "local-timestamp-millis"}], pa.timestamp("ms")),
    ],
    ids=str,
)
def test_forms_of_types(avro: object, arrow: pa.DataType) -> None:
    assert column(avro) == arrow


def test_types_are_used_again_by_their_names() -> None:
    fields = [
        {"name": "a", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "b", "type": ["null", "four"]},
        {"name": "c", "type": "n.four"},
        {"name": "d", "type": {"type": "record", "name": "m.inner", "fields": [
            {"name": "x", "type": {"type": "fixed", "name": "four", "size": 5}}]}},
        {"name": "e", "type": "m.four"},
    ]  # fmt: skip
    record = {"type": "record", "name": "r", "namespace": "n", "fields": fields}
    schema = arrow_schema(json.dumps(record), "w")
    assert [str(one.type) for one in schema] == [
        "fixed_size_binary[4]", "fixed_size_binary[4]", "fixed_size_binary[4]",
        "struct<x: fixed_size_binary[5]>", "fixed_size_binary[5]",
    ]  # fmt: skip


def test_durations_are_refused() -> None:
    schema = pa.schema({"wait": pa.duration("us")})
    with pytest.raises(
        TypeError, match=r"give whole numbers of us, such as by .astype\('int64'\)$"
    ):
        avro_schema(schema, "r", "n")


def test_unsigned_longs_are_refused() -> None:
    schema = pa.schema({"hash": pa.uint64()})
    with pytest.raises(TypeError, match=r"give int64, or decimal\(20, 0\) for numbers from 2"):
        avro_schema(schema, "r", "n")


def test_uuids_are_refused() -> None:
    with pytest.raises(FormatError, match="w: the Avro type uuid "):
        column({"type": "string", "logicalType": "uuid"})


@pytest.mark.parametrize("depth", [16, 31])
def test_columns_that_nest_deeply(tmp_path: Path, depth: int) -> None:
    kind, value = nested(depth)
    rows = pa.table({"id": [1], "v": pa.array([value], kind)})
    table = HudiTable.create(tmp_path / "t", rows.schema, record_key=["id"])
    table.upsert(rows)
    table.upsert(rows)
    assert table.scan(columns=["id", "v"]).equals(rows)


@pytest.mark.parametrize("depth", [32, 100])
def test_columns_that_nest_too_deeply(tmp_path: Path, depth: int) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", nested(depth)[0])])
    with pytest.raises(TypeError, match="flatten nested columns or store them as text"):
        HudiTable.create(tmp_path / "t", schema, record_key=["id"])
    assert not (tmp_path / "t").exists()


def nested(depth: int) -> tuple[pa.DataType, object]:
    """Return a type of so many structs in each other, and a value of it."""
    kind: pa.DataType = pa.int64()
    value: object = 1
    for _ in range(depth):
        kind, value = pa.struct([("a", kind)]), {"a": value}
    return kind, value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "[]",
        '"int"',
        '{"type": "record", "name": "r"}',
        '{"type": "record", "name": "r", "fields": 5}',
        '{"type": "record", "name": "r", "fields": [{"name": "x"}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "x", "type": "unknown"}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "x", "type": ["int", "long"]}]}',
        '{"type": "record", "name": "r", "fields": [{"name": 5, "type": "int"}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "x", "type": {"type": "enum"}}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}, '
        '{"name": "x", "type": "int"}]}',
        '{"type": "record", "name": "r", "fields": [{"name": "x", "type": {"type": "bytes", '
        '"logicalType": "decimal", "precision": 900}}]}',
        '{"type":' * 200 + "5" + "}" * 200,
        "[" * 100_000,
    ],
)
def test_what_is_no_schema(text: str) -> None:
    with pytest.raises(CorruptionError) as caught:
        arrow_schema(text, "w")
    assert caught.value.path == "w"
