"""Have the system begin to write a file, so that the fsync at its end waits for little."""

from libc.stdint cimport int64_t


cdef extern from *:
    """
    #ifdef __linux__
    #include <fcntl.h>
    static int start_writing(int descriptor, int64_t offset, int64_t size) {
        return sync_file_range(descriptor, offset, size, SYNC_FILE_RANGE_WRITE);
    }
    #else
    static int start_writing(int descriptor, int64_t offset, int64_t size) {
        return 0;
    }
    #endif
    """
    int start_writing(int descriptor, int64_t offset, int64_t size) nogil


def start_writeback(int descriptor, int64_t offset, int64_t size):
    """Begin to write a range of a file to its disk, and do not wait; only Linux does.

    It is a hint: what fails here fails again in fsync, which says so.
    """
    with nogil:
        start_writing(descriptor, offset, size)
