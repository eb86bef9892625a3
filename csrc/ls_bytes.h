/* Slices, little-endian loads and stores, varints. Every read takes an end pointer. */
#ifndef LS_BYTES_H
#define LS_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ls_status.h"

/* Prefetches memory into the second-level cache, which can hold more of it than the first. */
#define LS_PREFETCH(address) __builtin_prefetch(address, 0, 2)

typedef struct {
    const uint8_t *data;
    size_t size;
} ls_slice;

/* Copies a few bytes: sizes known to the compiler become a few moves. `from` may be NULL if size is
 * 0. */
static inline void ls_copy(uint8_t *to, const uint8_t *from, size_t size) {
    if (size == 8)
        memcpy(to, from, 8);
    else if (size == 32)
        memcpy(to, from, 32);
    else if (size > 0)
        memcpy(to, from, size);
}

/* Returns whether bytes are equal, comparing few bytes with loads instead of a call. */
static inline int ls_same_bytes(const uint8_t *a, const uint8_t *b, size_t size) {
    if (size == 8)
        return memcmp(a, b, 8) == 0;
    if (size > 8 && size <= 16)
        return memcmp(a, b, 8) == 0 && memcmp(a + size - 8, b + size - 8, 8) == 0;
    if (size > 16 && size <= 32)
        return memcmp(a, b, 16) == 0 && memcmp(a + size - 16, b + size - 16, 16) == 0;
    return size == 0 || memcmp(a, b, size) == 0;
}

static inline uint32_t ls_load32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t ls_load64(const uint8_t *p) {
    return (uint64_t)ls_load32(p) | (uint64_t)ls_load32(p + 4) << 32;
}

static inline uint64_t ls_load64_big(const uint8_t *p) {
    uint64_t value;
    memcpy(&value, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return value;
#else
    return __builtin_bswap64(value);
#endif
}

static inline void ls_store32(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
    p[2] = (uint8_t)(value >> 16);
    p[3] = (uint8_t)(value >> 24);
}

static inline void ls_store64(uint8_t *p, uint64_t value) {
    ls_store32(p, (uint32_t)value);
    ls_store32(p + 4, (uint32_t)(value >> 32));
}

/* Returns a number with the order of the first 8 bytes: if prefix(a) < prefix(b) then a < b. */
static inline uint64_t ls_bytes_prefix(const uint8_t *p, size_t size) {
    if (size >= 8)
        return ls_load64_big(p);
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)p[i] << (56 - 8 * i);
    return value;
}

static inline int ls_compare_bytes(ls_slice a, ls_slice b) {
    size_t shared = a.size < b.size ? a.size : b.size;
    if (shared >= 8) { /* most keys differ here, without a call */
        uint64_t x = ls_load64_big(a.data), y = ls_load64_big(b.data);
        if (x != y)
            return x < y ? -1 : 1;
    }
    int order = shared == 0 ? 0 : memcmp(a.data, b.data, shared);
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

/* LEB128: 7 bits per byte, least significant group first, high bit on all bytes but the last. */
static inline size_t ls_varint_size(uint64_t value) {
    size_t size = 1;
    while (value >= 0x80) {
        value >>= 7;
        size++;
    }
    return size;
}

/* Writes at most 10 bytes; the caller must have made room for ls_varint_size(value). */
static inline uint8_t *ls_put_varint(uint8_t *p, uint64_t value) {
    while (value >= 0x80) {
        *p++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *p++ = (uint8_t)value;
    return p;
}

/* Reads a length or count: at most 5 bytes, and at most the greatest int of Java. */
static inline ls_status ls_get_varint32(const uint8_t **cursor, const uint8_t *end,
                                        uint32_t *value) {
    const uint8_t *p = *cursor;
    uint64_t result = 0;
    if (p < end && *p < 0x80) { /* nearly every length is below 128 */
        *value = *p;
        *cursor = p + 1;
        return LS_OK;
    }
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (p >= end)
            return LS_TRUNCATED;
        uint8_t byte = *p++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (result > INT32_MAX)
                return LS_BAD_VARINT;
            *value = (uint32_t)result;
            *cursor = p;
            return LS_OK;
        }
    }
    return LS_BAD_VARINT;
}

/* Reads an offset or row id: at most 10 bytes, and at most the greatest long of Java. */
static inline ls_status ls_get_varint64(const uint8_t **cursor, const uint8_t *end,
                                        uint64_t *value) {
    const uint8_t *p = *cursor;
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (p >= end)
            return LS_TRUNCATED;
        uint8_t byte = *p++;
        if (shift == 63 && (byte & 0x7f) != 0)
            return LS_BAD_VARINT;
        result |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80) {
            if (result > INT64_MAX)
                return LS_BAD_VARINT;
            *value = result;
            *cursor = p;
            return LS_OK;
        }
    }
    return LS_BAD_VARINT;
}

#endif
