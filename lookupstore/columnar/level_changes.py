"""The rows of level 0 by key: each key with all of its rows, the oldest row first.

To achieve this, rows are sorted by a key of two fields: the key, and the position of their file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.columnar.lookup_file import LookupFilePlan
from lookupstore.columnar.row_kinds import are_tombstones
from lookupstore.errors import DuplicateKeyError
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting._sort import sort_keys
from lookupstore.sorting.runs import RepeatedKeyError, RunSorter
from lookupstore.source.reading import fitted


@dataclass(frozen=True)
class RowsByKey:
    """Keys in ascending order, with all their rows of level 0.

    Attributes:
        keys: Encoded keys, n of them.
        starts: Position of the first row of each key, ascending from 0.
        rows: Rows of the keys, m of them, the oldest row of each key first: the value columns,
            followed by the row kind if the files have one.
        gone: Whether each of the m rows is a tombstone.
    """

    keys: pa.Array
    starts: npt.NDArray[np.int64]
    rows: pa.RecordBatch
    gone: npt.NDArray[np.bool_]


class LevelChanges:
    """The rows of level 0, sorted within a memory budget.

    Args:
        plans: Plans of the files, the newest first.
        key: Schema that encodes the keys of all files.
        values: Value columns of all files, nullable.
        kinds: Column of the row kinds. None: no file has it.
        memory: Budget for sorting rows, in bytes.
        folder: Folder for spilled rows.
    """

    def __init__(
        self,
        plans: Sequence[LookupFilePlan],
        key: KeySchema,
        values: pa.Schema,
        kinds: pa.Field | None,
        *,
        memory: int,
        folder: str,
    ) -> None:
        self._plans = list(reversed(plans))
        self._key = key
        self._kinds = kinds
        self._rows = RowSchema(values if kinds is None else values.append(kinds))
        kind = pa.large_binary() if key.width is None else pa.binary(key.width)
        self._order = KeySchema(pa.schema({"key": kind, "turn": pa.uint32()}))
        self._sorter = RunSorter("error", memory=memory, folder=folder)

    def batches(self) -> Iterator[RowsByKey]:
        """Yield all changed keys in ascending order, in batches.

        Raises:
            DuplicateKeyError: If a file has a key twice.
            ValueError: If a key has a null, or values of a file do not fit those of the others.
            CorruptionError: If a file is damaged, or a row kind is not one of the four.
            StaleStoreError: If a file was written again, or is gone.
        """
        for turn, plan in enumerate(self._plans):
            self._read(turn, plan)
        held: list[pa.RecordBatch] = []
        try:
            for batch in self._sorter.sorted_batches(0):
                order = self._order.decode(batch.column("key"))
                held.append(
                    pa.RecordBatch.from_arrays(
                        [order.column("key"), batch.column("value")], names=["key", "value"]
                    )
                )
                together = pa.Table.from_batches(held).combine_chunks().to_batches()[0]
                starts = _starts(together.column("key"))
                # The next batch may contain more rows of the last key.
                last = int(starts[-1])
                if last:
                    yield self._changed(together.slice(0, last), starts[:-1])
                held = [together.slice(last)]
        except RepeatedKeyError as error:
            raise self._repeated_error(error.key) from None
        if held:
            (rest,) = held
            yield self._changed(rest, _starts(rest.column("key")))

    def close(self) -> None:
        """Free memory and temporary files."""
        self._sorter.close()

    def _read(self, turn: int, plan: LookupFilePlan) -> None:
        """Sort the rows of a file."""
        source = plan.source
        wanted = [*self._key.names, *self._rows.schema.names]
        names = [name for name in wanted if name in source.schema.names]
        for batch in source.batches(names):
            if not batch.num_rows:
                continue
            for name in self._key.names:
                if batch.column(name).null_count:
                    raise ValueError(
                        f"level0: {source.uri} has a null in the key column {name!r}, and nothing "
                        "finds such a row; leave it out of the file"
                    )
            keys = [
                fitted(batch.column(field.name), field, source.uri, "in the other files")
                for field in self._key.schema
            ]
            columns = [self._column(batch, field, source.uri) for field in self._rows.schema]
            order = self._order.encode(
                [
                    self._key.encode(keys).cast(self._order.schema.field("key").type),
                    pa.array(np.full(batch.num_rows, turn, np.uint32)),
                ]
            )
            # A batch without columns would have no rows.
            values = batch.select([])
            if columns:
                values = pa.RecordBatch.from_arrays(columns, schema=self._rows.schema)
            packed = self._rows.pack(values).cast(pa.large_binary())
            try:
                self._sorter.add(pa.RecordBatch.from_pydict({"key": order, "value": packed}))
            except RepeatedKeyError as error:
                raise self._repeated_error(error.key) from None
        source.check_unchanged()

    def _column(self, batch: pa.RecordBatch, field: pa.Field, uri: str) -> pa.Array:
        """Return a column of a file in the type of the column of all files together."""
        is_kind = self._kinds is not None and field.name == self._kinds.name
        if field.name not in batch.schema.names:
            if is_kind:
                return pa.array(np.zeros(batch.num_rows, np.int8)).cast(field.type)
            return pa.nulls(batch.num_rows, field.type)
        column = fitted(batch.column(field.name), field, uri, "in the other files")
        if is_kind:
            are_tombstones(column, uri)
        return column

    def _repeated_error(self, sorted_by: bytes) -> DuplicateKeyError:
        """Return the error for a key that a file has twice, given the bytes by which it sorts."""
        order = self._order.decode(pa.array([sorted_by], pa.large_binary()))
        turn: int = order.column("turn")[0].as_py()
        plan = self._plans[turn]
        own = plan.build.key_schema
        key: bytes = own.encode(self._key.decode(order.column("key")).columns)[0].as_py()
        return plan.repeated_error(key)

    def _changed(self, records: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> RowsByKey:
        rows = self._rows.unpack(records.column("value"))
        gone = np.zeros(records.num_rows, np.bool_)
        if self._kinds is not None:
            gone = are_tombstones(rows.column(self._kinds.name), "level 0")
        keys = records.column("key").take(pa.array(starts))
        return RowsByKey(keys, starts, rows, gone)


def _starts(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the index of the first of each group of equal keys in sorted keys."""
    _, same = sort_keys(keys)
    count = len(keys)
    return np.arange(count) if same is None else np.flatnonzero(~same)
