#include "ls_changes.h"

/* Number of records whose buckets are prefetched before they are read. */
#define AHEAD 64

ls_status ls_changes_add(ls_changes *changes, uint32_t run, uint64_t offset, size_t size,
                         ls_places *file) {
    ls_block block;
    uint64_t hashes[AHEAD];
    if (run >= changes->count || changes->sizes[run] > LS_CHANGES_END ||
        offset > changes->sizes[run] || size > changes->sizes[run] - offset)
        return LS_TRUNCATED;
    ls_status status = ls_block_open(&block, changes->data[run] + offset, size);
    if (status != LS_OK)
        return status;
    for (uint32_t start = 0; start < block.count; start += AHEAD) {
        uint32_t count = block.count - start < AHEAD ? block.count - start : AHEAD;
        for (uint32_t i = 0; i < count; i++) {
            ls_slice key, value;
            status = ls_block_record(&block, start + i, &key, &value);
            if (status != LS_OK)
                return status;
            hashes[i] = ls_hash(key);
            __builtin_prefetch(ls_places_bucket_of(&changes->table, hashes[i]), 1);
            __builtin_prefetch(ls_places_bucket_of(file, hashes[i]), 1);
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = ls_block_at(&block, start + i);
            if (at >= size) /* it has changed since it was read */
                return LS_BAD_POSITION;
            status = ls_places_put(&changes->table, hashes[i], run * LS_CHANGES_END + offset + at);
            if (status != LS_OK)
                return status;
            ls_places_bucket *bucket = file->buckets + ls_places_number(file, hashes[i]);
            uint32_t match = ls_places_match(bucket, ls_places_mark(hashes[i]));
            __atomic_fetch_or(&bucket->high, ls_places_changed(match, hashes[i]), __ATOMIC_RELAXED);
        }
    }
    return LS_OK;
}

ls_status ls_changes_get(const ls_changes *changes, ls_slice key, uint64_t hash, ls_slice *value,
                         uint32_t *run, uint64_t *bad) {
    const ls_places *table = &changes->table;
    const ls_places_bucket *bucket = ls_places_bucket_of(table, hash);
    uint8_t mark = ls_places_mark(hash);
    for (uint32_t n = 0; n < table->count; n++) {
        for (uint32_t found = ls_places_match(bucket, mark); found != 0; found &= found - 1) {
            const uint8_t *record = ls_changes_record(changes, ls_places_at(bucket, found), run);
            int same = 0;
            *bad = (uint64_t)(record - changes->data[*run]);
            ls_status status =
                ls_record_at(record, changes->data[*run] + changes->sizes[*run], key, &same, value);
            if (status != LS_OK || same)
                return status;
        }
        if (!(ls_places_high(bucket) & LS_PLACES_GO_ON))
            break;
        bucket = ls_places_next(table, bucket);
    }
    return LS_OK;
}
