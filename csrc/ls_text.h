/* Check that texts are UTF-8, as the Unicode standard defines it: no overlong forms, no surrogates,
 * nothing beyond U+10FFFF. */
#ifndef LS_TEXT_H
#define LS_TEXT_H

#include "ls_column.h"

int ls_is_utf8(const uint8_t *data, size_t size);

/* LS_BAD_ROW: value *bad is the first that is not null and not UTF-8. LS_BAD_COLUMN: offsets
 * outside of the data. */
ls_status ls_texts_check(const ls_column *texts, size_t *bad);

#endif
