/* A batch of keys against one file, in passes over a piece of it: keys to hashes, past the filter, to
 * blocks, to records, to Arrow. Every pass asks for the memory that the next one touches, so that
 * misses of the cache overlap. Keys need no order, and answers come in the order of the request. */
#ifndef LS_BATCH_H
#define LS_BATCH_H

#include "ls_fences.h"
#include "ls_filter.h"
#include "ls_slots.h"

/* A key that may be there. */
typedef struct {
    uint64_t hash;
    uint32_t index; /* of the key in its column */
    uint32_t block; /* with LS_SEARCHED once it has been looked for */
} ls_batch_item;

#define LS_SEARCHED UINT32_C(0x80000000)

/* Makes items of the keys [from, to) that are not null and that the filter lets pass. With `places`
 * these are the keys at places[from .. to) of the column, which are within it and have their hashes;
 * else `hashes` has those of the keys [from, to), or is NULL.
 * LS_BAD_KEY, LS_BAD_COLUMN: of key *bad. REQUIRES: room for to - from items. */
ls_status ls_batch_filter(const ls_filter *filter, ls_order order, const ls_column *keys,
                          const uint32_t *places, size_t from, size_t to, const uint64_t *hashes,
                          ls_batch_item *items, size_t *count, size_t *bad);

/* Bytes of the keys of items. */
size_t ls_batch_key_bytes(const ls_column *keys, const ls_batch_item *items, size_t count);

/* Makes a column of the keys of items, which then number it; origins[i] is what item i numbered before.
 * REQUIRES: room for the bytes of the keys, and for count + 1 offsets unless they have one width. */
void ls_batch_take_keys(const ls_column *keys, ls_batch_item *items, size_t count, uint8_t *data,
                        int64_t *offsets, uint32_t *origins, ls_column *taken);

/* Takes out the items that the filter does not let pass. */
void ls_batch_filter_items(const ls_filter *filter, const ls_column *keys, ls_batch_item *items,
                           size_t *count);

/* Sets the block of each item; items beyond the last block drop out. */
ls_status ls_batch_route(const ls_fences *fences, const ls_ready *ready, const ls_column *keys,
                         ls_batch_item *items, size_t *count);

/* Counts every item as a user of its block, which nobody may then take away, and back. `used`: one
 * byte per block, set where an item needs it. */
void ls_batch_pin(uint32_t *pins, uint8_t *used, const ls_batch_item *items, size_t count);
void ls_batch_unpin(uint32_t *pins, const ls_batch_item *items, size_t count);

/* Sets in a zeroed bitmap the blocks of items that have not been searched and are not ready. */
void ls_batch_missing(const ls_ready *ready, const ls_batch_item *items, size_t count,
                      uint8_t *bitmap);

/* The first byte of a value in a run of changes. */
#define LS_KIND_ROW 0
#define LS_KIND_TOMBSTONE 1

/* Takes out the items that have an answer already, of a newer file. */
void ls_batch_drop_answered(ls_batch_item *items, size_t *count, size_t first,
                            const ls_slice *answers);

/* Makes what was found for the keys *next and following that come before key `limit` their answers,
 * and moves *next behind them. Returns how many have one; *gone: whether one is at `deleted`. */
size_t ls_batch_put_answers(const uint32_t *origins, const ls_slice *found, size_t count,
                            size_t *next, size_t limit, size_t first, const uint8_t *deleted,
                            ls_slice *answers, int *gone);

/* Makes the answers at tombstones, no bytes at `deleted`, those of missing keys: of the keys [from, to)
 * or, with `places`, of those at places[from .. to). */
void ls_batch_forget_deleted(const uint32_t *places, size_t from, size_t to, size_t first,
                             const uint8_t *deleted, ls_slice *answers);

/* Looks for every item that has not been searched and whose block is ready; *left: how many have not
 * been searched then. answers[item.index - first] becomes the value, or stays as it is. With
 * `deleted`, the file is a run of changes: the answer is the row behind the kind of its value, and at
 * a tombstone it is no bytes at `deleted`. Failures: of block *bad; LS_BAD_RECORD: a value without a
 * kind. */
ls_status ls_batch_search(const ls_ready *ready, ls_order order, const ls_column *keys,
                          ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
                          ls_slice *answers, size_t *left, uint32_t *bad);

/* Bytes of the answers of searched items. */
size_t ls_batch_stage_size(const ls_batch_item *items, size_t count, size_t first,
                           const ls_slice *answers);

/* Copies the answers of searched items to `arena` and points them there, so that their blocks may
 * go; not those at `deleted`. */
void ls_batch_stage(const ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
                    ls_slice *answers, uint8_t *arena);

/* Takes the searched items out, and their pins (NULL: there are none); returns how many are left. */
size_t ls_batch_drop_searched(uint32_t *pins, ls_batch_item *items, size_t count);

/* Bytes of all answers; one without data is missing. */
size_t ls_batch_size(const ls_slice *answers, size_t count);

/* Appends answers to Arrow large_binary buffers: offsets[0] is where the data ends so far, and `count`
 * offsets follow; bit i of `validity`, which is zeroed, is set where answer i is there. Returns the
 * number of missing ones. REQUIRES: room for ls_batch_size more bytes of data. */
size_t ls_batch_gather(const ls_slice *answers, size_t count, int64_t *offsets, uint8_t *validity,
                       uint8_t *data);

/* Sets bit i of a zeroed bitmap where answer i is there. Returns the number of missing ones. */
size_t ls_batch_found(const ls_slice *answers, size_t count, uint8_t *bitmap);

#endif
