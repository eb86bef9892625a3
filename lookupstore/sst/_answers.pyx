"""Receivers of the answers of a lookup: which keys are stored, or the values at them."""

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memset

import pyarrow as pa

from lookupstore.arrow._binary cimport allocate, buffer_data, prefer_huge_pages


cdef extern from "ls_batch.h":
    size_t ls_batch_size(const ls_slice *answers, size_t count) noexcept nogil
    size_t ls_batch_gather(
        const ls_slice *answers, size_t count, int64_t *offsets, uint8_t *validity,
        uint8_t *data) noexcept nogil
    size_t ls_batch_found(const ls_slice *answers, size_t count, uint8_t *bitmap) noexcept nogil


# Maximum size of memory allocated for answers in advance: other keys may have no such values.
cdef size_t MOST_AHEAD = 256 << 20


cdef class Answers:
    """A receiver of the answers to `length` keys, one piece after the other."""

    def __cinit__(self, size_t length, *given):
        self.length = length

    cdef int check_length(self, size_t length) except -1:
        """Raise ValueError unless the receiver has room for answers to `length` keys."""
        if self.length != length:
            raise ValueError(f"room for {self.length} answers to {length} keys")
        return 0

    cdef int begin(self, batch) except -1:
        """Prepare for the answers of a batch."""
        return 0

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        """Copy the answers to keys from `start` on, and count `missing`; False: call `prepare`.

        An answer without data belongs to a missing key. Without `places`, `start` is a multiple of
        8.
        """
        return False

    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1:
        """Make room so that `take` succeeds with these answers, or raise the error in them."""
        raise NotImplementedError

    cdef size_t ahead(self, size_t needed, size_t end) noexcept:
        """Return the bytes to allocate if the first `end` answers need `needed` bytes."""
        cdef double guess = 1.02 * <double>needed / end * self.length
        cdef size_t most = max(2 * needed, MOST_AHEAD)
        if end == self.length:
            return needed
        return max(needed, <size_t>min(guess, <double>most))  # the excess is freed later


@cython.final
cdef class Found(Answers):
    """A receiver of which keys are stored."""

    cdef object bits

    def __cinit__(self, size_t length):
        self.bits = allocate((length + 7) // 8)
        memset(<void *>buffer_data(self.bits), 0, (length + 7) // 8)
        self.present = <uint8_t *>buffer_data(self.bits)

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        self.missing += ls_batch_found(answers, count, self.present + start // 8)
        return True

    def array(self):
        return pa.Array.from_buffers(pa.bool_(), self.length, [None, self.bits])


@cython.final
cdef class Values(Answers):
    """A receiver of values, as a large_binary array."""

    cdef object bits, offsets, data
    cdef int64_t *ends
    cdef uint8_t *bytes
    cdef size_t capacity

    def __cinit__(self, size_t length):
        self.bits = allocate((length + 7) // 8)
        memset(<void *>buffer_data(self.bits), 0, (length + 7) // 8)
        self.present = <uint8_t *>buffer_data(self.bits)
        self.offsets = allocate(8 * (length + 1))
        self.ends = <int64_t *>buffer_data(self.offsets)
        self.ends[0] = 0
        self.data = pa.allocate_buffer(0, resizable=True)

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        if <size_t>self.ends[start] + ls_batch_size(answers, count) > self.capacity:
            return False
        self.missing += ls_batch_gather(
            answers, count, self.ends + start, self.present + start // 8, self.bytes)
        return True

    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1:
        cdef size_t needed = <size_t>self.ends[start] + ls_batch_size(answers, count)
        self.capacity = self.ahead(needed, start + count)
        self.data.resize(self.capacity, shrink_to_fit=False)
        prefer_huge_pages(self.data)
        self.bytes = <uint8_t *>buffer_data(self.data)
        return 0

    def array(self):
        self.data.resize(self.ends[self.length], shrink_to_fit=True)
        return pa.Array.from_buffers(
            pa.large_binary(), self.length, [self.bits, self.offsets, self.data],
            null_count=self.missing)
