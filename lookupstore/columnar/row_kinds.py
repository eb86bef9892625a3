"""Row kinds of Apache Paimon and Apache Flink, as the column of a file has them: 0 +I, 1 -U, 2 +U,
3 -D.

-U and -D say that there is no row at the key any more.

Source: RowKind of Apache Paimon.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.errors import CorruptionError

#: What a deleted row is written as.
DELETED = 3
_GREATEST = 3


def are_tombstones(kinds: pa.Array, path: str) -> npt.NDArray[np.bool_]:
    """Return which row kinds say that a key is gone.

    Args:
        kinds: integers of length n.
        path: of their file, for errors.

    Returns:
        bool array of length n.

    Raises:
        CorruptionError: one is null, or none of the four.

    >>> are_tombstones(pa.array([0, 1, 2, 3], pa.int8()), "a.parquet").tolist()
    [False, True, False, True]
    """
    expected = f"row kinds from 0 to {_GREATEST}"
    if kinds.null_count:
        raise CorruptionError(path, 0, expected, None)
    numbers = kinds.to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((numbers < 0) | (numbers > _GREATEST))
    if len(wrong):
        raise CorruptionError(path, 0, expected, int(numbers[wrong[0]]))
    gone: npt.NDArray[np.bool_] = (numbers & 1) == 1
    return gone
