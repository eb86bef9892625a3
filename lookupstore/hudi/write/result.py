"""What a write did, as its caller is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from lookupstore.html_table import html_fields
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.keys.row_errors import RowError, RowErrors
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.timeline.timeline import Instant
from lookupstore.hudi.write.plan import WritePlan


@dataclass
class GivenRows:
    """The rows that a write was given, as far as they were counted.

    Attributes:
        read: all of them; None: unknown.
        combined: those in whose place another one of their key stayed; None: unknown.
        errors: those that cannot be written.
        missing: columns of the table that they lack.
    """

    read: int | None = None
    combined: int | None = None
    errors: RowErrors = field(default_factory=RowErrors)
    missing: Sequence[str] = ()

    def count(self, read: int, left: int) -> None:
        """Take how many rows were read, and how many are left after they were combined."""
        self.read = read
        self.combined = read - self.errors.count - left


@dataclass(frozen=True)
class WriteResult:
    """What a write did, or would do.

    Attributes:
        instant: of the commit; None: it was only tried.
        operation: name of the write, as Hudi has it.
        rows_read: that were given, or keys; None: executors have not counted them.
        rows_failed: of these, that cannot be written: `errors` has the first.
        rows_combined: of these, in whose place another one of their key stayed; None as above.
        rows_inserted: that are new.
        rows_updated: that were there and changed; if it was only tried, those that were there.
        rows_deleted: that are gone, without those of replaced file groups.
        rows_written: in all new files; 0 if it was only tried.
        files_new: of new file groups.
        files_rewritten: that others take the place of, by path.
        files_replaced: whose file groups are gone, by path.
        files_written: Paths of the new files, relative to the table, in ascending order; empty if
            it was only tried.
        files_unchanged: that stay as they are; None: nobody looked, since rows came to new files.
        bytes_rewritten: of those that others take the place of.
        bytes_written: in all new files; 0 if it was only tried.
        columns_missing: columns of the table that the rows lack; `WriteOptions.missing` says what
            becomes of them.
        errors: what is wrong with rows that cannot be written, of at most the first hundred.
        seconds: that steps took, by name: `read` until there is one row of each key, `tag` them
            with their places, `plan` the files, `write` these, `commit` them; those of threads are
            not added up.
        clustering: time of the clustering that followed, as `WriteOptions.services` says; None:
            none did.
        cleans: times of the cleans that followed.
        archived: instants that were archived then.
        service_errors: why one of these failed, which is no error of the write.
        retries: Number of times that the write was tried again, because another one had changed
            the same files.
    """

    instant: Instant | None
    operation: str
    rows_read: int | None = None
    rows_failed: int = 0
    rows_combined: int | None = None
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_written: int = 0
    files_new: int = 0
    files_rewritten: tuple[str, ...] = ()
    files_replaced: tuple[str, ...] = ()
    files_written: tuple[str, ...] = ()
    files_unchanged: int | None = None
    bytes_rewritten: int = 0
    bytes_written: int = 0
    columns_missing: tuple[str, ...] = ()
    errors: tuple[RowError, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    clustering: str | None = None
    cleans: tuple[str, ...] = ()
    archived: int = 0
    service_errors: tuple[str, ...] = ()
    retries: int = 0

    def _repr_html_(self) -> str:
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        del said["operation"]
        said["instant"] = "none: it was only tried" if self.instant is None else self.instant.time
        said["errors"] = [f"row {one.row + 1}: {one.reason}" for one in self.errors]
        return html_fields(f"WriteResult {self.operation}", said)

    @classmethod
    def of(
        cls,
        instant: Instant,
        operation: str,
        given: GivenRows,
        stats: Sequence[WriteStat],
        changed: ChangedFiles,
        seconds: Mapping[str, float],
    ) -> WriteResult:
        """Return what a commit did, by what is said of its files."""
        return cls(
            instant,
            operation,
            **_said_of(given, changed),
            rows_inserted=sum(one.num_inserts or 0 for one in stats),
            rows_updated=sum(one.num_update_writes or 0 for one in stats),
            rows_deleted=sum(one.num_deletes or 0 for one in stats),
            rows_written=sum(one.num_writes or 0 for one in stats),
            files_new=len(stats) - len(changed.rewritten),
            bytes_written=sum(one.total_write_bytes or 0 for one in stats),
            files_written=tuple(sorted(one.path for one in stats if one.path)),
            seconds=seconds,
        )

    @classmethod
    def planned(
        cls,
        plan: WritePlan,
        given: GivenRows,
        deleted: int,
        current: int | None,
        seconds: Mapping[str, float],
    ) -> WriteResult:
        """Return what a commit would do.

        Args:
            plan: of the write.
            given: the rows.
            deleted: rows of the table that go.
            current: how many files there are.
            seconds: that steps took.
        """
        replaced = () if plan.replaced is None else plan.replaced.slices
        changed = ChangedFiles(plan.rewritten, replaced, current)
        found = sum(sum(load.updates.values()) for load in plan.loads.values())
        return cls(
            None,
            plan.operation,
            **_said_of(given, changed),
            rows_inserted=sum(load.inserts for load in plan.loads.values()),
            rows_updated=found - deleted,
            rows_deleted=deleted,
            files_new=len(plan.files) - len(changed.rewritten),
            seconds=seconds,
        )


@dataclass(frozen=True)
class ChangedFiles:
    """The files that were there before a write.

    Attributes:
        rewritten: slices that others take the place of.
        replaced: slices whose file groups are gone.
        all: how many there were; None: unknown.
    """

    rewritten: Sequence[FileSlice] = ()
    replaced: Sequence[FileSlice] = ()
    all: int | None = None


def _said_of(given: GivenRows, changed: ChangedFiles) -> dict[str, Any]:
    """Return what a result says of rows that were given, and of files that were there."""
    gone = len(changed.rewritten) + len(changed.replaced)
    return {
        "rows_read": given.read,
        "rows_failed": given.errors.count,
        "rows_combined": given.combined,
        "files_rewritten": tuple(one.path for one in changed.rewritten),
        "files_replaced": tuple(one.path for one in changed.replaced),
        "files_unchanged": None if changed.all is None else changed.all - gone,
        "bytes_rewritten": sum(one.bytes for one in changed.rewritten),
        "columns_missing": tuple(given.missing),
        "errors": tuple(given.errors.some),
    }
