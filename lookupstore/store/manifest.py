"""The manifest of one version of a store: its schemas, and the files that hold its keys.

Everything in it is checked when it is read: a manifest that contradicts itself raises an error that
names the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import xxhash

from lookupstore._version import __version__
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.storage.json_text import parse_json

DATA_FOLDER = "data"
#: Format version of the manifest of a version that follows a table: older releases would change its
#: rows without a trace.
FOLLOWING_FORMAT_VERSION = 5
#: Format version of such a manifest that also records the place of the table.
PLACED_FORMAT_VERSION = 6
#: Format version of other manifests. Version 3 lacked the runs that an upsert merged at once,
#: without which a changelog would miss rows.
FORMAT_VERSION = 4
#: Format version of a manifest without runs and parent; older releases can read it.
PLAIN_FORMAT_VERSION = 2
#: Maximum number of runs of changes of one bucket: a lookup may read each of them.
MAX_RUNS = 64
#: Maximum number of streams whose last batches a version records; beyond it, the stream whose last
#: batch is oldest is dropped.
MAX_STREAMS = 256
#: Maximum number of buckets of a store: a batch of lookups needs some bytes for each.
MAX_BUCKETS = 1 << 16
BUCKET_FUNCTION = "xxh64"
WRITER = f"lookupstore {__version__}"

# Maximum size of a manifest in bytes: enough for all buckets, with keys of a kilobyte.
MOST_MANIFEST_BYTES = 256 << 20
_MOST_NUMBER = (1 << 63) - 1
_FORMAT_VERSIONS = (PLAIN_FORMAT_VERSION, FORMAT_VERSION, FOLLOWING_FORMAT_VERSION)
# Fields of `follows` since `PLACED_FORMAT_VERSION`.
_PLACED = ("place", "where", "every_column")

_DATA_NAME = re.compile(rf"{DATA_FOLDER}/[A-Za-z0-9_][A-Za-z0-9_.-]*\.sst")
_HASH = re.compile(r"[0-9a-f]{16}")
_HEX = re.compile(r"([0-9a-f]{2})*")
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class DataFile:
    """One data file of a store: the base of a bucket, or a run of changes to it.

    Attributes:
        name: Path inside the folder of the store, with `/`.
        bucket: Number of the bucket of its keys.
        num_records: Number of keys, at least 1, including those of tombstones.
        bytes: Size of the file.
        xxh64: Hash of the whole file, 16 hexadecimal digits.
        min_key: Smallest encoded key, hexadecimal.
        max_key: Greatest encoded key, hexadecimal.
    """

    name: str
    bucket: int
    num_records: int
    bytes: int
    xxh64: str
    min_key: str
    max_key: str


@dataclass(frozen=True)
class ChangeRun:
    """One sorted run of changes to a bucket, with rows that replace older ones.

    Attributes:
        file: Data file, in which each value begins with its kind, that of a row or of a tombstone.
        tombstones: Number of its records that delete a key.
        new_rows: Number of keys that the run has added to the bucket, less those that it has
            deleted.
        created: UTC time at which it was written, ISO 8601 with milliseconds.
    """

    file: DataFile
    tombstones: int
    new_rows: int
    created: str


@dataclass(frozen=True)
class FollowedSnapshot:
    """The snapshot of a table whose rows a version has.

    Attributes:
        table: Identity of the table.
        snapshot: Identity of the snapshot in the table. None: rows were changed in another way
            since.
        files: Hash of the data files of the snapshot and of their deletes, 32 hexadecimal digits.
        columns: Hash of the columns of the store as these files have them, likewise.
        rebuilt: Reason for which the version was built of all rows. None: It is the first version,
            or was made from the differences between two snapshots.
        place: Absolute path or URI of the table, without options. None: unknown, because the table
            was an object, its condition cannot be recorded, or an older release built the store.
        where: Condition that rows meet, as JSON; see `lookupstore.following.recorded`. None: all
            rows count, or `place` is None.
        every_column: Whether the value columns are all columns that are not in the key, also those
            that the table gets later.
    """

    table: str
    snapshot: str | None
    files: str
    columns: str
    rebuilt: str | None = None
    place: str | None = None
    where: str | None = None
    every_column: bool = True


@dataclass(frozen=True)
class Manifest:
    """A version of a store, with its schemas, its buckets and its data files.

    Attributes:
        version: Number of the version, from 1; 0 until it is published.
        id: Identity of this content, 32 hexadecimal digits; each build, upsert and compaction makes
            a new one.
        created: UTC time right before the version was published, ISO 8601 with milliseconds.
        writer: Program, with its release, that wrote this version of the store.
        key_schema: Key columns and their encoding.
        row_schema: Value columns and their encoding.
        buckets: Number of buckets; a key is in bucket XXH64(encoded key) mod buckets.
        num_rows: Number of keys.
        source: Description of the source of the rows; after an upsert, of the changes.
        source_fingerprint: Hash of the names, sizes and times of the source files. None: the source
            was not files, one of them had just been written, or this version is a change of
            another.
        options: Build options of the store, as plain JSON values by name.
        rewritten_buckets: Number of data files that are new in this version; the other files are
            those of the previous version.
        files: Bases of the buckets, by ascending bucket; an empty bucket has none.
        runs: Runs of changes, by ascending bucket, and the newest of a bucket first.
        parent: Identity of the version that this one is a change of. None: it was built.
        applied: Runs of changes that this version merged into their buckets at once, by ascending
            bucket, one for each. The bases have the rows of these runs; the runs record which rows
            changed.
        batches: Number of the last batch of each stream whose changes are in this version, by the
            name of the stream; the stream that added a batch last is the last.
        follows: Snapshot of a table that the version follows. None: It follows no table.
    """

    version: int
    id: str
    created: str
    writer: str
    key_schema: KeySchema
    row_schema: RowSchema
    buckets: int
    num_rows: int
    source: str
    source_fingerprint: str | None
    options: Mapping[str, Any]
    rewritten_buckets: int
    files: tuple[DataFile, ...]
    runs: tuple[ChangeRun, ...] = ()
    parent: str | None = None
    applied: tuple[ChangeRun, ...] = ()
    batches: Mapping[str, int] = field(default_factory=dict)
    follows: FollowedSnapshot | None = None

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """Return the data files with the rows of the version: the bases, then those of runs."""
        return (*self.files, *(run.file for run in self.runs))

    @property
    def named_files(self) -> tuple[DataFile, ...]:
        """Return all files that the version names: the data files, then those of applied runs."""
        return (*self.data_files, *(run.file for run in self.applied))

    @property
    def run_bytes(self) -> int:
        """Return the size of all runs."""
        return sum(run.file.bytes for run in self.runs)

    @property
    def applied_bytes(self) -> int:
        """Return the size of all applied runs."""
        return sum(run.file.bytes for run in self.applied)

    def runs_by_bucket(self) -> dict[int, tuple[ChangeRun, ...]]:
        """Return the runs of each bucket that has runs, the newest first."""
        held: dict[int, tuple[ChangeRun, ...]] = {}
        for run in self.runs:
            held[run.file.bucket] = (*held.get(run.file.bucket, ()), run)
        return held

    def layers(self) -> dict[int, tuple[DataFile, ...]]:
        """Return the files of each bucket that has files: runs, the newest first, then the base."""
        layers = {
            bucket: tuple(run.file for run in runs)
            for bucket, runs in self.runs_by_bucket().items()
        }
        for file in self.files:
            layers[file.bucket] = (*layers.get(file.bucket, ()), file)
        return layers

    @property
    def created_at(self) -> datetime:
        """Return the moment of `created`."""
        return datetime.fromisoformat(self.created)

    @property
    def bytes(self) -> int:
        """Return the size of all data files."""
        return sum(file.bytes for file in self.data_files)

    def decode(self, batch: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
        """Return stored keys and rows as columns, key columns first.

        Raises:
            FormatError: If the bytes do not fit the schemas.
        """
        columns: list[pa.Array] = self.key_schema.decode(batch.column("key")).columns
        if names:
            columns += self.row_schema.unpack(batch.column("value"), names).columns
        return columns

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain JSON values, with the hash of the rest as its last field."""
        is_plain = not self.runs and self.parent is None and not self.batches
        format_version = PLAIN_FORMAT_VERSION if is_plain else FORMAT_VERSION
        if self.follows is not None:
            is_plain, format_version = False, FOLLOWING_FORMAT_VERSION
            if self.follows.place is not None:
                format_version = PLACED_FORMAT_VERSION
        fields = {
            "format_version": format_version,
            "version": self.version,
            "id": self.id,
            "created": self.created,
            "writer": self.writer,
            "key": self.key_schema.to_json(),
            "values": self.row_schema.to_json(),
            "bucket_function": BUCKET_FUNCTION,
            "buckets": self.buckets,
            "num_rows": self.num_rows,
            "source": self.source,
            "source_fingerprint": self.source_fingerprint,
            "options": dict(self.options),
            "rewritten_buckets": self.rewritten_buckets,
            "files": [asdict(file) for file in self.files],
        }
        if not is_plain:
            fields["runs"] = [asdict(run) for run in self.runs]
            fields["parent"] = self.parent
            fields["applied"] = [asdict(run) for run in self.applied]
            fields["batches"] = [[stream, last] for stream, last in self.batches.items()]
        if self.follows is not None:
            follows = asdict(self.follows)
            if self.follows.place is None:
                follows = {name: one for name, one in follows.items() if name not in _PLACED}
            fields["follows"] = follows
        return {**fields, "xxh64": fields_hash(fields)}


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the manifest as it is stored.

    Raises:
        ValueError: If it has more bytes than `parse_manifest` takes.
    """
    content = json.dumps(manifest.to_json(), indent=1).encode() + b"\n"
    if len(content) > MOST_MANIFEST_BYTES:
        raise ValueError(
            f"the manifest would be {len(content)} bytes long, and the limit is "
            f"{MOST_MANIFEST_BYTES}: it contains the first and last key of each data file, so use "
            "shorter keys or fewer buckets"
        )
    return content


def parse_manifest(path: str, content: bytes) -> Manifest:
    """Read and check a stored manifest.

    Args:
        path: Path of the manifest, for errors.
        content: Stored bytes of the manifest.

    Raises:
        FormatError: The format version of the manifest is unknown.
        CorruptionError: The manifest contradicts itself; `expected` names the field.
    """
    fields = parse_json(content, path, "a manifest", most_bytes=MOST_MANIFEST_BYTES)
    return _parse(_Fields(path, "", fields))


def fields_hash(fields: Mapping[str, Any]) -> str:
    """Return the XXH64 of the fields of a manifest other than the hash itself."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return xxhash.xxh64_hexdigest(text.encode())


class _Fields:
    """Typed fields of a JSON object; errors give the field's full path."""

    def __init__(self, path: str, prefix: str, fields: object) -> None:
        self.path = path
        self.prefix = prefix
        if not isinstance(fields, dict):
            raise CorruptionError(
                path, 0, f"{prefix.rstrip('.') or 'the manifest'}: an object", repr(fields)[:80]
            )
        self.fields = dict(fields)

    def wrong_error(self, name: str, expected: str, found: object) -> CorruptionError:
        text = found if isinstance(found, str) else repr(found)
        return CorruptionError(self.path, 0, f"field {self.prefix}{name}: {expected}", text[:200])

    def take(self, name: str, kind: type, expected: str) -> Any:
        if name not in self.fields:
            raise self.wrong_error(name, expected, "no such field")
        value = self.fields.pop(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.wrong_error(name, expected, value)
        return value

    def text(self, name: str) -> str:
        return str(self.take(name, str, "text"))

    def pattern(self, name: str, pattern: re.Pattern[str], expected: str) -> str:
        value = str(self.take(name, str, expected))
        if pattern.fullmatch(value) is None:
            raise self.wrong_error(name, expected, value)
        return value

    def number(self, name: str, least: int, most: int = _MOST_NUMBER) -> int:
        expected = f"an integer from {least} to {most}"
        value = int(self.take(name, int, expected))
        if not least <= value <= most:
            raise self.wrong_error(name, expected, value)
        return value

    def truth(self, name: str) -> bool:
        value = self.fields.pop(name, None)
        if not isinstance(value, bool):
            raise self.wrong_error(name, "true or false", value)
        return value

    def end(self) -> None:
        if self.fields:
            name = min(self.fields)
            raise self.wrong_error(name, "no such field in its format version", self.fields[name])


def _parse(fields: _Fields) -> Manifest:
    version = fields.take("format_version", int, "an integer")
    if version not in (*_FORMAT_VERSIONS, PLACED_FORMAT_VERSION):
        known = f"{', '.join(map(str, _FORMAT_VERSIONS))} and {PLACED_FORMAT_VERSION}"
        raise FormatError(
            f"{fields.path}: field format_version is {version}; this lookupstore reads {known}: "
            "upgrade it, or build the store again"
        )
    expected = fields.pattern("xxh64", _HASH, "16 hexadecimal digits")
    found = fields_hash({"format_version": version, **fields.fields})
    if found != expected:
        raise fields.wrong_error("xxh64", expected, f"{found} over the other fields")
    function = fields.text("bucket_function")
    if function != BUCKET_FUNCTION:
        raise fields.wrong_error("bucket_function", BUCKET_FUNCTION, function)
    buckets = fields.number("buckets", 1, MAX_BUCKETS)
    files = tuple(
        _parse_file(_Fields(fields.path, f"files[{i}].", file), buckets)
        for i, file in enumerate(fields.take("files", list, "a list"))
    )
    runs: tuple[ChangeRun, ...] = ()
    applied: tuple[ChangeRun, ...] = ()
    parent = None
    batches: dict[str, int] = {}
    follows = None
    if version != PLAIN_FORMAT_VERSION:
        runs = _parse_runs(fields, "runs", buckets)
        parent = _parse_fingerprint(fields, "parent")
        applied = _parse_runs(fields, "applied", buckets)
        batches = _parse_batches(fields)
    if version in (FOLLOWING_FORMAT_VERSION, PLACED_FORMAT_VERSION):
        follows = _parse_follows(fields, has_place=version == PLACED_FORMAT_VERSION)
    manifest = Manifest(
        version=fields.number("version", 1),
        id=fields.pattern("id", re.compile(r"[0-9a-f]{32}"), "32 hexadecimal digits"),
        created=_parse_time(fields, "created"),
        writer=fields.text("writer"),
        key_schema=_parse_schema(fields, "key", KeySchema),
        row_schema=_parse_schema(fields, "values", RowSchema),
        buckets=buckets,
        num_rows=fields.number("num_rows", 0),
        source=fields.text("source"),
        source_fingerprint=_parse_fingerprint(fields, "source_fingerprint"),
        options=fields.take("options", dict, "an object"),
        rewritten_buckets=fields.number("rewritten_buckets", 0, buckets + len(runs)),
        files=files,
        runs=runs,
        parent=parent,
        applied=applied,
        batches=batches,
        follows=follows,
    )
    fields.end()
    held = [file.bucket for file in manifest.files]
    if held != sorted(set(held)):
        raise fields.wrong_error("files", "ascending buckets, one file each", held)
    _check_runs(fields, manifest)
    return manifest


def _check_runs(fields: _Fields, manifest: Manifest) -> None:
    """Check that runs are in order, and that the rows of each bucket are those of its files."""
    rows = {file.bucket: file.num_records for file in manifest.files}
    held = [run.file.bucket for run in manifest.runs]
    if held != sorted(held):
        raise fields.wrong_error("runs", "ascending buckets", held)
    for run in manifest.runs:
        bucket = run.file.bucket
        rows[bucket] = rows.get(bucket, 0) + run.new_rows
    for bucket, other in zip(held, held[MAX_RUNS:], strict=False):
        if bucket == other:
            raise fields.wrong_error("runs", f"at most {MAX_RUNS} of a bucket", held.count(bucket))
    for bucket, count in rows.items():
        if count < 0:
            raise fields.wrong_error("runs", f"bucket {bucket} with no less than 0 rows", count)
    merged = [run.file.bucket for run in manifest.applied]
    if merged != sorted(set(merged)):
        raise fields.wrong_error("applied", "ascending buckets, one run each", merged)
    if both := sorted(set(merged) & set(held)):
        raise fields.wrong_error("applied", "buckets without other runs", both)
    if sum(rows.values()) != manifest.num_rows:
        raise fields.wrong_error(
            "num_rows", f"{sum(rows.values())}, the rows of all files", manifest.num_rows
        )


def _parse_time(fields: _Fields, name: str) -> str:
    value = fields.text(name)
    try:
        known = datetime.fromisoformat(value).utcoffset() == timedelta(0)
    except ValueError:
        known = False
    if not known:
        raise fields.wrong_error(name, "a time in UTC, ISO 8601", value)
    return value


def _parse_fingerprint(fields: _Fields, name: str) -> str | None:
    if name in fields.fields and fields.fields[name] is None:
        del fields.fields[name]
        return None
    return fields.pattern(name, _FINGERPRINT, "32 hexadecimal digits, or null")


def _parse_batches(fields: _Fields) -> dict[str, int]:
    expected = f"a list of at most {MAX_STREAMS} pairs of a text and a number"
    listed = fields.take("batches", list, expected)
    batches: dict[str, int] = {}
    for pair in listed:
        if not isinstance(pair, list) or len(pair) != 2:
            raise fields.wrong_error("batches", expected, pair)
        stream, last = pair
        is_number = isinstance(last, int) and not isinstance(last, bool)
        if not isinstance(stream, str) or not is_number or not 0 <= last <= _MOST_NUMBER:
            raise fields.wrong_error("batches", expected, pair)
        batches[stream] = last
    if len(batches) != len(listed) or len(batches) > MAX_STREAMS:
        raise fields.wrong_error("batches", expected, f"{len(listed)} pairs")
    return batches


def _parse_follows(fields: _Fields, *, has_place: bool) -> FollowedSnapshot:
    own = _Fields(fields.path, "follows.", fields.take("follows", dict, "an object"))
    parsed = FollowedSnapshot(
        table=own.text("table"),
        snapshot=_parse_text(own, "snapshot"),
        files=own.pattern("files", _FINGERPRINT, "32 hexadecimal digits"),
        columns=own.pattern("columns", _FINGERPRINT, "32 hexadecimal digits"),
        rebuilt=_parse_text(own, "rebuilt"),
    )
    if has_place:
        parsed = replace(
            parsed,
            place=own.text("place"),
            where=_parse_text(own, "where"),
            every_column=own.truth("every_column"),
        )
    own.end()
    return parsed


def _parse_text(fields: _Fields, name: str) -> str | None:
    if name in fields.fields and fields.fields[name] is None:
        del fields.fields[name]
        return None
    return fields.text(name)


def _parse_schema(fields: _Fields, name: str, kind: Any) -> Any:
    value = fields.take(name, dict, "an object")
    try:
        return kind.from_json(value)
    # If Arrow or base64 cannot read the stored text, the manifest is damaged, whatever their error.
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        raise fields.wrong_error(name, f"a {kind.__name__}", found) from error


def _parse_runs(fields: _Fields, name: str, buckets: int) -> tuple[ChangeRun, ...]:
    return tuple(
        _parse_run(_Fields(fields.path, f"{name}[{i}].", run), buckets)
        for i, run in enumerate(fields.take(name, list, "a list"))
    )


def _parse_run(fields: _Fields, buckets: int) -> ChangeRun:
    file = fields.take("file", dict, "an object")
    parsed = _parse_file(_Fields(fields.path, f"{fields.prefix}file.", file), buckets)
    records = parsed.num_records
    run = ChangeRun(
        file=parsed,
        tombstones=fields.number("tombstones", 0, records),
        new_rows=fields.number("new_rows", -records, records),
        created=_parse_time(fields, "created"),
    )
    fields.end()
    if not -run.tombstones <= run.new_rows <= records - run.tombstones:
        raise fields.wrong_error(
            "new_rows", f"from -{run.tombstones} to {records - run.tombstones}", run.new_rows
        )
    return run


def _parse_file(fields: _Fields, buckets: int) -> DataFile:
    file = DataFile(
        name=fields.pattern("name", _DATA_NAME, f"a file {DATA_FOLDER}/*.sst of this store"),
        bucket=fields.number("bucket", 0),
        num_records=fields.number("num_records", 1),
        bytes=fields.number("bytes", 1),
        xxh64=fields.pattern("xxh64", _HASH, "16 hexadecimal digits"),
        min_key=fields.pattern("min_key", _HEX, "hexadecimal bytes"),
        max_key=fields.pattern("max_key", _HEX, "hexadecimal bytes"),
    )
    fields.end()
    if file.bucket >= buckets:
        raise fields.wrong_error("bucket", f"a number below {buckets}", file.bucket)
    if bytes.fromhex(file.min_key) > bytes.fromhex(file.max_key):
        raise fields.wrong_error("max_key", f"at least min_key {file.min_key}", file.max_key)
    return file
