"""Lookups of a batch of keys in the files of all buckets.

A batch passes the filters and finds its blocks and records without the GIL. Python is called for
blocks that are not ready, and for memory.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import threading

from lookupstore.memory_limit import memory_limit
from lookupstore.processors import processors
from lookupstore.sst._answers import Found, Values
from lookupstore.sst.shared import PlacesLostError

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
from lookupstore.sst._block cimport LS_ORDER_BYTES, Block, check_key, ls_block
from lookupstore.sst._changes cimport LS_CHANGES_RUNS, Changes
from lookupstore.sst._filter cimport LS_FILTER_NONE, Filter, ls_filter
from lookupstore.sst._lookup cimport GROUP, Lookup, ls_fences
from lookupstore.sst._table cimport PART_OF_MEMORY, BlockTable, ls_ready, places_size


cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <sys/mman.h>
    #include <unistd.h>

    static uintptr_t lookupstore_page_of(const uint8_t *at) {
        return (uintptr_t)at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    }

    /* Whether the pages of all addresses are in memory, as far as the system knows. */
    static int lookupstore_resident(const uint8_t *const *at, size_t count) {
    #ifdef __linux__
        for (size_t i = 0; i < count; i++) {
            unsigned char is_there = 1;
            if (mincore((void *)lookupstore_page_of(at[i]), 1, &is_there) == 0 && !(is_there & 1))
                return 0;
        }
    #endif
        return 1;
    }

    /* Asks the system to read the pages of addresses, without waiting. */
    static void lookupstore_ahead(const uint8_t *const *at, size_t count) {
        uintptr_t last = 0, page;
        for (size_t i = 0; i < count; i++) {
            page = lookupstore_page_of(at[i]);
            /* A record may end on the next page. */
            if (page != last)
                madvise((void *)page, (uintptr_t)at[i] + 256 - page, MADV_WILLNEED);
            last = page;
        }
    }
    """
    int lookupstore_resident(const uint8_t **at, size_t count)
    void lookupstore_ahead(const uint8_t **at, size_t count)


cdef extern from "ls_hash.h":
    ls_status ls_hash_column(
        const ls_column *keys, size_t start, size_t end, uint64_t *hashes,
        size_t *bad) noexcept nogil


cdef extern from "ls_batch.h":
    ls_status ls_batch_filter(
        const ls_filter *const *filters, const ls_batch_files *files, const ls_column *keys,
        const uint32_t *places, size_t start, size_t end, const uint64_t *hashes,
        ls_batch_item *items, size_t *count, ls_batch_counts *counts, size_t *bad) noexcept nogil
    size_t ls_batch_key_bytes(
        const ls_column *keys, const ls_batch_item *items, size_t count) noexcept nogil
    void ls_batch_take_keys(
        const ls_column *keys, ls_batch_item *items, size_t count, uint8_t *data,
        int64_t *offsets, uint32_t *origins, ls_column *taken) noexcept nogil
    size_t ls_batch_put_answers(
        const uint32_t *origins, const ls_slice *found, size_t count, size_t *next, size_t limit,
        size_t first, const uint8_t *deleted, ls_slice *answers, int *gone) noexcept nogil
    void ls_batch_filter_items(
        const ls_filter *const *filters, const ls_batch_files *files, const ls_column *keys,
        ls_batch_item *items, size_t *count, ls_batch_counts *counts) noexcept nogil
    size_t ls_batch_buckets_at(
        const ls_batch_files *files, const ls_batch_item *items, size_t count, size_t step,
        const uint8_t **at) noexcept nogil
    size_t ls_batch_records_at(
        const ls_batch_files *files, const ls_batch_item *items, size_t count, size_t step,
        const uint8_t **at) noexcept nogil
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
    size_t ls_batch_take_missing(
        const ls_batch_files *files, ls_batch_item *items, size_t *count, uint32_t *starts,
        size_t blocks, ls_batch_item *taken) noexcept nogil
    void ls_batch_drop_answered(
        ls_batch_item *items, size_t *count, size_t first, const ls_slice *answers) noexcept nogil
    void ls_batch_forget_deleted(
        const uint32_t *places, size_t start, size_t end, size_t first, const uint8_t *deleted,
        ls_slice *answers) noexcept nogil
    ls_status ls_batch_search(
        const ls_batch_files *files, const ls_column *keys, ls_batch_item *items, size_t count,
        size_t first, const uint8_t *deleted, ls_slice *answers, size_t *left,
        size_t *bad) noexcept nogil
    size_t ls_batch_stage_size(
        const ls_batch_item *items, size_t count, size_t first,
        const ls_slice *answers) noexcept nogil
    void ls_batch_stage(
        const ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
        ls_slice *answers, uint8_t *arena) noexcept nogil
    uint32_t LS_SEARCHED


# Maximum number of threads in which a call searches compressed blocks, if there is a group of
# blocks for each: more would wait for each other, since a quarter of the work needs the GIL.
cdef size_t MOST_THREADS = min(4, processors())

# Index and fences of a bucket without a file: those of a file without keys.
cdef ls_block NO_INDEX
cdef ls_fences NO_FENCES
NO_FENCES.index = &NO_INDEX
cdef object NOTHING_PASSES = Filter("words", bytes(32))
cdef object ALL_PASS = Filter("none")

# PROBES: number of keys of a piece for which the system is asked whether their data is in memory.
# MOST_UNASKED: maximum number of following pieces for which it is then not asked. Of pieces of up
# to FEW_KEYS, these may be pieces of later calls: for ten keys, to ask takes half of the call.
cdef enum:
    PROBES = 4
    MOST_UNASKED = 16
    FEW_KEYS = 128

cdef uint8_t DELETED  # marks the answer at a tombstone until all files have been searched


cdef class Scratch:
    """Memory for the keys of a stretch."""

    def __cinit__(self, size_t length):
        self.length = length
        self.candidates = <ls_batch_item *>malloc(length * sizeof(ls_batch_item))
        self.hashes = <uint64_t *>malloc(length * sizeof(uint64_t))
        if self.candidates == NULL or self.hashes == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.candidates)
        free(self.hashes)


# Memory of batches that have ended, kept for reuse. Memory of this size would be returned to the
# system and cleared again, which takes as long as all other work for runs of changes.
cdef list SPARES = []
cdef size_t MOST_SPARES = 2

cdef uint8_t CALLS = 0  # number of the last call, from 1 to 255 and then from 1 again


@cython.final
cdef class Filters:
    """A filter for each bucket; None stands for a filter that all keys pass."""

    def __cinit__(self, filters):
        cdef Filter one
        cdef size_t i
        self.owners = [ALL_PASS if filter is None else filter for filter in filters]
        self.each = <const ls_filter **>malloc((len(self.owners) + 1) * sizeof(ls_filter *))
        if self.each == NULL:
            raise MemoryError()
        for i, one in enumerate(self.owners):
            self.each[i] = &one.filter
            self.has_gaps = self.has_gaps or one.filter.kind == LS_FILTER_NONE

    def __dealloc__(self):
        free(self.each)


@cython.final
cdef class Layer:
    """Files that are searched together: one or none of each bucket.

    A key is looked up in the file of its bucket, the XXH64 of its bytes modulo the number of files.
    `lookups` has None for a bucket without a file. `runs` are the buckets whose files are runs of
    changes. `changes` are the changes of the runs above each file, or None if there are no such
    runs or other layers contain them.
    """

    def __cinit__(self, tuple lookups not None, runs=frozenset(), changes=None):
        cdef Lookup lookup
        cdef Changes above
        cdef BlockTable table
        cdef ls_batch_file *file
        cdef size_t i, count = len(lookups), places_bytes = 0
        if not 1 <= count <= 0xFFFFFFFF:
            raise ValueError(f"{count} files; give 1 or more")
        self.lookups, self.runs, self.changes = lookups, runs, changes
        self.tables = [None] * count
        self.each = <ls_batch_file *>calloc(count, sizeof(ls_batch_file))
        if self.each == NULL:
            raise MemoryError()
        self.files.files = self.each
        self.files.count = <uint32_t>count
        self.files.order = LS_ORDER_BYTES
        filters, self.caches = [], []
        for i in range(count):
            file = &self.each[i]
            lookup = lookups[i]
            file.first = self.blocks
            file.fences = &NO_FENCES
            if lookup is None:
                filters.append(NOTHING_PASSES)
                continue
            if count > 1 and lookup.index.order != LS_ORDER_BYTES:
                raise ValueError("files of several buckets have keys in the order of their bytes")
            self.files.order = lookup.index.order
            filters.append(lookup.filter)
            file.fences = &lookup.fences
            table = self.tables[i] = lookup.file.blocks
            file.ready = table.ready
            if table.places is not None:
                file.places = &table.places.places
                self.has_places = True
            if changes is not None and changes[i] is not None:
                above = changes[i]
                file.changes = &above.changes
            file.pins = table.pins
            file.used = table.used
            file.blocks = <uint32_t>table.count
            file.is_run = i in runs
            self.has_runs = self.has_runs or file.is_run
            self.blocks += table.count
            places_bytes += places_size(lookup.records)
            self.has_pins = self.has_pins or file.pins != NULL
            if table.cache is not None and table.cache not in self.caches:
                self.caches.append(table.cache)
        self.filters = Filters(filters)
        self.places_fit = PART_OF_MEMORY * places_bytes <= <size_t>memory_limit()

    def __dealloc__(self):
        free(self.each)

    cdef Layer current(self):
        """Return this layer, or its successor if slots of its files have moved since."""
        cdef Layer layer = self if self.newest is None else self.newest
        cdef Lookup lookup
        cdef size_t i
        for i in range(layer.files.count):
            lookup = layer.lookups[i]
            if lookup is not None and lookup.file.blocks is not layer.tables[i]:
                self.newest = Layer(self.lookups, self.runs, self.changes)
                layer.tables = None  # batches that began with this layer hold the tables, too
                return self.newest
        return layer

    cdef bint all_ready(self):
        """Return whether all evictable blocks are ready."""
        cdef BlockTable table
        if not self.has_pins:
            return True
        for table in self.tables:
            if table is not None and table.pins != NULL and table.ready_blocks < table.count:
                return False
        return True

    cdef bint stays(self):
        """Return whether found values are in maps that may be kept without blocking any room."""
        cdef Lookup lookup
        cdef Changes above
        for lookup in self.lookups:
            if lookup is not None and not lookup.stays():
                return False
        for above in self.changes or ():
            for lookup in () if above is None else above.runs:
                if not lookup.stays():
                    return False
        return True


def values_at(Lookup lookup not None, BinaryColumn keys not None):
    """Return a large_binary array: row i answers key i, null if the file does not have it."""
    return answered(lookup, keys, Values)


def contains(Lookup lookup not None, BinaryColumn keys not None):
    """Return a boolean array: row i is true if the file has key i."""
    return answered(lookup, keys, Found)


cdef object answered(Lookup lookup, BinaryColumn keys, kind):
    """Return the array of answers in a receiver of a kind."""
    answers = kind(len(keys))
    try:
        answer(Layer((lookup,)), keys, answers)
    except PlacesLostError:
        answers = kind(len(keys))
        answer(Layer((lookup,)), keys, answers)
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


cdef class Part:
    """Items of one file that are looked up by a separate thread."""

    def __cinit__(self, Batch batch not None):
        self.batch = batch

    cdef int begin(self) except -1:
        """Begin to look them up; if no thread can be started, `end` looks them up."""
        thread = threading.Thread(target=self.visit, name="lookupstore-visit", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return 0
        self.thread = thread
        return 0

    def visit(self):
        """Look them up, and keep any exception for `end`."""
        try:
            self.batch.visit_items(self.items, self.count)
        except BaseException as error:
            self.error = error

    cdef int wait(self) except -1:
        """Wait for the thread, even if the wait is interrupted."""
        while self.thread is not None and self.thread.is_alive():
            try:
                self.thread.join()
            except BaseException as error:
                self.error = error
        return 0

    cdef int end(self) except -1:
        """Raise the exception of `visit`, if there was one."""
        if self.error is not None:
            raise self.error
        if self.thread is None:
            self.batch.visit_items(self.items, self.count)
        return 0


cdef class Batch:
    """One batch of keys, looked up one piece after the other.

    If there are runs of changes that are newer than the files, the keys of a stretch of pieces that
    may be in a run are looked up in the runs first, all at once. Keys that no run has are then
    looked up in the files.
    """

    def __cinit__(
            self, Layer layer, BinaryColumn keys, Answers taker, newer=(), Filters above=None):
        cdef size_t length = keys.column.length, i
        cdef Lookup lookup
        if length > 0xFFFFFFFF:
            raise ValueError(f"{length} keys in one call; give at most 4294967295")
        for lookup in layer.lookups:
            if lookup is not None and not lookup.file.settled:
                lookup.file.seek(length // layer.files.count, lookup.map)
            if lookup is not None and lookup.may_read(length // layer.files.count):
                self.may_read = True
        self.layer = layer = layer.current()
        self.tables = layer.tables
        global CALLS
        CALLS = self.call = CALLS % 255 + 1
        self.all_ready = layer.all_ready()
        self.files = &layer.files
        # A filter would rule out keys of changes that the file does not have.
        self.own_filters = layer.filters.each if layer.changes is None else NULL
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
        self.above = Filters([None] * self.files.count) if newer and above is None else above
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
        free(self.ruled_out)
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
        cdef size_t i
        for run in self.newer:
            run.check_files()
        for i in range(self.files.count):
            lookup = self.layer.lookups[i]
            if self.counts[i].asked and lookup is not None:
                lookup.check_table(self.tables[i])
            if self.counts[i].changed:
                for lookup in self.changes_of(i).runs:
                    lookup.check_file()
        return 0

    cdef Changes changes_of(self, size_t file):
        """Return the changes above a file that has changes above it."""
        return self.layer.changes[file]

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
                lookup.after(
                    keys, self.keys.column.length, self.files.count, self.layer.places_fit,
                    self.loaded)
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
        if self.start == self.stretch:
            need = self.begin_stretch()
            if need != NOTHING:
                return need
        while self.asked_layer < self.layer_count:
            need = (<Batch>self.layers[self.asked_layer]).find_in_run(self)
            self.asking = need != NOTHING
            if self.asking:
                return need
            self.asked_layer += 1
        return NOTHING

    cdef Need begin_stretch(self) noexcept nogil:
        """Begin a stretch, before any of its keys is looked up in a run."""
        cdef size_t most = STRETCH_UNFILTERED if self.above.has_gaps else STRETCH
        cdef size_t length = self.length - self.start
        # If blocks are missing, each block is searched once for all its keys.
        if length > most and not self.any_missing():
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
        memset(self.ruled_out, 0, self.files.count * sizeof(ls_batch_counts))
        self.status = ls_batch_filter(
            self.above.each, self.files, &self.column, self.taker.places, self.start,
            self.start + length, self.hashes, self.candidates, &self.candidate_count,
            self.ruled_out, &self.bad_key)
        if self.status != LS_OK:
            return KEY_ERROR
        if not self.take_candidates():
            return NO_MEMORY
        self.stretch_start, self.stretch = self.start, self.start + length
        self.asked_layer = self.next = 0
        return NOTHING

    cdef bint take_candidates(self) noexcept nogil:
        """Copy the keys that may be in a run, and allocate their answers; False: no memory."""
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
        """Find the keys of a stretch of an older file that no newer run has."""
        cdef Need need
        if not self.routed:
            if older.candidate_count > self.room:
                self.wanted = older.candidate_count
                return MEMORY
            self.column, self.answers = older.candidate_keys, older.found
            self.count = older.candidate_count
            if self.count > 0:  # without candidates, `items` may not be allocated
                memcpy(self.items, older.candidates, self.count * sizeof(ls_batch_item))
            self.count_ruled_out(older.ruled_out)
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
        if self.layer_count > 0 and rest > self.stretch - self.start:
            rest = self.stretch - self.start
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
            self.overlaid = ls_batch_put_answers(
                self.origins, self.found, self.candidate_count, &self.next, limit, self.first,
                &DELETED, self.answers, &self.gone) > 0
        self.begun = True
        return True

    cdef Need filter_piece(self) noexcept nogil:
        """Find the keys of the piece that may be in the files."""
        self.status = ls_batch_filter(
            self.filters, self.files, &self.column, self.taker.places, self.start, self.end,
            NULL if self.hashes == NULL else self.hashes + (self.start - self.stretch_start),
            self.items, &self.count, self.counts, &self.bad_key)
        if self.status != LS_OK:
            return KEY_ERROR
        if self.overlaid:
            ls_batch_drop_answered(self.items, &self.count, self.first, self.answers)
        return NOTHING

    cdef bint read_ahead(self) noexcept nogil:
        """Request the places and records of the items from the disk, unless they are in memory.

        Otherwise lookups wait for the disk once for each item. False: there is no memory for it.
        """
        cdef const uint8_t *some[PROBES]
        cdef const uint8_t **every
        cdef size_t step = self.count // PROBES + 1, count
        # Threads may count at the same time; then the system is asked earlier or later.
        cdef Asks *asks = &self.layer.asks if self.count <= FEW_KEYS else &self.asks
        if asks.unasked > 0:
            asks.unasked -= 1
            return True
        count = ls_batch_buckets_at(self.files, self.items, self.count, step, some)
        if lookupstore_resident(some, count):
            count = ls_batch_records_at(self.files, self.items, self.count, step, some)
            if lookupstore_resident(some, count):
                asks.apart = min(2 * asks.apart + 1, <int>MOST_UNASKED)
                asks.unasked = asks.apart
                return True
        asks.apart = 0
        every = <const uint8_t **>malloc(self.count * sizeof(const uint8_t *))
        if every == NULL:
            return False
        count = ls_batch_buckets_at(self.files, self.items, self.count, 1, every)
        lookupstore_ahead(every, count)
        count = ls_batch_records_at(self.files, self.items, self.count, 1, every)
        lookupstore_ahead(every, count)
        free(every)
        return True

    cdef size_t keys_like(self, size_t count) noexcept nogil:
        """Return `count`, a number of keys of the piece, scaled to all keys of the call."""
        cdef size_t piece = self.end - self.start
        return count if piece == 0 else <size_t>(<double>self.length * count / piece)

    cdef int read_whole(self) except -1 with gil:
        """Read files from the disk if the keys of the call need most of them."""
        cdef Lookup lookup
        for lookup in self.layer.lookups:
            if lookup is not None:
                lookup.read_whole(self.keys_like(self.count) // self.files.count)
        return 0

    cdef Need route(self) noexcept nogil:
        """Find items by their places, and find the blocks of the others."""
        if self.layer.has_places:
            if self.may_read:
                self.may_read = False
                self.read_whole()
            if not self.read_ahead():
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
        # If nearly all keys are in the files, asking the filter costs more than it saves.
        self.filters = NULL if 8 * missing < length else self.own_filters
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
            run = self.newer[self.asked_layer]
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
        cdef Lookup lookup = self.lookup_of(self.bad_item)
        cdef BlockTable table = self.table_of(self.bad_item)
        if self.bad_run != LS_CHANGES_RUNS:
            lookup = self.changes_of(self.items[self.bad_item].file).runs[self.bad_run]
            table = lookup.file.blocks
        lookup.fail_at(table, self.bad_record, self.status)
        return 0

    cdef int refuse_block(self) except -1:
        """Raise the error of a block with invalid records."""
        cdef Lookup lookup = self.lookup_of(self.bad_item)
        cdef BlockTable table = self.table_of(self.bad_item)
        cdef Block block = table.block(self.items[self.bad_item].block & ~LS_SEARCHED)
        lookup.check_file()
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

    cdef int grow_stretch(self) except -1:
        """Allocate memory for the candidates of a stretch, and the hashes of its keys."""
        cdef size_t length = max(self.wanted, <size_t>STRETCH)
        self.stretch_room = 0
        if length == <size_t>STRETCH and SPARES:
            self.scratch = SPARES.pop()
        else:
            self.scratch = Scratch(length)
        self.candidates = self.scratch.candidates
        self.hashes = NULL if self.taker.places != NULL else self.scratch.hashes
        if self.ruled_out == NULL:
            self.ruled_out = <ls_batch_counts *>calloc(self.files.count, sizeof(ls_batch_counts))
            if self.ruled_out == NULL:
                raise MemoryError()
        self.stretch_room = length
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
        """Look up the items whose blocks are not ready, file by file, in the order of each file.

        Each block is read once for all its keys. Values found in a decoded block are copied, and
        the block is freed unless the cache keeps it.
        """
        self.loaded = True
        self.all_ready = False  # the rest of the keys is looked up at once
        cdef size_t blocks = self.layer.blocks, missing, at = 0, end
        cdef uint32_t *starts = <uint32_t *>calloc(blocks + 1, sizeof(uint32_t))
        cdef ls_batch_item *taken = <ls_batch_item *>malloc(
            (self.count + 1) * sizeof(ls_batch_item))
        try:
            if starts == NULL or taken == NULL:
                raise MemoryError()
            with nogil:
                missing = ls_batch_take_missing(
                    self.files, self.items, &self.count, starts, blocks, taken)
            self.pinned = self.count
            while at < missing:
                end = at
                while end < missing and taken[end].file == taken[at].file:
                    end += 1
                self.visit_file(taken + at, end - at)
                at = end
        finally:
            free(starts)
            free(taken)
        return 0

    cdef int visit_file(self, ls_batch_item *items, size_t count) except -1:
        """Look up items of one file whose blocks are not ready, in threads if many are compressed.

        Most of the work for such a block is done without the GIL: zstd, slots, search and copies.
        """
        cdef Lookup lookup = self.layer.lookups[items[0].file]
        cdef size_t blocks = 1, start = 0, end, threads, i
        cdef Part part
        cdef list parts = []
        for i in range(1, count):
            blocks += items[i].block != items[i - 1].block
        lookup.read_whole(self.keys_like(count))
        if lookup.fill is not None:
            lookup.fill([
                items[i].block for i in range(count)
                if i == 0 or items[i].block != items[i - 1].block
            ])
        threads = 1
        if lookup.frames is not None:
            threads = min(MOST_THREADS, blocks // GROUP)
        for i in range(1, threads):
            end = max(start + 1, count * i // threads)
            while end < count and items[end].block == items[end - 1].block:
                end += 1
            if end < count:
                part = Part(self)
                part.items, part.count = items + start, end - start
                parts.append(part)
                start = end
        try:
            for part in parts:
                part.begin()
            self.visit_items(items + start, count - start)
        finally:
            # The items must stay while a thread looks them up.
            for part in parts:
                part.wait()
        for part in parts:
            part.end()
        return 0

    cdef int visit_items(self, ls_batch_item *items, size_t count) except -1:
        """Look up items of one file whose blocks are not ready, in the order of the blocks."""
        cdef uint32_t numbers[GROUP]
        cdef uint32_t uses[GROUP]
        cdef ls_ready ready[GROUP]
        cdef size_t at = 0, end, next, left, bad = 0, blocks, done, asked = 0, ahead = 0
        cdef ls_status status
        cdef list owners
        cdef uint32_t number = items[0].file
        cdef Lookup lookup = self.layer.lookups[number]
        cdef BlockTable table = self.tables[number]
        cdef ls_batch_file file = self.files.files[number]
        cdef ls_batch_files group
        file.ready, file.pins = ready, NULL
        group.files, group.count, group.order = &file, 1, self.files.order
        while at < count:
            # The disk reads the next blocks while these are searched.
            while asked < count and ahead < <size_t>GROUP:
                blocks = 0
                while asked < count and blocks < <size_t>GROUP:
                    if blocks == 0 or items[asked].block != numbers[blocks - 1]:
                        numbers[blocks] = items[asked].block
                        blocks += 1
                    asked += 1
                while asked < count and items[asked].block == numbers[blocks - 1]:
                    asked += 1
                lookup.ahead(numbers, blocks)
                ahead += blocks
            blocks, end = 0, at
            while end < count and blocks < <size_t>GROUP:
                if blocks == 0 or items[end].block != numbers[blocks - 1]:
                    numbers[blocks] = items[end].block
                    uses[blocks] = 0
                    blocks += 1
                uses[blocks - 1] += 1
                end += 1
            owners = []
            done = lookup.visit_some(table, numbers, uses, blocks, self.call, ready, owners)
            ahead -= min(ahead, done)
            # From here on, the block numbers of these items are those in the group.
            end, next = at, 0
            while end < count:
                if items[end].block != numbers[next]:
                    next += 1
                    if next == done or items[end].block != numbers[next]:
                        break
                items[end].block = next
                items[end].file = 0
                end += 1
            with nogil:
                status = ls_batch_search(
                    &group, &self.column, items + at, end - at, self.first, self.deleted,
                    self.answers, &left, &bad)
            if status != LS_OK:
                lookup.check_file()
                (<Block>lookup.load(numbers[items[at + bad].block & ~LS_SEARCHED])).fail(
                    status, "records of the block")
            if table.cache is not None:
                self.stage(items + at, end - at)
            at = end
        return 0

    cdef int stage(self, ls_batch_item *items, size_t count) except -1:
        """Copy the values found so far, so that their blocks may be freed."""
        cdef size_t size = ls_batch_stage_size(items, count, self.first, self.answers)
        arena = allocate(size + 1)
        self.arenas.append(arena)
        cdef uint8_t *bytes = <uint8_t *>buffer_data(arena)
        with nogil:
            ls_batch_stage(items, count, self.first, self.deleted, self.answers, bytes)
        return 0

    cdef int refuse(self) except -1:
        cdef ls_slice key
        if self.status == LS_BAD_KEY:
            ls_column_get(&self.keys.column, self.bad_key, &key)
            check_key(self.files.order, key, f"keys[{self.bad_key}]")
        raise ValueError(f"keys[{self.bad_key}]: the Arrow offsets point outside their data buffer")
