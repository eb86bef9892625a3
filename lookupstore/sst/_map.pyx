"""A file in a memory map that survives the truncation of the file.

A page of a map that is behind the end of its file raises SIGBUS when it is read, in any C code. The
handler in this module replaces that page and all pages behind it by zeros, and marks the map as
broken. The code then continues with wrong bytes, which it checks as it checks all bytes. Users of a
map check whether it is `broken` before they trust the bytes that they have read.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetFromErrno
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t


cdef extern from * nogil:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <signal.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    /* One of all maps of the process. Entries are reused but never freed: the signal handler
     * walks them without a lock. */
    typedef struct lookupstore_map {
        uintptr_t start, end;
        int protection;
        int broken;
        int tells; /* whether the system tells which pages are in memory */
        struct lookupstore_map *next;
    } lookupstore_map;

    /* Size of the parts of a file that Linux keeps as huge pages. Pages have 4 KiB or more. */
    #define PIECE ((size_t)2 << 20)
    #define MOST_PAGES (PIECE / 4096)

    static lookupstore_map *lookupstore_maps;
    static struct sigaction lookupstore_before;
    static uintptr_t lookupstore_page;

    static void lookupstore_on_bus_error(int number, siginfo_t *info, void *context) {
        int saved = errno;
        uintptr_t at = (uintptr_t)info->si_addr;
        lookupstore_map *map = __atomic_load_n(&lookupstore_maps, __ATOMIC_ACQUIRE);
        for (; map != NULL; map = map->next) {
            uintptr_t start = __atomic_load_n(&map->start, __ATOMIC_ACQUIRE);
            if (start == 0 || at < start || at >= __atomic_load_n(&map->end, __ATOMIC_ACQUIRE))
                continue;
            uintptr_t page = at & ~(lookupstore_page - 1);
            /* First, because a thread could otherwise find zeros without a broken map. */
            __atomic_store_n(&map->broken, 1, __ATOMIC_RELEASE);
            /* Together with all pages behind it, which the truncation has removed, too: a separate
             * map for each page would soon exceed the number of maps of a process. */
            if (mmap((void *)page, map->end - page, map->protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
                break;
            errno = saved;
            return;
        }
        errno = saved;
        /* Not an address of these maps: call the handler that was installed before. */
        if (lookupstore_before.sa_flags & SA_SIGINFO) {
            lookupstore_before.sa_sigaction(number, info, context);
        } else if (lookupstore_before.sa_handler != SIG_DFL &&
                   lookupstore_before.sa_handler != SIG_IGN) {
            lookupstore_before.sa_handler(number);
        } else {
            signal(number, SIG_DFL);
            raise(number);
        }
    }

    static int lookupstore_watch(void) {
        struct sigaction action = {0};
        lookupstore_page = (uintptr_t)sysconf(_SC_PAGESIZE);
        action.sa_sigaction = lookupstore_on_bus_error;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        return sigaction(SIGBUS, &action, &lookupstore_before);
    }

    /* Whether mincore is true: for the owner of a file, and whoever may write to it. To others,
     * Linux says that all pages are in memory. */
    static int lookupstore_tells(int descriptor) {
        struct stat status;
        char path[64];
        if (fstat(descriptor, &status) != 0)
            return 0;
        if (status.st_uid == geteuid())
            return 1;
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
    }

    /* Called with the GIL held: the list has one writer at a time. */
    static void *lookupstore_map_open(int descriptor, size_t size, int writable) {
        lookupstore_map *map = lookupstore_maps;
        while (map != NULL && map->start != 0)
            map = map->next;
        if (map == NULL) {
            map = (lookupstore_map *)calloc(1, sizeof *map);
            if (map == NULL) {
                errno = ENOMEM;
                return NULL;
            }
            map->next = lookupstore_maps;
            __atomic_store_n(&lookupstore_maps, map, __ATOMIC_RELEASE);
        }
        int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
        int kind = writable ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
        void *start = mmap(NULL, size, protection, kind, descriptor, 0);
        if (start == MAP_FAILED)
            return NULL;
        /* Otherwise the system reads the surroundings of a page that a lookup reads, up to
         * megabytes. Callers that read more than that request it, and still get all of it. */
        madvise(start, size, MADV_RANDOM);
        map->protection = protection;
        map->broken = 0;
        map->tells = lookupstore_tells(descriptor);
        __atomic_store_n(&map->end, (uintptr_t)start + size, __ATOMIC_RELEASE);
        __atomic_store_n(&map->start, (uintptr_t)start, __ATOMIC_RELEASE);
        return map;
    }

    static void lookupstore_map_close(void *opened) {
        lookupstore_map *map = (lookupstore_map *)opened;
        uintptr_t start = map->start, end = map->end;
        __atomic_store_n(&map->start, 0, __ATOMIC_RELEASE);
        munmap((void *)start, end - start);
    }

    static void *lookupstore_map_start(const void *map) {
        return (void *)((const lookupstore_map *)map)->start;
    }

    /* Asks the system to read a part of a file from the disk, without waiting. For one call, Linux
     * may read no more than its read-ahead, which is 128 KiB by default. */
    static void lookupstore_map_ahead(const void *opened, size_t offset, size_t size) {
        uintptr_t at = ((const lookupstore_map *)opened)->start + offset;
        uintptr_t end = at + size, next;
        for (at &= ~(lookupstore_page - 1); at < end; at = next) {
            next = end - at > 128 << 10 ? at + (128 << 10) : end;
            madvise((void *)at, next - at, MADV_WILLNEED);
        }
    }

    static size_t lookupstore_pages(size_t size) {
        return (size + lookupstore_page - 1) / lookupstore_page;
    }

    /* How many of up to MOST_PAGES pages of a map are in memory; 0 if the system does not tell. */
    static size_t lookupstore_map_count(const lookupstore_map *map, uintptr_t at, size_t pages) {
    #ifdef __linux__
        unsigned char here[MOST_PAGES];
        size_t count = 0;
        if (!map->tells || mincore((void *)at, pages * lookupstore_page, here) != 0)
            return 0;
        for (size_t i = 0; i < pages; i++)
            count += here[i] & 1;
        return count;
    #else
        (void)map, (void)at, (void)pages;
        return 0;
    #endif
    }

    /* Whether some of a file is in memory, as far as the first, the middle and the last page of
     * each piece tell: to ask for a page takes 0.1 us, for all of a piece some us. */
    static int lookupstore_map_seems_here(const void *opened, size_t offset, size_t size) {
        const lookupstore_map *map = (const lookupstore_map *)opened;
        uintptr_t start = (map->start + offset) & ~(lookupstore_page - 1);
        uintptr_t end = map->start + offset + size;
        for (uintptr_t at = start; at < end; at += PIECE) {
            size_t last = lookupstore_pages(end - at < PIECE ? end - at : PIECE) - 1;
            if (!lookupstore_map_count(map, at, 1) ||
                !lookupstore_map_count(map, at + last / 2 * lookupstore_page, 1) ||
                !lookupstore_map_count(map, at + last * lookupstore_page, 1))
                return 0;
        }
        return 1;
    }

    /* Whether all of a file is in memory: 1 or 0, or -1 if the system does not tell, as before
     * Linux 6.5, or for the files of others. It takes 0.1 us for a huge page. */
    static int lookupstore_is_cached(int descriptor, size_t size) {
    #ifdef __linux__
    #ifndef __NR_cachestat
    #define __NR_cachestat 451
    #endif
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE); /* there may be no map yet */
        struct { uint64_t start, size; } range = {0, size};
        struct { uint64_t cached, dirty, written, evicted, recently; } found = {0};
        if (descriptor < 0 || syscall(__NR_cachestat, descriptor, &range, &found, 0) != 0)
            return -1;
        /* A stacked file system may have the pages of the file below it. */
        return found.cached == 0 ? -1 : found.cached >= (size + page - 1) / page;
    #else
        (void)descriptor, (void)size;
        return -1;
    #endif
    }

    #if defined(MADV_POPULATE_READ) && defined(MADV_HUGEPAGE) && defined(MREMAP_MAYMOVE)
    /* Has the system read a part of a file in pieces of 2 MiB, which it then keeps in huge pages
     * if it can: lookups in them take a third of the time. The advice must not stay on the map
     * itself, or a lookup of a page that is not in memory would read as much. Therefore it is
     * given to a second map of the same pages, made as described in mremap(2). */
    static int lookupstore_map_read(const void *opened, size_t offset, size_t size) {
        uintptr_t start = ((const lookupstore_map *)opened)->start + offset, end = start + size;
        start &= ~(lookupstore_page - 1);
        size = end - start;
        void *other = mremap((void *)start, 0, size, MREMAP_MAYMOVE);
        if (other == MAP_FAILED)
            return -1;
        madvise(other, size, MADV_SEQUENTIAL);
        madvise(other, size, MADV_HUGEPAGE);
        int status = madvise(other, size, MADV_POPULATE_READ);
        munmap(other, size);
        return status;
    }
    #endif

    /* Maps pages of a file, so that lookups wait for nothing. */
    static void lookupstore_map_touch(const void *opened, size_t offset, size_t size) {
        uintptr_t start = ((const lookupstore_map *)opened)->start + offset, end = start + size;
        start &= ~(lookupstore_page - 1);
    #ifdef MADV_POPULATE_READ
        if (madvise((void *)start, end - start, MADV_POPULATE_READ) == 0)
            return;
    #endif
        for (; start < end; start += lookupstore_page)
            (void)*(const volatile uint8_t *)start;
    }

    /* Has the system read what is not in memory of some of a file, and maps its pages. */
    static void lookupstore_map_populate(const void *opened, size_t offset, size_t size) {
        size_t at = offset, end = offset + size, next;
        for (; at < end; at = next) {
            next = end - at > LOOKUPSTORE_POPULATED ? at + LOOKUPSTORE_POPULATED : end;
            if (lookupstore_map_seems_here(opened, at, next - at))
                continue;
    #if defined(MADV_POPULATE_READ) && defined(MADV_HUGEPAGE) && defined(MREMAP_MAYMOVE)
            if (lookupstore_map_read(opened, at, next - at) == 0)
                continue;
    #endif
            lookupstore_map_ahead(opened, at, next - at);
        }
        lookupstore_map_touch(opened, offset, size);
    }

    /* Has the system forget the pages of pieces that are only partly in memory, unless other
     * processes map them: where single pages are there, no huge page can be. */
    static void lookupstore_map_drop_scattered(const void *opened, size_t size, int descriptor) {
    #ifdef __linux__
        const lookupstore_map *map = (const lookupstore_map *)opened;
        if (map->protection & PROT_WRITE)
            return; /* it would lose its changes */
        for (size_t at = 0; at < size; at += PIECE) {
            size_t piece = size - at < PIECE ? size - at : PIECE;
            size_t here = lookupstore_map_count(map, map->start + at, lookupstore_pages(piece));
            if (here == 0 || here == lookupstore_pages(piece))
                continue;
            madvise((void *)(map->start + at), piece, MADV_DONTNEED);
            posix_fadvise(descriptor, (off_t)at, (off_t)PIECE, POSIX_FADV_DONTNEED);
        }
    #else
        (void)opened, (void)size, (void)descriptor;
    #endif
    }

    /* The end of the file, as it is now: zeros or a signal if the file was cut anywhere. */
    static uint32_t lookupstore_map_end(const void *opened, size_t size) {
        const volatile uint8_t *end =
            (const volatile uint8_t *)((const lookupstore_map *)opened)->start + size;
        uint32_t value = 0;
        for (size_t i = 1; i <= 4 && i <= size; i++)
            value = value << 8 | end[-(ptrdiff_t)i];
        return value;
    }

    static int lookupstore_map_broken(const void *opened) {
        return __atomic_load_n(&((const lookupstore_map *)opened)->broken, __ATOMIC_ACQUIRE);
    }
    """
    int lookupstore_watch() noexcept
    void *lookupstore_map_open(int descriptor, size_t size, int writable) noexcept
    void lookupstore_map_close(void *map) noexcept
    uint32_t lookupstore_map_end(const void *map, size_t size) noexcept
    void lookupstore_map_ahead(const void *map, size_t offset, size_t size) noexcept
    void lookupstore_map_populate(const void *map, size_t offset, size_t size) noexcept
    bint lookupstore_map_seems_here(const void *map, size_t offset, size_t size) noexcept
    int lookupstore_is_cached(int descriptor, size_t size) noexcept
    void lookupstore_map_touch(const void *map, size_t offset, size_t size) noexcept
    void lookupstore_map_drop_scattered(const void *map, size_t size, int descriptor) noexcept
    int lookupstore_map_broken(const void *map) noexcept
    void *lookupstore_map_start(const void *map) noexcept

cdef bint watching = False
cdef Py_ssize_t opened = 0


def maps_open():
    """Return the number of files that are mapped in this process."""
    return opened


cdef class FileMap:
    """A map of a whole file, read only: `memoryview(file_map)` has its bytes while it exists.

    The last four bytes of the file must not all be zero: they show whether it was truncated.
    Changes to a `writable` map stay in this process, which needs memory for the changed pages.
    """

    def __cinit__(self, int descriptor, size_t size, bint writable=False):
        global opened, watching
        if size == 0:
            raise ValueError("size=0: an empty file cannot be mapped")
        if not watching:
            if lookupstore_watch() != 0:
                PyErr_SetFromErrno(OSError)
            watching = True
        self.map = lookupstore_map_open(descriptor, size, writable)
        if self.map == NULL:
            PyErr_SetFromErrno(OSError)
        opened += 1
        self.size = size
        self.end = lookupstore_map_end(self.map, size)

    def __dealloc__(self):
        global opened
        if self.map != NULL:
            lookupstore_map_close(self.map)
            opened -= 1

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(
            view, self, lookupstore_map_start(self.map), <Py_ssize_t>self.size, 1, flags)

    def __len__(self):
        return self.size

    cdef const uint8_t *bytes(self) noexcept:
        """Return the bytes of the file, which are valid while the map exists."""
        return <const uint8_t *>lookupstore_map_start(self.map)

    cdef void populate_some(self, size_t offset, size_t size) noexcept:
        """Implement `populate`."""
        if offset < self.size:
            with nogil:
                lookupstore_map_populate(self.map, offset, min(size, self.size - offset))

    cdef bint map_all(self, here) noexcept:
        """Map all pages of the file if it is in memory; return whether it is.

        `here` is what `is_cached` said a moment ago; if it is None, some pages are asked for.
        """
        cdef bint found = here is not None and here
        cdef bint is_known = here is not None
        with nogil:
            if not is_known:
                found = lookupstore_map_seems_here(self.map, 0, self.size)
            if found:
                lookupstore_map_touch(self.map, 0, self.size)
        return found

    cdef void ahead_of(self, size_t offset, size_t size) noexcept:
        """Implement `ahead`."""
        if offset < self.size:
            lookupstore_map_ahead(self.map, offset, min(size, self.size - offset))

    def ahead(self, size_t offset, size_t size):
        """Request some bytes from the disk, without waiting for them.

        Bytes past the end of the file are ignored.
        """
        self.ahead_of(offset, size)

    def populate(self, size_t offset, size_t size):
        """Read some bytes from the disk in large pieces, so that lookups do not wait for them.

        Bytes past the end of the file are ignored.
        """
        self.populate_some(offset, size)

    @staticmethod
    def is_cached(int descriptor, size_t size):
        """Return whether all of a file is in memory, or None if the system does not tell."""
        cdef int here
        with nogil:
            here = lookupstore_is_cached(descriptor, size)
        return None if here < 0 else here != 0

    def drop_scattered(self, int descriptor):
        """Release pages that were read singly, so that `populate` can read large ones.

        Pages stay where a piece of 2 MiB is in memory as a whole, and where other processes map
        them. All stay in a writable map, which would lose its changes, and where the system does
        not tell which pages are in memory: to processes that neither own the file nor may write
        to it.

        Args:
            descriptor: Descriptor of the mapped file.
        """
        with nogil:
            lookupstore_map_drop_scattered(self.map, self.size, descriptor)

    cdef bint whole(self) noexcept:
        """Return whether the file was not truncated, as far as the bytes read until now show.

        A truncation leaves zeros in the page of the new end, without a signal, and removes the
        pages behind it. Therefore the last bytes of the file show any truncation: they are zero or
        raise the signal. Reading them is much cheaper than asking for the size.
        """
        return (
            lookupstore_map_end(self.map, self.size) == self.end
            and not lookupstore_map_broken(self.map))

    @property
    def broken(self):
        """Whether the file was truncated since it was mapped."""
        return not self.whole()
