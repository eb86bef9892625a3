"""Events of Debezium as Kafka Connect writes them in JSON, beside the values that were encoded."""

from __future__ import annotations

import base64
import json
import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lookupstore
from lookupstore import LookupStore

COLUMNS = pa.schema(
    {
        "id": pa.int64(), "day": pa.date32(), "at": pa.timestamp("us"), "clock": pa.time64("us"),
        "price": pa.decimal128(12, 2), "any": pa.decimal128(20, 5), "raw": pa.binary(),
        "n": pa.int64(), "s": pa.string(),
    }
)  # fmt: skip
_EPOCH = datetime(1970, 1, 1)
_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
Row = dict[str, Any]


def in_base64(number: int) -> str:
    """Return what Java's BigInteger has as bytes, in base64."""
    size = 1
    while not -(1 << (8 * size - 1)) <= number < 1 << (8 * size - 1):
        size += 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def in_unit(span: timedelta, unit: str) -> int:
    whole = span // timedelta(microseconds=1)
    return whole // 1000 if unit == "ms" else whole if unit == "us" else whole * 1000


class Connector:
    """What a connector writes of rows: the encoded values, and their schema."""

    def __init__(self, chance: random.Random) -> None:
        self.connect = chance.random() < 0.3  # time.precision.mode=connect
        self.unit = "ms" if self.connect else chance.choice(["ms", "us", "ns"])
        self.clock = "ms" if self.connect else chance.choice(["ms", "us", "ns"])
        self.scale = chance.choice([0, 1, 2])

    def fields(self) -> list[Row]:
        name = {"ms": "", "us": "Micro", "ns": "Nano"}
        times = _CONNECT if self.connect else _DEBEZIUM
        return [
            {"type": "int64", "optional": False, "default": 0, "field": "id"},
            {"type": "int32", "name": f"{times}Date", "version": 1, "field": "day"},
            {"type": "int64", "name": f"{times}{name[self.unit]}Timestamp", "field": "at"},
            {"type": "int64", "name": f"{times}{name[self.clock]}Time", "field": "clock"},
            {"type": "bytes", "name": f"{_CONNECT}Decimal", "field": "price",
             "parameters": {"scale": str(self.scale), "connect.decimal.precision": "12"}},
            {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "field": "any",
             "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}]},
            {"type": "bytes", "field": "raw"},
            {"type": "int64", "field": "n"},
            {"type": "string", "default": "none", "field": "s"},
        ]  # fmt: skip

    def schema(self) -> Row:
        rows = [
            {"type": "struct", "fields": self.fields(), "name": "t.Value", "field": image}
            for image in ("before", "after")
        ]
        return {"type": "struct", "name": "t.Envelope", "fields": [
            *rows, {"type": "string", "field": "op"}]}  # fmt: skip

    def row(self, chance: random.Random, number: int) -> tuple[Row, Row]:
        """Return random values, and what they are in an event."""
        span = timedelta(seconds=chance.randrange(-(10**9), 2 * 10**9))
        clock = timedelta(seconds=chance.randrange(86400))
        if self.unit != "ms":
            span += timedelta(microseconds=chance.randrange(10**6))
        if self.clock != "ms":
            clock += timedelta(microseconds=chance.randrange(10**6))
        day = chance.randrange(-10000, 30000)
        price = chance.randrange(-(10**9), 10**9) // 10 ** chance.randrange(9)
        scale, digits = chance.randrange(6), chance.randrange(-(10**14), 10**14)
        raw = chance.randbytes(chance.randrange(4))
        values = {
            "id": number, "day": date(1970, 1, 1) + timedelta(days=day), "at": _EPOCH + span,
            "clock": (_EPOCH + clock).time(), "price": Decimal(price).scaleb(-self.scale),
            "any": Decimal(digits).scaleb(-scale), "raw": raw, "n": price, "s": "1234",
        }  # fmt: skip
        coded = {
            "id": number, "day": day, "at": in_unit(span, self.unit),
            "clock": in_unit(clock, self.clock), "price": in_base64(price),
            "any": {"scale": scale, "value": in_base64(digits)},
            "raw": base64.b64encode(raw).decode(), "n": price, "s": "1234",
        }  # fmt: skip
        for name in COLUMNS.names[1:]:
            if chance.random() < 0.1:
                values[name] = coded[name] = None
        return values, coded


def empty(path: Path, columns: pa.Schema = COLUMNS) -> LookupStore:
    rows = columns.empty_table()
    return lookupstore.build(rows, path, key="id", overwrite=True, allow_empty=True)


def content(store: LookupStore) -> list[Row]:
    return sorted(store.scan().read_all().to_pylist(), key=lambda row: str(row["id"]))


def applied(path: Path, changes: Any, columns: pa.Schema = COLUMNS) -> list[Row]:
    """Return the rows of a store that was empty before some events."""
    with empty(path, columns) as store, store.upsert(changes, changes_by="debezium") as changed:
        return content(changed)


def lines(path: Path, events: list[Row]) -> Path:
    path.write_text("\n".join(map(json.dumps, events)))
    return path


@pytest.mark.parametrize("number", range(8))
def test_values_are_decoded_by_the_schema_next_to_them(
    tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)
    events: list[Row] = []
    expected: dict[int, Row] = {}
    for connector in [Connector(chance) for _ in range(chance.choice([1, 2, 3]))]:
        for at in range(20):
            key = chance.choice([at, 100 + len(events)])
            values, coded = connector.row(chance, key)
            payload: Row = {"op": "u" if key in expected else "c", "before": None, "after": coded}
            expected[key] = values
            if chance.random() < 0.2:
                payload = {"op": "d", "before": coded, "after": None}
                del expected[key]
            events.append({"schema": connector.schema(), "payload": payload})
    wanted = sorted(expected.values(), key=lambda row: str(row["id"]))
    as_text = [{**one, "schema": json.dumps(one["schema"])} for one in events]
    plain = [{**one, "schema": without_defaults(one["schema"])} for one in events]
    for changes in (events, as_text, pa.Table.from_pylist(as_text), pa.Table.from_pylist(plain),
                    str(lines(tmp_path / "events.jsonl", plain))):  # fmt: skip
        assert applied(tmp_path / "s", changes) == wanted


def without_defaults(schema: Any) -> Any:
    """Return a schema without values of several types, which a column of Arrow cannot have."""
    if isinstance(schema, list):
        return [without_defaults(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: without_defaults(one) for name, one in schema.items() if name != "default"}


def test_values_of_the_documentation(tmp_path: Path) -> None:
    """The numbers are those of Debezium's own pages, and of Kafka's test of its converter."""
    fields = [
        {"type": "int64", "field": "id"},
        {"type": "int64", "name": f"{_DEBEZIUM}MicroTimestamp", "field": "at"},
        {"type": "bytes", "name": f"{_CONNECT}Decimal", "parameters": {"scale": "2"},
         "field": "price"},
    ]  # fmt: skip
    schema = {"fields": [{"field": "after", "fields": fields}]}
    after = {"id": 1, "at": 1529507596945104, "price": "AJw="}
    event = {"schema": schema, "payload": {"op": "c", "before": None, "after": after}}
    columns = pa.schema([COLUMNS.field(name) for name in after])
    (row,) = applied(tmp_path / "s", [event], columns)
    at = datetime(2018, 6, 20, 15, 13, 16, 945104)
    assert row == {"id": 1, "at": at, "price": Decimal("1.56")}


FEW = pa.schema(
    {"id": pa.int64(), "day": pa.date32(), "at": pa.timestamp("us"), "price": pa.decimal128(9, 2),
     "whole": pa.decimal128(9, 0), "raw": pa.binary()}
)  # fmt: skip


def changed(path: Path, wrap: str, *rows: Row) -> LookupStore:
    """Return a store of events without schemas."""
    full = [dict.fromkeys(FEW.names) | row for row in rows]
    events: list[Row] = [{"op": "c", "before": None, "after": one} for one in full]
    if wrap == "text":
        events = [{**one, "after": json.dumps(one["after"])} for one in events]
    if wrap == "payload":
        events = [{"payload": one} for one in events]
    store = empty(path / "s", FEW)
    return store.upsert(str(lines(path / "events.jsonl", events)), changes_by="debezium")


@pytest.mark.parametrize("wrap", ["", "text", "payload"])
def test_without_a_schema_the_column_decides_where_one_meaning_is_possible(
    tmp_path: Path, wrap: str
) -> None:
    """A date as a number has days; texts that are no base64 are numbers."""
    with changed(
        tmp_path, wrap,
        {"id": 1, "day": 17702, "at": "2018-06-20 06:37:03", "price": "12.50", "whole": "1234"},
        {"id": 2, "day": -1, "price": "1234", "whole": "-5"},
    ) as store:  # fmt: skip
        assert content(store) == [
            {"id": 1, "day": date(2018, 6, 20), "at": datetime(2018, 6, 20, 6, 37, 3),
             "price": Decimal("12.50"), "whole": Decimal(1234), "raw": None},
            {"id": 2, "day": date(1969, 12, 31), "at": None, "price": Decimal(1234),
             "whole": Decimal(-5), "raw": None},
        ]  # fmt: skip


@pytest.mark.parametrize("wrap", ["", "text", "payload"])
@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"at": 1529507596945}, r"'at' has 1529507596945 .*converter\.schemas\.enable=true"),
        ({"price": "F3A="}, r"'price' has 'F3A=' .*decimal\.handling\.mode=string"),
        ({"price": "1234"}, r"'price' has '1234' .*decimal\.handling\.mode=string"),
        ({"whole": "12345678"}, r"'whole' has '12345678' .*decimal\.handling\.mode=string"),
        ({"raw": "AQI="}, r"'raw' has 'AQI=' .*converter\.schemas\.enable=true"),
    ],
)
def test_without_a_schema_other_values_are_refused(
    tmp_path: Path, wrap: str, row: Row, said: str
) -> None:
    with pytest.raises(ValueError, match=f"changes: the column {said}"):
        changed(tmp_path, wrap, {"id": 1, **row})
    with lookupstore.open(tmp_path / "s") as store:
        assert (store.version, len(store)) == (1, 0)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ({"type": "int64", "field": "at"}, 1529507596945, "do not say what it means"),
        ({"type": "int32", "field": "day", "name": "io.debezium.time.Year"}, 2018, "do not say"),
        ({"type": "bytes", "field": "price", "name": f"{_CONNECT}Decimal"}, "F3A=", "do not say"),
        ({"type": "bytes", "field": "price", "name": f"{_CONNECT}Decimal",
          "parameters": {"scale": "2"}}, "F3A", "is not base64, as its schema requires"),
        ({"type": "bytes", "field": "price", "name": f"{_CONNECT}Decimal",
          "parameters": {"scale": "2"}}, "", "a decimal of no bytes"),
        ({"type": "bytes", "field": "raw"}, "*", "is not base64, as its schema requires"),
        ({"type": "int32", "field": "day", "name": f"{_DEBEZIUM}Date"}, 1 << 40, "has no date32"),
        *(({"type": "int64", "field": "clock", "name": f"{_DEBEZIUM}{name}"}, value, "no time of a")
          for name, day in (("Time", 86_400_000), ("MicroTime", 86_400_000_000))
          for value in (-1, day)),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_fit(tmp_path: Path, field: Row, value: Any, said: str) -> None:
    name = field["field"]
    columns = pa.schema([COLUMNS.field("id"), (FEW if name in FEW.names else COLUMNS).field(name)])
    schema = {"fields": [{"field": "after", "fields": [{"type": "int64", "field": "id"}, field]}]}
    event = {"schema": schema, "payload": {"op": "c", "after": {"id": 1, name: value}}}
    with pytest.raises(ValueError, match=f"changes: the column {name!r} .*{said}"):
        applied(tmp_path / "s", [event], columns)


def test_columns_of_other_types_keep_their_values(tmp_path: Path) -> None:
    """A store that was built of encoded values stays one of them."""
    connector = Connector(random.Random(1))
    columns = pa.schema({"id": pa.int64(), "day": pa.int32(), "at": pa.int64(),
                         "price": pa.string()})  # fmt: skip
    after = {"id": 7, "day": 17702, "at": 1529507596945104, "price": "F3A="}
    event = {"schema": connector.schema(), "payload": {"op": "r", "before": None, "after": after}}
    assert applied(tmp_path / "s", [event], columns) == [after]


def test_texts_with_zones(tmp_path: Path) -> None:
    columns = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC")})
    fields = [{"type": "string", "name": f"{_DEBEZIUM}ZonedTimestamp", "field": "at"}]
    schema = {"fields": [{"field": "after", "fields": fields}]}
    after = {"id": 1, "at": "2018-06-20T13:37:03+02:00"}
    event = {"schema": schema, "payload": {"op": "c", "before": None, "after": after}}
    (row,) = applied(tmp_path / "s", [event], columns)
    assert row["at"].isoformat() == "2018-06-20T11:37:03+00:00"


def test_keys_that_are_dates_and_decimals(tmp_path: Path) -> None:
    columns = pa.schema({"day": pa.date32(), "price": pa.decimal128(9, 2), "n": pa.int64()})
    rows = pa.table([[date(2018, 6, 20)] * 2, [Decimal("60.00"), Decimal("0.01")], [1, 2]],
                    schema=columns)  # fmt: skip
    store = lookupstore.build(rows, tmp_path / "s", key=["day", "price"])
    decimal = {"type": "bytes", "name": f"{_CONNECT}Decimal", "parameters": {"scale": "2"}}
    fields = [{"type": "int32", "name": f"{_DEBEZIUM}Date", "field": "day"},
              {**decimal, "field": "price"}, {"type": "int64", "field": "n"}]  # fmt: skip
    schema = {"fields": [{"field": one, "fields": fields} for one in ("before", "after")]}
    old, new = ({"day": 17702, "price": one, "n": 1} for one in ("F3A=", "F3E="))
    event = {"schema": schema, "payload": {"op": "u", "before": old, "after": new}}
    with store, store.upsert([event], changes_by="debezium") as changed:  # the key moved
        found = {row["price"]: row["n"] for row in changed.scan().read_all().to_pylist()}
        assert found == {Decimal("0.01"): 2, Decimal("60.01"): 1}
