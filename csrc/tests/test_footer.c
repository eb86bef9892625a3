/* Tests of ls_footer.h: row groups that are whole, and others that are cut or changed. */
#include "ls_compact.h"
#include "ls_footer.h"
#include "made.h"
#include "tests.h"

enum { COLUMNS = 2, START = 4, END = 1000 };

static uint8_t *put_field(uint8_t *out, int id, int type) {
    *out++ = (uint8_t)type;
    return ls_put_compact_integer(out, id);
}

static uint8_t *put_number(uint8_t *out, int id, int type, int64_t value) {
    return ls_put_compact_integer(put_field(out, id, type), value);
}

static uint8_t *put_text(uint8_t *out, const char *text) {
    size_t size = strlen(text);
    out = ls_put_varint(out, size);
    memcpy(out, text, size);
    return out + size;
}

/* A chunk of `rows` values, with bounds of `width` bytes. */
static uint8_t *put_chunk(uint8_t *out, const char *name, int64_t rows, int64_t at, int64_t stored,
                          size_t width) {
    out = put_field(out, 3, LS_COMPACT_STRUCT);
    out = put_number(out, 1, LS_COMPACT_I32, 2);
    out = put_field(out, 3, LS_COMPACT_LIST);
    *out++ = 1 << 4 | LS_COMPACT_BINARY;
    out = put_text(out, name);
    out = put_number(out, 5, LS_COMPACT_I64, rows);
    out = put_number(out, 6, LS_COMPACT_I64, 2 * stored);
    out = put_number(out, 7, LS_COMPACT_I64, stored);
    out = put_number(out, 9, LS_COMPACT_I64, at);
    out = put_field(out, 12, LS_COMPACT_STRUCT);
    out = put_field(out, 5, LS_COMPACT_BINARY);
    out = put_text(out, width == 8 ? "12345678" : "1234567");
    *out++ = LS_COMPACT_STOP;
    *out++ = LS_COMPACT_STOP;
    *out++ = LS_COMPACT_STOP;
    return out;
}

static size_t put_group(uint8_t *bytes, int64_t rows, int64_t values, int64_t at, size_t width) {
    uint8_t *out = put_field(bytes, 1, LS_COMPACT_LIST);
    *out++ = COLUMNS << 4 | LS_COMPACT_STRUCT;
    out = put_chunk(out, "a", rows, START, 7, 8);
    out = put_chunk(out, "bc", values, at, 20, width);
    out = put_number(out, 3, LS_COMPACT_I64, rows);
    *out++ = LS_COMPACT_STOP;
    return (size_t)(out - bytes);
}

static ls_footer_fault read_group(const uint8_t *bytes, size_t size, uint64_t repetition,
                                  ls_footer_group *group, uint32_t *places, size_t *chunk) {
    ls_footer_leaf leaves[COLUMNS] = {
        {.name = slice("a"), .kind = 2, .width = 8},
        {.name = slice("bc"), .kind = 2, .width = 8, .repetition = repetition},
    };
    const uint8_t *cursor = bytes;
    ls_footer_fault fault = ls_footer_group_read(bytes, &cursor, bytes + size, leaves, COLUMNS,
                                                 START, END, group, places, chunk);
    CHECK(cursor <= bytes + size);
    CHECK(fault != LS_FOOTER_OK || cursor == bytes + size || repetition > 1);
    return fault;
}

void test_row_groups(void) {
    uint8_t bytes[256];
    ls_footer_group group;
    uint32_t places[COLUMNS];
    size_t chunk = 9;
    size_t size = put_group(bytes, 5, 5, 11, 8);
    CHECK(read_group(bytes, size, 0, &group, places, &chunk) == LS_FOOTER_OK);
    CHECK(group.rows == 5 && group.stored == 27 && group.plain == 54);
    for (int i = 0; i < COLUMNS; i++) /* the field of the type */
        CHECK(bytes[places[i]] == LS_COMPACT_I32);

    put_group(bytes, 5, 4, 11, 8); /* fewer values than rows */
    CHECK(read_group(bytes, size, 0, &group, places, &chunk) == LS_FOOTER_OTHERS);
    CHECK(read_group(bytes, size, 1, &group, places, &chunk) == LS_FOOTER_OTHERS);
    put_group(bytes, 5, 6, 11, 8); /* more: only in lists */
    CHECK(read_group(bytes, size, 0, &group, places, &chunk) == LS_FOOTER_OTHERS);
    CHECK(read_group(bytes, size, 1, &group, places, &chunk) == LS_FOOTER_OK);

    size = put_group(bytes, 5, 5, END - 20, 8);
    CHECK(read_group(bytes, size, 0, &group, places, &chunk) == LS_FOOTER_OK);
    for (int i = 0; i < 3; i++) {
        int64_t outside[] = {START - 1, END - 19, INT64_MAX};
        size = put_group(bytes, 5, 5, outside[i], 8);
        CHECK(read_group(bytes, size, 0, &group, places, &chunk) == LS_FOOTER_OUTSIDE);
        CHECK(chunk == 1);
    }
    size = put_group(bytes, 5, 5, -1, 8);
    CHECK(read_group(bytes, size, 0, &group, places, &chunk) == LS_FOOTER_LACKS);
    size = put_group(bytes, 5, -5, 11, 8);
    CHECK(read_group(bytes, size, 0, &group, places, &chunk) == LS_FOOTER_LACKS);
    size = put_group(bytes, 5, 5, 11, 7);
    CHECK(read_group(bytes, size, 0, &group, places, &chunk) == LS_FOOTER_OTHERS);
}

void test_malformed_row_groups(void) {
    uint8_t bytes[256];
    ls_footer_group group;
    uint32_t places[COLUMNS];
    size_t chunk;
    size_t size = put_group(bytes, 5, 5, 11, 8);
    for (size_t less = 0; less < size; less++) {
        uint8_t *exact = copy(bytes, less);
        CHECK(read_group(exact, less, 0, &group, places, &chunk) != LS_FOOTER_OK);
        free(exact);
    }
    for (int round = 0; round < 20000; round++) {
        uint8_t *exact = copy(bytes, size);
        for (size_t i = below(3) + 1; i > 0; i--)
            exact[below(size)] = (uint8_t)any();
        read_group(exact, size, 2, &group, places, &chunk);
        free(exact);
    }
    /* Lists that hold each other. */
    uint8_t deep[64];
    memset(deep, 1 << 4 | LS_COMPACT_LIST, sizeof deep);
    const uint8_t *cursor = deep;
    CHECK(ls_compact_skip(&cursor, deep + sizeof deep, LS_COMPACT_LIST, 16) == LS_BAD_HEADER);
}
