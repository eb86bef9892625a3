#include "ls_json.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Number of bytes at a time: the number of bits of a word. */
enum { STEP = 64 };

typedef struct {
    uint64_t quotes, backslashes, opening, closing;
} masks;

#ifdef __SSE2__

static inline masks masks_of(const uint8_t *p) {
    masks found = {0, 0, 0, 0};
    for (int i = 0; i < STEP; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(p + i));
        __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20)); /* [ is { but for this bit */
#define AT(from, byte)                                                                             \
    ((uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(from, _mm_set1_epi8(byte))) << i)
        found.quotes |= AT(bytes, '"');
        found.backslashes |= AT(bytes, '\\');
        found.opening |= AT(lower, '{');
        found.closing |= AT(lower, '}');
#undef AT
    }
    return found;
}

#else

/* Returns a word with a bit for each byte that is `byte`. */
static inline uint64_t bits(uint64_t word, uint8_t byte) {
    const uint64_t low = 0x7f7f7f7f7f7f7f7f;
    uint64_t other = word ^ byte * 0x0101010101010101u;
    uint64_t same = ~(((other & low) + low) | other | low); /* 0x80 where they are equal */
    return ((same >> 7) * 0x0102040810204080u) >> 56;
}

static inline masks masks_of(const uint8_t *p) {
    masks found = {0, 0, 0, 0};
    for (int i = 0; i < STEP; i += 8) {
        uint64_t word = ls_load64(p + i);
        uint64_t lower = word | 0x2020202020202020u;
        found.quotes |= bits(word, '"') << i;
        found.backslashes |= bits(word, '\\') << i;
        found.opening |= bits(lower, '{') << i;
        found.closing |= bits(lower, '}') << i;
    }
    return found;
}

#endif

/* Removes quotes after a backslash that is not itself escaped. */
static uint64_t unescaped(ls_json *json, masks found, size_t count) {
    uint64_t escaped = json->escaped, slashes = found.backslashes;
    if (escaped)
        slashes &= ~(uint64_t)1;
    json->escaped = 0;
    while (slashes) {
        int at = __builtin_ctzll(slashes);
        if ((size_t)at + 1 == count) {
            json->escaped = 1;
            break;
        }
        escaped |= (uint64_t)2 << at;
        slashes &= ~((uint64_t)3 << at);
    }
    return found.quotes & ~escaped;
}

/* Sets all bits from an odd one on, up to the next one. */
static inline uint64_t between(uint64_t quotes) {
    for (int shift = 1; shift < STEP; shift *= 2)
        quotes ^= quotes << shift;
    return quotes;
}

/* Mostly there are none or one; counting bits at once is a call on processors without an
 * instruction. */
static inline size_t ones(uint64_t bits) {
    size_t count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

/* Processes at most STEP bytes, followed by zeros. */
static inline ls_status move(ls_json *json, const uint8_t *p, size_t count, size_t *bad) {
    masks found = masks_of(p);
    uint64_t quotes = found.quotes;
    if (found.backslashes | json->escaped)
        quotes = unescaped(json, found, count);
    uint64_t in_text = between(quotes) ^ json->in_text;
    if (json->in_text) {
        json->text += quotes ? (size_t)__builtin_ctzll(quotes) : count;
        if (json->text > json->most_text) {
            *bad = 0;
            return LS_TOO_LARGE;
        }
    }
    json->in_text = (uint64_t)0 - (in_text >> 63);
    if (json->in_text && quotes) /* those after the last quote */
        json->text = count - (size_t)(STEP - __builtin_clzll(quotes));
    uint64_t opening = found.opening & ~in_text, closing = found.closing & ~in_text;
    size_t opened = ones(opening), closed = ones(closing);
    if (json->depth + opened <= json->most_depth) {
        json->depth += opened; /* unbalanced closing brackets are left to the parser */
        json->depth -= closed < json->depth ? closed : json->depth;
        return LS_OK;
    }
    for (uint64_t rest = opening | closing; rest; rest &= rest - 1) {
        int at = __builtin_ctzll(rest);
        if (closing >> at & 1) {
            json->depth -= json->depth > 0;
        } else if (json->depth++ == json->most_depth) {
            *bad = (size_t)at;
            return LS_BAD_ROW;
        }
    }
    return LS_OK;
}

ls_status ls_json_move(ls_json *json, const uint8_t *data, size_t size, size_t *bad) {
    uint8_t last[STEP] = {0};
    size_t at = 0;
    ls_status status = LS_OK;
    for (; status == LS_OK && size - at >= STEP; at += STEP)
        status = move(json, data + at, STEP, bad);
    if (status != LS_OK) {
        *bad += at - STEP;
        return status;
    }
    if (at == size)
        return LS_OK;
    memcpy(last, data + at, size - at);
    status = move(json, last, size - at, bad);
    *bad += at;
    return status;
}

size_t ls_json_open_value(const uint8_t *data, size_t size) {
    size_t depth = 0, start = size;
    for (size_t at = 0; at < size; at++) {
        uint8_t byte = data[at];
        if (byte == '"') {
            for (at++; at < size && data[at] != '"'; at++)
                at += data[at] == '\\';
        } else if ((byte | 0x20) == '{') {
            start = depth++ == 0 ? at : start;
        } else if ((byte | 0x20) == '}' && depth > 0 && --depth == 0) {
            start = size;
        }
    }
    return start;
}
