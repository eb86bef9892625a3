"""Write the data file of a bucket, a base or a run, and describe it for the manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Protocol

import pyarrow as pa

from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sst import Writer
from lookupstore.sst.codec import FALSE_POSITIVES, PLAIN_BLOCK
from lookupstore.sst.estimates import tail_size
from lookupstore.store.manifest import DATA_FOLDER, DataFile, Manifest
from lookupstore.store.statistics import RowStatistics


class Schemas(Protocol):
    """An object with the schemas of a store, such as a manifest or the plan of a build."""

    @property
    def key_schema(self) -> KeySchema:
        """The key columns."""

    @property
    def row_schema(self) -> RowSchema:
        """The value columns."""


@dataclass(frozen=True)
class FileOptions:
    """Options with which the data files of a store are written; see `lookupstore.sst.Writer`."""

    compression: str = "none"
    level: int | None = None
    block_size: int = PLAIN_BLOCK
    bloom_fpp: float = FALSE_POSITIVES


def options_of(manifest: Manifest) -> FileOptions:
    """Return the options with which the data files of a version were written."""
    names = {field.name for field in fields(FileOptions)}
    return FileOptions(**{name: one for name, one in manifest.options.items() if name in names})


def tail_of(file: DataFile, manifest: Manifest) -> int:
    """Return the approximate size of a file after its blocks, in bytes; 0: unknown."""
    options = options_of(manifest)
    try:
        return tail_size(
            file.bytes,
            file.num_records,
            block_size=options.block_size,
            bloom_fpp=options.bloom_fpp,
            key_bytes=len(file.max_key) // 2,
        )
    except (ArithmeticError, TypeError):  # options that builds do not write
        return 0


def write_bucket(
    folder: str,
    name: str,
    bucket: int,
    batches: Iterable[pa.RecordBatch],
    *,
    schemas: Schemas,
    options: FileOptions,
    rows_at_most: int | None = None,
    advance: Callable[[int], object] | None = None,
    threads: int = 1,
) -> DataFile | None:
    """Write the sorted rows of one bucket to a data file, and describe the file.

    The bytes depend only on rows, schemas and options, so that equal buckets are equal files; the
    source and the time of a build are recorded in the manifest.

    Args:
        folder: Local folder, which has a data folder.
        name: New name of the file, without extension.
        bucket: Number of the bucket.
        batches: Batches with columns `key` and `value`; keys ascend strictly over all batches.
        schemas: Manifest or plan with the schemas that the file records.
        options: Compression, level, block size and filter rate of the file.
        rows_at_most: Number of keys that the filter is made for. Default: the number of rows, which
            takes memory for each row.
        advance: Function that is called with the number of rows after each batch.
        threads: Number of threads that compress and write, including the caller's.

    Returns:
        Manifest entry of the file. None: there are no rows, and an empty bucket has no file.

    Raises:
        FileExistsError: The file exists already.
        ValueError: If keys are out of order.
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
        key_schema=schemas.key_schema.schema,
        value_schema=schemas.row_schema.schema,
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
        xxh64=writer.xxh64,
        **statistics.fields(),
    )
