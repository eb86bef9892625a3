"""Find different keys of a write with the same record key text, in bounded memory.

Only ambiguous keys are kept, sorted by partition path, record key and values. Keys with the same
path and record key must have the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.hudi.keys.ambiguous_keys import (
    ambiguous_keys,
    exact_values,
    same_text_error,
    shown_values,
)
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting.runs import RunSorter

_TEXT = pa.string()
# Columns: partition path and record key, values in an unambiguous form, number of the row.
_FIELDS = [pa.field("path", _TEXT), pa.field("key", _TEXT), pa.field("values", _TEXT)]
_KEPT = RowSchema(pa.schema([*_FIELDS, pa.field("number", pa.int64())]))
_ORDER = KeySchema(pa.schema(_FIELDS))


class KeyTexts:
    """A check that different keys of a write have different record key texts.

    Args:
        fields: Names of the key columns.
        is_global: Whether keys of several partitions are also compared.
        memory: Size of the ambiguous keys kept in memory, in bytes. Further keys are spilled.
        folder: Folder to spill keys to.
    """

    def __init__(self, fields: Sequence[str], *, is_global: bool, memory: int, folder: str) -> None:
        self._fields = tuple(fields)
        self._is_global = is_global
        self._memory = memory
        self._folder = folder

    def watched(self, parts: Iterable[Incoming]) -> Iterator[Incoming]:
        """Yield rows in their order, and check their keys after the last row.

        Raises:
            ValueError: If two keys have the same record key text, and different values.
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
        """Check the keys of rows in memory; see `watched`."""
        for _ in self.watched([rows]):
            continue

    def _ambiguous(self, part: Incoming, first: int) -> pa.RecordBatch | None:
        """Return the ambiguous keys of some rows, in the form of a sorter."""
        which = ambiguous_keys(part.rows, self._fields)
        if not len(which):
            return None
        at = pa.array(which)
        paths = part.partitions.take(at).cast(_TEXT)
        if self._is_global:
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
        """Check sorted keys, without repeated ones."""
        last: list[pa.RecordBatch] = []
        for batch in batches:
            rows = pa.Table.from_batches([*last, _KEPT.unpack(batch.column("value"))])
            before, after = rows.slice(0, rows.num_rows - 1), rows.slice(1)
            same = pc.and_(*(pc.equal(before[name], after[name]) for name in ("path", "key")))
            at = pc.index(same, True).as_py()
            if at >= 0:
                one, other = sorted(rows.slice(at, 2).to_pylist(), key=itemgetter("number"))
                shown = (
                    f"row {each['number'] + 1}, {shown_values(each['values'], self._fields)}"
                    for each in (one, other)
                )
                raise same_text_error(one["key"], *shown)
            last = rows.slice(rows.num_rows - 1).to_batches()
