"""Rows that a write leaves out, with the reasons.

Source: org.apache.hudi.client.WriteStatus (markFailure), which counts all and keeps some.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Maximum number of rows whose errors are kept; further rows are only counted.
MOST_ERRORS = 100


@dataclass(frozen=True)
class RowError:
    """The reason that a row cannot be written.

    Attributes:
        row: Number of the row among the given ones, from 0. Messages count from 1.
        key: Record key of the row. None: it has no key, or none could be made.
        reason: Reason that the row cannot be written.
    """

    row: int
    key: str | None
    reason: str


@dataclass
class RowErrors:
    """Rows of a write that cannot be written.

    Attributes:
        count: Number of these rows.
        some: Reasons for the first of these rows.
    """

    count: int = 0
    some: list[RowError] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Return whether further rows are only counted."""
        return len(self.some) >= MOST_ERRORS

    def add(self, row: int, key: str | None, reason: str) -> None:
        """Count a row, and keep its reason if it is one of the first."""
        self.count += 1
        if not self.is_full:
            self.some.append(RowError(row, key, reason))
