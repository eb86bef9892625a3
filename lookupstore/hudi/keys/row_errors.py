"""Rows that cannot be written, which a write leaves out and tells of, if it is asked to.

Source: org.apache.hudi.client.WriteStatus (markFailure), which counts all and keeps some.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Of so many rows it is said what is wrong; the others are counted.
MOST_ERRORS = 100


@dataclass(frozen=True)
class RowError:
    """What is wrong with a row.

    Attributes:
        row: its number among those that were given, from 0; texts for people count from 1.
        key: its record key; None: it has none, or none could be made.
        reason: why it cannot be written.
    """

    row: int
    key: str | None
    reason: str


@dataclass
class RowErrors:
    """The rows of a write that cannot be written.

    Attributes:
        count: how many there are.
        some: the first of them.
    """

    count: int = 0
    some: list[RowError] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Return whether more are counted only."""
        return len(self.some) >= MOST_ERRORS

    def add(self, row: int, key: str | None, reason: str) -> None:
        """Take one more, and keep what is wrong with it if it is one of the first."""
        self.count += 1
        if not self.is_full:
            self.some.append(RowError(row, key, reason))
