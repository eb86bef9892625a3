#include "ls_md5.h"

/* RFC 1321, 3.4: floor(2^32 * |sin(i)|) for i from 1. */
static const uint32_t SINES[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

#define BLOCK 64

static inline uint32_t rotate_left(uint32_t value, unsigned by) {
    return value << by | value >> (32 - by);
}

#define STEP(f, a, b, c, d, word, i, by) a = b + rotate_left(a + (f) + words[word] + SINES[i], by)
/* Four steps of a round, whose words have a distance of `stride`. */
#define STEPS(f_a, f_d, f_c, f_b, i, start, stride, s0, s1, s2, s3)                                \
    STEP(f_a, a, b, c, d, (start) & 15, i, s0);                                                    \
    STEP(f_d, d, a, b, c, ((start) + (stride)) & 15, (i) + 1, s1);                                 \
    STEP(f_c, c, d, a, b, ((start) + 2 * (stride)) & 15, (i) + 2, s2);                             \
    STEP(f_b, b, c, d, a, ((start) + 3 * (stride)) & 15, (i) + 3, s3)

#define F(x, y, z) (z ^ (x & (y ^ z)))
#define G(x, y, z) (y ^ (z & (x ^ y)))
#define H(x, y, z) (x ^ y ^ z)
#define I(x, y, z) (y ^ (x | ~z))
#define ROUND(f, i, start, stride, s0, s1, s2, s3)                                                 \
    STEPS(f(b, c, d), f(a, b, c), f(d, a, b), f(c, d, a), i, start, stride, s0, s1, s2, s3)

static void add_block(uint32_t state[4], const uint8_t block[BLOCK]) {
    uint32_t words[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (unsigned i = 0; i < 16; i++)
        words[i] = ls_load32(block + 4 * i);
    for (unsigned i = 0; i < 16; i += 4) {
        ROUND(F, i, i, 1, 7, 12, 17, 22);
    }
    for (unsigned i = 0; i < 16; i += 4) {
        ROUND(G, 16 + i, 1 + 5 * i, 5, 5, 9, 14, 20);
    }
    for (unsigned i = 0; i < 16; i += 4) {
        ROUND(H, 32 + i, 5 + 3 * i, 3, 4, 11, 16, 23);
    }
    for (unsigned i = 0; i < 16; i += 4) {
        ROUND(I, 48 + i, 7 * i, 7, 6, 10, 15, 21);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void ls_md5(ls_slice data, uint8_t digest[16]) {
    uint32_t state[4] = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U};
    const uint8_t *p = data.data;
    size_t left = data.size;
    for (; left >= BLOCK; left -= BLOCK, p += BLOCK)
        add_block(state, p);
    uint8_t last[BLOCK] = {0};
    if (left > 0)
        memcpy(last, p, left);
    last[left] = 0x80;
    if (left >= BLOCK - 8) { /* no room for the length */
        add_block(state, last);
        memset(last, 0, BLOCK);
    }
    ls_store64(last + BLOCK - 8, (uint64_t)data.size << 3);
    add_block(state, last);
    for (unsigned i = 0; i < 4; i++)
        ls_store32(digest + 4 * i, state[i]);
}

ls_status ls_md5_numbers(const ls_column *keys, size_t from, size_t to, int64_t *numbers,
                         size_t *bad) {
    for (size_t i = from; i < to; i++) {
        ls_slice key;
        uint8_t digest[16];
        *bad = i;
        if (!ls_column_is_valid(keys, i))
            return LS_NULL;
        ls_status status = ls_column_get(keys, i, &key);
        if (status != LS_OK)
            return status;
        ls_md5(key, digest);
        numbers[i - from] = (int64_t)ls_load64(digest);
    }
    return LS_OK;
}
