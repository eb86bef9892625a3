"""The blocks of one file that are ready for lookups, where C finds them without a lock.

All readers of one file in a process share them, so that the next version of a store begins with
what the one before has read.

A block that lies in the map of its file stays ready, once it was asked for many keys, or twice. One
that was decompressed is counted by a cache, which may take it away again: not while a lookup has it
pinned. Blocks come and go with the GIL held; pins come and go without it. A lookup pins a block and
then looks whether it is there; the cache takes it away and then looks whether it is pinned: in one
order of all these steps, one of the two sees the other.

When nearly all blocks of a file that is used where it lies are ready, their slots move to one table
for the whole file. Lookups do that work when they have their answers, each in proportion to its
keys: a file that is asked little has few of its records moved, and no call waits for them all.
"""

cimport cython
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from lookupstore.arrow._binary cimport LS_OK


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
    /* Straight from the system, which clears each page when it is touched. */
    static void *lookupstore_zeros(size_t size) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return memory == MAP_FAILED ? NULL : memory;
    }
    static void lookupstore_give_back(void *memory, size_t size) {
        munmap(memory, size);
    }
    /* Gives the whole pages back that are between, which nobody uses again. */
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


# Slots of a large file are in pages of this size where the system has them: lookups touch them at
# random, and the processor can not remember where so many small pages are.
cdef size_t HUGE_PAGE = 2 << 20
cdef size_t CHUNK = 2 * HUGE_PAGE

# Places of files that are too small for a page of that size share some: those of the many files of
# a store. Tables smaller than this would keep too large a page for the little that they have.
cdef size_t LEAST_SHARED = 128 << 10
cdef size_t SHARE = 4 * HUGE_PAGE
cdef Zeros SHARED = None  # what has room left
cdef size_t SHARED_USED = 0

# Slots move when a file has been asked for one of so many of its records.
cdef size_t BEFORE_MOVE = 16

# Records that move for each key of a call: to move one takes 17 ns, and to find a key 40.
cdef size_t MOVED_A_KEY = 4


cdef class Account:
    """What a cache of `capacity` bytes holds, and which blocks it is worth to let in.

    `nbytes` are held, and `misses` blocks were decoded.
    """

    def __cinit__(self, size_t capacity):
        self.capacity = capacity
        self.turn = 1

    def forget(self):
        """Hold nothing, and have counted nothing."""
        self.nbytes = self.misses = self.passed = 0
        self.turn = 1

    cdef uint8_t pass_by(self, size_t nbytes, uint8_t last) noexcept:
        """Count a block that was decoded, unless it is to be admitted: then return 0.

        Else it is the turn, to be given as `last` when the block comes again. A turn is as long as
        it takes for as many bytes to pass as the cache has.
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
    """Memory that is zero, in huge pages if it is as large as one."""

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


@cython.no_gc_clear  # `memory` is there when this goes
cdef class Places:
    """A table of places for so many records of a file that is mapped."""

    def __cinit__(self, FileMap map not None, size_t records, uint32_t record):
        self.map = map
        self.places.data = map.bytes()
        self.places.size = map.size
        self.places.record = record
        self.places.count = ls_places_buckets(records)
        self.size = CACHE_LINE * <size_t>self.places.count
        if LEAST_SHARED <= self.size < HUGE_PAGE:
            self.take_part()
        else:
            self.memory = Zeros(self.size)
            self.places.buckets = <ls_places_bucket *>self.memory.start

    cdef int take_part(self) except -1:
        """Have buckets in pages that tables share."""
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
        # Others that have a part may stay for long.
        if self.memory is not None and self.memory.size > self.size:
            lookupstore_let_go(start, start + self.size)

    @property
    def complete(self):
        """Whether all records of the file have a place."""
        return self.places.complete != 0


cdef class ReadyBlock:
    """A decoded block and its slots, which are in `memory` from `at` on; None: there are none."""

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


cdef size_t slots_size(Block block) noexcept:
    return CACHE_LINE * <size_t>ls_slots_buckets(block.block.count)


cdef class BlockTable:
    """The ready blocks of a file of `count` data blocks, and the places of their records, if any.

    Blocks that are not views of a map count in the `cache`, which says how long they stay.
    Without a cache all blocks stay.
    """

    def __cinit__(self, size_t count, cache=None):
        self.count = count
        self.cache = cache
        self.blocks = [None] * count
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
        free(self.ready)
        free(self.pins)
        free(self.used)
        free(self.passed)
        free(self.seen)

    def block(self, size_t number):
        """Return a decoded block if it is ready, else None."""
        cdef ReadyBlock held = self.blocks[number]
        return None if held is None else held.block

    cdef bint keeps(self, size_t number, size_t size) except -1:
        """Whether a block that was decoded is to be kept; there has to be a cache."""
        self.passed[number] = self.account.pass_by(size, self.passed[number])
        return self.passed[number] == 0

    cdef bint stays(self, size_t number, uint8_t call) noexcept:
        """Whether a block was looked into by another call before; there has to be no cache."""
        cdef uint8_t before = self.seen[number]
        self.seen[number] = call
        return before != 0 and before != call

    cdef Block block_at(self, uint64_t offset):
        """Return the ready block that a record at an offset of the file belongs to."""
        cdef ReadyBlock held, found = None
        for held in self.blocks:
            if held is not None and held.block.offset <= offset:
                found = held
        return None if found is None else found.block

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
            return self.blocks[number]  # another thread was faster
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
        """Let go of a block, unless it is in use or was used since the last call; whether it went.

        The cache asks this, with its lock held.
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
        """Let go of all blocks that may go, whoever has pinned them."""
        if self.cache is None:
            return
        memset(self.ready, 0, self.count * sizeof(ls_ready))
        memset(self.pins, 0, self.count * sizeof(uint32_t))
        self.blocks = [None] * self.count
        self.ready_blocks = self.ready_records = self.ready_bytes = 0
        self.chunk = None


cdef class FileTable:
    """The ready blocks of a file of `count` data blocks, as all its readers share them.

    `blocks` is what a lookup begins with and keeps until it ends. Another one takes its place when
    slots have moved. `cache` is as of a BlockTable.
    """

    def __cinit__(self, size_t count, cache=None):
        self.cache = cache
        self.blocks = BlockTable(count, cache)

    def forget(self):
        """Let go of all blocks that may go, in a child of fork."""
        self.moving = False  # the thread that was at it is not here
        self.next_blocks = None
        self.blocks.forget()

    cdef int after(self, size_t keys, bint loaded, FileMap map, Block index) except -1:
        """Move slots for a lookup that has found `keys` and `loaded` blocks for them.

        `map` (None: the file is not mapped) and `index` are of the file.
        """
        if self.settled or self.moving or keys == 0 or map is None:
            return 0
        self.asked += keys
        if self.next_blocks is None and not self.due(loaded):
            return 0
        # One thread at a time, to the end: the garbage collector may let others in at any object.
        self.moving = True
        try:
            if self.next_blocks is None:
                self.begin(map)
            if self.next_blocks is not None:
                self.move(MOVED_A_KEY * keys, index)
        finally:
            self.moving = False
        return 0

    def settle(self, size_t records, FileMap map, Block index):
        """Move the slots of up to so many records, and return whether nothing is left to move.

        Args:
            records: Number of records.
            map: Map of the file. None: it is not mapped, and nothing moves.
            index: Index block of the file.
        """
        if map is None or self.settled or (self.next_blocks is None and not self.may_move()):
            return True
        if self.moving:  # by another thread
            return False
        self.moving = True
        try:
            if self.next_blocks is None:
                self.begin(map)
            if self.next_blocks is not None:
                self.move(records, index)
        finally:
            self.moving = False
        return self.settled

    cdef bint may_move(self):
        """Whether enough blocks are ready, and stay."""
        cdef BlockTable now = self.blocks
        cdef size_t wanted = now.count - now.count // 8 if self.cache is None else now.count
        return not now.evictable and now.ready_blocks >= max(wanted, 1)

    cdef bint due(self, bint loaded):
        """Whether slots may move, and lookups have paid for it."""
        return (
            not loaded and self.may_move()
            and self.asked * BEFORE_MOVE >= self.blocks.ready_records)

    cdef int begin(self, FileMap map) except -1:
        """Begin to move slots, which may take many calls."""
        cdef BlockTable now = self.blocks
        # With room for blocks that will be ready when it is their turn.
        cdef size_t records = now.ready_records * now.count // now.ready_blocks
        cdef BlockTable made = BlockTable(now.count)
        if map.size > LS_PLACES_END:
            self.settled = True
            return 0
        try:
            made.places = Places(map, records, now.ready_bytes // max(now.ready_records, 1))
        except MemoryError:  # slots do as well
            self.settled = True
            return 0
        self.next_blocks, self.next = made, 0
        return 0

    cdef int move(self, size_t records, Block index) except -1:
        """Move so many records, and have lookups begin with their places when all have moved."""
        cdef ls_status status
        cdef BlockTable now = self.blocks, made = self.next_blocks
        with nogil:
            status = ls_places_move(
                &made.places.places, &index.block, now.ready, made.ready, &self.next, records)
        if status != LS_OK or not made.places.map.whole():
            # Keys repeat, or what was checked has changed: whoever looks into its block is told.
            self.settled = True
            self.next_blocks = None
        elif self.next == made.count:
            self.finish()
        return 0

    cdef int finish(self) except -1:
        """Have lookups begin with the places."""
        cdef BlockTable now = self.blocks, made = self.next_blocks
        cdef size_t number
        for number in range(made.count):
            if made.ready[number].data != NULL:
                made.blocks[number] = ReadyBlock(now.block(number), None, 0)
                made.ready_blocks += 1
        made.places.places.complete = made.ready_blocks == made.count
        self.blocks, self.next_blocks = made, None
        self.settled = True
        return 0
