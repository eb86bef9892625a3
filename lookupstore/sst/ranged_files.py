"""Open files that answer lookups together, chosen by the ranges of their keys."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._answers import Answers
from lookupstore.sst._batch import answer
from lookupstore.sst._hits import FileHits, pass_rows
from lookupstore.sst._layer import FileRanges, Layer
from lookupstore.sst._owners import OwnedFiles
from lookupstore.sst.owners import LEAST_LAYERS, FileOwners, OwnerTables
from lookupstore.sst.reader import Reader, identity_of, lookup_of
from lookupstore.sst.shared import PlacesLostError


class RangedFiles:
    """Files that are open, and answer lookups together although they were not made together.

    Files with disjoint ranges of keys are a layer: the range in which a key is shows its file.
    Files that overlap are in different layers, and a key is looked up in one file of each layer.
    All files must be used in place.

    Args:
        readers: Readers of native files.
        tables: Tables of owners of these files, and of those that they have replaced. None: keys
            are tested with the filters of all files that overlap.

    Attributes:
        numbers: Numbers of the readers of files with records, in the order in which `find` and
            `owners` number the files.
        are_disjoint: Whether no two files can have the same key.

    Raises:
        ClosedError: If a reader is closed.
    """

    def __init__(self, readers: Sequence[Reader], tables: OwnerTables | None = None) -> None:
        layers = _layers([_range(reader) for reader in readers])
        self.numbers: list[int] = [number for layer in layers for _, _, number in layer]
        self.are_disjoint: bool = len(layers) <= 1
        lookups = tuple(lookup_of(readers[number]) for number in self.numbers)
        self._layer: Layer | None = None
        self._owners: FileOwners | None = None
        if lookups:
            ranges = [[(first, last) for first, last, _ in layer] for layer in layers]
            self._layer = Layer(lookups, ranges=FileRanges(ranges))
            if tables is not None and len(layers) >= LEAST_LAYERS:
                identities = [identity_of(readers[number]) for number in self.numbers]
                self._owners = FileOwners(tables, self._layer, identities)

    def lookup(self, keys: pa.Array, answers: Answers) -> None:
        """Pass the values of many keys to `answers`; some files have records.

        Args:
            keys: Arrow array of binary, large_binary or fixed_size_binary with n keys.
            answers: Receiver of n values.

        Raises:
            CorruptionError: If a block that would hold a key is damaged.
            SeveralRowsError: If several files have one of the keys. `answers` may have some of the
                values.
            PlacesLostError: If a shared table was truncated; `answers` may have some of the values.
            Exception: Any error that `answers` raises for a value.
        """
        assert self._layer is not None  # a file has records
        if self.are_disjoint:
            answer(self._layer, BinaryColumn(keys), answers)
        else:
            self._search(len(keys), partial(pass_rows, self._layer, BinaryColumn(keys), answers))

    def owners(self, keys: pa.Array) -> pa.UInt32Array:
        """Return the number of the file that each key of disjoint files is in, if it is in one."""
        assert self._layer is not None
        assert self._layer.ranges is not None
        found = self._layer.ranges.owners(BinaryColumn(keys))
        return pa.Array.from_buffers(pa.uint32(), len(keys), [None, found])

    def find(self, keys: pa.Array, hits: FileHits, first: int) -> None:
        """Add the rows of many keys in all files to `hits`.

        Args:
            keys: Arrow array as for `lookup`.
            hits: FileHits of as many keys.
            first: Number of the first file in hits.

        Raises:
            CorruptionError: If a block that would hold a key is damaged.
            PlacesLostError: If a shared table was truncated; `hits` may have some of the rows.
        """
        if self._layer is None:
            return
        self._search(len(keys), partial(hits.find, self._layer, BinaryColumn(keys), first))

    def _search(self, keys: int, search: Callable[[OwnedFiles | None], None]) -> None:
        """Search files that overlap for a number of keys, by their tables of owners if possible."""
        owners = self._owners
        if owners is None:
            search(None)
            return
        try:
            search(owners.owned())
        except PlacesLostError:
            owners.lose()
            raise
        owners.after(keys)


_Range = tuple[bytes, bytes, int]


def _range(reader: Reader) -> tuple[bytes, bytes] | None:
    """Return the first and the last key of a file. None: it has no records."""
    info = reader.info()
    if info.min_key is None or info.max_key is None:
        return None
    return info.min_key, info.max_key


def _layers(ranges: Sequence[tuple[bytes, bytes] | None]) -> list[list[_Range]]:
    """Return as few layers of disjoint ranges as possible, with the numbers of the files.

    >>> _layers([(b"c", b"d"), (b"a", b"b"), None, (b"b", b"c")])
    [[(b'a', b'b', 1), (b'c', b'd', 0)], [(b'b', b'c', 3)]]
    """
    known = ((*one, number) for number, one in enumerate(ranges) if one is not None)
    layers: list[list[_Range]] = []
    ends: list[tuple[bytes, int]] = []  # last key and number of each layer, the least key first
    for one in sorted(known):
        if ends and ends[0][0] < one[0]:
            _, at = heapq.heappop(ends)
        else:
            at = len(layers)
            layers.append([])
        layers[at].append(one)
        heapq.heappush(ends, (one[1], at))
    return layers
