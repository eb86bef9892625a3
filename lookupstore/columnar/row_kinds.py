"""Row kinds of Apache Paimon and Apache Flink, as numbers in a column of a file.

The numbers are 0 (+I), 1 (-U), 2 (+U) and 3 (-D). -U and -D mark a key as deleted.

Source: RowKind of Apache Paimon.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.errors import CorruptionError

#: Row kind with which a deleted row is written.
DELETED = 3
_GREATEST = 3


def are_tombstones(kinds: pa.Array, path: str) -> npt.NDArray[np.bool_]:
    """Return which row kinds mark a key as deleted.

    Args:
        kinds: Row kinds: integers of length n.
        path: Path of their file, for errors.

    Returns:
        Whether each row kind marks a deleted key: bool array of length n.

    Raises:
        CorruptionError: If a row kind is null, or not one of the four.

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
