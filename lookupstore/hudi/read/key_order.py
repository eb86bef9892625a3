"""Scans of a table in the order of its keys.

Base files are in the order of record keys, which are texts: "10" comes before "9". Therefore a scan
sorts all rows once, into a file on this host. The file is kept under the quota of the host's cache,
like lookup files, and later scans of the same rows and columns use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import xxhash

from lookupstore._version import __version__
from lookupstore.builder.plan import BuildPlan, plan_build
from lookupstore.columnar.lookup_file import write_sorted
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.folder import with_room
from lookupstore.hostcache.lookup_files import Room
from lookupstore.hudi.read.lookup_plan import LookupPlan
from lookupstore.hudi.read.scan_plan import ScanPlan
from lookupstore.sst import Reader

_MEMORY = 128 << 20
# Estimated ratio of the size of rows to their compressed size in base files.
_GROWTH = 2


def scan_by_key(
    plan: LookupPlan,
    identity: str,
    residency: Residency,
    names: Sequence[str],
    *,
    start: bytes | None,
    stop: bytes | None,
    reverse: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of encoded keys: the key columns, then value columns.

    Args:
        plan: Plan with the files and columns.
        identity: Id of these rows and columns, part of the name of the sorted file.
        residency: Cache of sorted files on this host.
        names: Names of the value columns to read.
        start: First key to return. None: the first key of the table.
        stop: Key to stop before. None: the end of the table.
        reverse: Whether to return rows from the greatest key to the least.

    Raises:
        RepeatedKeyError: If a key is in two rows.
        CorruptionError: If a base file or the sorted file is damaged.
        StaleStoreError: If a base file was deleted.
        DiskQuotaError: If the sorted file does not fit into the quota.
    """
    if not plan.files:
        return
    columns = pa.schema([*plan.key.schema, *plan.values])
    build = plan_build(columns, key=plan.key.names, columns=plan.values.names)
    name = xxhash.xxh3_128_hexdigest(f"key order {__version__} {identity}".encode())
    needed = _GROWTH * sum(file.bytes for file in plan.files)
    files = residency.lookup_files
    schema = pa.schema([*plan.key.schema, *(plan.values.field(one) for one in names)])

    def write(path: str, room: Room) -> None:
        write_sorted(build, _encoded(plan, build), path, room, _MEMORY, plan.location.uri)

    with (
        with_room(lambda: files.make(name, needed, write)) as pinned,
        Reader(pinned.path) as reader,
    ):
        try:
            for batch in reader.scan(start=start, stop=stop, reverse=reverse):
                keys = build.key_schema.decode(batch.column("key"))
                values = build.row_schema.unpack(batch.column("value"), names)
                yield pa.RecordBatch.from_arrays([*keys.columns, *values.columns], schema=schema)
        except (CorruptionError, FormatError):
            files.discard(name)  # the next scan makes the file again
            raise


def key_and_values(plan: LookupPlan) -> Iterator[pa.RecordBatch]:
    """Yield all rows that can be found and whose key has no nulls, in the order of the files.

    They have the key columns and then the value columns. Errors are those of `ScanPlan.batches`.
    """
    columns = (*plan.key.names, *plan.values.names)
    where = None if plan.filter is None else plan.filter.condition.expression
    rows = ScanPlan(plan.location, plan.options, plan.schema, columns, plan.files, where)
    for batch in rows.batches():
        for name in plan.key.names:
            if batch.column(name).null_count:
                batch = batch.filter(batch.column(name).is_valid())
        yield batch


def _encoded(plan: LookupPlan, build: BuildPlan) -> Iterator[pa.RecordBatch]:
    """Yield `key` and `value` of the same rows."""
    for batch in key_and_values(plan):
        yield build.encode(batch, None)
