"""Claims in the headers of the pages of a Parquet column chunk."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

import pyarrow as pa

from lookupstore.arrow._binary cimport LS_OK, bytes_of, ls_slice, ls_status

from lookupstore.errors import CorruptionError


cdef extern from "ls_page.h":
    ctypedef struct ls_chunk_claims:
        uint64_t values
        uint64_t plain
        uint32_t largest
        uint32_t shared
        uint32_t dictionary
        uint32_t dictionary_values
        ls_slice stored_dictionary
        size_t page
    ls_status ls_chunk_claims_read(
        ls_slice chunk, uint64_t values, ls_chunk_claims *claims) noexcept nogil
    ls_status ls_plain_longest(ls_slice values, size_t count, uint32_t *longest) noexcept nogil


def chunk_claims(
    bytes data not None, str path not None, int64_t offset, size_t size, *, uint64_t values,
    bint texts, size_t most, codec
):
    """Return the claims in the headers of the pages of a chunk, before any of them is used.

    Args:
        data: Bytes of the file.
        path: Path of the file, for errors.
        offset: Offset of the chunk in the file.
        size: Size of the chunk in bytes.
        values: Number of values of the chunk in the footer.
        texts: Whether values are bytes.
        most: Limit in bytes of the largest page and the dictionary together; beyond it texts are
            not read, and the longest value is 0.
        codec: Codec of the pages. None: they are not compressed.

    Returns:
        Uncompressed sizes of the largest page and the dictionary together, of all data pages, and
        of the longest value that takes less room in its page than it is long; and the number of
        values.

    Raises:
        CorruptionError: A header of a page is missing.
    """
    cdef ls_slice memory = bytes_of(data), dictionary
    cdef ls_chunk_claims claims
    cdef ls_status status
    cdef uint32_t longest
    if offset < 0 or <size_t>offset > memory.size or size > memory.size - <size_t>offset:
        raise ValueError("the chunk is not in the file")
    cdef ls_slice chunk = ls_slice(memory.data + offset, size)
    with nogil:
        status = ls_chunk_claims_read(chunk, values, &claims)
    if status != LS_OK:
        raise CorruptionError(path, offset + claims.page, "headers of pages", "other bytes")
    largest = int(claims.largest) + int(claims.dictionary)
    if largest > most:
        return largest, claims.plain, 0, claims.values
    if claims.dictionary_values > claims.dictionary:
        found = f"{claims.dictionary_values} values in {claims.dictionary} bytes"
        raise CorruptionError(path, offset, "a dictionary", found)
    longest = claims.shared
    if texts and claims.stored_dictionary.data != NULL:
        start = claims.stored_dictionary.data - memory.data
        page = memoryview(data)[start:start + claims.stored_dictionary.size]
        if codec is not None:
            try:
                page = codec.decompress(page, claims.dictionary, asbytes=True)
            except (pa.ArrowException, OSError) as error:
                raise CorruptionError(path, start, "a dictionary", error) from error
        dictionary = bytes_of(page)
        if ls_plain_longest(dictionary, claims.dictionary_values, &longest) != LS_OK:
            raise CorruptionError(path, start, "values of a dictionary", "other bytes")
        longest = max(longest, claims.shared)
    return largest, claims.plain, longest, claims.values
