"""Keys of several columns that are different, and have one text: Hudi takes their rows for one.

`a:x,b:y,b:z` is the record key of `("x,b:y", "z")` and of `("x", "y,b:z")`, and that of a null is
the one of the text `__null__`. Nothing in a value is escaped, as in Hudi, so that such rows are
refused where two of them meet. Most keys cannot be such: these are told by their columns alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat, unwrap
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.keys.key_generator import EMPTY_TEXT, NULL_TEXT
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting.runs import RunSorter

_TEXT = pa.string()
# Partition path and record key, the values in a form that no others share, and the row's number.
_FIELDS = [pa.field("path", _TEXT), pa.field("key", _TEXT), pa.field("values", _TEXT)]
_KEPT = RowSchema(pa.schema([*_FIELDS, pa.field("number", pa.int64())]))
_ORDER = KeySchema(pa.schema(_FIELDS))
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


class KeyTexts:
    """The ambiguous keys of a write, of which no two may have one text.

    Args:
        fields: names of the key columns.
        everywhere: whether keys of several partitions count as one, too.
        memory: bytes of such keys that are kept; more are spilled.
        folder: where to spill.
    """

    def __init__(
        self, fields: Sequence[str], *, everywhere: bool, memory: int, folder: str
    ) -> None:
        self._fields = tuple(fields)
        self._everywhere = everywhere
        self._memory = memory
        self._folder = folder

    def watched(self, parts: Iterable[Incoming]) -> Iterator[Incoming]:
        """Yield rows as they come, and check them when all have come.

        Raises:
            ValueError: two have one text, and different values.
        """
        if len(self._fields) < 2:
            yield from parts
            return
        first = 0
        sorter: RunSorter | None = None
        with ExitStack() as stack:
            for part in parts:
                batch = self._ambiguous(part, first)
                if batch is not None:
                    if sorter is None:
                        sorter = RunSorter("first", memory=self._memory, folder=self._folder)
                        stack.enter_context(sorter)
                    sorter.add(batch)
                first += len(part)
                yield part
            if sorter is not None:
                self._check(sorter.sorted_batches(0))

    def check(self, rows: Incoming) -> None:
        """Check rows that are all there; see `watched`."""
        for _ in self.watched([rows]):
            continue

    def _ambiguous(self, part: Incoming, first: int) -> pa.RecordBatch | None:
        """Return the ambiguous keys among some rows, as a sorter takes them."""
        which = ambiguous_keys(part.rows, self._fields)
        if not len(which):
            return None
        at = pa.array(which)
        paths = part.partitions.take(at).cast(_TEXT)
        if self._everywhere:
            paths = pa.repeat(pa.scalar("", _TEXT), len(which))
        columns = [
            paths,
            concat(part.keys.take(at).chunks, _TEXT),
            exact_values(part.rows.select(self._fields).take(at), self._fields),
            pa.array(which + first),
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=_KEPT.schema)
        sorted_by = _ORDER.encode(rows.select(_ORDER.names)).cast(pa.large_binary())
        return pa.record_batch({"key": sorted_by, "value": _KEPT.pack(rows)})

    def _check(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Check keys that are sorted by what they share, of which equal ones are one."""
        last: list[pa.RecordBatch] = []
        for batch in batches:
            rows = pa.Table.from_batches([*last, _KEPT.unpack(batch.column("value"))])
            before, after = rows.slice(0, rows.num_rows - 1), rows.slice(1)
            same = pc.and_(*(pc.equal(before[name], after[name]) for name in ("path", "key")))
            at = pc.index(same, True).as_py()
            if at >= 0:
                one, other = sorted(rows.slice(at, 2).to_pylist(), key=itemgetter("number"))
                shown = (
                    f"row {each['number']}, {shown_values(each['values'], self._fields)}"
                    for each in (one, other)
                )
                raise same_text_error(one["key"], *shown)
            last = rows.slice(rows.num_rows - 1).to_batches()


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
