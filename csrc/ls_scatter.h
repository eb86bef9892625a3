/* Rows laid side by side by the range that their keys are in. */
#ifndef LS_SCATTER_H
#define LS_SCATTER_H

#include "ls_column.h"

/* Sets the range of each key: how many cuts are less than it. Cuts ascend, prefixes are
 * ls_bytes_prefix of each. LS_BAD_COLUMN: offsets that leave the data, *bad the key; LS_NULL: it is
 * null.
 * REQUIRES: the offsets of cuts are right, and none of them is null. */
ls_status ls_scatter_find(const ls_column *keys, const ls_column *cuts, const uint64_t *prefixes,
                          uint32_t *ranges, size_t *bad);

/* Sets the rows of each range, one range after the other, rows of one as they come, and for each
 * range where it ends. ends has room for ranges_count + 1, and starts with 0. */
void ls_scatter_rows(const uint32_t *ranges, size_t count, size_t ranges_count, uint32_t *rows,
                     uint64_t *ends);

/* Sets for each range whether two of its keys differ.
 * REQUIRES: what ls_scatter_find said LS_OK to. */
void ls_scatter_mixed(const ls_column *keys, const uint32_t *rows, const uint64_t *ends,
                      size_t ranges_count, uint8_t *mixed);

#endif
