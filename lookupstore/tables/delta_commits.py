"""The commits of Delta tables: their versions, each with the time of its file in the log.

Object stores set the time of a file when it becomes visible, whatever the clock of its writer. The
time that a writer puts into the file can be from long before: it stays while the writer tries again
after conflicts. In-commit timestamps never go back. A table that has them is read as of these: a
copy of the table has them, too.

Source: "In-Commit Timestamps" in the Delta protocol.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from lookupstore.errors import StaleStoreError
from lookupstore.storage.location import Location
from lookupstore.storage.uris import hide_urls, shown_uri
from lookupstore.tables.commits import AS_OF, VERSION, no_version_error, too_early_error
from lookupstore.tables.delta import TableRoot, opened_at, opened_table, place_of, snapshot_of
from lookupstore.tables.rows import GONE
from lookupstore.tables.snapshot import Snapshot

_IN_COMMIT = "delta.enableInCommitTimestamps"
_IN_COMMIT_SINCE = "delta.inCommitTimestampEnablementVersion"


class DeltaCommits:
    """The versions of a Delta table.

    Args:
        given: Folder or URI of the table, which is opened at its newest version; or a
            `deltalake.DeltaTable`.

    Raises the errors of `lookupstore.tables.delta.table_source`.
    """

    # The time of an object has whole seconds, rounded down.
    settle_seconds = 2.0

    def __init__(self, given: Any) -> None:
        self._place = place_of(given)
        self._table: Any = opened_table(given) if isinstance(given, (str, Location)) else given
        self.fixed: str = ""
        self.place: str = self._place[0]
        # Newest version that is known, and when files of the log were written.
        self._known = int(self._table.version())
        self._times: dict[int, float | None] = {}
        with self._answering():
            #: Position of the version that the table was opened at.
            self.opened: str = self._position(self._known)
        self._times.clear()
        # Position that `_table` is opened at.
        self._table_at = self.opened

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_table": None, "_times": {}}
        state.pop("_root", None)
        return state

    @property
    def _description(self) -> str:
        return f"Delta table {shown_uri(self._place[0])}"

    @cached_property
    def _root(self) -> TableRoot:
        return TableRoot(*self._place)

    def newest(self) -> str:
        """Return the newest version.

        Raises:
            OSError: If the storage does not answer.
        """
        self._times.clear()
        known = self._known
        with self._answering():
            if self._written(known) is None:  # the log was cleaned, or is that of another table
                known = int(opened_at(*self._place).version())
            # Files of the log have consecutive numbers.
            step = 1
            while self._written(known + step) is not None:
                known, step = known + step, 2 * step
            while step > 1:
                step //= 2
                if self._written(known + step) is not None:
                    known += step
            self._known = known
            return self._position(known)

    def newest_at(self, moment: float, planned: str) -> str:
        """Return the newest version up to a moment, but none before another one.

        Raises the errors of `newest`.
        """
        newest, known = _version(self.newest()), _version(planned)
        with self._answering():
            is_same = self._written(known) is None or self._position(known) == planned
            if newest < known or not is_same:
                raise StaleStoreError(
                    f"{self._description}: deleted and written again after it was opened at "
                    f"version {known}; open it again, or call lookup_join again"
                )
            for version in range(newest, known, -1):
                written = self._written(version)
                if written is None or written <= moment:
                    return self._position(version)
        return planned

    def _position(self, version: int) -> str:
        """Return the position of a version: another table at the place has another time."""
        return f"{version}:{self._written(version)}"

    def _written(self, version: int) -> float | None:
        """Return when the file of a version was written, in seconds. None: there is none."""
        if version not in self._times:
            self._times[version] = self._root.written(version)
        return self._times[version]

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise OSError for errors of the object store."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except DeltaError as error:
            raise OSError(f"{self._description}: {hide_urls(str(error))}") from None

    def time_of(self, position: str) -> float | None:
        """Return the time of a version in seconds since 1970. None: it is not recorded any more."""
        with self._answering():
            return self._written(_version(position))

    def number_of(self, position: str) -> int:
        """Return the number of the version at a position."""
        return _version(position)

    def snapshot(self, position: str) -> Snapshot:
        """Return the files of a version.

        Raises:
            StaleStoreError: If the log does not reach back to the version.
        """
        from deltalake.exceptions import DeltaError

        if self._table is None or position != self._table_at:
            try:
                self._table = opened_at(*self._place, _version(position))
            except DeltaError:
                raise StaleStoreError(
                    f"{self._description} at version {_version(position)}: {GONE}"
                ) from None
            self._table_at = position
        return snapshot_of(self._table)

    def at(self, *, version: int | None = None, moment: float | None = None) -> DeltaCommits:
        """Return the table opened at one version.

        Raises:
            ValueError: If there is no such version.
        """
        from deltalake.exceptions import DeltaError

        name = AS_OF if version is None else VERSION
        if version is None:
            assert moment is not None
            version = self._version_at(moment)
        newest = _version(self.newest())
        known = f"those up to {newest}, as far back as its log reaches"
        if not 0 <= version <= newest:  # deltalake would look for all of them
            raise no_version_error(self._description, version, known)
        try:
            table = opened_at(*self._place, version)
        except DeltaError:
            raise no_version_error(self._description, version, known) from None
        found = DeltaCommits(table)
        found.fixed = name
        return found

    def _version_at(self, moment: float) -> int:
        """Return the newest version up to a moment, whose parts of a millisecond do not count.

        The history that deltalake shows has whole milliseconds.
        """
        least, most = -1, _version(self.newest())
        since = self._in_commit_since(most)

        def time_of(version: int) -> float | None:
            if version >= since and self._written(version) is not None:
                return self._root.committed(version)
            return self._written(version)

        while least < most:
            middle = (least + most + 1) // 2
            at = time_of(middle)
            # Files that were removed from the log are older than all others.
            if at is None or _milliseconds(at) <= _milliseconds(moment):
                least = middle
            else:
                most = middle - 1
        if least < 0 or time_of(least) is None:
            first = f"version {least + 1}"
            raise too_early_error(self._description, moment, first, time_of(least + 1))
        return least

    def _in_commit_since(self, newest: int) -> float:
        """Return the number of the first version with an in-commit timestamp. Infinity: none has.

        Args:
            newest: Number of the newest version.
        """
        table = self._table
        if table is None or table.version() != newest:
            table = opened_at(*self._place, newest)
        said = table.metadata().configuration
        is_enabled = said.get(_IN_COMMIT, "false").lower() == "true"
        return int(said.get(_IN_COMMIT_SINCE, 0)) if is_enabled else math.inf

    def elsewhere(self) -> DeltaCommits:
        """Return this object: other processes open the table as this one does."""
        return self


def _version(position: str) -> int:
    return int(position.partition(":")[0])


def _milliseconds(seconds: float) -> int:
    """Return whole milliseconds; seconds since 1970 are exact to a quarter of a microsecond."""
    return int(seconds * 1000 + 0.0005)


#: The commits of a table of the format, by its folder, URI or object.
table_commits = DeltaCommits
