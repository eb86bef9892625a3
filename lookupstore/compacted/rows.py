"""Rows of Paimon's: Arrow columns to and from one byte string a row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lookupstore.compacted._codec import BadCellError, Tree
from lookupstore.compacted.schema import order_of, row_cell


class CompactedRows:
    """The types of the columns of rows, with encoding and decoding.

    Args:
        schema: Arrow schema of the columns, in their order.
        name: Name of the schema, for errors.

    Raises:
        TypeError: A column has a type that Paimon's rows do not have.
        ValueError: If two columns have one name.

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
        """Return the name of the key order of such rows.

        Raises:
            TypeError: A column has a type that keys do not have.
        """
        return order_of(self._cell, self._name)

    def encode(
        self, columns: Sequence[pa.Array], tails: Sequence[tuple[pa.Buffer, int]] = ()
    ) -> pa.LargeBinaryArray:
        """Return one row for each value of all columns.

        Args:
            columns: Arrays of all columns of the schema, in its order and types.
            tails: Pairs of a buffer with the bytes that follow each row, and the width of these
                bytes.

        Raises:
            TypeError: A column has another type.
            ValueError: If a value is null where nulls are not allowed, a value does not exist in
                its type, or a row is larger than 2 GiB.
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
        """Return the columns of rows, and buffers of the bytes that follow each row.

        Args:
            rows: Binary array of any kind; a null row is null in all columns.
            widths: Widths of the values that follow each row.

        Raises:
            CompactedRowError: If the bytes of a row are not such a row; the arguments are the row
                number and the column number.
            ValueError: A timestamp does not fit its type, or a column is too large.
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
