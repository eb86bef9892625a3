"""Stores in polars queries: an expression that looks up keys, and a scan of rows.

`lookup` returns an expression for use anywhere in a query: the rows at keys, as structs.
`scan_store` returns a LazyFrame of all rows. A query on it reads only the columns that it needs
and, where its filters compare keys, only the rows that it needs. Both run when polars runs the
query.
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

#: Rows of a frame of a scan, unless polars asks for a number of rows.
BATCH_ROWS = 100_000


def lookup(
    keys: str | pl.Expr | Sequence[str | pl.Expr] | Mapping[str, str],
    store: Lookups | str | os.PathLike[str] | Location,
    *,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pl.Expr:
    """Return an expression of the rows at keys: structs of value columns, or null.

    A missing key gives null. A null in the key finds nothing, not even a null key of the store, as
    in a join.

    Args:
        keys: Key, as the name of a column or as an expression. For a key of several fields: a list
            of names or expressions in the order of the key, or a dict from column to key column. A
            list of exactly the names of the key columns may have any order.
        store: Open store, `ColumnarFiles` or `TableLookup`, or the path of a store, whose current
            version is opened now.
        columns: Names of the value columns to read, in this order. Default: all.
        storage_options: Options for a store at a URI: credentials, region, endpoint and the like,
            by the names that pandas or deltalake have for them.

    Returns:
        An expression with the name of the (first) key, which polars runs piece by piece.

    Raises:
        TypeError: If the keys have another form, polars does not have the type of a value column,
            or `store` is not a store.
        KeyError: If there is no such key or value column.
        ValueError: If no value column is named, the number of keys is wrong, or `storage_options`
            is given with an open store.

    When polars runs the expression, it can also raise every error of `LookupStore.lookup`.

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
        raise ValueError(f"{lookups.path}: columns is empty; name at least one value column")
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
    """Return the rows at key columns as structs, null for a missing key."""
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

    A query reads only the columns that it needs. Filters that compare the first key columns with
    constants (`==`, `<`, `<=`, `>`, `>=`, `is_between`, `is_in`, joined by `&`) choose the range or
    the keys to read. Polars applies all filters to the rows that were read. If a store is small and
    its files are local and not compressed, this function reads all of it at once, so that polars
    joins its rows like those of a frame.

    Args:
        store: Open store, `ColumnarFiles` or `TableLookup`, or the path of a store, which is opened
            now.
        version: Number of the version to open at that path. Default: the current version.
        storage_options: Options for a store at a URI: credentials, region, endpoint and the like,
            by the names that pandas or deltalake have for them.

    Raises:
        TypeError: If polars does not have the type of a column, or `store` is not a store.
        ValueError: If `version` or `storage_options` is given with an open store.
        FileNotFoundError: If there is no such store or version.
        FormatError: If the folder is not a store.

    When polars reads the rows, it can also raise every error of `LookupStore.scan`.

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
    # An open store never changes, so that a query with two uses of it may read it once.
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
    """The function that polars calls for the rows of a scan.

    Attributes:
        lookups: Open store, files or table with the rows.
        types: Polars types of all columns, by name.
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
            with_columns: Names of the columns to yield. None: All columns.
            predicate: Expression that is true for the rows to yield. None: All rows.
            n_rows: Number of rows, from the first on, to which the predicate is applied. None: All
                rows.
            batch_size: Approximate number of rows of a frame. None: `BATCH_ROWS`.
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
    """Yield batches as tables of about `size` rows, at least one, up to `most` rows."""
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
class ScanPart:
    """The part of the rows that a scan reads.

    Attributes:
        bounds: First encoded key of the range, and first encoded key after it. None: no bound.
        keys: Encoded keys to read, in key order. None: all keys within the bounds.
    """

    bounds: tuple[bytes | None, bytes | None]
    keys: pa.Array | None = None

    def batches(
        self, lookups: Lookups, names: Sequence[str], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in key order: the key columns and the named value columns."""
        if self.keys is None:
            yield from lookups._scan(names, *self.bounds, False)
            return
        for at in range(0, len(self.keys), CALL_KEYS):
            keys = lookups.key_schema.decode(self.keys[at : at + CALL_KEYS])
            found, values = look_up(lookups, keys.columns, names)
            columns = [*keys.columns, *map(one_array, values)]
            yield keep_rows(pa.RecordBatch.from_arrays(columns, schema=schema), found)


ALL = ScanPart((None, None))
NOTHING = ScanPart((b"", b""))
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


def part_of(predicate: pl.Expr, schema: KeySchema, types: Mapping[str, pl.DataType]) -> ScanPart:
    """Return a part of the rows that includes every row for which a predicate is true.

    A comparison that is not understood, or that may differ from the order of keys, does not narrow
    the part.

    Args:
        predicate: Expression that polars passes to a source of rows.
        schema: Schema of the key.
        types: Polars types of all columns, by name.

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
                        return NOTHING  # nothing is equal to null, or less, or greater
                    bounds[name].append((sign, present.to_arrow()))
        return _part(schema, bounds)
    except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
        return ALL  # polars or the key does not understand a constant


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
    """Yield the comparisons of one column: its name, a sign, and constants.

    The sign is one of `COMPARISONS`, with one constant, or "in". To recognise an expression, this
    makes the same one from its inputs, since polars can only compare two expressions.
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

    A comparison with another type may round, and categories have an order of their own.
    """
    return values.dtype == kind and not isinstance(kind, (pl.Categorical, pl.Enum))


def _part(schema: KeySchema, bounds: Mapping[str, Sequence[tuple[str, pa.Array]]]) -> ScanPart:
    """Return the part of the rows for which comparisons of key columns can be true."""
    equal: list[pa.Scalar] = []
    for name in schema.names:
        same = [values[0] for sign, values in bounds[name] if sign == "==" and len(values) == 1]
        if not same:
            break
        equal.append(same[0])
    if len(equal) == len(schema.names):
        key = schema.encode_one(tuple(equal))
        return (
            NOTHING if key is None else ScanPart((None, None), pa.array([key], pa.large_binary()))
        )
    first = bounds[schema.names[0]]
    if len(schema.names) == 1 and (sets := [values for sign, values in first if sign == "in"]):
        return ScanPart((None, None), _sorted_keys(schema, sets[0]))
    return _range(schema, tuple(equal), bounds[schema.names[len(equal)]])


def _sorted_keys(schema: KeySchema, values: pa.Array) -> pa.Array:
    """Return the distinct encoded keys of values, in key order."""
    keys = schema.encode_masked([values])[0].cast(pa.large_binary()).drop_null()
    keys = keys.unique()
    return keys.take(pc.sort_indices(keys))


def _range(
    schema: KeySchema, equal: tuple[pa.Scalar, ...], signs: Sequence[tuple[str, pa.Array]]
) -> ScanPart:
    """Return the keys that begin with values, with the next value within all ranges."""
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
    return ScanPart((low or None, high))


def _ends(schema: KeySchema, values: tuple[pa.Scalar, ...]) -> tuple[bytes | None, bytes | None]:
    """Return the first key that begins with values, and the first key after these.

    None: There is no such key.
    """
    inside = schema.encode_prefix(values)
    if inside is not None:
        return inside
    # Between keys, such as half a second if the key has whole seconds.
    _, behind = schema.encode_bounds(None, values)
    return behind, behind
