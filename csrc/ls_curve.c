#include "ls_curve.h"

#include "ls_order.h"

#define LS_INLINE static inline __attribute__((always_inline))

/* Number of rows that are processed at once: their data stays in the first cache. */
enum { BLOCK = 512 };

/* Number of searches that run side by side: each waits for memory while others compare. */
enum { LANES = 8 };

/* ---- values to coordinates --------------------------------------------------------------------- */

static uint64_t word_of(ls_slice value, ls_slice shared) {
    size_t common = value.size < shared.size ? value.size : shared.size;
    int order = common == 0 ? 0 : memcmp(value.data, shared.data, common);
    if (order != 0)
        return order < 0 ? 0 : UINT64_MAX;
    if (value.size < shared.size)
        return 0;
    return ls_bytes_prefix(value.data + shared.size, value.size - shared.size);
}

/* REQUIRES: width is a constant, so that the compiler removes the loop of the prefix. */
LS_INLINE void fixed_words(const uint8_t *from, size_t width, size_t count, uint64_t *words) {
    for (size_t i = 0; i < count; i++)
        words[i] = ls_bytes_prefix(from + i * width, width);
}

ls_status ls_curve_words(const ls_column *values, size_t start, size_t count, ls_slice shared,
                         uint64_t *words) {
    if (values->offset_width == 0 && shared.size == 0) {
        const uint8_t *from = values->data + start * values->width;
        switch (values->width) {
        case 1:
            fixed_words(from, 1, count, words);
            return LS_OK;
        case 2:
            fixed_words(from, 2, count, words);
            return LS_OK;
        case 4:
            fixed_words(from, 4, count, words);
            return LS_OK;
        case 8:
            fixed_words(from, 8, count, words);
            return LS_OK;
        default:
            break;
        }
    }
    for (size_t i = 0; i < count; i++) {
        ls_slice value;
        ls_status status = ls_column_get(values, start + i, &value);
        if (status != LS_OK)
            return status;
        words[i] = word_of(value, shared);
    }
    return LS_OK;
}

/* Counts the ascending numbers that are not greater than each word. There must be room for a
 * multiple of LANES. No branch depends on a value. */
static void count_not_greater(const uint64_t *ascending, size_t count, const uint64_t *words,
                              size_t length, uint32_t *found) {
    for (size_t i = 0; i < length; i += LANES) {
        uint32_t base[LANES] = {0};
        const uint64_t *word = words + i;
        for (size_t left = count; left > 0;) {
            size_t half = left == 1 ? 1 : left / 2;
            for (size_t j = 0; j < LANES; j++)
                base[j] += (uint32_t)half & -(uint32_t)(ascending[base[j] + half - 1] <= word[j]);
            left = left == 1 ? 0 : left - half;
        }
        memcpy(found + i, base, sizeof base);
    }
}

/* Returns the number of boundaries that are not greater than a value; the words of `found` of them
 * are not greater than its word. */
static uint32_t settled(const ls_boundaries *boundaries, const ls_column *values, size_t row,
                        uint64_t word, uint32_t found) {
    ls_slice value, other;
    if (ls_column_get(values, row, &value) != LS_OK)
        return found; /* never: the word was computed from it */
    uint32_t low = found, high = found;
    for (uint32_t step = 1; low > 0 && boundaries->words[low - 1] == word; step *= 2)
        low = low > step ? low - step : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ls_column_get(boundaries->values, middle, &other) == LS_OK &&
            ls_compare_bytes(other, value) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sets the intervals of a block; its words remain available to the caller. */
static ls_status rank_block(const ls_boundaries *boundaries, const ls_column *values, size_t start,
                            size_t count, uint64_t *words, uint32_t *found) {
    ls_status status = ls_curve_words(values, start, count, boundaries->shared, words);
    if (status != LS_OK)
        return status;
    for (size_t i = count; i % LANES != 0; i++)
        words[i] = 0;
    size_t boundary_count = boundaries->values->length;
    count_not_greater(boundaries->words, boundary_count, words, count, found);
    if (boundaries->whole)
        return LS_OK;
    for (size_t i = 0; i < count; i++)
        if (found[i] != 0 && boundaries->words[found[i] - 1] == words[i] &&
            ls_column_is_valid(values, start + i))
            found[i] = settled(boundaries, values, start + i, words[i], found[i]);
    return LS_OK;
}

/* Nulls are before all values. */
static void clear_nulls(const ls_column *values, size_t start, size_t count,
                        uint32_t *coordinates) {
    for (size_t i = 0; values->validity != NULL && i < count; i++)
        coordinates[i] &= -(uint32_t)ls_column_is_valid(values, start + i);
}

ls_status ls_curve_ranks(const ls_boundaries *boundaries, const ls_column *values,
                         const uint32_t *of_interval, uint32_t *coordinates) {
    uint64_t words[BLOCK];
    uint32_t found[BLOCK];
    for (size_t start = 0; start < values->length; start += BLOCK) {
        size_t count = values->length - start < BLOCK ? values->length - start : BLOCK;
        ls_status status = rank_block(boundaries, values, start, count, words, found);
        if (status != LS_OK)
            return status;
        for (size_t i = 0; i < count; i++)
            coordinates[start + i] = of_interval == NULL ? found[i] : of_interval[found[i]];
        clear_nulls(values, start, count, coordinates + start);
    }
    return LS_OK;
}

ls_status ls_curve_stretch(const ls_span *span, ls_slice shared, const ls_column *values,
                           uint32_t *coordinates) {
    uint64_t words[BLOCK];
    uint64_t range = span->high - span->low;
    /* The range is shifted to the highest bit, so that its upper half has all significant bits: one
     * 32-bit multiplication is then enough, and cannot overflow. */
    int shift = range == 0 ? 0 : __builtin_clzll(range);
    uint64_t steps = ((uint64_t)1 << span->bits) - 2;
    uint64_t factor = (steps << 32) / ((range << shift >> 32) + 1);
    if (range == 0)
        factor = 0;
    for (size_t start = 0; start < values->length; start += BLOCK) {
        size_t count = values->length - start < BLOCK ? values->length - start : BLOCK;
        ls_status status = ls_curve_words(values, start, count, shared, words);
        if (status != LS_OK)
            return status;
        for (size_t i = 0; i < count; i++) {
            uint64_t word = words[i] < span->low ? span->low : words[i];
            word = word > span->high ? span->high : word;
            uint64_t upper = (word - span->low) << shift >> 32;
            coordinates[start + i] = 1 + (uint32_t)(upper * factor >> 32);
        }
        clear_nulls(values, start, count, coordinates + start);
    }
    return LS_OK;
}

/* Returns the double from its bytes in the form of ls_keys.h. */
LS_INLINE double double_of(uint64_t ordered) {
    uint64_t sign = (uint64_t)1 << 63;
    uint64_t bits = ordered & sign ? ordered ^ sign : ~ordered;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void ls_curve_stretch_doubles(double low, double high, unsigned bits, const ls_column *values,
                              uint32_t *coordinates) {
    double most = (double)(((uint64_t)1 << bits) - 3);
    /* Halves are used, because the distance of two doubles may exceed the greatest double. */
    double half = low / 2, distance = high / 2 - half;
    for (size_t i = 0; i < values->length; i++) {
        double value = double_of(ls_load64_big(values->data + i * 8));
        double inside = value < low ? low : value > high ? high : value;
        double share = distance > 0 ? (inside / 2 - half) / distance : 0;
        uint32_t coordinate = 1 + (uint32_t)(value == value ? share * most : 0);
        coordinates[i] = value == value ? coordinate : (uint32_t)(((uint64_t)1 << bits) - 1);
    }
    clear_nulls(values, 0, values->length, coordinates);
}

static size_t shared_size(ls_slice a, ls_slice b) {
    size_t most = a.size < b.size ? a.size : b.size, size = 0;
    while (size < most && a.data[size] == b.data[size])
        size++;
    return size;
}

static void store_big(uint8_t *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

ls_status ls_curve_rest(const ls_boundaries *boundaries, const ls_column *values, uint8_t *out) {
    uint64_t words[BLOCK];
    uint32_t found[BLOCK];
    for (size_t start = 0; start < values->length; start += BLOCK) {
        size_t count = values->length - start < BLOCK ? values->length - start : BLOCK;
        ls_status status = rank_block(boundaries, values, start, count, words, found);
        if (status != LS_OK)
            return status;
        for (size_t i = 0; i < count; i++, out += LS_CURVE_REST) {
            ls_slice value, before, after;
            size_t shared = 0;
            memset(out, 0, LS_CURVE_REST);
            if (!ls_column_is_valid(values, start + i))
                continue;
            status = ls_column_get(values, start + i, &value);
            if (status == LS_OK && found[i] > 0 && found[i] < boundaries->values->length) {
                status = ls_column_get(boundaries->values, found[i] - 1, &before);
                if (status == LS_OK)
                    status = ls_column_get(boundaries->values, found[i], &after);
                if (status == LS_OK)
                    shared = shared_size(before, after);
            }
            if (status != LS_OK)
                return status;
            /* A value between two with a common prefix has this prefix, too. */
            if (shared > value.size)
                shared = value.size;
            store_big(out, found[i], 4);
            store_big(out + 4, ls_bytes_prefix(value.data + shared, value.size - shared), 8);
        }
    }
    return LS_OK;
}

/* ---- coordinates to positions ------------------------------------------------------------------ */

/* Spread the lower bits of a number: one or more zeros between every two. */

LS_INLINE uint64_t spread_by_2(uint64_t x) { /* 32 bits */
    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    x = (x | x << 2) & UINT64_C(0x3333333333333333);
    return (x | x << 1) & UINT64_C(0x5555555555555555);
}

LS_INLINE uint64_t spread_by_3(uint64_t x) { /* 21 bits */
    x = (x | x << 32) & UINT64_C(0x001f00000000ffff);
    x = (x | x << 16) & UINT64_C(0x001f0000ff0000ff);
    x = (x | x << 8) & UINT64_C(0x100f00f00f00f00f);
    x = (x | x << 4) & UINT64_C(0x10c30c30c30c30c3);
    return (x | x << 2) & UINT64_C(0x1249249249249249);
}

LS_INLINE uint64_t spread_by_4(uint64_t x) { /* 16 bits */
    x = (x | x << 24) & UINT64_C(0x000000ff000000ff);
    x = (x | x << 12) & UINT64_C(0x000f000f000f000f);
    x = (x | x << 6) & UINT64_C(0x0303030303030303);
    return (x | x << 3) & UINT64_C(0x1111111111111111);
}

/* Swapping 8 bytes takes a few moves, unlike a loop over them. */
LS_INLINE void store64_big(uint8_t *out, uint64_t value) {
    value = ls_load64_big((const uint8_t *)&value);
    memcpy(out, &value, sizeof value);
}

/* Writes positions of `count` rows; coordinates of a column have a distance of `stride` from the
 * next. */
static void interleave(const uint32_t *coordinates, size_t stride, size_t columns, unsigned bits,
                       size_t count, uint8_t *positions) {
    const uint32_t *row = coordinates;
    if (columns == 1) {
        for (size_t i = 0; i < count; i++)
            store64_big(positions + 8 * i, row[i]);
    } else if (columns == 2) {
        for (size_t i = 0; i < count; i++)
            store64_big(positions + 8 * i, spread_by_2(row[i]) << 1 | spread_by_2(row[i + stride]));
    } else if (columns == 3 && bits <= 21) {
        for (size_t i = 0; i < count; i++)
            store64_big(positions + 8 * i, spread_by_3(row[i]) << 2 |
                                               spread_by_3(row[i + stride]) << 1 |
                                               spread_by_3(row[i + 2 * stride]));
    } else if (columns == 4 && bits <= 16) {
        for (size_t i = 0; i < count; i++)
            store64_big(positions + 8 * i, spread_by_4(row[i]) << 3 |
                                               spread_by_4(row[i + stride]) << 2 |
                                               spread_by_4(row[i + 2 * stride]) << 1 |
                                               spread_by_4(row[i + 3 * stride]));
    } else {
        size_t width = ls_curve_width(columns, bits);
        memset(positions, 0, width * count);
        for (size_t from = 0; from < columns * bits; from++) { /* from the lowest bit on */
            const uint32_t *one = coordinates + (columns - 1 - from % columns) * stride;
            unsigned bit = (unsigned)(from / columns);
            uint8_t *out = positions + width - 1 - from / 8;
            for (size_t i = 0; i < count; i++)
                out[i * width] |= (uint8_t)((one[i] >> bit & 1) << from % 8);
        }
    }
}

void ls_curve_zorder(const uint32_t *coordinates, size_t columns, unsigned bits, size_t length,
                     uint8_t *positions) {
    interleave(coordinates, length, columns, bits, length, positions);
}

/* Converts coordinates of a block to those whose Z-order is the Hilbert order: J. Skilling,
 * Programming the Hilbert curve, 2004. Every step is one loop over the rows, without a branch, so
 * that the compiler vectorizes it. */
static void to_hilbert(uint32_t (*axes)[BLOCK], size_t columns, unsigned bits, size_t count) {
    uint32_t *first = axes[0];
    for (unsigned bit = bits - 1; bit > 0; bit--) {
        uint32_t lower = ((uint32_t)1 << bit) - 1;
        for (size_t i = 0; i < count; i++) /* exchange with itself: only the inversion remains */
            first[i] ^= lower & -(first[i] >> bit & 1);
        for (size_t c = 1; c < columns; c++) {
            uint32_t *one = axes[c];
            for (size_t i = 0; i < count; i++) {
                uint32_t inverted = -(one[i] >> bit & 1);
                uint32_t exchanged = (first[i] ^ one[i]) & lower & ~inverted;
                first[i] ^= exchanged | (lower & inverted);
                one[i] ^= exchanged;
            }
        }
    }
    uint32_t *last = axes[columns - 1];
    for (size_t c = 1; c < columns; c++)
        for (size_t i = 0; i < count; i++)
            axes[c][i] ^= axes[c - 1][i];
    for (size_t i = 0; i < count; i++) { /* parity of all higher bits of the last axis */
        uint32_t parity = last[i] >> 1;
        parity ^= parity >> 1;
        parity ^= parity >> 2;
        parity ^= parity >> 4;
        parity ^= parity >> 8;
        parity ^= parity >> 16;
        for (size_t c = 0; c < columns; c++)
            axes[c][i] ^= parity;
    }
}

void ls_curve_hilbert(const uint32_t *coordinates, size_t columns, unsigned bits, size_t length,
                      uint8_t *positions) {
    uint32_t axes[LS_CURVE_COLUMNS][BLOCK];
    size_t width = ls_curve_width(columns, bits);
    for (size_t start = 0; start < length; start += BLOCK) {
        size_t count = length - start < BLOCK ? length - start : BLOCK;
        for (size_t c = 0; c < columns; c++)
            memcpy(axes[c], coordinates + c * length + start, count * sizeof(uint32_t));
        to_hilbert(axes, columns, bits, count);
        interleave(axes[0], BLOCK, columns, bits, count, positions + start * width);
    }
}
