/* Pages of a Parquet column chunk: their headers, and data pages whose values are PLAIN.
 *
 * Source: parquet-format, parquet.thrift (PageHeader, DataPageHeader) and Encodings.md (PLAIN); the
 * Thrift compact protocol, thrift-compact-protocol.md. */
#ifndef LS_PAGE_H
#define LS_PAGE_H

#include "ls_bytes.h"
#include "ls_column.h"

enum { LS_DATA_PAGE = 0, LS_ENCODING_PLAIN = 0, LS_ENCODING_RLE = 3 };

typedef struct {
    int32_t type;
    int32_t uncompressed; /* bytes of the page without its header */
    int32_t compressed;
    int32_t has_checksum;
    uint32_t checksum; /* CRC-32 of the compressed bytes */
    /* Of a data page, version 1; `values` is -1 if the header says nothing of that kind. */
    int32_t values;
    int32_t encoding;
    int32_t definition_encoding;
    int32_t repetition_encoding;
} ls_page_header;

/* Bytes that no header which ls_page_header_write writes is longer than. */
enum { LS_PAGE_HEADER_MAX = 64 };

/* Reads the header at a cursor, and moves it behind. Fields that are not above are passed over. */
ls_status ls_page_header_read(const uint8_t **cursor, const uint8_t *end, ls_page_header *header);

/* Writes the header of a data page, and returns the end of it. */
uint8_t *ls_page_header_write(const ls_page_header *header, uint8_t *out);

typedef enum {
    LS_PLAIN_INT32,
    LS_PLAIN_INT64,
    LS_PLAIN_FLOAT,
    LS_PLAIN_DOUBLE,
    LS_PLAIN_BYTES,
} ls_plain_kind;

/* The least and the greatest of values, as bytes of these; NULL: there are none. Numbers that are
 * none do not count. */
typedef struct {
    ls_slice least;
    ls_slice greatest;
} ls_plain_range;

/* Bytes that `count` PLAIN values take at the beginning of some bytes. */
ls_status ls_plain_size(ls_plain_kind kind, ls_slice values, size_t count, size_t *size);

/* Bytes that ls_plain_texts may write behind the last value. */
enum { LS_TEXTS_SLACK = 32 };

/* Writes PLAIN values that are bytes one after another, as Arrow has them.
 *
 * values, count: exactly so many.
 * at: where the first goes in `out`.
 * ends: of each in `out`.
 * out: has room for at + values.size + LS_TEXTS_SLACK, which is at most INT32_MAX. */
ls_status ls_plain_texts(ls_slice values, size_t count, int32_t at, int32_t *ends, uint8_t *out);

/* Writes the bytes of a column without nulls as PLAIN values: each has its length before it.
 *
 * out: has room for *size bytes; NULL: they are only counted. */
ls_status ls_texts_plain(const ls_column *texts, uint8_t *out, size_t *size);

/* Copies PLAIN values, some of them replaced, and widens a range by what is written.
 *
 * values, count: exactly so many.
 * places, replaced: rows of those that are replaced, ascending, below count.
 * fresh: what replaces them, PLAIN, exactly as many.
 * out: has room for both together. */
ls_status ls_plain_replace(ls_plain_kind kind, ls_slice values, size_t count, const int64_t *places,
                           int64_t first, size_t replaced, ls_slice fresh, uint8_t *out,
                           size_t *out_size, ls_plain_range *range);

#endif
