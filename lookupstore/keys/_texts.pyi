from collections.abc import Callable
from typing import Any

import pyarrow as pa

def text_array(
    values: list[Any], is_missing: Callable[[Any], Any]
) -> pa.LargeStringArray | None: ...

__test__: dict[str, Any]
