from typing import Any

import numpy as np
import numpy.typing as npt

from lookupstore.arrow._binary import BinaryColumn

def md5_numbers(keys: BinaryColumn) -> npt.NDArray[np.int64]: ...

__test__: dict[str, Any]
