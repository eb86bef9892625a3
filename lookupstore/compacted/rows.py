"""Rows of Paimon's: Arrow columns to and from one byte string a row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lookupstore.compacted._codec import BadCellError, Tree
from lookupstore.compacted.schema import order_of, row_cell


class CompactedRows:
    """The types of the columns of rows, with encoding and decoding.

    Args:
        schema: the columns in order.
        name: of the schema, for errors.

    Raises:
        TypeError: a column has a type that Paimon's rows do not have.
        ValueError: two columns of one name.

    >>> rows = CompactedRows(pa.schema([("id", pa.int32()), ("text", pa.string())]))
    >>> encoded = rows.encode([pa.array([7], pa.int32()), pa.array(["hé"])])
    >>> encoded[0].as_py().hex(" ")
    '00 00 07 00 00 00 03 68 c3 a9'
    >>> rows.decode(encoded)[0]
    [<pyarrow.lib.Int32Array object at ...>
    [
      7
    ], <pyarrow.lib.StringArray object at ...>
    [
      "hé"
    ]]
    """

    def __init__(self, schema: pa.Schema, name: str = "schema") -> None:
        self._cell = row_cell(schema, name)
        self._tree = Tree(self._cell)
        self._name = name
        self.schema: pa.Schema = schema

    def order(self) -> str:
        """Return the name of the order of keys that are such rows.

        Raises:
            TypeError: a column has a type that keys do not have.
        """
        return order_of(self._cell, self._name)

    def encode(
        self, columns: Sequence[pa.Array], tails: Sequence[tuple[pa.Buffer, int]] = ()
    ) -> pa.LargeBinaryArray:
        """Return one row for each value of all columns.

        Args:
            columns: one for each of the schema, in its types.
            tails: buffers of what follows each row, with its width.

        Raises:
            TypeError: a column has another type.
            ValueError: a null where none may be, a value that its type does not have, or a row
                beyond 2 GiB.
        """
        length = len(columns[0]) if columns else 0
        for field, column in zip(self.schema, columns, strict=True):
            if not column.type.equals(field.type):
                raise TypeError(f"the column {field.name!r} is {column.type}, not {field.type}")
            if len(column) != length:
                raise ValueError(f"the column {field.name!r} has {len(column)} of {length} values")
            column.validate()
        try:
            return self._tree.write(list(columns), length, list(tails))
        except BadCellError as error:
            row, column, what = error.args
            name = self.schema.field(column).name
            raise ValueError(f"row {row + 1}: {name!r} {what}") from None

    def decode(
        self, rows: pa.Array, widths: Sequence[int] = ()
    ) -> tuple[list[pa.Array], list[pa.Buffer]]:
        """Return the columns of rows, and buffers of what follows each row; null where it is null.

        Args:
            rows: binary array of any kind.
            widths: of what follows each row.

        Raises:
            BadRowError: of a row (number, column number) whose bytes are no such row.
            ValueError: a timestamp does not fit its type, or a column is too large.
        """
        try:
            columns, tails = self._tree.read(rows, list(widths))
        except BadCellError as error:
            row, column, what = error.args
            field = self.schema.field(column)
            raise ValueError(
                f"{self._name}: row {row + 1}: a value of {field.name!r} {what}: {field.type}"
            ) from None
        return columns, tails
