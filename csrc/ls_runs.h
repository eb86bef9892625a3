/* Streams of ORC that are stored as runs: lengths of texts and lists, scales of decimals, and tags
 * of unions.
 *
 * Source: ORC specification v1, Run Length Encoding. */
#ifndef LS_RUNS_H
#define LS_RUNS_H

#include <stdbool.h>

#include "ls_bytes.h"

typedef enum { LS_RUNS_1 = 1, LS_RUNS_2 = 2 } ls_runs_version;

/* The totals of lengths. */
typedef struct {
    uint64_t count;
    uint64_t sum;
    uint64_t longest;
} ls_lengths;

/* Reads all runs of a stream of lengths, or of other numbers, each from 0 to the greatest int32_t.
 * Numbers of some streams, though not lengths, can be negative, and are stored differently. */
ls_status ls_lengths_read(ls_slice runs, ls_runs_version version, bool is_signed,
                          ls_lengths *lengths);

/* Reads all runs of a stream of bytes, and sets *greatest to the greatest byte. */
ls_status ls_byte_runs_greatest(ls_slice runs, uint8_t *greatest);

/* Computes the uncompressed size of a block of LZ4. */
ls_status ls_lz4_size(ls_slice block, uint64_t *size);

#endif
