"""Manifests under right hashes that claim more than there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash

import lookupstore
from lookupstore.errors import CorruptionError
from lookupstore.store.manifest import MAX_BUCKETS, parse_manifest


@pytest.fixture
def said(tmp_path: Path) -> dict[str, Any]:
    """Return what the manifest of a small store says."""
    lookupstore.build(pa.table({"id": [1, 2]}), tmp_path / "s", key="id").close()
    (path,) = (tmp_path / "s" / "versions").iterdir()
    fields: dict[str, Any] = json.loads(path.read_bytes())
    return fields


def content(fields: dict[str, Any]) -> bytes:
    """Return a manifest with a right hash."""
    fields = {name: value for name, value in fields.items() if name != "xxh64"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return json.dumps({**fields, "xxh64": xxhash.xxh64_hexdigest(text.encode())}).encode()


def test_buckets(said: dict[str, Any]) -> None:
    assert parse_manifest("m", content({**said, "buckets": MAX_BUCKETS})).buckets == 65536
    for many in (MAX_BUCKETS + 1, 1 << 40, 1 << 80):
        with pytest.raises(CorruptionError, match="field buckets: an integer from 1 to 65536"):
            parse_manifest("m", content({**said, "buckets": many}))
    with pytest.raises(CorruptionError, match="field rewritten_buckets"):
        parse_manifest("m", content({**said, "rewritten_buckets": said["buckets"] + 1}))


def test_numbers_are_those_of_64_bits(said: dict[str, Any]) -> None:
    for name in ("num_rows", "version"):
        with pytest.raises(CorruptionError, match=f"field {name}: an integer from"):
            parse_manifest("m", content({**said, name: 1 << 63}))
    for name in ("bytes", "num_records"):
        files = [{**said["files"][0], name: 1 << 63}]
        with pytest.raises(CorruptionError, match=f"{name}: an integer from"):
            parse_manifest("m", content({**said, "files": files}))


def test_options_that_nest(said: dict[str, Any]) -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(CorruptionError, match="nested deeper than 64"):
        parse_manifest("m", content({**said, "options": {"x": deep}}))
    for wrong in (b"[" * 100_000, b"\xff", b'{"a": "\\ud800"}', b"9" * 10_000):
        with pytest.raises(CorruptionError, match=r"^m: offset"):
            parse_manifest("m", wrong)
