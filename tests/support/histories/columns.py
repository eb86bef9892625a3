"""Types and values of the columns of random tables."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

_UTC = datetime.timezone.utc
#: Texts of partitions, as folders of tables must not have them.
PLACES = ["x y", "ü", "a/b", "a=b", "50%", "%20", "a:b", "日本", "null", "a'b", "a+b&c?#", None]
#: Type and values of each column that a table may have besides its id.
KINDS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "s": (pa.string(), ["a", "bb", "ü", "", None]),
    "n": (pa.int32(), [1, 2, None]),
    "part": (pa.string(), PLACES),
    "price": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("0.01"), None]),
    "large": (pa.decimal128(38, 10), [Decimal("-12345678901234567890.0000000001"), None]),
    "day": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None]),
    "at": (
        pa.timestamp("us", "UTC"),
        [
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, _UTC),
            datetime.datetime(2024, 2, 29, 12, 0, 0, 1, _UTC),
            None,
        ],
    ),
    "local": (
        pa.timestamp("us"),
        [datetime.datetime(1970, 1, 1), datetime.datetime(2024, 2, 29, 1, 2, 3, 4), None],
    ),
    "flag": (pa.bool_(), [True, False, None]),
    "real": (pa.float32(), [1.5, -0.25, None]),
    "wide": (pa.float64(), [1e300, -0.1, None]),
    "blob": (pa.binary(), [b"", b"\0\xff", None]),
    "tags": (pa.list_(pa.string()), [["a", None], [], None]),
    "pair": (
        pa.struct({"a": pa.int32(), "b": pa.string()}),
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
    ),
    "pairs": (pa.map_(pa.string(), pa.int32()), [[("x", 1), ("y", None)], [], None]),
    "deep": (
        pa.list_(pa.struct({"c": pa.list_(pa.int64())})),
        [[{"c": [1, None]}, None], [{"c": None}], None],
    ),
}
#: Columns by which tables can be partitioned.
PLACED = ["part", "n", "price", "day", "at", "local", "flag"]


class Values:
    """The values of the columns of one table: few places, so that it has few files.

    Args:
        chance: Source of the values.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        #: Values of `part`.
        self.places: list[str | None] = chance.sample(PLACES, 3)

    def one(self, name: str) -> Any:
        """Return a random value of a column of `KINDS`."""
        return self._chance.choice(self.places if name == "part" else KINDS[name][1])

    def column(self, name: str, count: int) -> pa.Array:
        """Return random values of a column of `KINDS`."""
        return pa.array([self.one(name) for _ in range(count)], KINDS[name][0])


def more_columns(chance: random.Random, without: Iterable[str] = ()) -> list[str]:
    """Return the names of some columns besides `s`, `n` and `part`."""
    names = [name for name in KINDS if name not in {"s", "n", "part", *without}]
    return chance.sample(names, chance.choice([0, 1, 3]))
