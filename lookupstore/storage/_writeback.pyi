from typing import Any

def start_writeback(descriptor: int, offset: int, size: int) -> None: ...

__test__: dict[str, Any]
