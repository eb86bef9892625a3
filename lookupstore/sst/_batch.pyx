"""Lookups of one file: one key, or a batch of them.

A batch goes through the filter, to its blocks and to its records without the GIL; Python is entered
for blocks that are not ready, and for memory.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from lookupstore.sst._answers import Found, Values

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
)
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._block cimport LS_ORDER_BYTES, Block, check_key, ls_order
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


cdef extern from "ls_hash.h":
    uint64_t ls_hash(ls_slice key) noexcept nogil
    ls_status ls_hash_column(
        const ls_column *keys, size_t start, size_t end, uint64_t *hashes,
        size_t *bad) noexcept nogil


cdef extern from "ls_fences.h":
    ls_status ls_fences_build(ls_fences *fences) noexcept nogil
    ls_status ls_fences_route(
        const ls_fences *fences, ls_slice key, uint32_t *block) noexcept nogil


cdef extern from "ls_batch.h":
    ls_status ls_batch_filter(
        const ls_filter *filter, ls_order order, const ls_column *keys, const uint32_t *places,
        size_t start, size_t end, const uint64_t *hashes, ls_batch_item *items, size_t *count,
        size_t *bad) noexcept nogil
    size_t ls_batch_key_bytes(
        const ls_column *keys, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_take_keys(
        const ls_column *keys, ls_batch_item *items, size_t count, uint8_t *data,
        int64_t *offsets, uint32_t *origins, ls_column *taken) noexcept nogil
    size_t ls_batch_put_answers(
        const uint32_t *origins, const ls_slice *found, size_t count, size_t *next, size_t limit,
        size_t first, const uint8_t *deleted, ls_slice *answers, int *gone) noexcept nogil
    void ls_batch_filter_items(
        const ls_filter *filter, const ls_column *keys, ls_batch_item *items,
        size_t *count) noexcept nogil
    ls_status ls_batch_route(
        const ls_fences *fences, const ls_ready *ready, const ls_column *keys,
        ls_batch_item *items, size_t *count) noexcept nogil
    void ls_batch_pin(
        uint32_t *pins, uint8_t *used, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_unpin(uint32_t *pins, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_missing(
        const ls_ready *ready, const ls_batch_item *items, size_t count,
        uint8_t *bitmap) noexcept nogil
    void ls_batch_drop_answered(
        ls_batch_item *items, size_t *count, size_t first, const ls_slice *answers) noexcept nogil
    void ls_batch_forget_deleted(
        const uint32_t *places, size_t start, size_t end, size_t first, const uint8_t *deleted,
        ls_slice *answers) noexcept nogil
    ls_status ls_batch_search(
        const ls_ready *ready, ls_order order, const ls_column *keys, ls_batch_item *items,
        size_t count, size_t first, const uint8_t *deleted, ls_slice *answers, size_t *left,
        uint32_t *bad) noexcept nogil
    size_t ls_batch_stage_size(
        const ls_batch_item *items, size_t count, size_t first,
        const ls_slice *answers) noexcept nogil
    void ls_batch_stage(
        const ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
        ls_slice *answers, uint8_t *arena) noexcept nogil
    size_t ls_batch_drop_searched(
        uint32_t *pins, ls_batch_item *items, size_t count) noexcept nogil


# Blocks decoded at one time for one call, in bytes: what a call may hold beside its answers and the
# cache.
GROUP_BYTES = 32 << 20

cdef ls_filter NO_FILTER
NO_FILTER.kind = LS_FILTER_NONE

cdef uint8_t DELETED  # what stands for the answer at a tombstone, until all files are asked


cdef class Scratch:
    """Room for the keys of a stretch."""

    def __cinit__(self, size_t length):
        self.length = length
        self.candidates = <ls_batch_item *>malloc(length * sizeof(ls_batch_item))
        self.hashes = <uint64_t *>malloc(length * sizeof(uint64_t))
        if self.candidates == NULL or self.hashes == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.candidates)
        free(self.hashes)


# Of batches that have ended. The system takes memory of this size back and clears it again, which
# would take as long as all else that runs of changes cost.
cdef list SPARES = []
cdef size_t MOST_SPARES = 2


cdef class Lookup:
    """Lookups of keys in one file.

    `load(number)` reads a data block; `check()` raises if the file is not what it was when it was
    opened, which is asked after every lookup in the file's `map` (None: the file is not mapped).
    `fill(numbers)` is told which blocks are loaded next (None: the file is complete).
    """

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
    def in_place(self):
        """Whether all blocks are used where they are, in the map of the file."""
        return self.table.pins == NULL

    @property
    def is_copy(self):
        """Whether the file is a local copy, which may still be coming."""
        return self.fill is not None

    cdef bint stays(self):
        """Whether what is found lies in a map that nobody waits for to be let go of."""
        return self.table.pins == NULL and self.fill is None

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

    def values(self, BinaryColumn keys not None):
        """Return a large_binary array: row i answers key i, null where it is missing."""
        values = Values(len(keys))
        self.answer(keys, values)
        return values.array()

    def contains(self, BinaryColumn keys not None):
        """Return a boolean array: row i tells whether key i is there."""
        found = Found(len(keys))
        self.answer(keys, found)
        return found.array()

    def answer(self, BinaryColumn keys not None, Answers answers not None, newer=(),
               Filter above=None, bint is_run=False):
        """Find keys, and give what is at them to `answers`, which has room for as many.

        `newer` are lookups of runs of changes, the newest first: what they have is not looked for
        here. `above` lets the keys of all of them pass (None: there is no such filter). `is_run`:
        this file is one, too.
        """
        cdef Batch batch = Batch(self, keys, answers, newer, above, is_run)
        if answers.begin(batch):
            batch.find()
            self.count(batch)

    cdef int count(self, Batch batch) except -1:
        """Count what a batch has done, which ends here."""
        cdef Batch run
        self.filter_negatives += batch.negatives
        self.block_uses += batch.routed_keys
        for run in batch.newer:
            run.lookup.count(run)
        return 0


cdef class Batch:
    """One batch of keys, looked up one piece after the other.

    With runs of changes that are newer than the file, those keys of a stretch of pieces that may be
    in one are looked for there first, all at once, and what no run has in the file.
    """

    def __cinit__(
            self, Lookup lookup, BinaryColumn keys, Answers taker, newer=(), Filter above=None,
            bint is_run=False):
        cdef size_t length = keys.column.length, i
        if length > 0xFFFFFFFF:
            raise ValueError(f"{length} keys in one call; give at most 4294967295")
        self.lookup = lookup
        self.table = lookup.table
        self.evictable = self.table.evictable
        self.order = lookup.index.order
        self.fences = &lookup.fences
        self.filter = self.file_filter = &lookup.filter.filter
        self.arenas = []
        taker.check_length(length)
        if taker.places != NULL:
            keys.hash()
        self.keys = keys
        self.column = keys.column
        self.deleted = &DELETED if is_run else NULL
        self.newer = [Batch(one, keys, taker, (), None, True) for one in newer]
        self.above_filter = above
        self.above = NULL if above is None else &above.filter
        self.layer_count = self.layer = len(self.newer)
        self.layers = <void **>malloc((self.layer_count + 1) * sizeof(void *))
        if self.layers == NULL:
            raise MemoryError()
        for i in range(self.layer_count):
            self.layers[i] = <void *>self.newer[i]
        self.taker = taker
        self.length = self.until = taker.length

    cdef int wait(self) except -1:
        """Find no key before `go_on_to` says so."""
        self.until = 0
        return 0

    cdef bint stays(self):
        """Whether what is found lies in maps that nobody waits for to be let go of."""
        cdef Batch run
        for run in self.newer:
            if not run.lookup.stays():
                return False
        return self.lookup.stays()

    def __dealloc__(self):
        free(self.items)
        free(self.own)
        free(self.layers)
        self.drop_candidates()
        if (self.scratch is not None and self.scratch.length == <size_t>STRETCH
                and len(SPARES) < MOST_SPARES):
            SPARES.append(self.scratch)

    cdef int find(self) except -1:
        cdef Batch run
        cdef Need need
        try:
            while True:
                with nogil:
                    need = self.go_on()
                if need == NOTHING:
                    break
                self.provide(need)
        finally:
            for run in [*self.newer, self]:
                run.unpin()
                if run.table.cache is not None:
                    run.table.cache.trim()
        self.check_files()
        return 0

    cdef int check_files(self) except -1:
        """Raise if one of the files is not what it was when it was opened."""
        cdef Batch run
        for run in self.newer:
            run.lookup.check_file()
        return self.lookup.check_file()

    cdef void unpin(self) noexcept nogil:
        if self.pinned > 0:
            ls_batch_unpin(self.table.pins, self.items, self.pinned)
            self.pinned = 0

    cdef Need go_on(self) noexcept nogil:
        """Find pieces until all are done, or Python is needed."""
        cdef Need need
        while self.start < self.until:
            if self.layer_count > 0:
                need = self.ask_runs()
                if need != NOTHING:
                    return need
            if not self.begun and not self.begin_piece():
                return MEMORY
            if not self.routed:
                need = self.filter_piece()
                if need == NOTHING:
                    need = self.route()
                if need != NOTHING:
                    return need
            need = self.search()
            if need != NOTHING:
                return need
            if not self.take():
                return ANSWERS
        return NOTHING

    cdef Need ask_runs(self) noexcept nogil:
        """Find the keys of a stretch in the runs of changes, the newest first."""
        cdef Need need
        if self.start == self.stretch:
            need = self.begin_stretch()
            if need != NOTHING:
                return need
        while self.layer < self.layer_count:
            need = (<Batch>self.layers[self.layer]).find_in_run(self)
            self.asking = need != NOTHING
            if self.asking:
                return need
            self.layer += 1
        return NOTHING

    cdef Need begin_stretch(self) noexcept nogil:
        """Start a stretch, none of whose keys has been looked for in a run."""
        cdef const ls_filter *above = &NO_FILTER if self.above == NULL else self.above
        cdef size_t most = STRETCH_UNFILTERED if self.above == NULL else STRETCH
        cdef size_t length = self.length - self.start
        # Where blocks may go, each is looked at once for all its keys.
        if length > most and not self.any_evictable():
            length = most
        if length > self.stretch_room:
            self.wanted = length
            return STRETCH_MEMORY
        self.drop_candidates()
        if self.taker.places == NULL:
            self.status = ls_hash_column(
                &self.column, self.start, self.start + length, self.hashes, &self.bad_key)
            if self.status != LS_OK:
                return KEY_ERROR
        self.status = ls_batch_filter(
            above, self.order, &self.column, self.taker.places, self.start, self.start + length,
            self.hashes, self.candidates, &self.candidate_count, &self.bad_key)
        if self.status != LS_OK:
            return KEY_ERROR
        if not self.take_candidates():
            return NO_MEMORY
        self.stretch_start, self.stretch = self.start, self.start + length
        self.layer = self.next = 0
        return NOTHING

    cdef bint take_candidates(self) noexcept nogil:
        """Copy the keys that may be in a run, and make room for what they find; False: no room."""
        cdef size_t count = self.candidate_count
        cdef size_t size = ls_batch_key_bytes(&self.column, self.candidates, count)
        self.candidate_data = <uint8_t *>malloc(size + 1)
        self.origins = <uint32_t *>malloc((count + 1) * sizeof(uint32_t))
        self.found = <ls_slice *>calloc(count + 1, sizeof(ls_slice))
        if self.candidate_data == NULL or self.origins == NULL or self.found == NULL:
            return False
        if self.column.offset_width != 0:
            self.candidate_offsets = <int64_t *>malloc((count + 1) * sizeof(int64_t))
            if self.candidate_offsets == NULL:
                return False
        ls_batch_take_keys(
            &self.column, self.candidates, count, self.candidate_data, self.candidate_offsets,
            self.origins, &self.candidate_keys)
        return True

    cdef void drop_candidates(self) noexcept nogil:
        free(self.candidate_data)
        free(self.candidate_offsets)
        free(self.origins)
        free(self.found)
        self.candidate_data = NULL
        self.candidate_offsets = NULL
        self.origins = NULL
        self.found = NULL

    cdef Need find_in_run(self, Batch older) noexcept nogil:
        """Find those keys of a stretch of an older file that no newer run has."""
        cdef Need need
        if not self.routed:
            if older.candidate_count > self.room:
                self.wanted = older.candidate_count
                return MEMORY
            self.column, self.answers = older.candidate_keys, older.found
            self.count = older.candidate_count
            memcpy(self.items, older.candidates, self.count * sizeof(ls_batch_item))
            ls_batch_filter_items(self.filter, &self.column, self.items, &self.count)
            self.negatives += older.stretch - older.start - self.count
            ls_batch_drop_answered(self.items, &self.count, self.first, self.answers)
            need = self.route()
            if need != NOTHING:
                return need
        return self.search()

    cdef Need search(self) noexcept nogil:
        """Look for the items of a piece in the blocks that are ready."""
        cdef size_t left = 0
        self.status = ls_batch_search(
            self.table.ready, self.order, &self.column, self.items, self.count, self.first,
            self.deleted, self.answers, &left, &self.bad_block)
        if self.status != LS_OK:
            return BLOCK_ERROR
        return BLOCKS if left > 0 else NOTHING

    cdef Need go_on_to(self, size_t end) noexcept nogil:
        """Find the keys whose places are before `end`, or say what Python is needed for."""
        while self.until < self.length and self.taker.places[self.until] < end:
            self.until += 1
        return self.go_on()

    cdef bint any_evictable(self) noexcept nogil:
        """Whether a block of one of the files may go."""
        cdef size_t i
        cdef bint evictable = self.evictable
        for i in range(self.layer_count):
            evictable = evictable or (<Batch>self.layers[i]).evictable
        return evictable

    cdef bint begin_piece(self) noexcept nogil:
        """Start a piece, whose keys have the answers of runs; False: there is no memory for it."""
        cdef size_t rest = self.until - self.start
        cdef const uint32_t *places = self.taker.places
        cdef size_t i, length, limit
        if self.layer_count > 0 and rest > self.stretch - self.start:
            rest = self.stretch - self.start
        # Where blocks may go, each is looked at once for all its keys. A few keys that are left
        # over would wait for memory as long as many do.
        length = rest if self.any_evictable() or rest <= MOST_OF_PIECE else PIECE
        if length > self.room:
            self.wanted = length
            return False
        self.end = self.start + length
        if places == NULL:
            self.first = self.start
            memset(self.answers, 0, length * sizeof(ls_slice))
        else:  # some may be of an earlier reader of the file
            for i in range(self.start, self.end):
                memset(&self.answers[places[i]], 0, sizeof(ls_slice))
        if self.layer_count > 0:
            limit = self.end if places == NULL else <size_t>places[self.end - 1] + 1
            self.overlaid = ls_batch_put_answers(
                self.origins, self.found, self.candidate_count, &self.next, limit, self.first,
                &DELETED, self.answers, &self.gone) > 0
        self.begun = True
        return True

    cdef Need filter_piece(self) noexcept nogil:
        """Find out which keys of the piece may be there."""
        self.status = ls_batch_filter(
            self.filter, self.order, &self.column, self.taker.places, self.start, self.end,
            NULL if self.hashes == NULL else self.hashes + (self.start - self.stretch_start),
            self.items, &self.count, &self.bad_key)
        if self.status != LS_OK:
            return KEY_ERROR
        if self.filter != &NO_FILTER:
            self.negatives += self.end - self.start - self.count
        if self.overlaid:
            ls_batch_drop_answered(self.items, &self.count, self.first, self.answers)
        return NOTHING

    cdef Need route(self) noexcept nogil:
        """Find out in which blocks the items are."""
        self.status = ls_batch_route(
            self.fences, self.table.ready, &self.column, self.items, &self.count)
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
        cdef size_t i
        if self.gone or self.deleted != NULL:
            ls_batch_forget_deleted(
                self.taker.places, self.start, self.end, self.first, &DELETED, self.answers)
        if not self.taker.take(self.answers, self.start, length):
            return False
        missing = self.taker.missing - missing
        # Where nearly all keys are there, to ask the filter costs more than it saves.
        self.filter = &NO_FILTER if 8 * missing < length else self.file_filter
        self.unpin()
        self.routed = self.begun = False
        self.start = self.end
        if self.start == self.stretch:
            for i in range(self.layer_count):
                (<Batch>self.layers[i]).unpin()
                (<Batch>self.layers[i]).routed = False
        return True

    cdef int provide(self, Need need) except -1:
        cdef Batch run
        if self.asking:
            run = self.newer[self.layer]
            if need == MEMORY:
                run.make_room(run.wanted)
            else:
                run.provide(need)
        elif need == MEMORY:
            self.grow()
        elif need == STRETCH_MEMORY:
            self.grow_stretch()
        elif need == NO_MEMORY:
            raise MemoryError()
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
        """Make room for a piece and its answers."""
        cdef size_t rest = self.length - self.start
        cdef size_t length = max(self.wanted, min(rest, MOST_OF_PIECE))
        if self.wanted > MOST_OF_PIECE:
            length = rest
        self.make_room(length)
        self.room = 0
        if self.taker.whole != NULL:
            self.answers = self.taker.whole
        else:
            free(self.own)
            self.answers = self.own = <ls_slice *>malloc(length * sizeof(ls_slice))
        if self.answers == NULL:
            raise MemoryError()
        self.room = length
        return 0

    cdef int grow_stretch(self) except -1:
        """Make room for the candidates of a stretch, and the hashes of its keys."""
        cdef size_t length = max(self.wanted, <size_t>STRETCH)
        self.stretch_room = 0
        if length == <size_t>STRETCH and SPARES:
            self.scratch = SPARES.pop()
        else:
            self.scratch = Scratch(length)
        self.candidates = self.scratch.candidates
        self.hashes = NULL if self.taker.places != NULL else self.scratch.hashes
        self.stretch_room = length
        return 0

    cdef int make_room(self, size_t length) except -1:
        """Make room for the items of a piece."""
        free(self.items)
        self.room = 0
        self.items = <ls_batch_item *>malloc(length * sizeof(ls_batch_item))
        if self.items == NULL:
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
        cdef size_t size = ls_batch_stage_size(self.items, self.count, self.first, self.answers)
        arena = allocate(size + 1)
        self.arenas.append(arena)
        cdef uint8_t *bytes = <uint8_t *>buffer_data(arena)
        with nogil:
            ls_batch_stage(
                self.items, self.count, self.first, self.deleted, self.answers, bytes)
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
