/* XXH64 with seed 0: the hash of the split-block filter, a block's slots and a store's buckets. */
#ifndef LS_HASH_H
#define LS_HASH_H

#include "ls_column.h"

uint64_t ls_hash(ls_slice key);

/* Hashes keys [from, to) of a column, including nulls.
 * LS_BAD_COLUMN: key *bad has offsets outside of the data. */
ls_status ls_hash_column(const ls_column *keys, size_t from, size_t to, uint64_t *hashes,
                         size_t *bad);

#endif
