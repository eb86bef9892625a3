"""Compress the files that lookupstore keeps next to a table, with a checksum.

Layout: magic (8 bytes), decompressed size of the content (u64, little-endian), BLAKE2b (16 bytes)
of that size and the compressed content, then the content, compressed with zstd.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa

from lookupstore.errors import CorruptionError

#: Size of the header before the compressed content, in bytes.
HEAD = 32


def seal(magic: bytes, plain: bytes | pa.Buffer) -> bytes:
    """Return a file with some content.

    Args:
        magic: First 8 bytes of the file.
        plain: Content of the file, before it is compressed.
    """
    packed = pa.Codec("zstd").compress(plain, asbytes=True)
    size = len(plain).to_bytes(8, "little")
    return b"".join((magic, size, _digest(size, packed), packed))


def unseal(magic: bytes, data: bytes, path: str, what: str, most: int) -> pa.Buffer:
    """Return the content of a file.

    Args:
        magic: First 8 bytes that the file must have.
        data: All bytes of the file.
        path: Path of the file, for errors.
        what: Description of the content, for errors.
        most: Maximum size of the decompressed content, in bytes.

    Raises:
        CorruptionError: If the file is damaged, or its content is larger than `most`.
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
