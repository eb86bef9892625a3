#include "ls_compacted.h"
#include "ls_row_order.h"

#define MILLI 1000000
#define DAY 86400000

static size_t row_size(const ls_cell *cell, size_t i);
static size_t array_size(const ls_cell *cell, size_t from, size_t to);
static size_t map_size(const ls_cell *cell, size_t i);
static size_t binary_row_size(const ls_cell *cell, size_t i);
static uint8_t *put_row(const ls_cell *cell, size_t i, uint8_t *out);
static uint8_t *put_array(const ls_cell *cell, size_t from, size_t to, uint8_t *out);
static uint8_t *put_map(const ls_cell *cell, size_t i, uint8_t *out);
static uint8_t *put_binary_row(const ls_cell *cell, size_t i, uint8_t *out);

static inline int is_valid(const ls_cell *cell, size_t i) {
    return ls_bitmap_get(cell->validity, cell->offset + i);
}

static inline const uint8_t *fixed_at(const ls_cell *cell, size_t i) {
    return cell->data + (cell->offset + i) * cell->width;
}

static inline size_t start_of(const ls_cell *cell, size_t i) {
    return (size_t)cell->offsets[cell->offset + i];
}

static inline ls_slice bytes_at(const ls_cell *cell, size_t i) {
    size_t start = start_of(cell, i);
    return (ls_slice){cell->data + start, start_of(cell, i + 1) - start};
}

static inline size_t eights(size_t size) {
    return (size + 7) / 8 * 8;
}

static inline size_t sized(size_t size) {
    return ls_varint_size(size) + size;
}

/* Computes the milliseconds of a timestamp in units of `unit` nanoseconds, a constant, so that the
 * division is by a constant. */
static inline int64_t millis_in(int64_t value, int64_t unit, uint32_t *nanos) {
    int64_t in_milli = MILLI / unit, millis = value / in_milli, rest = value % in_milli;
    if (rest < 0) {
        millis--;
        rest += in_milli;
    }
    *nanos = (uint32_t)(rest * unit);
    return millis;
}

/* Splits a timestamp into milliseconds and the remaining nanoseconds. */
static inline int64_t millis_of(const ls_cell *cell, size_t i, uint32_t *nanos) {
    if (cell->type == LS_CELL_WIDE_TIMESTAMP) {
        *nanos = ls_load32(fixed_at(cell + 2, i));
        return (int64_t)ls_load64(fixed_at(cell + 1, i));
    }
    int64_t value = (int64_t)ls_load64(fixed_at(cell, i));
    return cell->unit == 1 ? millis_in(value, 1, nanos) : millis_in(value, 1000, nanos);
}

/* Writes the shortest big-endian two's complement of a decimal; returns its size. */
static size_t big_decimal(const uint8_t *value, uint8_t *out) {
    size_t size = 16;
    uint8_t sign = value[15] >> 7 ? 0xff : 0;
    while (size > 1 && value[size - 1] == sign && value[size - 2] >> 7 == sign >> 7)
        size--;
    for (size_t i = 0; i < size; i++)
        out[i] = value[size - 1 - i];
    return size;
}

/* Checks that the values of a cell, and of its descendants, can be written. */
static ls_status check_value(const ls_cell *cell, size_t i) {
    const ls_cell *child = cell + 1;
    if (!is_valid(cell, i))
        return cell->required ? LS_NULL : LS_OK;
    ls_status status = LS_OK;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_TIME:
        return ls_load32(fixed_at(cell, i)) < DAY ? LS_OK : LS_BAD_COLUMN;
    case LS_CELL_KIND:
        return *fixed_at(cell, i) <= 3 ? LS_OK : LS_BAD_COLUMN;
    case LS_CELL_DECIMAL:
    case LS_CELL_BIG_DECIMAL: {
        uint64_t low = ls_load64(fixed_at(cell, i)), high = ls_load64(fixed_at(cell, i) + 8);
        uint64_t sign = high >> 63 ? UINT64_MAX : 0;
        uint64_t size_low = (low ^ sign) + (sign & 1);
        uint64_t size_high = (high ^ sign) + ((sign & 1) && size_low == 0);
        int fits = size_high < cell->limit[1] ||
                   (size_high == cell->limit[1] && size_low < cell->limit[0]);
        return fits ? LS_OK : LS_BAD_COLUMN;
    }
    case LS_CELL_WIDE_TIMESTAMP:
        if (!is_valid(cell + 1, i) || !is_valid(cell + 2, i))
            return LS_NULL;
        return ls_load32(fixed_at(cell + 2, i)) < MILLI ? LS_OK : LS_BAD_COLUMN;
    case LS_CELL_BYTES:
    case LS_CELL_TEXT: {
        int32_t start = cell->offsets[cell->offset + i], end = cell->offsets[cell->offset + i + 1];
        return start < 0 || end < start || (size_t)end > cell->data_size ? LS_BAD_COLUMN : LS_OK;
    }
    case LS_CELL_VARIANT:
    case LS_CELL_ROW:
        for (uint32_t k = 0; k < cell->children && status == LS_OK; k++, child += child->size)
            status = check_value(child, i);
        return status;
    case LS_CELL_ARRAY:
    case LS_CELL_MAP:
        for (uint32_t k = 0; k < cell->children && status == LS_OK; k++, child += child->size) {
            int32_t start = cell->offsets[cell->offset + i];
            int32_t end = cell->offsets[cell->offset + i + 1];
            if (start < 0 || end < start || (size_t)end > child->length)
                return LS_BAD_COLUMN;
            for (int32_t j = start; j < end && status == LS_OK; j++)
                status = check_value(child, (size_t)j);
        }
        return status;
    default:
        return LS_OK;
    }
}

/* Returns the size of a field of a compacted row that is not null. */
static size_t field_size(const ls_cell *cell, size_t i) {
    uint8_t number[16];
    uint32_t nanos;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BOOL:
        return 1;
    case LS_CELL_DECIMAL:
        return 8;
    case LS_CELL_BIG_DECIMAL:
        return 1 + big_decimal(fixed_at(cell, i), number);
    case LS_CELL_TIMESTAMP:
    case LS_CELL_WIDE_TIMESTAMP:
        (void)millis_of(cell, i, &nanos);
        return 8 + ls_varint_size(nanos);
    case LS_CELL_BYTES:
    case LS_CELL_TEXT:
        return sized(bytes_at(cell, i).size);
    case LS_CELL_VARIANT:
        return sized(sized(bytes_at(cell + 1, i).size) + sized(bytes_at(cell + 2, i).size));
    case LS_CELL_ROW:
        return sized(row_size(cell, i));
    case LS_CELL_ARRAY:
        return sized(array_size(cell + 1, start_of(cell, i), start_of(cell, i + 1)));
    case LS_CELL_MAP:
        return sized(map_size(cell, i));
    default:
        return cell->width;
    }
}

static size_t row_size(const ls_cell *cell, size_t i) {
    size_t size = ls_row_header(cell->fields);
    const ls_cell *child = cell + 1;
    for (uint32_t k = 0; k < cell->children; k++, child += child->size)
        if (child->type != LS_CELL_KIND && is_valid(child, i))
            size += field_size(child, i);
    return size;
}

static inline uint8_t *put_bytes(ls_slice bytes, uint8_t *out) {
    out = ls_put_varint(out, bytes.size);
    ls_copy(out, bytes.data, bytes.size);
    return out + bytes.size;
}

static inline uint8_t *put_number(const ls_cell *cell, size_t i, uint8_t *out) {
    const uint8_t *p = fixed_at(cell, i);
    switch (cell->width) {
    case 1:
        *out = *p;
        return out + 1;
    case 2:
        memcpy(out, p, 2);
        return out + 2;
    case 4:
        memcpy(out, p, 4);
        return out + 4;
    default:
        memcpy(out, p, 8);
        return out + 8;
    }
}

static uint8_t *put_field(const ls_cell *cell, size_t i, uint8_t *out) {
    uint8_t number[16];
    uint32_t nanos;
    size_t size;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BOOL:
        *out = (uint8_t)ls_bitmap_get(cell->data, cell->offset + i);
        return out + 1;
    case LS_CELL_DECIMAL:
        memcpy(out, fixed_at(cell, i), 8);
        return out + 8;
    case LS_CELL_BIG_DECIMAL:
        *out = (uint8_t)(size = big_decimal(fixed_at(cell, i), number));
        memcpy(out + 1, number, size);
        return out + 1 + size;
    case LS_CELL_TIMESTAMP:
    case LS_CELL_WIDE_TIMESTAMP:
        ls_store64(out, (uint64_t)millis_of(cell, i, &nanos));
        return ls_put_varint(out + 8, nanos);
    case LS_CELL_BYTES:
    case LS_CELL_TEXT:
        return put_bytes(bytes_at(cell, i), out);
    case LS_CELL_VARIANT:
        size = sized(bytes_at(cell + 1, i).size) + sized(bytes_at(cell + 2, i).size);
        out = put_bytes(bytes_at(cell + 1, i), ls_put_varint(out, size));
        return put_bytes(bytes_at(cell + 2, i), out);
    case LS_CELL_ROW:
        return put_row(cell, i, ls_put_varint(out, row_size(cell, i)));
    case LS_CELL_ARRAY:
        size = array_size(cell + 1, start_of(cell, i), start_of(cell, i + 1));
        return put_array(cell + 1, start_of(cell, i), start_of(cell, i + 1),
                         ls_put_varint(out, size));
    case LS_CELL_MAP:
        return put_map(cell, i, ls_put_varint(out, map_size(cell, i)));
    default:
        return put_number(cell, i, out);
    }
}

/* Writes row kind and null bits into a header that is zero. */
static void put_header(const ls_cell *cell, size_t i, uint8_t *out) {
    const ls_cell *child = cell + 1;
    size_t bit = 8;
    for (uint32_t k = 0; k < cell->children; k++, child += child->size) {
        if (child->type == LS_CELL_KIND) {
            out[0] = is_valid(child, i) ? *fixed_at(child, i) : 0;
            continue;
        }
        if (!is_valid(child, i))
            out[bit >> 3] |= (uint8_t)(1u << (bit & 7));
        bit++;
    }
}

static uint8_t *put_row(const ls_cell *cell, size_t i, uint8_t *out) {
    size_t header = ls_row_header(cell->fields);
    const ls_cell *child = cell + 1;
    memset(out, 0, header);
    put_header(cell, i, out);
    out += header;
    for (uint32_t k = 0; k < cell->children; k++, child += child->size)
        if (child->type != LS_CELL_KIND && is_valid(child, i))
            out = put_field(child, i, out);
    return out;
}

static inline size_t slot_width(const ls_cell *cell) {
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BOOL:
        return 1;
    case LS_CELL_NUMBER:
    case LS_CELL_FLOAT:
    case LS_CELL_TIME:
        return cell->width;
    default:
        return 8;
    }
}

/* Returns the size in the variable part of an array or of a row within one, for a value that is not
 * null. */
static size_t piece_size(const ls_cell *cell, size_t i) {
    size_t size;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BIG_DECIMAL:
        return 16;
    case LS_CELL_TIMESTAMP:
    case LS_CELL_WIDE_TIMESTAMP:
        return 8;
    case LS_CELL_BYTES:
    case LS_CELL_TEXT:
        size = bytes_at(cell, i).size;
        return size <= 7 ? 0 : eights(size);
    case LS_CELL_ROW:
        return binary_row_size(cell, i);
    case LS_CELL_ARRAY:
        return eights(array_size(cell + 1, start_of(cell, i), start_of(cell, i + 1)));
    case LS_CELL_MAP:
        return eights(map_size(cell, i));
    default:
        return 0;
    }
}

static size_t fixed_part(const ls_cell *cell, size_t count) {
    return eights(4 + (count + 31) / 32 * 4 + count * slot_width(cell));
}

static size_t array_size(const ls_cell *cell, size_t from, size_t to) {
    size_t size = fixed_part(cell, to - from);
    for (size_t i = from; i < to; i++)
        if (is_valid(cell, i))
            size += piece_size(cell, i);
    return size;
}

static size_t map_size(const ls_cell *cell, size_t i) {
    size_t from = start_of(cell, i), to = start_of(cell, i + 1);
    const ls_cell *keys = cell + 1, *values = keys + keys->size;
    return 4 + array_size(keys, from, to) + array_size(values, from, to);
}

/* In a row, a null keeps the room that Java might fill later, since Paimon 1.2. */
static size_t kept_room(const ls_cell *cell) {
    return cell->type == LS_CELL_BIG_DECIMAL                                         ? 16
           : cell->type == LS_CELL_TIMESTAMP || cell->type == LS_CELL_WIDE_TIMESTAMP ? 8
                                                                                     : 0;
}

static size_t binary_row_size(const ls_cell *cell, size_t i) {
    size_t size = ((size_t)cell->fields + 71) / 64 * 8 + 8 * (size_t)cell->fields;
    const ls_cell *child = cell + 1;
    for (uint32_t k = 0; k < cell->children; k++, child += child->size)
        if (child->type != LS_CELL_KIND)
            size += is_valid(child, i) ? piece_size(child, i) : kept_room(child);
    return size;
}

/* Writes a value that is not null into its slot, and its piece, if it has one, to `piece`, which
 * has that distance from `base`; slot and piece are zero. */
static uint8_t *put_slot(const ls_cell *cell, size_t i, int in_array, const uint8_t *base,
                         uint8_t *slot, uint8_t *piece) {
    uint32_t nanos;
    ls_slice bytes;
    uint8_t *end = piece;
    size_t size = 0;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BOOL:
        *slot = (uint8_t)ls_bitmap_get(cell->data, cell->offset + i);
        return piece;
    case LS_CELL_DECIMAL:
        memcpy(slot, fixed_at(cell, i), 8);
        return piece;
    case LS_CELL_FLOAT: {
        const uint8_t *p = fixed_at(cell, i);
        /* Java writes all NaNs in elements of an array as one. */
        if (in_array && cell->width == 4 && (ls_load32(p) & INT32_MAX) > 0x7f800000)
            ls_store32(slot, 0x7fc00000);
        else if (in_array && cell->width == 8 &&
                 (ls_load64(p) & INT64_MAX) > UINT64_C(0x7ff0000000000000))
            ls_store64(slot, UINT64_C(0x7ff8000000000000));
        else
            memcpy(slot, p, cell->width);
        return piece;
    }
    case LS_CELL_BYTES:
    case LS_CELL_TEXT:
        bytes = bytes_at(cell, i);
        if (bytes.size <= 7) {
            ls_copy(slot, bytes.data, bytes.size);
            slot[7] = (uint8_t)(0x80 | bytes.size);
            return piece;
        }
        ls_copy(piece, bytes.data, bytes.size);
        size = bytes.size;
        end = piece + eights(size);
        break;
    case LS_CELL_BIG_DECIMAL:
        size = big_decimal(fixed_at(cell, i), piece);
        end = piece + 16;
        break;
    case LS_CELL_TIMESTAMP:
    case LS_CELL_WIDE_TIMESTAMP:
        ls_store64(piece, (uint64_t)millis_of(cell, i, &nanos));
        size = nanos;
        end = piece + 8;
        break;
    case LS_CELL_ROW:
        end = put_binary_row(cell, i, piece);
        size = (size_t)(end - piece);
        break;
    case LS_CELL_ARRAY:
        end = put_array(cell + 1, start_of(cell, i), start_of(cell, i + 1), piece);
        size = (size_t)(end - piece);
        break;
    case LS_CELL_MAP:
        end = put_map(cell, i, piece);
        size = (size_t)(end - piece);
        end = piece + eights(size);
        break;
    default:
        memcpy(slot, fixed_at(cell, i), cell->width);
        return piece;
    }
    ls_store32(slot, (uint32_t)size);
    ls_store32(slot + 4, (uint32_t)(piece - base));
    return end;
}

static uint8_t *put_array(const ls_cell *cell, size_t from, size_t to, uint8_t *out) {
    size_t count = to - from, width = slot_width(cell);
    uint8_t *slot = out + 4 + (count + 31) / 32 * 4, *piece = out + fixed_part(cell, count);
    memset(out, 0, array_size(cell, from, to));
    ls_store32(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++, slot += width) {
        if (is_valid(cell, from + i))
            piece = put_slot(cell, from + i, 1, out, slot, piece);
        else
            out[4 + (i >> 3)] |= (uint8_t)(1u << (i & 7));
    }
    return piece;
}

static uint8_t *put_map(const ls_cell *cell, size_t i, uint8_t *out) {
    size_t from = start_of(cell, i), to = start_of(cell, i + 1);
    const ls_cell *keys = cell + 1, *values = keys + keys->size;
    ls_store32(out, (uint32_t)array_size(keys, from, to));
    return put_array(values, from, to, put_array(keys, from, to, out + 4));
}

static uint8_t *put_binary_row(const ls_cell *cell, size_t i, uint8_t *out) {
    size_t header = ((size_t)cell->fields + 71) / 64 * 8;
    uint8_t *slot = out + header, *piece = slot + 8 * (size_t)cell->fields;
    const ls_cell *child = cell + 1;
    memset(out, 0, binary_row_size(cell, i));
    put_header(cell, i, out);
    for (uint32_t k = 0; k < cell->children; k++, child += child->size) {
        if (child->type == LS_CELL_KIND)
            continue;
        if (is_valid(child, i)) {
            piece = put_slot(child, i, 0, out, slot, piece);
        } else if (kept_room(child) > 0) {
            ls_store32(slot + 4, (uint32_t)(piece - out));
            piece += kept_room(child);
        }
        slot += 8;
    }
    return piece;
}

/* Adds the size of a field, after a check that it can be written. */
static inline ls_status add_size(const ls_cell *cell, size_t i, size_t *size) {
    ls_status status;
    if (!is_valid(cell, i))
        return cell->required ? LS_NULL : LS_OK;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_NUMBER:
    case LS_CELL_FLOAT: /* All values can be written. */
        *size += cell->width;
        return LS_OK;
    case LS_CELL_TIMESTAMP:
        *size += field_size(cell, i);
        return LS_OK;
    case LS_CELL_KIND:
        return check_value(cell, i);
    default:
        status = check_value(cell, i);
        if (status == LS_OK)
            *size += field_size(cell, i);
        return status;
    }
}

/* Number of rows that are written column by column: few enough to stay in the first cache. */
#define STRETCH 256

/* Returns whether each value of a cell is not null, can be written, and takes `width` bytes. */
static inline int is_constant(const ls_cell *cell) {
    return cell->validity == NULL && (cell->type == LS_CELL_NUMBER || cell->type == LS_CELL_FLOAT);
}

ls_status ls_compacted_sizes(const ls_cell *cells, size_t count, size_t tails, int64_t *ends,
                             ls_compacted_fault *fault) {
    size_t constant = ls_row_header(cells->fields) + tails;
    const ls_cell *child = cells + 1;
    for (uint32_t k = 0; k < cells->children; k++, child += child->size)
        constant += is_constant(child) ? child->width : 0;
    ends[0] = 0;
    for (size_t from = 0, to; from < count; from = to) {
        size_t sizes[STRETCH];
        to = count - from < STRETCH ? count : from + STRETCH;
        for (size_t i = from; i < to; i++)
            sizes[i - from] = constant;
        child = cells + 1;
        for (uint32_t k = 0; k < cells->children; k++, child += child->size) {
            if (is_constant(child))
                continue;
            for (size_t i = from; i < to; i++) {
                ls_status status = add_size(child, i, &sizes[i - from]);
                if (status != LS_OK) {
                    *fault = (ls_compacted_fault){.row = i, .column = k};
                    return status;
                }
            }
        }
        for (size_t i = from; i < to; i++) {
            if (sizes[i - from] > INT32_MAX) {
                *fault = (ls_compacted_fault){.row = i};
                return LS_TOO_LARGE;
            }
            ends[i + 1] = ends[i] + (int64_t)sizes[i - from];
        }
    }
    return LS_OK;
}

/* Writes the values of a cell with one width after the bytes written of their rows. */
static inline __attribute__((always_inline)) void put_fixed(const uint8_t *values, size_t width,
                                                            uint8_t **rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        memcpy(rows[i], values + i * width, width);
        rows[i] += width;
    }
}

/* Does the same for any width of numbers, which is then a constant to the compiler. */
static void put_numbers(const uint8_t *values, size_t width, uint8_t **rows, size_t count) {
    switch (width) {
    case 1:
        put_fixed(values, 1, rows, count);
        return;
    case 2:
        put_fixed(values, 2, rows, count);
        return;
    case 4:
        put_fixed(values, 4, rows, count);
        return;
    default:
        put_fixed(values, 8, rows, count);
    }
}

/* Writes the rows of [from, from + count) to the addresses in `rows`, and advances these. */
static void put_stretch(const ls_cell *cells, size_t from, size_t count, int plain,
                        uint8_t **rows) {
    size_t header = ls_row_header(cells->fields);
    const ls_cell *child = cells + 1;
    for (size_t i = 0; i < count; i++) {
        if (header == 2) /* a store, not a call */
            rows[i][0] = rows[i][1] = 0;
        else
            memset(rows[i], 0, header);
        if (!plain)
            put_header(cells, from + i, rows[i]);
        rows[i] += header;
    }
    for (uint32_t k = 0; k < cells->children; k++, child += child->size) {
        if (is_constant(child)) {
            put_numbers(fixed_at(child, from), child->width, rows, count);
        } else if (child->type == LS_CELL_TIMESTAMP && child->validity == NULL) {
            for (size_t i = 0; i < count; i++) {
                uint32_t nanos;
                ls_store64(rows[i], (uint64_t)millis_of(child, from + i, &nanos));
                rows[i] = ls_put_varint(rows[i] + 8, nanos);
            }
        } else if (child->type != LS_CELL_KIND) {
            for (size_t i = 0; i < count; i++)
                if (is_valid(child, from + i))
                    rows[i] = put_field(child, from + i, rows[i]);
        }
    }
}

void ls_compacted_write(const ls_cell *cells, size_t count, const ls_tail *tails, size_t tail_count,
                        const int64_t *ends, uint8_t *out) {
    const ls_cell *child = cells + 1;
    uint8_t *rows[STRETCH];
    int plain = 1; /* no row has a null, or a row kind of its own */
    for (uint32_t k = 0; k < cells->children; k++, child += child->size)
        plain &= child->type != LS_CELL_KIND && child->validity == NULL;
    for (size_t from = 0, length; from < count; from += length) {
        length = count - from < STRETCH ? count - from : STRETCH;
        for (size_t i = 0; i < length; i++)
            rows[i] = out + ends[from + i];
        put_stretch(cells, from, length, plain, rows);
        for (size_t k = 0; k < tail_count; k++)
            put_numbers(tails[k].data + tails[k].width * from, tails[k].width, rows, length);
    }
}
