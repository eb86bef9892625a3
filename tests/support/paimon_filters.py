"""Paimon's Bloom filter in plain Python: Java's 32-bit arithmetic, as its format note says it."""

from __future__ import annotations


def murmur3(key: bytes) -> int:
    """Return the hash of a key, as Java's unsigned int: seed 42, bytes of the tail signed."""
    words = [int.from_bytes(key[i : i + 4], "little") for i in range(0, len(key) & ~3, 4)]
    words += [byte - 256 if byte > 127 else byte for byte in key[len(key) & ~3 :]]
    found = 42
    for word in words:
        word = _rotated(word * 0xCC9E2D51, 15) * 0x1B873593
        found = _rotated(found ^ word, 13) * 5 + 0xE6546B64
    found = (found ^ len(key)) & 0xFFFFFFFF
    found = (found ^ found >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    found = (found ^ found >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return found ^ found >> 16


def _rotated(word: int, by: int) -> int:
    word &= 0xFFFFFFFF
    return (word << by | word >> (32 - by)) & 0xFFFFFFFF


def positions_of(key_hash: int, bits: int, hashes: int) -> list[int]:
    """Return the bits of a key of that hash in a filter of so many bits (section 9 of the note)."""
    first = key_hash & 0xFFFFFFFF
    positions = []
    for i in range(1, hashes + 1):
        combined = (first + i * (first >> 16)) & 0xFFFFFFFF
        if combined >= 1 << 31:
            combined = ~combined & 0xFFFFFFFF
        positions.append(combined % bits)
    return positions


def filter_of(key_hashes: list[int], size: int, hashes: int) -> bytes:
    """Return the bytes of a filter of keys of those hashes."""
    found = bytearray(size)
    for key_hash in key_hashes:
        for at in positions_of(key_hash, 8 * size, hashes):
            found[at >> 3] |= 1 << (at & 7)
    return bytes(found)
