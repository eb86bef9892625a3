"""Lookup files next to their columnar files, so that other hosts need not make them.

They are in a folder `_lookup`, which Spark and Hive ignore. The name of each is derived from its
content. A description is written after its file: a file without a description is ignored. So is a
file with a damaged description, or of another size than its description records. The next publish
replaces both.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass

import xxhash

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
        state: Text that differs if the columnar file was another one. Empty: not recorded.
    """

    name: str
    source: str
    bytes: int
    xxh64: str
    state: str = ""


def location_of(source: SourceFile) -> Location:
    """Return the location in which lookup files of a columnar file are published."""
    return Location(source.base or "/", filesystem=source.filesystem)


def published_files(location: Location, names: Iterable[str]) -> dict[str, PublishedFile]:
    """Return the published files among the lookup files with some names, by name.

    Files that are damaged as far as their descriptions and sizes show are left out, with a warning
    in the log. Their bytes are not read.
    """
    sizes = {file.name: file.bytes for file in location.files(FOLDER)}
    found = {}
    for name in names:
        if described_name(name) in sizes and data_name(name) in sizes:
            file = _read_or_warn(location, name, sizes[data_name(name)])
            if file is not None:
                found[name] = file
    return found


def publish_file(location: Location, name: str, source: SourceFile, path: str) -> PublishedFile:
    """Publish a lookup file of this host, readable only by users that may read its source.

    The file is copied from a path of this host, with the mode of the source. It replaces files of
    its name that are damaged, or were left by a publisher that was killed. If another publisher has
    just published it, nothing is written.
    """
    nbytes, content = os.path.getsize(path), file_hash(path)
    file = PublishedFile(name, source.below, nbytes, content, _state_of(source))
    size = location.size(data_name(name))
    if size is not None:
        with suppress(CorruptionError, FileNotFoundError):
            return _read(location, name, size)
    mode = source.address.mode
    described = json.dumps(asdict(file)).encode() + b"\n"
    location.write(data_name(name), file_chunks(path), mode=mode, overwrite=True)
    location.write(described_name(name), [described], mode=mode, overwrite=True)
    return file


def forget_old(location: Location, sources: Iterable[SourceFile]) -> list[str]:
    """Remove published files of sources that have changed, and return their names.

    Those of other keys or columns are kept while their source is the same.

    Args:
        location: Location of the published files.
        sources: The columnar files as they are, which are in the folder of the location.
    """
    now = time.time()
    states = {
        source.below: _state_of(source)
        for source in sources
        if now - (source.stored.written or 0) / 1e9 > KEPT_SECONDS
    }
    removed = []
    for file in location.files(FOLDER):
        name, _, extension = file.name.removeprefix(f"{FOLDER}/").partition(".")
        if extension != "json" or file.modified is None or now - file.modified <= KEPT_SECONDS:
            continue
        said = _read_or_warn(location, name)
        if said is not None and states.get(said.source, said.state) != said.state:
            location.delete(described_name(name))
            location.delete(data_name(name))
            removed.append(name)
    if removed:
        _log.info("%s: %d lookup files of older sources removed", location.uri, len(removed))
    return removed


def _state_of(source: SourceFile) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(source.stored.parts).encode())


def _read_or_warn(location: Location, name: str, size: int | None = None) -> PublishedFile | None:
    """Return what the description of a lookup file records. None: it is damaged, or deleted."""
    try:
        return _read(location, name, size)
    except FileNotFoundError:  # deleted since it was listed
        return None
    except CorruptionError as error:
        _log.warning(
            "%s; the published lookup file is not used; publish lookup files of the same columns "
            "again, which replaces it",
            error,
        )
        return None


def _read(location: Location, name: str, size: int | None) -> PublishedFile:
    """Return what the description of a lookup file records.

    Args:
        location: Location of the published files.
        name: Name of the lookup file.
        size: Size of the lookup file, which must be the recorded one. None: it is not compared.

    Raises:
        CorruptionError: If the description is damaged, or the lookup file has another size.
        FileNotFoundError: If there is no description.
    """
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
    right = right and isinstance(file.source, str) and isinstance(file.state, str)
    if file.name != name or not right:
        raise CorruptionError(location.show(path), 0, f"a description of {name}", file)
    if size not in (None, file.bytes):
        data = location.show(data_name(name))
        raise CorruptionError(data, 0, f"{file.bytes} bytes, as described", f"{size} bytes")
    return file


def described_name(name: str) -> str:
    """Return the path of the description of a published lookup file."""
    return f"{FOLDER}/{name}.json"


def data_name(name: str) -> str:
    """Return the path of a published lookup file."""
    return f"{FOLDER}/{name}.sst"
