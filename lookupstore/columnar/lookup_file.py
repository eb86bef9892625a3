"""Make a lookup file of one columnar file: its keys, each with its values, its position, or both.

A file that is sorted by its key is streamed: only one of its blocks is in memory. Rows in any other
order are sorted within a memory budget, and spilled beyond it.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from lookupstore._version import __version__
from lookupstore.arrow.taking import keep_rows
from lookupstore.arrow.types import schema_to_json
from lookupstore.builder.plan import BuildPlan, OnDuplicate, plan_build
from lookupstore.columnar.source_file import SourceFile
from lookupstore.errors import CorruptionError, DuplicateKeyError, listed, meant
from lookupstore.hostcache.lookup_files import Room
from lookupstore.progress import Advance, not_shown
from lookupstore.sorting.runs import RepeatedKeyError, RunSorter
from lookupstore.sst import Reader, Writer

Mode = Literal["value", "position", "value_and_position", "presence"]

# Remedy in errors about repeated keys, where rules can choose a row.
_REMEDY = "choose the row to keep by ColumnarFiles(..., on_duplicate='first' or 'last')"
#: The same for rows of a table, which have no order.
NO_ORDER = (
    "choose the row with where=, or look keys up in a store: lookupstore.build(..., "
    "on_duplicate=('max', column))"
)
MODES: tuple[Mode, ...] = ("value", "position", "value_and_position", "presence")
#: Name of the column of a row's position in its file, from 0, as in the metadata columns of
#: Iceberg.
POSITION = "_pos"

# Bytes that a record takes in a file and in runs, in addition to its packed row.
_RECORD_BYTES = 24
_SLACK_BYTES = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LookupFilePlan:
    """The contents of the lookup file of one columnar file.

    Attributes:
        source: The columnar file.
        build: Plan that encodes its keys and rows as bytes.
        remedy: Advice about a repeated key, for errors.
        position: Name of the column of the positions of rows in the file, which is not a column of
            the source. None: the lookup file has no positions.
    """

    source: SourceFile
    build: BuildPlan
    remedy: str = _REMEDY
    position: str | None = None

    @property
    def name(self) -> str:
        """Return 32 hexadecimal digits that identify the content of the lookup file."""
        build = self.build
        parts = [
            __version__,
            self.source.identity(self.columns),
            schema_to_json(build.key_schema.schema, ()),
            schema_to_json(build.row_schema.schema, ()),
            build.keep,
        ]
        if POSITION in build.columns and self.position is None:
            parts.append(f"{POSITION} of the source")
        return xxhash.xxh3_128_hexdigest(json.dumps(parts).encode())

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns that are read from the source."""
        return [name for name in self.build.columns if name != self.position]

    def first_rows(self) -> pa.Table | None:
        """Return the first rows of the columnar file. None: It is not a local one."""
        if not os.path.isfile(self.source.uri):
            return None
        batches = self.source.batches(self.columns)
        return next(map(pa.Table.from_batches, ([batch] for batch in batches)), None)

    def repeated_error(self, key: bytes) -> DuplicateKeyError:
        """Return the error for a key that occurs more than once in the file."""
        error = self.build.repeated_error(key, self.remedy)
        return DuplicateKeyError(f"{self.source.uri}: {error}", key=error.key)

    def encoded(self, advance: Advance = not_shown) -> Iterator[pa.RecordBatch]:
        """Yield `key` and `value` of all rows without a null in the key.

        Args:
            advance: Function that is told of the rows that were read.
        """
        for batch, positions in self.source.placed_batches(self.columns):
            yield self.encode(batch, positions)
            advance(batch.num_rows)

    def encode(self, batch: pa.RecordBatch, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Encode rows of the source as `key` and `value`, leaving out null keys.

        Args:
            batch: Columns that the plan reads. Rows with a null in a key column are left out.
            positions: Positions of the rows in the source, int64.
        """
        if self.position is not None:
            batch = batch.append_column(self.position, pa.array(positions, pa.int64()))
        for name in self.build.key_schema.names:
            if batch.column(name).null_count:
                batch = keep_rows(batch, batch.column(name).is_valid())
        return self.build.encode(batch, None)

    def kept(self, keys: Callable[[], pa.Array], rows: pa.Array) -> pa.BooleanArray | None:
        """Return which rows of a lookup file count in the source. None: all of them.

        Args:
            keys: Function that returns the encoded key of each row.
            rows: The packed rows.
        """

        return self.kept_of(keys, partial(self.build.row_schema.unpack, rows), len(rows))

    def kept_of(
        self,
        keys: Callable[[], pa.Array],
        unpack: Callable[[Sequence[str]], pa.RecordBatch],
        count: int,
    ) -> pa.BooleanArray | None:
        """Return which rows of a lookup file count in the source. None: all of them.

        Args:
            keys: Function that returns the encoded key of each row.
            unpack: Function that returns the named columns of the packed rows.
            count: Number of rows.
        """

        def columns(names: Sequence[str]) -> pa.RecordBatch:
            key = self.build.key_schema
            packed = [name for name in names if name not in key.names]
            found = {}
            if packed:
                found = dict(zip(packed, unpack(packed), strict=True))
            if len(packed) < len(names):
                decoded = key.decode(keys())
                found |= {name: decoded.column(name) for name in names if name in key.names}
            return pa.RecordBatch.from_pydict({name: found[name] for name in names})

        return self.source.kept(columns, count)

    def without_others(self) -> LookupFilePlan | None:
        """Return a plan of only the rows that count in the source. None: all of them do."""
        source = self.source.without_others()
        return None if source is None else replace(self, source=source)


def plan_lookup_file(
    source: SourceFile,
    key: Sequence[str],
    columns: Sequence[str] | None,
    mode: Mode,
    on_duplicate: OnDuplicate,
    *,
    also: Sequence[str] = (),
    always_position: str | None = None,
) -> LookupFilePlan:
    """Plan the lookup file of a columnar file.

    Args:
        source: The columnar file.
        key: Names of the key columns.
        columns: Value columns. Those that the file lacks are not part of the plan. None: all
            columns.
        mode: Content of the lookup file in addition to keys: `value`, `position`,
            `value_and_position` or `presence`.
        on_duplicate: Handling of a key that the file has twice: `"error"`, `"first"` or `"last"`.
        also: Columns that the lookup file contains in every mode, if the source has them.
        always_position: Name of the column of positions in modes that do not add one, for a source
            whose rows have no order. No column of the source has the name. Default: none.

    Raises:
        KeyError: If the file lacks a key column.
        ValueError: If the mode adds a column with the name of a wanted column of the file.
        TypeError: If the type of a key column cannot be ordered, or a value cannot be stored.
    """
    there = set(source.schema.names)
    for name in key:
        if name not in there:
            names = source.schema.names
            others = meant(name, names, f"it has [{listed(names)}]")
            raise KeyError(f"key: {source.uri} has no column {name!r}{others}")
    values: list[str] = []
    if mode in ("value", "value_and_position"):
        wanted = source.schema.names if columns is None else columns
        values = [name for name in wanted if name in there and name not in key]
    schema = source.schema
    values += [name for name in also if name in there and name not in (*key, *values)]
    position = always_position
    if mode in ("position", "value_and_position"):
        check_added((*key, *values), mode, (POSITION,))
        position = POSITION
    if position is not None:
        # An unwanted column of that name is not read.
        own = [field for field in schema if field.name != position]
        schema = pa.schema([*own, pa.field(position, pa.int64(), nullable=False)])
        values.append(position)
    plan = plan_build(
        schema, key=list(key), columns=values, on_duplicate=on_duplicate, is_lookup_file=True
    )
    if always_position is None:
        return LookupFilePlan(source, plan, position=position)
    return LookupFilePlan(source, plan, NO_ORDER, position)


def check_added(names: Iterable[str], mode: Mode, added: Iterable[str]) -> None:
    """Check that no column that a mode adds is also a wanted column.

    Raises:
        ValueError: If one is.

    >>> check_added(["id"], "position", ["_pos"])
    """
    both = sorted(set(names) & set(added))
    if both:
        raise ValueError(
            f"mode is {mode!r}, which adds a column {both[0]!r}, but the files have one; leave it "
            "out of key= and columns=, or use mode='value'"
        )


def write_lookup_file(
    plan: LookupFilePlan, path: str, room: Room, memory: int, advance: Advance = not_shown
) -> None:
    """Write the lookup file of a columnar file to a path of this host.

    Args:
        plan: Plan of the lookup file.
        path: Path of the new file.
        room: Reservation of the bytes that the file and its spilled rows take.
        memory: Budget for sorting rows, in bytes.
        advance: Function that is told of the rows that are done. A row that is sorted counts half
            when it is read, and half when it is written.

    Raises:
        ValueError: If a key is repeated under the rule `error`.
        DiskQuotaError: If the file does not fit into the quota.
        StaleStoreError: If the source was written again meanwhile, or is gone.
        CorruptionError: If the source is damaged.
    """
    source = plan.source
    _log.info("%s: building a lookup file of %d rows", source.uri, source.num_rows)
    if not _stream(plan, path, room, advance):
        _log.info("%s: not sorted by its key: sorting it", source.uri)

        def half(rows: float) -> None:
            advance(rows / 2)

        try:
            write_sorted(
                plan.build, plan.encoded(half), path, room, memory, source.uri, advance=half
            )
        except RepeatedKeyError as error:
            source.check_unchanged()
            raise plan.repeated_error(error.key) from None
    source.check_unchanged()


def needed_bytes(plan: LookupFilePlan) -> int:
    """Return the approximate minimum size of a lookup file in bytes."""
    width = (plan.build.key_schema.width or 0) + (plan.build.row_schema.width or 0)
    return plan.source.num_rows * width + _SLACK_BYTES


def _stream(plan: LookupFilePlan, path: str, room: Room, advance: Advance) -> bool:
    """Write rows in source order; return whether their keys were in ascending order.

    If they were not, `advance` takes back what it was told.
    """
    writer = _writer(plan.build, path, plan.source.uri, plan.source.num_rows)
    nbytes = _SLACK_BYTES
    told = 0.0

    def tell(rows: float) -> None:
        nonlocal told
        told += rows
        advance(rows)

    try:
        for batch in plan.encoded(tell):
            nbytes += _size(batch)
            room.ensure(nbytes)
            try:
                writer.put_many(batch.column("key"), batch.column("value"))
            except ValueError:  # out of order, or repeated: sorting decides which
                writer.abort()
                advance(-told)
                return False
        writer.close()
    except BaseException:
        writer.abort()
        raise
    return True


def write_sorted(
    build: BuildPlan,
    batches: Iterable[pa.RecordBatch],
    path: str,
    room: Room,
    memory: int,
    source: str,
    *,
    advance: Advance = not_shown,
) -> None:
    """Write a lookup file of rows in any order.

    Args:
        build: Plan that defines the columns and the handling of repeated keys.
        batches: Batches of `key` and `value`, as `build` encodes them.
        path: Path of the new file.
        room: Reservation of the bytes that the file and its spilled rows take.
        memory: Budget for sorting rows, in bytes.
        source: Description of the source of the rows, which the file records.
        advance: Function that is told of the rows that were written.

    Raises:
        RepeatedKeyError: If a key is repeated under the rule `error`.
        DiskQuotaError: If the file does not fit into the quota.
    """
    nbytes = _SLACK_BYTES
    with RunSorter(build.keep, memory=memory, folder=os.path.dirname(path)) as sorter:
        for batch in batches:
            nbytes += 2 * _size(batch)  # in runs, and in the file
            room.ensure(nbytes)
            sorter.add(batch)
        with _writer(build, path, source, sorter.rows_at_most(0)) as writer:
            for batch in sorter.sorted_batches(0):
                writer.put_many(batch.column("key"), batch.column("value"))
                advance(batch.num_rows)


def check_lookup_file(plan: LookupFilePlan, reader: Reader | None, memory: int) -> None:
    """Read a columnar file, and compare its rows with its lookup file.

    Args:
        plan: Plan of the lookup file.
        reader: Reader of the lookup file. None: there is no lookup file, and only the columnar file
            is read.
        memory: Budget for sorting rows, in bytes.

    Raises:
        CorruptionError: If the columnar file is damaged, or the lookup file does not have its rows.
        StaleStoreError: If the columnar file was written again, or is gone.
    """
    try:
        _compare(plan, reader, memory)
    except CorruptionError:
        plan.source.check_unchanged()
        raise
    plan.source.check_unchanged()


def _compare(plan: LookupFilePlan, reader: Reader | None, memory: int) -> None:
    if reader is None:
        for _ in plan.encoded():
            continue
        return
    count = 0
    for batch in _records(plan, memory):
        keys, values = batch.column("key"), batch.column("value").cast(pa.large_binary())
        same = pc.fill_null(pc.equal(reader.lookup(keys), values), False)
        if same.false_count:
            key = keys[pc.index(same, False).as_py()].as_py()
            expected = f"the row of {plan.source.uri} at the key {key.hex()}"
            raise CorruptionError(reader.path, 0, expected, "none, or another one")
        count += batch.num_rows
    if count != len(reader):
        expected = f"{count} records, as {plan.source.uri} has them"
        raise CorruptionError(reader.path, 0, expected, f"{len(reader)} records")


def _records(plan: LookupFilePlan, memory: int) -> Iterator[pa.RecordBatch]:
    """Yield `key` and `value` of the rows in a lookup file, in any order."""
    if plan.build.keep == "error":
        yield from plan.encoded()
        return
    # One row of each repeated key is kept.
    with RunSorter(plan.build.keep, memory=memory, folder=tempfile.gettempdir()) as sorter:
        for batch in plan.encoded():
            sorter.add(batch)
        yield from sorter.sorted_batches(0)


def _writer(build: BuildPlan, path: str, source: str, rows: int) -> Writer:
    return Writer(
        path,
        compression="none",
        expected_entries=rows or None,
        key_schema=build.key_schema.schema,
        value_schema=build.row_schema.schema,
        source=source,
    )


def _size(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes) + _RECORD_BYTES * int(batch.num_rows)
