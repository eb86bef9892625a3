"""Check a whole table: timeline, names, files, footers, keys, statistics and leftover files.

Errors are collected, not raised: one damaged file does not hide another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.arrow.types import is_text, plain_type, unwrap
from lookupstore.columnar.source_file import parquet_source
from lookupstore.errors import FormatError, LookupStoreError, StaleStoreError
from lookupstore.hudi.file_group.bloom import BloomFilter
from lookupstore.hudi.file_group.groups import FileGroup, FileSlice, parse_base_file
from lookupstore.hudi.file_group.key_entries import own_entry
from lookupstore.hudi.file_group.key_files import read_unverified
from lookupstore.hudi.file_group.partition_metadata import is_marked, marker_of
from lookupstore.hudi.keys.key_generator import record_keys
from lookupstore.hudi.layout import (
    STATISTICS_FOLDER,
    pending_writes,
    quarantine,
    read_statistics,
    wrong_statistics,
)
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.meta_columns import META_COLUMNS, RECORD_KEY
from lookupstore.hudi.metadata.comparison import differences
from lookupstore.hudi.options import METADATA_FOLDER
from lookupstore.hudi.services.leftovers import find_leftovers
from lookupstore.hudi.services.log_check import LogCheck, log_problems
from lookupstore.hudi.services.never_completed import never_completed
from lookupstore.hudi.services.row_check import RowCheck
from lookupstore.hudi.timeline.commit import WriteStat, parse_commit
from lookupstore.hudi.timeline.names import GroupId, is_log_file
from lookupstore.hudi.timeline.plans import (
    CleanerPlan,
    CleanMetadata,
    RequestedReplace,
    RestoreMetadata,
    RestorePlan,
    RollbackMetadata,
    RollbackPlan,
    SavepointMetadata,
    parse_plan,
)
from lookupstore.hudi.timeline.timeline import (
    CLEAN,
    CLUSTERING,
    REPLACE,
    RESTORE,
    ROLLBACK,
    SAVEPOINT,
    Instant,
    State,
)
from lookupstore.hudi.view import TableView
from lookupstore.progress import Bars
from lookupstore.sorting._sort import sort_keys

_RESULTS: Mapping[str, Any] = {
    ROLLBACK: RollbackMetadata,
    RESTORE: RestoreMetadata,
    CLEAN: CleanMetadata,
    SAVEPOINT: SavepointMetadata,
}
_PLANS: Mapping[str, Any] = {
    ROLLBACK: RollbackPlan,
    RESTORE: RestorePlan,
    CLEAN: CleanerPlan,
    REPLACE: RequestedReplace,
    CLUSTERING: RequestedReplace,
}
_NO_DAMAGE = ("leftover", "foreign", "unsupported")


@dataclass(frozen=True)
class Finding:
    """A problem in a table, or a leftover file.

    Attributes:
        kind: Kind of the finding: `timeline`, `file`, `filter`, `range`, `row`, `duplicate`,
            `statistics`, `columns`, `missing`, `uncommitted`, `metadata`, `foreign`,
            `unsupported`, or `leftover`. The last three are not damage.
        path: Path of the file or folder, relative to the table; empty if the problem is not in one
            file.
        problem: Description of the problem.
    """

    kind: str
    path: str
    problem: str

    @property
    def is_damage(self) -> bool:
        """Return whether the finding is damage, which readers or writers may see."""
        return self.kind not in _NO_DAMAGE


@dataclass(frozen=True)
class TableCheck:
    """The result of `HudiTable.verify`.

    Attributes:
        instants: Number of instants in the timeline.
        files: Number of current base files and log files that were read.
        rows: Number of rows in the base files.
        bytes: Size of these files, in bytes.
        findings: Problems and leftover files; empty if there are none.
    """

    instants: int
    files: int
    rows: int
    bytes: int
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        """Return whether nothing is damaged."""
        return not any(finding.is_damage for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "ok": self.is_ok,
            **asdict(self),
            "findings": [asdict(one) for one in self.findings],
        }


def check_table(view: TableView, bars: Bars | None = None) -> TableCheck:
    """Read and check every byte of the current base files and log files, and of the timeline.

    The record keys of one partition are in memory at a time.

    Args:
        view: View of the table; later commits of other writers do not count.
        bars: Function that opens a progress bar for the bytes of these files. None: no progress is
            shown.

    Raises:
        OSError: If a file could not be read, which does not show whether its content is damaged.
    """
    check = _Check(replace(view, foreign=[]))
    check.timeline()
    groups = check.groups()
    check.foreign()
    check.partitions(groups)
    check.statistics(groups)
    logs = check.logs(groups)
    advance = None
    if bars is not None:
        nbytes = sum(group.current.bytes for group in groups)
        nbytes += sum(map(_log_bytes, logs))
        advance = bars("Checking", nbytes / 1e6, "MB")
    partition, keys = "", _Keys()
    for group in groups:
        if group.id.partition != partition:
            check.duplicates(keys)
            partition, keys = group.id.partition, _Keys()
        check.file(group.current, keys)
        if advance is not None:
            advance(group.current.bytes / 1e6)
    check.duplicates(keys)
    for one in logs:
        check.log_files(one)
        if advance is not None:
            advance(_log_bytes(one) / 1e6)
    check.column_statistics(groups)
    check.uncommitted()
    check.metadata()
    check.leftovers()
    return TableCheck(
        instants=len(view.timeline.instants),
        files=check.files,
        rows=check.rows,
        bytes=check.bytes,
        findings=tuple(check.findings),
    )


class _Keys:
    """The record keys of a partition's files."""

    def __init__(self) -> None:
        self.arrays: list[pa.Array] = []
        self.paths: list[str] = []

    def add(self, path: str, keys: pa.Array) -> None:
        self.arrays.append(keys)
        self.paths.append(path)


def _with_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose meta columns, of whatever type of text, are strings."""
    for name in META_COLUMNS:
        at = batch.schema.get_field_index(name)
        if batch.schema.field(at).type != pa.string():
            batch = batch.set_column(at, name, unwrap(batch.column(at)).cast(pa.string()))
    return batch


def _log_bytes(given: MergedSlice) -> int:
    return sum(log.bytes for log in given.logs)


class _Check:
    """A check of one part after the other, and its findings."""

    def __init__(self, view: TableView) -> None:
        self._view = view
        self._stats: dict[str, WriteStat] = {}
        self._log_sizes: dict[str, int] = {}
        self._replaced: set[GroupId] = set()
        self._unread: set[str] = set()
        self.findings: list[Finding] = []
        self.files = 0
        self.rows = 0
        self.bytes = 0

    def timeline(self) -> None:
        """Read the files of instants in each of their states."""
        with self._finding("timeline", self._view.options.archive):
            # Instants, and their actions.
            for said in (self._view.archive.instants, self._view.archive.rollbacks):
                for _ in said():
                    pass
            for _ in self._view.archive.commits():
                pass
        for instant in self._view.timeline:
            path = self._path(instant)
            with self._finding("timeline", path):
                if instant.is_completed:
                    self._read_completed(instant)
            if instant.action in _PLANS:
                requested = replace(instant, state=State.REQUESTED, completed=None)
                with self._finding("timeline", self._path(requested)):
                    self._read_plan(requested)

    def groups(self) -> list[FileGroup]:
        """Return the file groups; none if they cannot be determined."""
        with self._finding("file", ""):
            return self._view.groups(None)
        return []

    def foreign(self) -> None:
        """Look for Parquet files that are not named as base files are."""
        # Each listing adds them again.
        for path in sorted(set(self._view.foreign or ())):
            self._add(
                "foreign",
                path,
                "not named as a base file of Hudi; all other verbs refuse the table until it is "
                "moved out of the table's folder",
            )

    def partitions(self, groups: list[FileGroup]) -> None:
        """Look for folders that have rows and lack the file by which Hudi finds partitions."""
        for partition in sorted({group.id.partition for group in groups}):
            if not is_marked(self._view.location, partition):
                self._add(
                    "missing",
                    marker_of(partition),
                    "Apache Hudi finds partitions by this file, and does not see the rows of this "
                    "one; a write of rows to this partition makes it again",
                )

    def statistics(self, groups: list[FileGroup]) -> None:
        """Compare the files that commits record with the files that exist."""
        committed = {instant.time for instant in self._view.timeline.writes()}
        current = {group.current.path for group in groups}
        last: dict[GroupId, FileSlice] = {}
        for path in self._stats:
            with self._finding("statistics", path):
                file = parse_base_file(path, 0, path)
                if file.group not in last or last[file.group].time < file.time:
                    last[file.group] = file
        for file in last.values():
            if file.group not in self._replaced and file.path not in current:
                self._add("missing", file.path, "committed, the newest of its group, but missing")
        for group in groups:
            for file in group.slices:
                stat = self._stats.get(file.path)
                if stat is None:
                    # Commits that left the timeline had their own files; a commit in the timeline
                    # counts.
                    if file.time in committed and file.time not in self._unread:
                        self._add(
                            "statistics", file.path, "committed, but its commit does not name it"
                        )
                elif stat.file_size_in_bytes != file.bytes:
                    said = f"{stat.file_size_in_bytes} bytes as its commit says"
                    self._add("statistics", file.path, f"has {file.bytes} bytes, not {said}")

    def logs(self, groups: list[FileGroup]) -> list[MergedSlice]:
        """Compare log files with the records of commits, and return the slices to read."""
        with self._finding("file", ""):
            try:
                logs = LogCheck(self._view)
                for problem in logs.recorded(groups, self._log_sizes, self._replaced):
                    self._add(*problem)
                return logs.slices()
            except FormatError as error:
                self._add("unsupported", "", str(error))
        return []

    def log_files(self, given: MergedSlice) -> None:
        """Read all log files of a slice."""
        for problem in log_problems(self._view, given):
            self._add(*problem)
        self.files += len(given.logs)
        self.bytes += _log_bytes(given)

    def file(self, file: FileSlice, keys: _Keys) -> None:
        """Read all of a current base file."""
        if not self._view.options.meta_fields:
            self._file_of_data(file, keys)
            return
        with self._finding("file", file.path):
            known, said = read_unverified(self._view.location, file)
            bloom = None
            with self._finding("filter", file.path):
                own_entry(said, file.name, file.path)
                bloom = BloomFilter.from_footer(said, file.path)
            names = known.source.schema.names
            absent = [name for name in META_COLUMNS if name not in names]
            if absent:
                self._add("file", file.path, f"has no column {', '.join(absent)}")
                return
            for name in META_COLUMNS:
                kind = known.source.schema.field(name).type
                if not is_text(plain_type(kind)):
                    self._add("file", file.path, f"has a column {name} of type {kind}, not string")
                    return
            seen = RowCheck(file, known, bloom)
            for batch in known.source.batches(names):
                batch = _with_texts(batch)
                seen.check(batch)
                keys.add(file.path, batch.column(names.index(RECORD_KEY)).drop_null())
            for kind, problem in seen.problems():
                self._add(kind, file.path, problem)
            self._count(file, seen.count)

    def _file_of_data(self, file: FileSlice, keys: _Keys) -> None:
        """Read all of a current base file that has no meta columns."""
        with self._finding("file", file.path):
            filesystem, path = self._view.location.resolve(file.path)
            try:
                source, _ = parquet_source(filesystem, path)
            except FileNotFoundError:
                shown = self._view.location.show(file.path)
                raise StaleStoreError(f"{shown}: deleted by a clean or a rollback") from None
            names = source.schema.names
            fields = self._view.options.record_key
            absent = [name for name in fields if name not in names]
            if absent:
                self._add("file", file.path, f"has no column {', '.join(absent)}")
                return
            for batch in source.batches(names):
                if fields and (texts := self._key_texts(file, batch, fields)) is not None:
                    keys.add(file.path, texts)
            self._count(file, source.num_rows)

    def _key_texts(
        self, file: FileSlice, batch: pa.RecordBatch, fields: Sequence[str]
    ) -> pa.Array | None:
        """Return the record keys of rows. None: Hudi's text of such a column is unknown."""
        try:
            return record_keys(batch, fields).chunk(0)
        except TypeError:
            return None
        except ValueError:
            self._add("row", file.path, f"has rows without a record key, {', '.join(fields)}")
            return None

    def _count(self, file: FileSlice, rows: int) -> None:
        """Count a file that was read, and compare its rows with the record of its commit."""
        stat = self._stats.get(file.path)
        if stat is not None and stat.num_writes != rows:
            said_rows = f"{stat.num_writes} rows as its commit says"
            self._add("statistics", file.path, f"has {rows} rows, not {said_rows}")
        self.files += 1
        self.rows += rows
        self.bytes += file.bytes

    def column_statistics(self, groups: list[FileGroup]) -> None:
        """Compare statistics of columns with the rows; wrong statistics are not used any more."""
        location = self._view.location
        try:
            statistics = read_statistics(location, pending_writes(self._view))
        except LookupStoreError as error:
            self._add("columns", STATISTICS_FOLDER, str(error))
            return
        if statistics is None:
            return
        for file in (group.current for group in groups):
            with self._finding("columns", file.path):
                problems = list(wrong_statistics(location, statistics, file))
                for problem in problems:
                    self._add("columns", file.path, problem)
                if problems:
                    # Users that may only read get the error, too.
                    with suppress(OSError):
                        quarantine(location, file.path, "; ".join(problems))

    def duplicates(self, keys: _Keys) -> None:
        """Look for keys that are in one partition twice."""
        if not keys.arrays:
            return
        column = pa.chunked_array(keys.arrays, pa.string()).cast(pa.large_binary())
        ends = np.cumsum([len(array) for array in keys.arrays])
        order, same = sort_keys(column.combine_chunks())
        if same is None:
            return
        for place in np.flatnonzero(same).tolist():
            rows = sorted(order[place - 1 : place + 1].tolist())
            first, second = (
                keys.paths[int(np.searchsorted(ends, row, side="right"))] for row in rows
            )
            key = column[rows[0]].as_py().decode("utf-8", "replace")
            where = "in two rows of this file" if first == second else f"also in {first}"
            self._add("duplicate", second, f"the key {key!r} is {where}")

    def uncommitted(self) -> None:
        """Look for files that count, though their instants never completed."""
        with self._finding("uncommitted", ""):
            for stray in never_completed(self._view):
                if stray.counts:
                    self._add(
                        "uncommitted",
                        stray.file.path,
                        f"{stray.file.time} was rolled back, and never committed, but its rows are "
                        "read, since the commits before it are archived; rollback() deletes it",
                    )

    def metadata(self) -> None:
        """Compare the list in the metadata table, for readers that use it, with the folders."""
        with self._finding("metadata", METADATA_FOLDER):
            for path, problem in differences(self._view):
                self._add("metadata", path, problem)

    def leftovers(self) -> None:
        """Look for files that are not part of the table."""
        with self._finding("file", ""):
            for left in find_leftovers(self._view):
                self._add("leftover", left.path, left.problem)

    def _read_completed(self, instant: Instant) -> None:
        content = self._view.folder.read(instant)
        shown = self._view.folder.path(instant)
        if instant.action in _RESULTS:
            parse_plan(_RESULTS[instant.action], content, shown)
        elif instant in self._view.timeline.writes():
            self._unread.add(instant.time)
            parse_commit(content, shown)
            for stats in (self._view.commit(instant).stats or {}).values():
                for one in stats:
                    if one.path and is_log_file(one.path):
                        size = max(one.file_size_in_bytes or 0, self._log_sizes.get(one.path, 0))
                        self._log_sizes[one.path] = size
                    elif one.path:
                        self._stats[one.path] = one
            self._replaced |= self._view.replaced(instant)
            self._unread.discard(instant.time)

    def _read_plan(self, requested: Instant) -> None:
        try:
            content = self._view.folder.read(requested)
        except FileNotFoundError:
            return  # it is not needed once the instant is completed
        # An overwrite has no plan.
        if content or requested.action in (ROLLBACK, CLEAN):
            parse_plan(_PLANS[requested.action], content, self._view.folder.path(requested))

    def _path(self, instant: Instant) -> str:
        return f"{self._view.options.timeline}/{instant.file_name}"

    def _add(self, kind: str, path: str, problem: str) -> None:
        self.findings.append(Finding(kind, path, problem))

    @contextmanager
    def _finding(self, kind: str, path: str) -> Iterator[None]:
        """Convert an error of lookupstore to a finding."""
        try:
            yield
        except LookupStoreError as error:
            self._add(kind, path, str(error))
