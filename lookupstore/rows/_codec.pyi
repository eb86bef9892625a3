from typing import Any, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import Self

from lookupstore.sst._answers import Answers

class BadRowError(Exception): ...

@final
class Columns(Answers):
    def __new__(
        cls,
        length: int,
        places: list[tuple[int, int | None, int | None, int | None, bool]],
        fixed_size: int,
        bitmap_size: int,
        last: int | None,
    ) -> Self: ...
    def read(self, rows: pa.Array) -> None: ...
    def found(self) -> pa.BooleanArray: ...
    def cells(self) -> list[pa.Array]: ...

def pack(
    cells: list[pa.Array],
    places: list[tuple[int, int | None]],
    length: int,
    fixed_size: int,
) -> pa.Array: ...
def read_elements(rows: pa.Array) -> pa.Array: ...
def is_ascii(data: pa.Buffer) -> bool: ...
def pack_lists(
    lists: pa.Array, offsets: npt.NDArray[np.int64], elements: pa.Array, counted: bool
) -> pa.Array: ...
def split_lists(
    payloads: pa.Array, count: int | None, element_width: int | None
) -> tuple[pa.Array, pa.Array]: ...

__test__: dict[str, Any]
