from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn

KINDS: dict[str, int]

def encode(
    codes: list[tuple[int, int, bool]],
    columns: list[pa.Array],
    length: int,
    width: int | None,
) -> pa.Array: ...
def encode_alone(
    code: tuple[int, int, bool], array: pa.Array, kind: pa.DataType
) -> pa.FixedSizeBinaryArray: ...
def decode(
    codes: list[tuple[int, int, bool]],
    names: list[str],
    keys: pa.Array,
    width: int | None,
) -> list[pa.Array]: ...
def bucket_of(
    values: BinaryColumn | pa.Array | pa.ChunkedArray | Sequence[bytes], buckets: int
) -> npt.NDArray[np.uint32]: ...
def by_bucket(
    values: BinaryColumn | pa.Array | pa.ChunkedArray | Sequence[bytes], buckets: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]: ...

__test__: dict[str, Any]
