from typing import Any

__test__: dict[str, Any]
