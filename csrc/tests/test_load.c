/* Tests of ls_load.h: loads of blocks, against blocks that are built one at a time. */
#include "ls_load.h"

#include "blocks.h"
#include "made.h"
#include "tests.h"

enum { ROWS = 200 };

/* Makes room as a caller does that is told LS_NO_SPACE: little, so that it is told often. */
static void make_room(ls_load *load, ls_block_builder *builder, size_t more) {
    size_t block = builder->size + more + 4 * ((size_t)builder->count + 1) + LS_BLOCK_TAIL;
    if (load->size + block + LS_TRAILER > load->capacity) {
        load->capacity = load->size + block + LS_TRAILER + below(50);
        load->data = realloc(load->data, load->capacity);
        ls_load_next(load, builder);
    }
    if (builder->count == builder->positions_capacity) {
        builder->positions_capacity = builder->count + 1 + below(5);
        builder->positions = realloc(builder->positions, 4 * builder->positions_capacity);
    }
    if (load->count == load->room) {
        load->room += 1 + below(3);
        load->blocks = realloc(load->blocks, load->room * sizeof *load->blocks);
    }
}

/* Checks that a load has the next blocks of the rows, and returns the row after them. */
static size_t check_load(const ls_load *load, const made_column *keys, const made_column *values,
                         size_t row, size_t block_size) {
    size_t at = 0, bytes = 0;
    for (size_t n = 0; n < load->count; n++) {
        const ls_load_block *block = &load->blocks[n];
        ls_block_builder one = {.capacity = 100000, .positions_capacity = ROWS};
        one.data = room(one.capacity);
        one.positions = room(4 * ROWS);
        ls_block_reset(&one);
        ls_slice previous = {NULL, 0}, last;
        (void)ls_block_add_column(&one, LS_ORDER_BYTES, 0, &keys->column, &values->column, &row,
                                  ROWS, &previous, block_size);
        CHECK(ls_column_get(&keys->column, row - 1, &last) == LS_OK);
        ls_block_finish(&one);
        CHECK(block->start == at && block->size == one.size);
        CHECK(memcmp(load->data + at, one.data, one.size) == 0);
        CHECK(same((ls_slice){load->data + block->last_key, block->last_key_size}, last));
        at += block->size + LS_TRAILER;
        bytes += block->size;
        free(one.data);
        free(one.positions);
    }
    CHECK(load->size == at && ls_load_bytes(load) == bytes);
    return row;
}

void test_loads(void) {
    static uint8_t key_bytes[ROWS][4], value_bytes[90];
    for (int trial = 0; trial < 300; trial++) {
        ls_slice keys[ROWS], values[ROWS];
        for (size_t i = 0; i < ROWS; i++) {
            key_bytes[i][0] = (uint8_t)i;
            key_bytes[i][1] = (uint8_t)any();
            keys[i] = (ls_slice){key_bytes[i], 1 + below(4)};
            values[i] = (ls_slice){value_bytes, below(sizeof value_bytes)};
        }
        made_column made_keys = make_column(keys, ROWS, 4);
        made_column made_values = make_column(values, ROWS, 8);
        size_t block_size = 1 + below(500), most = 1 + below(3000), row = 0, checked = 0;
        ls_block_builder builder = {0};
        ls_slice previous = {NULL, 0};
        ls_block_reset(&builder);
        while (row < ROWS) {
            ls_load load = {0};
            ls_status status;
            builder.data = NULL;
            builder.capacity = 0;
            while ((status = ls_load_fill(&load, &builder, LS_ORDER_BYTES, 0, &made_keys.column,
                                          &made_values.column, &row, ROWS, &previous, block_size,
                                          most)) == LS_NO_SPACE)
                make_room(&load, &builder, ls_block_room(keys[row], values[row]));
            CHECK(status == LS_OK || status == LS_BLOCK_FULL);
            if (status == LS_BLOCK_FULL) {
                const ls_load_block *last = &load.blocks[load.count - 1];
                CHECK(builder.count == 0 && ls_load_bytes(&load) >= most);
                CHECK(ls_load_bytes(&load) - last->size < most);
            } else {
                CHECK(row == ROWS && ls_load_bytes(&load) < most);
                if (builder.count > 0) {
                    make_room(&load, &builder, 0);
                    ls_load_end(&load, &builder);
                }
            }
            checked = check_load(&load, &made_keys, &made_values, checked, block_size);
            CHECK(checked == row);
            free(load.data);
            free(load.blocks);
        }
        free(builder.positions);
        free_column(&made_keys);
        free_column(&made_values);
    }
}
