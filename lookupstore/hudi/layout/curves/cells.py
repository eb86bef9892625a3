"""Find the ends of files along a curve, so that each file is a box of its own.

A curve passes through one half of the space after the other, and through each half in the same way.
A stretch between two multiples of a power of two is a box. Other stretches of as many rows are
wider. Stretches are therefore halved until they have few enough rows. The place of an end does not
depend on the number of rows elsewhere.
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
    """Return the ends of stretches that have a limited number of sampled rows.

    Args:
        positions: Positions of the sampled rows: byte strings of one width that order rows.
        most: Maximum number of sampled rows in a stretch. Only rows that all have one position may
            exceed it.
        is_curve: Whether to halve stretches by their places on the curve, and not by their rows.
        within: Ends to include in any case, ascending.

    Returns:
        Last position of each stretch but the last stretch, ascending.

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
    """Yield the ends of the parts of a stretch from `low` to before `high`."""
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
            # Multiple of the greatest power of two in between.
            step = 1 << (low ^ (high - 1)).bit_length() - 1
            middle = (high - 1) // step * step
        else:
            middle = int.from_bytes(ordered[(first + after) // 2 - 1], "big") + 1
            if middle >= high:  # many rows have this position, with all rows before it
                middle -= 1
            if middle <= low:
                continue
        cut = rows_before(middle)
        if first < cut < after:
            yield middle - 1
        waiting += [(low, middle, first, cut), (middle, high, cut, after)]
