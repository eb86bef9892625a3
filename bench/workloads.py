"""What the bench stores and asks for: two workloads, the same in every run.

W1: int64 keys as 8 big-endian bytes, values of 32 random bytes.
W2: string keys of 24 to 26 bytes that share prefixes, values of 100 bytes that shrink to half.

Keys are drawn from twice as many as are stored, so that misses lie between the hits and not beyond
them. Everything that a rival takes as Python bytes is made before the clock starts.
"""

from __future__ import annotations

import binascii
import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SEED = 20240229
PREFIXES = ("user/eu/", "user/us/", "user/asia/", "item/eu/", "item/us/", "order/eu/", "order/us/")

Ints = npt.NDArray[np.int64]
Random = np.random.Generator


@dataclass(frozen=True)
class Queries:
    """n keys to look up and what is right: `expected` is null where the key is missing."""

    keys: pa.Array
    expected: pa.Array
    ascending: bool = False

    @cached_property
    def listed(self) -> list[bytes]:
        """Return the keys as Python bytes."""
        listed: list[bytes] = self.keys.to_pylist()
        return listed

    def __len__(self) -> int:
        return len(self.keys)

    def calls(self, size: int, most: int) -> list[Queries]:
        """Return the first keys as at most so many calls of `size` keys: none is in two calls."""
        size = min(size, len(self))
        starts = range(0, min(most, len(self) // size) * size, size)
        return [
            Queries(self.keys.slice(at, size), self.expected.slice(at, size), self.ascending)
            for at in starts
        ]


@dataclass(frozen=True)
class TypedRows:
    """The rows of a workload with types, and which of them are asked for.

    Attributes:
        table: n rows in random order: a column `id`, the key as its own type, and four more.
        ids: typed hits in random order, some of them repeated.
        expected: the four columns at `ids`.
    """

    table: pa.Table
    ids: pa.Array
    expected: pa.Table


@dataclass(frozen=True)
class Workload:
    """Records in key order and the ways to ask for them.

    Attributes:
        name: `W1` or `W2`.
        keys: Arrow binary array of n keys, ascending.
        values: Arrow binary array of n values.
        random: hits in random order, some of them repeated.
        sorted: the same hits in key order.
        missing: keys of the same kind that are not stored, in random order.
        missing_ids: typed keys that are not stored, in random order.
        make_typed: makes the typed rows, the same at every call.
    """

    name: str
    keys: pa.Array
    values: pa.Array
    random: Queries
    sorted: Queries
    missing: Queries
    missing_ids: pa.Array
    make_typed: Callable[[], TypedRows]

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def listed(self) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values as Python bytes."""
        return self.keys.to_pylist(), self.values.to_pylist()

    @cached_property
    def typed(self) -> TypedRows:
        """Return the typed rows, which only stores need."""
        return self.make_typed()

    @property
    def table(self) -> pa.Table:
        """Return n rows in random order: a column `id`, and four more."""
        return self.typed.table

    @property
    def ids(self) -> pa.Array:
        """Return typed hits in random order."""
        return self.typed.ids

    @property
    def expected_rows(self) -> pa.Table:
        """Return the four columns at `ids`."""
        return self.typed.expected

    def release(self) -> None:
        """Free what was made of the records on request: Python bytes and typed rows."""
        for name in ("listed", "typed"):
            self.__dict__.pop(name, None)


def fixed_size(matrix: npt.NDArray[np.uint8]) -> pa.Array:
    """Return the rows of a byte matrix as a fixed_size_binary array."""
    rows, width = matrix.shape
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.Array.from_buffers(pa.binary(width), rows, [None, data])


def int_keys(ids: Ints) -> pa.Array:
    """Return the ids, none of them negative, as 8 big-endian bytes each."""
    return fixed_size(ids.astype(">i8").view(np.uint8).reshape(-1, 8))


def scatter(ids: Ints) -> npt.NDArray[np.uint64]:
    """Return numbers that look random, each id another one: the finalizer of splitmix64."""
    mixed = ids.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def string_keys(ids: Ints) -> pa.Array:
    """Return a string for each id: one of a few prefixes and 16 hexadecimal digits."""
    digits = np.frombuffer(binascii.hexlify(scatter(ids).astype(">u8").tobytes()), np.uint8)
    prefix = pa.array(PREFIXES).take(pa.array(ids % len(PREFIXES)))
    return pc.binary_join_element_wise(
        prefix, fixed_size(digits.reshape(-1, 16)).cast(pa.binary()).cast(pa.string()), ""
    )


def string_order(ids: Ints) -> Ints:
    """Return the positions of the ids in the byte order of their strings.

    No prefix begins another one, so their rank decides first: much faster than sorting strings.
    """
    rank = np.argsort(np.argsort(PREFIXES)).astype(np.uint8)
    by_digits: Ints = np.argsort(scatter(ids))
    by_prefix: Ints = np.argsort(rank[ids[by_digits] % len(PREFIXES)], kind="stable")
    return by_digits[by_prefix]


def random_bytes(random: Random, rows: int, width: int) -> npt.NDArray[np.uint8]:
    return random.integers(0, 256, (rows, width), np.uint8)


def w1(records: int, queries: int) -> Workload:
    """Make the workload of integers."""

    def values(random: Random, rows: int) -> pa.Array:
        return fixed_size(random_bytes(random, rows, 32))

    def columns(random: Random, rows: int) -> dict[str, pa.Array]:
        return {
            "account": pa.array(random.integers(0, 1 << 40, rows)),
            "count": pa.array(random.integers(0, 1 << 20, rows)),
            "price": pa.array(random.random(rows)),
            "seen": pa.array(random.integers(0, 1 << 50, rows), pa.timestamp("us")),
        }

    return make("W1", records, queries, pa.array, int_keys, np.argsort, values, columns)


def w2(records: int, queries: int) -> Workload:
    """Make the workload of strings."""

    def values(random: Random, rows: int) -> pa.Array:
        half = random_bytes(random, rows, 50)
        return fixed_size(np.concatenate([half, half], axis=1))

    def columns(random: Random, rows: int) -> dict[str, pa.Array]:
        def text(width: int) -> pa.Array:
            digits = random_bytes(random, rows, width) % 16 + ord("a")
            return fixed_size(digits).cast(pa.binary()).cast(pa.string())

        return {
            "count": pa.array(random.integers(0, 1 << 20, rows)),
            "price": pa.array(random.random(rows)),
            "name": text(24),
            "note": text(60),
        }

    return make(
        "W2",
        records,
        queries,
        string_keys,
        lambda ids: string_keys(ids).cast(pa.binary()),
        string_order,
        values,
        columns,
    )


def make(
    name: str,
    records: int,
    queries: int,
    typed: Callable[[Ints], pa.Array],
    encoded: Callable[[Ints], pa.Array],
    order: Callable[[Ints], Ints],
    values_of: Callable[[Random, int], pa.Array],
    columns_of: Callable[[Random, int], dict[str, pa.Array]],
) -> Workload:
    """Make a workload of ids.

    Args:
        typed: gives the keys of ids as their own type.
        encoded: gives them as bytes.
        order: gives the positions of ids in the order of those bytes.
        values_of: gives so many values as fixed_size_binary.
        columns_of: gives so many rows of the four columns.
    """
    random = np.random.default_rng(SEED)
    ids = random.permutation(2 * records)
    stored, absent = ids[:records], ids[records:]
    keys, values = encoded(stored[order(stored)]), values_of(random, records)

    hits = random.integers(0, records, queries)
    in_order = np.sort(hits)
    misses = random.choice(absent, queries)

    def found(rows: Ints, ascending: bool = False) -> Queries:
        expected = values.take(pa.array(rows)).cast(pa.large_binary())
        return Queries(keys.take(pa.array(rows)), expected, ascending)

    def make_typed() -> TypedRows:
        again = copy.deepcopy(random)  # every call draws the same
        table = pa.table({"id": typed(stored), **columns_of(again, records)})
        asked = table.take(pa.array(again.integers(0, records, queries))).combine_chunks()
        return TypedRows(table, asked["id"].combine_chunks(), asked.drop_columns(["id"]))

    return Workload(
        name=name,
        keys=keys,
        values=values,
        random=found(hits),
        sorted=found(in_order, ascending=True),
        missing=Queries(encoded(misses), pa.nulls(queries, pa.large_binary())),
        missing_ids=typed(misses),
        make_typed=make_typed,
    )


WORKLOADS = {"W1": w1, "W2": w2}
