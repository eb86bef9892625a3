"""Pack Arrow value columns as one byte string a row, and unpack them.

Every column of a row has a constant place, so reading some columns decodes only those. The layout
is in ``csrc/ls_rows.h``; ``docs/decisions/0002-rows-are-packed-not-ipc.md`` gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.arrow.types import concat, levels_of, schema_from_json, schema_to_json
from lookupstore.errors import FormatError, listed, meant
from lookupstore.rows import _codec as _rows
from lookupstore.rows._one import RowDecoder
from lookupstore.rows._small import SmallPlan, is_plain
from lookupstore.rows.layout import BadValueError, RowLayout

# Maximum depth of lists, structs and maps: Arrow cannot read a schema with a depth above 127.
_MOST_LEVELS = 100


class RowSchema:
    """The types of the value columns, which pack and unpack rows.

    Args:
        schema: Schema of the value columns, in order. Every Arrow type but unions and run-end
            encodings is allowed.

    Raises:
        TypeError: If a column has a type that cannot be packed, or is nested too deeply.
        ValueError: If two columns have one name.

    >>> rows = RowSchema(pa.schema([("name", pa.string()), ("year", pa.int16())]))
    >>> packed = rows.pack(pa.RecordBatch.from_pylist([{"name": "A320", "year": 1987}]))
    Traceback (most recent call last):
    TypeError: the column 'year' is int64; in the schema it is int16
    >>> batch = pa.RecordBatch.from_pylist([{"name": "A320", "year": 1987}], schema=rows.schema)
    >>> rows.unpack(rows.pack(batch), ["year"]).to_pylist()
    [{'year': 1987}]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._numbers: dict[str, int] = {}
        for number, name in enumerate(schema.names):
            if self._numbers.setdefault(name, number) != number:
                raise ValueError(
                    f"schema names the column {name!r} twice; columns need different names"
                )
        for field in schema:
            levels = levels_of(field.type)
            if levels > _MOST_LEVELS:
                raise TypeError(
                    f"the column {field.name!r} is nested {levels} levels deep, and at most "
                    f"{_MOST_LEVELS} are stored; store it as text, or leave it out"
                )
        self._schema = schema
        self._layout = RowLayout(list(schema))
        self._last_chosen: tuple[tuple[str, ...], list[int], pa.Schema] | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return the value columns as an Arrow schema."""
        return self._schema

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    @property
    def width(self) -> int | None:
        """Return the size of every row in bytes, or None if rows differ in size."""
        return self._layout.width

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowSchema):
            return NotImplemented
        return bool(self._schema.equals(other._schema, check_metadata=True))

    def __hash__(self) -> int:
        return hash(tuple(self._schema.names))

    def __reduce__(self) -> tuple[type[RowSchema], tuple[pa.Schema]]:
        return RowSchema, (self._schema,)

    def __repr__(self) -> str:
        return f"RowSchema({', '.join(f'{field.name}: {field.type}' for field in self._schema)})"

    def to_json(self) -> dict[str, Any]:
        """Return a dict for JSON: the Arrow schema in base64, and the columns for people."""
        nullable = [field.name for field in self._schema if field.nullable]
        return schema_to_json(self._schema, nullable)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RowSchema:
        """Return the schema that `to_json` described.

        Raises:
            FormatError: If the dict was not made by `to_json`.
        """
        try:
            return cls(schema_from_json(data))
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
            raise FormatError(f"not the description of a row schema: {error}") from error

    def pack(self, batch: pa.RecordBatch | pa.Table) -> pa.Array:
        """Pack one row for each row of a batch.

        Args:
            batch: Batch or table with the columns by name, in exactly the types of the schema.
                Other columns are left out.

        Returns:
            Rows as fixed_size_binary(`width`), or as large_binary if they differ in size.

        Raises:
            KeyError: If a column is missing.
            TypeError: If a column has another type.
            ValueError: If a column that is not nullable has a null, or a row exceeds 4 GiB.
        """
        for field in self._schema:
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                raise KeyError(
                    f"no single column {field.name!r} among {listed(batch.schema.names) or 'none'}"
                )
            if batch.schema.field(index).type != field.type:
                raise TypeError(
                    f"the column {field.name!r} is {batch.schema.field(index).type}; "
                    f"in the schema it is {field.type}"
                )
        batches = batch.to_batches() if isinstance(batch, pa.Table) else [batch]
        parts = []
        row = 0
        for part in batches:
            arrays = [part.column(name) for name in self._schema.names]
            try:
                parts.append(self._layout.pack(arrays, part.num_rows, None))
            except BadValueError as bad:
                raise ValueError(
                    f"the column {bad.path!r} is not nullable, but null in row {row + bad.row + 1}"
                ) from bad
            row += part.num_rows
        return concat(parts, pa.large_binary() if self.width is None else pa.binary(self.width))

    def unpack(self, rows: pa.Array, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Unpack rows into columns, exactly of the types of the schema.

        Args:
            rows: Arrow binary array of packed rows. Where it is null, every column is null.
            columns: Names of the columns to decode, in this order. Default: all.

        Raises:
            KeyError: If there is no column of a name.
            FormatError: If the bytes of a row do not fit the schema. The error names the column and
                the row.
            ValueError: If the values of a column do not fit into one Arrow array of its type.
        """
        return self.read(len(rows), columns, lambda found: found.read(rows))[1]

    def read(
        self,
        length: int,
        columns: Sequence[str] | None,
        find: Callable[[_rows.Columns], None],
    ) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Unpack rows while they are looked up, without copying them first.

        Args:
            length: Number of rows.
            columns: Names of the columns to decode, in this order. Default: all.
            find: Function that reads the rows into the columns, such as `sst.layers.Layers.lookup`
                at many keys.

        Returns:
            Whether each row was found; and the columns, exactly of the types of the schema, null
            where a row was not found.

        Raises:
            KeyError: If there is no column of a name.
            FormatError: If the bytes of a row do not fit the schema. The error names the column and
                the row.
            ValueError: If the values of a column do not fit into one Arrow array of its type.
            Exception: If `find` raises it.
        """
        numbers, schema = self._chosen(columns)
        try:
            found, arrays = self._layout.read(length, numbers, find, every_null=True)
        except BadValueError as bad:
            names = ", ".join(self._schema.names)
            where = f"the column {bad.path!r}" if bad.path else f"the schema ({names})"
            raise FormatError(f"row {bad.row}: its bytes do not fit {where}{bad.reason}") from bad
        if not arrays:  # RecordBatch.from_arrays would lose the number of rows
            empty = pa.Array.from_buffers(pa.struct([]), length, [None])
            batch = pa.RecordBatch.from_struct_array(empty)
            return found, batch.replace_schema_metadata(schema.metadata)
        return found, pa.RecordBatch.from_arrays(arrays, schema=schema)

    def decoder(self, columns: Sequence[str]) -> RowDecoder:
        """Return a decoder of some columns of single rows.

        >>> rows = RowSchema(pa.schema([("name", pa.string()), ("year", pa.int16())]))
        >>> batch = pa.RecordBatch.from_pylist([{"name": "A320", "year": 87}], schema=rows.schema)
        >>> rows.decoder(["year"]).decode(rows.pack(batch)[0].as_py())
        {'year': 87}
        """
        return self._layout.decoder(self._chosen(columns)[0])

    def small_plan(self, columns: Sequence[str]) -> SmallPlan | None:
        """Return a plan to read a few rows into some columns.

        None: Use `read`.
        """
        numbers, schema = self._chosen(columns)
        if not numbers or not all(is_plain(field.type) for field in schema):
            return None
        layout = self._layout
        places = [layout.columns[i].place for i in numbers]
        return SmallPlan(places, layout.fixed_size, layout.bitmap_size, layout.last, schema)

    def _chosen(self, columns: Sequence[str] | None) -> tuple[list[int], pa.Schema]:
        """Return the numbers of some columns, and the schema of the unpacked columns."""
        names = self._numbers
        if isinstance(columns, str):
            raise TypeError(f"columns is the string {columns!r}; give a sequence of names")
        wanted = tuple(names if columns is None else columns)
        last = self._last_chosen  # read only once: another thread may set it
        if last is None or last[0] != wanted:
            for name in wanted:
                if name not in names:
                    known = listed(names) or "none"
                    others = meant(name, names, f"the columns are {known}")
                    raise KeyError(f"no column {name!r}{others}")
            numbers = [names[name] for name in wanted]
            fields = [self._schema.field(i).with_nullable(True) for i in numbers]
            # Most calls use the columns of the call before.
            last = wanted, numbers, pa.schema(fields, self._schema.metadata)
            self._last_chosen = last
        return last[1:]
