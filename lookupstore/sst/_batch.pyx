"""Lookups of a batch of keys in the files of all buckets.

A batch passes the filters and finds its blocks and records without the GIL. Python is called for
blocks that are not ready, and for memory.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from lookupstore.sst._answers import Found, Values
from lookupstore.sst.shared import PlacesLostError

from lookupstore.arrow._binary cimport (
    LS_BAD_KEY, LS_OK, BinaryColumn, ls_column, ls_column_get, ls_slice, ls_status,
)
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._block cimport Block, check_key
from lookupstore.sst._changes cimport LS_CHANGES_RUNS
from lookupstore.sst._data_blocks cimport DataBlocks
from lookupstore.sst._filter cimport ls_filter
from lookupstore.sst._layer cimport (
    LS_SEARCHED,
    Asks,
    Filters,
    Layer,
    ls_batch_counts,
    ls_batch_files,
    ls_batch_item,
    ls_batch_search,
    ls_file_ranges,
)
from lookupstore.sst._lookup cimport Lookup
from lookupstore.sst._missing cimport MissingBlocks, keys_like
from lookupstore.sst._pages cimport read_ahead
from lookupstore.sst._making_places cimport after
from lookupstore.sst._stretch cimport KeyStretch
from lookupstore.sst._table cimport BlockTable


cdef extern from "ls_batch.h":
    ls_status ls_batch_filter_owned(
        const uint32_t *owners, const ls_file_ranges *ranges, const ls_filter *const *filters,
        const ls_batch_files *files, const ls_column *keys, const uint32_t *places, size_t start,
        size_t end, const uint64_t *hashes, ls_batch_item *items, size_t *count,
        ls_batch_counts *counts, size_t *bad) noexcept nogil
    void ls_batch_filter_items(
        const ls_filter *const *filters, const ls_batch_files *files, const ls_column *keys,
        ls_batch_item *items, size_t *count, ls_batch_counts *counts) noexcept nogil
    ls_status ls_batch_find(
        const ls_batch_files *files, const ls_column *keys, ls_batch_item *items, size_t *count,
        ls_batch_counts *counts, size_t first, const uint8_t *deleted, ls_slice *answers,
        size_t *bad, uint32_t *run, uint64_t *at) noexcept nogil
    ls_status ls_batch_route(
        const ls_batch_files *files, const ls_column *keys, ls_batch_item *items, size_t *count,
        ls_batch_counts *counts, size_t *bad) noexcept nogil
    void ls_batch_pin(
        const ls_batch_files *files, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_unpin(
        const ls_batch_files *files, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_drop_answered(
        ls_batch_item *items, size_t *count, size_t first, const ls_slice *answers) noexcept nogil
    void ls_batch_forget_deleted(
        const uint32_t *places, size_t start, size_t end, size_t first, const uint8_t *deleted,
        ls_slice *answers) noexcept nogil


# Maximum number of keys for which the system is not asked what is in memory after it was asked. In
# calls of few keys, they may be those of later calls: for ten keys, to ask takes half of the call,
# for a thousand a tenth.
cdef enum:
    MOST_UNASKED = 16 * PIECE
    MOST_UNASKED_LATER = 2 * PIECE

cdef uint8_t DELETED  # marks the answer at a tombstone until all files have been searched

cdef uint8_t CALLS = 0  # number of the last call, from 1 to 255 and then from 1 again


def values_at(Layer layer not None, BinaryColumn keys not None):
    """Return a large_binary array: row i answers key i, null if the files do not have it."""
    return answered(layer, keys, Values)


def contains(Layer layer not None, BinaryColumn keys not None):
    """Return a boolean array: row i is true if the files have key i."""
    return answered(layer, keys, Found)


cdef object answered(Layer layer, BinaryColumn keys, kind):
    """Return the array of answers in a receiver of a kind."""
    answers = kind(len(keys))
    try:
        answer(layer, keys, answers)
    except PlacesLostError:
        answers = kind(len(keys))
        answer(layer, keys, answers)
    return answers.array()


def answer(Layer layer not None, BinaryColumn keys not None, Answers answers not None, newer=(),
           Filters above=None):
    """Find keys in a layer, and pass their values to `answers`, which has room for all of them.

    `newer` are layers of runs of changes, the newest first: keys found there are not searched in
    this layer. All keys of these layers pass `above`, bucket by bucket.
    """
    cdef Batch batch = Batch(layer, keys, answers, newer, above)
    answers.begin(batch)
    batch.find()


cdef class Batch:
    """One batch of keys, looked up one piece after the other.

    If there are runs of changes that are newer than the files, the keys of a stretch of pieces that
    may be in a run are looked up in the runs first, all at once. Keys that no run has are then
    looked up in the files.
    """

    def __cinit__(
            self, Layer layer, BinaryColumn keys, Answers taker, newer=(), Filters above=None):
        cdef size_t length = keys.column.length, i
        if length > 0xFFFFFFFF:
            raise ValueError(f"{length} keys in one call; give at most 4294967295")
        self.may_read = layer.begin(length // layer.files.count)
        self.layer = layer = layer.current()
        self.tables = layer.tables
        global CALLS
        CALLS = self.call = CALLS % 255 + 1
        self.all_ready = layer.all_ready()
        self.all_placed = layer.all_placed(False)
        self.all_checked = layer.all_placed(True)
        self.files = &layer.files
        # A filter would rule out keys of changes that the file does not have.
        self.own_filters = layer.filters.each if layer.changes is None else NULL
        if taker.owners != NULL:  # filters have been tested
            self.own_filters = NULL
        elif layer.ranges is not None:
            if layer.ranges.count != 1 or newer:
                raise ValueError("ranges of one layer, without runs, choose the file of a key")
            self.ranges = &layer.ranges.each[0]
        self.filters = self.own_filters
        self.counts = <ls_batch_counts *>calloc(self.files.count, sizeof(ls_batch_counts))
        if self.counts == NULL:
            raise MemoryError()
        self.arenas = []
        taker.check_length(length)
        if taker.places != NULL:
            keys.hash()
        self.keys = keys
        self.column = keys.column
        self.deleted = &DELETED if layer.has_runs else NULL
        self.newer = [Batch(one, keys, taker) for one in newer]
        if self.newer:
            if above is None:
                above = Filters([None] * self.files.count)
            self.stretch = KeyStretch(above)
        self.layer_count = self.asked_layer = len(self.newer)
        self.layers = <void **>malloc((self.layer_count + 1) * sizeof(void *))
        if self.layers == NULL:
            raise MemoryError()
        for i in range(self.layer_count):
            self.layers[i] = <void *>self.newer[i]
        self.taker = taker
        self.length = taker.length

    cdef bint stays(self):
        """Return whether found values are in maps that may be kept without blocking any room."""
        cdef Batch run
        for run in self.newer:
            if not run.layer.stays():
                return False
        return self.layer.stays()

    def __dealloc__(self):
        free(self.counts)
        free(self.items)
        free(self.own)
        free(self.layers)

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
                for cache in run.layer.caches:
                    cache.trim()
        self.check_files()
        for run in [*self.newer, self]:
            run.count_asked()
        return 0

    cdef int check_files(self) except -1:
        """Raise if a searched file has changed since it was opened."""
        cdef Batch run
        cdef Lookup lookup
        cdef DataBlocks data
        cdef size_t i
        for run in self.newer:
            run.check_files()
        for i in range(self.files.count):
            lookup = self.layer.lookups[i]
            if self.counts[i].asked and lookup is not None:
                lookup.data.check_table(self.tables[i])
            if self.counts[i].changed:
                for data in self.layer.changes_of(i).runs:
                    data.check_file()
        return 0

    cdef int count_asked(self) except -1:
        """Add the numbers of searched keys to the counts of the files."""
        cdef Batch run
        cdef Lookup lookup
        cdef size_t i, keys
        for i in range(self.files.count):
            lookup = self.layer.lookups[i]
            if self.counts[i].asked and lookup is not None:
                lookup.filter_negatives += self.counts[i].ruled_out
                lookup.block_uses += self.counts[i].routed
                # A file with runs above it becomes hot as early as it would without them.
                keys = self.counts[i].routed
                for run in self.newer:
                    keys += run.counts[i].routed
                after(
                    lookup.data, keys, self.keys.column.length, self.files.count,
                    self.layer.places_fit, self.loaded)
        return 0

    cdef void unpin(self) noexcept nogil:
        if self.pinned > 0:
            ls_batch_unpin(self.files, self.items, self.pinned)
            self.pinned = 0

    cdef Need go_on(self) noexcept nogil:
        """Look up pieces until all are done, or Python is needed."""
        cdef Need need
        while self.start < self.length:
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
        """Look up the keys of a stretch in the runs of changes, the newest first."""
        cdef Need need
        if self.start == self.stretch.end:
            need = self.begin_stretch()
            if need != NOTHING:
                return need
        while self.asked_layer < self.layer_count:
            need = (<Batch>self.layers[self.asked_layer]).find_in_run(self.stretch)
            self.asking = need != NOTHING
            if self.asking:
                return need
            self.asked_layer += 1
        return NOTHING

    cdef Need begin_stretch(self) noexcept nogil:
        """Begin a stretch, before any of its keys is looked up in a run."""
        cdef size_t length = self.length - self.start
        # If blocks are missing, each block is searched once for all its keys.
        if length > self.stretch.most and not self.any_missing():
            length = self.stretch.most
        if length > self.stretch.room:
            self.wanted = length
            return STRETCH_MEMORY
        self.status = self.stretch.begin(
            self.files, &self.column, self.taker.places, self.start, length, &self.bad_key)
        if self.status != LS_OK:
            return KEY_ERROR
        if not self.stretch.take_keys(&self.column):
            return NO_MEMORY
        self.asked_layer = 0
        return NOTHING

    cdef Need find_in_run(self, KeyStretch stretch) noexcept nogil:
        """Find the candidates of a stretch of an older file that no newer run has."""
        cdef Need need
        if not self.routed:
            if stretch.count > self.room:
                self.wanted = stretch.count
                return MEMORY
            self.column, self.answers, self.count = stretch.keys, stretch.found, stretch.count
            if self.count > 0:  # without candidates, `items` may not be allocated
                memcpy(self.items, stretch.items, self.count * sizeof(ls_batch_item))
            self.count_ruled_out(stretch.ruled_out)
            ls_batch_filter_items(
                self.filters, self.files, &self.column, self.items, &self.count, self.counts)
            ls_batch_drop_answered(self.items, &self.count, self.first, self.answers)
            need = self.route()
            if need != NOTHING:
                return need
        return self.search()

    cdef void count_ruled_out(self, const ls_batch_counts *counts) noexcept nogil:
        """Count keys that a filter for all runs has ruled out."""
        cdef size_t i
        for i in range(self.files.count):
            if self.files.files[i].is_run and counts[i].asked:
                self.counts[i].ruled_out += counts[i].ruled_out
                self.counts[i].asked = True

    cdef Need search(self) noexcept nogil:
        """Search the blocks that are ready for the items of a piece."""
        cdef size_t left = 0
        self.status = ls_batch_search(
            self.files, &self.column, self.items, self.count, self.first, self.deleted,
            self.answers, &left, &self.bad_item)
        if self.status != LS_OK:
            return BLOCK_ERROR
        return BLOCKS if left > 0 else NOTHING

    cdef bint any_missing(self) noexcept nogil:
        """Return whether an evictable block of one of the files is not ready."""
        cdef size_t i
        cdef bint missing = not self.all_ready
        for i in range(self.layer_count):
            missing = missing or not (<Batch>self.layers[i]).all_ready
        return missing

    cdef bint begin_piece(self) noexcept nogil:
        """Begin a piece with the answers of runs to its keys; False: there is no memory for it."""
        cdef size_t rest = self.length - self.start
        cdef const uint32_t *places = self.taker.places
        cdef size_t i, length, limit
        if self.layer_count > 0 and rest > self.stretch.end - self.start:
            rest = self.stretch.end - self.start
        # If blocks are missing, each block is searched once for all its keys. A small rest of keys
        # is added to the piece, as it would wait for memory as long as many keys.
        length = rest if self.any_missing() or rest <= MOST_OF_PIECE else PIECE
        if length > self.room:
            self.wanted = length
            return False
        self.end = self.start + length
        if places == NULL:
            self.first = self.start
            memset(self.answers, 0, length * sizeof(ls_slice))
        else:  # some may be those of an earlier reader of the file
            for i in range(self.start, self.end):
                memset(&self.answers[places[i]], 0, sizeof(ls_slice))
        if self.layer_count > 0:
            limit = self.end if places == NULL else <size_t>places[self.end - 1] + 1
            self.overlaid = self.stretch.put_answers(
                limit, self.first, &DELETED, self.answers, &self.gone)
        self.begun = True
        return True

    cdef Need filter_piece(self) noexcept nogil:
        """Find the keys of the piece that may be in the files."""
        cdef const uint64_t *hashes = NULL
        if self.layer_count > 0 and self.stretch.hashes != NULL:
            hashes = self.stretch.hashes + (self.start - self.stretch.start)
        self.status = ls_batch_filter_owned(
            self.taker.owners, self.ranges, self.filters, self.files, &self.column,
            self.taker.places, self.start, self.end, hashes, self.items, &self.count, self.counts,
            &self.bad_key)
        if self.status != LS_OK:
            return KEY_ERROR
        if self.overlaid:
            ls_batch_drop_answered(self.items, &self.count, self.first, self.answers)
        return NOTHING

    cdef int read_whole(self) except -1 with gil:
        """Read files from the disk if the keys of the call need most of them."""
        cdef size_t keys = keys_like(self.count, self.end - self.start, self.length)
        return self.layer.read_whole(keys // self.files.count)

    cdef Need route(self) noexcept nogil:
        """Find items by their places, and find the blocks of the others."""
        cdef Asks *asks
        cdef int most_unasked
        if self.layer.has_places:
            if self.may_read:
                self.may_read = False
                self.read_whole()
            # Threads may count at the same time; then the system is asked earlier or later.
            if self.length <= PIECE:
                asks, most_unasked = &self.layer.asks, MOST_UNASKED_LATER
            else:
                asks, most_unasked = &self.asks, MOST_UNASKED
            if not read_ahead(self.files, self.items, self.count, asks, most_unasked):
                return NO_MEMORY
            self.status = ls_batch_find(
                self.files, &self.column, self.items, &self.count, self.counts, self.first,
                self.deleted, self.answers, &self.bad_item, &self.bad_run, &self.bad_record)
            if self.status != LS_OK:
                return PLACE_ERROR
        self.status = ls_batch_route(
            self.files, &self.column, self.items, &self.count, self.counts, &self.bad_item)
        if self.status != LS_OK:
            return INDEX_ERROR
        if self.layer.has_pins:
            ls_batch_pin(self.files, self.items, self.count)
            self.pinned = self.count
        self.routed = True
        return NOTHING

    cdef bint take(self) noexcept nogil:
        """Pass the answers of the piece to the receiver, and end it; False: it needs room."""
        cdef size_t length = self.end - self.start, missing = self.taker.missing
        cdef size_t i
        if self.gone or self.deleted != NULL:
            ls_batch_forget_deleted(
                self.taker.places, self.start, self.end, self.first, &DELETED, self.answers)
        if not self.taker.take(self.answers, self.start, length):
            return False
        missing = self.taker.missing - missing
        # If nearly all keys are in the files, asking the filter costs more than it saves, unless
        # missing keys are searched in blocks, which costs much more.
        self.filters = self.own_filters
        if missing == 0 or (8 * missing < length and self.all_checked):
            self.filters = NULL
        self.unpin()
        self.routed = self.begun = False
        self.start = self.end
        if self.layer_count > 0 and self.start == self.stretch.end:
            for i in range(self.layer_count):
                (<Batch>self.layers[i]).unpin()
                (<Batch>self.layers[i]).routed = False
        return True

    cdef int provide(self, Need need) except -1:
        cdef Batch run
        if self.asking:
            run = self.newer[self.asked_layer]
            if need == MEMORY:
                run.make_room(run.wanted)
            else:
                run.provide(need)
        elif need == MEMORY:
            self.grow()
        elif need == STRETCH_MEMORY:
            self.stretch.grow(self.wanted, self.files.count, self.taker.places != NULL)
        elif need == NO_MEMORY:
            raise MemoryError()
        elif need == BLOCKS:
            self.visit_missing()
        elif need == ANSWERS:
            self.taker.prepare(self.answers, self.start, self.end - self.start)
        elif need == KEY_ERROR:
            self.refuse()
        elif need == INDEX_ERROR:
            self.lookup_of(self.bad_item).check_index(self.status)
        elif need == PLACE_ERROR:
            self.refuse_place()
        else:
            self.refuse_block()
        return 0

    cdef Lookup lookup_of(self, size_t item):
        """Return the lookups of the file of an item."""
        return self.layer.lookups[self.items[item].file]

    cdef BlockTable table_of(self, size_t item):
        """Return the ready blocks of the file of an item."""
        return self.tables[self.items[item].file]

    cdef int refuse_place(self) except -1:
        """Raise the error of a record found by its place."""
        cdef DataBlocks data = self.lookup_of(self.bad_item).data
        cdef BlockTable table = self.table_of(self.bad_item)
        if self.bad_run != LS_CHANGES_RUNS:
            data = self.layer.changes_of(self.items[self.bad_item].file).runs[self.bad_run]
            table = data.file.blocks
        data.fail_at(table, self.bad_record, self.status)
        return 0

    cdef int refuse_block(self) except -1:
        """Raise the error of a block with invalid records."""
        cdef BlockTable table = self.table_of(self.bad_item)
        cdef Block block = table.block(self.items[self.bad_item].block & ~LS_SEARCHED)
        self.lookup_of(self.bad_item).data.check_file()
        block.fail(self.status, "records of the block")
        return 0

    cdef int grow(self) except -1:
        """Allocate memory for a piece and its answers."""
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

    cdef int make_room(self, size_t length) except -1:
        """Allocate memory for the items of a piece."""
        free(self.items)
        self.room = 0
        self.items = <ls_batch_item *>malloc(length * sizeof(ls_batch_item))
        if self.items == NULL:
            raise MemoryError()
        self.room = length
        return 0

    cdef int visit_missing(self) except -1:
        """Look up the items whose blocks are not ready."""
        cdef MissingBlocks missing = MissingBlocks(
            self.layer, self.tables, self.arenas, self.call, self.length, self.end - self.start)
        self.loaded = True
        # The rest of the keys is looked up at once, unless few of them need blocks: those that
        # unchecked places do not have.
        self.all_ready = self.all_ready and self.all_placed
        missing.keys, missing.answers = &self.column, self.answers
        missing.first, missing.deleted = self.first, self.deleted
        missing.take(self.items, &self.count)
        self.pinned = self.count
        return missing.visit()

    cdef int refuse(self) except -1:
        cdef ls_slice key
        if self.status == LS_BAD_KEY:
            ls_column_get(&self.keys.column, self.bad_key, &key)
            check_key(self.files.order, key, f"keys[{self.bad_key}]")
        raise ValueError(f"keys[{self.bad_key}]: the Arrow offsets point outside their data buffer")
