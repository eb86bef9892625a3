"""Lookups of one key in a file."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from lookupstore.sst.shared import PlacesLostError

from lookupstore.arrow._binary cimport LS_OK, ls_slice, ls_status
from lookupstore.sst._block cimport LS_ORDER_BYTES, Block, check_key
from lookupstore.sst._data_blocks cimport DataBlocks
from lookupstore.sst._filter cimport Filter, ls_filter_test_hashed
from lookupstore.sst._making_places cimport after
from lookupstore.sst._table cimport (
    BlockTable,
    ls_places_get,
    ls_places_unchecked,
    ls_ready,
    ls_ready_data,
    ls_ready_get,
    ls_ready_use,
)


cdef extern from "ls_hash.h":
    uint64_t ls_hash(ls_slice key) noexcept nogil


cdef extern from "ls_fences.h":
    ls_status ls_fences_build(ls_fences *fences) noexcept nogil
    ls_status ls_fences_route(
        const ls_fences *fences, ls_slice key, uint32_t *block) noexcept nogil


cdef class Lookup:
    """Lookups of keys in one file: through its filter and index to its data blocks."""

    def __cinit__(self, DataBlocks data not None, Filter filter not None):
        cdef ls_status status
        self.data = data
        self.index = data.index
        self.filter = filter
        self.fences.index = &self.index.block
        self.fences.order = self.index.order
        self.sortable = self.index.sortable()
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
            self.data.check_file()
            self.index.fail(status, "keys of the index block")
        return 0

    def __dealloc__(self):
        free(self.fences.nodes)
        free(self.fences.fences)
        free(self.fences.starts)

    def get(self, bytes key not None, default=None):
        """Return the value of one key, or `default`."""
        cdef ls_slice slice, value
        slice.data = <const uint8_t *>key
        slice.size = len(key)
        return self.find_one(slice, default, True, &value)

    cdef object find_one(self, ls_slice slice, object default, bint copied, ls_slice *value):
        """Do the same as `find_now`, even if a shared table is lost meanwhile."""
        try:
            return self.find_now(slice, default, copied, value)
        except PlacesLostError:
            return self.find_now(slice, default, copied, value)

    cdef object find_now(self, ls_slice slice, object default, bint copied, ls_slice *value):
        """Return the value of one key, True if the value is not to be copied, or `default`.

        `value` is set to the stored bytes, without data if there is no value. They stay valid if
        `data.stays()`.
        """
        cdef uint64_t hash, bad
        cdef uint32_t block
        cdef ls_status status
        cdef object loaded = None
        cdef ls_ready visited
        cdef const ls_ready *ready
        cdef BlockTable table
        if not self.data.file.settled:
            self.data.file.seek(1, self.data.map)
        table = self.data.file.blocks
        value.data = NULL
        value.size = 0
        hash = ls_hash(slice)
        if self.index.order != LS_ORDER_BYTES:
            check_key(self.index.order, slice, "key")
        if not ls_filter_test_hashed(&self.filter.filter, slice, hash):
            self.data.check_file()
            return default
        if table.places is not None:
            status = ls_places_get(&table.places.places, slice, hash, value, &bad)
            if self.data.file.checking:
                after(self.data, 1, 1, 1, True, False)
            if status == LS_OK and value.data != NULL:
                self.block_uses += 1
                answer = (<char *>value.data)[:value.size] if copied else True
                self.data.check_table(table)
                return answer
            if not ls_places_unchecked(&table.places.places):
                if status != LS_OK:
                    self.data.fail_at(table, bad, status)
                self.data.check_table(table)
                return default
            value.data, value.size = NULL, 0
        status = ls_fences_route(&self.fences, slice, &block)
        self.check_index(status)
        if block >= table.count:
            self.data.check_file()
            return default
        self.block_uses += 1
        # Blocks are added and removed with the GIL held: this one stays until its pin is released
        # here.
        ready = &table.ready[block]
        if ls_ready_data(ready) == NULL:
            loaded = self.data.visit(table, block, &visited)
            ready = &visited
        elif table.used != NULL:
            ls_ready_use(&table.used[block])
        status = ls_ready_get(ready, self.index.order, slice, hash, value)
        if status != LS_OK:
            self.data.check_file()
            damaged = table.block(block)
            (<Block>(self.data.load(block) if damaged is None else damaged)).fail(
                status, "records of the block")
        if value.data == NULL:
            answer = default
        else:
            answer = (<char *>value.data)[:value.size] if copied else True
        if loaded is not None and table.cache is not None:
            table.cache.trim()
        self.data.check_table(table)
        if not self.data.file.settled:
            after(self.data, 1, 1, 1, True, loaded is not None)
        return answer
