"""The common base of all types of key fields.

Each type of key is a subclass of `KeyField`. It defines the Arrow types that the field holds, their
storage in C, and the columns, Python values and texts that it accepts. `numbers`, `times` and
`binaries` contain these classes, `types` lists them. The layout of each field is in
``csrc/ls_keys.h``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import plain_type, restore, validity
from lookupstore.arrow.uuids import is_uuid
from lookupstore.keys import _codec as _keys

#: Type of `KeyField.holds`, for annotations in which `holds` is shadowed.
Holds: TypeAlias = "staticmethod[[pa.DataType], bool]"


class KeyField(ABC):
    """One field of a key.

    Args:
        field: Name and Arrow type of the field. `holds` must be true for the type, unwrapped.
        nullable: Whether the field may be null.

    Attributes:
        plural: Name of the values in errors, in the plural.
        wanted: Python type of a value, as errors name it.
        kind: Name of the loops in C, one of ``_codec.KINDS``.
        name: Name of the field.
        type: Arrow type as declared.
        plain: Arrow type without dictionary, extension and view.
        nullable: Whether the field may be null.
        variable: Whether values differ in size.
        in_place: Whether C reads values of fixed size directly from a plain array.
        width: Size of each value in bytes, 0 if values differ in size.
        code: Kind, width and nullable, in the form that ``_codec`` takes.
    """

    plural: ClassVar[str]
    wanted: ClassVar[str]
    kind: ClassVar[str]
    variable: ClassVar[bool] = False
    in_place: ClassVar[bool] = True

    def __init__(self, field: pa.Field, nullable: bool) -> None:
        self.name: str = field.name
        self.type: pa.DataType = field.type
        self.plain: pa.DataType = plain_type(field.type)
        self.nullable = nullable
        self.width: int = 0 if self.variable else (self.plain.bit_width + 7) // 8
        self.code: tuple[int, int, bool] = (_keys.KINDS[self.kind], self.width, nullable)

    @staticmethod
    @abstractmethod
    def holds(kind: pa.DataType, /) -> bool:
        """Return whether a plain Arrow type is of this type of key."""

    @abstractmethod
    def one(self, value: Any) -> bytes | None:
        """Return the bytes of a value, without marker and escapes.

        None: No key holds an equal value. C encodes batches, with the same bytes; this is faster
        for a single value.

        Raises:
            TypeError: If the value is of another kind.
        """

    @abstractmethod
    def ceiling(self, value: Any) -> tuple[bytes | None, bool]:
        """Return the bytes of the least value that is not less, and whether it is equal.

        `value` may lie between the values of the type. None: No value is as great.

        Raises:
            TypeError: If the value is of another kind.
        """

    def beginning(self, value: Any) -> bytes | None:
        """Return the common first bytes of all values that begin with `value`.

        None: No value begins with it.

        Raises:
            TypeError: If `value` is of another kind, or the type has no values that begin with
                others.
        """
        raise TypeError(
            f"starts_with: the key field {self.name!r} is {self.type}, and only text and "
            "bytes begin with something; give prefix= whole values, or start= and stop="
        )

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether columns of a plain type can be cast to this without rounding."""
        return self.holds(kind)

    def fit(self, array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Cast a plain array of another accepted type to the plain type of the field.

        Returns:
            The array, null where a value does not fit; and whether each value fits (true for null),
            or None if all do.
        """
        # Values that overflow or are truncated differ when they are cast back.
        back = array.cast(self.plain, safe=False).cast(array.type, safe=False)
        return self.cast_where(array, pc.equal(back, array))

    def cast_where(self, array: pa.Array, fits: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Cast the values that fit, and return the same as `fit`."""
        fits = pc.fill_null(fits, True)
        if pc.all(fits).as_py() is not False:
            return array.cast(self.plain, safe=False), None
        kept = pc.if_else(fits, array, pa.scalar(None, array.type))
        return kept.cast(self.plain, safe=False), fits

    @property
    @abstractmethod
    def form(self) -> str:
        """Return a description of the text form of a value."""

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the values of texts in the plain type, null as null.

        Raises:
            ValueError: If a text is not such a value (an error of Arrow, or a subclass of it).
            ArrowNotImplementedError: If a text is not such a value.
        """
        return texts.cast(self.plain)

    def read_beginning(self, text: str) -> str | bytes:
        """Return the argument of `beginning` that a text stands for.

        Raises:
            ValueError: If the text is not the beginning of a value.
        """
        return text

    def inner(self, value: bytes) -> bytes:
        """Return the bytes of a value for a place before other fields."""
        return value

    def escaped(self, value: bytes) -> bytes:
        """Return the bytes of a value for a place before other fields, without their end."""
        return value

    def to_cells(self, array: pa.Array) -> pa.Array:
        """Return a view of a plain array as the bytes that C reads."""
        buffers = array.buffers()
        kind = pa.binary(self.width)
        return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, array.offset)

    def ordered(self, array: pa.Array) -> pa.Array:
        """Return the values of a plain array as bytes in the same order, null for null."""
        kind, width, _ = self.code
        keys = _keys.encode([(kind, width, False)], [self.to_cells(array)], len(array), width)
        buffers = [validity(array), keys.buffers()[1]]
        return pa.Array.from_buffers(keys.type, len(array), buffers, array.null_count)

    def from_cells(self, cells: pa.Array) -> pa.Array:
        """Return the values that C decoded, in the declared type.

        Raises:
            FormatError: If the bytes of a cell do not fit the type. The error names the field and
                the key.
            ValueError: If the values do not fit into one array of the type.
        """
        return restore(self._typed(cells), self.type)

    def _typed(self, cells: pa.Array) -> pa.Array:
        """Return the values that C decoded, in the plain type."""
        return pa.Array.from_buffers(self.plain, len(cells), cells.buffers(), cells.null_count)

    def wrong_kind_error(self, value: object) -> TypeError:
        """Return the error for a value of another kind."""
        wanted = "a uuid.UUID or its 16 bytes" if is_uuid(self.type) else self.wanted
        missing = " or None" if self.nullable else ""
        return TypeError(
            f"the key field {self.name!r} is {self.type}; found {type(value).__name__} {value!r}, "
            f"give {wanted}{missing}"
        )

    def scalar(self, value: Any) -> pa.Scalar:
        """Return an Arrow scalar of a value from NumPy, pandas or Arrow."""
        try:
            if isinstance(value, np.generic):
                return pa.array(np.asarray([value]))[0]
            if getattr(value, "tzinfo", None) is not None:
                raise ValueError("Arrow would drop the time zone")  # for a datetime.time
            scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
            while isinstance(scalar, (pa.ExtensionScalar, pa.DictionaryScalar)):
                scalar = scalar.value
            return scalar
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self.wrong_kind_error(value) from error

    def native(self, value: Any, *kinds: type) -> Any:
        """Return a value from NumPy or Arrow as a Python value of one of these kinds."""
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            converted = self.scalar(value).as_py()
            if not isinstance(converted, kinds) or (
                isinstance(converted, bool) and bool not in kinds
            ):
                raise self.wrong_kind_error(value)
            return converted
        return value
