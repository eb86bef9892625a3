/* A batch of sorted keys against a sorted file: keys to blocks, blocks to answers, answers to Arrow. */
#ifndef LS_BATCH_H
#define LS_BATCH_H

#include "ls_block.h"
#include "ls_sort.h"

/* Sets block of each item: the first record of the index whose key (the last one of a data block) is
 * not smaller; the number of blocks if there is none. `repeats`: see ls_batch_search.
 * REQUIRES: items in key order. */
ls_status ls_batch_route(const ls_block *index, ls_order order, int repeats, const ls_column *keys,
                         ls_sort_item *items, size_t count);

/* Finds the items' keys in their data block. answers[item.index] becomes the value, or stays as it is
 * when the key is not there. `repeats`: the file may repeat keys, then the answer is the record that
 * Java's search meets (paimon-sst, "Repeated keys").
 * REQUIRES: items in key order, all of this block. */
ls_status ls_batch_search(const ls_block *block, ls_order order, int repeats, const ls_column *keys,
                          const ls_sort_item *items, size_t count, ls_slice *answers);

/* Bytes of all answers; one without data is missing. */
size_t ls_batch_size(const ls_slice *answers, size_t count);

/* Copies answers to Arrow large_binary buffers: count + 1 offsets, a zeroed validity bitmap of
 * (count + 7) / 8 bytes, ls_batch_size bytes of data. Returns the number of missing ones. */
size_t ls_batch_gather(const ls_slice *answers, size_t count, int64_t *offsets, uint8_t *validity,
                       uint8_t *data);

/* Copies the items' answers to `arena` and points them there, so that their block may go. Returns the
 * bytes used. */
size_t ls_batch_stage(const ls_sort_item *items, size_t count, ls_slice *answers, uint8_t *arena);

/* Bytes that ls_batch_stage will copy. */
size_t ls_batch_stage_size(const ls_sort_item *items, size_t count, const ls_slice *answers);

/* Sets the bit of each answer that is there in a zeroed bitmap. */
void ls_batch_found(const ls_slice *answers, size_t count, uint8_t *bitmap);

#endif
