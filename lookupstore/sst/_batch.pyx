"""Lookups of one file: one key, or a batch of them.

A batch goes through the filter, to its blocks and to its records without the GIL; Python is entered
for blocks that are not ready, and for memory.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import pyarrow as pa

from lookupstore.arrow._binary cimport (
    LS_BAD_KEY,
    LS_OK,
    BinaryColumn,
    allocate,
    buffer_data,
    ls_column,
    ls_column_get,
    ls_slice,
    ls_status,
    prefer_huge_pages,
)
from lookupstore.sst._block cimport LS_ORDER_BYTES, Block, check_key, ls_block, ls_order
from lookupstore.sst._filter cimport (
    LS_FILTER_NONE,
    Filter,
    ls_filter,
    ls_filter_test_hashed,
)
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport (
    BlockTable,
    ReadyBlock,
    ls_ready,
    ls_ready_data,
    ls_ready_get,
    ls_ready_use,
)


cdef extern from "ls_bytes.h":
    void LS_PREFETCH(const void *address) noexcept nogil


cdef extern from "ls_hash.h":
    uint64_t ls_hash(ls_slice key) noexcept nogil
    ls_status ls_hash_column(
        const ls_column *keys, size_t start, size_t end, uint64_t *hashes, size_t *bad
    ) noexcept nogil


cdef extern from "ls_fences.h":
    ctypedef struct ls_fence_node:
        pass
    ctypedef struct ls_fence:
        pass
    ctypedef struct ls_fences:
        const ls_block *index
        ls_order order
        ls_fence_node *nodes
        ls_fence *fences
        uint32_t *starts
        size_t node_count
        size_t fence_count
        size_t start_count
        int repeats
    ls_status ls_fences_build(ls_fences *fences) noexcept nogil
    ls_status ls_fences_route(
        const ls_fences *fences, ls_slice key, uint32_t *block) noexcept nogil


cdef extern from "ls_batch.h":
    ctypedef struct ls_batch_item:
        uint64_t hash
        uint32_t index
        uint32_t block
    ls_status ls_batch_filter(
        const ls_filter *filter, ls_order order, const ls_column *keys, size_t start, size_t end,
        ls_batch_item *items, size_t *count, size_t *bad) noexcept nogil
    ls_status ls_batch_route(
        const ls_fences *fences, const ls_ready *ready, const ls_column *keys,
        ls_batch_item *items, size_t *count) noexcept nogil
    void ls_batch_pin(
        uint32_t *pins, uint8_t *used, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_unpin(uint32_t *pins, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_missing(
        const ls_ready *ready, const ls_batch_item *items, size_t count,
        uint8_t *bitmap) noexcept nogil
    ls_status ls_batch_search(
        const ls_ready *ready, ls_order order, const ls_column *keys, ls_batch_item *items,
        size_t count, size_t first, ls_slice *answers, size_t *left, uint32_t *bad) noexcept nogil
    size_t ls_batch_stage_size(
        const ls_batch_item *items, size_t count, size_t first,
        const ls_slice *answers) noexcept nogil
    void ls_batch_stage(
        const ls_batch_item *items, size_t count, size_t first, ls_slice *answers,
        uint8_t *arena) noexcept nogil
    size_t ls_batch_drop_searched(
        uint32_t *pins, ls_batch_item *items, size_t count) noexcept nogil
    size_t ls_batch_size(const ls_slice *answers, size_t count) noexcept nogil
    size_t ls_batch_gather(
        const ls_slice *answers, size_t count, int64_t *offsets, uint8_t *validity,
        uint8_t *data) noexcept nogil
    size_t ls_batch_found(const ls_slice *answers, size_t count, uint8_t *bitmap) noexcept nogil


# Blocks decoded at one time for one call, in bytes: what a call may hold beside its answers and the
# cache.
GROUP_BYTES = 32 << 20

# Keys answered before the next ones are looked at, where blocks stay: what was found is still in
# the processor's caches when it is copied. A multiple of 8, the bits of a byte of a bitmap.
cdef size_t PIECE = 1024

# Files that are asked together have so many pieces of keys between them, at most: their values are
# to be in the processor's caches when they are read.
cdef size_t MOST_TOGETHER = 8

# Bytes of answers for which there may be room before they come. Other keys may have no such values.
cdef size_t MOST_AHEAD = 256 << 20

cdef ls_filter NO_FILTER
NO_FILTER.kind = LS_FILTER_NONE


cdef class Lookup:
    """Lookups of keys in one file.

    `load(number)` reads a data block; `check()` raises if the file is not what it was when it was
    opened, which is asked after every lookup in the file's `map` (None: the file is not mapped).
    `fill(numbers)` is told which blocks are loaded next (None: the file is complete).
    """

    cdef readonly Block index
    cdef readonly Filter filter
    cdef readonly BlockTable table
    cdef object load
    cdef FileMap map
    cdef object check
    cdef object fill
    cdef ls_fences fences
    cdef readonly size_t filter_negatives  # keys of batches that the filter ruled out
    cdef readonly size_t blocks_read       # blocks that `load` was called for
    cdef readonly size_t block_uses        # keys that were looked for in a block

    def __cinit__(self, Block index not None, Filter filter not None, BlockTable table not None,
                  load not None, FileMap map=None, check=None, fill=None):
        cdef ls_status status
        self.index = index
        self.filter = filter
        self.table = table
        self.load = load
        self.map = map
        self.check = check
        self.fill = fill
        self.fences.index = &index.block
        self.fences.order = index.order
        with nogil:
            status = ls_fences_build(&self.fences)
        self.check_index(status)
        self.fences.nodes = <ls_fence_node *>malloc(
            (self.fences.node_count + 1) * sizeof(ls_fence_node))
        self.fences.fences = <ls_fence *>malloc((self.fences.fence_count + 1) * sizeof(ls_fence))
        self.fences.starts = <uint32_t *>malloc((self.fences.start_count + 1) * sizeof(uint32_t))
        if (self.fences.nodes == NULL or self.fences.fences == NULL
                or self.fences.starts == NULL):
            raise MemoryError()
        with nogil:
            status = ls_fences_build(&self.fences)
        self.check_index(status)

    cdef int check_index(self, ls_status status) except -1:
        if status != LS_OK:
            self.check_file()
            self.index.fail(status, "keys of the index block")
        return 0

    def __dealloc__(self):
        free(self.fences.nodes)
        free(self.fences.fences)
        free(self.fences.starts)

    @property
    def in_place(self):
        """Whether all blocks are used where they are, in the map of the file."""
        return self.table.pins == NULL

    @property
    def is_copy(self):
        """Whether the file is a local copy, which may still be coming."""
        return self.fill is not None

    cdef ReadyBlock ready_block(self, size_t number):
        """Load a block and make it ready."""
        self.blocks_read += 1
        try:
            return self.table.put(number, self.load(number))
        finally:
            self.check_file()  # records that seem damaged may have been cut since they were read

    cdef int check_file(self) except -1:
        if self.map is not None and not self.map.whole():
            self.check()
        return 0

    def get(self, bytes key not None, default=None):
        """Return the value of one key, or `default`."""
        cdef ls_slice slice, value
        cdef uint64_t hash
        cdef uint32_t block
        cdef ls_status status
        cdef ReadyBlock loaded = None
        cdef const ls_ready *ready
        slice.data = <const uint8_t *>key
        slice.size = len(key)
        hash = ls_hash(slice)
        if self.index.order != LS_ORDER_BYTES:
            check_key(self.index.order, slice, "key")
        if not ls_filter_test_hashed(&self.filter.filter, slice, hash):
            self.check_file()
            return default
        status = ls_fences_route(&self.fences, slice, &block)
        self.check_index(status)
        if block >= self.table.count:
            self.check_file()
            return default
        self.block_uses += 1
        # Blocks come and go with the GIL held: this one stays until it is let go of here.
        ready = &self.table.ready[block]
        if ls_ready_data(ready) == NULL:
            loaded = self.ready_block(block)
            ready = &loaded.ready
        elif self.table.used != NULL:
            ls_ready_use(&self.table.used[block])
        value.data = NULL
        value.size = 0
        status = ls_ready_get(ready, self.index.order, slice, hash, &value)
        if status != LS_OK:
            self.check_file()
            damaged = self.table.block(block) if loaded is None else loaded.block
            (<Block>damaged).fail(status, "records of the block")
        answer = default if value.data == NULL else (<char *>value.data)[:value.size]
        if loaded is not None and self.table.cache is not None:
            self.table.cache.trim()
        self.check_file()
        return answer

    def get_many(self, BinaryColumn keys not None):
        """Return a large_binary array: row i answers key i, null where it is missing."""
        cdef Values values = Values(len(keys))
        self.answer(keys, values)
        return values.array()

    def contains_many(self, BinaryColumn keys not None):
        """Return a boolean array: row i tells whether key i is there."""
        cdef Found found = Found(len(keys))
        self.answer(keys, found)
        return found.array()

    def answer(self, BinaryColumn keys not None, Answers answers not None):
        """Find keys, and give what is at them to `answers`, which has room for as many."""
        cdef Batch batch = Batch(self, keys, answers)
        if answers.begin(batch):
            batch.find()
            self.count(batch)

    cdef int count(self, Batch batch) except -1:
        """Count what a batch has done, which ends here."""
        self.filter_negatives += batch.negatives
        self.block_uses += batch.routed_keys
        return 0


cdef class Answers:
    """A taker of what a batch finds for `length` keys, one piece after the other."""

    def __cinit__(self, size_t length, *given):
        self.length = length

    cdef bint begin(self, batch) except -1:
        """Take note of the batch whose answers come next; return whether they are to come now."""
        return True

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        """Copy the answers to keys `start` and following, and count `missing`; False: not yet.

        An answer without data is to a key that is missing. `start` is a multiple of 8.
        """
        return False

    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1:
        """Do what it takes for `take` to succeed with these, or raise what is wrong with them."""
        raise NotImplementedError

    cdef size_t ahead(self, size_t needed, size_t end) noexcept:
        """Bytes to make room for, if the first `end` answers need so many."""
        cdef double guess = 1.02 * <double>needed / end * self.length
        cdef size_t most = max(2 * needed, MOST_AHEAD)
        if end == self.length:
            return needed
        return max(needed, <size_t>min(guess, <double>most))  # what is too much goes back later


@cython.final
cdef class Found(Answers):
    """A taker that notes which keys are there."""

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
    """A taker that copies values into a large_binary array."""

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


@cython.final
cdef class Spread:
    """Where the values of `length` keys lie, which are looked for in several files.

    Each file answers to a `part` of the keys. Those that are used in place are asked together, a
    piece of the keys after the other, and their values are not copied. Others answer one by one.
    """

    cdef readonly size_t length
    cdef object owner
    cdef ls_slice *answers  # of all keys, in their order
    cdef list batches       # of files that are asked together
    cdef void **pointers    # to these, for code without the GIL
    cdef list arenas        # copies of what nobody keeps

    def __cinit__(self, size_t length):
        self.length = length
        self.owner = allocate(length * sizeof(ls_slice))
        self.answers = <ls_slice *>buffer_data(self.owner)
        memset(self.answers, 0, length * sizeof(ls_slice))
        self.batches, self.arenas = [], []

    def __dealloc__(self):
        free(self.pointers)

    def part(self, const uint32_t[::1] places not None):
        """Return what takes the answers of one file: to the keys at `places`, which ascend."""
        return Part(places.shape[0], self, places)

    def answer(self, Answers answers not None):
        """Give what is at each key to `answers`, when all files have been asked."""
        cdef size_t start = 0, end = 0, at = 0, count, i
        cdef size_t files = len(self.batches)
        cdef size_t together = PIECE * min(files, MOST_TOGETHER)
        cdef Need need = NOTHING
        cdef Batch batch
        if answers.length != self.length:
            raise ValueError(f"room for {answers.length} answers to {self.length} keys")
        self.point_at_batches()
        try:
            while start < self.length:
                with nogil:
                    while start < self.length:
                        if start == end:
                            end = self.length if files == 0 else min(start + together, self.length)
                            at = 0
                        while at < files:
                            need = (<Batch>self.pointers[at]).go_on_to(end)
                            if need != NOTHING:
                                break
                            at += 1
                        if at < files:
                            break
                        count = min(PIECE, end - start)
                        # They were found file by file, and may no longer be in the caches.
                        for i in range(start, start + count):
                            LS_PREFETCH(self.answers[i].data)
                        if not answers.take(self.answers + start, start, count):
                            break
                        start += count
                if at < files:
                    batch = self.batches[at]
                    batch.provide(need)
                elif start < self.length:
                    answers.prepare(self.answers + start, start, count)
        finally:
            for batch in self.batches:
                batch.lookup.check_file()
        for batch in self.batches:
            batch.lookup.count(batch)
        self.batches = []

    cdef int point_at_batches(self) except -1:
        cdef size_t i, files = len(self.batches)
        free(self.pointers)
        self.pointers = <void **>malloc((files + 1) * sizeof(void *))
        if self.pointers == NULL:
            raise MemoryError()
        for i in range(files):
            self.pointers[i] = <void *>self.batches[i]
        return 0


@cython.final
cdef class Part(Answers):
    """The answers of one file, each put where it belongs among those of all files."""

    cdef Spread whole
    cdef const uint32_t[::1] places
    cdef bint stay           # what is found is kept by who finds it
    cdef uint8_t *arena      # else it is copied to here
    cdef size_t room

    def __cinit__(self, size_t length, Spread whole not None, const uint32_t[::1] places not None):
        cdef size_t i
        self.whole = whole
        self.places = places
        for i in range(length):
            if places[i] >= whole.length:
                raise IndexError(f"place {places[i]} of {whole.length}")
            if i > 0 and places[i] <= places[i - 1]:
                raise ValueError(f"places do not ascend: {places[i - 1]}, then {places[i]}")

    cdef bint begin(self, batch) except -1:
        cdef Lookup lookup = (<Batch>batch).lookup
        # A local copy in use keeps its room from others: it is not kept until all have answered.
        self.stay = lookup.in_place and not lookup.is_copy
        if self.stay:
            (<Batch>batch).wait(self.places)
            self.whole.batches.append(batch)
        return not self.stay

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        cdef ls_slice *answer
        cdef size_t i
        # A value without bytes needs no room, but an address.
        if not self.stay and (
                self.arena == NULL or ls_batch_size(answers, count) > self.room):
            return False
        for i in range(count):
            answer = self.whole.answers + self.places[start + i]
            answer[0] = answers[i]
            if answer.data == NULL:
                self.missing += 1
            elif not self.stay:
                memcpy(self.arena, answer.data, answer.size)
                answer.data = self.arena
                self.arena += answer.size
                self.room -= answer.size
        return True

    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1:
        cdef size_t needed = ls_batch_size(answers, count)
        arena = allocate(needed + 1)
        self.whole.arenas.append(arena)
        self.arena = <uint8_t *>buffer_data(arena)
        self.room = needed
        return 0


def hash_keys(BinaryColumn keys not None):
    """Hash keys, and let them keep their hashes: lookups in several files need these once."""
    cdef size_t count = keys.column.length, bad = 0
    cdef ls_status status
    cdef uint64_t *hashes
    if keys.column.hashes != NULL or count == 0:
        return
    owner = allocate(count * sizeof(uint64_t))
    hashes = <uint64_t *>buffer_data(owner)
    with nogil:
        status = ls_hash_column(&keys.column, 0, count, hashes, &bad)
    if status != LS_OK:
        raise ValueError(f"keys[{bad}]: the Arrow offsets point outside their data buffer")
    keys.hashes = owner
    keys.column.hashes = hashes


# What a batch needs from Python before it can go on.
cdef enum Need:
    NOTHING
    MEMORY      # for the keys of a piece
    KEY_ERROR   # to refuse a key
    INDEX_ERROR
    BLOCK_ERROR
    BLOCKS      # that are not ready
    ANSWERS     # to be prepared for the piece


cdef class Batch:
    """One batch of keys, looked up one piece after the other."""

    cdef Lookup lookup
    cdef BlockTable table
    cdef bint evictable         # some block was, when this batch last had the GIL
    cdef BinaryColumn keys
    cdef ls_order order
    cdef const ls_fences *fences
    cdef const ls_filter *file_filter
    cdef const ls_filter *filter  # asked for the piece
    cdef const uint32_t[::1] places  # of keys among those of other files, if it waits for these
    cdef size_t until           # keys to find before it waits
    cdef size_t start, end      # the piece
    cdef bint routed            # the piece has its items
    cdef size_t room            # keys that the next two arrays hold
    cdef ls_batch_item *items   # of the piece: keys that may be there
    cdef ls_slice *answers      # of the piece, one per key
    cdef size_t count           # items
    cdef size_t negatives       # keys that the filter ruled out
    cdef size_t routed_keys     # keys that were looked for in a block
    cdef size_t pinned          # items that hold a pin
    cdef bint more              # blocks of the piece were not loaded for want of room
    cdef list arenas            # what answers point into whose blocks have gone
    cdef ls_status status
    cdef size_t bad_key
    cdef uint32_t bad_block
    cdef Answers taker

    def __cinit__(self, Lookup lookup, BinaryColumn keys, Answers taker):
        cdef size_t length = keys.column.length
        if length > 0xFFFFFFFF:
            raise ValueError(f"{length} keys in one call; give at most 4294967295")
        self.lookup = lookup
        self.table = lookup.table
        self.evictable = self.table.evictable
        self.keys = keys
        self.order = lookup.index.order
        self.fences = &lookup.fences
        self.filter = self.file_filter = &lookup.filter.filter
        self.arenas = []
        if taker.length != length:
            raise ValueError(f"room for {taker.length} answers to {length} keys")
        self.taker = taker
        self.until = length

    cdef int wait(self, const uint32_t[::1] places) except -1:
        """Find no key before `go_on_to` says so; `places` says where they are among all keys."""
        self.places = places
        self.until = 0
        return 0

    def __dealloc__(self):
        free(self.items)
        free(self.answers)

    cdef int find(self) except -1:
        cdef Need need
        try:
            while True:
                with nogil:
                    need = self.go_on()
                if need == NOTHING:
                    break
                self.provide(need)
        finally:
            if self.pinned > 0:
                ls_batch_unpin(self.table.pins, self.items, self.pinned)
            if self.table.cache is not None:
                self.table.cache.trim()
        self.lookup.check_file()
        return 0

    cdef Need go_on(self) noexcept nogil:
        """Find pieces until all are done, or Python is needed."""
        cdef size_t left = 0
        cdef Need need
        while self.start < self.until:
            if not self.routed:
                need = self.route()
                if need != NOTHING:
                    return need
            self.status = ls_batch_search(
                self.table.ready, self.order, &self.keys.column, self.items,
                self.count, self.start, self.answers, &left, &self.bad_block)
            if self.status != LS_OK:
                return BLOCK_ERROR
            if left > 0:
                return BLOCKS
            if not self.take():
                return ANSWERS
        return NOTHING

    cdef Need go_on_to(self, size_t end) noexcept nogil:
        """Find the keys whose places are before `end`, or say what Python is needed for."""
        while self.until < self.keys.column.length and self.places[self.until] < end:
            self.until += 1
        return self.go_on()

    cdef Need route(self) noexcept nogil:
        """Start a piece: which of its keys may be there, and in which blocks."""
        cdef size_t rest = self.until - self.start
        # Where blocks may go, each is looked at once for all its keys.
        cdef size_t length = rest if self.evictable else min(rest, PIECE)
        if length > self.room:
            return MEMORY
        self.end = self.start + length
        memset(self.answers, 0, length * sizeof(ls_slice))
        self.status = ls_batch_filter(
            self.filter, self.order, &self.keys.column, self.start, self.end,
            self.items, &self.count, &self.bad_key)
        if self.status != LS_OK:
            return KEY_ERROR
        if self.filter != &NO_FILTER:
            self.negatives += length - self.count
        self.status = ls_batch_route(
            self.fences, self.table.ready, &self.keys.column, self.items, &self.count)
        if self.status != LS_OK:
            return INDEX_ERROR
        if self.table.pins != NULL:
            ls_batch_pin(self.table.pins, self.table.used, self.items, self.count)
            self.pinned = self.count
        self.routed = True
        self.routed_keys += self.count
        self.more = False
        return NOTHING

    cdef bint take(self) noexcept nogil:
        """Have the answers of the piece taken, and let it go; False: they are not taken yet."""
        cdef size_t length = self.end - self.start, missing = self.taker.missing
        if not self.taker.take(self.answers, self.start, length):
            return False
        missing = self.taker.missing - missing
        # Where nearly all keys are there, to ask the filter costs more than it saves.
        self.filter = &NO_FILTER if 8 * missing < length else self.file_filter
        if self.pinned > 0:
            ls_batch_unpin(self.table.pins, self.items, self.pinned)
            self.pinned = 0
        self.routed = False
        self.start = self.end
        return True

    cdef int provide(self, Need need) except -1:
        if need == MEMORY:
            self.grow()
        elif need == BLOCKS:
            if self.more:
                self.stage()
            self.more = self.load_missing()
        elif need == ANSWERS:
            self.taker.prepare(self.answers, self.start, self.end - self.start)
        elif need == KEY_ERROR:
            self.refuse()
        elif need == INDEX_ERROR:
            self.lookup.check_index(self.status)
        else:
            self.lookup.check_file()
            (<Block>self.table.block(self.bad_block)).fail(
                self.status, "records of the block")
        return 0

    cdef int grow(self) except -1:
        """Make room for a piece."""
        cdef size_t rest = self.keys.column.length - self.start
        cdef size_t length = rest if self.evictable else min(rest, PIECE)
        free(self.items)
        free(self.answers)
        self.room = 0
        self.items = <ls_batch_item *>malloc(length * sizeof(ls_batch_item))
        self.answers = <ls_slice *>malloc(length * sizeof(ls_slice))
        if self.items == NULL or self.answers == NULL:
            raise MemoryError()
        self.room = length
        return 0

    cdef bint load_missing(self) except -1:
        """Make blocks ready, in their order in the file; whether there are more than may be held.

        Their items have pinned them already.
        """
        cdef ReadyBlock block
        cdef size_t each, number, held = 0
        cdef uint8_t *bitmap = <uint8_t *>calloc(self.table.count // 8 + 1, 1)
        if bitmap == NULL:
            raise MemoryError()
        try:
            ls_batch_missing(self.table.ready, self.items, self.count, bitmap)
            if self.lookup.fill is not None:
                self.lookup.fill([
                    each for each in range(self.table.count) if bitmap[each >> 3] >> (each & 7) & 1
                ])
            for number in range(self.table.count):
                if bitmap[number >> 3] >> (number & 7) & 1:
                    if held >= <size_t>GROUP_BYTES:
                        return True
                    block = self.lookup.ready_block(number)
                    if block.evictable:
                        held += block.nbytes
        finally:
            free(bitmap)
            self.evictable = self.table.evictable
        return False

    cdef int stage(self) except -1:
        """Copy what has been found, and let go of the blocks that it was found in."""
        cdef size_t size = ls_batch_stage_size(self.items, self.count, self.start, self.answers)
        arena = allocate(size + 1)
        self.arenas.append(arena)
        cdef uint8_t *bytes = <uint8_t *>buffer_data(arena)
        with nogil:
            ls_batch_stage(self.items, self.count, self.start, self.answers, bytes)
            self.count = self.pinned = ls_batch_drop_searched(
                self.table.pins, self.items, self.count)
        self.table.cache.trim()
        return 0

    cdef int refuse(self) except -1:
        cdef ls_slice key
        if self.status == LS_BAD_KEY:
            ls_column_get(&self.keys.column, self.bad_key, &key)
            check_key(self.order, key, f"keys[{self.bad_key}]")
        raise ValueError(f"keys[{self.bad_key}]: the Arrow offsets point outside their data buffer")
