"""Columns of a table that given rows lack, and their stored values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lookupstore.arrow.exact_casts import pair_types
from lookupstore.arrow.types import plain_type


@dataclass(frozen=True)
class MissingColumns:
    """Columns that rows lack, or fields that their structs lack.

    Attributes:
        fields: Missing columns by name. None: the whole column is missing; else: the missing fields
            of a struct.
        repeated: Paths of missing fields inside lists and maps. They cannot be kept, because no
            stored element belongs to a new one.
    """

    fields: Mapping[str, MissingColumns | None] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Iterable[pa.Field], known: Iterable[pa.Field]) -> MissingColumns:
        """Compare the columns of rows with those of a table.

        Args:
            given: Columns of the rows.
            known: Columns of the table.

        >>> point = pa.struct({"x": pa.int32(), "y": pa.int32()})
        >>> table = pa.schema({"id": pa.int32(), "at": point})
        >>> rows = pa.schema({"at": pa.struct({"x": pa.int32()})})
        >>> MissingColumns.of(rows, table).names()
        ['id', 'at.y']
        """
        types = {one.name: plain_type(one.type) for one in given}
        fields: dict[str, MissingColumns | None] = {}
        repeated: list[str] = []
        for one in known:
            if one.name not in types:
                fields[one.name] = None
            elif not pa.types.is_null(types[one.name]):
                inside = cls._inside(types[one.name], one.type)
                if inside.fields:
                    fields[one.name] = inside
                repeated += (f"{one.name}.{path}" for path in inside.repeated)
        return cls(fields, tuple(repeated))

    @classmethod
    def _inside(cls, given: pa.DataType, known: pa.DataType) -> MissingColumns:
        """Compare two types of one column."""
        types = pa.types
        if types.is_struct(known) and types.is_struct(given):
            return cls.of(given, known)
        if types.is_map(known):
            pair = pair_types(given)
            return cls() if pair is None else cls._of_elements("value", pair[1], known.item_type)
        if types.is_list(known) and not types.is_map(given) and hasattr(given, "value_type"):
            return cls._of_elements("element", given.value_type, known.value_type)
        return cls()

    @classmethod
    def _of_elements(cls, name: str, given: pa.DataType, known: pa.DataType) -> MissingColumns:
        inside = cls._inside(plain_type(given), known)
        paths = [*inside._paths(), *inside.repeated]
        return cls(repeated=tuple(f"{name}.{path}" for path in paths))

    def __bool__(self) -> bool:
        return bool(self.fields or self.repeated)

    def names(self) -> list[str]:
        """Return the paths of the missing columns and fields."""
        return [*self._paths(), *self.repeated]

    def _paths(self) -> Iterator[str]:
        for name, inside in self.fields.items():
            if inside is None:
                yield name
            else:
                yield from (f"{name}.{path}" for path in inside._paths())

    def filled(self, name: str, fresh: pa.Array, stored: pa.Array) -> pa.Array:
        """Return a column of new rows, with missing values from the stored rows.

        Args:
            name: Name of the column, one of `fields`.
            fresh: Column of the new rows, in the table's type.
            stored: Column of the stored rows that the new ones replace.

        >>> lacking = MissingColumns({"at": MissingColumns({"y": None})})
        >>> kind = pa.struct({"x": pa.int32(), "y": pa.int32()})
        >>> fresh, stored = pa.array([{"x": 1}, None], kind), pa.array([{"x": 3, "y": 4}] * 2, kind)
        >>> lacking.filled("at", fresh, stored).to_pylist()
        [{'x': 1, 'y': 4}, None]
        """
        inside = self.fields[name]
        if inside is None:
            return stored
        children = [
            inside.filled(one.name, new, old) if one.name in inside.fields else new
            for one, new, old in zip(fresh.type, fresh.flatten(), stored.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(fresh.type), mask=fresh.is_null())


#: Missing columns of rows that have all columns.
NOTHING_MISSING = MissingColumns()
