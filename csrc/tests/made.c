#include "made.h"

uint64_t seed, state;
size_t checks;

uint64_t any(void) {
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

size_t below(size_t limit) {
    return (size_t)(any() % limit);
}

void *room(size_t size) {
    void *data = malloc(size);
    if (data == NULL && size != 0)
        abort();
    return data;
}

void *copy(const void *data, size_t size) {
    void *out = room(size);
    if (size != 0)
        memcpy(out, data, size);
    return out;
}

ls_slice slice(const char *text) {
    return (ls_slice){(const uint8_t *)text, strlen(text)};
}

int same(ls_slice a, ls_slice b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

made_column make_column(const ls_slice *values, size_t count, int offset_width) {
    made_column made = {{0}, NULL, NULL, NULL};
    size_t size = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        size += values[i].size;
    made.data = room(size);
    made.offsets = room((count + 1) * (size_t)offset_width);
    for (size_t i = 0; i <= count; i++) {
        if (offset_width == 4)
            ((int32_t *)made.offsets)[i] = (int32_t)at;
        else if (offset_width == 8)
            ((int64_t *)made.offsets)[i] = (int64_t)at;
        if (i < count && values[i].size > 0) {
            memcpy((uint8_t *)made.data + at, values[i].data, values[i].size);
            at += values[i].size;
        }
    }
    made.column.data = made.data;
    made.column.data_size = size;
    made.column.offsets = offset_width ? made.offsets : NULL;
    made.column.offset_width = offset_width;
    made.column.width = offset_width || count == 0 ? 0 : values[0].size;
    made.column.length = count;
    return made;
}

void free_column(made_column *made) {
    free(made->data);
    free(made->offsets);
    free(made->validity);
}
