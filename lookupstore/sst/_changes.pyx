"""The records of the runs of changes above a file; one search finds the newest of a key."""

from libc.string cimport memset

from lookupstore.sst._block cimport Block
from lookupstore.sst._data_blocks cimport DataBlocks
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport (
    CACHE_LINE,
    BlockTable,
    Places,
    ls_places_bucket,
    ls_places_buckets,
)

#: Maximum number of runs in a table, and maximum size of the file of a run in bytes.
MOST_RUNS = LS_CHANGES_RUNS
MOST_BYTES = LS_CHANGES_END


# Size from which a table is in huge pages, if the system has them; also the size of such a page.
cdef size_t HUGE_PAGE = 2 << 20


cdef class Changes:
    """A table of the records of the runs above a file; the places of the file mark their keys.

    `file` and `runs`, the newest first, are the data blocks of files that are mapped and whose
    blocks stay; `file` has places. Raises ValueError if a file was truncated meanwhile.
    """

    def __cinit__(self, DataBlocks file not None, list runs not None):
        cdef BlockTable table = file.file.blocks
        cdef Places places = table.places
        cdef Block block
        cdef FileMap map
        cdef ls_status status
        cdef size_t records = 0, nbytes = 0, size
        cdef uint64_t offset
        cdef uint32_t number
        if len(runs) > LS_CHANGES_RUNS:
            raise ValueError(f"{len(runs)} runs; at most {LS_CHANGES_RUNS} are in one table")
        self.runs, self.maps = runs, [run.map for run in runs]
        blocks = [run.all_blocks() for run in runs]
        for block in [block for some in blocks for block in some]:
            records += block.block.count
            nbytes += block.block.records_size
        self.changes.table.record = <uint32_t>(nbytes // max(records, 1))
        self.changes.table.count = ls_places_buckets(records)
        size = CACHE_LINE * <size_t>self.changes.table.count
        self.memory = Memory(size, huge=size >= HUGE_PAGE)
        memset(self.memory.start, 0, size)
        self.changes.table.buckets = <ls_places_bucket *>self.memory.start
        self.changes.count = <uint32_t>len(runs)
        for number in range(self.changes.count):
            map = self.maps[number]
            self.changes.data[number], self.changes.sizes[number] = map.bytes(), map.size
            for block in blocks[number]:
                offset = block.offset  # its bytes may be in the map of another reader
                with nogil:
                    status = ls_changes_add(
                        &self.changes, number, offset, block.size, &places.places)
                block.fail(status, "records of the block")
        for map in [*self.maps, places.map]:
            if not map.whole():
                raise ValueError("a file was cut while its keys were read")
