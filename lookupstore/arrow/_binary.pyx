"""Arrow arrays of byte strings and the views that C has of their buffers.

Only buffers (addresses and sizes) are passed to C, never Arrow's C++ ABI, so that one wheel serves
many versions of pyarrow.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

import pyarrow as pa
import pyarrow.compute as pc

# Size from which on a buffer holds whole huge pages, in bytes.
cdef size_t LARGE = 4 << 20

# Buffer in the place of a missing data buffer, so that C never computes with a null pointer.
NO_BYTES = pa.py_buffer(b"\0")


cdef class BinaryColumn:
    """An Arrow binary array and the C view of it.

    Takes binary, large_binary, fixed_size_binary, binary_view, the string types, chunked arrays of
    these, or a list of bytes.
    """

    def __init__(self, values, str name="keys"):
        array = self.array = as_binary(values, name)
        buffers = array.buffers()
        cdef size_t offset = array.offset
        self.column.length = len(array)
        self.column.validity = buffer_data(buffers[0]) if array.null_count else NULL
        self.column.validity_offset = offset
        data = buffers[len(buffers) - 1]
        self.column.data_size = 0 if data is None else data.size
        self.column.data = buffer_data(NO_BYTES if self.column.data_size == 0 else data)
        if pa.types.is_fixed_size_binary(array.type):
            self.column.width = array.type.byte_width
            self.column.offset_width = 0
            if self.column.data_size < (offset + self.column.length) * self.column.width:
                raise ValueError(f"{name}: the Arrow array is longer than its data buffer")
            self.column.data += offset * self.column.width
            self.column.data_size -= offset * self.column.width
            return
        self.column.offset_width = 8 if pa.types.is_large_binary(array.type) else 4
        if self.column.length == 0:
            return  # the format allows an empty array to come without offsets
        if buffers[1].size < (offset + self.column.length + 1) * self.column.offset_width:
            raise ValueError(f"{name}: the Arrow array is longer than its offsets buffer")
        self.column.offsets = buffer_data(buffers[1]) + offset * self.column.offset_width

    def __len__(self):
        return self.column.length

    def hash(self):
        """Hash the values, unless they are hashed, and keep the hashes for lookups."""
        cdef size_t count = self.column.length, bad
        cdef ls_status status
        cdef uint64_t *hashes
        if self.column.hashes != NULL or count == 0:
            return
        owner = allocate(count * sizeof(uint64_t))
        hashes = <uint64_t *>buffer_data(owner)
        with nogil:
            status = ls_hash_column(&self.column, 0, count, hashes, &bad)
        if status != LS_OK:
            raise ValueError(f"keys[{bad}]: the Arrow offsets point outside their data buffer")
        self.hashes = owner
        self.column.hashes = hashes


cdef extern from "ls_hash.h":
    ls_status ls_hash_column(
        const ls_column *keys, size_t start, size_t end, uint64_t *hashes, size_t *bad
    ) noexcept nogil


cdef extern from * nogil:
    """
    #include <sys/mman.h>

    /* Asks for huge pages where they fit between two addresses. */
    static void lookupstore_huge_pages(uintptr_t start, uintptr_t end) {
    #ifdef MADV_HUGEPAGE
        uintptr_t size = (uintptr_t)2 << 20;
        start = (start + size - 1) & ~(size - 1);
        end &= ~(size - 1);
        if (start < end)
            madvise((void *)start, end - start, MADV_HUGEPAGE);
    #endif
    }
    """
    void lookupstore_huge_pages(uintptr_t start, uintptr_t end)


cdef object allocate(size_t size):
    """Return a pyarrow Buffer of that size, with unset bytes.

    The first access to a page takes the system longer than a lookup takes: large buffers consist of
    huge pages, where the system has them.
    """
    buffer = pa.allocate_buffer(size)
    prefer_huge_pages(buffer)
    return buffer


cdef int prefer_huge_pages(object buffer) except -1:
    """Let the system use huge pages for the memory of a buffer that has not been accessed."""
    cdef uintptr_t start
    if buffer.size >= LARGE:
        start = buffer.address
        lookupstore_huge_pages(start, start + <size_t>buffer.size)
    return 0


cdef ls_slice bytes_of(object data) except *:
    """Return the memory of bytes, or of a view of bytes, which lasts as long as `data`.

    The buffer is not held. A memoryview that the garbage collector has cleared must not get a
    buffer back, and it is not known which of two objects in a cycle is collected first.
    """
    cdef Py_buffer view
    cdef ls_slice found
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    found.data = <const uint8_t *>view.buf
    found.size = view.len
    PyBuffer_Release(&view)
    return found


def as_binary(values, str name="keys"):
    """Return `values` as one binary, large_binary or fixed_size_binary Arrow array."""
    if isinstance(values, (list, tuple)):
        for i, value in enumerate(values):
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise TypeError(
                    f"{name}[{i}] is {type(value).__name__}; give bytes, or an Arrow binary array"
                )
        return pa.array(values, pa.large_binary())
    if isinstance(values, pa.ChunkedArray):
        chunks = [as_binary(chunk, name) for chunk in values.chunks]
        if len(chunks) == 1:
            return chunks[0]
        return pa.concat_arrays(
            [chunk.cast(pa.large_binary()) for chunk in chunks]
            or [pa.array([], pa.large_binary())]
        )
    if not isinstance(values, pa.Array):
        raise TypeError(
            f"{name} is {type(values).__name__}; give a list of bytes, or an Arrow binary array"
        )
    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return values
    if pa.types.is_fixed_size_binary(kind):
        return values
    if pa.types.is_string(kind):
        return values.cast(pa.binary())
    if pa.types.is_large_string(kind):
        return values.cast(pa.large_binary())
    if kind == pa.binary_view() or kind == pa.string_view():
        return pc.cast(values, pa.large_binary())
    raise TypeError(
        f"{name} has the Arrow type {kind}; give binary, large_binary, fixed_size_binary or "
        "binary_view"
    )
