from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from typing_extensions import Self, disjoint_base

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._answers import Answers
from lookupstore.sst._block import Block
from lookupstore.sst._filter import Filter
from lookupstore.sst._map import FileMap
from lookupstore.sst._table import BlockTable

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
        table: BlockTable,
        load: Callable[[int], Block],
        map: FileMap | None = None,
        check: Callable[[], None] | None = None,
        fill: Callable[[list[int]], None] | None = None,
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
    def filter_negatives(self) -> int: ...
    @property
    def blocks_read(self) -> int: ...
    @property
    def block_uses(self) -> int: ...
    def get(self, key: bytes, default: _D | None = None) -> bytes | _D | None: ...
    def values(self, keys: BinaryColumn) -> pa.LargeBinaryArray: ...
    def contains(self, keys: BinaryColumn) -> pa.BooleanArray: ...
    def answer(
        self,
        keys: BinaryColumn,
        answers: Answers,
        newer: Sequence[Lookup] = (),
        above: Filter | None = None,
        is_run: bool = False,
    ) -> None: ...

@disjoint_base
class Batch:
    def __new__(
        cls,
        lookup: Lookup,
        keys: BinaryColumn,
        taker: Answers,
        newer: Sequence[Lookup] = (),
        above: Filter | None = None,
        is_run: bool = False,
    ) -> Self: ...

__test__: dict[str, Any]
