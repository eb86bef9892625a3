/* Tests of ls_curve.h. */
#include "ls_curve.h"
#include "ls_order.h"
#include "made.h"
#include "tests.h"

/* The coordinates of a place on the Hilbert curve, by Skilling's way back: the oracle. */
static void from_hilbert(uint32_t *x, size_t columns, unsigned bits) {
    uint32_t t = x[columns - 1] >> 1;
    for (size_t i = columns - 1; i > 0; i--)
        x[i] ^= x[i - 1];
    x[0] ^= t;
    for (unsigned bit = 1; bit < bits; bit++) {
        uint32_t q = (uint32_t)1 << bit, p = q - 1;
        for (size_t i = columns; i-- > 0;) {
            if (x[i] & q) {
                x[0] ^= p;
            } else {
                t = (x[0] ^ x[i]) & p;
                x[0] ^= t;
                x[i] ^= t;
            }
        }
    }
}

static void take_apart(const uint8_t *position, size_t width, size_t columns, unsigned bits,
                       uint32_t *x) {
    memset(x, 0, columns * sizeof *x);
    for (size_t from = 0; from < columns * bits; from++)
        x[columns - 1 - from % columns] |=
            (uint32_t)(position[width - 1 - from / 8] >> from % 8 & 1) << from / columns;
}

void test_curves(void) {
    for (int trial = 0; trial < 400; trial++) {
        size_t columns = 1 + below(LS_CURVE_COLUMNS), length = below(1300);
        unsigned bits = 1 + (unsigned)below(LS_CURVE_BITS);
        size_t width = ls_curve_width(columns, bits);
        uint32_t *coordinates = room(columns * length * sizeof *coordinates), x[LS_CURVE_COLUMNS];
        uint8_t *positions = room(width * length);
        for (size_t i = 0; i < columns * length; i++)
            coordinates[i] = (uint32_t)any() >> (32 - bits);
        for (int hilbert = 0; hilbert < 2; hilbert++) {
            (hilbert ? ls_curve_hilbert : ls_curve_zorder)(coordinates, columns, bits, length,
                                                           positions);
            for (size_t i = 0; i < length; i++) {
                take_apart(positions + i * width, width, columns, bits, x);
                if (hilbert)
                    from_hilbert(x, columns, bits);
                for (size_t c = 0; c < columns; c++)
                    CHECK(x[c] == coordinates[c * length + i]);
            }
        }
        free(coordinates);
        free(positions);
    }
}

static int by_bytes(const void *a, const void *b) {
    return ls_compare_bytes(*(const ls_slice *)a, *(const ls_slice *)b);
}

void test_ranks(void) {
    enum { MOST = 1100, BYTES = 64 };
    static uint8_t bytes[MOST * 2][BYTES];
    static ls_slice cuts[MOST], values[MOST];
    static uint64_t words[MOST];
    static uint32_t found[MOST];
    for (int trial = 0; trial < 200; trial++) {
        static const int widths[3] = {0, 4, 8};
        int width = widths[below(3)];
        size_t fixed = 1 + below(12), begin = width ? below(20) : 0;
        size_t cut_count = below(3) ? below(60) : below(MOST), count = below(MOST);
        for (size_t i = 0; i < 2 * MOST; i++) {
            memset(bytes[i], 7, begin);
            for (size_t j = begin; j < BYTES; j++)
                bytes[i][j] = (uint8_t)(below(40) ? below(2) * 255 : below(256));
        }
        for (size_t i = 0; i < cut_count; i++)
            cuts[i] = (ls_slice){bytes[i], width ? begin + below(BYTES - begin) : fixed};
        for (size_t i = 0; i < count; i++)
            values[i] = (ls_slice){bytes[below(2 * MOST)], width ? below(BYTES) : fixed};
        qsort(cuts, cut_count, sizeof *cuts, by_bytes);
        made_column ascending = make_column(cuts, cut_count, width);
        made_column column = make_column(values, count, width);
        if (width == 0)
            ascending.column.width = column.column.width = fixed;
        ls_boundaries boundaries = {&ascending.column, words, {bytes[0], begin}, 0};
        if (width == 0 && fixed <= 8)
            boundaries.whole = 1;
        CHECK(ls_curve_words(&ascending.column, 0, cut_count, boundaries.shared, words) == LS_OK);
        CHECK(ls_curve_ranks(&boundaries, &column.column, NULL, found) == LS_OK);
        uint8_t *rest = room(count * LS_CURVE_REST);
        CHECK(ls_curve_rest(&boundaries, &column.column, rest) == LS_OK);
        for (size_t i = 0; i < count; i++) {
            size_t expected = 0;
            while (expected < cut_count && ls_compare_bytes(cuts[expected], values[i]) <= 0)
                expected++;
            CHECK(found[i] == expected);
            size_t other = below(count);
            int order =
                memcmp(rest + i * LS_CURVE_REST, rest + other * LS_CURVE_REST, LS_CURVE_REST);
            int wanted = ls_compare_bytes(values[i], values[other]);
            CHECK(order == 0 || (order < 0) == (wanted < 0));
        }
        ls_span span = {0, UINT64_MAX, 2 + (unsigned)below(31)};
        if (cut_count > 0) {
            span.low = words[0];
            span.high = words[cut_count - 1];
        }
        CHECK(ls_curve_stretch(&span, boundaries.shared, &column.column, found) == LS_OK);
        for (size_t i = 0; i < count; i++)
            CHECK(found[i] >= 1 && found[i] <= ((uint64_t)1 << span.bits) - 2);
        free(rest);
        free_column(&ascending);
        free_column(&column);
    }
}
