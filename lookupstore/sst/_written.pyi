from collections.abc import Callable, Sequence
from typing import Any

from lookupstore.sst._block import BlockBuilder
from lookupstore.sst._load import BlockLoad

def seal_blocks(load: BlockLoad, checksum: Callable[[memoryview, int], int]) -> list[int]: ...
def pack_blocks(
    load: BlockLoad,
    bodies: Sequence[Any],
    codec: int,
    has_lengths: bool,
    checksum: Callable[[memoryview, int], int],
) -> tuple[memoryview, list[int], list[int]]: ...
def add_handles(index: BlockBuilder, load: BlockLoad, offset: int, sizes: list[int]) -> None: ...

__test__: dict[str, Any]
