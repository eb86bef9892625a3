from typing import Any, final

import pyarrow as pa
from typing_extensions import Self

from lookupstore.sst._answers import Answers

@final
class SmallPlan:
    schema: pa.Schema
    def __new__(
        cls,
        places: list[tuple[int, int | None, int | None, int | None, bool]],
        fixed_size: int,
        bitmap_size: int,
        last: int | None,
        schema: pa.Schema,
    ) -> Self: ...

@final
class SmallRows(Answers):
    def __new__(cls, length: int, plan: SmallPlan) -> Self: ...
    def batch(self) -> pa.RecordBatch | None: ...

def is_plain(kind: pa.DataType) -> bool: ...

__test__: dict[str, Any]
