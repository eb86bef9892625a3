"""Different keys of several columns with the same text, which Hudi confuses.

`a:x,b:y,b:z` is the record key of `("x,b:y", "z")` and of `("x", "y,b:z")`, and the key of a null
equals that of the text `__null__`. Like Hudi, lookupstore escapes nothing in a value. Therefore two
such rows raise an error if they meet. Most keys cannot be ambiguous; a check of their columns alone
shows this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat, unwrap
from lookupstore.hudi.keys.key_generator import EMPTY_TEXT, NULL_TEXT

_TEXT = pa.string()
_NULL = "n"


def ambiguous_keys(rows: pa.Table, fields: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows whose record key other values may also have.

    Args:
        rows: Rows with the columns of the key.
        fields: Names of the columns of the key.

    >>> ambiguous_keys(pa.table({"a": ["x", "x,b:y", "x"], "b": [None, "z", "z"]}), ["a", "b"])
    array([0, 1])
    """
    if len(fields) < 2 or not rows.num_rows:
        return np.empty(0, np.int64)
    found = np.zeros(rows.num_rows, bool)
    texts = [NULL_TEXT, EMPTY_TEXT, *(f",{name}:" for name in fields[1:])]
    for name in fields:
        column = _plain(rows, name)
        if column.null_count:
            found |= column.is_null().to_numpy(zero_copy_only=False)
        if not pa.types.is_string(column.type):
            continue
        empty = pc.equal(pc.binary_length(column), 0)
        if empty.true_count:
            found |= pc.fill_null(empty, True).to_numpy(zero_copy_only=False)
        data = column.buffers()[2]
        content = b"" if data is None else data.to_pybytes()
        # Most columns have none of these texts, which a search in all bytes shows.
        for text in texts:
            if text.encode() in content:
                there = pc.fill_null(pc.match_substring(column, text), False)
                found |= there.to_numpy(zero_copy_only=False)
    return np.flatnonzero(found)


def exact_values(rows: pa.Table, fields: Sequence[str]) -> pa.Array:
    """Return a text for each row, which only rows with the same values have.

    >>> exact_values(pa.table({"a": ["x,b", None], "b": ["", "z"]}), ["a", "b"]).to_pylist()
    ['3:x,b0:', 'n1:z']
    """
    pieces = []
    for name in fields:
        text = _plain(rows, name).cast(_TEXT)
        length = pc.utf8_length(text).cast(_TEXT)
        pieces.append(pc.fill_null(pc.binary_join_element_wise(length, text, ":"), _NULL))
    return pc.binary_join_element_wise(*pieces, "")


def shown_values(text: str, fields: Sequence[str]) -> str:
    """Return values as errors show them, from a text of `exact_values`.

    >>> shown_values("3:x,bn", ["a", "b"])
    "(a='x,b', b=None)"
    """
    values: list[str | None] = []
    while text:
        if text[0] == _NULL:
            values.append(None)
            text = text[1:]
            continue
        length, _, text = text.partition(":")
        values.append(text[: int(length)])
        text = text[int(length) :]
    pairs = (f"{name}={value!r}" for name, value in zip(fields, values, strict=True))
    return f"({', '.join(pairs)})"


def same_text_error(key: str, one: str, other: str) -> ValueError:
    """Return the error for two different rows with the same record key.

    Args:
        key: Record key of both rows.
        one: Description of the first row.
        other: Description of the second row.
    """
    return ValueError(
        f"{one}, and {other}, have different keys and one record key, {key!r}: Hudi would keep one "
        "of them; change a value, or write them to a table whose key has one column"
    )


def _plain(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    plain = unwrap(concat(column.chunks, column.type))
    return plain.cast(_TEXT) if pa.types.is_large_string(plain.type) else plain
