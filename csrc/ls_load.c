#include "ls_load.h"

void ls_load_next(const ls_load *load, ls_block_builder *builder) {
    size_t rest = load->capacity - load->size;
    builder->data = load->data + load->size;
    builder->capacity = rest > LS_TRAILER ? rest - LS_TRAILER : 0;
}

void ls_load_end(ls_load *load, ls_block_builder *builder) {
    ls_load_block *block = &load->blocks[load->count++];
    ls_block_finish(builder);
    block->start = load->size;
    block->size = builder->size;
    block->last_key = load->size + builder->last_key;
    block->last_key_size = builder->last_key_size;
    load->size += builder->size + LS_TRAILER;
    ls_block_reset(builder);
    ls_load_next(load, builder);
}

ls_status ls_load_fill(ls_load *load, ls_block_builder *builder, ls_order order, int repeats,
                       const ls_column *keys, const ls_column *values, size_t *row, size_t end,
                       ls_slice *previous, size_t block_size, size_t most) {
    while (*row < end) {
        if (load->count >= load->room)
            return LS_NO_SPACE;
        ls_status status = ls_block_add_column(builder, order, repeats, keys, values, row, end,
                                               previous, block_size);
        if (status != LS_BLOCK_FULL)
            return status;
        ls_load_end(load, builder);
        if (ls_load_bytes(load) >= most)
            return LS_BLOCK_FULL;
    }
    return LS_OK;
}
