from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport BinaryColumn, ls_column, ls_slice, ls_status
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._block cimport Block, ls_block, ls_order
from lookupstore.sst._filter cimport Filter, ls_filter
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport BlockTable, ReadyBlock


cdef extern from "ls_fences.h":
    ctypedef struct ls_fence_node:
        pass
    ctypedef struct ls_fence:
        pass
    ctypedef struct ls_fences:
        const ls_block *index
        ls_order order
        ls_fence_node *nodes
        ls_fence *fences
        uint32_t *starts
        size_t node_count
        size_t fence_count
        size_t start_count
        int repeats
        const ls_block *rows
        ls_order row_order


cdef extern from "ls_batch.h":
    ctypedef struct ls_batch_item:
        uint64_t hash
        uint32_t index
        uint32_t block


cdef enum:
    # Keys answered before the next ones are looked at, where blocks stay: what was found is still
    # in the processor's caches when it is copied. A multiple of 8, the bits of a byte of a bitmap.
    PIECE = 1024
    MOST_OF_PIECE = 1536
    # Keys that are looked for in runs of changes at one time. Few are there, so that it takes many
    # for what memory takes to overlap; without a filter for all runs each takes room.
    STRETCH = 1 << 16
    STRETCH_UNFILTERED = 1 << 14


# What a batch needs from Python before it can go on.
cdef enum Need:
    NOTHING
    MEMORY      # for the keys of a piece
    STRETCH_MEMORY  # for those of a stretch
    NO_MEMORY   # there is none
    KEY_ERROR   # to refuse a key
    INDEX_ERROR
    BLOCK_ERROR
    BLOCKS      # that are not ready
    ANSWERS     # to be prepared for the piece


cdef class Scratch:
    cdef size_t length          # keys
    cdef ls_batch_item *candidates
    cdef uint64_t *hashes


cdef class Lookup:
    cdef readonly Block index
    cdef Block sortable  # None: `index` is searched itself
    cdef readonly Filter filter
    cdef readonly BlockTable table
    cdef object load
    cdef FileMap map
    cdef object check
    cdef object fill
    cdef ls_fences fences
    cdef readonly size_t filter_negatives  # keys of batches that the filter ruled out
    cdef readonly size_t blocks_read       # blocks that `load` was called for
    cdef readonly size_t block_uses        # keys that were looked for in a block

    cdef bint stays(self)
    cdef int check_index(self, ls_status status) except -1
    cdef ReadyBlock ready_block(self, size_t number)
    cdef int check_file(self) except -1
    cdef int count(self, Batch batch) except -1


cdef class Batch:
    cdef Lookup lookup
    cdef BlockTable table
    cdef bint evictable         # some block was, when this batch last had the GIL
    cdef BinaryColumn keys
    cdef ls_column column       # all of them, or for a run the candidates of a stretch
    cdef ls_order order
    cdef const ls_fences *fences
    cdef const ls_filter *file_filter
    cdef const ls_filter *filter  # asked for the piece
    cdef size_t length          # keys to find
    cdef size_t until           # so many before it waits
    cdef size_t start, end      # the piece
    cdef bint begun             # the piece has its bounds
    cdef bint routed            # the piece has its items
    cdef list newer             # batches of runs of changes, whose keys are not looked for here
    cdef void **layers          # to these, for code without the GIL
    cdef size_t layer_count
    cdef size_t layer           # the one that the stretch is looked for in
    cdef bint asking            # that one is what Python is needed for
    cdef size_t stretch         # where the stretch ends
    cdef Filter above_filter    # None, or the owner of the next one
    cdef const ls_filter *above  # lets the keys of all runs pass; NULL: there is none
    cdef ls_batch_item *candidates  # of the stretch: keys that may be in a run
    cdef size_t candidate_count
    cdef uint64_t *hashes       # of the keys of the stretch
    cdef size_t stretch_room    # keys of a stretch that there is room for
    cdef Scratch scratch        # the owner of that room
    cdef size_t stretch_start
    cdef ls_column candidate_keys
    cdef uint8_t *candidate_data
    cdef int64_t *candidate_offsets
    cdef uint32_t *origins      # where each candidate is among all keys
    cdef ls_slice *found        # for each candidate, in a run
    cdef size_t next            # candidate whose answer has not been put to those of a piece
    cdef bint overlaid          # the piece has answers of runs
    cdef int gone               # some of them are at tombstones
    cdef const uint8_t *deleted  # of a run: where the answer at a tombstone points to
    cdef size_t wanted          # keys that there was no room for
    cdef size_t room            # keys that the next two arrays hold
    cdef ls_batch_item *items   # of the piece: keys that may be there
    cdef ls_slice *answers      # one per key, of the piece or of all files
    cdef ls_slice *own          # of the piece
    cdef size_t first           # the key of the first of these
    cdef size_t count           # items
    cdef size_t negatives       # keys that the filter ruled out
    cdef size_t routed_keys     # keys that were looked for in a block
    cdef size_t pinned          # items that hold a pin
    cdef bint more              # blocks of the piece were not loaded for want of room
    cdef list arenas            # what answers point into whose blocks have gone
    cdef ls_status status
    cdef size_t bad_key
    cdef uint32_t bad_block
    cdef Answers taker

    cdef int wait(self) except -1
    cdef bint stays(self)
    cdef int find(self) except -1
    cdef int check_files(self) except -1
    cdef void unpin(self) noexcept nogil
    cdef Need go_on(self) noexcept nogil
    cdef Need go_on_to(self, size_t end) noexcept nogil
    cdef Need ask_runs(self) noexcept nogil
    cdef Need begin_stretch(self) noexcept nogil
    cdef bint take_candidates(self) noexcept nogil
    cdef void drop_candidates(self) noexcept nogil
    cdef Need find_in_run(self, Batch older) noexcept nogil
    cdef Need search(self) noexcept nogil
    cdef bint begin_piece(self) noexcept nogil
    cdef bint any_evictable(self) noexcept nogil
    cdef Need filter_piece(self) noexcept nogil
    cdef Need route(self) noexcept nogil
    cdef bint take(self) noexcept nogil
    cdef int provide(self, Need need) except -1
    cdef int grow(self) except -1
    cdef int grow_stretch(self) except -1
    cdef int make_room(self, size_t length) except -1
    cdef bint load_missing(self) except -1
    cdef int stage(self) except -1
    cdef int refuse(self) except -1
