from typing import Any, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

class BadRowError(Exception): ...

@final
class Rows:
    def __init__(
        self, rows: pa.Array, fixed_size: int, bitmap_size: int, last: int | None
    ) -> None: ...
    def __len__(self) -> int: ...
    def read_fixed(self, offset: int, width: int, bit: int | None) -> pa.Array: ...
    def read_variable(
        self, offset: int, before: int | None, bit: int | None, narrow: bool
    ) -> pa.Array: ...

def pack(
    cells: list[pa.Array],
    places: list[tuple[int, int | None]],
    length: int,
    fixed_size: int,
) -> pa.Array: ...
def is_ascii(data: pa.Buffer) -> bool: ...
def pack_lists(
    lists: pa.Array, offsets: npt.NDArray[np.int64], elements: pa.Array, counted: bool
) -> pa.Array: ...
def split_lists(
    payloads: pa.Array, count: int | None, element_width: int | None
) -> tuple[pa.Array, pa.Array]: ...

__test__: dict[str, Any]
