"""Filters of rows, checked against the columns that they name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import keep_rows
from lookupstore.arrow.types import plain_type, unwrap
from lookupstore.errors import listed, meant
from lookupstore.filters.filter import Filter, filter_expression
from lookupstore.filters.misfits import misfit
from lookupstore.filters.row_groups import columns_in, names_of


@dataclass(frozen=True)
class RowFilter:
    """A condition that rows must meet.

    Attributes:
        expression: The condition. Rows for which it is null do not meet it.
        names: Names of the columns that it needs.
    """

    expression: pc.Expression
    names: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Return a text that differs between conditions.

        The text of an expression is not used, because it shortens long lists.
        """
        try:
            _, (serialized,) = self.expression.__reduce__()
        except (ValueError, TypeError, KeyError, pa.ArrowException):
            return str(self.expression)
        return hashlib.sha256(serialized).hexdigest()

    def kept(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows meet the condition: Arrow booleans, never null.

        >>> rows = pa.record_batch({"n": [1, None, 3]})
        >>> RowFilter(pc.field("n") > 1, ("n",)).kept(rows).to_pylist()
        [False, False, True]
        """
        # This imports pandas, if it is installed.
        from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

        place = "#" + "".join(self.names)  # no column has that name
        # Arrow compares few values of dictionaries and views.
        columns = {name: _plain_array(rows.column(name)) for name in self.names}
        columns[place] = pa.array(np.arange(rows.num_rows))
        numbered = TableSourceNodeOptions(pa.Table.from_pydict(columns))
        plan = Declaration.from_sequence([
            Declaration("table_source", numbered),
            Declaration("filter", FilterNodeOptions(self.expression)),
        ])  # fmt: skip
        # `RecordBatch.filter` starts threads, which takes longer, and a process that ends soon
        # after may abort (apache/arrow#34314).
        found = plan.to_table(use_threads=False)
        kept = np.zeros(rows.num_rows, dtype=np.bool_)
        kept[found.column(place).to_numpy()] = True
        return pa.array(kept)

    def rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that meet the condition, with all its columns.

        >>> batch = pa.record_batch({"n": [1, 3], "name": ["a", "b"]})
        >>> RowFilter(pc.field("n") > 1, ("n",)).rows_of(batch).to_pylist()
        [{'n': 3, 'name': 'b'}]
        """
        return keep_rows(batch, self.kept(batch.select(list(self.names))))

    def and_also(self, other: RowFilter | None) -> RowFilter:
        """Return the condition that this one and another one are met.

        Args:
            other: Another condition. None: only this one counts.
        """
        if other is None:
            return self
        names = dict.fromkeys([*self.names, *other.names])
        return RowFilter(self.expression & other.expression, tuple(names))


def row_filter(where: Filter, columns: pa.Schema) -> RowFilter:
    """Return a filter of rows, after checking that it fits the columns.

    Args:
        where: Filter as an expression, SQL, a tuple, or a list.
        columns: Columns of the rows.

    Raises:
        TypeError: If `where` is not a filter, or compares values of different kinds.
        ValueError: If it names a column that does not exist, or is not understood.
        ImportError: If it is SQL, and sqlglot is not installed.

    >>> row_filter("n > 1 and day is null", pa.schema({"n": pa.int64(), "day": pa.date32()})).names
    ('day', 'n')
    """
    plain = pa.schema([one.with_type(_plain(one.type)) for one in columns])
    try:
        expression = filter_expression(where, plain)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("filter:", "where:", 1)) from None
    unknown = sorted(columns_in(expression) - set(columns.names))
    if unknown:
        those = f"there are {listed(columns.names)}"
        others = meant(unknown[0], columns.names, those)
        raise ValueError(f"where: there is no column {unknown[0]!r}{others}")
    known = names_of(expression)
    names = columns.names if known is None else sorted(known)
    # A condition such as "false" is evaluated for each row of some column.
    found = RowFilter(expression, tuple(names or columns.names[:1]))
    try:
        # Some values are only compared if there is a row.
        found.kept(pa.record_batch([pa.nulls(1, one.type) for one in plain], plain.names))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        kinds = listed(found.names, lambda name: f"{name}: {columns.field(name).type}")
        said = misfit(where, plain) or (
            f"{error}; give values of the types of the columns: {kinds}"
        )
        raise TypeError(f"where: {said}") from None
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries, extensions and views, also in structs."""
    kind = plain_type(kind)
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([one.with_type(_plain(one.type)) for one in kind])


def _plain_array(array: pa.Array) -> pa.Array:
    """Return an array in the type of `_plain`."""
    array = unwrap(array)
    kind = _plain(array.type)
    if array.type == kind:
        return array
    fields = [_plain_array(array.field(at)) for at in range(kind.num_fields)]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
