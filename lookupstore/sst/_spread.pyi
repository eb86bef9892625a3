from typing import Any, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from lookupstore.sst._answers import Answers

@final
class Spread:
    def __new__(cls, length: int, values: bool = True) -> Self: ...
    @property
    def length(self) -> int: ...
    def part(self, places: npt.NDArray[np.uint32]) -> SpreadPart: ...
    def answer(self, answers: Answers) -> None: ...

@final
class SpreadPart(Answers):
    def __new__(cls, length: int, spread: Spread, places: npt.NDArray[np.uint32]) -> Self: ...

__test__: dict[str, Any]
