"""PLAIN data pages of Parquet column chunks without nulls: reading and replacing of values."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uintptr_t

import pyarrow as pa
from isal.isal_zlib import crc32

from lookupstore.arrow._binary cimport LS_OK, BinaryColumn, bytes_of, ls_column, ls_slice, ls_status

from lookupstore.errors import CorruptionError


cdef extern from "ls_bytes.h":
    uint32_t ls_load32(const uint8_t *data) noexcept nogil

cdef extern from "ls_page.h":
    enum:
        LS_DATA_PAGE
        LS_DICTIONARY_PAGE
        LS_ENCODING_PLAIN
        LS_ENCODING_RLE
        LS_PAGE_HEADER_MAX
    ctypedef struct ls_page_header:
        int32_t type
        int32_t uncompressed
        int32_t compressed
        int32_t has_checksum
        uint32_t checksum
        int32_t values
        int32_t encoding
        int32_t definition_encoding
        int32_t repetition_encoding
    ctypedef enum ls_plain_kind:
        LS_PLAIN_INT32
        LS_PLAIN_INT64
        LS_PLAIN_FLOAT
        LS_PLAIN_DOUBLE
        LS_PLAIN_BYTES
    ctypedef struct ls_plain_range:
        ls_slice least
        ls_slice greatest
    ls_status ls_page_header_read(
        const uint8_t **cursor, const uint8_t *end, ls_page_header *header) noexcept nogil
    uint8_t *ls_page_header_write(const ls_page_header *header, uint8_t *out) noexcept nogil
    ls_status ls_plain_size(
        ls_plain_kind kind, ls_slice values, size_t count, size_t *size) noexcept nogil
    enum:
        LS_TEXTS_SLACK
    ls_status ls_plain_texts(
        ls_slice values, size_t count, int32_t at, int32_t *ends, uint8_t *out) noexcept nogil
    ls_status ls_texts_plain(
        const ls_column *texts, uint8_t *out, size_t *size) noexcept nogil
    ls_status ls_plain_replace(
        ls_plain_kind kind, ls_slice values, size_t count, const int64_t *places, int64_t first,
        size_t replaced, ls_slice fresh, uint8_t *out, size_t *out_size, ls_plain_range *range
    ) noexcept nogil

#: Kinds of values, which decide how values are stored and ordered, by name.
KINDS = {
    "int32": LS_PLAIN_INT32,
    "int64": LS_PLAIN_INT64,
    "float": LS_PLAIN_FLOAT,
    "double": LS_PLAIN_DOUBLE,
    "bytes": LS_PLAIN_BYTES,
}


cdef class _Pages:
    """A walk over the pages of a chunk, each of which is verified first."""

    cdef object path, data
    cdef int64_t offset
    cdef const uint8_t *start
    cdef const uint8_t *page  # the header of the page, which errors name
    cdef const uint8_t *cursor
    cdef const uint8_t *end
    cdef ls_page_header header
    cdef object stored  # the bytes of the page, as they are in the file

    def __cinit__(self, bytes data not None, str path not None, int64_t offset):
        cdef ls_slice memory = bytes_of(data)
        self.data = data
        self.path = path
        self.offset = offset
        self.start = self.page = self.cursor = memory.data
        self.end = memory.data + memory.size

    cdef int fail(self, expected, found) except -1:
        raise CorruptionError(self.path, self.offset + (self.page - self.start), expected, found)

    cdef int next(self) except -1:
        """Go to the next page; return 0 if there is none."""
        cdef const uint8_t *cursor = self.cursor
        cdef size_t size
        if cursor == self.end:
            return 0
        self.page = cursor
        if ls_page_header_read(&cursor, self.end, &self.header) != LS_OK:
            self.fail("the header of a page", "other bytes")
        size = self.header.compressed
        if size > <size_t>(self.end - cursor):
            self.fail(f"a page of {size} bytes", f"{self.end - cursor} bytes to the chunk's end")
        self.stored = memoryview(self.data)[cursor - self.start:cursor - self.start + size]
        if self.header.has_checksum and crc32(self.stored) != self.header.checksum:
            self.fail(f"a page with the checksum {self.header.checksum:#010x}", "another checksum")
        self.cursor = cursor + size
        return 1

    cdef object plain(self, codec):
        """Return the bytes of the page without compression."""
        try:
            return codec.decompress(self.stored, self.header.uncompressed, asbytes=True)
        except (pa.ArrowException, OSError) as error:
            self.fail("a page that can be decompressed", error)


def plain_values(values not None):
    """Return the values of an Arrow array without nulls in the form of a PLAIN page.

    Args:
        values: Array of strings, of binary, or of a type with 4 or 8 bytes a value, as in Parquet.

    Returns:
        A buffer.
    """
    cdef BinaryColumn texts
    cdef size_t size = 0
    cdef ls_status status
    cdef uint8_t *out
    if not pa.types.is_string(values.type) and not pa.types.is_binary(values.type):
        width = values.type.bit_width // 8
        return (values.buffers()[1] or pa.py_buffer(b"")).slice(
            values.offset * width, len(values) * width)
    texts = BinaryColumn(values)
    with nogil:
        status = ls_texts_plain(&texts.column, NULL, &size)
    if status != LS_OK:
        raise ValueError(f"values: broken offsets, or a text of 2 GiB ({status})")
    buffer = pa.allocate_buffer(size)
    out = <uint8_t *><uintptr_t>buffer.address
    with nogil:
        ls_texts_plain(&texts.column, out, &size)
    return buffer


def check_pages(bytes data not None, str path not None, int64_t offset, *, codec=None, most=0):
    """Raise CorruptionError if pages of a chunk lack their checksums, or do not fill it.

    Args:
        data: Bytes of the chunk.
        path: Path of the file, for errors.
        offset: Offset of the chunk in the file.
        codec: Codec by which pages are decompressed as well, except those of version 2, which are
            compressed in part. None: no page is decompressed.
        most: Maximum size in bytes of a decompressed page; larger pages are not decompressed.
    """
    cdef _Pages pages = _Pages(data, path, offset)
    while pages.next():
        if (
            codec is not None
            and pages.header.type in (LS_DATA_PAGE, LS_DICTIONARY_PAGE)
            and pages.header.uncompressed <= most
        ):
            pages.plain(codec)


cdef class PlainChunk:
    """A chunk of a column that is not nested, without nulls, whose data pages are PLAIN.

    Args:
        data: Bytes of the chunk.
        path: Path of the file, for errors.
        offset: Offset of the chunk in the file.
        kind: Kind of the values, one of `KINDS`.
        rows: Number of the values.
        most: Size of the uncompressed chunk in bytes, headers included.
        optional: Whether the column may have nulls, so that pages store where they are.
        codec: Codec of the pages. None: they are not compressed.
    """

    cdef object data, path, codec
    cdef int64_t offset, rows
    cdef size_t most
    cdef ls_plain_kind kind
    cdef bint optional

    def __cinit__(
        self,
        bytes data not None,
        str path not None,
        int64_t offset,
        *,
        str kind not None,
        int64_t rows,
        size_t most,
        bint optional,
        codec,
    ):
        self.data = data
        self.path = path
        self.offset = offset
        self.kind = KINDS[kind]
        self.rows = rows
        self.most = most
        self.optional = optional
        self.codec = codec

    cdef object page(self, _Pages pages, ls_slice *levels, ls_slice *values):
        """Set the levels and values of a page, and return the owner of their memory."""
        cdef ls_page_header *header = &pages.header
        cdef ls_slice memory
        if header.type != LS_DATA_PAGE or header.encoding != LS_ENCODING_PLAIN or header.values < 0:
            found = f"type {header.type}, encoding {header.encoding}"
            pages.fail("a data page that is PLAIN", found)
        if self.optional and header.definition_encoding != LS_ENCODING_RLE:
            pages.fail("definition levels that are RLE", f"encoding {header.definition_encoding}")
        if <size_t>header.uncompressed > self.most:
            pages.fail(f"a page of at most {self.most} bytes", f"{header.uncompressed} bytes")
        page = pages.stored
        if self.codec is not None:
            page = pages.plain(self.codec)
        memory = bytes_of(page)
        if memory.size != <size_t>header.uncompressed:
            pages.fail(f"a page of {header.uncompressed} bytes", f"{memory.size} bytes")
        levels.data = memory.data
        levels.size = 0
        if self.optional:
            if memory.size < 4 or ls_load32(memory.data) > memory.size - 4:
                pages.fail("definition levels", "fewer bytes")
            levels.size = 4 + ls_load32(memory.data)
        values.data = memory.data + levels.size
        values.size = memory.size - levels.size
        return page

    cdef int no_values(self, _Pages pages) except -1:
        pages.fail(f"{pages.header.values} values of the column's type", "other bytes")

    def texts(self):
        """Return the values of a chunk of bytes as an Arrow array of strings.

        Raises:
            CorruptionError: the chunk is damaged.
        """
        cdef _Pages pages = _Pages(self.data, self.path, self.offset)
        cdef ls_slice levels, values
        cdef ls_status status
        cdef int64_t rows = 0
        cdef size_t size = 0
        cdef int32_t *ends
        cdef uint8_t *out
        if self.kind != LS_PLAIN_BYTES or self.rows < 0 or self.most > INT32_MAX - LS_TEXTS_SLACK:
            raise ValueError("the chunk has no bytes, or more than an array of strings")
        # Each value has its length before it, in 4 bytes.
        if <size_t>self.rows > self.most // 4:
            pages.fail(f"{self.rows} values", f"{self.most} bytes")
        offsets = pa.allocate_buffer(4 * (self.rows + 1))
        texts = pa.allocate_buffer(self.most + LS_TEXTS_SLACK)
        ends = <int32_t *><uintptr_t>offsets.address
        out = <uint8_t *><uintptr_t>texts.address
        ends[0] = 0
        while pages.next():
            _page = self.page(pages, &levels, &values)  # its memory is used below
            size += values.size
            if pages.header.values > self.rows - rows or size > self.most:
                pages.fail(f"{self.rows} values in {self.most} bytes", "more")
            with nogil:
                status = ls_plain_texts(
                    values, pages.header.values, ends[rows], ends + rows + 1, out)
            if status != LS_OK:
                self.no_values(pages)
            rows += pages.header.values
        self.check_rows(pages, rows)
        return pa.StringArray.from_buffers(rows, offsets, texts)

    cdef int check_rows(self, _Pages pages, int64_t rows) except -1:
        if rows != self.rows:
            pages.page = pages.start  # no page alone is wrong
            pages.fail(f"{self.rows} values in the chunk", f"{rows}")
        return 0

    def replace(self, const int64_t[::1] places, fresh not None):
        """Return the pages of the chunk with some values replaced.

        Args:
            places: Numbers of these values, ascending and distinct, shape (n,).
            fresh: Buffer of the new values, PLAIN.

        Returns:
            List of the pages as bytes; their uncompressed size, with their headers; and the least
            and the greatest value as bytes, PLAIN without length, None if there is none. NaN does
            not count.

        Raises:
            CorruptionError: the chunk is damaged.
        """
        cdef _Pages pages = _Pages(self.data, self.path, self.offset)
        cdef ls_slice levels, values, new = bytes_of(fresh), now
        cdef ls_plain_range range
        cdef ls_status status
        cdef int64_t first = 0, after
        cdef size_t next = 0, stop, size, total = 0, header_size
        cdef uint8_t *out
        cdef uint8_t header[LS_PAGE_HEADER_MAX]
        cdef const int64_t *at
        least = greatest = None
        found = []
        while pages.next():
            _page = self.page(pages, &levels, &values)  # its memory is used below
            after = first + pages.header.values
            stop = next
            while stop < <size_t>places.shape[0] and places[stop] < after:
                stop += 1
            now.data = new.data
            if ls_plain_size(self.kind, new, stop - next, &now.size) != LS_OK:
                raise ValueError("fresh has fewer values than places")
            replaced = PyBytes_FromStringAndSize(NULL, levels.size + values.size + now.size)
            out = <uint8_t *>PyBytes_AS_STRING(replaced)
            range.least = bytes_of(least) if least is not None else ls_slice(NULL, 0)
            range.greatest = bytes_of(greatest) if greatest is not None else ls_slice(NULL, 0)
            at = &places[0] + next if stop > next else NULL
            with nogil:
                copy(out, levels)
                status = ls_plain_replace(
                    self.kind, values, pages.header.values, at, first, stop - next, now,
                    out + levels.size, &size, &range)
            if status != LS_OK:
                self.no_values(pages)
            if range.least.data != NULL:
                least = range.least.data[:range.least.size]
                greatest = range.greatest.data[:range.greatest.size]
            new.data += now.size
            new.size -= now.size
            size += levels.size
            payload = memoryview(replaced)[:size]
            if self.codec is not None:
                payload = self.codec.compress(payload, asbytes=True)
            pages.header.uncompressed = size
            pages.header.compressed = len(payload)
            if pages.header.has_checksum:
                pages.header.checksum = crc32(payload)
            header_size = ls_page_header_write(&pages.header, header) - header
            found.append(header[:header_size])
            found.append(payload)
            total += header_size + size
            first = after
            next = stop
        self.check_rows(pages, first)
        if next != <size_t>places.shape[0] or new.size:
            raise ValueError("places and fresh differ in length, or places are outside the chunk")
        return found, total, least, greatest


cdef inline void copy(uint8_t *out, ls_slice data) noexcept nogil:
    cdef size_t i
    for i in range(data.size):
        out[i] = data.data[i]
