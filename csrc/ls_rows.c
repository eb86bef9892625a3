#include "ls_rows.h"

/* The loops over fixed widths are written once and inlined where the width is a constant. */
#define LS_INLINE static inline __attribute__((always_inline))

#define LS_DISPATCH_WIDTH(width, LOOP)                                                             \
    switch (width) {                                                                               \
    case 0:                                                                                        \
        return;                                                                                    \
    case 1:                                                                                        \
        LOOP(1);                                                                                   \
        return;                                                                                    \
    case 2:                                                                                        \
        LOOP(2);                                                                                   \
        return;                                                                                    \
    case 4:                                                                                        \
        LOOP(4);                                                                                   \
        return;                                                                                    \
    case 8:                                                                                        \
        LOOP(8);                                                                                   \
        return;                                                                                    \
    case 16:                                                                                       \
        LOOP(16);                                                                                  \
        return;                                                                                    \
    case 32:                                                                                       \
        LOOP(32);                                                                                  \
        return;                                                                                    \
    default:                                                                                       \
        LOOP(width);                                                                               \
        return;                                                                                    \
    }

LS_INLINE uint8_t *target_row(const ls_row_target *rows, size_t i) {
    return rows->data + (rows->stride != 0 ? i * rows->stride : (size_t)rows->offsets[i]);
}

ls_status ls_rows_add_sizes(const ls_column *values, int64_t *sizes) {
    for (size_t i = 0; i < values->length; i++) {
        ls_slice value;
        if (!ls_column_is_valid(values, i))
            continue;
        ls_status status = ls_column_get(values, i, &value);
        if (status != LS_OK)
            return status;
        sizes[i] += (int64_t)value.size;
    }
    return LS_OK;
}

ls_status ls_rows_offsets(int64_t *sizes, size_t length, size_t fixed_size, size_t *bad) {
    sizes[0] = 0;
    for (size_t i = 0; i < length; i++) {
        if ((uint64_t)sizes[i + 1] - fixed_size > UINT32_MAX) {
            *bad = i;
            return LS_TOO_LARGE;
        }
        sizes[i + 1] += sizes[i];
    }
    return LS_OK;
}

void ls_rows_clear(size_t fixed_size, ls_row_target *rows) {
    if (rows->length == 0 || fixed_size == 0)
        return;
    if (rows->stride != 0) {
        memset(rows->data, 0, rows->length * rows->stride);
        return;
    }
    for (size_t i = 0; i < rows->length; i++)
        memset(target_row(rows, i), 0, fixed_size);
}

void ls_rows_write_nulls(const ls_column *values, size_t bit, ls_row_target *rows) {
    if (values->validity == NULL)
        return;
    size_t byte = bit >> 3;
    uint8_t mask = (uint8_t)(1u << (bit & 7));
    for (size_t i = 0; i < values->length; i++)
        target_row(rows, i)[byte] |= ls_column_is_valid(values, i) ? 0 : mask;
}

LS_INLINE void write_fixed(const ls_column *values, size_t offset, ls_row_target *rows,
                           size_t width) {
    if (values->validity == NULL) {
        for (size_t i = 0; i < values->length; i++)
            memcpy(target_row(rows, i) + offset, values->data + i * width, width);
        return;
    }
    for (size_t i = 0; i < values->length; i++)
        if (ls_column_is_valid(values, i))
            memcpy(target_row(rows, i) + offset, values->data + i * width, width);
}

void ls_rows_write_fixed(const ls_column *values, size_t offset, ls_row_target *rows) {
    size_t width = values->width;
#define LS_WRITE(constant) write_fixed(values, offset, rows, constant)
    LS_DISPATCH_WIDTH(width, LS_WRITE)
#undef LS_WRITE
}

ls_status ls_rows_write_variable(const ls_column *values, size_t offset, size_t fixed_size,
                                 uint32_t *ends, ls_row_target *rows) {
    for (size_t i = 0; i < values->length; i++) {
        uint8_t *row = target_row(rows, i);
        if (ls_column_is_valid(values, i)) {
            ls_slice value;
            ls_status status = ls_column_get(values, i, &value);
            if (status != LS_OK)
                return status;
            if (value.size != 0)
                memcpy(row + fixed_size + ends[i], value.data, value.size);
            ends[i] += (uint32_t)value.size;
        }
        ls_store32(row + offset, ends[i]);
    }
    return LS_OK;
}

ls_status ls_rows_locate(const ls_column *column, ls_slice *rows, size_t *bad) {
    for (size_t i = 0; i < column->length; i++) {
        rows[i].data = NULL;
        rows[i].size = 0;
        if (!ls_column_is_valid(column, i))
            continue;
        ls_status status = ls_column_get(column, i, &rows[i]);
        if (status != LS_OK) {
            *bad = i;
            return status;
        }
    }
    return LS_OK;
}

/* Checks that each row has the fixed section and ends with its last variable column; finds which of
 * the first 64 columns are null in some row, bit by bit, and the number of rows that are null
 * themselves. */
LS_INLINE ls_status check_rows(const ls_row_source *source, size_t bitmap_size, uint64_t *nulls,
                               size_t *missing, size_t *bad) {
    uint8_t seen[8] = {0};
    size_t gone = 0;
    for (size_t i = 0; i < source->length; i++) {
        ls_slice row = source->rows[i];
        if (row.data == NULL) {
            gone++;
            continue;
        }
        *bad = i;
        if (row.size < source->fixed_size)
            return LS_BAD_ROW;
        size_t end = source->last == LS_NO_COLUMN ? 0 : ls_load32(row.data + source->last);
        if (end != row.size - source->fixed_size)
            return LS_BAD_ROW;
        for (size_t byte = 0; byte < bitmap_size; byte++)
            seen[byte] |= row.data[byte];
    }
    *nulls = ls_load64(seen);
    *missing = gone;
    return LS_OK;
}

static ls_status check(const ls_row_source *source, uint64_t *nulls, size_t *missing, size_t *bad) {
    switch (source->bitmap_size) {
    case 0:
        return check_rows(source, 0, nulls, missing, bad);
    case 1:
        return check_rows(source, 1, nulls, missing, bad);
    default:
        return check_rows(source, source->bitmap_size < 8 ? source->bitmap_size : 8, nulls, missing,
                          bad);
    }
}

LS_INLINE const uint8_t *source_row(const ls_row_source *source, size_t i) {
    const uint8_t *row = source->rows[i].data;
    return row != NULL ? row : source->zeros;
}

/* Writes a bitmap of the rows that exist and (unless `bit` is LS_NO_COLUMN) have no null in a
 * column; returns the number of other rows. */
LS_INLINE size_t write_validity(const ls_row_source *source, size_t bit, uint8_t *bitmap) {
    size_t byte = bit == LS_NO_COLUMN ? 0 : bit >> 3, nulls = 0;
    unsigned shift = bit & 7;
    for (size_t i = 0; i < source->length; i += 8) {
        size_t end = source->length - i < 8 ? source->length - i : 8;
        unsigned bits = 0;
        for (size_t k = 0; k < end; k++) {
            const uint8_t *row = source->rows[i + k].data;
            unsigned valid = row != NULL;
            if (valid && bit != LS_NO_COLUMN)
                valid = ~(row[byte] >> shift) & 1u;
            bits |= valid << k;
            nulls += !valid;
        }
        bitmap[i >> 3] = (uint8_t)bits;
    }
    return nulls;
}

static void write_present(const ls_row_source *source, size_t missing, uint8_t *bitmap) {
    if (missing != 0) {
        (void)write_validity(source, LS_NO_COLUMN, bitmap);
        return;
    }
    memset(bitmap, 0xff, source->length / 8);
    if (source->length % 8 != 0)
        bitmap[source->length / 8] = (uint8_t)((1u << source->length % 8) - 1);
}

/* Writes the validity of a column in a piece: its own if it is null in existing rows, otherwise
 * that of the rows, which is only written if this or an earlier piece has its own. */
static void read_nulls(const ls_row_source *source, size_t start, const uint8_t *present,
                       size_t missing, uint64_t nulls, ls_row_column *column) {
    int own = column->bit != LS_NO_COLUMN && (column->bit >= 64 || nulls >> column->bit & 1);
    if (own) {
        if (column->nulls == 0)
            memcpy(column->validity, present, start / 8);
        column->nulls +=
            write_validity(source, column->bit, column->validity + start / 8) - missing;
    } else if (column->nulls != 0) {
        memcpy(column->validity + start / 8, present + start / 8, (source->length + 7) / 8);
    }
}

LS_INLINE void read_fixed(const ls_row_source *source, size_t offset, uint8_t *out, size_t width) {
    for (size_t i = 0; i < source->length; i++)
        memcpy(out + i * width, source_row(source, i) + offset, width);
}

static void read_values(const ls_row_source *source, size_t offset, size_t width, uint8_t *out){
#define LS_READ(constant) read_fixed(source, offset, out, constant)
    LS_DISPATCH_WIDTH(width, LS_READ)
#undef LS_READ
}

LS_INLINE size_t start_of(const uint8_t *row, size_t before) {
    return before == LS_NO_COLUMN ? 0 : ls_load32(row + before);
}

static ls_status measure(const ls_row_source *source, const ls_row_column *column, int64_t *ends,
                         size_t *bad) {
    for (size_t i = 0; i < source->length; i++) {
        const uint8_t *row = source_row(source, i);
        size_t start = start_of(row, column->before), end = ls_load32(row + column->offset);
        /* `check` has shown that the last column ends with the row. */
        size_t limit = ls_load32(row + source->last);
        if (start > end || end > limit) {
            *bad = i;
            return LS_BAD_ROW;
        }
        ends[i + 1] = ends[i] + (int64_t)(end - start);
    }
    return LS_OK;
}

static void read_variable(const ls_row_source *source, const ls_row_column *column,
                          const int64_t *ends) {
    for (size_t i = 0; i < source->length; i++) {
        size_t size = (size_t)(ends[i + 1] - ends[i]);
        if (size == 0)
            continue;
        const uint8_t *row = source_row(source, i);
        memcpy(column->data + ends[i], row + source->fixed_size + start_of(row, column->before),
               size);
    }
}

ls_status ls_rows_read(const ls_row_source *source, size_t start, uint8_t *present, size_t *missing,
                       ls_row_column *columns, size_t count, ls_row_fault *fault) {
    uint64_t nulls;
    size_t gone;
    int full = 0;
    fault->column = LS_NO_COLUMN;
    ls_status status = check(source, &nulls, &gone, &fault->row);
    for (size_t c = 0; c < count && status == LS_OK; c++) {
        if (!columns[c].variable)
            continue;
        fault->column = c;
        status = measure(source, &columns[c], columns[c].ends + start, &fault->row);
        full |= status == LS_OK &&
                (uint64_t)columns[c].ends[start + source->length] > columns[c].capacity;
    }
    if (status != LS_OK) {
        fault->row += start;
        return status;
    }
    if (full)
        return LS_NO_SPACE;
    write_present(source, gone, present + start / 8);
    *missing += gone;
    for (size_t c = 0; c < count; c++) {
        ls_row_column *column = &columns[c];
        read_nulls(source, start, present, gone, nulls, column);
        if (column->variable)
            read_variable(source, column, column->ends + start);
        else
            read_values(source, column->offset, column->width,
                        column->data + start * column->width);
    }
    return LS_OK;
}

/* Copies the values, and finds whether one of them may be null: bit 0 of *seen. */
LS_INLINE void copy_elements(const uint8_t *elements, size_t count, uint8_t *values, uint8_t *seen,
                             size_t width) {
    uint8_t nulls = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *element = elements + i * (1 + width);
        memcpy(values + i * width, element + 1, width);
        nulls |= element[0];
    }
    *seen = nulls;
}

static void read_element_values(const uint8_t *elements, size_t count, size_t width,
                                uint8_t *values, uint8_t *seen){
#define LS_COPY(constant) copy_elements(elements, count, values, seen, constant)
    LS_DISPATCH_WIDTH(width, LS_COPY)
#undef LS_COPY
}

size_t ls_elements_read(const uint8_t *elements, size_t count, size_t width, uint8_t *values,
                        uint8_t *validity) {
    size_t nulls = 0;
    uint8_t seen = 0;
    read_element_values(elements, count, width, values, &seen);
    if (!(seen & 1))
        return 0;
    memset(validity, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        unsigned null = elements[i * (1 + width)] & 1u;
        validity[i >> 3] |= (uint8_t)((null ^ 1u) << (i & 7));
        nulls += null;
    }
    return nulls;
}

int ls_is_ascii(const uint8_t *data, size_t size) {
    uint8_t seen = 0;
    for (size_t i = 0; i < size; i++)
        seen |= data[i];
    return seen < 0x80;
}

void ls_narrow_offsets(const int64_t *offsets, size_t count, int32_t *out) {
    for (size_t i = 0; i < count; i++)
        out[i] = (int32_t)offsets[i];
}

/* Finds the elements of list i: their number, and their bytes, which are contiguous. */
static ls_status get_elements(const ls_column *elements, const int64_t *offsets, size_t i,
                              size_t *first, size_t *count, ls_slice *bytes) {
    uint64_t start = (uint64_t)offsets[i] - (uint64_t)offsets[0];
    uint64_t end = (uint64_t)offsets[i + 1] - (uint64_t)offsets[0];
    ls_slice last;
    if (start > end || end > elements->length)
        return LS_BAD_COLUMN;
    *first = (size_t)start;
    *count = (size_t)(end - start);
    bytes->data = NULL;
    bytes->size = 0;
    if (start == end)
        return LS_OK;
    ls_status status = ls_column_get(elements, *first, bytes);
    if (status == LS_OK)
        status = ls_column_get(elements, (size_t)end - 1, &last);
    if (status == LS_OK && last.data < bytes->data)
        status = LS_BAD_COLUMN;
    if (status == LS_OK)
        bytes->size = (size_t)(last.data - bytes->data) + last.size;
    return status;
}

ls_status ls_lists_add_sizes(const ls_column *lists, const int64_t *offsets,
                             const ls_column *elements, const ls_list_shape *shape,
                             int64_t *sizes) {
    for (size_t i = 0; i < lists->length; i++) {
        size_t first, count;
        ls_slice bytes;
        if (!ls_column_is_valid(lists, i))
            continue;
        ls_status status = get_elements(elements, offsets, i, &first, &count, &bytes);
        if (status != LS_OK)
            return status;
        if (count > UINT32_MAX || bytes.size > UINT32_MAX)
            return LS_TOO_LARGE;
        size_t ends = shape->element_width == 0 ? 4 * count : 0;
        sizes[i] += (int64_t)((shape->counted ? 4 : 0) + ends + bytes.size);
    }
    return LS_OK;
}

ls_status ls_lists_write(const ls_column *lists, const int64_t *offsets, const ls_column *elements,
                         const ls_list_shape *shape, const int64_t *starts, uint8_t *out) {
    for (size_t i = 0; i < lists->length; i++) {
        size_t first, count;
        ls_slice bytes, element;
        uint8_t *to = out + starts[i];
        if (!ls_column_is_valid(lists, i))
            continue;
        ls_status status = get_elements(elements, offsets, i, &first, &count, &bytes);
        if (status != LS_OK)
            return status;
        if (shape->counted) {
            ls_store32(to, (uint32_t)count);
            to += 4;
        }
        if (shape->element_width == 0) {
            uint32_t end = 0;
            for (size_t k = 0; k < count; k++) {
                status = ls_column_get(elements, first + k, &element);
                if (status != LS_OK)
                    return status;
                end += (uint32_t)element.size;
                ls_store32(to, end);
                to += 4;
            }
        }
        if (bytes.size != 0)
            memcpy(to, bytes.data, bytes.size);
    }
    return LS_OK;
}

/* Finds the number of elements of a list, and the addresses of their ends and bytes. */
LS_INLINE ls_status open_list(ls_slice list, const ls_list_shape *shape, size_t *count,
                              const uint8_t **ends, ls_slice *bytes) {
    const uint8_t *p = list.data;
    size_t left = list.size;
    *count = shape->count;
    if (shape->counted) {
        if (left < 4)
            return LS_BAD_ROW;
        *count = ls_load32(p);
        p += 4;
        left -= 4;
    }
    *ends = p;
    if (shape->element_width != 0) {
        if (left / shape->element_width != *count || left % shape->element_width != 0)
            return LS_BAD_ROW;
    } else {
        if (*count > left / 4)
            return LS_BAD_ROW;
        p += 4 * *count;
        left -= 4 * *count;
        size_t end = *count == 0 ? 0 : ls_load32(p - 4);
        if (end != left)
            return LS_BAD_ROW;
    }
    bytes->data = p;
    bytes->size = left;
    return LS_OK;
}

ls_status ls_lists_measure(const ls_column *lists, const ls_list_shape *shape, int64_t *offsets,
                           size_t *bytes, size_t *bad) {
    offsets[0] = 0;
    *bytes = 0;
    for (size_t i = 0; i < lists->length; i++) {
        ls_slice list, elements;
        const uint8_t *ends;
        size_t count = shape->counted ? 0 : shape->count;
        if (ls_column_is_valid(lists, i)) {
            ls_status status = ls_column_get(lists, i, &list);
            if (status == LS_OK)
                status = open_list(list, shape, &count, &ends, &elements);
            if (status == LS_OK && shape->element_width == 0) {
                uint32_t previous = 0;
                for (size_t k = 0; k < count; k++) {
                    uint32_t end = ls_load32(ends + 4 * k);
                    if (end < previous)
                        status = LS_BAD_ROW;
                    previous = end;
                }
            }
            if (status != LS_OK) {
                *bad = i;
                return status;
            }
            *bytes += elements.size;
        }
        offsets[i + 1] = offsets[i] + (int64_t)count;
    }
    return LS_OK;
}

void ls_lists_read(const ls_column *lists, const ls_list_shape *shape, const int64_t *offsets,
                   uint8_t *elements, int64_t *element_offsets, uint8_t *validity) {
    int64_t written = 0;
    if (element_offsets != NULL)
        element_offsets[0] = 0;
    for (size_t i = 0; i < lists->length; i++) {
        ls_slice list, bytes;
        const uint8_t *ends;
        size_t first = (size_t)offsets[i], count = (size_t)(offsets[i + 1] - offsets[i]);
        int valid = ls_column_is_valid(lists, i);
        /* Neither call can fail: ls_lists_measure has made both. */
        if (valid && (ls_column_get(lists, i, &list) != LS_OK ||
                      open_list(list, shape, &count, &ends, &bytes) != LS_OK))
            valid = 0;
        for (size_t k = 0; k < count && element_offsets != NULL; k++)
            element_offsets[first + k + 1] = written + (valid ? ls_load32(ends + 4 * k) : 0);
        for (size_t k = 0; k < count && validity != NULL && valid; k++)
            validity[(first + k) >> 3] |= (uint8_t)(1u << ((first + k) & 7));
        if (valid && bytes.size != 0) {
            memcpy(elements + written, bytes.data, bytes.size);
            written += (int64_t)bytes.size;
        }
    }
}
