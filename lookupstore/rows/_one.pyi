from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import Self, disjoint_base

@disjoint_base
class RowDecoder:
    others: list[str]
    def __new__(
        cls,
        fields: Sequence[pa.Field],
        places: Sequence[tuple[int, int | None, int | None, int | None, bool]],
        inside: Sequence[RowDecoder | None],
        fixed_size: int,
        last: int | None,
    ) -> Self: ...
    def decode(self, row: bytes) -> dict[str, Any] | None: ...
    def decode_all(self, rows: pa.Array) -> list[dict[str, Any]] | None: ...

__test__: dict[str, Any]
