"""The archive of a timeline: what was completed long ago, in files of many instants.

An instant that leaves the timeline is written to the archive first. Who reads the table's rows
needs neither: a base file that is older than the first commit of the timeline counts. The archive
says which instants these are, and what they did.

Nobody promises that it is whole: programs merge its files, and people delete old ones. So what is
in it happened; of what is not in it, nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lookupstore.hudi.timeline.commit import CommitMetadata
from lookupstore.hudi.timeline.plans import RollbackMetadata
from lookupstore.hudi.timeline.timeline import Instant, State


@dataclass(frozen=True)
class OldInstant:
    """A completed instant that is about to leave the timeline.

    Attributes:
        instant: The instant.
        contents: Contents of its files, by their states.
        reached: When each state was reached, as the time of an instant; empty since version 8,
            where the name of the completed file says it.
    """

    instant: Instant
    contents: Mapping[State, bytes]
    reached: Mapping[State, str] = field(default_factory=dict)


class Archive(Protocol):
    """The archive of a table; one class for each of its two formats.

    What is read is completed, and comes by files, the newest first.

    Raises:
        CorruptionError: on reading, a file is damaged, or is missing though another names it.
        OSError: a file could not be read; of a remote one, also that it may be damaged.
    """

    #: Path or URI of its folder, for people and errors.
    shown: str

    def is_empty(self) -> bool:
        """Return whether nothing is in it."""

    def instants(self) -> Iterator[Instant]:
        """Yield what is in it."""

    def commits(self) -> Iterator[CommitMetadata]:
        """Yield what commits and replacecommits did."""

    def commits_by_instant(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        """Yield what they did, each with its instant."""

    def rollbacks(self) -> Iterator[RollbackMetadata]:
        """Yield what rollbacks did."""

    def added_last(self) -> set[Instant]:
        """Return what was added last: its writer may have died before it left the timeline."""

    def add(self, old: Sequence[OldInstant], check: Callable[[], None]) -> None:
        """Add instants, some of which may be in it.

        The caller holds the table's lock.

        Args:
            old: by request time.
            check: raises if the lock is lost; asked before each step that others see.
        """

    def tidy(self, check: Callable[[], None]) -> None:
        """Merge small files, if there are many, and delete what no reader reads any more.

        The caller holds the table's lock.
        """


def completed_writes(archive: Archive, times: set[str]) -> set[str]:
    """Return which request times are those of archived commits and replacecommits.

    Args:
        archive: of the table; it is read until all are found.
        times: that are looked for.
    """
    left = set(times)
    if left:
        for instant in archive.instants():
            if instant.is_write:
                left.discard(instant.time)
            if not left:
                break
    return times - left
