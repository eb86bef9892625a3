/* Rows: the values of a record as one byte string, and back, a column of a batch at a time.
 *
 * A row is a bitmap of nulls (one bit a column, least significant first, 1 for null; left out if no
 * column can be null), then a fixed section where every column has a constant offset, then a
 * variable section. A column of fixed width stands in the fixed section, zero if null. A variable
 * one has there the 32-bit offset in the variable section where its bytes end; they start where
 * those of the variable column before it end.
 *
 * A list is a 32-bit count, then (if its elements are variable) that many 32-bit ends, then the
 * elements, each a row. A list of fixed size has no count. */
#ifndef LS_ROWS_H
#define LS_ROWS_H

#include "ls_column.h"

#define LS_NO_COLUMN SIZE_MAX

/* Rows being written. */
typedef struct {
    uint8_t *data;
    size_t stride;          /* bytes of every row, or 0 */
    const int64_t *offsets; /* if stride is 0: length + 1 offsets into data */
    size_t length;
} ls_row_target;

/* Rows being read. */
typedef struct {
    ls_column rows;       /* of fixed width or with 64-bit offsets; may hold nulls */
    const uint8_t *zeros; /* fixed_size zero bytes, which stand for a row that is null */
    size_t fixed_size;    /* bytes before the variable section */
    size_t bitmap_size;   /* bytes of the bitmap of nulls, 0: no column can be null */
    size_t last;          /* offset of the last variable column, or LS_NO_COLUMN */
} ls_row_source;

/* Adds the size of each value that is not null to sizes[i]. */
ls_status ls_rows_add_sizes(const ls_column *values, int64_t *sizes);

/* Turns sizes[1..length] into offsets in place; sizes[0] becomes 0. LS_TOO_LARGE: row *bad has a
 * variable section beyond 32 bits. */
ls_status ls_rows_offsets(int64_t *sizes, size_t length, size_t fixed_size, size_t *bad);

/* Zeroes the bytes before the variable section of every row. */
void ls_rows_clear(size_t fixed_size, ls_row_target *rows);

/* REQUIRES, for these three: rows are cleared, values->length is rows->length. */
void ls_rows_write_nulls(const ls_column *values, size_t bit, ls_row_target *rows);
void ls_rows_write_fixed(const ls_column *values, size_t offset, ls_row_target *rows);
/* ends[i] is where the variable section of row i has got to; it starts at 0 and moves on. */
ls_status ls_rows_write_variable(const ls_column *values, size_t offset, size_t fixed_size,
                                 uint32_t *ends, ls_row_target *rows);

/* Gets in *nulls, bit by bit, which of the first 64 columns are null in some row that is not.
 * LS_BAD_ROW: row *bad is shorter than the fixed section or does not end with its last variable
 * column. LS_OK is REQUIRED by all that follow. */
ls_status ls_rows_check(const ls_row_source *source, uint64_t *nulls, size_t *bad);

/* Sets bit i of the zeroed bitmap if row i is there and the column (LS_NO_COLUMN: any) is not null;
 * returns how many are null. */
size_t ls_rows_read_validity(const ls_row_source *source, size_t bit, uint8_t *bitmap);

void ls_rows_read_fixed(const ls_row_source *source, size_t offset, size_t width, uint8_t *out);

/* Finds where each value of a variable column ends in the output (length + 1 offsets). `before` is
 * the offset of the variable column before it, or LS_NO_COLUMN. LS_BAD_ROW: *bad. */
ls_status ls_rows_measure(const ls_row_source *source, size_t before, size_t offset,
                          int64_t *offsets, size_t *bad);
/* REQUIRES: `offsets` are from ls_rows_measure. */
void ls_rows_read_variable(const ls_row_source *source, size_t before, const int64_t *offsets,
                           uint8_t *out);

/* Whether no byte has its high bit set: UTF-8 that needs no other look. */
int ls_is_ascii(const uint8_t *data, size_t size);
/* Writes count offsets, none beyond INT32_MAX, in 32 bits. */
void ls_narrow_offsets(const int64_t *offsets, size_t count, int32_t *out);

/* What all lists of a column have in common. */
typedef struct {
    int counted;          /* a count is stored; otherwise every list has `count` elements */
    size_t count;
    size_t
        element_width; /* bytes of each element, at least 1; 0 if they vary and ends are stored */
} ls_list_shape;

/* The lists are `lists->length` ranges of elements, from offsets[i] to offsets[i + 1], counted from
 * offsets[0]; nulls take no bytes. First sizes, then (offsets made of them) the bytes. */
ls_status ls_lists_add_sizes(const ls_column *lists, const int64_t *offsets,
                             const ls_column *elements, const ls_list_shape *shape, int64_t *sizes);
/* REQUIRES: ls_lists_add_sizes was LS_OK. */
ls_status ls_lists_write(const ls_column *lists, const int64_t *offsets, const ls_column *elements,
                         const ls_list_shape *shape, const int64_t *starts, uint8_t *out);

/* Checks every list against its bytes; offsets gets the length + 1 element numbers, and *bytes the
 * size of all elements. Nothing here can exceed the size of the lists themselves, except that a
 * null list of fixed size has `count` empty elements. LS_BAD_ROW: *bad. */
ls_status ls_lists_measure(const ls_column *lists, const ls_list_shape *shape, int64_t *offsets,
                           size_t *bytes, size_t *bad);
/* REQUIRES: ls_lists_measure was LS_OK. element_offsets (elements + 1) only if elements vary;
 * validity (a zeroed bitmap of elements, false under a null list) only if lists are not counted. */
void ls_lists_read(const ls_column *lists, const ls_list_shape *shape, const int64_t *offsets,
                   uint8_t *elements, int64_t *element_offsets, uint8_t *validity);

#endif
