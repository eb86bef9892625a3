"""A file of ours beside a table: compressed, with a checksum over every byte.

Layout: a magic of 8 bytes, u64 size of what follows when it is decompressed, BLAKE2b (16 bytes) of
this size and of the rest, then what it has, compressed with zstd.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa

from lookupstore.errors import CorruptionError

#: Where what is compressed begins.
HEAD = 32


def seal(magic: bytes, plain: bytes | pa.Buffer) -> bytes:
    """Return the file that has some bytes.

    Args:
        magic: that it begins with, 8 bytes.
        plain: what it has.
    """
    packed = pa.Codec("zstd").compress(plain, asbytes=True)
    size = len(plain).to_bytes(8, "little")
    return b"".join((magic, size, _digest(size, packed), packed))


def unseal(magic: bytes, data: bytes, path: str, what: str, most: int) -> pa.Buffer:
    """Return what a file has.

    Args:
        magic: that it begins with.
        data: of the file.
        path: of it, for errors.
        what: it is, for errors.
        most: bytes that it may have.

    Raises:
        CorruptionError: it is damaged.
    """
    if len(data) < HEAD or data[:8] != magic:
        raise CorruptionError(path, 0, what, data[:8])
    size, digest, packed = data[8:16], data[16:HEAD], memoryview(data)[HEAD:]
    if _digest(size, packed) != digest:
        raise CorruptionError(path, HEAD, "bytes with the checksum of the file", "others")
    nbytes = int.from_bytes(size, "little")
    if nbytes > most:
        raise CorruptionError(path, 8, "a size that so many bytes can have", nbytes)
    try:
        return pa.Codec("zstd").decompress(packed, nbytes)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptionError(path, HEAD, f"{what}, compressed with zstd", error) from error


def _digest(size: bytes, packed: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(size, digest_size=16)
    digest.update(packed)
    return digest.digest()
