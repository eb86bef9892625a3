/* Tests of ls_text.h. */
#include "ls_text.h"
#include "made.h"
#include "tests.h"

/* UTF-8 by decoding it: the length of the first character, 0 if it is none. */
static size_t first_of(const uint8_t *text, size_t size) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = text[0];
    size_t length = code < 0x80 ? 1 : code < 0xc0 ? 0 : code < 0xe0 ? 2 : code < 0xf0 ? 3 : 4;
    if (length < 2)
        return length;
    if (code >= 0xf8 || length > size)
        return 0;
    code &= 0x7fu >> length;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0
                                                                                        : length;
}

static int by_characters(const uint8_t *text, size_t size) {
    for (size_t i = 0, length; i < size; i += length)
        if ((length = first_of(text + i, size - i)) == 0)
            return 0;
    return 1;
}

void test_utf8(void) {
    enum { SIZE = 3000 };
    static const uint8_t edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                    0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                    0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff};
    static const char *const words[] = {"a", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80"};
    size_t good = 0;
    for (size_t n = 0; n < 200000; n++) {
        size_t size = below(6);
        uint8_t *text = room(size);
        for (size_t i = 0; i < size; i++)
            text[i] = edges[below(sizeof edges)];
        CHECK(ls_is_utf8(text, size) == by_characters(text, size));
        good += (size_t)by_characters(text, size);
        free(text);
    }
    CHECK(good > 1000);
    for (size_t n = 0; n < 300; n++) { /* long ones, with a wrong byte or none */
        uint8_t text[SIZE + 4];
        size_t size = 0, most = below(SIZE);
        while (size < most) {
            const char *word = words[n % 3 ? below(4) : 0];
            memcpy(text + size, word, strlen(word));
            size += strlen(word);
        }
        CHECK(ls_is_utf8(text, size));
        if (size == 0)
            continue;
        text[below(size)] = edges[below(sizeof edges)];
        CHECK(ls_is_utf8(text, size) == by_characters(text, size));
    }
}
