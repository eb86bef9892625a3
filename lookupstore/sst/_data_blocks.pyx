"""The data blocks of one file, read and prepared for the lookups of one or more calls."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.errors import CorruptionError
from lookupstore.memory_limit import memory_limit
from lookupstore.sst.shared import PlacesLostError

from lookupstore.arrow._binary cimport LS_OK, ls_status
from lookupstore.sst._block cimport Block, Handles, ls_block, ls_block_open, status_text
from lookupstore.sst._frames cimport MappedBlocks, MappedFrames
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport (
    CACHE_LINE,
    PART_OF_MEMORY,
    BlockTable,
    FileTable,
    Memory,
    ReadyBlock,
    ls_ready,
    ls_slots_buckets,
    ls_slots_build,
)


# Size in bytes of the blocks that are decoded at a time for one call: memory that a call may use in
# addition to its answers and the cache. They are still in the processor's caches when they are
# searched.
GROUP_BYTES = 1 << 20

# Bytes of a file per key of a call below which the call reads the whole file in large pieces. That
# is faster, and so are later lookups if the file is kept in huge pages.
cdef size_t BYTES_PER_KEY = 16 << 10

# A block gets slots for one call if at least FEWEST_USES keys, and one key per DENSE records, are
# looked up in it: making the slot of a record takes a quarter of the time of a binary search.
cdef uint32_t FEWEST_USES = 4
cdef uint32_t DENSE = 4

# In a file that has no places and gets none, a block in its map becomes ready in the first call
# that looks up one key per SPARSE records in it, or in its second call. Making it ready takes ten
# times as long as checking it, and an upsert of a large store searches each block for a few keys,
# once.
cdef size_t SPARSE = 64


cdef class DataBlocks:
    """The data blocks of one file, as lookups read them.

    `index` is the block of their last keys, and `file` the table of the blocks that are ready.
    `load(number)` reads a block; `check()` raises if the file is not what it was when it was
    opened, which is asked after every lookup in the file's `map` (None: the file is not mapped).
    `fill(numbers)` is told which blocks are loaded next (None: the file is complete), and
    `is_here()` tells whether all of them are here by now. `frames` are the blocks of a file that is
    mapped and compressed, `plain` those of one that is not compressed. `handles` say where all
    blocks are, and `records` how many records they have (0: not known); without `handles` there
    are no places. `drop_scattered()` is called before all of the file is read, `is_cached()` tells
    whether all of it is in memory (None: unknown).
    """

    def __cinit__(self, Block index not None, FileTable file not None, load not None,
                  FileMap map=None, check=None, fill=None, MappedFrames frames=None,
                  MappedBlocks plain=None, is_here=None, Handles handles=None, size_t records=0,
                  drop_scattered=None, is_cached=None):
        self.index = index
        self.file = file
        self.load = load
        self.map = map
        self.check = check
        self.fill = fill
        self.frames = frames
        self.plain = plain
        self.is_here = is_here
        self.handles = handles
        self.records = records
        self.drop_scattered = drop_scattered
        self.is_cached = is_cached

    @property
    def table(self):
        """The present table of the ready blocks of the file."""
        return self.file.blocks

    @property
    def in_place(self):
        """Whether all blocks are used in place, in the map of the file."""
        return self.file.blocks.pins == NULL

    @property
    def is_copy(self):
        """Whether the file is a local copy, which may still be incomplete."""
        return self.fill is not None

    cdef bint stays(self):
        """Return whether found values are in a map that may be kept without blocking any room."""
        return self.file.blocks.pins == NULL and self.fill is None

    cdef void ahead(self, const uint32_t *numbers, size_t count) noexcept:
        """Request blocks from the disk without waiting if the file is native, mapped and complete.

        The numbers ascend. Adjacent blocks are one request.
        """
        cdef uint64_t start
        cdef uint64_t *starts
        cdef size_t i = 0
        if self.plain is None and self.frames is None:
            return
        starts = self.handles.starts
        while i < count:
            start = starts[numbers[i]]
            while i + 1 < count and numbers[i + 1] == numbers[i] + 1:
                i += 1
            self.map.ahead_of(start, starts[numbers[i] + 1] - start)
            i += 1

    cdef bint may_read(self, size_t keys) noexcept:
        """Return whether a call has so many keys that the whole file is to be read at once."""
        return (not self.file.is_read and self.map is not None
                and keys * BYTES_PER_KEY >= self.map.size)

    cdef int read_whole(self, size_t keys) except -1:
        """Read the whole file from the disk if a call has enough keys to justify it.

        It is read once, and only if it easily fits into memory. If all of it is in memory, its
        pages are only mapped.
        """
        cdef FileTable file = self.file
        cdef bint fits
        if not self.may_read(keys) or (self.is_here is not None and not self.is_here()):
            return 0
        file.is_read = True
        fits = PART_OF_MEMORY * self.map.size <= <size_t>memory_limit()
        if fits and file.checking:
            file.shared.read_ahead()
        if not self.map.map_all(None if self.is_cached is None else self.is_cached()):
            if not fits:
                return 0
            if self.drop_scattered is not None:
                self.drop_scattered()
            self.map.populate_some(0, self.map.size)
        if file.blocks.places is not None:
            file.blocks.places.map_all()
        return 0

    cdef bint may_settle(self) except -1:
        """Return whether all blocks are in the map and stay, as places of their records require."""
        cdef BlockTable table = self.file.blocks
        if self.map is None or self.handles is None:
            return False
        if table.cache is not None:
            return not table.evictable and table.ready_blocks == table.count
        return self.is_here is None or self.is_here()

    cdef void count_read(self, size_t number) noexcept:
        """Count a block that is read and checked."""
        self.blocks_read += 1
        if self.handles is not None:
            self.bytes_read += (self.handles.starts[number + 1] - self.handles.starts[number]
                                - self.handles.trailer)

    cdef bint makes_slots(self, BlockTable table) except -1:
        """Return whether blocks that are used often become ready: if there will be no places."""
        cdef FileTable file = self.file
        return (file.settled and file.blocks.places is None) or not self.may_settle()

    cdef bint check_block(
            self, BlockTable table, size_t number, uint8_t call, ls_ready *ready) except -1:
        """Find a block in the map, and check it the first time; False: it has to be loaded."""
        cdef const uint8_t *data
        cdef size_t size
        if self.plain is None:
            return False
        if table.seen[number] == 0:
            if not self.plain.find(number, &data, &size):
                return False
            self.count_read(number)
            table.seen[number] = call
        else:
            data = self.map.bytes() + self.handles.starts[number]
            size = (self.handles.starts[number + 1] - self.handles.starts[number]
                    - self.handles.trailer)
        ready.data, ready.size, ready.slots = data, <uint32_t>size, NULL
        return True

    cdef ReadyBlock ready_block(self, BlockTable table, size_t number):
        """Load a block and make it ready."""
        cdef uint32_t one = <uint32_t>number
        self.ahead(&one, 1)
        try:
            return self.made_ready(table, number)
        finally:
            self.check_file()  # records that seem damaged may have been truncated since

    cdef ReadyBlock made_ready(self, BlockTable table, size_t number):
        """Load a block and make it ready; the caller checks the file afterwards."""
        cdef Block block = None
        self.count_read(number)
        if self.plain is not None:
            block = self.plain.block(number, self.index)
        return table.put(number, self.load(number) if block is None else block)

    def is_prepared(self, size_t number):
        """Return whether a block was read for lookups, by `prepare` or by a lookup."""
        cdef BlockTable table = self.file.blocks
        return table.blocks[number] is not None or (
            table.seen != NULL and table.seen[number] != 0 and not self.makes_slots(table))

    def prepare(self, size_t number):
        """Read a block that lookups may need, and return whether there is room for it.

        Raises:
            CorruptionError: If the block is damaged.
        """
        cdef BlockTable table = self.file.blocks
        cdef ls_ready ready
        cdef Block block
        try:
            if table.places is not None and not self.file.checking:
                table.seen[number] = 1
                return True
            if table.cache is None and not self.makes_slots(table):
                if not self.check_block(table, number, 1, &ready):
                    self.load(number)
                    table.seen[number] = 1
                return True
            if table.cache is None:
                self.made_ready(table, number)
                return True
            # It is not counted in `blocks_read`, which decides when a plain copy of the file is
            # made.
            block = self.load(number)
            if (not isinstance(block.source, memoryview)
                    and table.account.nbytes + block.size > table.account.capacity):
                return False
            table.put(number, block)
            return True
        finally:
            self.check_file()

    def scanned(self, list numbers not None, size_t most):
        """Return blocks for a scan, in this order, until they have `most` bytes: at least one.

        Prepared blocks are used if there are, but no others are kept. The caller checks the file
        afterwards.
        """
        cdef BlockTable table = self.file.blocks
        cdef ReadyBlock held
        cdef Block block
        cdef size_t number, nbytes = 0
        found = []
        for number in numbers:
            held = table.blocks[number]
            block = None if held is None else held.block
            if block is None and self.plain is not None:
                block = self.plain.block(number, self.index)
            if block is None:
                block = self.load(number)
            found.append(block)
            nbytes += block.size
            if nbytes >= most:
                break
        return found

    def all_blocks(self):
        """Return all blocks, checked, of a file whose blocks stay."""
        cdef BlockTable table = self.file.blocks  # another thread may replace the table
        cdef ReadyBlock held
        cdef ls_ready ready
        cdef size_t number, start
        found = []
        try:
            for number in range(table.count):
                held = table.blocks[number]
                if held is None and self.check_block(table, number, 1, &ready):
                    start = self.handles.starts[number]
                    data = memoryview(self.map)[start:start + ready.size]
                    try:
                        found.append(Block(data, self.index.path, start))
                    except CorruptionError as error:  # the block was valid when it was checked
                        raise CorruptionError(
                            error.path, start, "records of the block", error.found) from None
                else:
                    found.append((self.made_ready(table, number) if held is None else held).block)
        finally:
            self.check_file()  # records that seem damaged may have been truncated since
        return found

    cdef object visit(self, BlockTable table, size_t number, ls_ready *ready):
        """Load a block for the lookups of one call, or for later calls if the cache keeps it.

        The block is ready as long as the returned object exists.
        """
        cdef ReadyBlock held
        cdef bytes data
        cdef uint32_t one = <uint32_t>number
        if table.seen == NULL or table.seen[number] == 0:
            self.ahead(&one, 1)
        if table.cache is None and not self.makes_slots(table):
            try:
                if self.check_block(table, number, 1, ready):
                    return self.map
            finally:
                self.check_file()
        if table.cache is None:
            held = self.ready_block(table, number)
            ready[0] = held.ready
            return held
        self.count_read(number)
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
        """Make a block ready that was read individually, like `visit`."""
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
        """Do the same as `visit_some` with blocks that are in the map of the file.

        `call` is the number of the call, which distinguishes the calls that searched a block.
        """
        cdef size_t held = 0, done = 0
        cdef bint with_slots = self.makes_slots(table)
        cdef ReadyBlock kept
        cdef Block block
        try:
            if table.usual_count == 0:
                table.usual_count = (<Block>self.load(numbers[0])).block.count
            while done < count and held < GROUP_BYTES:
                kept = table.blocks[numbers[done]]
                if kept is None and with_slots and (
                        uses[done] * SPARSE >= table.usual_count
                        or table.stays(numbers[done], call)):
                    kept = self.made_ready(table, numbers[done])
                if kept is not None:
                    ready[done] = kept.ready
                    owners.append(kept)
                elif not self.check_block(table, numbers[done], call, &ready[done]):
                    self.count_read(numbers[done])
                    block = self.load(numbers[done])
                    if isinstance(block.source, memoryview):
                        owners.append(block)
                        ready[done].data = block.block.data
                        ready[done].size = <uint32_t>block.size
                        ready[done].slots = NULL
                    else:  # it is not in the map and is therefore kept
                        ready[done] = table.put(numbers[done], block).ready
                held += ready[done].size
                done += 1
        finally:
            self.check_file()  # records that seem damaged may have been truncated since
        owners.append(self.with_slots(uses, done, ready))
        return done

    cdef size_t visit_some(
            self, BlockTable table, const uint32_t *numbers, const uint32_t *uses, size_t count,
            uint8_t call, ls_ready *ready, list owners) except 0:
        """Load blocks for the lookups of one call, as many as may be decoded at a time.

        Returns their number, at most GROUP. They are ready while the `owners` exist. `uses` are the
        numbers of keys that will be looked up in each block.
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
            for i in range(done):
                self.count_read(numbers[i])
            self.check_file()
        owners.append(self.with_slots(uses, done, ready))
        return done

    cdef Memory with_slots(self, const uint32_t *uses, size_t count, ls_ready *ready):
        """Make slots for blocks without slots in which many keys are looked up; return the owner.

        The error of a damaged block is raised by the search.
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

    cdef int check_table(self, BlockTable table) except -1:
        """Raise if the file, or the file of its shared places, has changed."""
        self.check_file()
        if table.places is not None and not table.places.whole():
            if self.file.blocks is table:
                self.file.lose()
            raise PlacesLostError(
                f"{self.index.path}: the table of its records' places was cut, and is made again")
        return 0

    cdef int fail_at(self, BlockTable table, uint64_t offset, ls_status status) except -1:
        """Raise the error of the record at an offset that was found by a place."""
        cdef size_t number = 0, end = self.handles.count, middle
        self.check_table(table)
        while end - number > 1:
            middle = (number + end) // 2
            if self.handles.starts[middle] <= offset:
                number = middle
            else:
                end = middle
        raise CorruptionError(
            self.index.path, self.handles.starts[number], "records of the block",
            status_text(status))
