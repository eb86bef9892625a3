from array import array
from typing import Any

from lookupstore.parquet.footer import Leaf

class RowGroupsError(ValueError):
    fault: str
    place: int
    def __init__(self, fault: str, place: int = 0) -> None: ...

def checked_groups(
    footer: bytes, start: int, kind: int, leaves: list[Leaf], first: int, last: int
) -> tuple[list[tuple[int, int, int]], array[int]]: ...

__test__: dict[str, Any]
