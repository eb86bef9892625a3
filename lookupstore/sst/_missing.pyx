"""Lookups in blocks that are not ready: each block is read once for all keys of a piece."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc

import threading

from lookupstore.processors import processors

from lookupstore.arrow._binary cimport LS_OK, allocate, buffer_data, ls_slice, ls_status
from lookupstore.sst._block cimport Block
from lookupstore.sst._data_blocks cimport GROUP, DataBlocks
from lookupstore.sst._layer cimport (
    LS_SEARCHED,
    Layer,
    ls_batch_file,
    ls_batch_files,
    ls_batch_item,
    ls_batch_search,
)
from lookupstore.sst._lookup cimport Lookup
from lookupstore.sst._table cimport BlockTable, ls_ready


cdef extern from "ls_batch.h":
    size_t ls_batch_take_missing(
        const ls_batch_files *files, ls_batch_item *items, size_t *count, uint32_t *starts,
        size_t blocks, ls_batch_item *taken) noexcept nogil
    size_t ls_batch_stage_size(
        const ls_batch_item *items, size_t count, size_t first,
        const ls_slice *answers) noexcept nogil
    void ls_batch_stage(
        const ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
        ls_slice *answers, uint8_t *arena) noexcept nogil


# Greatest number of items that are sorted by moving them: the usual way needs a pass over a number
# for each block of the files.
cdef enum:
    FEW_ITEMS = 32

# Maximum number of threads in which a call searches compressed blocks, if there is a group of
# blocks for each: more would wait for each other, since a quarter of the work needs the GIL.
cdef size_t MOST_THREADS = min(4, processors())


cdef class Part:
    """Items of one file that are looked up by a separate thread."""

    def __cinit__(self, MissingBlocks missing not None):
        self.missing = missing

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
            self.missing.visit_items(self.items, self.count)
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
            self.missing.visit_items(self.items, self.count)
        return 0


cdef class MissingBlocks:
    """Items of a piece whose blocks are not ready, and the search of these blocks, file by file.

    Values found in a decoded block are copied, and the block is freed unless the cache keeps it.
    `keys`, `first`, `deleted` and `answers` are those of the batch; `arenas` gets the copies.
    """

    def __cinit__(
            self, Layer layer not None, list tables not None, list arenas not None, uint8_t call,
            size_t length, size_t piece):
        self.layer, self.tables, self.arenas = layer, tables, arenas
        self.call, self.length, self.piece = call, length, piece

    def __dealloc__(self):
        free(self.items)

    cdef int take(self, ls_batch_item *items, size_t *count) except -1:
        """Take the items that have not been searched from those of a piece."""
        cdef size_t blocks = self.layer.blocks
        cdef uint32_t *starts = NULL
        cdef bint few = count[0] <= FEW_ITEMS
        if not few:
            starts = <uint32_t *>calloc(blocks + 1, sizeof(uint32_t))
        self.items = <ls_batch_item *>malloc((count[0] + 1) * sizeof(ls_batch_item))
        try:
            if (starts == NULL and not few) or self.items == NULL:
                raise MemoryError()
            with nogil:
                self.count = ls_batch_take_missing(
                    &self.layer.files, items, count, starts, blocks, self.items)
        finally:
            free(starts)
        return 0

    cdef int visit(self) except -1:
        """Look up the items, file by file, in the order of each file."""
        cdef size_t at = 0, end
        while at < self.count:
            end = at
            while end < self.count and self.items[end].file == self.items[at].file:
                end += 1
            self.visit_file(self.items + at, end - at)
            at = end
        return 0

    cdef int visit_file(self, ls_batch_item *items, size_t count) except -1:
        """Look up items of one file whose blocks are not ready, in threads if many are compressed.

        Most of the work for such a block is done without the GIL: zstd, slots, search and copies.
        """
        cdef DataBlocks data = (<Lookup>self.layer.lookups[items[0].file]).data
        cdef size_t blocks = 1, start = 0, end, threads, i
        cdef Part part
        cdef list parts = []
        for i in range(1, count):
            blocks += items[i].block != items[i - 1].block
        data.read_whole(keys_like(count, self.piece, self.length))
        if data.fill is not None:
            data.fill([
                items[i].block for i in range(count)
                if i == 0 or items[i].block != items[i - 1].block
            ])
        threads = 1
        if data.frames is not None:
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
        cdef DataBlocks data = (<Lookup>self.layer.lookups[number]).data
        cdef BlockTable table = self.tables[number]
        cdef ls_batch_file file = self.layer.each[number]
        cdef ls_batch_files group
        file.ready, file.pins = ready, NULL
        group.files, group.count, group.order = &file, 1, self.layer.files.order
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
                data.ahead(numbers, blocks)
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
            done = data.visit_some(table, numbers, uses, blocks, self.call, ready, owners)
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
                    &group, self.keys, items + at, end - at, self.first, self.deleted,
                    self.answers, &left, &bad)
            if status != LS_OK:
                data.check_file()
                (<Block>data.load(numbers[items[at + bad].block & ~LS_SEARCHED])).fail(
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
