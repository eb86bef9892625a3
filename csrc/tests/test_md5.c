/* Tests of ls_md5.h. */
#include "ls_md5.h"
#include "made.h"
#include "tests.h"

void test_md5(void) {
    uint8_t digest[16];
    /* RFC 1321, A.5 */
    ls_md5(slice(""), digest);
    CHECK(memcmp(digest, "\xd4\x1d\x8c\xd9\x8f\x00\xb2\x04\xe9\x80\x09\x98\xec\xf8\x42\x7e", 16) ==
          0);
    ls_md5(slice("message digest"), digest);
    CHECK(memcmp(digest, "\xf9\x6b\x69\x7d\x7c\xb7\x93\x8d\x52\x5a\x2f\x31\xaa\xf1\x61\xd0", 16) ==
          0);
    for (size_t size = 0; size <= 200; size++) {
        uint8_t *exact = room(size);
        memset(exact, 'x', size);
        ls_md5((ls_slice){exact, size}, digest);
        free(exact);
    }
    const ls_slice keys[] = {slice("k1"), slice("TXN-001")};
    made_column made = make_column(keys, 2, 8);
    int64_t numbers[2];
    size_t bad = 9;
    CHECK(ls_md5_numbers(&made.column, 0, 2, numbers, &bad) == LS_OK);
    CHECK(numbers[0] == -INT64_C(2824167150859503690));
    CHECK(numbers[1] == -INT64_C(2991173396776014573));
    uint8_t validity = 1;
    made.column.validity = &validity;
    CHECK(ls_md5_numbers(&made.column, 0, 2, numbers, &bad) == LS_NULL && bad == 1);
    free_column(&made);
}
