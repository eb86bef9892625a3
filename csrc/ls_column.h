/* An Arrow column of byte strings, seen through its buffers: binary (32-bit offsets), large_binary
 * (64-bit offsets) or fixed_size_binary. The offset of a sliced array is already applied to
 * `offsets` (or, for fixed width, to `data`); `validity` keeps its own bit offset. */
#ifndef LS_COLUMN_H
#define LS_COLUMN_H

#include "ls_bytes.h"

typedef struct {
    const uint8_t *data;
    size_t data_size;
    const void *offsets;  /* length + 1 offsets into data; NULL for fixed width */
    int offset_width;     /* 4 or 8; 0 for fixed width */
    size_t width;         /* of each value, for fixed width */
    size_t length;        /* number of values */
    const uint8_t *validity; /* Arrow bitmap, or NULL: no nulls */
    size_t validity_offset;
    const uint64_t *hashes; /* ls_hash of each value, or NULL: unknown */
} ls_column;

static inline int ls_bitmap_get(const uint8_t *bitmap, size_t i) {
    return bitmap == NULL || (bitmap[i >> 3] >> (i & 7) & 1);
}

static inline int ls_column_is_valid(const ls_column *column, size_t i) {
    return ls_bitmap_get(column->validity, column->validity_offset + i);
}

/* REQUIRES: i < column->length. The value of a null is any value stored for it. */
static inline ls_status ls_column_get(const ls_column *column, size_t i, ls_slice *value) {
    uint64_t start, end;
    if (column->offset_width == 0) {
        value->data = column->data + i * column->width;
        value->size = column->width;
        return LS_OK;
    }
    if (column->offset_width == 4) {
        const int32_t *offsets = (const int32_t *)column->offsets;
        start = (uint64_t)(int64_t)offsets[i];
        end = (uint64_t)(int64_t)offsets[i + 1];
    } else {
        const int64_t *offsets = (const int64_t *)column->offsets;
        start = (uint64_t)offsets[i];
        end = (uint64_t)offsets[i + 1];
    }
    if (start > end || end > column->data_size) /* a negative offset is a huge unsigned one */
        return LS_BAD_COLUMN;
    value->data = column->data + start;
    value->size = (size_t)(end - start);
    return LS_OK;
}

#endif
