"""The rows of a table in the order of their keys, which base files do not have.

A base file is in the order of record keys, which are texts: "10" comes before "9". So a scan sorts
all rows once, into a file of this host that is kept under the quota of its cache, as lookup files
are; scans of the same rows and columns use it from then on.
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
from lookupstore.hudi.file_group.scan import BaseFiles
from lookupstore.hudi.read.lookup_plan import LookupPlan
from lookupstore.sst import Reader

_MEMORY = 128 << 20
# Rows in base files are compressed: what they take otherwise, about.
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
        plan: says which rows and columns there are.
        identity: tells the same.
        residency: where files of this host are.
        names: value columns to read.
        start: first key wanted; None is the beginning.
        stop: stop before this key; None is the end.
        reverse: from the greatest key to the least.

    Raises:
        RepeatedKeyError: a key is in two rows.
        CorruptionError: a base file, or the sorted file, is damaged.
        StaleStoreError: a base file is gone.
        DiskQuotaError: the sorted file does not fit into the quota.
    """
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
            files.discard(name)  # the next scan makes it again
            raise


def _encoded(plan: LookupPlan, build: BuildPlan) -> Iterator[pa.RecordBatch]:
    """Yield `key` and `value` of all rows that have a key without nulls."""
    fields = [field.with_nullable(True) for field in (*plan.key.schema, *plan.values)]
    schema = pa.schema(fields)
    files = BaseFiles(plan.location, [file.path for file in plan.files], schema)
    for batch in files.batches(schema.names, threads=False):
        for name in plan.key.names:
            if batch.column(name).null_count:
                batch = batch.filter(batch.column(name).is_valid())
        yield build.encode(batch, None)
