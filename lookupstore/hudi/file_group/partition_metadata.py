"""The file that marks a folder as a partition of a Hudi table.

Source: org.apache.hudi.common.model.HoodiePartitionMetadata.
"""

from __future__ import annotations

from contextlib import suppress

from lookupstore.hudi.properties import print_properties
from lookupstore.storage.location import Location

_NAME = ".hoodie_partition_metadata"
#: Names of the file; the last two with `hoodie.partition.metafile.use.base.format`.
MARKERS = (_NAME, f"{_NAME}.parquet", f"{_NAME}.orc")


def mark_partition(location: Location, partition: str, time: str) -> None:
    """Write the file of a partition, unless it exists.

    Args:
        location: Location of the table.
        partition: Path of the partition's folder; empty for that of the table.
        time: Request time of the commit that makes the partition.

    >>> import tempfile
    >>> table = Location(tempfile.mkdtemp())
    >>> mark_partition(table, "day=1", "20260307135657661")
    >>> table.read("day=1/.hoodie_partition_metadata").decode().splitlines()[1:]
    ['commitTime=20260307135657661', 'partitionDepth=1']
    """
    name = marker_of(partition)
    if location.size(name) is not None:
        return
    depth = len(partition.split("/")) if partition else 0
    pairs = {"commitTime": time, "partitionDepth": str(depth)}
    with suppress(FileExistsError):  # another writer has written the same
        location.write(name, [print_properties(pairs, ["partition metadata"])])


def is_marked(location: Location, partition: str) -> bool:
    """Return whether the file of a partition exists.

    Args:
        location: Location of the table.
        partition: Path of the partition's folder; empty for that of the table.
    """
    folder = f"{partition}/" if partition else ""
    return any(location.size(f"{folder}{name}") is not None for name in MARKERS)


def marker_of(partition: str) -> str:
    """Return the path of the file of a partition.

    >>> marker_of("day=1")
    'day=1/.hoodie_partition_metadata'
    """
    return f"{partition}/{_NAME}" if partition else _NAME
