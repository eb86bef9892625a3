/* Positions on space-filling curves: from values to coordinates, from those to the curve.
 *
 * Values are bytes in their order, as ls_keys.h writes one field that is not null: every type of
 * column is the same here. A null has the coordinate 0, which is before all values. */
#ifndef LS_CURVE_H
#define LS_CURVE_H

#include "ls_column.h"

#define LS_CURVE_COLUMNS 8
#define LS_CURVE_BITS 32

/* Ascending values that cut a column into intervals. */
typedef struct {
    const ls_column *values; /* none null, of any width */
    const uint64_t *words;   /* what ls_curve_words makes of each */
    ls_slice shared;         /* what all of them begin with */
    int whole;               /* words tell any two values apart */
} ls_boundaries;

/* A range of words that is stretched over coordinates. */
typedef struct {
    uint64_t low, high; /* both are in it */
    unsigned bits;      /* of a coordinate, from 2 to LS_CURVE_BITS */
} ls_span;

/* Sets a number for each value that orders as far as the 8 bytes do that follow what all share:
 * 0 for values before all that begin so, UINT64_MAX for those behind them.
 * REQUIRES: start + count <= values->length. */
ls_status ls_curve_words(const ls_column *values, size_t start, size_t count, ls_slice shared,
                         uint64_t *words);

/* Sets the coordinate of each value: of_interval[how many boundaries are not greater], or that
 * number itself if of_interval is NULL. */
ls_status ls_curve_ranks(const ls_boundaries *boundaries, const ls_column *values,
                         const uint32_t *of_interval, uint32_t *coordinates);

/* Sets the coordinate of each value: where its word lies in the span, from 1 to 2^bits - 2. What
 * is outside of the span has the coordinate of its nearer end. */
ls_status ls_curve_stretch(const ls_span *span, ls_slice shared, const ls_column *values,
                           uint32_t *coordinates);

/* The same of doubles, by what they are and not by their bits; NaN has 2^bits - 1.
 * REQUIRES: low and high are finite, values->width is 8. */
void ls_curve_stretch_doubles(double low, double high, unsigned bits, const ls_column *values,
                              uint32_t *coordinates);

/* Bytes of what ls_curve_rest writes of each value. */
#define LS_CURVE_REST 12

/* Writes bytes that order as values of any size do, as far as that goes in few: how many boundaries
 * are not greater (4 bytes), then the 8 bytes that follow what all values between the nearest two
 * boundaries share. */
ls_status ls_curve_rest(const ls_boundaries *boundaries, const ls_column *values, uint8_t *out);

/* Bytes of a position: big-endian, 8 of them unless the bits of all coordinates are more. */
static inline size_t ls_curve_width(size_t columns, unsigned bits) {
    size_t bytes = (columns * bits + 7) / 8;
    return bytes < 8 ? 8 : bytes;
}

/* Writes the position of each row on the Z-order curve: the bits of its coordinates in turn, those
 * of column 0 first. Coordinates of a column lie in a row of `length` of them, each < 2^bits.
 * REQUIRES: 1 <= columns <= LS_CURVE_COLUMNS, 1 <= bits <= LS_CURVE_BITS. */
void ls_curve_zorder(const uint32_t *coordinates, size_t columns, unsigned bits, size_t length,
                     uint8_t *positions);

/* The same on the Hilbert curve. */
void ls_curve_hilbert(const uint32_t *coordinates, size_t columns, unsigned bits, size_t length,
                      uint8_t *positions);

#endif
