#include "ls_csv.h"

#include <string.h>

static int ends_row(uint8_t byte) {
    return byte == '\n' || byte == '\r';
}

/* Returns the next quote that opens a field, or `end`. */
static const uint8_t *find_opening(const ls_csv *csv, const uint8_t *at, const uint8_t *end) {
    const uint8_t *from = at;
    while (csv->has_quotes && from < end) {
        const uint8_t *quote = memchr(from, csv->quote, (size_t)(end - from));
        if (quote == NULL)
            break;
        uint8_t before = quote == at ? csv->before : quote[-1];
        if (before == csv->separator || ends_row(before))
            return quote;
        from = quote + 1;
    }
    return end;
}

/* Returns the beginning of the last field of a piece without opening quotes; NULL: before the
 * piece. */
static const uint8_t *last_field(const ls_csv *csv, const uint8_t *at, const uint8_t *stop) {
    for (const uint8_t *last = stop; last > at; last--)
        if (last[-1] == csv->separator || ends_row(last[-1]))
            return last;
    return NULL;
}

ls_status ls_csv_move(ls_csv *csv, const uint8_t *data, size_t size, size_t *end) {
    const uint8_t *at = data, *stop = data + size, *field = NULL;
    *end = 0;
    while (at < stop) {
        if (csv->state == LS_CSV_QUOTED) {
            const uint8_t *quote = memchr(at, csv->quote, (size_t)(stop - at));
            if (quote == NULL)
                break;
            csv->state = LS_CSV_CLOSED;
            at = quote + 1;
        } else if (csv->state == LS_CSV_CLOSED) {
            if (*at == csv->quote) {
                csv->state = LS_CSV_QUOTED;
                at++;
            } else if (*at == csv->separator || ends_row(*at)) {
                csv->state = LS_CSV_PLAIN;
                csv->before = csv->quote;
            } else {
                return LS_BAD_ROW;
            }
        } else {
            const uint8_t *quote = find_opening(csv, at, stop);
            for (const uint8_t *last = quote; last > at; last--)
                if (ends_row(last[-1])) {
                    *end = (size_t)(last - data);
                    break;
                }
            if (quote > at)
                csv->before = quote[-1];
            if (quote < stop) {
                csv->state = LS_CSV_QUOTED;
                field = quote;
                at = quote + 1;
            } else {
                const uint8_t *last = last_field(csv, at, stop);
                field = last == NULL ? field : last;
                at = stop;
            }
        }
    }
    csv->field = field == NULL ? csv->field + size : (size_t)(stop - field);
    return LS_OK;
}
