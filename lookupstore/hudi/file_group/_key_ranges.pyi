from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self, disjoint_base

from lookupstore.arrow._binary import BinaryColumn

def high_characters(keys: BinaryColumn) -> npt.NDArray[np.bool_]: ...

@disjoint_base
class Ranges:
    def __new__(cls, least: BinaryColumn, greatest: BinaryColumn) -> Self: ...
    def __len__(self) -> int: ...
    def spans(
        self, keys: BinaryColumn, order: npt.NDArray[np.uint32], *, tree: bool
    ) -> npt.NDArray[np.int64]: ...

__test__: dict[str, Any]
