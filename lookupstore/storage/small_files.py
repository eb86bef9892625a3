"""Files that are read whole, such as manifests, up to the largest size of their kind.

A file may claim any size, even a sparse file without any bytes of its own. So its size is checked
before anything is read, and the bytes are counted as they are read: reading stops as early for a
file that grows meanwhile, and for a pipe or a server that gives no size.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from lookupstore.errors import CorruptionError
from lookupstore.quantities import number_text

#: Largest size in bytes of a file that is read whole, if its reader has no limit of its own.
MOST_BYTES = 256 << 20
# Bytes to ask for at once: a smaller file comes in one piece.
_PIECE = 2 << 20


def read_small_file(path: str, most: int = MOST_BYTES) -> bytes:
    """Return all bytes of a local file, or of a pipe.

    Args:
        path: Path of the file.
        most: Largest size that the file may have, in bytes.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptionError: The file has more bytes.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"small"), file.flush()
    ...     read_small_file(file.name, 5)
    b'small'
    """
    return read_descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path, most)


def read_descriptor(descriptor: int, path: str, most: int) -> bytes:
    """Return all bytes of an open file, and close it; see `read_small_file`.

    Args:
        descriptor: Descriptor of the file, at its beginning.
        path: Path of the file, for errors.
        most: Largest size that the file may have, in bytes.
    """
    with open(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        size = found.st_size if stat.S_ISREG(found.st_mode) else None
        return whole(lambda nbytes: file.read(nbytes) or b"", path, most, size)


def whole(read: Callable[[int], bytes], path: str, most: int, size: int | None = None) -> bytes:
    """Return all bytes of a stream.

    Args:
        read: Function that returns the next bytes, at most as many as requested; empty at the end.
        path: Path of the file, for errors.
        most: Largest number of bytes that there may be.
        size: Size that the file claims to have. Default: it claims none.

    Raises:
        CorruptionError: There are more bytes.

    >>> import io
    >>> whole(io.BytesIO(b"small").read, "a.json", 5)
    b'small'
    """
    check_small(path, most, size)
    found = []
    left = most + 1  # one more than the limit shows that there are more
    while left > 0 and (piece := bytes(read(min(left, _PIECE)))):
        found.append(piece)
        left -= len(piece)
    if left <= 0:
        raise _too_large_error(path, most, f"{number_text(most + 1 - left)} or more")
    return b"".join(found)


def check_small(path: str, most: int, size: int | None) -> None:
    """Check the size that a file claims to have; None: it claims none.

    Raises:
        CorruptionError: The file has more bytes than it may have.
    """
    if size is not None and size > most:
        raise _too_large_error(path, most, number_text(size))


def _too_large_error(path: str, most: int, found: str) -> CorruptionError:
    return CorruptionError(path, 0, f"a file of at most {number_text(most)} bytes", found)
