/* Tests of ls_keys.h: bytes and damage; meaning is tested from Python against typed order. */
#include "ls_keys.h"
#include "made.h"
#include "tests.h"

void test_keys(void) {
    /* One field in the middle, nullable: 01, escaped value, 00 00. */
    const ls_slice values[] = {slice(""), {(const uint8_t *)"a\0b", 3}, slice("xyz")};
    ls_key_field field = {.kind = LS_KEY_BYTES, .nullable = 1};
    made_column made = make_column(values, 3, 4);
    made.column.validity = made.validity = copy("\x03", 1); /* the last one is null */
    int64_t *cursors = room(3 * 8);
    for (size_t i = 0; i < 3; i++)
        cursors[i] = 1;
    CHECK(ls_keys_add_sizes(&field, &made.column, cursors) == LS_OK);
    CHECK(cursors[0] == 3 && cursors[1] == 7 && cursors[2] == 1);
    int64_t size = ls_keys_starts(cursors, 3);
    CHECK(size == 11 && cursors[0] == 0 && cursors[1] == 3 && cursors[2] == 10);
    ls_key_target target = {.data = room((size_t)size), .cursors = cursors, .length = 3};
    CHECK(ls_keys_write(&field, &made.column, 0, &target) == LS_OK);
    CHECK(memcmp(target.data,
                 "\1\0\0\1a\0\xff"
                 "b\0\0\0",
                 11) == 0);

    /* Read back the middle key, whole and cut, and with every byte changed. */
    for (size_t cut = 0; cut <= 7; cut++)
        for (unsigned change = 0; change < 256; change++) {
            ls_slice key = {copy(target.data + 3, cut), cut};
            if (cut > 0)
                ((uint8_t *)key.data)[below(cut)] = (uint8_t)change;
            made_column keys = make_column(&key, 1, 8);
            int64_t cursor = 0, offsets[2];
            size_t bad = 9, nulls = 0;
            if (ls_keys_measure_bytes(&field, &keys.column, &cursor, offsets, &bad) == LS_OK) {
                uint8_t validity = 0, *out = room((size_t)offsets[1]);
                CHECK(offsets[1] <= 7);
                CHECK(ls_keys_read_bytes(&field, &keys.column, &cursor, out, &validity, &nulls,
                                         &bad) == LS_OK);
                CHECK((size_t)cursor <= cut);
                (void)ls_keys_check_ends(&keys.column, &cursor, &bad);
                free(out);
            } else {
                CHECK(bad == 0);
            }
            free((void *)key.data);
            free_column(&keys);
        }
    free(target.data);
    free(cursors);
    free_column(&made);

    /* Fixed fields: big-endian, the sign flipped. */
    static const struct {
        ls_key_kind kind;
        size_t width;
        const char *in, *out;
    } fixed[] = {
        {LS_KEY_UNSIGNED, 4, "\4\3\2\1", "\1\2\3\4"},
        {LS_KEY_SIGNED, 4, "\xff\xff\xff\xff", "\x7f\xff\xff\xff"},
        {LS_KEY_SIGNED, 2, "\1\0", "\x80\1"},
        {LS_KEY_FLOAT, 4, "\0\0\0\x80", "\x80\0\0\0"}, /* -0.0 as 0.0 */
        {LS_KEY_FLOAT, 4, "\0\0\x80\xbf", "\x40\x7f\xff\xff"}, /* -1.0 */
        {LS_KEY_RAW, 3, "abc", "abc"},
    };
    for (size_t n = 0; n < sizeof fixed / sizeof *fixed; n++) {
        ls_slice value = {(const uint8_t *)fixed[n].in, fixed[n].width};
        made_column column = make_column(&value, 1, 0);
        ls_key_field one = {.kind = fixed[n].kind, .width = fixed[n].width};
        ls_key_target keys = {.data = room(one.width), .stride = one.width, .length = 1};
        CHECK(ls_keys_write(&one, &column.column, 0, &keys) == LS_OK);
        CHECK(memcmp(keys.data, fixed[n].out, one.width) == 0);
        for (size_t cut = 0; cut <= one.width; cut++) {
            ls_slice key = {keys.data, cut};
            made_column stored = make_column(&key, 1, 8);
            int64_t cursor = 0;
            size_t nulls = 0, bad = 9;
            uint8_t *out = room(one.width);
            ls_status status =
                ls_keys_read_fixed(&one, &stored.column, &cursor, out, NULL, &nulls, &bad);
            CHECK(status == (cut < one.width ? LS_BAD_ROW : LS_OK));
            CHECK((ls_keys_check_width(&stored.column, one.width, &bad) == LS_OK) ==
                  (cut == one.width));
            free(out);
            free_column(&stored);
        }
        free(keys.data);
        free_column(&column);
    }
    uint32_t bucket = 9;
    ls_slice key = slice("a");
    made = make_column(&key, 1, 8);
    CHECK(ls_keys_buckets(&made.column, 1000, &bucket) == LS_OK);
    CHECK(bucket == UINT64_C(0xd24ec4f1a98c6e5b) % 1000);
    free_column(&made);
}

/* Keys of a nullable field that are nothing, or nothing but their marker. Each follows a null, since
 * an empty malloc is one byte to AddressSanitizer. */
void test_short_keys(void) {
    static const ls_key_field fields[] = {
        {.kind = LS_KEY_SIGNED, .width = 4, .nullable = 1},
        {.kind = LS_KEY_RAW, .width = 3, .nullable = 1},
        {.kind = LS_KEY_BYTES, .nullable = 1},
    };
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++)
        for (size_t cut = 0; cut <= 1; cut++) {
            const ls_slice keys[] = {{(const uint8_t *)"\0", 1}, {(const uint8_t *)"\1", cut}};
            made_column made = make_column(keys, 2, 8);
            int64_t cursors[2] = {0, 0}, offsets[3];
            size_t nulls = 0, bad = 9;
            uint8_t out[8], validity = 0;
            ls_status status =
                fields[n].kind == LS_KEY_BYTES
                    ? ls_keys_measure_bytes(&fields[n], &made.column, cursors, offsets, &bad)
                    : ls_keys_read_fixed(&fields[n], &made.column, cursors, out, &validity, &nulls,
                                         &bad);
            CHECK(status == LS_BAD_ROW && bad == 1 && cursors[1] == 0);
            free_column(&made);
        }
}
