"""Write the data file of a bucket, a base or a run, and say what the manifest has of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Protocol

import pyarrow as pa

from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sst import Writer
from lookupstore.sst.codec import PLAIN_BLOCK
from lookupstore.store.manifest import DATA_FOLDER, DataFile, Manifest
from lookupstore.store.statistics import RowStatistics


class Schemas(Protocol):
    """What has the schemas of a store, such as a manifest or the plan of a build."""

    @property
    def key_schema(self) -> KeySchema:
        """The key columns."""

    @property
    def row_schema(self) -> RowSchema:
        """The value columns."""


@dataclass(frozen=True)
class FileOptions:
    """How the data files of a store are written; see `lookupstore.sst.Writer`."""

    compression: str = "none"
    level: int | None = None
    block_size: int = PLAIN_BLOCK
    bloom_fpp: float = 0.05


def options_of(manifest: Manifest) -> FileOptions:
    """Return how the data files of a version were written."""
    names = {field.name for field in fields(FileOptions)}
    return FileOptions(**{name: one for name, one in manifest.options.items() if name in names})


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
    """Stream the sorted rows of one bucket into a data file and describe it for the manifest.

    The bytes follow from rows, schemas and options alone, so that equal buckets are equal files:
    what the store is built from, and when, is in the manifest.

    Args:
        folder: local folder; its data folder exists.
        name: file name without extension; it has to be new.
        bucket: number of the bucket.
        batches: `key` and `value` columns, keys strictly ascending over all batches.
        schemas: those that the file records.
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
