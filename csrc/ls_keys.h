/* Typed columns to and from keys whose unsigned byte order is the typed order.
 *
 * A key is its fields one after the other. A nullable field starts with a marker byte: 0 for null
 * (nothing follows), 1 for a value. Numbers are big-endian; bytes are raw in the last field and
 * escaped (00 becomes 00 FF, the end is 00 00) in an earlier one, so that no value is a prefix of
 * another. Every function below works on one field of a whole batch. */
#ifndef LS_KEYS_H
#define LS_KEYS_H

#include "ls_column.h"

typedef enum {
    LS_KEY_UNSIGNED = 0, /* native-endian integers of 1, 2, 4 or 8 bytes */
    LS_KEY_SIGNED = 1,   /* the same in two's complement, and of 16 or 32 bytes (little-endian) */
    LS_KEY_FLOAT = 2,    /* IEEE 754 of 2, 4 or 8 bytes: -0.0 becomes 0.0, NaN is one and last */
    LS_KEY_RAW = 3,      /* bytes, the same number in every value */
    LS_KEY_BYTES = 4,    /* bytes, any number */
} ls_key_kind;

/* How Python calls a kind; NULL where there is none. */
const char *ls_key_kind_name(int kind);

typedef struct {
    ls_key_kind kind;
    size_t width; /* bytes of a value; 0 for LS_KEY_BYTES */
    int nullable;
    int last; /* LS_KEY_BYTES: nothing follows, so nothing is escaped */
} ls_key_field;

/* Where keys are written: all of one size (stride), or each at its own cursor. */
typedef struct {
    uint8_t *data;
    size_t stride;    /* bytes of every key, or 0 */
    int64_t *cursors; /* if stride is 0: where the next field of each key goes; moves on */
    size_t length;
} ls_key_target;

/* Adds to sizes[i] what the field of key i takes beyond its marker and width: the bytes of
 * LS_KEY_BYTES, less the width of a null. */
ls_status ls_keys_add_sizes(const ls_key_field *field, const ls_column *values, int64_t *sizes);

/* Turns sizes into starts in place; returns the sum of all sizes. */
int64_t ls_keys_starts(int64_t *sizes, size_t length);

/* REQUIRES: the target has the room that ls_keys_add_sizes counted. `offset` is where the field
 * stands in every key of a target with a stride. Nulls of a field that is not nullable are
 * written as whatever lies under them. */
ls_status ls_keys_write(const ls_key_field *field, const ls_column *values, size_t offset,
                        ls_key_target *target);

/* Whether all values have exactly `width` bytes, so that they lie in memory like fixed ones;
 * otherwise *bad is the first that does not. */
ls_status ls_keys_check_width(const ls_column *keys, size_t width, size_t *bad);

/* Reads a field that is not nullable, of keys of one size. */
void ls_keys_read_strided(const ls_key_field *field, const ls_column *keys, size_t offset,
                          uint8_t *out);

/* The cursors count from the start of each key. LS_BAD_ROW: key *bad does not fit the field.
 * `validity` is a zeroed bitmap, needed by nullable fields only; nulls are counted. */
ls_status ls_keys_read_fixed(const ls_key_field *field, const ls_column *keys, int64_t *cursors,
                             uint8_t *out, uint8_t *validity, size_t *nulls, size_t *bad);

/* For LS_KEY_BYTES, twice over the keys: the first call finds where each value ends in the output
 * (length + 1 offsets), the second copies and moves the cursors on. */
ls_status ls_keys_measure_bytes(const ls_key_field *field, const ls_column *keys,
                                const int64_t *cursors, int64_t *offsets, size_t *bad);
ls_status ls_keys_read_bytes(const ls_key_field *field, const ls_column *keys, int64_t *cursors,
                             uint8_t *out, uint8_t *validity, size_t *nulls, size_t *bad);

/* LS_BAD_ROW: key *bad has bytes after its last field. */
ls_status ls_keys_check_ends(const ls_column *keys, const int64_t *cursors, size_t *bad);

/* XXH64 of each key, seed 0, modulo `buckets`; 0 for a null. */
ls_status ls_keys_buckets(const ls_column *keys, uint32_t buckets, uint32_t *out);

#endif
