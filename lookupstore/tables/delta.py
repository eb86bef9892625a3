"""The planner of Delta tables, by `deltalake`.

`deltalake` reads the log of the table: its files, their partition values, and which of their rows
are deleted. It reads the deleted rows of all files at once; they are packed until they are needed.

Source: "Delta Transaction Log Protocol": add files, deletion vectors, column mapping, partition
value serialization.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from pyarrow import fs

from lookupstore.arrow.types import is_bytes
from lookupstore.errors import CorruptionError, FormatError, listed
from lookupstore.extras import require
from lookupstore.source.source import Source
from lookupstore.storage.file_address import FileAddress, written_ns
from lookupstore.storage.inside import joined
from lookupstore.storage.location import Location, as_location
from lookupstore.storage.s3_client import allows_http, object_store_options, options_of
from lookupstore.storage.storage_options import with_options
from lookupstore.storage.uris import hide_urls, open_uri, shown_uri
from lookupstore.tables.columns import FIELD_ID, without_metadata
from lookupstore.tables.delta_statistics import FileInLog, LogStatistics
from lookupstore.tables.history import SnapshotMoment
from lookupstore.tables.packed_rows import PackedRows
from lookupstore.tables.positions import Positions
from lookupstore.tables.recently_read import RecentlyRead
from lookupstore.tables.rows import snapshot_source
from lookupstore.tables.snapshot import Snapshot, TableFile

_VECTORS = "deletionVectors"
# Features of a table that its readers must support, and that are supported here. Columns of type
# variant are not, but tables without any may have their feature.
_FEATURES = {
    "columnMapping", _VECTORS, "timestampNtz", "typeWidening", "typeWidening-preview",
    "v2Checkpoint", "vacuumProtocolCheck", "variantType", "variantType-preview",
}  # fmt: skip
# Columns of a list of files that are read.
_OF_FILES = ("path", "size_bytes", "modification_time", "num_records", "partition")
# Bytes of lists of files and deleted rows that stay in memory.
_MOST_LOADED = 64 << 20
# Memory of a deletion vector besides its rows.
_OF_VECTOR = 256
# Bytes of a file of the log that are read at a time for its first line.
_OF_COMMIT = 1 << 14
# Eight true bits.
_ALL_TRUE = 0xFF
_MODE = "delta.columnMapping.mode"
_NAME, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


def table_source(given: Any) -> Source:
    """Return the rows of a Delta table as the source of a store.

    Args:
        given: Folder or URI of the table, for its newest version; or a `deltalake.DeltaTable`, at
            the version to read.

    Raises:
        FormatError: If the table cannot be opened, or has a feature that is not supported, which
            the error names.
        ImportError: If deltalake is not installed.

    >>> import tempfile, deltalake
    >>> folder = tempfile.mkdtemp()
    >>> deltalake.write_deltalake(folder, pa.table({"id": [1, 2]}))
    >>> table_source(deltalake.DeltaTable(folder)).count_rows()
    2
    """
    return snapshot_source(table_snapshot(given))


def table_snapshot(given: Any) -> Snapshot:
    """Return the files of a Delta table.

    Args:
        given: Table as `table_source` takes it.

    Raises the errors of `table_source`.
    """
    is_path = isinstance(given, (str, Location))
    return snapshot_of(opened_table(given) if is_path else given)


class DeltaHistory:
    """A Delta table at its newest version, with its former versions.

    Args:
        given: Folder or URI of the table; or a `deltalake.DeltaTable`, which says where it is.

    Raises the errors of `table_source`.
    """

    def __init__(self, given: Any) -> None:
        is_path = isinstance(given, (str, Location))
        table = opened_table(given) if is_path else opened_at(*place_of(given))
        newest = _version_of(table)
        self._place = place_of(table)
        self._table_id = newest.table_id
        #: The newest version.
        self.newest: SnapshotMoment = SnapshotMoment(_snapshot_of(newest, self._place))
        identity = self._identity(newest.number)
        if identity is not None:
            _recent.keep(identity, replace(newest, actions=newest.files))

    def former(self, snapshot_id: str) -> SnapshotMoment | None:
        """Return a former version, in the columns of the newest one. None: it is gone.

        Args:
            snapshot_id: Number of the version.
        """
        from deltalake.exceptions import DeltaError

        number = int(snapshot_id)

        def read() -> _Version:
            return _version_of(opened_at(*self._place, number))

        identity = self._identity(number)
        try:
            version = read() if identity is None else _recent.get(identity, read)
        except DeltaError:  # the log does not reach that far
            return None
        files = _snapshot_of(version, self._place).files
        return SnapshotMoment(replace(self.newest.snapshot, files=files))

    def _identity(self, number: int) -> tuple[object, ...] | None:
        """Return the identity of a version, which another one at its place does not have.

        None: the log does not reach that far, or the storage does not tell times.
        """
        from deltalake.exceptions import DeltaError

        try:
            written = self._root.written(number)
        except (DeltaError, OSError):
            return None
        return (self._place[0], self._table_id, number, written) if written else None

    @cached_property
    def _root(self) -> TableRoot:
        return TableRoot(*self._place)


#: The history of a table of the format, by its folder, URI or object.
table_history = DeltaHistory


def opened_table(path: str | Location) -> Any:
    """Return the table at a path, at its newest version."""
    from deltalake.exceptions import DeltaError

    place = place_of(path)
    try:
        return opened_at(*place)
    except DeltaError as error:
        raise FormatError(
            f"source: {as_location(path).uri}: deltalake does not open this Delta table: "
            f"{hide_urls(str(error))}"
        ) from None


def opened_at(uri: str, options: dict[str, str] | None, version: int | None = None) -> Any:
    """Return a table at a version.

    Args:
        uri: Path or URI of the table.
        options: Options of its object store.
        version: Number of the version. None: the newest one.
    """
    import deltalake

    return deltalake.DeltaTable(uri, version=version, storage_options=options)


def place_of(given: Any) -> tuple[str, dict[str, str] | None]:
    """Return where a table is, as deltalake takes it.

    Args:
        given: Folder or URI of the table, or a `deltalake.DeltaTable`.

    Returns:
        Path or URI of the table, and the options of its object store.

    Raises:
        FormatError: If the options may have other names in deltalake.
        ImportError: If deltalake is not installed.
    """
    require("delta", "reading a Delta table")
    if isinstance(given, (str, Location)):
        return _deltalakes(as_location(given))
    # The options have no other name.
    return given.table_uri, given._storage_options


def _deltalakes(location: Location) -> tuple[str, dict[str, str] | None]:
    """Return a location as deltalake takes it: path or URI, and options of its object store."""
    filesystem, root = location.resolve("")
    if location.in_place:
        return root, None
    text, given = location.given
    address, _, query = text.partition("?")
    if given is None and filesystem.type_name == "s3":
        known = options_of(filesystem)
        options = {name: str(value) for name, value in object_store_options(known).items()}
        return f"s3://{root}", {**options, "allow_http": str(allows_http(known)).lower()}
    if given is None and not query:
        return address, None
    raise FormatError(
        f"source: {location.uri} is a Delta table in a file system whose options deltalake may "
        "name differently; pass deltalake.DeltaTable(uri, storage_options=...)"
    )


def snapshot_of(table: Any) -> Snapshot:
    """Return the files of a Delta table at the version that it was opened at.

    Args:
        table: The table.

    Raises the errors of `table_source`.
    """
    return _snapshot_of(_version_of(table), place_of(table))


@dataclass(frozen=True)
class _Version:
    """What the log says of one version of a table, whatever way leads to its files.

    Attributes:
        description: Description of the table and the version.
        schema: Columns of the rows.
        stored: These columns as the files name them.
        actions: The data files, as deltalake lists them.
        partitions: Types of the columns by which the table is partitioned, by their names.
        deleted: Deleted rows of data files, by the URIs of these.
        table_id: Identity of the table.
        number: Number of the version.
        has_vectors: Whether files may have deletion vectors.
    """

    description: str
    schema: pa.Schema
    stored: pa.Schema
    actions: pa.Table
    partitions: Mapping[str, pa.DataType]
    deleted: Mapping[str, PackedRows]
    table_id: str
    number: int
    has_vectors: bool

    @property
    def files(self) -> pa.Table:
        """Return the data files without their statistics."""
        names = self.actions.column_names
        return self.actions.select([name for name in _OF_FILES if name in names])

    @property
    def nbytes(self) -> int:
        """Return the size of the lists."""
        deleted = sum(_OF_VECTOR + one.nbytes for one in self.deleted.values())
        return int(self.actions.nbytes) + deleted


# Versions that this process has planned. The next call needs the files of the one before.
_recent: RecentlyRead[_Version] = RecentlyRead(_MOST_LOADED, lambda one: one.nbytes)


def _version_of(table: Any) -> _Version:
    """Return the version at which a table was opened.

    Raises the errors of `table_source`.
    """
    description = f"Delta table at version {table.version()}"
    protocol = table.protocol()
    unknown = sorted(set(protocol.reader_features or ()) - _FEATURES)
    if unknown:
        raise FormatError(
            f"source: the {description} uses {listed(unknown)}, which is not supported; give its "
            "rows as another program reads them"
        )
    metadata = table.metadata()
    fields = json.loads(table.schema().to_json())
    if _has_variant(fields):
        raise FormatError(
            f"source: the {description} has a column of type variant, which is not supported; give "
            "its rows as another program reads them"
        )
    # deltalake returns the metadata of fields in structs in any order.
    schema = without_metadata(pa.schema(table.schema().to_arrow()))
    mode = metadata.configuration.get(_MODE, "none")
    for name in metadata.partition_columns:
        if is_bytes(schema.field(name).type):
            raise FormatError(
                f"source: the {description} is partitioned by {name!r} of type binary, whose "
                "values deltalake does not decode; give its rows as another program reads them"
            )
    has_vectors = _VECTORS in (protocol.reader_features or ())
    return _Version(
        description,
        schema,
        _stored(schema, fields["fields"], mode),
        pa.table(table.get_add_actions()),
        {name: schema.field(name).type for name in metadata.partition_columns},
        _deleted(table, description) if has_vectors else {},
        str(metadata.id),
        table.version(),
        has_vectors,
    )


def _snapshot_of(version: _Version, place: tuple[str, dict[str, str] | None]) -> Snapshot:
    """Return the files of a version.

    Args:
        version: The version.
        place: Path or URI of the table, and the options of its object store.

    Raises the errors of `table_source`.
    """
    return Snapshot(
        version.description,
        version.schema,
        version.schema,
        version.stored,
        tuple(sorted(_files(version, place), key=lambda one: one.address.path)),
        table_id=version.table_id,
        snapshot_id=str(version.number),
        deletes_by_position=version.has_vectors,
    )


def _files(version: _Version, place: tuple[str, dict[str, str] | None]) -> Iterator[TableFile]:
    known = LogStatistics(version.actions)
    # The statistics of hundreds of columns would become Python objects, too.
    added = version.files
    # With the sizes, no request asks for them.
    sizes = dict(zip(*(added[name].to_pylist() for name in ("path", "size_bytes")), strict=True))
    root = TableRoot(*place, {unquote(path): size for path, size in sizes.items()})
    deleted = {root.path_of(uri): rows for uri, rows in version.deleted.items()}
    for row, one in enumerate(added.to_pylist()):
        address = root.address(one["path"])
        values = one.get("partition") or {}
        kinds = version.partitions
        partition = {name: pa.scalar(values[name], kind) for name, kind in kinds.items()}
        yield TableFile(
            address,
            one["size_bytes"],
            num_rows=one["num_records"],
            written=str(one["modification_time"]),
            constants=partition,
            partition=partition,
            deleted=deleted.pop(address.path, None),
            statistics=FileInLog(known, row),
        )
    if deleted:
        raise FormatError(
            f"source: the {version.description} has deleted rows in {min(deleted)}, which "
            "deltalake does not list; read the table with Spark, and pass its rows"
        )


class TableRoot:
    """The place of a table, which resolves the paths in its log.

    Args:
        uri: Path or URI of the table.
        options: Options of its object store.
        sizes: Sizes of the data files, by their paths below the table. None: files of the log are
            read, whose times pyarrow does not understand on every server.
    """

    def __init__(
        self, uri: str, options: dict[str, str] | None, sizes: Mapping[str, int] | None = None
    ) -> None:
        self._uri: str = uri if uri.endswith("/") else f"{uri}/"
        local = _local_path(self._uri)
        opened = None if sizes is None else _opened_by_arrow(uri, options)
        self._filesystem: fs.FileSystem
        if local is not None:
            self._filesystem, self._folder = fs.LocalFileSystem(), local
        elif opened is not None:
            self._filesystem, self._folder = opened
        else:
            from deltalake.fs import DeltaStorageHandler

            handler = DeltaStorageHandler(uri, options, dict(sizes or {}))
            self._filesystem, self._folder = fs.PyFileSystem(handler), ""

    def address(self, path: str) -> FileAddress:
        """Return the address of a file.

        Args:
            path: Path in the log: relative to the table, or a URI, with percent-encoding.

        Raises:
            FormatError: If the path leads elsewhere.
        """
        if "://" in path or path.startswith("file:"):
            local = _local_path(path)
            if local is None:
                raise FormatError(
                    f"source: {shown_uri(self._uri)} refers to {shown_uri(path)}, outside the "
                    "table, as shallow clones do, which is not supported; pass the rows that Spark "
                    "reads"
                )
            return FileAddress.on(fs.LocalFileSystem(), local)
        relative = unquote(path)
        there = joined(self._folder, relative)
        if _local_path(self._uri) is not None:
            return FileAddress.on(self._filesystem, there)
        return FileAddress(self._filesystem, there, shown_uri(self._uri + relative))

    def written(self, version: int) -> float | None:
        """Return when the file of a version was written, in seconds. None: there is none.

        Args:
            version: Number of the version.
        """
        address = self.address(f"_delta_log/{version:020}.json")
        (info,) = address.filesystem.get_file_info([address.path])
        return (written_ns(info) or 0) / 1e9 if info.type is fs.FileType.File else None

    def committed(self, version: int) -> float:
        """Return the time in the file of a version, in seconds since 1970.

        Args:
            version: Number of the version, which has an in-commit timestamp.

        Raises:
            CorruptionError: If the file has none.
        """
        address = self.address(f"_delta_log/{version:020}.json")
        with address.filesystem.open_input_stream(address.path) as stream:
            first = b""
            while b"\n" not in first and (part := stream.read(_OF_COMMIT)):
                first += part
        try:
            said = json.loads(first.partition(b"\n")[0])["commitInfo"]["inCommitTimestamp"]
            return int(said) / 1000
        except (ValueError, KeyError, TypeError, OverflowError):
            raise CorruptionError(
                address.shown, 0, "a commit with its time", repr(first[:60])
            ) from None

    def path_of(self, uri: str) -> str:
        """Return the path, on its file system, of the file of a URI."""
        if _local_path(self._uri) is None:
            return joined(self._folder, unquote(uri.removeprefix(self._uri)))
        local = _local_path(uri)
        return uri if local is None else local


def _opened_by_arrow(
    uri: str, options: Mapping[str, str] | None
) -> tuple[fs.FileSystem, str] | None:
    """Return the file system of pyarrow and the path in it of a table on S3.

    Processes that only read data files then need no deltalake. None: pyarrow has no such options,
    or would look for them elsewhere than deltalake.
    """
    if not options or not uri.startswith("s3://"):
        return None
    try:
        return open_uri(with_options(uri, options))
    except (ValueError, OSError):
        return None


def _local_path(uri: str) -> str | None:
    """Return the path of a local file. None: The URI is that of another place."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return unquote(parts.path)
    return unquote(uri) if uri.startswith("/") else None


def _deleted(table: Any, description: str) -> dict[str, PackedRows]:
    """Return the deleted rows of files, by the URIs of these."""
    if not hasattr(table, "deletion_vectors"):
        raise FormatError(
            f"source: the {description} may have deletion vectors, and this deltalake does not "
            "return them; install a newer deltalake"
        )
    found: dict[str, PackedRows] = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for uri, vector in zip(*(batch.column(at) for at in range(2)), strict=True):
            found[uri.as_py()] = PackedRows.of(_false_at(vector.values))
    return found


def _false_at(values: pa.BooleanArray) -> Positions:
    """Return the places of the values that are false. None is null.

    Most bytes have eight true bits, and are not looked at again.

    >>> _false_at(pa.array([True] * 9 + [False] * 3).slice(1)).tolist()
    [8, 9, 10]
    """
    bits, start, count = values.buffers()[1], values.offset, len(values)
    first = start // 8
    packed = np.frombuffer(bits, np.uint8, (start + count + 7) // 8 - first, first)
    some = np.flatnonzero(packed != _ALL_TRUE)
    rows, at = np.nonzero(np.unpackbits(packed[some, None], axis=1, bitorder="little") == 0)
    found = some[rows] * 8 + at - start % 8
    inside: Positions = found[(found >= 0) & (found < count)]
    return inside


def _has_variant(kind: Any) -> bool:
    """Return whether a type in the schema of a table is variant, or has one in it."""
    if isinstance(kind, str):
        return kind == "variant"
    inner = [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    return any(map(_has_variant, [*inner, *(one["type"] for one in kind.get("fields", ()))]))


def _stored(schema: pa.Schema, fields: list[Mapping[str, Any]], mode: str) -> pa.Schema:
    """Return the columns of a table as its files name them."""
    if mode == "none":
        return schema
    return pa.schema(
        _stored_field(field, said, mode) for field, said in zip(schema, fields, strict=True)
    )


def _stored_field(field: pa.Field, said: Mapping[str, Any], mode: str) -> pa.Field:
    metadata = {FIELD_ID: str(said["metadata"][_ID])} if mode == "id" else None
    kind = _stored_type(field.type, said["type"], mode)
    return pa.field(said["metadata"][_NAME], kind, field.nullable, metadata)


def _stored_type(kind: pa.DataType, said: Any, mode: str) -> pa.DataType:
    if isinstance(said, str):
        return kind
    if said["type"] == "struct":
        pairs = zip(kind, said["fields"], strict=True)
        return pa.struct([_stored_field(field, one, mode) for field, one in pairs])
    if said["type"] == "array":
        return pa.list_(_stored_type(kind.value_type, said["elementType"], mode))
    key = _stored_type(kind.key_type, said["keyType"], mode)
    return pa.map_(key, _stored_type(kind.item_type, said["valueType"], mode))
