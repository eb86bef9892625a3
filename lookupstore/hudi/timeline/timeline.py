"""The timeline of a table: its instants in the order of time.

An instant is requested, then inflight, then completed; each state has a file of its own that is
kept. Its effects are visible from the moment at which the completed file exists.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum

from lookupstore.errors import CommitConflictError, CorruptionError, FormatError, LockLostError
from lookupstore.hudi.timeline.instant_times import BOOTSTRAPS, is_time, next_time, print_time
from lookupstore.storage.location import Location

COMMIT = "commit"
REPLACE = "replacecommit"
CLUSTERING = "clustering"
ROLLBACK = "rollback"
CLEAN = "clean"
DELTA_COMMIT = "deltacommit"
SAVEPOINT = "savepoint"
#: Action that rolls back all commits after a savepoint, one by one.
RESTORE = "restore"
#: Actions that lookupstore writes, by the name of their completed instants.
WRITES = frozenset({COMMIT, REPLACE})

# Actions that only other programs write: changes to log files, or base files that include them.
COMPACTION = "compaction"
_LOG_COMPACTION = "logcompaction"
# Actions whose completed instants have base files that count.
_BASE_FILE_WRITES = WRITES | {DELTA_COMMIT}
_COMPLETED_AS = {CLUSTERING: REPLACE, COMPACTION: COMMIT, _LOG_COMPACTION: DELTA_COMMIT}
# Other actions in a timeline, which readers of base files can ignore.
_OTHERS = ("indexing", "schemacommit")
#: All actions that an instant may have.
ACTIONS = frozenset(
    (*_BASE_FILE_WRITES, *_COMPLETED_AS, ROLLBACK, CLEAN, SAVEPOINT, RESTORE, *_OTHERS)
)
_NAME = re.compile(
    rf"(?P<time>\d+)(?:_(?P<completed>\d+))?"
    rf"(?:\.(?P<action>{'|'.join(sorted(ACTIONS))}))?(?:\.(?P<state>requested|inflight))?"
)
# Number of attempts to take a time: other writers may take the next time, too; a writer that fails
# this often has a stopped clock.
_ATTEMPTS = 1000
# Maximum difference between the clocks of writers.
_AHEAD = timedelta(seconds=10)
#: Maximum size of the file of an instant: a commit of a million files has less.
MOST_INSTANT_BYTES = 256 << 20
#: Number of newest requested files that show the time zone of instants.
NEWEST = 8

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Zone:
    """The range of offsets by which the clock of a table's instants is ahead of UTC.

    Attributes:
        least: Least possible offset, used for the times of new instants. Default: zero.
        most: Greatest possible offset. Default: zero.
    """

    least: timedelta = timedelta()
    most: timedelta = timedelta()


class State(str, Enum):
    """The state of an instant."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


_PROGRESS = tuple(State)


@dataclass(frozen=True)
class Instant:
    """An action on a table, finished or not.

    Attributes:
        time: Request time, which identifies the instant: 17 digits, in old tables 14.
        action: Action: `commit`, `replacecommit`, `rollback` and so on. A completed clustering is a
            `replacecommit`.
        state: State of the instant.
        completed: Completion time. None: the instant is not completed, or the table is of version
            6.
    """

    time: str
    action: str
    state: State
    completed: str | None = None

    @property
    def is_completed(self) -> bool:
        """Return whether the instant is completed, so that readers see its effects."""
        return self.state is State.COMPLETED

    @property
    def is_write(self) -> bool:
        """Return whether the instant is, or becomes, a commit or replacecommit.

        Deltacommits and pending compactions, which only other programs make, are not.
        """
        return self.action in WRITES or self.action == CLUSTERING

    @property
    def writes_base_files(self) -> bool:
        """Return whether the instant, once completed, has base files that count.

        It does not matter which program wrote them.
        """
        return self.action in _BASE_FILE_WRITES

    @property
    def position(self) -> str:
        """Return the time that incremental reads use: of completion, otherwise of request."""
        return self.completed or self.time

    @property
    def file_name(self) -> str:
        """Return the name of the file that records the instant's state.

        >>> Instant("20240418173550988", "commit", State.INFLIGHT).file_name
        '20240418173550988.inflight'
        """
        if self.state is State.COMPLETED:
            both = self.time if self.completed is None else f"{self.time}_{self.completed}"
            return f"{both}.{self.action}"
        if self.state is State.INFLIGHT and self.action == COMMIT:
            return f"{self.time}.inflight"
        return f"{self.time}.{self.action}.{self.state.value}"


def parse_instant(name: str, path: str, version: int) -> Instant | None:
    """Return the instant of a file in the timeline's folder.

    None: the file is not one of an instant.

    Args:
        name: Name of the file.
        path: Path of the file, for errors.
        version: Version of the table.

    Raises:
        CorruptionError: If the name has a time that is not valid, or is that of another table
            version.

    >>> parse_instant("20260307135657661_20260307135659468.commit", "", 9).completed
    '20260307135659468'
    """
    match = _NAME.fullmatch(name)
    if match is None or not (match["action"] or match["state"]):
        return None
    state = State(match["state"] or "completed")
    action = match["action"] or COMMIT
    if match["action"] is None and state is State.REQUESTED:
        return None
    for time in (match["time"], match["completed"]):
        # Some readers ignore such a file without an error, and with it all rows of the commit.
        if time is not None and not is_time(time):
            raise CorruptionError(path, 0, "a date and time of 14 or 17 digits", time)
    if (match["completed"] is not None) != (state is State.COMPLETED and version != 6):
        wanted = "a request time only" if version == 6 else "a request and a completion time"
        raise CorruptionError(path, 0, f"the name of version {version}, {wanted}", name)
    return Instant(match["time"], action, state, match["completed"])


@dataclass(frozen=True)
class Timeline:
    """The instants of a table at one moment, by request time.

    Attributes:
        instants: Instants, each in its last state.
        requested: Times at which the newest requested files of commits were written, in seconds
            since 1970, by the request times of their instants.
    """

    instants: tuple[Instant, ...]
    requested: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def writes(self, as_of: str | None = None) -> list[Instant]:
        """Return the completed instants that wrote base files, up to a request time."""
        return [
            instant
            for instant in self.instants
            if instant.is_completed
            and instant.writes_base_files
            and (as_of is None or instant.time <= as_of)
        ]

    def pending(self) -> list[Instant]:
        """Return the instants that have begun and are not completed."""
        return [instant for instant in self.instants if not instant.is_completed]

    def has_lost(self, time: str, later: Timeline) -> bool:
        """Return whether an instant is in this timeline, and not in a later one."""
        return any(one.time == time for one in self) and all(one.time != time for one in later)

    @property
    def last_time(self) -> str:
        """Return the greatest time that any instant was requested or completed at, or ``""``."""
        return max((max(one.time, one.position) for one in self.instants), default="")


class TimelineFolder:
    """The files of a table's timeline.

    A file is created in one step, and only if it does not exist. If several writers request one
    time, or complete one instant of version 6, one of them succeeds. That holds where
    `Location.creates_once`; elsewhere, use one writer at a time.

    Args:
        location: Location of the table.
        folder: Path of the timeline's folder, relative to the table.
        version: Version of the table.
        clock: Function that returns the current time. Default: the time of this machine.
        zone: Function that returns the zone of instants, given the timeline and the current time.
            It is called once, when the zone is first needed. Default: UTC.
    """

    def __init__(
        self,
        location: Location,
        folder: str,
        version: int,
        *,
        clock: Clock | None = None,
        zone: Callable[[Timeline, datetime], Zone] | None = None,
    ) -> None:
        self._location = location
        self._folder = folder
        self._version = version
        self._clock = clock or utc_now
        self._find_zone = zone
        self._zone: Zone | None = None

    def beside(self, folder: str) -> TimelineFolder:
        """Return the folder of another timeline, which has the same clock and zone.

        Args:
            folder: Path of that timeline's folder, relative to the table.
        """
        return TimelineFolder(
            self._location,
            folder,
            self._version,
            clock=self._clock,
            zone=lambda _timeline, _now: self.zone(self.load()),
        )

    def path(self, instant: Instant) -> str:
        """Return the path or URI of an instant's file, for people and errors."""
        return self._location.show(self._name(instant))

    def load(self) -> Timeline:
        """Return the current timeline.

        Raises:
            CorruptionError: If the name of a file is not valid, or two files complete one instant.
        """
        found: dict[tuple[str, str], Instant] = {}
        requested: list[tuple[float, str]] = []
        for file in self._location.files(self._folder):
            instant = parse_instant(
                file.name.rpartition("/")[2], self._location.show(file.name), self._version
            )
            if instant is None:
                continue
            # Instants of services are made when they are planned, which may take long.
            is_requested = instant.state is State.REQUESTED and instant.action in WRITES
            if is_requested and file.modified is not None and instant.time not in BOOTSTRAPS:
                requested.append((file.modified, instant.time))
            # A savepoint has the time of the commit that it keeps.
            key = instant.time, _completed_action(instant.action)
            known = found.get(key)
            if known is None or _progress(known) < _progress(instant):
                found[key] = instant
            elif known.is_completed and instant.is_completed:
                path = self._location.show(file.name)
                raise CorruptionError(path, 0, "an instant completed once", known.file_name)
        newest = {time: modified for modified, time in heapq.nlargest(NEWEST, requested)}
        instants = sorted(found.values(), key=lambda one: (one.time, one.action))
        return Timeline(tuple(instants), newest)

    def read(self, instant: Instant) -> bytes:
        """Return the content of an instant's file, for the state that the instant has.

        Raises:
            FileNotFoundError: If there is no such file. The instant was never in that state, or was
                rolled back.
            CorruptionError: If the file is too large for an instant.
        """
        return self._location.read(self._name(instant), MOST_INSTANT_BYTES)

    def times_written(self, timeline: Timeline) -> dict[str, str]:
        """Return when each file was written, by the clock of the instants.

        The result is empty since version 8. In version 6, nothing else records when an instant was
        completed.

        Source: InstantFileNameParserV1 and HoodieInstant (stateTransitionTime) of Apache Hudi.

        Args:
            timeline: Timeline, which shows the zone.

        Returns:
            Times by file name.

        Raises:
            FormatError: If the zone is not known.
        """
        if self._version != 6:
            return {}
        # If only a range of zones is known, its least offset gives no time in the future.
        offset = self.zone(timeline).least
        return {
            file.name.rpartition("/")[2]: print_time(
                datetime.fromtimestamp(file.modified, timezone.utc) + offset
            )
            for file in self._location.files(self._folder)
            if file.modified is not None
        }

    def request(self, action: str, content: bytes = b"") -> Instant:
        """Request a new instant, whose time is greater than every other.

        Raises:
            OSError: If the file cannot be written.
            FormatError: If the zone of instants is not known, or the last instant is ahead of the
                clock.
        """
        for time in self.free_times():
            with suppress(FileExistsError):
                return self.request_at(time, action, content)
        raise FileExistsError(
            f"{self._location.show(self._folder)}: no free time for a new instant"
        )

    def free_times(self) -> Iterator[str]:
        """Yield times that are greater than those of all instants, until one is taken.

        Raises:
            FormatError: If the zone of instants is not known, or the last instant is ahead of the
                clock.
        """
        after = ""
        for _ in range(_ATTEMPTS):
            timeline = self.load()
            after = self._next_time(timeline, after)
            self.check_clock(timeline)
            yield after

    def zone(self, timeline: Timeline) -> Zone:
        """Return the zone of the table's instants.

        Raises:
            FormatError: If the zone is not known.
        """
        if self._zone is None:
            find = self._find_zone
            self._zone = Zone() if find is None else find(timeline, self._clock())
        return self._zone

    def check_clock(self, timeline: Timeline) -> None:
        """Check that a new instant is neither before the last one nor too early.

        Raises:
            FormatError: If the zone of instants is not known, or the last instant is ahead of the
                clock. The next instant of another writer, whose clock is right, would then sort
                before a new one.
        """
        # An instant at the end of time has an error of its own.
        self._next_time(timeline)
        last, now = timeline.last_time, self._clock()
        latest = now + self.zone(timeline).most + _AHEAD
        if last > print_time(latest):
            shown = [self.path(one) for one in timeline if last in (one.time, one.completed)]
            raise FormatError(
                f"{shown[0]}: its time is ahead of the clock, at which it is "
                f"{print_time(now + self.zone(timeline).most)} in the table's zone: what other "
                "writers write next would not show after an instant that follows it; wait until "
                "then, and see that writers have one zone and the right time"
            )

    def is_taken(self, time: str) -> bool:
        """Return whether there is an instant of a request time, whatever it does."""
        return any(instant.time == time for instant in self.load())

    def request_at(self, time: str, action: str, content: bytes = b"") -> Instant:
        """Request a new instant at a time that was free when it was chosen.

        Raises:
            FileExistsError: If another instant has taken the time.
        """
        instant = Instant(time, action, State.REQUESTED)
        self._create(instant, content)
        return instant

    def start(self, instant: Instant, content: bytes = b"") -> Instant:
        """Write the inflight file of a requested instant.

        Raises:
            ValueError: If the instant is not requested.
            CommitConflictError: If the instant was rolled back.
            FileExistsError: If the inflight file exists already.
        """
        return self._advance(instant, State.REQUESTED, State.INFLIGHT, instant.action, content)

    def start_savepoint(self, time: str) -> Instant:
        """Write the inflight file of a savepoint, which has no requested file.

        Does nothing if the file exists: its writer died.
        """
        instant = Instant(time, SAVEPOINT, State.INFLIGHT)
        with suppress(FileExistsError):
            self._create(instant, b"")
        return instant

    def before(self, instant: Instant) -> Instant:
        """Return a completed instant as it was before it was completed.

        Raises:
            ValueError: If its inflight file is missing.
        """
        for action in (instant.action, CLUSTERING):
            inflight = replace(instant, action=action, state=State.INFLIGHT, completed=None)
            if self._location.size(self._name(inflight)) is not None:
                return inflight
        raise ValueError(f"{self.path(instant)}: the instant has no inflight file")

    def check_there(self, instant: Instant) -> None:
        """Check that the file of an instant exists, for the state that the instant has.

        Raises:
            CommitConflictError: If the file is missing.
        """
        if self._location.size(self._name(instant)) is None:
            raise CommitConflictError(
                f"{self.path(instant)}: the instant was rolled back by another writer, which "
                "assumed that this one was dead; write again",
                instant=instant.time,
            )

    def is_unrequested(self, instant: Instant) -> bool:
        """Return whether a pending instant has an inflight file and no requested file.

        The requested file is written first, and a rollback deletes it last. So the inflight file
        got its name after a rollback, from a writer that stood still meanwhile.

        Args:
            instant: Instant of a timeline that may be out of date.
        """
        requested, inflight = (
            self._location.size(self._name(replace(instant, state=state)))
            for state in (State.REQUESTED, State.INFLIGHT)
        )
        # The order matters: an instant that is completed and archived meanwhile would have neither.
        return requested is None and inflight is not None

    def delete(self, *instants: Instant) -> None:
        """Delete the files of instants durably, for the states that the instants have."""
        for instant in instants:
            self._location.delete(self._name(instant))
        # The next deletion must not reach the disk before this one.
        self._location.sync(self._folder)

    def complete(
        self, instant: Instant, content: bytes, check: Callable[[], None] | None = None
    ) -> Instant:
        """Complete an inflight instant, so that readers see what it did.

        The caller holds the table's lock. Since version 8, the file's name contains a time that is
        chosen here. The name therefore does not keep another writer from completing the instant as
        well.

        Args:
            instant: Inflight instant.
            content: Content of its completed file.
            check: Function that raises an error if the lock is lost. It is called last of all.

        Returns:
            The completed instant.

        Raises:
            ValueError: If the instant is not inflight.
            LockLostError: If another writer has the lock by now. Nothing was completed.
            CommitConflictError: If the instant was rolled back.
            FileExistsError: If the instant is completed already.
        """
        completed = None
        action = _completed_action(instant.action)
        if self._version != 6:
            timeline = self.load()
            if any(
                one.is_completed and (one.time, one.action) == (instant.time, action)
                for one in timeline
            ):
                raise FileExistsError(f"{self.path(instant)}: already completed")
            completed = self._next_time(timeline)
        try:
            return self._advance(
                instant, State.INFLIGHT, State.COMPLETED, action, content, completed, check
            )
        except FileNotFoundError as error:
            raise LockLostError(
                f"{self.path(instant)}: not completed; another writer has the table's lock, and "
                "deleted the file that was about to be renamed"
            ) from error

    def _advance(
        self,
        instant: Instant,
        before: State,
        after: State,
        action: str,
        content: bytes,
        completed: str | None = None,
        check: Callable[[], None] | None = None,
    ) -> Instant:
        if instant.state is not before:
            raise ValueError(f"instant {instant.time} is {instant.state.value}, not {before.value}")
        self.check_there(instant)
        advanced = replace(instant, state=after, action=action, completed=completed)
        self._location.create(self._name(advanced), content, check)
        return advanced

    def _next_time(self, timeline: Timeline, after: str = "") -> str:
        """Return a time that is greater than every time of a timeline, and than `after`.

        Raises:
            FormatError: If no greater time is possible.
        """
        last = max(after, timeline.last_time)
        try:
            return next_time(last, self._clock() + self.zone(timeline).least)
        except OverflowError:
            shown = [self.path(one) for one in timeline if last in (one.time, one.completed)]
            raise FormatError(
                f"{(shown or [self._location.show(self._folder)])[0]}: its time is the greatest "
                "possible, so nothing can follow it; if no writer made it, delete the file"
            ) from None

    def _create(self, instant: Instant, content: bytes) -> None:
        self._location.create(self._name(instant), content)

    def _name(self, instant: Instant) -> str:
        return f"{self._folder}/{instant.file_name}"


def _completed_action(action: str) -> str:
    return _COMPLETED_AS.get(action, action)


def _progress(instant: Instant) -> int:
    return _PROGRESS.index(instant.state)


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(timezone.utc)
