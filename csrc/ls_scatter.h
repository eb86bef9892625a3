/* Rows grouped by the range of their keys. */
#ifndef LS_SCATTER_H
#define LS_SCATTER_H

#include "ls_column.h"

/* Sets the range of each key: the number of cuts that are less than it. Cuts ascend, and prefixes
 * are ls_bytes_prefix of each. LS_BAD_COLUMN: key *bad has offsets outside of the data; LS_NULL: it
 * is null.
 * REQUIRES: the offsets of cuts are valid, and none of them is null. */
ls_status ls_scatter_find(const ls_column *keys, const ls_column *cuts, const uint64_t *prefixes,
                          uint32_t *ranges, size_t *bad);

/* Sets the rows of each range, one range after the other, rows of a range in their order, and the
 * end of each range. ends has room for ranges_count + 1, and starts with 0. */
void ls_scatter_rows(const uint32_t *ranges, size_t count, size_t ranges_count, uint32_t *rows,
                     uint64_t *ends);

/* Sets for each range whether two of its keys differ.
 * REQUIRES: ls_scatter_find was LS_OK for the arguments. */
void ls_scatter_mixed(const ls_column *keys, const uint32_t *rows, const uint64_t *ends,
                      size_t ranges_count, uint8_t *mixed);

#endif
