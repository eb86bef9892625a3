/* A batch of keys against the files of all buckets, processed in passes over a piece of it: from
 * keys to hashes, through the filter, to blocks, to records, to Arrow. Every pass prefetches the
 * memory that the next one reads, so that cache misses overlap. Keys need no order: each is looked
 * up in the file that its hash picks, and answers are in the order of the request. */
#ifndef LS_BATCH_H
#define LS_BATCH_H

#include "ls_changes.h"
#include "ls_fences.h"
#include "ls_file_ranges.h"
#include "ls_filter.h"
#include "ls_places.h"
#include "ls_slots.h"

/* One of the files. A bucket without a file has a file without blocks. */
typedef struct {
    const ls_fences *fences;
    const ls_ready *ready;
    const ls_places *places; /* of its records; NULL: there are none */
    const ls_changes *changes; /* of runs above it, marked in its places; NULL: there are none */
    uint32_t *pins; /* users of each block; NULL: its blocks stay */
    uint8_t *used; /* one byte per block, set where an item needs it */
    size_t first; /* number of its first block among the blocks of all files */
    uint32_t blocks;
    int is_run; /* whether it is a run of changes: values begin with their kind */
} ls_batch_file;

typedef struct {
    const ls_batch_file *files;
    uint32_t count;
    ls_order order; /* order of the keys of all files */
} ls_batch_files;

/* Counts of what a batch has looked up in a file. */
typedef struct {
    uint64_t ruled_out; /* keys excluded by its filter, if it was tested, and nulls */
    uint64_t routed; /* keys to look up in a block */
    uint64_t changed; /* keys to look up in runs of changes, marked in its places */
    int asked; /* whether one of its keys was looked up */
} ls_batch_counts;

/* A key that may be in a file. */
typedef struct {
    uint64_t hash;
    uint32_t index; /* of the key in its column */
    uint32_t file;
    uint32_t block; /* with LS_SEARCHED once it has been searched */
} ls_batch_item;

#define LS_SEARCHED UINT32_C(0x80000000)

/* Makes items of the keys [from, to) that are not null and that pass the filter of their file:
 * `filters` has one per file, or is NULL if none is tested. With `places`, the keys are those at
 * places[from .. to) of the column, which must be inside of it and have hashes; otherwise `hashes`
 * has the hashes of the keys [from, to), or is NULL. Adds to `counts`, one per file.
 * LS_BAD_KEY, LS_BAD_COLUMN: of key *bad. REQUIRES: room for to - from items. */
ls_status ls_batch_filter(const ls_filter *const *filters, const ls_batch_files *files,
                          const ls_column *keys, const uint32_t *places, size_t from, size_t to,
                          const uint64_t *hashes, ls_batch_item *items, size_t *count,
                          ls_batch_counts *counts, size_t *bad);

/* Does the same if something else than its hash picks the file of a key: owners[i] for key i of the
 * column or, if `owners` is NULL, the ranges of the files. */
ls_status ls_batch_filter_owned(const uint32_t *owners, const ls_file_ranges *ranges,
                                const ls_filter *const *filters, const ls_batch_files *files,
                                const ls_column *keys, const uint32_t *places, size_t from,
                                size_t to, const uint64_t *hashes, ls_batch_item *items,
                                size_t *count, ls_batch_counts *counts, size_t *bad);

/* Keys of a column that are not null, in the order of their hashes, as far as some bits of these
 * go: the filters and places of all files are then read from their beginning to their end. */
typedef struct {
    uint32_t *indices; /* owned by the caller, like the other arrays: the index of each key, */
    uint64_t *hashes;
    uint64_t *numbers; /* and its first 8 bytes, as by ls_file_ranges_numbers */
    size_t count;
    uint64_t least, greatest; /* number of all */
} ls_batch_stretch;

/* Makes a stretch of the keys [from, to). `numbers` has the first 8 bytes of each.
 * REQUIRES: the column has hashes; room for to - from keys. */
void ls_batch_order(const ls_column *keys, size_t from, size_t to, const uint64_t *numbers,
                    ls_batch_stretch *stretch);

/* Appends items of the keys of a stretch that are inside the range of a file and pass its filter,
 * and counts those that do not pass; `first` is added to the numbers of files in items.
 * REQUIRES: room for as many items as the stretch has keys after the first *count. */
void ls_batch_filter_inside(const ls_file_ranges *ranges, const ls_filter *const *filters,
                            uint32_t first, const ls_column *keys, const ls_batch_stretch *stretch,
                            ls_batch_item *items, size_t *count, ls_batch_counts *counts);

/* Returns the number of bytes of the keys of items. */
size_t ls_batch_key_bytes(const ls_column *keys, const ls_batch_item *items, size_t count);

/* Makes a column of the keys of items, whose indices then refer to it; origins[i] is the former
 * index of item i. REQUIRES: room for the bytes of the keys, and for count + 1 offsets unless they
 * have one width. */
void ls_batch_take_keys(const ls_column *keys, ls_batch_item *items, size_t count, uint8_t *data,
                        int64_t *offsets, uint32_t *origins, ls_column *taken);

/* Removes the items excluded by the filter of their file, and counts them. */
void ls_batch_filter_items(const ls_filter *const *filters, const ls_batch_files *files,
                           const ls_column *keys, ls_batch_item *items, size_t *count,
                           ls_batch_counts *counts);

/* Finds the buckets in the places of their files for every step-th item, and the records for those
 * items that are marked in a bucket: the addresses that a lookup reads first, and then. Items of
 * files without places are skipped. `at` must have room for all; returns their number. */
size_t ls_batch_buckets_at(const ls_batch_files *files, const ls_batch_item *items, size_t count,
                           size_t step, const uint8_t **at);
size_t ls_batch_records_at(const ls_batch_files *files, const ls_batch_item *items, size_t count,
                           size_t step, const uint8_t **at);

/* Looks up items in the places of their files. If a key is found, its answer is set as by
 * ls_batch_search, and the item is removed and counted. The remaining items are in files without
 * places, or in files with unchecked places that do not lead to the key.
 *
 * Keys that places mark as changed are looked up in the changes first: a record there is the
 * answer, and a tombstone means that there is none.
 * Failures: of the record at offset *at of the file of items[*bad] or, if *run is not
 * LS_CHANGES_RUNS, of that run of its changes. */
ls_status ls_batch_find(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                        size_t *count, ls_batch_counts *counts, size_t first,
                        const uint8_t *deleted, ls_slice *answers, size_t *bad, uint32_t *run,
                        uint64_t *at);

/* Sets the block of each item; items beyond the last block are removed, and the others are counted.
 * Failures: of the file of items[*bad]. */
ls_status ls_batch_route(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                         size_t *count, ls_batch_counts *counts, size_t *bad);

/* Counts every item as a user of its block, which then must not be evicted, or ends this use; does
 * nothing for files whose blocks stay. */
void ls_batch_pin(const ls_batch_files *files, const ls_batch_item *items, size_t count);
void ls_batch_unpin(const ls_batch_files *files, const ls_batch_item *items, size_t count);

/* Moves the items that have not been searched to `taken`, file by file in the order of their
 * blocks, and releases their pins; returns their number. `starts` must be zeroed, and must have one
 * entry more than the blocks of all files; for a few items it may be NULL, which takes less time than
 * all its entries. REQUIRES: room for *count items. */
size_t ls_batch_take_missing(const ls_batch_files *files, ls_batch_item *items, size_t *count,
                             uint32_t *starts, size_t blocks, ls_batch_item *taken);

/* First byte of a value in a run of changes. */
#define LS_KIND_ROW 0
#define LS_KIND_TOMBSTONE 1

/* Removes the items that already have an answer from a newer file. */
void ls_batch_drop_answered(ls_batch_item *items, size_t *count, size_t first,
                            const ls_slice *answers);

/* Sets the results for the keys *next and following that are before key `limit` as their answers,
 * and advances *next past them. Returns the number of keys with an answer; *gone: whether one of
 * them is `deleted`. */
size_t ls_batch_put_answers(const uint32_t *origins, const ls_slice *found, size_t count,
                            size_t *next, size_t limit, size_t first, const uint8_t *deleted,
                            ls_slice *answers, int *gone);

/* Changes the answers of tombstones, which are no bytes at `deleted`, to those of missing keys: for
 * the keys [from, to) or, with `places`, for those at places[from .. to). */
void ls_batch_forget_deleted(const uint32_t *places, size_t from, size_t to, size_t first,
                             const uint8_t *deleted, ls_slice *answers);

/* Searches every item that has not been searched and whose block is ready; *left: number of items
 * that remain unsearched. answers[item.index - first] is set to the value, or left unchanged. In a
 * run of changes the answer is the row after the kind of the value, and for a tombstone it is no
 * bytes at `deleted` (NULL: no file is a run). Failures: of the block of items[*bad];
 * LS_BAD_RECORD: a value without a kind. */
ls_status ls_batch_search(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                          size_t count, size_t first, const uint8_t *deleted, ls_slice *answers,
                          size_t *left, size_t *bad);

/* Returns the number of bytes of the answers of searched items. */
size_t ls_batch_stage_size(const ls_batch_item *items, size_t count, size_t first,
                           const ls_slice *answers);

/* Copies the answers of searched items to `arena` and points the answers to the copies, so that the
 * blocks may be freed; answers at `deleted` are not copied. */
void ls_batch_stage(const ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
                    ls_slice *answers, uint8_t *arena);

/* Returns the number of bytes of all answers; an answer without data is missing. */
size_t ls_batch_size(const ls_slice *answers, size_t count);

/* Appends answers to Arrow large_binary buffers: offsets[0] is the present end of the data, and
 * `count` offsets follow; bit i of `validity`, which must be zeroed, is set if answer i is not
 * missing. Returns the number of missing answers. REQUIRES: room for ls_batch_size more bytes of
 * data. */
size_t ls_batch_gather(const ls_slice *answers, size_t count, int64_t *offsets, uint8_t *validity,
                       uint8_t *data);

/* Sets bit i of a zeroed bitmap if answer i is not missing. Returns the number of missing
 * answers. */
size_t ls_batch_found(const ls_slice *answers, size_t count, uint8_t *bitmap);

#endif
