from collections.abc import Container, Iterable, Sequence
from typing import Any, final

import pyarrow as pa
from typing_extensions import Self

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._changes import Changes
from lookupstore.sst._filter import Filter
from lookupstore.sst._lookup import Lookup

@final
class Filters:
    def __new__(cls, filters: Iterable[Filter | None]) -> Self: ...

@final
class FileRanges:
    def __new__(cls, layers: list[list[tuple[bytes, bytes]]]) -> Self: ...
    @property
    def count(self) -> int: ...
    @property
    def files(self) -> int: ...
    def owners(self, keys: BinaryColumn) -> pa.Buffer: ...

@final
class Layer:
    def __new__(
        cls,
        lookups: tuple[Lookup | None, ...],
        runs: Container[int] = frozenset(),
        changes: Sequence[Changes | None] | None = None,
        ranges: FileRanges | None = None,
    ) -> Self: ...
    @property
    def ranges(self) -> FileRanges | None: ...
    @property
    def lookups(self) -> tuple[Lookup | None, ...]: ...

__test__: dict[str, Any]
