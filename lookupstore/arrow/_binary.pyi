from typing import Any

import pyarrow as pa
from typing_extensions import disjoint_base

NO_BYTES: pa.Buffer

@disjoint_base
class BinaryColumn:
    def __init__(self, values: Any, name: str = "keys") -> None: ...
    def __len__(self) -> int: ...
    def hash(self) -> None: ...
    @property
    def array(self) -> pa.Array: ...

def as_binary(values: Any, name: str = "keys") -> pa.Array: ...

__test__: dict[str, Any]
