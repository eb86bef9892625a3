"""The entries of a base file's footer about its record keys: their Bloom filter and their range.

These entries have no checksum in Parquet. Files of lookupstore have an additional entry with one.
Therefore damage is found, and a file that keeps all keys of the previous file can use its filter:
only new keys are hashed. ``docs/decisions/0016-filters-are-kept.md`` explains this.

    entry  := CRC-32C of what follows and of the other entries, 8 hexadecimal digits; a space; JSON
    JSON   := {"file": its name, "chunks": [[offset, bytes, rows, plain bytes, codec], ...] or null}

If the entry has another name than the file, lookupstore did not write the file: Apache Hudi copies
the entries of files that it combines.

Source: org.apache.hudi.avro.HoodieBloomFilterWriteSupport,
org.apache.hudi.util.HoodieFileMetadataMerger.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import crc32c
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group._key_ranges import high_characters
from lookupstore.hudi.file_group.bloom import (
    FILTER_KEY,
    BloomBuilder,
    BloomFilter,
    bloom_bits,
    entries_with_room,
)
from lookupstore.parquet.footer import CODECS
from lookupstore.storage.json_text import parse_json

#: Keys of entries of a base file's footer: the least and the greatest key, which a file without
#: rows lacks, and the entry of lookupstore.
LEAST_KEY, GREATEST_KEY = b"hoodie_min_record_key", b"hoodie_max_record_key"
OWN_KEY = b"lookupstore.record_keys"
_ENDS = (LEAST_KEY, GREATEST_KEY)


class KeyChunk(NamedTuple):
    """The record keys of one row group in a file: PLAIN pages, without nulls.

    Attributes:
        offset: Offset of the chunk in the file.
        nbytes: Size of the chunk in the file, in bytes.
        rows: Number of rows of the chunk.
        plain_bytes: Size of the chunk without compression, in bytes.
        codec: Codec of pages, by Arrow's name. None: pages are not compressed.
    """

    offset: int
    nbytes: int
    rows: int
    plain_bytes: int
    codec: str | None


@dataclass(frozen=True)
class OwnEntry:
    """The entry of a footer by which lookupstore confirms the entries of Hudi.

    Attributes:
        chunks: Chunks of the column of record keys, one per row group. None: the column has pages
            of other kinds.
    """

    chunks: tuple[KeyChunk, ...] | None


def own_entry(said: Mapping[bytes, bytes], name: str, path: str) -> OwnEntry | None:
    """Return the entry that lookupstore wrote to a footer, verified.

    Its checksum covers the entries of Hudi as well. None: lookupstore did not write the file.

    Args:
        said: Entries of the footer.
        name: Name of the file.
        path: Path of the file, for errors.

    Raises:
        CorruptionError: If one of these entries is damaged.
    """
    stored = said.get(OWN_KEY)
    if stored is None:
        return None
    try:
        text = parse_json(
            stored[9:], path, f"a file and chunks in {OWN_KEY!r}", most_bytes=len(stored)
        )
        is_ours = text["file"] == name
        chunks = text["chunks"]
    except (TypeError, LookupError) as error:
        raise CorruptionError(path, 0, f"a file and chunks in {OWN_KEY!r}", error) from None
    if not is_ours:
        return None
    if stored[:9] != own_checksum(said, stored[9:]):
        expected = f"a Bloom filter and a range of keys with the CRC-32C {stored[:8]!r}"
        raise CorruptionError(path, 0, expected, own_checksum(said, stored[9:]))
    try:
        return OwnEntry(None if chunks is None else tuple(_chunk(*one) for one in chunks))
    except (TypeError, ValueError) as error:
        raise CorruptionError(path, 0, f"column chunks in {OWN_KEY!r}", error) from None


def _chunk(offset: int, nbytes: int, rows: int, plain_bytes: int, codec: str | None) -> KeyChunk:
    chunk = KeyChunk(offset, nbytes, rows, plain_bytes, codec)
    if not all(type(one) is int and one >= 0 for one in chunk[:4]) or codec not in CODECS.values():
        raise ValueError(str(chunk))
    return chunk


class KeyEntries:
    """A builder of the key entries of one base file.

    Args:
        error_rate: Rate of false positives of the filter.
        kept: Filter of keys that the file has from the start. None: there are no such keys.
        ends: Least and greatest of these keys; empty if the file that had them named none.
    """

    def __init__(
        self, error_rate: float, kept: BloomFilter | None = None, ends: Sequence[bytes] = ()
    ) -> None:
        self._error_rate = error_rate
        self._kept = kept
        self._ends = ends
        self._keys: list[pa.Array] = []

    @classmethod
    def keep(
        cls, said: Mapping[bytes, bytes], path: str, error_rate: float, rows: int, more: int
    ) -> KeyEntries:
        """Return a builder with the keys of another file, if its filter has room.

        If the filter has no room, the builder has no keys. lookupstore has written the file.

        Args:
            said: Verified entries of that file's footer.
            path: Path of that file, for errors.
            error_rate: Rate of false positives of the filter.
            rows: Number of rows of that file.
            more: Number of rows that are added to them.

        Raises:
            CorruptionError: If the entry for the filter is not a filter.
        """
        bloom = BloomFilter.from_footer(said, path) if rows else None
        if bloom is None or bloom.rows != 1 or bloom.last_keys != rows:
            return cls(error_rate)
        room = bloom.row_keys or 0
        if not (
            rows + more <= room <= entries_with_room(rows + more, error_rate)
            and bloom.bits == bloom_bits(room, error_rate)
        ):
            return cls(error_rate)
        return cls(error_rate, bloom, [said[key] for key in _ENDS if key in said])

    @property
    def keeps(self) -> bool:
        """Return whether the builder has the keys of another file."""
        return self._kept is not None

    def add(self, keys: pa.Array) -> None:
        """Add keys, of type string, that the builder does not have."""
        self._keys.append(keys)

    def entries(self, name: str, chunks: Sequence[KeyChunk] | None) -> dict[bytes, bytes]:
        """Return the entries of the footer.

        Args:
            name: Name of the file.
            chunks: Chunks of the column of record keys. None: the column has pages of other kinds.
        """
        if self._kept is None:
            room = entries_with_room(max(1, sum(map(len, self._keys))), self._error_rate)
            builder = BloomBuilder(room, error_rate=self._error_rate, most_entries=room)
        else:
            builder = BloomBuilder.continuing(self._kept)
        ends = list(self._ends)
        high = self.keeps and not ends
        for keys in self._keys:
            builder.add(keys)
            ends += [one.encode() for one in pc.min_max(keys).as_py().values()]
            high = high or bool(high_characters(BinaryColumn(keys)).any())
        found = builder.finish().footer()
        # Java orders such keys differently: it would not find all of them with any range in byte
        # order.
        if ends and not high:
            found |= {LEAST_KEY: min(ends), GREATEST_KEY: max(ends)}
        own = json.dumps({"file": name, "chunks": chunks}).encode()
        return found | {OWN_KEY: own_checksum(found, own) + own}


def own_checksum(said: Mapping[bytes, bytes], own: bytes) -> bytes:
    """Return the checksum of the entry of lookupstore, followed by a space."""
    found = 0
    for value in (*(said.get(key, b"") for key in (FILTER_KEY, *_ENDS)), own):
        found = crc32c.crc32c(value, crc32c.crc32c(len(value).to_bytes(8, "little"), found))
    return b"%08x " % found
