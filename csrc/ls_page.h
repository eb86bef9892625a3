/* Pages of a Parquet column chunk: their headers, and data pages whose values are PLAIN.
 *
 * Source: parquet-format, parquet.thrift (PageHeader, DataPageHeader) and Encodings.md (PLAIN); the
 * Thrift compact protocol, thrift-compact-protocol.md. */
#ifndef LS_PAGE_H
#define LS_PAGE_H

#include "ls_bytes.h"
#include "ls_column.h"

enum {
    LS_DATA_PAGE = 0,
    LS_DICTIONARY_PAGE = 2,
    LS_DATA_PAGE_V2 = 3,
    LS_ENCODING_PLAIN = 0,
    LS_ENCODING_RLE = 3
};

typedef struct {
    int32_t type;
    int32_t uncompressed; /* bytes of the page without its header */
    int32_t compressed;
    int32_t has_checksum;
    uint32_t checksum; /* CRC-32 of the compressed bytes */
    /* For data and dictionary pages; `values` is -1 if the header has no number of values. */
    int32_t values;
    int32_t encoding;
    /* For a data page, version 1. */
    int32_t definition_encoding;
    int32_t repetition_encoding;
} ls_page_header;

/* Maximum size of a header that ls_page_header_write writes. */
enum { LS_PAGE_HEADER_MAX = 64 };

/* Reads the header at a cursor, and moves the cursor to its end. Other fields are skipped. */
ls_status ls_page_header_read(const uint8_t **cursor, const uint8_t *end, ls_page_header *header);

/* Writes the header of a data page, and returns its end. */
uint8_t *ls_page_header_write(const ls_page_header *header, uint8_t *out);

/* The values and sizes in the headers of the pages of a chunk; sizes are uncompressed. */
typedef struct {
    uint64_t values;  /* of all data pages */
    uint64_t plain;   /* bytes of all data pages */
    uint32_t largest; /* bytes of the largest data page */
    uint32_t shared;  /* the same, for pages whose values may be longer than the page, in total */
    uint32_t dictionary;
    uint32_t dictionary_values;
    ls_slice stored_dictionary; /* as in the chunk; NULL: there is none */
    size_t page; /* offset in the chunk of the last header that was read, also if it is wrong */
} ls_chunk_claims;

/* Reads the headers of a chunk, until the pages have the number of values in the footer. */
ls_status ls_chunk_claims_read(ls_slice chunk, uint64_t values, ls_chunk_claims *claims);

typedef enum {
    LS_PLAIN_INT32,
    LS_PLAIN_INT64,
    LS_PLAIN_FLOAT,
    LS_PLAIN_DOUBLE,
    LS_PLAIN_BYTES,
} ls_plain_kind;

/* The least and the greatest of values, as bytes of these; NULL: there are none. NaN is ignored. */
typedef struct {
    ls_slice least;
    ls_slice greatest;
} ls_plain_range;

/* Computes the size of `count` PLAIN values at the beginning of some bytes. */
ls_status ls_plain_size(ls_plain_kind kind, ls_slice values, size_t count, size_t *size);

/* Computes the size of the longest of some PLAIN values that are bytes. */
ls_status ls_plain_longest(ls_slice values, size_t count, uint32_t *longest);

/* Number of bytes that ls_plain_texts may write after the last value. */
enum { LS_TEXTS_SLACK = 32 };

/* Writes PLAIN values that are bytes contiguously, as in Arrow.
 *
 * values, count: the values, exactly as many.
 * at: offset of the first value in `out`.
 * ends: end of each value in `out`.
 * out: has room for at + values.size + LS_TEXTS_SLACK, which is at most INT32_MAX. */
ls_status ls_plain_texts(ls_slice values, size_t count, int32_t at, int32_t *ends, uint8_t *out);

/* Writes the bytes of a column without nulls as PLAIN values: each is preceded by its length.
 *
 * out: has room for *size bytes; NULL: they are only counted. */
ls_status ls_texts_plain(const ls_column *texts, uint8_t *out, size_t *size);

/* Copies PLAIN values, some of them replaced, and widens a range by the written values.
 *
 * values, count: the values, exactly as many.
 * places, replaced: rows of the values to replace, ascending, below count.
 * fresh: the new values, PLAIN, exactly as many.
 * out: has room for both together. */
ls_status ls_plain_replace(ls_plain_kind kind, ls_slice values, size_t count, const int64_t *places,
                           int64_t first, size_t replaced, ls_slice fresh, uint8_t *out,
                           size_t *out_size, ls_plain_range *range);

#endif
