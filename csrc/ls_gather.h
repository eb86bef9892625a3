/* Rows of several Arrow columns, in any order, as one column. */
#ifndef LS_GATHER_H
#define LS_GATHER_H

#include "ls_column.h"

/* Finds rows of columns that are treated as one, in sequence: column c has the rows from starts[c]
 * to starts[c + 1]. Sets a slice for each row, and *bytes to the sum of their sizes. LS_BAD_COLUMN:
 * row *bad is in none of them, or has offsets outside of the data. */
ls_status ls_gather_find(const ls_column *columns, const uint64_t *starts, size_t columns_count,
                         const int64_t *rows, size_t count, ls_slice *slices, uint64_t *bytes,
                         size_t *bad);

/* Copies slices contiguously to `data`, and their ends to `offsets`: count + 1 numbers of
 * offset_width 4 or 8, none for 0. REQUIRES: room for all, and sums that fit the width. */
void ls_gather_copy(const ls_slice *slices, size_t count, int offset_width, void *offsets,
                    uint8_t *data);

#endif
