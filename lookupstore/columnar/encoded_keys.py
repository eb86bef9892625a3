"""The keys of a call, encoded once for each encoding of the files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.keys.arguments import encode_keys, keys_in_list
from lookupstore.keys.schema import KeySchema


class EncodedKeys:
    """The keys of a call.

    Args:
        keys: Keys in any form of `lookupstore.keys.arguments`.
        schema: Schema that holds the keys of all files.
    """

    def __init__(self, keys: Any, schema: KeySchema) -> None:
        self._keys = keys_in_list(keys)
        self._schema = schema
        self._encoded: dict[KeySchema, pa.Array] = {}
        self._bounds: dict[KeySchema, tuple[bytes, bytes] | None] = {}

    def __len__(self) -> int:
        first = next(iter(self._encoded.values()), None)
        return len(self.of(self._schema) if first is None else first)

    def of(self, schema: KeySchema) -> pa.Array:
        """Return the keys as bytes in an encoding, null if it cannot encode them.

        Raises the errors of `lookupstore.keys.arguments.encode_keys`.
        """
        if schema not in self._encoded:
            self._encoded[schema] = encode_keys(self._keys, schema)
        return self._encoded[schema]

    def bounds(self, schema: KeySchema) -> tuple[bytes, bytes] | None:
        """Return the least and the greatest of the encoded keys. None: all are null.

        Raises the errors of `of`.
        """
        if schema not in self._bounds:
            bounds = pc.min_max(self.of(schema)).as_py()
            least, greatest = bounds["min"], bounds["max"]
            self._bounds[schema] = None if least is None else (least, greatest)
        return self._bounds[schema]

    def is_apart(self, lookup: FileLookup) -> bool:
        """Return whether all keys of a file are less or greater than these keys."""
        bounds = self.bounds(lookup.plan.build.key_schema)
        return bounds is None or lookup.is_apart(*bounds)

    def may_be_in(self, lookup: FileLookup) -> bool:
        """Return whether one of the keys is in the range of the keys of a file."""
        return not self.is_apart(lookup) and lookup.may_have(self.of(lookup.plan.build.key_schema))

    def is_ruled_out(self, lookup: FileLookup) -> bool:
        """Return whether a slow test shows that a file has no key. There is no such test."""
        return False
