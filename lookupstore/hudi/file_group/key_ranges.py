"""Range pruning: find the files that can contain keys by their least and greatest keys.

The keys are sorted once; then those of a file are one span of them, so the whole result is two
numbers per file. ``docs/decisions/0011-key-ranges-are-runs.md`` explains why.

Source: org.apache.hudi.index.bloom (ListBasedIndexFileFilter, IntervalTreeBasedIndexFileFilter),
which answer with one pair for each key and file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow._binary import BinaryColumn, as_binary
from lookupstore.hudi.file_group._key_ranges import Ranges, high_characters
from lookupstore.sorting._sort import argsort

Prune = Literal["tree", "list", "off"]
PRUNE_RULES: tuple[Prune, ...] = ("tree", "list", "off")

Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The keys that may be in each file.

    Attributes:
        keys: Copy of the keys, in the order of `order`. A file's span is read from front to end.
            Taking its keys one by one from their original places would be four times slower.
        order: Rows of the keys, uint32: first the keys to which ranges apply, sorted, then the keys
            that may be in every file.
        spans: Start and end of each file's keys in `order`, int64 (files, 2).
        anywhere: Place in `order` at which the keys begin that may be in every file.
    """

    keys: pa.Array
    order: Rows
    spans: npt.NDArray[np.int64]
    anywhere: int

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of candidates of each file, int64.

        >>> KeyRanges(["b", None], ["d", None]).candidates(pa.array(["a", "b"])).counts.tolist()
        [1, 2]
        """
        spans: npt.NDArray[np.int64] = self.spans[:, 1] - self.spans[:, 0]
        return spans + (len(self.order) - self.anywhere)

    def rows(self, file: int) -> Rows:
        """Return the rows of the keys that may be in a file, uint32.

        >>> KeyRanges(["b"], ["d"]).candidates(pa.array(["z", "d", "b"])).rows(0).tolist()
        [2, 1]
        """
        start, end = self.spans[file].tolist()
        if self.anywhere == len(self.order):
            return self.order[start:end]
        return np.concatenate([self.order[start:end], self.order[self.anywhere :]])

    def places(self, file: int) -> Rows:
        """Return the places in `keys` and `order` of the keys that may be in a file, uint32.

        >>> found = KeyRanges(["b"], ["d"]).candidates(pa.array(["z", "d", "b"]))
        >>> found.keys.take(pa.array(found.places(0))).to_pylist()
        [b'b', b'd']
        """
        start, end = self.spans[file].tolist()
        span = np.arange(start, end, dtype=np.uint32)
        if self.anywhere == len(self.order):
            return span
        return np.concatenate([span, np.arange(self.anywhere, len(self.order), dtype=np.uint32)])


class KeyRanges:
    """The key ranges of files, to compare with any number of batches of keys.

    Args:
        least: Least key of each file, string or binary. A file may have any key if it lacks its
            least or its greatest key, or if its least key is above its greatest.
        greatest: Greatest key of each file, string or binary.
        prune: Rule of comparison: `tree` leaves out whole subtrees of files at once, `list` looks
            at every file, and `off` takes every key for every file. `tree` and `list` have the same
            result.

    Raises:
        ValueError: If the numbers of least and greatest keys differ, or `prune` is another rule.

    >>> ranges = KeyRanges(pa.array(["a", "m", None]), pa.array(["k", "z", None]))
    >>> found = ranges.candidates(pa.array(["n", "b", "zz"]))
    >>> [found.rows(file).tolist() for file in range(len(found))]
    [[1], [0], [1, 0, 2]]
    """

    def __init__(
        self,
        least: pa.Array | list[str | None],
        greatest: pa.Array | list[str | None],
        *,
        prune: Prune = "tree",
    ) -> None:
        if prune not in PRUNE_RULES:
            raise ValueError(f"prune is {prune!r}; give tree, list or off")
        ends = [_texts(least, "least"), _texts(greatest, "greatest")]
        if len(ends[0]) != len(ends[1]):
            raise ValueError(f"least has {len(ends[0])} keys, greatest {len(ends[1])}")
        self.prune: Prune = prune
        self._files = len(ends[0])
        # If the least key is greater than the greatest, the file was written with another order of
        # keys.
        stated = pc.fill_null(pc.less_equal(*ends), False)
        self._ranged = np.flatnonzero(stated.to_numpy(zero_copy_only=False))
        self._ranges = Ranges(*(BinaryColumn(end.filter(stated)) for end in ends))

    def __len__(self) -> int:
        return self._files

    def candidates(self, keys: pa.Array | pa.ChunkedArray) -> Candidates:
        """Return which keys may be in which files.

        Args:
            keys: Keys, string or binary, without nulls; in any order, also repeated.

        Raises:
            ValueError: If a key is null.

        >>> KeyRanges(["a"], ["k"], prune="off").candidates(pa.array(["z"])).counts.tolist()
        [1]
        """
        array = as_binary(keys)
        column = BinaryColumn(array)
        # Java orders keys with such characters differently, also in comparisons with the ends of a
        # range.
        high = high_characters(column)
        order = argsort(array)
        if high.any():
            order = np.concatenate([order[~high[order]], np.flatnonzero(high).astype(np.uint32)])
        anywhere = len(array) - int(np.count_nonzero(high))
        spans = np.empty((self._files, 2), np.int64)
        spans[:] = 0, anywhere
        if self.prune != "off" and len(self._ranged):
            sorted_keys = order[:anywhere]
            spans[self._ranged] = self._ranges.spans(column, sorted_keys, tree=self.prune == "tree")
        return Candidates(array.take(pa.array(order)), order, spans, anywhere)


def _texts(ends: pa.Array | list[str | None], name: str) -> pa.Array:
    if isinstance(ends, list):
        ends = pa.array(ends, pa.large_string())
    return as_binary(ends, name).cast(pa.large_binary())
