"""The Bloom filters that Hudi stores in base files: reading, testing and making them."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

import numpy as np

from lookupstore.arrow._binary cimport (
    LS_BAD_KEY,
    LS_NULL,
    LS_OK,
    BinaryColumn,
    bytes_of,
    ls_column,
    ls_slice,
    ls_status,
)

from lookupstore.errors import CorruptionError


cdef extern from "ls_hadoop_bloom.h":
    ctypedef struct ls_hadoop_bloom:
        uint32_t bits
        uint32_t hashes
        uint8_t hash
        uint8_t old
        uint8_t dynamic
        uint32_t row_keys
        uint32_t last_keys
        uint32_t rows
    uint8_t LS_HADOOP_JENKINS
    uint8_t LS_HADOOP_MURMUR
    uint32_t LS_HADOOP_MOST_HASHES
    size_t ls_hadoop_bloom_row_size(const ls_hadoop_bloom *bloom) noexcept nogil
    size_t ls_hadoop_bloom_size(const ls_hadoop_bloom *bloom) noexcept nogil
    ls_status ls_hadoop_bloom_parse(
        const uint8_t *data, const uint8_t *end, int dynamic, ls_hadoop_bloom *bloom,
        size_t *bad, const char **expected) noexcept nogil
    void ls_hadoop_bloom_put_headers(const ls_hadoop_bloom *bloom, uint8_t *data) noexcept nogil
    ls_status ls_hadoop_bloom_add(
        const ls_hadoop_bloom *bloom, uint32_t rows_limit, uint8_t *data, const ls_column *keys,
        size_t start, size_t end, uint64_t index, size_t *bad) noexcept nogil
    ls_status ls_hadoop_bloom_test(
        const ls_hadoop_bloom *bloom, const uint8_t *data, const ls_column *keys,
        const uint32_t *rows, size_t start, size_t end, uint8_t *maybe, size_t *bad) noexcept nogil


MOST_HASHES = LS_HADOOP_MOST_HASHES
MOST_BITS = 2147483647  # Java stores the number of bits, and the number of keys, in an int

cdef uint64_t MOST_KEYS = 2147483647


cdef int check(ls_status status, size_t bad) except -1:
    if status == LS_OK:
        return 0
    if status == LS_NULL:
        raise ValueError(f"keys[{bad}] is null; a record key is a string")
    if status == LS_BAD_KEY:
        raise ValueError(f"keys[{bad}] is empty; a record key has at least one byte")
    raise ValueError(f"keys[{bad}]: the Arrow offsets point outside their data buffer")


cdef class StoredBloom:
    """A stored filter, which answers "absent" or "maybe" for many keys at once.

    Args:
        data: Stored bytes, which are not copied.
        dynamic: Whether the bytes are the rows of a dynamic filter, otherwise one row.
        path: Path of the file, which errors name.

    Raises:
        CorruptionError: the bytes are not such a filter.
    """

    cdef readonly bytes data
    cdef const uint8_t *start
    cdef ls_hadoop_bloom bloom

    def __cinit__(self, bytes data not None, bint dynamic, str path not None):
        cdef size_t bad = 0
        cdef const char *expected = NULL
        cdef ls_slice stored = bytes_of(data)
        self.data = data
        self.start = stored.data
        cdef ls_status status = ls_hadoop_bloom_parse(
            stored.data, stored.data + stored.size, dynamic, &self.bloom, &bad, &expected)
        if status != LS_OK:
            rest = data[bad:bad + 4]
            raise CorruptionError(
                path, bad, (<bytes>expected).decode(),
                f"{stored.size - bad} bytes, {rest.hex(' ')}" if rest else "the end")

    @property
    def bits(self):
        """Size of a row in bits."""
        return self.bloom.bits

    @property
    def hashes(self):
        """Number of positions of a key."""
        return self.bloom.hashes

    @property
    def jenkins(self):
        """Whether positions are computed with Jenkins' hash, not with Murmur's."""
        return self.bloom.hash == LS_HADOOP_JENKINS

    @property
    def dynamic(self):
        """Whether the filter is stored as the rows of a dynamic filter."""
        return bool(self.bloom.dynamic)

    @property
    def old(self):
        """Whether the headers have the old form without a version."""
        return bool(self.bloom.old)

    @property
    def rows(self):
        """Number of rows."""
        return self.bloom.rows

    @property
    def row_keys(self):
        """Number of keys of a full row of a dynamic filter; 0 for a simple filter."""
        return self.bloom.row_keys

    @property
    def last_keys(self):
        """Number of keys in the last row of a dynamic filter, as stored."""
        return self.bloom.last_keys

    def test(self, BinaryColumn keys not None):
        """Return a boolean array: False for the keys that are certainly absent."""
        cdef size_t count = keys.column.length, bad = 0
        cdef ls_status status
        maybe = np.empty(count, np.bool_)
        cdef uint8_t[::1] flags = maybe.view(np.uint8)
        if count == 0:
            return maybe
        with nogil:
            status = ls_hadoop_bloom_test(
                &self.bloom, self.start, &keys.column, NULL, 0, count, &flags[0], &bad)
        check(status, bad)
        return maybe

    def select(self, BinaryColumn keys not None, const uint32_t[::1] rows not None):
        """Return the rows whose keys may be present, in the given order: uint32."""
        cdef size_t count = rows.shape[0], length = keys.column.length, bad = 0
        cdef size_t start, end, i, passed = 0
        cdef uint8_t maybe[1024]
        cdef bint inside = True
        cdef ls_status status = LS_OK
        found = np.empty(count, np.uint32)
        cdef uint32_t[::1] view = found
        if count == 0:
            return found
        with nogil:
            for i in range(count):
                inside &= rows[i] < length
            start = 0
            while inside and start < count and status == LS_OK:
                end = min(start + sizeof(maybe), count)
                status = ls_hadoop_bloom_test(
                    &self.bloom, self.start, &keys.column, &rows[0], start, end, maybe, &bad)
                if status == LS_OK:
                    for i in range(start, end):  # no branch is needed: `passed` is at most i
                        view[passed] = rows[i]
                        passed += maybe[i - start]
                start = end
        if not inside:
            raise IndexError(f"rows has a row beyond the {length} of keys")
        check(status, bad)
        return found[:passed].copy()


cdef class BloomMaker:
    """A builder of a stored filter from keys, which are added in any number of batches.

    Args:
        bits: Size of a row in bits.
        hashes: Number of positions of a key.
        row_keys: Number of keys of a full row; 0 makes a simple filter.
        rows_limit: Maximum number of rows. Once it is reached, keys are added to the rows in turn.
        jenkins: Whether to compute positions with Jenkins' hash, as the old form does.
    """

    cdef ls_hadoop_bloom bloom
    cdef uint32_t rows_limit
    cdef uint64_t count
    cdef object data  # a bytearray
    cdef bint busy    # C code is writing into it, without the GIL

    def __cinit__(
        self, uint32_t bits, uint32_t hashes, uint32_t row_keys=0, uint32_t rows_limit=1, *,
        bint jenkins=False
    ):
        if not 1 <= bits <= MOST_BITS:
            raise ValueError(f"bits={bits}; give 1 to {MOST_BITS}")
        if not 1 <= hashes <= MOST_HASHES:
            raise ValueError(f"hashes={hashes}; give 1 to {MOST_HASHES}")
        if rows_limit < 1 or row_keys > MOST_KEYS:
            raise ValueError(f"row_keys={row_keys}, rows_limit={rows_limit}")
        self.bloom.bits = bits
        self.bloom.hashes = hashes
        self.bloom.hash = LS_HADOOP_JENKINS if jenkins else LS_HADOOP_MURMUR
        self.bloom.dynamic = row_keys > 0
        self.bloom.row_keys = row_keys
        self.bloom.rows = 1
        self.rows_limit = rows_limit
        self.data = bytearray(ls_hadoop_bloom_size(&self.bloom))

    @staticmethod
    def continuing(StoredBloom stored not None):
        """Return a builder that begins with the keys of a filter of one row, and adds no rows."""
        if stored.rows != 1:
            raise ValueError(f"a filter of {stored.rows} rows; give one of 1 row")
        cdef BloomMaker maker = BloomMaker(1, 1)
        maker.bloom = stored.bloom
        maker.count = stored.last_keys
        maker.data = bytearray(stored.data)
        return maker

    def __len__(self):
        return self.count

    cdef int check_idle(self) except -1:
        if self.busy:
            raise RuntimeError("another thread is adding keys to this filter")
        return 0

    def add(self, BinaryColumn keys not None):
        """Add keys; if one of them is null or empty, add none."""
        cdef size_t more = keys.column.length, bad = 0
        cdef uint64_t total = self.count + more
        cdef uint32_t rows_before = self.bloom.rows, limit = self.rows_limit
        cdef ls_status status
        cdef uint8_t[::1] view
        self.check_idle()
        if total > MOST_KEYS:
            raise ValueError(f"{total} keys; a filter counts at most {MOST_KEYS}")
        if self.bloom.dynamic and total > 0:
            self.bloom.rows = min(
                <uint64_t>limit, 1 + (total - 1) // self.bloom.row_keys)
            if self.bloom.rows > rows_before:
                self.data.extend(bytes(
                    (self.bloom.rows - rows_before) * ls_hadoop_bloom_row_size(&self.bloom)))
        view = self.data
        self.busy = True
        with nogil:
            status = ls_hadoop_bloom_add(
                &self.bloom, limit, &view[0], &keys.column, 0, more, self.count, &bad)
        self.busy = False
        view = None
        if status != LS_OK and self.bloom.rows > rows_before:
            self.bloom.rows = rows_before
            del self.data[ls_hadoop_bloom_size(&self.bloom):]
        check(status, bad)
        self.count = total

    def finish(self):
        """Return the stored bytes; further keys may be added afterwards."""
        cdef uint8_t[::1] view = self.data
        self.check_idle()
        if self.bloom.dynamic:
            self.bloom.last_keys = (
                self.count - <uint64_t>(self.bloom.rows - 1) * self.bloom.row_keys)
        ls_hadoop_bloom_put_headers(&self.bloom, &view[0])
        return bytes(view)
