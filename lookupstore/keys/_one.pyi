from collections.abc import Sequence
from typing import Any

from typing_extensions import Self, disjoint_base

from lookupstore.keys.fields import KeyField

@disjoint_base
class KeyEncoder:
    width: int
    def __new__(cls, fields: Sequence[KeyField]) -> Self: ...
    def encode(self, key: object) -> Any: ...
    def encode_list(self, keys: list[Any]) -> Any: ...

__test__: dict[str, Any]
