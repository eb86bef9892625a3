#include "ls_file_ranges.h"

/* Returns the number of bytes that two keys share. */
static size_t shared_bytes(ls_slice a, ls_slice b) {
    size_t least = a.size < b.size ? a.size : b.size, i = 0;
    while (i < least && a.data[i] == b.data[i])
        i++;
    return i;
}

/* Returns the 8 bytes of a key after those that all first keys share, as a number: the least number
 * for keys below all of them, the greatest one for keys above. */
static inline uint64_t number_of(const ls_file_ranges *ranges, ls_slice key) {
    size_t shared = ranges->shared;
    if (shared > 0) {
        size_t size = key.size < shared ? key.size : shared;
        int order = size == 0 ? 0 : memcmp(key.data, ranges->firsts[0].data, size);
        if (order > 0)
            return UINT64_MAX;
        if (order < 0)
            return 0;
    }
    return key.size <= shared ? 0 : ls_bytes_prefix(key.data + shared, key.size - shared);
}

static int have_ties(const ls_file_ranges *ranges) {
    for (uint32_t i = 1; i < ranges->count; i++)
        if (number_of(ranges, ranges->firsts[i - 1]) == number_of(ranges, ranges->firsts[i]))
            return 1;
    return 0;
}

static void build_cells(ls_file_ranges *ranges) {
    uint64_t least = ranges->starts[0], span = ranges->starts[ranges->count - 1] - least;
    uint32_t file = 0;
    ranges->most = 0;
    for (ranges->shift = 0; span >> ranges->shift >= LS_RANGES_CELLS;)
        ranges->shift++;
    for (uint64_t cell = 0; cell <= span >> ranges->shift; cell++) {
        uint64_t end = cell << ranges->shift | ((UINT64_C(1) << ranges->shift) - 1);
        /* Keys below all files have the first cell, and its first file. */
        while (cell > 0 && file + 1 < ranges->count &&
               ranges->starts[file + 1] - least <= cell << ranges->shift)
            file++;
        uint32_t begun = file;
        ranges->cells[cell] = file;
        while (file + 1 < ranges->count && ranges->starts[file + 1] - least <= end)
            file++;
        ranges->most = file - begun > ranges->most ? file - begun : ranges->most;
    }
}

void ls_file_ranges_build(ls_file_ranges *ranges) {
    ranges->shared = 0;
    if (have_ties(ranges)) /* otherwise no key has to be compared with the shared bytes */
        ranges->shared = shared_bytes(ranges->firsts[0], ranges->firsts[ranges->count - 1]);
    for (uint32_t i = 0; i < ranges->count; i++) {
        ranges->starts[i] = number_of(ranges, ranges->firsts[i]);
        ranges->ends[i] = number_of(ranges, ranges->lasts[i]);
    }
    if (ranges->cells != NULL)
        build_cells(ranges);
}

/* Returns the file of a key whose number is that of a first key; `above`: the first file with a
 * greater number. */
static uint32_t file_of_tie(const ls_file_ranges *ranges, ls_slice key, uint64_t number,
                            uint32_t above) {
    uint32_t low = 0, high = above; /* the first file that begins after the key is in [low, high] */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int after = ranges->starts[middle] == number
                        ? ls_compare_bytes(ranges->firsts[middle], key) > 0
                        : ranges->starts[middle] > number;
        if (after)
            high = middle;
        else
            low = middle + 1;
    }
    return low == 0 ? 0 : low - 1;
}

static inline ls_slice key_at(const ls_column *keys, const uint32_t *places, size_t i) {
    ls_slice key = {NULL, 0};
    (void)ls_column_get(keys, places == NULL ? i : places[i], &key);
    return key;
}

void ls_file_ranges_numbers(const ls_file_ranges *ranges, const ls_column *keys,
                            const uint32_t *places, size_t from, size_t to, uint64_t *numbers) {
    size_t count = to - from;
    if (keys->offset_width == 0 && keys->width == 8 && places == NULL && ranges->shared == 0)
        for (size_t i = 0; i < count; i++)
            numbers[i] = ls_load64_big(keys->data + 8 * (from + i));
    else
        for (size_t i = 0; i < count; i++)
            numbers[i] = number_of(ranges, key_at(keys, places, from + i));
}

/* Sets owners[i] to the last file whose number is not greater, or 0: by a binary search of all keys at
 * once, in which no branch depends on a key, and no key waits for another. */
static void search_starts(const ls_file_ranges *ranges, const uint64_t *numbers, size_t count,
                          uint32_t *owners) {
    memset(owners, 0, count * sizeof *owners);
    for (uint32_t left = ranges->count, half; left > 1; left -= half) {
        half = left / 2;
        const uint64_t *middle = ranges->starts + half;
        for (size_t i = 0; i < count; i++)
            owners[i] += half & (0 - (uint32_t)(middle[owners[i]] <= numbers[i]));
    }
}

/* Does the same by cells. */
static void search_cells(const ls_file_ranges *ranges, const uint64_t *numbers, size_t count,
                         uint32_t *owners) {
    const uint64_t *starts = ranges->starts;
    uint32_t last = ranges->count - 1;
    uint64_t least = starts[0], most = starts[last] - least;
    for (size_t i = 0; i < count; i++) {
        uint64_t at = numbers[i] < least ? 0 : numbers[i] - least;
        at = at < most ? at : most;
        owners[i] = ranges->cells[at >> ranges->shift];
    }
    for (uint32_t step = 0; step < ranges->most; step++)
        for (size_t i = 0; i < count; i++) {
            uint32_t next = owners[i] < last ? owners[i] + 1 : last;
            owners[i] = starts[next] <= numbers[i] ? next : owners[i];
        }
}

/* With more files in a cell, a binary search of all files takes less time. */
#define MOST_STEPS 4

void ls_file_ranges_route(const ls_file_ranges *ranges, const uint64_t *numbers,
                          const ls_column *keys, const uint32_t *places, size_t from, size_t to,
                          uint32_t *owners) {
    const uint64_t *starts = ranges->starts;
    size_t count = to - from;
    uint64_t ties = 0;
    if (ranges->count == 1) {
        memset(owners, 0, count * sizeof *owners);
        return;
    }
    if (ranges->most <= MOST_STEPS)
        search_cells(ranges, numbers, count, owners);
    else
        search_starts(ranges, numbers, count, owners);
    for (size_t i = 0; i < count; i++)
        ties += starts[owners[i]] == numbers[i];
    if (ties == 0)
        return;
    for (size_t i = 0; i < count; i++) /* rare, unless first keys agree in more than 8 bytes */
        if (starts[owners[i]] == numbers[i])
            owners[i] =
                file_of_tie(ranges, key_at(keys, places, from + i), numbers[i], owners[i] + 1);
}
