#include "ls_hadoop_bloom.h"

#define MURMUR_M 0x5bd1e995U

/* The contribution of a block of four bytes to the hash is independent of the seed, except for this
 * factor. */
static inline uint32_t murmur_block(uint32_t hash, uint32_t word) {
    word *= MURMUR_M;
    word ^= word >> 24;
    return hash * MURMUR_M ^ word * MURMUR_M;
}

static inline uint32_t signed_byte(uint8_t byte) {
    return (uint32_t)(int32_t)(int8_t)byte;
}

uint32_t ls_hadoop_murmur(ls_slice key, uint32_t seed) {
    uint32_t hash = seed ^ (uint32_t)key.size;
    const uint8_t *p = key.data;
    for (size_t blocks = key.size / 4; blocks > 0; blocks--, p += 4)
        hash = murmur_block(hash, ls_load32(p));
    size_t left = key.size & 3;
    if (left > 0) {
        /* The tail is counted from the end of the key, not from the end of its blocks as usual. */
        const uint8_t *end = p + left;
        if (left == 3)
            hash ^= signed_byte(end[-3]) << 16;
        if (left >= 2)
            hash ^= signed_byte(end[-2]) << 8;
        hash ^= signed_byte(end[-1]);
        hash *= MURMUR_M;
    }
    hash ^= hash >> 13;
    hash *= MURMUR_M;
    return hash ^ hash >> 15;
}

static inline uint32_t rotate_left(uint32_t value, unsigned by) {
    return value << by | value >> (32 - by);
}

uint32_t ls_hadoop_jenkins(ls_slice key, uint32_t seed) {
    const uint8_t *p = key.data;
    size_t left = key.size;
    uint32_t a = 0xdeadbeefU + (uint32_t)key.size + seed, b = a, c = a;
    for (; left > 12; left -= 12, p += 12) {
        a += ls_load32(p);
        b += ls_load32(p + 4);
        c += ls_load32(p + 8);
        a = (a - c) ^ rotate_left(c, 4);
        c += b;
        b = (b - a) ^ rotate_left(a, 6);
        a += c;
        c = (c - b) ^ rotate_left(b, 8);
        b += a;
        a = (a - c) ^ rotate_left(c, 16);
        c += b;
        b = (b - a) ^ rotate_left(a, 19);
        a += c;
        c = (c - b) ^ rotate_left(b, 4);
        b += a;
    }
    if (left == 0)
        return c;
    uint8_t last[12] = {0};
    memcpy(last, p, left);
    a += ls_load32(last);
    b += ls_load32(last + 4);
    c += ls_load32(last + 8);
    c = (c ^ b) - rotate_left(b, 14);
    a = (a ^ c) - rotate_left(c, 11);
    b = (b ^ a) - rotate_left(a, 25);
    c = (c ^ b) - rotate_left(b, 16);
    a = (a ^ c) - rotate_left(c, 4);
    b = (b ^ a) - rotate_left(a, 14);
    c = (c ^ b) - rotate_left(b, 24);
    return c;
}

/* ---- Headers */

static inline uint32_t load32_big(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint8_t *put32_big(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
    return p + 4;
}

static inline size_t header_size(const ls_hadoop_bloom *bloom) {
    return bloom->old ? 8 : 13;
}

static inline size_t bits_size(const ls_hadoop_bloom *bloom) {
    return ((size_t)bloom->bits + 7) / 8;
}

size_t ls_hadoop_bloom_row_size(const ls_hadoop_bloom *bloom) {
    return header_size(bloom) + bits_size(bloom);
}

size_t ls_hadoop_bloom_first_bits(const ls_hadoop_bloom *bloom) {
    return header_size(bloom) + (bloom->dynamic ? 12 + header_size(bloom) : 0);
}

size_t ls_hadoop_bloom_size(const ls_hadoop_bloom *bloom) {
    return (bloom->dynamic ? header_size(bloom) + 12 : 0) +
           bloom->rows * ls_hadoop_bloom_row_size(bloom);
}

typedef struct {
    const uint8_t *start, *p, *end;
    size_t *bad;
    const char **expected;
} reading;

static ls_status wrong(const reading *from, const uint8_t *at, const char *expected,
                       ls_status status) {
    *from->bad = (size_t)(at - from->start);
    *from->expected = expected;
    return status;
}

/* Reads an int that must be in [least, most]. */
static ls_status read_int(reading *from, int32_t least, int32_t most, const char *expected,
                          uint32_t *value) {
    if (4 > (size_t)(from->end - from->p))
        return wrong(from, from->p, expected, LS_TRUNCATED);
    int32_t stored = (int32_t)load32_big(from->p);
    if (stored < least || stored > most)
        return wrong(from, from->p, expected, LS_BAD_HEADER);
    *value = (uint32_t)stored;
    from->p += 4;
    return LS_OK;
}

static ls_status read_header(reading *from, ls_hadoop_bloom *bloom) {
    const char *hashes = "1 to 1100 hashes";
    uint32_t version;
    ls_status status;
    if (4 > (size_t)(from->end - from->p))
        return wrong(from, from->p, "the version -1 of a bloom filter", LS_TRUNCATED);
    if ((int32_t)load32_big(from->p) > 0) {
        bloom->old = 1;
        bloom->hash = LS_HADOOP_JENKINS;
        status = read_int(from, 1, LS_HADOOP_MOST_HASHES, hashes, &bloom->hashes);
    } else {
        bloom->old = 0;
        status = read_int(from, -1, -1, "the version -1 of a bloom filter", &version);
        if (status == LS_OK)
            status = read_int(from, 1, LS_HADOOP_MOST_HASHES, hashes, &bloom->hashes);
        if (status == LS_OK) {
            const char *kinds = "the hash 0 (Jenkins) or 1 (Murmur)";
            if (from->p == from->end)
                return wrong(from, from->p, kinds, LS_TRUNCATED);
            bloom->hash = *from->p;
            if (bloom->hash > LS_HADOOP_MURMUR)
                return wrong(from, from->p, kinds, LS_BAD_HEADER);
            from->p++;
        }
    }
    if (status == LS_OK)
        status = read_int(from, 1, INT32_MAX, "1 to 2147483647 bits", &bloom->bits);
    return status;
}

static ls_status skip_bits(reading *from, const ls_hadoop_bloom *bloom) {
    if (bits_size(bloom) > (size_t)(from->end - from->p))
        return wrong(from, from->p, "all the bits of a row", LS_TRUNCATED);
    from->p += bits_size(bloom);
    return LS_OK;
}

ls_status ls_hadoop_bloom_parse(const uint8_t *data, const uint8_t *end, int dynamic,
                                ls_hadoop_bloom *bloom, size_t *bad, const char **expected) {
    reading from = {data, data, end, bad, expected};
    *bloom = (ls_hadoop_bloom){.rows = 1, .dynamic = dynamic != 0};
    ls_status status = read_header(&from, bloom);
    if (status != LS_OK)
        return status;
    if (!dynamic) {
        status = skip_bits(&from, bloom);
        if (status != LS_OK)
            return status;
    } else {
        status = read_int(&from, 1, INT32_MAX, "1 or more keys per row", &bloom->row_keys);
        if (status == LS_OK)
            status =
                read_int(&from, 0, INT32_MAX, "0 or more keys in the last row", &bloom->last_keys);
        if (status == LS_OK)
            status = read_int(&from, 1, INT32_MAX, "1 or more rows", &bloom->rows);
        if (status != LS_OK)
            return status;
        /* Each row read takes bytes, so a wrong count ends the loop at the end of the bytes. */
        for (uint32_t i = 0; i < bloom->rows; i++) {
            ls_hadoop_bloom row = {0};
            const uint8_t *start = from.p;
            status = read_header(&from, &row);
            if (status != LS_OK)
                return status;
            if (row.old != bloom->old || row.hashes != bloom->hashes || row.hash != bloom->hash ||
                row.bits != bloom->bits)
                return wrong(&from, start, "a row like the filter's own header", LS_BAD_HEADER);
            status = skip_bits(&from, bloom);
            if (status != LS_OK)
                return status;
        }
    }
    if (from.p != end)
        return wrong(&from, from.p, "the end of the filter", LS_BAD_HEADER);
    return LS_OK;
}

static uint8_t *put_header(const ls_hadoop_bloom *bloom, uint8_t *p) {
    if (!bloom->old)
        p = put32_big(p, (uint32_t)-1);
    p = put32_big(p, bloom->hashes);
    if (!bloom->old)
        *p++ = bloom->hash;
    return put32_big(p, bloom->bits);
}

void ls_hadoop_bloom_put_headers(const ls_hadoop_bloom *bloom, uint8_t *data) {
    if (bloom->dynamic) {
        data = put_header(bloom, data);
        data = put32_big(data, bloom->row_keys);
        data = put32_big(data, bloom->last_keys);
        data = put32_big(data, bloom->rows);
    }
    for (uint32_t i = 0; i < bloom->rows; i++)
        data = put_header(bloom, data) + bits_size(bloom);
}

/* ---- Keys */

/* Returns a position: Java's Math.abs of a hash, but 2^31 for the smallest int, modulo `bits`. */
static inline uint32_t position(uint32_t hash, uint32_t bits) {
    return ((int32_t)hash < 0 ? 0U - hash : hash) % bits;
}

static inline uint32_t next_hash(const ls_hadoop_bloom *bloom, ls_slice key, uint32_t seed) {
    return bloom->hash == LS_HADOOP_MURMUR ? ls_hadoop_murmur(key, seed)
                                           : ls_hadoop_jenkins(key, seed);
}

static inline ls_status get_key(const ls_column *keys, size_t i, ls_slice *key) {
    if (!ls_column_is_valid(keys, i))
        return LS_NULL;
    ls_status status = ls_column_get(keys, i, key);
    if (status == LS_OK && key->size == 0)
        status = LS_BAD_KEY;
    return status;
}

/* Number of keys whose hashes are computed together. The hashes of one key depend on each other, so
 * the processor would wait for every step; with several keys it computes steps of different keys at
 * once, and the bytes of their positions are loaded meanwhile. */
#define TOGETHER 64

static ls_status get_keys(const ls_column *keys, const uint32_t *rows, size_t from, size_t count,
                          ls_slice *batch, size_t *bad) {
    for (size_t i = 0; i < count; i++) {
        size_t row = rows == NULL ? from + i : rows[from + i];
        ls_status status = get_key(keys, row, &batch[i]);
        if (status != LS_OK) {
            *bad = row;
            return status;
        }
    }
    return LS_OK;
}

uint32_t ls_hadoop_bloom_row_of(uint64_t index, uint32_t row_keys, uint32_t rows_limit) {
    uint64_t room = (uint64_t)row_keys * rows_limit;
    if (index < room)
        return (uint32_t)(index / row_keys);
    return index == room ? 0 : (uint32_t)((index - room - 1) % rows_limit);
}

/* ---- Adding eight keys at once. All positions of a key are needed then, and the contribution of
 * its bytes to the hash is the same for each: it is computed once, and the chains of eight keys
 * advance together. */

#define LANES 8
#define MOST_BLOCKS 16
#define MOST_ROUNDS 32

typedef uint32_t lanes __attribute__((vector_size(4 * LANES)));

/* A step is `hash * by ^ word`, the last one `(hash ^ tail) * tail_by`. If a key has no more bytes,
 * `by` is 1 and `word` 0, so that keys of different sizes are processed together. */
typedef struct {
    lanes by[MOST_BLOCKS], word[MOST_BLOCKS], size, tail, tail_by;
    size_t blocks;
} murmur_steps;

/* Returns 0 if a key is too long for this method. */
static int prepare_steps(const ls_slice keys[LANES], murmur_steps *steps) {
    steps->blocks = 0;
    for (unsigned n = 0; n < LANES; n++) {
        size_t blocks = keys[n].size / 4;
        if (blocks > MOST_BLOCKS)
            return 0;
        if (blocks > steps->blocks)
            steps->blocks = blocks;
    }
    for (unsigned n = 0; n < LANES; n++) {
        const uint8_t *p = keys[n].data;
        size_t blocks = keys[n].size / 4, left = keys[n].size & 3;
        for (size_t i = 0; i < steps->blocks; i++) {
            int has = i < blocks;
            steps->by[i][n] = has ? MURMUR_M : 1;
            steps->word[i][n] = has ? murmur_block(0, ls_load32(p + 4 * i)) : 0;
        }
        const uint8_t *end = p + keys[n].size;
        steps->size[n] = (uint32_t)keys[n].size;
        steps->tail[n] = (left == 3 ? signed_byte(end[-3]) << 16 : 0) ^
                         (left >= 2 ? signed_byte(end[-2]) << 8 : 0) ^
                         (left >= 1 ? signed_byte(end[-1]) : 0);
        steps->tail_by[n] = left > 0 ? MURMUR_M : 1;
    }
    return 1;
}

/* `x % bits` without a division, for any x (Lemire, Kaser, Kurz: Faster remainder by direct
 * computation, 2019). `inverse` is 2^64 / bits, rounded up. */
static inline uint32_t remainder_of(uint32_t x, uint64_t inverse, uint32_t bits) {
    return (uint32_t)((unsigned __int128)(inverse * x) * bits >> 64);
}

static inline __attribute__((always_inline)) void
add_lanes_inline(const ls_hadoop_bloom *bloom, const murmur_steps *steps, uint8_t *const *rows) {
    uint32_t at[MOST_ROUNDS][LANES];
    uint64_t inverse = UINT64_MAX / bloom->bits + 1;
    lanes hash = {0};
    for (uint32_t done = 0; done < bloom->hashes;) {
        uint32_t rounds = bloom->hashes - done < MOST_ROUNDS ? bloom->hashes - done : MOST_ROUNDS;
        for (uint32_t round = 0; round < rounds; round++) {
            hash ^= steps->size;
            for (size_t i = 0; i < steps->blocks; i++)
                hash = hash * steps->by[i] ^ steps->word[i];
            hash = (hash ^ steps->tail) * steps->tail_by;
            hash ^= hash >> 13;
            hash *= MURMUR_M;
            hash ^= hash >> 15;
            lanes sign = -(hash >> 31), absolute = (hash ^ sign) - sign;
            memcpy(at[round], &absolute, sizeof absolute);
            for (unsigned n = 0; n < LANES; n++) {
                at[round][n] = remainder_of(at[round][n], inverse, bloom->bits);
                LS_PREFETCH(rows[n] + (at[round][n] >> 3));
            }
        }
        for (uint32_t round = 0; round < rounds; round++)
            for (unsigned n = 0; n < LANES; n++)
                rows[n][at[round][n] >> 3] |= (uint8_t)(1U << (at[round][n] & 7));
        done += rounds;
    }
}

static void add_lanes(const ls_hadoop_bloom *bloom, const murmur_steps *steps,
                      uint8_t *const *rows) {
    add_lanes_inline(bloom, steps, rows);
}

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2 1

/* Does the same if a register holds all eight. */
__attribute__((target("avx2"))) static void
add_lanes_avx2(const ls_hadoop_bloom *bloom, const murmur_steps *steps, uint8_t *const *rows) {
    add_lanes_inline(bloom, steps, rows);
}
#endif

/* Adds LANES keys; returns 0 if this method does not support them. */
static int add_together(const ls_hadoop_bloom *bloom, const ls_slice keys[LANES],
                        uint8_t *const *rows) {
    murmur_steps steps;
    if (bloom->hash != LS_HADOOP_MURMUR || !prepare_steps(keys, &steps))
        return 0;
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2")) {
        add_lanes_avx2(bloom, &steps, rows);
        return 1;
    }
#endif
    add_lanes(bloom, &steps, rows);
    return 1;
}

ls_status ls_hadoop_bloom_add(const ls_hadoop_bloom *bloom, uint32_t rows_limit, uint8_t *data,
                              const ls_column *keys, size_t from, size_t to, uint64_t index,
                              size_t *bad) {
    ls_slice batch[TOGETHER];
    uint8_t *rows[TOGETHER];
    uint32_t hash[TOGETHER];
    uint8_t *first = data + ls_hadoop_bloom_first_bits(bloom);
    size_t row_size = ls_hadoop_bloom_row_size(bloom);
    for (size_t i = from; i < to; i++) {
        ls_slice key;
        ls_status status = get_key(keys, i, &key);
        if (status != LS_OK) {
            *bad = i;
            return status;
        }
    }
    for (size_t i = from; i < to; i += TOGETHER) {
        size_t count = to - i < TOGETHER ? to - i : TOGETHER;
        (void)get_keys(keys, NULL, i, count, batch, bad);
        for (size_t n = 0; n < count; n++) {
            uint32_t row = bloom->dynamic ? ls_hadoop_bloom_row_of(index + (i - from) + n,
                                                                   bloom->row_keys, rows_limit)
                                          : 0;
            rows[n] = first + row * row_size;
            hash[n] = 0;
        }
        size_t done = 0;
        while (count - done >= LANES && add_together(bloom, batch + done, rows + done))
            done += LANES;
        for (uint32_t round = 0; round < bloom->hashes; round++)
            for (size_t n = done; n < count; n++) {
                hash[n] = next_hash(bloom, batch[n], hash[n]);
                uint32_t at = position(hash[n], bloom->bits);
                rows[n][at >> 3] |= (uint8_t)(1U << (at & 7));
            }
    }
    return LS_OK;
}

/* Tests in rounds, one hash each: most absent keys are excluded in the first two. The remaining
 * keys are written without a branch, since it could not be predicted. */
static void test_row(const ls_hadoop_bloom *bloom, const uint8_t *bits, const ls_slice *batch,
                     size_t count, uint8_t *maybe) {
    uint8_t left[TOGETHER];
    uint32_t hash[TOGETHER], at[TOGETHER];
    size_t remaining = 0;
    for (size_t n = 0; n < count; n++) {
        left[remaining] = (uint8_t)n;
        remaining += !maybe[n]; /* found in an earlier row */
        hash[n] = 0;
    }
    for (uint32_t round = 0; round < bloom->hashes && remaining > 0; round++) {
        for (size_t n = 0; n < remaining; n++) {
            hash[n] = next_hash(bloom, batch[left[n]], hash[n]);
            at[n] = position(hash[n], bloom->bits);
            LS_PREFETCH(bits + (at[n] >> 3));
        }
        size_t stay = 0;
        for (size_t n = 0; n < remaining; n++) {
            left[stay] = left[n];
            hash[stay] = hash[n];
            stay += bits[at[n] >> 3] >> (at[n] & 7) & 1;
        }
        remaining = stay;
    }
    for (size_t n = 0; n < remaining; n++)
        maybe[left[n]] = 1;
}

ls_status ls_hadoop_bloom_test(const ls_hadoop_bloom *bloom, const uint8_t *data,
                               const ls_column *keys, const uint32_t *rows, size_t from, size_t to,
                               uint8_t *maybe, size_t *bad) {
    ls_slice batch[TOGETHER];
    const uint8_t *first = data + ls_hadoop_bloom_first_bits(bloom);
    size_t row_size = ls_hadoop_bloom_row_size(bloom);
    for (size_t i = from; i < to; i += TOGETHER) {
        size_t count = to - i < TOGETHER ? to - i : TOGETHER;
        ls_status status = get_keys(keys, rows, i, count, batch, bad);
        if (status != LS_OK)
            return status;
        memset(maybe + (i - from), 0, count);
        for (uint32_t row = 0; row < bloom->rows; row++)
            test_row(bloom, first + row * row_size, batch, count, maybe + (i - from));
    }
    return LS_OK;
}
