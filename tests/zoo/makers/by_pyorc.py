"""ORC by pyorc, which is ORC's own C++ library: every type, and every setting of its writer."""

from __future__ import annotations

import zoneinfo
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from zoo.makers.made import Made

UTC = timezone.utc
MOMENTS = [
    datetime(2020, 2, 29, 12, 30, 0, 123456, UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    None,
]
FAR = [datetime(9999, 12, 31, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC), None]
TYPES: dict[str, tuple[str, list[Any]]] = {
    "boolean": ("boolean", [True, False, None]),
    "tinyint": ("tinyint", [-128, 127, None]),
    "smallint": ("smallint", [-32768, 32767, None]),
    "int": ("int", [-(2**31), 2**31 - 1, None]),
    "bigint": ("bigint", [-(2**63), 2**63 - 1, None]),
    "float": ("float", [0.0, -0.0, float("nan"), float("inf"), None]),
    "double": ("double", [0.0, -0.0, float("nan"), float("inf"), None]),
    "string": ("string", ["", "Zoë", "𝄞", None]),
    "char": ("char(5)", ["a", "Zoë", None]),
    "varchar": ("varchar(5)", ["a", "Zoë", None]),
    "binary": ("binary", [b"", b"\xff", None]),
    "date": ("date", [date(1, 1, 1), date(9999, 12, 31), None]),
    "timestamp": ("timestamp", MOMENTS),
    "timestamp_far": ("timestamp", FAR),
    "instant": ("timestamp with local time zone", MOMENTS),
    "decimal_18": ("decimal(18,2)", [Decimal("1.25"), Decimal("-9999999999999999.99"), None]),
    "decimal_38": ("decimal(38,10)", [Decimal("1.25"), Decimal("-12345678901234567890.5"), None]),
    "list": ("array<int>", [[1, None], [], None]),
    "map": ("map<string,int>", [{"a": 1}, {}, None]),
    "struct": ("struct<a:int,b:string>", [(1, "x"), (None, None), None]),
    "union": ("uniontype<int,string>", [1, "x", None]),
    "nested": ("array<struct<a:map<string,array<double>>>>", [[({"k": [1.5]},)], [], None]),
}


def make(made: Made) -> None:
    """Write all files."""
    import pyorc
    from pyorc.enums import CompressionKind, CompressionStrategy

    def write(path: str, kind: str, values: list[Any], rows: int, **settings: Any) -> None:
        schema = f"struct<id:int,value:{kind}>"
        with open(path, "wb") as file, pyorc.Writer(file, schema, **settings) as writer:
            for row in range(rows):
                writer.write((row, values[row % len(values)]))

    for name, (kind, values) in TYPES.items():
        with made.file(f"types/{name}.orc") as path:
            write(path, kind, values, 12)
    settings: dict[str, dict[str, Any]] = {
        **{f"codec-{one.name}": {"compression": one} for one in CompressionKind},
        "strategy": {"compression_strategy": CompressionStrategy.COMPRESSION},
        "small-stripes": {"stripe_size": 1024, "batch_size": 100},
        "small-blocks": {"compression_block_size": 4096, "memory_block_size": 4096},
        "stride": {"row_index_stride": 1000},
        "no-row-index": {"row_index_stride": 0},
        "dictionary": {"dict_key_size_threshold": 1.0},
        "bloom": {"bloom_filter_columns": ["id", "value"]},
        "shanghai": {"timezone": zoneinfo.ZoneInfo("Asia/Shanghai")},
        "new-york": {"timezone": zoneinfo.ZoneInfo("America/New_York")},
    }
    for name, setting in settings.items():
        for kind in ("string", "timestamp", "decimal_38", "nested"):
            with made.file(f"settings/{name}-{kind}.orc") as path:
                write(path, *TYPES[kind], 5000, **setting)
    with (
        made.file("roots/int.orc") as path,
        open(path, "wb") as file,
        pyorc.Writer(file, "int") as writer,
    ):
        writer.writerows([1, 2, 3])
