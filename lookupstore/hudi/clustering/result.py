"""What a clustering did, as its caller is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lookupstore.hudi.timeline.timeline import Instant


@dataclass(frozen=True)
class ClusterResult:
    """What a clustering did, or would do.

    Attributes:
        instant: of the replacecommit; None: it was only tried, or there was nothing to do.
        partitions: whose files are new ones.
        rows: in all files that it read.
        files_before: that it read, whose file groups are gone.
        files_after: that it wrote; if it was only tried, about.
        files_unchanged: that stay as they are.
        bytes_before: of the files that it read.
        bytes_after: of the files that it wrote; 0 if it was only tried.
        bytes_spilled: of rows that waited on disk, as they are in memory.
        seconds: that steps took, by name: `plan`, `sample`, `sort` with reading and spilling,
            `write` with what is read of what was spilled, `commit` with starting
            statistics of columns.
    """

    instant: Instant | None
    partitions: int
    rows: int
    files_before: int
    files_after: int
    files_unchanged: int
    bytes_before: int
    bytes_after: int
    bytes_spilled: int
    seconds: Mapping[str, float] = field(compare=False)
