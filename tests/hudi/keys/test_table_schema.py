"""Which types a table may take instead of its own: those that hold every value of it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lookupstore.hudi.keys.avro_types import arrow_schema, avro_schema
from lookupstore.hudi.keys.table_schema import TableSchema, is_wider, parse_table_schema

STRUCT = pa.struct({"a": pa.int32(), "b": pa.string()})
WIDER = [
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.binary()),
    (pa.decimal128(10, 2), pa.decimal128(12, 2)),
    (pa.decimal128(10, 2), pa.decimal128(12, 4)),
    (pa.list_(pa.int32()), pa.list_(pa.int64())),
    (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
    (STRUCT, pa.struct({"a": pa.int64(), "b": pa.string(), "c": pa.bool_()})),
]
NOT_WIDER = [
    (pa.int64(), pa.float64()),  # 2**53 + 1
    (pa.int64(), pa.int32()),
    (pa.int32(), pa.float32()),
    (pa.float64(), pa.float32()),
    (pa.binary(), pa.string()),
    (pa.int32(), pa.string()),
    (pa.bool_(), pa.int32()),
    (pa.date32(), pa.int64()),
    (pa.decimal128(10, 2), pa.decimal128(11, 4)),
    (pa.decimal128(10, 2), pa.decimal128(12, 1)),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
    (STRUCT, pa.struct({"b": pa.string(), "a": pa.int32()})),
    (STRUCT, pa.struct({"a": pa.int32()})),
    (STRUCT, pa.struct({"a": pa.string(), "b": pa.string()})),
    (pa.list_(pa.int64()), pa.list_(pa.int32())),
]


@pytest.mark.parametrize(("narrow", "wide"), WIDER, ids=str)
def test_what_is_wider(narrow: pa.DataType, wide: pa.DataType) -> None:
    assert is_wider(wide, narrow)
    assert not is_wider(narrow, wide)
    assert is_wider(wide, narrow, exact=True) == (wide == pa.int64())


@pytest.mark.parametrize(("narrow", "wide"), NOT_WIDER, ids=str)
def test_what_is_not(narrow: pa.DataType, wide: pa.DataType) -> None:
    assert not is_wider(wide, narrow)


def test_a_schema_evolves_as_little_as_it_can() -> None:
    columns = pa.schema({"id": pa.int32(), "s": STRUCT, "d": pa.decimal128(5, 1)})
    record = avro_schema(columns, "their_record", "their.space")
    # What others say of a column stays, where nothing changes.
    record["fields"][2]["doc"] = "a price"
    record["fields"][0]["type"] = ["int", "null"]
    known = TableSchema(columns, json.dumps(record))
    assert known.evolved(columns, ["id"], "rows") is known
    given = pa.schema(
        {
            "x": pa.struct({"y": pa.decimal128(7, 2)}),
            "s": pa.struct({"a": pa.int32(), "b": pa.string(), "c": pa.decimal128(9, 3)}),
        }
    )
    evolved = known.evolved(given, ["id"], "rows")
    assert evolved.columns.names == ["id", "s", "d", "x"]
    stored = json.loads(evolved.avro)
    assert (stored["name"], stored["namespace"]) == ("their_record", "their.space")
    assert stored["fields"][0] == record["fields"][0]
    assert stored["fields"][2] == record["fields"][2]
    assert arrow_schema(evolved.avro, "again") == evolved.columns
    assert known.evolved(pa.schema({"id": pa.int64()}), ["id"], "rows").columns.field(0).type == (
        pa.int64()
    )


def test_meta_columns_are_no_data() -> None:
    columns = pa.schema({"_m": pa.string(), "id": pa.int32()})
    text = json.dumps(avro_schema(columns, "r", "n"))
    schema = parse_table_schema(text, "where", ["_m"])
    assert schema.columns.names == ["id"]
    assert [one["name"] for one in json.loads(schema.avro)["fields"]] == ["id"]
    both = json.loads(schema.with_meta(["_m", "_o"]))
    assert [one["name"] for one in both["fields"]] == ["_m", "_o", "id"]
    assert parse_table_schema(schema.avro, "where", ["_m"]).avro == schema.avro
