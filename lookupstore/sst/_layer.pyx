"""The files in which a batch of keys is looked up, one of each bucket, and their filters."""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from lookupstore.memory_limit import memory_limit

from lookupstore.arrow._binary cimport BinaryColumn, allocate, buffer_data, bytes_of, ls_slice
from lookupstore.sst._block cimport LS_ORDER_BYTES, ls_block
from lookupstore.sst._changes cimport Changes
from lookupstore.sst._data_blocks cimport DataBlocks
from lookupstore.sst._filter cimport LS_FILTER_NONE, Filter, ls_filter
from lookupstore.sst._lookup cimport Lookup, ls_fences
from lookupstore.sst._table cimport PART_OF_MEMORY, BlockTable, ls_places_unchecked, places_size


# Index and fences of a bucket without a file: those of a file without keys.
cdef ls_block NO_INDEX
cdef ls_fences NO_FENCES
NO_FENCES.index = &NO_INDEX
cdef object NOTHING_PASSES = Filter("words", bytes(32))
cdef object ALL_PASS = Filter("none")


@cython.final
cdef class Filters:
    """A filter for each bucket; None stands for a filter that all keys pass."""

    def __cinit__(self, filters):
        cdef Filter one
        cdef size_t i
        self.owners = [ALL_PASS if filter is None else filter for filter in filters]
        self.each = <const ls_filter **>malloc((len(self.owners) + 1) * sizeof(ls_filter *))
        if self.each == NULL:
            raise MemoryError()
        for i, one in enumerate(self.owners):
            self.each[i] = &one.filter
            self.has_gaps = self.has_gaps or one.filter.kind == LS_FILTER_NONE

    def __dealloc__(self):
        free(self.each)


@cython.final
cdef class FileRanges:
    """The first and the last key of each file, by layers of files without common keys.

    `layers` has for each layer the pairs of its files, in ascending order.
    """

    def __cinit__(self, list layers not None):
        cdef ls_file_ranges *one
        cdef size_t i = 0, start = 0, divided = 0
        bounds = [pair for layer in layers for pair in layer]
        self.keys = [first for first, _ in bounds] + [last for _, last in bounds]
        self.count, self.files = len(layers), len(bounds)
        self.each = <ls_file_ranges *>calloc(self.count + 1, sizeof(ls_file_ranges))
        self.bounds = <ls_slice *>calloc(2 * self.files + 1, sizeof(ls_slice))
        self.numbers = <uint64_t *>calloc(2 * self.files + 1, sizeof(uint64_t))
        self.cells = <uint32_t *>calloc(
            sum(len(layer) > 1 for layer in layers) + 1, LS_RANGES_CELLS * sizeof(uint32_t))
        if (self.each == NULL or self.bounds == NULL or self.numbers == NULL
                or self.cells == NULL):
            raise MemoryError()
        for i, key in enumerate(self.keys):
            self.bounds[i] = bytes_of(<bytes?>key)
        for i, layer in enumerate(layers):
            if not layer:
                raise ValueError(f"layer {i} has no files")
            before = None
            for first, last in layer:
                if first > last or (before is not None and first <= before):
                    raise ValueError(f"layer {i}: the ranges of files overlap, or do not ascend")
                before = last
            one = &self.each[i]
            one.firsts, one.lasts = self.bounds + start, self.bounds + self.files + start
            one.starts, one.ends = self.numbers + start, self.numbers + self.files + start
            one.count = <uint32_t>len(layer)
            if one.count > 1:
                one.cells = self.cells + divided
                divided += LS_RANGES_CELLS
            ls_file_ranges_build(one)
            start += len(layer)

    def __dealloc__(self):
        free(self.each)
        free(self.bounds)
        free(self.numbers)
        free(self.cells)

    def owners(self, BinaryColumn keys not None):
        """Return the number of the file of each key, as a buffer of 32-bit integers.

        There must be one layer. A key that no file has gets the number of any file.
        """
        cdef uint64_t numbers[LS_RANGES_KEYS]
        cdef uint32_t *owners
        cdef size_t start = 0, end
        if self.count != 1:
            raise ValueError(f"{self.count} layers; a key has one file in one layer only")
        found = allocate(keys.column.length * sizeof(uint32_t))
        owners = <uint32_t *>buffer_data(found)
        with nogil:
            while start < keys.column.length:
                end = min(start + <size_t>LS_RANGES_KEYS, keys.column.length)
                ls_file_ranges_numbers(
                    &self.each[0], &keys.column, NULL, start, end, numbers)
                ls_file_ranges_route(
                    &self.each[0], numbers, &keys.column, NULL, start, end, owners + start)
                start = end
        return found


@cython.final
cdef class Layer:
    """Files that are searched together: one or none of each bucket, or files of other ranges.

    A key is looked up in the file of its bucket, the XXH64 of its bytes modulo the number of files.
    `lookups` has None for a bucket without a file. `runs` are the buckets whose files are runs of
    changes. `changes` are the changes of the runs above each file, or None if there are no such
    runs or other layers contain them.

    If `ranges` of all files are given, they choose the file of a key instead. With ranges in
    several layers, callers choose it.
    """

    def __cinit__(
            self, tuple lookups not None, runs=frozenset(), changes=None, FileRanges ranges=None):
        cdef Lookup lookup
        cdef Changes above
        cdef BlockTable table
        cdef ls_batch_file *file
        cdef size_t i, count = len(lookups), places_bytes = 0
        if not 1 <= count <= 0xFFFFFFFF:
            raise ValueError(f"{count} files; give 1 or more")
        if ranges is not None and (ranges.files != count or None in lookups):
            raise ValueError(f"{ranges.files} ranges of {count} files; give one of each")
        self.lookups, self.runs, self.changes, self.ranges = lookups, runs, changes, ranges
        self.tables = [None] * count
        self.each = <ls_batch_file *>calloc(count, sizeof(ls_batch_file))
        if self.each == NULL:
            raise MemoryError()
        self.files.files = self.each
        self.files.count = <uint32_t>count
        self.files.order = LS_ORDER_BYTES
        filters, self.caches = [], []
        for i in range(count):
            file = &self.each[i]
            lookup = lookups[i]
            file.first = self.blocks
            file.fences = &NO_FENCES
            if lookup is None:
                filters.append(NOTHING_PASSES)
                continue
            if count > 1 and lookup.index.order != LS_ORDER_BYTES:
                raise ValueError("files of several buckets have keys in the order of their bytes")
            self.files.order = lookup.index.order
            filters.append(lookup.filter)
            file.fences = &lookup.fences
            table = self.tables[i] = lookup.data.file.blocks
            file.ready = table.ready
            if table.places is not None:
                file.places = &table.places.places
                self.has_places = True
            if changes is not None and changes[i] is not None:
                above = changes[i]
                file.changes = &above.changes
            file.pins = table.pins
            file.used = table.used
            file.blocks = <uint32_t>table.count
            file.is_run = i in runs
            self.has_runs = self.has_runs or file.is_run
            self.blocks += table.count
            places_bytes += places_size(lookup.data.records)
            self.has_pins = self.has_pins or file.pins != NULL
            if table.cache is not None and table.cache not in self.caches:
                self.caches.append(table.cache)
        self.filters = Filters(filters)
        self.places_fit = PART_OF_MEMORY * places_bytes <= <size_t>memory_limit()

    def __dealloc__(self):
        free(self.each)

    cdef Layer current(self):
        """Return this layer, or its successor if slots of its files have moved since."""
        cdef Layer layer = self if self.newest is None else self.newest
        cdef Lookup lookup
        cdef size_t i
        for i in range(layer.files.count):
            lookup = layer.lookups[i]
            if lookup is not None and lookup.data.file.blocks is not layer.tables[i]:
                self.newest = Layer(self.lookups, self.runs, self.changes, self.ranges)
                layer.tables = None  # batches that began with this layer hold the tables, too
                return self.newest
        return layer

    cdef bint all_ready(self):
        """Return whether all evictable blocks are ready."""
        cdef BlockTable table
        if not self.has_pins:
            return True
        for table in self.tables:
            if table is not None and table.pins != NULL and table.ready_blocks < table.count:
                return False
        return True

    cdef bint all_placed(self, bint checked):
        """Return whether all files have places, which may have to be checked.

        A key that checked places do not have is missing.
        """
        cdef const ls_batch_file *file
        cdef size_t i
        for i in range(self.files.count):
            file = &self.each[i]
            if file.blocks and (
                    file.places == NULL or (checked and ls_places_unchecked(file.places))):
                return False
        return True

    cdef bint stays(self):
        """Return whether found values are in maps that may be kept without blocking any room."""
        cdef Lookup lookup
        cdef Changes above
        cdef DataBlocks run
        for lookup in self.lookups:
            if lookup is not None and not lookup.data.stays():
                return False
        for above in self.changes or ():
            for run in () if above is None else above.runs:
                if not run.stays():
                    return False
        return True

    cdef Changes changes_of(self, size_t file):
        """Return the changes above a file that has changes above it."""
        return self.changes[file]

    cdef bint begin(self, size_t keys) except -1:
        """Use places of other processes before `keys` keys are looked up in each file.

        Returns whether there are so many keys that a file may be read from the disk at once.
        """
        cdef Lookup lookup
        cdef bint may_read = False
        for lookup in self.lookups:
            if lookup is None:
                continue
            if not lookup.data.file.settled:
                lookup.data.file.seek(keys, lookup.data.map)
            may_read = may_read or lookup.data.may_read(keys)
        return may_read

    cdef int read_whole(self, size_t keys) except -1:
        """Read files from the disk if `keys` keys in each file need most of them."""
        cdef Lookup lookup
        for lookup in self.lookups:
            if lookup is not None:
                lookup.data.read_whole(keys)
        return 0
