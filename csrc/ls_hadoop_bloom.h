/* The Bloom filters that Hudi stores in base files: Hadoop's, whose hashes are chained and whose
 * numbers are big-endian (org.apache.hadoop.util.bloom, org.apache.hudi.common.bloom).
 *
 *   row     := int32 -1, int32 hashes, int8 hash, int32 bits, ceil(bits / 8) bytes
 *   rows    := int32 -1, int32 hashes, int8 hash, int32 bits, int32 row_keys, int32 last_keys,
 *              int32 count of rows, the rows
 *   An old form has int32 hashes in place of the -1, hashes and hash; its hash is Jenkins'.
 *
 * SIMPLE is one row, DYNAMIC_V0 is rows. Bit i is `byte[i / 8] & 1 << i % 8`. */
#ifndef LS_HADOOP_BLOOM_H
#define LS_HADOOP_BLOOM_H

#include "ls_column.h"

/* MurmurHash 2, but its tail (one to three bytes) is read backwards and each byte with its sign. */
uint32_t ls_hadoop_murmur(ls_slice key, uint32_t seed);

/* Bob Jenkins' lookup3, hashlittle. */
uint32_t ls_hadoop_jenkins(ls_slice key, uint32_t seed);

#define LS_HADOOP_JENKINS 0
#define LS_HADOOP_MURMUR 1

/* Maximum number of positions of a key: no rate of false positives that a double can hold needs
 * more. */
#define LS_HADOOP_MOST_HASHES 1100

typedef struct {
    uint32_t bits;      /* of a row: 1 to 2^31 - 1 */
    uint32_t hashes;    /* positions of a key: 1 to LS_HADOOP_MOST_HASHES */
    uint8_t hash;       /* LS_HADOOP_JENKINS or LS_HADOOP_MURMUR */
    uint8_t old;        /* headers of the old form */
    uint8_t dynamic;    /* rows, not one row: the two below are stored */
    uint32_t row_keys;  /* keys of a full row */
    uint32_t last_keys; /* keys in the last row, including those added at rows_limit */
    uint32_t rows;      /* at least 1 */
} ls_hadoop_bloom;

/* Return the sizes of one row, of everything before the bits of the first row, and of the
 * filter. */
size_t ls_hadoop_bloom_row_size(const ls_hadoop_bloom *bloom);
size_t ls_hadoop_bloom_first_bits(const ls_hadoop_bloom *bloom);
size_t ls_hadoop_bloom_size(const ls_hadoop_bloom *bloom);

/* Reads the headers of a stored filter, including those of all rows. It must end at the end of its
 * last row. LS_TRUNCATED or LS_BAD_HEADER: *bad is the offset of the wrong number, *expected
 * describes the expected value. */
ls_status ls_hadoop_bloom_parse(const uint8_t *data, const uint8_t *end, int dynamic,
                                ls_hadoop_bloom *bloom, size_t *bad, const char **expected);

/* Writes all headers. REQUIRES: ls_hadoop_bloom_size(bloom) bytes at `data`. */
void ls_hadoop_bloom_put_headers(const ls_hadoop_bloom *bloom, uint8_t *data);

/* Returns the row of the key that is added as number `index`. A full row is followed by a new one,
 * until there are `rows_limit`; then keys are added to row 0 and, once that is full, to rows 0, 1,
 * 2, ... in turn. */
uint32_t ls_hadoop_bloom_row_of(uint64_t index, uint32_t row_keys, uint32_t rows_limit);

/* Adds keys [from, to) of a column, which are numbers `index`, `index` + 1, ... of the filter's
 * keys. LS_NULL, LS_BAD_KEY (empty: Hadoop has no hash of it), LS_BAD_COLUMN: of key *bad; in this
 * case no key is added. REQUIRES: the row of each key is below bloom->rows. */
ls_status ls_hadoop_bloom_add(const ls_hadoop_bloom *bloom, uint32_t rows_limit, uint8_t *data,
                              const ls_column *keys, size_t from, size_t to, uint64_t index,
                              size_t *bad);

/* Sets maybe[i - from] to 0 if key i of a column is absent, otherwise to 1; the same failures. With
 * `rows`, key i is that of row rows[i]. REQUIRES: rows that the column has. */
ls_status ls_hadoop_bloom_test(const ls_hadoop_bloom *bloom, const uint8_t *data,
                               const ls_column *keys, const uint32_t *rows, size_t from, size_t to,
                               uint8_t *maybe, size_t *bad);

#endif
