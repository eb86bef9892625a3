"""Which files have no row that a filter leaves, by what is known of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.filters.predicates import conjuncts, predicate_of, shown
from lookupstore.hudi.layout.statistics.column_bounds import Answers
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics


@dataclass(frozen=True, eq=False)
class Skipping:
    """What statistics say of some files.

    Attributes:
        kept: for each file, whether it may have a row that the filter leaves.
        known: for each file, whether there are statistics of it.
        parts: parts of the filter all of which must be true, each with how many files have no row
            for it.
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
    """Find the files without a row that a filter leaves; those of which nothing is known may.

    Args:
        statistics: of files of the table.
        where: the filter, which fits the columns.
        columns: all columns of the table.
        files: that are looked at.
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
