from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import Self, disjoint_base

MOST_COLUMNS: int

@disjoint_base
class Boundaries:
    def __new__(cls, values: pa.Array) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def values(self) -> pa.Array: ...
    def intervals(self, values: pa.Array) -> npt.NDArray[np.uint32]: ...
    def ranks(
        self,
        values: pa.Array,
        of_interval: npt.NDArray[np.uint32],
        out: npt.NDArray[np.uint32],
    ) -> None: ...
    def rest(self, values: pa.Array) -> pa.Array: ...

def stretch(
    values: pa.Array, low: bytes, high: bytes, bits: int, out: npt.NDArray[np.uint32]
) -> None: ...
def stretch_doubles(
    values: pa.Array, low: float, high: float, bits: int, out: npt.NDArray[np.uint32]
) -> None: ...
def positions(coordinates: npt.NDArray[np.uint32], bits: int, *, hilbert: bool) -> pa.Array: ...

__test__: dict[str, Any]
