"""Parquet by fastparquet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from zoo.makers.made import Made

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    **{codec: {"compression": codec} for codec in ("GZIP", "SNAPPY", "BROTLI", "LZ4", "ZSTD")},
    "uncompressed": {"compression": None},
    "int96": {"times": "int96"},
    "row-groups": {"row_group_offsets": [0, 3, 7]},
    "no-statistics": {"stats": False},
    "has-nulls": {"has_nulls": True},
    "no-nulls": {"has_nulls": False},
    "utf8": {"object_encoding": "utf8"},
    "fixed-text": {"object_encoding": {"text": "utf8"}, "fixed_text": {"text": 8}},
}


def columns() -> dict[str, Any]:
    """Return columns of pandas, by a name for files."""
    days = pd.date_range("1969-12-31", periods=10, freq="D")
    return {
        **{kind: np.arange(10).astype(kind) for kind in ("int8", "int16", "int32", "int64")},
        **{kind: np.arange(10).astype(kind) for kind in ("uint8", "uint16", "uint32", "uint64")},
        "uint64_large": np.arange(2**64 - 10, 2**64 - 0, dtype="uint64"),
        "float32": np.array([0.0, -0.0, np.nan, np.inf, 1.5] * 2, "float32"),
        "float64": np.array([0.0, -0.0, np.nan, np.inf, 1.5] * 2),
        "bool": np.arange(10) % 2 == 0,
        "text": [f"Zoë {i}" for i in range(10)],
        "text_nulls": ["a", None] * 5,
        "bytes": [b"\xff\x00"] * 10,
        "json": [{"a": 1}, [2]] * 5,
        "datetime": days,
        "datetime_utc": days.tz_localize("UTC"),
        "datetime_zone": days.tz_localize("America/New_York"),
        "timedelta": pd.to_timedelta(np.arange(10), "s"),
        "category": pd.Categorical(["a", "b"] * 5),
        "nullable_int": pd.array([1, None] * 5, dtype="Int64"),
        "nullable_bool": pd.array([True, None] * 5, dtype="boolean"),
        "nullable_string": pd.array(["a", None] * 5, dtype="string"),
    }


def make(made: Made) -> None:
    """Write all files."""
    import fastparquet

    for name, values in columns().items():
        frame = pd.DataFrame({"id": range(10), "value": values})
        with made.file(f"types/{name}.parquet") as path:
            fastparquet.write(path, frame)
        if name.startswith("datetime"):
            with made.file(f"types/{name}-int96.parquet") as path:
                fastparquet.write(path, frame, times="int96")
    plain = {n: v for n, v in columns().items() if n not in ("bytes", "json", "text_nulls")}
    frame = pd.DataFrame({"id": range(10), **plain})
    for name, settings in SETTINGS.items():
        with made.file(f"settings/{name}.parquet") as path:
            fastparquet.write(path, frame, **settings)
    with made.file("hive") as path:
        fastparquet.write(path, frame, file_scheme="hive", row_group_offsets=[0, 5])
