/* The file of a key among files whose ranges of keys have no key in common: the file with the last
 * first key that is not greater. Keys are compared by 8 bytes as a number: the first ones, or, if two
 * first keys agree in these, those after the bytes that all first keys share. Only a key that agrees
 * with a first key in its 8 bytes is compared in full.
 *
 * The numbers from the first file's to the last one's are divided into cells of equal size. A cell
 * leads to the file that is searched for at its beginning, and the next few files follow. */
#ifndef LS_FILE_RANGES_H
#define LS_FILE_RANGES_H

#include "ls_column.h"

#define LS_RANGES_CELLS 1024

typedef struct {
    const ls_slice *firsts; /* first key of each file, strictly ascending in the order of bytes */
    const ls_slice *lasts; /* last key of each file: not below its first one, below the next one */
    uint64_t *starts; /* owned by the caller, like ends and cells: 8 bytes of each first key, */
    uint64_t *ends; /* and of each last key */
    uint32_t *cells; /* file at the beginning of each of LS_RANGES_CELLS cells; NULL: one file */
    uint32_t count; /* number of files, at least 1 */
    uint32_t most; /* number of files that begin in one cell, at most */
    unsigned shift; /* a cell has 2^shift numbers */
    size_t shared; /* number of bytes before those that are compared, which all first keys share */
} ls_file_ranges;

/* Sets `shared`, `most` and `shift`, and fills `starts` and `ends`, each of `count` entries, and
 * `cells`. */
void ls_file_ranges_build(ls_file_ranges *ranges);

/* Sets numbers[i - from] to the 8 bytes of key i of a column (key places[i], unless `places` is NULL)
 * after its first `shared` bytes, as a number: 0 if the key is below all files, and the greatest
 * number if it is above the first keys of all files. */
void ls_file_ranges_numbers(const ls_file_ranges *ranges, const ls_column *keys,
                            const uint32_t *places, size_t from, size_t to, uint64_t *numbers);

/* Sets owners[i - from] to the file of key i, whose number is numbers[i - from]: file 0 if the key is
 * below all files. REQUIRES: to - from <= LS_RANGES_KEYS. */
#define LS_RANGES_KEYS 128
void ls_file_ranges_route(const ls_file_ranges *ranges, const uint64_t *numbers,
                          const ls_column *keys, const uint32_t *places, size_t from, size_t to,
                          uint32_t *owners);

/* Returns 0 if a key with a number is outside of the range of a file, and mostly 1 only if it is
 * inside. */
static inline int ls_file_ranges_inside(const ls_file_ranges *ranges, uint32_t file,
                                        uint64_t number) {
    return number - ranges->starts[file] <= ranges->ends[file] - ranges->starts[file];
}

#endif
