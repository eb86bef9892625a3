"""The commits of a table: the newest one up to a time, and the snapshot of each.

Processes that do not communicate choose the same commit for the same time, because each commit has
a time that is recorded once. A writer chooses this time shortly before the commit can be seen.
"""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from lookupstore.tables.snapshot import Snapshot

if TYPE_CHECKING:  # in typing since Python 3.11
    from typing_extensions import Self

#: Names of the arguments that choose a commit.
VERSION, AS_OF = "version", "as_of"


class TableCommits(Protocol):
    """The commits of a table. Its pickle opens the table where that is used.

    Positions are texts, each of which identifies a commit.

    Attributes:
        fixed: Argument or other thing that stands for one commit, so that there is no newer one.
            Empty: newer ones are looked for.
        place: Text that differs between tables.
        settle_seconds: Time after which a commit can be seen, if its time is that much ago.
    """

    fixed: str
    place: str
    settle_seconds: float

    @property
    def opened(self) -> str:
        """Return the position of the commit that the table was opened at."""

    def newest(self) -> str:
        """Return the position of the newest commit.

        Raises:
            OSError: If the storage or catalog does not answer.
        """

    def newest_at(self, moment: float, planned: str) -> str:
        """Return the position of the newest commit up to a moment, but none before another one.

        Args:
            moment: Seconds since 1970.
            planned: Position of the other commit.

        Raises the errors of `newest`.
        """

    def time_of(self, position: str) -> float | None:
        """Return the time of a commit in seconds since 1970. None: it is not recorded any more."""

    def number_of(self, position: str) -> int | None:
        """Return the number of the version or snapshot at a position. None: there is none."""

    def snapshot(self, position: str) -> Snapshot:
        """Return the files of a commit.

        Args:
            position: Position of the commit.

        Raises:
            StaleStoreError: If the commit is gone.
            FormatError: If the table has something that is not supported.
        """

    def at(self, *, version: int | None = None, moment: float | None = None) -> Self:
        """Return the table opened at one commit.

        Args:
            version: Number of the version or snapshot. None: the newest one up to `moment`.
            moment: Seconds since 1970.

        Raises:
            ValueError: If there is no such commit.
        """

    def elsewhere(self) -> Self:
        """Return the table as another process opens it.

        Raises:
            ValueError: If other processes cannot open it.
        """


def chosen(commits: TableCommits, version: Any, as_of: Any) -> TableCommits:
    """Return a table at the commit of the argument `version` or `as_of`, or as it is.

    Args:
        commits: The table.
        version: Number of a version or snapshot. None: not given.
        as_of: Time, as `moment_of` takes it. None: not given.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If both are given, or there is no such commit.
    """
    if version is None and as_of is None:
        return commits
    if version is not None and as_of is not None:
        raise ValueError("version and as_of both choose a commit; give one of them")
    name = AS_OF if version is None else VERSION
    if commits.fixed:
        raise ValueError(
            f"{name} is given, but the table was opened with {commits.fixed}; leave one of them out"
        )
    if version is None:
        return commits.at(moment=moment_of(as_of))
    if not isinstance(version, int) or isinstance(version, bool):
        raise TypeError(f"version is {version!r}; give a whole number, or a time as as_of")
    return commits.at(version=version)


def moment_of(as_of: date | str) -> float:
    """Return a time in seconds since 1970.

    Args:
        as_of: Time as a datetime, or as a text in ISO 8601; without a zone, in UTC. A date stands
            for its beginning.

    Raises:
        TypeError: If it is something else.
        ValueError: If the text is not a time.

    >>> moment_of("1970-01-02"), moment_of("1970-01-01T02:00:00+01:00")
    (86400.0, 3600.0)
    """
    time: object = as_of
    if isinstance(time, str):
        text = time.strip()
        try:
            time = datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in "zZ" else text)
        except ValueError:
            raise ValueError(
                f"as_of is {as_of!r}; give a time such as '2026-03-07 13:56:57+01:00', which is in "
                "UTC if it has no zone, or a date such as '2026-03-07' for its beginning; a number "
                "is a version"
            ) from None
    if isinstance(time, date) and not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    if not isinstance(time, datetime):
        raise TypeError(
            f"as_of is {as_of!r}; give a datetime, a date, or a text such as '2026-03-07 13:56:57'"
        )
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    return time.timestamp()


def no_version_error(description: str, version: int, known: str) -> ValueError:
    """Return the error for a version that a table does not have.

    Args:
        description: Description of the table.
        version: The version.
        known: Text about the versions that there are.
    """
    return ValueError(f"version is {version}, but the {description} has {known}; give one of these")


def too_early_error(
    description: str, moment: float, first: str, committed: float | None
) -> ValueError:
    """Return the error for a time before the first commit that a table still has.

    Args:
        description: Description of the table.
        moment: The time, in seconds since 1970.
        first: Text of the first commit.
        committed: Time of the first commit. None: it is not known.
    """
    shown = _utc(moment).isoformat(" ", "seconds")
    if committed is not None:
        first += f" of {_utc(committed).isoformat(' ', 'milliseconds')}"
    return ValueError(
        f"as_of is {shown}, before the first commit that the {description} still has ({first}); "
        "give a later time"
    )


def _utc(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, timezone.utc)
