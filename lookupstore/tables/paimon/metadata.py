"""The metadata files of Paimon tables: snapshots, schemas and manifests.

Source: "Snapshot", "Schema" and "Manifest" in the specification of Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.extras import require
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.location import Location
from lookupstore.tables.paimon.avro_file import records_of
from lookupstore.tables.recently_read import RecentlyRead
from lookupstore.tables.rows import GONE

_SNAPSHOT = re.compile(r"snapshot/snapshot-(\d+)")
_SCHEMA = re.compile(r"schema/schema-(\d+)")
_TAG = re.compile(r"tag/tag-(.+)")
# Folder of a branch, which has snapshots, schemas and tags, but no other files.
_BRANCH = re.compile(r"/(branch/branch-([^/]+))/*")
# Newest version of each kind of file that is known.
_VERSIONS = {"snapshot": 3, "schema": 3, "manifest": 2}
# Largest size of a file of JSON, and of a manifest.
_MOST_JSON = 64 << 20
_MOST_MANIFEST = 1 << 30
# Bytes of manifests and files of deletion vectors that stay in memory: two snapshots that follow
# each other have most of them in common.
_MOST_LOADED = 32 << 20
_ADD, _DELETE = 0, 1
#: Name of the branch that is the table itself.
MAIN = "main"

# Partition and bucket of files. Partitions may share a folder: null and the empty text do.
Place = tuple[bytes, int]
Value = TypeVar("Value")


@dataclass(frozen=True)
class PaimonSchema:
    """The columns and options of a table at one time.

    Attributes:
        number: Number of the schema.
        fields: Columns, each with its `id`, `name` and `type`.
        partition_keys: Names of the columns by which files are partitioned.
        primary_keys: Names of the columns of the primary key. Empty: an append table.
        options: Options of the table.
    """

    number: int
    fields: tuple[Mapping[str, Any], ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]

    def option(self, name: str, default: str = "") -> str:
        """Return an option in lower case."""
        return str(self.options.get(name, default)).lower()

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Return the names of the columns that identify a row in its partition."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)


@dataclass(frozen=True)
class ValueStatistics:
    """The statistics of columns of a data file, as the manifests have them.

    Attributes:
        least: Row of the least values.
        greatest: Row of the greatest values.
        nulls: Number of nulls of each column. None: unknown.
        names: Names of the columns. None: all columns of the file.
    """

    least: bytes
    greatest: bytes
    nulls: tuple[int | None, ...]
    names: tuple[str, ...] | None


@dataclass(frozen=True)
class PaimonFile:
    """A data file, as the manifests have it.

    Attributes:
        manifest: Path of the manifest, for errors.
        partition: Row of the values of its partition.
        bucket: Number of its bucket.
        name: Name of the file.
        nbytes: Size of the file.
        num_rows: Number of its rows, with those that delete a key.
        num_deletes: Number of the rows that delete a key. None: unknown.
        keys: Rows of the least and greatest key.
        schema: Number of the schema that it was written with.
        level: Level of the file: 0 for those that were not compacted.
        elsewhere: Whether it is outside the folder of the table.
        has_some_columns: Whether it has only some columns of its rows.
        values: Statistics of its columns. None: unknown.
    """

    manifest: str
    partition: bytes
    bucket: int
    name: str
    nbytes: int
    num_rows: int
    num_deletes: int | None
    keys: tuple[bytes, bytes]
    schema: int
    level: int
    elsewhere: bool
    has_some_columns: bool
    values: ValueStatistics | None


@dataclass(frozen=True)
class Vector:
    """The place of the deletion vector of a data file.

    Attributes:
        file: Name of the file in the folder `index`.
        nbytes: Size of that file.
        start: Offset of the vector.
        length: Length of the vector, as its format counts it.
        count: Number of deleted rows. None: unknown.
        elsewhere: Whether the file is outside the folder of the table.
    """

    file: str
    nbytes: int
    start: int
    length: int
    count: int | None
    elsewhere: bool


class Metadata:
    """The metadata of a table at one snapshot.

    Args:
        location: Folder of the table, or of a branch in it.
        number: Number of the snapshot, whose schema counts. Default: the newest one, with the
            newest schema.

    Attributes:
        location: Folder of the table.
        uri: Path or URI of the table or branch, for people.
        branch: Name of the branch.
        number: Number of the snapshot.
        contents: Contents of files that never change, by their names in the folder of the table.

    Raises:
        ImportError: If fastavro is not installed.
    """

    def __init__(self, location: Location, number: int | None = None) -> None:
        require("paimon", "reading a Paimon table")
        self._given = location
        self.uri: str = location.uri
        self.location: Location
        self.location, self._home, self.branch = _branch_of(location)
        self._is_newest = number is None
        self.number: int = self.numbers()[-1] if number is None else number
        self._schemas: dict[int, PaimonSchema] = {}
        self.contents: RecentlyRead[bytes] = RecentlyRead(_MOST_LOADED, len)

    def at(self, number: int) -> Metadata:
        """Return the metadata of the table at another snapshot, with the schemas of this one.

        Args:
            number: Number of the snapshot, which may be gone.
        """
        found = Metadata(self._given, number)
        found.schema, found._schemas = self.schema, self._schemas
        found.table_id, found.contents = self.table_id, self.contents
        return found

    def numbers(self) -> list[int]:
        """Return the numbers of the snapshots that the table has now, ascending."""
        return self._numbers("snapshot", _SNAPSHOT)

    def tags(self) -> dict[str, int]:
        """Return the numbers of the snapshots that tags keep, by the names of these."""
        return {name: one.value("id", int) for name, one in self._tagged.items()}

    @property
    def milliseconds(self) -> int:
        """Return the time of the snapshot in milliseconds since 1970."""
        return self._snapshot.value("timeMillis", int)

    @cached_property
    def schema(self) -> PaimonSchema:
        """Return the schema in which the rows are read."""
        if self._is_newest:
            return self.schema_of(self._numbers("schema", _SCHEMA)[-1])
        return self.schema_of(self._snapshot.value("schemaId", int))

    @cached_property
    def table_id(self) -> str:
        """Return the number and the time of the oldest schema.

        Another table in the folder has another time.
        """
        number = self._numbers("schema", _SCHEMA)[0]
        path = f"{self._home}schema/schema-{number}"
        time = self._json(path, "schema").optional("timeMillis", int) or 0
        return f"{number}-{time}" + (f"-{self.branch}" if self._home else "")

    def schemas(self) -> list[PaimonSchema]:
        """Return all schemas, the older first."""
        return [self.schema_of(number) for number in self._numbers("schema", _SCHEMA)]

    def schema_of(self, number: int) -> PaimonSchema:
        """Return a schema by its number."""
        if number not in self._schemas:
            self._schemas[number] = self._read_schema(number)
        return self._schemas[number]

    def data_files(self) -> list[PaimonFile]:
        """Return the data files of the snapshot.

        Raises:
            CorruptionError: If a manifest is damaged, or deletes a file that no manifest adds.
        """
        found: dict[tuple[object, ...], PaimonFile] = {}
        for entry, meta in self._entries():
            kind, file = _data_file(entry, meta)
            identity = file.partition, file.bucket, file.level, file.name
            if kind == _ADD:
                found[identity] = file
            elif found.pop(identity, None) is None:
                text = f"the deletion of {file.name!r}, which no manifest before it adds"
                raise CorruptionError(entry.path, 0, "files of the table", text)
        return list(found.values())

    def vectors(self) -> dict[tuple[bytes, int, str], Vector]:
        """Return deletion vectors by partition, bucket and name of their data files."""
        name = self._snapshot.optional("indexManifest", str)
        found = {}
        for record in [] if name is None else self._records(f"manifest/{name}", "index manifest"):
            if record.value("_INDEX_TYPE", str) != "DELETION_VECTORS":
                continue
            if record.value("_KIND", int) != _ADD:
                raise CorruptionError(record.path, 0, "index files of the table", "a deleted one")
            for one in record.records("_DELETIONS_VECTORS_RANGES"):
                vector = Vector(
                    record.value("_FILE_NAME", str),
                    record.value("_FILE_SIZE", int),
                    one.value("f1", int),
                    one.value("f2", int),
                    one.optional("_CARDINALITY", int),
                    record.optional("_EXTERNAL_PATH", str) is not None,
                )
                partition, bucket = record.value("_PARTITION", bytes), record.value("_BUCKET", int)
                found[partition, bucket, one.value("f0", str)] = vector
        return found

    @cached_property
    def _snapshot(self) -> MetadataObject:
        try:
            return self._json(f"{self._home}snapshot/snapshot-{self.number}", "snapshot")
        except StaleStoreError:
            kept = [one for one in self._tagged.values() if one.value("id", int) == self.number]
            if not kept:
                raise
        return kept[0]

    @cached_property
    def _tagged(self) -> dict[str, MetadataObject]:
        """Return the snapshots that tags keep by the names of these."""
        names = (file.name for file in self.location.files(f"{self._home}tag"))
        tags = {name: _TAG.fullmatch(name.removeprefix(self._home)) for name in names}
        return {tag[1]: self._json(name, "snapshot") for name, tag in tags.items() if tag}

    def _entries(self) -> Iterator[tuple[MetadataObject, MetadataObject]]:
        """Yield the entries of all manifests, the older first, each with the data file in it."""
        for kind in ("baseManifestList", "deltaManifestList"):
            name = self._snapshot.value(kind, str)
            size = self._snapshot.optional(f"{kind}Size", int)
            for manifest in self._records(f"manifest/{name}", "manifest list", size):
                path = f"manifest/{manifest.value('_FILE_NAME', str)}"
                for entry in self._records(path, "manifest", manifest.value("_FILE_SIZE", int)):
                    yield entry, entry.record("_FILE")

    def _numbers(self, folder: str, pattern: re.Pattern[str]) -> list[int]:
        """Return the numbers of the files in a folder, one or more, ascending."""
        folder = f"{self._home}{folder}"
        names = (file.name.removeprefix(self._home) for file in self.location.files(folder))
        numbers = [int(match[1]) for match in map(pattern.fullmatch, names) if match]
        if not numbers:
            raise StaleStoreError(f"{self.location.show(folder)}: {GONE}")
        return sorted(numbers)

    def _read_schema(self, number: int) -> PaimonSchema:
        record = self._json(f"{self._home}schema/schema-{number}", "schema")
        fields = record.value("fields", list)
        for field in fields:
            _check_field(field, record.path)
        options = record.optional("options", dict) or {}
        return PaimonSchema(
            number,
            tuple(fields),
            tuple(record.optional("partitionKeys", list) or ()),
            tuple(record.optional("primaryKeys", list) or ()),
            options,
        )

    def _json(self, name: str, kind: str) -> MetadataObject:
        path = self.location.show(name)
        value = parse_json(self._read(name, _MOST_JSON), path, f"a {kind}", most_bytes=_MOST_JSON)
        record = MetadataObject(value, path)
        self._check_version(kind, record.optional("version", int) or 1, path)
        return record

    def _records(self, name: str, kind: str, size: int | None = None) -> Iterator[MetadataObject]:
        """Yield the records of a file of Avro.

        Args:
            name: Name of the file.
            kind: Kind of the file.
            size: Size that the file must have: a file that was cut between two blocks has fewer
                records, and no other error. None: it is not recorded.
        """
        path = self.location.show(name)
        content = self.contents.get(name, lambda: self._read(name, _MOST_MANIFEST))
        if size not in (None, len(content)):
            raise CorruptionError(path, 0, f"{size} bytes", f"{len(content)} bytes")
        for value in records_of(content, path, kind):
            record = MetadataObject(value, path)
            self._check_version("manifest", record.value("_VERSION", int), path)
            yield record

    def _read(self, name: str, most: int) -> bytes:
        try:
            return self.location.read(name, most)
        except FileNotFoundError:
            raise StaleStoreError(f"{self.location.show(name)}: {GONE}") from None

    def _check_version(self, kind: str, version: int, path: str) -> None:
        if version > _VERSIONS[kind]:
            raise FormatError(
                f"source: {path} has version {version} of Paimon's {kind} files, which is not "
                f"supported (up to {_VERSIONS[kind]} is); pass the rows that Spark reads"
            )


@dataclass(frozen=True)
class MetadataObject:
    """An object of a metadata file, whose fields are checked as they are read.

    Attributes:
        content: Values by the names of the fields.
        path: Path of the file, for errors.
    """

    content: Any
    path: str

    def value(self, name: str, kind: type[Value]) -> Value:
        """Return the value of a field.

        Raises:
            CorruptionError: If the field is missing, or has another type.
        """
        found = self.optional(name, kind)
        if found is None:
            raise CorruptionError(self.path, 0, f"a value of {name!r}", "none")
        return found

    def optional(self, name: str, kind: type[Value]) -> Value | None:
        """Return the value of a field. None: It is missing or null.

        Raises:
            CorruptionError: If the field has another type.
        """
        if not isinstance(self.content, Mapping):
            raise CorruptionError(self.path, 0, "an object", type(self.content).__name__)
        found = self.content.get(name)
        if found is not None and type(found) is not kind:
            expected = f"{kind.__name__} as {name!r}"
            raise CorruptionError(self.path, 0, expected, type(found).__name__)
        return found

    def record(self, name: str) -> MetadataObject:
        """Return the object in a field."""
        return MetadataObject(self.value(name, dict), self.path)

    def records(self, name: str) -> list[MetadataObject]:
        """Return the objects in a list; none if it is null."""
        return [MetadataObject(one, self.path) for one in self.optional(name, list) or ()]


def _branch_of(location: Location) -> tuple[Location, str, str]:
    """Return the folder of a table, and the folder in it and the name of a branch.

    Args:
        location: Folder of the table, or of a branch in it.
    """
    text, filesystem = location.given
    path, mark, options = text.partition("?") if "://" in text else (text, "", "")
    end = next((match for match in _BRANCH.finditer(path) if match.end() == len(path)), None)
    if end is None:
        return location, "", MAIN
    above = Location(path[: end.start()] + mark + options, filesystem=filesystem)
    return above, f"{end[1]}/", end[2]


def _data_file(entry: MetadataObject, file: MetadataObject) -> tuple[int, PaimonFile]:
    """Return what an entry does, and the data file that it does it to."""
    kind = entry.value("_KIND", int)
    if kind not in (_ADD, _DELETE):
        raise CorruptionError(entry.path, 0, f"{_ADD} or {_DELETE} as '_KIND'", kind)
    return kind, PaimonFile(
        entry.path,
        entry.value("_PARTITION", bytes),
        entry.value("_BUCKET", int),
        file.value("_FILE_NAME", str),
        file.value("_FILE_SIZE", int),
        file.value("_ROW_COUNT", int),
        file.optional("_DELETE_ROW_COUNT", int),
        (file.value("_MIN_KEY", bytes), file.value("_MAX_KEY", bytes)),
        file.value("_SCHEMA_ID", int),
        file.value("_LEVEL", int),
        file.optional("_EXTERNAL_PATH", str) is not None,
        file.optional("_WRITE_COLS", list) is not None,
        _value_statistics(file),
    )


def _value_statistics(file: MetadataObject) -> ValueStatistics | None:
    """Return the statistics of the columns of a data file. None: unknown."""
    if file.optional("_VALUE_STATS", dict) is None:
        return None
    said, names = file.record("_VALUE_STATS"), file.optional("_VALUE_STATS_COLS", list)
    return ValueStatistics(
        said.value("_MIN_VALUES", bytes),
        said.value("_MAX_VALUES", bytes),
        tuple(said.optional("_NULL_COUNTS", list) or ()),
        None if names is None else tuple(names),
    )


def _check_field(field: Any, path: str) -> None:
    """Check a field of a schema, and those in it."""
    record = MetadataObject(field, path)
    record.value("id", int)
    record.value("name", str)
    _check_type(record.content.get("type"), path)


def _check_type(kind: Any, path: str) -> None:
    if isinstance(kind, str):
        return
    record = MetadataObject(kind, path)
    record.value("type", str)
    for name in ("element", "key", "value"):
        if name in record.content:
            _check_type(record.content[name], path)
    for field in record.optional("fields", list) or ():
        _check_field(field, path)
