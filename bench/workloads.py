"""What the bench stores and asks for: two workloads, the same in every run.

W1: int64 keys as 8 big-endian bytes, values of 32 random bytes.
W2: string keys of 24 to 26 bytes that share prefixes, values of 100 bytes that shrink to half.

Keys are drawn from twice as many as are stored, so that misses lie between the hits and not beyond
them. Everything that a rival takes as Python bytes is made before the clock starts.
"""

from __future__ import annotations

import binascii
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
    """Hold n keys to look up and what is right: `expected` is null where the key is missing."""

    keys: pa.Array
    expected: pa.Array
    ascending: bool = False

    @cached_property
    def listed(self) -> list[bytes]:
        """Return the keys as Python bytes."""
        listed: list[bytes] = self.keys.to_pylist()
        return listed


@dataclass(frozen=True)
class Workload:
    """Hold records in key order and the ways to ask for them.

    Attributes:
        name: `W1` or `W2`.
        keys: Arrow binary array of n keys, ascending.
        values: Arrow binary array of n values.
        random: hits in random order, some of them repeated.
        sorted: the same hits in key order.
        missing: keys of the same kind that are not stored, in random order.
        table: n rows in random order: a column `id`, the key as its own type, and four more.
        ids: typed hits in random order.
        expected_rows: the four columns at `ids`.
        missing_ids: typed keys that are not stored, in random order.
    """

    name: str
    keys: pa.Array
    values: pa.Array
    random: Queries
    sorted: Queries
    missing: Queries
    table: pa.Table
    ids: pa.Array
    expected_rows: pa.Table
    missing_ids: pa.Array

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def listed(self) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values as Python bytes."""
        return self.keys.to_pylist(), self.values.to_pylist()

    def prepare(self) -> None:
        """Make the Python bytes now, before a clock starts."""
        _ = self.listed


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

    return make("W1", records, queries, lambda ids: pa.array(ids), int_keys, values, columns)


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
        values,
        columns,
    )


def make(
    name: str,
    records: int,
    queries: int,
    typed: Callable[[Ints], pa.Array],
    encoded: Callable[[Ints], pa.Array],
    values_of: Callable[[Random, int], pa.Array],
    columns_of: Callable[[Random, int], dict[str, pa.Array]],
) -> Workload:
    random = np.random.default_rng(SEED)
    ids = random.permutation(2 * records)
    stored, absent = ids[:records], ids[records:]
    unsorted = encoded(stored)
    order = pc.sort_indices(unsorted.cast(pa.binary()))
    keys, values = unsorted.take(order), values_of(random, records)

    hits = random.integers(0, records, queries)
    in_order = np.sort(hits)
    misses = random.choice(absent, queries)

    def found(rows: Ints, ascending: bool = False) -> Queries:
        expected = values.take(pa.array(rows)).cast(pa.large_binary())
        return Queries(keys.take(pa.array(rows)), expected, ascending)

    table = pa.table({"id": typed(stored), **columns_of(random, records)})
    rows = table.take(pa.array(random.integers(0, records, queries))).combine_chunks()
    return Workload(
        name=name,
        keys=keys,
        values=values,
        random=found(hits),
        sorted=found(in_order, ascending=True),
        missing=Queries(encoded(misses), pa.nulls(queries, pa.large_binary())),
        table=table,
        ids=rows["id"].combine_chunks(),
        expected_rows=rows.drop_columns(["id"]),
        missing_ids=typed(misses),
    )


WORKLOADS = {"W1": w1, "W2": w2}
