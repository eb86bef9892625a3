/* A hash table over the keys of a column: which row a key is in, the first one if it repeats. The
 * keys stay where they are; the table is an array of slots that the caller owns. */
#ifndef LS_KEY_TABLE_H
#define LS_KEY_TABLE_H

#include "ls_column.h"

/* A row is kept in half of a slot. */
#define LS_KEY_TABLE_MOST_KEYS ((size_t)UINT32_MAX - 1)

typedef struct {
    ls_column keys;
    uint64_t *slots; /* upper half of the hash, and row + 1; 0: empty */
    size_t mask;     /* number of slots, a power of 2, less one */
    /* A bit for hashes of the keys, 4 a slot: most keys that are not there end here, in a part of
     * the memory that the slots take. */
    uint64_t *seen;
} ls_key_table;

/* The number of slots for so many keys. */
size_t ls_key_table_slots(size_t keys);

/* The number of words of `seen` for so many slots. */
size_t ls_key_table_words(size_t slots);

/* Puts all keys of table->keys in, nulls left out; first[i] is the row where key i comes first.
 * REQUIRES: slots and words of zeros, as many as are said above; at most LS_KEY_TABLE_MOST_KEYS.
 * Returns the number of different keys in *different.
 * LS_BAD_COLUMN: offsets that leave the data, of key *bad. */
ls_status ls_key_table_fill(const ls_key_table *table, uint32_t *first, size_t *different,
                            size_t *bad);

/* Finds the row of each asked key; -1: it is not there, or null.
 * LS_BAD_COLUMN: offsets that leave the data, of asked key *bad. */
ls_status ls_key_table_find(const ls_key_table *table, const ls_column *asked, int64_t *rows,
                            size_t *bad);

#endif
