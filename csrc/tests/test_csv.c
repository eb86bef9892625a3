/* Tests of ls_csv.h. */
#include "ls_csv.h"
#include "made.h"
#include "tests.h"

/* The ends of rows, byte by byte, for a separator and a quote, 0 if none: 1 where one ends after the byte; -1 and on where it is wrong.
 * Returns the bytes of the last field, if none is wrong. */
static size_t by_bytes(const uint8_t *text, size_t size, uint8_t separator, uint8_t quote,
                       signed char *ends) {
    int quoted = 0, closed = 0;
    size_t field = 0;
    uint8_t before = '\n';
    memset(ends, 0, size);
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = text[i];
        int is_end = byte == '\n' || byte == '\r';
        if (closed) {
            closed = 0;
            if (byte == quote) {
                quoted = 1;
                continue;
            }
            if (byte != separator && !is_end) {
                memset(ends + i, -1, size - i);
                return 0;
            }
        } else if (quoted) {
            closed = byte == quote;
            quoted = !closed;
            before = 'x';
            continue;
        } else if (quote != 0 && byte == quote &&
                   (before == separator || before == '\n' || before == '\r')) {
            quoted = 1;
            continue;
        }
        ends[i] = (signed char)is_end;
        before = byte;
        if (is_end || byte == separator)
            field = i + 1;
    }
    return size - field;
}

void test_csv(void) {
    enum { SIZE = 40 };
    static const uint8_t some[] = "\"\"\",\n\ra ';";
    static const struct {
        uint8_t separator, quote;
    } dialects[] = {{',', '"'}, {';', '\''}, {',', 0}, {'"', '\''}};
    for (size_t n = 0; n < 20000; n++) {
        uint8_t text[SIZE];
        signed char ends[SIZE];
        uint8_t separator = dialects[n % 4].separator, quote = dialects[n % 4].quote;
        ls_csv csv = {separator, quote, quote != 0, '\n', LS_CSV_PLAIN, 0};
        size_t size = below(SIZE), at = 0;
        for (size_t i = 0; i < size; i++)
            text[i] = some[below(sizeof some - 1)];
        size_t field = by_bytes(text, size, separator, quote, ends), wrong = 0;
        while (at < size && !wrong) {
            size_t step = 1 + below(size - at), end = 99, last = 0;
            uint8_t *block = room(step);
            memcpy(block, text + at, step);
            ls_status status = ls_csv_move(&csv, block, step, &end);
            free(block);
            for (size_t i = 0; i < step && !wrong; i++)
                if (ends[at + i] < 0)
                    wrong = 1;
                else if (ends[at + i])
                    last = i + 1;
            CHECK(end == last);
            CHECK(status == (wrong ? LS_BAD_ROW : LS_OK));
            at += step;
        }
        CHECK(wrong || csv.field == field);
    }
}
