"""Read the facts of a join in any form, and return joined rows in the same form.

Neither pandas nor polars nor duckdb is imported here: a caller that passes their objects has
imported them.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.arrow.frames import array_fields, check_polars, pandas_frame, polars_frame
from lookupstore.arrow.relations import check_relation, checked
from lookupstore.arrow.taking import keep_rows, movable
from lookupstore.arrow.uuids import is_uuid, uuids_of
from lookupstore.keys.arguments import Column, column_of
from lookupstore.keys.joins import Join, JoinResult, one_array

KNOWN = (
    "a pandas DataFrame, a polars DataFrame or LazyFrame, an Arrow table, record batch or "
    "RecordBatchReader, a DuckDB relation, a structured array of NumPy, or a dict of NumPy arrays"
)

_NO_UUIDS: Mapping[str, pa.DataType] = MappingProxyType({})


class Facts(ABC):
    """Rows of one kind that can be joined."""

    @staticmethod
    def fold(name: str) -> str:
        """Return the same text for names that count as the same column."""
        return name

    @property
    @abstractmethod
    def names(self) -> list[Any]:
        """Return the names of the columns that may hold the key."""

    @abstractmethod
    def kind_of(self, name: str) -> pa.DataType | None:
        """Return the Arrow type of a column.

        None: Only its values determine it.
        """

    def key_kinds(self, join: Join) -> list[pa.DataType | None]:
        """Return the Arrow types in which the columns of the key are looked up."""
        return [self.kind_of(name) for name in join.keys]

    @abstractmethod
    def joined(self, join: Join) -> Any:
        """Return rows of the same kind, joined."""


def facts_of(rows: Any) -> Facts:
    """Return a wrapper of the rows that a caller passes as facts.

    Raises:
        TypeError: If the rows are of an unknown kind.

    >>> facts_of(pa.table({"id": [1]})).names
    ['id']
    """
    if isinstance(rows, pa.Table):
        return _TableFacts(rows)
    if isinstance(rows, pa.RecordBatch):
        return _BatchFacts(rows)
    if isinstance(rows, pa.RecordBatchReader):
        return _ReaderFacts(rows)
    if isinstance(rows, dict):
        return _ArrayFacts(rows)
    fields = array_fields(rows)
    if fields is not None:
        return _StructuredFacts(rows, fields)
    for library, name, kind in _OTHERS:
        module = sys.modules.get(library)
        if module is not None and isinstance(rows, getattr(module, name)):
            return kind(rows)
    given = f"{type(rows).__module__}.{type(rows).__qualname__}".removeprefix("builtins.")
    hint = ""
    if hasattr(rows, "__arrow_c_stream__"):
        hint = "; pyarrow.RecordBatchReader.from_stream(rows) makes a reader of it"
    if given.startswith("pyspark."):
        hint = "; for a DataFrame of Spark, call lookupstore.spark.lookup_join"
    raise TypeError(f"rows is {given}; give {KNOWN}{hint}")


class _ArrowFacts(Facts):
    """Facts with a schema of Arrow."""

    schema: pa.Schema

    @property
    def names(self) -> list[Any]:
        return list(self.schema.names)

    def kind_of(self, name: str) -> pa.DataType | None:
        return self.schema.field(name).type

    def joined_schema(self, join: Join) -> pa.Schema:
        return pa.schema([*self.schema, *join.appended], self.schema.metadata)


class _TableFacts(_ArrowFacts):
    """Facts in an Arrow table."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.schema = table.schema

    def joined(self, join: Join) -> pa.Table:
        answers = join.answers([self.table.column(name) for name in join.keys])
        table = self.table if answers.kept is None else keep_rows(self.table, answers.kept)
        if not answers.columns:
            return table
        columns = [*table.columns, *answers.kept_columns]
        return pa.Table.from_arrays(columns, schema=self.joined_schema(join))


class _BatchFacts(_ArrowFacts):
    """Facts in one record batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.schema = batch.schema

    def joined(self, join: Join) -> pa.RecordBatch:
        return _joined_batch(self.batch, join, self.joined_schema(join))


class _ReaderFacts(_ArrowFacts):
    """Facts of a reader, which are joined batch by batch.

    Columns of texts with a type in `uuids` are looked up as UUIDs of that type.
    """

    def __init__(
        self, reader: pa.RecordBatchReader, uuids: Mapping[str, pa.DataType] = _NO_UUIDS
    ) -> None:
        self.reader = reader
        self.schema = reader.schema
        self.uuids = uuids

    def joined(self, join: Join) -> pa.RecordBatchReader:
        schema = self.joined_schema(join)

        def batches() -> Iterator[pa.RecordBatch]:
            with self.reader:
                for batch in self.reader:
                    yield _joined_batch(batch, join, schema, self.uuids)

        return pa.RecordBatchReader.from_batches(schema, batches())


def _joined_batch(
    batch: pa.RecordBatch,
    join: Join,
    schema: pa.Schema,
    uuids: Mapping[str, pa.DataType] = _NO_UUIDS,
) -> pa.RecordBatch:
    keys = [batch.column(name) for name in join.keys]
    for at, name in enumerate(join.keys):
        if name in uuids and pa.types.is_string(keys[at].type):
            keys[at] = uuids_of(keys[at], uuids[name])
    answers = join.answers(keys)
    if answers.kept is not None:
        batch = keep_rows(batch, answers.kept)
    if not answers.columns:
        return batch
    columns = [*batch.columns, *map(one_array, answers.kept_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _PandasFacts(Facts):
    """Facts in a pandas DataFrame.

    Its index is kept, and may hold the key.
    """

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    @property
    def names(self) -> list[Any]:
        levels = [name for name in self.frame.index.names if name is not None]
        return [*self.frame.columns, *levels]

    def kind_of(self, name: str) -> pa.DataType | None:
        column = _pandas_column(self.frame.iloc[:0], name)
        return None if column.dtype == object else _kind(column_of(column))

    def joined(self, join: Join) -> Any:
        frame = self.frame
        answers = join.answers([column_of(_pandas_column(frame, name)) for name in join.keys])
        if answers.kept is not None:
            frame = frame[answers.kept.to_numpy(zero_copy_only=False)]
        if not answers.columns:
            return frame.copy(deep=None)
        pandas = sys.modules["pandas"]
        is_arrow = any(isinstance(kind, pandas.ArrowDtype) for kind in self.frame.dtypes)
        columns = pa.Table.from_arrays(answers.kept_columns, schema=join.appended)
        appended = pandas_frame(columns, arrow=is_arrow)
        if (levels := frame.columns.nlevels) > 1:
            tuples = [(name, *[""] * (levels - 1)) for name in appended.columns]
            appended.columns = pandas.MultiIndex.from_tuples(tuples)
        # pandas combines frames with numbered rows directly; it would have to compare text indexes.
        bare = frame.copy(deep=False)
        bare.index = appended.index
        appended.columns.names = frame.columns.names
        appended.attrs = frame.attrs
        joined = pandas.concat([bare, appended], axis=1)  # copies the facts if pandas has to
        joined.index = frame.index
        return joined


def _pandas_column(frame: Any, name: str) -> Any:
    """Return a column of a DataFrame, or a level of its index."""
    return frame[name] if name in frame.columns else frame.index.get_level_values(name)


class _PolarsFacts(Facts):
    """Facts in a polars DataFrame."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    @property
    def names(self) -> list[Any]:
        return list(self.frame.columns)

    def kind_of(self, name: str) -> pa.DataType | None:
        return _kind(column_of(_arrow_series(self.frame.get_column(name).head(0))))

    def joined(self, join: Join) -> Any:
        polars = sys.modules["polars"]
        frame = self.frame
        keys = [_arrow_series(frame.get_column(name)) for name in join.keys]
        answers = join.answers([column_of(key) for key in keys])
        if answers.kept is not None:
            frame = frame.filter(polars.from_arrow(answers.kept))
        if not answers.columns:
            return frame
        return frame.hstack(polars_columns(answers.kept_columns, join.appended))


class _LazyFacts(Facts):
    """Facts in a polars LazyFrame, which are joined when polars runs the query.

    The result of the lookup is an expression that polars may run piece by piece. Polars skips
    unneeded columns and rows of the facts, as with its own expressions.
    """

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.types = frame.collect_schema()

    @property
    def names(self) -> list[Any]:
        return list(self.types.names())

    def kind_of(self, name: str) -> pa.DataType | None:
        series = sys.modules["polars"].Series(name, [], self.types[name])
        return _kind(column_of(_arrow_series(series)))

    def joined(self, join: Join) -> Any:
        polars = sys.modules["polars"]
        columns = polars.struct([polars.col(name) for name in join.keys])

        def answers_to(keys: Any) -> JoinResult:
            fields = [_arrow_series(keys.struct.field(name)) for name in join.keys]
            return join.answers([column_of(one) for one in fields])

        def marks(keys: Any) -> Any:
            return polars.from_arrow(answers_to(keys).mask())

        if not join.appended.names:
            kept = columns.map_batches(marks, polars.Boolean, is_elementwise=True)
            return self.frame.filter(kept)

        mark, struct = (self._free_name(word, join) for word in ("kept", "answers"))
        fields = pa.schema([*join.appended, pa.field(mark, pa.bool_())])

        def rows(keys: Any) -> Any:
            answers = answers_to(keys)
            given = [*answers.columns, pa.chunked_array([answers.mask()])]
            return polars_columns(given, fields).to_struct()

        kind = polars.Struct(polars_frame(fields.empty_table()).schema)
        found = columns.map_batches(rows, kind, is_elementwise=True).alias(struct)
        joined = self.frame.with_columns(found)
        if join.how == "inner":
            joined = joined.filter(polars.col(struct).struct.field(mark))
        appended = [polars.col(struct).struct.field(name) for name in join.appended.names]
        return joined.with_columns(appended).drop(struct)

    def _free_name(self, word: str, join: Join) -> str:
        """Return a name that no column of the facts or the join has."""
        while word in self.types or word in join.appended.names:
            word += "_"
        return word


def polars_columns(columns: Sequence[pa.ChunkedArray], schema: pa.Schema) -> Any:
    """Return columns of Arrow as a polars DataFrame."""
    return polars_frame(pa.Table.from_arrays(list(columns), schema=schema))


def _arrow_series(series: Any) -> Any:
    """Return a polars Series, or raise TypeError if Arrow does not have its type."""
    check_polars(series, "rows")
    return series


class _RelationFacts(Facts):
    """Facts in a DuckDB relation, which are read when they are joined.

    DuckDB cannot read a relation while the same connection runs another query. Therefore the result
    is in memory, as an Arrow table.
    """

    def __init__(self, relation: Any) -> None:
        self.relation = relation

    @staticmethod
    def fold(name: str) -> str:
        return name.lower()

    @property
    def names(self) -> list[Any]:
        return list(self.relation.columns)

    def kind_of(self, name: str) -> pa.DataType | None:
        column = self.relation.project(_quoted(name)).limit(0)
        return pa.RecordBatchReader.from_stream(column).schema.field(0).type

    def key_kinds(self, join: Join) -> list[pa.DataType | None]:
        uuids = self._uuids(join)
        return [uuids[name] if name in uuids else self.kind_of(name) for name in join.keys]

    def _uuids(self, join: Join) -> dict[str, pa.DataType]:
        """Return the type of UUIDs in the key by the name of their column.

        DuckDB passes UUIDs to Arrow as text, unless its setting `arrow_lossless_conversion` is on.
        """
        kinds = dict(zip(self.names, self.relation.types, strict=True))
        fields = zip(join.keys, join.lookups.key_schema.schema, strict=True)
        return {
            name: field.type
            for name, field in fields
            if is_uuid(field.type) and str(kinds[name].id) == "uuid"
        }

    def joined(self, join: Join) -> Any:
        partly = check_relation(self.relation, "facts")
        reader = pa.RecordBatchReader.from_stream(self.relation)
        if partly:
            batches = checked(reader, partly, "facts")
            reader = pa.RecordBatchReader.from_batches(reader.schema, batches)
        rows = _ReaderFacts(reader, self._uuids(join)).joined(join).read_all()  # noqa: F841  (the query names it)
        same = self.relation.query("facts", "SELECT * FROM rows")
        given, became = self.relation.types, same.types
        if given == became[: len(given)]:
            return same
        # Arrow has no equivalent type: 128-bit integers, UUIDs, JSON.
        columns = [
            f"CAST({name} AS {kind}) AS {name}" if kind != now else name
            for name, kind, now in zip(map(_quoted, self.names), given, became, strict=False)
        ]
        columns += map(_quoted, join.appended.names)
        return same.project(", ".join(columns))


def _quoted(name: str) -> str:
    """Return the name of a column, quoted for SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


class _ArrayFacts(Facts):
    """Facts in NumPy arrays by name."""

    def __init__(self, arrays: dict[Any, Any]) -> None:
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or not array.ndim:
                raise TypeError(
                    f"rows: the column {name!r} is a {type(array).__name__}; give a dict of NumPy "
                    "arrays, or pyarrow.table(rows)"
                )
        counts = {name: len(array) for name, array in arrays.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"rows: arrays of different lengths: {counts}")
        self.arrays = arrays

    @property
    def names(self) -> list[Any]:
        return list(self.arrays)

    def kind_of(self, name: str) -> pa.DataType | None:
        array = self.arrays[name]
        return None if array.dtype == object else _kind(column_of(array[:0]))

    def joined(self, join: Join) -> dict[Any, Any]:
        answers = join.answers([column_of(self.arrays[name]) for name in join.keys])
        facts = dict(self.arrays)
        if answers.kept is not None:
            kept = answers.kept.to_numpy(zero_copy_only=False)
            facts = {name: array[kept] for name, array in facts.items()}
        appended = zip(join.appended.names, answers.kept_columns, strict=True)
        return facts | {name: numpy_array(column) for name, column in appended}


class _StructuredFacts(_ArrayFacts):
    """Facts in a structured array of NumPy."""

    def __init__(self, rows: np.ndarray[Any, Any], fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.rows = rows

    def joined(self, join: Join) -> Any:
        arrays = super().joined(join)
        own = self.rows.dtype
        kinds = [(name, own[name] if name in self.names else arrays[name].dtype) for name in arrays]
        joined = np.empty(len(arrays[join.keys[0]]), kinds)
        for name, array in arrays.items():
            joined[name] = array
        return joined.view(type(self.rows))


def numpy_array(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return a column as a NumPy array: integers with nulls become floats with NaN."""
    array: np.ndarray[Any, Any] = movable(column).to_numpy()
    return array


def _kind(column: Column) -> pa.DataType | None:
    return None if isinstance(column, list) else column.type


_OTHERS: Sequence[tuple[str, str, Callable[[Any], Facts]]] = (
    ("pandas", "DataFrame", _PandasFacts),
    ("polars", "DataFrame", _PolarsFacts),
    ("polars", "LazyFrame", _LazyFacts),
    ("duckdb", "DuckDBPyRelation", _RelationFacts),
)


def mapped(column: Any, look: Callable[[Column], pa.ChunkedArray], name: str) -> Any:
    """Look up a column of keys, and return the answers as a column of the same kind.

    Args:
        column: Keys: an Arrow array or chunked array, a pandas Series or Index, a polars Series, a
            NumPy array or a list.
        look: Function that returns the answers to keys.
        name: Name of the column of answers, if its kind has names.

    Raises:
        TypeError: If `column` is of another kind.
    """
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if isinstance(column, pa.ChunkedArray):
        return look(column)
    if isinstance(column, pa.Array):
        return one_array(look(column))
    if isinstance(column, list):
        return look(column_of(column)).to_pylist()
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return numpy_array(look(column_of(column)))
    if polars is not None and isinstance(column, polars.Series):
        return polars.from_arrow(look(column_of(column))).alias(name)
    if pandas is not None and isinstance(column, (pandas.Series, pandas.Index)):
        values = pa.table([look(column_of(column))], names=["found"])
        found = pandas_frame(values, arrow=isinstance(column.dtype, pandas.ArrowDtype))["found"]
        if isinstance(column, pandas.Index):
            return pandas.Index(found, name=name)
        found.index = column.index
        return found.rename(name)
    given = f"{type(column).__module__}.{type(column).__qualname__}".removeprefix("builtins.")
    raise TypeError(
        f"column is {given}; give an Arrow array or chunked array, a pandas Series or Index, a "
        "polars Series, a NumPy array of one dimension, or a list"
    )
