/* A batch of keys against the files of all buckets, in passes over a piece of it: keys to hashes, past
 * the filter, to blocks, to records, to Arrow. Every pass asks for the memory that the next one
 * touches, so that misses of the cache overlap. Keys need no order: each goes to the file that its
 * hash picks, and answers come in the order of the request. */
#ifndef LS_BATCH_H
#define LS_BATCH_H

#include "ls_changes.h"
#include "ls_fences.h"
#include "ls_filter.h"
#include "ls_places.h"
#include "ls_slots.h"

/* One of the files. A bucket without one has a file without blocks. */
typedef struct {
    const ls_fences *fences;
    const ls_ready *ready;
    const ls_places *places; /* of its records; NULL: there are none */
    const ls_changes *changes; /* of runs above it, which its places note; NULL: there are none */
    uint32_t *pins; /* users of each block; NULL: its blocks stay */
    uint8_t *used; /* one byte per block, set where an item needs it */
    size_t first; /* the number of its first block among those of all files */
    uint32_t blocks;
    int is_run; /* of changes: values begin with their kind */
} ls_batch_file;

typedef struct {
    const ls_batch_file *files;
    uint32_t count;
    ls_order order; /* of the keys of all */
} ls_batch_files;

/* What a batch has asked of a file. */
typedef struct {
    uint64_t ruled_out; /* keys that its filter, if it was asked, did not let pass, and nulls */
    uint64_t routed; /* keys to look for in a block */
    uint64_t changed; /* keys to look for in runs of changes that its places note */
    int asked; /* whether one of its keys was looked at */
} ls_batch_counts;

/* A key that may be there. */
typedef struct {
    uint64_t hash;
    uint32_t index; /* of the key in its column */
    uint32_t file;
    uint32_t block; /* with LS_SEARCHED once it has been looked for */
} ls_batch_item;

#define LS_SEARCHED UINT32_C(0x80000000)

/* Makes items of the keys [from, to) that are not null and that the filter of their file lets pass:
 * `filters` has one per file, or is NULL if none is asked. With `places` these are the keys at
 * places[from .. to) of the column, which are within it and have their hashes; else `hashes` has
 * those of the keys [from, to), or is NULL. Adds to `counts`, one per file.
 * LS_BAD_KEY, LS_BAD_COLUMN: of key *bad. REQUIRES: room for to - from items. */
ls_status ls_batch_filter(const ls_filter *const *filters, const ls_batch_files *files,
                          const ls_column *keys, const uint32_t *places, size_t from, size_t to,
                          const uint64_t *hashes, ls_batch_item *items, size_t *count,
                          ls_batch_counts *counts, size_t *bad);

/* Bytes of the keys of items. */
size_t ls_batch_key_bytes(const ls_column *keys, const ls_batch_item *items, size_t count);

/* Makes a column of the keys of items, which then number it; origins[i] is what item i numbered before.
 * REQUIRES: room for the bytes of the keys, and for count + 1 offsets unless they have one width. */
void ls_batch_take_keys(const ls_column *keys, ls_batch_item *items, size_t count, uint8_t *data,
                        int64_t *offsets, uint32_t *origins, ls_column *taken);

/* Takes out the items that the filter of their file does not let pass, and counts them. */
void ls_batch_filter_items(const ls_filter *const *filters, const ls_batch_files *files,
                           const ls_column *keys, ls_batch_item *items, size_t *count,
                           ls_batch_counts *counts);

/* Looks for items in the places of their files: the answer of what is there becomes as that of
 * ls_batch_search, and the item is taken out. What is left is not there, or of a block that its file
 * has no places of; of complete places nothing is left. What is there is counted.
 *
 * Keys that places note as changed are looked for in the changes first: what is there is the answer, a
 * tombstone that there is none.
 * Failures: of the record at offset *at of the file of items[*bad] or, where *run is not
 * LS_CHANGES_RUNS, of that run of its changes. */
ls_status ls_batch_find(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                        size_t *count, ls_batch_counts *counts, size_t first,
                        const uint8_t *deleted, ls_slice *answers, size_t *bad, uint32_t *run,
                        uint64_t *at);

/* Sets the block of each item; items beyond the last block drop out, and the others are counted.
 * Failures: of the file of items[*bad]. */
ls_status ls_batch_route(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                         size_t *count, ls_batch_counts *counts, size_t *bad);

/* Counts every item as a user of its block, which nobody may then take away, and back; not where
 * blocks stay. */
void ls_batch_pin(const ls_batch_files *files, const ls_batch_item *items, size_t count);
void ls_batch_unpin(const ls_batch_files *files, const ls_batch_item *items, size_t count);

/* Moves the items that have not been searched to `taken`, file by file in the order of their blocks,
 * and gives their pins back; returns how many. `starts` is zeroed, and has one place more than all
 * files have blocks. REQUIRES: room for *count items. */
size_t ls_batch_take_missing(const ls_batch_files *files, ls_batch_item *items, size_t *count,
                             uint32_t *starts, size_t blocks, ls_batch_item *taken);

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
 * been searched then. answers[item.index - first] becomes the value, or stays as it is. In a run of
 * changes the answer is the row behind the kind of its value, and at a tombstone it is no bytes at
 * `deleted` (NULL: no file is a run). Failures: of the block of items[*bad]; LS_BAD_RECORD: a value
 * without a kind. */
ls_status ls_batch_search(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                          size_t count, size_t first, const uint8_t *deleted, ls_slice *answers,
                          size_t *left, size_t *bad);

/* Bytes of the answers of searched items. */
size_t ls_batch_stage_size(const ls_batch_item *items, size_t count, size_t first,
                           const ls_slice *answers);

/* Copies the answers of searched items to `arena` and points them there, so that their blocks may
 * go; not those at `deleted`. */
void ls_batch_stage(const ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
                    ls_slice *answers, uint8_t *arena);

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
