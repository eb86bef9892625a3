"""A file seen through a memory map that survives the file's being cut short.

A page of a map that lies behind the end of its file raises SIGBUS when it is touched, in whatever C
code touches it. The handler here puts zeros in the place of it and of all behind it, and marks the
map as broken: the code goes on with wrong bytes, which it checks as it checks all bytes, and
whoever uses a map asks whether it is `broken` before it believes what it has read.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetFromErrno
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t


cdef extern from * nogil:
    """
    #include <errno.h>
    #include <signal.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <unistd.h>

    /* One of all maps of the process. Entries are reused but never freed: the handler of a signal
     * walks them without a lock. */
    typedef struct lookupstore_map {
        uintptr_t start, end;
        int broken;
        struct lookupstore_map *next;
    } lookupstore_map;

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
            /* First, or a thread could find the zeros and no map that is broken. */
            __atomic_store_n(&map->broken, 1, __ATOMIC_RELEASE);
            /* With all pages behind it, which a cut has taken, too: a hole for each page would soon
             * be more maps than a process may have. */
            if (mmap((void *)page, map->end - page, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
                break;
            errno = saved;
            return;
        }
        errno = saved;
        /* Not ours: whoever would have had it without us gets it. */
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

    /* Called with the GIL held: the list has one writer at a time. */
    static void *lookupstore_map_open(int descriptor, size_t size) {
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
        void *start = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
        if (start == MAP_FAILED)
            return NULL;
        /* Else the system reads what lies around a page that a lookup touches, megabytes at times:
         * whoever reads more than that asks for it, and gets no less. */
        madvise(start, size, MADV_RANDOM);
        map->broken = 0;
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

    /* Has the system read some of a file from the disk, if it has not, and waits for nothing.
     * Linux may read no more for a call than it would read ahead, which is 128 KiB by default. */
    static void lookupstore_map_ahead(const void *opened, size_t offset, size_t size) {
        uintptr_t at = ((const lookupstore_map *)opened)->start + offset;
        uintptr_t end = at + size, next;
        for (at &= ~(lookupstore_page - 1); at < end; at = next) {
            next = end - at > 128 << 10 ? at + (128 << 10) : end;
            madvise((void *)at, next - at, MADV_WILLNEED);
        }
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
    void *lookupstore_map_open(int descriptor, size_t size) noexcept
    void lookupstore_map_close(void *map) noexcept
    uint32_t lookupstore_map_end(const void *map, size_t size) noexcept
    void lookupstore_map_ahead(const void *map, size_t offset, size_t size) noexcept
    int lookupstore_map_broken(const void *map) noexcept
    void *lookupstore_map_start(const void *map) noexcept

cdef bint watching = False
cdef Py_ssize_t opened = 0


def maps_open():
    """Return how many files are mapped in this process."""
    return opened


cdef class FileMap:
    """A map of a whole file, read only: `memoryview(file_map)` is its bytes while it lives.

    The file's last four bytes must not all be zero: they tell whether it has been cut.
    """

    def __cinit__(self, int descriptor, size_t size):
        global opened, watching
        if size == 0:
            raise ValueError("size=0: an empty file cannot be mapped")
        if not watching:
            if lookupstore_watch() != 0:
                PyErr_SetFromErrno(OSError)
            watching = True
        self.map = lookupstore_map_open(descriptor, size)
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
        """The bytes of the file, which are there while the map is."""
        return <const uint8_t *>lookupstore_map_start(self.map)

    cdef void ahead_of(self, size_t offset, size_t size) noexcept:
        """Implement `ahead`."""
        if offset < self.size:
            lookupstore_map_ahead(self.map, offset, min(size, self.size - offset))

    def ahead(self, size_t offset, size_t size):
        """Ask the disk for some bytes, without waiting for them.

        Bytes past the end of the file are ignored.
        """
        self.ahead_of(offset, size)

    cdef bint whole(self) noexcept:
        """Whether the file has not been cut, as far as the bytes read until now can tell.

        A cut leaves zeros in the page that it goes through, of which no signal tells, and takes the
        pages behind it away. So the last bytes of the file tell of any cut: they are zero or raise
        the signal. It is much cheaper than to ask for the size.
        """
        return (
            lookupstore_map_end(self.map, self.size) == self.end
            and not lookupstore_map_broken(self.map))

    @property
    def broken(self):
        """Whether the file was cut since it was mapped."""
        return not self.whole()
