"""Parquet, Arrow IPC, CSV and JSON lines by polars."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
from zoo.makers.made import Made

ROWS = 8


def frames() -> dict[str, pl.DataFrame]:
    """Return a frame of a unique column `id` and one column of each type."""
    moments = [datetime(1970, 1, 1), datetime(2020, 2, 29, 12, 30, 0, 123456), None]
    far = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), None]
    columns: dict[str, tuple[list[Any], Any]] = {
        **{
            one.__name__.lower(): ([0, 1, None, 127], one)
            for one in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
        },
        "uint64": ([0, 2**64 - 1, None], pl.UInt64),
        "int128": ([0, 2**100, -(2**100), None], pl.Int128),
        "float32": ([0.0, -0.0, float("nan"), None], pl.Float32),
        "float64": ([0.0, -0.0, float("nan"), float("inf"), None], pl.Float64),
        "boolean": ([True, False, None], pl.Boolean),
        "string": (["", "Zoë", "a,b", 'a"b', "two\nlines", None], pl.String),
        "binary": ([b"", b"\xff", None], pl.Binary),
        "date": ([date(1, 1, 1), date(9999, 12, 31), None], pl.Date),
        "time": ([time(0), time(23, 59, 59, 999999), None], pl.Time),
        "datetime_ms": (far, pl.Datetime("ms")),
        "datetime_us": (far, pl.Datetime("us")),
        "datetime_ns": (moments, pl.Datetime("ns")),
        "datetime_zone": (moments, pl.Datetime("us", "America/New_York")),
        "datetime_utc": (moments, pl.Datetime("ms", "UTC")),
        "duration": ([timedelta(days=1), timedelta(microseconds=-1), None], pl.Duration("us")),
        "decimal": ([Decimal("1.25"), Decimal("-99999999.99"), None], pl.Decimal(38, 2)),
        "categorical": (["a", "b", None], pl.Categorical),
        "enum": (["a", "b", None], pl.Enum(["a", "b"])),
        "list": ([[1, None], [], None], pl.List(pl.Int64)),
        "array": ([[1, 2], None, [3, None]], pl.Array(pl.Int64, 2)),
        "struct": ([{"a": 1, "b": "x"}, None], pl.Struct({"a": pl.Int64, "b": pl.String})),
        "null": ([None], pl.Null),
        "nested": ([[{"a": [1]}], [], None], pl.List(pl.Struct({"a": pl.List(pl.Int8)}))),
    }
    made = {}
    for name, (values, kind) in columns.items():
        cycled = [values[i % len(values)] for i in range(ROWS)]
        series = pl.Series("value", cycled, dtype=kind, strict=False)
        made[name] = pl.DataFrame({"id": range(ROWS)}).with_columns(series)
    return made


def make(made: Made) -> None:
    """Write all files."""
    all_frames = frames()
    for name, frame in all_frames.items():
        with made.file(f"types/{name}.parquet") as path:
            frame.write_parquet(path)
        with made.file(f"types/{name}.arrow") as path:
            frame.write_ipc(path)
        with made.file(f"types/{name}.csv") as path:
            frame.write_csv(path)
        with made.file(f"types/{name}.jsonl") as path:
            frame.write_ndjson(path)
    wide = pl.concat(
        [
            frame.select(pl.col("value").alias(name))
            for name, frame in all_frames.items()
            if name != "int128"
        ],
        how="horizontal",
    ).with_row_index("id")
    parquet: dict[str, dict[str, Any]] = {
        **{
            codec: {"compression": codec}
            for codec in ("uncompressed", "lz4", "snappy", "gzip", "brotli", "zstd")
        },
        "statistics-full": {"statistics": "full"},
        "no-statistics": {"statistics": False},
        "small-pages": {"data_page_size": 64},
        "row-groups": {"row_group_size": 3},
        "by-pyarrow": {"use_pyarrow": True},
        "no-arrow-schema": {"arrow_schema": None},
    }
    for name, settings in parquet.items():
        with made.file(f"parquet/{name}.parquet") as path:
            wide.write_parquet(path, **settings)
    for codec in ("uncompressed", "lz4", "zstd"):
        with made.file(f"ipc/{codec}.arrow") as path:
            wide.write_ipc(path, compression=codec)
        with made.file(f"ipc/oldest-{codec}.arrow") as path:
            wide.write_ipc(path, compression=codec, compat_level=pl.CompatLevel.oldest())
        with made.file(f"ipc/{codec}.arrows") as path:
            wide.write_ipc_stream(path, compression=codec)
    flat = pl.concat(
        [
            all_frames[name].select(pl.col("value").alias(name))
            for name in ("int64", "float64", "string", "date", "datetime_us", "boolean", "decimal")
        ],
        how="horizontal",
    ).with_row_index("id")
    csv: dict[str, dict[str, Any]] = {
        "bom": {"include_bom": True},
        "semicolon": {"separator": ";"},
        "crlf": {"line_terminator": "\r\n"},
        "always": {"quote_style": "always"},
        "non-numeric": {"quote_style": "non_numeric"},
        "null": {"null_value": "NA"},
        "comma": {"decimal_comma": True},
        "scientific": {"float_scientific": True},
    }
    for name, settings in csv.items():
        with made.file(f"csv/{name}.csv") as path:
            flat.write_csv(path, **settings)
    with made.file("delta") as path:
        wide.select("id", "string", "float64", "date", "list").write_delta(path)
