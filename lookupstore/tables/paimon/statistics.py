"""The statistics of data files in the manifests of a Paimon table.

Source: "Manifest" (`_KEY_STATS`, `_VALUE_STATS`, `_VALUE_STATS_COLS`) in the specification of
Paimon; `SimpleStats` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import is_text
from lookupstore.parquet.column_statistics import ColumnStatistics
from lookupstore.tables.paimon.binary_row import values_of
from lookupstore.tables.paimon.metadata import PaimonFile
from lookupstore.tables.snapshot import RecordedStatistics


@dataclass(frozen=True)
class ColumnsOfStatistics:
    """The columns of statistics of files with one schema.

    Attributes:
        columns: Columns of the schema.
        names: Names of those columns of the table that have the same type in the schema, each with
            its name there.
        first_key: Name of the first column of keys in the table. None: the table has no keys.
    """

    columns: pa.Schema
    names: Mapping[str, str]
    first_key: str | None


@dataclass(frozen=True)
class FileInManifest:
    """The statistics of one data file.

    Attributes:
        file: The file, as the manifest has it.
        known: Columns of its statistics.
        ends: Least and greatest value of the first column of keys. None: the table has no keys.
    """

    file: PaimonFile
    known: ColumnsOfStatistics
    ends: tuple[pa.Scalar, pa.Scalar] | None

    def of(self, name: str) -> ColumnStatistics | None:
        """Return the statistics of a column of the table; see `RecordedStatistics`."""
        if self.ends is not None and name == self.known.first_key:
            return ColumnStatistics(*self.ends, 0, 0)
        there = self.known.names.get(name)
        return None if there is None else self._values.get(there)

    @cached_property
    def _values(self) -> dict[str, ColumnStatistics]:
        """Return the statistics of columns of the file, by their names in it."""
        said = self.file.values
        if said is None:
            return {}
        schema = self.known.columns
        names: Sequence[str] = schema.names if said.names is None else said.names
        if not set(names) <= {*schema.names} or len(said.nulls) != len(names):
            return {}
        kinds = [schema.field(name).type for name in names]
        try:
            ends = [values_of(row, kinds) for row in (said.least, said.greatest)]
        except (ValueError, OverflowError, pa.ArrowException):  # of other columns
            return {}
        return {
            name: ColumnStatistics(
                least if least.is_valid else None,
                greatest if greatest.is_valid else None,
                nulls,
                0,
            )
            for name, kind, least, greatest, nulls in zip(
                names, kinds, *ends, said.nulls, strict=True
            )
            if _has_order(kind)
        }


@dataclass(frozen=True)
class KeysOfFiles:
    """The statistics of rows that are made of those of several files: only their keys are known.

    Attributes:
        files: Statistics of the files.
        first_key: Name of the first column of keys.
    """

    files: Sequence[RecordedStatistics]
    first_key: str

    def of(self, name: str) -> ColumnStatistics | None:
        """Return the statistics of a column of the table; see `RecordedStatistics`."""
        known = [one.of(name) for one in self.files] if name == self.first_key else [None]
        ends = [(one.least, one.greatest) for one in known if one is not None]
        if len(ends) < len(known):
            return None
        least, greatest = (pc.min_max(pa.array(one)) for one in zip(*ends, strict=True))
        return ColumnStatistics(least["min"], greatest["max"], 0, 0)


def _has_order(kind: pa.DataType) -> bool:
    """Return whether bounds of a type are used."""
    types = pa.types
    return (
        is_text(kind)
        or types.is_signed_integer(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_decimal(kind)
    )
