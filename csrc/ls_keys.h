/* Conversion between typed columns and keys whose unsigned byte order is the order of the values.
 *
 * A key consists of its fields in sequence. A nullable field starts with a marker byte: 0 for null
 * (nothing follows), 1 for a value. Numbers are big-endian; bytes are raw in the last field and
 * escaped (00 becomes 00 FF, the end is 00 00) in an earlier one, so that no value is a prefix of
 * another. Every function below processes one field of a whole batch. */
#ifndef LS_KEYS_H
#define LS_KEYS_H

#include "ls_column.h"

typedef enum {
    LS_KEY_UNSIGNED = 0, /* native-endian integers of 1, 2, 4 or 8 bytes */
    LS_KEY_SIGNED = 1,   /* the same in two's complement, and of 16 or 32 bytes (little-endian) */
    LS_KEY_FLOAT = 2,    /* IEEE 754 of 2, 4 or 8 bytes: -0.0 becomes 0.0, NaNs one, the last */
    LS_KEY_RAW = 3,      /* bytes, the same number in every value */
    LS_KEY_BYTES = 4,    /* bytes, any number */
} ls_key_kind;

/* Returns the name of a kind in Python; NULL if there is no such kind. */
const char *ls_key_kind_name(int kind);

typedef struct {
    ls_key_kind kind;
    size_t width; /* bytes of a value; 0 for LS_KEY_BYTES */
    int nullable;
    int last; /* LS_KEY_BYTES: nothing follows, so nothing is escaped */
} ls_key_field;

/* Destination of keys: all of one size (stride), or each at its own cursor. */
typedef struct {
    uint8_t *data;
    size_t stride;    /* bytes of every key, or 0 */
    int64_t *cursors; /* if stride is 0: position of the next field of each key; advanced */
    size_t length;
} ls_key_target;

/* Adds to sizes[i] the bytes of the field of key i beyond its marker and width: the bytes of
 * LS_KEY_BYTES, minus the width of a null. */
ls_status ls_keys_add_sizes(const ls_key_field *field, const ls_column *values, int64_t *sizes);

/* Converts sizes to starts in place; returns the sum of all sizes. */
int64_t ls_keys_starts(int64_t *sizes, size_t length);

/* REQUIRES: the target has the room that ls_keys_add_sizes counted. `offset` is the offset of the
 * field in every key of a target with a stride. Nulls of a field that is not nullable are written
 * as any value stored for them. */
ls_status ls_keys_write(const ls_key_field *field, const ls_column *values, size_t offset,
                        ls_key_target *target);

/* Checks that all values have exactly `width` bytes, so that they are stored like fixed ones;
 * otherwise *bad is the first that does not. */
ls_status ls_keys_check_width(const ls_column *keys, size_t width, size_t *bad);

/* Reads a field that is not nullable, from keys of one size. */
void ls_keys_read_strided(const ls_key_field *field, const ls_column *keys, size_t offset,
                          uint8_t *out);

/* The cursors are relative to the start of each key. LS_BAD_ROW: key *bad does not fit the field.
 * `validity` is a zeroed bitmap, needed only by nullable fields; nulls are counted. */
ls_status ls_keys_read_fixed(const ls_key_field *field, const ls_column *keys, int64_t *cursors,
                             uint8_t *out, uint8_t *validity, size_t *nulls, size_t *bad);

/* For LS_KEY_BYTES, in two passes over the keys: the first call finds the end of each value in the
 * output (length + 1 offsets), the second copies and advances the cursors. */
ls_status ls_keys_measure_bytes(const ls_key_field *field, const ls_column *keys,
                                const int64_t *cursors, int64_t *offsets, size_t *bad);
ls_status ls_keys_read_bytes(const ls_key_field *field, const ls_column *keys, int64_t *cursors,
                             uint8_t *out, uint8_t *validity, size_t *nulls, size_t *bad);

/* LS_BAD_ROW: key *bad has bytes after its last field. */
ls_status ls_keys_check_ends(const ls_column *keys, const int64_t *cursors, size_t *bad);

/* Computes XXH64 of each key, seed 0, modulo `buckets`; 0 for a null. */
ls_status ls_keys_buckets(const ls_column *keys, uint32_t buckets, uint32_t *out);

#endif
