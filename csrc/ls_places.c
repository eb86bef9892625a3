#include "ls_places.h"

/* Number of used places per bucket of 12: with more, too many keys are not in their own bucket. */
#define KEYS_PER_BUCKET 8

/* Number of records whose buckets are prefetched before they are read. */
#define AHEAD 64

uint32_t ls_places_buckets(uint64_t records) {
    uint64_t buckets = records / KEYS_PER_BUCKET + 1; /* some place stays empty */
    return buckets > UINT32_MAX ? 0 : (uint32_t)buckets;
}

ls_status ls_places_put(ls_places *places, uint64_t hash, uint64_t offset) {
    ls_places_bucket *bucket = places->buckets + ls_places_number(places, hash);
    for (uint32_t n = 0; n < places->count; n++) {
        uint32_t empty = ls_places_match(bucket, 0);
        if (empty != 0) {
            unsigned i = (unsigned)__builtin_ctz(empty);
            bucket->marks[i] = ls_places_mark(hash);
            bucket->low[i] = (uint32_t)offset;
            bucket->high |= (uint32_t)(offset >> 32) << i;
            return LS_OK;
        }
        bucket->high |= LS_PLACES_GO_ON;
        if (++bucket == places->buckets + places->count)
            bucket = places->buckets;
    }
    return LS_NO_SPACE;
}

ls_status ls_places_add(ls_places *places, ls_slice before, uint64_t offset, size_t size,
                        uint64_t *records) {
    ls_block block;
    uint64_t hashes[AHEAD];
    if (offset > places->size || size > places->size - offset || places->size > LS_PLACES_END)
        return LS_TRUNCATED;
    ls_status status = ls_block_open(&block, places->data + offset, size);
    if (status != LS_OK)
        return status;
    for (uint32_t start = 0; start < block.count; start += AHEAD) {
        uint32_t count = block.count - start < AHEAD ? block.count - start : AHEAD;
        for (uint32_t i = 0; i < count; i++) {
            ls_slice key, value;
            status = ls_block_record(&block, start + i, &key, &value);
            if (status != LS_OK)
                return status;
            if (before.data != NULL && before.size == key.size &&
                ls_same_bytes(before.data, key.data, key.size))
                return LS_REPEATED;
            before = key;
            hashes[i] = ls_hash(key);
            __builtin_prefetch(ls_places_bucket_of(places, hashes[i]), 1);
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = ls_block_at(&block, start + i);
            if (at >= size) /* it has changed since it was read */
                return LS_BAD_POSITION;
            status = ls_places_put(places, hashes[i], offset + at);
            if (status != LS_OK)
                return status;
        }
    }
    *records += block.count;
    return LS_OK;
}

ls_status ls_places_get(const ls_places *places, ls_slice key, uint64_t hash, ls_slice *value,
                        uint64_t *bad) {
    const ls_places_bucket *bucket = ls_places_bucket_of(places, hash);
    const uint8_t *end = places->data + places->size;
    uint8_t mark = ls_places_mark(hash);
    for (uint32_t n = 0; n < places->count; n++) {
        for (uint32_t found = ls_places_match(bucket, mark); found != 0; found &= found - 1) {
            const uint8_t *record = ls_places_record(places, bucket, found);
            int same = 0;
            *bad = (uint64_t)(record - places->data);
            ls_status status = ls_record_at(record, end, key, &same, value);
            if (status != LS_OK || same)
                return status;
        }
        if (!(ls_places_high(bucket) & LS_PLACES_GO_ON))
            break;
        bucket = ls_places_next(places, bucket);
    }
    return LS_OK;
}
