from typing import Any

from typing_extensions import Self, disjoint_base

from lookupstore.sst._layer import Layer

@disjoint_base
class Part:
    def __new__(cls, missing: MissingBlocks) -> Self: ...
    def visit(self) -> None: ...

@disjoint_base
class MissingBlocks:
    def __new__(
        cls,
        layer: Layer,
        tables: list[Any],
        arenas: list[Any],
        call: int,
        length: int,
        piece: int,
    ) -> Self: ...

__test__: dict[str, Any]
