from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_column, ls_status
from lookupstore.sst._filter cimport Filter, ls_filter
from lookupstore.sst._layer cimport Layer, ls_batch_counts, ls_batch_item
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport Zeros


cdef extern from "ls_batch.h":
    ctypedef struct ls_batch_stretch:
        uint32_t *indices
        uint64_t *hashes
        uint64_t *numbers
        size_t count
    void ls_batch_order(
        const ls_column *keys, size_t start, size_t end, const uint64_t *numbers,
        ls_batch_stretch *stretch) noexcept nogil


cdef extern from "ls_owners.h":
    ctypedef struct ls_owners_line:
        pass
    ctypedef struct ls_owners:
        ls_owners_line *lines
        uint32_t count
    enum:
        LS_OWNERS_FILES
        LS_OWNERS_NOT_ASKED
    uint32_t ls_owners_lines(uint64_t entries) noexcept nogil
    ls_status ls_owners_add(
        ls_owners *owners, uint8_t file, const uint8_t *data, size_t size,
        uint64_t *entries) noexcept nogil
    void ls_owners_find(
        const ls_owners *owners, const uint32_t *numbers, const ls_batch_stretch *stretch,
        size_t *next, ls_batch_item *items, size_t room, size_t *count,
        ls_batch_counts *counts) noexcept nogil


cdef class Owners:
    cdef ls_owners owners
    cdef Zeros memory             # memory that contains its lines; None: they are in `table`
    cdef FileMap table            # shared file with its lines; None: they are in memory
    cdef size_t size              # size of the lines
    cdef readonly size_t records  # number of records that fit
    cdef bint whole(self) noexcept


cdef class MadeOwners:
    cdef readonly Owners owners
    cdef size_t file        # number of the file whose keys are added next
    cdef size_t next        # the block that is added next
    cdef size_t populated   # where the bytes end that were read for it and those behind it
    cdef size_t add_blocks(self, object data, size_t records) except? 0


cdef class OwnedFiles:
    cdef Layer layer
    cdef readonly tuple tables  # tables of owners of some files of the layer
    cdef uint32_t *numbers      # for each table, the number of each of its files in the layer
    cdef const ls_filter **filters  # of all files; of those in tables, one that no key passes
    cdef uint8_t *skipped       # whether all files of each layer of ranges are in tables
