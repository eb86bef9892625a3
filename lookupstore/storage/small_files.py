"""Files that are read whole, such as manifests: never more of one than its kind may have.

A file may claim any size, a sparse one with no byte of its own. So the size is looked at before
anything is read, and what is read is counted: a file that grows meanwhile, a pipe or a server that
gives no size is read no further either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from lookupstore.errors import CorruptionError
from lookupstore.quantities import number_text

#: Most bytes of a file that is read whole, if its reader does not know better.
MOST_BYTES = 256 << 20
# Asked for at once: a file that has no more comes in one piece.
_PIECE = 2 << 20


def read_small_file(path: str, most: int = MOST_BYTES) -> bytes:
    """Return all bytes of a local file, or of a pipe.

    Args:
        path: of the file.
        most: how many bytes it may have.

    Raises:
        FileNotFoundError: there is none.
        CorruptionError: it has more bytes.

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
        descriptor: of the file, at its beginning.
        path: of it, for errors.
        most: how many bytes it may have.
    """
    with open(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        size = found.st_size if stat.S_ISREG(found.st_mode) else None
        return whole(lambda nbytes: file.read(nbytes) or b"", path, most, size)


def whole(read: Callable[[int], bytes], path: str, most: int, size: int | None = None) -> bytes:
    """Return all that a stream gives.

    Args:
        read: gives the next bytes, up to as many as are asked for; none at the end.
        path: of the file, for errors.
        most: how many bytes there may be.
        size: that the file is said to have; None: nobody says it.

    Raises:
        CorruptionError: there are more bytes.

    >>> import io
    >>> whole(io.BytesIO(b"small").read, "a.json", 5)
    b'small'
    """
    check_small(path, most, size)
    found = []
    left = most + 1  # one more than there may be shows that there are more
    while left > 0 and (piece := bytes(read(min(left, _PIECE)))):
        found.append(piece)
        left -= len(piece)
    if left <= 0:
        raise _too_large_error(path, most, f"{number_text(most + 1 - left)} or more")
    return b"".join(found)


def check_small(path: str, most: int, size: int | None) -> None:
    """Check the size that a file is said to have; None: nobody says it.

    Raises:
        CorruptionError: it has more bytes than it may have.
    """
    if size is not None and size > most:
        raise _too_large_error(path, most, number_text(size))


def _too_large_error(path: str, most: int, found: str) -> CorruptionError:
    return CorruptionError(path, 0, f"a file of at most {number_text(most)} bytes", found)
