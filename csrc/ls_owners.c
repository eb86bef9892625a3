#include "ls_owners.h"

/* Number of used entries per line of 31: with more, too many lines go on, and too many entries have
 * the mark of another key. */
#define KEYS_PER_LINE 22

/* Number of keys whose lines are prefetched before they are read. */
#define AHEAD 64

uint32_t ls_owners_lines(uint64_t entries) {
    uint64_t lines = entries / KEYS_PER_LINE + 1; /* some entry stays empty */
    return lines > UINT32_MAX ? 0 : (uint32_t)lines;
}

static inline ls_owners_line *line_of(const ls_owners *owners, uint64_t hash) {
    return owners->lines + (((hash >> 32) * owners->count) >> 32);
}

static inline ls_owners_line *next_line(const ls_owners *owners, ls_owners_line *line) {
    return ++line == owners->lines + owners->count ? owners->lines : line;
}

/* Not the byte of places: keys of one line mostly have one bucket of places, in which those with
 * the same mark are compared. */
static inline uint8_t mark_of(uint64_t hash) {
    uint8_t mark = (uint8_t)(hash >> 24);
    return mark == 0 ? 1 : mark;
}

/* Bit i of the result is set if entry i of a line has a mark. */
static inline uint32_t match(const ls_owners_line *line, uint8_t mark) {
    uint32_t found = 0;
#if defined(__SSE2__)
    const __m128i *halves = (const __m128i *)(const void *)line;
    __m128i wanted = _mm_set1_epi8((char)mark);
    found = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(halves), wanted));
    found |= (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(halves + 1), wanted)) << 16;
    found &= (UINT32_C(1) << LS_OWNERS_ENTRIES) - 1;
#else
    for (int i = 0; i < LS_OWNERS_ENTRIES; i++)
        found |= (uint32_t)(line->marks[i] == mark) << i;
#endif
    return found;
}

ls_status ls_owners_put(ls_owners *owners, uint64_t hash, uint8_t file) {
    ls_owners_line *line = line_of(owners, hash);
    for (uint32_t n = 0; n < owners->count; n++) {
        uint32_t empty = match(line, 0);
        if (empty != 0) {
            unsigned i = (unsigned)__builtin_ctz(empty);
            line->marks[i] = mark_of(hash);
            line->files[i] = file;
            return LS_OK;
        }
        line->goes_on = 1;
        line = next_line(owners, line);
    }
    return LS_NO_SPACE;
}

ls_status ls_owners_add(ls_owners *owners, uint8_t file, const uint8_t *data, size_t size,
                        uint64_t *entries) {
    ls_block block;
    uint64_t hashes[AHEAD];
    ls_status status = ls_block_open(&block, data, size);
    if (status != LS_OK)
        return status;
    for (uint32_t start = 0; start < block.count; start += AHEAD) {
        uint32_t count = block.count - start < AHEAD ? block.count - start : AHEAD;
        for (uint32_t i = 0; i < count; i++) {
            ls_slice key, value;
            status = ls_block_record(&block, start + i, &key, &value);
            if (status != LS_OK)
                return status;
            hashes[i] = ls_hash(key);
            __builtin_prefetch(line_of(owners, hashes[i]), 1);
        }
        for (uint32_t i = 0; i < count; i++) {
            status = ls_owners_put(owners, hashes[i], file);
            if (status != LS_OK)
                return status;
        }
    }
    *entries += block.count;
    return LS_OK;
}

/* Writes an item of each file that may have a key, starting in a line, and returns their number. A
 * file is written once, even if several of its keys have the mark. */
static size_t put_items(const ls_owners *owners, const uint32_t *numbers, ls_owners_line *line,
                        uint64_t hash, uint32_t index, ls_batch_item *items) {
    uint64_t seen[LS_OWNERS_FILES / 64] = {0};
    uint8_t mark = mark_of(hash);
    size_t count = 0;
    for (uint32_t n = 0; n < owners->count; n++) {
        for (uint32_t found = match(line, mark); found != 0; found &= found - 1) {
            uint8_t file = line->files[__builtin_ctz(found)];
            uint64_t bit = UINT64_C(1) << (file & 63);
            if (numbers[file] == LS_OWNERS_NOT_ASKED || (seen[file >> 6] & bit) != 0)
                continue;
            seen[file >> 6] |= bit;
            items[count++] = (ls_batch_item){hash, index, numbers[file], 0};
        }
        if (!line->goes_on)
            break;
        line = next_line(owners, line);
    }
    return count;
}

void ls_owners_find(const ls_owners *owners, const uint32_t *numbers,
                    const ls_batch_stretch *stretch, size_t *next, ls_batch_item *items,
                    size_t room, size_t *count, ls_batch_counts *counts) {
    size_t first = *next, at = first, kept = *count;
    while (at < stretch->count && room - kept >= LS_OWNERS_FILES) {
        size_t end = at + AHEAD < stretch->count ? at + AHEAD : stretch->count;
        for (size_t i = at; i < end; i++)
            LS_PREFETCH(line_of(owners, stretch->hashes[i]));
        for (; at < end && room - kept >= LS_OWNERS_FILES; at++) {
            uint64_t hash = stretch->hashes[at];
            uint32_t index = stretch->indices[at];
            ls_owners_line *line = line_of(owners, hash);
            uint32_t found = match(line, mark_of(hash));
            if (line->goes_on || (found & (found - 1)) != 0) {
                kept += put_items(owners, numbers, line, hash, index, items + kept);
                continue;
            }
            /* Without a match, the item of the unused entry is written and not kept. */
            unsigned entry = (unsigned)__builtin_ctz(found | UINT32_C(1) << LS_OWNERS_ENTRIES);
            uint32_t file = numbers[line->files[entry]];
            items[kept] = (ls_batch_item){hash, index, file, 0};
            kept += (size_t)(found != 0 && file != LS_OWNERS_NOT_ASKED);
        }
    }
    for (size_t i = 0; i < LS_OWNERS_FILES; i++)
        if (numbers[i] != LS_OWNERS_NOT_ASKED)
            counts[numbers[i]].ruled_out += at - first;
    for (size_t i = *count; i < kept; i++) {
        counts[items[i].file].asked = 1;
        counts[items[i].file].ruled_out--;
    }
    *next = at;
    *count = kept;
}
