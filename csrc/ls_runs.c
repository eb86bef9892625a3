#include "ls_runs.h"
#include "ls_compact.h"

/* Maximum number of values of a run. */
enum { MOST_RUN = 512, SHORTEST_RUN = 3 };

typedef struct {
    uint64_t values[MOST_RUN]; /* signed if they can be negative */
    size_t count;
    bool is_signed;
} run;

/* Decodes a number of a run that is stored in the form for negative numbers. */
static uint64_t number_of(uint64_t stored, const run *one) {
    return one->is_signed ? stored >> 1 ^ (0 - (stored & 1)) : stored;
}

/* Returns the number of bits of values for a code. */
static unsigned width_of(unsigned code) {
    static const uint8_t wide[] = {26, 28, 30, 32, 40, 48, 56, 64};
    return code < 24 ? code + 1 : wide[code - 24];
}

/* Returns the next width with which values can be packed. */
static unsigned packed_width(unsigned width) {
    unsigned code = 0;
    while (width_of(code) < width)
        code++;
    return width_of(code);
}

static ls_status get_byte(const uint8_t **cursor, const uint8_t *end, unsigned *value) {
    if (*cursor >= end)
        return LS_TRUNCATED;
    *value = *(*cursor)++;
    return LS_OK;
}

/* Reads a number of whole bytes, the most significant first. */
static ls_status get_bytes(const uint8_t **cursor, const uint8_t *end, unsigned size,
                           uint64_t *value) {
    if (size > (size_t)(end - *cursor))
        return LS_TRUNCATED;
    *value = 0;
    for (unsigned i = 0; i < size; i++)
        *value = *value << 8 | *(*cursor)++;
    return LS_OK;
}

/* Reads numbers with the same number of bits, the most significant first, up to the end of a
 * byte. */
static ls_status unpack(const uint8_t **cursor, const uint8_t *end, unsigned width, size_t count,
                        uint64_t *values) {
    if ((count * width + 7) / 8 > (size_t)(end - *cursor))
        return LS_TRUNCATED;
    unsigned left = 0, byte = 0; /* bits of the last byte */
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        for (unsigned need = width; need > 0;) {
            if (left == 0) {
                byte = *(*cursor)++;
                left = 8;
            }
            unsigned take = need < left ? need : left;
            left -= take;
            need -= take;
            value = value << take | (byte >> left & ((1u << take) - 1));
        }
        values[i] = value;
    }
    return LS_OK;
}

static ls_status read_short_repeat(const uint8_t **cursor, const uint8_t *end, unsigned first,
                                   run *one) {
    uint64_t value;
    ls_status status = get_bytes(cursor, end, (first >> 3 & 7) + 1, &value);
    if (status != LS_OK)
        return status;
    one->count = (first & 7) + SHORTEST_RUN;
    for (size_t i = 0; i < one->count; i++)
        one->values[i] = number_of(value, one);
    return LS_OK;
}

/* Reads the second byte of a run, and computes the number of its values. */
static ls_status get_count(const uint8_t **cursor, const uint8_t *end, unsigned first,
                           size_t *count) {
    unsigned second;
    ls_status status = get_byte(cursor, end, &second);
    if (status == LS_OK)
        *count = ((first & 1) << 8 | second) + 1;
    return status;
}

/* Applies patches, each of which contains its distance from the value of the one before. An input
 * for which other readers would read past the patches, or patch another value, is an error. */
static ls_status apply(const uint64_t *patches, size_t count, unsigned patch_width, unsigned width,
                       run *one) {
    uint64_t at = 0, gap = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t patch = patches[i] & (((uint64_t)1 << patch_width) - 1);
        gap += patches[i] >> patch_width;
        if (patch == 0 && patches[i] >> patch_width == 255) { /* the gap continues */
            if (i == count - 1)
                return LS_BAD_RECORD;
            continue;
        }
        if ((gap == 0 && i > 0) || (at += gap) >= one->count || width > 63)
            return LS_BAD_RECORD;
        one->values[at] |= patch << width;
        gap = 0;
    }
    return LS_OK;
}

static ls_status read_patched(const uint8_t **cursor, const uint8_t *end, unsigned first,
                              run *one) {
    unsigned third, fourth, width = width_of(first >> 1 & 31);
    uint64_t base, patches[31];
    ls_status status = get_count(cursor, end, first, &one->count);
    if (status == LS_OK)
        status = get_byte(cursor, end, &third);
    if (status == LS_OK)
        status = get_byte(cursor, end, &fourth);
    if (status != LS_OK)
        return status;
    unsigned base_bytes = (third >> 5) + 1, patch_width = width_of(third & 31);
    unsigned gap_width = (fourth >> 5) + 1, patch_count = fourth & 31;
    if (patch_count == 0 || patch_width + gap_width > 64)
        return LS_BAD_RECORD;
    status = get_bytes(cursor, end, base_bytes, &base);
    uint64_t sign = (uint64_t)1 << (base_bytes * 8 - 1);
    if (status == LS_OK)
        status = unpack(cursor, end, width, one->count, one->values);
    if (status == LS_OK)
        status = unpack(cursor, end, packed_width(patch_width + gap_width), patch_count, patches);
    if (status == LS_OK)
        status = apply(patches, patch_count, patch_width, width, one);
    base = base & sign ? 0 - (base & ~sign) : base;
    for (size_t i = 0; status == LS_OK && i < one->count; i++)
        one->values[i] += base;
    return status;
}

static ls_status read_delta(const uint8_t **cursor, const uint8_t *end, unsigned first, run *one) {
    unsigned code = first >> 1 & 31;
    uint64_t value;
    int64_t delta;
    ls_status status = get_count(cursor, end, first, &one->count);
    if (status == LS_OK)
        status = ls_compact_varint(cursor, end, &value);
    if (status == LS_OK)
        status = ls_compact_integer(cursor, end, &delta);
    if (status == LS_OK && code != 0) {
        if (one->count < 2)
            return LS_BAD_RECORD;
        status = unpack(cursor, end, width_of(code), one->count - 2, one->values + 2);
    }
    if (status != LS_OK)
        return status;
    value = number_of(value, one);
    one->values[0] = value;
    for (size_t i = 1; i < one->count; i++) {
        if (i == 1 || code == 0)
            value += (uint64_t)delta;
        else
            value += delta < 0 ? 0 - one->values[i] : one->values[i];
        one->values[i] = value;
    }
    return LS_OK;
}

static ls_status read_run_2(const uint8_t **cursor, const uint8_t *end, run *one) {
    enum { SHORT_REPEAT, DIRECT, PATCHED_BASE, DELTA };
    unsigned first;
    ls_status status = get_byte(cursor, end, &first);
    if (status != LS_OK)
        return status;
    switch (first >> 6) {
    case SHORT_REPEAT:
        return read_short_repeat(cursor, end, first, one);
    case DIRECT:
        status = get_count(cursor, end, first, &one->count);
        if (status != LS_OK)
            return status;
        status = unpack(cursor, end, width_of(first >> 1 & 31), one->count, one->values);
        for (size_t i = 0; status == LS_OK && i < one->count; i++)
            one->values[i] = number_of(one->values[i], one);
        return status;
    case PATCHED_BASE:
        return read_patched(cursor, end, first, one);
    default:
        return read_delta(cursor, end, first, one);
    }
}

static ls_status read_run_1(const uint8_t **cursor, const uint8_t *end, run *one) {
    unsigned first, delta;
    ls_status status = get_byte(cursor, end, &first);
    if (status != LS_OK)
        return status;
    if (first >= 0x80) {
        one->count = 0x100 - first;
        for (size_t i = 0; status == LS_OK && i < one->count; i++) {
            status = ls_compact_varint(cursor, end, &one->values[i]);
            one->values[i] = number_of(one->values[i], one);
        }
        return status;
    }
    one->count = first + SHORTEST_RUN;
    status = get_byte(cursor, end, &delta);
    if (status == LS_OK)
        status = ls_compact_varint(cursor, end, &one->values[0]);
    one->values[0] = number_of(one->values[0], one);
    for (size_t i = 1; status == LS_OK && i < one->count; i++)
        one->values[i] = one->values[i - 1] + (uint64_t)(int64_t)(int8_t)delta;
    return status;
}

ls_status ls_lengths_read(ls_slice runs, ls_runs_version version, bool is_signed,
                          ls_lengths *lengths) {
    const uint8_t *cursor = runs.data, *end = runs.data + runs.size;
    run one = {.is_signed = is_signed};
    *lengths = (ls_lengths){0};
    while (cursor < end) {
        ls_status status =
            version == LS_RUNS_1 ? read_run_1(&cursor, end, &one) : read_run_2(&cursor, end, &one);
        if (status != LS_OK)
            return status;
        for (size_t i = 0; i < one.count; i++) {
            uint64_t value = one.values[i];
            if (value > INT32_MAX)
                return LS_BAD_RECORD;
            lengths->sum += value;
            if (value > lengths->longest)
                lengths->longest = value;
        }
        lengths->count += one.count;
    }
    return LS_OK;
}

ls_status ls_byte_runs_greatest(ls_slice runs, uint8_t *greatest) {
    const uint8_t *cursor = runs.data, *end = runs.data + runs.size;
    *greatest = 0;
    while (cursor < end) {
        unsigned first = *cursor++;
        size_t stored = first >= 0x80 ? 0x100 - first : 1;
        if (stored > (size_t)(end - cursor))
            return LS_TRUNCATED;
        for (size_t i = 0; i < stored; i++)
            if (cursor[i] > *greatest)
                *greatest = cursor[i];
        cursor += stored;
    }
    return LS_OK;
}

/* Reads the bytes after a length of 15: they are added, and the last one is not 255. */
static ls_status get_more(const uint8_t **cursor, const uint8_t *end, uint64_t *length) {
    unsigned byte = *length == 15 ? 255 : 0;
    while (byte == 255) {
        ls_status status = get_byte(cursor, end, &byte);
        if (status != LS_OK)
            return status;
        *length += byte;
    }
    return LS_OK;
}

ls_status ls_lz4_size(ls_slice block, uint64_t *size) {
    const uint8_t *cursor = block.data, *end = block.data + block.size;
    *size = 0;
    while (cursor < end) {
        unsigned token = *cursor++;
        uint64_t literals = token >> 4, match = token & 15;
        ls_status status = get_more(&cursor, end, &literals);
        if (status != LS_OK)
            return status;
        if (literals > (size_t)(end - cursor))
            return LS_TRUNCATED;
        cursor += literals;
        *size += literals;
        if (cursor == end) /* the last sequence has no match */
            return LS_OK;
        if (2 > end - cursor)
            return LS_TRUNCATED;
        cursor += 2;
        status = get_more(&cursor, end, &match);
        if (status != LS_OK)
            return status;
        *size += match + 4;
    }
    return LS_OK;
}
