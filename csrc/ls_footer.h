/* Row groups in the footer of a Parquet file, checked in place, without a copy of them.
 *
 * Source: parquet-format, parquet.thrift (RowGroup, ColumnChunk, ColumnMetaData). */
#ifndef LS_FOOTER_H
#define LS_FOOTER_H

#include "ls_bytes.h"

/* A number that a footer does not contain. */
#define LS_NO_NUMBER INT64_MIN

/* A Parquet column of the schema. */
typedef struct {
    ls_slice name;
    int64_t kind;  /* its physical type; LS_NO_NUMBER: none */
    int64_t width; /* bytes of a value; 0 if values differ in size */
    uint64_t definition, repetition; /* greatest levels */
} ls_footer_leaf;

/* The sizes are at most INT64_MAX, which also stands for larger sums. */
typedef struct {
    int64_t rows;
    int64_t stored, plain; /* bytes of the chunks as stored, and before compression */
} ls_footer_group;

typedef enum {
    LS_FOOTER_OK,
    LS_FOOTER_BYTES,     /* not Thrift */
    LS_FOOTER_LACKS, /* a row group without rows, or a chunk without offset, sizes or a path */
    LS_FOOTER_ELSEWHERE, /* a chunk in another file */
    LS_FOOTER_ENCRYPTED, /* a chunk that is encrypted */
    LS_FOOTER_OTHERS, /* the chunks are not those of the schema */
    LS_FOOTER_OUTSIDE, /* a chunk is not between `from` and `to` */
} ls_footer_fault;

/* Reads the header of a list of row groups, and moves to the first one. A value that is not a list
 * of structs is treated as an empty list. */
ls_status ls_footer_groups(const uint8_t **cursor, const uint8_t *end, int type, uint64_t *count);

/* Checks a row group, and moves to its end.
 *
 * Chunks must have the names and types of the columns of the schema, bounds as wide as values,
 * except those of fixed-length values, and as many levels as in the schema. A column that is not
 * nested must have a value for each row. Chunks that are not empty must be between `from` and `to`
 * in the file; if `to` is negative, this is not checked.
 *
 * `places` receives the offset of the struct ColumnMetaData of each of the `count` columns,
 * relative to `start`. On LS_FOOTER_OUTSIDE, `*chunk` is the number of the chunk. */
ls_footer_fault ls_footer_group_read(const uint8_t *start, const uint8_t **cursor,
                                     const uint8_t *end, const ls_footer_leaf *leaves, size_t count,
                                     int64_t from, int64_t to, ls_footer_group *group,
                                     uint32_t *places, size_t *chunk);

#endif
