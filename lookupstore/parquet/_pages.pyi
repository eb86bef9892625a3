from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import Self, disjoint_base

KINDS: dict[str, int]

def plain_values(values: pa.Array) -> pa.Buffer: ...
def check_pages(
    data: bytes, path: str, offset: int, *, codec: pa.Codec | None = None, most: int = 0
) -> None: ...

@disjoint_base
class PlainChunk:
    def __new__(
        cls,
        data: bytes,
        path: str,
        offset: int,
        *,
        kind: str,
        rows: int,
        most: int,
        optional: bool,
        codec: pa.Codec | None,
    ) -> Self: ...
    def texts(self) -> pa.StringArray: ...
    def replace(
        self, places: npt.NDArray[np.int64], fresh: bytes | pa.Buffer
    ) -> tuple[list[bytes | memoryview], int, bytes | None, bytes | None]: ...

__test__: dict[str, Any]
