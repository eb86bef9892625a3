"""Stored rows whose places are known, so that a write needs no index to find them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.write.rows.in_memory import RowPlaces

#: A base file, the record keys of some of its rows, and the numbers of these, ascending.
StoredRows = tuple[FileSlice, pa.Array, npt.NDArray[np.int64]]
#: Found rows, and their places.
Found = tuple[Incoming, RowPlaces]


def found_rows(stored: Iterable[StoredRows]) -> Iterator[Found]:
    """Yield stored rows, as keys only, with their places, one base file at a time.

    Args:
        stored: Rows to yield, each base file once.
    """
    first = 0
    for file, keys, positions in stored:
        zeros = np.zeros(len(keys), np.int32)
        paths = pa.array([file.group.partition], pa.string())
        incoming = Incoming(
            pa.table({}),
            pa.chunked_array([keys]),
            pa.DictionaryArray.from_arrays(pa.array(zeros), paths),
            numbers=np.arange(first, first + len(keys)),
        )
        first += len(keys)
        yield incoming, RowPlaces((file,), zeros, positions)


def held_rows(found: Iterator[Found], memory: int) -> tuple[list[Found], bool]:
    """Read rows until memory is full, and return them, and whether they are all."""
    parts: list[Found] = []
    nbytes = 0
    for incoming, places in found:
        parts.append((incoming, places))
        nbytes += incoming.nbytes + places.positions.nbytes
        if nbytes > memory:
            return parts, False
    return parts, True


def joined_rows(parts: Sequence[Found], columns: pa.Schema) -> Found:
    """Return parts of rows, joined in their order.

    Args:
        parts: Parts of the rows, with their places.
        columns: Columns of the rows. Empty: the rows consist of keys only.
    """
    places = [one for _, one in parts]
    sizes = [len(one.slices) for one in places]
    firsts = np.cumsum([0, *sizes[:-1]], dtype=np.int32)
    numbers = [
        np.where(one.numbers < 0, np.int32(-1), one.numbers + first)
        for one, first in zip(places, firsts, strict=False)
    ]
    return Incoming.joined([one for one, _ in parts], columns), RowPlaces(
        tuple(file for one in places for file in one.slices),
        np.concatenate([np.zeros(0, np.int32), *numbers]),
        np.concatenate([np.zeros(0, np.int64), *(one.positions for one in places)]),
    )
