"""Deletion vectors of Iceberg: the positions of deleted rows of data files, in a Puffin file.

They are read without `pyiceberg`: it checks no checksum, and Spark's executors may not have it.

Source: the specification of Puffin: "File structure", "Footer structure" and
"`deletion-vector-v1` blob type".
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.storage.file_address import FileAddress
from lookupstore.tables.roaring import Positions, bitmap64
from lookupstore.tables.rows import GONE

_MAGIC = b"PFA1"
_TYPE = "deletion-vector-v1"
_VECTOR_MAGIC = bytes.fromhex("d1d33964")
_WORD = 4
# After the payload of the footer: its size, flags, and the magic.
_TAIL = 3 * _WORD


def vectors_of(address: FileAddress, nbytes: int) -> Mapping[str, Positions]:
    """Return the positions in each data file that a file of deletion vectors has.

    Args:
        address: Address of the file.
        nbytes: Size of the file.

    Returns:
        Positions of deleted rows, ascending, by the paths of the data files in the manifests.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If its footer or a vector is compressed.
        StaleStoreError: If the file is gone.
    """
    with address.reading("deletion vectors", gone=GONE), address.open(nbytes) as file:
        content = file.read(nbytes)
    shown = address.shown
    return {
        blob["properties"]["referenced-data-file"]: _vector(content, blob, shown)
        for blob in _blobs(content, shown)
    }


def _blobs(content: bytes, shown: str) -> list[dict[str, Any]]:
    """Return what the footer of a file says of its deletion vectors."""
    end = len(content) - _TAIL
    if end < 2 * _WORD or content[:_WORD] != _MAGIC or content[-_WORD:] != _MAGIC:
        raise CorruptionError(shown, 0, "a Puffin file", content[-_WORD:])
    size = int.from_bytes(content[end : end + _WORD], "little")
    start = end - size
    if start < 2 * _WORD or content[start - _WORD : start] != _MAGIC:
        raise CorruptionError(shown, end, "the size of the footer", size)
    if any(content[end + _WORD : end + 2 * _WORD]):  # flags
        raise _compressed_error(shown)
    try:
        blobs = json.loads(content[start:end])["blobs"]
        found = [blob for blob in blobs if blob["type"] == _TYPE]
        for blob in found:
            _ = blob["properties"]["referenced-data-file"], range(blob["offset"], blob["length"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(shown, start, "a footer with deletion vectors", error) from None
    return found


def _vector(content: bytes, blob: Mapping[str, Any], shown: str) -> Positions:
    """Return the positions in one deletion vector.

    Args:
        content: Bytes of the file.
        blob: What the footer says of the vector.
        shown: Path of the file, which errors name.
    """
    start, length = blob["offset"], blob["length"]
    end = start + length
    if blob.get("compression-codec"):
        raise _compressed_error(shown)
    if start < _WORD or length < _TAIL or end > len(content):
        found = f"bytes {start} to {end}"
        raise CorruptionError(shown, 0, "a deletion vector in the file", found)
    counted = int.from_bytes(content[start : start + _WORD], "big")
    body = content[start + _WORD : end - _WORD]
    if counted != len(body) or body[:_WORD] != _VECTOR_MAGIC:
        raise CorruptionError(shown, start, "a deletion vector", content[start : start + 2 * _WORD])
    stored, computed = int.from_bytes(content[end - _WORD : end], "big"), zlib.crc32(body)
    if stored != computed:
        raise CorruptionError(shown, start, f"the checksum {stored:#010x}", f"{computed:#010x}")
    try:
        positions = bitmap64(body[_WORD:])
    except ValueError as error:
        raise CorruptionError(shown, start, "a Roaring bitmap", error) from None
    expected = blob["properties"].get("cardinality", str(len(positions)))
    if expected != str(len(positions)):
        raise CorruptionError(shown, start, f"{expected} deleted rows", len(positions))
    return positions


def _compressed_error(shown: str) -> FormatError:
    return FormatError(
        f"{shown}: a compressed footer or deletion vector, which is not supported; pass the rows "
        "that Spark or another reader returns"
    )
