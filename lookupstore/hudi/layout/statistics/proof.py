"""Check the statistics of another program against the footers of files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import CorruptionError
from lookupstore.filters.predicates import columns_of, predicate_of
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.statistics.file_statistics import footer_statistics
from lookupstore.hudi.layout.statistics.keeping import statistics_of
from lookupstore.hudi.layout.statistics.skipping import Skipping, skip
from lookupstore.storage.location import Location

# Number of files whose footers are read, all at the same time.
_MOST_FOOTERS = 8


def check_footers(
    location: Location,
    skipping: Skipping,
    where: pc.Expression,
    columns: pa.Schema,
    files: Sequence[FileSlice],
) -> None:
    """Check that the footers of some skipped files rule them out as well.

    Args:
        location: Location of the table.
        skipping: Result of `skip`, with the files that are left out.
        where: Filter that rules out files.
        columns: All columns of the table.
        files: Files that were passed to `skip`, in the same order.

    Raises:
        CorruptionError: If a footer does not rule out its file, or is damaged.
        FormatError: If a file is encrypted, or has columns in other files.
        StaleStoreError: If a file was deleted.
        OSError: If a file cannot be read.
    """
    left_out = np.flatnonzero(~skipping.kept)
    places = np.linspace(0, len(left_out) - 1, min(_MOST_FOOTERS, len(left_out)), dtype=np.int64)
    some = [files[at] for at in left_out[places]]
    if not some:
        return
    asked = set(columns_of(predicate_of(where)))
    wanted = pa.schema([one for one in columns if one.name in asked])
    footers = statistics_of(location, some, wanted, footer_statistics)
    for file, may_match in zip(some, skip(footers, where, columns, some).kept, strict=True):
        if may_match:
            raise CorruptionError(
                location.show(file.path),
                file.bytes,
                "a footer that rules out the file, as the column_stats of the metadata table do",
                "one that does not",
            )
