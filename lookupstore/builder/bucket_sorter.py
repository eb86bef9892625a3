"""Sort the rows of a build by bucket, and choose the number of buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from lookupstore.builder.bucket_count import BUCKETS_OF_UNKNOWN, bucket_count, too_large_for_one
from lookupstore.keys._codec import bucket_of
from lookupstore.sorting.rows import Partition
from lookupstore.sorting.runs import RunSorter


class BucketSorter:
    """A sorter of encoded rows by bucket and key.

    If no number of buckets is given, an estimate by the first rows decides. Without an estimate
    there is one bucket. If rows become too many for one, they are spread over several.

    Args:
        buckets: Number of buckets. Default: chosen by the size of the rows.
        estimate: Function that returns an estimate of the bytes of all rows, given the first batch,
            or None.
        make: Function that makes a sorter, with the keyword arguments `partitions` and `partition`.

    >>> make = partial(RunSorter, "error", memory=1 << 20, folder=".")
    >>> with BucketSorter(None, lambda first: first.nbytes, make) as sorter:
    ...     sorter.add(pa.record_batch({"key": [b"b", b"a"]}))
    ...     sorter.buckets, [batch["key"].to_pylist() for batch in sorter.sorted_batches(0)]
    (1, [[b'a', b'b']])
    """

    def __init__(
        self,
        buckets: int | None,
        estimate: Callable[[pa.RecordBatch], int | None],
        make: Callable[..., RunSorter],
    ) -> None:
        self._estimate = estimate
        self._make = make
        self._given = buckets
        self._nbytes = 0
        self._sorter: RunSorter | None = None
        #: Number of buckets, which is final when all rows are added.
        self.buckets: int = 1 if buckets is None else buckets

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows that follow all earlier ones in source order.

        Raises:
            RepeatedKeyError: If rows in memory were sorted, and a key is repeated.
        """
        if not rows.num_rows:
            return
        if self._sorter is None and self._given is None:
            estimated = self._estimate(rows)
            self.buckets = 1 if estimated is None else bucket_count(estimated)
        sorter = self._begun()
        sorter.add(rows)
        self._nbytes += rows.nbytes
        if self._given is None and self.buckets == 1 and too_large_for_one(self._nbytes):
            self.buckets = BUCKETS_OF_UNKNOWN
            sorter.spread(self.buckets, self._partition)

    def sorted_batches(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one bucket in strictly ascending key order."""
        return self._begun().sorted_batches(bucket)

    def rows_at_most(self, bucket: int) -> int:
        """Return the largest number of rows that one bucket can have."""
        return self._begun().rows_at_most(bucket)

    @property
    def spills(self) -> int:
        """Return the number of times that rows were spilled."""
        return 0 if self._sorter is None else self._sorter.spills

    @property
    def _partition(self) -> Partition:
        return partial(bucket_of, buckets=self.buckets)

    def _begun(self) -> RunSorter:
        if self._sorter is None:
            self._sorter = self._make(partitions=self.buckets, partition=self._partition)
        return self._sorter

    def close(self) -> None:
        """Free memory and temporary files."""
        if self._sorter is not None:
            self._sorter.close()

    def __enter__(self) -> BucketSorter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
