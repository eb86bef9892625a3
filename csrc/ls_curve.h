/* Positions on space-filling curves: conversion of values to coordinates, and of these to
 * positions.
 *
 * Values are bytes in their order, as ls_keys.h writes one field that is not null, so all types of
 * columns are treated in the same way. A null has the coordinate 0, which is before all values. */
#ifndef LS_CURVE_H
#define LS_CURVE_H

#include "ls_column.h"

#define LS_CURVE_COLUMNS 8
#define LS_CURVE_BITS 32

/* Ascending values that divide a column into intervals. */
typedef struct {
    const ls_column *values; /* without nulls, of any width */
    const uint64_t *words;   /* the result of ls_curve_words for each */
    ls_slice shared;         /* common prefix of all */
    int whole;               /* words of different values differ */
} ls_boundaries;

/* A range of words that is mapped to coordinates. */
typedef struct {
    uint64_t low, high; /* inclusive */
    unsigned bits;      /* of a coordinate, from 2 to LS_CURVE_BITS */
} ls_span;

/* Sets a number for each value, with the order of the 8 bytes after the common prefix: 0 for values
 * before all values with the prefix, UINT64_MAX for values after them.
 * REQUIRES: start + count <= values->length. */
ls_status ls_curve_words(const ls_column *values, size_t start, size_t count, ls_slice shared,
                         uint64_t *words);

/* Sets the coordinate of each value: of_interval[number of boundaries that are not greater], or
 * that number itself if of_interval is NULL. */
ls_status ls_curve_ranks(const ls_boundaries *boundaries, const ls_column *values,
                         const uint32_t *of_interval, uint32_t *coordinates);

/* Sets the coordinate of each value from the position of its word in the span, from 1 to 2^bits -
 * 2. A value outside of the span has the coordinate of the nearer end. */
ls_status ls_curve_stretch(const ls_span *span, ls_slice shared, const ls_column *values,
                           uint32_t *coordinates);

/* Does the same for doubles, using their numeric values instead of their bits; NaN has 2^bits - 1.
 * REQUIRES: low and high are finite, values->width is 8. */
void ls_curve_stretch_doubles(double low, double high, unsigned bits, const ls_column *values,
                              uint32_t *coordinates);

/* Number of bytes that ls_curve_rest writes for each value. */
#define LS_CURVE_REST 12

/* Writes a few bytes for each value of any size that approximate its order: the number of
 * boundaries that are not greater (4 bytes), then the 8 bytes after the common prefix of all values
 * between the nearest two boundaries. */
ls_status ls_curve_rest(const ls_boundaries *boundaries, const ls_column *values, uint8_t *out);

/* Returns the size of a position: big-endian, 8 bytes unless all coordinates have more bits. */
static inline size_t ls_curve_width(size_t columns, unsigned bits) {
    size_t bytes = (columns * bits + 7) / 8;
    return bytes < 8 ? 8 : bytes;
}

/* Writes the position of each row on the Z-order curve: the bits of its coordinates in turn, those
 * of column 0 first. The coordinates of a column are in a row of `length` of them, each < 2^bits.
 * REQUIRES: 1 <= columns <= LS_CURVE_COLUMNS, 1 <= bits <= LS_CURVE_BITS. */
void ls_curve_zorder(const uint32_t *coordinates, size_t columns, unsigned bits, size_t length,
                     uint8_t *positions);

/* Does the same on the Hilbert curve. */
void ls_curve_hilbert(const uint32_t *coordinates, size_t columns, unsigned bits, size_t length,
                      uint8_t *positions);

#endif
