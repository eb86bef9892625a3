from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self, disjoint_base

from lookupstore.arrow._binary import BinaryColumn

@disjoint_base
class KeyTable:
    def __new__(cls, keys: BinaryColumn) -> Self: ...
    @property
    def first(self) -> npt.NDArray[np.uint32] | None: ...
    def find(self, asked: BinaryColumn) -> npt.NDArray[np.int64]: ...

__test__: dict[str, Any]
