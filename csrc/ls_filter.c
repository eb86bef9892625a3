#include "ls_filter.h"

#include <math.h>

#include "ls_hash.h"

/* parquet-format, BloomFilter.md: the eight odd constants that pick one bit a word. */
static const uint32_t SALT[8] = {0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                 0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

static inline size_t split_block_at(uint64_t blocks, uint64_t hash) {
    /* The upper half of the hash, scaled to [0, blocks): the block index of Parquet for any
     * size. */
    return (size_t)(((hash >> 32) * blocks) >> 32) * LS_SPLIT_BLOCK;
}

void ls_split_block_add(uint8_t *bits, uint64_t blocks, uint64_t hash) {
    uint8_t *block = bits + split_block_at(blocks, hash);
    for (unsigned word = 0; word < 8; word += 2) { /* two words a store: half of the loads, too */
        uint64_t low = UINT64_C(1) << ((uint32_t)hash * SALT[word] >> 27);
        uint64_t high = UINT64_C(1) << ((uint32_t)hash * SALT[word + 1] >> 27);
        ls_store64(block + 4 * word, ls_load64(block + 4 * word) | low | high << 32);
    }
}

/* Number of keys by which the prefetch of blocks is ahead. */
#define FETCH_AHEAD 16

static inline void fetch_block(const uint8_t *bits, uint64_t blocks, const uint64_t *hashes,
                               size_t i, size_t count) {
    __builtin_prefetch(
        bits + split_block_at(blocks, hashes[i + FETCH_AHEAD < count ? i + FETCH_AHEAD : i]), 1);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_AVX2 1

typedef uint32_t words8 __attribute__((vector_size(32)));

/* All eight words are tested at once: AVX2 is the first instruction set of these processors that
 * can shift each word by its own amount. */
__attribute__((target("avx2"))) static void
split_block_add_avx2(uint8_t *bits, uint64_t blocks, const uint64_t *hashes, size_t count) {
    words8 salt, one = {1, 1, 1, 1, 1, 1, 1, 1};
    memcpy(&salt, SALT, sizeof salt);
    for (size_t i = 0; i < count; i++) {
        fetch_block(bits, blocks, hashes, i, count);
        uint8_t *block = bits + split_block_at(blocks, hashes[i]);
        words8 words;
        memcpy(&words, block, sizeof words);
        words |= one << ((uint32_t)hashes[i] * salt >> 27);
        memcpy(block, &words, sizeof words);
    }
}
#endif

void ls_split_block_add_many(uint8_t *bits, uint64_t blocks, const uint64_t *hashes, size_t count) {
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2")) {
        split_block_add_avx2(bits, blocks, hashes, count);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++) {
        fetch_block(bits, blocks, hashes, i, count);
        ls_split_block_add(bits, blocks, hashes[i]);
    }
}

int ls_split_block_test(const uint8_t *bits, uint64_t blocks, uint64_t hash) {
    const uint8_t *block = bits + split_block_at(blocks, hash);
    uint32_t missing = 0;
    for (unsigned word = 0; word < 8; word++) {
        uint32_t mask = UINT32_C(1) << ((uint32_t)hash * SALT[word] >> 27);
        missing |= mask & ~ls_load32(block + 4 * word);
    }
    return missing == 0;
}

static inline uint32_t rotate_left(uint32_t value, unsigned by) {
    return value << by | value >> (32 - by);
}

static inline uint32_t murmur_mix(uint32_t hash, uint32_t word) {
    word = rotate_left(word * 0xcc9e2d51U, 15) * 0x1b873593U;
    return rotate_left(hash ^ word, 13) * 5 + 0xe6546b64U;
}

uint32_t ls_paimon_hash(ls_slice key) {
    uint32_t hash = 42;
    size_t whole = key.size & ~(size_t)3;
    for (size_t i = 0; i < whole; i += 4)
        hash = murmur_mix(hash, ls_load32(key.data + i));
    for (size_t i = whole; i < key.size; i++)
        hash = murmur_mix(hash, (uint32_t)(int32_t)(int8_t)key.data[i]);
    hash ^= (uint32_t)key.size;
    hash = (hash ^ hash >> 16) * 0x85ebca6bU;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
    return hash ^ hash >> 16;
}

uint32_t ls_paimon_filter_size(uint64_t entries, double fpp) {
    double wanted = -(double)entries * log(fpp) / (log(2) * log(2));
    /* Above this, 8 * bytes overflows Java's int, and the filter that Java makes does not work. */
    if (!(wanted < 2147483640.0))
        return 0;
    return (uint32_t)ceil((double)(int32_t)wanted / 8.0);
}

uint32_t ls_paimon_filter_hashes(uint32_t size, uint64_t entries) {
    double hashes = floor(8.0 * size / (double)entries * log(2) + 0.5);
    return hashes < 1 ? 1 : hashes > INT32_MAX ? INT32_MAX : (uint32_t)hashes;
}

static inline uint32_t paimon_combined(uint32_t hash, uint32_t step, uint32_t i) {
    uint32_t combined = hash + i * step;
    return combined > INT32_MAX ? ~combined : combined; /* negative in Java */
}

static inline uint32_t paimon_position(uint32_t hash, uint32_t step, uint32_t i, uint32_t bits) {
    return paimon_combined(hash, step, i) % bits;
}

void ls_paimon_filter_add(uint8_t *bits, uint32_t size, uint32_t hashes, uint32_t hash) {
    for (uint32_t i = 1; i <= hashes; i++) {
        uint32_t at = paimon_position(hash, hash >> 16, i, size * 8);
        bits[at >> 3] |= (uint8_t)(1U << (at & 7));
    }
}

int ls_paimon_filter_test(const uint8_t *bits, uint32_t size, uint32_t hashes, uint32_t hash) {
    for (uint32_t i = 1; i <= hashes; i++) {
        uint32_t at = paimon_position(hash, hash >> 16, i, size * 8);
        if (!(bits[at >> 3] >> (at & 7) & 1))
            return 0;
    }
    return 1;
}

/* Number of keys that are tested with Paimon's filter at a time. */
#define TOGETHER 128

/* Tests one bit after the other, each for all keys whose earlier bits are set: the bytes are
 * prefetched, and the selection of keys needs no branch. */
static void test_paimon(const ls_filter *filter, const ls_column *keys, const uint32_t *places,
                        size_t from, size_t count, uint8_t *maybe) {
    uint32_t hash[TOGETHER], at[TOGETHER], bits = (uint32_t)filter->size * 8;
    uint8_t left[TOGETHER]; /* index of each remaining key */
    /* The remainder of n < 2^32 is what (inverse * n mod 2^64) * bits has above its 64 lower bits. */
    uint64_t inverse = UINT64_MAX / bits + 1;
    size_t kept = count;
    for (size_t i = 0; i < count; i++) {
        ls_slice key = {NULL, 0};
        (void)ls_column_get(keys, places == NULL ? from + i : places[from + i], &key);
        hash[i] = ls_paimon_hash(key);
        left[i] = (uint8_t)i;
    }
    memset(maybe, 0, count);
    for (uint32_t n = 1; n <= filter->hashes && kept > 0; n++) {
        size_t had = kept;
        for (size_t i = 0; i < had; i++) {
            uint32_t combined = paimon_combined(hash[i], hash[i] >> 16, n);
            uint64_t part = inverse * combined;
            at[i] = (uint32_t)(((part >> 32) * bits + ((part & UINT32_MAX) * bits >> 32)) >> 32);
            LS_PREFETCH(filter->bits + (at[i] >> 3));
        }
        kept = 0;
        for (size_t i = 0; i < had; i++) {
            hash[kept] = hash[i];
            left[kept] = left[i];
            kept += filter->bits[at[i] >> 3] >> (at[i] & 7) & 1;
        }
    }
    for (size_t i = 0; i < kept; i++)
        maybe[left[i]] = 1;
}

/* The upper half of the hash picks the word, and the lower one its bits. */
static inline size_t word_at(uint64_t count, uint64_t hash) {
    return (size_t)(((hash >> 32) * count) >> 32);
}

static inline uint64_t word_bits(uint64_t hash) {
    return UINT64_C(1) << (hash & 63) | UINT64_C(1) << (hash >> 6 & 63) |
           UINT64_C(1) << (hash >> 12 & 63) | UINT64_C(1) << (hash >> 18 & 63);
}

void ls_word_filter_add_many(uint64_t *words, uint64_t count, const uint64_t *hashes, size_t keys) {
    for (size_t i = 0; i < keys; i++)
        words[word_at(count, hashes[i])] |= word_bits(hashes[i]);
}

static inline int word_test(const uint8_t *words, uint64_t count, uint64_t hash) {
    uint64_t bits = word_bits(hash);
    return (ls_load64(words + 8 * word_at(count, hash)) & bits) == bits;
}

int ls_filter_test_hashed(const ls_filter *filter, ls_slice key, uint64_t hash) {
    switch (filter->kind) {
    case LS_FILTER_SPLIT_BLOCK:
        return ls_split_block_test(filter->bits, filter->size / LS_SPLIT_BLOCK, hash);
    case LS_FILTER_PAIMON:
        return ls_paimon_filter_test(filter->bits, (uint32_t)filter->size, filter->hashes,
                                     ls_paimon_hash(key));
    case LS_FILTER_WORDS:
        return word_test(filter->bits, filter->size / 8, hash);
    case LS_FILTER_NONE:
        break;
    }
    return 1;
}

int ls_filter_test(const ls_filter *filter, ls_slice key) {
    return ls_filter_test_hashed(filter, key, ls_hash(key));
}

static void test_blocks(const uint8_t *bits, uint64_t blocks, const uint64_t *hashes, size_t count,
                        uint8_t *maybe) {
    for (size_t i = 0; i < count; i++)
        maybe[i] = (uint8_t)ls_split_block_test(bits, blocks, hashes[i]);
}

#ifdef HAS_AVX2
__attribute__((target("avx2"))) static inline uint8_t test_block_avx2(const uint8_t *block,
                                                                      uint64_t hash) {
    words8 salt, words, one = {1, 1, 1, 1, 1, 1, 1, 1};
    memcpy(&salt, SALT, sizeof salt);
    memcpy(&words, block, sizeof words);
    words8 mask = one << ((uint32_t)hash * salt >> 27);
    return (uint8_t)_mm256_testc_si256((__m256i)words, (__m256i)mask);
}

__attribute__((target("avx2"))) static void test_blocks_avx2(const uint8_t *bits, uint64_t blocks,
                                                             const uint64_t *hashes, size_t count,
                                                             uint8_t *maybe) {
    for (size_t i = 0; i < count; i++)
        maybe[i] = test_block_avx2(bits + split_block_at(blocks, hashes[i]), hashes[i]);
}

__attribute__((target("avx2"))) static void
test_each_avx2(const uint8_t *const *blocks, const uint64_t *hashes, size_t count, uint8_t *maybe) {
    for (size_t i = 0; i < count; i++)
        if (blocks[i] != NULL)
            maybe[i] = test_block_avx2(blocks[i], hashes[i]);
}
#endif

static void test_each(const uint8_t *const *blocks, const uint64_t *hashes, size_t count,
                      uint8_t *maybe) {
    for (size_t i = 0; i < count; i++)
        if (blocks[i] != NULL)
            maybe[i] = (uint8_t)ls_split_block_test(blocks[i], 1, hashes[i]);
}

static void test_words(const uint8_t *words, uint64_t count, const uint64_t *hashes, size_t keys,
                       uint8_t *maybe) {
    for (size_t i = 0; i < keys; i++)
        maybe[i] = (uint8_t)word_test(words, count, hashes[i]);
}

#ifdef HAS_AVX2
/* Four keys at once. REQUIRES: count < 2^32. */
__attribute__((target("avx2"))) static void test_words_avx2(const uint8_t *words, uint64_t count,
                                                            const uint64_t *hashes, size_t keys,
                                                            uint8_t *maybe) {
    const __m256i one = _mm256_set1_epi64x(1), low = _mm256_set1_epi64x(63);
    const __m256i counts = _mm256_set1_epi64x((long long)count);
    size_t i = 0;
    for (; i + 4 <= keys; i += 4) {
        __m256i hash = _mm256_loadu_si256((const __m256i *)(const void *)(hashes + i));
        __m256i at = _mm256_srli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(hash, 32), counts), 32);
        __m256i word = _mm256_i64gather_epi64((const long long *)(const void *)words, at, 8);
        __m256i bits = _mm256_sllv_epi64(one, _mm256_and_si256(hash, low));
        for (int shift = 6; shift < 24; shift += 6) {
            __m256i bit = _mm256_and_si256(_mm256_srli_epi64(hash, shift), low);
            bits = _mm256_or_si256(bits, _mm256_sllv_epi64(one, bit));
        }
        __m256i all = _mm256_cmpeq_epi64(_mm256_and_si256(word, bits), bits);
        uint32_t found = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(all));
        /* One bit each to one byte each. */
        ls_store32(maybe + i, (found * 0x00204081U) & 0x01010101U);
    }
    test_words(words, count, hashes + i, keys - i, maybe + i);
}
#endif

void ls_filter_test_many(const ls_filter *filter, const ls_column *keys, const uint32_t *places,
                         size_t from, size_t to, const uint64_t *hashes, uint8_t *maybe) {
    size_t count = to - from;
    uint64_t blocks = filter->size / LS_SPLIT_BLOCK;
    switch (filter->kind) {
    case LS_FILTER_SPLIT_BLOCK:
        for (size_t i = 0; i < count; i++) {
            /* A filter in a mapped file may have any address: a block may be in two cache lines. */
            const uint8_t *block = filter->bits + split_block_at(blocks, hashes[i]);
            LS_PREFETCH(block);
            LS_PREFETCH(block + LS_SPLIT_BLOCK - 1);
        }
#ifdef HAS_AVX2
        if (__builtin_cpu_supports("avx2")) {
            test_blocks_avx2(filter->bits, blocks, hashes, count, maybe);
            return;
        }
#endif
        test_blocks(filter->bits, blocks, hashes, count, maybe);
        return;
    case LS_FILTER_PAIMON:
        for (size_t i = 0; i < count; i += TOGETHER)
            test_paimon(filter, keys, places, from + i, count - i < TOGETHER ? count - i : TOGETHER,
                        maybe + i);
        return;
    case LS_FILTER_WORDS: /* each test is one load, for which the next tests do not wait */
#ifdef HAS_AVX2
        if (__builtin_cpu_supports("avx2") && filter->size / 8 <= UINT32_MAX) {
            test_words_avx2(filter->bits, filter->size / 8, hashes, count, maybe);
            return;
        }
#endif
        test_words(filter->bits, filter->size / 8, hashes, count, maybe);
        return;
    case LS_FILTER_NONE:
        break;
    }
    memset(maybe, 1, count);
}

/* Number of keys that are tested with their filters at a time. */
#define EACH 128

void ls_filter_test_each(const ls_filter *const *filters, const uint32_t *owners,
                         const ls_column *keys, const uint32_t *places, size_t from, size_t to,
                         const uint64_t *hashes, uint8_t *maybe) {
    const uint8_t *blocks[EACH]; /* of split-block filters; NULL: the answer is known */
    for (size_t start = from; start < to; start += EACH) {
        size_t count = to - start < EACH ? to - start : EACH, at = start - from;
        for (size_t i = 0; i < count; i++) {
            const ls_filter *filter = filters[owners[at + i]];
            blocks[i] = NULL;
            if (filter->kind == LS_FILTER_SPLIT_BLOCK) {
                uint64_t size = filter->size / LS_SPLIT_BLOCK;
                blocks[i] = filter->bits + split_block_at(size, hashes[at + i]);
                LS_PREFETCH(blocks[i]);
                LS_PREFETCH(blocks[i] + LS_SPLIT_BLOCK - 1);
                continue;
            }
            ls_slice key = {NULL, 0};
            if (filter->kind == LS_FILTER_PAIMON)
                (void)ls_column_get(keys, places == NULL ? start + i : places[start + i], &key);
            maybe[at + i] = (uint8_t)ls_filter_test_hashed(filter, key, hashes[at + i]);
        }
#ifdef HAS_AVX2
        if (__builtin_cpu_supports("avx2")) {
            test_each_avx2(blocks, hashes + at, count, maybe + at);
            continue;
        }
#endif
        test_each(blocks, hashes + at, count, maybe + at);
    }
}

void ls_filter_hash(ls_filter_kind kind, const ls_column *keys, size_t from, size_t to,
                    uint64_t *hashes) {
    if (kind == LS_FILTER_PAIMON) {
        for (size_t i = from; i < to; i++) {
            ls_slice key = {NULL, 0};
            (void)ls_column_get(keys, i, &key);
            hashes[i - from] = ls_paimon_hash(key);
        }
    } else {
        size_t bad;
        (void)ls_hash_column(keys, from, to, hashes, &bad);
    }
}
