"""The two Bloom filters of files, and a filter in memory: builders and tests."""

from libc.math cimport ceil, exp, pow
from libc.stdlib cimport free, realloc

from lookupstore.arrow._binary cimport LS_OK, BinaryColumn, bytes_of, ls_column_get
from lookupstore.sst._block cimport Block, ls_block_record


cdef extern from "ls_hash.h":
    uint64_t ls_hash(ls_slice key) noexcept nogil


cdef extern from "ls_filter.h":
    void ls_split_block_add_many(
        uint8_t *bits, uint64_t blocks, const uint64_t *hashes, size_t count) noexcept nogil
    void ls_word_filter_add_many(
        uint64_t *words, uint64_t count, const uint64_t *hashes, size_t keys) noexcept nogil
    uint32_t ls_paimon_hash(ls_slice key) noexcept nogil
    uint32_t ls_paimon_filter_size(uint64_t entries, double fpp) noexcept nogil
    uint32_t ls_paimon_filter_hashes(uint32_t size, uint64_t entries) noexcept nogil
    void ls_paimon_filter_add(
        uint8_t *bits, uint32_t size, uint32_t hashes, uint32_t hash) noexcept nogil
    void ls_filter_hash(
        ls_filter_kind kind, const ls_column *keys, size_t start, size_t end,
        uint64_t *hashes) noexcept nogil


# Maximum number of positions per key: no rate of false positives that a double can hold needs more.
MOST_HASHES = 1100

# Maximum size of a filter of Paimon in bytes, as Java stores the number of bits in an int.
MOST_PAIMON_BYTES = 2147483647 // 8


# Maximum number of keys per block: with more, nearly every bit is set, and the rate is close to 1.
cdef double MOST_KEYS = 600.0


cdef double split_block_rate(double load) noexcept nogil:
    """Return the rate of false positives with `load` keys per block on average.

    Keys are distributed over blocks at random, so their number is Poisson distributed; each key
    sets one bit of 32 in each of 8 words.
    """
    cdef double chance = exp(-load)  # chance of a block with i keys
    cdef double rate = 0
    cdef int i
    for i in range(1, 1200):
        chance *= load / i
        if i > load and chance < 1e-20:
            break
        rate += chance * pow(1.0 - pow(31.0 / 32.0, i), 8.0)
    return rate


def split_block_size(uint64_t entries, double fpp):
    """Return the bytes of the smallest split-block filter with that rate of false positives.

    Parquet's formula (parquet-format, BloomFilter.md, "Sizing") assumes that all blocks are equally
    full, and makes filters with up to 1.6 times as many false positives as requested.
    """
    cdef double low = 0, high = MOST_KEYS, middle
    cdef int _step
    for _step in range(60):
        middle = (low + high) / 2
        if split_block_rate(middle) <= fpp:
            low = middle
        else:
            high = middle
    return 32 * max(<uint64_t>1, <uint64_t>ceil(entries / low))


def paimon_size(uint64_t entries, double fpp):
    """Return the bytes of Paimon's filter, 0 if Java cannot make one."""
    return ls_paimon_filter_size(entries, fpp)


cdef class FilterBuilder:
    """A builder of a filter from keys.

    With a `size` in bytes, keys are added directly to the filter (`entries` sets the hash count of
    Paimon's filter). Without it, their hashes are collected, 8 bytes each, and the size is passed
    to `finish`.
    """

    cdef ls_filter_kind kind
    cdef bytes filter       # None while hashes are collected
    cdef uint32_t positions
    cdef uint64_t *hashes
    cdef size_t count
    cdef size_t capacity

    def __cinit__(self, str kind not None, size_t size=0, uint64_t entries=0):
        self.kind = kind_of(kind)
        if size > 0:
            self.start(size, entries)

    def __dealloc__(self):
        free(self.hashes)

    cdef int start(self, size_t size, uint64_t entries) except -1:
        if size == 0 or size % 32 != 0 and self.kind != LS_FILTER_PAIMON:
            raise ValueError(f"size={size}; a filter of blocks is a multiple of 32 bytes")
        self.filter = bytes(size)
        if self.kind == LS_FILTER_PAIMON:
            self.positions = ls_paimon_filter_hashes(size, entries)
        return 0

    cdef int grow(self, size_t more) except -1:
        cdef size_t capacity
        cdef void *new
        if self.count + more > self.capacity:
            capacity = max(self.count + more, 2 * self.capacity, <size_t>1024)
            new = realloc(self.hashes, capacity * sizeof(uint64_t))
            if new == NULL:
                raise MemoryError()
            self.hashes = <uint64_t *>new
            self.capacity = capacity
        return 0

    cdef int insert(self) noexcept:
        """Move the collected hashes into the filter."""
        cdef uint8_t *bits = <uint8_t *>self.filter  # no other object has seen these bytes yet
        cdef size_t size = len(self.filter), i
        with nogil:
            if self.kind == LS_FILTER_PAIMON:
                for i in range(self.count):
                    ls_paimon_filter_add(
                        bits, <uint32_t>size, self.positions, <uint32_t>self.hashes[i])
            elif self.kind == LS_FILTER_WORDS:
                ls_word_filter_add_many(<uint64_t *>bits, size // 8, self.hashes, self.count)
            else:
                ls_split_block_add_many(bits, size // 32, self.hashes, self.count)
        self.count = 0
        return 0

    def add(self, bytes key not None):
        """Add one key."""
        cdef ls_slice slice
        slice.data = <const uint8_t *>key
        slice.size = len(key)
        self.grow(1)
        self.hashes[self.count] = (
            ls_paimon_hash(slice) if self.kind == LS_FILTER_PAIMON else ls_hash(slice))
        self.count += 1
        if self.filter is not None:
            self.insert()

    def add_many(self, BinaryColumn keys not None, size_t start, size_t end):
        """Add keys [start, end) of a column that has been checked."""
        if end <= start:
            return
        if end > keys.column.length:
            raise IndexError(f"row {end} of {keys.column.length}")
        self.grow(end - start)
        with nogil:
            ls_filter_hash(self.kind, &keys.column, start, end, self.hashes + self.count)
        self.count += end - start
        if self.filter is not None:
            self.insert()

    def add_block(self, Block block not None):
        """Add the keys of a block, to a filter other than Paimon's."""
        cdef uint32_t i
        cdef ls_slice key, value
        cdef ls_status status = LS_OK
        self.grow(block.block.count)
        with nogil:
            for i in range(block.block.count):
                status = ls_block_record(&block.block, i, &key, &value)
                if status != LS_OK:
                    break
                self.hashes[self.count] = ls_hash(key)
                self.count += 1
        block.fail(status, "records of the block")
        if self.filter is not None:
            self.insert()

    def finish(self, size_t size, uint64_t entries):
        """Return the filter's bytes; a `size` at the start must be repeated, as must `entries`."""
        if self.filter is None:
            self.start(size, entries)
            self.insert()
        return self.filter


cdef class Filter:
    """A filter, which answers "absent" or "maybe" for a key.

    Raises ValueError if the bytes cannot be a filter of that kind.
    """

    def __cinit__(self, str kind not None, data not None=b"", uint64_t entries=0):
        self.kind = kind
        self.filter.kind = kind_of(kind)
        self.source = data
        cdef ls_slice bytes = bytes_of(data)
        self.filter.bits = bytes.data
        self.filter.size = bytes.size
        if self.filter.kind in (LS_FILTER_SPLIT_BLOCK, LS_FILTER_WORDS):
            if len(data) == 0 or len(data) % 32 != 0:
                raise ValueError(f"{len(data)} bytes, which is not a multiple of 32")
        elif self.filter.kind == LS_FILTER_PAIMON:
            if len(data) == 0 or len(data) > MOST_PAIMON_BYTES:
                raise ValueError(f"{len(data)} bytes, which Java cannot write")
            if entries == 0 or entries > <uint64_t>9223372036854775807:
                raise ValueError(f"{entries} expected entries")
            self.filter.hashes = ls_paimon_filter_hashes(len(data), entries)
            if self.filter.hashes > MOST_HASHES:
                raise ValueError(f"{self.filter.hashes} positions per key")

    @property
    def data(self):
        """The bytes of the filter, copied if they are in a mapped file."""
        return bytes(self.source)

    @property
    def nbytes(self):
        return self.filter.size

    def hides(self, BinaryColumn keys not None):
        """Return the number of keys that are certainly absent; none of the keys is null."""
        cdef size_t i, hidden = 0
        cdef ls_slice key
        with nogil:
            for i in range(keys.column.length):
                if (ls_column_get(&keys.column, i, &key) == LS_OK
                        and not ls_filter_test(&self.filter, key)):
                    hidden += 1
        return hidden

    @property
    def hashes(self):
        return self.filter.hashes


cdef ls_filter_kind kind_of(str kind) except? LS_FILTER_NONE:
    if kind == "none":
        return LS_FILTER_NONE
    if kind == "split-block-xxh64":
        return LS_FILTER_SPLIT_BLOCK
    if kind == "paimon-murmur3":
        return LS_FILTER_PAIMON
    if kind == "words":
        return LS_FILTER_WORDS
    raise ValueError(f"kind={kind!r} is not a kind of filter")
