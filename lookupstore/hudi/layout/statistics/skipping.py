"""Find the files that a filter rules out, by statistics of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.column_bounds import Answers
from lookupstore.filters.predicates import conjuncts, predicate_of, shown
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics


@dataclass(frozen=True, eq=False)
class Skipping:
    """The files that a filter rules out by statistics.

    Attributes:
        kept: Whether each file may have a row that matches the filter.
        known: Whether each file has statistics.
        parts: Text of each part of the filter that must be true, and the number of files that it
            rules out by itself.
    """

    kept: Answers
    known: Answers
    parts: tuple[tuple[str, int], ...]


def skip(
    statistics: TableStatistics,
    where: pc.Expression,
    columns: pa.Schema,
    files: Sequence[FileSlice],
) -> Skipping:
    """Find the files that a filter rules out; files without statistics are kept.

    Args:
        statistics: Statistics of files of the table.
        where: Filter, with columns and types of the table.
        columns: All columns of the table.
        files: Base files to look at.
    """
    rows = statistics.rows_of(files)
    known = rows.is_valid().to_numpy(zero_copy_only=False)
    at = rows.fill_null(0).to_numpy()
    kept = np.ones(len(files), bool)
    parts = []
    for part in conjuncts(predicate_of(where)):
        some = np.ones(len(files), bool)
        if known.any():
            some = statistics.may_match(part, columns)[at] | ~known
        parts.append((shown(part), int(np.count_nonzero(~some))))
        kept &= some
    return Skipping(kept, known, tuple(parts))
