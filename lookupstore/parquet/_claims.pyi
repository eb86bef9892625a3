from typing import Any

import pyarrow as pa

def chunk_claims(
    data: bytes,
    path: str,
    offset: int,
    size: int,
    *,
    values: int,
    texts: bool,
    most: int,
    codec: pa.Codec | None,
) -> tuple[int, int, int, int]: ...

__test__: dict[str, Any]
