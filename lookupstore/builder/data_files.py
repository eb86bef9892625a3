"""The options of a build's data files, and what the manifest says of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from lookupstore.builder.plan import BuildPlan
from lookupstore.quantities import Size, bytes_of
from lookupstore.sst import Writer
from lookupstore.sst.codec import usual_block_size
from lookupstore.storage.location import Location
from lookupstore.store.data_files import FileOptions
from lookupstore.store.manifest import DATA_FOLDER, WRITER, DataFile, Manifest


def file_options(
    location: Location,
    compression: str | None = None,
    level: int | None = None,
    block_size: Size | None = None,
    bloom_fpp: float = FileOptions.bloom_fpp,
) -> FileOptions:
    """Return how the data files of a store are written, wherever it is built from.

    Args:
        location: of the store; without `compression` files are plain where they are looked up in
            place, a local folder, and zstd where they travel.
        compression: one of `lookupstore.sst.codec.COMPRESSIONS`; None chooses by the location.
        level: level of the compression; None is its default.
        block_size: size of a block before compression; None is
            `lookupstore.sst.codec.usual_block_size`.
        bloom_fpp: false positive rate of the filter; 0 writes none.

    >>> options = file_options(Location("users"))
    >>> options.compression, options.block_size
    ('none', 8192)
    """
    if compression is None:
        compression = location.default_compression
    if block_size is None:
        block_size = usual_block_size(compression)
    return FileOptions(compression, level, bytes_of(block_size, "block_size"), bloom_fpp)


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
