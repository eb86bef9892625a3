"""Encode Arrow columns as key bytes, whose unsigned order is the typed order.

A key contains its fields one after the other, so keys sort field by field. The layout of each field
is in ``csrc/ls_keys.h`` and ``docs/decisions/0003-key-encoding.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat, restore, schema_from_json, schema_to_json
from lookupstore.errors import FormatError
from lookupstore.keys import _codec as _keys
from lookupstore.keys._one import KeyEncoder
from lookupstore.keys.binaries import successor
from lookupstore.keys.casts import KeyColumns, column_batches, fit, fit_strictly
from lookupstore.keys.types import key_field


class KeySchema:
    """The types of the key fields, which encode and decode keys.

    Args:
        schema: Key fields in order, of the types in `lookupstore.keys.types`: numbers, times, text
            and bytes of every width, also dictionary-encoded or as the storage of an extension
            type.
        nullable: Names of the fields that may hold null. A null sorts before every value.

    Raises:
        TypeError: If the type of a field has no order here, such as a list.
        ValueError: If there is no field, if two fields have one name, or if `nullable` names a
            field that is missing or that the schema declares as not null.

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
                raise ValueError(
                    f"schema names the field {name!r} twice; key fields need different names"
                )
        if isinstance(nullable, str):
            raise TypeError(f"nullable is the string {nullable!r}; give a sequence of field names")
        for name in nullable:
            if name not in names:
                raise ValueError(
                    f"nullable names {name!r}, which is not a key field ({', '.join(names)})"
                )
            if not schema.field(name).nullable:
                raise ValueError(f"nullable names {name!r}, which the schema declares as not null")
        self._schema = schema
        self._fields = tuple(key_field(field, field.name in nullable) for field in schema)
        self._codes = [field.code for field in self._fields]
        fixed = not any(field.variable or field.nullable for field in self._fields)
        self._width = sum(code[1] for code in self._codes) if fixed else None
        first = self._fields[0]
        # Whether a key is the text or the bytes of one column, in the form of Arrow.
        self._as_given = len(self._fields) == 1 and first.variable and not first.nullable
        alone = len(self._fields) == 1 and self._width and first.in_place
        # Type of encoded keys that consist of one value that C reads in place. None: other keys.
        self._alone = pa.binary(self._width) if alone else None
        #: Encoder of most single keys; other keys are left to `encode_slowly`.
        self.encoder: KeyEncoder = KeyEncoder(self._fields)

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

    def answers(self, other: KeySchema) -> bool:
        """Return whether the keys of another schema can be looked up among those of this one.

        >>> ids, texts = (
        ...     KeySchema(pa.schema([("id", kind)])) for kind in (pa.int32(), pa.string())
        ... )
        >>> ids.answers(KeySchema(pa.schema([("id", pa.int64())]))), ids.answers(texts)
        (True, False)
        """
        return self.names == other.names and all(
            own.accepts(field.plain) for own, field in zip(self._fields, other._fields, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        """Return a dict for JSON: the Arrow schema in base64, and the fields for people."""
        return schema_to_json(self._schema, self.nullable)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeySchema:
        """Return the schema that `to_json` described.

        Raises:
            FormatError: If the dict was not made by `to_json`.
        """
        try:
            schema = schema_from_json(data)
            nullable = [field["name"] for field in data["fields"] if field["nullable"]]
            return cls(schema, nullable)
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
            raise FormatError(f"not the description of a key schema: {error}") from error

    def encode(self, columns: KeyColumns) -> pa.Array:
        """Encode one key per row.

        Args:
            columns: Arrow arrays or chunked arrays, one per field, in order; or a table or record
                batch that has the fields by name. Other types of the same kind are cast.

        Returns:
            Keys as fixed_size_binary(`width`), or as large_binary if they differ in size.

        Raises:
            TypeError: If a column is of another kind than its field.
            ValueError: If a field that is not nullable has a null, or a value does not fit its
                type.

        >>> keys = KeySchema(pa.schema([("id", pa.int64())]))
        >>> keys.encode([pa.array([1, -1])]).to_pylist()
        [b'\\x80\\x00\\x00\\x00\\x00\\x00\\x00\\x01', b'\\x7f\\xff\\xff\\xff\\xff\\xff\\xff\\xff']
        """
        parts = []
        row = 0
        for arrays in column_batches(columns, self._fields, "keys"):
            plain = fit_strictly(self._fields, arrays, "keys", row)
            for field, array in zip(self._fields, plain, strict=True):
                if array.null_count and not field.nullable:
                    null_row = row + pc.index(array.is_valid(), False).as_py()
                    raise ValueError(
                        f"keys: the field {field.name!r} is null in row {null_row + 1}; "
                        "name it in nullable= to allow nulls"
                    )
            parts.append(self._encode(plain))
            row += len(arrays[0])
        return self._concat(parts)

    def encode_masked(self, columns: KeyColumns) -> tuple[pa.Array, np.ndarray | None]:
        """Encode one key per row for a lookup, with null for rows that can match nothing.

        Such rows have a null in a field that is not nullable, or a value that the type of the
        field cannot hold, such as 2**40 for int32.

        Args:
            columns: Arrow arrays or chunked arrays, one per field, in order; or a table or record
                batch that has the fields by name. Other types of the same kind are cast.

        Returns:
            The keys as `encode` returns them, null where a row can match nothing; and a NumPy bool
            array that is False there, or None if every row has a key.

        Raises:
            TypeError: If a column is of another kind than its field.

        >>> keys = KeySchema(pa.schema([("id", pa.int8())]))
        >>> keys.encode_masked([pa.array([1, 300, None])])[1]
        array([ True, False, False])
        """
        parts = []
        masks: list[np.ndarray | None] = []
        for arrays in column_batches(columns, self._fields, "keys"):
            plain = []
            mask = None
            for field, array in zip(self._fields, arrays, strict=True):
                values, fits = fit(field, array, "keys")
                if not field.nullable and values.null_count:
                    fits = values.is_valid()  # values that do not fit are null, too
                if fits is not None:
                    fits = np.asarray(fits)
                    mask = fits if mask is None else mask & fits
                plain.append(values)
            keys = plain[0].cast(pa.large_binary()) if self._as_given else self._encode(plain)
            if mask is not None and mask.all():
                mask = None
            if mask is not None and not self._as_given:  # it is null there already
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

    def encode_plain(self, column: pa.Array) -> pa.Array | None:
        """Encode a column that is the whole key, or return None if another method must.

        The column must have the plain type of the field, and no nulls. A column of text or bytes
        may have nulls, and is used unchanged.

        >>> keys = KeySchema(pa.schema([("id", pa.int8())]))
        >>> keys.encode_plain(pa.array([7], pa.int8())).to_pylist()
        [b'\\x87']
        """
        fields = self._fields
        if len(fields) != 1 or column.type != fields[0].plain:
            return None
        if self._as_given:
            return column.cast(pa.large_binary())
        if column.null_count:
            return None
        if self._alone is not None:
            return _keys.encode_alone(fields[0].code, column, self._alone)
        return self._encode([column])

    def cast(self, columns: KeyColumns, what: str = "keys") -> pa.RecordBatch:
        """Return the columns in the types of the schema.

        Args:
            columns: Arrow arrays or chunked arrays, one per field, in order; or a table or record
                batch that has the fields by name. Other types of the same kind are cast.
            what: Name of the columns, which errors show.

        Raises:
            TypeError: If a column is of another kind than its field.
            ValueError: If the type of a field cannot hold a value.

        >>> keys = KeySchema(pa.schema([("id", pa.int64())]))
        >>> keys.cast([pa.array([1], pa.int8())]).schema.types
        [DataType(int64)]
        """
        parts = []
        row = 0
        for arrays in column_batches(columns, self._fields, what):
            parts.append(
                [
                    restore(array, field.type)
                    for array, field in zip(
                        fit_strictly(self._fields, arrays, what, row), self._fields, strict=True
                    )
                ]
            )
            row += len(arrays[0])
        whole = [
            concat(pieces, field.type)
            for pieces, field in zip(zip(*parts, strict=True), self._fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(whole, schema=self._schema)

    def decode(self, keys: pa.Array) -> pa.RecordBatch:
        """Decode keys into their fields, in exactly the types of the schema.

        Zeros are decoded as 0.0 and NaNs as one NaN, whatever their bits were.

        Args:
            keys: Arrow binary array without nulls.

        Raises:
            FormatError: If the bytes of a key do not fit the schema. The error names the field and
                the row.

        >>> keys = KeySchema(pa.schema([("id", pa.int16())]))
        >>> keys.decode(pa.array([bytes([128, 7])])).to_pylist()
        [{'id': 7}]
        """
        cells = _keys.decode(self._codes, self.names, keys, self._width)
        arrays = [field.from_cells(cell) for field, cell in zip(self._fields, cells, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def encode_one(self, value: object) -> bytes | None:
        """Encode one key from Python.

        Args:
            value: Value of a single field; a tuple or list with one value per field; or a dict of
                values by field name.

        Returns:
            Key that `encode` returns for a row of these values, or None if no key can equal it,
            since a field that is not nullable has a null, or a value is outside the type.

        Raises:
            TypeError: If a value is of another kind than its field, or a tuple has another length.
            KeyError: If a dict has other names than the fields.

        >>> KeySchema(pa.schema([("id", pa.int16())])).encode_one(7)
        b'\\x80\\x07'
        """
        encoded = self.encoder.encode(value)
        return self.encode_slowly(value) if encoded is NotImplemented else encoded

    def encode_slowly(self, value: object) -> bytes | None:
        """Encode one key from Python, for values of every class and with every error.

        >>> KeySchema(pa.schema([("id", pa.int16())])).encode_slowly(np.float32(7))
        b'\\x80\\x07'
        """
        fields = self._fields
        if len(fields) == 1 and not isinstance(value, (tuple, list, dict)):
            return self._parts((value,))
        return self._parts(self._values(value))

    def encode_prefix(
        self, prefix: tuple[object, ...], starts_with: object = None
    ) -> tuple[bytes, bytes | None] | None:
        """Return the range of all keys that have some values in their first fields.

        Args:
            prefix: Whole values, one for each of the first fields. (): all keys.
            starts_with: Text or bytes with which the value of the field after `prefix` begins.
                Default: any value, including null.

        Returns:
            First bytes inside and first bytes after the range, each None for no bound; or None if
            no key can hold these values.

        Raises:
            TypeError: If a value is of another kind than its field, there are more values than
                fields, or `starts_with` is given for a field that is neither text nor bytes.
            ValueError: If `starts_with` is given and `prefix` has values for all fields.

        >>> keys = KeySchema(pa.schema([("origin", pa.string()), ("hour", pa.int32())]))
        >>> keys.encode_prefix(("EWR",)), keys.encode_prefix((), "EW")
        ((b'EWR\\x00\\x00', b'EWR\\x00\\x01'), (b'EW', b'EX'))
        """
        done = self._parts(self.leading(prefix, "prefix"))
        if starts_with is None:
            if done is None:
                return None
            # The bytes of a whole key may be a prefix of another key.
            whole = len(prefix) == len(self._fields)
            return done, done + b"\x00" if whole else successor(done)
        if len(prefix) == len(self._fields):
            raise ValueError(
                "starts_with is about the key field after those of prefix, which has a value for "
                f"each field ({', '.join(self.names)}); leave the last one out of prefix"
            )
        field = self._fields[len(prefix)]
        beginning = field.beginning(starts_with)
        if done is None or beginning is None:
            return None
        if field.nullable:
            done += b"\x01"
        if len(prefix) + 1 < len(self._fields):
            beginning = field.escaped(beginning)
        done += beginning
        return done, successor(done)

    def encode_bounds(self, start: object, stop: object) -> tuple[bytes | None, bytes | None]:
        """Return the range of key bytes from `start` on and before `stop`.

        Tuples compare as Python's do: ("eu",) comes before every key that has "eu" first. A bound
        that no key can equal, such as 2.5 or 2**40 for int32, still lies between keys.

        Args:
            start: Value of the first field, or a tuple of values of the first fields. Default: no
                bound.
            stop: Value of the first field, or a tuple of values of the first fields. Default: no
                bound.

        Returns:
            First bytes inside and first bytes after the range, each None for no bound. A range that
            is known to be empty is (b"", b"").

        Raises:
            TypeError: If a value is of another kind than its field, or there are more values than
                fields.
            ValueError: If a value is None and its field is not nullable.

        >>> KeySchema(pa.schema([("id", pa.uint8())])).encode_bounds(2.5, 300)
        (b'\\x03', None)
        """
        low = b"" if start is None else self._bound(self.leading(start, "start"), "start")
        high = None if stop is None else self._bound(self.leading(stop, "stop"), "stop")
        return (b"", b"") if low is None else (low or None, high)

    def _bound(self, values: Sequence[object], what: str) -> bytes | None:
        """Return the bytes between the keys before `values` and the others.

        None: All keys are before.
        """
        done = b""
        for i, (field, value) in enumerate(zip(self._fields, values, strict=False)):
            if value is None:
                if not field.nullable:
                    raise ValueError(
                        f"{what}[{i}] is None, but the key field {field.name!r} is not nullable"
                    )
                done += b"\x00"
                continue
            if field.nullable:
                done += b"\x01"
            found, exact = field.ceiling(value)
            if found is None:
                return successor(done)
            done += found if i + 1 == len(self._fields) else field.inner(found)
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
            found = f"{type(value).__name__} {value!r}"
            if isinstance(value, (tuple, list)):
                count = f"{len(value)} value{'s'[: len(value) != 1]}"
                found = f"a {type(value).__name__} of {count}"
            fields = "field" if len(names) == 1 else "fields"
            raise TypeError(
                f"the key is {found}; give a tuple of its {len(names)} {fields} "
                f"({', '.join(names)}), or a dict"
            )
        return value

    def leading(self, values: object, what: str) -> tuple[object, ...]:
        """Return values of the first fields as a tuple; another value becomes a tuple.

        Raises:
            TypeError: If `values` is a list or dict, or has more values than there are fields. The
                error names the argument as `what`.

        >>> KeySchema(pa.schema([("id", pa.int16())])).leading(7, "start")
        (7,)
        """
        if isinstance(values, (list, Mapping)):
            raise TypeError(
                f"{what} is a {type(values).__name__}, which is not a key; give a tuple of the "
                f"first fields' values, in the order of the key: ({', '.join(self.names)})"
            )
        if not isinstance(values, tuple):
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
        missing = getattr(sys.modules.get("pandas"), "NA", None)
        for i, (field, value) in enumerate(zip(self._fields, values, strict=False)):
            if value is None or value is missing:
                if not field.nullable:
                    return None
                done += b"\x00"
                continue
            part = field.one(value)
            if part is None:
                return None
            if field.nullable:
                done += b"\x01"
            done += part if i == last else field.inner(part)
        return done

    def _encode(self, arrays: Sequence[pa.Array]) -> pa.Array:
        raw = [field.to_cells(array) for array, field in zip(arrays, self._fields, strict=True)]
        return _keys.encode(self._codes, raw, len(arrays[0]), self._width)

    def _concat(self, parts: list[pa.Array]) -> pa.Array:
        kind = pa.large_binary() if self._width is None else pa.binary(self._width)
        return concat(parts, kind)
