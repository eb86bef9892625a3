"""What the footer of a base file says of its record keys: their Bloom filter, and their range.

Parquet has no checksum for that. Base files of ours have one, so that damage is found, and so that
a file that loses no key takes over the filter of the one before it: of all its keys, only the new
ones are hashed. ``docs/decisions/0016-filters-are-kept.md`` says more.

Source: org.apache.hudi.avro.HoodieBloomFilterWriteSupport.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import CorruptionError
from lookupstore.hudi.bloom import (
    FILTER_KEY,
    BloomBuilder,
    BloomFilter,
    bloom_bits,
    entries_with_room,
)

#: Entries of a base file's footer: the least and the greatest key, which a file without rows has
#: not, and the checksum of both and of the filter, in hexadecimal digits.
LEAST_KEY, GREATEST_KEY = b"hoodie_min_record_key", b"hoodie_max_record_key"
CHECKSUM_KEY = b"lookupstore.record_keys.crc32c"
_ENDS = (LEAST_KEY, GREATEST_KEY)

# The first byte of U+E000; the bytes that follow a first one are below 0xc0.
_HIGH = 0xEE


class KeyEntries:
    """Makes the entries of one base file from its record keys.

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
        """Begin with the keys of another file, if its filter has room; else with none.

        Args:
            said: entries of that file.
            path: of that file, for errors.
            error_rate: of the filter.
            rows: of that file.
            more: that come to them.

        Raises:
            CorruptionError: the entries are damaged.
        """
        check_entries(said, path)
        bloom = BloomFilter.from_footer(said, path) if rows and CHECKSUM_KEY in said else None
        if (
            bloom is None
            or bloom.rows != 1
            or bloom.last_keys != rows
            or bloom.row_keys is None
            or bloom.row_keys < rows + more
            or bloom.bits != bloom_bits(bloom.row_keys, error_rate)
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

    def entries(self) -> dict[bytes, bytes]:
        """Return the entries of the footer."""
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
            high = high or _has_high_character(keys)
        found = builder.finish().footer()
        # Java orders such keys in another way: by no range of ours would it find all of them.
        if ends and not high:
            found |= {LEAST_KEY: min(ends), GREATEST_KEY: max(ends)}
        return found | {CHECKSUM_KEY: checksum_of(found)}


def check_entries(said: Mapping[bytes, bytes], path: str) -> None:
    """Raise CorruptionError if entries of a footer have another checksum than they say."""
    stored = said.get(CHECKSUM_KEY)
    if stored is not None and stored != checksum_of(said):
        expected = f"a Bloom filter and a range of keys with the CRC-32C {stored!r}"
        raise CorruptionError(path, 0, expected, checksum_of(said))


def checksum_of(said: Mapping[bytes, bytes]) -> bytes:
    """Return the checksum of what entries of a footer say of record keys.

    >>> checksum_of({LEAST_KEY: b"a", GREATEST_KEY: b"b"})
    b'43e2fa9e'
    """
    found = 0
    for key in (FILTER_KEY, *_ENDS):
        value = said.get(key, b"")
        found = crc32c.crc32c(value, crc32c.crc32c(len(value).to_bytes(8, "little"), found))
    return b"%08x" % found


def _has_high_character(keys: pa.Array) -> bool:
    """Return whether a key has a character from U+E000 on, by its bytes: others have lower ones."""
    first, last = keys.buffers()[1], keys.buffers()[2]
    offsets = np.frombuffer(first, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(last or b"", np.uint8)[offsets[0] : offsets[-1]]
    return bool(data.max(initial=0) >= _HIGH)
