"""The commits of Paimon tables: their snapshots, each with the time that its writer recorded."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from lookupstore.errors import StaleStoreError
from lookupstore.tables.commits import AS_OF, VERSION, no_version_error, too_early_error
from lookupstore.tables.paimon.metadata import Metadata
from lookupstore.tables.paimon.opened import opened_table
from lookupstore.tables.paimon.planner import snapshot_at
from lookupstore.tables.snapshot import Snapshot


class PaimonCommits:
    """The snapshots of a Paimon table.

    Args:
        given: Folder or URI of the table; or a table of pypaimon.
        number: Number of the snapshot that it is opened at. Default: the newest one, or the one
            that the options of the table of pypaimon choose.

    Raises the errors of `lookupstore.tables.paimon.planner.table_source`.
    """

    settle_seconds = 1.0

    def __init__(self, given: Any, number: int | None = None) -> None:
        table = opened_table(given)
        self._location = table.location
        self._metadata = Metadata(self._location, table.number if number is None else number)
        self.fixed: str = table.chosen_by
        self.place: str = self._location.uri
        #: Number of the snapshot that the table was opened at.
        self.opened: str = str(self._metadata.number)

    @property
    def _description(self) -> str:
        return f"Paimon table {self._location.uri}"

    def newest(self) -> str:
        """Return the number of the newest snapshot.

        Raises:
            OSError: If the storage does not answer.
        """
        return str(self._metadata.numbers()[-1])

    def newest_at(self, moment: float, planned: str) -> str:
        """Return the number of the newest snapshot up to a moment, but none before another one.

        Raises the errors of `newest`.
        """
        for number in reversed(self._metadata.numbers()):
            if number <= int(planned):
                break
            time = self.time_of(str(number))
            if time is not None and time <= moment:
                return str(number)
        return planned

    def time_of(self, position: str) -> float | None:
        """Return the time of a snapshot in seconds since 1970. None: it has expired."""
        try:
            return Metadata(self._location, int(position)).milliseconds / 1000
        except StaleStoreError:
            return None

    def number_of(self, position: str) -> int:
        """Return the number of the snapshot at a position."""
        return int(position)

    def snapshot(self, position: str) -> Snapshot:
        """Return the files of a snapshot, in the columns that it had.

        Raises:
            StaleStoreError: If the snapshot has expired.
        """
        metadata = self._metadata
        if position != self.opened:
            metadata = Metadata(self._location, int(position))
        return snapshot_at(metadata)

    def at(self, *, version: int | None = None, moment: float | None = None) -> PaimonCommits:
        """Return the table opened at one snapshot.

        Raises:
            ValueError: If there is no such snapshot.
        """
        numbers = self._metadata.numbers()
        name = AS_OF if version is None else VERSION
        if version is None:
            assert moment is not None
            # Snapshots that expire meanwhile are older than all others.
            place = bisect_right(
                numbers, moment, key=lambda number: self.time_of(str(number)) or 0.0
            )
            if not place:
                first = f"snapshot {numbers[0]}"
                written = self.time_of(str(numbers[0]))
                raise too_early_error(self._description, moment, first, written)
            version = numbers[place - 1]
        if version not in numbers and version not in self._metadata.tags().values():
            known = f"the snapshots {numbers[0]} to {numbers[-1]}"
            raise no_version_error(self._description, version, known)
        found = PaimonCommits(self._location, version)
        found.fixed = name
        return found

    def elsewhere(self) -> PaimonCommits:
        """Return this object: other processes open the table as this one does."""
        return self


#: The commits of a table of the format, by its folder, URI or object.
table_commits = PaimonCommits
