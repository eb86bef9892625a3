from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import Self, disjoint_base

from lookupstore.sst._block import Block
from lookupstore.sst._filter import Filter
from lookupstore.sst._frames import MappedBlocks, MappedFrames
from lookupstore.sst._map import FileMap
from lookupstore.sst._table import BlockTable, FileTable

_D = TypeVar("_D")

GROUP_BYTES: int

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
    def prepare(self, number: int) -> bool: ...
    def settle(self, records: int) -> bool: ...
    def all_blocks(self) -> list[Block]: ...

__test__: dict[str, Any]
