from typing import Any, final

import pyarrow as pa
from typing_extensions import Self, disjoint_base

@disjoint_base
class Answers:
    def __new__(cls, length: int, *given: Any) -> Self: ...
    @property
    def missing(self) -> int: ...

@final
class Found(Answers):
    def __new__(cls, length: int) -> Self: ...
    def array(self) -> pa.BooleanArray: ...

@final
class Values(Answers):
    def __new__(cls, length: int) -> Self: ...
    def array(self) -> pa.LargeBinaryArray: ...

__test__: dict[str, Any]
