"""The keys of a stretch of pieces that may be in a run of changes, and what the runs answer."""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from lookupstore.arrow._binary cimport LS_OK, ls_column, ls_slice, ls_status
from lookupstore.sst._layer cimport (
    Filters,
    ls_batch_counts,
    ls_batch_files,
    ls_batch_filter,
    ls_batch_item,
)


cdef extern from "ls_hash.h":
    ls_status ls_hash_column(
        const ls_column *keys, size_t start, size_t end, uint64_t *hashes,
        size_t *bad) noexcept nogil


cdef extern from "ls_batch.h":
    size_t ls_batch_key_bytes(
        const ls_column *keys, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_take_keys(
        const ls_column *keys, ls_batch_item *items, size_t count, uint8_t *data,
        int64_t *offsets, uint32_t *origins, ls_column *taken) noexcept nogil
    size_t ls_batch_put_answers(
        const uint32_t *origins, const ls_slice *found, size_t count, size_t *next, size_t limit,
        size_t first, const uint8_t *deleted, ls_slice *answers, int *gone) noexcept nogil


# Number of keys that are looked up in runs of changes at a time. Few keys are in a run, so many
# keys are needed for memory accesses to overlap; without a filter for all runs, each key needs
# memory.
cdef enum:
    FILTERED = 1 << 16
    UNFILTERED = 1 << 14


cdef class Scratch:
    """Memory for the keys of a stretch."""

    def __cinit__(self, size_t length):
        self.length = length
        self.items = <ls_batch_item *>malloc(length * sizeof(ls_batch_item))
        self.hashes = <uint64_t *>malloc(length * sizeof(uint64_t))
        if self.items == NULL or self.hashes == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.items)
        free(self.hashes)


# Memory of batches that have ended, kept for reuse. Memory of this size would be returned to the
# system and cleared again, which takes as long as all other work for runs of changes.
cdef list SPARES = []
cdef size_t MOST_SPARES = 2


@cython.final
cdef class KeyStretch:
    """A stretch of keys of a batch, and those among them that may be in a run: its candidates.

    All keys of the runs pass `filters`, bucket by bucket.
    """

    def __cinit__(self, Filters filters not None):
        self.filters = filters
        self.most = UNFILTERED if filters.has_gaps else FILTERED

    def __dealloc__(self):
        self.drop_keys()
        free(self.ruled_out)
        if (self.scratch is not None and self.scratch.length == <size_t>FILTERED
                and len(SPARES) < MOST_SPARES):
            SPARES.append(self.scratch)

    cdef int grow(self, size_t length, size_t files, bint hashed) except -1:
        """Allocate memory for a stretch of keys of a number of files.

        `hashed` is whether the column has the hashes of its keys.
        """
        length = max(length, <size_t>FILTERED)
        self.room = 0
        if length == <size_t>FILTERED and SPARES:
            self.scratch = SPARES.pop()
        else:
            self.scratch = Scratch(length)
        self.items = self.scratch.items
        self.hashes = NULL if hashed else self.scratch.hashes
        if self.ruled_out == NULL:
            self.ruled_out = <ls_batch_counts *>calloc(files, sizeof(ls_batch_counts))
            if self.ruled_out == NULL:
                raise MemoryError()
        self.room = length
        return 0

    cdef ls_status begin(
            self, const ls_batch_files *files, const ls_column *keys, const uint32_t *places,
            size_t start, size_t length, size_t *bad) noexcept nogil:
        """Find the candidates of the next stretch; `*bad` is the key of an error."""
        cdef ls_status status
        self.drop_keys()
        if self.hashes != NULL:
            status = ls_hash_column(keys, start, start + length, self.hashes, bad)
            if status != LS_OK:
                return status
        memset(self.ruled_out, 0, files.count * sizeof(ls_batch_counts))
        status = ls_batch_filter(
            self.filters.each, files, keys, places, start, start + length, self.hashes,
            self.items, &self.count, self.ruled_out, bad)
        self.start, self.end = start, start + length
        self.next = 0
        return status

    cdef bint take_keys(self, const ls_column *keys) noexcept nogil:
        """Copy the keys of the candidates, and allocate their answers; False: no memory."""
        cdef size_t size = ls_batch_key_bytes(keys, self.items, self.count)
        self.data = <uint8_t *>malloc(size + 1)
        self.origins = <uint32_t *>malloc((self.count + 1) * sizeof(uint32_t))
        self.found = <ls_slice *>calloc(self.count + 1, sizeof(ls_slice))
        if self.data == NULL or self.origins == NULL or self.found == NULL:
            return False
        if keys.offset_width != 0:
            self.offsets = <int64_t *>malloc((self.count + 1) * sizeof(int64_t))
            if self.offsets == NULL:
                return False
        ls_batch_take_keys(
            keys, self.items, self.count, self.data, self.offsets, self.origins, &self.keys)
        return True

    cdef void drop_keys(self) noexcept nogil:
        free(self.data)
        free(self.offsets)
        free(self.origins)
        free(self.found)
        self.data = NULL
        self.offsets = NULL
        self.origins = NULL
        self.found = NULL

    cdef bint put_answers(
            self, size_t limit, size_t first, const uint8_t *deleted, ls_slice *answers,
            int *gone) noexcept nogil:
        """Put the answers of the runs to keys before `limit`, and return whether there are any.

        `first` is the number of the key of the first of `answers`; `*gone`: a key is `deleted`.
        """
        return ls_batch_put_answers(
            self.origins, self.found, self.count, &self.next, limit, first, deleted, answers,
            gone) > 0
