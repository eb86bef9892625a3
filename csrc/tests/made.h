/* What all tests of csrc are made of: checks, random numbers, buffers of exactly their size, so that
 * AddressSanitizer sees one byte too many. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ls_bytes.h"
#include "ls_column.h"

extern uint64_t seed, state;
extern size_t checks;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: seed %llu: not %s\n", __FILE__, __LINE__,                      \
                    (unsigned long long)seed, #condition);                                         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* splitmix64 */
uint64_t any(void);
size_t below(size_t limit);
void *room(size_t size);
void *copy(const void *data, size_t size);
ls_slice slice(const char *text);
int same(ls_slice a, ls_slice b);

/* Columns made of slices: large_binary, binary, or fixed. */
typedef struct {
    ls_column column;
    void *data, *offsets, *validity;
} made_column;

made_column make_column(const ls_slice *values, size_t count, int offset_width);
void free_column(made_column *made);
