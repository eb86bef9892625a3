from typing import Any

from typing_extensions import Self, disjoint_base

from lookupstore.sst._block import Handles
from lookupstore.sst._map import FileMap
from lookupstore.sst.zstd import Frames

@disjoint_base
class MappedBlocks:
    def __new__(cls, map: FileMap, handles: Handles, most: int) -> Self: ...

@disjoint_base
class MappedFrames:
    def __new__(cls, map: FileMap, handles: Handles, frames: Frames, most: int) -> Self: ...

__test__: dict[str, Any]
