"""The blocks of one file that are ready for lookups, where C finds them without a lock.

All readers of one file in a process share a table, so that the next version of a store begins with
what the one before has read.

A block that lies in the map of its file stays ready. One that was decompressed is counted by a
cache, which may take it away again: not while a lookup has it pinned. Blocks come and go with the
GIL held; pins come and go without it. A lookup pins a block and then looks whether it is there; the
cache takes it away and then looks whether it is pinned: in one order of all these steps, one of the
two sees the other.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memset


cdef extern from * nogil:
    """
    #include <stdlib.h>
    #include <sys/mman.h>

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
    """
    uint32_t lookupstore_pins(const uint32_t *pins)
    int lookupstore_exchange(uint8_t *used)
    void *lookupstore_aligned(size_t alignment, size_t size)
    void lookupstore_advise_huge(void *memory, size_t size)


cdef size_t CACHE_LINE = 64

# Slots of a large file are in pages of this size where the system has them: lookups touch them at
# random, and the processor can not remember where so many small pages are.
cdef size_t HUGE_PAGE = 2 << 20
cdef size_t CHUNK = 2 * HUGE_PAGE


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


cdef class ReadyBlock:
    """A decoded block and its slots, which are in `memory` from `at` on."""

    def __cinit__(self, Block block not None, Memory memory not None, size_t at, bint evictable):
        cdef ls_status status
        cdef uint32_t bad = 0
        self.block = block
        self.memory = memory
        self.evictable = evictable
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
    """The ready blocks of a file of `count` data blocks.

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
        if cache is not None:
            self.pins = <uint32_t *>calloc(count + 1, sizeof(uint32_t))
            self.used = <uint8_t *>calloc(count + 1, 1)
            if self.pins == NULL or self.used == NULL:
                raise MemoryError()

    def __dealloc__(self):
        free(self.ready)
        free(self.pins)
        free(self.used)

    def block(self, size_t number):
        """Return a decoded block if it is ready, else None."""
        cdef ReadyBlock held = self.blocks[number]
        return None if held is None else held.block

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
        held = ReadyBlock(block, memory, at, evictable)
        if self.blocks[number] is not None:
            return self.blocks[number]  # another thread was faster
        self.blocks[number] = held
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
        return True

    def forget(self):
        """Let go of all blocks that may go, whoever has pinned them."""
        if self.cache is None:
            return
        memset(self.ready, 0, self.count * sizeof(ls_ready))
        memset(self.pins, 0, self.count * sizeof(uint32_t))
        self.blocks = [None] * self.count
        self.chunk = None
