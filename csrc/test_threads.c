/* Threads on the blocks of one file, which come and go: the steps of a batch (_batch.pyx) and those of
 * the table and its cache (_table.pyx), for ThreadSanitizer. `test_threads SEED` repeats the random
 * choices of a run, if not its order.
 *
 * A mutex stands for the GIL: blocks come and go under it. A block that goes is filled with junk and
 * freed, so that an answer which points into it is a wrong answer, or an error of the sanitizer.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ls_batch.h"

enum { BLOCKS = 24, RECORDS = 40, KEYS = BLOCKS * RECORDS, BATCH = 300, KEY = 8, MOST_VALUE = 60 };
enum { READERS = 4, ROUNDS = 200, HELD = 6 };

static pthread_mutex_t gil = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long seed;
static uint8_t *stored[BLOCKS]; /* never changes */
static size_t stored_size[BLOCKS];

/* What BlockTable and BlockCache have. */
static ls_ready ready[BLOCKS + 1];
static uint32_t pins[BLOCKS + 1];
static uint8_t used[BLOCKS + 1];
static uint8_t *data[BLOCKS];
static uint32_t *slots[BLOCKS];
static unsigned queue[BLOCKS + 1];
static size_t queued, loads, evictions, kept_pinned, kept_used;
static int stopped;

static void fail(const char *what) {
    fprintf(stderr, "seed %llu: %s\n", seed, what);
    abort();
}

/* Aligned as the slots of a block must be. */
static void *room(size_t size) {
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
    if (memory == NULL)
        fail("no memory");
    return memory;
}

/* splitmix64 */
static uint64_t any(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Lets another thread run between two steps, which would otherwise hardly ever happen. */
static void dawdle(void) {
    static _Thread_local unsigned calls;
    if (++calls % 4 == 0)
        sched_yield();
}

/* Key number n; the odd ones lie between those that are stored. */
static void put_key(uint8_t *key, unsigned n) {
    char text[KEY + 1];
    snprintf(text, sizeof text, "%08u", n);
    memcpy(key, text, KEY);
}

static size_t value_size(unsigned n) {
    return n * 2654435761U % MOST_VALUE;
}

static uint8_t value_byte(unsigned n, size_t i) {
    return (uint8_t)(n * 31U + i);
}

static void make_file(uint8_t *last_keys) {
    static uint8_t bytes[RECORDS * (KEY + MOST_VALUE + 20)];
    static uint32_t positions[RECORDS];
    for (unsigned block = 0; block < BLOCKS; block++) {
        ls_block_builder builder = {.data = bytes,
                                    .capacity = sizeof bytes,
                                    .positions = positions,
                                    .positions_capacity = RECORDS};
        ls_block_reset(&builder);
        for (unsigned i = 0; i < RECORDS; i++) {
            unsigned n = 2 * (block * RECORDS + i);
            uint8_t key[KEY], value[MOST_VALUE];
            put_key(key, n);
            for (size_t at = 0; at < value_size(n); at++)
                value[at] = value_byte(n, at);
            if (ls_block_add(&builder, (ls_slice){key, KEY}, (ls_slice){value, value_size(n)}) !=
                LS_OK)
                fail("a block that can not be built");
            memcpy(last_keys + KEY * block, key, KEY);
        }
        ls_block_finish(&builder);
        stored_size[block] = builder.size;
        stored[block] = room(builder.size);
        memcpy(stored[block], bytes, builder.size);
    }
}

/* BlockTable.release, with the GIL held. */
static int release(unsigned number) {
    ls_ready *entry = &ready[number];
    const uint8_t *held = ls_ready_data(entry);
    if (__atomic_exchange_n(&used[number], 0, __ATOMIC_RELAXED)) {
        kept_used++;
        return 0;
    }
    dawdle();
    ls_ready_publish(entry, NULL);
    dawdle();
    if (__atomic_load_n(&pins[number], __ATOMIC_SEQ_CST) != 0) {
        ls_ready_publish(entry, held);
        kept_pinned++;
        return 0;
    }
    memset(data[number], 0xee, stored_size[number]);
    free(data[number]);
    free(slots[number]);
    data[number] = NULL;
    evictions++;
    return 1;
}

/* BlockCache._shrink, with the GIL held. */
static void shrink(size_t capacity) {
    for (size_t looks = 2 * queued; looks > 0 && queued > capacity; looks--) {
        unsigned number = queue[0];
        memmove(queue, queue + 1, --queued * sizeof *queue);
        if (!release(number))
            queue[queued++] = number;
    }
}

/* BlockTable.put, with the GIL held. */
static void put(unsigned number) {
    ls_block block;
    ls_ready made;
    uint32_t bad;
    if (data[number] != NULL)
        return; /* another thread has added it */
    data[number] = room(stored_size[number]);
    memcpy(data[number], stored[number], stored_size[number]);
    if (ls_block_open(&block, data[number], stored_size[number]) != LS_OK)
        fail("a block that does not open");
    slots[number] = room(64 * (size_t)ls_slots_buckets(block.count));
    if (ls_slots_build(&block, stored_size[number], LS_ORDER_BYTES, slots[number], &made, &bad) !=
        LS_OK)
        fail("a block without slots");
    ready[number].slots = made.slots;
    ready[number].size = made.size;
    ready[number].buckets = made.buckets;
    ready[number].mask = made.mask;
    ready[number].record = made.record;
    ls_ready_publish(&ready[number], made.data);
    queue[queued++] = number;
    loads++;
    shrink(HELD);
}

static void check(unsigned n, ls_slice answer) {
    if (n % 2 != 0 || n >= 2 * KEYS) {
        if (answer.data != NULL)
            fail("an answer for a key that is not there");
        return;
    }
    if (answer.data == NULL || answer.size != value_size(n))
        fail("no answer, or one of a wrong size");
    for (size_t i = 0; i < answer.size; i++)
        if (answer.data[i] != value_byte(n, i))
            fail("a wrong answer");
}

static ls_fences fences;

static void batch(uint64_t *state) {
    unsigned asked[BATCH];
    uint8_t keys[BATCH * KEY];
    ls_batch_item items[BATCH];
    ls_slice answers[BATCH] = {{NULL, 0}};
    size_t length = 1 + any(state) % BATCH, count = 0, left = 0, bad;
    const ls_batch_file file = {
        .fences = &fences, .ready = ready, .pins = pins, .used = used, .blocks = BLOCKS};
    const ls_batch_files files = {&file, 1, LS_ORDER_BYTES};
    ls_batch_counts counts = {0};
    unsigned first = (unsigned)(any(state) % KEYS);
    uint8_t *arenas[64] = {NULL};
    size_t arena_count = 0;
    for (size_t i = 0; i < length; i++) {
        asked[i] = (first + (unsigned)(any(state) % (2 * KEYS))) % (2 * KEYS + 9);
        put_key(keys + KEY * i, asked[i]);
    }
    ls_column column = {.data = keys, .data_size = KEY * length, .width = KEY, .length = length};
    if (ls_batch_filter(NULL, &files, &column, NULL, 0, length, NULL, items, &count, &counts,
                        &bad) != LS_OK ||
        ls_batch_route(&files, &column, items, &count, &counts, &bad) != LS_OK)
        fail("keys that are refused");
    ls_batch_pin(&files, items, count);
    dawdle();
    for (int more = 0;;) {
        if (ls_batch_search(&files, &column, items, count, 0, NULL, answers, &left, &bad) != LS_OK)
            fail("a search that fails");
        if (left == 0)
            break;
        if (more && arena_count < 64) { /* found values are copied, and their blocks may be freed */
            uint8_t *arena = room(ls_batch_stage_size(items, count, 0, answers) + 1);
            arenas[arena_count++] = arena;
            ls_batch_stage(items, count, 0, NULL, answers, arena);
            uint32_t starts[BLOCKS + 1] = {0};
            ls_batch_item taken[BATCH];
            size_t rest = ls_batch_take_missing(&files, items, &count, starts, BLOCKS, taken);
            ls_batch_unpin(&files, items, count);
            memcpy(items, taken, rest * sizeof *taken);
            count = rest;
            ls_batch_pin(&files, items, count);
        }
        pthread_mutex_lock(&gil);
        size_t room_for = 1 + any(state) % 4;
        more = 0;
        for (size_t i = 0; i < count; i++)
            if (!(items[i].block & LS_SEARCHED) &&
                ls_ready_data(&file.ready[items[i].block]) == NULL) {
                if (room_for-- == 0) {
                    more = 1;
                    break;
                }
                put(items[i].block);
            }
        pthread_mutex_unlock(&gil);
    }
    for (size_t i = 0; i < length; i++)
        check(asked[i], answers[i]);
    ls_batch_unpin(&files, items, count);
    for (size_t i = 0; i < arena_count; i++)
        free(arenas[i]);
    pthread_mutex_lock(&gil);
    shrink(HELD);
    pthread_mutex_unlock(&gil);
}

/* Lookup.get, which has the GIL. */
static void get(uint64_t *state) {
    unsigned n = (unsigned)(any(state) % (2 * KEYS));
    uint8_t bytes[KEY];
    ls_slice key = {bytes, KEY}, answer = {NULL, 0};
    uint32_t number;
    put_key(bytes, n);
    pthread_mutex_lock(&gil);
    if (ls_fences_route(&fences, key, &number) != LS_OK)
        fail("a key that is refused");
    if (number < BLOCKS) {
        if (ls_ready_data(&ready[number]) == NULL) {
            __atomic_fetch_add(&pins[number], 1,
                               __ATOMIC_SEQ_CST); /* for the block that Python code holds */
            put(number);
            __atomic_fetch_sub(&pins[number], 1, __ATOMIC_SEQ_CST);
        } else {
            ls_ready_use(&used[number]);
        }
        ls_ready seen = ls_ready_seen(&ready[number]);
        if (ls_ready_get(&seen, LS_ORDER_BYTES, key, ls_hash(key), &answer) != LS_OK)
            fail("a search that fails");
    }
    check(n, answer);
    pthread_mutex_unlock(&gil);
}

static void *reader(void *argument) {
    uint64_t state = seed + (uint64_t)(uintptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        batch(&state);
        get(&state);
    }
    return NULL;
}

/* Calls Cache.resize repeatedly. */
static void *resizer(void *argument) {
    uint64_t state = seed + 99;
    (void)argument;
    while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&gil);
        shrink(any(&state) % (HELD + 1));
        pthread_mutex_unlock(&gil);
    }
    return NULL;
}

int main(int count, char **arguments) {
    static uint8_t last_keys[BLOCKS * KEY], index[BLOCKS * (KEY + 8)];
    static uint32_t positions[BLOCKS];
    pthread_t threads[READERS], other;
    ls_block opened;
    seed = count > 1 ? strtoull(arguments[1], NULL, 10) : (unsigned long long)time(NULL);
    make_file(last_keys);
    ls_block_builder builder = {.data = index,
                                .capacity = sizeof index,
                                .positions = positions,
                                .positions_capacity = BLOCKS};
    ls_block_reset(&builder);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (ls_block_add(&builder, (ls_slice){last_keys + KEY * i, KEY}, (ls_slice){NULL, 0}) !=
            LS_OK)
            fail("an index that can not be built");
    ls_block_finish(&builder);
    if (ls_block_open(&opened, index, builder.size) != LS_OK)
        fail("an index that does not open");
    fences.index = &opened;
    fences.order = LS_ORDER_BYTES;
    if (ls_fences_build(&fences) != LS_OK)
        fail("an index without fences");
    fences.nodes = room((fences.node_count + 1) * sizeof *fences.nodes);
    fences.fences = room((fences.fence_count + 1) * sizeof *fences.fences);
    fences.starts = room((fences.start_count + 1) * sizeof *fences.starts);
    if (ls_fences_build(&fences) != LS_OK)
        fail("an index without fences");
    for (uintptr_t i = 0; i < READERS; i++)
        if (pthread_create(&threads[i], NULL, reader, (void *)i) != 0)
            fail("no thread");
    if (pthread_create(&other, NULL, resizer, NULL) != 0)
        fail("no thread");
    for (size_t i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&stopped, 1, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        if (pins[i] != 0)
            fail("a pin that nobody took back");
    shrink(0);
    if (queued != 0)
        fail("a block that does not go");
    printf("test_threads: seed %llu, %zu blocks loaded, %zu evicted, kept: %zu in use, %zu used "
           "lately\n",
           seed, loads, evictions, kept_pinned, kept_used);
    if (kept_pinned == 0 || kept_used == 0 || evictions == 0)
        fail("nothing was tested");
    for (size_t i = 0; i < BLOCKS; i++)
        free(stored[i]);
    free(fences.nodes);
    free(fences.fences);
    free(fences.starts);
    return 0;
}
