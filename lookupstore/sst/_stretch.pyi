from typing import Any, final

from typing_extensions import Self, disjoint_base

from lookupstore.sst._layer import Filters

@disjoint_base
class Scratch:
    def __new__(cls, length: int) -> Self: ...

@final
class KeyStretch:
    def __new__(cls, filters: Filters) -> Self: ...

__test__: dict[str, Any]
