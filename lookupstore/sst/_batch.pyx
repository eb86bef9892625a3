"""A batch of keys against one file.

The keys are tested against the filter, sorted, and merged into the index and the blocks, all
without the GIL; Python is entered once for a group of blocks that must be decoded.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import pyarrow as pa

from lookupstore._arrow cimport (
    LS_BAD_KEY,
    LS_OK,
    BinaryColumn,
    buffer_data,
    ls_column,
    ls_column_get,
    ls_column_is_valid,
    ls_slice,
    ls_status,
)
from lookupstore.sst._block cimport LS_ORDER_BYTES, Block, check_key, ls_block, ls_order
from lookupstore.sst._filter cimport Filter, ls_filter, ls_sort_item


cdef extern from "ls_sort.h":
    ls_status ls_sort_prefixes(
        ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
        size_t *bad) noexcept nogil
    void ls_sort_keys(
        ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
        ls_sort_item *scratch) noexcept nogil


cdef extern from "ls_filter.h":
    ls_status ls_filter_test_items(
        const ls_filter *filter, const ls_column *keys, ls_sort_item *items, size_t *count,
        size_t *bad) noexcept nogil


cdef extern from "ls_batch.h":
    ls_status ls_batch_route(
        const ls_block *index, ls_order order, int repeats, const ls_column *keys,
        ls_sort_item *items, size_t count) noexcept nogil
    ls_status ls_batch_search(
        const ls_block *block, ls_order order, int repeats, const ls_column *keys,
        const ls_sort_item *items, size_t count, ls_slice *answers) noexcept nogil
    size_t ls_batch_size(const ls_slice *answers, size_t count) noexcept nogil
    size_t ls_batch_gather(
        const ls_slice *answers, size_t count, int64_t *offsets, uint8_t *validity,
        uint8_t *data) noexcept nogil
    size_t ls_batch_stage_size(
        const ls_sort_item *items, size_t count, const ls_slice *answers) noexcept nogil
    size_t ls_batch_stage(
        const ls_sort_item *items, size_t count, ls_slice *answers, uint8_t *arena) noexcept nogil
    void ls_batch_found(const ls_slice *answers, size_t count, uint8_t *bitmap) noexcept nogil


# Blocks decoded at one time for one call, in bytes: what a call may hold beside its answers.
GROUP_BYTES = 32 << 20


cdef class Batch:
    """Answer one batch of keys: `search` finds them all, then `values` or `found` gives them out.

    `load(number)` gives the decoded Block of that number; a null key is never found.
    """

    cdef BinaryColumn keys
    cdef Block index
    cdef Filter filter
    cdef int repeats
    cdef ls_sort_item *items    # 2 * length: the second half is scratch
    cdef size_t count           # items that may be there
    cdef ls_slice *answers      # one a key, in the order of the request
    cdef list kept              # what the answers point into

    def __cinit__(self, BinaryColumn keys not None, Block index not None,
                  Filter filter not None, bint repeats):
        cdef size_t length = keys.column.length
        if length > 0xFFFFFFFF:
            raise ValueError(f"{length} keys in one call; give at most 4294967295")
        self.keys = keys
        self.index = index
        self.filter = filter
        self.repeats = repeats
        self.kept = []
        self.items = <ls_sort_item *>malloc(2 * (length + 1) * sizeof(ls_sort_item))
        self.answers = <ls_slice *>calloc(length + 1, sizeof(ls_slice))
        if self.items == NULL or self.answers == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.items)
        free(self.answers)

    def search(self, load not None):
        """Find every key, loading each block at most once and in file order."""
        self.prepare()
        cdef size_t start = 0, end, held
        cdef list group
        while start < self.count:
            end, held, group = start, 0, []
            while end < self.count and held < <size_t>GROUP_BYTES:
                block = load(self.items[end].block)
                held += len((<Block>block).data)
                group.append((end, block))
                end = self.end_of_block(end)
            self.search_group(group, end)
            if end < self.count:
                self.stage(start, end)  # more to come: let this group's blocks go
            else:
                self.kept.append(group)
            start = end

    cdef int prepare(self) except -1:
        """Filter, sort and route the keys; keys beyond the last block drop out."""
        cdef size_t i, count = 0, bad = 0
        cdef ls_status status = LS_OK
        cdef ls_slice key
        cdef const ls_column *column = &self.keys.column
        cdef size_t beyond
        with nogil:
            for i in range(column.length):
                if ls_column_is_valid(column, i):
                    self.items[count].index = i
                    count += 1
            # A key of a wrong size is refused whatever the filter says of its hash.
            if self.index.order != LS_ORDER_BYTES:
                status = ls_sort_prefixes(self.index.order, column, self.items, count, &bad)
            if status == LS_OK:
                status = ls_filter_test_items(
                    &self.filter.filter, column, self.items, &count, &bad)
            if status == LS_OK and self.index.order == LS_ORDER_BYTES:
                status = ls_sort_prefixes(self.index.order, column, self.items, count, &bad)
            if status == LS_OK:
                ls_sort_keys(self.index.order, column, self.items, count, self.items + count)
        if status == LS_BAD_KEY:
            i = self.items[bad].index
            ls_column_get(column, i, &key)
            check_key(self.index.order, key, f"keys[{i}]")
        if status != LS_OK:
            raise ValueError(
                f"keys[{self.items[bad].index}]: the Arrow offsets leave their data buffer")
        with nogil:
            status = ls_batch_route(
                &self.index.block, self.index.order, self.repeats, column, self.items, count)
            beyond = count
            while beyond > 0 and self.items[beyond - 1].block >= self.index.block.count:
                beyond -= 1
        self.index.fail(status, "records of the index block")
        self.count = beyond
        return 0

    cdef size_t end_of_block(self, size_t start) noexcept:
        cdef uint32_t block = self.items[start].block
        while start < self.count and self.items[start].block == block:
            start += 1
        return start

    cdef int search_group(self, list group, size_t end) except -1:
        """Search the items from the group's first to `end`, each run in its block."""
        cdef size_t count = len(group), i
        cdef ls_status status = LS_OK
        cdef size_t *starts = <size_t *>malloc((count + 1) * sizeof(size_t))
        cdef const ls_block **blocks = <const ls_block **>malloc(
            (count + 1) * sizeof(ls_block *))
        if starts == NULL or blocks == NULL:
            free(starts)
            free(blocks)
            raise MemoryError()
        for i in range(count):
            starts[i] = group[i][0]
            blocks[i] = &(<Block>group[i][1]).block
        starts[count] = end
        with nogil:
            for i in range(count):
                status = ls_batch_search(
                    blocks[i], self.index.order, self.repeats, &self.keys.column,
                    self.items + starts[i], starts[i + 1] - starts[i], self.answers)
                if status != LS_OK:
                    break
            free(starts)
            free(blocks)
        if status != LS_OK:
            (<Block>group[i][1]).fail(status, "records of the block")
        return 0

    cdef int stage(self, size_t start, size_t end) except -1:
        cdef size_t size = ls_batch_stage_size(self.items + start, end - start, self.answers)
        arena = pa.allocate_buffer(size + 1)
        cdef uint8_t *bytes = <uint8_t *>buffer_data(arena)
        with nogil:
            ls_batch_stage(self.items + start, end - start, self.answers, bytes)
        self.kept.append(arena)
        return 0

    def values(self):
        """Return a large_binary array: row i answers key i, null where it is missing."""
        cdef size_t length = self.keys.column.length, missing, size
        with nogil:
            size = ls_batch_size(self.answers, length)
        offsets = pa.allocate_buffer(8 * (length + 1))
        validity = pa.allocate_buffer((length + 7) // 8)
        data = pa.allocate_buffer(size)
        cdef int64_t *ends = <int64_t *>buffer_data(offsets)
        cdef uint8_t *bits = <uint8_t *>buffer_data(validity)
        cdef uint8_t *bytes = <uint8_t *>buffer_data(data)
        with nogil:
            memset(bits, 0, (length + 7) // 8)
            missing = ls_batch_gather(self.answers, length, ends, bits, bytes)
        return pa.Array.from_buffers(
            pa.large_binary(), length, [validity, offsets, data], null_count=missing)

    def found(self):
        """Return a boolean array: row i tells whether key i is there."""
        cdef size_t length = self.keys.column.length
        bitmap = pa.allocate_buffer((length + 7) // 8)
        cdef uint8_t *bits = <uint8_t *>buffer_data(bitmap)
        with nogil:
            memset(bits, 0, (length + 7) // 8)
            ls_batch_found(self.answers, length, bits)
        return pa.Array.from_buffers(pa.bool_(), length, [None, bitmap])
