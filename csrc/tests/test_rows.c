/* Tests of ls_rows.h: one nullable fixed column of 4 bytes, then one of bytes, then a list of bytes. */
#include "ls_rows.h"
#include "made.h"
#include "tests.h"

static void read_rows(const uint8_t *data, size_t size) {
    enum { FIXED = 1 + 4 + 4 };
    ls_slice row = {data, size};
    made_column made = make_column(&row, 1, 8);
    ls_slice located;
    size_t bad = 9;
    int64_t offsets[2] = {0, 0};
    CHECK(ls_rows_locate(&made.column, &located, &bad) == LS_OK && located.size == size);
    ls_row_source source = {.rows = &located, .length = 1, .zeros = room(FIXED)};
    memset((void *)source.zeros, 0, FIXED);
    source.fixed_size = FIXED;
    source.bitmap_size = 1;
    source.last = 5;
    uint8_t present, valid, number[4];
    ls_row_column columns[2] = {
        {.offset = 1, .width = 4, .bit = 0, .data = number, .validity = &valid},
        {.offset = 5, .variable = 1, .before = LS_NO_COLUMN, .bit = LS_NO_COLUMN, .ends = offsets},
    };
    ls_row_fault fault = {9, 9};
    size_t missing = 0;
    ls_status read = ls_rows_read(&source, 0, &present, &missing, columns, 2, &fault);
    if (read == LS_NO_SPACE) {
        columns[1].capacity = (size_t)offsets[1];
        CHECK(columns[1].capacity <= size);
        columns[1].data = room(columns[1].capacity);
        read = ls_rows_read(&source, 0, &present, &missing, columns, 2, &fault);
        CHECK(read == LS_OK);
        free(columns[1].data);
    }
    if (read == LS_OK)
        CHECK(present == 1 && missing == 0 && columns[0].nulls == (data[0] & 1));
    else
        CHECK(read == LS_BAD_ROW && fault.row == 0);
    free((void *)source.zeros);
    /* The same bytes as a list: of varying elements, of three-byte ones, of two of a fixed size. */
    static const ls_list_shape shapes[] = {{1, 0, 0}, {1, 0, 3}, {0, 2, 0}, {0, 2, 3}};
    for (size_t n = 0; n < 4; n++) {
        size_t bytes = 0;
        if (ls_lists_measure(&made.column, &shapes[n], offsets, &bytes, &bad) != LS_OK)
            continue;
        CHECK(bytes <= size && (size_t)offsets[1] <= size + 2);
        uint8_t *out = room(bytes), *validity = calloc((size_t)offsets[1] / 8 + 1, 1);
        int64_t *ends = room(8 * ((size_t)offsets[1] + 1));
        ls_lists_read(&made.column, &shapes[n], offsets, out, shapes[n].element_width ? NULL : ends,
                      shapes[n].counted ? NULL : validity);
        free(out);
        free(validity);
        free(ends);
    }
    free_column(&made);
}

/* Elements of a nullable column of each width, with nulls at some places. */
static void test_elements(void) {
    static const size_t widths[] = {1, 2, 3, 4, 8, 16, 32};
    enum { COUNT = 21 };
    for (size_t n = 0; n < 14; n++) {
        size_t width = widths[n / 2], has_nulls = n % 2, wanted = 0;
        uint8_t *elements = room(COUNT * (1 + width)), *values = room(COUNT * width);
        uint8_t *validity = room((COUNT + 7) / 8);
        for (size_t i = 0; i < COUNT; i++) {
            int null = has_nulls && (i % 5 == 1 || i == COUNT - 1);
            wanted += (size_t)null;
            memset(elements + i * (1 + width), (int)(i + 3), 1 + width);
            elements[i * (1 + width)] = (uint8_t)(0xfe | null); /* other bits mean nothing */
        }
        CHECK(ls_elements_read(elements, COUNT, width, values, validity) == wanted);
        for (size_t i = 0; i < COUNT; i++) {
            for (size_t k = 0; k < width; k++)
                CHECK(values[i * width + k] == i + 3);
            if (has_nulls)
                CHECK((validity[i / 8] >> (i % 8) & 1) == !(i % 5 == 1 || i == COUNT - 1));
        }
        free(elements);
        free(values);
        free(validity);
    }
}

void test_rows(void) {
    test_elements();
    const ls_slice numbers[] = {slice("1234"), slice("5678")};
    const ls_slice texts[] = {slice("hello"), slice("")};
    made_column number = make_column(numbers, 2, 0), text = make_column(texts, 2, 4);
    number.column.validity = number.validity = copy("\x01", 1); /* the second one is null */
    int64_t *sizes = room(3 * 8);
    size_t bad;
    sizes[0] = 99;
    sizes[1] = sizes[2] = 9;
    CHECK(ls_rows_add_sizes(&text.column, sizes + 1) == LS_OK);
    CHECK(sizes[1] == 14 && sizes[2] == 9);
    CHECK(ls_rows_offsets(sizes, 2, 9, &bad) == LS_OK);
    CHECK(sizes[0] == 0 && sizes[1] == 14 && sizes[2] == 23);
    ls_row_target rows = {.data = room(23), .offsets = sizes, .length = 2};
    uint32_t *ends = calloc(2, 4);
    ls_rows_clear(9, &rows);
    ls_rows_write_nulls(&number.column, 0, &rows);
    ls_rows_write_fixed(&number.column, 1, &rows);
    CHECK(ls_rows_write_variable(&text.column, 5, 9, ends, &rows) == LS_OK);
    CHECK(memcmp(rows.data,
                 "\0"
                 "1234\5\0\0\0hello\1\0\0\0\0\0\0\0\0",
                 23) == 0);
    for (size_t cut = 0; cut <= 14; cut++) {
        read_rows(rows.data, cut);
        for (size_t n = 0; n < 200 && cut > 0; n++) {
            uint8_t *exact = copy(rows.data, cut);
            exact[below(cut)] = (uint8_t)(below(2) ? any() : below(8));
            read_rows(exact, cut);
            free(exact);
        }
    }
    for (size_t n = 0; n < 20000; n++) {
        uint8_t bytes[24];
        size_t size = below(sizeof bytes);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)(below(3) ? below(4) : any());
        read_rows(bytes, size);
    }
    free(rows.data);
    free(sizes);
    free(ends);
    free_column(&number);
    free_column(&text);
}

/* Lists too short for their count, or for the ends it tells of: what is missing is beyond the
 * buffer, so AddressSanitizer sees a length that is not checked before it is used. */
void test_short_lists(void) {
    static const struct {
        ls_list_shape shape;
        size_t size; /* of the only list that is right */
        const char *bytes;
    } lists[] = {
        {{1, 0, 0}, 4, "\0\0\0"}, /* a count, then ends and elements */
        {{1, 0, 0}, 11, "\1\0\0\0\3\0\0\0abc"}, /* one element that varies */
        {{1, 0, 3}, 4, "\0\0\0"}, /* a count, then elements of 3 bytes */
        {{1, 0, 3}, 7, "\1\0\0\0abc"}, /* one of them */
        {{0, 1, 0}, 7, "\3\0\0\0abc"}, /* no count: always one that varies */
        {{0, 2, 3}, 6, "abcdef"}, /* always two of 3 bytes */
    };
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++)
        for (size_t cut = 0; cut <= lists[n].size; cut++) {
            ls_slice list = {(const uint8_t *)lists[n].bytes, cut};
            made_column made = make_column(&list, 1, 8);
            int64_t offsets[2];
            size_t bytes = 0, bad = 9;
            ls_status status =
                ls_lists_measure(&made.column, &lists[n].shape, offsets, &bytes, &bad);
            CHECK(status == (cut < lists[n].size ? LS_BAD_ROW : LS_OK));
            CHECK(status == LS_OK || bad == 0);
            free_column(&made);
        }
}
