#include "ls_fences.h"

/* Maximum depth of nodes: deeper keys are compared directly. Each level is 8 bytes of a key. */
#define DEEPEST 64

/* Number of entries of `starts` for a node: one to two per fence, up to a maximum. */
#define MOST_START_BITS 16

/* Maximum size of the sortable bytes of a row: those of a batch are on the stack. Longer keys are
 * compared directly. */
#define MOST_SORTABLE 128

/* The index may be in a mapped file, which other processes may change: validated bytes can differ
 * from one read to the next, and from the first pass to the second. */
static ls_status key_at(const ls_fences *fences, uint32_t i, ls_slice *key) {
    ls_slice value;
    ls_status status = ls_block_record(fences->index, i, key, &value);
    return status == LS_OK ? ls_check_key(fences->order, *key) : status;
}

/* Returns the 8 bytes from `depth` on, which is not after the end of the key. */
static inline uint64_t prefix_from(ls_order order, ls_slice key, size_t depth) {
    if (order != LS_ORDER_BYTES)
        return ls_key_prefix(order, key);
    size_t rest = key.size - depth;
    if (rest < 8 && rest > 0 && key.size >= 8) /* one load of the last bytes of the key */
        return ls_load64_big(key.data + key.size - 8) << (64 - 8 * rest);
    return ls_bytes_prefix(key.data + depth, rest);
}

static ls_status add_fence(ls_fences *fences, uint64_t prefix, uint32_t key) {
    if (fences->fence_count == fences->fence_room)
        return LS_BAD_ORDER;
    if (fences->fences != NULL)
        fences->fences[fences->fence_count] = (ls_fence){prefix, key, LS_NO_NODE};
    fences->fence_count++;
    return LS_OK;
}

/* Sets the first fence with each value of the top bits. */
static ls_status add_starts(ls_fences *fences, ls_fence_node *node) {
    unsigned bits = 0;
    while (bits < MOST_START_BITS && (UINT32_C(1) << bits) < node->count)
        bits++;
    bits += node->count > 1;
    node->shift = 0;
    node->starts = (uint32_t)fences->start_count;
    /* The table ends with the top bits of the last prefix: it never has more entries. */
    size_t most = (UINT32_C(1) << bits) + 1;
    if (most > fences->start_room - fences->start_count)
        return LS_BAD_ORDER;
    fences->start_count += most;
    if (fences->starts == NULL)
        return LS_OK;
    const ls_fence *first = fences->fences + node->fences;
    uint64_t range = first[node->count - 1].prefix - first->prefix;
    while (node->shift < 64 - bits && range >> node->shift >> bits != 0)
        node->shift++;
    uint32_t *starts = fences->starts + node->starts;
    uint64_t entries = (range >> node->shift) + 1;
    uint32_t fence = 0;
    for (uint64_t top = 0; top <= entries; top++) {
        while (fence < node->count && (first[fence].prefix - first->prefix) >> node->shift < top)
            fence++;
        starts[top] = fence;
    }
    return LS_OK;
}

/* Makes the node of last keys [from, to), which agree in `agreed` bytes. */
static ls_status add_node(ls_fences *fences, uint32_t from, uint32_t to, uint32_t agreed,
                          unsigned level, uint32_t *made) {
    ls_slice first, last;
    ls_status status = key_at(fences, from, &first);
    if (status == LS_OK)
        status = key_at(fences, to - 1, &last);
    if (status != LS_OK)
        return status;
    ls_fence_node node = {.agreed = agreed, .depth = agreed};
    if (fences->order == LS_ORDER_BYTES)
        while (node.depth < first.size && node.depth < last.size &&
               first.data[node.depth] == last.data[node.depth])
            node.depth++;
    unsigned shared = node.depth - node.agreed < 8 ? node.depth - node.agreed : 8;
    if (shared > 0) {
        node.shared_mask = UINT64_MAX << (64 - 8 * shared);
        node.shared = prefix_from(fences->order, first, node.agreed) & node.shared_mask;
    }
    if (fences->node_count == fences->node_room)
        return LS_BAD_ORDER;
    *made = (uint32_t)fences->node_count++;
    node.fences = (uint32_t)fences->fence_count;
    uint64_t before = 0;
    for (uint32_t i = from; i < to; i++) {
        ls_slice key;
        status = key_at(fences, i, &key);
        if (status != LS_OK)
            return status;
        if (key.size < node.depth)
            return LS_BAD_ORDER;
        uint64_t prefix = prefix_from(fences->order, key, node.depth);
        if (node.count > 0 && prefix < before)
            return LS_BAD_ORDER;
        if (node.count == 0 || prefix != before) {
            status = add_fence(fences, prefix, i);
            if (status != LS_OK)
                return status;
            node.count++;
            before = prefix;
        }
    }
    status = add_fence(fences, UINT64_MAX, to);
    if (status == LS_OK)
        status = add_starts(fences, &node);
    if (status != LS_OK)
        return status;
    if (fences->nodes != NULL)
        fences->nodes[*made] = node;
    if (fences->order != LS_ORDER_BYTES || level == DEEPEST)
        return LS_OK;
    uint32_t fence = node.fences;
    for (uint32_t start = from; start < to; fence++) {
        ls_slice key, next;
        uint32_t end = start + 1;
        status = key_at(fences, start, &key);
        if (status != LS_OK)
            return status;
        if (key.size < node.depth || fence == node.fences + node.count)
            return LS_BAD_ORDER;
        uint64_t prefix = prefix_from(fences->order, key, node.depth);
        for (; end < to; end++) {
            status = key_at(fences, end, &next);
            if (status != LS_OK)
                return status;
            if (next.size < node.depth || prefix_from(fences->order, next, node.depth) != prefix)
                break;
        }
        /* Shorter keys are first: if the first has all 8 bytes, so have the others. */
        if (end - start > 1 && key.size >= (size_t)node.depth + 8) {
            uint32_t child;
            status = add_node(fences, start, end, node.depth + 8, level + 1, &child);
            if (status != LS_OK)
                return status;
            if (fences->fences != NULL)
                fences->fences[fence].node = child;
        }
        start = end;
    }
    return LS_OK;
}

ls_status ls_fences_build(ls_fences *fences) {
    uint32_t root;
    int filling = fences->nodes != NULL;
    fences->node_room = filling ? fences->node_count : SIZE_MAX;
    fences->fence_room = filling ? fences->fence_count : SIZE_MAX;
    fences->start_room = filling ? fences->start_count : SIZE_MAX;
    fences->node_count = fences->fence_count = fences->start_count = 0;
    fences->repeats = 0;
    for (uint32_t i = 1; i < fences->index->count; i++) {
        ls_slice before, key;
        ls_status status = key_at(fences, i - 1, &before);
        if (status == LS_OK)
            status = key_at(fences, i, &key);
        if (status != LS_OK)
            return status;
        if (ls_compare(fences->order, before, key) == 0)
            fences->repeats = 1;
    }
    if (fences->index->count == 0)
        return LS_OK;
    return add_node(fences, 0, fences->index->count, 0, 0, &root);
}

/* Searches among last keys with equal prefixes. */
static ls_status route_among(const ls_fences *fences, ls_slice key, uint32_t from, uint32_t to,
                             uint32_t *block) {
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        ls_slice last;
        ls_status status = key_at(fences, middle, &last);
        if (status != LS_OK)
            return status;
        if (ls_compare(fences->order, last, key) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    *block = from;
    return LS_OK;
}

/* Compares a key with the node's keys by their shared bytes. REQUIRES: key.size >= node->agreed. */
static inline ls_status compare_shared(const ls_fences *fences, const ls_fence_node *node,
                                       ls_slice key, int *compared) {
    uint64_t start = prefix_from(fences->order, key, node->agreed) & node->shared_mask;
    *compared = (start > node->shared) - (start < node->shared);
    if (*compared == 0 && node->depth - node->agreed > 8 && key.size > node->agreed + 8) {
        ls_slice last;
        ls_status status = key_at(fences, fences->fences[node->fences].key, &last);
        if (status != LS_OK)
            return status;
        if (last.size < node->depth)
            return LS_BAD_ORDER;
        size_t end = key.size < node->depth ? key.size : node->depth;
        *compared = memcmp(key.data + node->agreed, last.data + node->agreed, end - node->agreed);
    }
    if (*compared == 0 && key.size < node->depth)
        *compared = -1; /* the key is a prefix of the shared bytes */
    return LS_OK;
}

/* State of a key that is routed through the nodes. */
typedef struct {
    uint32_t node;  /* LS_NO_NODE: its block is known */
    uint32_t
        count; /* fences to search, from `fence` on; behind them comes one that is not smaller */
    const ls_fence *fence;
    uint64_t prefix;
} ls_route;

/* Finds the few fences of a node between which the key may be, or its block. */
static inline ls_status narrow(const ls_fences *fences, ls_slice key, ls_route *route,
                               uint32_t *block) {
    const ls_fence_node *node = &fences->nodes[route->node];
    const ls_fence *first = fences->fences + node->fences, *end = first + node->count;
    int compared = 0;
    if (node->depth > node->agreed) {
        ls_status status = compare_shared(fences, node, key, &compared);
        if (status != LS_OK)
            return status;
    }
    if (compared == 0) {
        route->prefix = prefix_from(fences->order, key, node->depth);
        compared = (route->prefix > end[-1].prefix) - (route->prefix < first->prefix);
    }
    if (compared != 0) {
        *block = compared < 0 ? first->key : end->key;
        route->node = LS_NO_NODE;
        return LS_OK;
    }
    const uint32_t *start =
        fences->starts + node->starts + ((route->prefix - first->prefix) >> node->shift);
    route->fence = first + start[0];
    route->count = start[1] - start[0];
    return LS_OK;
}

/* Finds the position of a key among these fences: its block, or the node below. */
static inline ls_status settle(const ls_fences *fences, ls_slice key, ls_route *route,
                               uint32_t *block) {
    const ls_fence *fence = route->fence;
    uint64_t prefix = route->prefix;
    size_t depth = fences->nodes[route->node].depth;
    for (size_t count = route->count; count > 2;) {
        size_t half = (count + 1) / 2;
        fence += fence[half - 1].prefix < prefix ? half : 0;
        count -= half;
    }
    /* If keys are evenly distributed, two steps without a branch are nearly always enough. */
    fence += fence->prefix < prefix;
    fence += fence->prefix < prefix;
    *block = fence->key;
    route->node = LS_NO_NODE;
    if (fence->prefix != prefix)
        return LS_OK;
    if (fence->node == LS_NO_NODE)
        return route_among(fences, key, fence->key, fence[1].key, block);
    if (key.size >= depth + 8) /* otherwise it is shorter than all of them, and equal so far */
        route->node = fence->node;
    return LS_OK;
}

static ls_status route_bytes(const ls_fences *fences, ls_slice key, uint32_t *block) {
    ls_route route = {.node = 0};
    int found;
    *block = 0;
    if (fences->node_count == 0)
        return LS_OK;
    if (fences->repeats)
        return ls_block_seek(fences->index, fences->order, key, block, &found);
    while (route.node != LS_NO_NODE) {
        ls_status status = narrow(fences, key, &route, block);
        if (status == LS_OK && route.node != LS_NO_NODE)
            status = settle(fences, key, &route, block);
        if (status != LS_OK)
            return status;
    }
    return LS_OK;
}

/* Routes `left` keys to the end, level by level. `fences` is for all of them; NULL: key i is among
 * each[i]. The compiler makes one function for each case. */
__attribute__((always_inline)) static inline ls_status
go_down(const ls_fences *fences, const ls_fences *const *each, const ls_slice *keys, size_t count,
        ls_route *routes, size_t left, uint32_t *blocks) {
    while (left > 0) {
        for (size_t i = 0; i < count; i++) {
            if (routes[i].node == LS_NO_NODE)
                continue;
            const ls_fences *own = fences != NULL ? fences : each[i];
            ls_status status = narrow(own, keys[i], &routes[i], &blocks[i]);
            if (status != LS_OK)
                return status;
            if (routes[i].node != LS_NO_NODE) /* its middle is read first */
                __builtin_prefetch(routes[i].fence + routes[i].count / 2);
            left -= routes[i].node == LS_NO_NODE;
        }
        for (size_t i = 0; i < count; i++) {
            if (routes[i].node == LS_NO_NODE)
                continue;
            const ls_fences *own = fences != NULL ? fences : each[i];
            ls_status status = settle(own, keys[i], &routes[i], &blocks[i]);
            if (status != LS_OK)
                return status;
            left -= routes[i].node == LS_NO_NODE;
        }
    }
    return LS_OK;
}

static ls_status route_many_bytes(const ls_fences *fences, const ls_slice *keys, size_t count,
                                  uint32_t *blocks) {
    ls_route routes[LS_ROUTES];
    if (fences->node_count == 0 || fences->repeats) {
        for (size_t i = 0; i < count; i++) {
            ls_status status = route_bytes(fences, keys[i], &blocks[i]);
            if (status != LS_OK)
                return status;
        }
        return LS_OK;
    }
    for (size_t i = 0; i < count; i++)
        routes[i].node = 0;
    return go_down(fences, NULL, keys, count, routes, count, blocks);
}

/* Finds the block of a row whose sortable bytes exceed the buffer. */
static ls_status route_long(const ls_fences *fences, ls_slice key, uint32_t *block) {
    int found;
    if (fences->repeats)
        return ls_block_seek(fences->rows, fences->row_order, key, block, &found);
    return ls_block_lower_bound(fences->rows, fences->row_order, key, 0, block, &found);
}

/* Makes the sortable bytes; *fits: whether all of them are in the buffer. */
static inline ls_status sortable(const ls_fences *fences, ls_slice key, uint8_t *bytes,
                                 ls_slice *made, int *fits) {
    made->data = bytes;
    ls_status status =
        ls_row_sortable(ls_order_rows(fences->row_order), key, bytes, MOST_SORTABLE, &made->size);
    *fits = status == LS_OK && made->size <= MOST_SORTABLE;
    return status;
}

ls_status ls_fences_route(const ls_fences *fences, ls_slice key, uint32_t *block) {
    uint8_t bytes[MOST_SORTABLE];
    ls_slice made;
    int fits;
    if (fences->rows == NULL)
        return route_bytes(fences, key, block);
    ls_status status = sortable(fences, key, bytes, &made, &fits);
    if (status != LS_OK)
        return status;
    return fits ? route_bytes(fences, made, block) : route_long(fences, key, block);
}

static ls_status route_many_rows(const ls_fences *fences, const ls_slice *keys, size_t count,
                                 uint32_t *blocks) {
    uint8_t bytes[LS_ROUTES][MOST_SORTABLE];
    ls_slice some[LS_ROUTES] = {{NULL, 0}};
    uint32_t places[LS_ROUTES], found[LS_ROUTES];
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        int fits;
        ls_status status = sortable(fences, keys[i], bytes[kept], &some[kept], &fits);
        if (status == LS_OK && !fits)
            status = route_long(fences, keys[i], &blocks[i]);
        if (status != LS_OK)
            return status;
        places[kept] = (uint32_t)i;
        kept += (size_t)fits;
    }
    ls_status status = route_many_bytes(fences, some, kept, found);
    for (size_t i = 0; i < kept && status == LS_OK; i++)
        blocks[places[i]] = found[i];
    return status;
}

ls_status ls_fences_route_many(const ls_fences *fences, const ls_slice *keys, size_t count,
                               uint32_t *blocks) {
    return fences->rows == NULL ? route_many_bytes(fences, keys, count, blocks)
                                : route_many_rows(fences, keys, count, blocks);
}

ls_status ls_fences_route_each(const ls_fences *const *fences, const ls_slice *keys, size_t count,
                               uint32_t *blocks) {
    ls_route routes[LS_ROUTES];
    size_t left = count;
    for (size_t i = 0; i < count; i++) {
        const ls_fences *own = fences[i];
        routes[i].node = 0;
        if (own->rows == NULL && own->node_count > 0 && !own->repeats)
            continue;
        ls_status status = ls_fences_route(own, keys[i], &blocks[i]);
        if (status != LS_OK)
            return status;
        routes[i].node = LS_NO_NODE;
        left--;
    }
    return go_down(NULL, fences, keys, count, routes, left, blocks);
}
