"""``Counts``: what lookups did, read and fetched."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from lookupstore.sst import Reader
from lookupstore.sst.reader import reads_of


@dataclass(frozen=True)
class Counts:
    """Counts of what lookups did; those of tasks add up with `+`.

    Attributes:
        tasks: Number of tasks.
        rows: Number of keys that were looked up, nulls among them.
        hits: Number of keys that were found.
        filter_negatives: Number of missing keys that a filter ruled out before any block was
            searched.
        blocks_read: Number of blocks that were read and checked because they were not ready in
            their process.
        bytes_read: Size of these blocks in their files, in bytes.
        block_uses: Number of keys that were searched for in a block.
        bytes_fetched: Number of bytes that were fetched from remote storage.
        range_requests: Number of requests to remote storage for a part of a file.
        retries: Number of requests to remote storage that were tried again.
        refreshes: Number of times that tasks looked for a newer version of the store.
        failed_refreshes: Number of these attempts that the storage did not answer, so that an older
            version was used.
        seconds: Time that tasks spent in lookups, in seconds.
    """

    tasks: int = 0
    rows: int = 0
    hits: int = 0
    filter_negatives: int = 0
    blocks_read: int = 0
    bytes_read: int = 0
    block_uses: int = 0
    bytes_fetched: int = 0
    range_requests: int = 0
    retries: int = 0
    refreshes: int = 0
    failed_refreshes: int = 0
    seconds: float = 0.0

    @property
    def misses(self) -> int:
        """Return the number of keys that were not found."""
        return self.rows - self.hits

    @property
    def cache_hit_rate(self) -> float | None:
        """Return the share of block uses for which the block was ready; None: there were none.

        A block that many keys need is read once, for the first of them. Keys that a filter rules
        out, and null ones, use no block.

        >>> Counts(blocks_read=2, block_uses=8).cache_hit_rate
        0.75
        """
        return 1 - self.blocks_read / self.block_uses if self.block_uses else None

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(operator.add, numbers(self), numbers(other)))

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*map(operator.sub, numbers(self), numbers(other)))

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON values, including misses and cache hit rate."""
        return {**asdict(self), "misses": self.misses, "cache_hit_rate": self.cache_hit_rate}


#: Names of all counts.
NAMES = [field.name for field in fields(Counts)]
#: Function that returns all counts, like dataclasses.astuple but without its copies: counts are
#: added for each batch of keys.
numbers: Callable[[Counts], tuple[float, ...]] = operator.attrgetter(*NAMES)


def read_with(reader: Reader) -> Counts:
    """Return the counts of what lookups have read with an open reader."""
    return Counts(**reads_of(reader)._asdict())
