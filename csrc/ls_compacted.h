/* Rows as Apache Paimon's RowCompactedSerializer writes them, to columns and back.
 *
 * Columns are a tree of cells, each followed by those below it; the first is the row itself. Reading
 * goes twice over the rows: once it counts values and bytes, then, when the caller has made room for
 * so many, it copies them. docs/format.md draws the bytes. */
#ifndef LS_COMPACTED_H
#define LS_COMPACTED_H

#include "ls_column.h"

typedef enum {
    LS_CELL_BOOL,
    LS_CELL_NUMBER, /* little-endian, `width` bytes, here as there */
    LS_CELL_FLOAT,  /* IEEE bits of 4 or 8 bytes */
    LS_CELL_TIME,   /* int32 of milliseconds of the day */
    LS_CELL_BYTES,
    LS_CELL_TEXT,           /* bytes that are UTF-8 */
    LS_CELL_DECIMAL,        /* up to 18 digits: int64 there, 16 bytes here */
    LS_CELL_BIG_DECIMAL,    /* 16 bytes here, big-endian and as short as can be there */
    LS_CELL_TIMESTAMP,      /* int64 of `unit` nanoseconds here */
    LS_CELL_WIDE_TIMESTAMP, /* above two numbers: int64 milliseconds, int32 nanoseconds */
    LS_CELL_VARIANT,        /* above two cells of bytes: value, metadata */
    LS_CELL_ROW,
    LS_CELL_KIND,  /* int8: the row kind of the row that it is below; not a field of it */
    LS_CELL_ARRAY, /* above its elements */
    LS_CELL_MAP,   /* above keys and values */
} ls_cell_type;

typedef struct {
    int type;          /* ls_cell_type */
    uint32_t width;    /* bytes of a value here, where all have as many */
    uint32_t size;     /* cells of the tree from this one on: itself, and all below */
    uint32_t children; /* cells right below it */
    int required;      /* no value is null, but where all of its row is */
    uint32_t fields;   /* of a row: those that are not its kind */
    int64_t unit;      /* of a timestamp, in nanoseconds: 1000 or 1 */
    uint64_t limit[2]; /* of a decimal, low and high half: what it has to be below, without sign */
    /* Buffers of an Arrow array. Read into: zeroed; NULL while values are counted. */
    uint8_t *validity; /* written from: NULL if there are no nulls */
    int32_t *offsets;
    uint8_t *data;
    size_t data_size;
    size_t offset; /* of the first value, for writing */
    size_t length; /* values; while reading, those so far */
    size_t bytes; /* of variable values, so far */
    size_t nulls;
    size_t room; /* for values, while they are copied */
} ls_cell;

/* Bytes of one width behind each row: 8 or 1 a value. */
typedef struct {
    uint8_t *data;
    size_t width;
} ls_tail;

typedef struct {
    size_t row;
    size_t column; /* among the children of the first cell */
} ls_compacted_fault;

/* Reads rows that fill their values up to the tails. A null is a row of nulls. LS_BAD_ROW: the bytes
 * are no such row. LS_TOO_LARGE: a timestamp does not fit, or a column is beyond 2^31 - 1 bytes or
 * values. `copy`: cells have buffers for what was counted, and nulls are set; else length and bytes are. */
ls_status ls_compacted_read(ls_cell *cells, const ls_column *rows, const ls_tail *tails,
                            size_t tail_count, int copy, ls_compacted_fault *fault);

/* Sets ends[1..count] to where rows end, ends[0] to 0. LS_BAD_COLUMN: a value is not one of its
 * type. LS_NULL: one is required. LS_TOO_LARGE: a row is beyond 2^31 - 1 bytes. */
ls_status ls_compacted_sizes(const ls_cell *cells, size_t count, size_t tails, int64_t *ends,
                             ls_compacted_fault *fault);
/* REQUIRES: ls_compacted_sizes was LS_OK, out has ends[count] bytes. */
void ls_compacted_write(const ls_cell *cells, size_t count, const ls_tail *tails, size_t tail_count,
                        const int64_t *ends, uint8_t *out);

/* Varints of 64 bits, one a value and nothing else; 0 where it is null. LS_BAD_ROW: value *bad. */
ls_status ls_positions_read(const ls_column *values, int64_t *out, size_t *bad);

#endif
