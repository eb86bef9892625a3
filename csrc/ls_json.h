/* The depth of JSON and the length of its texts, checked in blocks before a parser reads them:
 * parsers, and code that visits their values, need stack for each level. */
#ifndef LS_JSON_H
#define LS_JSON_H

#include "ls_bytes.h"

typedef struct {
    size_t most_depth; /* maximum number of open brackets, at least 1 */
    size_t most_text;  /* maximum number of bytes between two quotes, at least 64 */
    size_t depth;      /* open brackets; like the following members, 0 at the beginning */
    size_t text;       /* bytes since the quote that opened the present text */
    uint64_t in_text;  /* all ones inside of a text */
    uint8_t escaped;   /* the next byte is after a backslash */
} ls_json;

/* Processes a block. LS_BAD_ROW: the bracket at *bad is one level too deep. LS_TOO_LARGE: the text
 * that continues, or ends, at about *bad is too long. It must not be called after either error. */
ls_status ls_json_move(ls_json *json, const uint8_t *data, size_t size, size_t *bad);

/* Returns the offset of the outermost value that is open at the end of a text, which begins outside
 * of values; the size of the text if no value is open. */
size_t ls_json_open_value(const uint8_t *data, size_t size);

#endif
