#include "ls_key_table.h"

#include <string.h>

#include "ls_hash.h"

/* Number of keys that are hashed before the first of them is looked up: their slots are
 * prefetched. */
#define TOGETHER 32
#define FEWEST_SLOTS 8

size_t ls_key_table_slots(size_t keys) {
    size_t slots = FEWEST_SLOTS;
    while (slots < 2 * keys)
        slots *= 2;
    return slots;
}

size_t ls_key_table_words(size_t slots) {
    return (slots + 15) / 16;
}

/* Returns the bit of a hash, independent of the bits that choose the slot. */
static inline size_t bit_of(const ls_key_table *table, uint64_t hash) {
    return (size_t)(hash >> 32) & (4 * table->mask + 3);
}

static inline void set_seen(const ls_key_table *table, uint64_t hash) {
    size_t bit = bit_of(table, hash);
    table->seen[bit / 64] |= UINT64_C(1) << bit % 64;
}

static inline int is_seen(const ls_key_table *table, uint64_t hash) {
    size_t bit = bit_of(table, hash);
    return table->seen[bit / 64] >> bit % 64 & 1;
}

static inline uint64_t tag_of(uint64_t hash) {
    return hash & 0xffffffff00000000u;
}

/* Returns the slot of a key: the one that has it, or the empty one where it would be. */
static inline uint64_t *slot_of(const ls_key_table *table, ls_slice key, uint64_t hash) {
    for (size_t at = hash & table->mask;; at = (at + 1) & table->mask) {
        uint64_t *slot = &table->slots[at];
        if (*slot == 0)
            return slot;
        if (tag_of(*slot) != tag_of(hash))
            continue;
        ls_slice other = {NULL, 0};
        (void)ls_column_get(&table->keys, (uint32_t)*slot - 1, &other); /* it was read before */
        if (other.size == key.size && memcmp(other.data, key.data, key.size) == 0)
            return slot;
    }
}

typedef struct {
    ls_slice keys[TOGETHER];
    uint64_t hashes[TOGETHER];
    int may_be[TOGETHER]; /* whether each key to look up may be in the table */
} batch;

static ls_status prepare(const ls_column *column, size_t from, size_t count, batch *batch,
                         size_t *bad) {
    for (size_t n = 0; n < count; n++) {
        ls_status status = ls_column_get(column, from + n, &batch->keys[n]);
        if (status != LS_OK) {
            *bad = from + n;
            return status;
        }
        batch->hashes[n] = ls_hash(batch->keys[n]);
    }
    return LS_OK;
}

static void prefetch_slot(const ls_key_table *table, uint64_t hash) {
    LS_PREFETCH(&table->slots[hash & table->mask]);
}

/* Keys that are in the table are compared, so their bytes are prefetched, too. */
static void prefetch_keys(const ls_key_table *table, const batch *batch, size_t count) {
    for (size_t n = 0; n < count; n++) {
        if (!batch->may_be[n])
            continue;
        uint64_t slot = table->slots[batch->hashes[n] & table->mask];
        ls_slice key;
        if (slot != 0 && tag_of(slot) == tag_of(batch->hashes[n]) &&
            ls_column_get(&table->keys, (uint32_t)slot - 1, &key) == LS_OK)
            LS_PREFETCH(key.data);
    }
}

ls_status ls_key_table_fill(const ls_key_table *table, uint32_t *first, size_t *different,
                            size_t *bad) {
    batch batch;
    const ls_column *keys = &table->keys;
    *different = 0;
    for (size_t from = 0; from < keys->length; from += TOGETHER) {
        size_t count = keys->length - from < TOGETHER ? keys->length - from : TOGETHER;
        ls_status status = prepare(keys, from, count, &batch, bad);
        if (status != LS_OK)
            return status;
        for (size_t n = 0; n < count; n++)
            prefetch_slot(table, batch.hashes[n]);
        for (size_t n = 0; n < count; n++) {
            size_t row = from + n;
            first[row] = (uint32_t)row;
            if (!ls_column_is_valid(keys, row))
                continue;
            uint64_t *slot = slot_of(table, batch.keys[n], batch.hashes[n]);
            if (*slot == 0) {
                *slot = tag_of(batch.hashes[n]) | (uint32_t)(row + 1);
                set_seen(table, batch.hashes[n]);
                ++*different;
            } else {
                first[row] = (uint32_t)*slot - 1;
            }
        }
    }
    return LS_OK;
}

ls_status ls_key_table_find(const ls_key_table *table, const ls_column *asked, int64_t *rows,
                            size_t *bad) {
    batch batch;
    for (size_t from = 0; from < asked->length; from += TOGETHER) {
        size_t count = asked->length - from < TOGETHER ? asked->length - from : TOGETHER;
        ls_status status = prepare(asked, from, count, &batch, bad);
        if (status != LS_OK)
            return status;
        for (size_t n = 0; n < count; n++) {
            batch.may_be[n] = is_seen(table, batch.hashes[n]);
            if (batch.may_be[n])
                prefetch_slot(table, batch.hashes[n]);
        }
        prefetch_keys(table, &batch, count);
        for (size_t n = 0; n < count; n++) {
            uint64_t slot = 0;
            if (batch.may_be[n] && ls_column_is_valid(asked, from + n))
                slot = *slot_of(table, batch.keys[n], batch.hashes[n]);
            rows[from + n] = slot == 0 ? -1 : (int64_t)(uint32_t)slot - 1;
        }
    }
    return LS_OK;
}
