"""The blocks of one file that are ready for lookups; C code finds them without a lock.

All readers of one file in a process share them, so that the next version of a store begins with the
blocks that the previous version has read.

A block that is in the map of its file stays ready once it was searched for many keys, or twice. A
decompressed block is counted by a cache, which may evict it, but not while a lookup has pinned it.
Blocks are added and removed with the GIL held; pins are set and released without it. A lookup pins
a block and then checks whether it is there; the cache removes the block and then checks whether it
is pinned. In any order of these steps, one of the two sees the other.

When a file that is used in place has been searched often enough, one table gets the places of all
its records. Lookups do that work once they have their answers, each in proportion to its keys. They
use the places as soon as all of them are in the table. Processes of a host share a table
(shared.py).
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import logging

from lookupstore.errors import CorruptionError
from lookupstore.memory_limit import memory_limit

_log = logging.getLogger(__name__)


cdef extern from * nogil:
    """
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <unistd.h>

    static inline uint32_t lookupstore_pins(const uint32_t *pins) {
        return __atomic_load_n(pins, __ATOMIC_SEQ_CST);
    }
    static inline int lookupstore_exchange(uint8_t *used) {
        return __atomic_exchange_n(used, 0, __ATOMIC_RELAXED);
    }
    static void *lookupstore_aligned(size_t alignment, size_t size) {
        void *memory;
        return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
    }
    static void lookupstore_advise_huge(void *memory, size_t size) {
    #ifdef MADV_HUGEPAGE
        madvise(memory, size, MADV_HUGEPAGE);
    #endif
    }
    /* Memory from the system, which clears each page when it is first touched. */
    static void *lookupstore_zeros(size_t size) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return memory == MAP_FAILED ? NULL : memory;
    }
    static void lookupstore_give_back(void *memory, size_t size) {
        munmap(memory, size);
    }
    /* Returns the whole pages in between to the system; they are not used again. */
    static void lookupstore_let_go(char *start, char *end) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t first = ((uintptr_t)start + page - 1) & ~(page - 1);
        uintptr_t last = (uintptr_t)end & ~(page - 1);
        if (first < last)
            madvise((void *)first, last - first, MADV_DONTNEED);
    }
    """
    uint32_t lookupstore_pins(const uint32_t *pins)
    int lookupstore_exchange(uint8_t *used)
    void *lookupstore_aligned(size_t alignment, size_t size)
    void lookupstore_advise_huge(void *memory, size_t size)
    void *lookupstore_zeros(size_t size)
    void lookupstore_give_back(void *memory, size_t size)
    void lookupstore_let_go(char *start, char *end)


# Size of the pages for the slots of a large file if the system has them: lookups access them at
# random, and the processor cannot cache the addresses of so many small pages.
cdef size_t HUGE_PAGE = 2 << 20
cdef size_t CHUNK = 2 * HUGE_PAGE

# Places of files that are too small for a page of that size share pages; a store has many such
# files. LEAST_SHARED: size below which a table gets its own memory, since it would keep too large a
# page allocated.
cdef size_t LEAST_SHARED = 128 << 10
cdef size_t SHARE = 4 * HUGE_PAGE
cdef Zeros SHARED = None  # memory with room left
cdef size_t SHARED_USED = 0

# Number of keys after which a shared table is searched for, and, if there is none, number of
# further keys after which it is searched for again.
cdef size_t LOOKS_APART = 1000

# What is known of so many blocks has a map of its own, none of which is cleared before it is used.
cdef size_t MANY_BLOCKS = 4096

# So much of a shared table is checked when it is found, in 0.1 ms, and then so many bytes per key
# that is looked for, which take a twentieth of the time of the lookup. Fewer are not checked alone.
cdef size_t CHECKED_FIRST = 1 << 20
cdef size_t CHECKED_PER_KEY = 16
cdef size_t LEAST_CHECKED = 1 << 16


cdef class Account:
    """The account of a cache of `capacity` bytes, which decides which blocks to admit.

    `nbytes` are held, and `misses` blocks were decoded.
    """

    def __cinit__(self, size_t capacity):
        self.capacity = capacity
        self.turn = 1

    def forget(self):
        """Reset the bytes held and the counts to 0."""
        self.nbytes = self.misses = self.passed = 0
        self.turn = 1

    cdef uint8_t pass_by(self, size_t nbytes, uint8_t last) noexcept:
        """Count a decoded block, unless it is to be admitted: then return 0.

        Otherwise return the turn, to be passed as `last` when the block is decoded again. A turn
        ends when as many bytes as the capacity were not admitted.
        """
        if last == self.turn or self.nbytes + nbytes <= self.capacity:
            return 0
        self.misses += 1
        self.passed += nbytes
        if self.passed > self.capacity:
            self.passed = 0
            self.turn = self.turn % 255 + 1
        return self.turn


cdef class Memory:
    """Memory for slots."""

    def __cinit__(self, size_t size, bint huge=False):
        self.start = <char *>lookupstore_aligned(HUGE_PAGE if huge else CACHE_LINE, size)
        if self.start == NULL:
            raise MemoryError()
        self.size = size
        if huge:
            lookupstore_advise_huge(self.start, size)

    def __dealloc__(self):
        free(self.start)


cdef class Zeros:
    """Zeroed memory, in huge pages if it has at least the size of one."""

    def __cinit__(self, size_t size):
        cdef bint huge = size >= HUGE_PAGE
        self.size = size
        self.mapped = size + HUGE_PAGE if huge else size
        self.map = <char *>lookupstore_zeros(self.mapped)
        if self.map == NULL:
            raise MemoryError()
        self.start = self.map
        if huge:
            self.start += -<uintptr_t>self.map % HUGE_PAGE
            lookupstore_advise_huge(self.start, size)

    def __dealloc__(self):
        if self.map != NULL:
            lookupstore_give_back(self.map, self.mapped)


@cython.no_gc_clear  # `memory` exists when this object is deallocated
cdef class Places:
    """A table of the places of up to `records` records of a mapped file.

    `record` is the average size of a record in bytes. `table` is the map of the file of a shared
    table, which begins with the buckets. None: an empty table is made in memory. `is_cached` tells
    whether that file is in memory (None: unknown).
    """

    def __cinit__(self, FileMap map not None, size_t records, uint32_t record, FileMap table=None,
                  is_cached=None):
        self.map = map
        self.records = records
        self.places.data = map.bytes()
        self.places.size = map.size
        self.places.record = record
        self.places.count = ls_places_buckets(records)
        self.size = places_size(records)
        if table is not None:
            if self.size > table.size:
                raise ValueError(f"a table of {table.size} bytes; give {self.size}")
            self.table = table
            self.is_cached = is_cached
            self.places.buckets = <ls_places_bucket *>table.bytes()
            self.places.unchecked = 1
        elif LEAST_SHARED <= self.size < HUGE_PAGE:
            self.take_part()
        else:
            self.memory = Zeros(self.size)
            self.places.buckets = <ls_places_bucket *>self.memory.start

    cdef int take_part(self) except -1:
        """Put the buckets into pages that tables share."""
        global SHARED, SHARED_USED
        cdef Zeros memory = SHARED
        if memory is None or memory.size - SHARED_USED < self.size:
            memory = Zeros(SHARE)
            SHARED, SHARED_USED = memory, 0
        self.memory = memory
        self.places.buckets = <ls_places_bucket *>(memory.start + SHARED_USED)
        SHARED_USED += self.size
        return 0

    def __dealloc__(self):
        cdef char *start = <char *>self.places.buckets
        # Other tables in the same memory may stay for long.
        if self.memory is not None and self.memory.size > self.size:
            lookupstore_let_go(start, start + self.size)

    cdef void map_all(self) noexcept:
        """Map all pages of a shared table."""
        if self.table is not None and not self.table.map_all(self.is_cached):
            self.table.populate_some(0, self.size)

    cdef bint whole(self) noexcept:
        """Return whether the file of a shared table was not truncated."""
        return self.table is None or self.table.whole()

    @property
    def record(self):
        """The average size of a record in bytes."""
        return self.places.record

    @property
    def is_shared(self):
        """Whether other processes use the same table."""
        return self.table is not None

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.places.buckets, <Py_ssize_t>self.size, 1, flags)


cdef class ReadyBlock:
    """A decoded block and its slots, which begin at `at` in `memory`. None: it has no slots."""

    def __cinit__(self, Block block not None, Memory memory, size_t at):
        cdef ls_status status
        cdef uint32_t bad = 0
        self.block = block
        self.memory = memory
        if memory is None:
            return
        with nogil:
            status = ls_slots_build(
                &block.block, block.size, block.order, <uint32_t *>(memory.start + at),
                &self.ready, &bad)
        block.fail(status, f"record {bad} of the block")

    @property
    def nbytes(self):
        return self.block.size + slots_size(self.block)


cdef size_t places_size(size_t records) noexcept:
    """Return the size of a table of places in bytes."""
    return CACHE_LINE * <size_t>ls_places_buckets(records)


cdef size_t slots_size(Block block) noexcept:
    return CACHE_LINE * <size_t>ls_slots_buckets(block.block.count)


cdef class BlockTable:
    """The ready blocks of a file of `count` data blocks, and the places of their records, if any.

    Blocks that are not views of a map count in the `cache`, which decides how long they stay.
    Without a cache all blocks stay.
    """

    def __cinit__(self, size_t count, cache=None):
        self.count = count
        self.cache = cache
        self.blocks = [None] * count
        # Of a large file with places, hardly any of it is touched.
        if self.has_many():
            self.ready = <ls_ready *>lookupstore_zeros((count + 1) * sizeof(ls_ready))
        else:
            self.ready = <ls_ready *>calloc(count + 1, sizeof(ls_ready))
        if self.ready == NULL:
            raise MemoryError()
        if cache is None:
            self.seen = <uint8_t *>calloc(count + 1, 1)
            if self.seen == NULL:
                raise MemoryError()
        else:
            self.account = cache.account
            self.pins = <uint32_t *>calloc(count + 1, sizeof(uint32_t))
            self.used = <uint8_t *>calloc(count + 1, 1)
            self.passed = <uint8_t *>calloc(count + 1, 1)
            if self.pins == NULL or self.used == NULL or self.passed == NULL:
                raise MemoryError()

    def __dealloc__(self):
        if self.has_many() and self.ready != NULL:
            lookupstore_give_back(self.ready, (self.count + 1) * sizeof(ls_ready))
        else:
            free(self.ready)
        free(self.pins)
        free(self.used)
        free(self.passed)
        free(self.seen)

    cdef bint has_many(self) noexcept:
        """Return whether `ready` is a memory map of its own."""
        return self.count >= MANY_BLOCKS

    def block(self, size_t number):
        """Return a decoded block if it is ready, else None."""
        cdef ReadyBlock held = self.blocks[number]
        return None if held is None else held.block

    cdef bint keeps(self, size_t number, size_t size) except -1:
        """Return whether a decoded block is to be kept; requires a cache."""
        self.passed[number] = self.account.pass_by(size, self.passed[number])
        return self.passed[number] == 0

    cdef bint stays(self, size_t number, uint8_t call) noexcept:
        """Return whether another call searched a block before; requires that there is no cache."""
        cdef uint8_t before = self.seen[number]
        self.seen[number] = call
        return before != 0 and before != call

    cdef ReadyBlock put(self, size_t number, Block block):
        """Make a decoded block ready."""
        cdef bint evictable = self.cache is not None and not isinstance(block.source, memoryview)
        cdef size_t size = slots_size(block)
        cdef Memory memory
        cdef size_t at = 0
        cdef ReadyBlock held
        if evictable or size * self.count < CHUNK:
            memory = Memory(size)
        else:
            if self.chunk is None or self.chunk.size - self.used_of_chunk < size:
                self.chunk = Memory(max(size, CHUNK), huge=True)
                self.used_of_chunk = 0
            memory, at = self.chunk, self.used_of_chunk
            self.used_of_chunk += size
        held = ReadyBlock(block, memory, at)
        if self.blocks[number] is not None:
            return self.blocks[number]  # another thread has added it
        self.blocks[number] = held
        self.ready_blocks += 1
        self.usual_count = block.block.count
        self.ready_records += block.block.count
        self.ready_bytes += block.block.records_size
        cdef ls_ready *entry = &self.ready[number]
        entry.slots = held.ready.slots
        entry.size = held.ready.size
        entry.buckets = held.ready.buckets
        entry.mask = held.ready.mask
        entry.record = held.ready.record
        ls_ready_publish(entry, held.ready.data)
        if evictable:
            self.evictable = True
            self.cache.admit(self, number, held.nbytes)
        return held

    def release(self, size_t number):
        """Release a block, unless it is in use or was used since the last call; return whether so.

        The cache calls this with its lock held.
        """
        cdef ls_ready *entry = &self.ready[number]
        cdef const uint8_t *data = ls_ready_data(entry)
        if lookupstore_exchange(&self.used[number]):
            return False
        ls_ready_publish(entry, NULL)
        if lookupstore_pins(&self.pins[number]) != 0:
            ls_ready_publish(entry, data)
            return False
        self.blocks[number] = None
        self.ready_blocks -= 1
        return True

    def forget(self):
        """Release all evictable blocks, including pinned blocks."""
        if self.cache is None:
            return
        memset(self.ready, 0, self.count * sizeof(ls_ready))
        memset(self.pins, 0, self.count * sizeof(uint32_t))
        self.blocks = [None] * self.count
        self.ready_blocks = self.ready_records = self.ready_bytes = 0
        self.chunk = None


cdef class FileTable:
    """The ready blocks and the places of a file of `count` data blocks, shared by its readers.

    A lookup uses the value that `blocks` has at its beginning until its end. A new table replaces
    it when there are places. `cache` is that of the BlockTable.

    Places that another process has made are used at once, and checked by later calls, some bytes in
    each. Until all are checked, a key without a place is looked up in its block.
    """

    def __cinit__(self, size_t count, cache=None):
        self.cache = cache
        self.blocks = BlockTable(count, cache)
        self.settled = count == 0

    def share(self, shared):
        """Find and publish places with `shared` from now on."""
        if self.shared is None:
            self.shared = shared
            self.next_look = LOOKS_APART

    def forget(self):
        """Release all evictable blocks and unfinished places in a child of fork."""
        self.busy = False  # the thread that was doing it is not in this process
        self.made = None
        if self.checking:
            self.look_again()  # that thread may have left the check unfinished
        self.blocks.forget()

    cdef int seek(self, size_t keys, FileMap map) except -1:
        """Use the places of another process, once enough keys have been looked up."""
        cdef Places found
        if self.settled or self.shared is None or self.asked + keys < self.next_look or self.busy:
            return 0
        self.next_look = self.asked + LOOKS_APART
        self.busy = True
        try:
            found = self.shared.find(map)
            if found is not None:
                self.use(found, False)
        finally:
            self.busy = False
        return 0

    cdef int check(self, size_t keys) except -1:
        """Check more of the places of another process, after a lookup of `keys` keys."""
        self.owed += CHECKED_PER_KEY * keys
        if self.owed >= LEAST_CHECKED:
            self.check_some(self.owed)
        return 0

    cdef bint check_some(self, size_t nbytes) except -1:
        """Check bytes of places, unless another thread does; return whether all are checked."""
        if self.checking and not self.busy:
            self.busy = True
            try:
                self.compare(nbytes)
            finally:
                self.busy = False
        return not self.checking

    cdef int compare(self, size_t nbytes) except -1:
        """Check bytes of places; drop the places if they are damaged."""
        cdef BlockTable table = self.blocks
        shared = self.shared
        self.owed = 0
        try:
            if shared.check(nbytes):
                ls_places_trust(&table.places.places)
                if self.blocks is table:  # another thread may have dropped them
                    self.checking = False
        except CorruptionError as error:
            _log.warning("%s; removed", error)
            shared.discard()
            if self.blocks is table:
                self.look_again()
        return 0

    cdef int look_again(self) except -1:
        """Use blocks again, until places are found or made."""
        self.blocks = BlockTable(self.blocks.count, self.cache)
        self.settled = self.checking = False
        self.next_look = self.asked + LOOKS_APART
        return 0

    cdef int begin(self, FileMap map, size_t records) except -1:
        """Begin to make places, which may take many calls, unless another process makes them."""
        if (map.size > LS_PLACES_END or records > map.size
                or PART_OF_MEMORY * places_size(records) > <size_t>memory_limit()):
            return self.give_up()
        if self.shared is not None and not self.shared.may_make():
            return 0
        try:
            self.made = Places(map, records, <uint32_t>(map.size // max(records, 1)))
        except MemoryError:
            return self.give_up()
        self.next = 0
        self.populated = 0
        return 0

    cdef int finish(self) except -1:
        """Use the places, which are complete, from now on, and share them."""
        cdef Places made = self.made
        if self.shared is not None:
            made = self.shared.publish(made)
        return self.use(made, True)

    cdef int use(self, Places places, bint checked) except -1:
        """Use places from now on.

        `checked` is whether this process has read all blocks and made the places. It then checks
        what others will read at once, which takes a fiftieth of the time to make them.
        """
        cdef BlockTable table = BlockTable(self.blocks.count)
        table.places = places
        memset(table.seen, checked, table.count)
        self.blocks, self.made, self.settled = table, None, True
        self.checking = places.is_shared
        if self.checking:
            self.compare(places.size if checked else CHECKED_FIRST)
        return 0

    cdef int give_up(self) except -1:
        """Use blocks permanently; no places are made."""
        self.made, self.settled = None, True
        return 0

    def lose(self):
        """Drop a shared table with a truncated file; a table in memory is made when it is due."""
        if self.blocks.places is not None and self.blocks.places.is_shared:
            self.shared.discard()
            self.shared = None
            self.look_again()
            self.asked = self.called = 0
