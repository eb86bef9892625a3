"""Lookups in files whose ranges of keys overlap: which files have a key, and their rows."""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc

import pyarrow as pa

from lookupstore.sst.shared import PlacesLostError

from lookupstore.arrow._binary cimport (
    BinaryColumn, allocate, buffer_data, ls_column, ls_slice,
)
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._batch cimport PIECE, Batch
from lookupstore.sst._filter cimport ls_filter
from lookupstore.sst._layer cimport (
    FileRanges, Layer, ls_batch_counts, ls_batch_item, ls_file_ranges, ls_file_ranges_numbers,
)
from lookupstore.sst._lookup cimport Lookup
from lookupstore.sst._owners cimport (
    LS_OWNERS_FILES, OwnedFiles, Owners, ls_batch_order, ls_batch_stretch, ls_owners_find,
)


cdef extern from "ls_bytes.h":
    void LS_PREFETCH(const void *address) noexcept nogil


cdef extern from "ls_batch.h":
    void ls_batch_filter_inside(
        const ls_file_ranges *ranges, const ls_filter *const *filters, uint32_t first,
        const ls_column *keys, const ls_batch_stretch *stretch, ls_batch_item *items,
        size_t *count, ls_batch_counts *counts) noexcept nogil
    size_t ls_batch_key_bytes(
        const ls_column *keys, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_take_keys(
        const ls_column *keys, ls_batch_item *items, size_t count, uint8_t *data,
        int64_t *offsets, uint32_t *origins, ls_column *taken) noexcept nogil


# STRETCH: number of keys that pass the filters of one layer after another. The filter of a layer is
# then read again from the processor's caches, and many keys remain to be looked up at a time.
# OWNED_STRETCH: the same if there are tables of owners; the rows of fewer keys stay in the caches.
# AHEAD: number of rows that are requested from memory before one is read.
cdef enum:
    STRETCH = 1 << 16
    OWNED_STRETCH = 1 << 14
    AHEAD = 16


class SeveralRowsError(Exception):
    """Several files have a row of one key."""


def pass_rows(Layer layer not None, BinaryColumn keys not None, Answers answers not None,
              OwnedFiles owned=None):
    """Pass the row of each key to `answers`, which has room for as many, a stretch at a time.

    The rows of a stretch are passed on while they are in the processor's caches. The arguments and
    other errors are those of `FileHits.find`.

    Raises:
        SeveralRowsError: If several files have one of the keys. `answers` may have some of the
            rows.
        Exception: Any error that `answers` raises for a row.
    """
    answers.check_length(keys.column.length)
    FileHits(keys.column.length).search(layer, keys, 0, owned, answers)


@cython.final
cdef class FileHits:
    """The rows that files have at some of `length` keys: a hit for each file that has a key.

    Hits are numbered in any order. Rows stay in the maps of the files until they are read.
    """

    cdef readonly size_t length
    cdef size_t count, room
    cdef uint32_t *key_numbers   # of each hit: its key,
    cdef uint32_t *file_numbers  # its file,
    cdef ls_slice *rows          # and the row
    cdef list layers             # layers of the files that were asked
    cdef list tables             # tables of their blocks, which must stay

    def __cinit__(self, size_t length):
        if length > 0xFFFFFFFF:
            raise ValueError(f"{length} keys in one call; give at most 4294967295")
        self.length = length
        self.layers, self.tables = [], []

    def __dealloc__(self):
        free(self.key_numbers)
        free(self.file_numbers)
        free(self.rows)

    def __len__(self):
        return self.count

    def find(self, Layer layer not None, BinaryColumn keys not None, uint32_t first=0,
             OwnedFiles owned=None):
        """Look up all keys in the files of a layer with ranges, whose numbers begin at `first`.

        `owned` are the files of this layer of which there are tables of owners. None: of no file.

        Raises:
            CorruptionError: If a block that would hold a key is damaged.
            PlacesLostError: If a shared table of owners was truncated.
            ValueError: If the files have no ranges, are not used in place, or there is another
                number of keys.
        """
        self.search(layer, keys, first, owned, None)

    cdef int search(self, Layer layer, BinaryColumn keys, uint32_t first, OwnedFiles owned,
                    Answers answers) except -1:
        """Add all rows of the keys to the hits, or pass the only one of each key to `answers`."""
        cdef HitCandidates candidates
        cdef ls_batch_counts *counts
        cdef Lookup lookup
        cdef size_t i
        if layer.ranges is None or layer.has_pins or layer.has_runs:
            raise ValueError("give files that are used in place and have ranges")
        if keys.column.length != self.length:
            raise ValueError(f"{keys.column.length} keys; give {self.length}")
        if owned is not None and owned.layer is not layer:
            raise ValueError("give tables of owners of the same layer")
        keys.hash()
        layer.begin(self.length)
        for lookup in layer.lookups:
            if lookup.data.file.checking:
                lookup.data.file.check(self.length)
        self.layers.append(layer)
        counts = <ls_batch_counts *>calloc(layer.files.count, sizeof(ls_batch_counts))
        if counts == NULL:
            raise MemoryError()
        try:
            candidates = HitCandidates(self, layer, keys, first, owned)
            candidates.find(counts, answers)
            for i in range(layer.files.count):
                lookup = layer.lookups[i]
                lookup.filter_negatives += counts[i].ruled_out
        finally:
            free(counts)
        if answers is not None:
            self.check_files()
        return 0

    def keys(self):
        """Return the number of the key of each hit, as an Arrow array of uint32."""
        return self.array(self.key_numbers)

    def files(self):
        """Return the number of the file of each hit, as an Arrow array of uint32."""
        return self.array(self.file_numbers)

    def by_key(self):
        """Return the number of the hit of each key, as an Arrow array of int64; -1: no hit.

        None: a key has several.
        """
        cdef bint alone
        buffer = allocate(self.length * sizeof(int64_t))
        cdef int64_t *found = <int64_t *>buffer_data(buffer)
        with nogil:
            alone = self.order(0, self.length, found)
        if not alone:
            return None
        return pa.Array.from_buffers(pa.int64(), self.length, [None, buffer])

    cdef bint order(self, size_t start, size_t end, int64_t *found) noexcept nogil:
        """Find the hit of each key of a stretch that has all hits; False: a key has several."""
        cdef bint alone = True
        cdef int64_t *hit
        cdef size_t i
        for i in range(end - start):
            found[i] = -1
        for i in range(self.count):
            hit = found + (self.key_numbers[i] - start)
            alone &= hit[0] < 0
            hit[0] = <int64_t>i
        return alone

    cdef object array(self, const uint32_t *numbers):
        cdef size_t i
        cdef uint32_t *copied
        buffer = allocate(self.count * sizeof(uint32_t))
        copied = <uint32_t *>buffer_data(buffer)
        for i in range(self.count):
            copied[i] = numbers[i]
        return pa.Array.from_buffers(pa.uint32(), self.count, [None, buffer])

    def read(self, const int64_t[::1] hits not None, Answers answers not None):
        """Pass the rows of some hits to `answers`, and none where the number of a hit is negative.

        Raises:
            IndexError: If there is no such hit.
            CorruptionError: If a file was cut since it was searched.
            Exception: Any error that `answers` raises for a row.
        """
        cdef size_t length = hits.shape[0], i
        for i in range(length):
            if hits[i] >= <int64_t>self.count:
                raise IndexError(f"hit {hits[i]} of {self.count}")
        answers.check_length(length)
        try:
            if length > 0:
                self.pass_on(&hits[0], length, 0, answers)
        finally:
            self.check_files()

    cdef int pass_on(
            self, const int64_t *hits, size_t length, size_t first, Answers answers) except -1:
        """Pass the rows of hits to `answers`, as the answers from `first` on."""
        cdef ls_slice some[PIECE]
        cdef size_t start = 0, count = 0
        while start < length:
            with nogil:
                while start < length:
                    count = min(<size_t>PIECE, length - start)
                    self.take(hits + start, count, some)
                    if not answers.take(some, first + start, count):
                        break
                    start += count
            if start < length:
                answers.prepare(some, first + start, count)
        return 0

    cdef int check_files(self) except -1:
        """Raise if a file was cut since it was searched."""
        cdef Layer layer
        cdef Lookup lookup
        for layer in self.layers:
            for lookup in layer.lookups:
                lookup.data.check_file()
        return 0

    cdef void take(self, const int64_t *hits, size_t count, ls_slice *taken) noexcept nogil:
        """Find the rows of a piece, and request them from memory."""
        cdef size_t i
        for i in range(count):
            if i + AHEAD < count and hits[i + AHEAD] >= 0:
                LS_PREFETCH(&self.rows[hits[i + AHEAD]])
            taken[i].data, taken[i].size = NULL, 0
            if hits[i] >= 0:
                taken[i] = self.rows[hits[i]]
                LS_PREFETCH(taken[i].data)
                if taken[i].size > 0:
                    LS_PREFETCH(taken[i].data + taken[i].size - 1)

    cdef int grow(self, size_t more) except -1:
        """Make room for a number of further hits."""
        cdef size_t room = max(2 * self.room, self.count + more)
        cdef void *grown = realloc(self.key_numbers, room * sizeof(uint32_t))
        if grown == NULL:
            raise MemoryError()
        self.key_numbers = <uint32_t *>grown
        grown = realloc(self.file_numbers, room * sizeof(uint32_t))
        if grown == NULL:
            raise MemoryError()
        self.file_numbers = <uint32_t *>grown
        grown = realloc(self.rows, room * sizeof(ls_slice))
        if grown == NULL:
            raise MemoryError()
        self.rows = <ls_slice *>grown
        self.room = room
        return 0


@cython.final
cdef class HitCandidates:
    """The keys that pass the filters of files, each with its file, and their lookups."""

    cdef FileHits hits
    cdef Layer layer
    cdef BinaryColumn keys
    cdef OwnedFiles owned   # files of which there are tables of owners; None: of no file
    cdef uint32_t first     # number of the first file
    cdef uint64_t *numbers  # first 8 bytes of the keys of a stretch in their order
    cdef ls_batch_stretch stretch
    cdef size_t room        # number of candidates that fit into these:
    cdef ls_batch_item *items
    cdef uint64_t *hashes
    cdef uint32_t *owners
    cdef uint32_t *origins  # the number of each among all keys

    def __cinit__(self, FileHits hits not None, Layer layer not None, BinaryColumn keys not None,
                  uint32_t first, OwnedFiles owned=None):
        self.hits, self.layer, self.keys, self.first = hits, layer, keys, first
        self.owned = owned
        # All keys of a stretch may pass the filter of the last file that is tested.
        cdef size_t most = min(<size_t>STRETCH, keys.column.length) + 1
        self.room = 2 * most + <size_t>LS_OWNERS_FILES
        self.numbers = <uint64_t *>malloc(most * sizeof(uint64_t))
        self.stretch.indices = <uint32_t *>malloc(most * sizeof(uint32_t))
        self.stretch.hashes = <uint64_t *>malloc(most * sizeof(uint64_t))
        self.stretch.numbers = <uint64_t *>malloc(most * sizeof(uint64_t))
        self.items = <ls_batch_item *>malloc(self.room * sizeof(ls_batch_item))
        self.hashes = <uint64_t *>malloc(self.room * sizeof(uint64_t))
        self.owners = <uint32_t *>malloc(self.room * sizeof(uint32_t))
        self.origins = <uint32_t *>malloc(self.room * sizeof(uint32_t))
        if (self.numbers == NULL or self.stretch.indices == NULL or self.stretch.hashes == NULL
                or self.stretch.numbers == NULL or self.items == NULL or self.hashes == NULL
                or self.owners == NULL or self.origins == NULL):
            raise MemoryError()

    def __dealloc__(self):
        free(self.numbers)
        free(self.stretch.indices)
        free(self.stretch.hashes)
        free(self.stretch.numbers)
        free(self.items)
        free(self.hashes)
        free(self.owners)
        free(self.origins)

    cdef int find(self, ls_batch_counts *counts, Answers answers) except -1:
        """Look up all keys in all files, and add to the `counts` of these.

        If there are `answers`, each stretch is passed to them, and its hits are forgotten.
        """
        cdef FileRanges ranges = self.layer.ranges
        cdef OwnedFiles owned = self.owned
        cdef const ls_filter **filters
        cdef ls_file_ranges first_bytes
        cdef size_t start = 0, end, count, file, i
        cdef size_t stretch = STRETCH if owned is None else OWNED_STRETCH
        filters = self.layer.filters.each if owned is None else owned.filters
        first_bytes.shared = 0
        while start < self.keys.column.length:
            end = min(start + stretch, self.keys.column.length)
            count = file = 0
            with nogil:
                ls_file_ranges_numbers(
                    &first_bytes, &self.keys.column, NULL, start, end, self.numbers)
                ls_batch_order(&self.keys.column, start, end, self.numbers, &self.stretch)
            if owned is not None:
                count = self.find_owned(counts)
            for i in range(ranges.count):
                if owned is not None and owned.skipped[i]:
                    file += ranges.each[i].count
                    continue
                if count + self.stretch.count > self.room:
                    self.look_up(count)
                    count = 0
                with nogil:
                    ls_batch_filter_inside(
                        &ranges.each[i], filters + file, <uint32_t>file, &self.keys.column,
                        &self.stretch, self.items, &count, counts + file)
                file += ranges.each[i].count
            self.look_up(count)
            if answers is not None:
                self.pass_stretch(start, end, answers)
            start = end
        return 0

    cdef int pass_stretch(self, size_t start, size_t end, Answers answers) except -1:
        """Pass the rows of a stretch to `answers`, and forget its hits."""
        cdef int64_t *hits = <int64_t *>self.numbers  # whose place is free now
        cdef bint alone
        with nogil:
            alone = self.hits.order(start, end, hits)
        if not alone:
            raise SeveralRowsError("several files have one of the keys")
        self.hits.pass_on(hits, end - start, start, answers)
        self.hits.count = 0
        return 0

    cdef size_t find_owned(self, ls_batch_counts *counts) except? 0:
        """Find the keys of a stretch by tables of owners; return the number of candidates left."""
        cdef Owners owners
        cdef size_t count = 0, i, next
        for i in range(len(self.owned.tables)):
            owners = self.owned.tables[i]
            next = 0
            while next < self.stretch.count:
                if self.room - count < <size_t>LS_OWNERS_FILES:
                    self.look_up(count)
                    count = 0
                with nogil:
                    ls_owners_find(
                        &owners.owners, self.owned.numbers + i * <size_t>LS_OWNERS_FILES,
                        &self.stretch, &next, self.items, self.room, &count, counts)
            if not owners.whole():
                raise PlacesLostError("a shared table of owners was truncated; repeat the lookup")
        return count

    cdef int look_up(self, size_t count) except -1:
        """Look up the first `count` candidates."""
        cdef const ls_column *keys = &self.keys.column
        cdef BinaryColumn taken = BinaryColumn.__new__(BinaryColumn)
        cdef int64_t *offsets = NULL
        cdef uint8_t *bytes
        cdef CandidateAnswers answers
        cdef Batch batch
        cdef size_t i
        if count == 0:
            return 0
        data = allocate(ls_batch_key_bytes(keys, self.items, count) + 1)
        bytes = <uint8_t *>buffer_data(data)
        if keys.offset_width != 0:
            ends = allocate((count + 1) * sizeof(int64_t))
            offsets = <int64_t *>buffer_data(ends)
        with nogil:
            for i in range(count):
                self.hashes[i] = self.items[i].hash
                self.owners[i] = self.items[i].file
            ls_batch_take_keys(
                keys, self.items, count, bytes, offsets, self.origins, &taken.column)
        taken.column.hashes = self.hashes
        answers = CandidateAnswers(count, self)
        batch = Batch(self.layer, taken, answers)
        batch.find()
        self.hits.tables.append(batch.tables)
        return 0


@cython.final
cdef class CandidateAnswers(Answers):
    """The rows of candidates, which become hits."""

    cdef HitCandidates candidates
    cdef FileHits hits

    def __cinit__(self, size_t length, HitCandidates candidates not None):
        self.candidates = candidates
        self.hits = candidates.hits
        self.owners = candidates.owners

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        cdef size_t i, at = self.hits.count
        if self.hits.room - at < count:
            return False
        for i in range(count):
            self.hits.key_numbers[at] = self.candidates.origins[start + i]
            self.hits.file_numbers[at] = self.candidates.first + self.owners[start + i]
            self.hits.rows[at] = answers[i]
            at += answers[i].data != NULL
        self.missing += count - (at - self.hits.count)
        self.hits.count = at
        return True

    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1:
        self.hits.grow(count)
        return 0
