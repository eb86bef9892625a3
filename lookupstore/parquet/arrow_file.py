"""Read Parquet files with Arrow, with 96-bit timestamps converted exactly.

INT96 contains a day and the nanoseconds of that day. Spark, Hive and Delta write instants in this
form, including instants before 1677 and after 2262, which nanoseconds since 1970 cannot represent
and Arrow changes. Here they become microseconds in UTC, as in Spark.

Spark before 3.0, and later versions with a legacy option, use the Julian calendar for days before
1582, and local mean time before 1900. The footer records this. Such values are refused.

Source: parquet-format, LogicalTypes.md (TIMESTAMP); Spark, ParquetRowConverter, DataSourceUtils
(datetimeRebaseSpec, int96RebaseSpec) and RebaseDateTime.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.arrow.calendars import check_common, days_and_times, has_time
from lookupstore.errors import FormatError

_UNIT = "us"
# Entries that Spark writes into a footer: its version, a mark for days and times of the old
# calendar, and the same mark for INT96. Versions are compared as texts, as Spark does.
_VERSION, _OLD_TIMES, _OLD_INT96 = (
    b"org.apache.spark.version",
    b"org.apache.spark.legacyDateTime",
    b"org.apache.spark.legacyINT96",
)
# Most bytes of row groups that one thread decodes sooner than several that wait for each other.
_BYTES_OF_ONE_THREAD = 1 << 17
_TODAYS_TIMES, _TODAYS_INT96 = b"3.0.0", b"3.1.0"


def has_old_times(entries: Mapping[bytes, bytes]) -> bool:
    """Return whether days and times of a file may be of the old calendar, except those of INT96.

    Args:
        entries: Key-value metadata in its footer.

    >>> has_old_times({b"org.apache.spark.version": b"2.4.8"})
    True
    """
    return _is_old(entries, _OLD_TIMES, _TODAYS_TIMES)


def _is_old(entries: Mapping[bytes, bytes], flag: bytes, today: bytes) -> bool:
    version = entries.get(_VERSION)
    return flag in entries or (version is not None and version < today)


class ParquetRows:
    """A Parquet file that is open for reading by Arrow.

    Args:
        file: File to read: anything that `pyarrow.parquet.ParquetFile` accepts.
        path: Path of the file, which errors name.
        page_bytes: Number of bytes of a column to read at a time. 0: whole column chunks.
        metadata: Metadata in the footer, if it was read already. None: it is read.
    """

    def __init__(
        self,
        file: Any,
        path: str,
        *,
        page_bytes: int = 0,
        metadata: pq.FileMetaData | None = None,
    ) -> None:
        self._file = file
        self._path = path
        self._page_bytes = page_bytes
        self._parquet = self._opened(_UNIT, metadata)

    @property
    def metadata(self) -> pq.FileMetaData:
        """Return the metadata in the footer."""
        return self._parquet.metadata

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema, in the types that `batches` yields.

        Groups without columns are left out, since a file stores nothing of them.
        """
        found = self._stored
        if not any(_has_local_time(field.type) for field in found):
            return found
        # The unit applies only to INT96: a column with another type in another unit is INT96.
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
        """Return the schema, in the types that Arrow reads."""
        return _with_values(self._parquet.schema_arrow)

    def batches(
        self, names: Sequence[str], groups: Iterable[Sequence[int]], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns, a few rows at a time.

        Args:
            names: Names of the columns to read.
            groups: Lists of numbers of row groups. Batches end at the end of each list.
            rows: Largest number of rows of a batch.

        Raises:
            FormatError: If a 96-bit timestamp has nanoseconds that are not whole microseconds, or
                if a day or time differs in the old calendar.
        """
        parts = [list(part) for part in groups]
        sizes = (self.metadata.row_group(group).total_byte_size for part in parts for group in part)
        threads = sum(sizes) > _BYTES_OF_ONE_THREAD
        found = self._iterate(self._parquet, names, parts, rows, threads)
        changed = [
            name for name in names if self.schema.field(name).type != self._stored.field(name).type
        ]
        if changed:
            exact = self._opened("ns", self.metadata)
            found = self._as_instants(
                found, self._iterate(exact, changed, parts, rows, threads), changed
            )
        old = [name for name in names if self._may_be_old(name, name in changed)]
        return self._of_today(found, old) if old else found

    def _may_be_old(self, name: str, has_int96: bool) -> bool:
        """Return whether days or times of a column may be of the old calendar."""
        if not has_time(self.schema.field(name).type):
            return False
        said = self.metadata.metadata or {}
        if not has_int96:
            return has_old_times(said)
        return _is_old(said, _OLD_INT96, _TODAYS_INT96)

    def _of_today(
        self, batches: Iterable[pa.RecordBatch], names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches, and check that days and times are the same in both calendars.

        Raises:
            FormatError: If a day or time differs.
        """
        first = 0
        for batch in batches:
            columns = ((name, batch.column(name)) for name in names)
            check_common(columns, first, self._path, "an old Spark")
            first += batch.num_rows
            yield batch

    def _iterate(
        self,
        parquet: pq.ParquetFile,
        names: Sequence[str],
        parts: list[list[int]],
        rows: int,
        threads: bool,
    ) -> Iterator[pa.RecordBatch]:
        return itertools.chain.from_iterable(
            parquet.iter_batches(rows, part, columns=list(names), use_threads=threads)
            for part in parts
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

        If a day is outside the range of nanoseconds, Arrow keeps the low 64 bits, which also
        differ.
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
    """Yield batches, each with the same rows of other columns."""
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
    """Return a schema without empty structs, at any depth."""
    if not any(_is_empty_struct(field.type) for field in schema):
        return schema
    fields = [
        field.with_type(kind) for field in schema if (kind := _less_empty(field.type)) is not None
    ]
    return pa.schema(fields, schema.metadata)


def _is_empty_struct(kind: pa.DataType) -> bool:
    """Return whether a type is or contains a struct without fields."""
    if not pa.types.is_nested(kind):
        return False
    fields = [kind.field(at).type for at in range(kind.num_fields)]
    return (pa.types.is_struct(kind) and not fields) or any(map(_is_empty_struct, fields))


def _less_empty(kind: pa.DataType) -> pa.DataType | None:
    """Return a type without empty structs.

    None: Nothing is left.
    """
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
    """Return whether a type is or contains timestamps of the unit for INT96."""
    if pa.types.is_nested(kind):
        return any(_has_local_time(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) and kind.unit == _UNIT)


def _with_instants(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type with instants where its unit differs from that of another reading."""
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
