"""Tables of owners: the files that may have a key, among files whose ranges of keys overlap."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from lookupstore.errors import CorruptionError

from lookupstore.arrow._binary cimport LS_OK, ls_status
from lookupstore.sst._data_blocks cimport GROUP, DataBlocks
from lookupstore.sst._filter cimport Filter, ls_filter
from lookupstore.sst._layer cimport Layer
from lookupstore.sst._making_places cimport next_blocks
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport CACHE_LINE, Zeros


#: Maximum number of files of a table.
MOST_FILES = LS_OWNERS_FILES

cdef Filter NO_KEY_PASSES = Filter("words", bytes(32))


def owners_size(size_t records):
    """Return the size in bytes of a table of a number of records."""
    return CACHE_LINE * <size_t>ls_owners_lines(records)


cdef class Owners:
    """A table of up to `records` records of files.

    `table` is the map of the file of a shared table, which begins with the lines. None: an empty
    table is made in memory.
    """

    def __cinit__(self, size_t records, FileMap table=None):
        self.records = records
        self.owners.count = ls_owners_lines(records)
        self.size = owners_size(records)
        if self.size == 0:
            raise ValueError(f"{records} records; a table has fewer")
        if table is None:
            self.memory = Zeros(self.size)
            self.owners.lines = <ls_owners_line *>self.memory.start
        elif self.size > table.size:
            raise ValueError(f"a table of {table.size} bytes; give {self.size}")
        else:
            self.table = table
            self.owners.lines = <ls_owners_line *>table.bytes()

    cdef bint whole(self) noexcept:
        """Return whether the file of a shared table was not truncated."""
        return self.table is None or self.table.whole()

    @property
    def is_shared(self):
        """Whether other processes use the same table."""
        return self.table is not None

    @property
    def is_whole(self):
        """Whether the file of a shared table was not truncated."""
        return self.whole()

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.owners.lines, <Py_ssize_t>self.size, 1, flags)


cdef class MadeOwners:
    """A table of owners that is made in steps, of files with `records` records."""

    def __cinit__(self, size_t records):
        self.owners = Owners(records)

    def add(self, list files not None, size_t records):
        """Add about `records` records, and return whether those of all files are added.

        `files` are the same files in each call. They may have been closed and opened meanwhile.

        Raises:
            CorruptionError: If a block is damaged.
            ValueError: If a file is not used in place, or they have other records.
        """
        cdef size_t added = 0
        cdef DataBlocks data
        if len(files) > <size_t>LS_OWNERS_FILES:
            raise ValueError(f"{len(files)} files; give at most {LS_OWNERS_FILES}")
        while self.file < len(files) and added < records:
            data = files[self.file]
            if self.next < data.file.blocks.count:
                added += self.add_blocks(data, records - added)
            if self.next >= data.file.blocks.count:
                self.file += 1
                self.next = self.populated = 0
        return self.file == len(files)

    cdef size_t add_blocks(self, object file, size_t records) except? 0:
        """Add the next blocks of the file, and return the number of their records."""
        cdef DataBlocks data = file
        cdef uint64_t offsets[GROUP]
        cdef size_t sizes[GROUP]
        cdef size_t count, i = 0
        cdef uint64_t added = 0
        cdef const uint8_t *bytes
        cdef ls_status status = LS_OK
        if data.map is None or data.handles is None:
            raise ValueError("give files that are used in place")
        count = next_blocks(data, self.next, records, &self.populated, offsets, sizes)
        if count == 0:
            raise ValueError("give files that are used in place")
        bytes = data.map.bytes()
        with nogil:
            while i < count and status == LS_OK:
                status = ls_owners_add(
                    &self.owners.owners, <uint8_t>self.file, bytes + offsets[i], sizes[i], &added)
                i += 1
        data.check_file()
        if status != LS_OK:  # checked bytes have changed, or there are more records than expected
            raise CorruptionError(
                data.index.path, offsets[i - 1], "records of the block", f"status {status}")
        self.next += count
        return added


cdef class OwnedFiles:
    """Files of a layer with ranges, of which tables of owners have some.

    `tables` are pairs of a table and the numbers in the layer of its files, which are negative if
    they are not to be looked up. No file is in two of them.
    """

    def __cinit__(self, Layer layer not None, list tables not None):
        cdef size_t count = len(tables), at = 0, i, j, end
        cdef size_t most = <size_t>LS_OWNERS_FILES
        cdef const ls_filter *nothing = &NO_KEY_PASSES.filter
        if layer.ranges is None:
            raise ValueError("give files that have ranges")
        self.layer = layer
        self.tables = tuple([<Owners?>owners for owners, _ in tables])
        self.numbers = <uint32_t *>malloc((count * most + 1) * sizeof(uint32_t))
        self.filters = <const ls_filter **>malloc(layer.files.count * sizeof(ls_filter *))
        self.skipped = <uint8_t *>calloc(layer.ranges.count + 1, 1)
        if self.numbers == NULL or self.filters == NULL or self.skipped == NULL:
            raise MemoryError()
        for i in range(count * most):
            self.numbers[i] = LS_OWNERS_NOT_ASKED
        for i in range(layer.files.count):
            self.filters[i] = layer.filters.each[i]
        for i, (_, numbers) in enumerate(tables):
            if len(numbers) > most:
                raise ValueError(f"{len(numbers)} files of a table; give at most {most}")
            for j, number in enumerate(numbers):
                if number < 0:
                    continue
                if number >= layer.files.count or self.filters[<size_t>number] == nothing:
                    raise ValueError(f"file {number} is in two tables, or not in the layer")
                self.numbers[i * most + j] = number
                self.filters[<size_t>number] = nothing
        for i in range(layer.ranges.count):
            self.skipped[i] = True
            end = at + layer.ranges.each[i].count
            while at < end:
                self.skipped[i] = self.skipped[i] and self.filters[at] == nothing
                at += 1

    def __dealloc__(self):
        free(self.numbers)
        free(self.filters)
        free(self.skipped)

    @property
    def layers_left(self):
        """Number of layers of ranges whose filters are tested."""
        cdef size_t i, left = 0
        for i in range(self.layer.ranges.count):
            left += not self.skipped[i]
        return left
