from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import Self, disjoint_base

def argsort(values: Any) -> npt.NDArray[np.uint32]: ...
def sort_keys(
    values: Any,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_] | None]: ...
def is_ascending(values: Any) -> bool: ...
def upper_bound(values: Any, key: bytes) -> int: ...

@disjoint_base
class Scatter:
    def __new__(cls, cuts: Any) -> Self: ...
    def rows(
        self, values: Any
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64], npt.NDArray[np.bool_]]: ...

@disjoint_base
class Gather:
    def __new__(cls, arrays: list[pa.Array]) -> Self: ...
    def take(self, rows: npt.NDArray[np.int64]) -> pa.Array: ...

__test__: dict[str, Any]
