"""Parquet files as Arrow reads them, with timestamps of 96 bits as what they are.

INT96 has a day and nanoseconds of it. Spark, Hive and Delta write instants like this, also those
that nanoseconds since 1970 do not hold, before 1677 and after 2262, of which Arrow makes others.
Here they are microseconds in UTC, as Spark has them.

Spark before 3.0, and later ones that are told so, count days before 1582 by the Julian calendar,
and hours before 1900 by the clocks of those days; the footer says so. Both are refused.

Source: parquet-format, LogicalTypes.md (TIMESTAMP); Spark, ParquetRowConverter, DataSourceUtils
(datetimeRebaseSpec, int96RebaseSpec) and RebaseDateTime.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.arrow.calendars import check_common, days_and_times, has_time
from lookupstore.errors import FormatError

_UNIT = "us"
# What Spark writes into a footer: its version, that days and times are of the old calendar, and the
# same of INT96. Versions are compared as texts, as by Spark.
_VERSION, _OLD_TIMES, _OLD_INT96 = (
    b"org.apache.spark.version",
    b"org.apache.spark.legacyDateTime",
    b"org.apache.spark.legacyINT96",
)
_TODAYS_TIMES, _TODAYS_INT96 = b"3.0.0", b"3.1.0"


class ParquetRows:
    """A Parquet file that is open for reading by Arrow.

    Args:
        file: what `pyarrow.parquet.ParquetFile` takes.
        path: of it, for errors.
        page_bytes: how much of a column to read at a time; 0: whole column chunks.
    """

    def __init__(self, file: Any, path: str, *, page_bytes: int = 0) -> None:
        self._file = file
        self._path = path
        self._page_bytes = page_bytes
        self._parquet = self._opened(_UNIT, None)

    @property
    def metadata(self) -> pq.FileMetaData:
        """Return what the footer says."""
        return self._parquet.metadata

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns, in the types that `batches` gives.

        Groups of no columns are left out, of which a file has nothing.
        """
        found = self._stored
        if not any(_has_local_time(field.type) for field in found):
            return found
        # The unit is asked for of INT96 alone: what differs in another one is that.
        others = _with_values(self._opened("s", self.metadata).schema_arrow)
        return pa.schema(
            [
                one.with_type(_with_instants(one.type, other.type))
                for one, other in zip(found, others, strict=True)
            ],
            found.metadata,
        )

    @cached_property
    def _stored(self) -> pa.Schema:
        """Return the columns, in the types that Arrow gives."""
        return _with_values(self._parquet.schema_arrow)

    def batches(
        self, names: Sequence[str], groups: Iterable[Sequence[int]], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns, a few rows at a time.

        Args:
            names: of the columns.
            groups: numbers of row groups; batches end where a sequence of them ends.
            rows: of a batch, at most.

        Raises:
            FormatError: a timestamp of 96 bits has nanoseconds that are not whole microseconds; or
                a day or time is of the old calendar.
        """
        parts = [list(part) for part in groups]
        found = self._iterate(self._parquet, names, parts, rows)
        changed = [
            name for name in names if self.schema.field(name).type != self._stored.field(name).type
        ]
        if changed:
            exact = self._opened("ns", self.metadata)
            found = self._as_instants(found, self._iterate(exact, changed, parts, rows), changed)
        old = [name for name in names if self._may_be_old(name, name in changed)]
        return self._of_today(found, old) if old else found

    def _may_be_old(self, name: str, has_int96: bool) -> bool:
        """Return whether days or times of a column may be of the old calendar."""
        if not has_time(self.schema.field(name).type):
            return False
        said = self.metadata.metadata or {}
        version = said.get(_VERSION)
        flag, today = (_OLD_INT96, _TODAYS_INT96) if has_int96 else (_OLD_TIMES, _TODAYS_TIMES)
        return flag in said or (version is not None and version < today)

    def _of_today(
        self, batches: Iterable[pa.RecordBatch], names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches whose days and times are the same in both calendars.

        Raises:
            FormatError: one is not.
        """
        first = 0
        for batch in batches:
            columns = ((name, batch.column(name)) for name in names)
            check_common(columns, first, self._path, "an old Spark")
            first += batch.num_rows
            yield batch

    def _iterate(
        self, parquet: pq.ParquetFile, names: Sequence[str], parts: list[list[int]], rows: int
    ) -> Iterator[pa.RecordBatch]:
        return itertools.chain.from_iterable(
            parquet.iter_batches(rows, part, columns=list(names)) for part in parts
        )

    def _as_instants(
        self,
        batches: Iterable[pa.RecordBatch],
        exact: Iterable[pa.RecordBatch],
        changed: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch, nanoseconds in _side_by_side(batches, exact):
            for name in changed:
                at = batch.schema.get_field_index(name)
                column = batch.column(at)
                self._check_whole(column, nanoseconds.column(name).combine_chunks(), name, row)
                field = batch.schema.field(at).with_type(self.schema.field(name).type)
                batch = batch.set_column(at, field, column.cast(field.type))
            row += batch.num_rows
            yield batch

    def _check_whole(self, column: pa.Array, exact: pa.Array, name: str, row: int) -> None:
        """Check that no timestamp of a column has lost nanoseconds.

        Of a day beyond those of nanoseconds Arrow keeps the low 64 bits, in which it shows, too.
        """
        for found, wanted in zip(days_and_times(column), days_and_times(exact), strict=True):
            if not pa.types.is_timestamp(found.type):
                continue
            microseconds, nanoseconds = (
                one.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
                for one in (found, wanted)
            )
            with np.errstate(over="ignore"):
                lost = microseconds * np.int64(1000) != nanoseconds
            if lost.any():
                where = (
                    f"row {row + int(lost.argmax()) + 1}" if len(found) == len(column) else "a row"
                )
                raise FormatError(
                    f"{self._path}: {where} of the column {name!r} has a timestamp of 96 bits with "
                    "nanoseconds, of which Spark's microseconds lose digits; to keep them, write "
                    "the column as TIMESTAMP(NANOS); to drop them, give "
                    "pyarrow.parquet.read_table(path, coerce_int96_timestamp_unit='us')"
                )

    def _opened(self, unit: str, metadata: pq.FileMetaData | None) -> pq.ParquetFile:
        # Streams of pages, not whole column chunks; no pre-buffering, which holds the file
        # compressed.
        return pq.ParquetFile(
            self._file,
            metadata=metadata,
            pre_buffer=False,
            buffer_size=self._page_bytes,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit=unit,
        )


def _side_by_side(
    batches: Iterable[pa.RecordBatch], others: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.Table]]:
    """Yield batches, each with the same rows of other columns, whose batches may end elsewhere."""
    coming = iter(others)
    held: list[pa.RecordBatch] = []
    for batch in batches:
        while sum(one.num_rows for one in held) < batch.num_rows:
            held.append(next(coming))
        if not held:
            continue  # a batch without rows
        rows = pa.Table.from_batches(held)
        yield batch, rows.slice(0, batch.num_rows)
        held = rows.slice(batch.num_rows).to_batches()


def _with_values(schema: pa.Schema) -> pa.Schema:
    """Return a schema without structs that have no values in them, at any depth."""
    if not any(_is_empty_struct(field.type) for field in schema):
        return schema
    fields = [
        field.with_type(kind) for field in schema if (kind := _less_empty(field.type)) is not None
    ]
    return pa.schema(fields, schema.metadata)


def _is_empty_struct(kind: pa.DataType) -> bool:
    """Return whether a type is, or has inside, a struct of nothing."""
    if not pa.types.is_nested(kind):
        return False
    fields = [kind.field(at).type for at in range(kind.num_fields)]
    return (pa.types.is_struct(kind) and not fields) or any(map(_is_empty_struct, fields))


def _less_empty(kind: pa.DataType) -> pa.DataType | None:
    """Return a type without structs of nothing; None: nothing is left."""
    if pa.types.is_struct(kind):
        left = [
            one.with_type(inner)
            for one in (kind.field(at) for at in range(kind.num_fields))
            if (inner := _less_empty(one.type)) is not None
        ]
        return pa.struct(left) if left else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _less_empty(kind.value_type)
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return None if inner is None else make(kind.value_field.with_type(inner))
    return kind


def _has_local_time(kind: pa.DataType) -> bool:
    """Return whether a type is, or has inside, timestamps as INT96 gives them."""
    if pa.types.is_nested(kind):
        return any(_has_local_time(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) and kind.unit == _UNIT)


def _with_instants(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type with instants where it has another unit than the same type, asked for again."""
    types = pa.types
    if kind == other:
        return kind
    if types.is_timestamp(kind):
        return pa.timestamp(_UNIT, "UTC")
    if types.is_map(kind):
        key, item = (
            one.with_type(_with_instants(one.type, another.type))
            for one, another in (
                (kind.key_field, other.key_field),
                (kind.item_field, other.item_field),
            )
        )
        return pa.map_(key, item, kind.keys_sorted)
    fields = [
        kind.field(at).with_type(_with_instants(kind.field(at).type, other.field(at).type))
        for at in range(kind.num_fields)
    ]
    if types.is_struct(kind):
        return pa.struct(fields)
    if types.is_large_list(kind):
        return pa.large_list(fields[0])
    if types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return pa.list_(fields[0])
