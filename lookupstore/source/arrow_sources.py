"""Open Arrow tables, streams and datasets, and frames of polars, as sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lookupstore.arrow.frames import check_polars, is_polars
from lookupstore.arrow.outgoing import ArrowRows
from lookupstore.arrow.relations import check_relation, checked, is_relation
from lookupstore.source.source import Source, one_line, type_name, with_checked_texts

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_BATCH_ROWS = 1 << 16
# Formats of datasets that count their rows by reading all of them.
_UNCOUNTED = ("csv", "json")


def table_source(table: pa.Table, kind: str = "Arrow table") -> Source:
    """Return a table as a source, with the kind of rows that it was made from."""
    source = Source(
        table.schema.remove_metadata(),
        f"{kind} of {table.num_rows} rows",
        lambda columns: iter(table.select(list(columns)).to_batches(max_chunksize=_BATCH_ROWS)),
        lambda: int(table.num_rows),
        table=table,
    )
    return with_checked_texts(source)


def batches_source(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], description: str
) -> Source:
    """Return record batches with one schema as a source."""

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for i, batch in enumerate(batches):
            if not isinstance(batch, pa.RecordBatch):
                raise TypeError(f"source: item {i} is {type_name(batch)}, not a record batch")
            if not batch.schema.equals(schema):
                raise TypeError(
                    f"source: batch {i} has the schema {one_line(batch.schema)}; the first one "
                    f"has {one_line(schema)}"
                )
            yield batch.select(list(columns))

    return with_checked_texts(Source(schema.remove_metadata(), description, select, lambda: None))


def stream_source(rows: Any, known: pa.Schema | None) -> Source:
    """Return an object with an Arrow stream as a source, such as a frame or a DuckDB relation.

    Args:
        rows: Object with `__arrow_c_stream__`.
        known: Schema of the destination of the rows, such as a table. None: unknown.

    Raises:
        TypeError: If Arrow does not have the type of a column of polars or DuckDB, or the object is
            one column.
    """
    if is_relation(rows):
        return _relation_source(rows)
    check_polars(rows, "source")
    # In a C stream, errors of this package would become errors of Arrow with the same text.
    ours = isinstance(rows, ArrowRows)
    try:
        reader = rows._reader() if ours else pa.RecordBatchReader.from_stream(rows)
    except pa.ArrowInvalid as error:
        if "non-struct" not in str(error):
            raise
        raise one_column_error(rows) from None
    except AssertionError as error:
        # DataFrames of PySpark 4 assert a time zone for timestamps, which PySpark does not pass.
        raise TypeError(
            f"source: {type_name(rows)} makes no Arrow stream of its columns, as of a DataFrame of "
            "Spark with timestamps; give .toArrow() of it, or of .limit(0) for its columns alone"
        ) from error
    if known is not None and is_polars(rows):
        return table_source(reader.read_all(), "polars DataFrame")
    source = batches_source(reader.schema, reader, f"Arrow stream of {type_name(rows)}")
    # Other objects may have to run a query to know their length.
    return replace(source, count_rows=lambda: len(rows)) if is_polars(rows) else source


def _relation_source(relation: Any) -> Source:
    """Return a DuckDB relation as a source, whose query runs when rows are read.

    While a reader is open, its connection runs no other query. A notebook keeps the last error
    with all variables of its calls, so no variable holds the reader.
    """
    partly = check_relation(relation, "source")
    with pa.RecordBatchReader.from_stream(relation.limit(0)) as reader:
        schema = reader.schema.remove_metadata()

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in checked(pa.RecordBatchReader.from_stream(relation), partly, "source"):
            yield batch.select(list(columns))

    description = f"Arrow stream of {type_name(relation)}"
    return with_checked_texts(Source(schema, description, select, lambda: None))


def one_column_error(rows: Any) -> TypeError:
    """Return the error for one column given as rows, such as a Series."""
    return TypeError(
        f"source is {type_name(rows)}, one column; give a table or frame, such as .to_frame()"
    )


def dataset_source(dataset: ds.Dataset, description: str) -> Source:
    """Return an Arrow dataset as a source, which reads only the wanted columns."""

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # Batches that a dataset reads ahead do not count in the memory budget, so their number is
        # small.
        batches = dataset.to_batches(
            columns=list(columns), batch_size=_BATCH_ROWS, batch_readahead=4, fragment_readahead=1
        )
        return iter(batches)

    def count_rows() -> int | None:
        formats = [getattr(one, "format", None) for one in getattr(dataset, "children", [dataset])]
        if any(getattr(one, "default_extname", None) in _UNCOUNTED for one in formats):
            return None
        return int(dataset.count_rows())

    return with_checked_texts(
        Source(dataset.schema.remove_metadata(), description, select, count_rows)
    )


def lazy_source(frame: Any) -> Source:
    """Return a polars LazyFrame as a source, which reads only the wanted columns."""
    empty = frame.limit(0).collect()
    check_polars(empty, "source")
    schema = pa.RecordBatchReader.from_stream(empty).schema.remove_metadata()

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = frame.select(list(columns)).collect(engine="streaming")
        return iter(pa.RecordBatchReader.from_stream(rows))

    return with_checked_texts(Source(schema, "polars LazyFrame", select, lambda: None))
