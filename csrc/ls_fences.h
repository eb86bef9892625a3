/* A search for the data block that may have a key: the last keys of all blocks, as stored in the
 * index, converted to arrays of 8-byte prefixes. A node covers last keys with equal first `depth`
 * bytes, and has the distinct values of the 8 bytes after them; keys that agree in those, too, have
 * a node of their own. It is made in memory when a file is opened and never stored. */
#ifndef LS_FENCES_H
#define LS_FENCES_H

#include "ls_block.h"

#define LS_NO_NODE UINT32_MAX

typedef struct {
    uint64_t prefix;
    uint32_t key; /* index of the first last key with that prefix */
    uint32_t node; /* node of its keys, or LS_NO_NODE: compare them directly */
} ls_fence;

typedef struct {
    uint64_t shared; /* the bytes from agreed to depth, at most 8 */
    uint64_t shared_mask;
    uint32_t agreed; /* number of bytes that the keys are known to share */
    uint32_t depth; /* number of bytes that they actually share */
    uint32_t fences; /* its first fence; after its last one there is one at the end */
    uint32_t count;
    uint32_t starts; /* its first entry in starts: first fence with each value of the top bits */
    uint32_t shift; /* shift from a prefix, minus the smallest, to its top bits */
} ls_fence_node;

typedef struct {
    const ls_block *index;
    ls_order order;
    ls_fence_node *nodes; /* owned by the caller, like fences and starts; NULL in a first pass */
    ls_fence *fences;
    uint32_t *starts;
    size_t node_count; /* number of used entries */
    size_t fence_count;
    size_t start_count;
    size_t node_room; /* number of available entries when they are filled */
    size_t fence_room;
    size_t start_room;
    int repeats; /* the index repeats a key: only Java's search finds the block */
    /* If the keys of the file are rows: its index, in their order; the keys of `index` are then the
     * results of ls_row_sortable for these keys, and `order` is that of bytes. Otherwise NULL. */
    const ls_block *rows;
    ls_order row_order;
} ls_fences;

/* Makes fences of an index that has been validated. If the arrays are NULL, it only counts the
 * entries; otherwise it fills arrays of these sizes. If the index has changed since, as the bytes
 * of a mapped file may, it fails or makes wrong fences, within the bounds of both.
 * REQUIRES: index and order are set, or rows and row_order as well; the rest is zero or such arrays
 * and their sizes. */
ls_status ls_fences_build(ls_fences *fences);

/* Sets *block to the first block whose last key is not smaller: the number of blocks if there is
 * none. REQUIRES: ls_check_key is LS_OK, in row_order if there are rows. */
ls_status ls_fences_route(const ls_fences *fences, ls_slice key, uint32_t *block);

/* Does the same for many keys, level by level, so that memory accesses of different keys overlap.
 * REQUIRES: count <= LS_ROUTES. */
#define LS_ROUTES 128
ls_status ls_fences_route_many(const ls_fences *fences, const ls_slice *keys, size_t count,
                               uint32_t *blocks);

/* Does the same for keys of several files: key i among fences[i]. */
ls_status ls_fences_route_each(const ls_fences *const *fences, const ls_slice *keys, size_t count,
                               uint32_t *blocks);

#endif
