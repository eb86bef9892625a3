from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport BinaryColumn, ls_column, ls_slice, ls_status
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._block cimport ls_order
from lookupstore.sst._changes cimport Changes, ls_changes
from lookupstore.sst._filter cimport ls_filter
from lookupstore.sst._lookup cimport Lookup, ls_fences
from lookupstore.sst._table cimport BlockTable, ls_places, ls_ready


cdef extern from "ls_batch.h":
    ctypedef struct ls_batch_file:
        const ls_fences *fences
        const ls_ready *ready
        const ls_places *places
        const ls_changes *changes
        uint32_t *pins
        uint8_t *used
        size_t first
        uint32_t blocks
        int is_run
    ctypedef struct ls_batch_files:
        const ls_batch_file *files
        uint32_t count
        ls_order order
    ctypedef struct ls_batch_counts:
        uint64_t ruled_out
        uint64_t routed
        uint64_t changed
        int asked
    ctypedef struct ls_batch_item:
        uint64_t hash
        uint32_t index
        uint32_t file
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
    PLACE_ERROR
    BLOCKS      # that are not ready
    ANSWERS     # to be prepared for the piece


cdef class Scratch:
    cdef size_t length          # keys
    cdef ls_batch_item *candidates
    cdef uint64_t *hashes


cdef class Filters:
    cdef list owners
    cdef const ls_filter **each
    cdef bint has_gaps          # one lets all keys pass


cdef class Layer:
    cdef readonly tuple lookups
    cdef list tables            # as they were when this layer was made
    cdef object runs
    cdef object changes         # of each bucket, or None: there are none
    cdef Layer newest           # None, or the layer that has taken this one's place
    cdef ls_batch_files files
    cdef ls_batch_file *each    # of these
    cdef Filters filters
    cdef size_t blocks          # of all files
    cdef bint has_runs
    cdef bint has_pins          # blocks may go
    cdef bint has_places        # some file has
    cdef list caches            # of the files whose blocks may go

    cdef Layer current(self)
    cdef bint all_ready(self)
    cdef bint stays(self)


cdef class Part:
    cdef Batch batch
    cdef ls_batch_item *items
    cdef size_t count
    cdef object thread          # None: there is none
    cdef object error

    cdef int begin(self) except -1
    cdef int wait(self) except -1
    cdef int end(self) except -1


cdef class Batch:
    cdef Layer layer
    cdef list tables            # of its files: what these point to is there while they are
    cdef const ls_batch_files *files
    cdef uint8_t call           # which this is, of CALLS
    cdef bint all_ready         # all of these were there when the batch began
    cdef BinaryColumn keys
    cdef ls_column column       # all of them, or for a run the candidates of a stretch
    cdef const ls_filter **own_filters
    cdef const ls_filter **filters  # asked for the piece; NULL: none
    cdef ls_batch_counts *counts
    cdef size_t length          # keys to find
    cdef size_t start, end      # the piece
    cdef bint begun             # the piece has its bounds
    cdef bint routed            # the piece has its items
    cdef list newer             # batches of runs of changes, whose keys are not looked for here
    cdef void **layers          # to these, for code without the GIL
    cdef size_t layer_count
    cdef size_t asked_layer     # the one that the stretch is looked for in
    cdef bint asking            # that one is what Python is needed for
    cdef size_t stretch         # where the stretch ends
    cdef Filters above          # let the keys of all runs pass; None: there are no runs
    cdef ls_batch_counts *ruled_out  # by these, of the stretch
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
    cdef size_t pinned          # items that hold a pin
    cdef list arenas            # what answers point into whose blocks have gone
    cdef ls_status status
    cdef size_t bad_key
    cdef size_t bad_item
    cdef uint64_t bad_record    # where it is in its file, if a place led to it
    cdef uint32_t bad_run       # of the changes above that file; LS_CHANGES_RUNS: of that file
    cdef bint loaded            # blocks were not ready
    cdef Answers taker

    cdef bint stays(self)
    cdef int find(self) except -1
    cdef int count_asked(self) except -1
    cdef int check_files(self) except -1
    cdef Changes changes_of(self, size_t file)
    cdef void unpin(self) noexcept nogil
    cdef Need go_on(self) noexcept nogil
    cdef Need ask_runs(self) noexcept nogil
    cdef Need begin_stretch(self) noexcept nogil
    cdef bint take_candidates(self) noexcept nogil
    cdef void drop_candidates(self) noexcept nogil
    cdef Need find_in_run(self, Batch older) noexcept nogil
    cdef void count_ruled_out(self, const ls_batch_counts *counts) noexcept nogil
    cdef Need search(self) noexcept nogil
    cdef bint begin_piece(self) noexcept nogil
    cdef bint any_missing(self) noexcept nogil
    cdef Need filter_piece(self) noexcept nogil
    cdef Need route(self) noexcept nogil
    cdef bint take(self) noexcept nogil
    cdef int provide(self, Need need) except -1
    cdef Lookup lookup_of(self, size_t item)
    cdef BlockTable table_of(self, size_t item)
    cdef int refuse_place(self) except -1
    cdef int refuse_block(self) except -1
    cdef int grow(self) except -1
    cdef int grow_stretch(self) except -1
    cdef int make_room(self, size_t length) except -1
    cdef int visit_missing(self) except -1
    cdef int visit_file(self, ls_batch_item *items, size_t count) except -1
    cdef int visit_items(self, ls_batch_item *items, size_t count) except -1
    cdef int stage(self, ls_batch_item *items, size_t count) except -1
    cdef int refuse(self) except -1
