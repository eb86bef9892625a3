"""The archive of a timeline: instants completed long ago, in files of many instants.

An instant that leaves the timeline is written to the archive first. Readers of rows need neither: a
base file that is older than the first commit of the timeline counts. The archive records which
instants these are, and what they did.

The archive may be incomplete: programs merge its files, and users delete old ones. Instants in it
have happened; about instants that are not in it, nothing is known.
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

    Methods that read return completed instants, file by file, the newest file first.

    Raises:
        CorruptionError: If a file that is read is damaged, or is missing though another names it.
        OSError: If a file could not be read. A remote file may also be damaged.
    """

    #: Path or URI of its folder, for messages.
    shown: str

    def is_empty(self) -> bool:
        """Return whether the archive is empty."""

    def instants(self) -> Iterator[Instant]:
        """Yield the instants in the archive."""

    def commits(self) -> Iterator[CommitMetadata]:
        """Yield the metadata of commits and replacecommits."""

    def commits_by_instant(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        """Yield commits and replacecommits with their metadata."""

    def rollbacks(self) -> Iterator[RollbackMetadata]:
        """Yield the metadata of rollbacks."""

    def added_last(self) -> set[Instant]:
        """Return the instants that were added last.

        Their writer may have died before it removed them from the timeline.
        """

    def add(self, old: Sequence[OldInstant], check: Callable[[], None]) -> None:
        """Add instants, some of which may be in the archive.

        The caller holds the table's lock.

        Args:
            old: Instants to add, sorted by request time.
            check: Function that raises an error if the lock is lost. It is called before each step
                that others see.
        """

    def tidy(self, check: Callable[[], None]) -> None:
        """Merge small files, if there are many, and delete files that no reader needs.

        The caller holds the table's lock.
        """


def completed_writes(archive: Archive, times: set[str]) -> set[str]:
    """Return which request times are those of archived commits and replacecommits.

    Args:
        archive: Archive of the table. It is read until all times are found.
        times: Request times to look for.
    """
    left = set(times)
    if left:
        for instant in archive.instants():
            if instant.is_write:
                left.discard(instant.time)
            if not left:
                break
    return times - left
