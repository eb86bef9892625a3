"""What the footer of a base file says of its record keys: their Bloom filter, and their range.

Parquet has no checksum for that. Base files of ours have an entry of their own beside, with one: so
damage is found, and a file that may lose no key takes over the filter of the one before it: of all
its keys, only the new ones are hashed. ``docs/decisions/0016-filters-are-kept.md`` says more.

    entry  := CRC-32C of what follows and of the other entries, 8 hexadecimal digits; a space; JSON
    JSON   := {"file": its name, "chunks": [[offset, bytes, rows, plain bytes, codec], ...] or null}

A file whose name is not that one is none of ours: Apache Hudi copies the entries of files that it
puts together.

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

#: Entries of a base file's footer: the least and the greatest key, which a file without rows has
#: not, and our own.
LEAST_KEY, GREATEST_KEY = b"hoodie_min_record_key", b"hoodie_max_record_key"
OWN_KEY = b"lookupstore.record_keys"
_ENDS = (LEAST_KEY, GREATEST_KEY)


class KeyChunk(NamedTuple):
    """The chunk of the column of record keys in a row group: PLAIN pages, without nulls.

    Attributes:
        offset: of it in the file.
        nbytes: of it there.
        rows: of it.
        plain_bytes: of it when it is not compressed.
        codec: of pages, in Arrow's words; None: they are not compressed.
    """

    offset: int
    nbytes: int
    rows: int
    plain_bytes: int
    codec: str | None


@dataclass(frozen=True)
class OwnEntry:
    """What a base file of ours says next to the entries of Hudi, which it confirms.

    Attributes:
        chunks: of the column of record keys, one per row group; None: its pages are of other kinds.
    """

    chunks: tuple[KeyChunk, ...] | None


def own_entry(said: Mapping[bytes, bytes], name: str, path: str) -> OwnEntry | None:
    """Return our entry of a footer, verified with those that it vouches for; None: it is not ours.

    Args:
        said: entries of the footer.
        name: of the file.
        path: of the file, for errors.

    Raises:
        CorruptionError: one of these entries is damaged.
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
        error_rate: of the filter.
        kept: filter of other keys that the file has, too; None: it has no others.
        ends: the least and the greatest of these; empty if the file that had them named none.
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
        """Begin with the keys of another file of ours, if its filter has room; else with none.

        Args:
            said: entries of that file, verified.
            path: of that file, for errors.
            error_rate: of the filter.
            rows: of that file.
            more: that come to them.

        Raises:
            CorruptionError: what is there is not a filter.
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
        """Return whether the keys of another file are there."""
        return self._kept is not None

    def add(self, keys: pa.Array) -> None:
        """Add keys, string, that are not there."""
        self._keys.append(keys)

    def entries(self, name: str, chunks: Sequence[KeyChunk] | None) -> dict[bytes, bytes]:
        """Return the entries of the footer.

        Args:
            name: of the file.
            chunks: of the column of record keys; None: its pages are of other kinds.
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
        # Java orders such keys in another way: by no range of ours would it find all of them.
        if ends and not high:
            found |= {LEAST_KEY: min(ends), GREATEST_KEY: max(ends)}
        own = json.dumps({"file": name, "chunks": chunks}).encode()
        return found | {OWN_KEY: own_checksum(found, own) + own}


def own_checksum(said: Mapping[bytes, bytes], own: bytes) -> bytes:
    """Return the checksum of our entry, with the space that follows it."""
    found = 0
    for value in (*(said.get(key, b"") for key in (FILTER_KEY, *_ENDS)), own):
        found = crc32c.crc32c(value, crc32c.crc32c(len(value).to_bytes(8, "little"), found))
    return b"%08x " % found
