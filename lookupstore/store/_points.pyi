from collections.abc import Sequence
from typing import Any, TypeVar, overload

import pyarrow as pa
from typing_extensions import disjoint_base

from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sst._answers import Answers
from lookupstore.store.buckets import BucketReads

_D = TypeVar("_D")

@disjoint_base
class KeyCounts:
    @property
    def keys(self) -> int: ...
    @property
    def missing(self) -> int: ...
    def add(self, keys: int, missing: int) -> None: ...

@disjoint_base
class PointLookups:
    @property
    def _key_counts(self) -> KeyCounts: ...
    def _begin(
        self, keys: KeySchema, rows: RowSchema, buckets: BucketReads, count: int
    ) -> None: ...
    def _end(self) -> None: ...
    def _lookup_each(self, keys: pa.Array, answers: Answers) -> bool: ...
    @overload
    def get(
        self, key: Any, default: None = None, columns: Sequence[str] | None = None
    ) -> dict[str, Any] | None: ...
    @overload
    def get(
        self, key: Any, default: _D, columns: Sequence[str] | None = None
    ) -> dict[str, Any] | _D: ...
    def __contains__(self, key: Any) -> bool: ...

__test__: dict[str, Any]
