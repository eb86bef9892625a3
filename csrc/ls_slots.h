/* A decoded block prepared for lookups: a hash table over its records, which finds the record of a
 * key without a search. It is made in memory when a block is read and never stored.
 *
 * A slot is LS_NO_SLOT, or the offset of a record in its low `bits` bits and bits of the key's hash
 * above them. Slots are in buckets of a cache line, which are filled from their first slot on: a
 * key is in the bucket that its hash picks or, if that is full, in one of the following ones. */
#ifndef LS_SLOTS_H
#define LS_SLOTS_H

#include "ls_block.h"
#include "ls_hash.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define LS_NO_SLOT UINT32_MAX
#define LS_BUCKET 16

typedef struct {
    const uint8_t *data; /* the block; NULL: not ready. Published last, see ls_ready_publish */
    const uint32_t *slots; /* NULL: keys are repeated, and Java's search must answer */
    uint32_t size; /* size of the block */
    uint32_t buckets;
    uint32_t mask; /* the bits of an offset */
    uint32_t record; /* average size of a record in bytes */
} ls_ready;

/* Returns the number of buckets, of LS_BUCKET slots each, for a block with `records` records. */
uint32_t ls_slots_buckets(uint32_t records);

/* Reads every record of an opened block and makes it ready, for this thread.
 * REQUIRES: ls_slots_buckets(block->count) buckets at `slots`, aligned to 64 bytes, which exist as
 * long as `ready`. *bad: the first wrong record. */
ls_status ls_slots_build(const ls_block *block, size_t size, ls_order order, uint32_t *slots,
                         ls_ready *ready, uint32_t *bad);

static inline const uint32_t *ls_slots_bucket(const ls_ready *ready, uint64_t hash) {
    return ready->slots + LS_BUCKET * (((hash >> 32) * ready->buckets) >> 32);
}

/* Bit i of the result is set if slot i of a bucket may be that of a hash. */
static inline uint32_t ls_slots_match(const uint32_t *bucket, uint32_t mask, uint64_t hash) {
    uint32_t mark = (uint32_t)hash & ~mask, found = 0;
#if defined(__SSE2__)
    __m128i bits = _mm_set1_epi32((int)~mask), wanted = _mm_set1_epi32((int)mark), quarter[4];
    for (int i = 0; i < 4; i++) {
        __m128i slots = _mm_load_si128((const __m128i *)(const void *)(bucket + 4 * i));
        quarter[i] = _mm_cmpeq_epi32(_mm_and_si128(slots, bits), wanted);
    }
    found = (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(quarter[0], quarter[1]),
                                                        _mm_packs_epi32(quarter[2], quarter[3])));
#else
    for (int i = 0; i < LS_BUCKET; i++)
        found |= (uint32_t)((bucket[i] & ~mask) == mark) << i;
#endif
    return found;
}

/* Returns whether keys of a bucket may be in the next one. */
static inline int ls_slots_full(const uint32_t *bucket) {
    return bucket[LS_BUCKET - 1] != LS_NO_SLOT;
}

/* Reads the record at an offset: *value is set if its key is `key`, with *same = 1. */
static inline ls_status ls_ready_record(const ls_ready *ready, uint32_t offset, ls_slice key,
                                        int *same, ls_slice *value) {
    *same = 0;
    if (offset > ready->size)
        return LS_TRUNCATED;
    return ls_record_at(ready->data + offset, ready->data + ready->size, key, same, value);
}

/* Finds a key with a given hash in a ready block. *value is unchanged if the key is missing. */
ls_status ls_ready_get(const ls_ready *ready, ls_order order, ls_slice key, uint64_t hash,
                       ls_slice *value);

/* Publishes `data`, which other threads read without a lock: all other members must be visible
 * before. */
static inline void ls_ready_publish(ls_ready *ready, const uint8_t *data) {
    __atomic_store_n(&ready->data, data, __ATOMIC_SEQ_CST);
}

static inline const uint8_t *ls_ready_data(const ls_ready *ready) {
    return __atomic_load_n(&ready->data, __ATOMIC_SEQ_CST);
}

/* Returns the state of a block, with data NULL if it is not ready. `data` of a pinned block is NULL
 * for a moment whenever the cache tries to evict it, so it is read only once. */
static inline ls_ready ls_ready_seen(const ls_ready *ready) {
    const uint8_t *data = ls_ready_data(ready);
    if (data == NULL)
        return (ls_ready){0};
    return (ls_ready){data, ready->slots, ready->size, ready->buckets, ready->mask, ready->record};
}

/* Records that a block is used, for the cache that checks it from time to time. */
static inline void ls_ready_use(uint8_t *used) {
    __atomic_store_n(used, 1, __ATOMIC_RELAXED);
}

#endif
