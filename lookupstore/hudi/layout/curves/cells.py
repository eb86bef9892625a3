"""Where files end along a curve, so that each is a box that no other one reaches into.

A curve goes through the halves of all that there is one after the other, and through the halves of
these in the same way. A stretch of it between two multiples of a power of two is a box; any other
stretch of as many rows is a wider one. So stretches are halved until they have few enough rows,
and no place of an end depends on how many rows there are elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa

from lookupstore.sorting._sort import argsort


def cell_ends(
    positions: pa.Array, most: float, *, is_curve: bool, within: Sequence[bytes] = ()
) -> list[bytes]:
    """Return the ends of stretches that have no more than so many rows of a sample.

    Args:
        positions: of the sample: byte strings of one width, whose order counts.
        most: rows of a stretch; more only where all of them have one position.
        is_curve: whether stretches are halved by their places, and not by their rows.
        within: ends that there are in any case, ascending.

    Returns:
        ascending positions: each is the last of a stretch; what comes after all is one more.

    >>> cell_ends(pa.array([b"\\x00", b"\\x10", b"\\x90"], pa.binary(1)), 1, is_curve=True)
    [b'\\x0f', b'\\x7f']
    """
    ordered: list[bytes] = positions.take(pa.array(argsort(positions))).to_pylist()
    width = positions.type.byte_width
    bounds = [0, *(int.from_bytes(one, "big") + 1 for one in within), 1 << 8 * width]
    found = list(within)
    for low, high in pairwise(bounds):
        found += (end.to_bytes(width, "big") for end in _ends(ordered, low, high, most, is_curve))
    return sorted(set(found))


def _ends(
    ordered: Sequence[bytes], low: int, high: int, most: float, is_curve: bool
) -> Iterator[int]:
    """Yield the ends of the parts of a stretch, from a position to before another."""
    if not ordered:
        return
    width = len(ordered[0])

    def rows_before(position: int) -> int:
        if position == 0:
            return 0
        return bisect_right(ordered, (position - 1).to_bytes(width, "big"))

    waiting = [(low, high, rows_before(low), rows_before(high))]
    while waiting:
        low, high, first, after = waiting.pop()
        if after - first <= most or high - low < 2:
            continue
        if is_curve:
            # The multiple of the greatest power of two between both.
            step = 1 << (low ^ (high - 1)).bit_length() - 1
            middle = (high - 1) // step * step
        else:
            middle = int.from_bytes(ordered[(first + after) // 2 - 1], "big") + 1
            if middle >= high:  # what many rows have, with all before it
                middle -= 1
            if middle <= low:
                continue
        cut = rows_before(middle)
        if first < cut < after:
            yield middle - 1
        waiting += [(low, middle, first, cut), (middle, high, cut, after)]
