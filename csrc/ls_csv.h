/* The ends of rows of CSV in text that is passed in blocks.
 *
 * The dialect is that of Arrow's parser, with any separator and quote: a quote opens a field only
 * as its first byte; within quotes, two quotes stand for one; a row ends at \n, at \r, or at both,
 * outside of quotes. If Arrow would drop a quote without an error, this is an error: a closing quote
 * must be followed by a separator, the end of a row, or the end of the text. */
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
    uint8_t quote;
    int has_quotes; /* 0: no byte is a quote */
    uint8_t before; /* the last byte, outside of quotes; \n at the beginning */
    ls_csv_state state;
    size_t field; /* bytes of the unfinished field so far, including its quotes */
} ls_csv;

/* Processes a block. *end is the end of its last complete row, 0 if there is none.
 * LS_BAD_ROW: other text follows a closing quote, in the first row that ends after *end. */
ls_status ls_csv_move(ls_csv *csv, const uint8_t *data, size_t size, size_t *end);

#endif
