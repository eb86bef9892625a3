"""The timeline of a table: what happened to it, and the one order in which it did.

An instant is requested, then inflight, then completed, each by a file of its own that stays. What
it did is seen from the moment on that the completed file is there.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from typing import TypeAlias

from lookupstore.errors import CommitConflictError, CorruptionError, FormatError, LockLostError
from lookupstore.storage.location import Location

COMMIT = "commit"
REPLACE = "replacecommit"
CLUSTERING = "clustering"
ROLLBACK = "rollback"
CLEAN = "clean"
DELTA_COMMIT = "deltacommit"
SAVEPOINT = "savepoint"
#: All commits after a savepoint are rolled back, one by one.
RESTORE = "restore"
#: Actions that are written here, by the name that they have when they are completed.
WRITES = frozenset({COMMIT, REPLACE})

# Only others write these: changes to log files, or base files that take them in.
_COMPACTION = "compaction"
_LOG_COMPACTION = "logcompaction"
# Completed, any of these has base files that count.
_BASE_FILE_WRITES = WRITES | {DELTA_COMMIT}
_COMPLETED_AS = {CLUSTERING: REPLACE, _COMPACTION: COMMIT, _LOG_COMPACTION: DELTA_COMMIT}
# What else may be in a timeline: of no interest to those who read base files.
_OTHERS = ("indexing", "schemacommit")
#: All actions that an instant may have.
ACTIONS = frozenset(
    (*_BASE_FILE_WRITES, *_COMPLETED_AS, ROLLBACK, CLEAN, SAVEPOINT, RESTORE, *_OTHERS)
)
_NAME = re.compile(
    rf"(?P<time>\d+)(?:_(?P<completed>\d+))?"
    rf"(?:\.(?P<action>{'|'.join(sorted(ACTIONS))}))?(?:\.(?P<state>requested|inflight))?"
)
_LENGTHS = (14, 17)
# No dates, but what Hudi calls the beginning of a table, and the instants of a bootstrap.
_BOOTSTRAPS = frozenset(f"{number:014d}" for number in range(3))
_BEGINNING = "00000000000000"
_SECONDS = "%Y%m%d%H%M%S"
_MILLISECOND = timedelta(milliseconds=1)
# Others may take the next time as well; who loses this often has a clock that stands.
_ATTEMPTS = 1000
# By how much the clocks of writers may differ.
_AHEAD = timedelta(seconds=10)
#: Of the file of an instant: a commit of a million files has less.
MOST_INSTANT_BYTES = 256 << 20
#: So many of the newest requested files show what clock their instants are told by.
NEWEST = 8

Clock = Callable[[], datetime]
#: A moment of a table: an instant or its time, what a clock shows as text in ISO 8601 or a datetime
#: without a zone, or a day, which is its beginning.
When: TypeAlias = "str | date | datetime | Instant"

_ISO = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class Zone:
    """By how much the clock of a table's instants is ahead of UTC; by default it is not.

    Attributes:
        least: that it may be: new instants are told by this.
        most: that it may be.
    """

    least: timedelta = timedelta()
    most: timedelta = timedelta()


class State(str, Enum):
    """How far an instant is."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


_PROGRESS = tuple(State)


@dataclass(frozen=True)
class Instant:
    """An action on a table, finished or not.

    Attributes:
        time: when it was requested, which identifies it: 17 digits, in old tables 14.
        action: what it is: `commit`, `replacecommit`, `rollback` and so on; clustering that is
            completed is a `replacecommit`.
        state: how far it is.
        completed: when it was completed; None if it is not, or if the table is of version 6.
    """

    time: str
    action: str
    state: State
    completed: str | None = None

    @property
    def is_completed(self) -> bool:
        """Return whether what it did is seen."""
        return self.state is State.COMPLETED

    @property
    def is_write(self) -> bool:
        """Return whether it is, or is going to be, a commit or replacecommit.

        Those of other writers that compact, or write log files, are not.
        """
        return self.action in WRITES or self.action == CLUSTERING

    @property
    def writes_base_files(self) -> bool:
        """Return whether, completed, it has base files that count, whoever wrote them."""
        return self.action in _BASE_FILE_WRITES

    @property
    def position(self) -> str:
        """Return what incremental reads go by: when it was completed, or else requested."""
        return self.completed or self.time

    @property
    def file_name(self) -> str:
        """Return the name of the file that says its state.

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
    """Return the instant of a file in the timeline's folder; None if it has none.

    Args:
        name: of the file.
        path: of the file, for errors.
        version: of the table.

    Raises:
        CorruptionError: it would be one, but its times are none, or it is of another version.

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
        # Some readers pass over such a file without a word, and so over all of a commit's rows.
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
        instants: each in its last state.
        requested: when the newest requested files of commits were made, in seconds since 1970, by
            the times of their instants.
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
        """Return what has begun and is not completed."""
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

    A file is made in one step and only if it is not there: of those who request one time, or
    complete one instant of version 6, one succeeds. That holds where `Location.creates_once`;
    elsewhere, one writer at a time.

    Args:
        location: of the table.
        folder: of the timeline, relative to that.
        version: of the table.
        clock: tells the time; that of the machine.
        zone: finds the zone of instants, given the timeline and the time; None: UTC. It is asked
            once, before the first instant is made.
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
        """Return the folder of another timeline, whose instants are told by the same clock.

        Args:
            folder: of that timeline, relative to the table.
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
        """Return the timeline as it is now.

        Raises:
            CorruptionError: a file is named like none, or two say the same.
        """
        found: dict[tuple[str, str], Instant] = {}
        requested: list[tuple[float, str]] = []
        for file in self._location.files(self._folder):
            instant = parse_instant(
                file.name.rpartition("/")[2], self._location.show(file.name), self._version
            )
            if instant is None:
                continue
            # Those of services are made when they are planned, which may take long.
            is_requested = instant.state is State.REQUESTED and instant.action in WRITES
            if is_requested and file.modified is not None and instant.time not in _BOOTSTRAPS:
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
        """Return what the file of an instant, in the state that it is given in, holds.

        Raises:
            FileNotFoundError: there is none: it has never been in that state, or was rolled back.
            CorruptionError: it is larger than what any instant has to say.
        """
        return self._location.read(self._name(instant), MOST_INSTANT_BYTES)

    def times_written(self, timeline: Timeline) -> dict[str, str]:
        """Return when each file was written, by the clock of the instants; empty since version 8.

        Until version 8 nothing else says when an instant was completed.

        Source: InstantFileNameParserV1 and HoodieInstant (stateTransitionTime) of Apache Hudi.

        Args:
            timeline: The timeline, which shows the zone.

        Raises:
            FormatError: if the zone is not known.
        """
        if self._version != 6:
            return {}
        # Where the zone is known as a range, its least offset says no time that has yet to come.
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
            OSError: the file cannot be written.
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
            FormatError: as of `check_clock`.
        """
        after = ""
        for _ in range(_ATTEMPTS):
            timeline = self.load()
            after = self._next_time(timeline, after)
            self.check_clock(timeline)
            yield after

    def zone(self, timeline: Timeline) -> Zone:
        """Return the zone that instants are told by.

        Raises:
            FormatError: it is not known.
        """
        if self._zone is None:
            find = self._find_zone
            self._zone = Zone() if find is None else find(timeline, self._clock())
        return self._zone

    def check_clock(self, timeline: Timeline) -> None:
        """Check that an instant can be made that is neither before the last one nor too early.

        Raises:
            FormatError: the zone of instants is not known, or the last instant is ahead of it: the
                next one of its writer, whose clock is right, would sort before one from here.
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
            FileExistsError: it is taken.
        """
        instant = Instant(time, action, State.REQUESTED)
        self._create(instant, content)
        return instant

    def start(self, instant: Instant, content: bytes = b"") -> Instant:
        """Write down what a requested instant is about to do.

        Raises:
            ValueError: it is not requested.
            CommitConflictError: it was rolled back.
            FileExistsError: somebody did that already.
        """
        return self._advance(instant, State.REQUESTED, State.INFLIGHT, instant.action, content)

    def start_savepoint(self, time: str) -> Instant:
        """Write down that a commit is about to be kept; that is nothing that is requested.

        Does nothing if it exists: its writer died.
        """
        instant = Instant(time, SAVEPOINT, State.INFLIGHT)
        with suppress(FileExistsError):
            self._create(instant, b"")
        return instant

    def before(self, instant: Instant) -> Instant:
        """Return a completed instant as it was before it was completed.

        Raises:
            ValueError: its inflight file is not there.
        """
        for action in (instant.action, CLUSTERING):
            inflight = replace(instant, action=action, state=State.INFLIGHT, completed=None)
            if self._location.size(self._name(inflight)) is not None:
                return inflight
        raise ValueError(f"{self.path(instant)}: the instant has no inflight file")

    def check_there(self, instant: Instant) -> None:
        """Check that the file of an instant is there, in the state that it is given in.

        Raises:
            CommitConflictError: it is not.
        """
        if self._location.size(self._name(instant)) is None:
            raise CommitConflictError(
                f"{self.path(instant)}: the instant was rolled back by another writer, which "
                "assumed that this one was dead; write again",
                instant=instant.time,
            )

    def delete(self, *instants: Instant) -> None:
        """Delete the files of instants, in the states that these are given in, for good."""
        for instant in instants:
            self._location.delete(self._name(instant))
        # The next deletion must not reach the disk before this one.
        self._location.sync(self._folder)

    def complete(
        self, instant: Instant, content: bytes, check: Callable[[], None] | None = None
    ) -> Instant:
        """Make visible what an inflight instant did.

        The caller holds the table's lock: since version 8 the name has a time that is taken here,
        so that it does not keep another writer from completing the instant as well.

        Args:
            instant: that is inflight.
            content: of its completed file.
            check: raises if the lock is lost; it is asked last of all.

        Raises:
            ValueError: it is not inflight.
            LockLostError: another has the lock by now: nothing was completed.
            CommitConflictError: it was rolled back.
            FileExistsError: it is completed already.
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
        """Return a time that is greater than all of a timeline, and than one more.

        Raises:
            FormatError: there is none.
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


def is_time(text: str) -> bool:
    """Return whether a text is the time of an instant: a moment, or one of a bootstrap's.

    >>> is_time("20240418173550988"), is_time("20240418173560988")
    (True, False)
    """
    if len(text) not in _LENGTHS or not (text.isascii() and text.isdigit()):
        return False
    # A metadata table counts on, with three digits more, for each of its partitions.
    if text in _BOOTSTRAPS or (len(text) > len(_BEGINNING) and text.startswith(_BEGINNING)):
        return True
    try:
        _parse(text)
    except ValueError:
        return False
    return True


def moment_of(time: str) -> datetime:
    """Return what the clock shows at the time of an instant, as if it were UTC's.

    >>> moment_of("20240418173550988").isoformat()
    '2024-04-18T17:35:50.988000+00:00'
    """
    return _parse(time)


def given_instant(argument: str, instant: str | Instant) -> str:
    """Check an instant that a caller names, and return its time.

    Raises:
        ValueError: it is none.

    >>> given_instant("savepoint", "20240418173550988")
    '20240418173550988'
    """
    time = instant.time if isinstance(instant, Instant) else instant
    if not isinstance(time, str) or not is_time(time):
        raise _time_error(argument, time, "")
    return time


def given_time(argument: str, time: When | None, zone: str | None) -> str | None:
    """Return a moment that a caller gave as the time of an instant.

    Args:
        argument: that it was given as.
        time: the moment.
        zone: of instants, as `TableOptions.timezone` has it.

    Source: HoodieSqlCommonUtils.formatQueryInstant of Apache Hudi, for texts.

    Raises:
        ValueError: it is no moment; or has a zone, and the table does not say that its instants
            are in UTC.

    >>> given_time("as_of", "20240418173550988", None)
    '20240418173550988'
    >>> given_time("as_of", "2024-04-18 17:35:50", None)
    '20240418173550000'
    >>> given_time("as_of", "2024-04-18T17:35:50+02:00", "UTC")
    '20240418153550000'
    >>> given_time("as_of", date(2024, 4, 18), "UTC")
    '20240418000000000'
    """
    if time is None:
        return None
    if isinstance(time, Instant) or (isinstance(time, str) and is_time(time)):
        return given_instant(argument, time)
    moment = time
    if isinstance(time, str) and _ISO.match(time.strip()):
        with suppress(ValueError):
            moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", time.strip()))
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise _time_error(
            argument, time, "; or what a clock shows, such as '2026-03-07 13:56:57' or a date"
        )
    if moment.tzinfo is not None and zone != "UTC":
        raise ValueError(
            f"{argument} is {time!r}, with a zone, and the table does not say that its instants "
            "are in UTC; give what the clock shows by which it names them, without a zone"
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return print_time(moment.astimezone(timezone.utc))


def given_position(argument: str, position: When | None, zone: str | None) -> str | None:
    """Return a moment that a caller gave as a position in the timeline; as `given_time`.

    >>> commit = Instant("20240418173550988", COMMIT, State.COMPLETED, "20240418173551123")
    >>> given_position("since", commit, None)
    '20240418173551123'
    """
    time = position.position if isinstance(position, Instant) else position
    return given_time(argument, time, zone)


def _time_error(argument: str, time: object, other: str) -> ValueError:
    return ValueError(
        f"{argument} is {time!r}; give the time of an instant, 17 digits: timeline() lists "
        f"them{other}"
    )


def print_time(moment: datetime) -> str:
    """Return a moment as the time of an instant, in UTC.

    >>> print_time(datetime(2026, 3, 7, 13, 56, 57, 661999, timezone.utc))
    '20260307135657661'
    """
    utc = moment.astimezone(timezone.utc)
    return f"{utc:{_SECONDS}}{utc.microsecond // 1000:03d}"


def next_time(after: str, now: datetime) -> str:
    """Return a time for a new instant: now, or a millisecond after the last one if that is later.

    Raises:
        OverflowError: the last one is at the end of the year 9999.

    >>> next_time("20260307135657999", datetime(2026, 3, 7, tzinfo=timezone.utc))
    '20260307135658000'
    """
    time = print_time(now)
    if time > after:
        return time
    # A time without milliseconds sorts before each one within its second.
    return print_time(_parse(after) + _MILLISECOND)


def _parse(text: str) -> datetime:
    # Not with strptime: it takes longer than all else that is done with a file of the timeline.
    day = int(text[:4]), int(text[4:6]), int(text[6:8])
    time = int(text[8:10]), int(text[10:12]), int(text[12:14]), int(text[14:] or 0) * 1000
    return datetime(*day, *time, tzinfo=timezone.utc)


def _completed_action(action: str) -> str:
    return _COMPLETED_AS.get(action, action)


def _progress(instant: Instant) -> int:
    return _PROGRESS.index(instant.state)


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(timezone.utc)
