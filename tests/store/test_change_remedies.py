"""Changes in lists of dicts whose values have types of another meaning: what the errors advise."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

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
        ({"size": {"w": 1.0}}, r"give each value the fields \['h'\] as well"),
        ({"size": {"w": 1.0, "h": 1.0, "d": 1.0}}, r"leave the fields \['d'\] out"),
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
