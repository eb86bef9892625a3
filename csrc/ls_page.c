#include "ls_page.h"
#include "ls_compact.h"

#include <stdbool.h>

/* Maximum depth of headers, which have a depth of three. */
enum { MOST_DEPTH = 8 };

static ls_status get_i32(const uint8_t **cursor, const uint8_t *end, int32_t *value) {
    int64_t wide;
    ls_status status = ls_compact_integer(cursor, end, &wide);
    if (status != LS_OK)
        return status;
    if (wide < INT32_MIN || wide > INT32_MAX)
        return LS_BAD_VARINT;
    *value = (int32_t)wide;
    return LS_OK;
}

/* Reads a struct, and its fields that have a member: numbers, all of which are required. */
static ls_status read_numbers(const uint8_t **cursor, const uint8_t *end, int32_t *const places[],
                              int64_t most) {
    int64_t id = 0;
    int type;
    unsigned seen = 0, wanted = 0;
    for (int64_t i = 0; i < most; i++)
        wanted |= places[i] ? 1u << i : 0;
    for (;;) {
        ls_status status = ls_compact_field(cursor, end, &id, &type);
        if (status != LS_OK)
            return status;
        if (type == LS_COMPACT_STOP)
            return seen == wanted ? LS_OK : LS_BAD_HEADER;
        if (id >= 1 && id <= most && places[id - 1]) {
            if (type != LS_COMPACT_I32)
                return LS_BAD_HEADER;
            status = get_i32(cursor, end, places[id - 1]);
            seen |= 1u << (id - 1);
        } else if (type != LS_COMPACT_TRUE && type != LS_COMPACT_FALSE) {
            status = ls_compact_skip(cursor, end, type, MOST_DEPTH - 1);
        }
        if (status != LS_OK)
            return status;
    }
}

/* Number of values and encoding in the header of a page of one type. */
typedef struct {
    int32_t values;
    int32_t encoding;
} claim;

ls_status ls_page_header_read(const uint8_t **cursor, const uint8_t *end, ls_page_header *header) {
    int64_t id = 0;
    int type;
    unsigned seen = 0;
    claim data = {-1, 0}, dictionary = {-1, 0}, second = {-1, 0};
    *header = (ls_page_header){.values = -1};
    for (;;) {
        ls_status status = ls_compact_field(cursor, end, &id, &type);
        if (status != LS_OK)
            return status;
        if (type == LS_COMPACT_STOP)
            break;
        if (id >= 1 && id <= 4) {
            int32_t value = 0;
            if (type != LS_COMPACT_I32)
                return LS_BAD_HEADER;
            status = get_i32(cursor, end, &value);
            seen |= 1u << (id - 1);
            if (id == 1)
                header->type = value;
            else if (id == 2)
                header->uncompressed = value;
            else if (id == 3)
                header->compressed = value;
            else
                header->checksum = (uint32_t)value;
        } else if (id == 5 && type == LS_COMPACT_STRUCT) {
            int32_t *const places[] = {&data.values, &data.encoding, &header->definition_encoding,
                                       &header->repetition_encoding};
            status = read_numbers(cursor, end, places, 4);
        } else if (id == 7 && type == LS_COMPACT_STRUCT) {
            int32_t *const places[] = {&dictionary.values, &dictionary.encoding};
            status = read_numbers(cursor, end, places, 2);
        } else if (id == 8 && type == LS_COMPACT_STRUCT) {
            int32_t *const places[] = {&second.values, NULL, NULL, &second.encoding};
            status = read_numbers(cursor, end, places, 4);
        } else if (type != LS_COMPACT_TRUE && type != LS_COMPACT_FALSE) {
            status = ls_compact_skip(cursor, end, type, MOST_DEPTH);
        }
        if (status != LS_OK)
            return status;
    }
    header->has_checksum = (seen & 8) != 0;
    if ((seen & 7) != 7 || header->uncompressed < 0 || header->compressed < 0)
        return LS_BAD_HEADER;
    if (header->type != LS_DATA_PAGE && header->type != LS_DICTIONARY_PAGE &&
        header->type != LS_DATA_PAGE_V2)
        return LS_OK;
    claim said = header->type == LS_DATA_PAGE         ? data
                 : header->type == LS_DICTIONARY_PAGE ? dictionary
                                                      : second;
    header->values = said.values;
    header->encoding = said.encoding;
    return LS_OK;
}

/* Returns whether the values of a data page take no more bytes than the page, or are indices of
 * other values. */
static bool is_bounded(int32_t encoding) {
    enum {
        PLAIN_DICTIONARY = 2,
        DELTA_BINARY_PACKED = 5,
        DELTA_LENGTH_BYTE_ARRAY = 6,
        RLE_DICTIONARY = 8,
        BYTE_STREAM_SPLIT = 9
    };
    return encoding == LS_ENCODING_PLAIN || encoding == PLAIN_DICTIONARY ||
           encoding == LS_ENCODING_RLE || encoding == DELTA_BINARY_PACKED ||
           encoding == DELTA_LENGTH_BYTE_ARRAY || encoding == RLE_DICTIONARY ||
           encoding == BYTE_STREAM_SPLIT;
}

ls_status ls_chunk_claims_read(ls_slice chunk, uint64_t values, ls_chunk_claims *claims) {
    const uint8_t *cursor = chunk.data, *end = chunk.data + chunk.size;
    *claims = (ls_chunk_claims){0};
    while (cursor < end && claims->values < values) {
        ls_page_header header;
        claims->page = (size_t)(cursor - chunk.data);
        ls_status status = ls_page_header_read(&cursor, end, &header);
        if (status != LS_OK)
            return status;
        uint32_t size = (uint32_t)header.uncompressed;
        size_t left = (size_t)(end - cursor);
        size_t stored = (size_t)header.compressed < left ? (size_t)header.compressed : left;
        if (header.type == LS_DICTIONARY_PAGE) {
            if (claims->stored_dictionary.data || header.values < 0)
                return LS_BAD_HEADER;
            claims->dictionary = size;
            claims->dictionary_values = (uint32_t)header.values;
            claims->stored_dictionary = (ls_slice){cursor, stored};
        } else {
            if (header.type == LS_DATA_PAGE || header.type == LS_DATA_PAGE_V2) {
                if (header.values < 0)
                    return LS_BAD_HEADER;
                claims->values += (uint64_t)header.values;
                claims->plain += size;
                if (!is_bounded(header.encoding) && size > claims->shared)
                    claims->shared = size;
            }
            /* The size is checked for pages of other types, too: code that skips a page may
             * decompress it first. */
            if (size > claims->largest)
                claims->largest = size;
        }
        /* Old writers did not include the header of the dictionary in the size of the chunk. */
        cursor += stored;
    }
    return LS_OK;
}

/* Writes an i32 whose id follows that of the field before. */
static uint8_t *put_next_i32(uint8_t *out, int32_t value) {
    *out++ = 1 << 4 | LS_COMPACT_I32;
    return ls_put_compact_integer(out, value);
}

uint8_t *ls_page_header_write(const ls_page_header *header, uint8_t *out) {
    out = put_next_i32(out, header->type);
    out = put_next_i32(out, header->uncompressed);
    out = put_next_i32(out, header->compressed);
    int step = 2;
    if (header->has_checksum) {
        out = put_next_i32(out, (int32_t)header->checksum);
        step = 1;
    }
    *out++ = (uint8_t)(step << 4 | LS_COMPACT_STRUCT);
    out = put_next_i32(out, header->values);
    out = put_next_i32(out, header->encoding);
    out = put_next_i32(out, header->definition_encoding);
    out = put_next_i32(out, header->repetition_encoding);
    *out++ = LS_COMPACT_STOP;
    *out++ = LS_COMPACT_STOP;
    return out;
}

static size_t width_of(ls_plain_kind kind) {
    switch (kind) {
    case LS_PLAIN_INT32:
    case LS_PLAIN_FLOAT:
        return 4;
    case LS_PLAIN_INT64:
    case LS_PLAIN_DOUBLE:
        return 8;
    case LS_PLAIN_BYTES:
        break;
    }
    return 0;
}

/* Reads the next of some values that are bytes. */
static inline ls_status next_bytes(const uint8_t **cursor, const uint8_t *end, ls_slice *value) {
    if ((size_t)(end - *cursor) < 4)
        return LS_TRUNCATED;
    uint32_t size = ls_load32(*cursor);
    *cursor += 4;
    if (size > (size_t)(end - *cursor))
        return LS_TRUNCATED;
    *value = (ls_slice){*cursor, size};
    *cursor += size;
    return LS_OK;
}

ls_status ls_plain_longest(ls_slice values, size_t count, uint32_t *longest) {
    const uint8_t *cursor = values.data, *end = values.data + values.size;
    *longest = 0;
    for (size_t i = 0; i < count; i++) {
        ls_slice value;
        ls_status status = next_bytes(&cursor, end, &value);
        if (status != LS_OK)
            return status;
        if (value.size > *longest)
            *longest = (uint32_t)value.size;
    }
    return LS_OK;
}

ls_status ls_plain_size(ls_plain_kind kind, ls_slice values, size_t count, size_t *size) {
    size_t width = width_of(kind);
    if (width) {
        if (count > values.size / width)
            return LS_TRUNCATED;
        *size = count * width;
        return LS_OK;
    }
    const uint8_t *cursor = values.data, *end = values.data + values.size;
    ls_slice value;
    for (size_t i = 0; i < count; i++) {
        ls_status status = next_bytes(&cursor, end, &value);
        if (status != LS_OK)
            return status;
    }
    *size = (size_t)(cursor - values.data);
    return LS_OK;
}

ls_status ls_plain_texts(ls_slice values, size_t count, int32_t at, int32_t *ends, uint8_t *out) {
    const uint8_t *cursor = values.data, *end = values.data + values.size;
    ls_slice value;
    for (size_t i = 0; i < count; i++) {
        ls_status status = next_bytes(&cursor, end, &value);
        if (status != LS_OK)
            return status;
        /* Most values are short: a copy of a constant size is one instruction. */
        if (value.size <= LS_TEXTS_SLACK && (size_t)(end - value.data) >= LS_TEXTS_SLACK)
            memcpy(out + at, value.data, LS_TEXTS_SLACK);
        else
            memcpy(out + at, value.data, value.size);
        at += (int32_t)value.size;
        ends[i] = at;
    }
    return cursor == end ? LS_OK : LS_BAD_RECORD;
}

ls_status ls_texts_plain(const ls_column *texts, uint8_t *out, size_t *size) {
    size_t total = 0;
    for (size_t i = 0; i < texts->length; i++) {
        ls_slice value;
        ls_status status = ls_column_get(texts, i, &value);
        if (status != LS_OK)
            return status;
        if (value.size > INT32_MAX)
            return LS_TOO_LARGE;
        if (out) {
            ls_store32(out + total, (uint32_t)value.size);
            ls_copy(out + total + 4, value.data, value.size);
        }
        total += 4 + value.size;
    }
    *size = total;
    return LS_OK;
}

/* Returns the first eight bytes as a number with their order; shorter values are filled with
 * zeros. */
static inline uint64_t head_of(ls_slice value) {
    if (value.size >= 8)
        return ls_load64_big(value.data);
    uint64_t head = 0;
    for (size_t i = 0; i < value.size; i++)
        head |= (uint64_t)value.data[i] << (56 - 8 * i);
    return head;
}

static int below(ls_slice a, ls_slice b) {
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size ? memcmp(a.data, b.data, size) : 0;
    return order < 0 || (order == 0 && a.size < b.size);
}

static ls_status replace_bytes(ls_slice values, size_t count, const int64_t *places, int64_t first,
                               size_t replaced, ls_slice fresh, uint8_t *out, size_t *out_size,
                               ls_plain_range *range) {
    const uint8_t *old = values.data, *old_end = values.data + values.size;
    const uint8_t *new = fresh.data, *new_end = fresh.data + fresh.size;
    const uint8_t *kept = old; /* nothing from here on is copied yet */
    uint8_t *to = out;
    size_t next = 0;
    uint64_t least = 0, greatest = 0;
    if (range->least.data) {
        least = head_of(range->least);
        greatest = head_of(range->greatest);
    }
    for (size_t row = 0; row < count; row++) {
        const uint8_t *start = old;
        ls_slice value;
        ls_status status = next_bytes(&old, old_end, &value);
        if (status != LS_OK)
            return status;
        if (next < replaced && (uint64_t)(places[next] - first) == row) {
            const uint8_t *from = new;
            size_t before = (size_t)(start - kept);
            status = next_bytes(&new, new_end, &value);
            if (status != LS_OK)
                return status;
            memcpy(to, kept, before);
            to += before;
            memcpy(to, from, (size_t)(new - from));
            to += new - from;
            kept = old;
            next++;
        }
        uint64_t head = head_of(value);
        if (!range->least.data) {
            range->least = range->greatest = value;
            least = greatest = head;
        } else if (head <= least && below(value, range->least)) {
            range->least = value;
            least = head;
        } else if (head >= greatest && below(range->greatest, value)) {
            range->greatest = value;
            greatest = head;
        }
    }
    if (old != old_end || new != new_end || next != replaced)
        return LS_BAD_RECORD;
    memcpy(to, kept, (size_t)(old_end - kept));
    *out_size = (size_t)(to - out) + (size_t)(old_end - kept);
    return LS_OK;
}

/* Widens a range by numbers. For 0 and -0, Parquet requires the sign that makes the range wider;
 * the caller, which knows the whole range, sets it. */
#define WIDEN(name, type)                                                                          \
    static void name(const uint8_t *data, size_t count, ls_plain_range *range) {                   \
        type least, greatest, value;                                                               \
        size_t low = SIZE_MAX, high = SIZE_MAX, i = 0;                                             \
        if (range->least.data) {                                                                   \
            memcpy(&least, range->least.data, sizeof(type));                                       \
            memcpy(&greatest, range->greatest.data, sizeof(type));                                 \
        } else {                                                                                   \
            for (; i < count; i++) {                                                               \
                memcpy(&value, data + i * sizeof(type), sizeof(type));                             \
                if (value == value)                                                                \
                    break;                                                                         \
            }                                                                                      \
            if (i == count)                                                                        \
                return;                                                                            \
            least = greatest = value;                                                              \
            low = high = i;                                                                        \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            memcpy(&value, data + i * sizeof(type), sizeof(type));                                 \
            if (value < least) {                                                                   \
                least = value;                                                                     \
                low = i;                                                                           \
            }                                                                                      \
            if (value > greatest) {                                                                \
                greatest = value;                                                                  \
                high = i;                                                                          \
            }                                                                                      \
        }                                                                                          \
        if (low != SIZE_MAX)                                                                       \
            range->least = (ls_slice){data + low * sizeof(type), sizeof(type)};                    \
        if (high != SIZE_MAX)                                                                      \
            range->greatest = (ls_slice){data + high * sizeof(type), sizeof(type)};                \
    }

WIDEN(widen_int32, int32_t)
WIDEN(widen_int64, int64_t)
WIDEN(widen_float, float)
WIDEN(widen_double, double)

ls_status ls_plain_replace(ls_plain_kind kind, ls_slice values, size_t count, const int64_t *places,
                           int64_t first, size_t replaced, ls_slice fresh, uint8_t *out,
                           size_t *out_size, ls_plain_range *range) {
    size_t width = width_of(kind);
    if (!width)
        return replace_bytes(values, count, places, first, replaced, fresh, out, out_size, range);
    if (count > SIZE_MAX / width || values.size != count * width || replaced > count ||
        fresh.size != replaced * width)
        return LS_BAD_RECORD;
    memcpy(out, values.data, values.size);
    for (size_t i = 0; i < replaced; i++) {
        uint64_t row = (uint64_t)(places[i] - first);
        if (row >= count)
            return LS_BAD_POSITION;
        if (width == 8)
            memcpy(out + row * 8, fresh.data + i * 8, 8);
        else
            memcpy(out + row * 4, fresh.data + i * 4, 4);
    }
    *out_size = values.size;
    switch (kind) {
    case LS_PLAIN_INT32:
        widen_int32(out, count, range);
        break;
    case LS_PLAIN_INT64:
        widen_int64(out, count, range);
        break;
    case LS_PLAIN_FLOAT:
        widen_float(out, count, range);
        break;
    case LS_PLAIN_DOUBLE:
    case LS_PLAIN_BYTES:
        widen_double(out, count, range);
        break;
    }
    return LS_OK;
}
