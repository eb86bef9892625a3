/* Tests of ls_json.h: as it is compiled here, and as it is where no masks come from vectors. */
#include "ls_json.h"
#include "made.h"
#include "tests.h"

#undef __SSE2__
#define ls_json_move portable_move
#define ls_json_open_value portable_open_value
#include "../ls_json.c"
#undef ls_json_move
#undef ls_json_open_value

typedef ls_status (*mover)(ls_json *, const uint8_t *, size_t, size_t *);

enum { SIZE = 400, DEPTH = 4, TEXT = 70 };

/* Texts that close no more than they open: brackets, texts of any length, backslashes in these. */
static size_t make_json(uint8_t *text) {
    static const uint8_t outside[] = "[{]},: 1\n", inside[] = "[{]}a\\\\\\\"";
    size_t size = 1 + below(SIZE - 1), depth = 0, at = 0;
    int in_text = 0;
    while (at < size) {
        uint8_t byte = '"';
        if (in_text && below(30) > 0)
            byte = inside[below(sizeof inside - 2)]; /* without the quote */
        else if (!in_text && below(8) > 0)
            byte = below(2) ? 'n' : outside[below(sizeof outside - 1)];
        if (!in_text && (byte == ']' || byte == '}') && depth == 0)
            byte = '[';
        if (!in_text && (byte == '[' || byte == '{'))
            depth++;
        if (!in_text && (byte == ']' || byte == '}'))
            depth--;
        if (byte == '"')
            in_text = !in_text;
        text[at++] = byte;
        if (in_text && byte == '\\' && at < size)
            text[at++] = below(2) ? '"' : '\\';
    }
    return size;
}

/* What is the first fault, byte by byte, and where. */
static ls_status by_bytes(const uint8_t *text, size_t size, size_t *bad) {
    size_t depth = 0, length = 0;
    int in_text = 0;
    for (size_t i = 0; i < size; i++) {
        *bad = i;
        if (in_text && text[i] == '"') {
            in_text = 0;
        } else if (in_text) {
            int two = text[i] == '\\' && i + 1 < size;
            i += (size_t)two;
            length += 1 + (size_t)two;
            if (length > TEXT)
                return LS_TOO_LARGE;
        } else if (text[i] == '"') {
            in_text = 1;
            length = 0;
        } else if (text[i] == '[' || text[i] == '{') {
            if (++depth > DEPTH)
                return LS_BAD_ROW;
        } else if (text[i] == ']' || text[i] == '}') {
            depth--;
        }
    }
    return LS_OK;
}

/* Where the last bracket opens of those that are open and in no other. */
static size_t open_value(const uint8_t *text, size_t size) {
    size_t depth = 0, start = size;
    int in_text = 0, escaped = 0;
    for (size_t i = 0; i < size; i++) {
        int quote = text[i] == '"' && !escaped;
        escaped = in_text && text[i] == '\\' && !escaped;
        if (quote)
            in_text = !in_text;
        else if (!in_text && (text[i] == '[' || text[i] == '{') && depth++ == 0)
            start = i;
        else if (!in_text && (text[i] == ']' || text[i] == '}') && --depth == 0)
            start = size;
    }
    return start;
}

static void check_blocks(mover moved, const uint8_t *text, size_t size) {
    size_t wrong = 0, at = 0, bad = 0;
    ls_status status = LS_OK, expected = by_bytes(text, size, &wrong);
    ls_json json = {DEPTH, TEXT, 0, 0, 0, 0};
    while (at < size && status == LS_OK) {
        size_t step = 1 + below(size - at);
        uint8_t *block = copy(text + at, step);
        status = moved(&json, block, step, &bad);
        free(block);
        CHECK(status == LS_OK || bad < step);
        bad += at;
        at += step;
    }
    CHECK(status == expected);
    if (status == LS_BAD_ROW)
        CHECK(bad == wrong);
}

void test_json(void) {
    for (size_t n = 0; n < 10000; n++) {
        uint8_t text[SIZE + 1];
        size_t size = make_json(text);
        check_blocks(ls_json_move, text, size);
        check_blocks(portable_move, text, size);
        uint8_t *whole = copy(text, size);
        CHECK(ls_json_open_value(whole, size) == open_value(text, size));
        free(whole);
    }
}
