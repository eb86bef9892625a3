from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import Self, disjoint_base

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._answers import Answers
from lookupstore.sst._layer import Filters, Layer

def values_at(layer: Layer, keys: BinaryColumn) -> pa.LargeBinaryArray: ...
def contains(layer: Layer, keys: BinaryColumn) -> pa.BooleanArray: ...
def answer(
    layer: Layer,
    keys: BinaryColumn,
    answers: Answers,
    newer: Sequence[Layer] = (),
    above: Filters | None = None,
) -> None: ...

@disjoint_base
class Batch:
    def __new__(
        cls,
        layer: Layer,
        keys: BinaryColumn,
        taker: Answers,
        newer: Sequence[Layer] = (),
        above: Filters | None = None,
    ) -> Self: ...

__test__: dict[str, Any]
