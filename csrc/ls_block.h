/* A block: records in key order, then the positions of the records unless all have one size, then
 * that size or their number, then a flag. docs/reference/format.md, "Block".
 *
 *   record 0 .. record n-1    each: varint key size, key, varint value size, value
 *   positions                 only if unaligned: n times i32
 *   i32                       aligned: size of every record; unaligned: n
 *   u8                        0 = aligned, 1 = unaligned
 */
#ifndef LS_BLOCK_H
#define LS_BLOCK_H

#include "ls_column.h"
#include "ls_order.h"

/* i32 and flag. */
#define LS_BLOCK_TAIL 5

typedef struct {
    uint8_t *data; /* owned by the caller, like positions */
    size_t capacity;
    size_t size;
    uint32_t *positions;
    size_t positions_capacity;
    uint32_t count;
    size_t record_size; /* of the first record */
    int aligned;        /* all records so far have that size */
    size_t last_key;    /* offset in data of the key of the last record */
    size_t last_key_size;
} ls_block_builder;

/* Removes the records and keeps the buffers. */
void ls_block_reset(ls_block_builder *builder);

/* Returns the size of the block if it were finished now. */
size_t ls_block_memory(const ls_block_builder *builder);

/* Adds one record after the others, without checking its order.
 * LS_NO_SPACE: ls_block_room(key, value) more bytes of data, one more position and a tail are
 * needed.
 * LS_TOO_LARGE: the block would exceed 2^31 - 1 bytes. */
ls_status ls_block_add(ls_block_builder *builder, ls_slice key, ls_slice value);

/* Returns the size of one record. */
size_t ls_block_room(ls_slice key, ls_slice value);

/* Adds records from *row to end, and sets *row to the first record that was not added.
 * `previous`: the key before *row (data NULL: none); afterwards the last key added, in the column.
 * LS_BLOCK_FULL: the block now has more than block_size bytes. LS_OUT_OF_ORDER, LS_REPEATED (unless
 * `repeats`), LS_BAD_KEY, LS_NULL, LS_BAD_COLUMN: of row *row. LS_NO_SPACE, LS_TOO_LARGE as
 * above. */
ls_status ls_block_add_column(ls_block_builder *builder, ls_order order, int repeats,
                              const ls_column *keys, const ls_column *values, size_t *row,
                              size_t end, ls_slice *previous, size_t block_size);

/* Appends positions, size or count, and flag: data[0 .. size) is the block.
 * REQUIRES: capacity >= ls_block_memory(builder). */
void ls_block_finish(ls_block_builder *builder);

typedef struct {
    const uint8_t *data;
    size_t records_size;
    const uint8_t *positions; /* NULL: aligned */
    uint32_t record_size;     /* if aligned */
    uint32_t count;
} ls_block;

/* Checks the tail of a block; records are checked when they are read. */
ls_status ls_block_open(ls_block *block, const uint8_t *data, size_t size);

/* REQUIRES: i < block->count. */
ls_status ls_block_record(const ls_block *block, uint32_t i, ls_slice *key, ls_slice *value);

/* Returns the offset of record i of a checked block. REQUIRES: i < block->count. */
static inline uint32_t ls_block_at(const ls_block *block, uint32_t i) {
    return block->positions == NULL ? i * block->record_size
                                    : ls_load32(block->positions + 4 * (size_t)i);
}

/* Reads the record at p: *value is set if its key is `key`, with *same = 1. Stored lengths are
 * checked whenever they are read, because other processes may change the bytes of a mapped file. */
static inline ls_status ls_record_at(const uint8_t *p, const uint8_t *end, ls_slice key, int *same,
                                     ls_slice *value) {
    uint32_t length;
    *same = 0;
    ls_status status = ls_get_varint32(&p, end, &length);
    if (status != LS_OK)
        return status;
    if (length > (size_t)(end - p))
        return LS_TRUNCATED;
    if (length != key.size || !ls_same_bytes(p, key.data, length))
        return LS_OK;
    p += length;
    status = ls_get_varint32(&p, end, &length);
    if (status != LS_OK)
        return status;
    if (length > (size_t)(end - p))
        return LS_TRUNCATED;
    *same = 1;
    value->data = p;
    value->size = length;
    return LS_OK;
}

/* Reads every record, and checks that records are contiguous and keys in order. *bad: the first
 * wrong record. */
ls_status ls_block_validate(const ls_block *block, ls_order order, int repeats, uint32_t *bad);

/* Searches in the same way as Java: by halving, ending at the first equal key that is read.
 * *position: that record, or the first one with a greater key (count: none). */
ls_status ls_block_seek(const ls_block *block, ls_order order, ls_slice key, uint32_t *position,
                        int *found);

/* Finds the first record from `from` on whose key is not smaller, by doubling steps: fast if the
 * record is near. *found: whether its key is equal. */
ls_status ls_block_lower_bound(const ls_block *block, ls_order order, ls_slice key, uint32_t from,
                               uint32_t *position, int *found);

/* Computes the number of bytes of all keys and all values of records [from, to). */
ls_status ls_block_sizes(const ls_block *block, uint32_t from, uint32_t to, size_t *keys,
                         size_t *values);

/* Copies records [from, to), backwards if `reverse`, to Arrow large_binary buffers: offsets have to
 * - from + 1 entries, of which the caller sets the first to the beginning of the data.
 * LS_TRUNCATED: the data would exceed its room, because the block has changed since
 * ls_block_sizes. */
ls_status ls_block_copy(const ls_block *block, uint32_t from, uint32_t to, int reverse,
                        int64_t *key_offsets, uint8_t *keys, size_t keys_room,
                        int64_t *value_offsets, uint8_t *values, size_t values_room);

#endif
