from typing import Any, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import Self

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._answers import Answers
from lookupstore.sst._layer import Layer
from lookupstore.sst._owners import OwnedFiles

class SeveralRowsError(Exception): ...

def pass_rows(
    layer: Layer, keys: BinaryColumn, answers: Answers, owned: OwnedFiles | None = None
) -> None: ...

@final
class FileHits:
    def __new__(cls, length: int) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def length(self) -> int: ...
    def find(
        self, layer: Layer, keys: BinaryColumn, first: int = 0, owned: OwnedFiles | None = None
    ) -> None: ...
    def keys(self) -> pa.UInt32Array: ...
    def files(self) -> pa.UInt32Array: ...
    def by_key(self) -> pa.Int64Array | None: ...
    def read(self, hits: npt.NDArray[np.int64], answers: Answers) -> None: ...

@final
class HitCandidates:
    def __new__(
        cls,
        hits: FileHits,
        layer: Layer,
        keys: BinaryColumn,
        first: int,
        owned: OwnedFiles | None = None,
    ) -> Self: ...

@final
class CandidateAnswers(Answers):
    def __new__(cls, length: int, candidates: HitCandidates) -> Self: ...

__test__: dict[str, Any]
