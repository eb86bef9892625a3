"""The manifest of a store: which files hold which keys, and how to read them.

A store is a folder with `manifest.json` and the data files that it names, under `data/`. The
manifest is written last and in one step, so a folder without one is no store, whatever else it
holds. Everything in it is checked when it is read: a manifest that contradicts itself is an error
that names the field, never a guess.
"""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import xxhash
from pyarrow import fs

from lookupstore._version import __version__
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys import KeySchema
from lookupstore.rows import RowSchema

FILE_NAME = "manifest.json"
DATA_FOLDER = "data"
FORMAT_VERSION = 1
BUCKET_FUNCTION = "xxh64"
WRITER = f"lookupstore {__version__}"

_DATA_NAME = re.compile(rf"{DATA_FOLDER}/[A-Za-z0-9_][A-Za-z0-9_.-]*\.sst")
_HASH = re.compile(r"[0-9a-f]{16}")
_HEX = re.compile(r"([0-9a-f]{2})*")
_CHUNK_BYTES = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DataFile:
    """Describe one data file of a store.

    Attributes:
        name: path inside the store's folder, with `/`.
        bucket: the bucket that it holds; a bucket has at most one file.
        num_records: number of keys, at least 1.
        bytes: size of the file.
        xxh64: hash of the whole file, 16 hexadecimal digits.
        min_key: smallest encoded key, hexadecimal.
        max_key: greatest encoded key, hexadecimal.
    """

    name: str
    bucket: int
    num_records: int
    bytes: int
    xxh64: str
    min_key: str
    max_key: str


@dataclass(frozen=True)
class Manifest:
    """Describe a store: its schemas, its buckets and its data files.

    Attributes:
        id: identity of this content, 32 hexadecimal digits; every build makes a new one.
        created: UTC time of the build, ISO 8601.
        writer: program and version that built it.
        key_schema: the key columns.
        row_schema: the value columns.
        buckets: number of buckets; a key is in bucket XXH64(encoded key) mod buckets.
        num_rows: number of keys in all files.
        source: what the store was built from, as text.
        options: how it was built: plain JSON values by option name.
        files: the data files, by ascending bucket; an empty bucket has none.
    """

    id: str
    created: str
    writer: str
    key_schema: KeySchema
    row_schema: RowSchema
    buckets: int
    num_rows: int
    source: str
    options: Mapping[str, Any]
    files: tuple[DataFile, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain JSON values, with the hash of the rest as its last field."""
        fields = {
            "format_version": FORMAT_VERSION,
            "id": self.id,
            "created": self.created,
            "writer": self.writer,
            "key": self.key_schema.to_json(),
            "values": self.row_schema.to_json(),
            "bucket_function": BUCKET_FUNCTION,
            "buckets": self.buckets,
            "num_rows": self.num_rows,
            "source": self.source,
            "options": dict(self.options),
            "files": [asdict(file) for file in self.files],
        }
        return {**fields, "xxh64": _fields_hash(fields)}


def store_folder(path: str | os.PathLike[str]) -> str:
    """Return the absolute local path of a store given as a path or a `file://` URI.

    Raises:
        TypeError: `path` is no path.
        ValueError: `path` is a URI of another file system.

    >>> store_folder("file:///data/users")
    '/data/users'
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"path is {type(path).__name__}; give a str or an os.PathLike of str")
    if not text:
        raise ValueError("path is empty; give the folder of a store")
    if "://" not in text:
        return os.path.abspath(text)
    scheme = urlsplit(text).scheme
    if scheme != "file":
        raise ValueError(
            f"path {text!r} is on {scheme!r}; a store is a local folder: give a path or a "
            "file:// URI (the source of a build may be remote)"
        )
    return str(fs.FileSystem.from_uri(text)[1])


def file_hash(path: str) -> str:
    """Return the XXH64 of a whole file as 16 hexadecimal digits."""
    digest = xxhash.xxh64()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def read_manifest(folder: str) -> Manifest:
    """Read and check the manifest of the store in a local folder.

    Raises:
        FileNotFoundError: there is no such folder.
        FormatError: the folder has no manifest, or one of an unknown format version.
        CorruptionError: the manifest contradicts itself; `expected` names the field.
    """
    path = os.path.join(folder, FILE_NAME)
    try:
        content = Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if os.path.isfile(folder):
            raise FormatError(
                f"{folder}: is a file, a store is a folder; lookupstore.sst.Reader opens sorted "
                "files, lookupstore.build makes a store of columnar ones"
            ) from None
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{folder}: no such store folder") from None
        raise FormatError(
            f"{folder}: no store: it has no {FILE_NAME} (a build that did not end leaves none)"
        ) from None
    try:
        fields = json.loads(content)
    except UnicodeDecodeError as error:
        raise CorruptionError(path, error.start, "UTF-8 text", error.reason) from None
    except json.JSONDecodeError as error:
        raise CorruptionError(path, error.pos, "JSON", error.msg) from None
    return _parse(_Fields(path, "", fields))


def publish_manifest(folder: str, manifest: Manifest, *, overwrite: bool = False) -> None:
    """Make a store visible, in one step and on disk when this returns.

    The data files must be complete and synced. With `overwrite`, the files of the store that was
    there are deleted after the step; a reader that has them open goes on reading them, and one that
    cannot be deleted stays, logged.

    An error before the step leaves the folder as it was. An error after it takes a manifest that
    replaced nothing back; one that replaced another stays: ask `is_published` before deleting data.

    Raises:
        FileExistsError: the folder holds a store already and `overwrite` is False.
        OSError: the manifest could not be written, or not be put on disk.
    """
    path = os.path.join(folder, FILE_NAME)
    temporary = os.path.join(folder, f".{FILE_NAME}.{uuid.uuid4().hex}.tmp")
    sync_folder(os.path.join(folder, DATA_FOLDER))
    try:
        with open(temporary, "xb") as file:
            file.write(json.dumps(manifest.to_json(), indent=1).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        old = _replaced_files(folder) if overwrite else set()
        if overwrite:
            os.replace(temporary, path)
        else:
            try:
                os.link(temporary, path)  # unlike a rename, fails if another build was first
            except FileExistsError:
                raise store_exists(folder) from None
    finally:
        with suppress(OSError):  # a hidden file that stays does no harm
            os.unlink(temporary)
    try:
        sync_folder(folder)
        sync_folder(os.path.dirname(folder))
    except BaseException:
        if not overwrite and is_published(folder, manifest.id):
            os.unlink(path)
        raise
    for name in old - {file.name for file in manifest.files}:
        try:
            Path(folder, name).unlink(missing_ok=True)
        except OSError as error:
            _log.warning("%s: %s is no part of the store now, but stays: %s", folder, name, error)


def is_published(folder: str, store_id: str) -> bool:
    """Return whether a folder holds the store of one build; if that cannot be read, True.

    What a build wrote may be deleted only if this is False.
    """
    try:
        return read_manifest(folder).id == store_id
    except (FileNotFoundError, FormatError, CorruptionError):
        return False
    except OSError:
        return True


def store_exists(folder: str) -> FileExistsError:
    """Return the error that says that a folder holds a store already."""
    return FileExistsError(f"{folder}: holds a store already; pass overwrite=True to replace it")


def sync_folder(folder: str) -> None:
    """Put the names in a folder on disk, so that a crash cannot undo a link or rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replaced_files(folder: str) -> set[str]:
    """Return the data files that the present manifest names; none if there is no good manifest."""
    try:
        return {file.name for file in read_manifest(folder).files}
    except (FormatError, CorruptionError):
        return set()


def _fields_hash(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return xxhash.xxh64_hexdigest(text.encode())


class _Fields:
    """Takes typed fields out of a JSON object; whatever is wrong is told with its full name."""

    def __init__(self, path: str, prefix: str, fields: object) -> None:
        self.path = path
        self.prefix = prefix
        if not isinstance(fields, dict):
            raise CorruptionError(
                path, 0, f"{prefix.rstrip('.') or 'the manifest'}: an object", repr(fields)[:80]
            )
        self.fields = dict(fields)

    def wrong(self, name: str, expected: str, found: object) -> CorruptionError:
        text = found if isinstance(found, str) else repr(found)
        return CorruptionError(self.path, 0, f"field {self.prefix}{name}: {expected}", text[:200])

    def take(self, name: str, kind: type, expected: str) -> Any:
        if name not in self.fields:
            raise self.wrong(name, expected, "no such field")
        value = self.fields.pop(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.wrong(name, expected, value)
        return value

    def text(self, name: str) -> str:
        return str(self.take(name, str, "text"))

    def pattern(self, name: str, pattern: re.Pattern[str], expected: str) -> str:
        value = str(self.take(name, str, expected))
        if pattern.fullmatch(value) is None:
            raise self.wrong(name, expected, value)
        return value

    def number(self, name: str, least: int) -> int:
        expected = f"an integer of at least {least}"
        value = int(self.take(name, int, expected))
        if value < least:
            raise self.wrong(name, expected, value)
        return value

    def end(self) -> None:
        if self.fields:
            name = min(self.fields)
            raise self.wrong(name, f"not in format version {FORMAT_VERSION}", self.fields[name])


def _parse(fields: _Fields) -> Manifest:
    version = fields.take("format_version", int, "an integer")
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{fields.path}: field format_version is {version}; this lookupstore reads "
            f"{FORMAT_VERSION}: upgrade it, or build the store again"
        )
    expected = fields.pattern("xxh64", _HASH, "16 hexadecimal digits")
    found = _fields_hash({"format_version": version, **fields.fields})
    if found != expected:
        raise fields.wrong("xxh64", expected, f"{found} over the other fields")
    function = fields.text("bucket_function")
    if function != BUCKET_FUNCTION:
        raise fields.wrong("bucket_function", BUCKET_FUNCTION, function)
    buckets = fields.number("buckets", 1)
    manifest = Manifest(
        id=fields.pattern("id", re.compile(r"[0-9a-f]{32}"), "32 hexadecimal digits"),
        created=fields.text("created"),
        writer=fields.text("writer"),
        key_schema=_parse_schema(fields, "key", KeySchema),
        row_schema=_parse_schema(fields, "values", RowSchema),
        buckets=buckets,
        num_rows=fields.number("num_rows", 0),
        source=fields.text("source"),
        options=fields.take("options", dict, "an object"),
        files=tuple(
            _parse_file(_Fields(fields.path, f"files[{i}].", file), buckets)
            for i, file in enumerate(fields.take("files", list, "a list"))
        ),
    )
    fields.end()
    held = [file.bucket for file in manifest.files]
    if held != sorted(set(held)):
        raise fields.wrong("files", "ascending buckets, one file each", held)
    records = sum(file.num_records for file in manifest.files)
    if records != manifest.num_rows:
        raise fields.wrong("num_rows", f"{records}, the records of all files", manifest.num_rows)
    return manifest


def _parse_schema(fields: _Fields, name: str, kind: Any) -> Any:
    value = fields.take(name, dict, "an object")
    try:
        return kind.from_json(value)
    # Whatever the stored text makes Arrow or base64 say, it is the manifest that is wrong.
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        raise fields.wrong(name, f"a {kind.__name__}", found) from error


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
        raise fields.wrong("bucket", f"less than {buckets} buckets", file.bucket)
    if bytes.fromhex(file.min_key) > bytes.fromhex(file.max_key):
        raise fields.wrong("max_key", f"at least min_key {file.min_key}", file.max_key)
    return file
