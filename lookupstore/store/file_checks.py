"""Compare data files with their entries in the manifest, and name the errors of unfit ones."""

from __future__ import annotations

from lookupstore.errors import CorruptionError, LookupStoreError
from lookupstore.sst import Reader
from lookupstore.storage.location import Location
from lookupstore.store.manifest import DataFile, Manifest
from lookupstore.store.version_files import gone_version_error, list_names, name_of


def missing_file_error(location: Location, manifest: Manifest, file: DataFile) -> LookupStoreError:
    """Return the error for a missing data file: its version may be gone, too."""
    if name_of(manifest) not in list_names(location):
        return gone_version_error(location, manifest.version, manifest.id)
    return CorruptionError(
        location.show(file.name), 0, "a data file that the manifest names", "no file"
    )


def wrong_size_error(path: str, file: DataFile, size: int) -> CorruptionError:
    """Return the error for a file whose size differs from the manifest."""
    return CorruptionError(path, min(size, file.bytes), f"{file.bytes} bytes", f"{size} bytes")


def wrong_hash_error(path: str, file: DataFile, found: str) -> CorruptionError:
    """Return the error for a file whose hash differs from the manifest."""
    return CorruptionError(path, 0, f"a file with XXH64 {file.xxh64}", found)


def check_records(reader: Reader, file: DataFile) -> None:
    """Check that a file has as many records as its entry; otherwise close its reader.

    Raises:
        CorruptionError: The numbers differ.
    """
    _check(reader, "records", file.num_records, len(reader))


def check_copy(reader: Reader, file: DataFile) -> None:
    """Check that a copy fits the entry of its file, without its hash; otherwise close its reader.

    Raises:
        CorruptionError: The number of records, or the least or greatest key, differs.
    """
    info = reader.info()
    _check(reader, "as its least key", file.min_key, (info.min_key or b"").hex())
    _check(reader, "as its greatest key", file.max_key, (info.max_key or b"").hex())
    check_records(reader, file)


def _check(reader: Reader, what: str, said: object, found: object) -> None:
    if said != found:
        reader.close()
        raise CorruptionError(reader.path, 0, f"{said} {what}", f"{found} {what}")
