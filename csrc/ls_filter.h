/* The two Bloom filters of sorted files: split-block (native) and Paimon's. docs/reference/format.md,
 * "Filters". Both only ever say "absent" or "maybe". */
#ifndef LS_FILTER_H
#define LS_FILTER_H

#include "ls_column.h"

/* ---- Split-block filter over XXH64: the one of the Parquet format (parquet-format, BloomFilter.md).
 * `hash` is ls_hash of a key. A block is 32 bytes, eight little-endian words with one bit each for every key. */

#define LS_SPLIT_BLOCK 32

/* REQUIRES: blocks > 0 and blocks * 32 bytes at `bits`. */
void ls_split_block_add(uint8_t *bits, uint64_t blocks, uint64_t hash);
/* Does the same for many hashes, with prefetching: a filter larger than the caches mostly waits for
 * memory. */
void ls_split_block_add_many(uint8_t *bits, uint64_t blocks, const uint64_t *hashes, size_t count);
int ls_split_block_test(const uint8_t *bits, uint64_t blocks, uint64_t hash);

/* ---- Paimon's filter: a variant of 32-bit Murmur3 with seed 42 and a signed tail, double hashing,
 * bits counted from the least significant of each byte (org.apache.paimon.utils.BloomFilter and
 * MurmurHashUtils). */

uint32_t ls_paimon_hash(ls_slice key);

/* Returns the size of a filter for a number of entries and a rate of false positives; 0: Java
 * cannot make it, because its int overflows or the size is 0. */
uint32_t ls_paimon_filter_size(uint64_t entries, double fpp);

/* Returns the number of positions of a key in a filter of a size. REQUIRES: entries > 0. */
uint32_t ls_paimon_filter_hashes(uint32_t size, uint64_t entries);

/* REQUIRES: 0 < size <= 2^28 - 1. */
void ls_paimon_filter_add(uint8_t *bits, uint32_t size, uint32_t hashes, uint32_t hash);
int ls_paimon_filter_test(const uint8_t *bits, uint32_t size, uint32_t hashes, uint32_t hash);

/* ---- A filter in memory that is never stored, smaller and faster than a split-block filter and
 * with more false positives: four bits of one 64-bit word for every key. */

/* REQUIRES: count > 0 words at `words`. */
void ls_word_filter_add_many(uint64_t *words, uint64_t count, const uint64_t *hashes, size_t keys);

/* ---- A common interface. */

typedef enum {
    LS_FILTER_NONE,
    LS_FILTER_SPLIT_BLOCK,
    LS_FILTER_PAIMON,
    LS_FILTER_WORDS
} ls_filter_kind;

typedef struct {
    ls_filter_kind kind;
    const uint8_t *bits;
    uint64_t size; /* bytes */
    uint32_t hashes; /* Paimon's */
} ls_filter;

/* Returns 0 if the key is absent. Without a filter, every key may be present. */
int ls_filter_test(const ls_filter *filter, ls_slice key);

/* Does the same if ls_hash of the key is known. */
int ls_filter_test_hashed(const ls_filter *filter, ls_slice key, uint64_t hash);

/* Sets maybe[i - from] = 0 if key i of a column (key places[i], unless `places` is NULL) is absent.
 * `hashes`: ls_hash of each of these keys. REQUIRES: ls_column_get is LS_OK for each. */
void ls_filter_test_many(const ls_filter *filter, const ls_column *keys, const uint32_t *places,
                         size_t from, size_t to, const uint64_t *hashes, uint8_t *maybe);

/* Does the same if key i is tested with the filter filters[owners[i - from]]. */
void ls_filter_test_each(const ls_filter *const *filters, const uint32_t *owners,
                         const ls_column *keys, const uint32_t *places, size_t from, size_t to,
                         const uint64_t *hashes, uint8_t *maybe);

/* Hashes keys [from, to) of a column, as 64-bit numbers for either kind.
 * REQUIRES: ls_column_get is LS_OK for each. */
void ls_filter_hash(ls_filter_kind kind, const ls_column *keys, size_t from, size_t to,
                    uint64_t *hashes);

#endif
