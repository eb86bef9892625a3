"""The archive of a table of version 6: log files with blocks of Avro records.

A record is one file of an instant, so a completed instant has three. Files are numbered in the
order in which they are added, and lookupstore always adds a new file.

The content of a block is i32 3, the number of records as i32, and for each record its size as i32
and the record. All numbers are big-endian.

Source: HoodieAvroDataBlock, ArchivedTimelineLoaderV1 and MetadataConversionUtils of Apache Hudi.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from lookupstore.errors import CorruptionError
from lookupstore.hudi.log.blocks import AVRO, SCHEMA_HEADER, avro_records, block_bytes, read_blocks
from lookupstore.hudi.timeline.archive import OldInstant
from lookupstore.hudi.timeline.avro_file import (
    read_record,
    record_bytes,
    record_decoder,
    schema_text,
)
from lookupstore.hudi.timeline.commit import CommitMetadata, parse_commit
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.hudi.timeline.plans import (
    SCHEMA_NAMES,
    CleanerPlan,
    CleanMetadata,
    RequestedReplace,
    RollbackMetadata,
)
from lookupstore.hudi.timeline.records import from_record, to_record
from lookupstore.hudi.timeline.timeline import (
    ACTIONS,
    CLEAN,
    COMMIT,
    REPLACE,
    ROLLBACK,
    Instant,
    State,
)
from lookupstore.storage.location import Location

T = TypeVar("T")

_ENTRY = "HoodieArchivedMetaEntry"
_NAME = re.compile(r"\.commits_\.archive\.(?P<number>\d{1,9})(_\d+-\d+-\d+)?")
_DATA_VERSION = 3
_I32 = struct.Struct(">i")
_STATES = tuple(State)
# Maximum size of a log file: Java begins another one after 512 MiB.
_MOST_LOG_BYTES = 1 << 30
# Number of instants in a block, the default of Java.
_BATCH = 10

_BASIC = ("commitTime", "actionType", "actionState")
# Fields of an entry, by their content.
_COMMITS = {COMMIT: "hoodieCommitMetadata", REPLACE: "hoodieReplaceCommitMetadata"}
_INFLIGHT_REPLACE = "HoodieInflightReplaceMetadata"
_ROLLBACK = "hoodieRollbackMetadata"
_REACHED = "stateTransitionTime"
_FIELDS = {
    (CLEAN, State.COMPLETED): ("hoodieCleanMetadata", CleanMetadata),
    (CLEAN, State.INFLIGHT): ("hoodieCleanerPlan", CleanerPlan),
    (CLEAN, State.REQUESTED): ("hoodieCleanerPlan", CleanerPlan),
    (ROLLBACK, State.COMPLETED): (_ROLLBACK, RollbackMetadata),
    (REPLACE, State.REQUESTED): ("hoodieRequestedReplaceMetadata", RequestedReplace),
}


class _Entry(NamedTuple):
    """One file of an instant.

    Attributes:
        instant: Instant, in the state that the file records.
        record: Fields of the record that the caller asked for, by name.
        path: Path of the log file, for errors.
        offset: Offset of the record in the log file.
    """

    instant: Instant
    record: dict[str, Any]
    path: str
    offset: int

    def made(self, kind: type[T], field: str) -> Iterator[T]:
        """Yield the value of a field as a dataclass, if it has one."""
        if self.record[field] is not None:
            try:
                yield from_record(kind, self.record[field])
            except ValueError as error:
                raise CorruptionError(self.path, self.offset, kind.__name__, error) from error


class ArchivedLog:
    """The archive of a table of version 6; see `Archive`.

    Args:
        location: Location of the table.
        folder: Path of the folder of log files, relative to the table.
    """

    def __init__(self, location: Location, folder: str) -> None:
        self._location = location
        self._folder = folder
        self.shown: str = location.show(folder)

    def is_empty(self) -> bool:
        """Return whether the archive is empty."""
        return not self._files()

    def instants(self) -> Iterator[Instant]:
        """Yield the instants in the archive."""
        return (entry.instant for entry in self._completed(self._newest_first()))

    def commits(self) -> Iterator[CommitMetadata]:
        """Yield the metadata of commits and replacecommits."""
        return (commit for _, commit in self.commits_by_instant())

    def commits_by_instant(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        """Yield commits and replacecommits with their metadata."""
        for entry in self._completed(self._newest_first(), *_COMMITS.values()):
            if entry.instant.action in _COMMITS:
                for commit in entry.made(CommitMetadata, _COMMITS[entry.instant.action]):
                    yield entry.instant, commit

    def rollbacks(self) -> Iterator[RollbackMetadata]:
        """Yield the metadata of rollbacks."""
        for entry in self._completed(self._newest_first(), _ROLLBACK):
            if entry.instant.action == ROLLBACK:
                yield from entry.made(RollbackMetadata, _ROLLBACK)

    def added_last(self) -> set[Instant]:
        """Return the instants that were added last.

        Their writer may have died before it removed them from the timeline.
        """
        return {entry.instant for entry in self._completed(self._newest_first()[:1])}

    def add(self, old: Sequence[OldInstant], check: Callable[[], None]) -> None:
        """Add instants, some of which may be in the archive, as a new file."""
        blocks = [_block(old[at : at + _BATCH]) for at in range(0, len(old), _BATCH)]
        number = max(self._files(), default=0) + 1
        name = f"{self._folder}/.commits_.archive.{number}_1-0-1"
        self._location.create(name, b"".join(blocks), check)

    def tidy(self, check: Callable[[], None]) -> None:
        """Leave files as they are: a new one needs no other to be read or written."""

    def _files(self) -> dict[int, str]:
        """Return the names of the log files by their numbers."""
        found = {}
        for file in self._location.files(self._folder):
            match = _NAME.fullmatch(file.name.rpartition("/")[2])
            if match is not None:
                found[int(match["number"])] = file.name
        return found

    def _newest_first(self) -> list[str]:
        return [name for _, name in sorted(self._files().items(), reverse=True)]

    def _completed(self, names: Sequence[str], *fields: str) -> Iterator[_Entry]:
        for name in names:
            # Within a file, too, the newest instants are last.
            for entry in reversed(list(_entries(self._location, name, fields))):
                if entry.instant.is_completed:
                    yield entry


def _entries(location: Location, name: str, fields: tuple[str, ...]) -> Iterator[_Entry]:
    """Yield the entries of a log file, with some fields besides the instant."""
    path = location.show(name)
    for block in read_blocks(location.read(name, _MOST_LOG_BYTES), path):
        if block.kind != AVRO:
            continue
        decode = record_decoder(
            block.schema, path, block.at_schema, _ENTRY, fields=(*_BASIC, *fields)
        )
        for content, start in avro_records(block, path):
            record = decode(content, start)
            yield _Entry(_instant(record, path, start), record, path, start)


def _instant(record: dict[str, Any], path: str, offset: int) -> Instant:
    time, action, state = (record[name] for name in _BASIC)
    # Old entries have no state: they are of completed instants.
    states = {one.name: one for one in State}
    if not is_time(time or "") or action not in ACTIONS or (state or "COMPLETED") not in states:
        found = f"time {time!r}, action {action!r}, state {state!r}"
        raise CorruptionError(path, offset, "an instant", found)
    return Instant(time, action, states[state or "COMPLETED"])


def _block(old: Sequence[OldInstant]) -> bytes:
    """Return a block with the files of some instants."""
    records = [
        record_bytes(_ENTRY, _record(one.instant, state, content, one.reached.get(state)))
        for one in old
        for state, content in sorted(one.contents.items(), key=lambda pair: _STATES.index(pair[0]))
    ]
    content = _I32.pack(_DATA_VERSION) + _I32.pack(len(records))
    content += b"".join(_I32.pack(len(one)) + one for one in records)
    return block_bytes(AVRO, {SCHEMA_HEADER: schema_text(_ENTRY).encode()}, content)


def _record(instant: Instant, state: State, content: bytes, reached: str | None) -> dict[str, Any]:
    """Return the entry of one file of an instant."""
    record: dict[str, Any] = dict(
        zip(_BASIC, (instant.time, instant.action, state.name), strict=True)
    )
    # An upgrade by Java uses it as the completion time, and fails to read tables without it.
    record[_REACHED] = reached
    if not content:
        return record
    path = instant.file_name
    if (instant.action, state) in _FIELDS:
        field, kind = _FIELDS[instant.action, state]
        record[field] = read_record(content, path, SCHEMA_NAMES[kind])
    elif instant.action in _COMMITS:
        commit = to_record(parse_commit(content, path))
        is_replace = instant.action == REPLACE
        if not (is_replace and state is State.COMPLETED):
            del commit["partitionToReplaceFileIds"]
        began = is_replace and state is State.INFLIGHT
        record[_INFLIGHT_REPLACE if began else _COMMITS[instant.action]] = commit
    return record
