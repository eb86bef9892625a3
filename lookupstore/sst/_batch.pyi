from collections.abc import Container, Iterable, Sequence
from typing import Any, final

import pyarrow as pa
from typing_extensions import Self, disjoint_base

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._answers import Answers
from lookupstore.sst._changes import Changes
from lookupstore.sst._filter import Filter
from lookupstore.sst._lookup import Lookup

@disjoint_base
class Scratch:
    def __new__(cls, length: int) -> Self: ...

@final
class Filters:
    def __new__(cls, filters: Iterable[Filter | None]) -> Self: ...

@final
class Layer:
    def __new__(
        cls,
        lookups: tuple[Lookup | None, ...],
        runs: Container[int] = frozenset(),
        changes: Sequence[Changes | None] | None = None,
    ) -> Self: ...
    @property
    def lookups(self) -> tuple[Lookup | None, ...]: ...

def values_at(lookup: Lookup, keys: BinaryColumn) -> pa.LargeBinaryArray: ...
def contains(lookup: Lookup, keys: BinaryColumn) -> pa.BooleanArray: ...
def answer(
    layer: Layer,
    keys: BinaryColumn,
    answers: Answers,
    newer: Sequence[Layer] = (),
    above: Filters | None = None,
) -> None: ...

@disjoint_base
class Part:
    def __new__(cls, batch: Batch) -> Self: ...
    def visit(self) -> None: ...

@disjoint_base
class Batch:
    def __new__(
        cls,
        layer: Layer,
        keys: BinaryColumn,
        taker: Answers,
        newer: Sequence[Layer] = (),
        above: Filters | None = None,
    ) -> Self: ...

__test__: dict[str, Any]
