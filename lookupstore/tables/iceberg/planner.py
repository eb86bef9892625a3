"""The planner of Iceberg tables, by `pyiceberg`.

`pyiceberg` reads the manifests of a snapshot, and leaves out files that a filter excludes. Which
deletes apply to which data file is decided in `deletes`, because `pyiceberg` refuses tables with
equality deletes.

Source: "Scan Planning" and "Column Projection" in the specification of Iceberg.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import fs

from lookupstore.errors import FormatError, listed
from lookupstore.extras import require
from lookupstore.filters.row_filter import RowFilter
from lookupstore.source.source import Source
from lookupstore.source.table_folders import TableSearch
from lookupstore.storage.catalog_names import FORM, is_catalog_name
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.location import Location, as_location
from lookupstore.storage.s3_client import options_of
from lookupstore.storage.uris import shown_uri
from lookupstore.tables.columns import FIELD_ID, without_metadata
from lookupstore.tables.history import SnapshotMoment
from lookupstore.tables.iceberg.catalogs import answering, catalog_table, pyicebergs
from lookupstore.tables.iceberg.deletes import VECTORS, DeletedKeys, KeyDeletes, PositionDeletes
from lookupstore.tables.iceberg.manifests import entries_of, manifests_of
from lookupstore.tables.iceberg.metrics import FileMetrics
from lookupstore.tables.rows import snapshot_source
from lookupstore.tables.snapshot import Snapshot, TableFile

#: Identity of the snapshot of a table that nobody has written to.
NO_SNAPSHOT = "none"
# Names of files that are the last part of their path and URI as they are, and one of them, in
# folders without the marks that end the path of a URI.
_MARKS = {*"?#;"}
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._=-]*")
_ANY = "x"


def table_source(given: Any) -> Source:
    """Return the rows of an Iceberg table or scan as the source of a store.

    Args:
        given: Folder or URI of a table without a catalog; name of a table of a catalog; a
            `pyiceberg.table.Table`, at its current snapshot; or a `DataScan`.

    Raises:
        FormatError: If the table cannot be opened, or has something that is not supported, which
            the error names.
        ImportError: If pyiceberg is not installed.
    """
    return snapshot_source(table_snapshot(given))


def table_snapshot(given: Any) -> Snapshot:
    """Return the files of an Iceberg table or scan.

    Args:
        given: Table as `table_source` takes it.

    Raises the errors of `table_source`.
    """
    scan = scan_at(given) if isinstance(given, (str, Location)) else given
    return snapshot_of(scan.scan() if hasattr(scan, "scan") else scan)


class IcebergHistory:
    """An Iceberg table at its newest snapshot, with its former snapshots.

    Args:
        given: Folder or URI of a table without a catalog; name of a table of a catalog, or of a
            branch of it; a `pyiceberg.table.Table`; or a `DataScan` without a snapshot. The catalog
            of these says which snapshot is the newest.

    Raises:
        ValueError: If the scan is of one snapshot, or the name is that of a tag.

    Also raises the errors of `table_source`.
    """

    def __init__(self, given: Any) -> None:
        is_path = isinstance(given, (str, Location))
        scan = _moving_scan(given) if is_path else _newest_scan(given)
        self._scan = scan
        self._planner = _planner_of(scan)
        #: The newest snapshot.
        self.newest: SnapshotMoment = SnapshotMoment(self._planner.snapshot())

    def former(self, snapshot_id: str) -> SnapshotMoment | None:
        """Return a former snapshot, in the columns of the newest one. None: it is gone.

        Args:
            snapshot_id: Number of the snapshot, or `none`.
        """
        found = None
        if snapshot_id != NO_SNAPSHOT:
            found = self._scan.table_metadata.snapshot_by_id(int(snapshot_id))
            if found is None:
                return None
        try:
            return SnapshotMoment(_Planner(self._scan, found, like=self._planner).snapshot())
        except FileNotFoundError:  # an expiry that still runs has removed a manifest
            return None


#: The history of a table of the format, by its folder, URI or object.
table_history = IcebergHistory


def _newest_scan(given: Any) -> Any:
    """Return the scan of a table, or a scan, at the newest snapshot that its catalog knows."""
    is_table = hasattr(given, "scan")
    if not is_table and given.snapshot_id is not None:
        refs = given.table_metadata.refs.items()
        heads = [name for name, one in refs if one.snapshot_id == given.snapshot_id]
        of_ref = f" ({listed(sorted(heads))})" if heads else ""
        raise ValueError(
            f"table is a scan of snapshot {given.snapshot_id}{of_ref}, which never changes; leave "
            f"out snapshot_id and use_ref; to follow a branch, give {FORM}.branch_NAME"
        )
    name = given.name() if is_table else given.table_identifier
    # The table of a metadata file has a catalog that knows no tables.
    if given.catalog is None or name is None or name[:1] == ("static-table",):
        return given.scan() if is_table else given
    with answering(f"Iceberg table {'.'.join(name)}"):
        table = given.catalog.load_table(name)
    return table.scan() if is_table else given.update(table_metadata=table.metadata, io=table.io)


def scan_at(path: str | Location) -> Any:
    """Return the scan of the table in a folder, or of a table of a catalog by its name."""
    if isinstance(path, str) and is_catalog_name(path):
        return catalog_table(path).scan
    return table_at(path).scan()


def _moving_scan(path: str | Location) -> Any:
    """Return the scan of a table by its path or name.

    Raises:
        ValueError: If it is a tag.
    """
    if isinstance(path, str) and is_catalog_name(path):
        found = catalog_table(path)
        if found.is_tag:
            raise ValueError(
                f"table is {shown_uri(path)}, a tag, which never changes; give the table or a "
                "branch, or build a store of the tag"
            )
        return found.scan
    return table_at(path).scan()


def table_at(path: str | Location) -> Any:
    """Return the table in a folder, at its newest metadata file."""
    require("iceberg", "reading an Iceberg table")
    from pyiceberg.table import StaticTable

    location = as_location(path)
    filesystem, root = location.resolve("")
    found = TableSearch(filesystem).at(root)
    if found is None:  # deleted since it was found
        raise FileNotFoundError(f"{location.uri}: there is no Iceberg table any more")
    options: dict[str, str] = {}
    if location.in_place:
        uri = f"file://{root}"
    elif filesystem.type_name == "s3" and location.given[1] is None:
        uri = f"s3://{root}"
        options = pyicebergs(options_of(filesystem))
    else:
        raise FormatError(
            f"source: {location.uri} is an Iceberg table in a file system whose options pyiceberg "
            "may name differently; pass pyiceberg.table.StaticTable.from_metadata(...)"
        )
    return StaticTable.from_metadata(f"{uri}/{found.newest}", options)


def snapshot_of(scan: Any) -> Snapshot:
    """Return the files of a `DataScan`.

    Args:
        scan: The scan.

    Raises the errors of `table_source`.
    """
    return _planner_of(scan).snapshot()


def _planner_of(scan: Any) -> _Planner:
    """Return the planner of a `DataScan`, with the arguments and errors of `snapshot_of`."""
    import pyiceberg.table

    if not hasattr(pyiceberg.table, "ManifestGroupPlanner"):
        raise FormatError(
            f"source: pyiceberg {pyiceberg.__version__} does not list the deletes of a table; "
            "install pyiceberg 0.12 or newer"
        )
    return _Planner(scan, scan.snapshot())


class _Planner:
    """The planner of one scan.

    Args:
        scan: A `DataScan`, which has the columns and the filter.
        snapshot: Snapshot to plan. None: one without rows.
        like: Planner of another snapshot with the same other arguments, which knows most files.
    """

    def __init__(self, scan: Any, snapshot: Any, *, like: _Planner | None = None) -> None:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import schema_to_pyarrow
        from pyiceberg.manifest import DataFileContent
        from pyiceberg.table import ManifestGroupPlanner
        from pyiceberg.transforms import VoidTransform

        self._scan = scan
        self._metadata = scan.table_metadata
        name = ".".join(scan.table_identifier or ()) or self._metadata.location
        number = "without rows" if snapshot is None else f"at snapshot {snapshot.snapshot_id}"
        self.description: str = f"Iceberg table {shown_uri(name)} {number}"
        self._snapshot_id = NO_SNAPSHOT if snapshot is None else str(snapshot.snapshot_id)
        if scan.limit is not None:
            raise self._error("a scan limit")
        # All columns, and those of the scan, which may have fewer fields of a struct.
        self._fields = scan.update(selected_fields=("*",)).projection().fields
        self._asked = scan.projection()
        asked = {field.name: field for field in schema_to_pyarrow(self._asked)}
        whole = schema_to_pyarrow(scan.update(selected_fields=("*",)).projection())
        stored = pa.schema([asked.get(field.name, field) for field in whole])
        # The documentation of a column does not make it another one.
        self._stored = without_metadata(stored, but=(FIELD_ID,))
        self._addresses: _Addresses = _Addresses(scan.io) if like is None else like._addresses
        # By the identity of an entry of a manifest: the entry, which is thus not freed, and its
        # file without deletes.
        self._known: dict[int, tuple[Any, TableFile]] = {} if like is None else like._known
        self._of_metrics = {
            field.name: (field.field_id, self._stored.field(field.name).type)
            for field in self._fields
        }
        manifests: Any = [] if snapshot is None else manifests_of(snapshot, scan)
        if scan.row_filter == AlwaysTrue():
            entries = [*entries_of(manifests, scan.io)]
        else:
            planner = ManifestGroupPlanner(
                self._metadata, scan.io, scan.row_filter, scan.case_sensitive, scan.options
            )
            entries = [*chain.from_iterable(planner.plan_manifest_entries(manifests))]
        self._data = [one for one in entries if one.data_file.content == DataFileContent.DATA]
        deletes = [
            one for one in entries if one.data_file.content == DataFileContent.POSITION_DELETES
        ]
        self._position_deletes = PositionDeletes(
            self.description,
            str(self._metadata.table_uuid),
            [(one, self._file(one)) for one in deletes],
        )
        deleted_keys = [
            (one, self._keys_in(one))
            for one in entries
            if one.data_file.content == DataFileContent.EQUALITY_DELETES
        ]
        # A void field is what remains of a partition that was removed.
        unpartitioned = [
            number
            for number, spec in self._metadata.specs().items()
            if all(isinstance(part.transform, VoidTransform) for part in spec.fields)
        ]
        self._key_deletes = KeyDeletes(deleted_keys, unpartitioned)

    def snapshot(self) -> Snapshot:
        """Return the files of the scan."""
        columns = without_metadata(self._stored)
        mapping = self._metadata.name_mapping()
        files = map(self._data_file, self._data)
        return Snapshot(
            self.description,
            pa.schema([columns.field(field.name) for field in self._asked.fields]),
            columns,
            self._stored,
            tuple(sorted(files, key=lambda file: file.address.path)),
            None if mapping is None else dict(_ids_of(mapping)),
            self._filter(),
            table_id=str(self._metadata.table_uuid),
            snapshot_id=self._snapshot_id,
            deletes_by_position=self._metadata.format_version > 1,
        )

    def _filter(self) -> RowFilter | None:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.expressions.visitors import bind, extract_field_ids
        from pyiceberg.io.pyarrow import expression_to_pyarrow

        if self._scan.row_filter == AlwaysTrue():
            return None
        whole = self._scan.update(selected_fields=("*",)).projection()
        bound = bind(whole, self._scan.row_filter, self._scan.case_sensitive)
        names = self._names(extract_field_ids(bound), "a filter on a struct field")
        # A filter that is always false names no column.
        some = names or (self._fields[0].name,)
        return RowFilter(expression_to_pyarrow(bound, whole), some)

    def _keys_in(self, entry: Any) -> DeletedKeys:
        """Return the keys in an equality delete file."""
        ids = entry.data_file.equality_ids or ()
        names = self._names(ids, "equality deletes on a nested or dropped column")
        stored = pa.schema([self._stored.field(name) for name in names])
        return DeletedKeys(self.description, self._file(entry), stored)

    def _names(self, ids: Iterable[int], what: str) -> tuple[str, ...]:
        """Return the names of columns.

        Args:
            ids: Field ids of the columns.
            what: What needs the columns, for the error if the table does not have one.
        """
        names = {field.field_id: field.name for field in self._fields}
        if not set(ids) <= set(names):
            raise self._error(what)
        return tuple(names[one] for one in sorted(ids))

    def _data_file(self, entry: Any) -> TableFile:
        """Return the data file of an entry, with its deletes."""
        file = self._file(entry)
        deleted, keys = self._position_deletes.of(entry), self._key_deletes.of(entry)
        return replace(file, deleted=deleted, deleted_keys=keys) if deleted or keys else file

    def _defaults(self, file: Any) -> Iterator[tuple[str, pa.Scalar]]:
        """Yield the names of columns that a file may lack, and the value of each in all rows."""
        for field in self._fields:
            if field.initial_default is not None:
                kind = self._stored.field(field.name).type
                yield field.name, _scalar(field.initial_default, kind)
        for name, value in self._partition(file):
            if value.is_valid:
                yield name, value

    def _partition(self, file: Any) -> Iterator[tuple[str, pa.Scalar]]:
        """Yield the names of columns by which a file is partitioned, and the value of each."""
        from pyiceberg.transforms import IdentityTransform

        names = {field.field_id: field.name for field in self._fields}
        for at, part in enumerate(self._metadata.specs()[file.spec_id].fields):
            if isinstance(part.transform, IdentityTransform) and part.source_id in names:
                name = names[part.source_id]
                kind = self._stored.field(name).type
                yield name, _scalar(file.partition[at], kind)

    def _file(self, entry: Any) -> TableFile:
        """Return the data file or delete file of an entry, without deletes."""
        known = self._known.get(id(entry))
        if known is None:
            known = self._known[id(entry)] = entry, self._new_file(entry)
        return known[1]

    def _new_file(self, entry: Any) -> TableFile:
        """Return the file of an entry that is not known yet.

        Raises:
            FormatError: If files of its kind are not supported.
        """
        from pyiceberg.manifest import DataFileContent

        file = entry.data_file
        kind = str(file.file_format).rpartition(".")[2].lower()
        if kind not in ("parquet", "orc", VECTORS):
            raise self._error(f"{kind} files")
        if file.key_metadata:
            raise self._error("encrypted files")
        found = TableFile(self._addresses.of(file.file_path), file.file_size_in_bytes, kind)
        if file.content != DataFileContent.DATA:
            return found
        return replace(
            found,
            num_rows=file.record_count,
            # A file that was added to the table by its path may be replaced, and added again.
            written=str(entry.snapshot_id),
            defaults=dict(self._defaults(file)),
            partition=dict(self._partition(file)),
            statistics=FileMetrics(file, self._of_metrics),
        )

    def _error(self, what: str) -> FormatError:
        return FormatError(
            f"source: the {self.description} uses {what}, which is not supported; pass the rows "
            "that Spark or another reader returns"
        )


class _Addresses:
    """The addresses of files in the file system of a table.

    The address of one file of a folder tells those of the others, of which there may be thousands.

    Args:
        io: The `pyiceberg.io.FileIO` of the table.
    """

    def __init__(self, io: Any) -> None:
        self._io = io
        self._folders: dict[str, FileAddress] = {}

    def of(self, location: str) -> FileAddress:
        """Return the address of the file at a location."""
        folder, slash, name = location.rpartition("/")
        if not _PLAIN.fullmatch(name):
            return _address(self._io, location)
        known = self._folders.get(folder)
        if known is None:
            if _MARKS & {*folder}:
                return _address(self._io, location)
            known = self._folders[folder] = _address(self._io, f"{folder}{slash}{_ANY}")
        path, shown = (one.removesuffix(_ANY) + name for one in (known.path, known.shown))
        return FileAddress(known.filesystem, path, shown)


def _address(io: Any, location: str) -> FileAddress:
    """Return the address of a file in the file system of a table."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    scheme, netloc, path = PyArrowFileIO.parse_location(location, io.properties)
    if scheme == "file":
        return FileAddress.on(fs.LocalFileSystem(), path)
    if isinstance(io, PyArrowFileIO):
        return FileAddress(io.fs_by_scheme(scheme, netloc), path, shown_uri(location))
    filesystem = fs.PyFileSystem(fs.FSSpecHandler(io.get_fs(scheme)))
    return FileAddress(filesystem, path, shown_uri(location))


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a value of metadata, where times are integers, in the type of a column."""
    if isinstance(value, int) and (pa.types.is_temporal(kind)):
        return pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(value, kind)


def _ids_of(fields: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the paths of names in a name mapping, each with its field id."""
    for field in fields:
        for name in field.names:
            yield (*above, name), field.field_id
            yield from _ids_of(field.fields, (*above, name))
