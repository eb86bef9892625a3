#include "ls_compacted.h"
#include "ls_row_order.h"

/* The loops over rows are compiled twice, for counting and for copying. */
#define LS_INLINE static inline __attribute__((always_inline))

#define MILLI 1000000
#define DAY 86400000

/* Bytes of an array or of a row within one. Pieces of the variable part are in sequence, so that no
 * byte is read twice, even in deeply nested arrays. */
typedef struct {
    const uint8_t *data;
    size_t size;
    size_t next; /* where the next piece may begin */
} region;

static ls_status read_array(ls_cell *cell, ls_slice array, int copy, size_t *count);
static ls_status read_map(ls_cell *cell, ls_slice map, int copy);
static ls_status read_binary_row(ls_cell *cell, ls_slice row, int copy);
static ls_status read_row(ls_cell *cell, ls_slice row, int copy, size_t *column);

/* Reserves a place for a value. LS_BAD_ROW: bytes have changed since they were counted. */
static inline ls_status place(ls_cell *cell, int valid, int copy, size_t *at) {
    *at = cell->length;
    if (copy) {
        if (*at >= cell->room)
            return LS_BAD_ROW;
        if (valid)
            cell->validity[*at >> 3] |= (uint8_t)(1u << (*at & 7));
    } else if (*at == INT32_MAX) {
        return LS_TOO_LARGE;
    }
    cell->length++;
    cell->nulls += !valid;
    return LS_OK;
}

static ls_status add_null(ls_cell *cell, int copy) {
    size_t at;
    ls_status status = place(cell, 0, copy, &at);
    if (status != LS_OK)
        return status;
    if (cell->type == LS_CELL_ROW || cell->type == LS_CELL_VARIANT ||
        cell->type == LS_CELL_WIDE_TIMESTAMP) {
        ls_cell *child = cell + 1;
        for (uint32_t i = 0; i < cell->children && status == LS_OK; i++, child += child->size)
            status = add_null(child, copy);
    } else if (copy && cell->offsets != NULL) {
        cell->offsets[at + 1] = cell->offsets[at];
    }
    return status;
}

/* Adds a null of a row or an array, not a value inside of such a null. */
static ls_status add_field_null(ls_cell *cell, int copy) {
    return cell->required ? LS_BAD_ROW : add_null(cell, copy);
}

/* Adds a value with the width of its cell. */
static inline ls_status add_fixed(ls_cell *cell, const uint8_t *value, size_t width, int copy) {
    size_t at;
    ls_status status = place(cell, 1, copy, &at);
    if (status == LS_OK && copy)
        memcpy(cell->data + at * width, value, width);
    return status;
}

static inline ls_status add_number(ls_cell *cell, const uint8_t *value, int copy) {
    switch (cell->width) {
    case 1:
        return add_fixed(cell, value, 1, copy);
    case 2:
        return add_fixed(cell, value, 2, copy);
    case 4:
        return add_fixed(cell, value, 4, copy);
    default:
        return add_fixed(cell, value, 8, copy);
    }
}

/* Returns whether bytes are UTF-8: no surrogates, no overlong forms, nothing beyond U+10FFFF. */
static int is_text(const uint8_t *p, size_t size) {
    const uint8_t *end = p + size;
    while (p < end) {
        if (end - p >= 8 && (ls_load64(p) & UINT64_C(0x8080808080808080)) == 0) {
            p += 8;
            continue;
        }
        uint8_t first = *p++;
        if (first < 0x80)
            continue;
        size_t more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        if (first < 0xc2 || first > 0xf4 || more > (size_t)(end - p))
            return 0;
        /* The second byte excludes all other invalid forms. */
        uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (p[0] < least || p[0] > most)
            return 0;
        for (size_t i = 1; i < more; i++)
            if (p[i] >> 6 != 2)
                return 0;
        p += more;
    }
    return 1;
}

static inline ls_status add_bytes(ls_cell *cell, ls_slice value, int copy) {
    size_t at;
    ls_status status = place(cell, 1, copy, &at);
    if (status != LS_OK)
        return status;
    if (copy) {
        if (value.size > cell->data_size - cell->bytes)
            return LS_BAD_ROW;
        ls_copy(cell->data + cell->bytes, value.data, value.size);
        cell->offsets[at + 1] = (int32_t)(cell->bytes + value.size);
    } else if (value.size > INT32_MAX - cell->bytes) {
        return LS_TOO_LARGE;
    } else if (cell->type == LS_CELL_TEXT && !is_text(value.data, value.size)) {
        return LS_BAD_ROW;
    }
    cell->bytes += value.size;
    return LS_OK;
}

static ls_status add_bool(ls_cell *cell, uint8_t value, int copy) {
    size_t at;
    ls_status status = value > 1 ? LS_BAD_ROW : place(cell, 1, copy, &at);
    if (status == LS_OK && copy)
        cell->data[at >> 3] |= (uint8_t)(value << (at & 7));
    return status;
}

/* Adds a decimal from the 128 bits of its two's complement. */
static ls_status add_decimal(ls_cell *cell, uint64_t high, uint64_t low, int copy) {
    uint64_t sign = high >> 63 ? UINT64_MAX : 0;
    uint64_t size_low = (low ^ sign) + (sign & 1);
    uint64_t size_high = (high ^ sign) + ((sign & 1) && size_low == 0);
    uint8_t bytes[16];
    if (size_high > cell->limit[1] || (size_high == cell->limit[1] && size_low >= cell->limit[0]))
        return LS_BAD_ROW;
    ls_store64(bytes, low);
    ls_store64(bytes + 8, high);
    return add_fixed(cell, bytes, 16, copy);
}

static ls_status add_small_decimal(ls_cell *cell, const uint8_t *p, int copy) {
    uint64_t low = ls_load64(p);
    return add_decimal(cell, low >> 63 ? UINT64_MAX : 0, low, copy);
}

static ls_status add_big_decimal(ls_cell *cell, ls_slice number, int copy) {
    if (number.size < 1 || number.size > 16)
        return LS_BAD_ROW;
    uint64_t high = number.data[0] >> 7 ? UINT64_MAX : 0, low = high;
    for (size_t i = 0; i < number.size; i++) {
        high = high << 8 | low >> 56;
        low = low << 8 | number.data[i];
    }
    return add_decimal(cell, high, low, copy);
}

/* Computes a timestamp in units of a constant number of nanoseconds, without a division. */
LS_INLINE ls_status in_units(int64_t millis, uint32_t nanos, uint32_t unit, int64_t *value) {
    if (nanos % unit != 0)
        return LS_TOO_LARGE;
    if (!__builtin_mul_overflow(millis, MILLI / unit, value) &&
        !__builtin_add_overflow(*value, nanos / unit, value))
        return LS_OK;
    /* The least milliseconds of int64 nanoseconds may fit only together with the nanoseconds. */
    int64_t above = MILLI / unit - nanos / unit;
    if (millis < 0 && !__builtin_mul_overflow(millis + 1, MILLI / unit, value) &&
        !__builtin_sub_overflow(*value, above, value))
        return LS_OK;
    return LS_TOO_LARGE;
}

static inline ls_status add_timestamp(ls_cell *cell, int64_t millis, uint32_t nanos, int copy) {
    uint8_t bytes[8];
    if (nanos >= MILLI)
        return LS_BAD_ROW;
    if (cell->type == LS_CELL_WIDE_TIMESTAMP) {
        size_t at;
        ls_status status = place(cell, 1, copy, &at);
        ls_store64(bytes, (uint64_t)millis);
        if (status == LS_OK)
            status = add_fixed(cell + 1, bytes, 8, copy);
        ls_store32(bytes, nanos);
        return status == LS_OK ? add_fixed(cell + 2, bytes, 4, copy) : status;
    }
    int64_t value;
    ls_status status = cell->unit == 1 ? in_units(millis, nanos, 1, &value)
                                       : in_units(millis, nanos, 1000, &value);
    if (status != LS_OK)
        return status;
    ls_store64(bytes, (uint64_t)value);
    return add_fixed(cell, bytes, 8, copy);
}

static ls_status add_time(ls_cell *cell, const uint8_t *p, int copy) {
    return ls_load32(p) >= DAY ? LS_BAD_ROW : add_fixed(cell, p, 4, copy);
}

static ls_status add_array(ls_cell *cell, ls_slice array, int copy) {
    size_t at, count;
    ls_status status = place(cell, 1, copy, &at);
    if (status == LS_OK)
        status = read_array(cell + 1, array, copy, &count);
    if (status == LS_OK && copy)
        cell->offsets[at + 1] = (int32_t)cell[1].length;
    return status;
}

static ls_status add_map(ls_cell *cell, ls_slice map, int copy) {
    size_t at;
    ls_status status = place(cell, 1, copy, &at);
    if (status == LS_OK)
        status = read_map(cell, map, copy);
    if (status == LS_OK && copy)
        cell->offsets[at + 1] = (int32_t)cell[1].length;
    return status;
}

/* Reads the row kind of a row, and checks the unused null bits after those of its fields. */
static ls_status read_header(ls_cell *cell, const uint8_t *row, size_t header, int copy) {
    size_t bits = 8 + (size_t)cell->fields;
    if (row[0] > 3)
        return LS_BAD_ROW;
    for (size_t bit = bits; bit < 8 * header && (bit & 7) != 0; bit++)
        if (row[bit >> 3] >> (bit & 7) & 1)
            return LS_BAD_ROW;
    if (cell->fields == cell->children)
        return LS_OK;
    ls_cell *child = cell + 1;
    while (child->type != LS_CELL_KIND)
        child += child->size;
    return add_fixed(child, row, 1, copy);
}

static inline ls_status take(const uint8_t **cursor, const uint8_t *end, size_t size,
                             const uint8_t **found) {
    if (size > (size_t)(end - *cursor))
        return LS_BAD_ROW;
    *found = *cursor;
    *cursor += size;
    return LS_OK;
}

static inline ls_status take_sized(const uint8_t **cursor, const uint8_t *end, ls_slice *found) {
    uint32_t size;
    if (ls_get_varint32(cursor, end, &size) != LS_OK)
        return LS_BAD_ROW;
    found->size = size;
    return take(cursor, end, size, &found->data);
}

static ls_status read_variant(ls_cell *cell, ls_slice variant, int copy) {
    const uint8_t *p = variant.data, *end = p + variant.size;
    ls_slice value, metadata;
    size_t at;
    if (take_sized(&p, end, &value) != LS_OK || take_sized(&p, end, &metadata) != LS_OK || p != end)
        return LS_BAD_ROW;
    ls_status status = place(cell, 1, copy, &at);
    if (status == LS_OK)
        status = add_bytes(cell + 1, value, copy);
    return status == LS_OK ? add_bytes(cell + 2, metadata, copy) : status;
}

/* Reads a field of a compacted row that is not null. */
LS_INLINE ls_status read_field(ls_cell *cell, const uint8_t **cursor, const uint8_t *end,
                               int copy) {
    const uint8_t *p = NULL;
    ls_slice bytes = {NULL, 0};
    uint32_t nanos;
    size_t at, column;
    ls_status status;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BOOL:
        status = take(cursor, end, 1, &p);
        return status == LS_OK ? add_bool(cell, *p, copy) : status;
    case LS_CELL_NUMBER:
    case LS_CELL_FLOAT:
        status = take(cursor, end, cell->width, &p);
        return status == LS_OK ? add_number(cell, p, copy) : status;
    case LS_CELL_TIME:
        status = take(cursor, end, 4, &p);
        return status == LS_OK ? add_time(cell, p, copy) : status;
    case LS_CELL_DECIMAL:
        status = take(cursor, end, 8, &p);
        return status == LS_OK ? add_small_decimal(cell, p, copy) : status;
    case LS_CELL_TIMESTAMP:
    case LS_CELL_WIDE_TIMESTAMP:
        status = take(cursor, end, 8, &p);
        if (status != LS_OK || ls_get_varint32(cursor, end, &nanos) != LS_OK)
            return LS_BAD_ROW;
        return add_timestamp(cell, (int64_t)ls_load64(p), nanos, copy);
    default:
        break;
    }
    status = take_sized(cursor, end, &bytes);
    if (status != LS_OK)
        return status;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BYTES:
    case LS_CELL_TEXT:
        return add_bytes(cell, bytes, copy);
    case LS_CELL_BIG_DECIMAL:
        return add_big_decimal(cell, bytes, copy);
    case LS_CELL_VARIANT:
        return read_variant(cell, bytes, copy);
    case LS_CELL_ARRAY:
        return add_array(cell, bytes, copy);
    case LS_CELL_MAP:
        return add_map(cell, bytes, copy);
    case LS_CELL_ROW:
        status = place(cell, 1, copy, &at);
        return status == LS_OK ? read_row(cell, bytes, copy, &column) : status;
    default:
        return LS_BAD_ROW;
    }
}

/* Reads the fields of a compacted row, which must end at the end of its bytes. */
LS_INLINE ls_status read_fields(ls_cell *cell, ls_slice row, int copy, size_t *column) {
    size_t header = ls_row_header(cell->fields), field = 0;
    *column = 0;
    if (row.size < header)
        return LS_BAD_ROW;
    ls_status status = read_header(cell, row.data, header, copy);
    const uint8_t *p = row.data + header, *end = row.data + row.size;
    ls_cell *child = cell + 1;
    for (uint32_t i = 0; i < cell->children && status == LS_OK; i++, child += child->size) {
        *column = i;
        if (child->type == LS_CELL_KIND)
            continue;
        status = ls_row_is_null(row.data, field) ? add_field_null(child, copy)
                                                 : read_field(child, &p, end, copy);
        field++;
    }
    return status != LS_OK ? status : p == end ? LS_OK : LS_BAD_ROW;
}

static ls_status read_row(ls_cell *cell, ls_slice row, int copy, size_t *column) {
    return read_fields(cell, row, copy, column);
}

/* Finds the piece of a slot: size, then offset in the region. */
static ls_status take_piece(region *in, const uint8_t *slot, size_t size, ls_slice *piece) {
    size_t offset = ls_load32(slot + 4);
    if (offset < in->next || offset > in->size || size > in->size - offset)
        return LS_BAD_ROW;
    in->next = offset + size;
    piece->data = in->data + offset;
    piece->size = size;
    return LS_OK;
}

/* Reads the value in a slot of an array, or of a row within one. */
static ls_status read_slot(ls_cell *cell, region *in, const uint8_t *slot, int copy) {
    ls_slice piece;
    size_t at, size;
    ls_status status;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BOOL:
        return add_bool(cell, slot[0], copy);
    case LS_CELL_NUMBER:
    case LS_CELL_FLOAT:
        return add_number(cell, slot, copy);
    case LS_CELL_TIME:
        return add_time(cell, slot, copy);
    case LS_CELL_DECIMAL:
        return add_small_decimal(cell, slot, copy);
    case LS_CELL_BIG_DECIMAL:
        size = ls_load32(slot);
        status = take_piece(in, slot, 16, &piece);
        piece.size = size; /* add_big_decimal reads at most 16 bytes */
        return status == LS_OK ? add_big_decimal(cell, piece, copy) : status;
    case LS_CELL_TIMESTAMP:
    case LS_CELL_WIDE_TIMESTAMP:
        status = take_piece(in, slot, 8, &piece);
        if (status != LS_OK)
            return status;
        return add_timestamp(cell, (int64_t)ls_load64(piece.data), ls_load32(slot), copy);
    case LS_CELL_BYTES:
    case LS_CELL_TEXT:
        if (slot[7] >= 0x80) { /* short bytes are stored in the slot itself */
            piece = (ls_slice){slot, slot[7] & 0x7f};
            return piece.size > 7 ? LS_BAD_ROW : add_bytes(cell, piece, copy);
        }
        break;
    default:
        break;
    }
    status = take_piece(in, slot, ls_load32(slot), &piece);
    if (status != LS_OK)
        return status;
    switch ((ls_cell_type)cell->type) {
    case LS_CELL_BYTES:
    case LS_CELL_TEXT:
        return add_bytes(cell, piece, copy);
    case LS_CELL_ARRAY:
        return add_array(cell, piece, copy);
    case LS_CELL_MAP:
        return add_map(cell, piece, copy);
    case LS_CELL_ROW:
        status = place(cell, 1, copy, &at);
        return status == LS_OK ? read_binary_row(cell, piece, copy) : status;
    default:
        return LS_BAD_ROW;
    }
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

static ls_status read_array(ls_cell *cell, ls_slice array, int copy, size_t *count) {
    if (array.size < 4)
        return LS_BAD_ROW;
    size_t n = ls_load32(array.data), width = slot_width(cell);
    if (n > array.size) /* each element has at least a byte */
        return LS_BAD_ROW;
    size_t slots = 4 + (n + 31) / 32 * 4;
    size_t end = (slots + n * width + 7) / 8 * 8;
    if (end > array.size)
        return LS_BAD_ROW;
    region in = {array.data, array.size, end};
    ls_status status = LS_OK;
    for (size_t i = 0; i < n && status == LS_OK; i++)
        status = ls_bitmap_get(array.data + 4, i)
                     ? add_field_null(cell, copy)
                     : read_slot(cell, &in, array.data + slots + i * width, copy);
    *count = n;
    return status;
}

static ls_status read_map(ls_cell *cell, ls_slice map, int copy) {
    ls_cell *keys = cell + 1, *values = keys + keys->size;
    size_t count, other, nulls = keys->nulls;
    if (map.size < 4)
        return LS_BAD_ROW;
    size_t size = ls_load32(map.data);
    if (size > map.size - 4)
        return LS_BAD_ROW;
    ls_status status = read_array(keys, (ls_slice){map.data + 4, size}, copy, &count);
    if (status == LS_OK && keys->nulls != nulls) /* Arrow does not allow keys that are null */
        status = LS_BAD_ROW;
    if (status == LS_OK)
        status =
            read_array(values, (ls_slice){map.data + 4 + size, map.size - 4 - size}, copy, &other);
    return status == LS_OK && count != other ? LS_BAD_ROW : status;
}

static ls_status read_binary_row(ls_cell *cell, ls_slice row, int copy) {
    size_t slots = ((size_t)cell->fields + 71) / 64 * 8, field = 0;
    size_t end = slots + 8 * (size_t)cell->fields;
    if (row.size < end)
        return LS_BAD_ROW;
    region in = {row.data, row.size, end};
    ls_status status = read_header(cell, row.data, slots, copy);
    ls_cell *child = cell + 1;
    for (uint32_t i = 0; i < cell->children && status == LS_OK; i++, child += child->size) {
        if (child->type == LS_CELL_KIND)
            continue;
        status = ls_row_is_null(row.data, field)
                     ? add_field_null(child, copy)
                     : read_slot(child, &in, row.data + slots + 8 * field, copy);
        field++;
    }
    return status;
}

LS_INLINE ls_status read_rows(ls_cell *cells, const ls_column *rows, const ls_tail *tails,
                              size_t tail_count, int copy, ls_compacted_fault *fault) {
    size_t behind = 0;
    for (size_t k = 0; k < tail_count; k++)
        behind += tails[k].width;
    for (uint32_t i = 0; i < cells->size; i++)
        cells[i].length = cells[i].bytes = cells[i].nulls = 0;
    for (size_t i = 0; i < rows->length; i++) {
        ls_slice row;
        size_t at;
        ls_status status;
        fault->row = i;
        fault->column = 0;
        if (!ls_column_is_valid(rows, i)) {
            status = add_null(cells, copy);
        } else {
            status = ls_column_get(rows, i, &row);
            if (status == LS_OK && row.size < behind)
                status = LS_BAD_ROW;
            if (status != LS_OK)
                return status;
            row.size -= behind;
            const uint8_t *tail = row.data + row.size;
            for (size_t k = 0; k < tail_count; tail += tails[k++].width) {
                if (tails[k].width == 1 && *tail > 3) /* a row kind */
                    return LS_BAD_ROW;
                if (copy)
                    ls_copy(tails[k].data + i * tails[k].width, tail, tails[k].width);
            }
            status = place(cells, 1, copy, &at);
            if (status == LS_OK)
                status = read_fields(cells, row, copy, &fault->column);
        }
        if (status != LS_OK)
            return status;
    }
    return LS_OK;
}

/* Returns whether all cells have one value per row, each with the width of all values of its
 * cell. */
static int is_flat(const ls_cell *cells) {
    if (cells->size != cells->children + 1)
        return 0;
    for (uint32_t i = 1; i < cells->size; i++)
        if (cells[i].type == LS_CELL_BYTES || cells[i].type == LS_CELL_TEXT)
            return 0;
    return 1;
}

ls_status ls_compacted_read(ls_cell *cells, const ls_column *rows, const ls_tail *tails,
                            size_t tail_count, int copy, ls_compacted_fault *fault) {
    if (copy)
        return read_rows(cells, rows, tails, tail_count, 1, fault);
    if (is_flat(cells) && rows->length <= INT32_MAX) { /* errors are found while copying */
        for (uint32_t i = 0; i < cells->size; i++) {
            cells[i].length = rows->length;
            cells[i].bytes = cells[i].nulls = 0;
        }
        return LS_OK;
    }
    return read_rows(cells, rows, tails, tail_count, 0, fault);
}

ls_status ls_positions_read(const ls_column *values, int64_t *out, size_t *bad) {
    for (size_t i = 0; i < values->length; i++) {
        ls_slice value;
        uint64_t position = 0;
        *bad = i;
        if (ls_column_is_valid(values, i)) {
            ls_status status = ls_column_get(values, i, &value);
            if (status != LS_OK)
                return status;
            const uint8_t *p = value.data, *end = p + value.size;
            if (ls_get_varint64(&p, end, &position) != LS_OK || p != end)
                return LS_BAD_ROW;
        }
        out[i] = (int64_t)position;
    }
    return LS_OK;
}
