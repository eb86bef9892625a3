from typing import Any, final

from typing_extensions import disjoint_base

@final
@disjoint_base
class RowEnds:
    def __init__(self, separator: str) -> None: ...
    def move(self, block: bytes) -> int: ...
    @property
    def is_wrong(self) -> bool: ...
    @property
    def is_open(self) -> bool: ...

__test__: dict[str, Any]
