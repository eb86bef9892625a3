/* Rows: conversion between the values of a record and one byte string, one column of a batch at a
 * time.
 *
 * A row is a bitmap of nulls (one bit per column, least significant first, 1 for null; left out if
 * no column can be null), then a fixed section in which every column has a constant offset, then a
 * variable section. A column of fixed width is stored in the fixed section, as zero if null. A
 * variable column has in the fixed section the 32-bit offset of the end of its bytes in the
 * variable section; they start at the end of those of the variable column before it.
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

/* Rows being read. They may be anywhere: in one array, or in the blocks in which a lookup found
 * them. */
typedef struct {
    const ls_slice *rows; /* data NULL: the row is null */
    size_t length;
    const uint8_t *zeros; /* fixed_size zero bytes, used instead of a row that is null */
    size_t fixed_size;    /* bytes before the variable section */
    size_t bitmap_size;   /* bytes of the bitmap of nulls, 0: no column can be null */
    size_t last;          /* offset of the last variable column, or LS_NO_COLUMN */
} ls_row_source;

/* A column that is read from rows, piece by piece. */
typedef struct {
    size_t offset; /* in the row */
    size_t width;  /* bytes of every value; not for a variable column */
    int variable;
    size_t before;     /* offset of the variable column before this one, or LS_NO_COLUMN */
    size_t bit;        /* in the bitmap of nulls, or LS_NO_COLUMN: it is never null */
    uint8_t *data;     /* the values */
    size_t capacity;   /* bytes of data, for a variable column */
    int64_t *ends;     /* of the values of a variable column; ends[0] is 0 */
    uint8_t
        *validity; /* bitmap of the values that are there, if there are nulls in rows that are */
    size_t nulls;      /* number in rows that exist */
} ls_row_column;

/* Row and column (LS_NO_COLUMN: the row itself) of an error. */
typedef struct {
    size_t row;
    size_t column;
} ls_row_fault;

/* Adds the size of each value that is not null to sizes[i]. */
ls_status ls_rows_add_sizes(const ls_column *values, int64_t *sizes);

/* Converts sizes[1..length] to offsets in place; sizes[0] becomes 0. LS_TOO_LARGE: row *bad has a
 * variable section of more than 32 bits. */
ls_status ls_rows_offsets(int64_t *sizes, size_t length, size_t fixed_size, size_t *bad);

/* Zeroes the bytes before the variable section of every row. */
void ls_rows_clear(size_t fixed_size, ls_row_target *rows);

/* REQUIRES, for these three: rows are cleared, values->length is rows->length. */
void ls_rows_write_nulls(const ls_column *values, size_t bit, ls_row_target *rows);
void ls_rows_write_fixed(const ls_column *values, size_t offset, ls_row_target *rows);
/* ends[i] is the present end of the variable section of row i; it starts at 0 and is advanced. */
ls_status ls_rows_write_variable(const ls_column *values, size_t offset, size_t fixed_size,
                                 uint32_t *ends, ls_row_target *rows);

/* Finds the rows of a column. LS_BAD_COLUMN: row *bad is outside of the data. */
ls_status ls_rows_locate(const ls_column *column, ls_slice *rows, size_t *bad);

/* Reads a piece of rows, the first of which is number `start` (a multiple of 8), into columns, and
 * sets the bits of existing rows in the bitmap `present`; adds the number of missing ones to
 * *missing. LS_NO_SPACE: a variable column lacks room for ends[start + source->length] bytes:
 * nothing was read, call again. LS_BAD_ROW: *fault. */
ls_status ls_rows_read(const ls_row_source *source, size_t start, uint8_t *present, size_t *missing,
                       ls_row_column *columns, size_t count, ls_row_fault *fault);

/* Reads elements that are rows of one nullable column of fixed width: 1 + width bytes each, one after
 * the other. Returns the number of nulls; the bitmap `validity` is only written if there are some. */
size_t ls_elements_read(const uint8_t *elements, size_t count, size_t width, uint8_t *values,
                        uint8_t *validity);

/* Returns whether no byte has its high bit set: such bytes are UTF-8 without another check. */
int ls_is_ascii(const uint8_t *data, size_t size);
/* Writes count offsets, none above INT32_MAX, in 32 bits. */
void ls_narrow_offsets(const int64_t *offsets, size_t count, int32_t *out);

/* The common properties of all lists of a column. */
typedef struct {
    int counted;          /* a count is stored; otherwise every list has `count` elements */
    size_t count;
    size_t
        element_width; /* bytes of each element, at least 1; 0 if they vary and ends are stored */
} ls_list_shape;

/* The lists are `lists->length` ranges of elements, from offsets[i] to offsets[i + 1], relative to
 * offsets[0]; nulls take no bytes. The first call adds sizes, the second (with offsets made from
 * them) writes the bytes. */
ls_status ls_lists_add_sizes(const ls_column *lists, const int64_t *offsets,
                             const ls_column *elements, const ls_list_shape *shape, int64_t *sizes);
/* REQUIRES: ls_lists_add_sizes was LS_OK. */
ls_status ls_lists_write(const ls_column *lists, const int64_t *offsets, const ls_column *elements,
                         const ls_list_shape *shape, const int64_t *starts, uint8_t *out);

/* Checks every list against its bytes; sets the length + 1 element numbers in offsets, and *bytes
 * to the size of all elements. No result can exceed the size of the lists themselves, except that a
 * null list of fixed size has `count` empty elements. LS_BAD_ROW: *bad. */
ls_status ls_lists_measure(const ls_column *lists, const ls_list_shape *shape, int64_t *offsets,
                           size_t *bytes, size_t *bad);
/* REQUIRES: ls_lists_measure was LS_OK. element_offsets (elements + 1) only if elements vary;
 * validity (a zeroed bitmap of elements, false under a null list) only if lists are not counted. */
void ls_lists_read(const ls_column *lists, const ls_list_shape *shape, const int64_t *offsets,
                   uint8_t *elements, int64_t *element_offsets, uint8_t *validity);

#endif
