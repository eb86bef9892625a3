"""The differences between two snapshots, sorted by bucket and key within a memory budget."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from lookupstore.builder.plan import BuildPlan
from lookupstore.keys._codec import bucket_of
from lookupstore.sorting.runs import RunSorter


class SnapshotChanges:
    """The keys of rows that are gone, and the rows that are new.

    A row that only moved to another file is both. So is the row of a key whose values changed.

    Args:
        plan: Plan of the rows in the store.
        buckets: Number of buckets of the store.
        memory: Memory for rows in bytes, at least twice `lookupstore.sorting.runs.MIN_MEMORY`.
        folder: Folder for rows that do not fit into memory.
        threads: Number of threads that sort, including the caller's.
    """

    def __init__(
        self, plan: BuildPlan, *, buckets: int, memory: int, folder: str, threads: int
    ) -> None:
        self._plan = plan
        make = partial(
            RunSorter,
            memory=memory // 2,
            folder=folder,
            partitions=buckets,
            partition=partial(bucket_of, buckets=buckets),
            threads=threads,
        )
        # The keys of a snapshot that a store was built of are unique: "first" has no effect.
        self._gone: RunSorter = make("first")
        self._new: RunSorter = make("error")
        #: Number of rows that are gone.
        self.gone_rows: int = 0
        #: Number of rows that are new.
        self.new_rows: int = 0

    def remove(self, keys: pa.RecordBatch) -> None:
        """Add the keys of rows that are gone.

        Args:
            keys: The key columns of the rows.
        """
        encoded = self._plan.key_schema.encode(keys.select(self._plan.key_schema.names))
        self.gone_rows += keys.num_rows
        self._gone.add(pa.RecordBatch.from_arrays([encoded], ["key"]))

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows that are new.

        Args:
            rows: The columns of the plan.

        Raises:
            RepeatedKeyError: If a key is repeated.
            ValueError: If a key is null.
        """
        self.new_rows += rows.num_rows
        self._new.add(self._plan.encode(rows, None))

    def gone(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the keys of rows of a bucket that are gone, ascending, as `key`."""
        return self._gone.sorted_batches(bucket)

    def new(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a bucket that are new, in key order, as `key` and `value`.

        Raises:
            RepeatedKeyError: If a key is repeated.
        """
        return self._new.sorted_batches(bucket)

    def close(self) -> None:
        """Free memory and temporary files."""
        self._gone.close()
        self._new.close()
