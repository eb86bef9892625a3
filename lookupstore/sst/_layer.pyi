from collections.abc import Container, Iterable, Sequence
from typing import Any, final

from typing_extensions import Self

from lookupstore.sst._changes import Changes
from lookupstore.sst._filter import Filter
from lookupstore.sst._lookup import Lookup

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

__test__: dict[str, Any]
