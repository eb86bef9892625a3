"""Lookups of one key in a file, and how its blocks become ready: for one call, or for more."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from lookupstore.errors import CorruptionError

from lookupstore.arrow._binary cimport LS_OK, ls_slice, ls_status
from lookupstore.sst._block cimport (
    LS_ORDER_BYTES,
    Block,
    Handles,
    check_key,
    ls_block,
    ls_block_open,
    status_text,
)
from lookupstore.sst._filter cimport Filter, ls_filter_test_hashed
from lookupstore.sst._frames cimport MappedBlocks, MappedFrames
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport (
    CACHE_LINE,
    BlockTable,
    FileTable,
    Memory,
    ReadyBlock,
    ls_places_get,
    ls_ready,
    ls_ready_data,
    ls_ready_get,
    ls_ready_use,
    ls_slots_buckets,
    ls_slots_build,
)


cdef extern from "ls_hash.h":
    uint64_t ls_hash(ls_slice key) noexcept nogil


cdef extern from "ls_fences.h":
    ls_status ls_fences_build(ls_fences *fences) noexcept nogil
    ls_status ls_fences_route(
        const ls_fences *fences, ls_slice key, uint32_t *block) noexcept nogil


# Blocks decoded at one time for one call, in bytes: what a call may hold beside its answers and the
# cache. They are still in the processor's caches when their keys are looked for.
GROUP_BYTES = 1 << 20

# A block gets slots for one call that looks in it for so many keys, and for one of so many of its
# records: to make the slot of a record takes a quarter of the time of a search by halving.
cdef uint32_t FEWEST_USES = 4
cdef uint32_t DENSE = 4

# A block that lies in the map of its file becomes ready in the first call that looks in it for one
# of so many of its records, or in its second call: that takes ten times what it takes to check it,
# and an upsert of a large store looks into each block for a few keys, once.
cdef size_t SPARSE = 64


cdef class Lookup:
    """Lookups of keys in one file.

    `load(number)` reads a data block; `check()` raises if the file is not what it was when it was
    opened, which is asked after every lookup in the file's `map` (None: the file is not mapped).
    `fill(numbers)` is told which blocks are loaded next (None: the file is complete). `frames` are
    the blocks of a file that is mapped and compressed, `plain` those of one that is not compressed.
    """

    def __cinit__(self, Block index not None, Filter filter not None, FileTable file not None,
                  load not None, FileMap map=None, check=None, fill=None,
                  MappedFrames frames=None, MappedBlocks plain=None):
        cdef ls_status status
        self.index = index
        self.filter = filter
        self.file = file
        self.load = load
        self.map = map
        self.check = check
        self.fill = fill
        self.frames = frames
        self.plain = plain
        self.fences.index = &index.block
        self.fences.order = index.order
        self.sortable = index.sortable()
        if self.sortable is not None:
            self.fences.rows, self.fences.row_order = self.fences.index, self.fences.order
            self.fences.index, self.fences.order = &self.sortable.block, LS_ORDER_BYTES
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
    def table(self):
        """The ready blocks of the file, as they are now."""
        return self.file.blocks

    @property
    def in_place(self):
        """Whether all blocks are used where they are, in the map of the file."""
        return self.file.blocks.pins == NULL

    @property
    def is_copy(self):
        """Whether the file is a local copy, which may still be coming."""
        return self.fill is not None

    cdef bint stays(self):
        """Whether what is found lies in a map that nobody waits for to be let go of."""
        return self.file.blocks.pins == NULL and self.fill is None

    cdef void ahead(self, const uint32_t *numbers, size_t count) noexcept:
        """Ask the disk for blocks, without waiting, if the file is native and mapped.

        The numbers ascend. Blocks that lie side by side are one request.
        """
        cdef Handles handles
        cdef uint64_t start
        cdef size_t i = 0
        if self.plain is not None:
            handles = self.plain.handles
        elif self.frames is not None:
            handles = self.frames.handles
        else:
            return
        while i < count:
            start = handles.starts[numbers[i]]
            while i + 1 < count and numbers[i + 1] == numbers[i] + 1:
                i += 1
            self.map.ahead_of(start, handles.starts[numbers[i] + 1] - start)
            i += 1

    cdef ReadyBlock ready_block(self, BlockTable table, size_t number):
        """Load a block and make it ready."""
        cdef uint32_t one = <uint32_t>number
        self.ahead(&one, 1)
        try:
            return self.made_ready(table, number)
        finally:
            self.check_file()  # records that seem damaged may have been cut since they were read

    cdef ReadyBlock made_ready(self, BlockTable table, size_t number):
        """Load a block and make it ready; whoever calls this checks the file after it."""
        cdef Block block = None
        self.blocks_read += 1
        if self.plain is not None:
            block = self.plain.block(number, self.index)
        return table.put(number, self.load(number) if block is None else block)

    def prepare(self, size_t number):
        """Make a block that is not ready so, and return whether there is room for it.

        Raises:
            CorruptionError: if the block is damaged.
        """
        cdef BlockTable table = self.file.blocks
        cdef Block block
        try:
            if table.cache is None:
                self.made_ready(table, number)
                return True
            # Not counted in `blocks_read`, by which lookups pay for a plain copy of the file.
            block = self.load(number)
            if (not isinstance(block.source, memoryview)
                    and table.account.nbytes + block.size > table.account.capacity):
                return False
            table.put(number, block)
            return True
        finally:
            self.check_file()

    def settle(self, size_t records):
        """Move up to so many records of ready blocks to where all lookups find them fastest.

        Returns:
            Whether nothing is left to move.
        """
        return self.file.settle(records, self.map, self.index)

    def all_blocks(self):
        """Return all blocks, which are ready then; of a file whose blocks stay."""
        cdef BlockTable table = self.file.blocks  # another thread may put the next one in its place
        cdef ReadyBlock held
        cdef size_t number
        found = []
        for number in range(table.count):
            held = table.blocks[number]
            found.append((self.ready_block(table, number) if held is None else held).block)
        return found

    cdef object visit(self, BlockTable table, size_t number, ls_ready *ready):
        """Load a block for the lookups of one call, or for more if the cache keeps it.

        It is ready while what this returns is there.
        """
        cdef ReadyBlock held
        cdef bytes data
        cdef uint32_t one = <uint32_t>number
        if table.cache is None:
            held = self.ready_block(table, number)
            ready[0] = held.ready
            return held
        self.blocks_read += 1
        self.ahead(&one, 1)
        try:
            if self.frames is not None:
                data = self.frames.one(number)
                if data is not None and not table.keeps(number, len(data)):
                    ready.data, ready.size, ready.slots = <const uint8_t *>data, len(data), NULL
                    return data
                if data is not None:
                    held = table.put(number, self.frames.block(number, data, self.index))
                    ready[0] = held.ready
                    return held
            return self.visit_loaded(table, number, self.load(number), ready)
        finally:
            self.check_file()

    cdef object visit_loaded(self, BlockTable table, size_t number, Block block, ls_ready *ready):
        """Make a block that was read one by one ready, as `visit` does."""
        cdef ReadyBlock held
        if isinstance(block.source, memoryview) or table.keeps(number, block.size):
            held = table.put(number, block)
            ready[0] = held.ready
            return held
        ready.data, ready.size, ready.slots = block.block.data, <uint32_t>block.size, NULL
        return block

    cdef size_t check_some(
            self, BlockTable table, const uint32_t *numbers, const uint32_t *uses, size_t count,
            uint8_t call, ls_ready *ready, list owners) except 0:
        """Do as `visit_some` does with blocks that lie in the map of the file.

        `call` is what tells the calls apart in which a block was looked at.
        """
        cdef const uint8_t *data
        cdef size_t size, held = 0, done = 0
        cdef ReadyBlock kept
        cdef Block block
        try:
            if table.usual_count == 0:
                table.usual_count = (<Block>self.load(numbers[0])).block.count
            while done < count and held < GROUP_BYTES:
                kept = table.blocks[numbers[done]]
                if kept is None and (
                        uses[done] * SPARSE >= table.usual_count
                        or table.stays(numbers[done], call)):
                    kept = self.made_ready(table, numbers[done])
                if kept is not None:
                    ready[done] = kept.ready
                    owners.append(kept)
                else:
                    self.blocks_read += 1
                    if self.plain is not None and self.plain.find(numbers[done], &data, &size):
                        ready[done].data, ready[done].size = data, <uint32_t>size
                        ready[done].slots = NULL
                    else:
                        block = self.load(numbers[done])
                        if isinstance(block.source, memoryview):
                            owners.append(block)
                            ready[done].data = block.block.data
                            ready[done].size = <uint32_t>block.size
                            ready[done].slots = NULL
                        else:  # it does not lie in the map, and so has to stay
                            ready[done] = table.put(numbers[done], block).ready
                held += ready[done].size
                done += 1
        finally:
            self.check_file()  # records that seem damaged may have been cut since they were read
        return done

    cdef size_t visit_some(
            self, BlockTable table, const uint32_t *numbers, const uint32_t *uses, size_t count,
            uint8_t call, ls_ready *ready, list owners) except 0:
        """Load blocks for the lookups of one call, as many as may be decoded at one time.

        Returns how many, at most GROUP. They are ready while the `owners` are there. `uses` are the
        keys that will be looked for in each.
        """
        cdef const uint8_t *blocks[GROUP]
        cdef size_t sizes[GROUP]
        cdef size_t limit = GROUP_BYTES, done = 0, held = 0, i
        cdef ReadyBlock kept
        count = min(count, <size_t>GROUP)
        if table.cache is None:
            return self.check_some(table, numbers, uses, count, call, ready, owners)
        try:
            if self.frames is not None:
                done = self.frames.many(numbers, count, limit, blocks, sizes, owners)
            for i in range(done):
                if blocks[i] == NULL:
                    block = self.load(numbers[i])
                    owners.append(self.visit_loaded(table, numbers[i], block, &ready[i]))
                elif not table.keeps(numbers[i], sizes[i]):
                    ready[i].data, ready[i].size = blocks[i], <uint32_t>sizes[i]
                    ready[i].slots = NULL
                else:
                    data = (<const char *>blocks[i])[:sizes[i]]
                    kept = table.put(
                        numbers[i], self.frames.block(numbers[i], data, self.index))
                    ready[i] = kept.ready
                    owners.append(kept)
            while done == 0 or (self.frames is None and done < count and held < limit):
                block = self.load(numbers[done])
                held += (<Block>block).size
                owners.append(self.visit_loaded(table, numbers[done], block, &ready[done]))
                done += 1
        finally:
            self.blocks_read += done
            self.check_file()
        owners.append(self.with_slots(uses, done, ready))
        return done

    cdef Memory with_slots(self, const uint32_t *uses, size_t count, ls_ready *ready):
        """Make slots for those blocks without that are asked for many keys, and return their owner.

        Of a block that is damaged the search says so.
        """
        cdef ls_block opened[GROUP]
        cdef size_t places[GROUP]
        cdef size_t dense = 0, size = 0, i
        cdef uint32_t bad = 0
        cdef ls_block *block
        cdef ls_ready made
        cdef Memory memory
        cdef char *at
        for i in range(count):
            block = &opened[dense]
            if (ready[i].slots == NULL and uses[i] >= FEWEST_USES
                    and ls_block_open(block, ready[i].data, ready[i].size) == LS_OK
                    and uses[i] * DENSE >= block.count):
                places[dense] = i
                size += CACHE_LINE * <size_t>ls_slots_buckets(block.count)
                dense += 1
        if dense == 0:
            return None
        memory = Memory(size)
        at = memory.start
        with nogil:
            for i in range(dense):
                block = &opened[i]
                if ls_slots_build(
                        block, ready[places[i]].size, self.index.order, <uint32_t *>at, &made,
                        &bad) == LS_OK:
                    ready[places[i]] = made
                at += CACHE_LINE * <size_t>ls_slots_buckets(block.count)
        return memory

    cdef int check_file(self) except -1:
        if self.map is not None and not self.map.whole():
            self.check()
        return 0

    cdef int fail_at(self, BlockTable table, uint64_t offset, ls_status status) except -1:
        """Raise what is wrong with the record at an offset, where a place led to."""
        self.check_file()
        cdef Block block = table.block_at(offset)
        if block is None:
            # Slots moved on while the block was looked at.
            raise CorruptionError(
                self.index.path, offset, "records of the block", status_text(status))
        block.fail(status, "records of the block")
        return 0

    def get(self, bytes key not None, default=None):
        """Return the value of one key, or `default`."""
        cdef ls_slice slice, value
        slice.data = <const uint8_t *>key
        slice.size = len(key)
        return self.find_one(slice, default, True, &value)

    cdef object find_one(self, ls_slice slice, object default, bint copied, ls_slice *value):
        """Return the value of one key, or True in its place if no copy is wanted, or `default`.

        `value` is where it lies, without data if there is none. It stays there if `stays()`.
        """
        cdef uint64_t hash, bad
        cdef uint32_t block
        cdef ls_status status
        cdef object loaded = None
        cdef ls_ready visited
        cdef const ls_ready *ready
        cdef BlockTable table = self.file.blocks
        value.data = NULL
        value.size = 0
        hash = ls_hash(slice)
        if self.index.order != LS_ORDER_BYTES:
            check_key(self.index.order, slice, "key")
        if not ls_filter_test_hashed(&self.filter.filter, slice, hash):
            self.check_file()
            return default
        if table.places is not None:
            status = ls_places_get(&table.places.places, slice, hash, value, &bad)
            if status != LS_OK:
                self.fail_at(table, bad, status)
            if value.data != NULL or table.places.places.complete:
                self.check_file()
                if value.data == NULL:
                    return default
                self.block_uses += 1
                return (<char *>value.data)[:value.size] if copied else True
        status = ls_fences_route(&self.fences, slice, &block)
        self.check_index(status)
        if block >= table.count:
            self.check_file()
            return default
        self.block_uses += 1
        # Blocks come and go with the GIL held: this one stays until it is let go of here.
        ready = &table.ready[block]
        if ls_ready_data(ready) == NULL:
            loaded = self.visit(table, block, &visited)
            ready = &visited
        elif table.used != NULL:
            ls_ready_use(&table.used[block])
        status = ls_ready_get(ready, self.index.order, slice, hash, value)
        if status != LS_OK:
            self.check_file()
            damaged = table.block(block)
            (<Block>(self.load(block) if damaged is None else damaged)).fail(
                status, "records of the block")
        if value.data == NULL:
            answer = default
        else:
            answer = (<char *>value.data)[:value.size] if copied else True
        if loaded is not None and table.cache is not None:
            table.cache.trim()
        self.check_file()
        return answer
