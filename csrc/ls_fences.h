/* Which data block may hold a key: the last keys of all blocks, as the index stores them, made into
 * arrays of 8-byte prefixes. A node covers last keys that agree in their first `depth` bytes, and
 * holds the distinct values of the 8 bytes after them; keys that agree in those, too, have a node of
 * their own. It is made in memory when a file is opened and never stored. */
#ifndef LS_FENCES_H
#define LS_FENCES_H

#include "ls_block.h"

#define LS_NO_NODE UINT32_MAX

typedef struct {
    uint64_t prefix;
    uint32_t key; /* the first last key with that prefix */
    uint32_t node; /* of its keys, or LS_NO_NODE: compare them as they are */
} ls_fence;

typedef struct {
    uint64_t shared; /* the bytes from agreed to depth, at most 8 of them */
    uint64_t shared_mask;
    uint32_t agreed; /* bytes that the keys are known to share */
    uint32_t depth; /* bytes that they do share */
    uint32_t fences; /* its first fence; behind its last one comes one whose key is the end */
    uint32_t count;
    uint32_t starts; /* its first entry in starts: where fences with those top bits begin */
    uint32_t shift; /* from a prefix, less the smallest, to its top bits */
} ls_fence_node;

typedef struct {
    const ls_block *index;
    ls_order order;
    ls_fence_node *nodes; /* the caller's, as are fences and starts; NULL in a first pass */
    ls_fence *fences;
    uint32_t *starts;
    size_t node_count; /* entries that are used */
    size_t fence_count;
    size_t start_count;
    size_t node_room; /* entries that there are, when they are filled */
    size_t fence_room;
    size_t start_room;
    int repeats; /* the index repeats a key: only Java's search says which block */
    /* The index of a file whose keys are rows, in their order, where the keys of `index` are what
     * ls_row_sortable makes of its keys, and `order` is that of bytes; else NULL. */
    const ls_block *rows;
    ls_order row_order;
} ls_fences;

/* Makes fences of an index that has been validated. With arrays that are NULL it only counts what
 * they need; with arrays of these sizes it fills them. An index that has changed since, as the bytes
 * of a mapped file may, fails or is read wrongly, within its bounds and theirs.
 * REQUIRES: index and order are set, or rows and row_order as well; the rest is zero or such arrays
 * and their sizes. */
ls_status ls_fences_build(ls_fences *fences);

/* Sets *block to the first block whose last key is not smaller: the number of blocks if there is
 * none. REQUIRES: ls_check_key is LS_OK, in row_order where there are rows. */
ls_status ls_fences_route(const ls_fences *fences, ls_slice key, uint32_t *block);

/* The same for many keys, level by level, so that the memory that one waits for comes while the
 * others are looked at. REQUIRES: count <= LS_ROUTES. */
#define LS_ROUTES 128
ls_status ls_fences_route_many(const ls_fences *fences, const ls_slice *keys, size_t count,
                               uint32_t *blocks);

/* The same for keys of several files: key i among fences[i]. */
ls_status ls_fences_route_each(const ls_fences *const *fences, const ls_slice *keys, size_t count,
                               uint32_t *blocks);

#endif
