/* Where the time of a batch goes: every stage of get_many on its own, in ns per key, beside what the
 * memory of this machine takes for the same. `make bench-stages` builds it, writes files for it and
 * runs it.
 *
 * usage: stages file.sst queries
 * The file is native and stored without compression. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ls_batch.h"

enum { PIECE = 1024, ROUNDS = 7, STAGES = 5 };

static const char *const NAMES[STAGES] = {"hash, filter", "route", "search", "gather", "all"};

typedef struct {
    const uint8_t *data;
    size_t size;
    ls_block index;
    ls_fences fences;
    ls_filter filter;
    ls_ready *ready;
    ls_places places;
    size_t records;
} file;

typedef struct {
    ls_column column;
    uint8_t *bytes;
    int64_t *offsets;
} keys;

static uint64_t state = 88172645463325252U;

static uint64_t random_number(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "stages: %s\n", what);
    exit(1);
}

static void *room(size_t size) {
    void *memory;
    if (posix_memalign(&memory, 2 << 20, size + 64) != 0)
        fail("no memory");
    madvise(memory, size, MADV_HUGEPAGE);
    memset(memory, 0, size);
    return memory;
}

static void open_file(const char *path, file *opened) {
    struct stat status;
    int descriptor = open(path, O_RDONLY);
    if (descriptor < 0 || fstat(descriptor, &status) != 0 || status.st_size < 64)
        fail("no such file, or too short");
    opened->size = (size_t)status.st_size;
    opened->data = mmap(NULL, opened->size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (opened->data == MAP_FAILED)
        fail("cannot map");
    const uint8_t *footer =
        opened->data + opened->size - 64; /* docs/reference/format.md, "Footer" */
    uint64_t filter = ls_load64(footer), filter_size = ls_load64(footer + 8);
    uint64_t index = ls_load64(footer + 16), index_size = ls_load64(footer + 24);
    if (ls_load32(footer + 60) != 0x4b4f4f4c || filter + filter_size > opened->size ||
        index + index_size > opened->size)
        fail("not a native file");
    opened->filter = (ls_filter){LS_FILTER_SPLIT_BLOCK, opened->data + filter, filter_size, 0};
    if (ls_block_open(&opened->index, opened->data + index, index_size) != LS_OK)
        fail("its index is compressed or damaged");
    ls_fences *fences = &opened->fences;
    fences->index = &opened->index;
    if (ls_fences_build(fences) != LS_OK)
        fail("bad index");
    fences->nodes = room(fences->node_count * sizeof *fences->nodes);
    fences->fences = room(fences->fence_count * sizeof *fences->fences);
    fences->starts = room(fences->start_count * sizeof *fences->starts);
    if (ls_fences_build(fences) != LS_OK)
        fail("bad index");
    opened->ready = room(opened->index.count * sizeof *opened->ready);
    uint8_t *slots = NULL;
    size_t left = 0;
    for (uint32_t i = 0; i < opened->index.count; i++) {
        ls_slice key, handle;
        uint64_t offset, size;
        uint32_t bad;
        ls_block block;
        if (ls_block_record(&opened->index, i, &key, &handle) != LS_OK)
            fail("bad index");
        const uint8_t *p = handle.data;
        if (ls_get_varint64(&p, handle.data + handle.size, &offset) != LS_OK ||
            ls_get_varint64(&p, handle.data + handle.size, &size) != LS_OK ||
            offset + size > opened->size ||
            ls_block_open(&block, opened->data + offset, size) != LS_OK)
            fail("its blocks are compressed or damaged");
        size_t needed = (size_t)ls_slots_buckets(block.count) * 64;
        if (left < needed) {
            left = needed > (64 << 20) ? needed : (size_t)64 << 20;
            slots = room(left);
        }
        if (ls_slots_build(&block, size, LS_ORDER_BYTES, (uint32_t *)(void *)slots,
                           &opened->ready[i], &bad) != LS_OK)
            fail("bad block");
        slots += needed;
        left -= needed;
        opened->records += block.count;
    }
}

/* Makes the table of all records, and says what that takes for each. */
static void make_places(file *opened) {
    ls_places *places = &opened->places;
    uint64_t added = 0;
    ls_slice before = {NULL, 0}, handle;
    double start = now();
    places->count = ls_places_buckets(opened->records);
    places->buckets = room(places->count * sizeof *places->buckets);
    places->data = opened->data;
    places->size = opened->size;
    places->record = opened->ready[0].record;
    for (uint32_t i = 0; i < opened->index.count; i++) {
        const ls_ready *block = &opened->ready[i];
        uint64_t offset = (uint64_t)(block->data - opened->data);
        if (ls_places_add(places, before, offset, block->size, &added) != LS_OK ||
            ls_block_record(&opened->index, i, &before, &handle) != LS_OK)
            fail("no table of its records");
    }
    printf("%.1f MB of places, made in %.1f ns a record; ",
           (double)(places->count * sizeof *places->buckets) / 1e6,
           (now() - start) / (double)opened->records);
}

static int compare(const void *a, const void *b) {
    ls_slice x = *(const ls_slice *)a, y = *(const ls_slice *)b;
    return ls_compare_bytes(x, y);
}

static int stored(const file *opened, ls_slice key) {
    uint32_t block;
    ls_slice value = {NULL, 0};
    if (ls_fences_route(&opened->fences, key, &block) != LS_OK)
        fail("bad index");
    return block < opened->index.count &&
           ls_ready_get(&opened->ready[block], LS_ORDER_BYTES, key, ls_hash(key), &value) ==
               LS_OK &&
           value.data != NULL;
}

/* Keys of random records; the missing ones have another of their last three bytes. */
static void choose(const file *opened, size_t count, int sorted, int missing, keys *chosen) {
    ls_slice *picked = room(count * sizeof *picked);
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        ls_block block;
        ls_slice value;
        const ls_ready *ready = &opened->ready[random_number() % opened->index.count];
        if (ls_block_open(&block, ready->data, ready->size) != LS_OK ||
            ls_block_record(&block, (uint32_t)(random_number() % block.count), &picked[i],
                            &value) != LS_OK)
            fail("bad block");
        size += picked[i].size;
    }
    if (sorted)
        qsort(picked, count, sizeof *picked, compare);
    chosen->bytes = room(size);
    chosen->offsets = room((count + 1) * sizeof *chosen->offsets);
    size = 0;
    for (size_t i = 0; i < count; i++) {
        ls_slice key = {chosen->bytes + size, picked[i].size};
        memcpy(chosen->bytes + size, picked[i].data, key.size);
        size += key.size;
        while (missing && key.size >= 3 && stored(opened, key))
            chosen->bytes[size - 1 - random_number() % 3] = (uint8_t)random_number();
        chosen->offsets[i + 1] = (int64_t)size;
    }
    chosen->column = (ls_column){.data = chosen->bytes,
                                 .data_size = size,
                                 .offsets = chosen->offsets,
                                 .offset_width = 8,
                                 .length = count};
    size_t width = picked[0].size; /* as Arrow has keys of one size */
    for (size_t i = 0; i < count && width > 0; i++)
        width = picked[i].size == width ? width : 0;
    if (width > 0) {
        chosen->column.offsets = NULL;
        chosen->column.offset_width = 0;
        chosen->column.width = width;
    }
    free(picked);
}

/* The stages of one batch, as Batch in _batch.pyx runs them. */
static void run(const file *opened, const ls_column *column, int filtered, int by_places,
                double *times) {
    static ls_batch_item items[PIECE];
    static ls_slice answers[PIECE];
    static uint8_t *data;
    static size_t room_for;
    size_t length = column->length, bad, count, left;
    const ls_filter *filter = &opened->filter;
    const ls_batch_file file = {.fences = &opened->fences,
                                .ready = opened->ready,
                                .places = &opened->places,
                                .blocks = (uint32_t)opened->fences.index->count};
    const ls_batch_files files = {&file, 1, LS_ORDER_BYTES};
    ls_batch_counts counts = {0};
    uint64_t bad_record;
    uint32_t bad_run;
    int64_t *offsets = room((length + 1) * sizeof *offsets);
    uint8_t *validity = room(length / 8 + 1);
    for (size_t start = 0; start < length; start += PIECE) {
        size_t end = start + PIECE < length ? start + PIECE : length;
        double at[STAGES];
        at[0] = now();
        memset(answers, 0, sizeof answers);
        ls_batch_filter(filtered ? &filter : NULL, &files, column, NULL, start, end, NULL, items,
                        &count, &counts, &bad);
        at[1] = now();
        if (!by_places)
            ls_batch_route(&files, column, items, &count, &counts, &bad);
        at[2] = now();
        if (by_places)
            ls_batch_find(&files, column, items, &count, &counts, start, NULL, answers, &bad,
                          &bad_run, &bad_record);
        else
            ls_batch_search(&files, column, items, count, start, NULL, answers, &left, &bad);
        at[3] = now();
        size_t needed = (size_t)offsets[start] + ls_batch_size(answers, end - start);
        if (needed > room_for) {
            uint8_t *more = room(2 * needed);
            if (data != NULL)
                memcpy(more, data, (size_t)offsets[start]);
            free(data);
            data = more;
            room_for = 2 * needed;
        }
        at[4] = now(); /* memory is another matter */
        ls_batch_gather(answers, end - start, offsets + start, validity + start / 8, data);
        double done = now();
        for (int stage = 0; stage < 3; stage++)
            times[stage] += at[stage + 1] - at[stage];
        times[3] += done - at[4];
        times[4] += at[3] - at[0] + done - at[4];
    }
    free(offsets);
    free(validity);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, by_size);
    return values[ROUNDS / 2];
}

/* What one random cache line of some memory takes, where many are asked for ahead. */
static double line_time(const uint8_t *data, size_t size, size_t count) {
    static volatile uint64_t sum;
    uint32_t *lines = room(count * sizeof *lines);
    double times[ROUNDS];
    for (size_t i = 0; i < count; i++)
        lines[i] = (uint32_t)(random_number() % (size / 64));
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t total = 0;
        double start = now();
        for (size_t i = 0; i < count; i++) {
            if (i + 48 < count)
                LS_PREFETCH(data + 64 * (size_t)lines[i + 48]);
            total += data[64 * (size_t)lines[i]];
        }
        times[round] = (now() - start) / (double)count;
        sum += total;
    }
    free(lines);
    return median(times);
}

int main(int argc, char **argv) {
    file opened = {0};
    if (argc != 3)
        fail("usage: stages file.sst queries");
    size_t count = strtoull(argv[2], NULL, 10);
    open_file(argv[1], &opened);
    make_places(&opened);
    printf("%zu records, %u blocks, filter of %.1f MB, %zu queries in pieces of %d; ns per key\n\n",
           opened.records, opened.index.count, (double)opened.filter.size / 1e6, count, PIECE);
    printf("| stage |");
    for (int stage = 0; stage < STAGES; stage++)
        printf(" %s |", NAMES[stage]);
    printf("\n|---|---|---|---|---|---|\n");
    const char *const kinds[] = {"random hits", "sorted hits", "misses", "random hits, filtered"};
    for (int kind = 0; kind < 4; kind++) {
        for (int by_places = 0; by_places < 2; by_places++) {
            keys chosen;
            double times[STAGES][ROUNDS] = {{0}};
            choose(&opened, count, kind == 1, kind == 2, &chosen);
            for (int round = -1; round < ROUNDS; round++) {
                double taken[STAGES] = {0};
                run(&opened, &chosen.column, kind >= 2, by_places, taken);
                for (int stage = 0; stage < STAGES && round >= 0; stage++)
                    times[stage][round] = taken[stage] / (double)count;
            }
            printf("| %s%s |", kinds[kind], by_places ? ", by places" : "");
            for (int stage = 0; stage < STAGES; stage++)
                printf(" %.1f |", median(times[stage]));
            printf("\n");
            free(chosen.bytes);
            free(chosen.offsets);
        }
    }
    size_t mapped = opened.size < ((size_t)1 << 37) ? opened.size : (size_t)1 << 37;
    uint8_t *huge = room((size_t)64 << 20);
    printf(
        "\nA random line of the mapped file: %.1f ns; of 64 MB in huge pages: %.1f; of the filter: "
        "%.1f; of 256 KB: %.1f.\n",
        line_time(opened.data, mapped, count), line_time(huge, (size_t)64 << 20, count),
        line_time(opened.filter.bits, opened.filter.size, count),
        line_time(huge, 256 << 10, count));
    return 0;
}
