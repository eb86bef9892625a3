"""Lookup files next to their columnar files, so that other hosts need not make them.

They are in a folder `_lookup`, which Spark and Hive ignore. The name of each is derived from its
content. A description is written after its file: a file without a description is ignored.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from lookupstore.columnar.source_file import SourceFile
from lookupstore.errors import CorruptionError
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.local import file_chunks, file_hash
from lookupstore.storage.location import Location

FOLDER = "_lookup"
#: Seconds for which a lookup file is kept after its source has changed: running queries may use it.
KEPT_SECONDS = 24 * 3600.0

# Maximum size of a description in bytes.
_MOST_BYTES = 1 << 20
_HASH = re.compile("[0-9a-f]{16}")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishedFile:
    """A published lookup file.

    Attributes:
        name: Name of the lookup file: 32 hexadecimal digits; see `LookupFilePlan.name`.
        source: Path of the columnar file below the folder that contains both files.
        bytes: Size of the lookup file in bytes.
        xxh64: XXH64 of the whole lookup file, 16 hexadecimal digits.
    """

    name: str
    source: str
    bytes: int
    xxh64: str


def location_of(source: SourceFile) -> Location:
    """Return the location in which lookup files of a columnar file are published."""
    return Location(source.base or "/", filesystem=source.filesystem)


def published_files(location: Location, names: Iterable[str]) -> dict[str, PublishedFile]:
    """Return the published files among the lookup files with some names, by name.

    Raises:
        CorruptionError: If a description is damaged.
    """
    present = {file.name for file in location.files(FOLDER)}
    return {
        name: _read(location, name)
        for name in names
        if described_name(name) in present and data_name(name) in present
    }


def publish_file(location: Location, name: str, source: SourceFile, path: str) -> PublishedFile:
    """Publish a lookup file of this host, readable only by users that may read its source.

    The file is copied from a path of this host, with the mode of the source.
    """
    file = PublishedFile(name, source.below, os.path.getsize(path), file_hash(path))
    mode = source.address.mode
    location.write(data_name(name), file_chunks(path), mode=mode)
    location.write(described_name(name), [json.dumps(asdict(file)).encode() + b"\n"], mode=mode)
    return file


def forget_old(location: Location, sources: Iterable[str], current: Iterable[str]) -> list[str]:
    """Remove published files of sources that have changed, and return their names.

    Args:
        location: Location of the published files.
        sources: Paths of the present columnar files, below the folder.
        current: Names of the lookup files that fit these files.
    """
    known, kept = set(sources), set(current)
    removed = []
    for file in location.files(FOLDER):
        name, _, extension = file.name.removeprefix(f"{FOLDER}/").partition(".")
        if extension != "json" or name in kept:
            continue
        old = file.modified is not None and time.time() - file.modified > KEPT_SECONDS
        if old and _read(location, name).source in known:
            location.delete(described_name(name))
            location.delete(data_name(name))
            removed.append(name)
    if removed:
        _log.info("%s: %d lookup files of older sources removed", location.uri, len(removed))
    return removed


def _read(location: Location, name: str) -> PublishedFile:
    path = described_name(name)
    content = location.read(path, _MOST_BYTES)
    try:
        said = parse_json(
            content, location.show(path), "a description of a lookup file", most_bytes=_MOST_BYTES
        )
        file = PublishedFile(**said)
    except TypeError as error:
        raise CorruptionError(
            location.show(path), 0, "a description of a lookup file", error
        ) from None
    right = isinstance(file.bytes, int) and file.bytes > 0 and isinstance(file.xxh64, str)
    right = right and _HASH.fullmatch(file.xxh64) is not None  # copies are named after it
    if file.name != name or not right:
        raise CorruptionError(location.show(path), 0, f"a description of {name}", file)
    return file


def described_name(name: str) -> str:
    """Return the path of the description of a published lookup file."""
    return f"{FOLDER}/{name}.json"


def data_name(name: str) -> str:
    """Return the path of a published lookup file."""
    return f"{FOLDER}/{name}.sst"
