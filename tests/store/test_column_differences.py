"""The column that differs between two versions, in the words of users."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lookupstore

BEFORE = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("key", "columns", "said"),
    [
        (["id"], [("id", pa.int64()), ("a", pa.int32()), ("b", pa.binary())],
         "the value column 'b' was string and is binary;"),
        (["id"], [("id", pa.int64()), ("b", pa.string())],
         "the value column 'a' (int32) is gone;"),
        (["id"], [*((one.name, one.type) for one in BEFORE), ("c", pa.bool_())],
         "the value column 'c' (bool) is new;"),
        (["id"], [("id", pa.int64()), ("b", pa.string()), ("a", pa.int32())],
         "the value columns are in another order;"),
        (["id"], [("id", pa.string()), ("a", pa.int32()), ("b", pa.string())],
         "the key column 'id' was int64 not null and is string not null;"),
        (["id", "a"], [(one.name, one.type) for one in BEFORE],
         "the key column 'a' (int32 not null) is new;"),
    ],
)  # fmt: skip
def test_what_differs(
    tmp_path: Path, key: list[str], columns: list[tuple[str, pa.DataType]], said: str
) -> None:
    lookupstore.build(BEFORE.empty_table(), tmp_path / "s", key="id", allow_empty=True).close()
    other = pa.schema(columns).empty_table()
    with (
        lookupstore.build(
            other,
            tmp_path / "s",
            key=key,
            overwrite=True,
            allow_empty=True,
            allow_new_key=True,
            retain="1h",
        ) as store,
        pytest.raises(ValueError, match="versions 1 and 2 differ") as raised,
    ):
        store.changes(1)
    assert said in str(raised.value)
    assert "Schema(" not in str(raised.value)


@pytest.mark.parametrize(
    ("newer", "lost", "lost_again"),
    [
        ({"price": ["5"]}, "'price' was double and is string", "'price' was string and is double"),
        ({"price": [1]}, None, None),
        ({"price": [1.5], "more": [1]}, None, "'more' (int64) is gone"),
        ({}, "'price' (double) is gone", None),
    ],
)
def test_value_columns_that_readers_may_need_are_logged(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    newer: dict[str, list[object]],
    lost: str | None,
    lost_again: str | None,
) -> None:
    path = tmp_path / "s"
    lookupstore.build({"id": [1], "price": [1.5]}, path, key="id").close()
    lookupstore.build({"id": [1], **newer}, path, key="id", overwrite=True).close()
    with lookupstore.open(path, version=1) as first:
        lookupstore.publish(first, path, overwrite=True).close()
    said = [
        f"{path}: readers of version {version} may need value columns that change: {what}"
        for version, what in ((1, lost), (2, lost_again))
        if what is not None
    ]
    assert [one.getMessage() for one in caplog.records] == said
