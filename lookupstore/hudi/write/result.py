"""``WriteResult``: the report of a write to its caller."""

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
    """Counts of the rows given to a write.

    Attributes:
        read: Number of rows given. None: unknown.
        combined: Number of rows dropped because another row with the same key was kept. None:
            unknown.
        errors: Rows that cannot be written.
        missing: Names of the table's columns that the rows lack.
    """

    read: int | None = None
    combined: int | None = None
    errors: RowErrors = field(default_factory=RowErrors)
    missing: Sequence[str] = ()

    def count(self, read: int, left: int) -> None:
        """Set the number of rows read, and of rows left after combining those of a key."""
        self.read = read
        self.combined = read - self.errors.count - left


@dataclass(frozen=True)
class WriteResult:
    """The result of a write, or of a dry run.

    Attributes:
        instant: Instant of the commit. None: a dry run.
        operation: Hudi's name of the write, such as `UPSERT`.
        rows_read: Number of rows, or of keys, that were given. None: unknown, because Spark's
            executors did not count them.
        rows_failed: Number of given rows that cannot be written. `errors` describes the first ones.
        rows_combined: Number of given rows dropped because another row with the same key was kept.
            None: unknown, as for `rows_read`.
        rows_inserted: Number of new rows.
        rows_updated: Number of stored rows that changed. In a dry run: number of stored rows that
            match a given row, without those to delete.
        rows_deleted: Number of deleted rows, without those of replaced file groups.
        rows_written: Number of rows in all new files. 0 in a dry run.
        files_new: Number of new files that begin a file group.
        files_rewritten: Paths of the files that new files of the same file groups replace.
        files_replaced: Paths of the files in file groups that the write removed from the table.
        files_written: Paths of the new files, relative to the table, in ascending order. Empty in a
            dry run.
        files_unchanged: Number of files that the write left as they are. None: unknown, because
            the write did not list files.
        bytes_rewritten: Size of the rewritten files before the write, in bytes.
        bytes_written: Size of all new files, in bytes. 0 in a dry run.
        columns_missing: Names of the table's columns that the rows lack. `WriteOptions.missing`
            sets their values.
        errors: Reasons why rows cannot be written, for the first hundred of these rows.
        seconds: Elapsed seconds by step: `read` (read and combine rows), `tag` (find keys), `plan`
            (plan files), `write` (write files) and `commit`. A step that runs in several threads
            counts once.
        clustering: Time of the clustering that followed the write, if `WriteOptions.services` asks
            for one. None: no clustering followed.
        cleans: Times of the cleans that followed the write.
        archived: Number of instants that were archived after the write.
        service_errors: Reasons why a clustering, clean or archival after the write failed. The
            write itself succeeded.
        retries: Number of times that the write was tried again because another writer had changed
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

    def __repr__(self) -> str:
        """Return a line with what is not 0 or empty; of files and invalid rows, the number."""
        said = []
        for one in fields(self)[2:]:  # without the instant and the operation
            value = getattr(self, one.name)
            if isinstance(value, tuple) and one.name != "service_errors":
                value = len(value)
            if value and one.name != "seconds":
                said.append(f"{one.name}={value!r}")
        time = "dry run" if self.instant is None else self.instant.time
        return f"<WriteResult {self.operation} {time}: {', '.join(said) or 'no rows'}>"

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
        """Return the result of a commit from the entries of its files."""
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
        """Return the result of a dry run.

        Args:
            plan: Plan of the write.
            given: Counts of the given rows.
            deleted: Number of stored rows that the write would delete.
            current: Number of current base files. None: unknown.
            seconds: Elapsed seconds by step.
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
    """The files of a table before a write.

    Attributes:
        rewritten: Slices that new slices of the same file groups replace.
        replaced: Slices of the file groups that the write removes.
        all: Number of all files. None: unknown.
    """

    rewritten: Sequence[FileSlice] = ()
    replaced: Sequence[FileSlice] = ()
    all: int | None = None


def _said_of(given: GivenRows, changed: ChangedFiles) -> dict[str, Any]:
    """Return the fields of a result that describe given rows and earlier files."""
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
