from typing import Any

import pyarrow as pa
from typing_extensions import Self, disjoint_base

from lookupstore.compacted.schema import Cell

class CompactedRowError(Exception): ...
class BadCellError(Exception): ...

@disjoint_base
class Tree:
    def __new__(cls, cell: Cell) -> Self: ...
    def read(
        self, values: pa.Array, widths: list[int]
    ) -> tuple[list[pa.Array], list[pa.Buffer]]: ...
    def write(
        self, arrays: list[pa.Array], length: int, tails: list[tuple[pa.Buffer, int]]
    ) -> pa.LargeBinaryArray: ...

def read_positions(values: pa.Array) -> pa.Buffer: ...
def write_positions(buffer: pa.Buffer, count: int) -> pa.LargeBinaryArray: ...

__test__: dict[str, Any]
