#include "ls_slots.h"

/* Number of used slots per bucket of 16: with more, too many keys are not in their own bucket. */
#define KEYS_PER_BUCKET 11

uint32_t ls_slots_buckets(uint32_t records) {
    return records / KEYS_PER_BUCKET + 1; /* some slot is always empty, so that a search ends */
}

ls_status ls_slots_build(const ls_block *block, size_t size, ls_order order, uint32_t *slots,
                         ls_ready *ready, uint32_t *bad) {
    uint32_t buckets = ls_slots_buckets(block->count), mask = 1;
    /* No record starts at the mask itself: the slot of one is not LS_NO_SLOT. */
    while (mask < block->records_size)
        mask = 2 * mask + 1;
    ready->data = block->data;
    ready->slots = slots;
    ready->size = (uint32_t)size;
    ready->buckets = buckets;
    ready->mask = mask;
    ready->record = block->count == 0 ? 0 : (uint32_t)(block->records_size / block->count);
    memset(slots, 0xff, (size_t)buckets * LS_BUCKET * sizeof *slots);
    for (uint32_t i = 0; i < block->count; i++) {
        ls_slice key, value;
        *bad = i;
        ls_status status = ls_block_record(block, i, &key, &value);
        if (status == LS_OK)
            status = ls_check_key(order, key);
        if (status != LS_OK)
            return status;
        if (ready->slots == NULL) /* a repeat was found: only check the other records */
            continue;
        uint64_t hash = ls_hash(key);
        uint32_t *bucket = slots + (ls_slots_bucket(ready, hash) - ready->slots), empty;
        int same = 0;
        for (;;) {
            empty = ls_slots_match(bucket, 0, LS_NO_SLOT);
            uint32_t found = ls_slots_match(bucket, mask, hash) & ~empty;
            for (; found != 0 && !same; found &= found - 1) {
                uint32_t offset = bucket[__builtin_ctz(found)] & mask;
                if (ls_ready_record(ready, offset, key, &same, &value) != LS_OK)
                    same = 0;
            }
            if (empty != 0 || same)
                break;
            bucket += LS_BUCKET;
            if (bucket == slots + (size_t)buckets * LS_BUCKET)
                bucket = slots;
        }
        if (same) {
            ready->slots = NULL;
            continue;
        }
        bucket[__builtin_ctz(empty)] = ((uint32_t)hash & ~mask) | ls_block_at(block, i);
    }
    return LS_OK;
}

ls_status ls_ready_get(const ls_ready *ready, ls_order order, ls_slice key, uint64_t hash,
                       ls_slice *value) {
    ls_status status;
    if (ready->slots == NULL) {
        ls_block block;
        ls_slice stored;
        uint32_t position;
        int found = 0;
        status = ls_block_open(&block, ready->data, ready->size);
        if (status == LS_OK)
            status = ls_block_seek(&block, order, key, &position, &found);
        if (status == LS_OK && found)
            status = ls_block_record(&block, position, &stored, value);
        return status;
    }
    const uint32_t *bucket = ls_slots_bucket(ready, hash);
    for (;;) {
        for (uint32_t found = ls_slots_match(bucket, ready->mask, hash); found != 0;
             found &= found - 1) {
            uint32_t slot = bucket[__builtin_ctz(found)];
            int same = 0;
            if (slot == LS_NO_SLOT)
                continue;
            status = ls_ready_record(ready, slot & ready->mask, key, &same, value);
            if (status != LS_OK || same)
                return status;
        }
        if (!ls_slots_full(bucket))
            return LS_OK;
        bucket += LS_BUCKET;
        if (bucket == ready->slots + (size_t)ready->buckets * LS_BUCKET)
            bucket = ready->slots;
    }
}
