"""Place the columns of a row, and encode values of each Arrow type.

`RowLayout` has a codec for each column. The codecs of lists and structs have their own layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import (
    dictionary_of,
    first_invalid,
    is_restorable,
    plain_type,
    unwrap,
    validity,
)
from lookupstore.rows import _codec as _rows
from lookupstore.rows._one import RowDecoder


class BadValueError(Exception):
    """A row, and a value inside it, that cannot be packed or unpacked."""

    def __init__(self, row: int, path: str = "", reason: str = "") -> None:
        super().__init__(row, path, reason)
        self.row = row
        self.path = path
        self.reason = reason

    def inside_error(self, name: str, row: int | None = None) -> BadValueError:
        """Return the same error for the column `name` that holds the value."""
        path = f"{name}.{self.path}" if self.path else name
        return BadValueError(self.row if row is None else row, path, self.reason)


class _Codec(Protocol):
    """A codec from an Arrow array of one type to cells, the bytes of its values, and back."""

    width: int | None  # size of a cell; None if sizes vary

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        """Return cells: fixed_size_binary(width), or binary of any other kind.

        `present` is false where the cell will be left out, because a parent is null. There, Arrow
        allows nulls in children that are not nullable. None: Every cell is kept.
        """

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        """Return the array, with zeros instead of nulls if `nulls` is false."""


# Number that exceeds the size of any row in bytes.
_TOO_LARGE = 2**32

# Place of a column: offset, width, offset of the variable column before, bit, whether 32-bit
# offsets are wanted.
_Place: TypeAlias = "tuple[int, int | None, int | None, int | None, bool]"


@dataclass(frozen=True)
class _Column:
    name: str
    codec: _Codec
    nullable: bool
    offset: int
    bit: int | None
    place: _Place  # place for readers of the row


class RowLayout:
    """The places of the columns in a row."""

    def __init__(self, fields: Sequence[pa.Field], element: bool = False) -> None:
        self._fields = fields
        codecs = [_codec(field.type, field.name) for field in fields]
        has_nulls = any(field.nullable for field in fields)
        # An element of a list takes at least a byte, so a count cannot exceed the number of bytes
        # of its list: a wrong count then cannot request more memory than these bytes take.
        bare = element and not any(codec.width != 0 for codec in codecs)
        self.bitmap_size: int = (len(fields) + 7) // 8 if has_nulls else 0
        offset = self.bitmap_size or int(bare)
        before: int | None = None
        self.columns: list[_Column] = []
        for i, (field, codec) in enumerate(zip(fields, codecs, strict=True)):
            bit = i if field.nullable else None
            follows = before if codec.width is None else None
            narrow = isinstance(codec, _Bytes) and codec.narrow
            place = offset, codec.width, follows, bit, narrow
            self.columns.append(_Column(field.name, codec, field.nullable, offset, bit, place))
            if codec.width is None:
                before = offset
                offset += 4
            else:
                offset += codec.width
        self.fixed_size = offset
        self.last = before
        self.width: int | None = offset if before is None else None

    def pack(self, arrays: Sequence[pa.Array], length: int, present: pa.Array | None) -> pa.Array:
        """Return the packed rows.

        `present` is false where a row will be left out.
        """
        cells = []
        for column, array in zip(self.columns, arrays, strict=True):
            try:
                packed = column.codec.pack(array, present)
            except BadValueError as bad:
                raise bad.inside_error(column.name) from None
            # This is not the null count of the array: a dictionary array does not count indices of
            # a null.
            if packed.null_count and not column.nullable:
                wrong = packed.is_null()
                if present is not None:
                    wrong = pc.and_(wrong, present)
                row = pc.index(wrong, True).as_py()
                if row >= 0:
                    raise BadValueError(row, column.name)
            cells.append(packed)
        places = [(column.offset, column.bit) for column in self.columns]
        return _rows.pack(cells, places, length, self.fixed_size)

    def decoder(self, numbers: Sequence[int]) -> RowDecoder:
        """Return a decoder of some columns of single rows."""
        columns = [self.columns[i] for i in numbers]
        return RowDecoder(
            [self._fields[i] for i in numbers],
            [column.place for column in columns],
            [_decoder_inside(column.codec) for column in columns],
            self.fixed_size,
            self.last,
        )

    def unpack(self, rows: pa.Array) -> list[pa.Array]:
        """Return the columns of packed rows.

        Where a row is null, nullable columns are null.
        """
        only = self.columns[0] if len(self.columns) == 1 else None
        is_fixed = pa.types.is_fixed_size_binary(rows.type) and rows.type.byte_width == self.width
        if only is not None and only.codec.width and is_fixed and not rows.null_count:
            # Elements of lists, such as vectors of numbers: there may be thousands in a row.
            return [_unpacked(only, _rows.read_elements(rows) if only.nullable else rows, False)]
        numbers = range(len(self.columns))
        return self.read(len(rows), numbers, lambda found: found.read(rows))[1]

    def read(
        self,
        length: int,
        numbers: Iterable[int],
        find: Callable[[_rows.Columns], None],
        every_null: bool = False,
    ) -> tuple[pa.BooleanArray, list[pa.Array]]:
        """Return whether `find` finds each row, and some columns of the rows.

        Where there is no row, nullable columns are null, and all columns if `every_null` is true.
        """
        columns = [self.columns[i] for i in numbers]
        places = [column.place for column in columns]
        reading = _rows.Columns(length, places, self.fixed_size, self.bitmap_size, self.last)
        try:
            find(reading)
        except _rows.BadRowError as bad:
            row, number = bad.args
            raise BadValueError(row, "" if number is None else columns[number].name) from None
        arrays = []
        for column, cells in zip(columns, reading.cells(), strict=True):
            arrays.append(_unpacked(column, cells, every_null))
        return reading.found(), arrays


def _unpacked(column: _Column, cells: pa.Array, every_null: bool) -> pa.Array:
    """Return the values of a column, null where a cell is and the column may be null."""
    try:
        return column.codec.unpack(cells, column.nullable or every_null)
    except _rows.BadRowError as bad:
        raise BadValueError(bad.args[0], column.name) from None
    except BadValueError as bad:
        raise bad.inside_error(column.name) from None


def _valid(array: pa.Array, present: pa.Array | None) -> pa.Array | None:
    """Return whether each value is valid and present.

    None: All are.
    """
    if array.null_count == 0:
        return present
    return array.is_valid() if present is None else pc.and_(array.is_valid(), present)


def _kept(cells: pa.Array, nulls: bool) -> pa.Buffer | None:
    return cells.buffers()[0] if nulls and cells.null_count else None


class _Plain:
    """Values of fixed width, as Arrow holds them."""

    def __init__(self, kind: pa.DataType, width: int) -> None:
        self.type = kind
        self.width: int | None = width

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        data = array.buffers()[-1]
        buffers = [array.buffers()[0], pa.py_buffer(b"") if data is None else data]
        kind = pa.binary(self.width)
        return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, array.offset)

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        buffers = [_kept(cells, nulls), cells.buffers()[1]]
        return pa.Array.from_buffers(self.type, len(cells), buffers)


class _Bool:
    """Bools, one byte each."""

    width: int | None = 1

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        return _Plain(pa.uint8(), 1).pack(array.cast(pa.uint8()), present)

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        numbers = _Plain(pa.uint8(), 1).unpack(cells, nulls)
        wrong = pc.index(pc.greater(numbers, 1), True).as_py()
        if wrong >= 0:
            raise BadValueError(wrong, reason=f": a bool is {numbers[wrong]}")
        return numbers.cast(pa.bool_())


class _Null:
    """The null type, which takes no bytes."""

    width: int | None = 0

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        gone = pa.py_buffer(bytes((len(array) + 7) // 8))
        buffers = [gone, pa.py_buffer(b"")]
        return pa.Array.from_buffers(pa.binary(0), len(array), buffers, len(array))

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        return pa.nulls(len(cells))


class _Bytes:
    """Strings and binaries of variable size, and views of them."""

    width: int | None = None

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind
        self.narrow = pa.types.is_string(kind) or pa.types.is_binary(kind)

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        return array

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        _, offsets, data = cells.buffers()
        kind = cells.type
        # Most text is ASCII, which is quickly checked; Arrow checks other text in its cast.
        if kind == pa.binary() and self.type == pa.string() and _rows.is_ascii(data):
            kind = self.type
        if kind != cells.type or (cells.null_count and not nulls):
            cells = pa.Array.from_buffers(kind, len(cells), [_kept(cells, nulls), offsets, data])
        if kind == self.type:
            return cells
        try:
            return cells.cast(self.type)
        except pa.ArrowInvalid as error:
            if cells.nbytes > 2**31 - 1:
                raise ValueError(
                    f"{len(cells)} rows hold more than a {self.type} array can (2 GiB); "
                    "unpack fewer rows at once"
                ) from error
            raise BadValueError(first_invalid(cells, self.type), reason=f": {error}") from error


class _Extension:
    """An extension type, through its storage."""

    def __init__(self, kind: pa.BaseExtensionType, path: str) -> None:
        self.type = kind
        self.storage = _codec(kind.storage_type, path)
        self.width = self.storage.width

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        return self.storage.pack(array.storage, present)

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        return pa.ExtensionArray.from_storage(self.type, self.storage.unpack(cells, nulls))


class _Dictionary:
    """A dictionary type, as its values."""

    def __init__(self, kind: pa.DictionaryType, path: str) -> None:
        if not is_restorable(kind):
            raise _unsupported_error(kind, path)
        self.type = kind
        self.values = _codec(plain_type(kind.value_type), path)
        self.width = self.values.width

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        return self.values.pack(unwrap(array), present)

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        return dictionary_of(self.values.unpack(cells, nulls), self.type)


class _Struct:
    """A struct, as a row of its children."""

    def __init__(self, kind: pa.StructType, path: str) -> None:
        self.type = kind
        self.layout = RowLayout([kind.field(i) for i in range(kind.num_fields)])
        self.width = self.layout.width

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        children = [array.field(i) for i in range(self.type.num_fields)]
        rows = self.layout.pack(children, len(array), _valid(array, present))
        buffers = [validity(array), *rows.buffers()[1:]]
        return pa.Array.from_buffers(rows.type, len(rows), buffers, array.null_count)

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        children = self.layout.unpack(cells)
        return pa.Array.from_buffers(
            self.type, len(cells), [_kept(cells, nulls)], children=children
        )


class _List:
    """A list or map: a count, then each element as a row (of a map: key and item)."""

    width: int | None = None

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind
        self.is_map = pa.types.is_map(kind)
        self.is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
        fields = [kind.key_field, kind.item_field] if self.is_map else [kind.value_field]
        self.layout = RowLayout(fields, element=True)
        wide = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
        self.offset_type = pa.int64() if wide else pa.int32()

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        if self.is_map:  # Arrow's list functions do not accept maps, which are lists
            kind = pa.list_(pa.field("entries", self._entries(), nullable=False))
            buffers = array.buffers()[:2]
            array = pa.Array.from_buffers(
                kind, len(array), buffers, array.null_count, array.offset, [array.values]
            )
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        if present is not None:
            lengths = pc.if_else(present, lengths, 0)
        offsets = np.zeros(len(array) + 1, np.int64)
        np.cumsum(np.asarray(lengths), out=offsets[1:])
        elements = self._pack_elements(array, offsets)
        return _rows.pack_lists(_shell(array), offsets, elements, True)

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        offsets, elements = _rows.split_lists(cells, None, self.layout.width)
        try:
            children = self.layout.unpack(elements)
        except BadValueError as bad:
            raise _outside_error(bad, np.asarray(offsets)) from None
        if self.is_map:
            children = [
                pa.Array.from_buffers(self._entries(), len(elements), [None], children=children)
            ]
        try:
            offsets = offsets.cast(self.offset_type)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{len(cells)} rows hold more elements than a {self.type} array can (2**31 - 1); "
                "unpack fewer rows at once"
            ) from error
        buffers = [_kept(cells, nulls), offsets.buffers()[1]]
        if self.is_view:
            buffers.append(pc.subtract(offsets[1:], offsets[:-1]).buffers()[1])
        return pa.Array.from_buffers(self.type, len(cells), buffers, children=children)

    def _pack_elements(self, array: pa.Array, offsets: np.ndarray) -> pa.Array:
        """Return the packed elements of all lists, in the order of the lists.

        The elements of a list array are in this order, but there may be other elements under nulls
        of the list or of a parent. The elements of an array of views may be in any order. (Arrow's
        own flatten does not support extension types.)
        """
        starts = np.asarray(array.offsets)[: len(array)]
        first = int(starts[0]) if len(array) else 0
        values, places, present = array.values, None, None
        if np.array_equal(starts - first, offsets[:-1]):
            values = values[first:][: offsets[-1]]
        else:
            places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], np.diff(offsets))
            flags = np.zeros(len(values), bool)
            flags[places] = True
            present = pa.array(flags)
        children = [values.field(0), values.field(1)] if self.is_map else [values]
        try:
            elements = self.layout.pack(children, len(values), present)
        except BadValueError as bad:
            row = bad.row if places is None else int(np.flatnonzero(places == bad.row)[0])
            raise _outside_error(BadValueError(row, bad.path, bad.reason), offsets) from None
        return elements if places is None else elements.take(pa.array(places))

    def _entries(self) -> pa.DataType:
        return pa.struct([self.type.key_field, self.type.item_field])


class _FixedList:
    """A list of fixed size: its elements as rows of one column, without a count."""

    def __init__(self, kind: pa.FixedSizeListType) -> None:
        self.type = kind
        self.size = kind.list_size
        self.layout = RowLayout([kind.value_field], element=True)
        element = self.layout.width
        self.width = None if element is None else element * self.size

    def pack(self, array: pa.Array, present: pa.Array | None) -> pa.Array:
        length = len(array)
        values = array.values[array.offset * self.size :][: length * self.size]
        present = _valid(array, present)
        if present is not None:
            present = pa.array(np.repeat(np.asarray(present), self.size))
        offsets = np.arange(length + 1, dtype=np.int64) * self.size
        try:
            elements = self.layout.pack([values], len(values), present)
        except BadValueError as bad:
            raise _outside_error(bad, offsets) from None
        if self.width is None:
            return _rows.pack_lists(_shell(array), offsets, elements, False)
        buffers = [validity(array), elements.buffers()[1]]
        return pa.Array.from_buffers(pa.binary(self.width), length, buffers, array.null_count)

    def unpack(self, cells: pa.Array, nulls: bool) -> pa.Array:
        length = len(cells)
        if self.width is None:
            _, elements = _rows.split_lists(cells, self.size, None)
        else:
            kind = pa.binary(self.layout.width)
            elements = pa.Array.from_buffers(kind, length * self.size, [None, cells.buffers()[1]])
        try:
            children = self.layout.unpack(elements)
        except BadValueError as bad:
            raise BadValueError(bad.row // self.size, bad.path, bad.reason) from None
        return pa.Array.from_buffers(self.type, length, [_kept(cells, nulls)], children=children)


def _decoder_inside(codec: _Codec) -> RowDecoder | None:
    """Return a decoder of the fields of a struct, or of the elements of a list.

    None: The column has another type.
    """
    while isinstance(codec, (_Extension, _Dictionary)):
        codec = codec.storage if isinstance(codec, _Extension) else codec.values
    if not isinstance(codec, (_Struct, _List, _FixedList)):
        return None
    layout = codec.layout
    if layout.fixed_size >= _TOO_LARGE or (codec.width or 0) >= _TOO_LARGE:
        return None
    return layout.decoder(range(len(layout.columns)))


def _shell(array: pa.Array) -> pa.Array:
    """Return empty values, as many as in an array, null where the array is null."""
    buffers = [validity(array), pa.py_buffer(b"")]
    return pa.Array.from_buffers(pa.binary(0), len(array), buffers, array.null_count)


def _outside_error(bad: BadValueError, offsets: np.ndarray) -> BadValueError:
    """Return the same error for the list that holds the element."""
    row = int(np.searchsorted(offsets, bad.row, side="right")) - 1
    return BadValueError(row, bad.path, bad.reason)


def _unsupported_error(kind: pa.DataType, path: str) -> TypeError:
    return TypeError(
        f"the column {path!r} is {kind}, which a value column cannot have; cast it, or leave it out"
    )


def _codec(kind: pa.DataType, path: str) -> _Codec:
    """Return the codec of an Arrow type."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _Extension(kind, path)
    if types.is_dictionary(kind):
        return _Dictionary(kind, path)
    if types.is_boolean(kind):
        return _Bool()
    if types.is_null(kind):
        return _Null()
    if types.is_struct(kind):
        return _Struct(kind, path)
    if (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
        or types.is_map(kind)
    ):
        return _List(kind)
    if types.is_fixed_size_list(kind):
        return _FixedList(kind)
    if (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
    ):
        return _Bytes(kind)
    if types.is_fixed_size_binary(kind):
        return _Plain(kind, kind.byte_width)
    if types.is_primitive(kind) or types.is_decimal(kind) or types.is_interval(kind):
        return _Plain(kind, kind.bit_width // 8)
    raise _unsupported_error(kind, path)
