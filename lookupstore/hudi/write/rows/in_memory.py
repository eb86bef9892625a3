"""``MemoryRows``: the rows of a write in the memory of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import as_binary
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING, MissingColumns
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.layout import KeptLayout
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.boxes import positions_in
from lookupstore.hudi.write.conflict import SAMPLE
from lookupstore.hudi.write.files import FilePlan, FileRows, FileWrites
from lookupstore.hudi.write.inserted_keys import InsertedKeys
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.partitioner import Bucket, Load, Packing, workload
from lookupstore.hudi.write.pipeline import FoundRows, WrittenFile
from lookupstore.hudi.write.plan import PlannedFile
from lookupstore.hudi.write.transaction import Transaction
from lookupstore.progress import Advance

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowPlaces:
    """The places of rows in a table.

    Attributes:
        slices: Base files that contain rows.
        numbers: Index of the slice that contains each row, int32. -1: the row is new.
        positions: Position of each row in its slice, int64. -1: the row is new.
    """

    slices: Sequence[FileSlice]
    numbers: npt.NDArray[np.int32]
    positions: Rows

    @classmethod
    def nowhere(cls, rows: int) -> RowPlaces:
        """Return the places of new rows."""
        return cls((), np.full(rows, -1, np.int32), np.full(rows, -1, np.int64))

    def file_ids(self) -> pa.DictionaryArray:
        """Return the file group id of each row; null for a new row."""
        return pa.DictionaryArray.from_arrays(
            pa.array(self.numbers, mask=self.numbers < 0),
            pa.array([one.group.file_id for one in self.slices], pa.string()),
        )


class MemoryRows(FoundRows):
    """Rows in memory, and their places.

    Args:
        view: Table as the write found it.
        options: Options of the write.
        schema: Schema of the table after the write.
        incoming: Rows to write, each with the partition of its place.
        places: Place of each row.
        slices: Current base files, which the rows change or may be inserted into.
        explicit: Whether to delete all rows that are found, regardless of the columns given.
        kept: Columns that keep their stored values.
        ordered: Whether a stored row with a greater ordering value is kept.
    """

    def __init__(
        self,
        view: TableView,
        options: WriteOptions,
        schema: TableSchema,
        incoming: Incoming,
        places: RowPlaces,
        slices: Sequence[FileSlice],
        *,
        explicit: bool = False,
        kept: MissingColumns = NOTHING_MISSING,
        ordered: bool = True,
    ) -> None:
        self.schema = schema
        self.slices = slices
        self._file_ids = places.file_ids()
        self.loads: dict[str, Load] = workload(incoming.partitions, self._file_ids)
        self._view = view
        self._options = options
        self._incoming = incoming
        self._places = places
        self._explicit = explicit
        self._kept = kept
        self._ordered = ordered
        self._assigned: list[tuple[Bucket, FileRows]] = []

    @property
    def deleted(self) -> int:
        """Return the number of stored rows to delete, as known before the merge."""
        if self._explicit:
            return int(np.count_nonzero(self._places.numbers >= 0))
        flags = self._incoming.deleted
        return 0 if flags is None else int(np.count_nonzero(flags))

    def known_keys(self) -> Sequence[str]:
        """Return a few keys of the rows that are in the table, each once."""
        there = self._incoming.keys.filter(pa.array(self._places.numbers >= 0))
        keys: list[str] = there.unique()[:SAMPLE].to_pylist()
        return keys

    def new_positions(self, layouts: Mapping[str, KeptLayout]) -> dict[str, pa.Array]:
        """Return the positions of new rows, by partition path."""
        paths = self._incoming.partitions
        known = paths.dictionary.to_pylist()
        is_new = self._places.numbers < 0
        found = {}
        for path, kept in layouts.items():
            here = is_new & (paths.indices.to_numpy() == known.index(path))
            own = self._incoming.rows.select(list(kept.layout.by)).filter(pa.array(here))
            found[path] = positions_in(kept, own)
        return found

    def assign(self, packing: Packing) -> Sequence[int]:
        """Assign each row to a bucket, and return the numbers of the buckets with rows."""
        incoming = self._incoming
        assigned = packing.assign(incoming.partitions, self._file_ids, incoming.keys, incoming.rows)
        self._assigned = [
            (bucket, self._file_rows(bucket, rows))
            for bucket, rows in zip(packing.buckets, _by_bucket(packing, assigned), strict=True)
            if len(rows)  # the hash of keys assigned none to the others
        ]
        return [bucket.number for bucket, _ in self._assigned]

    def write(
        self, files: Sequence[PlannedFile], transaction: Transaction, advance: Advance
    ) -> Sequence[WrittenFile]:
        """Write the files of the buckets, several at the same time."""
        plans = [
            FilePlan(file, rows) for file, (_, rows) in zip(files, self._assigned, strict=True)
        ]
        for partition in dict.fromkeys(one.partition for one in files):
            transaction.open_partition(partition)
        writes = FileWrites(
            self._view,
            self._incoming,
            self.schema,
            self._options,
            transaction.time,
            self._explicit,
            self._kept,
            ordered=self._ordered,
        )
        return [
            WrittenFile(plan.file, stat, self._keys(plan.rows.all[:SAMPLE]))
            for plan, stat in zip(plans, writes.write(plans, advance), strict=True)
        ]

    def keys_to_insert(self) -> InsertedKeys:
        """Return the keys of the new rows."""
        is_global = index_of(self._options.index).is_global
        parts: dict[str | None, list[Rows]] = {}
        for bucket, rows in self._assigned:
            if len(rows.inserts):
                partition = None if is_global else bucket.partition
                parts.setdefault(partition, []).append(rows.inserts)
        return InsertedKeys(
            {
                partition: as_binary(self._incoming.keys.take(pa.array(np.concatenate(many))))
                for partition, many in parts.items()
            }
        )

    def _keys(self, rows: Rows) -> list[str]:
        keys: list[str] = self._incoming.keys.take(pa.array(rows)).to_pylist()
        return keys

    def _file_rows(self, bucket: Bucket, rows: Rows) -> FileRows:
        if bucket.file_id is None:
            return FileRows.new(rows)
        known = self._places.numbers[rows] >= 0
        changes = rows[known]
        changes = changes[np.argsort(self._places.positions[changes])]
        return FileRows(changes, self._places.positions[changes], rows[~known])


def _by_bucket(packing: Packing, assigned: npt.NDArray[np.int32]) -> list[Rows]:
    # NumPy sorts 16-bit numbers with a radix sort, in a tenth of the time.
    few = len(packing.buckets) <= 1 << 16
    order = np.argsort(assigned.astype(np.uint16) if few else assigned, kind="stable")
    counts = np.bincount(assigned, minlength=len(packing.buckets))
    return np.split(order, np.cumsum(counts)[:-1]) if len(counts) else []
