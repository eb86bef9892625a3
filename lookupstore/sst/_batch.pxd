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
    # Number of keys of a piece if blocks stay: these are answered before the next ones are looked
    # up, so that found values are still in the processor's caches when they are copied. A multiple
    # of 8, the number of bits in a byte of a bitmap.
    PIECE = 1024
    MOST_OF_PIECE = 1536
    # Number of keys that are looked up in runs of changes at a time. Few keys are in a run, so many
    # keys are needed for memory accesses to overlap; without a filter for all runs, each key needs
    # memory.
    STRETCH = 1 << 16
    STRETCH_UNFILTERED = 1 << 14


# Needs of a batch that Python has to meet before it can go on.
cdef enum Need:
    NOTHING
    MEMORY      # memory for the keys of a piece
    STRETCH_MEMORY  # memory for the keys of a stretch
    NO_MEMORY   # an allocation has failed
    KEY_ERROR   # the error of an invalid key
    INDEX_ERROR
    BLOCK_ERROR
    PLACE_ERROR
    BLOCKS      # blocks that are not ready
    ANSWERS     # `prepare` for the answers of the piece


# When the system is asked what is in memory.
cdef struct Asks:
    int unasked  # number of pieces until it is asked again
    int apart    # value of `unasked` after it was asked last


cdef class Scratch:
    cdef size_t length          # number of keys
    cdef ls_batch_item *candidates
    cdef uint64_t *hashes


cdef class Filters:
    cdef list owners
    cdef const ls_filter **each
    cdef bint has_gaps          # some filter lets all keys pass


cdef class Layer:
    cdef readonly tuple lookups
    cdef list tables            # tables when this layer was made
    cdef object runs
    cdef object changes         # changes by bucket, or None: there are none
    cdef Layer newest           # None, or the layer that has replaced this one
    cdef ls_batch_files files
    cdef ls_batch_file *each    # the entries of `files`
    cdef Filters filters
    cdef size_t blocks          # number of blocks of all files
    cdef bint has_runs
    cdef bint has_pins          # blocks may be evicted
    cdef bint has_places        # some file has places
    cdef list caches            # caches of the files with evictable blocks
    cdef bint places_fit        # the places of all its files fit into memory
    cdef Asks asks              # of small pieces

    cdef Layer current(self)
    cdef bint all_ready(self)
    cdef bint stays(self)


cdef class Part:
    cdef Batch batch
    cdef ls_batch_item *items
    cdef size_t count
    cdef object thread          # None: there is no thread
    cdef object error

    cdef int begin(self) except -1
    cdef int wait(self) except -1
    cdef int end(self) except -1


cdef class Batch:
    cdef Layer layer
    cdef list tables            # tables of its files, kept because `files` points into them
    cdef const ls_batch_files *files
    cdef uint8_t call           # number of the call, from CALLS
    cdef bint all_ready         # all evictable blocks were ready when the batch began
    cdef BinaryColumn keys
    cdef ls_column column       # all keys, or for a run the candidates of a stretch
    cdef const ls_filter **own_filters
    cdef const ls_filter **filters  # filters used for the piece; NULL: none
    cdef ls_batch_counts *counts
    cdef size_t length          # number of keys to find
    cdef size_t start, end      # bounds of the piece
    cdef bint begun             # the bounds of the piece are set
    cdef bint routed            # the items of the piece are set
    cdef list newer             # batches of newer runs, which are searched first
    cdef void **layers          # pointers to these, for code without the GIL
    cdef size_t layer_count
    cdef size_t asked_layer     # layer in which the stretch is being looked up
    cdef bint asking            # Python is needed by that layer
    cdef size_t stretch         # end of the stretch
    cdef Filters above          # filters that all keys of runs pass; None: there are no runs
    cdef ls_batch_counts *ruled_out  # counts of these filters for the stretch
    cdef ls_batch_item *candidates  # keys of the stretch that may be in a run
    cdef size_t candidate_count
    cdef uint64_t *hashes       # hashes of the keys of the stretch
    cdef size_t stretch_room    # number of keys of a stretch that fit into the memory
    cdef Scratch scratch        # owner of that memory
    cdef size_t stretch_start
    cdef ls_column candidate_keys
    cdef uint8_t *candidate_data
    cdef int64_t *candidate_offsets
    cdef uint32_t *origins      # position of each candidate among all keys
    cdef ls_slice *found        # answer of a run to each candidate
    cdef size_t next            # next candidate whose answer is to be put among those of a piece
    cdef bint overlaid          # the piece has answers of runs
    cdef int gone               # some of these answers are tombstones
    cdef const uint8_t *deleted  # for a run: target of the answer at a tombstone
    cdef size_t wanted          # number of keys that need more memory
    cdef size_t room            # number of keys that `items` and `own` hold
    cdef ls_batch_item *items   # items of the piece: keys that may be in a file
    cdef ls_slice *answers      # one answer per key, of the piece or of all files
    cdef ls_slice *own          # answers of the piece
    cdef size_t first           # number of the key of the first answer
    cdef size_t count           # number of items
    cdef size_t pinned          # number of items that hold a pin
    cdef list arenas            # copies of values whose blocks have been freed
    cdef ls_status status
    cdef size_t bad_key
    cdef size_t bad_item
    cdef uint64_t bad_record    # offset in its file, if it was found by a place
    cdef uint32_t bad_run       # its run above that file; LS_CHANGES_RUNS: the file itself
    cdef bint loaded            # blocks were not ready
    cdef Asks asks              # of its large pieces
    cdef bint may_read          # a file may be read from the disk at once before the first piece
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
    cdef size_t keys_like(self, size_t count) noexcept nogil
    cdef int read_whole(self) except -1 with gil
    cdef bint read_ahead(self) noexcept nogil
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
