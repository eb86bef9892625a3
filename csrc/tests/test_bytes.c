/* Tests of ls_bytes.h. */
#include "ls_bytes.h"
#include "made.h"
#include "tests.h"

void test_bytes(void) {
    const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 0x88};
    uint8_t *exact = copy(bytes, 8);
    CHECK(ls_load32(exact) == 0x04030201);
    CHECK(ls_load32(exact + 4) == 0x88070605);
    CHECK(ls_load64(exact) == UINT64_C(0x8807060504030201));
    CHECK(ls_load64_big(exact) == UINT64_C(0x0102030405060788));
    ls_store64(exact, UINT64_C(0x1122334455667788));
    CHECK(memcmp(exact, "\x88\x77\x66\x55\x44\x33\x22\x11", 8) == 0);
    ls_store32(exact + 4, 0xa1b2c3d4);
    CHECK(memcmp(exact + 4, "\xd4\xc3\xb2\xa1", 4) == 0);
    free(exact);
}

static void check_varint(uint64_t number) {
    size_t size = ls_varint_size(number);
    uint8_t *bytes = room(size);
    CHECK(ls_put_varint(bytes, number) == bytes + size);
    for (size_t cut = 0; cut <= size; cut++) {
        uint8_t *exact = copy(bytes, cut);
        const uint8_t *cursor = exact;
        uint64_t wide = 7;
        uint32_t narrow = 7;
        ls_status status = ls_get_varint64(&cursor, exact + cut, &wide);
        if (cut < size) {
            CHECK(status == LS_TRUNCATED);
            CHECK(cursor == exact);
        } else if (number > INT64_MAX) {
            CHECK(status == LS_BAD_VARINT);
        } else {
            CHECK(status == LS_OK && wide == number && cursor == exact + size);
        }
        cursor = exact;
        status = ls_get_varint32(&cursor, exact + cut, &narrow);
        if (cut == size && number <= INT32_MAX)
            CHECK(status == LS_OK && narrow == number && cursor == exact + size);
        else
            CHECK(status == (cut < size && cut < 5 ? LS_TRUNCATED : LS_BAD_VARINT));
        free(exact);
    }
    free(bytes);
}

void test_varints(void) {
    static const struct {
        uint64_t number;
        const char *bytes;
        size_t size;
    } known[] = {
        {0, "\0", 1},
        {127, "\x7f", 1},
        {128, "\x80\x01", 2},
        {300, "\xac\x02", 2},
        {16384, "\x80\x80\x01", 3},
        {INT32_MAX, "\xff\xff\xff\xff\x07", 5},
        {INT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint8_t *bytes = room(known[i].size);
        CHECK(ls_varint_size(known[i].number) == known[i].size);
        ls_put_varint(bytes, known[i].number);
        CHECK(memcmp(bytes, known[i].bytes, known[i].size) == 0);
        check_varint(known[i].number);
        free(bytes);
    }
    for (unsigned bit = 0; bit < 64; bit++)
        for (unsigned less = 0; less < 2; less++)
            check_varint((UINT64_C(1) << bit) - less);
    check_varint(UINT64_MAX);
    for (size_t i = 0; i < 2000; i++)
        check_varint(any() >> below(64));
    /* Java takes longer forms than needed, up to 5 and 10 bytes. */
    const uint8_t *cursor;
    uint32_t narrow;
    uint64_t wide;
    const uint8_t zeros[10] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    CHECK((cursor = zeros + 5, ls_get_varint32(&cursor, zeros + 10, &narrow)) == LS_OK);
    CHECK(narrow == 0 && cursor == zeros + 10);
    CHECK((cursor = zeros + 4, ls_get_varint32(&cursor, zeros + 10, &narrow)) == LS_BAD_VARINT);
    CHECK((cursor = zeros, ls_get_varint64(&cursor, zeros + 10, &wide)) == LS_OK && wide == 0);
    uint8_t full[11];
    memset(full, 0x80, sizeof full);
    full[10] = 0;
    CHECK((cursor = full, ls_get_varint64(&cursor, full + 11, &wide)) == LS_BAD_VARINT);
    full[9] = 2; /* bit 64 */
    CHECK((cursor = full, ls_get_varint64(&cursor, full + 11, &wide)) == LS_BAD_VARINT);
}
