#include "ls_keys.h"

#include "ls_hash.h"

const char *ls_key_kind_name(int kind) {
    static const char *const names[] = {
        [LS_KEY_UNSIGNED] = "unsigned", [LS_KEY_SIGNED] = "signed", [LS_KEY_FLOAT] = "float",
        [LS_KEY_RAW] = "raw",           [LS_KEY_BYTES] = "bytes",
    };
    return kind < 0 || (size_t)kind >= sizeof names / sizeof *names ? NULL : names[kind];
}

/* The loops below are written once with kind and width as arguments, and inlined where these are
 * constants, so that each pair has its own loop without a branch per key. */
#define LS_INLINE static inline __attribute__((always_inline))

LS_INLINE uint64_t load_native(const uint8_t *p, size_t width) {
    uint8_t v8;
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;
    switch (width) {
    case 1:
        v8 = *p;
        return v8;
    case 2:
        memcpy(&v16, p, 2);
        return v16;
    case 4:
        memcpy(&v32, p, 4);
        return v32;
    default:
        memcpy(&v64, p, 8);
        return v64;
    }
}

LS_INLINE void store_native(uint8_t *p, uint64_t value, size_t width) {
    uint16_t v16 = (uint16_t)value;
    uint32_t v32 = (uint32_t)value;
    switch (width) {
    case 1:
        *p = (uint8_t)value;
        return;
    case 2:
        memcpy(p, &v16, 2);
        return;
    case 4:
        memcpy(p, &v32, 4);
        return;
    default:
        memcpy(p, &value, 8);
        return;
    }
}

LS_INLINE uint64_t to_big(uint64_t value, size_t width) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return value;
#else
    switch (width) {
    case 1:
        return value;
    case 2:
        return __builtin_bswap16((uint16_t)value);
    case 4:
        return __builtin_bswap32((uint32_t)value);
    default:
        return __builtin_bswap64(value);
    }
#endif
}

LS_INLINE uint64_t sign_bit(size_t width) {
    return (uint64_t)1 << (8 * width - 1);
}

LS_INLINE uint64_t infinity_bits(size_t width) {
    return width == 2 ? 0x7c00u : width == 4 ? 0x7f800000u : UINT64_C(0x7ff0000000000000);
}

LS_INLINE uint64_t nan_bits(size_t width) {
    return width == 2 ? 0x7e00u : width == 4 ? 0x7fc00000u : UINT64_C(0x7ff8000000000000);
}

/* Returns the unsigned number with the order of the value. */
LS_INLINE uint64_t to_ordered(uint64_t bits, ls_key_kind kind, size_t width) {
    uint64_t sign = sign_bit(width);
    if (kind == LS_KEY_UNSIGNED)
        return bits;
    if (kind == LS_KEY_SIGNED)
        return bits ^ sign;
    uint64_t magnitude = bits & (sign - 1);
    uint64_t ordered = bits & sign ? ~bits : bits | sign;
    ordered = magnitude == 0 ? sign : ordered;
    return magnitude > infinity_bits(width) ? nan_bits(width) | sign : ordered;
}

LS_INLINE uint64_t from_ordered(uint64_t ordered, ls_key_kind kind, size_t width) {
    uint64_t sign = sign_bit(width);
    if (kind == LS_KEY_UNSIGNED)
        return ordered;
    if (kind == LS_KEY_SIGNED)
        return ordered ^ sign;
    return ordered & sign ? ordered ^ sign : ~ordered;
}

/* Integers wider than a word are little-endian words in Arrow (decimals). */
LS_INLINE void encode_value(uint8_t *out, const uint8_t *value, ls_key_kind kind, size_t width) {
    if (kind == LS_KEY_RAW) {
        memcpy(out, value, width);
    } else if (width <= 8) {
        uint64_t ordered = to_ordered(load_native(value, width), kind, width);
        store_native(out, to_big(ordered, width), width);
    } else {
        for (size_t at = 0; at < width; at += 8) {
            uint64_t word = load_native(value + width - 8 - at, 8);
            store_native(out + at, to_big(at == 0 ? word ^ sign_bit(8) : word, 8), 8);
        }
    }
}

LS_INLINE void decode_value(uint8_t *out, const uint8_t *key, ls_key_kind kind, size_t width) {
    if (kind == LS_KEY_RAW) {
        memcpy(out, key, width);
    } else if (width <= 8) {
        uint64_t ordered = to_big(load_native(key, width), width);
        store_native(out, from_ordered(ordered, kind, width), width);
    } else {
        for (size_t at = 0; at < width; at += 8) {
            uint64_t word = to_big(load_native(key + at, 8), 8);
            store_native(out + width - 8 - at, at == 0 ? word ^ sign_bit(8) : word, 8);
        }
    }
}

/* Calls LOOP(kind, width) with both as constants. */
#define LS_DISPATCH(field, LOOP)                                                                   \
    switch ((field)->kind) {                                                                       \
    case LS_KEY_UNSIGNED:                                                                          \
        switch ((field)->width) {                                                                  \
        case 1:                                                                                    \
            LOOP(LS_KEY_UNSIGNED, 1);                                                              \
        case 2:                                                                                    \
            LOOP(LS_KEY_UNSIGNED, 2);                                                              \
        case 4:                                                                                    \
            LOOP(LS_KEY_UNSIGNED, 4);                                                              \
        default:                                                                                   \
            LOOP(LS_KEY_UNSIGNED, 8);                                                              \
        }                                                                                          \
    case LS_KEY_SIGNED:                                                                            \
        switch ((field)->width) {                                                                  \
        case 1:                                                                                    \
            LOOP(LS_KEY_SIGNED, 1);                                                                \
        case 2:                                                                                    \
            LOOP(LS_KEY_SIGNED, 2);                                                                \
        case 4:                                                                                    \
            LOOP(LS_KEY_SIGNED, 4);                                                                \
        case 8:                                                                                    \
            LOOP(LS_KEY_SIGNED, 8);                                                                \
        case 16:                                                                                   \
            LOOP(LS_KEY_SIGNED, 16);                                                               \
        default:                                                                                   \
            LOOP(LS_KEY_SIGNED, 32);                                                               \
        }                                                                                          \
    case LS_KEY_FLOAT:                                                                             \
        switch ((field)->width) {                                                                  \
        case 2:                                                                                    \
            LOOP(LS_KEY_FLOAT, 2);                                                                 \
        case 4:                                                                                    \
            LOOP(LS_KEY_FLOAT, 4);                                                                 \
        default:                                                                                   \
            LOOP(LS_KEY_FLOAT, 8);                                                                 \
        }                                                                                          \
    default:                                                                                       \
        if ((field)->width == 16)                                                                  \
            LOOP(LS_KEY_RAW, 16);                                                                  \
        LOOP(LS_KEY_RAW, (field)->width);                                                          \
    }

static size_t escaped_size(ls_slice value) {
    size_t zeros = 0;
    const uint8_t *p = value.data, *end = value.data + value.size;
    while (p < end && (p = memchr(p, 0, (size_t)(end - p))) != NULL) {
        zeros++;
        p++;
    }
    return value.size + zeros + 2;
}

static uint8_t *put_escaped(uint8_t *out, ls_slice value) {
    const uint8_t *p = value.data, *end = value.data + value.size;
    while (p < end) {
        const uint8_t *zero = memchr(p, 0, (size_t)(end - p));
        size_t run = (size_t)((zero == NULL ? end : zero) - p);
        memcpy(out, p, run);
        out += run;
        p += run;
        if (zero != NULL) {
            *out++ = 0x00;
            *out++ = 0xff;
            p++;
        }
    }
    *out++ = 0x00;
    *out++ = 0x00;
    return out;
}

ls_status ls_keys_add_sizes(const ls_key_field *field, const ls_column *values, int64_t *sizes) {
    int has_nulls = field->nullable && values->validity != NULL;
    if (field->kind != LS_KEY_BYTES) {
        for (size_t i = 0; has_nulls && i < values->length; i++)
            sizes[i] -= ls_column_is_valid(values, i) ? 0 : (int64_t)field->width;
        return LS_OK;
    }
    for (size_t i = 0; i < values->length; i++) {
        ls_slice value;
        if (has_nulls && !ls_column_is_valid(values, i))
            continue;
        ls_status status = ls_column_get(values, i, &value);
        if (status != LS_OK)
            return status;
        sizes[i] += (int64_t)(field->last ? value.size : escaped_size(value));
    }
    return LS_OK;
}

int64_t ls_keys_starts(int64_t *sizes, size_t length) {
    int64_t total = 0;
    for (size_t i = 0; i < length; i++) {
        int64_t size = sizes[i];
        sizes[i] = total;
        total += size;
    }
    return total;
}

LS_INLINE ls_status write_values(const ls_key_field *field, const ls_column *values, size_t offset,
                                 ls_key_target *target, ls_key_kind kind, size_t width) {
    const uint8_t *from = values->data;
    size_t length = values->length;
    if (target->stride != 0 && target->stride == width) { /* dense on both sides: vectorises */
        uint8_t *to = target->data;
        for (size_t i = 0; i < length; i++)
            encode_value(to + i * width, from + i * width, kind, width);
    } else if (target->stride != 0) {
        uint8_t *to = target->data + offset;
        for (size_t i = 0; i < length; i++)
            encode_value(to + i * target->stride, from + i * width, kind, width);
    } else {
        for (size_t i = 0; i < length; i++) {
            uint8_t *to = target->data + target->cursors[i];
            if (field->nullable) {
                int valid = ls_column_is_valid(values, i);
                *to++ = (uint8_t)valid;
                target->cursors[i]++;
                if (!valid)
                    continue;
            }
            encode_value(to, from + i * width, kind, width);
            target->cursors[i] += (int64_t)width;
        }
    }
    return LS_OK;
}

static ls_status write_bytes(const ls_key_field *field, const ls_column *values,
                             ls_key_target *target) {
    for (size_t i = 0; i < values->length; i++) {
        uint8_t *start = target->data + target->cursors[i], *to = start;
        ls_slice value;
        if (field->nullable) {
            int valid = ls_column_is_valid(values, i);
            *to++ = (uint8_t)valid;
            if (!valid) {
                target->cursors[i]++;
                continue;
            }
        }
        ls_status status = ls_column_get(values, i, &value);
        if (status != LS_OK)
            return status;
        if (field->last) {
            if (value.size != 0)
                memcpy(to, value.data, value.size);
            to += value.size;
        } else {
            to = put_escaped(to, value);
        }
        target->cursors[i] += to - start;
    }
    return LS_OK;
}

ls_status ls_keys_write(const ls_key_field *field, const ls_column *values, size_t offset,
                        ls_key_target *target) {
    if (field->kind == LS_KEY_BYTES)
        return write_bytes(field, values, target);
    if (values->length == 0 || (field->width == 0 && !field->nullable))
        return LS_OK;
#define LS_WRITE(kind, width) return write_values(field, values, offset, target, kind, width)
    LS_DISPATCH(field, LS_WRITE)
#undef LS_WRITE
}

ls_status ls_keys_check_width(const ls_column *keys, size_t width, size_t *bad) {
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice key;
        ls_status status = ls_column_get(keys, i, &key);
        if (status == LS_OK && key.size == width)
            continue;
        *bad = i;
        return status == LS_OK ? LS_BAD_ROW : status;
    }
    return LS_OK;
}

LS_INLINE void read_strided(const ls_column *keys, size_t offset, uint8_t *out, ls_key_kind kind,
                            size_t width) {
    const uint8_t *from = keys->data + offset;
    if (keys->width == width) {
        for (size_t i = 0; i < keys->length; i++)
            decode_value(out + i * width, from + i * width, kind, width);
    } else {
        for (size_t i = 0; i < keys->length; i++)
            decode_value(out + i * width, from + i * keys->width, kind, width);
    }
}

void ls_keys_read_strided(const ls_key_field *field, const ls_column *keys, size_t offset,
                          uint8_t *out) {
    if (keys->length == 0 || field->width == 0)
        return;
#define LS_READ(kind, width)                                                                       \
    {                                                                                              \
        read_strided(keys, offset, out, kind, width);                                              \
        return;                                                                                    \
    }
    LS_DISPATCH(field, LS_READ)
#undef LS_READ
}

/* The remaining bytes of key i at its cursor, after the marker of a nullable field. */
LS_INLINE ls_status next_field(const ls_key_field *field, const ls_column *keys, size_t i,
                               int64_t cursor, ls_slice *rest, int *valid) {
    ls_status status = ls_column_get(keys, i, rest);
    if (status != LS_OK)
        return status;
    *valid = 1;
    if (cursor != 0) { /* inside of the key: only checked reads have advanced it */
        rest->data += cursor;
        rest->size -= (size_t)cursor;
    }
    if (!field->nullable)
        return LS_OK;
    if (rest->size == 0 || rest->data[0] > 1)
        return LS_BAD_ROW;
    *valid = rest->data[0];
    rest->data++;
    rest->size--;
    return LS_OK;
}

LS_INLINE ls_status read_fixed(const ls_key_field *field, const ls_column *keys, int64_t *cursors,
                               uint8_t *out, uint8_t *validity, size_t *nulls, size_t *bad,
                               ls_key_kind kind, size_t width) {
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice rest;
        int valid = 1;
        ls_status status = next_field(field, keys, i, cursors[i], &rest, &valid);
        if (status == LS_OK && valid && rest.size < width)
            status = LS_BAD_ROW;
        if (status != LS_OK) {
            *bad = i;
            return status;
        }
        if (field->nullable) {
            validity[i >> 3] |= (uint8_t)(valid << (i & 7));
            cursors[i]++;
            if (!valid) {
                memset(out + i * width, 0, width);
                ++*nulls;
                continue;
            }
        }
        if (width != 0)
            decode_value(out + i * width, rest.data, kind, width);
        cursors[i] += (int64_t)width;
    }
    return LS_OK;
}

ls_status ls_keys_read_fixed(const ls_key_field *field, const ls_column *keys, int64_t *cursors,
                             uint8_t *out, uint8_t *validity, size_t *nulls, size_t *bad) {
#define LS_READ(kind, width)                                                                       \
    return read_fixed(field, keys, cursors, out, validity, nulls, bad, kind, width)
    LS_DISPATCH(field, LS_READ)
#undef LS_READ
}

/* Copies the value that starts at `data` to out (unless NULL); *taken is its stored size. */
static ls_status get_escaped(ls_slice rest, uint8_t *out, size_t *taken, size_t *size) {
    const uint8_t *p = rest.data, *end = rest.data + rest.size;
    size_t written = 0;
    for (;;) {
        const uint8_t *zero = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;
        if (zero == NULL || end - zero < 2 || (zero[1] != 0x00 && zero[1] != 0xff))
            return LS_BAD_ROW;
        size_t run = (size_t)(zero - p) + (zero[1] == 0xff);
        if (out != NULL && run != 0)
            memcpy(out + written, p, run);
        written += run;
        p = zero + 2;
        if (zero[1] == 0x00)
            break;
    }
    *taken = (size_t)(p - rest.data);
    *size = written;
    return LS_OK;
}

ls_status ls_keys_measure_bytes(const ls_key_field *field, const ls_column *keys,
                                const int64_t *cursors, int64_t *offsets, size_t *bad) {
    offsets[0] = 0;
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice rest;
        int valid = 1;
        size_t taken, size = 0;
        ls_status status = next_field(field, keys, i, cursors[i], &rest, &valid);
        if (status == LS_OK && valid) {
            if (field->last)
                size = rest.size;
            else
                status = get_escaped(rest, NULL, &taken, &size);
        }
        if (status != LS_OK) {
            *bad = i;
            return status;
        }
        offsets[i + 1] = offsets[i] + (int64_t)size;
    }
    return LS_OK;
}

ls_status ls_keys_read_bytes(const ls_key_field *field, const ls_column *keys, int64_t *cursors,
                             uint8_t *out, uint8_t *validity, size_t *nulls, size_t *bad) {
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice rest;
        int valid = 1;
        size_t taken = 0, size = 0;
        ls_status status = next_field(field, keys, i, cursors[i], &rest, &valid);
        if (status == LS_OK && valid) {
            if (field->last) {
                taken = size = rest.size;
                if (size != 0)
                    memcpy(out, rest.data, size);
            } else {
                status = get_escaped(rest, out, &taken, &size);
            }
        }
        if (status != LS_OK) {
            *bad = i;
            return status;
        }
        if (field->nullable) {
            validity[i >> 3] |= (uint8_t)(valid << (i & 7));
            *nulls += !valid;
            cursors[i]++;
        }
        cursors[i] += (int64_t)taken;
        out += size;
    }
    return LS_OK;
}

ls_status ls_keys_check_ends(const ls_column *keys, const int64_t *cursors, size_t *bad) {
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice key;
        ls_status status = ls_column_get(keys, i, &key);
        if (status == LS_OK && (uint64_t)cursors[i] == key.size)
            continue;
        *bad = i;
        return status == LS_OK ? LS_BAD_ROW : status;
    }
    return LS_OK;
}

ls_status ls_keys_buckets(const ls_column *keys, uint32_t buckets, uint32_t *out) {
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice key;
        if (!ls_column_is_valid(keys, i)) {
            out[i] = 0;
            continue;
        }
        ls_status status = ls_column_get(keys, i, &key);
        if (status != LS_OK)
            return status;
        uint64_t hash = keys->hashes == NULL ? ls_hash(key) : keys->hashes[i];
        out[i] = (uint32_t)(hash % buckets);
    }
    return LS_OK;
}
