from typing import Any

import pyarrow as pa

def first_not_utf8(values: pa.Array) -> int: ...

__test__: dict[str, Any]
