"""The data files of a build: how they are written, and what the manifest says of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from lookupstore.builder.plan import BuildPlan
from lookupstore.sst import Writer
from lookupstore.storage.local import file_hash
from lookupstore.storage.location import Location
from lookupstore.store.manifest import DATA_FOLDER, WRITER, DataFile, Manifest
from lookupstore.store.statistics import RowStatistics


@dataclass(frozen=True)
class FileOptions:
    """How the data files of a store are written; see `lookupstore.sst.Writer`."""

    compression: str = "none"
    level: int | None = None
    block_size: int = 65536
    bloom_fpp: float = 0.05


def file_options(
    location: Location,
    compression: str | None = None,
    level: int | None = None,
    block_size: int = FileOptions.block_size,
    bloom_fpp: float = FileOptions.bloom_fpp,
) -> FileOptions:
    """Return how the data files of a store are written, wherever it is built from.

    Args:
        location: of the store; without `compression` files are plain where they are looked up in
            place, a local folder, and zstd where they travel.
        compression: one of `lookupstore.sst.codec.COMPRESSIONS`; None chooses by the location.
        level: level of the compression; None is its default.
        block_size: size of a block before compression, in bytes.
        bloom_fpp: false positive rate of the filter; 0 writes none.

    >>> file_options(Location("users")).compression
    'none'
    """
    if compression is None:
        compression = location.default_compression
    return FileOptions(compression, level, block_size, bloom_fpp)


def write_bucket(
    folder: str,
    name: str,
    bucket: int,
    batches: Iterable[pa.RecordBatch],
    *,
    plan: BuildPlan,
    options: FileOptions,
    rows_at_most: int | None = None,
    advance: Callable[[int], object] | None = None,
    threads: int = 1,
) -> DataFile | None:
    """Stream the sorted rows of one bucket into a data file and describe it for the manifest.

    The bytes follow from rows, schemas and options alone, so that equal buckets are equal files:
    what the store is built from, and when, is in the manifest.

    Args:
        folder: local folder; its data folder exists.
        name: file name without extension; it has to be new.
        bucket: number of the bucket.
        batches: `key` and `value` columns, keys strictly ascending over all batches.
        plan: gives the schemas that the file records.
        options: how the file is written.
        rows_at_most: makes the filter for that many; without it, it takes memory by the row.
        advance: told the number of rows after each batch.
        threads: how many compress and write, the caller's among them.

    Returns:
        The manifest's entry, or None if there are no rows: an empty bucket has no file.

    Raises:
        FileExistsError: the file is there already.
        ValueError: keys out of order.
    """
    rows = (batch for batch in batches if batch.num_rows)
    batch = next(rows, None)
    if batch is None:
        return None
    relative = f"{DATA_FOLDER}/{name}.sst"
    path = os.path.join(folder, DATA_FOLDER, f"{name}.sst")
    statistics = RowStatistics()
    with Writer(
        path,
        key_schema=plan.key_schema.schema,
        value_schema=plan.row_schema.schema,
        expected_entries=rows_at_most,
        threads=threads,
        **asdict(options),
    ) as writer:
        while batch is not None:
            writer.put_many(batch.column("key"), batch.column("value"))
            statistics.add(batch)
            if advance is not None:
                advance(batch.num_rows)
            batch = next(rows, None)
    return DataFile(
        name=relative,
        bucket=bucket,
        bytes=os.path.getsize(path),
        xxh64=file_hash(path),
        **statistics.fields(),
    )


def new_manifest(
    plan: BuildPlan,
    files: Iterable[DataFile | None],
    *,
    store_id: str,
    buckets: int,
    options: FileOptions,
    source: str,
    source_fingerprint: str | None = None,
) -> Manifest:
    """Return the manifest of data files, in any order; None stands for an empty bucket.

    Version and time are those of its publication, which comes later. Files that do not begin with
    `store_id` are those of an older version.
    """
    present = tuple(sorted((file for file in files if file is not None), key=lambda f: f.bucket))
    return Manifest(
        version=0,
        id=store_id,
        created="",
        writer=WRITER,
        key_schema=plan.key_schema,
        row_schema=plan.row_schema,
        buckets=buckets,
        num_rows=sum(file.num_records for file in present),
        source=source,
        source_fingerprint=source_fingerprint,
        options=_recorded(plan, options),
        rewritten_buckets=sum(
            file.name.startswith(f"{DATA_FOLDER}/{store_id}-") for file in present
        ),
        files=present,
    )


def files_to_keep(
    current: Manifest | None, plan: BuildPlan, options: FileOptions, buckets: int
) -> Mapping[int, DataFile]:
    """Return by bucket the files of the current version that a new one may go on using.

    Those are all, or none if the versions differ in more than rows.
    """
    if (
        current is None
        or current.key_schema != plan.key_schema
        or current.row_schema != plan.row_schema
        or current.buckets != buckets
        or current.options != _recorded(plan, options)
    ):
        return {}
    return {file.bucket: file for file in current.files}


def _recorded(plan: BuildPlan, options: FileOptions) -> dict[str, Any]:
    return {"on_duplicate": plan.on_duplicate, **asdict(options)}


def check_file_options(folder: str, store_id: str, options: FileOptions, threads: int) -> None:
    """Check options with a file that is not kept, before hours of reading.

    Raises:
        ValueError: an option out of range, or a codec that there is not.
    """
    path = os.path.join(folder, DATA_FOLDER, f"{store_id}-options.sst")
    Writer(path, threads=threads, **asdict(options)).abort()
