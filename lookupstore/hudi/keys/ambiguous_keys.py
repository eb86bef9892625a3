"""Keys of several columns that are different, and have one text: Hudi takes their rows for one.

`a:x,b:y,b:z` is the record key of `("x,b:y", "z")` and of `("x", "y,b:z")`, and that of a null is
the one of the text `__null__`. Nothing in a value is escaped, as in Hudi, so that such rows are
refused where two of them meet. Most keys cannot be such: these are told by their columns alone.
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
    """Return the numbers of the rows whose record key may be that of other values, too.

    Args:
        rows: with the columns of the key.
        fields: names of these.

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
        # Most columns have none of these texts anywhere, which one look at all bytes tells.
        for text in texts:
            if text.encode() in content:
                there = pc.fill_null(pc.match_substring(column, text), False)
                found |= there.to_numpy(zero_copy_only=False)
    return np.flatnonzero(found)


def exact_values(rows: pa.Table, fields: Sequence[str]) -> pa.Array:
    """Return for each row a text that only rows with the same values have.

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
    """Return the error of two rows that are different, and have one record key.

    Args:
        key: the record key.
        one: what the one is.
        other: what the other is.
    """
    return ValueError(
        f"{one}, and {other}, have different keys and one record key, {key!r}: Hudi would keep one "
        "of them; change a value, or write them to a table whose key has one column"
    )


def _plain(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    plain = unwrap(concat(column.chunks, column.type))
    return plain.cast(_TEXT) if pa.types.is_large_string(plain.type) else plain
