/* MD5 (RFC 1321), with which keys of inserts are distributed over files as in Hudi. Not for
 * secrets. */
#ifndef LS_MD5_H
#define LS_MD5_H

#include "ls_column.h"

void ls_md5(ls_slice data, uint8_t digest[16]);

/* Sets numbers[i - from] to the first 8 bytes of key i's digest as a little-endian integer.
 * LS_NULL, LS_BAD_COLUMN: of key *bad. */
ls_status ls_md5_numbers(const ls_column *keys, size_t from, size_t to, int64_t *numbers,
                         size_t *bad);

#endif
