"""Replace values that many rows of a column share by numbers, while there are few of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Most values, and most bytes of them: a larger dictionary, which is in memory, gains little.
_MOST, _MOST_BYTES = 1 << 14, 1 << 20


class SharedValues:
    """The distinct texts of a column of dictionaries, in the order of their first use.

    >>> shared = SharedValues()
    >>> one, other = (pa.array(rows).dictionary_encode() for rows in (["b", "a"], ["c", None, "a"]))
    >>> shared.numbers(one).to_pylist(), shared.numbers(other).to_pylist()
    ([0, 1], [2, None, 1])
    >>> shared.dictionary(pa.array([2, 2, 1], pa.int32())).to_pylist()
    ['c', 'c', 'a']
    """

    def __init__(self) -> None:
        self._values = pa.array([], pa.string())
        self._known: tuple[pa.Array, pa.Array] | None = None

    def numbers(self, column: pa.DictionaryArray) -> pa.Array | None:
        """Return the number of the value of each row, null for null.

        None: There are too many values.
        """
        if self._known is None or not column.dictionary.equals(self._known[0]):
            dictionary = column.dictionary
            new = dictionary.filter(pc.invert(pc.is_in(dictionary, self._values))).unique()
            values = pa.concat_arrays([self._values, new.drop_null()])
            if len(values) > _MOST or values.nbytes > _MOST_BYTES:
                return None
            self._values = values
            self._known = dictionary, pc.index_in(dictionary, values)
        return self._known[1].take(column.indices)

    def values(self, numbers: pa.Array) -> pa.Array:
        """Return the values of numbers."""
        return self._values.take(numbers)

    def dictionary(self, numbers: pa.Array) -> pa.DictionaryArray:
        """Return the values of numbers as a dictionary array without unused values."""
        counts = np.bincount(numbers.drop_null().to_numpy(), minlength=len(self._values))
        used = np.flatnonzero(counts)
        places = np.zeros(len(counts), np.int32)
        places[used] = np.arange(len(used), dtype=np.int32)
        found = pa.array(places).take(numbers)
        return pa.DictionaryArray.from_arrays(found, self._values.take(pa.array(used)))
