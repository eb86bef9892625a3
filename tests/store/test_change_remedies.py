"""Changes in lists of dicts whose values have types of another meaning: what the errors advise."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lookupstore

SCHEMA = pa.schema(
    {
        "sku": pa.string(),
        "price": pa.decimal128(12, 2),
        "seen": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "size": pa.struct({"w": pa.float64(), "h": pa.float64()}),
    }
)
NOON = datetime.datetime(2026, 11, 30, 12)
ZONED = NOON.replace(tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ({"price": 19.99}, "give decimal.Decimal values"),
        ({"seen": NOON}, "give its times a zone: tzinfo= of datetimes, dt.tz_localize"),
        ({"local": ZONED}, "remove the zone of its times"),
        ({"size": {"w": 1.0}}, r"add the fields \['h'\] to each value"),
        ({"size": {"w": 1.0, "h": 1.0, "d": 1.0}}, r"leave out the fields \['d'\]"),
        ({"price": "19.99"}, "cast it to that type"),
    ],
)
def test_the_error_says_what_to_do(value: dict[str, Any], advice: str, tmp_path: Path) -> None:
    with lookupstore.build(SCHEMA.empty_table(), tmp_path / "s", key="sku") as store:
        with pytest.raises(TypeError, match=f"but in the store it is .*; {advice}"):
            store.upsert([{"sku": "a", **value}], rule="partial")
        good = {"price": Decimal("19.99"), "seen": ZONED, "local": NOON, "size": {"w": 1, "h": 2}}
        with store.upsert([{"sku": "a", **good}]) as changed:
            assert changed.get("a") == good


def test_an_empty_list_has_no_changes(tmp_path: Path) -> None:
    """A service collects changes and deletes in two lists, one of which may stay empty."""
    with lookupstore.build({"sku": ["a", "b"], "n": [1, 2]}, tmp_path / "s", key="sku") as store:
        for nothing in ([], ()):
            assert store.upsert(nothing).version == 1
            assert store.upsert(nothing, deletes=[]).version == 1
        assert store.upsert([], changes_by="debezium").version == 1
        changed = store.upsert([], deletes=["a"])
        assert (changed.version, list(changed.keys())) == (2, ["b"])
        with pytest.raises(ValueError, match="rule is 'some'"):
            store.upsert([], rule="some")


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="this pyarrow has no UUIDs")
def test_texts_of_uuids_and_times_of_dates(tmp_path: Path) -> None:
    """The error says what to give instead of a text for a UUID, or of a time for a date."""
    schema = pa.schema({"id": pa.uuid(), "owner": pa.uuid(), "day": pa.date32()})
    texts = [str(uuid.UUID(int=one)) for one in (1, 2)]
    ids = [uuid.UUID(one) for one in texts]
    advice = "give uuid.UUID objects or their 16 bytes"
    noon = pd.DataFrame({"id": ids, "day": pd.to_datetime(["2026-11-30"] * 2)})
    with lookupstore.build(schema.empty_table(), tmp_path / "s", key="id") as store:
        with pytest.raises(ValueError, match=f"row 1: the column 'owner' is .*; {advice}"):
            store.upsert(pd.DataFrame({"id": ids, "owner": texts}), rule="partial")
        with pytest.raises(TypeError, match=r"'day' is timestamp.*; give dates, such as dt\.date"):
            store.upsert(noon, rule="partial")
        for keys in (texts, pd.Series(texts), pl.Series(texts), pa.array(texts)):
            with pytest.raises(TypeError, match=f"the field 'id' is .*; {advice}"):
                store.lookup(keys)
        for facts in (pd.DataFrame({"id": texts}), pl.DataFrame({"id": texts})):
            with pytest.raises(TypeError, match=f"the fact column 'id' is .*; {advice}"):
                store.join(facts, "id")

        owned = store.upsert(pd.DataFrame({"id": ids, "owner": ids}), rule="partial")
        dated = owned.upsert(noon.assign(day=noon["day"].dt.date), rule="partial")
        day = datetime.date(2026, 11, 30)
        rows = [{"owner": one, "day": day} for one in ids]
        assert dated.lookup(ids).to_pylist() == rows
        raw = [one.bytes for one in ids]
        assert dated.lookup(pl.Series(raw)).to_pylist() == rows
        assert dated.join(pd.DataFrame({"id": ids}), "id")["owner"].tolist() == ids
        assert dated.join(pl.DataFrame({"id": raw}), "id")["day"].to_list() == [day, day]


def test_arguments_by_other_names(tmp_path: Path) -> None:
    path = tmp_path / "s"
    advised = {
        "delete": "give the keys to delete as deletes=",
        "missing": "give rule='partial'",
        "delets": "did you mean 'deletes'",
    }
    with lookupstore.build({"sku": ["a", "b"], "n": [1, 2]}, path, key="sku") as store:
        for name, said in advised.items():
            for call in (store.upsert, partial(lookupstore.upsert, path)):
                with pytest.raises(TypeError, match=f"^upsert has no argument '{name}'; {said}"):
                    call([], **{name: ["a"]})
        assert store.newest().version == 1
