#include "ls_hash.h"

#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash/xxhash.h"

uint64_t ls_hash(ls_slice key) {
    return XXH64(key.data, key.size, 0);
}

ls_status ls_hash_column(const ls_column *keys, size_t from, size_t to, uint64_t *hashes,
                         size_t *bad) {
    if (keys->hashes != NULL) {
        memcpy(hashes, keys->hashes + from, (to - from) * sizeof *hashes);
        return LS_OK;
    }
    if (keys->offset_width == 0 && keys->width == 8) { /* a size known to the compiler */
        for (size_t i = from; i < to; i++)
            hashes[i - from] = XXH64(keys->data + 8 * i, 8, 0);
        return LS_OK;
    }
    for (size_t i = from; i < to; i++) {
        ls_slice key;
        if (ls_column_get(keys, i, &key) != LS_OK) {
            *bad = i;
            return LS_BAD_COLUMN;
        }
        hashes[i - from] = XXH64(key.data, key.size, 0);
    }
    return LS_OK;
}
