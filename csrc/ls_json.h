/* How deep JSON nests and how long its texts are, seen as it comes in blocks and before a parser
 * does: parsers and what walks over their values take stack for each level. */
#ifndef LS_JSON_H
#define LS_JSON_H

#include "ls_bytes.h"

typedef struct {
    size_t most_depth; /* brackets that may be open at once, at least 1 */
    size_t most_text;  /* bytes that may be between two quotes, at least 64 */
    size_t depth;      /* the rest is 0 at the beginning: brackets that are open */
    size_t text;       /* bytes since the quote that opened the text at hand */
    uint64_t in_text;  /* all ones within a text */
    uint8_t escaped;   /* the next byte is after a backslash */
} ls_json;

/* Moves on over a block. LS_BAD_ROW: the bracket at *bad is one level too deep. LS_TOO_LARGE: the
 * text that goes on, or ends, at about *bad is too long. No block may come after either. */
ls_status ls_json_move(ls_json *json, const uint8_t *data, size_t size, size_t *bad);

/* Where the outermost value begins that is open at the end of a text, which begins outside of
 * values; the size of the text if none is. */
size_t ls_json_open_value(const uint8_t *data, size_t size);

#endif
