"""The manifests of a snapshot, each of which a process reads once.

A manifest never changes, and the next snapshot names most manifests of the one before it.
`pyiceberg` keeps lists of manifests, and not what is in these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from lookupstore.tables.recently_read import RecentlyRead

#: Field id of the paths of data files in a position delete file.
PATH_ID = 2147483546
# Number of manifests that are read at a time.
_AT_ONCE = 16
# Statistics in entries of manifests that stay in memory, of about 100 bytes each.
_MOST_LOADED = 400_000
# Memory of an entry besides its statistics, in statistics.
_OF_ENTRY = 20
_STATISTICS = (
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
    "upper_bounds",
)  # fmt: skip


def manifests_of(snapshot: Any, scan: Any) -> list[IcebergManifest]:
    """Return the manifests of a snapshot, as the planner of `pyiceberg` takes them.

    Args:
        snapshot: The snapshot.
        scan: Scan of the table.
    """
    table_id = str(scan.table_metadata.table_uuid)
    return [IcebergManifest(one, table_id) for one in snapshot.manifests(scan.io)]


def entries_of(manifests: Sequence[IcebergManifest], io: Any) -> Iterator[Any]:
    """Yield the entries of all manifests, of which several are read at a time.

    Args:
        manifests: The manifests.
        io: The `pyiceberg.io.FileIO` of the table.
    """
    unread = [one for one in manifests if not one.is_read]
    paths = {one.manifest_path for one in unread}
    with ThreadPoolExecutor(_AT_ONCE, "lookupstore-manifests") as pool:
        read = pool.map(lambda one: one.fetch_manifest_entry(io), unread)
        for one in manifests:
            yield from next(read) if one.manifest_path in paths else one.fetch_manifest_entry(io)


class IcebergManifest:
    """A manifest whose entries are read by the first one who wants them.

    Args:
        manifest: The `pyiceberg.manifest.ManifestFile`, which has all other attributes.
        table_id: Identity of the table.
    """

    def __init__(self, manifest: Any, table_id: str) -> None:
        self._manifest = manifest
        self._table_id = table_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manifest, name)

    @property
    def is_read(self) -> bool:
        """Return whether the entries are in memory."""
        return (self._table_id, self._manifest.manifest_path, True) in _loaded

    def fetch_manifest_entry(self, io: Any, discard_deleted: bool = True) -> Sequence[Any]:
        """Return the entries, which callers must not change.

        Args:
            io: The `pyiceberg.io.FileIO` of the table.
            discard_deleted: Whether to leave out those of files that are not in the snapshot.
        """
        manifest = self._manifest
        identity = self._table_id, manifest.manifest_path, discard_deleted
        return _loaded.get(identity, partial(_read, manifest, io, discard_deleted))


def _read(manifest: Any, io: Any, discard_deleted: bool) -> Sequence[Any]:
    """Return the entries of a manifest, with bounds of the paths that deletion vectors are for.

    `pyiceberg` reads manifests without the field that names the data file of a vector. Without it,
    each vector of a partition would have to be compared with each data file.
    """
    from pyiceberg.manifest import FileFormat

    entries: Sequence[Any] = manifest.fetch_manifest_entry(io, discard_deleted)
    if any(one.data_file.file_format == FileFormat.PUFFIN for one in entries):
        paths = _referenced(manifest, io, discard_deleted)
        for one, path in zip(entries, paths, strict=True):
            if path is not None:
                _set_bounds(one.data_file, {PATH_ID: path.encode()})
    return entries


def _referenced(manifest: Any, io: Any, discard_deleted: bool) -> list[str | None]:
    """Return the data file that each entry of a manifest is for. None: it does not say."""
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import DATA_FILE_TYPE, MANIFEST_ENTRY_SCHEMAS, ManifestEntryStatus

    schema = MANIFEST_ENTRY_SCHEMAS[3]
    status, file = (_place_of(name, schema.fields) for name in ("status", "data_file"))
    path = _place_of("referenced_data_file", DATA_FILE_TYPE[3].fields)
    with AvroFile[Any](io.new_input(manifest.manifest_path), schema) as reader:
        return [
            one[file][path]
            for one in reader
            if not discard_deleted or one[status] != ManifestEntryStatus.DELETED
        ]


def _set_bounds(file: Any, bounds: Mapping[int, bytes]) -> None:
    """Set the bounds of the columns of a data file or delete file."""
    from pyiceberg.manifest import DATA_FILE_TYPE, DEFAULT_READ_VERSION

    for name in ("lower_bounds", "upper_bounds"):
        file[_place_of(name, DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields)] = bounds


def _place_of(name: str, fields: Sequence[Any]) -> int:
    """Return the place of the field with a name."""
    return [one.name for one in fields].index(name)


def _count(entries: Sequence[Any]) -> int:
    return _OF_ENTRY + sum(map(_statistics_in, entries))


def _statistics_in(entry: Any) -> int:
    found = (getattr(entry.data_file, name) for name in _STATISTICS)
    return _OF_ENTRY + sum(len(one) for one in found if one)


_loaded: RecentlyRead[Sequence[Any]] = RecentlyRead(_MOST_LOADED, _count)
