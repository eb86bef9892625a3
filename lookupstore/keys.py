"""Typed keys: Arrow columns to and from bytes whose unsigned byte order is the typed order.

A key is its fields one after the other, so keys sort field by field. The layout of each field is
in ``csrc/ls_keys.h`` and ``docs/decisions/0003-key-encoding.md``.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import functools
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore import _keys
from lookupstore.errors import FormatError

KeyColumns: TypeAlias = (
    "pa.Table | pa.RecordBatch | pa.Array | Sequence[pa.Array | pa.ChunkedArray]"
)

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400

# What of one family can be told to a key of another, value by value, without a choice of rounding.
_KINDRED = {
    "float": ("integer",),
    "integer": ("float", "decimal"),
    "decimal": ("integer",),
}


@dataclass(frozen=True)
class _Field:
    """One field of a key: how C stores it, and how one Python value becomes its bytes."""

    name: str
    type: pa.DataType  # as declared
    plain: pa.DataType  # without dictionary, extension and view
    family: str
    code: tuple[int, int, bool]  # kind, width and nullable, for _keys
    one: Callable[[object], bytes | None]  # None: no key holds this value
    ceiling: Callable[[object], tuple[bytes | None, bool]]

    @property
    def nullable(self) -> bool:
        """Tell whether the field may hold null."""
        return self.code[2]

    @property
    def variable(self) -> bool:
        """Tell whether the values differ in size."""
        return self.code[0] == _keys.BYTES


class KeySchema:
    """Hold the types of the key fields, and encode and decode keys.

    Args:
        schema: the key fields in order. Bool, integers, floats, decimals, dates, times, timestamps,
            durations, strings and binaries of every width, also dictionary-encoded or as the
            storage of an extension type.
        nullable: names of the fields that may hold null. A null sorts before every value.

    Raises:
        TypeError: a field has a type that has no order here, such as a list.
        ValueError: no field, two fields of one name, or `nullable` names a field that is not
            there or that the schema says is never null.

    >>> keys = KeySchema(pa.schema([("origin", pa.string()), ("hour", pa.int32())]))
    >>> keys.encode([pa.array(["EWR"]), pa.array([5], pa.int32())])[0].as_py().hex(" ")
    '45 57 52 00 00 80 00 00 05'
    """

    def __init__(self, schema: pa.Schema, nullable: Sequence[str] = ()) -> None:
        names = list(schema.names)
        if not names:
            raise ValueError("schema has no fields; a key needs at least one")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"schema names the field {name!r} twice; key fields need names")
        if isinstance(nullable, str):
            raise TypeError(f"nullable is the string {nullable!r}; give a sequence of field names")
        for name in nullable:
            if name not in names:
                raise ValueError(
                    f"nullable names {name!r}, which is no key field ({', '.join(names)})"
                )
            if not schema.field(name).nullable:
                raise ValueError(f"nullable names {name!r}, which the schema declares as not null")
        self._schema = schema
        self._fields = tuple(_field(field, field.name in nullable) for field in schema)
        self._codes = [field.code for field in self._fields]
        fixed = not any(field.variable or field.nullable for field in self._fields)
        self._width = sum(code[1] for code in self._codes) if fixed else None

    @property
    def schema(self) -> pa.Schema:
        """Return the key fields as an Arrow schema."""
        return self._schema

    @property
    def nullable(self) -> tuple[str, ...]:
        """Return the names of the fields that may hold null."""
        return tuple(field.name for field in self._fields if field.nullable)

    @property
    def names(self) -> list[str]:
        """Return the names of the key fields in order."""
        return [field.name for field in self._fields]

    @property
    def width(self) -> int | None:
        """Return the size of every key in bytes, or None if keys differ in size."""
        return self._width

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeySchema):
            return NotImplemented
        same = self._schema.equals(other._schema, check_metadata=True)
        return bool(same) and self.nullable == other.nullable

    def __hash__(self) -> int:
        return hash((tuple(self.names), self.nullable))

    def __reduce__(self) -> tuple[type[KeySchema], tuple[pa.Schema, tuple[str, ...]]]:
        return KeySchema, (self._schema, self.nullable)

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{field.name}: {field.type}{' or null' if field.nullable else ''}"
            for field in self._fields
        )
        return f"KeySchema({fields})"

    def to_json(self) -> dict[str, Any]:
        """Return a dict for JSON: the Arrow schema in base64, and the fields for people."""
        return {
            "schema": base64.b64encode(self._schema.serialize().to_pybytes()).decode("ascii"),
            "fields": [
                {"name": field.name, "type": str(field.type), "nullable": field.nullable}
                for field in self._fields
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeySchema:
        """Return the schema that `to_json` described.

        Raises:
            FormatError: the dict is not one that `to_json` made.
        """
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["schema"])))
            nullable = [field["name"] for field in data["fields"] if field["nullable"]]
            return cls(schema, nullable)
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
            raise FormatError(f"not the description of a key schema: {error}") from error

    def encode(self, columns: KeyColumns) -> pa.Array:
        """Encode one key a row.

        Args:
            columns: one Arrow array or chunked array a field, in order; or a table or record batch
                that holds the fields by name. Other types of the same kind are cast (`cast`).

        Returns:
            fixed_size_binary(`width`), or large_binary if keys differ in size.

        Raises:
            TypeError: a column is of another kind than its field.
            ValueError: a null in a field that is not nullable, or a value its type cannot hold.

        >>> keys = KeySchema(pa.schema([("id", pa.int64())]))
        >>> keys.encode([pa.array([1, -1])]).to_pylist()
        [b'\\x80\\x00\\x00\\x00\\x00\\x00\\x00\\x01', b'\\x7f\\xff\\xff\\xff\\xff\\xff\\xff\\xff']
        """
        parts = []
        row = 0
        for arrays in self._batches(columns, "keys"):
            plain = self._fit_strictly(arrays, "keys", row)
            for field, array in zip(self._fields, plain, strict=True):
                if array.null_count and not field.nullable:
                    raise ValueError(
                        f"keys: the field {field.name!r} is null in row "
                        f"{row + _first(array.is_null())}; name it in nullable= to allow nulls"
                    )
            parts.append(self._encode(plain))
            row += len(arrays[0])
        return self._concat(parts)

    def encode_masked(self, columns: KeyColumns) -> tuple[pa.Array, np.ndarray | None]:
        """Encode one key a row for a lookup, where rows that can match nothing are no error.

        Such rows have a null in a field that is not nullable, or a value that the type of the
        field cannot hold, such as 2**40 for int32.

        Args:
            columns: as for `encode`.

        Returns:
            The keys as `encode` gives them, null where a row can match nothing; and a NumPy bool
            array that is False there, or None if every row has a key.

        Raises:
            TypeError: a column is of another kind than its field.

        >>> keys = KeySchema(pa.schema([("id", pa.int8())]))
        >>> keys.encode_masked([pa.array([1, 300, None])])[1]
        array([ True, False, False])
        """
        parts = []
        masks: list[np.ndarray | None] = []
        for arrays in self._batches(columns, "keys"):
            plain = []
            mask = None
            for field, array in zip(self._fields, arrays, strict=True):
                values, fits = _fit(field, array, "keys")
                if not field.nullable and values.null_count:
                    fits = values.is_valid()  # a value that does not fit is null here, too
                if fits is not None:
                    fits = np.asarray(fits)
                    mask = fits if mask is None else mask & fits
                plain.append(values)
            keys = self._encode(plain)
            if mask is not None and mask.all():
                mask = None
            if mask is not None:
                bits = pa.array(mask).buffers()[1]
                keys = pa.Array.from_buffers(
                    keys.type, len(keys), [bits, *keys.buffers()[1:]], len(mask) - int(mask.sum())
                )
            parts.append(keys)
            masks.append(mask)
        if all(mask is None for mask in masks):
            return self._concat(parts), None
        filled = [
            np.ones(len(keys), bool) if mask is None else mask
            for keys, mask in zip(parts, masks, strict=True)
        ]
        return self._concat(parts), np.concatenate(filled)

    def cast(self, columns: KeyColumns, what: str = "keys") -> pa.RecordBatch:
        """Return the columns in the types of the schema.

        Args:
            columns: as for `encode`.
            what: what to call the columns in an error.

        Raises:
            TypeError: a column is of another kind than its field.
            ValueError: a value that the type of its field cannot hold.

        >>> keys = KeySchema(pa.schema([("id", pa.int64())]))
        >>> keys.cast([pa.array([1], pa.int8())]).schema.types
        [DataType(int64)]
        """
        parts = []
        row = 0
        for arrays in self._batches(columns, what):
            parts.append(
                [
                    _restore(array, field.type)
                    for array, field in zip(
                        self._fit_strictly(arrays, what, row), self._fields, strict=True
                    )
                ]
            )
            row += len(arrays[0])
        whole = [
            _together(pieces, field.type)
            for pieces, field in zip(zip(*parts, strict=True), self._fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(whole, schema=self._schema)

    def decode(self, keys: pa.Array) -> pa.RecordBatch:
        """Decode keys into their fields, in exactly the types of the schema.

        Zero comes back as 0.0 and NaN as one NaN, whatever their bits were.

        Args:
            keys: any Arrow binary array without nulls.

        Raises:
            FormatError: the bytes of a key do not fit the schema; names the field and the row.

        >>> keys = KeySchema(pa.schema([("id", pa.int16())]))
        >>> keys.decode(pa.array([bytes([128, 7])])).to_pylist()
        [{'id': 7}]
        """
        cells = _keys.decode(self._codes, self.names, keys, self._width)
        arrays = [
            _restore(_typed(field, cell), field.type)
            for field, cell in zip(self._fields, cells, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def encode_one(self, value: object) -> bytes | None:
        """Encode one key from Python.

        Args:
            value: the value of a single field; a tuple or list of one value a field; or a dict of
                values by field name.

        Returns:
            What `encode` gives for a row of these values; None if no key can equal it: null in a
            field that is not nullable, or a value outside the type.

        Raises:
            TypeError: a value of another kind than its field, or a tuple of another length.
            KeyError: a dict with other names than the fields'.

        >>> KeySchema(pa.schema([("id", pa.int16())])).encode_one(7)
        b'\\x80\\x07'
        """
        fields = self._fields
        if len(fields) == 1 and not isinstance(value, (tuple, list, dict)):
            return self._parts((value,))
        return self._parts(self._values(value))

    def encode_prefix(self, values: tuple[object, ...]) -> bytes | None:
        """Encode the first fields of a key: every key with these values starts with it.

        If `values` are all the fields and the last is of variable size, longer values that begin
        with the last one start with it, too.

        Args:
            values: a tuple of one value each for the first fields.

        Returns:
            The prefix, or None if no key can hold these values.

        Raises:
            TypeError: a value of another kind than its field, or more values than fields.

        >>> keys = KeySchema(pa.schema([("origin", pa.string()), ("hour", pa.int32())]))
        >>> keys.encode_prefix(("EWR",))
        b'EWR\\x00\\x00'
        """
        return self._parts(self._leading(values, "prefix"))

    def encode_bounds(self, start: object, stop: object) -> tuple[bytes | None, bytes | None]:
        """Turn a typed range, from `start` on and before `stop`, into a range of key bytes.

        Tuples compare as Python's do: ("eu",) comes before every key that has "eu" first. A bound
        that no key can equal, such as 2.5 or 2**40 for int32, still lies between keys.

        Args:
            start: the value of the first field, or a tuple of the first fields; None for no bound.
            stop: the same.

        Returns:
            The first bytes inside and the first bytes behind the range; None for no bound. A range
            that is surely empty is (b"", b"").

        Raises:
            TypeError: a value of another kind than its field, or more values than fields.
            ValueError: None in a field that is not nullable.

        >>> KeySchema(pa.schema([("id", pa.uint8())])).encode_bounds(2.5, 300)
        (b'\\x03', None)
        """
        low = b"" if start is None else self._bound(self._leading(start, "start"), "start")
        high = None if stop is None else self._bound(self._leading(stop, "stop"), "stop")
        return (b"", b"") if low is None else (low or None, high)

    def _bound(self, values: Sequence[object], what: str) -> bytes | None:
        """Return the bytes between the keys before `values` and the others; None: all before."""
        done = b""
        for i, (field, value) in enumerate(zip(self._fields, values, strict=False)):
            if value is None:
                if not field.nullable:
                    raise ValueError(
                        f"{what}[{i}] is None, but the key field {field.name!r} is never null"
                    )
                done += b"\x00"
                continue
            if field.nullable:
                done += b"\x01"
            found, exact = field.ceiling(value)
            if found is None:
                return _successor(done)
            done += found if i + 1 == len(self._fields) else _inner(field, found)
            if not exact:
                break
        return done

    def _values(self, value: object) -> Sequence[object]:
        """Return the values of all fields from a tuple or dict."""
        names = self.names
        if isinstance(value, Mapping):
            if set(value) != set(names):
                raise KeyError(
                    f"the key has the names {', '.join(map(repr, value)) or 'none'}; "
                    f"its fields are {', '.join(map(repr, names))}"
                )
            return [value[name] for name in names]
        if not isinstance(value, (tuple, list)) or len(value) != len(names):
            found = (
                f"{len(value)} values"
                if isinstance(value, (tuple, list))
                else f"{type(value).__name__} {value!r}"
            )
            fields = "field" if len(names) == 1 else "fields"
            raise TypeError(
                f"the key is {found}; give a tuple of its {len(names)} {fields} "
                f"({', '.join(names)}), or a dict"
            )
        return value

    def _leading(self, values: object, what: str) -> Sequence[object]:
        """Return a tuple of the first fields' values from a tuple or the value of the first."""
        if not isinstance(values, (tuple, list)):
            return (values,)
        if len(values) > len(self._fields):
            raise TypeError(
                f"{what} has {len(values)} values; the key has {len(self._fields)} "
                f"({', '.join(self.names)})"
            )
        return values

    def _parts(self, values: Sequence[object]) -> bytes | None:
        """Return the bytes of the first fields of a key, or None if no key holds the values."""
        done = b""
        last = len(self._fields) - 1
        for i, (field, value) in enumerate(zip(self._fields, values, strict=False)):
            if value is None:
                if not field.nullable:
                    return None
                done += b"\x00"
                continue
            part = field.one(value)
            if part is None:
                return None
            if field.nullable:
                done += b"\x01"
            done += part if i == last else _inner(field, part)
        return done

    def _encode(self, arrays: Sequence[pa.Array]) -> pa.Array:
        raw = [_raw(array, field) for array, field in zip(arrays, self._fields, strict=True)]
        return _keys.encode(self._codes, raw, len(arrays[0]), self._width)

    def _concat(self, parts: list[pa.Array]) -> pa.Array:
        kind = pa.large_binary() if self._width is None else pa.binary(self._width)
        return _together(parts, kind)

    def _fit_strictly(self, arrays: list[pa.Array], what: str, row: int) -> list[pa.Array]:
        plain = []
        for field, array in zip(self._fields, arrays, strict=True):
            values, fits = _fit(field, array, what)
            if fits is not None:
                i = _first(pc.invert(fits))
                raise ValueError(
                    f"{what}: the field {field.name!r} is {field.type}, which cannot hold "
                    f"{array[i].as_py()!r} of row {row + i}"
                )
            plain.append(values)
        return plain

    def _batches(self, columns: KeyColumns, what: str) -> Iterator[list[pa.Array]]:
        """Yield the columns as plain arrays of equal length, chunk by chunk."""
        if isinstance(columns, (pa.Table, pa.RecordBatch)):
            for name in self.names:
                if columns.schema.get_field_index(name) < 0:
                    raise KeyError(
                        f"{what}: no single column {name!r} among "
                        f"{', '.join(map(repr, columns.schema.names))}"
                    )
            columns = [columns.column(name) for name in self.names]
        elif isinstance(columns, (pa.Array, pa.ChunkedArray)):
            columns = [columns]
        if len(columns) != len(self._fields):
            raise TypeError(
                f"{what}: {len(columns)} columns; give {len(self._fields)} "
                f"({', '.join(self.names)})"
            )
        for column, field in zip(columns, self._fields, strict=True):
            if not isinstance(column, (pa.Array, pa.ChunkedArray)):
                raise TypeError(
                    f"{what}: the field {field.name!r} is {type(column).__name__}; "
                    "give an Arrow array"
                )
            if len(column) != len(columns[0]):
                raise ValueError(
                    f"{what}: the field {field.name!r} has {len(column)} values, "
                    f"{self.names[0]!r} has {len(columns[0])}"
                )
        if all(isinstance(column, pa.Array) for column in columns):
            yield list(columns)
            return
        table = pa.Table.from_arrays(list(columns), names=self.names)
        if table.num_rows == 0:
            table = table.schema.empty_table()
            yield [_together([], field.type) for field in table.schema]
        for batch in table.to_batches():
            if batch.num_rows:
                yield batch.columns


def _successor(prefix: bytes) -> bytes | None:
    """Return the least bytes behind all that start with `prefix`; None if there are none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _inner(field: _Field, value: bytes) -> bytes:
    """Return the value as it stands before other fields."""
    return value.replace(b"\x00", b"\x00\xff") + b"\x00\x00" if field.variable else value


# ---- Types ----------------------------------------------------------------------------------


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without dictionary, extension and view."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    return kind


def _family(kind: pa.DataType) -> str:
    """Name the kind of values that a plain type holds; "" if they have no order here."""
    types = pa.types
    tests: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
        ("integer", types.is_integer),
        ("string", lambda t: types.is_string(t) or types.is_large_string(t)),
        ("float", types.is_floating),
        ("bool", types.is_boolean),
        ("decimal", types.is_decimal),
        ("date", types.is_date),
        ("time", types.is_time),
        ("duration", types.is_duration),
        (
            "binary",
            lambda t: (
                types.is_binary(t) or types.is_large_binary(t) or types.is_fixed_size_binary(t)
            ),
        ),
        ("null", types.is_null),
    )
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with a zone"
    return next((name for name, test in tests if test(kind)), "")


def _is_restorable(kind: pa.DataType) -> bool:
    """Tell whether Arrow can make the dictionaries that a type needs."""
    if isinstance(kind, pa.BaseExtensionType):
        return _is_restorable(kind.storage_type)
    if not pa.types.is_dictionary(kind):
        return True
    try:
        pa.array([], kind.value_type).dictionary_encode()
    except pa.ArrowNotImplementedError:
        return False
    return True


def _field(field: pa.Field, nullable: bool) -> _Field:
    plain = _plain(field.type)
    family = _family(plain)
    if family in ("", "null") or not _is_restorable(field.type):
        raise TypeError(
            f"the key field {field.name!r} is {field.type}, which has no key order; key fields are "
            "bool, integers, floats, decimals, dates, times, timestamps, durations, strings and "
            "binaries"
        )
    if family == "string" or (family == "binary" and not pa.types.is_fixed_size_binary(plain)):
        one, ceiling = _bytes_codec(field, family)
        return _Field(
            field.name, field.type, plain, family, (_keys.BYTES, 0, nullable), one, ceiling
        )
    width = max(1, plain.bit_width // 8) if family != "binary" else plain.byte_width
    if family == "binary":
        kind = _keys.RAW
        one, ceiling = _fixed_codec(field, width)
    elif family == "float":
        kind = _keys.FLOAT
        one, ceiling = _float_codec(field, width)
    else:
        unsigned = family == "bool" or pa.types.is_unsigned_integer(plain)
        kind = _keys.UNSIGNED if unsigned else _keys.SIGNED
        one, ceiling = _integer_codec(field, plain, family, width, unsigned)
    return _Field(field.name, field.type, plain, family, (kind, width, nullable), one, ceiling)


def _first(flags: pa.Array) -> int:
    """Return the index of the first true flag."""
    return int(pc.index(flags, True).as_py())


def _together(arrays: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], kind)


def _unwrap(array: pa.Array) -> pa.Array:
    """Return the array in its plain type."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        else:
            plain = _plain(array.type)
            return array if array.type == plain else array.cast(plain)


def _restore(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a plain array in the declared type."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _restore(array, kind.storage_type))
    if pa.types.is_dictionary(kind):
        values = _restore(array, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            values.indices.cast(kind.index_type), values.dictionary, ordered=kind.ordered
        )
    return array if array.type == kind else array.cast(kind)


def _raw(array: pa.Array, field: _Field) -> pa.Array:
    """Return a view of the array as the bytes that C reads."""
    if field.variable:
        return array
    if field.family == "bool":
        array = array.cast(pa.uint8())
    if field.family == "binary":
        return array
    buffers = array.buffers()
    kind = pa.binary(field.code[1])
    return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, array.offset)


def _typed(field: _Field, cell: pa.Array) -> pa.Array:
    """Return what C decoded in the plain type of the field."""
    if field.variable:
        try:
            return cell.cast(field.plain)
        except pa.ArrowInvalid as error:
            if cell.nbytes > 2**31 - 1:
                raise ValueError(
                    f"{len(cell)} keys hold more in the field {field.name!r} than a {field.plain} "
                    "array can (2 GiB); decode fewer keys at once"
                ) from error
            raise FormatError(
                f"key {_first_invalid(cell, field.plain)}: its bytes do not fit the key field "
                f"{field.name!r}: {error}"
            ) from error
    if field.family == "binary":
        return cell
    is_bool = field.family == "bool"
    kind = pa.uint8() if is_bool else field.plain
    values = pa.Array.from_buffers(kind, len(cell), cell.buffers(), cell.null_count)
    if not is_bool:
        return values
    wrong = pc.fill_null(pc.greater(values, 1), False)
    if pc.any(wrong).as_py():
        raise FormatError(
            f"key {_first(wrong)}: its bytes do not fit the key field {field.name!r}: a bool is "
            "0 or 1"
        )
    return values.cast(pa.bool_())


def _first_invalid(cell: pa.Array, kind: pa.DataType) -> int:
    """Return the index of the first value that cannot be cast, by halving."""
    low, high = 0, len(cell)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cell[low:middle].cast(kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


# ---- Columns of a kindred type ---------------------------------------------------------------


def _fit(field: _Field, array: pa.Array, what: str) -> tuple[pa.Array, pa.Array | None]:
    """Bring an array to the plain type of the field, where every value survives.

    Returns the array, null where a value does not fit; and which do fit (true for null), or None
    if all do.
    """
    given = array.type
    array = _unwrap(array)
    wanted = field.plain
    if array.type == wanted:
        return array, None
    family = _family(array.type)
    if family == "null":
        return pa.nulls(len(array), wanted), None
    if family != field.family and family not in _KINDRED.get(field.family, ()):
        raise TypeError(f"{what}: the field {field.name!r} is {field.type}; found {given}")
    if family == "string" or (family == "binary" and field.variable):
        if pa.types.is_fixed_size_binary(array.type):
            array = array.cast(wanted)
        return array, None  # C reads offsets of either width
    if "decimal" in (family, field.family):
        return _fit_decimals(array, wanted)
    if family == "float":
        fits = _float_fits(array, wanted)
    elif family == "binary":
        fits = pc.equal(pc.binary_length(array), wanted.byte_width)
    elif field.family == "float":
        fits = _integer_fits_float(array, wanted)
    elif family == "integer":
        fits = _in_range(array, wanted)
    else:  # other units of the same time: what overflows or is cut does not come back
        fits = pc.equal(array.cast(wanted, safe=False).cast(array.type, safe=False), array)
    fits = pc.fill_null(fits, True)
    if pc.all(fits).as_py() is not False:
        return array.cast(wanted, safe=False), None
    return _nulled(array, fits).cast(wanted, safe=False), fits


def _nulled(array: pa.Array, kept: pa.Array) -> pa.Array:
    return pc.if_else(kept, array, pa.scalar(None, array.type))


def _limits(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _in_range(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    low, high = _limits(wanted)
    least, most = _limits(array.type)
    return pc.and_(
        pc.greater_equal(array, pa.scalar(max(low, least), array.type)),
        pc.less_equal(array, pa.scalar(min(high, most), array.type)),
    )


def _float_fits(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_floating(wanted):
        back = array.cast(wanted, safe=False).cast(array.type, safe=False)
        return pc.or_(pc.equal(back, array), pc.is_nan(array))
    wide = array.cast(pa.float64())
    low, high = _limits(wanted)
    inside = pc.and_(
        pc.greater_equal(wide, float(low)), pc.less(wide, float(high + 1))
    )  # false for NaN; both limits are powers of two, so exact
    return pc.and_(inside, pc.equal(pc.floor(wide), wide))


def _integer_fits_float(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    wide = array.cast(wanted, safe=False).cast(pa.float64())
    low, high = _limits(array.type)
    inside = pc.and_(pc.greater_equal(wide, float(low)), pc.less(wide, float(high + 1)))
    back = pc.if_else(inside, wide, 0.0).cast(array.type, safe=False)
    return pc.and_(inside, pc.equal(back, array))


def _fit_decimals(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    """Bring decimals or integers to decimals or integers, by way of the widest decimal."""
    whole = pa.types.is_integer(wanted)
    scale = 0 if whole else wanted.scale
    given_scale = getattr(array.type, "scale", 0)
    wide = array.cast(pa.decimal256(76, given_scale))
    target = wide.cast(pa.decimal256(76, scale), safe=False)
    back = target.cast(wide.type, safe=False)  # what overflowed or was cut does not come back
    low, high = _limits(wanted) if whole else _decimal_limits(wanted)
    digits = _digits(target)
    fits = pc.and_(
        pc.equal(_digits(back), _digits(wide)),
        pc.and_(
            pc.greater_equal(digits, pa.scalar(decimal.Decimal(low), digits.type)),
            pc.less_equal(digits, pa.scalar(decimal.Decimal(high), digits.type)),
        ),
    )
    fits = pc.fill_null(fits, True)
    missing = None if pc.all(fits).as_py() is not False else fits
    kept = digits if missing is None else _nulled(digits, fits)
    if whole:
        return kept.cast(wanted), missing
    return _narrowed(kept, wanted), missing


def _decimal_limits(kind: pa.DataType) -> tuple[int, int]:
    return 1 - 10**kind.precision, 10**kind.precision - 1


def _digits(array: pa.Array) -> pa.Array:
    """Return the digits of 256-bit decimals as integers (Arrow compares no negative scales)."""
    kind = pa.decimal256(76, 0)
    return pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count, array.offset)


def _narrowed(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return 256-bit digits that are known to fit as decimals of the wanted width and scale.

    Arrow's own cast from decimal256 to decimal32 gives zeros (pyarrow 26).
    """
    length, width = len(array), wanted.bit_width // 8
    validity = pa.array(np.asarray(array.is_valid())).buffers()[1] if array.null_count else None
    words = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 32 :][: length * 32]
    cut = np.ascontiguousarray(words.reshape(length, 32)[:, :width])
    return pa.Array.from_buffers(wanted, length, [validity, pa.py_buffer(cut)])


# ---- One Python value ------------------------------------------------------------------------

_Codec: TypeAlias = (
    "tuple[Callable[[object], bytes | None], Callable[[object], tuple[bytes | None, bool]]]"
)

_WANTED = {
    "bool": "a bool",
    "integer": "an int",
    "float": "a float",
    "decimal": "a decimal.Decimal",
    "date": "a datetime.date",
    "time": "a datetime.time without a zone",
    "duration": "a datetime.timedelta",
    "timestamp": "a datetime.datetime without a zone",
    "timestamp with a zone": "a datetime.datetime with a zone",
    "string": "a str",
    "binary": "bytes",
}


def _wrong_kind(field: pa.Field, value: object) -> TypeError:
    wanted = _WANTED[_family(_plain(field.type))]
    return TypeError(
        f"the key field {field.name!r} is {field.type}; found {type(value).__name__} {value!r}, "
        f"give {wanted}"
    )


def _scalar(field: pa.Field, value: object) -> pa.Scalar:
    """Return an Arrow scalar of a value from NumPy, pandas or Arrow."""
    try:
        if isinstance(value, np.generic):
            return pa.array(np.asarray([value]))[0]
        if getattr(value, "tzinfo", None) is not None:
            raise ValueError("Arrow would drop the zone")  # of a datetime.time
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
        while isinstance(scalar, (pa.ExtensionScalar, pa.DictionaryScalar)):
            scalar = scalar.value
        return scalar
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _wrong_kind(field, value) from error


def _native(field: pa.Field, value: object, *kinds: type) -> Any:
    """Return a value from NumPy or Arrow as a Python value of one of these kinds."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        converted = _scalar(field, value).as_py()
        if not isinstance(converted, kinds) or (isinstance(converted, bool) and bool not in kinds):
            raise _wrong_kind(field, value)
        return converted
    return value


def _bytes_codec(field: pa.Field, family: str) -> _Codec:
    def one(value: object) -> bytes | None:
        if family == "string":
            try:
                return _native(field, value, str).encode()  # type: ignore[no-any-return]
            except UnicodeEncodeError:
                return None  # Arrow holds no lone surrogates
        return bytes(_native(field, value, bytes, bytearray, memoryview))

    def ceiling(value: object) -> tuple[bytes | None, bool]:
        found = one(value)
        if found is None:
            raise ValueError(f"the bound {value!r} of the key field {field.name!r} is not UTF-8")
        return found, True

    return one, ceiling


def _fixed_codec(field: pa.Field, width: int) -> _Codec:
    def one(value: object) -> bytes | None:
        found = bytes(_native(field, value, bytes, bytearray, memoryview))
        return found if len(found) == width else None

    def ceiling(value: object) -> tuple[bytes | None, bool]:
        found = bytes(_native(field, value, bytes, bytearray, memoryview))
        if len(found) <= width:
            return found.ljust(width, b"\x00"), len(found) == width
        after = _successor(found[:width])
        return (None, False) if after is None else (after.ljust(width, b"\x00"), False)

    return one, ceiling


def _float_codec(field: pa.Field, width: int) -> _Codec:
    pack = struct.Struct({2: ">e", 4: ">f", 8: ">d"}[width])
    sign = 1 << (8 * width - 1)
    mask = 2 * sign - 1

    def ordered(number: float) -> int:
        if number != number:
            number = math.nan  # of the many, the one that C writes, too
        elif number == 0:
            number = 0.0
        bits = int.from_bytes(pack.pack(number), "big")
        return bits ^ mask if bits & sign and number == number else bits | sign

    def nearest(value: object) -> tuple[int, int]:
        """Return the ordered bits of a float nearby, and -1, 0, 1 as it is less, equal, more."""
        number = _native(field, value, float, int)
        if isinstance(number, float):
            number = float(number)  # not NumPy's, whose comparisons are not Python's
        try:
            close = float(number)
            bits = ordered(close)
        except OverflowError:
            return (ordered(math.inf), 1) if number > 0 else (ordered(-math.inf), -1)
        if close != close:
            return bits, 0
        stored = pack.unpack((bits ^ sign if bits & sign else bits ^ mask).to_bytes(width, "big"))
        return bits, (stored[0] > number) - (stored[0] < number)

    def one(value: object) -> bytes | None:
        bits, side = nearest(value)
        return bits.to_bytes(width, "big") if side == 0 else None

    def ceiling(value: object) -> tuple[bytes | None, bool]:
        bits, side = nearest(value)
        return (bits + (side < 0)).to_bytes(width, "big"), side == 0

    return one, ceiling


def _integer_codec(
    field: pa.Field, plain: pa.DataType, family: str, width: int, unsigned: bool
) -> _Codec:
    """Encode what Arrow holds as an integer: `units` gives the number of its units, any rational
    or infinity."""
    low = 0 if unsigned else -(2 ** (8 * width - 1))
    least, most = (low, (1 if family == "bool" else 2 ** (8 * width) - 1 + low))
    if family == "decimal":
        least, most = _decimal_limits(plain)
    units: Callable[[object], int | float | Fraction]
    if family in ("bool", "integer"):
        units = functools.partial(_number, field, family)
    elif family == "decimal":
        units = functools.partial(_decimal_units, field, plain.scale)
    else:
        units = functools.partial(_time_units, field, plain, family)
    plainly_int = family == "integer"

    def one(value: object) -> bytes | None:
        number = value if plainly_int and type(value) is int else units(value)
        if type(number) is int and least <= number <= most:
            return (number - low).to_bytes(width, "big")
        return None

    def ceiling(value: object) -> tuple[bytes | None, bool]:
        number = units(value)
        if not number <= most:  # NaN sorts last, too
            return None, False
        if number < least:
            return (least - low).to_bytes(width, "big"), False
        whole = math.ceil(number)
        return (whole - low).to_bytes(width, "big"), whole == number

    return one, ceiling


def _number(field: pa.Field, family: str, value: object) -> int | float | Fraction:
    if family == "bool":
        return int(_native(field, value, bool))
    number = _native(field, value, int, float, decimal.Decimal)
    return number if isinstance(number, int) else _rational(number)


def _rational(number: float | decimal.Decimal) -> int | float | Fraction:
    """Return the number exactly: an int where it is whole, a float where it is not finite."""
    if not math.isfinite(number):
        return float(number)
    if isinstance(number, decimal.Decimal) and abs(number.adjusted()) > 1000:
        # Far outside every type, or nearer to zero than any digit of one: keep Fraction small.
        if number == 0:
            return 0
        if number.adjusted() > 0:
            return math.copysign(math.inf, number)
        return Fraction(1 if number > 0 else -1, 10**999)
    exact = Fraction(number)
    return exact.numerator if exact.denominator == 1 else exact


def _decimal_units(field: pa.Field, scale: int, value: object) -> int | float | Fraction:
    number = _native(field, value, decimal.Decimal, int)
    exact = number if isinstance(number, int) else _rational(number)
    if isinstance(exact, float):
        return exact
    return _whole(Fraction(exact) * Fraction(10) ** scale)


def _whole(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _time_units(
    field: pa.Field, plain: pa.DataType, family: str, value: object
) -> int | float | Fraction:
    """Return the ticks of a date, time, timestamp or duration in the unit of the field."""
    if family == "date":
        per_day = 1 if pa.types.is_date32(plain) else _DAY * 1000
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return (value.toordinal() - _EPOCH_DAY) * per_day
        scalar = _same_family(field, family, value)
        if not scalar.is_valid:
            return math.nan
        given_per_day = 1 if pa.types.is_date32(scalar.type) else _DAY * 1000
        return _whole(Fraction(scalar.value * per_day, given_per_day))
    if value != value:  # the NaT of NumPy and pandas
        return math.nan
    ticks = _TICKS[plain.unit]
    nanoseconds = _nanoseconds(family, value)
    if nanoseconds is not None:
        whole, rest = divmod(nanoseconds * ticks, 10**9)
        return whole if rest == 0 else Fraction(nanoseconds * ticks, 10**9)
    scalar = _same_family(field, family, value)
    if not scalar.is_valid:
        return math.nan
    return _whole(Fraction(scalar.value * ticks, _TICKS[scalar.type.unit]))


def _same_family(field: pa.Field, family: str, value: object) -> pa.Scalar:
    scalar = _scalar(field, value)
    if scalar.is_valid and _family(scalar.type) != family:
        raise _wrong_kind(field, value)
    return scalar


def _nanoseconds(family: str, value: object) -> int | None:
    """Return the nanoseconds that a Python (or pandas) value of the family stands for."""
    if family == "time":
        if not isinstance(value, datetime.time) or value.tzinfo is not None:
            return None
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 10**9 + value.microsecond * 1000
    if family == "duration":
        span = value
    elif not isinstance(value, datetime.datetime):
        return None
    elif family == "timestamp":
        span = value - _EPOCH if value.tzinfo is None else None
    else:
        span = value - _EPOCH_UTC if value.tzinfo is not None else None
    if not isinstance(span, datetime.timedelta):
        return None
    micros = (span.days * _DAY + span.seconds) * 10**6 + span.microseconds
    return micros * 1000 + int(getattr(span, "nanoseconds", 0))  # pandas.Timedelta has those
