"""The pages with the places and records of a piece, requested from the disk before its lookups."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc


cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <sys/mman.h>
    #include <unistd.h>

    static uintptr_t lookupstore_page_of(const uint8_t *at) {
        return (uintptr_t)at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    }

    /* Whether the pages of all addresses are in memory, as far as the system knows. */
    static int lookupstore_resident(const uint8_t *const *at, size_t count) {
    #ifdef __linux__
        for (size_t i = 0; i < count; i++) {
            unsigned char is_there = 1;
            if (mincore((void *)lookupstore_page_of(at[i]), 1, &is_there) == 0 && !(is_there & 1))
                return 0;
        }
    #endif
        return 1;
    }

    /* Asks the system to read the pages of addresses, without waiting. */
    static void lookupstore_ahead(const uint8_t *const *at, size_t count) {
        uintptr_t last = 0, page;
        for (size_t i = 0; i < count; i++) {
            page = lookupstore_page_of(at[i]);
            /* A record may end on the next page. */
            if (page != last)
                madvise((void *)page, (uintptr_t)at[i] + 256 - page, MADV_WILLNEED);
            last = page;
        }
    }
    """
    int lookupstore_resident(const uint8_t **at, size_t count)
    void lookupstore_ahead(const uint8_t **at, size_t count)


cdef extern from "ls_batch.h":
    size_t ls_batch_buckets_at(
        const ls_batch_files *files, const ls_batch_item *items, size_t count, size_t step,
        const uint8_t **at) noexcept nogil
    size_t ls_batch_records_at(
        const ls_batch_files *files, const ls_batch_item *items, size_t count, size_t step,
        const uint8_t **at) noexcept nogil


# Number of keys of a piece for which the system is asked whether their data is in memory.
cdef enum:
    PROBES = 4


cdef bint read_ahead(
        const ls_batch_files *files, const ls_batch_item *items, size_t count,
        Asks *asks, int most_unasked) noexcept nogil:
    """Request the places and records of items from the disk, unless they are in memory.

    Otherwise lookups wait for the disk once for each item. If they are, the system is not asked for
    some of the following keys, at most `most_unasked`. False: there is no memory for it.
    """
    cdef const uint8_t *some[PROBES]
    cdef const uint8_t **every
    cdef size_t step = count // PROBES + 1, found
    if asks.unasked >= <int>count:
        asks.unasked -= <int>count
        return True
    found = ls_batch_buckets_at(files, items, count, step, some)
    if lookupstore_resident(some, found):
        found = ls_batch_records_at(files, items, count, step, some)
        if lookupstore_resident(some, found):
            asks.apart = min(2 * asks.apart + <int>count, most_unasked)
            asks.unasked = asks.apart
            return True
    asks.apart = 0
    every = <const uint8_t **>malloc(count * sizeof(const uint8_t *))
    if every == NULL:
        return False
    found = ls_batch_buckets_at(files, items, count, 1, every)
    lookupstore_ahead(every, found)
    found = ls_batch_records_at(files, items, count, 1, every)
    lookupstore_ahead(every, found)
    free(every)
    return True
