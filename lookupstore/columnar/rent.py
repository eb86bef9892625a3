"""When to make a lookup file of a columnar file: the rule of ski rental.

What a lookup file costs is paid once, and what reads without it cost each time. So there are reads
until they have cost as much as making the file would: whatever comes, that is at most twice what
the better choice would have cost, known in advance.
"""

from __future__ import annotations

from typing import Literal

Build = Literal["auto", "always", "never"]

BUILDS: tuple[Build, ...] = ("auto", "always", "never")
#: What making a lookup file costs, in bytes of its columns: they are read, sorted and written.
BUILD_COST = 3


class Rent:
    """What reads of a file have cost that has no lookup file yet.

    Args:
        build: when to make one: `auto`: when that has paid for it; `always`: at once; `never`.
    """

    def __init__(self, build: Build) -> None:
        self.build = build
        self._paid = 0

    def is_due(self, whole: int, read: int) -> bool:
        """Return whether to make the lookup file now, in place of one more read.

        Args:
            whole: bytes of the columns that it is made of.
            read: bytes that the read would take.
        """
        if self.build == "auto":
            return self._paid + read > BUILD_COST * whole
        return self.build == "always"

    def pay(self, read: int) -> None:
        """Count a read of so many bytes."""
        self._paid += read

    def start_over(self) -> None:
        """Forget what was paid: the lookup file could not be made."""
        self._paid = 0
