/* Where rows of CSV end, seen as its text comes in blocks.
 *
 * The dialect is that of Arrow's parser: a quote opens a field only as its first byte; within
 * quotes, two quotes are one; a row ends at \n, at \r, or at both, outside of quotes. Where Arrow
 * takes a quote out of a field without a word, this is an error: what follows a closing quote is a
 * separator, the end of a row, or the end of the text. */
#ifndef LS_CSV_H
#define LS_CSV_H

#include "ls_bytes.h"

typedef enum {
    LS_CSV_PLAIN,  /* outside of quotes */
    LS_CSV_QUOTED, /* within quotes */
    LS_CSV_CLOSED, /* after a quote that closes a field, or is the first of two */
} ls_csv_state;

typedef struct {
    uint8_t separator;
    uint8_t before; /* the last byte, outside of quotes; \n at the beginning */
    ls_csv_state state;
    size_t field; /* bytes that there are of the field at hand, with its quotes */
} ls_csv;

/* Moves on over a block. *end is where its last complete row ends, 0 if none does.
 * LS_BAD_ROW: something else follows a closing quote, in the first row that ends after *end. */
ls_status ls_csv_move(ls_csv *csv, const uint8_t *data, size_t size, size_t *end);

#endif
