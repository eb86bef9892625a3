from typing import Any

from typing_extensions import Self, disjoint_base

from lookupstore.sst._lookup import Lookup

MOST_RUNS: int
MOST_BYTES: int

@disjoint_base
class Changes:
    def __new__(cls, file: Lookup, runs: list[Lookup]) -> Self: ...
    @property
    def runs(self) -> list[Lookup]: ...

__test__: dict[str, Any]
