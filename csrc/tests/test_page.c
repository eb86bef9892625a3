/* Tests of ls_page.h. */
#include "ls_compact.h"
#include "ls_page.h"
#include "made.h"
#include "tests.h"

static ls_page_header any_header(void) {
    return (ls_page_header){
        .type = LS_DATA_PAGE,
        .uncompressed = (int32_t)(any() >> (33 + below(31))),
        .compressed = (int32_t)(any() >> (33 + below(31))),
        .has_checksum = (int32_t)below(2),
        .checksum = (uint32_t)any(),
        .values = (int32_t)below(1 << 20),
        .encoding = LS_ENCODING_PLAIN,
        .definition_encoding = LS_ENCODING_RLE,
        .repetition_encoding = LS_ENCODING_RLE,
    };
}

void test_page_headers(void) {
    for (int round = 0; round < 2000; round++) {
        ls_page_header header = any_header(), read;
        uint8_t bytes[LS_PAGE_HEADER_MAX];
        size_t size = (size_t)(ls_page_header_write(&header, bytes) - bytes);
        CHECK(size <= LS_PAGE_HEADER_MAX);
        const uint8_t *cursor = bytes;
        CHECK(ls_page_header_read(&cursor, bytes + size, &read) == LS_OK);
        CHECK(cursor == bytes + size);
        CHECK(read.uncompressed == header.uncompressed && read.compressed == header.compressed);
        CHECK(read.values == header.values && read.has_checksum == header.has_checksum);
        CHECK(!header.has_checksum || read.checksum == header.checksum);
        CHECK(read.encoding == header.encoding);
        CHECK(read.definition_encoding == LS_ENCODING_RLE);
        /* No header ends before its end, and bytes that are none are refused or read in bounds. */
        for (size_t less = 0; less < size; less++) {
            uint8_t *exact = copy(bytes, less);
            cursor = exact;
            CHECK(ls_page_header_read(&cursor, exact + less, &read) != LS_OK);
            free(exact);
        }
        uint8_t *changed = copy(bytes, size);
        for (size_t n = 1 + below(3); n > 0; n--)
            changed[below(size)] = (uint8_t)any();
        cursor = changed;
        (void)ls_page_header_read(&cursor, changed + size, &read);
        CHECK(cursor <= changed + size);
        free(changed);
    }
    /* What is not asked for is passed over: statistics, a boolean, a list of them, a double. */
    static const uint8_t full[] = {
        0x15, 0x00, 0x15, 0x0a, 0x15, 0x0a, 0x2c,                         /* 1, 2, 3; 5: struct */
        0x15, 0x06, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06,                   /* 1 to 4 */
        0x1c, 0x18, 0x02, 'a',  'b',  0x11, 0x00,                         /* 5: statistics */
        0x00, 0x29, 0x21, 0x01, 0x02, 0x17, 1,    2,    3, 4, 5, 6, 7, 8, /* 7: list, 8: double */
        0x00};
    ls_page_header read;
    const uint8_t *cursor = full;
    CHECK(ls_page_header_read(&cursor, full + sizeof full, &read) == LS_OK);
    CHECK(cursor == full + sizeof full && read.values == 3 && read.compressed == 5);
    /* Structs in each other without end. */
    uint8_t deep[64];
    memset(deep, 0x9c, sizeof deep);
    cursor = deep;
    CHECK(ls_page_header_read(&cursor, deep + sizeof deep, &read) != LS_OK);
}

/* Writes the header of a page that is not a data page of version 1: values and encoding where
 * its type has them. */
static uint8_t *put_other_header(uint8_t *out, const ls_page_header *header) {
    const int32_t first[] = {header->type, header->uncompressed, header->compressed};
    for (int i = 0; i < 3; i++) {
        *out++ = 1 << 4 | LS_COMPACT_I32;
        out = ls_put_compact_integer(out, first[i]);
    }
    int is_second = header->type == LS_DATA_PAGE_V2;
    *out++ = (uint8_t)((is_second ? 5 : 4) << 4 | LS_COMPACT_STRUCT); /* 8 or 7 */
    *out++ = 1 << 4 | LS_COMPACT_I32;
    out = ls_put_compact_integer(out, header->values);
    *out++ = (uint8_t)((is_second ? 3 : 1) << 4 | LS_COMPACT_I32); /* 4 or 2 */
    out = ls_put_compact_integer(out, header->encoding);
    *out++ = LS_COMPACT_STOP;
    *out++ = LS_COMPACT_STOP;
    return out;
}

void test_claims_of_chunks(void) {
    enum { PAGES = 8, DELTA_BYTE_ARRAY = 7, RLE_DICTIONARY = 8 };
    static const int32_t encodings[] = {LS_ENCODING_PLAIN, RLE_DICTIONARY, DELTA_BYTE_ARRAY, 77};
    for (int round = 0; round < 2000; round++) {
        uint8_t *chunk = room(PAGES * (LS_PAGE_HEADER_MAX + 20)), *out = chunk;
        ls_chunk_claims wanted = {0}, found;
        size_t pages = below(PAGES), dictionary = 0;
        if (pages && below(2)) {
            ls_page_header header = any_header();
            header.type = LS_DICTIONARY_PAGE;
            header.compressed = (int32_t)below(20);
            out = put_other_header(out, &header);
            wanted.dictionary = (uint32_t)header.uncompressed;
            wanted.dictionary_values = (uint32_t)header.values;
            dictionary = (size_t)(out - chunk);
            wanted.stored_dictionary.size = (size_t)header.compressed;
            out += header.compressed;
        }
        for (size_t i = 0; i < pages; i++) {
            ls_page_header header = any_header();
            header.compressed = (int32_t)below(20);
            header.encoding = encodings[below(4)];
            header.type = below(2) ? LS_DATA_PAGE : LS_DATA_PAGE_V2;
            out = header.type == LS_DATA_PAGE ? ls_page_header_write(&header, out)
                                              : put_other_header(out, &header);
            out += header.compressed;
            uint32_t size = (uint32_t)header.uncompressed;
            wanted.values += (uint64_t)header.values;
            wanted.plain += size;
            wanted.largest = size > wanted.largest ? size : wanted.largest;
            if (header.encoding != LS_ENCODING_PLAIN && header.encoding != RLE_DICTIONARY)
                wanted.shared = size > wanted.shared ? size : wanted.shared;
        }
        size_t size = (size_t)(out - chunk);
        uint8_t *exact = copy(chunk, size);
        CHECK(ls_chunk_claims_read((ls_slice){exact, size}, UINT64_MAX, &found) == LS_OK);
        CHECK(found.values == wanted.values && found.plain == wanted.plain);
        CHECK(found.largest == wanted.largest && found.shared == wanted.shared);
        CHECK(found.dictionary == wanted.dictionary);
        CHECK(found.dictionary_values == wanted.dictionary_values);
        CHECK(found.stored_dictionary.size == wanted.stored_dictionary.size);
        CHECK(found.stored_dictionary.data == (dictionary ? exact + dictionary : NULL));
        /* Pages behind the last value are not looked at. */
        if (wanted.values) {
            CHECK(ls_chunk_claims_read((ls_slice){exact, size}, 1, &found) == LS_OK);
            CHECK(found.values >= 1 && found.plain <= wanted.plain);
        }
        /* Wherever a chunk ends, and whatever is in it, it is read in bounds. */
        if (size) {
            size_t less = below(size);
            uint8_t *cut = copy(exact, less);
            (void)ls_chunk_claims_read((ls_slice){cut, less}, UINT64_MAX, &found);
            free(cut);
            for (size_t n = 1 + below(3); n > 0; n--)
                exact[below(size)] = (uint8_t)any();
            (void)ls_chunk_claims_read((ls_slice){exact, size}, UINT64_MAX, &found);
        }
        free(exact);
        free(chunk);
    }
    /* One chunk has one dictionary. */
    uint8_t two[2 * LS_PAGE_HEADER_MAX], *end = two;
    ls_page_header header = {.type = LS_DICTIONARY_PAGE, .values = 1};
    end = put_other_header(end, &header);
    size_t second = (size_t)(end - two);
    end = put_other_header(end, &header);
    ls_chunk_claims found;
    CHECK(ls_chunk_claims_read((ls_slice){two, (size_t)(end - two)}, 1, &found) != LS_OK);
    CHECK(found.page == second);
}

enum { MOST = 40 };

typedef struct {
    uint8_t *data;
    size_t size;
    ls_slice values[MOST];
} plain;

/* Values, PLAIN: bytes with their length before them, or numbers of a width. */
static plain any_plain(size_t count, size_t width) {
    plain made = {.data = room(count * 32)};
    for (size_t i = 0; i < count; i++) {
        size_t size = width ? width : below(20);
        if (!width) {
            ls_store32(made.data + made.size, (uint32_t)size);
            made.size += 4;
        }
        uint8_t *value = made.data + made.size;
        for (size_t n = 0; n < size; n++)
            value[n] = (uint8_t)(below(3) ? below(3) : any());
        made.values[i] = (ls_slice){value, size};
        made.size += size;
    }
    return made;
}

/* -1, 0 or 1 as Parquet orders values of a kind. */
static int order(ls_plain_kind kind, ls_slice a, ls_slice b) {
    int32_t i[2];
    int64_t l[2];
#define COMPARED(pair)                                                                             \
    do {                                                                                           \
        memcpy(&pair[0], a.data, a.size);                                                          \
        memcpy(&pair[1], b.data, b.size);                                                          \
        return (pair[0] > pair[1]) - (pair[0] < pair[1]);                                          \
    } while (0)
    switch (kind) {
    case LS_PLAIN_INT32:
        COMPARED(i);
    case LS_PLAIN_INT64:
        COMPARED(l);
    default: {
        size_t least = a.size < b.size ? a.size : b.size;
        int found = least ? memcmp(a.data, b.data, least) : 0;
        if (found)
            return found < 0 ? -1 : 1;
        return (a.size > b.size) - (a.size < b.size);
    }
    }
}

void test_replaced_values(void) {
    static const ls_plain_kind kinds[] = {LS_PLAIN_INT32, LS_PLAIN_INT64, LS_PLAIN_BYTES};
    static const size_t widths[] = {4, 8, 0};
    for (int round = 0; round < 4000; round++) {
        size_t which = below(3), count = below(MOST), changes = 0;
        ls_plain_kind kind = kinds[which];
        int64_t places[MOST], first = (int64_t)below(1000);
        for (size_t i = 0; i < count; i++)
            if (below(3) == 0)
                places[changes++] = first + (int64_t)i;
        plain old = any_plain(count, widths[which]), new = any_plain(changes, widths[which]);
        ls_slice expected[MOST];
        memcpy(expected, old.values, sizeof expected);
        for (size_t i = 0; i < changes; i++)
            expected[places[i] - first] = new.values[i];
        uint8_t *before = copy(old.data, old.size), *fresh = copy(new.data, new.size);
        uint8_t *out = room(old.size + new.size);
        ls_slice values = {before, old.size}, with = {fresh, new.size};
        ls_plain_range range = {{NULL, 0}, {NULL, 0}};
        size_t size = 0, asked = 0;
        CHECK(ls_plain_size(kind, values, count, &asked) == LS_OK && asked == old.size);
        CHECK(ls_plain_size(kind, values, count + 1, &asked) != LS_OK);
        CHECK(ls_plain_replace(kind, values, count, places, first, changes, with, out, &size,
                               &range) == LS_OK);
        const uint8_t *at = out;
        size_t low = 0, high = 0;
        for (size_t i = 0; i < count; i++) {
            if (!widths[which]) {
                CHECK(ls_load32(at) == expected[i].size);
                at += 4;
            }
            CHECK(same((ls_slice){at, expected[i].size}, expected[i]));
            at += expected[i].size;
            if (order(kind, expected[i], expected[low]) < 0)
                low = i;
            if (order(kind, expected[i], expected[high]) > 0)
                high = i;
        }
        CHECK(at == out + size);
        CHECK((range.least.data != NULL) == (count > 0));
        if (count > 0)
            CHECK(same(range.least, expected[low]) && same(range.greatest, expected[high]));
        /* Fewer or more bytes than the values are, and places that are none. */
        if (count > 0) {
            values.size--;
            CHECK(ls_plain_replace(kind, values, count, places, first, changes, with, out, &size,
                                   &range) != LS_OK);
            values.size++;
        }
        if (changes > 0) {
            with.size--;
            CHECK(ls_plain_replace(kind, values, count, places, first, changes, with, out, &size,
                                   &range) != LS_OK);
            with.size++;
            places[changes - 1] = first + (int64_t)count;
            CHECK(ls_plain_replace(kind, values, count, places, first, changes, with, out, &size,
                                   &range) != LS_OK);
        }
        free(out);
        free(fresh);
        free(before);
        free(new.data);
        free(old.data);
    }
}

void test_longest_values(void) {
    for (int round = 0; round < 500; round++) {
        size_t count = below(MOST);
        plain made = any_plain(count, 0);
        uint32_t longest = 0, found;
        for (size_t i = 0; i < count; i++)
            if (made.values[i].size > longest)
                longest = (uint32_t)made.values[i].size;
        uint8_t *exact = copy(made.data, made.size);
        CHECK(ls_plain_longest((ls_slice){exact, made.size}, count, &found) == LS_OK);
        CHECK(found == longest);
        CHECK(ls_plain_longest((ls_slice){exact, made.size}, count + 1, &found) != LS_OK);
        free(exact);
        free(made.data);
    }
}

void test_texts(void) {
    for (int round = 0; round < 4000; round++) {
        size_t count = below(MOST), start = below(100);
        plain made = any_plain(count, 0);
        uint8_t *exact = copy(made.data, made.size);
        ls_slice values = {exact, made.size};
        uint8_t *out = room(start + made.size + LS_TEXTS_SLACK);
        int32_t offsets[MOST + 2] = {(int32_t)start}, *ends = offsets + 1;
        CHECK(ls_plain_texts(values, count, (int32_t)start, ends, out) == LS_OK);
        size_t at = start;
        for (size_t i = 0; i < count; i++) {
            CHECK(same((ls_slice){out + at, (size_t)ends[i] - at}, made.values[i]));
            at = (size_t)ends[i];
        }
        /* And back. */
        ls_column column = {
            .data = out, .data_size = at, .offsets = offsets, .offset_width = 4, .length = count};
        size_t size = 0;
        CHECK(ls_texts_plain(&column, NULL, &size) == LS_OK && size == made.size);
        uint8_t *again = room(size);
        CHECK(ls_texts_plain(&column, again, &size) == LS_OK);
        CHECK(same((ls_slice){again, size}, values));
        free(again);
        if (at > start) {
            column.data_size--;
            CHECK(ls_texts_plain(&column, NULL, &size) != LS_OK);
        }
        /* More values, fewer, and one that is cut. */
        CHECK(ls_plain_texts(values, count + 1, (int32_t)start, ends, out) != LS_OK);
        if (count > 0) {
            CHECK(ls_plain_texts(values, count - 1, (int32_t)start, ends, out) != LS_OK);
            uint8_t *cut = copy(made.data, made.size - 1);
            values = (ls_slice){cut, made.size - 1};
            CHECK(ls_plain_texts(values, count, (int32_t)start, ends, out) != LS_OK);
            free(cut);
        }
        free(out);
        free(exact);
        free(made.data);
    }
}

void test_ranges_of_floats(void) {
    const double nan = 0.0 / 0.0, values[] = {nan, 2.0, nan, -1.0, 7.0, nan};
    const float all[] = {(float)nan, (float)nan};
    uint8_t out[sizeof values];
    size_t size;
    ls_plain_range range = {{NULL, 0}, {NULL, 0}};
    ls_slice none = {NULL, 0}, given = {(const uint8_t *)values, sizeof values};
    CHECK(ls_plain_replace(LS_PLAIN_DOUBLE, given, 6, NULL, 0, 0, none, out, &size, &range) ==
          LS_OK);
    CHECK(memcmp(range.least.data, &values[3], 8) == 0);
    CHECK(memcmp(range.greatest.data, &values[4], 8) == 0);
    /* A range that is there is made wider, and by numbers that are none it is not. */
    const double more[] = {nan, -5.0, 3.0};
    uint8_t other[sizeof more];
    given = (ls_slice){(const uint8_t *)more, sizeof more};
    CHECK(ls_plain_replace(LS_PLAIN_DOUBLE, given, 3, NULL, 0, 0, none, other, &size, &range) ==
          LS_OK);
    CHECK(memcmp(range.least.data, &more[1], 8) == 0);
    CHECK(memcmp(range.greatest.data, &values[4], 8) == 0);
    range = (ls_plain_range){{NULL, 0}, {NULL, 0}};
    given = (ls_slice){(const uint8_t *)all, sizeof all};
    CHECK(ls_plain_replace(LS_PLAIN_FLOAT, given, 2, NULL, 0, 0, none, out, &size, &range) ==
          LS_OK);
    CHECK(range.least.data == NULL);
}
