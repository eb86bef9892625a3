"""The order in which rows of one key are merged, and which of them are.

Source: `SortMergeReaderWithLoserTree`, `UserDefinedSeqComparator` and `LookupMergeFunction` of
Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys.schema import KeySchema
from lookupstore.source.skipping import StatisticsFilter
from lookupstore.tables.paimon.engine import refused_error
from lookupstore.tables.paimon.functions import Mask, Numbers, ranks
from lookupstore.tables.snapshot import TableFile, which_files

#: Columns of the files of tables with a primary key.
SEQUENCE, KIND = "_SEQUENCE_NUMBER", "_VALUE_KIND"
SYSTEM = pa.schema([(SEQUENCE, pa.int64()), (KIND, pa.int8())])

# Kinds of rows: new rows, old ones, changed ones, deletions.
_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, DELETE = range(4)
# A level above all others.
_NO_LEVEL = np.iinfo(np.int32).max


@dataclass(frozen=True)
class LeveledFile:
    """A data file with its level: 0 if it was not compacted."""

    file: TableFile
    level: int


Section = tuple[LeveledFile, ...]


def files_asked_for(
    section: Section, asked: StatisticsFilter | None
) -> list[tuple[int, LeveledFile]]:
    """Return the files of a section that may have keys which meet a condition, with their numbers.

    Args:
        section: The section.
        asked: The condition, as statistics of the key answer it. None: all keys meet it.
    """
    if asked is None:
        return [*enumerate(section)]
    may_match = which_files([one.file for one in section], asked)
    return [(at, one) for at, one in enumerate(section) if may_match[at]]


@dataclass(frozen=True)
class SequenceOrder:
    """The order of the rows of a key.

    Attributes:
        description: Description of the table.
        keys: Names of the columns of the key.
        sequence: Names of the columns that decide before the sequence number.
        is_descending: Whether the least of their values is the newest. Nulls are the oldest.
        looks_up: Whether a compaction looks up the rows of upper levels. Of each key, only the
            lowest of these levels counts then: it has what the others have.
    """

    description: str
    keys: tuple[str, ...]
    sequence: tuple[str, ...]
    is_descending: bool
    looks_up: bool

    @property
    def identity(self) -> str:
        """Return a text that differs between orders."""
        return repr((self.keys, self.sequence, self.is_descending, self.looks_up))

    def error(self, what: str) -> FormatError:
        """Return the error for rows that are not merged."""
        return refused_error(self.description, what)

    def encoded_keys(self, rows: pa.RecordBatch) -> pa.Array:
        """Return bytes that sort as the keys do."""
        return encoded_columns(rows.select(list(self.keys)))

    def encoded_versions(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return columns whose values decide about the order: bytes, and sequence numbers."""
        found = []
        for name in self.sequence:
            column = rows.column(name)
            encoded = encoded_columns(rows.select([name]))
            none = pa.scalar(None, encoded.type)
            found.append(pc.if_else(column.is_valid(), encoded, none))
        return [*found, rows.column(SEQUENCE)]

    def versions(self, encoded: Sequence[pa.Array]) -> list[Numbers]:
        """Return numbers that are greater for newer rows, the first to compare first.

        Args:
            encoded: Columns as `encoded_versions` returns them.
        """
        *columns, numbers = encoded
        order = "descending" if self.is_descending else "ascending"
        found = [
            np.where(column.is_valid().to_numpy(False), ranks(column, order), 0)
            for column in columns
        ]
        return [*found, numbers.to_numpy()]

    def kept(self, levels: npt.NDArray[np.int32], group: Numbers) -> Mask:
        """Return which rows are merged.

        Args:
            levels: Level of the file of each row.
            group: Number of the key of each row, ascending from 0.
        """
        if not self.looks_up or not len(group):
            return np.ones(len(group), np.bool_)
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        least = np.minimum.reduceat(np.where(levels > 0, levels, _NO_LEVEL), starts)
        found: Mask = (levels <= 0) | (levels == least[group])
        return found

    def check_ties(
        self, versions: Sequence[Numbers], rows: Numbers, group: Numbers, section: Section
    ) -> None:
        """Check that of two rows of a key one is the newer.

        Args:
            versions: The numbers that decide, of all rows.
            rows: Numbers of rows in their order.
            group: Number of the key of each of them.
            section: Files of the rows.

        Raises:
            FormatError: If neither is.
        """
        is_tied = group[1:] == group[:-1]
        for version in versions:
            is_tied &= version[rows[1:]] == version[rows[:-1]]
        if is_tied.any():
            shown = ", ".join(sorted(one.file.address.shown for one in section))
            raise FormatError(
                f"source: the {self.description} has several rows with one key and one sequence "
                f"number, of which none is the newer ({shown}); compact the table, or pass the "
                "rows that Spark reads"
            )


def sorted_rows(keys: pa.Array, versions: Sequence[Numbers]) -> Numbers:
    """Return the numbers of rows in the order of keys and versions."""
    columns = {"key": keys, **{f"v{at}": pa.array(one) for at, one in enumerate(versions)}}
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    found: Numbers = order.to_numpy().astype(np.int64)
    return found


def key_numbers(keys: pa.Array) -> Numbers:
    """Return the number of the key of each row, from 0; rows of one key are adjacent."""
    found = np.concatenate([[0], np.cumsum(differs(keys))])
    return found.astype(np.int64)


def counts(kinds: npt.NDArray[np.int8]) -> Mask:
    """Return whether rows of some kinds add values, or are rows of the table if they are alone."""
    found: Mask = (kinds == _INSERT) | (kinds == _UPDATE_AFTER)
    return found


def check_system(batch: pa.RecordBatch, file: TableFile) -> None:
    """Check the sequence numbers and kinds of rows.

    Raises:
        CorruptionError: If one is missing, or unknown.
    """
    for name in SYSTEM.names:
        if batch.column(name).null_count:
            raise CorruptionError(file.address.shown, 0, f"a value of {name} in each row", "null")
    kinds = pc.min_max(batch.column(KIND)).as_py()
    if batch.num_rows and (kinds["min"] < _INSERT or kinds["max"] > DELETE):
        raise CorruptionError(file.address.shown, 0, f"0 to 3 as {KIND}", kinds)


def encoded_columns(rows: pa.RecordBatch) -> pa.Array:
    """Return bytes that sort as the rows do, nulls first."""
    columns = pa.schema([field.with_nullable(True) for field in rows.schema])
    return KeySchema(columns, columns.names).encode(rows.columns).cast(pa.large_binary())


def joined(arrays: Iterable[pa.Array]) -> pa.Array:
    """Return arrays as one."""
    return pa.concat_arrays(list(arrays))


def differs(values: pa.Array) -> Mask:
    """Return whether each value but the last differs from the next one."""
    found: Mask = pc.not_equal(values[:-1], values[1:]).to_numpy(False)
    return found
