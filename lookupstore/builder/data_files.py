"""Options of a build's data files, and the manifest that records them."""

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
from lookupstore.store.manifest import DATA_FOLDER, WRITER, DataFile, FollowedSnapshot, Manifest


def file_options(
    location: Location,
    compression: str | None = None,
    level: int | None = None,
    block_size: Size | None = None,
    bloom_fpp: float = FileOptions.bloom_fpp,
) -> FileOptions:
    """Return the options of the data files of a store.

    Args:
        location: Location of the store, which chooses the default of `compression`.
        compression: Name of a codec in `lookupstore.sst.codec.COMPRESSIONS`. Default: `"none"` in a
            local folder, where lookups use the files in place, and `"zstd"` elsewhere.
        level: Level of the compression. Default: that of the codec.
        block_size: Size of a block before compression, in bytes or as a text such as `"8KiB"`.
            Default: `lookupstore.sst.codec.usual_block_size` of the compression.
        bloom_fpp: False positive rate of the filter. 0 writes no filter.

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
    follows: FollowedSnapshot | None = None,
) -> Manifest:
    """Return the manifest of data files, in any order; None stands for an empty bucket.

    The publication sets version and time later. Files whose names do not begin with `store_id`
    belong to an older version.
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
        follows=follows,
    )


def files_to_keep(
    current: Manifest | None, plan: BuildPlan, options: FileOptions, buckets: int
) -> Mapping[int, DataFile]:
    """Return the files of the current version that a new one may keep, by bucket.

    These are all files, or none if the versions differ in more than rows.
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
    """Check options before the build reads rows, with a file that is not kept.

    Raises:
        ValueError: If an option is out of range, or the codec is unknown.
    """
    path = os.path.join(folder, DATA_FOLDER, f"{store_id}-options.sst")
    Writer(path, threads=threads, **asdict(options)).abort()
