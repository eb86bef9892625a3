from typing import Any

from typing_extensions import Self, disjoint_base

from lookupstore.sst._data_blocks import DataBlocks

MOST_RUNS: int
MOST_BYTES: int

@disjoint_base
class Changes:
    def __new__(cls, file: DataBlocks, runs: list[DataBlocks]) -> Self: ...
    @property
    def runs(self) -> list[DataBlocks]: ...

__test__: dict[str, Any]
