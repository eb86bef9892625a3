"""Sizes and times as texts, wherever a number is taken."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.quantities import bytes_of, seconds_of


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("0", 0), ("12345678901234567890", 12345678901234567890), ("7 B", 7), ("1KB", 1000),
        ("1kib", 1024), ("1K", 1024), ("2MiB", 2 << 20), ("2M", 2 << 20), ("2 mb", 2 * 10**6),
        (" 1GB ", 10**9), ("1g", 1 << 30), ("1.5GiB", 3 << 29), ("1TB", 10**12), ("1TiB", 1 << 40),
    ],
)  # fmt: skip
def test_sizes(text: str, right: int) -> None:
    assert bytes_of(text, "memory") == right


@pytest.mark.parametrize("text", ["", "GB", "1 XB", "-1", "1,5GB", "1e9", "1GBB", "\u0661GB "])
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"^memory is '.*'; give bytes, or a size such as 512MiB"):
        bytes_of(text, "memory")


@pytest.mark.parametrize("value", [1.5, True, None, b"1GB", [1]])
def test_what_is_no_size(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^memory is .*; give a whole number of bytes, or a size"):
        bytes_of(value, "memory")


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (0, 0), (1.5, 1.5), ("90", 90), ("90s", 90), ("1.5m", 90), ("1h", 3600), ("7d", 604800),
        (" 1 H ", 3600), (timedelta(minutes=2), 120), (float("inf"), float("inf")),
        ("1 minute", 60), ("10 seconds", 10), ("2 days", 172800), ("1.5 Hours", 5400),
        ("1 min", 60), ("5 mins", 300), ("3secs", 3), ("2 hr", 7200),
    ],
)  # fmt: skip
def test_times(value: Any, right: float) -> None:
    assert seconds_of(value, "retain") == right


@pytest.mark.parametrize("value", ["", "soon", "-1", "1w", "1:30", -1, float("nan"), timedelta(-1)])
def test_what_is_no_time(value: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^retain is .*; give (seconds, or a time such as|a time)"
    ):
        seconds_of(value, "retain")
    with pytest.raises(TypeError, match=r"^retain is None; give a timedelta, a number"):
        seconds_of(None, "retain")  # type: ignore[arg-type]


def test_wherever_a_size_or_time_is_taken(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "name": ["a", "b"]})
    path = tmp_path / "store"
    lookupstore.build(table, path, key="id", memory="1MiB", retain="1h").close()
    lookupstore.build(table, path, key="id", memory="1GB", overwrite=True, retain="1h").close()
    lookupstore.publish(path, tmp_path / "copy", retain="7d").close()
    assert lookupstore.expire(path, retain="30m").versions == ()
    assert lookupstore.expire(path, retain="0").versions == (1,)
    with lookupstore.open(path, cache_bytes="16MB") as store:
        assert store.get(1) == {"name": "a"}
    pq.write_table(table, tmp_path / "t.parquet")
    with ColumnarFiles(tmp_path / "t.parquet", key="id", memory="1MB") as files:
        assert files.lookup([2])["name"].to_pylist() == ["b"]
    sizing: Any = FileSizing
    assert sizing(max_file_size="128MiB", small_file_limit="1MB") == FileSizing(128 << 20, 10**6)
    encoding: Any = FileFormat
    assert encoding(row_group_bytes="64MiB").row_group_bytes == 64 << 20
    for call in (
        lambda: lookupstore.build(table, path, key="id", memory="big"),
        lambda: ColumnarFiles(tmp_path / "t.parquet", key="id", memory="big"),
    ):
        with pytest.raises(ValueError, match="memory is 'big'; give bytes"):
            call()
    with pytest.raises(ValueError, match="cache_bytes is 'big'; give bytes"):
        lookupstore.open(path, cache_bytes="big")
    with pytest.raises(ValueError, match="max_file_size is 'big'; give bytes"):
        sizing(max_file_size="big")
