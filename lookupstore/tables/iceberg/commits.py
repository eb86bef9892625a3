"""The commits of Iceberg tables: the entries of the log of snapshots in their metadata.

The log says which snapshot was current from which time on, also after a rollback. A position has
the time of an entry and the snapshot in it, because a snapshot may become current again. That of
the newest commit has the number of the schema, too: columns change without a snapshot.
"""

from __future__ import annotations

from typing import Any

from lookupstore.errors import StaleStoreError
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.location import Location
from lookupstore.storage.uris import hide_urls, shown_uri
from lookupstore.tables.commits import AS_OF, VERSION, no_version_error, too_early_error
from lookupstore.tables.iceberg.catalogs import answering, at_ref, catalog_table
from lookupstore.tables.iceberg.planner import NO_SNAPSHOT, snapshot_of, table_at
from lookupstore.tables.rows import GONE
from lookupstore.tables.snapshot import Snapshot

# Arguments of a scan that are kept when another snapshot is read.
_OF_SCAN = ("row_filter", "selected_fields", "case_sensitive", "options", "limit")


class IcebergCommits:
    """The commits of an Iceberg table.

    Args:
        given: Folder or URI of a table without a catalog; name of a table of a catalog; a
            `pyiceberg.table.Table`; or a `DataScan`.

    Raises the errors of `lookupstore.tables.iceberg.planner.table_source`.
    """

    # A writer chooses the time before it writes all metadata and asks its catalog.
    settle_seconds = 5.0

    def __init__(self, given: Any) -> None:
        self._path: str | Location | None = None
        self._catalog: Any = None
        self._table_name: Any = None
        self._loads: tuple[Any, ...] | None = None
        self._is_elsewhere = False
        self._ref: str | None = None
        self.fixed: str = ""
        if isinstance(given, str) and is_catalog_name(given):
            found = catalog_table(given)
            scan, self._ref = found.scan, found.ref
            self.fixed = "a tag" if found.is_tag else ""
            self._use_catalog(scan)
        elif isinstance(given, (str, Location)):
            self._path, scan = given, table_at(given).scan()
        else:
            scan = given.scan() if hasattr(given, "scan") else given
            self._table_name = name = scan.table_identifier
            if scan.snapshot_id is not None:
                self.fixed = "one snapshot"
            elif scan.catalog is None or (name or ())[:1] in ((), ("static-table",)):
                # The table of a metadata file has a catalog that knows no tables.
                self.fixed = "one metadata file"
            else:
                self._use_catalog(scan)
        self._asked: dict[str, Any] = {name: getattr(scan, name) for name in _OF_SCAN}
        self._scan: Any = scan
        self.place: str = str(scan.table_metadata.table_uuid)
        self._description = f"Iceberg table {shown_uri(_name_of(scan))}"
        #: Position of the commit that the table was opened at.
        self.opened: str = _position(scan)

    def _use_catalog(self, scan: Any) -> None:
        """Load newer states of the table of a scan from its catalog."""
        self._table_name = scan.table_identifier
        self._catalog = scan.catalog
        self._loads = (type(scan.catalog), scan.catalog.name, dict(scan.catalog.properties))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_catalog": None, "_scan": None, "_is_elsewhere": True}

    def newest(self) -> str:
        """Return the position of the newest commit.

        Raises:
            OSError: If the storage or catalog does not answer.
        """
        if not self.fixed:
            with answering(self._description):
                self._scan = self._loaded()
        return self.opened if self._scan is None else _position(self._scan)

    def newest_at(self, moment: float, planned: str) -> str:
        """Return the position of the newest commit up to a moment, but none before another one.

        Raises the errors of `newest`.
        """
        self.newest()
        log = self._log()
        known = [position for position, one in enumerate(log) if _is_same(one, planned)]
        after = known[-1] + 1 if known else 0
        for entry in reversed(log[after:]):
            if _time(entry) <= moment:
                newest = _position(self._scan)
                return newest if _is_same(entry, newest) else entry
        return planned

    def _loaded(self) -> Any:
        """Return the scan of the table at its newest metadata."""
        if self._path is not None:
            return table_at(self._path).scan()
        assert self._loads is not None
        if self._catalog is None:
            kind, name, properties = self._loads
            self._catalog = kind(name, **properties)
        return at_ref(self._catalog.load_table(self._table_name).scan(**self._asked), self._ref)

    def _log(self) -> list[str]:
        """Return the positions of all commits, the older first."""
        return _log(self._scan) if self._ref is None else _branch_log(self._scan)

    def time_of(self, position: str) -> float | None:
        """Return the time of a commit in seconds since 1970. None: it is not recorded."""
        return None if position == NO_SNAPSHOT else _time(position)

    def number_of(self, position: str) -> int | None:
        """Return the number of the snapshot at a position. None: the table has none."""
        return None if position == NO_SNAPSHOT else _number(position)

    def snapshot(self, position: str) -> Snapshot:
        """Return the files of a commit, in the columns that it had.

        Raises:
            StaleStoreError: If the snapshot has expired.
        """
        number = None if position == NO_SNAPSHOT else _number(position)
        if self._scan is None or not _has(self._scan, number):
            self.newest()
        scan = self._scan
        if position != _position(scan):
            if not _has(scan, number):
                raise StaleStoreError(f"{self._description} at snapshot {number}: {GONE}")
            scan = scan.update(snapshot_id=number)
        try:
            return snapshot_of(scan)
        except FileNotFoundError:
            raise StaleStoreError(f"{self._description} at {position}: {GONE}") from None

    def at(self, *, version: int | None = None, moment: float | None = None) -> IcebergCommits:
        """Return the table opened at one snapshot.

        Raises:
            ValueError: If there is no such snapshot.
        """
        metadata = self._scan.table_metadata
        name = AS_OF if version is None else VERSION
        if version is None:
            assert moment is not None
            log = self._log()
            found = [position for position in log if _time(position) <= moment]
            if not found:
                if not log:
                    raise too_early_error(self._description, moment, "none", None)
                first = f"snapshot {_number(log[0])}"
                raise too_early_error(self._description, moment, first, _time(log[0]))
            version = _number(found[-1])
        if metadata.snapshot_by_id(version) is None:
            known = ", ".join(str(one.snapshot_id) for one in metadata.snapshots[-5:])
            raise no_version_error(self._description, version, f"the snapshots {known or 'none'}")
        at = IcebergCommits(self._scan.update(snapshot_id=version))
        at.fixed = name
        return at

    def elsewhere(self) -> IcebergCommits:
        """Return the table as another process opens it.

        Raises:
            ValueError: If its catalog cannot be opened again, or does not have it then.
        """
        if self._loads is None or self._is_elsewhere:
            return self
        other = IcebergCommits.__new__(IcebergCommits)
        other.__dict__.update(self.__getstate__())
        try:
            other.newest()
        except Exception as error:
            raise ValueError(
                f"{self._description}: its catalog {self._loads[1]!r} does not return it to "
                f"other processes ({hide_urls(str(error))}); give the table of a catalog that "
                "they can open, or call lookup_join again for newer rows"
            ) from None
        return other


#: The commits of a table of the format, by its folder, URI or object.
table_commits = IcebergCommits


def _has(scan: Any, number: int | None) -> bool:
    """Return whether the metadata of a scan has a snapshot. None: no snapshot."""
    return number is not None and scan.table_metadata.snapshot_by_id(number) is not None


def _name_of(scan: Any) -> str:
    return ".".join(scan.table_identifier or ()) or str(scan.table_metadata.location)


def _log(scan: Any) -> list[str]:
    """Return the positions of all commits, the older first.

    A commit of pyiceberg may write several snapshots, such as one without the old rows and one with
    the new ones, and all of them are in the log. Only the last was ever current: the others have
    none of the times of the metadata files. Times of old metadata files are not recorded any more.
    """
    metadata = scan.table_metadata
    log = metadata.snapshot_log
    times = {metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.metadata_log)}
    first = min(times)
    current = [
        entry for entry in log[:-1] if entry.timestamp_ms < first or entry.timestamp_ms in times
    ]
    return [f"{entry.timestamp_ms}:{entry.snapshot_id}" for entry in [*current, *log[-1:]]]


def _branch_log(scan: Any) -> list[str]:
    """Return the positions of the snapshots of a branch, the older first.

    No log has those that the branch was moved away from.
    """
    from pyiceberg.table.snapshots import ancestors_of

    found = ancestors_of(scan.snapshot(), scan.table_metadata)
    return [f"{one.timestamp_ms}:{one.snapshot_id}" for one in found][::-1]


def _position(scan: Any) -> str:
    """Return the position of the commit that a scan reads."""
    snapshot = scan.snapshot()
    if snapshot is None:
        return NO_SNAPSHOT
    log = _log(scan)
    if scan.snapshot_id is None and log and _number(log[-1]) == snapshot.snapshot_id:
        return f"{log[-1]}:{scan.table_metadata.current_schema_id}"
    return f"{snapshot.timestamp_ms}:{snapshot.snapshot_id}"


def _is_same(one: str, other: str) -> bool:
    """Return whether two positions have the same entry of the log."""
    return one.split(":")[:2] == other.split(":")[:2]


def _time(position: str) -> float:
    return int(position.partition(":")[0]) / 1000


def _number(position: str) -> int:
    return int(position.split(":")[1])
