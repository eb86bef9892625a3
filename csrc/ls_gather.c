#include "ls_gather.h"

/* Rows may be anywhere in memory: each is prefetched this number of rows before it is used. */
#define FETCH_AHEAD 24

/* REQUIRES: starts[0] <= row < starts[count]. */
static inline size_t column_of(const uint64_t *starts, size_t count, uint64_t row) {
    size_t low = 0;
    while (count > 1) {
        size_t half = count / 2;
        low += row >= starts[low + half] ? half : 0;
        count -= half;
    }
    return low;
}

ls_status ls_gather_find(const ls_column *columns, const uint64_t *starts, size_t columns_count,
                         const int64_t *rows, size_t count, ls_slice *slices, uint64_t *bytes,
                         size_t *bad) {
    uint64_t end = starts[columns_count];
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        *bad = i;
        if (i + FETCH_AHEAD < count) {
            uint64_t ahead = (uint64_t)rows[i + FETCH_AHEAD];
            if (ahead < end) {
                size_t c = column_of(starts, columns_count, ahead);
                if (columns[c].offset_width != 0)
                    __builtin_prefetch((const uint8_t *)columns[c].offsets +
                                       (ahead - starts[c]) * (size_t)columns[c].offset_width);
            }
        }
        uint64_t row = (uint64_t)rows[i]; /* a negative row is a huge one */
        if (row >= end)
            return LS_BAD_COLUMN;
        size_t c = column_of(starts, columns_count, row);
        ls_status status = ls_column_get(&columns[c], row - starts[c], &slices[i]);
        if (status != LS_OK)
            return status;
        *bytes += slices[i].size;
    }
    return LS_OK;
}

void ls_gather_copy(const ls_slice *slices, size_t count, int offset_width, void *offsets,
                    uint8_t *data) {
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + FETCH_AHEAD < count) {
            const ls_slice *ahead = &slices[i + FETCH_AHEAD];
            for (size_t byte = 0; byte < ahead->size && byte < 256; byte += 64)
                __builtin_prefetch(ahead->data + byte);
        }
        if (offset_width == 4)
            ((int32_t *)offsets)[i] = (int32_t)at;
        else if (offset_width == 8)
            ((int64_t *)offsets)[i] = (int64_t)at;
        if (slices[i].size > 0)
            memcpy(data + at, slices[i].data, slices[i].size);
        at += slices[i].size;
    }
    if (offset_width == 4)
        ((int32_t *)offsets)[count] = (int32_t)at;
    else if (offset_width == 8)
        ((int64_t *)offsets)[count] = (int64_t)at;
}
