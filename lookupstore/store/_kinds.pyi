from typing import Any

import numpy as np
import numpy.typing as npt

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.int64]

def join_kinds(
    offsets: _Offsets, rows: _Bytes, kinds: _Bytes, without_row: int
) -> tuple[_Offsets, _Bytes]: ...
def cut_kinds(offsets: _Offsets, values: _Bytes) -> tuple[_Bytes, _Offsets, _Bytes]: ...

__test__: dict[str, Any]
