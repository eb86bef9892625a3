/* Conversion between columns and rows in the format of Apache Paimon's RowCompactedSerializer.
 *
 * Columns are a tree of cells, each followed by those below it; the first is the row itself. Reading
 * goes twice over the rows: once it counts values and bytes, then, when the caller has made room for
 * so many, it copies them. docs/reference/format.md draws the bytes. */
#ifndef LS_COMPACTED_H
#define LS_COMPACTED_H

#include "ls_column.h"

typedef enum {
    LS_CELL_BOOL,
    LS_CELL_NUMBER, /* little-endian, `width` bytes, in Arrow and in rows */
    LS_CELL_FLOAT,  /* IEEE bits of 4 or 8 bytes */
    LS_CELL_TIME,   /* int32 of milliseconds of the day */
    LS_CELL_BYTES,
    LS_CELL_TEXT,           /* bytes that are UTF-8 */
    LS_CELL_DECIMAL,        /* up to 18 digits: int64 in rows, 16 bytes in Arrow */
    LS_CELL_BIG_DECIMAL,    /* 16 bytes in Arrow, big-endian and minimal in rows */
    LS_CELL_TIMESTAMP,      /* int64 of `unit` nanoseconds in Arrow */
    LS_CELL_WIDE_TIMESTAMP, /* parent of two numbers: int64 milliseconds, int32 nanoseconds */
    LS_CELL_VARIANT,        /* parent of two cells of bytes: value, metadata */
    LS_CELL_ROW,
    LS_CELL_KIND,  /* int8: the row kind of its parent row; not a field of it */
    LS_CELL_ARRAY, /* parent of its elements */
    LS_CELL_MAP,   /* parent of keys and values */
} ls_cell_type;

typedef struct {
    int type;          /* ls_cell_type */
    uint32_t width;    /* bytes of a value in Arrow, if the width is fixed */
    uint32_t size;     /* cells of the tree from this one on: itself, and all descendants */
    uint32_t children; /* number of direct children */
    int required;      /* no value is null, except if its whole row is */
    uint32_t fields;   /* of a row: number of fields without its kind */
    int64_t unit;      /* of a timestamp, in nanoseconds: 1000 or 1 */
    uint64_t limit[2]; /* of a decimal, low and high half: exclusive limit without sign */
    /* Buffers of an Arrow array. For reading: zeroed; NULL while values are counted. */
    uint8_t *validity; /* for writing: NULL if there are no nulls */
    int32_t *offsets;
    uint8_t *data;
    size_t data_size;
    size_t offset; /* of the first value, for writing */
    size_t length; /* number of values; while reading, so far */
    size_t bytes; /* of variable values, so far */
    size_t nulls;
    size_t room; /* for values, while they are copied */
} ls_cell;

/* Values of a fixed width after each row: 8 bytes or 1 byte each. */
typedef struct {
    uint8_t *data;
    size_t width;
} ls_tail;

typedef struct {
    size_t row;
    size_t column; /* index among the children of the first cell */
} ls_compacted_fault;

/* Reads rows whose fields extend to the tails. A null is a row of nulls. LS_BAD_ROW: the bytes are
 * not such a row. LS_TOO_LARGE: a timestamp does not fit, or a column exceeds 2^31 - 1 bytes or
 * values. `copy`: cells have buffers for the counted values, and nulls are set; otherwise length
 * and bytes are set. */
ls_status ls_compacted_read(ls_cell *cells, const ls_column *rows, const ls_tail *tails,
                            size_t tail_count, int copy, ls_compacted_fault *fault);

/* Sets ends[1..count] to the ends of the rows, ends[0] to 0. LS_BAD_COLUMN: a value is invalid for
 * its type. LS_NULL: a required value is null. LS_TOO_LARGE: a row exceeds 2^31 - 1 bytes. */
ls_status ls_compacted_sizes(const ls_cell *cells, size_t count, size_t tails, int64_t *ends,
                             ls_compacted_fault *fault);
/* REQUIRES: ls_compacted_sizes was LS_OK, out has ends[count] bytes. */
void ls_compacted_write(const ls_cell *cells, size_t count, const ls_tail *tails, size_t tail_count,
                        const int64_t *ends, uint8_t *out);

/* Reads values that consist of one 64-bit varint each; 0 for a null. LS_BAD_ROW: value *bad. */
ls_status ls_positions_read(const ls_column *values, int64_t *out, size_t *bad);

#endif
