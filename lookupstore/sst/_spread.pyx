"""Answers of lookups in files one after the other, in the order of the keys."""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from lookupstore.arrow._binary cimport allocate, buffer_data, ls_slice
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._batch cimport PIECE, Batch


cdef extern from "ls_bytes.h":
    void LS_PREFETCH(const void *address) noexcept nogil


cdef uint32_t NO_PLACES  # target of an empty list of places
cdef uint8_t NO_VALUE    # marks a stored value that is not wanted


@cython.final
cdef class Spread:
    """The values of `length` keys that are looked up in several files.

    Each file answers a `part` of the keys. Values of files that stay in place are not copied; other
    values are copied. Without `values`, only the presence of keys is kept.
    """

    cdef readonly size_t length
    cdef bint values        # whether values are wanted; otherwise only their presence
    cdef object owner
    cdef ls_slice *answers  # answers to all keys, in their order
    cdef list batches       # batches whose values are used in place
    cdef list arenas        # copies of values that would not stay

    def __cinit__(self, size_t length, bint values=True):
        self.length = length
        self.values = values
        self.owner = allocate(length * sizeof(ls_slice))
        self.answers = <ls_slice *>buffer_data(self.owner)
        memset(self.answers, 0, length * sizeof(ls_slice))
        self.batches, self.arenas = [], []

    def part(self, const uint32_t[::1] places not None):
        """Return the receiver of the answers of some files to the keys at `places`, which ascend.

        All keys are passed to the files.
        """
        return SpreadPart(places.shape[0], self, places)

    def answer(self, Answers answers not None):
        """Pass the value at each key to `answers`, after all files have been searched."""
        cdef size_t start = 0, count = 0, i
        cdef Batch batch
        answers.check_length(self.length)
        try:
            while start < self.length:
                with nogil:
                    while start < self.length:
                        count = min(PIECE, self.length - start)
                        # The values were found file by file, and may no longer be in the caches.
                        for i in range(start, start + count):
                            LS_PREFETCH(self.answers[i].data)
                        if not answers.take(self.answers + start, start, count):
                            break
                        start += count
                if start < self.length:
                    answers.prepare(self.answers + start, start, count)
        finally:
            for batch in self.batches:
                batch.check_files()


@cython.final
cdef class SpreadPart(Answers):
    """The answers of some files, each stored at its position among the answers of all files."""

    cdef Spread spread
    cdef const uint32_t[::1] given  # places in the order of all keys
    cdef bint stay           # found values stay valid without a copy
    cdef uint8_t *arena      # otherwise values are copied to this memory
    cdef size_t room

    def __cinit__(
            self, size_t length, Spread spread not None, const uint32_t[::1] places not None):
        cdef size_t i
        self.spread = spread
        self.whole = spread.answers
        self.given = places
        self.places = &places[0] if length > 0 else &NO_PLACES
        for i in range(length):
            if places[i] >= spread.length:
                raise IndexError(f"place {places[i]} of {spread.length}")
            if i > 0 and places[i] <= places[i - 1]:
                raise ValueError(f"places do not ascend: {places[i - 1]}, then {places[i]}")

    cdef int check_length(self, size_t length) except -1:
        if self.spread.length != length:
            raise ValueError(f"{length} keys; give all {self.spread.length} of the files")
        return 0

    cdef int begin(self, batch) except -1:
        # A local copy in use cannot be evicted: it is not kept until all files have answered.
        self.stay = (<Batch>batch).stays()
        if self.stay:
            self.spread.batches.append(batch)
        return 0

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        cdef ls_slice *answer
        cdef size_t i
        # An empty value needs no room, but an address.
        if not self.stay and self.spread.values and (
                self.arena == NULL or self.size(start, count) > self.room):
            return False
        for i in range(start, start + count):
            answer = self.whole + self.places[i]
            if answer.data == NULL:
                self.missing += 1
            elif not self.stay and not self.spread.values:
                answer.data = &NO_VALUE
                answer.size = 0
            elif not self.stay:
                memcpy(self.arena, answer.data, answer.size)
                answer.data = self.arena
                self.arena += answer.size
                self.room -= answer.size
        return True

    cdef size_t size(self, size_t start, size_t count) noexcept nogil:
        """Return the size of some of the answers in bytes."""
        cdef size_t i, size = 0
        for i in range(start, start + count):
            size += self.whole[self.places[i]].size
        return size

    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1:
        cdef size_t needed = self.size(start, count)
        arena = allocate(needed + 1)
        self.spread.arenas.append(arena)
        self.arena = <uint8_t *>buffer_data(arena)
        self.room = needed
        return 0
