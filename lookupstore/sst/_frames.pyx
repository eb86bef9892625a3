"""Blocks of a mapped file, checked and decompressed in place, and many in one call.

A cache miss costs a lookup little more than the checksum and zstd take. This module handles the
usual case and rejects all others without an error: a block that it rejects is read by
`stored.StoredFile`, which raises the error of the block.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory

from crc32c import crc32c
from zstandard import BufferWithSegments, ZstdError

from lookupstore.arrow._binary cimport LS_OK, ls_get_varint64, ls_slice
from lookupstore.sst._block cimport LS_ORDER_BYTES, Block

from lookupstore.sst.codec import ZSTD


cdef extern from "ls_bytes.h":
    uint32_t ls_load32(const uint8_t *p) noexcept nogil
    uint64_t ls_load64(const uint8_t *p) noexcept nogil


cdef uint8_t NOT_COMPRESSED = 0
cdef uint8_t CODEC = ZSTD.id
cdef size_t EXPANSION = ZSTD.expansion
# Size above which blocks are not handled here: they contain a few large records, for which the cost
# of a Python call does not matter.
cdef size_t MOST_OF_BLOCK = 1 << 24

# RFC 8878, 3.1.1: the magic number, and bits of the byte after it.
cdef uint32_t FRAME_MAGIC = 0xFD2FB528
cdef uint8_t SINGLE_SEGMENT = 0x20
cdef uint8_t RESERVED = 0x08


cdef bint frame_says(const uint8_t *frame, size_t size, size_t plain) noexcept nogil:
    """Return whether a frame records that its content has `plain` bytes."""
    cdef size_t at = 5, width
    cdef uint8_t bits
    cdef uint64_t content
    if size < at or ls_load32(frame) != FRAME_MAGIC:
        return False
    bits = frame[4]
    if not bits & SINGLE_SEGMENT:
        at += 1
    at += 4 if bits & 3 == 3 else bits & 3  # id of a dictionary
    width = 1 << (bits >> 6)
    if bits & RESERVED or (width == 1 and not bits & SINGLE_SEGMENT) or at + width > size:
        return False
    if width == 1:
        content = frame[at]
    elif width == 2:
        content = 256 + <uint64_t>(frame[at] | <uint32_t>frame[at + 1] << 8)
    elif width == 4:
        content = ls_load32(frame + at)
    else:
        content = ls_load64(frame + at)
    return content == plain


cdef bint is_whole(const uint8_t *payload, const uint8_t *end) except -1:
    """Return whether a payload has the checksum that is stored after it and its codec, at `end`."""
    # The codec is directly after the payload, and the checksum covers it, too.
    covered = PyMemoryView_FromMemory(<char *>payload, end + 1 - payload, PyBUF_READ)
    return <uint32_t>crc32c(covered) == ls_load32(end + 1)


cdef class MappedBlocks:
    """The blocks of a native file that is mapped and not compressed.

    `handles` are their handles; `most` is the size of all blocks in bytes.
    """

    def __cinit__(self, FileMap map not None, Handles handles not None, most):
        self.map = map
        self.view = memoryview(map)
        self.handles = handles
        self.most = most

    cdef bint find(self, size_t number, const uint8_t **data, size_t *size) except -1:
        """Find a block and check it; False: it is not of the usual kind, or damaged."""
        cdef size_t start = self.handles.starts[number]
        cdef const uint8_t *at = self.map.bytes() + start
        size[0] = self.handles.starts[number + 1] - start - self.handles.trailer
        data[0] = at
        return (
            size[0] <= min(self.most, MOST_OF_BLOCK) and at[size[0]] == NOT_COMPRESSED
            and is_whole(at, at + size[0]))

    cdef Block block(self, size_t number, Block index):
        """Return a block of a file with this index. None: `find` returned False."""
        cdef ls_slice data
        cdef Block found
        if not self.find(number, &data.data, &data.size):
            return None
        found = Block.__new__(Block)
        found.open(self.view, data, index.path, self.handles.starts[number], LS_ORDER_BYTES)
        return found


cdef class MappedFrames:
    """The zstd blocks of a native file that is mapped.

    `handles` are their handles, `frames` decompresses them; `most` is the size of all blocks in
    bytes.
    """

    def __cinit__(self, FileMap map not None, Handles handles not None, frames not None, most):
        self.map = map
        self.handles = handles
        self.frames = frames
        self.idle = frames.idle
        self.most = most

    cdef bint find(
            self, size_t number, const uint8_t **frame, size_t *size, size_t *plain) except -1:
        """Find the frame of a block and check it; False: it is not of the usual kind."""
        cdef size_t start = self.handles.starts[number]
        cdef size_t stored = self.handles.starts[number + 1] - start - self.handles.trailer
        cdef const uint8_t *at = self.map.bytes() + start
        cdef const uint8_t *end = at + stored
        cdef uint64_t length = 0
        if end[0] != CODEC:
            return False
        if not is_whole(at, end):
            return False
        if ls_get_varint64(&at, end, &length) != LS_OK or length > MOST_OF_BLOCK:
            return False
        size[0], plain[0] = end - at, length
        if length > self.most or length > EXPANSION * size[0]:
            return False
        frame[0] = at
        return frame_says(at, size[0], length)

    cdef bytes one(self, size_t number):
        """Return a decompressed block. None: it is not of the usual kind, or damaged."""
        cdef const uint8_t *frame
        cdef size_t size, plain
        cdef bytes block
        if not self.find(number, &frame, &size, &plain):
            return None
        zstd = self.idle.pop() if self.idle else self.frames.take()
        body = PyMemoryView_FromMemory(<char *>frame, size, PyBUF_READ)
        try:
            block = zstd.decompress(body, allow_extra_data=False)
        except ZstdError:
            return None
        finally:
            self.idle.append(zstd)
        return block if len(block) == <Py_ssize_t>plain else None

    cdef Block block(self, size_t number, bytes data, Block index):
        """Return the result of `one` or `many` as a block of a file with this index."""
        return Block(data, index.path, self.handles.starts[number], "bytes")

    cdef size_t many(
            self, const uint32_t *numbers, size_t count, size_t limit, const uint8_t **blocks,
            size_t *sizes, list owners) except 0:
        """Decompress blocks until they have `limit` bytes, and return the number of blocks.

        `owners` keep the memory. The address in `blocks` is NULL for a block that is not of the
        usual kind.
        """
        cdef const uint8_t *frame
        cdef const uint8_t *file = self.map.bytes()
        cdef size_t size, done = 0, held = 0, found = 0, i
        cdef bytes segments = PyBytes_FromStringAndSize(NULL, 16 * count)
        cdef bytes lengths = PyBytes_FromStringAndSize(NULL, 8 * count)
        cdef uint64_t *segment = <uint64_t *>PyBytes_AS_STRING(segments)
        cdef uint64_t *length = <uint64_t *>PyBytes_AS_STRING(lengths)
        cdef Py_buffer view
        while done < count and held < limit:
            blocks[done] = NULL
            sizes[done] = 0
            if self.find(numbers[done], &frame, &size, &sizes[done]):
                segment[2 * found], segment[2 * found + 1] = frame - file, size
                length[found] = sizes[done]
                blocks[done] = frame
                held += sizes[done]
                found += 1
            done += 1
        if found == 0:
            return done
        zstd = self.frames.take()
        try:
            made = zstd.multi_decompress_to_buffer(
                BufferWithSegments(memoryview(self.map), segments[:16 * found]),
                decompressed_sizes=lengths[:8 * found], threads=1)
        except ZstdError:
            for i in range(done):
                blocks[i] = NULL
            return done
        finally:
            self.idle.append(zstd)
        owners.append(made)
        found = 0
        for i in range(done):
            if blocks[i] != NULL:
                PyObject_GetBuffer(made[found], &view, PyBUF_SIMPLE)
                blocks[i] = <const uint8_t *>view.buf if view.len == sizes[i] else NULL
                PyBuffer_Release(&view)
                found += 1
        return done
