from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport BinaryColumn, ls_column, ls_slice, ls_status
from lookupstore.sst._answers cimport Answers
from lookupstore.sst._filter cimport ls_filter
from lookupstore.sst._layer cimport (
    Asks, Layer, ls_batch_counts, ls_batch_files, ls_batch_item, ls_file_ranges,
)
from lookupstore.sst._lookup cimport Lookup
from lookupstore.sst._stretch cimport KeyStretch
from lookupstore.sst._table cimport BlockTable


cdef enum:
    # Number of keys of a piece if blocks stay: these are answered before the next ones are looked
    # up, so that found values are still in the processor's caches when they are copied. A multiple
    # of 8, the number of bits in a byte of a bitmap.
    PIECE = 1024
    MOST_OF_PIECE = 1536


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


cdef class Batch:
    cdef Layer layer
    cdef list tables            # tables of its files, kept because `files` points into them
    cdef const ls_batch_files *files
    cdef uint8_t call           # number of the call, from CALLS
    cdef bint all_placed        # all files had places when the batch began
    cdef bint all_checked       # and these were checked
    cdef bint all_ready         # all evictable blocks were ready when the batch began
    cdef BinaryColumn keys
    cdef ls_column column       # all keys, or for a run the candidates of a stretch
    cdef const ls_file_ranges *ranges  # that choose the file of a key; NULL: its hash, or `taker`
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
    cdef KeyStretch stretch        # keys that may be in a newer run; None: there are no such runs
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
    cdef Asks asks              # of its pieces, if it has many keys
    cdef bint may_read          # a file may be read from the disk at once before the first piece
    cdef Answers taker

    cdef bint stays(self)
    cdef int find(self) except -1
    cdef int count_asked(self) except -1
    cdef int check_files(self) except -1
    cdef void unpin(self) noexcept nogil
    cdef Need go_on(self) noexcept nogil
    cdef Need ask_runs(self) noexcept nogil
    cdef Need begin_stretch(self) noexcept nogil
    cdef Need find_in_run(self, KeyStretch stretch) noexcept nogil
    cdef void count_ruled_out(self, const ls_batch_counts *counts) noexcept nogil
    cdef Need search(self) noexcept nogil
    cdef bint begin_piece(self) noexcept nogil
    cdef bint any_missing(self) noexcept nogil
    cdef Need filter_piece(self) noexcept nogil
    cdef Need route(self) noexcept nogil
    cdef int read_whole(self) except -1 with gil
    cdef bint take(self) noexcept nogil
    cdef int provide(self, Need need) except -1
    cdef Lookup lookup_of(self, size_t item)
    cdef BlockTable table_of(self, size_t item)
    cdef int refuse_place(self) except -1
    cdef int refuse_block(self) except -1
    cdef int grow(self) except -1
    cdef int make_room(self, size_t length) except -1
    cdef int visit_missing(self) except -1
    cdef int refuse(self) except -1
