#include "ls_footer.h"

#include "ls_compact.h"

/* Maximum depth of structs and lists in a row group. */
#define MOST_DEPTH 16

/* Ids of fields: of RowGroup, ColumnChunk, ColumnMetaData, Statistics and SizeStatistics. */
enum { GROUP_COLUMNS = 1, GROUP_ROWS = 3 };
enum { CHUNK_FILE = 1, CHUNK_COLUMN = 3, CHUNK_ENCRYPTION = 8 };
enum {
    COLUMN_KIND = 1,
    COLUMN_PATH = 3,
    COLUMN_VALUES = 5,
    COLUMN_PLAIN = 6,
    COLUMN_STORED = 7,
    COLUMN_DATA = 9,
    COLUMN_DICTIONARY = 11,
    COLUMN_STATISTICS = 12,
    COLUMN_SIZES = 16,
};
enum { OLD_GREATEST = 1, OLD_LEAST = 2, GREATEST = 5, LEAST = 6 };
enum { SIZES_TEXT = 1, SIZES_REPETITION = 2, SIZES_DEFINITION = 3 };
/* Id of the field with extensions of writers; see _structs.pyx. */
enum { EXTENSION = 32767 };
/* Physical types whose values are texts, and bytes of a length in the schema. */
enum { BYTE_ARRAY = 6, FIXED_LENGTH = 7 };

/* The checked members of a ColumnMetaData. Of a repeated field, the last one counts. */
typedef struct {
    const uint8_t *at;
    ls_slice name; /* last part of the path; NULL: there is none */
    int64_t kind, values, plain, stored, data, dictionary;
    uint64_t narrowest; /* size of the shortest bound; UINT64_MAX: there are none */
    int has_text_bytes;
    uint64_t repetition, definition; /* number of levels */
} column_claims;

static ls_status read_bytes(const uint8_t **cursor, const uint8_t *end, ls_slice *bytes) {
    uint64_t size;
    ls_status status = ls_compact_varint(cursor, end, &size);
    if (status != LS_OK)
        return status;
    if (size > (size_t)(end - *cursor))
        return LS_TRUNCATED;
    bytes->data = *cursor;
    bytes->size = (size_t)size;
    *cursor += size;
    return LS_OK;
}

/* Moves to the end of the value of a field of a row group, whose depth was checked before. */
static ls_status skip(const uint8_t **cursor, const uint8_t *end, int type) {
    if (type == LS_COMPACT_TRUE || type == LS_COMPACT_FALSE)
        return LS_OK;
    return ls_compact_skip(cursor, end, type, MOST_DEPTH);
}

/* Reads the type and the id of the next field known to a version of Parquet; skips fields of other
 * types, and extensions. */
static ls_status next_field(const uint8_t **cursor, const uint8_t *end, int64_t *id, int *type) {
    for (;;) {
        ls_status status = ls_compact_field(cursor, end, id, type);
        if (status != LS_OK || *type == LS_COMPACT_STOP)
            return status;
        if (*id > 0 && *id != EXTENSION && *type != LS_COMPACT_SET && *type != LS_COMPACT_MAP &&
            *type != LS_COMPACT_UUID)
            return LS_OK;
        status = skip(cursor, end, *type);
        if (status != LS_OK)
            return status;
    }
}

/* Reads a number of exactly this type; a number of another type becomes LS_NO_NUMBER. */
static ls_status read_number(const uint8_t **cursor, const uint8_t *end, int type, int wanted,
                             int64_t *value) {
    ls_status status =
        type == wanted ? ls_compact_number(cursor, end, type, value) : skip(cursor, end, type);
    if (type != wanted)
        *value = LS_NO_NUMBER;
    else if (*value == LS_NO_NUMBER) /* equally impossible */
        *value = LS_NO_NUMBER + 1;
    return status;
}

static ls_status read_path(const uint8_t **cursor, const uint8_t *end, int type, ls_slice *name) {
    int items;
    uint64_t count;
    name->data = NULL;
    if (type != LS_COMPACT_LIST)
        return skip(cursor, end, type);
    ls_status status = ls_compact_list(cursor, end, &items, &count);
    for (uint64_t i = 0; status == LS_OK && i < count; i++)
        status = items == LS_COMPACT_BINARY ? read_bytes(cursor, end, name)
                                            : ls_compact_skip(cursor, end, items, MOST_DEPTH);
    return status;
}

static ls_status read_statistics(const uint8_t **cursor, const uint8_t *end, int type,
                                 uint64_t *narrowest) {
    uint64_t bounds[LEAST + 1];
    for (int i = 0; i <= LEAST; i++)
        bounds[i] = UINT64_MAX;
    *narrowest = UINT64_MAX;
    if (type != LS_COMPACT_STRUCT)
        return skip(cursor, end, type);
    int64_t id = 0;
    for (;;) {
        ls_status status = next_field(cursor, end, &id, &type);
        if (status != LS_OK)
            return status;
        if (type == LS_COMPACT_STOP)
            break;
        ls_slice bytes = {NULL, 0};
        int is_bound = id == OLD_GREATEST || id == OLD_LEAST || id == GREATEST || id == LEAST;
        status = is_bound && type == LS_COMPACT_BINARY ? read_bytes(cursor, end, &bytes)
                                                       : skip(cursor, end, type);
        if (status != LS_OK)
            return status;
        if (is_bound)
            bounds[id] = bytes.size;
    }
    for (int i = 0; i <= LEAST; i++)
        *narrowest = bounds[i] < *narrowest ? bounds[i] : *narrowest;
    return LS_OK;
}

static ls_status read_levels(const uint8_t **cursor, const uint8_t *end, int type,
                             uint64_t *count) {
    int items;
    *count = 0;
    if (type != LS_COMPACT_LIST)
        return skip(cursor, end, type);
    ls_status status = ls_compact_list(cursor, end, &items, count);
    for (uint64_t i = 0; status == LS_OK && i < *count; i++)
        status = ls_compact_skip(cursor, end, items, MOST_DEPTH);
    return status;
}

static ls_status read_sizes(const uint8_t **cursor, const uint8_t *end, int type,
                            column_claims *claims) {
    claims->has_text_bytes = 0;
    claims->repetition = claims->definition = 0;
    if (type != LS_COMPACT_STRUCT)
        return skip(cursor, end, type);
    int64_t id = 0;
    for (;;) {
        ls_status status = next_field(cursor, end, &id, &type);
        if (status != LS_OK || type == LS_COMPACT_STOP)
            return status;
        if (id == SIZES_REPETITION)
            status = read_levels(cursor, end, type, &claims->repetition);
        else if (id == SIZES_DEFINITION)
            status = read_levels(cursor, end, type, &claims->definition);
        else
            status = skip(cursor, end, type);
        if (status != LS_OK)
            return status;
        claims->has_text_bytes |= id == SIZES_TEXT;
    }
}

static void claim_nothing(column_claims *claims) {
    *claims = (column_claims){
        .kind = LS_NO_NUMBER,
        .values = LS_NO_NUMBER,
        .plain = LS_NO_NUMBER,
        .stored = LS_NO_NUMBER,
        .data = LS_NO_NUMBER,
        .dictionary = LS_NO_NUMBER,
        .narrowest = UINT64_MAX,
    };
}

static ls_status read_column(const uint8_t **cursor, const uint8_t *end, column_claims *claims) {
    int64_t id = 0;
    int type;
    claim_nothing(claims);
    claims->at = *cursor;
    for (;;) {
        ls_status status = next_field(cursor, end, &id, &type);
        if (status != LS_OK || type == LS_COMPACT_STOP)
            return status;
        switch (id) {
        case COLUMN_KIND:
            status = read_number(cursor, end, type, LS_COMPACT_I32, &claims->kind);
            break;
        case COLUMN_PATH:
            status = read_path(cursor, end, type, &claims->name);
            break;
        case COLUMN_VALUES:
            status = read_number(cursor, end, type, LS_COMPACT_I64, &claims->values);
            break;
        case COLUMN_PLAIN:
            status = read_number(cursor, end, type, LS_COMPACT_I64, &claims->plain);
            break;
        case COLUMN_STORED:
            status = read_number(cursor, end, type, LS_COMPACT_I64, &claims->stored);
            break;
        case COLUMN_DATA:
            status = read_number(cursor, end, type, LS_COMPACT_I64, &claims->data);
            break;
        case COLUMN_DICTIONARY:
            status = read_number(cursor, end, type, LS_COMPACT_I64, &claims->dictionary);
            break;
        case COLUMN_STATISTICS:
            status = read_statistics(cursor, end, type, &claims->narrowest);
            break;
        case COLUMN_SIZES:
            status = read_sizes(cursor, end, type, claims);
            break;
        default:
            status = skip(cursor, end, type);
        }
        if (status != LS_OK)
            return status;
    }
}

/* Returns the beginning of a chunk. Some writers record a dictionary that is not before the data;
 * for a chunk without rows, Arrow records only that of the dictionary. */
static int64_t begin(const column_claims *claims) {
    int64_t data = claims->data, dictionary = claims->dictionary;
    return dictionary == 0 || (0 < data && data <= dictionary) ? data : dictionary;
}

static ls_footer_fault read_chunk(const uint8_t **cursor, const uint8_t *end,
                                  column_claims *claims) {
    int64_t id = 0;
    int type, is_encrypted = 0;
    ls_slice file = {NULL, 0};
    claim_nothing(claims);
    for (;;) {
        if (next_field(cursor, end, &id, &type) != LS_OK)
            return LS_FOOTER_BYTES;
        if (type == LS_COMPACT_STOP)
            break;
        ls_status status;
        if (id == CHUNK_COLUMN && type == LS_COMPACT_STRUCT) {
            status = read_column(cursor, end, claims);
        } else if (id == CHUNK_FILE && type == LS_COMPACT_BINARY) {
            status = read_bytes(cursor, end, &file);
        } else {
            status = skip(cursor, end, type);
            if (id == CHUNK_COLUMN)
                claim_nothing(claims);
        }
        if (status != LS_OK)
            return LS_FOOTER_BYTES;
        is_encrypted |= id == CHUNK_ENCRYPTION && type == LS_COMPACT_STRUCT;
    }
    if (is_encrypted)
        return LS_FOOTER_ENCRYPTED;
    if (file.size)
        return LS_FOOTER_ELSEWHERE;
    if (claims->values < 0 || claims->plain < 0 || claims->stored < 0 || !claims->name.data)
        return LS_FOOTER_LACKS;
    if (claims->dictionary == LS_NO_NUMBER)
        claims->dictionary = 0;
    return claims->data == LS_NO_NUMBER || begin(claims) < 0 ? LS_FOOTER_LACKS : LS_FOOTER_OK;
}

static int is_of(const column_claims *claims, const ls_footer_leaf *leaf) {
    if (claims->kind != leaf->kind || claims->name.size != leaf->name.size ||
        memcmp(claims->name.data, leaf->name.data, leaf->name.size) != 0)
        return 0;
    /* Bounds of fixed-length values may be truncated, and are not read with Arrow. */
    if (leaf->width > 0 && leaf->kind != FIXED_LENGTH && claims->narrowest < (uint64_t)leaf->width)
        return 0;
    if (claims->has_text_bytes && leaf->kind != BYTE_ARRAY)
        return 0;
    return (claims->repetition == 0 || claims->repetition == leaf->repetition + 1) &&
           (claims->definition == 0 || claims->definition == leaf->definition + 1);
}

static int64_t sum(int64_t a, int64_t b) {
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* The common values of the chunks of a row group. */
typedef struct {
    int64_t fewest, most; /* values of columns that are not nested in lists */
    int64_t fewest_nested;
} value_counts;

static ls_footer_fault read_chunks(const uint8_t *start, const uint8_t **cursor, const uint8_t *end,
                                   const ls_footer_leaf *leaves, size_t count, int64_t from,
                                   int64_t to, ls_footer_group *group, value_counts *counts,
                                   uint32_t *places, size_t *chunk) {
    ls_footer_fault fault = LS_FOOTER_OK;
    for (size_t i = 0; i < count; i++) {
        column_claims claims;
        ls_footer_fault found = read_chunk(cursor, end, &claims);
        if (found != LS_FOOTER_OK)
            return found;
        if (!is_of(&claims, &leaves[i]))
            return LS_FOOTER_OTHERS;
        places[i] = (uint32_t)(claims.at - start);
        group->stored = sum(group->stored, claims.stored);
        group->plain = sum(group->plain, claims.plain);
        if (leaves[i].repetition) {
            if (claims.values < counts->fewest_nested)
                counts->fewest_nested = claims.values;
        } else {
            if (claims.values < counts->fewest)
                counts->fewest = claims.values;
            if (claims.values > counts->most)
                counts->most = claims.values;
        }
        /* For a row group without rows, Arrow writes no page of bools, and records the offset 0. */
        int64_t at = begin(&claims);
        int is_nothing = claims.values == 0 && claims.stored == 0;
        if (fault == LS_FOOTER_OK && to >= 0 && !is_nothing &&
            (at < from || at > to || claims.stored > to - at)) {
            fault = LS_FOOTER_OUTSIDE;
            *chunk = i;
        }
    }
    return fault;
}

ls_status ls_footer_groups(const uint8_t **cursor, const uint8_t *end, int type, uint64_t *count) {
    int items;
    *count = 0;
    if (type != LS_COMPACT_LIST)
        return LS_OK;
    ls_status status = ls_compact_list(cursor, end, &items, count);
    if (status == LS_OK && items != LS_COMPACT_STRUCT)
        *count = 0;
    return status;
}

ls_footer_fault ls_footer_group_read(const uint8_t *start, const uint8_t **cursor,
                                     const uint8_t *end, const ls_footer_leaf *leaves, size_t count,
                                     int64_t from, int64_t to, ls_footer_group *group,
                                     uint32_t *places, size_t *chunk) {
    int64_t id = 0;
    int type;
    size_t columns = 0;
    ls_footer_fault fault = count ? LS_FOOTER_OTHERS : LS_FOOTER_OK;
    value_counts counts = {INT64_MAX, INT64_MIN, INT64_MAX};
    *group = (ls_footer_group){.rows = LS_NO_NUMBER};
    for (;;) {
        if (next_field(cursor, end, &id, &type) != LS_OK)
            return LS_FOOTER_BYTES;
        if (type == LS_COMPACT_STOP)
            break;
        if (id == GROUP_COLUMNS) {
            const uint8_t *chunks = *cursor;
            uint64_t items;
            if (ls_footer_groups(&chunks, end, type, &items) != LS_OK)
                return LS_FOOTER_BYTES;
            columns = (size_t)items;
            counts = (value_counts){INT64_MAX, INT64_MIN, INT64_MAX};
            group->stored = group->plain = 0;
            fault = LS_FOOTER_OTHERS;
            if (columns == count)
                fault = read_chunks(start, &chunks, end, leaves, count, from, to, group, &counts,
                                    places, chunk);
            /* Another list of columns may follow, and replaces this one. */
            if (fault != LS_FOOTER_OK && skip(cursor, end, type) != LS_OK)
                return LS_FOOTER_BYTES;
            if (fault == LS_FOOTER_OK && type == LS_COMPACT_LIST)
                *cursor = chunks;
        } else {
            ls_status status = id == GROUP_ROWS
                                   ? read_number(cursor, end, type, LS_COMPACT_I64, &group->rows)
                                   : skip(cursor, end, type);
            if (status != LS_OK)
                return LS_FOOTER_BYTES;
        }
    }
    if (group->rows == LS_NO_NUMBER)
        return LS_FOOTER_LACKS;
    if (fault != LS_FOOTER_OK && fault != LS_FOOTER_OUTSIDE)
        return fault;
    if (counts.fewest < group->rows || counts.fewest_nested < group->rows ||
        counts.most > group->rows)
        return LS_FOOTER_OTHERS;
    return fault;
}
