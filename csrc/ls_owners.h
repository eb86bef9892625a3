/* A hash table from the keys of some files to the files that may have them. Without it, a key is
 * tested with the filter of each file whose range it is in. It is made of blocks that have been
 * checked, and processes of a host share it (lookupstore/sst/owners.py).
 *
 * A line is a cache line of 31 entries. An entry is a byte of the hash of a key and, stored
 * separately, the number of a file. A key that several files have has an entry for each. Lines are
 * filled from their first entry on: an entry is in the line that the hash picks or, if this line
 * goes on, in one of the following ones. */
#ifndef LS_OWNERS_H
#define LS_OWNERS_H

#include "ls_batch.h"

/* Number of entries of a line, and of files of a table. */
#define LS_OWNERS_ENTRIES 31
#define LS_OWNERS_FILES 256

/* Stands for a file that is not looked up. */
#define LS_OWNERS_NOT_ASKED UINT32_MAX

typedef struct {
    uint8_t marks[LS_OWNERS_ENTRIES]; /* bytes of hashes; 0: no entry */
    uint8_t goes_on; /* whether an entry of this line may be in a following one */
    uint8_t files[LS_OWNERS_ENTRIES + 1]; /* the last one is unused */
} ls_owners_line;

typedef struct {
    ls_owners_line *lines; /* aligned to 64 bytes */
    uint32_t count; /* number of lines */
} ls_owners;

/* Returns the number of lines for a number of entries; 0: there can be no such table. */
uint32_t ls_owners_lines(uint64_t entries);

/* Adds an entry for a key with a hash. LS_NO_SPACE: all entries are used. */
ls_status ls_owners_put(ls_owners *owners, uint64_t hash, uint8_t file);

/* Adds the keys of a block of a file, and their number to *entries.
 * REQUIRES: all bytes of the lines were zero at first. */
ls_status ls_owners_add(ls_owners *owners, uint8_t file, const uint8_t *data, size_t size,
                        uint64_t *entries);

/* Appends an item of each file that may have the keys of a stretch from *next on, and sets *next to
 * the first key that is left: that of the end, or the first one for which there might be no room.
 * numbers[i]: number in items of file i of the table, or LS_OWNERS_NOT_ASKED. Keys that a file
 * cannot have are counted in the counts of that number.
 * REQUIRES: room for `room` items. At least one key is taken if LS_OWNERS_FILES of them are left. */
void ls_owners_find(const ls_owners *owners, const uint32_t *numbers,
                    const ls_batch_stretch *stretch, size_t *next, ls_batch_item *items,
                    size_t room, size_t *count, ls_batch_counts *counts);

#endif
