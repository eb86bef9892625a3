from collections.abc import Callable
from typing import Any

from typing_extensions import Self, disjoint_base

from lookupstore.sst._block import Block, Handles
from lookupstore.sst._frames import MappedBlocks, MappedFrames
from lookupstore.sst._map import FileMap
from lookupstore.sst._table import BlockTable, FileTable

GROUP_BYTES: int

@disjoint_base
class DataBlocks:
    def __new__(
        cls,
        index: Block,
        file: FileTable,
        load: Callable[[int], Block],
        map: FileMap | None = None,
        check: Callable[[], None] | None = None,
        fill: Callable[[list[int]], None] | None = None,
        frames: MappedFrames | None = None,
        plain: MappedBlocks | None = None,
        is_here: Callable[[], bool] | None = None,
        handles: Handles | None = None,
        records: int = 0,
        drop_scattered: Callable[[], None] | None = None,
        is_cached: Callable[[], bool | None] | None = None,
    ) -> Self: ...
    @property
    def table(self) -> BlockTable: ...
    @property
    def in_place(self) -> bool: ...
    @property
    def is_copy(self) -> bool: ...
    @property
    def map(self) -> FileMap | None: ...
    @property
    def file(self) -> FileTable: ...
    @property
    def records(self) -> int: ...
    @property
    def blocks_read(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    def is_prepared(self, number: int) -> bool: ...
    def prepare(self, number: int) -> bool: ...
    def scanned(self, numbers: list[int], most: int) -> list[Block]: ...
    def all_blocks(self) -> list[Block]: ...

__test__: dict[str, Any]
