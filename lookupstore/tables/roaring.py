"""Roaring bitmaps as NumPy arrays.

Source: "Roaring Bitmap Format Specification": cookies, containers, the extension for 64 bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_COOKIE, _COOKIE_OF_RUNS = 12346, 12347
_OFFSETS_FROM = 4  # containers, in a bitmap with runs
_MOST_CONTAINERS = 1 << 16
_MOST_IN_ARRAY = 4096
_BITSET_BYTES = 8192

Positions = npt.NDArray[np.int64]


def bitmap32(content: bytes) -> Positions:
    """Return the numbers in a bitmap of 32 bits, ascending.

    Args:
        content: Bytes of the bitmap, and no others.

    Raises:
        ValueError: If the bytes are not a bitmap.

    >>> bitmap32(bytes.fromhex("3a30000001000000 00000100 10000000 0300 0500")).tolist()
    [3, 5]
    """
    found, end = _bitmap(content, 0)
    return _whole(found, content, end)


def bitmap64(content: bytes) -> Positions:
    """Return the numbers in a bitmap of 64 bits, ascending.

    Args:
        content: Bytes of the bitmap, and no others.

    Raises:
        ValueError: If the bytes are not a bitmap, or a number in it is 2**63 or more.
    """
    count = int.from_bytes(_taken(content, 0, 8), "little")
    at, parts = 8, [np.zeros(0, np.int64)]
    for _ in range(count):
        high = int.from_bytes(_taken(content, at, 4), "little")
        if high >> 31:
            raise ValueError(f"the high bits {high}")
        part, at = _bitmap(content, at + 4)
        parts.append(part + (high << 32))
    return _whole(np.concatenate(parts), content, at)


def _whole(found: Positions, content: bytes, end: int) -> Positions:
    if end != len(content):
        raise ValueError(f"{len(content) - end} bytes after the bitmap")
    if np.any(found[1:] <= found[:-1]):
        raise ValueError("numbers that do not ascend")
    return found


def _bitmap(content: bytes, at: int) -> tuple[Positions, int]:
    """Return the numbers in the bitmap at an offset, and the offset after it."""
    cookie = int.from_bytes(_taken(content, at, 4), "little")
    at += 4
    runs = b""
    if cookie & 0xFFFF == _COOKIE_OF_RUNS:
        count = (cookie >> 16) + 1
        runs = _taken(content, at, (count + 7) // 8)
        at += len(runs)
    elif cookie == _COOKIE:
        count = int.from_bytes(_taken(content, at, 4), "little")
        at += 4
    else:
        raise ValueError(f"the cookie {cookie}")
    if count > _MOST_CONTAINERS:
        raise ValueError(f"{count} containers")
    heads = np.frombuffer(_taken(content, at, 4 * count), "<u2").astype(np.int64).reshape(-1, 2)
    at += 4 * count
    if not runs or count >= _OFFSETS_FROM:
        at += len(_taken(content, at, 4 * count))
    parts = [np.zeros(0, np.int64)]
    for number, (high, least) in enumerate(heads.tolist()):
        has_runs = bool(runs) and bool(runs[number // 8] >> number % 8 & 1)
        low, at = _container(content, at, None if has_runs else least + 1)
        if len(low) != least + 1:
            raise ValueError(f"{len(low)} numbers instead of {least + 1}")
        parts.append(low + (high << 16))
    return np.concatenate(parts), at


def _container(content: bytes, at: int, count: int | None) -> tuple[Positions, int]:
    """Return the numbers of a container, and the offset after it.

    Args:
        content: Bytes of the bitmap.
        at: Offset of the container.
        count: Number of its numbers. None: It has runs.
    """
    if count is None:
        size = 4 * int.from_bytes(_taken(content, at, 2), "little")
        pairs = np.frombuffer(_taken(content, at + 2, size), "<u2").astype(np.int64)
        starts, lengths = pairs[::2], pairs[1::2] + 1
        if np.any(starts + lengths > 1 << 16) or int(lengths.sum()) > 1 << 16:
            raise ValueError("a run beyond its container")
        before = np.cumsum(lengths) - lengths
        found = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
        return found.astype(np.int64), at + 2 + size
    if count <= _MOST_IN_ARRAY:
        numbers = np.frombuffer(_taken(content, at, 2 * count), "<u2")
        return numbers.astype(np.int64), at + 2 * count
    bits = np.frombuffer(_taken(content, at, _BITSET_BYTES), np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")), at + _BITSET_BYTES


def _taken(content: bytes, at: int, size: int) -> bytes:
    if at + size > len(content):
        raise ValueError(f"{len(content) - at} bytes instead of {size}")
    return content[at : at + size]
