"""The result of a clustering that its caller gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lookupstore.hudi.timeline.timeline import Instant


@dataclass(frozen=True)
class ClusterResult:
    """The result of a clustering, or of a dry run.

    Attributes:
        instant: Instant of the replacecommit. None: Dry run, or no files to rewrite.
        partitions: Number of partitions with rewritten files.
        rows: Number of rows in the files that were rewritten.
        files_before: Number of files that were rewritten; their file groups are replaced.
        files_after: Number of files that were written; in a dry run an estimate.
        files_unchanged: Number of files that were not rewritten.
        bytes_before: Size of the files that were rewritten, in bytes.
        bytes_after: Size of the files that were written, in bytes; 0 in a dry run.
        bytes_spilled: Bytes of rows that were spilled to disk, by their size in memory; rows that
            were spilled twice count twice.
        seconds: Seconds that each step took, by its name: `plan`; `sample`; `sort`, which reads
            and spills rows; `write`, which reads spilled rows back; `commit`, which also starts
            statistics of the columns.
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
