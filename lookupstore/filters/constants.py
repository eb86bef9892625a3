"""Files that a filter excludes by values that are the same in all of their rows."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.row_filter import RowFilter
from lookupstore.filters.row_groups import told_to_arrow


def which_may_match(
    condition: RowFilter, columns: pa.Schema, constants: Iterable[Mapping[str, pa.Scalar]]
) -> list[bool]:
    """Return for each file whether some of its rows may meet a condition.

    Arrow decides it, as for the folders of a dataset.

    Args:
        condition: The condition.
        columns: Columns of the rows.
        constants: Columns with one value in all rows of a file, by name, for each file.

    >>> days = [{"day": pa.scalar(day)} for day in (1, 2, None)]
    >>> late = RowFilter((pc.field("day") > 1) & (pc.field("n") > 5), ("day", "n"))
    >>> which_may_match(late, pa.schema({"day": pa.int64(), "n": pa.int64()}), days)
    [False, True, False]
    """
    told = told_to_arrow(condition.expression, columns)
    if told is None:
        return [True for _ in constants]
    known: dict[frozenset[tuple[str, object]], bool] = {}
    found = []
    for values in constants:
        used = {name: value for name, value in values.items() if name in condition.names}
        said = frozenset((name, value.as_py()) for name, value in used.items())
        if said not in known:
            known[said] = not used or _may_match(told, columns, used)
        found.append(known[said])
    return found


def _may_match(
    expression: pc.Expression, columns: pa.Schema, values: Mapping[str, pa.Scalar]
) -> bool:
    from pyarrow import dataset as ds  # it imports pandas

    terms = (
        pc.field(name) == value if value.is_valid else pc.field(name).is_null()
        for name, value in values.items()
    )
    form = ds.ParquetFileFormat()
    condition = functools.reduce(operator.and_, terms)
    fragment = form.make_fragment(pa.py_buffer(b""), partition_expression=condition)
    dataset = ds.FileSystemDataset([fragment], columns, form)
    return any(True for _ in dataset.get_fragments(filter=expression))
