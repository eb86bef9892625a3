"""Columns of every Arrow type, with the values at which readers go wrong."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

ROWS = 12
UTC = dt.timezone.utc
TEXTS = [
    "",
    "a",
    "Zoë",
    "007",
    "NULL",
    'inch " mark',
    "a,b;c\td",
    "two\nlines",
    "\0",
    "𝄞",
    " x ",
    None,
]


def cycled(values: list[Any]) -> list[Any]:
    """Return `ROWS` values, some of them repeated."""
    return [values[i % len(values)] for i in range(ROWS)]


def integers(bits: int, *, signed: bool) -> list[Any]:
    """Return integers of some bits, with the least and the greatest."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return cycled([0, 1, low, high, high - 1, low + 1, None, 7, 100])


def moments(unit: str, zone: str | None) -> pa.Array:
    """Return timestamps of a unit, with those that nanoseconds do not hold, if others do."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    far = [] if unit == "ns" else [253402300799, -62135596800, 9223372037, -9223372037]
    near = [0, -1, 1, 1700000000, 951782400, -2208988800]
    values = [second * per_second for second in near + far]
    if unit != "s":
        values += [1700000000 * per_second + per_second - 1, -1]
    return pa.array(cycled([*values, None]), pa.int64()).cast(pa.timestamp(unit, zone))


def decimals(precision: int, scale: int) -> list[Any]:
    """Return decimals with all digits, and with few."""
    full = Decimal((0, (9,) * precision, -scale))
    one = Decimal((0, (1,), -scale))
    return cycled([full, full.copy_negate(), one, one.copy_negate(), Decimal(0), None])


def columns() -> dict[str, Callable[[], pa.Array]]:
    """Return what makes a column of each type, by a name for files."""
    made: dict[str, Callable[[], pa.Array]] = {}

    def add(name: str, one: pa.DataType, values: list[Any]) -> None:
        made[name] = lambda: pa.array(cycled(values), one)

    for bits in (8, 16, 32, 64):
        add(f"int{bits}", getattr(pa, f"int{bits}")(), integers(bits, signed=True))
        add(f"uint{bits}", getattr(pa, f"uint{bits}")(), integers(bits, signed=False))
    add("bool", pa.bool_(), [True, False, None])
    add("null", pa.null(), [None])
    floats = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, None]
    add("float64", pa.float64(), floats)
    add("float32", pa.float32(), [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 2**-149, None])
    add("float16", pa.float16(), [0.0, -0.0, 1.5, math.nan, math.inf, 65504.0, 2**-24, None])
    for name in ("string", "large_string", "string_view"):
        add(name, getattr(pa, name)(), TEXTS)
    blobs = [b"", b"\0", b"\xff\xfe", b"a" * 300, None]
    for name in ("binary", "large_binary", "binary_view"):
        add(name, getattr(pa, name)(), blobs)
    add("fixed_binary", pa.binary(5), [b"\0" * 5, b"\xff" * 5, b"abcde", None])
    days = [
        dt.date(1970, 1, 1),
        dt.date(1, 1, 1),
        dt.date(9999, 12, 31),
        dt.date(1582, 10, 4),
        None,
    ]
    add("date32", pa.date32(), days)
    add("date64", pa.date64(), days)
    for unit in ("s", "ms", "us", "ns"):
        for zone, called in ((None, "local"), ("UTC", "utc"), ("America/New_York", "zone")):
            made[f"timestamp_{unit}_{called}"] = lambda u=unit, z=zone: moments(u, z)
    for unit, one in (("s", pa.time32), ("ms", pa.time32), ("us", pa.time64), ("ns", pa.time64)):
        last = {"s": 86399, "ms": 86399999, "us": 86399999999, "ns": 86399999999999}[unit]
        add(f"time_{unit}", one(unit), [0, 1, last, None])
    for unit in ("s", "ms", "us", "ns"):
        add(f"duration_{unit}", pa.duration(unit), [0, -1, 10**9, 2**62 // 10**9, None])
    for precision, scale in ((1, 0), (9, 2), (18, 18), (19, 0), (38, 10), (38, 38)):
        kind = pa.decimal128(precision, scale)
        add(f"decimal_{precision}_{scale}", kind, decimals(precision, scale))
    add("decimal32", pa.decimal32(9, 3), decimals(9, 3))
    add("decimal64", pa.decimal64(18, 3), decimals(18, 3))
    add("decimal256", pa.decimal256(76, 20), decimals(50, 20))
    add("decimal_negative_scale", pa.decimal128(5, -2), [Decimal(100), Decimal(-9999900), None])
    add("interval", pa.month_day_nano_interval(), [(1, 2, 3), (-1, 0, 10**15), None])
    made["dictionary"] = lambda: pa.array(cycled(TEXTS)).dictionary_encode()
    made["dictionary_int"] = lambda: pa.array(cycled([5, 7, None])).dictionary_encode()
    made["run_end"] = lambda: pa.RunEndEncodedArray.from_arrays([4, ROWS], ["a", "b"])
    lists = [[], [1], [None], None, [1, 2, 3]]
    for name in ("list", "large_list", "list_view", "large_list_view"):
        add(name, getattr(pa, f"{name}_" if name == "list" else name)(pa.int32()), lists)
    add("fixed_list", pa.list_(pa.int32(), 2), [[1, 2], None, [None, 3]])
    add("list_of_lists", pa.list_(pa.list_(pa.string())), [[], [[]], [["a"], None], None])
    add("list_of_structs", pa.list_(pa.struct({"a": pa.int8()})), [[], [{"a": 1}, None], None])
    add("struct", pa.struct({"a": pa.int64(), "b": pa.string()}), [{"a": 1, "b": "x"}, {}, None])
    deep = pa.struct({"in": pa.struct({"a": pa.list_(pa.float64())})})
    add("struct_deep", deep, [{"in": {"a": [1.5, None]}}, {"in": None}, None])
    add("struct_empty", pa.struct([]), [{}, None])
    add("map", pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], [], None])
    add("map_of_lists", pa.map_(pa.int32(), pa.list_(pa.string())), [[(1, ["a"])], [], None])
    made["uuid"] = lambda: pa.array(
        cycled([b"0123456789abcdef", b"\xff" * 16, None]), pa.binary(16)
    ).cast(pa.uuid())
    made["json"] = lambda: pa.ExtensionArray.from_storage(
        pa.json_(), pa.array(cycled(['{"a": 1}', "null", None]))
    )
    made["opaque"] = lambda: pa.ExtensionArray.from_storage(
        pa.opaque(pa.binary(), "thing", "vendor"), pa.array(cycled([b"x", None]))
    )
    made["bool8"] = lambda: pa.ExtensionArray.from_storage(
        pa.bool8(), pa.array(cycled([1, 0, None]), pa.int8())
    )
    made["union"] = lambda: pa.UnionArray.from_dense(
        pa.array([0, 1] * (ROWS // 2), pa.int8()),
        pa.array([i // 2 for i in range(ROWS)], pa.int32()),
        [pa.array(range(ROWS // 2)), pa.array(["a"] * (ROWS // 2))],
    )
    return made


def table_of(name: str) -> pa.Table:
    """Return a table of a unique column `id` and one column of a type."""
    return pa.table({"id": pa.array(range(ROWS), pa.int32()), "value": columns()[name]()})


def wide_table(without: tuple[str, ...] = (), rows: int = 1) -> pa.Table:
    """Return a table of a unique column `id` and columns of all types but some.

    Args:
        without: Beginnings of names of types.
        rows: How often the rows are repeated.
    """
    made = {name: one() for name, one in columns().items() if not name.startswith(without)}
    table = pa.concat_tables([pa.table(made)] * rows)
    return table.add_column(0, "id", pa.array(range(table.num_rows), pa.int64()))
