"""Blocks in the form in which they are written, many in one step."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from lookupstore.sst._load cimport LS_TRAILER, BlockLoad, ls_load_block


cdef extern from "ls_bytes.h":
    uint8_t *ls_put_varint(uint8_t *p, uint64_t value) noexcept nogil
    size_t ls_varint_size(uint64_t value) noexcept nogil
    void ls_store32(uint8_t *p, uint32_t value) noexcept nogil


cdef enum:
    MOST_OF_VARINT = 10
    LENGTHS = 8      # size of the lengths of lz4-java, of body and block


def seal_blocks(BlockLoad load not None, checksum):
    """Complete the trailers of blocks that are written as they are.

    Args:
        load: The n blocks.
        checksum: Checksum function of the dialect, which takes bytes and the checksum of those
            before.

    Returns:
        List of n sizes of payloads. The load has the written bytes.
    """
    cdef size_t i
    cdef ls_load_block *block
    cdef uint8_t *trailer
    cdef list sizes = []
    view = memoryview(load)
    for i in range(load.load.count):
        block = &load.load.blocks[i]
        trailer = load.load.data + block.start + block.size
        trailer[0] = 0
        covered = view[block.start:block.start + block.size + 1]
        ls_store32(trailer + 1, <uint32_t>checksum(covered, 0))
        sizes.append(block.size)
    return sizes


def pack_blocks(
        BlockLoad load not None, bodies not None, uint8_t codec, bint has_lengths, checksum):
    """Return the written form of compressed blocks: payloads with their trailers.

    Args:
        load: The n blocks.
        bodies: Sequence of the n compressed blocks, which support the buffer protocol.
        codec: Id of the codec; 0 is used for a block if compression saves 12.5 % or less.
        has_lengths: Whether the two lengths of lz4-java are before the body.
        checksum: Checksum function of the dialect, which takes bytes and the checksum of those
            before.

    Returns:
        The bytes, and lists of n codec ids and n sizes of payloads.
    """
    cdef size_t count = load.load.count, room = 0, at = 0, start, plain, head, i
    cdef uint8_t *out
    cdef uint8_t used
    cdef Py_buffer body
    cdef list codecs = [], sizes = []
    if len(bodies) != count:
        raise ValueError(f"{len(bodies)} bodies of {count} blocks")
    for i in range(count):
        plain = load.load.blocks[i].size
        head = head_size(plain, has_lengths)
        room += payload_size(plain, head + <size_t>len(bodies[i])) + LS_TRAILER
    packed = bytearray(room)
    cdef uint8_t[::1] written = packed
    view = memoryview(packed)
    out = &written[0] if room > 0 else NULL
    for i in range(count):
        plain = load.load.blocks[i].size
        head = head_size(plain, has_lengths)
        start = at
        PyObject_GetBuffer(bodies[i], &body, PyBUF_SIMPLE)
        try:
            if payload_size(plain, head + <size_t>body.len) + LS_TRAILER > room - at:
                raise ValueError("a body that has more bytes than it said")
            if payload_size(plain, head + <size_t>body.len) == plain:
                used = 0
                memcpy(out + at, load.load.data + load.load.blocks[i].start, plain)
                at += plain
            else:
                used = codec
                at = ls_put_varint(out + at, plain) - out
                if has_lengths:
                    ls_store32(out + at, <uint32_t>body.len)
                    ls_store32(out + at + 4, <uint32_t>plain)
                    at += LENGTHS
                memcpy(out + at, body.buf, body.len)
                at += body.len
        finally:
            PyBuffer_Release(&body)
        codecs.append(used)
        sizes.append(at - start)
        out[at] = used
        ls_store32(out + at + 1, <uint32_t>checksum(view[start:at + 1], 0))
        at += LS_TRAILER
    return view[:at], codecs, sizes


cdef size_t head_size(size_t plain, bint has_lengths) noexcept nogil:
    """Return the number of bytes before a body."""
    return ls_varint_size(plain) + (LENGTHS if has_lengths else 0)


cdef size_t payload_size(size_t plain, size_t compressed) noexcept nogil:
    """Return the size of a stored block: that of the block if compression saves 12.5 % or less."""
    return plain if compressed >= plain - plain // 8 else compressed


def add_handles(index not None, BlockLoad load not None, uint64_t offset, list sizes not None):
    """Add a record for each block to the index: its last key, offset and size of the payload.

    Args:
        index: Builder of the index block.
        load: The n blocks.
        offset: Offset of the first block; there are trailers between the blocks.
        sizes: List of the sizes of the n payloads.
    """
    cdef uint8_t handle[2 * MOST_OF_VARINT]
    cdef uint8_t *end
    cdef uint64_t size
    cdef ls_load_block *block
    cdef size_t i
    if load.load.count != <size_t>len(sizes):
        raise ValueError(f"{len(sizes)} sizes of {load.load.count} blocks")
    for i in range(load.load.count):
        block = &load.load.blocks[i]
        size = sizes[i]
        end = ls_put_varint(ls_put_varint(handle, offset), size)
        index.add(
            (<char *>load.load.data)[block.last_key:block.last_key + block.last_key_size],
            PyBytes_FromStringAndSize(<char *>handle, end - handle))
        offset += size + LS_TRAILER
