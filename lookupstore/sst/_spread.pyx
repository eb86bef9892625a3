"""Lookups in files one after the other, whose answers come in the order of the keys."""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from lookupstore.arrow._binary cimport allocate, buffer_data, ls_slice
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._batch cimport PIECE, Batch


cdef extern from "ls_bytes.h":
    void LS_PREFETCH(const void *address) noexcept nogil


cdef uint32_t NO_PLACES  # what no place points to
cdef uint8_t NO_VALUE    # what stands for a value that nobody wants


@cython.final
cdef class Spread:
    """Where the values of `length` keys lie, which are looked for here and there.

    Files answer to a `part` of the keys at a time. Values of files that stay where they are are not
    copied; others are, or without `values` only which keys there are is kept.
    """

    cdef readonly size_t length
    cdef bint values        # are wanted; else only whether there is one
    cdef object owner
    cdef ls_slice *answers  # of all keys, in their order
    cdef list batches       # whose values are read where they are
    cdef list arenas        # copies of what nobody keeps

    def __cinit__(self, size_t length, bint values=True):
        self.length = length
        self.values = values
        self.owner = allocate(length * sizeof(ls_slice))
        self.answers = <ls_slice *>buffer_data(self.owner)
        memset(self.answers, 0, length * sizeof(ls_slice))
        self.batches, self.arenas = [], []

    def part(self, const uint32_t[::1] places not None):
        """Return what takes the answers of some files: to the keys at `places`, which ascend.

        The files are given all keys.
        """
        return Part(places.shape[0], self, places)

    def answer(self, Answers answers not None):
        """Give what is at each key to `answers`, when all files have been asked."""
        cdef size_t start = 0, count = 0, i
        cdef Batch batch
        answers.check_length(self.length)
        try:
            while start < self.length:
                with nogil:
                    while start < self.length:
                        count = min(PIECE, self.length - start)
                        # They were found file by file, and may no longer be in the caches.
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
cdef class Part(Answers):
    """The answers of some files, each put where it belongs among those of all files."""

    cdef Spread spread
    cdef const uint32_t[::1] given  # the places
    cdef bint stay           # what is found is kept by who finds it
    cdef uint8_t *arena      # else it is copied to here
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
        # A local copy in use keeps its room from others: it is not kept until all have answered.
        self.stay = (<Batch>batch).stays()
        if self.stay:
            self.spread.batches.append(batch)
        return 0

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        cdef ls_slice *answer
        cdef size_t i
        # A value without bytes needs no room, but an address.
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
        """Bytes of some of the answers."""
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
