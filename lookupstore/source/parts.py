"""Open tables or frames, one after the other, as one source."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.arrow.exact_casts import cast_exactly, has_all_fields, is_castable
from lookupstore.arrow.fitting import UnfitValueError
from lookupstore.arrow.types import plain_type
from lookupstore.source.source import Source, one_line, type_name


def is_table(value: Any) -> bool:
    """Return whether a value is a table or frame, which has rows of its own."""
    pandas = sys.modules.get("pandas")
    is_frame = pandas is not None and isinstance(value, pandas.DataFrame)
    return is_frame or hasattr(value, "__arrow_c_stream__")


def parts_source(
    first: Any,
    others: Iterator[Any],
    open_part: Callable[[Any], Source],
    known: pa.Schema | None,
) -> Source:
    """Return tables or frames, one after the other, as a source.

    Args:
        first: First table or frame, which has the schema of all.
        others: Further ones.
        open_part: Function that opens one of them.
        known: Schema of the destination of the rows, such as a table. None: unknown.
    """
    schema = open_part(first).schema
    if known is not None:
        schema = _firm(schema, known)

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        row = 0
        for i, part in enumerate(itertools.chain([first], others)):
            if not is_table(part):
                raise TypeError(f"source: item {i} is {type_name(part)}, not a table or a frame")
            opened = open_part(part)
            same = opened.schema.equals(schema)
            if not same and (known is None or not _may_be_cast(opened.schema, schema)):
                raise TypeError(
                    f"source: item {i} has the schema {one_line(opened.schema)}; the first one "
                    f"has {one_line(schema)}; give them one schema, as "
                    "pa.Table.from_pandas(frame, schema=...) does"
                )
            for batch in opened.batches(columns):
                yield batch if same else _cast_batch(batch, schema, f"source: item {i}", row)
                row += batch.num_rows

    return Source(schema, f"{type_name(first)}s", select, lambda: None)


def _firm(given: pa.Schema, known: pa.Schema) -> pa.Schema:
    """Return the schema of a first frame, in the types of the place if they fit.

    Values decide the types of a frame: a column of integers becomes floats if it has a null. Only
    integers of other widths, which may widen a column, and structs without all fields keep their
    types.
    """
    types = {field.name: field.type for field in known}
    return pa.schema(
        field.with_type(types[field.name])
        if field.name in types
        and not pa.types.is_integer(plain_type(field.type))
        and is_castable(field.type, types[field.name])
        and has_all_fields(field.type, types[field.name])
        else field
        for field in given
    )


def _may_be_cast(given: pa.Schema, wanted: pa.Schema) -> bool:
    return given.names == wanted.names and all(
        is_castable(one.type, plain_type(other.type)) and has_all_fields(one.type, other.type)
        for one, other in zip(given, wanted, strict=True)
    )


def _cast_batch(batch: pa.RecordBatch, schema: pa.Schema, where: str, row: int) -> pa.RecordBatch:
    """Return rows in other types, for errors that count rows from `row` on."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(cast_exactly(column, plain_type(schema.field(name).type)))
        except UnfitValueError as error:
            raise ValueError(
                f"{where}: the column {name + error.part.path!r} has {error.part.shown} in row "
                f"{row + error.row + 1}, which {error.part.kind} cannot hold; give parts whose "
                "types agree"
            ) from error
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
