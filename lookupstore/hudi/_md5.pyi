from typing import Any

import numpy as np
import numpy.typing as npt

from lookupstore._arrow import BinaryColumn

def md5(data: bytes) -> bytes: ...
def md5_numbers(keys: BinaryColumn) -> npt.NDArray[np.int64]: ...

__test__: dict[str, Any]
