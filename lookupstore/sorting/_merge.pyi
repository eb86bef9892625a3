from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import Self, disjoint_base

@disjoint_base
class SortedRuns:
    count: int
    def __new__(cls, runs: list[list[pa.Array]]) -> Self: ...
    def cut(
        self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], bound: bytes
    ) -> npt.NDArray[np.int64]: ...
    def sort(
        self, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_] | None]: ...
    def take(
        self,
        starts: npt.NDArray[np.int64],
        stops: npt.NDArray[np.int64],
        order: npt.NDArray[np.uint32],
        column: int,
    ) -> pa.Array: ...

__test__: dict[str, Any]
