from collections.abc import Callable, Sequence
from typing import Any

from lookupstore.sst._block import BlockBuilder

def pack_blocks(
    blocks: list[bytes],
    bodies: Sequence[Any],
    codec: int,
    has_lengths: bool,
    checksum: Callable[[memoryview, int], int],
) -> tuple[memoryview, list[int], list[int]]: ...
def add_handles(
    index: BlockBuilder, last_keys: list[bytes], offset: int, sizes: list[int]
) -> None: ...

__test__: dict[str, Any]
