"""Texts of a Hudi table that claim more than there is: locks, heartbeats, schemas, properties."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from lookupstore.errors import CorruptionError
from lookupstore.hudi.keys.avro_types import arrow_schema
from lookupstore.hudi.locking.owner import Owner, parse_owner
from lookupstore.hudi.locking.places import LEASE, lease_of
from lookupstore.hudi.properties import parse_properties
from lookupstore.hudi.timeline.commit import parse_commit
from lookupstore.hudi.timeline.records import from_record
from lookupstore.storage.lock_file import SeenLock

DEEP = b"[" * 900 + b"]" * 900


@dataclasses.dataclass
class Kinds:
    """Fields that could be taken for each other."""

    texts: Mapping[str, str]
    number: int | None = None
    ratio: float | None = None


def test_values_are_of_their_kind() -> None:
    assert from_record(Kinds, {"texts": {"a": "b"}, "ratio": 1}) == Kinds({"a": "b"}, None, 1.0)
    for wrong in ({"texts": "a"}, {"texts": None}, {"texts": {}, "number": True},
                  {"texts": {}, "number": 1.0}, {"texts": {"a": 1}}, {}):  # fmt: skip
        with pytest.raises(ValueError, match=r"Kinds\.|missing"):
            from_record(Kinds, wrong)


def test_owners() -> None:
    said = json.loads(Owner.here().to_json())
    assert parse_owner(json.dumps(said).encode()) is not None
    for pid in (0, -1, 1 << 31, 1 << 80):
        said["owner"]["pid"] = pid
        assert parse_owner(json.dumps(said).encode()) is None
    for wrong in (b"", DEEP, b"[" * 100_000, b"\xff", b'{"owner": 1}', b"[]", b" " * 70_000 + b"1"):
        assert parse_owner(wrong) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"1", b"[]", b"{}", DEEP, b'{"lease": 1' + b"0" * 400 + b"}", b'{"lease": []}', b"\xff"],
)
def test_leases(content: bytes) -> None:
    assert lease_of(SeenLock(content, ())) == LEASE


def record(fields: list[Any], name: str = "r") -> dict[str, Any]:
    stored = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(fields)]
    return {"type": "record", "name": name, "fields": stored}


def doubled(depth: int) -> dict[str, Any]:
    """Return a schema of 2 to the power of `depth` columns, in few bytes."""
    kinds: list[Any] = [record(["long"], "n0")]
    kinds += [record([f"n{at}", f"n{at}"], f"n{at + 1}") for at in range(depth)]
    return record(kinds)


def chained(length: int) -> dict[str, Any]:
    """Return types of which each holds the one before: deep, without a deep text."""
    kinds: list[Any] = [record(["long"], "n0")]
    kinds += [record([f"n{at}"], f"n{at + 1}") for at in range(length)]
    return record(kinds)


@pytest.mark.parametrize(
    "schema",
    [
        doubled(40),
        chained(200),
        record(["r"]),
        record([{"type": "fixed", "name": "x", "size": -1}]),
        record([{"type": "fixed", "name": "x", "size": 1 << 40}]),
        record([{"type": "fixed", "name": "x", "size": (1 << 20) + 1}]),
        record([{"type": "fixed", "name": "x", "size": True}]),
        record([{"type": "fixed", "name": "x", "size": 8, "logicalType": "decimal",
                 "precision": 1 << 70}]),
        {"type": "record", "name": "r", "fields": [{"name": "\ud800", "type": "long"}]},
    ],
)  # fmt: skip
def test_schemas(schema: dict[str, Any]) -> None:
    with pytest.raises(CorruptionError, match=r"^a\.commit: .* the Avro schema of a table"):
        arrow_schema(json.dumps(schema), "a.commit")


def test_schemas_within_bounds() -> None:
    assert arrow_schema(json.dumps(chained(50)), "w").names[-1] == "f50"
    assert len(arrow_schema(json.dumps(doubled(8)), "w")) == 9
    fixed = arrow_schema(json.dumps(record([{"type": "fixed", "name": "x", "size": 16}])), "w")
    assert fixed.field(0).type == pa.binary(16)
    for wrong in ("[" * 100_000, DEEP.decode(), "1" * 5000):
        with pytest.raises(CorruptionError, match=r"^w: "):
            arrow_schema(wrong, "w")


def test_commits_and_properties() -> None:
    for wrong in (DEEP, b"[" * 100_000, b'{"operationType": ' + DEEP + b"}", b"\xff", b"7" * 9999):
        with pytest.raises(CorruptionError, match=r"^a"):
            parse_commit(wrong, "a")
    with pytest.raises(CorruptionError, match="properties of at most 4194304 bytes"):
        parse_properties(b"a" * (4 << 20) + b"b", "p")
    assert parse_properties(b"#" * (4 << 20), "p") == {}
