/* A hash table over all records of a file that is used where it lies. It says in one step where the
 * record of a key is; without it, the key's block is found first (ls_fences.h) and then its slot
 * (ls_slots.h). It is made in memory, of blocks that have been checked, and never stored.
 *
 * A bucket is a cache line of twelve places. A place is the offset of a record and, apart from it,
 * a byte of the key's hash, by which all of a bucket are compared at once. Buckets fill up from their
 * first place on: a key is in the bucket that its hash picks or, where that says so, in one behind it. */
#ifndef LS_PLACES_H
#define LS_PLACES_H

#include "ls_slots.h"

#define LS_BUCKET_PLACES 12

/* Records lie before this offset: 33 bits. */
#define LS_PLACES_END (UINT64_C(1) << 33)

typedef struct {
    uint8_t marks[LS_BUCKET_PLACES]; /* of hashes; 0: no record */
    /* Bits, from the lowest on: the upper one of each offset; for each place whether a key of its mark
     * is in a run of changes (ls_changes.h); seven that say it of keys without a place here; and
     * LS_PLACES_GO_ON. Those of changes may be set while others look. */
    uint32_t high;
    uint32_t low[LS_BUCKET_PLACES];
} ls_places_bucket;

/* A key of the bucket is in one behind it. */
#define LS_PLACES_GO_ON UINT32_C(0x80000000)

typedef struct {
    const uint8_t *data; /* what offsets count from; NULL: there is no table */
    uint64_t size; /* records end there */
    ls_places_bucket *buckets; /* aligned to 64 bytes */
    uint32_t count; /* of buckets */
    uint32_t record; /* bytes of a record, on average */
    int complete; /* all records of the file are in it */
} ls_places;

static inline uint32_t ls_places_high(const ls_places_bucket *bucket) {
    return __atomic_load_n(&bucket->high, __ATOMIC_RELAXED);
}

/* The bits that say whether a key of that hash may be in a run of changes: those of the places that
 * `match` its mark, or, where there is none, one that its hash picks. */
static inline uint32_t ls_places_changed(uint32_t match, uint64_t hash) {
    return match != 0 ? match << LS_BUCKET_PLACES
                      : UINT32_C(1) << (2 * LS_BUCKET_PLACES + ((hash >> 8 & 0xffffff) * 7 >> 24));
}

/* Buckets for that many records; 0: there can be no such table. */
uint32_t ls_places_buckets(uint64_t records);

/* Puts an offset where keys of that hash are looked for. LS_NO_SPACE: all places have one. */
ls_status ls_places_put(ls_places *places, uint64_t hash, uint64_t offset);

/* Adds the records of a block at an offset. `before`: the last key of the block before it (data NULL:
 * there is none). LS_REPEATED: the first key is the same, so that a table cannot answer for it.
 * REQUIRES: room for the records in the buckets, all bytes of which were zero at first. */
ls_status ls_places_add(ls_places *places, ls_slice before, uint64_t offset, size_t size);

/* Adds the blocks of a file from *next on that are ready, until it has added so many records; moves
 * *next behind them, and sets what each is from then on in `moved`: ready, with no record that is not
 * in the table. LS_REPEATED as above, and of a block that repeats a key.
 * REQUIRES: the index of the file, and as many entries of both arrays as it has blocks. */
ls_status ls_places_move(ls_places *places, const ls_block *index, const ls_ready *ready,
                         ls_ready *moved, uint32_t *next, uint64_t records);

/* The number of the bucket that a hash picks. */
static inline uint64_t ls_places_number(const ls_places *places, uint64_t hash) {
    return ((hash >> 32) * places->count) >> 32;
}

static inline const ls_places_bucket *ls_places_bucket_of(const ls_places *places, uint64_t hash) {
    return places->buckets + ls_places_number(places, hash);
}

/* The bucket behind one. */
static inline const ls_places_bucket *ls_places_next(const ls_places *places,
                                                     const ls_places_bucket *bucket) {
    return ++bucket == places->buckets + places->count ? places->buckets : bucket;
}

static inline uint8_t ls_places_mark(uint64_t hash) {
    uint8_t mark = (uint8_t)(hash >> 16); /* the lowest bits are those of the file's bucket */
    return mark == 0 ? 1 : mark;
}

/* Bit i is set where place i of a bucket has a mark. */
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

/* The offset at the first place that is set in `found`, which is not 0. */
static inline uint64_t ls_places_at(const ls_places_bucket *bucket, uint32_t found) {
    unsigned i = (unsigned)__builtin_ctz(found);
    return (uint64_t)(ls_places_high(bucket) >> i & 1) << 32 | bucket->low[i];
}

/* The record at that place. */
static inline const uint8_t *ls_places_record(const ls_places *places,
                                              const ls_places_bucket *bucket, uint32_t found) {
    return places->data + ls_places_at(bucket, found);
}

/* Finds a key of that hash. *value stays as it is where the key is not there. Failures: of the record at
 * offset *bad, which may be that of another key. */
ls_status ls_places_get(const ls_places *places, ls_slice key, uint64_t hash, ls_slice *value,
                        uint64_t *bad);

#endif
