"""The planner of Iceberg tables, by `pyiceberg`.

`pyiceberg` reads the manifests of a snapshot, and leaves out files that a filter excludes. Which
deletes apply to which data file is decided here, because `pyiceberg` refuses tables with equality
deletes.

Source: "Scan Planning", "Delete Formats" and "Column Projection" in the specification of Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.extras import require
from lookupstore.filters.row_filter import RowFilter
from lookupstore.keys.schema import KeySchema
from lookupstore.source.source import Source
from lookupstore.source.table_folders import TableSearch
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.location import Location, as_location
from lookupstore.storage.s3_client import options_of
from lookupstore.storage.uris import shown_uri
from lookupstore.tables.columns import FIELD_ID
from lookupstore.tables.history import SnapshotMoment
from lookupstore.tables.rows import rows_of, snapshot_source
from lookupstore.tables.snapshot import DeletedRows, Snapshot, TableFile

# Columns of position delete files, with the field ids that the specification reserves for them.
_POSITIONS = pa.schema([
    pa.field("file_path", pa.string(), metadata={FIELD_ID: "2147483546"}),
    pa.field("pos", pa.int64(), metadata={FIELD_ID: "2147483545"}),
])  # fmt: skip
# Format of files of deletion vectors.
_VECTORS = "puffin"
# Number of delete files whose rows stay in memory.
_LOADED = 8
#: Identity of the snapshot of a table that nobody has written to.
NO_SNAPSHOT = "none"


def table_source(given: Any) -> Source:
    """Return the rows of an Iceberg table or scan as the source of a store.

    Args:
        given: Folder or URI of a table without a catalog; a `pyiceberg.table.Table`, at its current
            snapshot; or a `DataScan`.

    Raises:
        FormatError: If the table cannot be opened, or has something that is not supported, which
            the error names.
        ImportError: If pyiceberg is not installed.
    """
    return snapshot_source(table_snapshot(given))


def table_snapshot(given: Any, *, keys: str | None = None) -> Snapshot:
    """Return the files of an Iceberg table or scan.

    Args:
        given: Table as `table_source` takes it.
        keys: Name of the column whose least and greatest values in each file to return.

    Raises the errors of `table_source`.
    """
    table = table_at(given) if isinstance(given, (str, Location)) else given
    return snapshot_of(table.scan() if hasattr(table, "scan") else table, keys=keys)


class IcebergHistory:
    """An Iceberg table at its newest snapshot, with its former snapshots.

    Args:
        given: Folder or URI of a table without a catalog; a `pyiceberg.table.Table`; or a
            `DataScan` without a snapshot. The catalog of these says which snapshot is the newest.

    Raises:
        ValueError: If the scan is of one snapshot.

    Also raises the errors of `table_source`.
    """

    def __init__(self, given: Any) -> None:
        is_path = isinstance(given, (str, Location))
        scan = table_at(given).scan() if is_path else _newest_scan(given)
        self._scan = scan
        #: The newest snapshot.
        self.newest: SnapshotMoment = SnapshotMoment(snapshot_of(scan))

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
            return SnapshotMoment(_Planner(self._scan, found).snapshot())
        except FileNotFoundError:  # an expiry that still runs has removed a manifest
            return None


#: The history of a table of the format, by its folder, URI or object.
table_history = IcebergHistory


def _newest_scan(given: Any) -> Any:
    """Return the scan of a table, or a scan, at the newest snapshot that its catalog knows."""
    is_table = hasattr(given, "scan")
    if not is_table and given.snapshot_id is not None:
        raise ValueError(
            f"table is a scan of snapshot {given.snapshot_id}, which never changes; leave out "
            "snapshot_id"
        )
    name = given.name() if is_table else given.table_identifier
    # The table of a metadata file has a catalog that knows no tables.
    if given.catalog is None or name is None or name[:1] == ("static-table",):
        return given.scan() if is_table else given
    table = given.catalog.load_table(name)
    return table.scan() if is_table else given.update(table_metadata=table.metadata, io=table.io)


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
        options = _pyicebergs(options_of(filesystem))
    else:
        raise FormatError(
            f"source: {location.uri} is an Iceberg table in a file system whose options pyiceberg "
            "may name differently; pass pyiceberg.table.StaticTable.from_metadata(...)"
        )
    return StaticTable.from_metadata(f"{uri}/{found.newest}", options)


def _pyicebergs(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options of a file system of S3 by the names of pyiceberg."""
    names = {
        "access_key": "s3.access-key-id",
        "secret_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "region": "s3.region",
        "role_arn": "s3.role-arn",
    }
    given = {theirs: str(options[ours]) for ours, theirs in names.items() if options.get(ours)}
    if options.get("endpoint_override"):
        scheme = options.get("scheme") or "https"
        given["s3.endpoint"] = f"{scheme}://{options['endpoint_override']}"
    if options.get("force_virtual_addressing"):
        given["s3.force-virtual-addressing"] = "true"
    if options.get("anonymous"):
        given["s3.anonymous"] = "true"
    return given


def snapshot_of(scan: Any, *, keys: str | None = None) -> Snapshot:
    """Return the files of a `DataScan`.

    Args:
        scan: The scan.
        keys: Name of the column whose least and greatest values in each file to return.

    Raises the errors of `table_source`.
    """
    import pyiceberg.table

    if not hasattr(pyiceberg.table, "ManifestGroupPlanner"):
        raise FormatError(
            f"source: pyiceberg {pyiceberg.__version__} does not list the deletes of a table; "
            "install pyiceberg 0.12 or newer"
        )
    return _Planner(scan, scan.snapshot(), keys).snapshot()


class _Planner:
    """The planner of one scan.

    Args:
        scan: A `DataScan`, which has the columns and the filter.
        snapshot: Snapshot to plan. None: one without rows.
        keys: Name of the column whose least and greatest values in each file to return.

    Attributes:
        description: Description of the table and the snapshot.
    """

    def __init__(self, scan: Any, snapshot: Any, keys: str | None = None) -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow
        from pyiceberg.manifest import DataFileContent
        from pyiceberg.table import ManifestGroupPlanner

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
        self._stored = pa.schema([asked.get(field.name, field) for field in whole])
        self._keys = next((field for field in self._fields if field.name == keys), None)
        planner = ManifestGroupPlanner(
            self._metadata, scan.io, scan.row_filter, scan.case_sensitive, scan.options
        )
        manifests = [] if snapshot is None else snapshot.manifests(scan.io)
        entries = list(chain.from_iterable(planner.plan_manifest_entries(manifests)))
        self._data = [one for one in entries if one.data_file.content == DataFileContent.DATA]
        deletes = [
            one for one in entries if one.data_file.content == DataFileContent.POSITION_DELETES
        ]
        self._position_deletes = _PositionDeletes(self, deletes)
        self._key_deletes = [
            (one, self._keys_in(one))
            for one in entries
            if one.data_file.content == DataFileContent.EQUALITY_DELETES
        ]

    def snapshot(self) -> Snapshot:
        """Return the files of the scan."""
        columns = _without_ids(self._stored)
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

    def _keys_in(self, entry: Any) -> _KeyDeletes:
        """Return the keys in an equality delete file."""
        file = entry.data_file
        names = self._names(
            file.equality_ids or (), "equality deletes on a nested or dropped column"
        )
        stored = pa.schema([self._stored.field(name) for name in names])
        return _KeyDeletes(self.description, self.file(file), stored)

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
        return self.file(
            entry.data_file,
            num_rows=entry.data_file.record_count,
            defaults=dict(self._defaults(entry.data_file)),
            partition=dict(self._partition(entry.data_file)),
            deleted=self._position_deletes.of(entry),
            deleted_keys=tuple(
                keys for deletes, keys in self._key_deletes if _applies(deletes, entry)
            ),
            keys=self._range(entry.data_file),
        )

    def _range(self, file: Any) -> tuple[int, int] | tuple[bytes, bytes] | None:
        """Return the least and greatest value of the wanted column in a data file."""
        from pyiceberg.types import DateType, IntegerType, LongType, StringType

        if self._keys is None:
            return None
        kind, number = self._keys.field_type, self._keys.field_id
        lower, upper = ((ends or {}).get(number) for ends in (file.lower_bounds, file.upper_bounds))
        if lower is None or upper is None:
            return None
        if isinstance(kind, StringType):
            return bytes(lower), bytes(upper)
        if not isinstance(kind, (IntegerType, LongType, DateType)):
            return None
        # A file that was written before the column became wider has shorter values.
        least = int.from_bytes(lower, "little", signed=True)
        greatest = int.from_bytes(upper, "little", signed=True)
        return least, greatest

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

    def file(self, file: Any, **details: Any) -> TableFile:
        """Return a data file or delete file of a manifest.

        Raises:
            FormatError: If files of its kind are not supported.
        """
        kind = _format_of(file)
        if kind not in ("parquet", "orc", _VECTORS):
            raise self._error(f"{kind} files")
        if file.key_metadata:
            raise self._error("encrypted files")
        return TableFile(
            _address(self._scan.io, file.file_path), file.file_size_in_bytes, kind, **details
        )

    def _error(self, what: str) -> FormatError:
        return FormatError(
            f"source: the {self.description} uses {what}, which is not supported; pass the rows "
            "that Spark or another reader returns"
        )


class _PositionDeletes:
    """The position deletes and deletion vectors of a snapshot.

    Args:
        planner: Planner of the snapshot.
        entries: Entries of the delete files in the manifests.
    """

    def __init__(self, planner: _Planner, entries: Sequence[Any]) -> None:
        files = {one.data_file.file_path: planner.file(one.data_file) for one in entries}
        self._files = _DeleteFiles(planner.description, files)
        self._entries: dict[tuple[object, ...], list[Any]] = {}
        for one in entries:
            self._entries.setdefault(_partition_of(one), []).append(one)

    def of(self, entry: Any) -> _Positions | None:
        """Return the deletes that apply to a data file. None: none."""
        found = [
            one.data_file
            for one in self._entries.get(_partition_of(entry), ())
            if _sequence(one) >= _sequence(entry) and _may_name(one.data_file, entry.data_file)
        ]
        if not found:
            return None
        # A deletion vector has all deleted rows of a data file, those of older delete files too.
        vectors = sorted(one.file_path for one in found if _format_of(one) == _VECTORS)
        paths = sorted(one.file_path for one in found)
        return _Positions(self._files, entry.data_file.file_path, tuple(vectors), tuple(paths))


class _DeleteFiles:
    """The files with positions of a snapshot; those that were read last stay in memory.

    Args:
        description: Description of the table.
        files: The files, by their paths in the manifests.
    """

    def __init__(self, description: str, files: Mapping[str, TableFile]) -> None:
        self._state = description, files
        self._read = lru_cache(_LOADED)(lambda path: _positions(description, files[path]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._state

    def positions(self, path: str, data_file: str) -> npt.NDArray[np.int64] | None:
        """Return the positions in a data file that a delete file has. None: none."""
        return self._read(path).get(data_file)


@dataclass(frozen=True)
class _Positions:
    """The rows of a data file that are deleted by position, in files that are read when needed.

    Attributes:
        files: Delete files of the snapshot.
        path: Path of the data file, as the delete files have it.
        vectors: Paths of the files that may have its deletion vector.
        paths: Paths of all files that may have its deletes.
    """

    files: _DeleteFiles
    path: str
    vectors: tuple[str, ...]
    paths: tuple[str, ...]

    @property
    def count(self) -> int | None:
        """Return None: the number is unknown before the files are read."""
        return None

    @property
    def identity(self) -> str:
        """Return a text that differs between sets of deleted rows."""
        return " ".join(self.paths)

    def load(self) -> DeletedRows:
        """Return the deleted rows."""
        found = self._in(self.vectors)
        if not found:
            found = self._in(self.paths)
        return DeletedRows(np.unique(np.concatenate([np.zeros(0, np.int64), *found])))

    def _in(self, paths: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """Return the positions in each of some delete files that has any."""
        found = (self.files.positions(path, self.path) for path in paths)
        return [one for one in found if one is not None]


def _positions(description: str, file: TableFile) -> Mapping[str, npt.NDArray[np.int64]]:
    """Return the positions in each data file that a delete file has, by the path of the former."""
    if file.file_format == _VECTORS:
        return _vectors(file)
    rows = _rows(description, file, _POSITIONS).combine_chunks()
    paths = rows["file_path"].combine_chunks().dictionary_encode()
    numbers, positions = paths.indices.to_numpy(), rows["pos"].to_numpy()
    return {
        name: positions[numbers == number]
        for number, name in enumerate(paths.dictionary.to_pylist())
    }


def _vectors(file: TableFile) -> Mapping[str, npt.NDArray[np.int64]]:
    """Return the positions in each data file that a file of deletion vectors has."""
    require("iceberg", "reading deletion vectors of an Iceberg table")
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    with file.address.reading("deletion vectors"), file.address.open() as handle:
        if handle.size() != file.nbytes:
            found = f"{handle.size()} bytes"
            raise CorruptionError(file.address.shown, 0, f"{file.nbytes} bytes", found)
        payload = handle.read(file.nbytes)
    return {
        one.referenced_data_file: one.to_vector().to_numpy()
        for one in deletion_vectors_from_puffin_file(PuffinFile(payload))
    }


def _rows(description: str, file: TableFile, stored: pa.Schema) -> pa.Table:
    """Return the rows of a delete file.

    Args:
        description: Description of the table.
        file: The delete file.
        stored: Columns to read, with their field ids.
    """
    plain = _without_ids(stored)
    files = Snapshot(description, plain, plain, stored, ())
    return pa.Table.from_batches(rows_of(files, file, plain.names), plain)


class _KeyDeletes:
    """The keys of one equality delete file, which is read when needed.

    Args:
        description: Description of the table.
        file: The file.
        stored: Columns of the keys, with their field ids.
    """

    def __init__(self, description: str, file: TableFile, stored: pa.Schema) -> None:
        self._state = description, file, stored
        self.names: Sequence[str] = stored.names
        self.identity: str = file.address.shown

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._state

    def kept(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows have none of the keys: Arrow booleans, never null."""
        return pc.invert(pc.is_in(_encoded(rows), value_set=self._deleted))

    @cached_property
    def _deleted(self) -> pa.Array:
        return _encoded(_rows(*self._state))


def _encoded(rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """Return the keys of rows as bytes, with nulls."""
    columns = pa.schema([field.with_nullable(True) for field in rows.schema])
    return KeySchema(columns, columns.names).encode(rows.columns).cast(pa.large_binary())


def _applies(deletes: Any, entry: Any) -> bool:
    """Return whether the keys of an equality delete file are deleted in a data file."""
    partition = _partition_of(deletes)
    everywhere = len(partition) == 1  # its spec has no fields
    is_later = _sequence(deletes) > _sequence(entry)
    return is_later and (everywhere or partition == _partition_of(entry))


def _partition_of(entry: Any) -> tuple[object, ...]:
    """Return the spec of a file, and the values of its partition."""
    file = entry.data_file
    values = (file.partition[at] for at in range(len(file.partition)))
    return file.spec_id or 0, *values


def _format_of(file: Any) -> str:
    return str(file.file_format).rpartition(".")[2].lower()


def _sequence(entry: Any) -> int:
    return entry.sequence_number or 0


def _may_name(deletes: Any, file: Any) -> bool:
    """Return whether a delete file may have rows of a data file, by the bounds of its paths."""
    path_id = int(_POSITIONS.field(0).metadata[FIELD_ID])
    lower = (deletes.lower_bounds or {}).get(path_id)
    upper = (deletes.upper_bounds or {}).get(path_id)
    path = file.file_path.encode()
    # Bounds may be cut; the upper one is then greater in its last character.
    return (lower is None or lower <= path) and (upper is None or path <= upper)


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


def _without_ids(schema: pa.Schema) -> pa.Schema:
    """Return columns without the metadata of their fields."""
    return pa.schema([_plain(field) for field in schema])


def _plain(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_plain(one) for one in kind])
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_plain(kind.value_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_plain(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_plain(kind.key_field), _plain(kind.item_field))
    return pa.field(field.name, kind, field.nullable)


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
