"""A second read of files that a filter left out, to find missed rows.

All rows of such a file are read and filtered in memory. Row groups cannot be skipped: their bounds
are from the same footers as the statistics, and would miss the same rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import StaleStoreError
from lookupstore.filters import predicate_of, shown
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.scan import BaseFiles
from lookupstore.hudi.layout import quarantine
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.read.scan_plan import ScanPlan
from lookupstore.storage.read_errors import READ_ERRORS

_THREADS = 4


@dataclass(frozen=True)
class Audit:
    """The result of a second read of skipped files.

    Attributes:
        files: Number of files that were read again.
        missed: Files with rows that match the filter: path and number of these rows.
        unread: Files that could not be read: path and reason.
    """

    files: int
    missed: tuple[tuple[str, int], ...]
    unread: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """Return the result as text for people."""
        few = [f"{path}: {rows} rows were missed" for path, rows in self.missed[:5]]
        few += [f"{path}: could not be read: {reason}" for path, reason in self.unread[:5]]
        more = len(self.missed) + len(self.unread) - len(few)
        few += [f"and {more} more"] * (more > 0)
        return f"{self.files} skipped files were read again. {'; '.join(few)}"


def check_rate(one_in: int) -> None:
    """Check the rate of skipped files to read again.

    Raises:
        ValueError: If `one_in` is not a whole number from 0 on.
    """
    if isinstance(one_in, bool) or not isinstance(one_in, int) or one_in < 0:
        raise ValueError(
            f"audit is {one_in!r}; give n to read one in n of the skipped files again, or 0"
        )


def audit(before: ScanPlan, after: ScanPlan, one_in: int) -> Audit:
    """Read some skipped files again, and quarantine statistics that missed rows.

    Args:
        before: Scan without the filter.
        after: The same scan with the filter.
        one_in: Number n: one in n of the skipped files is read.
    """
    where = after.where
    left = {file.path for file in after.files}
    # Statistics leave out base files only.
    skipped = [
        file for file in before.files if file.path not in left and not isinstance(file, MergedSlice)
    ]
    chosen = skipped[random.randrange(one_in) :: one_in]
    if where is None or not chosen:
        return Audit(0, (), ())
    missed, unread = [], []
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lookupstore-audit") as pool:
        for file, found in zip(
            chosen, pool.map(lambda one: _looked_at(before, one, where), chosen), strict=True
        ):
            if isinstance(found, str):
                unread.append((file.path, found))
            elif found:
                missed.append((file.path, found))
    for path, rows in missed:
        problem = f"a scan by {shown(predicate_of(where))} missed {rows} rows"
        try:
            quarantine(before.location, path, problem)
        except OSError as error:
            unread.append((path, f"its statistics cannot be marked as wrong: {error}"))
    return Audit(len(chosen), tuple(missed), tuple(unread))


def _looked_at(plan: ScanPlan, file: FileSlice, where: pc.Expression) -> int | str:
    """Return the number of matching rows in a file, or the reason why it is unknown."""
    names: Sequence[str] = plan.schema.names
    try:
        batches = BaseFiles(plan.location, [file.path], plan.schema).batches(names, threads=False)
        counts = (pa.Table.from_batches([one]).filter(where).num_rows for one in batches)
        return int(sum(counts))
    except StaleStoreError:
        return 0  # a clean has removed the file
    except READ_ERRORS as error:
        return str(error)
