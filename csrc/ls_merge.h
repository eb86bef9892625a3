/* Rows of sorted runs in a range of keys. Runs are columns of one type; the range has the rows from
 * starts[r] to stops[r] of run r. */
#ifndef LS_MERGE_H
#define LS_MERGE_H

#include "ls_column.h"

/* Sets stops to the rows after `bound`, which is in the range, or to the ends of the runs.
 * LS_BAD_COLUMN: offsets outside of the data. REQUIRES: starts[r] <= ends[r] <= length of run r. */
ls_status ls_merge_cut(const ls_column *runs, const int64_t *starts, const int64_t *ends,
                       size_t count, ls_slice bound, int64_t *stops);

/* Sets a slice for each row of the range, run after run, and *bytes to the sum of their sizes.
 * LS_BAD_COLUMN: as above. REQUIRES: starts[r] <= stops[r] <= length of run r. */
ls_status ls_merge_slices(const ls_column *runs, const int64_t *starts, const int64_t *stops,
                          size_t count, ls_slice *slices, uint64_t *bytes);

#endif
