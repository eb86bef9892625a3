/* A hash table of the rows of the keys of a column, the first row of a repeated key. The keys are
 * not copied; the table is an array of slots that the caller owns. */
#ifndef LS_KEY_TABLE_H
#define LS_KEY_TABLE_H

#include "ls_column.h"

/* Maximum number of keys, since a row number is stored in half of a slot. */
#define LS_KEY_TABLE_MOST_KEYS ((size_t)UINT32_MAX - 1)

typedef struct {
    ls_column keys;
    uint64_t *slots; /* upper half of the hash, and row + 1; 0: empty */
    size_t mask;     /* number of slots, a power of 2, minus 1 */
    /* A bit for hashes of the keys, 4 per slot: searches of most missing keys end here, in memory
     * much smaller than that of the slots. */
    uint64_t *seen;
} ls_key_table;

/* Returns the number of slots for a number of keys. */
size_t ls_key_table_slots(size_t keys);

/* Returns the number of words of `seen` for a number of slots. */
size_t ls_key_table_words(size_t slots);

/* Adds all keys of table->keys except nulls; first[i] is set to the row of the first occurrence of
 * key i. REQUIRES: zeroed slots and words of the numbers above; at most LS_KEY_TABLE_MOST_KEYS.
 * Returns the number of different keys in *different.
 * LS_BAD_COLUMN: key *bad has offsets outside of the data. */
ls_status ls_key_table_fill(const ls_key_table *table, uint32_t *first, size_t *different,
                            size_t *bad);

/* Finds the row of each key in `asked`; -1: it is missing, or null.
 * LS_BAD_COLUMN: key *bad of `asked` has offsets outside of the data. */
ls_status ls_key_table_find(const ls_key_table *table, const ls_column *asked, int64_t *rows,
                            size_t *bad);

#endif
