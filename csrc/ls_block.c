#include "ls_block.h"

void ls_block_reset(ls_block_builder *builder) {
    builder->size = 0;
    builder->count = 0;
    builder->record_size = 0;
    builder->aligned = 1;
    builder->last_key = 0;
    builder->last_key_size = 0;
}

size_t ls_block_memory(const ls_block_builder *builder) {
    size_t positions = builder->aligned && builder->count > 0 ? 0 : 4 * (size_t)builder->count;
    return builder->size + positions + LS_BLOCK_TAIL;
}

size_t ls_block_room(ls_slice key, ls_slice value) {
    return ls_varint_size(key.size) + key.size + ls_varint_size(value.size) + value.size;
}

ls_status ls_block_add(ls_block_builder *builder, ls_slice key, ls_slice value) {
    if (key.size > INT32_MAX || value.size > INT32_MAX)
        return LS_TOO_LARGE;
    size_t record = ls_block_room(key, value);
    size_t needed = builder->size + record + 4 * ((size_t)builder->count + 1) + LS_BLOCK_TAIL;
    if (needed > INT32_MAX)
        return LS_TOO_LARGE;
    if (needed > builder->capacity || builder->count >= builder->positions_capacity)
        return LS_NO_SPACE;
    uint8_t *p = builder->data + builder->size;
    p = ls_put_varint(p, key.size);
    builder->last_key = (size_t)(p - builder->data);
    builder->last_key_size = key.size;
    if (key.size > 0)
        memcpy(p, key.data, key.size);
    p = ls_put_varint(p + key.size, value.size);
    if (value.size > 0)
        memcpy(p, value.data, value.size);
    builder->positions[builder->count] = (uint32_t)builder->size;
    if (builder->count == 0)
        builder->record_size = record;
    else if (record != builder->record_size)
        builder->aligned = 0;
    builder->size += record;
    builder->count++;
    return LS_OK;
}

/* Small values are copied in steps of this size, so bytes after their end may be read and
 * written. */
#define STEP 32

/* REQUIRES: size rounded up to a whole STEP, and at least one, can be read and written. */
static inline void copy_steps(uint8_t *to, const uint8_t *from, size_t size) {
    size_t done = 0;
    do {
        memcpy(to + done, from + done, STEP);
        done += STEP;
    } while (done < size);
}

/* Does the same as ls_compare_bytes, without a call if both have 8 bytes or more. */
static inline int compare_neighbours(ls_slice a, ls_slice b) {
    size_t shared = a.size < b.size ? a.size : b.size;
    if (shared < 8)
        return ls_compare_bytes(a, b);
    for (size_t i = 0;; i = i + 16 <= shared ? i + 8 : shared - 8) {
        uint64_t x = ls_load64_big(a.data + i), y = ls_load64_big(b.data + i);
        if (x != y)
            return x < y ? -1 : 1;
        if (i + 8 == shared)
            return (a.size > b.size) - (a.size < b.size);
    }
}

/* Adds rows of columns without nulls, in the order of bytes or of keys that are rows, as long as
 * they need no special treatment: ample room in the buffers, no row that ls_block_add_column
 * refuses, and for keys that are rows a greater prefix than that of the row before. It is inlined
 * once for fixed widths, and once for keys that are rows, a case that the compiler then moves out
 * of the loop. */
static inline __attribute__((always_inline)) ls_status
add_plain_rows(ls_block_builder *builder, ls_order order, int repeats, const ls_column *keys,
               const ls_column *values, size_t *row, size_t end, ls_slice *previous,
               uint64_t *prefix, size_t block_size) {
    /* Local variables are used, because to the compiler every stored byte may change *builder. */
    uint8_t *data = builder->data;
    uint32_t *positions = builder->positions;
    size_t size = builder->size, count = builder->count, record_size = builder->record_size;
    size_t capacity = builder->capacity < INT32_MAX ? builder->capacity : INT32_MAX;
    const uint8_t *keys_end = keys->data + keys->data_size;
    const uint8_t *values_end = values->data + values->data_size;
    size_t last_key = builder->last_key;
    int aligned = builder->aligned;
    size_t i = *row;
    ls_slice before = *previous, key, value;
    ls_status status = LS_OK;
    while (i < end) {
        if (ls_column_get(keys, i, &key) != LS_OK || ls_column_get(values, i, &value) != LS_OK)
            break;
        if ((size_t)(keys_end - key.data) < key.size + STEP ||
            (size_t)(values_end - value.data) < value.size + STEP)
            break;
        size_t record = ls_block_room(key, value);
        if (size + record + 2 * STEP + 4 * (count + 1) + LS_BLOCK_TAIL > capacity ||
            count >= builder->positions_capacity)
            break;
        if (order != LS_ORDER_BYTES) {
            if (ls_check_key(order, key) != LS_OK)
                break;
            uint64_t next = ls_key_prefix(order, key);
            if (next <= *prefix)
                break;
            *prefix = next;
        } else {
            int compared = compare_neighbours(before, key);
            if (compared > 0 || (compared == 0 && !repeats))
                break;
        }
        uint8_t *p = ls_put_varint(data + size, key.size);
        last_key = (size_t)(p - data);
        copy_steps(p, key.data, key.size);
        p = ls_put_varint(p + key.size, value.size);
        copy_steps(p, value.data, value.size);
        positions[count] = (uint32_t)size;
        if (record != record_size) {
            aligned = count == 0;
            record_size = count == 0 ? record : record_size;
        }
        size += record;
        count++;
        i++;
        before = key;
        if (size + (aligned ? 0 : 4 * count) + LS_BLOCK_TAIL > block_size) {
            status = LS_BLOCK_FULL;
            break;
        }
    }
    if (i > *row) {
        builder->size = size;
        builder->count = (uint32_t)count;
        builder->record_size = record_size;
        builder->aligned = aligned;
        builder->last_key = last_key;
        builder->last_key_size = before.size;
        *previous = before;
        *row = i;
    }
    return status;
}

static ls_status add_plain(ls_block_builder *builder, ls_order order, int repeats,
                           const ls_column *keys, const ls_column *values, size_t *row, size_t end,
                           ls_slice *previous, uint64_t *prefix, size_t block_size) {
    if (order != LS_ORDER_BYTES)
        return add_plain_rows(builder, order, repeats, keys, values, row, end, previous, prefix,
                              block_size);
    if (keys->offset_width == 0 && values->offset_width == 0) {
        ls_column fixed_keys = {.data = keys->data, .data_size = keys->data_size};
        ls_column fixed_values = {.data = values->data, .data_size = values->data_size};
        fixed_keys.width = keys->width;
        fixed_values.width = values->width;
        return add_plain_rows(builder, LS_ORDER_BYTES, repeats, &fixed_keys, &fixed_values, row,
                              end, previous, prefix, block_size);
    }
    return add_plain_rows(builder, LS_ORDER_BYTES, repeats, keys, values, row, end, previous,
                          prefix, block_size);
}

ls_status ls_block_add_column(ls_block_builder *builder, ls_order order, int repeats,
                              const ls_column *keys, const ls_column *values, size_t *row,
                              size_t end, ls_slice *previous, size_t block_size) {
    int is_row = ls_order_rows(order) != NULL;
    int plain =
        (order == LS_ORDER_BYTES || is_row) && keys->validity == NULL && values->validity == NULL;
    uint64_t before = UINT64_MAX; /* the prefix of the row before, which nearly always decides */
    for (; *row < end; (*row)++) {
        ls_slice key, value;
        if (plain && previous->data != NULL &&
            add_plain(builder, order, repeats, keys, values, row, end, previous, &before,
                      block_size) == LS_BLOCK_FULL)
            return LS_BLOCK_FULL;
        if (*row == end)
            break;
        if (!ls_column_is_valid(keys, *row) || !ls_column_is_valid(values, *row))
            return LS_NULL;
        if (ls_column_get(keys, *row, &key) != LS_OK ||
            ls_column_get(values, *row, &value) != LS_OK)
            return LS_BAD_COLUMN;
        if (ls_check_key(order, key) != LS_OK)
            return LS_BAD_KEY;
        uint64_t prefix = is_row ? ls_key_prefix(order, key) : 0;
        if (previous->data != NULL && prefix <= before) {
            int compared = ls_compare(order, *previous, key);
            if (compared > 0)
                return LS_OUT_OF_ORDER;
            if (compared == 0 && !repeats)
                return LS_REPEATED;
        }
        ls_status status = ls_block_add(builder, key, value);
        if (status != LS_OK)
            return status;
        before = is_row ? prefix : UINT64_MAX;
        *previous = key;
        if (previous->data == NULL) /* an empty key of an empty buffer is still a key */
            previous->data = builder->data;
        if (ls_block_memory(builder) > block_size) {
            (*row)++;
            return LS_BLOCK_FULL;
        }
    }
    return LS_OK;
}

void ls_block_finish(ls_block_builder *builder) {
    uint8_t *p = builder->data + builder->size;
    int aligned = builder->aligned && builder->count > 0;
    if (!aligned) {
        for (uint32_t i = 0; i < builder->count; i++, p += 4)
            ls_store32(p, builder->positions[i]);
    }
    ls_store32(p, aligned ? (uint32_t)builder->record_size : builder->count);
    p[4] = aligned ? 0 : 1;
    builder->size = (size_t)(p - builder->data) + LS_BLOCK_TAIL;
}

ls_status ls_block_open(ls_block *block, const uint8_t *data, size_t size) {
    if (size < LS_BLOCK_TAIL)
        return LS_TRUNCATED;
    size_t body = size - LS_BLOCK_TAIL;
    uint32_t number = ls_load32(data + body);
    uint8_t flag = data[size - 1];
    block->data = data;
    if (body > INT32_MAX)
        return LS_BAD_HEADER;
    if (flag == 0) {
        /* Two varints are the smallest record. */
        if (number < 2 || body == 0 || body % number != 0)
            return LS_BAD_HEADER;
        block->records_size = body;
        block->positions = NULL;
        block->record_size = number;
        block->count = (uint32_t)(body / number);
        return LS_OK;
    }
    if (flag != 1)
        return LS_BAD_HEADER;
    if (number > body / 4)
        return LS_TRUNCATED;
    block->records_size = body - 4 * (size_t)number;
    block->positions = data + block->records_size;
    block->record_size = 0;
    block->count = number;
    if (number == 0 ? block->records_size != 0 : ls_load32(block->positions) != 0)
        return LS_BAD_POSITION;
    return LS_OK;
}

static inline ls_status record_bounds(const ls_block *block, uint32_t i, const uint8_t **start,
                                      const uint8_t **end) {
    if (block->positions == NULL) {
        *start = block->data + (size_t)i * block->record_size;
        *end = *start + block->record_size;
        return LS_OK;
    }
    size_t from = ls_load32(block->positions + 4 * (size_t)i);
    size_t to = i + 1 < block->count ? ls_load32(block->positions + 4 * (size_t)(i + 1))
                                     : block->records_size;
    if (from >= to || to > block->records_size)
        return LS_BAD_POSITION;
    *start = block->data + from;
    *end = block->data + to;
    return LS_OK;
}

static inline ls_status record_key(const ls_block *block, uint32_t i, ls_slice *key,
                                   const uint8_t **end) {
    const uint8_t *p;
    uint32_t size;
    ls_status status = record_bounds(block, i, &p, end);
    if (status != LS_OK)
        return status;
    status = ls_get_varint32(&p, *end, &size);
    if (status != LS_OK)
        return status;
    if (size > (size_t)(*end - p))
        return LS_TRUNCATED;
    key->data = p;
    key->size = size;
    return LS_OK;
}

ls_status ls_block_record(const ls_block *block, uint32_t i, ls_slice *key, ls_slice *value) {
    const uint8_t *end;
    uint32_t size;
    ls_status status = record_key(block, i, key, &end);
    if (status != LS_OK)
        return status;
    const uint8_t *p = key->data + key->size;
    status = ls_get_varint32(&p, end, &size);
    if (status != LS_OK)
        return status;
    if (size != (size_t)(end - p))
        return LS_BAD_RECORD;
    value->data = p;
    value->size = size;
    return LS_OK;
}

ls_status ls_block_validate(const ls_block *block, ls_order order, int repeats, uint32_t *bad) {
    ls_slice previous = {NULL, 0};
    for (uint32_t i = 0; i < block->count; i++) {
        ls_slice key, value;
        *bad = i;
        ls_status status = ls_block_record(block, i, &key, &value);
        if (status == LS_OK)
            status = ls_check_key(order, key);
        if (status != LS_OK)
            return status;
        if (i > 0) {
            int compared = ls_compare(order, previous, key);
            if (compared > 0 || (compared == 0 && !repeats))
                return LS_BAD_ORDER;
        }
        previous = key;
    }
    return LS_OK;
}

/* Compares record i with a key. `prefix` is ls_key_prefix of the key: it nearly always decides, so
 * a search does not read the bytes of the key again. */
static inline ls_status compare_at(const ls_block *block, ls_order order, uint32_t i, ls_slice key,
                                   uint64_t prefix, int *compared) {
    ls_slice stored;
    const uint8_t *end;
    ls_status status = record_key(block, i, &stored, &end);
    if (status == LS_OK)
        status = ls_check_key(order, stored);
    if (status != LS_OK)
        return status;
    uint64_t stored_prefix = order == LS_ORDER_BYTES ? ls_bytes_prefix(stored.data, stored.size)
                                                     : ls_key_prefix(order, stored);
    if (stored_prefix != prefix)
        *compared = stored_prefix < prefix ? -1 : 1;
    else
        *compared = order == LS_ORDER_BYTES ? ls_compare_bytes(stored, key)
                                            : ls_compare(order, stored, key);
    return LS_OK;
}

ls_status ls_block_seek(const ls_block *block, ls_order order, ls_slice key, uint32_t *position,
                        int *found) {
    int64_t left = 0, right = (int64_t)block->count - 1;
    uint64_t prefix = ls_key_prefix(order, key);
    while (left <= right) {
        int64_t middle = left + (right - left) / 2;
        int compared = 0;
        ls_status status = compare_at(block, order, (uint32_t)middle, key, prefix, &compared);
        if (status != LS_OK)
            return status;
        if (compared == 0) {
            *position = (uint32_t)middle;
            *found = 1;
            return LS_OK;
        }
        if (compared < 0)
            left = middle + 1;
        else
            right = middle - 1;
    }
    *position = (uint32_t)left;
    *found = 0;
    return LS_OK;
}

ls_status ls_block_lower_bound(const ls_block *block, ls_order order, ls_slice key, uint32_t from,
                               uint32_t *position, int *found) {
    /* Invariant: records before `low` are smaller than the key, those from `high` on are not. */
    size_t low = from, high = from, step = 1;
    int compared = 1, at_high = 1;
    uint64_t prefix = ls_key_prefix(order, key);
    *found = 0;
    while (high < block->count) {
        ls_status status = compare_at(block, order, (uint32_t)high, key, prefix, &compared);
        if (status != LS_OK)
            return status;
        if (compared >= 0) {
            at_high = compared;
            break;
        }
        low = high + 1;
        high += step;
        step *= 2;
    }
    if (high > block->count)
        high = block->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        ls_status status = compare_at(block, order, (uint32_t)middle, key, prefix, &compared);
        if (status != LS_OK)
            return status;
        if (compared < 0) {
            low = middle + 1;
        } else {
            high = middle;
            at_high = compared;
        }
    }
    *position = (uint32_t)high;
    *found = high < block->count && at_high == 0;
    return LS_OK;
}

/* Where key and value are in a record, for a block in which most records are alike: all have one
 * size, and sizes of keys and values that take at most two bytes. */
typedef struct {
    size_t key, key_size;
    size_t value, value_size;
    size_t value_head; /* where the size of the value is */
    uint8_t heads[4];  /* the stored sizes of key and value; of one byte, masked to one */
    uint8_t masks[4];
} record_shape;

/* Finds the shape of a record. Returns 0 if other records cannot be compared with it. */
static int shape_of(const ls_block *block, uint32_t i, record_shape *shape) {
    ls_slice key, value;
    if (block->positions != NULL || ls_block_record(block, i, &key, &value) != LS_OK)
        return 0;
    const uint8_t *record = block->data + (size_t)i * block->record_size;
    shape->key = (size_t)(key.data - record);
    shape->key_size = key.size;
    shape->value_head = shape->key + key.size;
    shape->value = (size_t)(value.data - record);
    shape->value_size = value.size;
    if (shape->key > 2 || shape->value - shape->value_head > 2)
        return 0;
    shape->masks[0] = shape->masks[2] = 0xFF;
    shape->masks[1] = shape->key == 2 ? 0xFF : 0;
    shape->masks[3] = shape->value - shape->value_head == 2 ? 0xFF : 0;
    for (size_t at = 0; at < 2; at++) {
        shape->heads[at] = record[at] & shape->masks[at];
        shape->heads[2 + at] = record[shape->value_head + at] & shape->masks[2 + at];
    }
    return 1;
}

/* Returns whether a record has a shape. The byte after a size of one byte is one of the record, or
 * of the tail of the block. */
static inline int has_shape(const uint8_t *record, const record_shape *shape) {
    uint32_t heads, expected, mask;
    uint8_t found[4];
    memcpy(found, record, 2);
    memcpy(found + 2, record + shape->value_head, 2);
    memcpy(&heads, found, 4);
    memcpy(&expected, shape->heads, 4);
    memcpy(&mask, shape->masks, 4);
    return (heads & mask) == expected;
}

ls_status ls_block_sizes(const ls_block *block, uint32_t from, uint32_t to, size_t *keys,
                         size_t *values) {
    *keys = *values = 0;
    uint32_t i = from;
    record_shape shape;
    if (from < to && shape_of(block, from, &shape)) {
        const uint8_t *record = block->data + (size_t)from * block->record_size;
        for (; i < to && has_shape(record, &shape); i++)
            record += block->record_size;
        *keys = (i - from) * shape.key_size;
        *values = (i - from) * shape.value_size;
    }
    for (; i < to; i++) {
        ls_slice key, value;
        ls_status status = ls_block_record(block, i, &key, &value);
        if (status != LS_OK)
            return status;
        *keys += key.size;
        *values += value.size;
    }
    return LS_OK;
}

/* Returns how many pieces of a size, copied in steps one after the other, stay within `room`. */
static size_t copied_in_steps(size_t room, size_t size) {
    if (room < STEP)
        return 0;
    return size == 0 ? SIZE_MAX : (room - STEP) / size;
}

/* Copies records from `from` on, as ls_block_copy does, as long as they are alike and fit; returns
 * their number. */
static uint32_t copy_alike(const ls_block *block, uint32_t from, uint32_t to, int64_t *key_offsets,
                           uint8_t *keys, size_t keys_room, int64_t *value_offsets, uint8_t *values,
                           size_t values_room) {
    record_shape shape;
    if (!shape_of(block, from, &shape))
        return 0;
    size_t key_end = (size_t)key_offsets[0], value_end = (size_t)value_offsets[0];
    size_t size = block->record_size, start = from * size;
    const uint8_t *record = block->data + start;
    size_t quick = copied_in_steps(block->records_size - start, size);
    size_t keys_quick = copied_in_steps(keys_room - key_end, shape.key_size);
    size_t values_quick = copied_in_steps(values_room - value_end, shape.value_size);
    quick = quick < keys_quick ? quick : keys_quick;
    quick = quick < values_quick ? quick : values_quick;
    uint32_t done = 0;
    for (; done < to - from && has_shape(record, &shape); done++, record += size) {
        if (done < quick) { /* bytes after it are written again by what follows */
            copy_steps(keys + key_end, record + shape.key, shape.key_size);
            copy_steps(values + value_end, record + shape.value, shape.value_size);
        } else {
            if (shape.key_size > keys_room - key_end || shape.value_size > values_room - value_end)
                break;
            ls_copy(keys + key_end, record + shape.key, shape.key_size);
            ls_copy(values + value_end, record + shape.value, shape.value_size);
        }
        key_offsets[done + 1] = (int64_t)(key_end += shape.key_size);
        value_offsets[done + 1] = (int64_t)(value_end += shape.value_size);
    }
    return done;
}

ls_status ls_block_copy(const ls_block *block, uint32_t from, uint32_t to, int reverse,
                        int64_t *key_offsets, uint8_t *keys, size_t keys_room,
                        int64_t *value_offsets, uint8_t *values, size_t values_room) {
    size_t count = to - from, n = 0;
    if ((size_t)key_offsets[0] > keys_room || (size_t)value_offsets[0] > values_room)
        return LS_TRUNCATED;
    if (!reverse && count > 0)
        n = copy_alike(block, from, to, key_offsets, keys, keys_room, value_offsets, values,
                       values_room);
    size_t key_end = (size_t)key_offsets[n], value_end = (size_t)value_offsets[n];
    for (; n < count; n++) {
        ls_slice key, value;
        uint32_t i = (uint32_t)(reverse ? to - 1 - n : from + n);
        ls_status status = ls_block_record(block, i, &key, &value);
        if (status != LS_OK)
            return status;
        if (key.size > keys_room - key_end || value.size > values_room - value_end)
            return LS_TRUNCATED;
        ls_copy(keys + key_end, key.data, key.size);
        ls_copy(values + value_end, value.data, value.size);
        key_end += key.size;
        value_end += value.size;
        key_offsets[n + 1] = (int64_t)key_end;
        value_offsets[n + 1] = (int64_t)value_end;
    }
    return LS_OK;
}
