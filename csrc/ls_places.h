/* A hash table over all records of a file that is used in place. It finds the record of a key in
 * one step; without it, the key's block is found first (ls_fences.h) and then its slot
 * (ls_slots.h). It is made of blocks that have been checked, and is never part of the file;
 * processes of a host share it (lookupstore/sst/shared.py).
 *
 * A bucket is a cache line of twelve places. A place is the offset of a record and, stored
 * separately, a byte of the key's hash, with which all places of a bucket are compared at once.
 * Buckets are filled from their first place on: a key is in the bucket that its hash picks or, if
 * LS_PLACES_GO_ON is set, in one of the following ones. */
#ifndef LS_PLACES_H
#define LS_PLACES_H

#include "ls_slots.h"

#define LS_BUCKET_PLACES 12

/* Records start before this offset: 33 bits. */
#define LS_PLACES_END (UINT64_C(1) << 33)

typedef struct {
    uint8_t marks[LS_BUCKET_PLACES]; /* bytes of hashes; 0: no record */
    /* Bits, from the lowest on: the highest bit of each offset; for each place whether a key with
     * its mark is in a run of changes (ls_changes.h); seven bits for the same about keys without a
     * place in this bucket; and LS_PLACES_GO_ON. The bits of changes may be set while other threads
     * read. */
    uint32_t high;
    uint32_t low[LS_BUCKET_PLACES];
} ls_places_bucket;

/* A key of the bucket is in a following one. */
#define LS_PLACES_GO_ON UINT32_C(0x80000000)

typedef struct {
    const uint8_t *data; /* base of the offsets; NULL: there is no table */
    uint64_t size; /* end of the records */
    ls_places_bucket *buckets; /* aligned to 64 bytes */
    uint32_t count; /* number of buckets */
    uint32_t record; /* average size of a record in bytes */
    /* 1: the table has not been checked yet: it may have wrong offsets, and may lack records. Set
     * to 0 while other threads read. */
    uint32_t unchecked;
} ls_places;

static inline int ls_places_unchecked(const ls_places *places) {
    return __atomic_load_n(&places->unchecked, __ATOMIC_RELAXED) != 0;
}

static inline void ls_places_trust(ls_places *places) {
    __atomic_store_n(&places->unchecked, 0, __ATOMIC_RELAXED);
}

static inline uint32_t ls_places_high(const ls_places_bucket *bucket) {
    return __atomic_load_n(&bucket->high, __ATOMIC_RELAXED);
}

/* Returns the bits that show whether a key with a hash may be in a run of changes: those of the
 * places that `match` its mark, or, if there is none, one that its hash picks. */
static inline uint32_t ls_places_changed(uint32_t match, uint64_t hash) {
    return match != 0 ? match << LS_BUCKET_PLACES
                      : UINT32_C(1) << (2 * LS_BUCKET_PLACES + ((hash >> 8 & 0xffffff) * 7 >> 24));
}

/* Returns the number of buckets for a number of records; 0: there can be no such table. */
uint32_t ls_places_buckets(uint64_t records);

/* Stores an offset for keys with a hash. LS_NO_SPACE: all places are used. */
ls_status ls_places_put(ls_places *places, uint64_t hash, uint64_t offset);

/* Adds the records of a block at an offset, and their number to *records. `before`: the last key of
 * the block before it (data NULL: there is none). LS_REPEATED: a key is repeated, and cannot be
 * answered by a table.
 * REQUIRES: room for the records in the buckets, all bytes of which were zero at first. */
ls_status ls_places_add(ls_places *places, ls_slice before, uint64_t offset, size_t size,
                        uint64_t *records);

/* Returns the number of the bucket that a hash picks. */
static inline uint64_t ls_places_number(const ls_places *places, uint64_t hash) {
    return ((hash >> 32) * places->count) >> 32;
}

static inline const ls_places_bucket *ls_places_bucket_of(const ls_places *places, uint64_t hash) {
    return places->buckets + ls_places_number(places, hash);
}

/* Returns the bucket after another one. */
static inline const ls_places_bucket *ls_places_next(const ls_places *places,
                                                     const ls_places_bucket *bucket) {
    return ++bucket == places->buckets + places->count ? places->buckets : bucket;
}

static inline uint8_t ls_places_mark(uint64_t hash) {
    uint8_t mark = (uint8_t)(hash >> 16); /* the lowest bits pick the file's bucket */
    return mark == 0 ? 1 : mark;
}

/* Bit i of the result is set if place i of a bucket has a mark. */
static inline uint32_t ls_places_match(const ls_places_bucket *bucket, uint8_t mark) {
    uint32_t found = 0;
#if defined(__SSE2__)
    __m128i marks = _mm_load_si128((const __m128i *)(const void *)bucket);
    found = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(marks, _mm_set1_epi8((char)mark)));
    found &= (1U << LS_BUCKET_PLACES) - 1;
#else
    for (int i = 0; i < LS_BUCKET_PLACES; i++)
        found |= (uint32_t)(bucket->marks[i] == mark) << i;
#endif
    return found;
}

/* Returns the offset at the first place that is set in `found`, which is not 0. */
static inline uint64_t ls_places_at(const ls_places_bucket *bucket, uint32_t found) {
    unsigned i = (unsigned)__builtin_ctz(found);
    return (uint64_t)(ls_places_high(bucket) >> i & 1) << 32 | bucket->low[i];
}

/* Returns the record at that place. */
static inline const uint8_t *ls_places_record(const ls_places *places,
                                              const ls_places_bucket *bucket, uint32_t found) {
    return places->data + ls_places_at(bucket, found);
}

/* Finds a key with a given hash. *value is unchanged if the key is missing. Failures: of the record
 * at offset *bad, which may be that of another key. */
ls_status ls_places_get(const ls_places *places, ls_slice key, uint64_t hash, ls_slice *value,
                        uint64_t *bad);

#endif
