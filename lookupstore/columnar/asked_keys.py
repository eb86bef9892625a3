"""Keys that are looked up in one file after the other until each is decided."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.columnar.encoded_keys import EncodedKeys
from lookupstore.columnar.key_ranges import KeyRange
from lookupstore.keys.schema import KeySchema
from lookupstore.sorting._sort import lower_bound, sort_keys

#: Indices of keys in their order, from 0.
Turns = npt.NDArray[np.int64]


class AskedKeys:
    """Keys in ascending order, each open until a file decides it.

    Args:
        keys: The keys of a call. Keys with a null are never open.
        schema: Schema that encodes the keys of all files.

    Attributes:
        count: Number of all keys.
        at: Positions of the n keys without nulls, in ascending order of the keys, among all keys:
            int64 of length n.
        open: Number of the n keys that are not decided.
    """

    def __init__(self, keys: EncodedKeys, schema: KeySchema) -> None:
        encoded = keys.of(schema)
        self.count: int = len(encoded)
        there = np.flatnonzero(np.asarray(encoded.is_valid()))
        order, _ = sort_keys(encoded.drop_null())
        self.at: Turns = there[order]
        self.open: int = len(self.at)
        self._given = keys
        self._ascending = encoded.take(pa.array(self.at))
        self._by_schema = {schema: self._ascending}
        self._is_open = np.ones(self.open, np.bool_)

    def within(self, span: KeyRange) -> Turns:
        """Return the indices of the open keys in a range."""
        first, stop = span
        start = 0 if first is None else lower_bound(self._ascending, first)
        end = len(self.at) if stop is None else lower_bound(self._ascending, stop)
        if self.open == len(self.at):
            return np.arange(start, max(start, end))
        return start + np.flatnonzero(self._is_open[start:end])

    def encoded(self, turns: Turns, schema: KeySchema) -> pa.Array:
        """Return some keys in the encoding of another schema, null if it cannot encode them."""
        if schema not in self._by_schema:
            self._by_schema[schema] = self._given.of(schema).take(pa.array(self.at))
        keys = self._by_schema[schema]
        if len(turns) and turns[-1] - turns[0] + 1 == len(turns):
            return keys.slice(int(turns[0]), len(turns))
        return keys.take(pa.array(turns))

    def decide(self, turns: Turns) -> None:
        """Mark some keys as decided, so that no more files are searched for them."""
        self._is_open[turns] = False
        self.open = int(np.count_nonzero(self._is_open))
