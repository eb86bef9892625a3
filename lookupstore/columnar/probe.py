"""Find a few keys in a Parquet file without a lookup file, by reading row groups.

The statistics of a row group contain the range of its keys, and a Bloom filter, if its writer made
one, excludes keys. Only row groups that may contain a key are read, and their keys are compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import take_rows
from lookupstore.arrow.texts import check_texts
from lookupstore.arrow.types import is_text, plain_type
from lookupstore.columnar.key_ranges import Range, column_number, column_paths, range_of
from lookupstore.columnar.lookup_file import LookupFilePlan
from lookupstore.columnar.parquet_filter import none_of, read_filter
from lookupstore.columnar.pieces_ahead import PiecesAhead
from lookupstore.errors import CorruptionError
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.claims import SMALL, look_at_claims
from lookupstore.sorting.runs import RepeatedKeyError, RunSorter
from lookupstore.sst._filter import Filter

_BATCH_ROWS = 1 << 16
# Most bytes of a file of an object store that are in memory at once, and of a file that is read
# whole: one request with so many bytes takes less time than two.
_MOST_AHEAD = 16 << 20
_MOST_WHOLE = 4 << 20
# Memory for found rows in bytes: usually there are few, and others are spilled.
_MEMORY = 16 << 20


class ParquetProbe:
    """Lookups in the row groups of a Parquet file.

    Args:
        plan: Plan that names the columns of key and values. The key must be stored in the file.
        most_is_read: Whether most of the file is probably read. Then one request of an object store
            returns all of it, unless it is large.

    Raises:
        StaleStoreError: If the file was written again, or is gone.
        CorruptionError: If its footer is damaged.
    """

    def __init__(self, plan: LookupFilePlan, most_is_read: bool = False) -> None:
        self._plan = plan
        self._file = plan.source.open()
        source = plan.source
        #: Whether the object has all of a file in memory that is not small.
        self.is_whole: bool = (
            most_is_read and source.address.is_remote and SMALL < source.nbytes <= _MOST_WHOLE
        )
        with source.reading():
            if self.is_whole:
                with self._file as file:
                    self._file = pa.BufferReader(file.read_at(source.nbytes, 0))
            metadata = source.metadata_in(self._file)
            there = source.schema_in(self._file, metadata)
            self._rows = source.columns_in(there)
            stored = self._rows.names_in_file(plan.columns)
            file, self._claims = look_at_claims(self._file, stored, source.uri)
            self._ahead: PiecesAhead | None = None
            if source.address.is_remote and file is self._file and not self.is_whole:
                self._ahead = PiecesAhead(file, source.address)
                file = pa.PythonFile(self._ahead, mode="r")
            self._parquet = ParquetRows(file, source.uri, metadata=metadata)
        self._metadata = self._parquet.metadata
        paths = column_paths(self._metadata)
        names = set(stored)
        self._columns = [i for i, path in enumerate(paths) if path.partition(".")[0] in names]
        key = plan.build.key_schema
        keys = self._rows.names_in_file(key.names)
        # A file without a column of the key has no keys.
        self._has_keys = len(keys) == len(key.names)
        # Number of the first key column, if its statistics in row groups can be used.
        self._column: int | None = None
        self._has_same_type = False
        if self._has_keys:
            first, stored_first = key.schema.field(0), there.field(keys[0])
            self._has_same_type = _are_alike(first.type, stored_first.type)
            if column_number(paths, first.with_name(keys[0])) is not None:
                self._column = column_number(paths, stored_first)
        # Costs, ranges and filters of row groups that were examined.
        self._costs: dict[int, int] = {}
        self._ranges: dict[int, Range | None] = {}
        self._filters: dict[int, Filter | None] = {}

    @property
    def groups(self) -> range:
        """Return the numbers of all row groups."""
        return range(self._metadata.num_row_groups)

    def cost(self, groups: Sequence[int]) -> int:
        """Return the stored bytes of the columns that the plan reads, in some row groups."""
        for number in groups:
            if number not in self._costs:
                group = self._metadata.row_group(number)
                sizes = (group.column(i).total_compressed_size for i in self._columns)
                self._costs[number] = sum(sizes)
        return sum(self._costs[number] for number in groups)

    def candidates(self, encoded: pa.Array) -> list[int]:
        """Return the row groups that may hold one of some keys.

        Args:
            encoded: Keys as bytes, as the plan encodes them. A null is in no row group.
        """
        distinct = encoded.drop_null().unique()
        if not len(distinct) or not self._has_keys:
            return []
        if self._column is None:
            return list(self.groups)
        key = self._plan.build.key_schema
        wanted = key.decode(distinct).column(0)
        values = _comparable(wanted)
        ends = pc.min_max(values).as_py()
        least, greatest = ends["min"], ends["max"]
        groups = [
            number for number in self.groups if self._in_statistics(number, values, least, greatest)
        ]
        if len(key.names) == 1 and self._has_same_type:
            groups = [number for number in groups if not self._filtered_out(number, wanted)]
        return groups

    def lookup(
        self, encoded: pa.Array, groups: Sequence[int], is_likely: bool = False
    ) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Return which keys are in some row groups, and their packed rows.

        Args:
            encoded: Keys as bytes. A null is never found.
            groups: Numbers of the row groups.
            is_likely: Whether a key is probably found. Then an object store is asked for all
                columns at once, otherwise first for the key columns.

        Returns:
            Positions in `encoded` of the found keys, ascending, and the packed row of each, as in a
            lookup file.

        Raises:
            CorruptionError: If pages are damaged.
            StaleStoreError: If the file was written again, or is gone.
            ValueError: If a key is repeated under the rule `error`.
        """
        distinct = encoded.drop_null().unique()
        with RunSorter(self._plan.build.keep, memory=_MEMORY, folder=_scratch()) as sorter:
            try:
                key, every = self._plan.build.key_schema.names, self._plan.columns
                self._read_ahead(groups, every if is_likely else key)
                hits = {number: self._hits(number, distinct) for number in groups}
                groups = [number for number in groups if any(map(len, hits[number]))]
                self._read_ahead(groups, every)
                for number in groups:
                    for found in self._matches(number, hits[number]):
                        sorter.add(found)
                self._read_ahead((), ())
                batches = list(sorter.sorted_batches(0))
            except RepeatedKeyError as error:
                self._plan.source.check_ending()
                raise self._plan.repeated_error(error.key) from None
        # If the object was replaced, an object store returns the new bytes to readers of the old
        # one.
        self._plan.source.check_ending()
        if not batches:
            return np.zeros(0, dtype=np.int64), pa.array([], pa.large_binary())
        keys = pa.concat_arrays([batch.column("key") for batch in batches])
        places = pc.index_in(encoded, value_set=keys, skip_nulls=True)
        present = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        rows = pa.concat_arrays([batch.column("value") for batch in batches])
        return present, rows.cast(pa.large_binary()).take(places.take(pa.array(present)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _in_statistics(self, number: int, values: pa.Array, first: Any, last: Any) -> bool:
        """Return whether a row group may have one of some values, by its statistics.

        Args:
            number: Number of the row group.
            values: Integers or bytes, in the form of the statistics.
            first: Least of the values.
            last: Greatest of the values.
        """
        if number not in self._ranges:
            column = self._metadata.row_group(number).column(self._column)
            self._ranges[number] = range_of(column.statistics)
        known = self._ranges[number]
        if known is None:
            return True
        least: Any
        greatest: Any
        least, greatest = known
        if last < least or first > greatest:
            return False
        if first >= least or last <= greatest:
            return True
        inside = pc.and_(
            pc.greater_equal(values, pa.scalar(least, values.type)),
            pc.less_equal(values, pa.scalar(greatest, values.type)),
        )
        return bool(pc.any(inside).as_py())

    def _filtered_out(self, number: int, wanted: pa.Array) -> bool:
        column = self._metadata.row_group(number).column(self._column)
        if number not in self._filters:
            # pyarrow before 22 does not return the offsets of filters.
            offset = getattr(column, "bloom_filter_offset", None)
            size = getattr(column, "bloom_filter_length", None)
            self._filters[number] = (
                None
                if offset is None
                else read_filter(self._file, offset, size, self._plan.source.nbytes)
            )
        bloom = self._filters[number]
        return bloom is not None and none_of(bloom, wanted, column.physical_type)

    def _read_ahead(self, groups: Sequence[int], names: Sequence[str]) -> None:
        """Fetch columns of some row groups from an object store together, unless they are large.

        Args:
            groups: Numbers of the row groups.
            names: Names of the columns.
        """
        if self._ahead is None:
            return
        stored = self._rows.names_in_file(names)
        ranges = []
        for number in groups:
            group = self._metadata.row_group(number)
            for one in self._columns:
                column = group.column(one)
                if column.path_in_schema.partition(".")[0] in stored:
                    start = column.dictionary_page_offset or column.data_page_offset
                    start = min(start, column.data_page_offset)
                    ranges.append((start, column.total_compressed_size))
        if sum(size for _, size in ranges) > _MOST_AHEAD:
            ranges = []
        with self._plan.source.reading(stored, groups):
            self._ahead.fetch(ranges)

    def _hits(self, number: int, distinct: pa.Array) -> list[npt.NDArray[np.int64]]:
        """Return the rows of each batch of a row group that have one of some keys."""
        key = self._plan.build.key_schema
        hits = []
        for batch in self._batches(number, key.names):
            encoded, _ = key.encode_masked(batch)
            hit = pc.index_in(encoded, value_set=distinct, skip_nulls=True).is_valid()
            hits.append(np.flatnonzero(hit.to_numpy(zero_copy_only=False)))
        return hits

    def _matches(
        self, number: int, hits: Sequence[npt.NDArray[np.int64]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield `key` and `value` of some rows of a row group.

        Args:
            number: Number of the row group.
            hits: The rows of each batch.
        """
        plan = self._plan
        row = sum(self._metadata.row_group(i).num_rows for i in range(number))
        for hit, batch in zip(hits, self._batches(number, plan.columns), strict=True):
            if len(hit):
                rows = take_rows(batch, pa.array(hit))
                check_texts(rows, plan.source.uri, None)
                found = plan.encode(rows, row + hit)
                kept = plan.kept(partial(found.column, 0), found.column(1).cast(pa.large_binary()))
                yield found if kept is None else found.filter(kept)
            row += batch.num_rows

    def _batches(self, number: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        source = self._plan.source
        stored = self._rows.names_in_file(names)
        rows = 0
        with source.reading(stored, [number]):
            most = self._claims.rows_at_once(_BATCH_ROWS)
            for batch in self._parquet.batches(stored, [[number]], most):
                rows += batch.num_rows
                yield self._rows.in_table(batch, names, batch.num_rows)
        expected = self._metadata.row_group(number).num_rows
        if rows != expected:
            raise CorruptionError(source.uri, 0, f"{expected} rows in row group {number}", rows)


def _scratch() -> str:
    """Return the folder for rows that do not fit into memory, which may not exist."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:  # a container may have none, and few keys need none
        return "/tmp"


def _are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types are stored alike."""
    plain = plain_type(one), plain_type(other)
    return plain[0] == plain[1] or all(map(is_text, plain))


def _comparable(wanted: pa.Array) -> pa.Array:
    """Return values of a key column in the form of statistics: int64, or bytes."""
    if is_text(wanted.type):
        return wanted.cast(pa.large_binary())  # bounds may be truncated, even inside a character
    return (wanted.cast(pa.int32()) if pa.types.is_date32(wanted.type) else wanted).cast(pa.int64())
