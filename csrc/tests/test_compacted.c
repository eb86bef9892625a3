/* Tests of ls_compacted.h, of ls_row_order.h, and of fences of keys that are rows. */
#include "blocks.h"
#include "ls_compacted.h"
#include "ls_row_order.h"
#include "made.h"
#include "tests.h"

/* A row of every type: (true, -3, 1.5, 'hé', -12345678901234567.89, 1234567 ns, (-1 ms, 999000 ns),
 * a variant, -U ('in'), ['short', null, 'longer than eight'], {'k1': (1, [5, null], null),
 * 'a key that is long': (null, null, 7)}). */
static const uint8_t EVERY_TYPE[] = {
    0x00, 0x00, 0x00, 0x01, 0xfd, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f, 0x03, 0x68, 0xc3,
    0xa9, 0x08, 0xee, 0xdd, 0xef, 0x0b, 0x82, 0x16, 0x7e, 0xeb, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0xc7, 0xa8, 0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xd8, 0xfc, 0x3c,
    0x05, 0x02, 0x01, 0x02, 0x01, 0x03, 0x05, 0x02, 0x00, 0x02, 0x69, 0x6e, 0x38, 0x03, 0x00, 0x00,
    0x00, 0x02, 0x00, 0x00, 0x00, 0x73, 0x68, 0x6f, 0x72, 0x74, 0x00, 0x00, 0x85, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x6c, 0x6f, 0x6e,
    0x67, 0x65, 0x72, 0x20, 0x74, 0x68, 0x61, 0x6e, 0x20, 0x65, 0x69, 0x67, 0x68, 0x74, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0xc4, 0x01, 0x30, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x6b, 0x31, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0x12, 0x00, 0x00, 0x00, 0x18,
    0x00, 0x00, 0x00, 0x61, 0x20, 0x6b, 0x65, 0x79, 0x20, 0x74, 0x68, 0x61, 0x74, 0x20, 0x69, 0x73,
    0x20, 0x6c, 0x6f, 0x6e, 0x67, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x48, 0x00, 0x00, 0x00, 0x18, 0x00, 0x00, 0x00, 0x30, 0x00, 0x00, 0x00, 0x60,
    0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x18, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x38,
    0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

/* The columns of that row. */
static const ls_cell TREE[] = {
    {.type = LS_CELL_ROW, .size = 25, .children = 11, .fields = 11},
    {.type = LS_CELL_BOOL, .size = 1},
    {.type = LS_CELL_NUMBER, .size = 1, .width = 1},
    {.type = LS_CELL_FLOAT, .size = 1, .width = 8},
    {.type = LS_CELL_TEXT, .size = 1},
    {.type = LS_CELL_BIG_DECIMAL, .size = 1, .width = 16, .limit = {0x6bc75e2d63100000, 5}},
    {.type = LS_CELL_TIMESTAMP, .size = 1, .width = 8, .unit = 1},
    {.type = LS_CELL_WIDE_TIMESTAMP, .size = 3, .children = 2, .fields = 2},
    {.type = LS_CELL_NUMBER, .size = 1, .width = 8, .required = 1},
    {.type = LS_CELL_NUMBER, .size = 1, .width = 4, .required = 1},
    {.type = LS_CELL_VARIANT, .size = 3, .children = 2, .fields = 2},
    {.type = LS_CELL_BYTES, .size = 1, .required = 1},
    {.type = LS_CELL_BYTES, .size = 1, .required = 1},
    {.type = LS_CELL_ROW, .size = 3, .children = 2, .fields = 1},
    {.type = LS_CELL_TEXT, .size = 1},
    {.type = LS_CELL_KIND, .size = 1, .width = 1},
    {.type = LS_CELL_ARRAY, .size = 2, .children = 1, .fields = 1},
    {.type = LS_CELL_TEXT, .size = 1},
    {.type = LS_CELL_MAP, .size = 7, .children = 2, .fields = 2},
    {.type = LS_CELL_TEXT, .size = 1, .required = 1},
    {.type = LS_CELL_ROW, .size = 5, .children = 3, .fields = 3},
    {.type = LS_CELL_NUMBER, .size = 1, .width = 4},
    {.type = LS_CELL_ARRAY, .size = 2, .children = 1, .fields = 1},
    {.type = LS_CELL_NUMBER, .size = 1, .width = 8},
    {.type = LS_CELL_BIG_DECIMAL,
     .size = 1,
     .width = 16,
     .limit = {0x4674edea40000000, 0xc9f2c9cd0}},
};
#define CELLS (sizeof TREE / sizeof *TREE)

static void *zeroed(size_t size) {
    void *made = room(size);
    memset(made, 0, size);
    return made;
}

/* Reads rows into buffers of just the size that was counted, and writes them again. */
static ls_status read_and_write(const ls_column *rows, uint8_t **written, int64_t *ends) {
    ls_cell cells[CELLS];
    ls_compacted_fault fault;
    memcpy(cells, TREE, sizeof TREE);
    ls_status status = ls_compacted_read(cells, rows, NULL, 0, 0, &fault);
    if (status != LS_OK)
        return status;
    for (size_t i = 0; i < CELLS; i++) {
        ls_cell *cell = &cells[i];
        size_t bits = (cell->length + 7) / 8;
        cell->room = cell->length;
        cell->validity = zeroed(bits);
        cell->offsets = cell->type == LS_CELL_BYTES || cell->type == LS_CELL_TEXT ||
                                cell->type == LS_CELL_ARRAY || cell->type == LS_CELL_MAP
                            ? zeroed(4 * (cell->length + 1))
                            : NULL;
        cell->data_size = cell->type == LS_CELL_BOOL ? bits
                          : cell->width > 0          ? cell->length * cell->width
                                                     : cell->bytes;
        cell->data = zeroed(cell->data_size);
    }
    CHECK(ls_compacted_read(cells, rows, NULL, 0, 1, &fault) == LS_OK);
    CHECK(cells[0].length == rows->length);
    CHECK(ls_compacted_sizes(cells, rows->length, 0, ends, &fault) == LS_OK);
    *written = room((size_t)ends[rows->length]);
    ls_compacted_write(cells, rows->length, NULL, 0, ends, *written);
    for (size_t i = 0; i < CELLS; i++) {
        free(cells[i].validity);
        free(cells[i].offsets);
        free(cells[i].data);
    }
    return LS_OK;
}

void test_compacted_rows(void) {
    int64_t ends[4];
    uint8_t *written;
    ls_slice row = {EVERY_TYPE, sizeof EVERY_TYPE};
    ls_slice none = {(const uint8_t *)"\0\xff\x07", 3}; /* row kind, 11 null bits */
    made_column made = make_column((ls_slice[]){row, none, row}, 3, 8);
    CHECK(read_and_write(&made.column, &written, ends) == LS_OK);
    CHECK((size_t)ends[1] == row.size && memcmp(written, row.data, row.size) == 0);
    CHECK(ends[2] - ends[1] == 3 && memcmp(written + ends[1], none.data, 3) == 0);
    CHECK(memcmp(written + ends[2], row.data, row.size) == 0);
    free(written);
    free_column(&made);

    uint8_t *longer = room(row.size + 1);
    memcpy(longer, row.data, row.size);
    longer[row.size] = 0;
    made = make_column(&(ls_slice){longer, row.size + 1}, 1, 8);
    CHECK(read_and_write(&made.column, &written, ends) == LS_BAD_ROW);
    free_column(&made);
    free(longer);

    /* Rows that end too early are none, and what was changed at random is read or refused. */
    for (size_t size = 0; size < row.size; size++) {
        made = make_column(&(ls_slice){row.data, size}, 1, 8);
        CHECK(read_and_write(&made.column, &written, ends) == LS_BAD_ROW);
        free_column(&made);
    }
    size_t read = 0;
    for (size_t n = 0; n < 40000; n++) {
        uint8_t *bytes = copy(row.data, row.size), *again;
        for (size_t changes = below(3) + 1; changes > 0; changes--) {
            size_t at = below(row.size);
            bytes[at] = below(2) ? (uint8_t)any() : (uint8_t)(bytes[at] ^ 1u << below(8));
        }
        made = make_column(&(ls_slice){bytes, row.size}, 1, 8);
        ls_status status = read_and_write(&made.column, &written, ends);
        free_column(&made);
        free(bytes);
        CHECK(status == LS_OK || status == LS_BAD_ROW || status == LS_TOO_LARGE);
        if (status != LS_OK)
            continue;
        read++;
        /* What was read is written as Java would, and that reads the same. */
        int64_t other_ends[2];
        made = make_column(&(ls_slice){written, (size_t)ends[1]}, 1, 8);
        CHECK(read_and_write(&made.column, &again, other_ends) == LS_OK);
        CHECK(other_ends[1] == ends[1] && memcmp(again, written, (size_t)ends[1]) == 0);
        free_column(&made);
        free(written);
        free(again);
    }
    CHECK(read > 1000 && read < 39000);

    static const struct {
        const char *bytes;
        size_t size;
        ls_status status;
        int64_t position;
    } positions[] = {
        {"\0", 1, LS_OK, 0},        {"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9, LS_OK, INT64_MAX},
        {"", 0, LS_BAD_ROW, 0},     {"\x80", 1, LS_BAD_ROW, 0},
        {"\1\1", 2, LS_BAD_ROW, 0}, {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, LS_BAD_ROW, 0},
    };
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        int64_t position;
        size_t bad;
        ls_slice value = {(const uint8_t *)positions[i].bytes, positions[i].size};
        made = make_column(&value, 1, 4);
        CHECK(ls_positions_read(&made.column, &position, &bad) == positions[i].status);
        CHECK(positions[i].status != LS_OK || position == positions[i].position);
        free_column(&made);
    }
}

/* Keys of (INT, STRING, DECIMAL(20, 0), TIMESTAMP(9)), made of numbers that order as they should. */
typedef struct {
    int64_t fields[4]; /* INT64_MIN: null */
} numbers;

static ls_slice row_key(const numbers *key, uint8_t *bytes) {
    uint8_t *p = bytes + 2;
    bytes[0] = bytes[1] = 0;
    for (size_t i = 0; i < 4; i++) {
        int64_t number = key->fields[i];
        if (number == INT64_MIN) {
            bytes[1] |= (uint8_t)(1u << i);
        } else if (i == 0) {
            ls_store32(p, (uint32_t)number);
            p += 4;
        } else if (i == 1) { /* so many of a letter, up to 300: longer is more */
            p = ls_put_varint(p, (uint64_t)number);
            memset(p, 'x', (size_t)number);
            p += number;
        } else if (i == 2) {
            size_t size = 1;
            while (size < 8 && (number >> (8 * size - 1)) != (number < 0 ? -1 : 0))
                size++;
            *p++ = (uint8_t)size;
            for (size_t k = size; k-- > 0;)
                *p++ = (uint8_t)((uint64_t)number >> (8 * k));
        } else {
            int64_t millis = number >> 4;
            ls_store64(p, (uint64_t)millis);
            p = ls_put_varint(p + 8, (uint64_t)(number & 15) * 60000);
        }
    }
    return (ls_slice){bytes, (size_t)(p - bytes)};
}

static int64_t some_number(size_t field) {
    if (below(6) == 0)
        return INT64_MIN;
    if (field == 1)
        return (int64_t)(below(2) ? below(4) : below(300));
    int64_t number = (int64_t)(any() >> 2 >> below(60));
    number = field == 0 ? number & 0x7fffffff : number;
    return below(2) ? number : -number;
}

/* The bytes that sort, in a buffer of their exact size that the caller frees. */
static ls_slice sortable(const ls_row_order *order, ls_slice key) {
    size_t size = 99999, again;
    CHECK(ls_row_sortable(order, key, NULL, 0, &size) == LS_OK);
    uint8_t *bytes = room(size);
    CHECK(ls_row_sortable(order, key, bytes, size, &again) == LS_OK && again == size);
    size_t less = below(size + 1);
    uint8_t *part = room(less);
    CHECK(ls_row_sortable(order, key, part, less, &again) == LS_OK && again == size);
    free(part);
    return (ls_slice){bytes, size};
}

/* Rows whose fields agree with those of other rows more often than not, some of them long. */
static numbers some_row(const numbers *like) {
    numbers row;
    for (size_t i = 0; i < 4; i++)
        row.fields[i] = below(4) ? like->fields[i] : some_number(i);
    return row;
}

void test_row_fences(void) {
    static const ls_row_order rows = {
        4, {LS_FIELD_INT32, LS_FIELD_BYTES, LS_FIELD_DECIMAL, LS_FIELD_TIMESTAMP}};
    ls_order order = (ls_order)&rows;
    enum { MOST = 300, ASKED = 400 };
    for (size_t round = 0; round < 60; round++) {
        size_t count = 0, drawn = below(MOST), size, sorted_size;
        int repeats = below(4) == 0;
        uint8_t bytes[400];
        numbers last = {{1, 100, 5, 7}};
        ls_slice *keys = room(MOST * sizeof *keys), *sorted = room(MOST * sizeof *sorted);
        for (size_t i = 0; i < drawn; i++) {
            last = some_row(&last);
            ls_slice key = row_key(&last, bytes);
            keys[i] = (ls_slice){copy(bytes, key.size), key.size};
        }
        sort_slices(order, keys, drawn);
        for (size_t i = 0; i < drawn; i++)
            if (count == 0 || repeats || !same(keys[count - 1], keys[i]))
                keys[count++] = keys[i];
            else
                free((void *)(uintptr_t)keys[i].data);
        for (size_t i = 0; i < count; i++)
            sorted[i] = sortable(&rows, keys[i]);
        ls_block index, bytes_index;
        uint8_t *data = make_index(keys, count, &index, &size);
        uint8_t *sorted_data = make_index(sorted, count, &bytes_index, &sorted_size);
        ls_fences fences;
        make_fences(&fences, &bytes_index, LS_ORDER_BYTES);
        fences.rows = &index;
        fences.row_order = order;
        ls_slice asked[LS_ROUTES];
        uint32_t blocks[LS_ROUTES], alone;
        for (size_t n = 0; n < ASKED; n += LS_ROUTES) {
            for (size_t i = 0; i < LS_ROUTES; i++) {
                last = some_row(&last);
                ls_slice key =
                    count > 0 && below(3) == 0 ? keys[below(count)] : row_key(&last, bytes);
                asked[i] = (ls_slice){copy(key.data, key.size), key.size};
            }
            CHECK(ls_fences_route_many(&fences, asked, LS_ROUTES, blocks) == LS_OK);
            for (size_t i = 0; i < LS_ROUTES; i++) {
                int found;
                size_t expected = fences.repeats ? halve(order, keys, count, asked[i], &found)
                                                 : walk(order, keys, count, asked[i], &found);
                CHECK(blocks[i] == expected);
                CHECK(ls_fences_route(&fences, asked[i], &alone) == LS_OK && alone == expected);
                free((void *)(uintptr_t)asked[i].data);
            }
        }
        free_fences(&fences);
        free(data);
        free(sorted_data);
        for (size_t i = 0; i < count; i++) {
            free((void *)(uintptr_t)keys[i].data);
            free((void *)(uintptr_t)sorted[i].data);
        }
        free(keys);
        free(sorted);
    }
}

void test_row_orders(void) {
    static const ls_row_order order = {
        4, {LS_FIELD_INT32, LS_FIELD_BYTES, LS_FIELD_DECIMAL, LS_FIELD_TIMESTAMP}};
    uint8_t first[400], second[400];
    for (size_t n = 0; n < 20000; n++) {
        numbers a, b;
        for (size_t i = 0; i < 4; i++) {
            a.fields[i] = some_number(i);
            b.fields[i] = below(3) ? a.fields[i] : some_number(i);
        }
        int expected = 0;
        for (size_t i = 4; i-- > 0;)
            if (a.fields[i] != b.fields[i])
                expected = a.fields[i] < b.fields[i] ? -1 : 1;
        ls_slice x = row_key(&a, first), y = row_key(&b, second);
        uint8_t *x_bytes = copy(x.data, x.size), *y_bytes = copy(y.data, y.size);
        x.data = x_bytes;
        y.data = y_bytes;
        CHECK(ls_row_check(&order, x) == LS_OK && ls_row_check(&order, y) == LS_OK);
        int compared = ls_row_compare(&order, x, y);
        CHECK((compared > 0) - (compared < 0) == expected);
        CHECK((expected == 0) == same(x, y));
        ls_slice x_sorts = sortable(&order, x), y_sorts = sortable(&order, y);
        compared = ls_compare_bytes(x_sorts, y_sorts);
        CHECK((compared > 0) - (compared < 0) == expected);
        free((void *)(uintptr_t)x_sorts.data);
        free((void *)(uintptr_t)y_sorts.data);
        uint64_t x_prefix = ls_row_prefix(&order, x), y_prefix = ls_row_prefix(&order, y);
        CHECK(expected < 0 ? x_prefix <= y_prefix
                           : (expected > 0 ? x_prefix >= y_prefix : x_prefix == y_prefix));
        /* Part of a key is none, and neither is one with more; nothing is read beyond its end. */
        ls_slice part = {copy(x.data, x.size - 1), x.size - 1};
        CHECK(ls_row_check(&order, part) == LS_BAD_KEY);
        (void)ls_row_compare(&order, part, y);
        (void)ls_row_prefix(&order, part);
        size_t sorts;
        CHECK(ls_row_sortable(&order, part, NULL, 0, &sorts) == LS_BAD_KEY);
        free((void *)(uintptr_t)part.data);
        x_bytes[below(x.size)] = (uint8_t)any();
        (void)ls_row_check(&order, x);
        (void)ls_row_compare(&order, x, y);
        (void)ls_row_prefix(&order, x);
        CHECK((ls_row_sortable(&order, x, NULL, 0, &sorts) == LS_OK) ==
              (ls_row_check(&order, x) == LS_OK));
        free(x_bytes);
        free(y_bytes);
    }
    /* Of what can be written in several ways one alone is taken. */
    static const ls_row_order text = {1, {LS_FIELD_BYTES}}, decimal = {1, {LS_FIELD_DECIMAL}};
    static const ls_row_order timestamp = {1, {LS_FIELD_TIMESTAMP}};
    static const uint8_t time[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5};
    static const uint8_t long_time[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x85, 0};
    CHECK(ls_row_check(&timestamp, (ls_slice){time, sizeof time}) == LS_OK);
    CHECK(ls_row_check(&timestamp, (ls_slice){long_time, sizeof long_time}) == LS_BAD_KEY);
    CHECK(ls_row_check(&text, (ls_slice){(const uint8_t *)"\0\0\1a", 4}) == LS_OK);
    CHECK(ls_row_check(&text, (ls_slice){(const uint8_t *)"\0\0\x81\0a", 5}) == LS_BAD_KEY);
    CHECK(ls_row_check(&text, (ls_slice){(const uint8_t *)"\1\0\1a", 4}) == LS_BAD_KEY);
    CHECK(ls_row_check(&text, (ls_slice){(const uint8_t *)"\0\2\1a", 4}) == LS_BAD_KEY);
    CHECK(ls_row_check(&decimal, (ls_slice){(const uint8_t *)"\0\0\2\0\x80", 5}) == LS_OK);
    CHECK(ls_row_check(&decimal, (ls_slice){(const uint8_t *)"\0\0\2\0\x7f", 5}) == LS_BAD_KEY);
    CHECK(ls_row_check(&decimal, (ls_slice){(const uint8_t *)"\0\0\2\xff\x80", 5}) == LS_BAD_KEY);
    CHECK(ls_row_check(&decimal, (ls_slice){(const uint8_t *)"\0\0\0", 3}) == LS_BAD_KEY);

    /* Java's order of floating numbers. */
    static const ls_row_order number = {1, {LS_FIELD_DOUBLE}};
    static const uint64_t ascending[] = {
        0xfff0000000000000, 0xbff0000000000000, 0x8000000000000000, 0,
        0x3ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000};
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < 7; j++) {
            uint8_t x[10] = {0}, y[10] = {0};
            ls_store64(x + 2, ascending[i]);
            ls_store64(y + 2, ascending[j]);
            int compared = ls_row_compare(&number, (ls_slice){x, 10}, (ls_slice){y, 10});
            CHECK((compared > 0) - (compared < 0) == (i > j) - (i < j));
            uint8_t x_sorts[9], y_sorts[9];
            size_t size;
            CHECK(ls_row_sortable(&number, (ls_slice){x, 10}, x_sorts, 9, &size) == LS_OK);
            CHECK(ls_row_sortable(&number, (ls_slice){y, 10}, y_sorts, 9, &size) == LS_OK);
            compared = memcmp(x_sorts, y_sorts, 9);
            CHECK((compared > 0) - (compared < 0) == (i > j) - (i < j));
        }

    /* What sorts, byte for byte: an earlier text is escaped, the last one is not. */
    static const ls_row_order texts = {3, {LS_FIELD_BYTES, LS_FIELD_INT8, LS_FIELD_BYTES}};
    static const uint8_t three[] = {0, 2, 3, 'a', 0, 'b', 2, 0, 'c'};
    static const uint8_t sorts[] = {1, 'a', 0, 0xff, 'b', 0, 0, 0, 1, 0, 'c'};
    uint8_t out[32];
    size_t size;
    CHECK(ls_row_sortable(&texts, (ls_slice){three, 9}, out, 32, &size) == LS_OK);
    CHECK(size == sizeof sorts && memcmp(out, sorts, size) == 0);
    CHECK(ls_row_is_number(&number) && !ls_row_is_number(&text) && !ls_row_is_number(&texts));
}
