/* The records of the runs of changes above a file, in one hash table: if the file's places
 * (ls_places.h) mark that a key may have changed, one search finds its newest record. Records of
 * newer runs are added first, so the first record of a key is its newest. The table is made in
 * memory from blocks that have been checked, and never stored. */
#ifndef LS_CHANGES_H
#define LS_CHANGES_H

#include "ls_places.h"

#define LS_CHANGES_RUNS 16

/* Records start before this offset of their file: 29 of the 33 bits of a place. The other bits are
 * the number of the run. */
#define LS_CHANGES_END (UINT64_C(1) << 29)

typedef struct {
    ls_places table; /* its `data` is not used */
    uint32_t count;  /* number of runs */
    const uint8_t *data[LS_CHANGES_RUNS]; /* base of the offsets, the newest run first */
    uint64_t sizes[LS_CHANGES_RUNS];
} ls_changes;

/* Adds the records of a block at an offset of a run, and marks their keys in the places of the
 * file. REQUIRES: room for the records in the buckets, all bytes of which were zero at first; newer
 * runs have been added before. */
ls_status ls_changes_add(ls_changes *changes, uint32_t run, uint64_t offset, size_t size,
                         ls_places *file);

/* Returns the record at a place of the table, and its run. */
static inline const uint8_t *ls_changes_record(const ls_changes *changes, uint64_t place,
                                               uint32_t *run) {
    *run = (uint32_t)(place / LS_CHANGES_END);
    return changes->data[*run] + place % LS_CHANGES_END;
}

/* Finds the newest record of a key with a given hash. *value is unchanged if the key is missing.
 * Failures: of the record at offset *bad of run *run, which may be that of another key. */
ls_status ls_changes_get(const ls_changes *changes, ls_slice key, uint64_t hash, ls_slice *value,
                         uint32_t *run, uint64_t *bad);

#endif
