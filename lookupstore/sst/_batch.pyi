from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, TypeVar, final

import pyarrow as pa
from typing_extensions import Self, disjoint_base

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._answers import Answers
from lookupstore.sst._block import Block
from lookupstore.sst._changes import Changes
from lookupstore.sst._filter import Filter
from lookupstore.sst._frames import MappedBlocks, MappedFrames
from lookupstore.sst._map import FileMap
from lookupstore.sst._table import BlockTable, FileTable

_D = TypeVar("_D")

GROUP_BYTES: int

@disjoint_base
class Scratch:
    def __new__(cls, length: int) -> Self: ...

@disjoint_base
class Lookup:
    def __new__(
        cls,
        index: Block,
        filter: Filter,
        file: FileTable,
        load: Callable[[int], Block],
        map: FileMap | None = None,
        check: Callable[[], None] | None = None,
        fill: Callable[[list[int]], None] | None = None,
        frames: MappedFrames | None = None,
        plain: MappedBlocks | None = None,
    ) -> Self: ...
    @property
    def index(self) -> Block: ...
    @property
    def filter(self) -> Filter: ...
    @property
    def table(self) -> BlockTable: ...
    @property
    def in_place(self) -> bool: ...
    @property
    def is_copy(self) -> bool: ...
    @property
    def map(self) -> FileMap | None: ...
    @property
    def filter_negatives(self) -> int: ...
    @property
    def blocks_read(self) -> int: ...
    @property
    def block_uses(self) -> int: ...
    def get(self, key: bytes, default: _D | None = None) -> bytes | _D | None: ...
    def all_blocks(self) -> list[Block]: ...
    def values(self, keys: BinaryColumn) -> pa.LargeBinaryArray: ...
    def contains(self, keys: BinaryColumn) -> pa.BooleanArray: ...

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
