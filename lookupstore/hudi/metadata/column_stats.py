"""Statistics of columns from the `column_stats` partition of a metadata table.

A key begins with a hash of the column's name, so that records of other columns are not decoded.
Base files never change, and their names are not used again: a record is valid as long as its file
exists.

Source: HoodieMetadataPayload.createColumnStatsRecords, HashID and ColumnIndexID of Apache Hudi.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import xxhash

from lookupstore.errors import CorruptionError
from lookupstore.hudi.metadata.group_files import GroupFiles, HFileRecords, group_files
from lookupstore.hudi.options import COLUMN_STATS
from lookupstore.hudi.timeline.avro_file import stored_record_decoder
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.storage.location import Location

_RECORD, _FIELD, _TYPE = "HoodieMetadataRecord", "ColumnStatsMetadata", 3
# Seed of Java's hash, an int, as the long to which it is converted.
_SEED = 0xFFFFFFFF_DABADABA
# Number of file groups that are read at a time.
_THREADS = 16


class FileColumn(NamedTuple):
    """Statistics of a column of a file.

    Attributes:
        least: Least value, or a bound below it. None: unknown, or all values are null.
        greatest: Greatest value, or a bound above it. None: unknown, or all values are null.
        values: Number of values, including nulls.
        nulls: Number of nulls.
    """

    least: Any
    greatest: Any
    values: int
    nulls: int


def read_column_stats(
    location: Location, pending: Collection[str], folder: TimelineFolder, columns: Collection[str]
) -> dict[tuple[str, str], FileColumn]:
    """Return statistics of columns, by the name of the file and of the column.

    Args:
        location: Location of the table.
        pending: Request times of pending instants, read before the metadata table's timeline.
        folder: Folder of the metadata table's timeline.
        columns: Names of the columns.

    Raises:
        CorruptionError: If a file is damaged or missing.
        FormatError: If Hudi does not write a file or log block of this kind.
        OSError: If a file cannot be read.
    """
    hashes = frozenset(map(column_hash, columns))

    def of_group(group: GroupFiles) -> dict[tuple[str, str], FileColumn]:
        found: dict[tuple[str, str], FileColumn] = {}
        for records in group.records(location):
            for key, one in _file_columns(records, hashes):
                if one is None:
                    found.pop(key, None)
                elif key[1] in columns:
                    found[key] = one
        return found

    groups = group_files(location, pending, folder, COLUMN_STATS)
    everything: dict[tuple[str, str], FileColumn] = {}
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lookupstore-column-stats") as pool:
        for found in pool.map(of_group, groups):
            everything |= found
    return everything


def column_hash(name: str) -> bytes:
    """Return the prefix of the keys of a column.

    >>> column_hash("txn_id")
    b'RXObmOuurgM='
    """
    return base64.b64encode(xxhash.xxh64(name.encode(), seed=_SEED).digest())


def _file_columns(
    records: HFileRecords, hashes: Collection[bytes]
) -> Iterator[tuple[tuple[str, str], FileColumn | None]]:
    """Yield statistics of some columns, by file and column; None for deleted ones."""
    file, schema, path, at_schema = records
    decode = stored_record_decoder(schema, path, at_schema, _RECORD)
    size = len(column_hash(""))
    for entry in file.entries:
        if entry.key[:size] not in hashes:
            continue
        record = decode(entry.value, entry.at)
        said = record.get(_FIELD)
        if record.get("type") != _TYPE or not isinstance(said, dict):
            raise CorruptionError(path, entry.at, f"a record of type {_TYPE}", record.get("type"))
        name, column = said.get("fileName"), said.get("columnName")
        if not isinstance(name, str) or not isinstance(column, str):
            raise CorruptionError(path, entry.at, "the names of a file and a column", name)
        yield (name, column), None if said.get("isDeleted") else _file_column(said, path, entry.at)


def _file_column(said: Mapping[str, Any], path: str, at: int) -> FileColumn:
    values, nulls = said.get("valueCount"), said.get("nullCount")
    if not isinstance(values, int) or not isinstance(nulls, int) or not 0 <= nulls <= values:
        raise CorruptionError(path, at, "numbers of values and of nulls", f"{values} and {nulls}")
    least, greatest = (_value(said.get(field)) for field in ("minValue", "maxValue"))
    return FileColumn(least, greatest, values, nulls)


def _value(wrapper: Any) -> Any:
    """Return a bound without the record around it, which names its Avro type."""
    return wrapper.get("value") if isinstance(wrapper, dict) else None
