#include "blocks.h"

uint32_t *slots_room(const ls_block *block) {
    uint32_t *slots = aligned_alloc(64, 64 * (size_t)ls_slots_buckets(block->count));
    if (slots == NULL)
        abort();
    return slots;
}

void get_anything(const ls_ready *ready, ls_order order) {
    static const uint8_t bytes[64] = {'a', 1, 'm', 'm'};
    for (size_t size = 0; size <= sizeof bytes; size++) {
        ls_slice key = {bytes, size}, value = {NULL, 0};
        if (ls_check_key(order, key) != LS_OK ||
            ls_ready_get(ready, order, key, ls_hash(key), &value) != LS_OK || value.data == NULL)
            continue;
        CHECK(value.data >= ready->data && value.size <= ready->size &&
              value.data + value.size <= ready->data + ready->size);
    }
}

ls_status add(ls_block_builder *builder, ls_slice key, ls_slice value) {
    ls_status status = ls_block_add(builder, key, value);
    if (status != LS_NO_SPACE)
        return status;
    builder->capacity = builder->size + ls_block_room(key, value) +
                        4 * ((size_t)builder->count + 1) + LS_BLOCK_TAIL;
    builder->data = realloc(builder->data, builder->capacity);
    builder->positions_capacity = builder->count + 1;
    builder->positions = realloc(builder->positions, 4 * builder->positions_capacity);
    return ls_block_add(builder, key, value);
}

uint8_t *finish(ls_block_builder *builder, size_t *size) {
    if (builder->data == NULL) {
        builder->capacity = LS_BLOCK_TAIL;
        builder->data = room(LS_BLOCK_TAIL);
    }
    size_t memory = ls_block_memory(builder);
    ls_block_finish(builder);
    CHECK(builder->size == memory);
    *size = memory;
    uint8_t *block = copy(builder->data, memory);
    free(builder->data);
    free(builder->positions);
    memset(builder, 0, sizeof *builder);
    ls_block_reset(builder);
    return block;
}

void new_builder(ls_block_builder *builder) {
    memset(builder, 0, sizeof *builder);
    ls_block_reset(builder);
}

void read_everything(const uint8_t *data, size_t size) {
    static const ls_order orders[] = {LS_ORDER_BYTES, LS_ORDER_INT8, LS_ORDER_INT32};
    ls_block block;
    ls_slice key, value;
    uint32_t bad, position;
    int found;
    size_t keys, values;
    if (ls_block_open(&block, data, size) != LS_OK)
        return;
    CHECK(block.count <= size);
    for (uint32_t i = 0; i < block.count; i++)
        if (ls_block_record(&block, i, &key, &value) == LS_OK)
            CHECK(key.data >= data && value.data + value.size <= data + size);
    /* Longer than what follows any key: a size that is not checked makes it read too far. */
    static const uint8_t wanted_bytes[64] = {'a', 1, 'm', 'm'};
    for (size_t n = 0; n < 3; n++) {
        ls_slice wanted = {wanted_bytes, orders[n] ? (size_t)orders[n] : sizeof wanted_bytes};
        (void)ls_block_validate(&block, orders[n], n == 1, &bad);
        (void)ls_block_seek(&block, orders[n], wanted, &position, &found);
        (void)ls_block_lower_bound(&block, orders[n], wanted, 0, &position, &found);
        uint32_t *slots = slots_room(&block);
        ls_ready ready;
        if (ls_slots_build(&block, size, orders[n], slots, &ready, &bad) == LS_OK)
            get_anything(&ready, orders[n]);
        else
            CHECK(bad < block.count);
        free(slots);
    }
    if (ls_block_sizes(&block, 0, block.count, &keys, &values) == LS_OK) {
        CHECK(keys + values <= size);
        int64_t *key_offsets = room(8 * ((size_t)block.count + 1));
        int64_t *value_offsets = room(8 * ((size_t)block.count + 1));
        uint8_t *key_bytes = room(keys), *value_bytes = room(values);
        key_offsets[0] = value_offsets[0] = 0;
        for (int reverse = 0; reverse < 2; reverse++) {
            CHECK(ls_block_copy(&block, 0, block.count, reverse, key_offsets, key_bytes, keys,
                                value_offsets, value_bytes, values) == LS_OK);
            CHECK(key_offsets[block.count] == (int64_t)keys);
            CHECK(value_offsets[block.count] == (int64_t)values);
        }
        free(key_offsets);
        free(value_offsets);
        free(key_bytes);
        free(value_bytes);
    }
}

void damage(const uint8_t *data, size_t size) {
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *exact = copy(data, cut);
        read_everything(exact, cut);
        free(exact);
        exact = copy(data + cut, size - cut);
        read_everything(exact, size - cut);
        free(exact);
    }
    uint8_t *exact = copy(data, size);
    for (size_t i = 0; i < 8 * size; i++) {
        exact[i / 8] ^= (uint8_t)(1U << (i % 8));
        read_everything(exact, size);
        exact[i / 8] ^= (uint8_t)(1U << (i % 8));
    }
    for (size_t i = 0; i < 300; i++) {
        memcpy(exact, data, size);
        for (size_t n = 1 + below(4); n > 0; n--)
            exact[below(2) ? below(size) : size - 1 - below(size < 16 ? size : 16)] =
                (uint8_t)any();
        read_everything(exact, size);
    }
    free(exact);
}

static ls_order sorted_order;

static int compare_slices(const void *left, const void *right) {
    return ls_compare(sorted_order, *(const ls_slice *)left, *(const ls_slice *)right);
}

void sort_slices(ls_order order, ls_slice *slices, size_t count) {
    sorted_order = order;
    qsort(slices, count, sizeof *slices, compare_slices);
}

static size_t random_key(key_kind kind, size_t number, uint8_t *key) {
    size_t size = kind == SHORT_KEYS ? below(9) : below(41), shared = below(4);
    switch (kind) {
    case COUNTED_KEYS:
        for (size_t k = 0; k < 8; k++)
            key[k] = (uint8_t)(number * 1001 >> (56 - 8 * k));
        return 8;
    case NESTED_KEYS:
        size = below(LONGEST_KEY + 1);
        for (size_t k = 0; k < size; k++)
            key[k] = k % 50 < 20 ? 0 : 'n';
        if (size > 0 && below(4) == 0)
            key[size - 1]++;
        return size;
    case SHARED_KEYS:
        size = shared * 66 + below(12);
        memset(key, 'p', shared * 66);
        for (size_t k = shared * 66; k < size; k++)
            key[k] = (uint8_t)("\0ab"[below(3)]);
        if (shared > 0 && below(2)) /* some share the first half only */
            key[33 * shared] = 'q';
        return size;
    default:
        for (size_t k = 0; k < size; k++)
            key[k] = (uint8_t)(kind == SHORT_KEYS ? "\0\1am\xff"[below(5)] : (int)any());
        return size;
    }
}

key_set make_keys(ls_order order, key_kind kind, size_t wanted, int repeats) {
    key_set set = {room(wanted * LONGEST_KEY), room(wanted * sizeof(ls_slice)), 0};
    for (size_t i = 0; i < wanted; i++) {
        uint8_t *key = set.bytes[i];
        size_t size = (size_t)order;
        if (order == LS_ORDER_BYTES) {
            size = random_key(kind, i, key);
        } else {
            uint8_t number[8];
            ls_store64(number, kind == COUNTED_KEYS ? i : any() >> below(64));
            memcpy(key, number, size);
        }
        set.keys[i] = (ls_slice){key, size};
        if (repeats && i > 0 && below(3) == 0)
            set.keys[i] = set.keys[below(i)];
    }
    if (wanted > 0)
        sort_slices(order, set.keys, wanted);
    for (size_t i = 0; i < wanted; i++)
        if (i == 0 || repeats || ls_compare(order, set.keys[set.count - 1], set.keys[i]) != 0)
            set.keys[set.count++] = set.keys[i];
    return set;
}

void free_keys(key_set *set) {
    free(set->bytes);
    free(set->keys);
}

ls_slice neighbour(ls_order order, ls_slice key, size_t which) {
    uint8_t bytes[LONGEST_KEY + 8];
    size_t size = key.size;
    if (size > 0)
        memcpy(bytes, key.data, size);
    if (order == LS_ORDER_BYTES) {
        size_t more = which == 1 || which == 2 ? 1 : which == 3 ? 8 : 0;
        memset(bytes + size, which == 2 ? 0xff : 0, more);
        size += more;
        size -= which == 4 && size > 0 ? 1
                : which == 5           ? size % 8
                : which == 6           ? below(size + 1)
                                       : 0;
    }
    if (size > 0 && which == 7)
        bytes[order == LS_ORDER_BYTES ? size - 1 : 0]++;
    if (size > 0 && which == 8)
        bytes[order == LS_ORDER_BYTES ? size - 1 : 0]--;
    if (size > 0 && which == 9)
        bytes[below(size)] ^= (uint8_t)(1U << below(8));
    return (ls_slice){copy(bytes, size), size};
}

ls_slice any_key(ls_order order) {
    uint8_t bytes[LONGEST_KEY];
    size_t size = order == LS_ORDER_BYTES
                      ? random_key((key_kind)below(KEY_KINDS), below(5000), bytes)
                      : (size_t)order;
    if (order != LS_ORDER_BYTES)
        for (size_t k = 0; k < size; k++)
            bytes[k] = (uint8_t)any();
    if (below(8) == 0)
        memset(bytes, below(2) ? 0xff : 0, size);
    return (ls_slice){copy(bytes, size), size};
}

size_t walk(ls_order order, const ls_slice *keys, size_t count, ls_slice key, int *found) {
    size_t at = 0;
    while (at < count && ls_compare(order, keys[at], key) < 0)
        at++;
    *found = at < count && ls_compare(order, keys[at], key) == 0;
    return at;
}

size_t halve(ls_order order, const ls_slice *keys, size_t count, ls_slice key, int *found) {
    int64_t left = 0, right = (int64_t)count - 1;
    *found = 0;
    while (left <= right) {
        int64_t middle = left + (right - left) / 2;
        int compared = ls_compare(order, keys[middle], key);
        if (compared == 0) {
            *found = 1;
            return (size_t)middle;
        }
        if (compared < 0)
            left = middle + 1;
        else
            right = middle - 1;
    }
    return (size_t)left;
}

uint8_t *make_block(const ls_slice *keys, const ls_slice *values, size_t count, size_t *size) {
    ls_block_builder builder;
    new_builder(&builder);
    builder.capacity = LS_BLOCK_TAIL + 4 * count;
    for (size_t i = 0; i < count; i++)
        builder.capacity += ls_block_room(keys[i], values[i]);
    builder.data = room(builder.capacity);
    builder.positions = room(4 * count);
    builder.positions_capacity = count;
    for (size_t i = 0; i < count; i++)
        CHECK(ls_block_add(&builder, keys[i], values[i]) == LS_OK);
    return finish(&builder, size);
}

void damage_in_place(uint8_t *data, size_t size) {
    for (size_t n = 1 + below(4); n > 0; n--)
        data[below(2) ? below(size) : size - 1 - below(size < 16 ? size : 16)] =
            (uint8_t)(below(2) ? any() : below(4));
}

ls_status fill_fences(ls_fences *fences) {
    size_t nodes = fences->node_count, count = fences->fence_count, starts = fences->start_count;
    fences->nodes = room(nodes * sizeof *fences->nodes);
    fences->fences = room(count * sizeof *fences->fences);
    fences->starts = room(starts * sizeof *fences->starts);
    memset(fences->fences, 0xff, count * sizeof *fences->fences);
    ls_status status = ls_fences_build(fences);
    if (status != LS_OK)
        return status;
    CHECK(fences->node_count <= nodes && fences->fence_count <= count);
    CHECK(fences->start_count <= starts);
    return LS_OK;
}

void make_fences(ls_fences *fences, const ls_block *index, ls_order order) {
    *fences = (ls_fences){.index = index, .order = order};
    CHECK(ls_fences_build(fences) == LS_OK);
    size_t nodes = fences->node_count, count = fences->fence_count, starts = fences->start_count;
    CHECK(fill_fences(fences) == LS_OK);
    CHECK(fences->node_count == nodes && fences->fence_count == count);
    CHECK(fences->start_count == starts);
    for (size_t i = 0; i < count; i++) /* each has been filled */
        CHECK(fences->fences[i].key <= index->count);
}

void free_fences(ls_fences *fences) {
    free(fences->nodes);
    free(fences->fences);
    free(fences->starts);
}

uint8_t *make_index(const ls_slice *keys, size_t count, ls_block *index, size_t *size) {
    ls_slice *values = room(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (ls_slice){(const uint8_t *)"handle", below(7)};
    uint8_t *data = make_block(keys, values, count, size);
    free(values);
    CHECK(ls_block_open(index, data, *size) == LS_OK && index->count == count);
    return data;
}
