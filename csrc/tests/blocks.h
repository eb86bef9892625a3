/* Blocks and sets of sorted keys that several tests need. */
#pragma once

#include "ls_block.h"
#include "ls_fences.h"
#include "ls_order.h"
#include "ls_slots.h"
#include "made.h"

typedef enum {
    SHORT_KEYS, /* of few letters: many are prefixes of others */
    ANY_KEYS, /* of any bytes */
    SHARED_KEYS, /* behind long prefixes that many share */
    COUNTED_KEYS, /* ascending numbers of 8 bytes, most significant first */
    NESTED_KEYS, /* one long text, cut anywhere: each is a prefix of the next */
    KEY_KINDS
} key_kind;

#define LONGEST_KEY 240

typedef struct {
    uint8_t (*bytes)[LONGEST_KEY];
    ls_slice *keys;
    size_t count;
} key_set;

/* Slots of exactly what a block needs, where they have to be. */
uint32_t *slots_room(const ls_block *block);

/* Asks a ready block whose bytes may be anything for keys of every size. */
void get_anything(const ls_ready *ready, ls_order order);

/* Adds what there is room for, growing by what is asked for and not a byte more. */
ls_status add(ls_block_builder *builder, ls_slice key, ls_slice value);

/* The finished block in a buffer of its exact size. */
uint8_t *finish(ls_block_builder *builder, size_t *size);

void new_builder(ls_block_builder *builder);

/* Reads all that can be read; the bytes may be anything. */
void read_everything(const uint8_t *data, size_t size);

/* Every truncation, every bit, and random bytes at random places. */
void damage(const uint8_t *data, size_t size);

/* Distinct keys, or with `repeats` some of them more than once. */
key_set make_keys(ls_order order, key_kind kind, size_t wanted, int repeats);

void free_keys(key_set *set);

/* The key itself, and what lies close to it, in a buffer of its exact size that the caller frees.
 * Keys of an integer order keep their size. */
#define NEIGHBOURS 10
ls_slice neighbour(ls_order order, ls_slice key, size_t which);

/* Any key, with those at the ends of all orders; of its exact size, as above. */
ls_slice any_key(ls_order order);

/* The first key that is not smaller, and whether it is equal. */
size_t walk(ls_order order, const ls_slice *keys, size_t count, ls_slice key, int *found);

/* The same among keys that may be repeated, where Java's halving ends. */
size_t halve(ls_order order, const ls_slice *keys, size_t count, ls_slice key, int *found);

/* A block of records, in a buffer of its exact size. */
uint8_t *make_block(const ls_slice *keys, const ls_slice *values, size_t count, size_t *size);

/* Random bytes at random places, more of them at the end, where a block says what it is. */
void damage_in_place(uint8_t *data, size_t size);

/* The second of two passes, into arrays of exactly the sizes that the first one counted. */
ls_status fill_fences(ls_fences *fences);

void make_fences(ls_fences *fences, const ls_block *index, ls_order order);

void free_fences(ls_fences *fences);

/* Values of an index are handles: short, and of no interest here. */
uint8_t *make_index(const ls_slice *keys, size_t count, ls_block *index, size_t *size);

/* Sorts them in an order. */
void sort_slices(ls_order order, ls_slice *slices, size_t count);
