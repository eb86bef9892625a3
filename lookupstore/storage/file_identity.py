"""Identities that tell a file from every other file of the same path: one rule for all readers.

A writer can change a number in a Parquet file and leave its size and its footer as they were. So a
file is the same as long as its path, size, time of its last change, inode or ETag, and footer are
the same. Sources, columnar files, lookup files and the splits of a Spark build are compared only
here.

If only a time in seconds tells two versions apart, both can have the same time. A file with a time
that close to the clock is *unsettled*: its identity has random digits, so that another listing does
not take it for the same file.
"""

from __future__ import annotations

import errno
import os
import posixpath
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa
from pyarrow import fs

from lookupstore.errors import StaleStoreError
from lookupstore.storage.file_address import FileAddress, is_local, written_ns
from lookupstore.storage.regular_file import open_regular

_SECOND_NS = 1_000_000_000
# Kernels take the time of a change from a clock that ticks at least every 10 ms.
_TICK_NS = 20_000_000
# FAT has the coarsest clock of the file systems in use: 2 seconds.
_COARSEST_NS = 2 * _SECOND_NS
# Largest difference expected between the clock of an object store and the clock of this host.
_CLOCKS_DIFFER_NS = 60 * _SECOND_NS
# Number of attempts to open a file that is replaced each time while it is opened.
_ATTEMPTS = 5
# Names of Arrow and fsspec, in lower case, for the versions of objects (ETag of S3 and Azure,
# version of S3, generation of Google) and for the time of their last change.
_TAGS = ("etag", "versionid", "generation")
_TIMES = ("last-modified", "lastmodified", "last_modified", "mtime")


@dataclass(frozen=True)
class FileIdentity:
    """The properties that tell a file from others of the same path.

    Attributes:
        path: Path of the file in its file system.
        nbytes: Size of the file.
        written: Time of its last change, in nanoseconds since 1970. None: it is not known.
        inode: Inode of a local file. None: it is not known.
        etag: ETag of an object, and its version where the bucket has versions; empty if not known.
        footer: Hash of the footer of a columnar file; empty if not known.
        unsettled: Random digits if the file may change again and keep all other properties;
            otherwise empty.
        is_young: Whether its last change is so recent that the coarsest clock may not show the next
            one.
    """

    path: str
    nbytes: int
    written: int | None = None
    inode: int | None = None
    etag: str = ""
    footer: str = ""
    unsettled: str = ""
    is_young: bool = field(default=False, compare=False)

    @property
    def parts(self) -> tuple[str | int | None, ...]:
        """Return the properties from which names and hashes are made."""
        return (
            self.path,
            self.nbytes,
            self.written,
            self.inode,
            self.etag,
            self.footer,
            self.unsettled,
        )

    @property
    def is_permanent(self) -> bool:
        """Return whether the file is never written again, and no more is known of it."""
        return (self.written, self.inode, self.etag, self.unsettled) == (None, None, "", "")

    def matches(self, other: FileIdentity) -> bool:
        """Return whether two identities of a path are the same in all properties that both know.

        >>> one = FileIdentity("/a.parquet", 100, written=5, inode=7)
        >>> one.matches(FileIdentity("/a.parquet", 100, written=5, footer="12ab"))
        True
        >>> one.matches(FileIdentity("/a.parquet", 100, written=5, inode=8))
        False
        """
        known = zip(self.parts[:-1], other.parts[:-1], strict=True)
        return all(a == b or a in (None, "") or b in (None, "") for a, b in known)

    def is_settled_at(self, seconds: float) -> bool:
        """Return whether a listing shows every change of the file since it was read.

        Args:
            seconds: Time of the reading, in seconds since 1970.

        >>> FileIdentity("/a.parquet", 100, written=0, etag="1").is_settled_at(5.0)
        False
        """
        if self.unsettled or self.inode is not None:
            return not self.unsettled
        latest = int(seconds * _SECOND_NS) - _COARSEST_NS - _CLOCKS_DIFFER_NS
        return self.written is not None and self.written < latest

    def with_footer(self, footer: str) -> FileIdentity:
        """Return the identity with the hash of the file's footer."""
        return replace(self, footer=footer)


def identity_of(path: str, status: os.stat_result) -> FileIdentity:
    """Return the identity of a local file that `os.stat` or `os.fstat` describes.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     identity_of(file.name, os.stat(file.name)).nbytes
    0
    """
    written = status.st_mtime_ns
    age = time.time_ns() - written
    grain = _COARSEST_NS if written % _SECOND_NS == 0 else _TICK_NS
    return FileIdentity(
        path,
        status.st_size,
        written,
        status.st_ino,
        unsettled=uuid.uuid4().hex if age < grain else "",
        is_young=age < _COARSEST_NS,
    )


def listed_identity(filesystem: fs.FileSystem, info: fs.FileInfo) -> FileIdentity:
    """Return the identity of a file as far as a listing knows it, without another request.

    Args:
        filesystem: File system that has the file.
        info: Entry of the file in the listing.

    Raises:
        FileNotFoundError: A local file was deleted.
    """
    if is_local(filesystem):
        return identity_of(info.path, os.stat(info.path))
    return _of_object(info.path, info.size, written_ns(info), "")


def identity_now(address: FileAddress, *, tagged: bool = True) -> FileIdentity:
    """Return the identity of the file that a path names now.

    A local file is opened, because NFS asks its server only then. An object is opened to get its
    ETag.

    Args:
        address: Address of the file.
        tagged: Whether to get the ETag of an object.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
    """
    if is_local(address.filesystem):
        descriptor = open_regular(address.path)
        try:
            return identity_of(address.path, os.fstat(descriptor))
        finally:
            os.close(descriptor)
    if tagged:
        with address.open() as file:
            return _identity_of_opened(address, file)
    info = address.filesystem.get_file_info(address.path)
    if info.type is fs.FileType.NotFound:
        raise FileNotFoundError(errno.ENOENT, "no such file", address.shown)
    return listed_identity(address.filesystem, info)


def open_identified(address: FileAddress) -> tuple[pa.NativeFile, FileIdentity]:
    """Open a file, and return it with the identity that it has in that moment.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
        StaleStoreError: Another file took its path on every attempt to open it.
    """
    if is_local(address.filesystem):
        file, descriptor, identity = _open_local(address)
        os.close(descriptor)
        return file, identity
    file = address.open()
    try:
        return file, _identity_of_opened(address, file)
    except BaseException:
        file.close()
        raise


def open_settled(address: FileAddress) -> tuple[pa.NativeFile, FileIdentity]:
    """Open a file with its identity, a moment later if that settles a local file.

    Raises:
        OSError, StaleStoreError: If `open_identified` raises it.
    """
    file, identity = open_identified(address)
    has_ticks = identity.inode is not None and (identity.written or 0) % _SECOND_NS != 0
    if identity.unsettled and has_ticks:
        file.close()
        time.sleep(_TICK_NS / _SECOND_NS)
        file, identity = open_identified(address)
    return file, identity


@contextmanager
def opened_unchanged(
    address: FileAddress, known: FileIdentity | None = None
) -> Iterator[pa.NativeFile]:
    """Open a file, and check after the block that all bytes were those of one file.

    A local file that is replaced by a new one is read to its end. On an object store, an open
    object returns the bytes of the new object once it is replaced.

    Args:
        address: Address of the file.
        known: Identity that the file must have. Default: any.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
        StaleStoreError: The file is not the known one, or was written again meanwhile. An error
            that was raised in the block is its cause.
    """
    descriptor = None
    if is_local(address.filesystem):
        file, descriptor, identity = _open_local(address)
    else:
        file, identity = open_identified(address)
    try:
        with file:
            if known is not None and not identity.matches(known):
                raise changed_error(address)
            try:
                yield file
            except Exception as error:
                # Bytes of two files together may look like damage.
                with suppress(OSError):
                    if not _is_still(address, descriptor, identity):
                        raise changed_error(address) from error
                raise
        with address.reading("an unchanged file", gone="deleted while it was read"):
            if not _is_still(address, descriptor, identity):
                raise changed_error(address)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def changed_error(address: FileAddress) -> StaleStoreError:
    """Return the error for a file that was written while it was read, or since it was listed."""
    return StaleStoreError(f"{address.shown}: rewritten while it was read; read it again")


def _is_still(address: FileAddress, descriptor: int | None, identity: FileIdentity) -> bool:
    if descriptor is not None:
        return identity_of(address.path, os.fstat(descriptor)).matches(identity)
    return identity_now(address, tagged=bool(identity.etag)).matches(identity)


def _open_local(address: FileAddress) -> tuple[pa.NativeFile, int, FileIdentity]:
    """Open a file with Arrow, and once more for a descriptor, which Arrow does not give."""
    for _ in range(_ATTEMPTS):
        descriptor = open_regular(address.path)
        try:
            identity = identity_of(address.path, os.fstat(descriptor))
            file = address.open()
            # No other file can have the inode while the descriptor is open.
            if os.stat(address.path).st_ino == identity.inode:
                return file, descriptor, identity
            file.close()
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise changed_error(address)


def _identity_of_opened(address: FileAddress, file: pa.NativeFile) -> FileIdentity:
    """Return the identity of an object, which the answer to its opening has."""
    said = _said_of(address, file)
    written = _time_in(said)
    if written is None:
        written = written_ns(address.filesystem.get_file_info(address.path))
    tags = [said.get(name, "").strip('"') for name in _TAGS]
    # A weak ETag may stay the same when bytes change.
    known = [tag for tag in tags if tag and not tag.startswith("W/")]
    return _of_object(address.path, file.size(), written, " ".join(known))


def _said_of(address: FileAddress, file: pa.NativeFile) -> dict[str, str]:
    """Return the properties that the store gives of an open object, by names in lower case."""
    handler = getattr(address.filesystem, "handler", None)
    if not isinstance(handler, fs.FSSpecHandler):
        return {name.lower(): value.decode() for name, value in file.metadata().items()}
    handler.fs.invalidate_cache(posixpath.dirname(address.path))  # listings in its cache
    return {name.lower(): str(value) for name, value in handler.fs.info(address.path).items()}


def _time_in(said: Mapping[str, str]) -> int | None:
    text = next((said[name] for name in _TIMES if name in said), "")
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(moment.timestamp()) * _SECOND_NS or None


def _of_object(path: str, nbytes: int, written: int | None, etag: str) -> FileIdentity:
    is_young = (
        written is None or time.time_ns() - written < _COARSEST_NS + _CLOCKS_DIFFER_NS
    ) and not etag
    return FileIdentity(
        path,
        nbytes,
        # S3 lists times in milliseconds, but gives the time of a single object in seconds.
        None if written is None else written // _SECOND_NS * _SECOND_NS,
        etag=etag,
        unsettled=uuid.uuid4().hex if is_young else "",
        is_young=is_young,
    )
