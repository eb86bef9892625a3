"""Sums and maxima of runs in ORC streams, and sizes of LZ4 blocks."""

from libc.stdint cimport uint8_t, uint64_t

from lookupstore.arrow._binary cimport LS_OK, bytes_of, ls_slice, ls_status


cdef extern from "ls_runs.h":
    ctypedef enum ls_runs_version:
        LS_RUNS_1
        LS_RUNS_2
    ctypedef struct ls_lengths:
        uint64_t count
        uint64_t sum
        uint64_t longest
    ls_status ls_lengths_read(
        ls_slice runs, ls_runs_version version, bint is_signed,
        ls_lengths *lengths) noexcept nogil
    ls_status ls_byte_runs_greatest(ls_slice runs, uint8_t *greatest) noexcept nogil
    ls_status ls_lz4_size(ls_slice block, uint64_t *size) noexcept nogil


def lengths_in(bytes runs not None, int version, bint is_signed=False):
    """Return number, sum and maximum of lengths.

    Args:
        runs: Bytes of the stream.
        version: Version of the encoding, 1 or 2.
        is_signed: Whether the stream has signed numbers; none of them may be less than 0.

    Raises:
        ValueError: The stream makes no sense, or a length is less than 0 or no int32.
    """
    cdef ls_slice stream = bytes_of(runs)
    cdef ls_lengths lengths
    cdef ls_status status
    if version not in (1, 2):
        raise ValueError(f"version is {version}; give 1 or 2")
    cdef ls_runs_version wanted = LS_RUNS_1 if version == 1 else LS_RUNS_2
    with nogil:
        status = ls_lengths_read(stream, wanted, is_signed, &lengths)
    if status != LS_OK:
        raise ValueError("lengths that make no sense")
    return lengths.count, lengths.sum, lengths.longest


def greatest_byte(bytes runs not None):
    """Return the greatest byte of a stream of bytes, or 0 if it is empty.

    Raises:
        ValueError: The stream makes no sense.
    """
    cdef ls_slice stream = bytes_of(runs)
    cdef uint8_t greatest
    if ls_byte_runs_greatest(stream, &greatest) != LS_OK:
        raise ValueError("runs of bytes that make no sense")
    return greatest


def lz4_size(bytes block not None):
    """Return the uncompressed size of an LZ4 block in bytes.

    Raises:
        ValueError: The block makes no sense.
    """
    cdef ls_slice stored = bytes_of(block)
    cdef uint64_t size
    if ls_lz4_size(stored, &size) != LS_OK:
        raise ValueError("a broken block of LZ4")
    return size
