"""Stores in queries of polars: an expression that looks keys up, and rows that polars scans.

`lookup` gives what is stored at keys, as a struct, anywhere in a query. `scan_store` gives a
LazyFrame of all rows, of which a query reads the columns and, by their keys, the rows that it asks
for. Both run when polars does.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.frames import as_polars_has, polars_frame
from lookupstore.arrow.taking import keep_rows
from lookupstore.extras import require
from lookupstore.keys.arguments import column_of
from lookupstore.keys.at_hand import rows_at_hand
from lookupstore.keys.joins import CALL_KEYS, key_columns, look_up, one_array
from lookupstore.keys.lookups import Lookups, value_columns
from lookupstore.keys.schema import KeySchema
from lookupstore.storage.location import Location
from lookupstore.store.store import open as open_store

require("polars", "lookupstore.polars")

import polars as pl
from polars.io.plugins import register_io_source

__all__ = ["lookup", "scan_store"]

#: Rows of a frame of a scan, unless polars says how many it would have.
BATCH_ROWS = 100_000


def lookup(
    keys: str | pl.Expr | Sequence[str | pl.Expr] | Mapping[str, str],
    store: Lookups | str | os.PathLike[str] | Location,
    *,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pl.Expr:
    """Return an expression of the rows at keys: structs of value columns, null where none is.

    A null in the key finds nothing, not even a null key of the store, as in a join.

    Args:
        keys: the key, as the name of a column or as an expression; for a key of several fields a
            list of these in the order of the key, or a dict from column to key column. A list that
            has just the names of the key columns may have any order.
        store: an open store, `ColumnarFiles` or `TableLookup`; or the path of a store, whose
            current version is opened now.
        columns: value columns to read, in this order; None reads all.
        storage_options: of the URI of a store, as of `lookupstore.Location`.

    Returns:
        An expression with the name of the (first) key, which polars runs piece by piece.

    Raises:
        TypeError: keys of another form, a value column that polars does not have, or no store.
        KeyError: a key or value column that there is not.
        ValueError: no value column, or a wrong number of keys.

    And all that `LookupStore.lookup` raises, when polars runs it.

    >>> import tempfile, lookupstore
    >>> planes = pa.table({"tailnum": ["N1", "N2"], "seats": [55, 182]})
    >>> store = lookupstore.build(planes, tempfile.mkdtemp(), key="tailnum")
    >>> flights = pl.LazyFrame({"tailnum": ["N2", None, "N9"], "delay": [11, 3, 0]})
    >>> plane = lookup("tailnum", store)
    >>> flights.select("delay", plane.struct.field("seats")).collect().rows()
    [(11, 182), (3, None), (0, None)]
    """
    lookups = _opened(store, None, storage_options)
    names = value_columns(lookups, columns)
    if not names:
        raise ValueError(f"{lookups.path}: a struct has a field at least; give value columns")
    fields = [lookups.value_schema.field(name) for name in names]
    kind = pl.Struct(_types_of(pa.schema(fields), "leave it out of columns="))
    given = _key_expressions(keys, lookups.key_schema)

    def answers(series: Sequence[pl.Series], name: str) -> pl.Series:
        found = _structs(lookups, [column_of(one) for one in series], fields)
        return pl.Series(name, found)

    if len(given) == 1:
        return given[0].map_batches(lambda one: answers([one], one.name), kind, is_elementwise=True)
    parts = [f"{number}" for number in range(len(given))]
    packed = pl.struct(one.alias(part) for one, part in zip(given, parts, strict=True))
    return packed.map_batches(
        lambda one: answers([one.struct.field(part) for part in parts], lookups.key[0]),
        kind,
        is_elementwise=True,
    ).alias(lookups.key[0])


def _structs(lookups: Lookups, keys: Sequence[Any], fields: Sequence[pa.Field]) -> pa.ChunkedArray:
    """Return the rows at key columns as structs, null where there is none."""
    names = [field.name for field in fields]
    parts = []
    for at in range(0, max(1, len(keys[0])), CALL_KEYS):
        found, values = look_up(lookups, [key[at : at + CALL_KEYS] for key in keys], names)
        arrays = [as_polars_has(one_array(column)) for column in values]
        parts.append(pa.StructArray.from_arrays(arrays, names=names, mask=pc.invert(found)))
    return pa.chunked_array(parts)


def _key_expressions(keys: Any, schema: KeySchema) -> list[pl.Expr]:
    """Return an expression for each key field, in the order of the key."""
    if isinstance(keys, Mapping):
        return [pl.col(name) for name in key_columns(list(keys), schema, keys)]
    given: list[Any] = [keys] if isinstance(keys, (str, pl.Expr)) else list(keys)
    for one in given:
        if not isinstance(one, (str, pl.Expr)):
            raise TypeError(
                f"keys: found a {type(one).__name__}; give names of columns or expressions, or a "
                "dict from column to key column"
            )
    if len(given) != len(schema.names):
        raise ValueError(f"keys: {len(given)} are given; the key of the store is {schema.names}")
    if all(isinstance(one, str) for one in given) and set(given) == set(schema.names):
        given = list(schema.names)
    return [pl.col(one) if isinstance(one, str) else one for one in given]


def scan_store(
    store: Lookups | str | os.PathLike[str] | Location,
    *,
    version: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pl.LazyFrame:
    """Return a LazyFrame of all rows, in key order: key columns, then value columns.

    Of a query, the columns that it needs are read. Of its filters, those that compare the first
    key columns with constants (`==`, `<`, `<=`, `>`, `>=`, `is_between`, `is_in`, joined by `&`)
    choose the range or the keys that are read; polars filters what is read, by all of them. A small
    store, whose files are local and not compressed, is read now, whole: polars joins its rows as
    those of a frame.

    Args:
        store: an open store, `ColumnarFiles` or `TableLookup`; or the path of a store, which is
            opened now.
        version: number of the version at that path; None is the current one.
        storage_options: of the URI of a store, as of `lookupstore.Location`.

    Raises:
        TypeError: a column that polars does not have, or no store.
        ValueError: a version, or options, of what is open already.
        FileNotFoundError: there is no such store or version.
        FormatError: the folder is not a store.

    And all that `LookupStore.scan` raises, when it is read.

    >>> import tempfile, lookupstore
    >>> planes = pa.table({"tailnum": ["N1", "N2"], "seats": [55, 182]})
    >>> store = lookupstore.build(planes, tempfile.mkdtemp(), key="tailnum")
    >>> scan_store(store).filter(pl.col("tailnum") > "N1").select("seats").collect().rows()
    [(182,)]
    """
    lookups = _opened(store, version, storage_options)
    types = _types_of(lookups.schema, "give store.scan(columns=...) to pl.from_arrow")
    rows = rows_at_hand(lookups, lookups.value_schema.names)
    if rows is not None:
        frame: pl.DataFrame = polars_frame(rows)
        return frame.lazy()
    # What is open never changes, so that a query that has it twice may read it once.
    return register_io_source(_Source(lookups, types), schema=types, is_pure=True)


def _opened(store: Any, version: int | None, storage_options: Mapping[str, Any] | None) -> Lookups:
    if isinstance(store, (str, os.PathLike, Location)):
        return open_store(store, version=version, storage_options=storage_options)
    if not isinstance(store, Lookups):
        raise TypeError(
            f"store is {type(store).__name__}; give an open store or its path; of a Hudi table, "
            "lookupstore.hudi.TableLookup(PATH)"
        )
    if version is not None or storage_options:
        given = "storage_options are" if version is None else f"version={version} is"
        raise ValueError(f"{given} of a path; {store.path} is open already")
    return store


def _types_of(schema: pa.Schema, remedy: str) -> pl.Schema:
    """Return the types of columns in polars, or raise TypeError."""
    types = {}
    for field in schema:
        try:
            if _is_panicked_of(field.type):
                raise TypeError("a type that polars panics of, which nobody should catch")
            frame = pl.from_arrow(pa.schema([field]).empty_table())
        except Exception as error:
            raise TypeError(
                f"the column {field.name!r} is {field.type}, which polars does not have; {remedy}"
            ) from error
        assert isinstance(frame, pl.DataFrame)
        types[field.name] = frame.schema[field.name]
    return pl.Schema(types)


def _is_panicked_of(kind: pa.DataType) -> bool:
    if pa.types.is_interval(kind) or pa.types.is_decimal256(kind):
        return True
    if pa.types.is_struct(kind):
        inner = [field.type for field in kind]
    else:
        names = ("value_type", "key_type", "item_type")  # of lists and maps
        inner = [getattr(kind, name) for name in names if hasattr(kind, name)]
    return any(map(_is_panicked_of, inner))


@dataclass(frozen=True)
class _Source:
    """What polars calls for the rows of a scan.

    Attributes:
        lookups: whose rows they are.
        types: of all columns, in polars.
    """

    lookups: Lookups
    types: pl.Schema

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows in frames.

        Args:
            with_columns: names of the columns that are wanted; None: all.
            predicate: which rows are wanted.
            n_rows: of how many rows, from the first on, the predicate is asked; None: of all.
            batch_size: about how many rows a frame should have.
        """
        wanted = self.types.names() if with_columns is None else with_columns
        needed = {*wanted, *(predicate.meta.root_names() if predicate is not None else ())}
        values = [name for name in self.lookups.value_schema.names if name in needed]
        part = ALL
        if predicate is not None and n_rows is None:
            part = part_of(predicate, self.lookups.key_schema, self.types)
        left = n_rows
        schema = pa.schema(
            [
                *self.lookups.key_schema.schema,
                *(self.lookups.value_schema.field(name) for name in values),
            ]
        )
        batches = part.batches(self.lookups, values, schema)
        for table in _gathered(batches, schema, batch_size or BATCH_ROWS, n_rows):
            frame = polars_frame(table.select([name for name in schema.names if name in needed]))
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame.select(wanted)


def _gathered(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, size: int, most: int | None
) -> Iterator[pa.Table]:
    """Yield batches in tables of about so many rows: one at least, and none after `most` rows."""
    held: list[pa.RecordBatch] = []
    rows = done = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if most is not None and done + rows >= most:
            break
        if rows >= size:
            yield pa.Table.from_batches(held, schema)
            done += rows
            held, rows = [], 0
    if held or not done:
        yield pa.Table.from_batches(held, schema)


@dataclass(frozen=True)
class Part:
    """The part of the rows that a scan reads.

    Attributes:
        bounds: the first encoded key inside, and the first one behind; None for no bound.
        keys: encoded keys in key order, which alone are read; None: all within the bounds.
    """

    bounds: tuple[bytes | None, bytes | None]
    keys: pa.Array | None = None

    def batches(
        self, lookups: Lookups, names: Sequence[str], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in key order: key columns and the named value columns."""
        if self.keys is None:
            yield from lookups._scan(names, *self.bounds, False)
            return
        for at in range(0, len(self.keys), CALL_KEYS):
            keys = lookups.key_schema.decode(self.keys[at : at + CALL_KEYS])
            found, values = look_up(lookups, keys.columns, names)
            columns = [*keys.columns, *map(one_array, values)]
            yield keep_rows(pa.RecordBatch.from_arrays(columns, schema=schema), found)


ALL = Part((None, None))
NOTHING = Part((b"", b""))
#: Comparisons that bound a column from below, from above, or both.
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
BETWEEN: Mapping[Literal["both", "left", "right", "none"], tuple[str, str]] = {
    "both": (">=", "<="),
    "left": (">=", "<"),
    "right": (">", "<="),
    "none": (">", "<"),
}
MIRRORED = {"==": "==", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


def part_of(predicate: pl.Expr, schema: KeySchema, types: Mapping[str, pl.DataType]) -> Part:
    """Return a part of the rows that has all for which a predicate is true.

    What is not understood, or not surely the same in the order of keys, narrows nothing.

    Args:
        predicate: as polars gives it to a source.
        schema: the key.
        types: of all columns, in polars.

    >>> schema = KeySchema(pa.schema([("id", pa.uint8())]))
    >>> column = pl.col("id")
    >>> part_of(column >= pl.lit(3, pl.UInt8), schema, {"id": pl.UInt8()}).bounds
    (b'\\x03', None)
    >>> part_of(column % 2 == pl.lit(1, pl.UInt8), schema, {"id": pl.UInt8()}).bounds
    (None, None)
    """
    bounds: dict[str, list[tuple[str, pa.Array]]] = {name: [] for name in schema.names}
    try:
        for one in _conjuncts(predicate):
            for name, sign, values in _comparisons(one):
                if name in bounds and _is_ordered_alike(values, types[name]):
                    present = values.drop_nulls()
                    if present.is_empty():
                        return NOTHING  # nothing is equal to null, less or greater
                    bounds[name].append((sign, present.to_arrow()))
        return _part(schema, bounds)
    except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
        return ALL  # a constant that polars or the key does not understand


def _conjuncts(predicate: pl.Expr) -> Iterator[pl.Expr]:
    """Yield the predicates that a predicate joins by `&`."""
    left = [predicate]
    while left:
        one = left.pop()
        inputs = one.meta.pop()
        if len(inputs) == 2 and any(one.meta.eq(a & b) for a, b in (inputs, reversed(inputs))):
            left += inputs
        else:
            yield one


def _comparisons(one: pl.Expr) -> Iterator[tuple[str, str, pl.Series]]:
    """Yield what a predicate says of a column alone: its name, a sign, and constants.

    The sign is one of `COMPARISONS`, of one constant, or "in". An expression is known by making
    the same of its inputs: polars says whether two are equal, but not what one does.
    """
    names = one.meta.root_names()
    literals = [each for each in one.meta.pop() if each.meta.is_literal()]
    if len(names) != 1:
        return
    constants = [pl.select(each).to_series() for each in literals]
    column = pl.col(names[0])
    if len(constants) == 1:
        (constant,), (literal,) = constants, literals
        for sign, compare in COMPARISONS.items():
            if one.meta.eq(compare(column, literal)):
                yield names[0], sign, constant
            elif one.meta.eq(compare(literal, column)):
                yield names[0], MIRRORED[sign], constant
        if one.meta.eq(column.is_in(literal)) and isinstance(constant.dtype, pl.List):
            yield names[0], "in", constant.explode()
    elif len(constants) == 2:
        for low, high in ((0, 1), (1, 0)):
            for closed, signs in BETWEEN.items():
                if one.meta.eq(column.is_between(literals[low], literals[high], closed=closed)):
                    yield names[0], signs[0], constants[low]
                    yield names[0], signs[1], constants[high]


def _is_ordered_alike(values: pl.Series, kind: pl.DataType) -> bool:
    """Return whether polars compares constants with a column as keys are compared.

    Of another type, what is compared may be rounded; and categories have an order of their own.
    """
    return values.dtype == kind and not isinstance(kind, (pl.Categorical, pl.Enum))


def _part(schema: KeySchema, bounds: Mapping[str, Sequence[tuple[str, pa.Array]]]) -> Part:
    """Return the part that comparisons of key columns leave."""
    equal: list[pa.Scalar] = []
    for name in schema.names:
        same = [values[0] for sign, values in bounds[name] if sign == "==" and len(values) == 1]
        if not same:
            break
        equal.append(same[0])
    if len(equal) == len(schema.names):
        key = schema.encode_one(tuple(equal))
        return NOTHING if key is None else Part((None, None), pa.array([key], pa.large_binary()))
    first = bounds[schema.names[0]]
    if len(schema.names) == 1 and (sets := [values for sign, values in first if sign == "in"]):
        return Part((None, None), _sorted_keys(schema, sets[0]))
    return _range(schema, tuple(equal), bounds[schema.names[len(equal)]])


def _sorted_keys(schema: KeySchema, values: pa.Array) -> pa.Array:
    """Return the different keys that values are, encoded, in key order."""
    keys = schema.encode_masked([values])[0].cast(pa.large_binary()).drop_null()
    keys = keys.unique()
    return keys.take(pc.sort_indices(keys))


def _range(
    schema: KeySchema, equal: tuple[pa.Scalar, ...], signs: Sequence[tuple[str, pa.Array]]
) -> Part:
    """Return the keys that begin with values, and whose next one is in all of some ranges."""
    whole = schema.encode_prefix(equal)
    if whole is None:
        return NOTHING
    low, high = whole
    for sign, values in signs:
        ends = [_ends(schema, (*equal, value)) for value in values]
        if not sign.startswith("<"):
            starts = [start for end in ends if (start := end[sign == ">"]) is not None]
            if not starts:
                return NOTHING
            low = max(low, min(starts))
        if not sign.startswith(">"):
            stops = [stop for end in ends if (stop := end[sign != "<"]) is not None]
            if len(stops) == len(ends):
                high = max(stops) if high is None else min(high, max(stops))
    return Part((low or None, high))


def _ends(schema: KeySchema, values: tuple[pa.Scalar, ...]) -> tuple[bytes | None, bytes | None]:
    """Return where the keys that begin with values begin, and those behind them; None: none do."""
    inside = schema.encode_prefix(values)
    if inside is not None:
        return inside
    # Between keys, such as half a second where the key has whole ones.
    _, behind = schema.encode_bounds(None, values)
    return behind, behind
