#include "ls_text.h"

/* Returns 0 only if a byte can follow the three before it. Only bytes and no branches are used, so
 * that compilers vectorize it. */
static inline uint8_t misfit(uint8_t b, uint8_t p1, uint8_t p2, uint8_t p3) {
    uint8_t continues = (uint8_t)((b & 0xc0) == 0x80);
    uint8_t expected = (uint8_t)((p1 >= 0xc0) | (p2 >= 0xe0) | (p3 >= 0xf0));
    uint8_t never = (uint8_t)((b == 0xc0) | (b == 0xc1) | (b >= 0xf5));
    uint8_t overlong = (uint8_t)(((p1 == 0xe0) & (b < 0xa0)) | ((p1 == 0xf0) & (b < 0x90)));
    uint8_t beyond = (uint8_t)(((p1 == 0xed) & (b >= 0xa0)) | ((p1 == 0xf4) & (b >= 0x90)));
    return (uint8_t)((continues ^ expected) | never | overlong | beyond);
}

static uint8_t at(const uint8_t *data, size_t size, size_t i) {
    return i < size ? data[i] : 0; /* before the beginning, i is huge */
}

int ls_is_utf8(const uint8_t *data, size_t size) {
    enum { BLOCK = 1024 };
    size_t i = 0;
    uint8_t wrong = 0;
    for (; i < size && i < 3; i++)
        wrong |=
            misfit(data[i], at(data, size, i - 1), at(data, size, i - 2), at(data, size, i - 3));
    while (i < size) {
        size_t end = size - i < BLOCK ? size : i + BLOCK;
        uint8_t seen = (uint8_t)(data[i - 1] | data[i - 2] | data[i - 3]);
        for (size_t k = i; k < end; k++)
            seen |= data[k];
        if (seen >= 0x80)
            for (size_t k = i; k < end; k++)
                wrong |= misfit(data[k], data[k - 1], data[k - 2], data[k - 3]);
        i = end;
    }
    for (size_t k = 0; k < 3; k++) /* as if three zeros followed it */
        wrong |= misfit(0, at(data, size, size + k - 1), at(data, size, size + k - 2),
                        at(data, size, size + k - 3));
    return !wrong;
}

/* Returns whether every value, including those under nulls, is UTF-8; 0 if that is uncertain. */
static int all_are_utf8(const ls_column *texts) {
    ls_slice first, last, value;
    if (ls_column_get(texts, 0, &first) != LS_OK ||
        ls_column_get(texts, texts->length - 1, &last) != LS_OK || last.data < first.data)
        return 0;
    const uint8_t *end = last.data + last.size;
    if (!ls_is_utf8(first.data, (size_t)(end - first.data)))
        return 0;
    for (size_t i = 0; i < texts->length; i++)
        if (ls_column_get(texts, i, &value) != LS_OK || value.data < first.data ||
            value.data + value.size > end || (value.size && (*value.data & 0xc0) == 0x80))
            return 0;
    return 1;
}

ls_status ls_texts_check(const ls_column *texts, size_t *bad) {
    ls_slice value;
    if (texts->length == 0 || all_are_utf8(texts))
        return LS_OK;
    for (size_t i = 0; i < texts->length; i++) {
        if (!ls_column_is_valid(texts, i))
            continue;
        *bad = i;
        if (ls_column_get(texts, i, &value) != LS_OK)
            return LS_BAD_COLUMN;
        if (!ls_is_utf8(value.data, value.size))
            return LS_BAD_ROW;
    }
    return LS_OK;
}
