from typing import Any, TypeVar

from typing_extensions import Self, disjoint_base

from lookupstore.sst._block import Block
from lookupstore.sst._data_blocks import DataBlocks
from lookupstore.sst._filter import Filter

_D = TypeVar("_D")

@disjoint_base
class Lookup:
    def __new__(cls, data: DataBlocks, filter: Filter) -> Self: ...
    @property
    def data(self) -> DataBlocks: ...
    @property
    def index(self) -> Block: ...
    @property
    def filter(self) -> Filter: ...
    @property
    def filter_negatives(self) -> int: ...
    @property
    def block_uses(self) -> int: ...
    def get(self, key: bytes, default: _D | None = None) -> bytes | _D | None: ...

__test__: dict[str, Any]
