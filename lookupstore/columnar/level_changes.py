"""The rows of level 0 in the order of their keys, each key with all of its rows, the oldest first.

For that they are sorted by a key of two fields: the key, and the turn of their file.
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
class ChangedRows:
    """Some keys in their order, with all rows that level 0 has of them.

    Attributes:
        keys: the n keys, encoded.
        starts: where the rows of each begin, ascending from 0.
        rows: m rows, those of each key the oldest first: value columns, and the row kind last if
            there are some.
        gone: which of the m rows are tombstones.
    """

    keys: pa.Array
    starts: npt.NDArray[np.int64]
    rows: pa.RecordBatch
    gone: npt.NDArray[np.bool_]


class LevelChanges:
    """The rows of level 0, sorted within a memory budget.

    Args:
        plans: of the files, the newest first.
        key: encodes the keys of all files.
        values: the value columns of all files, nullable.
        kinds: the column of the row kinds; None: no file has it.
        memory: budget in bytes.
        folder: where to spill.
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

    def batches(self) -> Iterator[ChangedRows]:
        """Yield all changed keys, in their order, some at a time.

        Raises:
            DuplicateKeyError: a file has a key twice.
            ValueError: a key has a null, or values of a file do not fit those of the others.
            CorruptionError: a file is damaged, or a row kind is none of the four.
            StaleStoreError: a file has been written again, or is gone.
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
                # The last key may go on in the next batch.
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
            # A batch without columns has no rows.
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
        """Return a column of a file, as all files together have it."""
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
        """Return the error for a key that a file has twice, of which these bytes sort."""
        order = self._order.decode(pa.array([sorted_by], pa.large_binary()))
        turn: int = order.column("turn")[0].as_py()
        plan = self._plans[turn]
        own = plan.build.key_schema
        key: bytes = own.encode(self._key.decode(order.column("key")).columns)[0].as_py()
        return plan.repeated_error(key)

    def _changed(self, records: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> ChangedRows:
        rows = self._rows.unpack(records.column("value"))
        gone = np.zeros(records.num_rows, np.bool_)
        if self._kinds is not None:
            gone = are_tombstones(rows.column(self._kinds.name), "level 0")
        keys = records.column("key").take(pa.array(starts))
        return ChangedRows(keys, starts, rows, gone)


def _starts(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return where equal keys begin among sorted ones."""
    _, same = sort_keys(keys)
    count = len(keys)
    return np.arange(count) if same is None else np.flatnonzero(~same)
