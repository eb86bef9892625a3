from collections.abc import Callable
from typing import Any

import pyarrow as pa
from typing_extensions import Self, disjoint_base

from lookupstore._arrow import BinaryColumn
from lookupstore.sst._block import Block
from lookupstore.sst._filter import Filter

GROUP_BYTES: int

@disjoint_base
class Batch:
    def __new__(cls, keys: BinaryColumn, index: Block, filter: Filter, repeats: bool) -> Self: ...
    def search(self, load: Callable[[int], Block]) -> None: ...
    def values(self) -> pa.LargeBinaryArray: ...
    def found(self) -> pa.BooleanArray: ...

__test__: dict[str, Any]
