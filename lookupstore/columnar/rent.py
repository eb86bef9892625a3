"""Decide when to make a lookup file of a columnar file: the ski-rental rule.

A lookup file is paid for once, and reads without it are paid for each time. Therefore row groups
are read until these reads have cost as much as making the file would. With any sequence of lookups,
the total is at most twice the cost of the best choice.
"""

from __future__ import annotations

from typing import Literal

Build = Literal["auto", "always", "never"]

BUILDS: tuple[Build, ...] = ("auto", "always", "never")
#: Cost of making a lookup file as a multiple of the bytes of its columns, which are read, sorted
#: and written.
BUILD_COST = 3


class Rent:
    """The cost of the reads of a file that has no lookup file yet.

    Args:
        build: Time to make the lookup file. `auto`: when it would have paid for itself. `always`:
            at once. `never`: not at all.
    """

    def __init__(self, build: Build) -> None:
        self.build = build
        self._paid = 0

    @property
    def is_paid(self) -> bool:
        """Return whether there was a read."""
        return self._paid > 0

    def is_due(self, whole: int, read: int) -> bool:
        """Return whether to make the lookup file now, instead of one more read.

        Args:
            whole: Bytes of the columns that the lookup file is made of.
            read: Bytes that the read would take.
        """
        if self.build == "auto":
            return self._paid + read > BUILD_COST * whole
        return self.build == "always"

    def pay(self, read: int) -> None:
        """Count a read of a number of bytes."""
        self._paid += read

    def start_over(self) -> None:
        """Reset the count of reads, because the lookup file could not be made."""
        self._paid = 0
