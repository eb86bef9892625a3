/* The data blocks that a writer fills, one after the other in one piece of memory, each followed by
 * room for its trailer: what is written at once, and passed between threads. */
#ifndef LS_LOAD_H
#define LS_LOAD_H

#include "ls_block.h"

/* Codec and checksum. */
#define LS_TRAILER 5

typedef struct {
    size_t start, size; /* of the block, without its trailer */
    size_t last_key, last_key_size; /* where the key of its last record is */
} ls_load_block;

typedef struct {
    uint8_t *data; /* owned by the caller, like blocks */
    size_t capacity;
    size_t size; /* of all blocks that have ended, with their trailers */
    ls_load_block *blocks;
    size_t count;
    size_t room; /* number of blocks that `blocks` can hold */
} ls_load;

/* Returns the number of bytes of all blocks that have ended, without their trailers. */
static inline size_t ls_load_bytes(const ls_load *load) {
    return load->size - LS_TRAILER * load->count;
}

/* Lets a builder without records write its next block after those of the load. Called again when
 * the memory has moved or grown, the builder goes on with its records. */
void ls_load_next(const ls_load *load, ls_block_builder *builder);

/* Ends the block of the builder, and lets it start the next one.
 * REQUIRES: count < room, and the capacity that ls_block_finish needs. */
void ls_load_end(ls_load *load, ls_block_builder *builder);

/* Adds records as ls_block_add_column does, and ends each full block, until all blocks have
 * `most` bytes (LS_BLOCK_FULL) or no rows are left (LS_OK).
 * LS_NO_SPACE: also if `blocks` has no room for a further block. */
ls_status ls_load_fill(ls_load *load, ls_block_builder *builder, ls_order order, int repeats,
                       const ls_column *keys, const ls_column *values, size_t *row, size_t end,
                       ls_slice *previous, size_t block_size, size_t most);

#endif
