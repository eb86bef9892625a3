"""What tells a file from every other file that its path has named: one rule for all readers.

A writer can change a number in a Parquet file and leave its size and its footer as they were. So a
file is the same as long as its path, size, time of its last change, inode or ETag, and footer are.
Sources, columnar files, lookup files and the splits of a Spark build are compared here only.

Where nothing but a time in seconds tells two versions apart, both can have the same time. A file
whose time is that close to the clock is *unsettled*: its identity has random digits, so that nobody
who lists it again takes it for the same file.
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
# Kernels take the time of a change from a clock that ticks every 10 ms at least.
_TICK_NS = 20_000_000
# FAT has the coarsest clock of the file systems in use: 2 seconds.
_COARSEST_NS = 2 * _SECOND_NS
# By how much the clock of an object store may differ from the clock of this host.
_CLOCKS_DIFFER_NS = 60 * _SECOND_NS
# A file that is replaced each time while it is opened.
_ATTEMPTS = 5
# What Arrow and fsspec call the versions of objects, in lower case: S3's and Azure's ETag, S3's
# version, and the generation of Google's objects; and the time of their last change.
_TAGS = ("etag", "versionid", "generation")
_TIMES = ("last-modified", "lastmodified", "last_modified", "mtime")


@dataclass(frozen=True)
class FileIdentity:
    """What tells a file from another one of the same path.

    Attributes:
        path: of the file on its file system.
        nbytes: its size.
        written: time of its last change in nanoseconds since 1970; None: not known.
        inode: of a local file; None: not known.
        etag: ETag of an object, and its version where the bucket has versions; empty: not known.
        footer: hash of the footer of a columnar file; empty: not known.
        unsettled: random digits if the file may change again and keep all of this; else empty.
        is_young: whether its time is closer to that of the look than the coarsest clock ticks.
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
        """Return what names and hashes are made from."""
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
        """Return whether the file is one that nobody writes again, of which no more is known."""
        return (self.written, self.inode, self.etag, self.unsettled) == (None, None, "", "")

    def matches(self, other: FileIdentity) -> bool:
        """Return whether two looks at a path found the same file, by all that both know of it.

        >>> one = FileIdentity("/a.parquet", 100, written=5, inode=7)
        >>> one.matches(FileIdentity("/a.parquet", 100, written=5, footer="12ab"))
        True
        >>> one.matches(FileIdentity("/a.parquet", 100, written=5, inode=8))
        False
        """
        known = zip(self.parts[:-1], other.parts[:-1], strict=True)
        return all(a == b or a in (None, "") or b in (None, "") for a, b in known)

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
    """Return the identity of a file as far as a listing knows it, without a request.

    Args:
        filesystem: that has the file.
        info: of the file, as the listing found it.

    Raises:
        FileNotFoundError: a local file is gone.
    """
    if is_local(filesystem):
        return identity_of(info.path, os.stat(info.path))
    return _of_object(info.path, info.size, written_ns(info), "")


def identity_now(address: FileAddress, *, tagged: bool = True) -> FileIdentity:
    """Return the identity of the file that a path names now.

    A local file is opened for that, because NFS asks its server only then. An object is opened for
    its ETag.

    Args:
        address: of the file.
        tagged: whether the ETag of an object is wanted.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read.
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
        FileNotFoundError: there is none.
        OSError: it cannot be read.
        StaleStoreError: each time while it was opened, another file took its path.
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
    """Open a file as `open_identified` does, a moment later if that settles a local file.

    Raises:
        OSError, StaleStoreError: as `open_identified` says.
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
    """Open a file; when the block ends, check that all its bytes were those of one file.

    Of a local file that others replace by a new one, the open one is read to its end. An object
    store has nothing like it: who has opened an object gets the bytes of the new one.

    Args:
        address: of the file.
        known: identity that it must have; None: any.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read.
        StaleStoreError: it is another file than the known one, or was written again meanwhile.
            An error that was raised in the block is its cause.
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
                # What two files together give may look like damage.
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
    """Open a file with Arrow, which does not give its descriptor, and return one of the same."""
    for _ in range(_ATTEMPTS):
        descriptor = open_regular(address.path)
        try:
            identity = identity_of(address.path, os.fstat(descriptor))
            file = address.open()
            # Nothing else has the inode as long as the descriptor is open.
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
    # A weak ETag may stay when bytes change.
    known = [tag for tag in tags if tag and not tag.startswith("W/")]
    return _of_object(address.path, file.size(), written, " ".join(known))


def _said_of(address: FileAddress, file: pa.NativeFile) -> dict[str, str]:
    """Return what the store says of an open object, by names in lower case."""
    handler = getattr(address.filesystem, "handler", None)
    if not isinstance(handler, fs.FSSpecHandler):
        return {name.lower(): value.decode() for name, value in file.metadata().items()}
    handler.fs.invalidate_cache(posixpath.dirname(address.path))  # listings that it remembers
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
        # S3 lists milliseconds, and says seconds of one object.
        None if written is None else written // _SECOND_NS * _SECOND_NS,
        etag=etag,
        unsettled=uuid.uuid4().hex if is_young else "",
        is_young=is_young,
    )
