/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - one walk over a text: arrays of numbers into floats, the rest into a cJSON tree.
 *
 * Objects, strings and plain arrays are only checked. Each array of numbers is replaced by its
 * index in a copy of the text. cJSON then gets a text that is known to be right, so where cJSON
 * fails there is no memory.
 *
 * Whether an array is one of numbers is known only at its end. So each array is first read as an
 * array of numbers. Where a string or an object turns up in it, all arrays around that are
 * remembered as plain, and the text is read again from the outermost of them. The second time the
 * text before the string is read without another failure, and the text after it was not read yet:
 * so no byte is read more than twice.
 *
 * The walk over an array of numbers keeps one struct level for each depth of arrays. The first
 * child at a level tells whether its arrays hold numbers or rows, and the first array that closes
 * there tells how many. Any later difference makes the whole array ragged. That is noted once, for
 * the first row at fault, and reading goes on: only the field that takes the array knows whether
 * ragged rows are a fault. */
#include "json/json.h"

#include "base/grow.h"
#include "json/json_element.h"
#include "json/json_numbers.h"
#include "json/json_scan.h"
#include "json/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------ arrays of numbers -- */

enum array_kind {
    ARRAY_NUMBERS, /* read; the scan is behind its ']' and the white space after it */
    ARRAY_PLAIN,   /* it contains a string or an object; the scan has not moved */
    ARRAY_FAULT
};

/* The arrays that are known to be plain: at each depth the offset of the '[' of the last one. */
struct plain_arrays {
    size_t offset[JSON_DEPTH_MAX];
};

enum child_kind { CHILD_UNKNOWN, CHILD_LEAF, CHILD_ROW };

struct level {
    enum child_kind kind; /* of the first child seen in an array at this level */
    int64_t extent;       /* children of the first array that closed at this level; -1: none yet */
    int64_t count;        /* children so far of the array that is open */
    size_t offset;        /* of the '[' of the array that is open */
};

struct walk {
    struct json_scan *scan;
    struct json_numbers *numbers;
    int depth_of_root; /* containers around the outermost array */
    int level;         /* of the innermost open array; -1 when all are closed */
    int level_count;   /* levels seen so far */
    struct level levels[JSON_DEPTH_MAX];
};

/* Notes that the row to which the first ragged_depth indices lead is at fault. */
static void note_ragged(struct walk *walk, int ragged_depth, const char *message)
{
    struct json_numbers *numbers = walk->numbers;
    if (numbers->ragged_depth > 0)
        return;
    if (ragged_depth > JSON_RANK_MAX)
        ragged_depth = JSON_RANK_MAX;
    numbers->ragged_depth = ragged_depth;
    for (int i = 0; i < ragged_depth; i++)
        numbers->ragged_index[i] = walk->levels[i].count - 1;
    snprintf(numbers->ragged_message, sizeof numbers->ragged_message, "%s", message);
}

/* Counts a child of the innermost array and checks that it is of the same kind as the others. */
static inline void add_child(struct walk *walk, enum child_kind kind)
{
    struct level *level = &walk->levels[walk->level];
    level->count++;
    if (level->kind == kind)
        return;
    if (level->kind == CHILD_UNKNOWN) {
        level->kind = kind;
    } else {
        note_ragged(walk, walk->level + 1,
                    kind == CHILD_LEAF ? "is a number where the others are rows"
                                       : "is a row where the others are numbers");
    }
}

static bool open_array(struct walk *walk)
{
    struct json_scan *scan = walk->scan;
    if (walk->level >= 0)
        add_child(walk, CHILD_ROW);
    if (walk->depth_of_root + walk->level + 1 >= JSON_DEPTH_MAX) {
        json_scan_fail(scan, scan->p, "nested deeper than 64");
        return false;
    }
    walk->level++;
    walk->numbers->is_deep = walk->numbers->is_deep || walk->level == JSON_RANK_MAX;
    struct level *level = &walk->levels[walk->level];
    if (walk->level == walk->level_count) {
        level->kind = CHILD_UNKNOWN;
        level->extent = -1;
        walk->level_count++;
    }
    level->count = 0;
    level->offset = (size_t)(scan->p - scan->text);
    scan->p++;
    return true;
}

static void close_array(struct walk *walk)
{
    const struct level *closed = &walk->levels[walk->level];
    walk->scan->p++;
    if (closed->extent < 0) {
        walk->levels[walk->level].extent = closed->count;
    } else if (closed->extent != closed->count) {
        char message[sizeof walk->numbers->ragged_message];
        const char *what = closed->kind == CHILD_ROW ? "rows" : "columns";
        const int used =
            snprintf(message, sizeof message, "has %" PRId64 " %s; row 0", closed->count, what);
        snprintf(message + used, sizeof message - (size_t)used, "%s has %" PRId64,
                 walk->level > 1 ? " of the first" : "", closed->extent);
        note_ragged(walk, walk->level, message);
    }
    walk->level--;
}

/* Notes that there is an element of a kind, and where the first one is. */
static void note_first(const struct json_numbers *numbers, bool *has, int64_t *first)
{
    if (!*has)
        *first = numbers->count;
    *has = true;
}

/* Reads a number, true, false or null; c is its first character. */
static bool read_leaf(struct walk *walk, char c, float *value)
{
    struct json_scan *scan = walk->scan;
    struct json_numbers *numbers = walk->numbers;
    if (c == 't' || c == 'f' || c == 'n') {
        *value = c == 't' ? 1.0f : c == 'f' ? 0.0f : -INFINITY;
        if (!json_scan_literal(scan))
            return false;
        if (c == 'n')
            note_first(numbers, &numbers->has_null, &numbers->first_null);
        else
            note_first(numbers, &numbers->has_bool, &numbers->first_bool);
        return true;
    }
    if (c != '-' && c != 'N' && c != 'I' && !json_scan_is_digit(c))
        return json_scan_expected(scan, "a value");
    const char *after = json_read_float(scan->p, scan->end, value);
    if (after)
        scan->p = after;
    else if (!json_scan_nonfinite(scan, value))
        return json_scan_bad_number(scan);
    note_first(numbers, &numbers->has_number, &numbers->first_number);
    if (!isfinite(*value) && numbers->nonfinite_index < 0)
        numbers->nonfinite_index = numbers->count;
    return true;
}

/* Reads one leaf, or as many numbers at once as the quick reader takes. */
static bool read_leaves(struct walk *walk, char c)
{
    struct json_scan *scan = walk->scan;
    struct json_numbers *numbers = walk->numbers;
    float *values = &numbers->values[numbers->count];
    int64_t count = 0;
    if (c == '-' || json_scan_is_digit(c))
        count = (int64_t)json_read_floats(scan->text, &scan->p, scan->end, values);
    if (count > 0) {
        note_first(numbers, &numbers->has_number, &numbers->first_number);
    } else {
        if (!read_leaf(walk, c, values))
            return false;
        count = 1;
    }
    numbers->count += count;
    add_child(walk, CHILD_LEAF);
    walk->levels[walk->level].count += count - 1;
    return true;
}

/* Enters all open arrays as plain. */
static void enter_plain(const struct walk *walk, struct plain_arrays *plain)
{
    for (int i = 0; i <= walk->level; i++)
        plain->offset[walk->depth_of_root + i] = walk->levels[i].offset;
}

static void set_shape(struct walk *walk)
{
    struct json_numbers *numbers = walk->numbers;
    numbers->rank = walk->level_count < JSON_RANK_MAX ? walk->level_count : JSON_RANK_MAX;
    for (int i = 0; i < numbers->rank; i++)
        numbers->shape[i] = walk->levels[i].extent;
}

/* Reads from the outermost '[' to behind its ']'. */
static enum array_kind walk_arrays(struct walk *walk)
{
    struct json_scan *scan = walk->scan;
    bool opened = false; /* the last token is a '[', so a ']' may follow */
    do {
        const char c = json_scan_peek(scan);
        if (c == '[') {
            if (!open_array(walk))
                return ARRAY_FAULT;
            opened = true;
        } else if (c == '"' || c == '{') {
            return ARRAY_PLAIN;
        } else {
            if (!read_leaves(walk, c))
                return ARRAY_FAULT;
            opened = false;
        }
        json_scan_space(scan);
        if (opened && json_scan_peek(scan) != ']')
            continue;
        while (walk->level >= 0 && json_scan_peek(scan) == ']') {
            close_array(walk);
            json_scan_space(scan);
        }
        if (walk->level < 0)
            break;
        if (json_scan_peek(scan) != ',') {
            json_scan_expected(scan, "',' or ']'");
            return ARRAY_FAULT;
        }
        scan->p++;
        json_scan_space(scan);
    } while (true);
    return ARRAY_NUMBERS;
}

/* Reads the array whose '[' is at the scan's p and which is inside `depth` containers (0: it is the
 * whole text). Its elements go to values, which has room for all that the text can hold. Where the
 * array is plain, all open arrays around the string or object that makes it plain are entered in
 * plain, so that the text before that is read only once more. */
static enum array_kind array_read(struct json_scan *scan, int depth, float *values,
                                  struct json_numbers *numbers, struct plain_arrays *plain)
{
    const char *begin = scan->p;
    assert(json_scan_peek(scan) == '[');
    struct walk walk; /* a level is set when it is reached, so that small arrays cost little */
    walk.scan = scan;
    walk.numbers = numbers;
    walk.depth_of_root = depth;
    walk.level = -1;
    walk.level_count = 0;
    *numbers = (struct json_numbers){ .values = values,
                                      .offset = (size_t)(begin - scan->text),
                                      .text = begin,
                                      .nonfinite_index = -1 };
    const enum array_kind kind = walk_arrays(&walk);
    if (kind == ARRAY_NUMBERS)
        set_shape(&walk);
    if (kind == ARRAY_PLAIN) {
        enter_plain(&walk, plain);
        scan->p = begin;
    }
    return kind;
}

/* The text is right, so brackets and commas tell all. */
int64_t json_numbers_children(const struct json_numbers *numbers, int64_t *sizes)
{
    const char *p = numbers->text;
    int64_t count = 0, leaves = 0;
    int depth = 0;
    bool in_leaf = false;
    do {
        const bool is_leaf = !strchr("[], \t\r\n", *p);
        const bool begins = is_leaf && !in_leaf;
        in_leaf = is_leaf;
        leaves += begins;
        if (*p == '[')
            leaves = 0;
        if (*p == '[' && ++depth > 2)
            return -1;
        const bool ends = *p == ']' && --depth == 1;
        if (sizes && (ends || (begins && depth == 1)))
            sizes[count] = ends ? leaves : -1;
        count += ends || (begins && depth == 1);
        p++;
    } while (depth > 0);
    return count;
}

/* ------------------------------------------------------------- whole text -- */

/* Some builds of cJSON 1.7.15 refuse numbers of more than 63 bytes, so longer ones are shortened.
 */
enum { CJSON_NUMBER_BYTES_MAX = 63 };

/* Memory of a node with a short name, with what malloc() adds to both. */
enum { NODE_BYTES = sizeof(cJSON) + 48 };

struct reader {
    struct json_scan scan;
    struct json_document *document;
    struct plain_arrays plain;
    int64_t array_capacity;
    int64_t value_count; /* elements of all arrays so far */
    int64_t node_count;  /* cJSON nodes that the envelope needs so far */
    int64_t node_count_max;
    struct text envelope; /* the text up to `copied`, with an index for each array of numbers */
    const char *copied;
};

static bool read_value(struct reader *reader, int depth);

/* Counts nodes, so that a client cannot make the server build any number of them. */
static bool add_nodes(struct reader *reader, int count)
{
    reader->node_count += count;
    if (reader->node_count <= reader->node_count_max)
        return true;
    return fault_set(reader->scan.fault, FAULT_TOO_LARGE,
                     "the JSON has more than %" PRId64 " values outside arrays of numbers",
                     reader->node_count_max);
}

/* Copies the text up to `from` and leaves out the text from there to the scan's place. */
static void replace_text(struct reader *reader, const char *from)
{
    text_bytes(&reader->envelope, reader->copied, (size_t)(from - reader->copied));
    reader->copied = reader->scan.p;
}

static struct json_numbers *next_numbers(struct reader *reader)
{
    struct json_document *document = reader->document;
    struct json_numbers *arrays = array_with_room(document->arrays, document->array_count,
                                                  &reader->array_capacity, sizeof *arrays);
    if (!arrays)
        return NULL;
    document->arrays = arrays;
    return &arrays[document->array_count];
}

static enum array_kind read_numbers(struct reader *reader, int depth)
{
    struct json_scan *scan = &reader->scan;
    struct json_document *document = reader->document;
    const char *begin = scan->p;
    struct json_numbers *numbers = next_numbers(reader);
    if (!numbers) {
        fault_no_memory(scan->fault);
        return ARRAY_FAULT;
    }
    const enum array_kind kind =
        array_read(scan, depth, document->values + reader->value_count, numbers, &reader->plain);
    if (kind != ARRAY_NUMBERS)
        return kind;
    if (numbers->rank == 1 && numbers->count == 0) /* [] stays what it is */
        return add_nodes(reader, 1) ? kind : ARRAY_FAULT;
    replace_text(reader, begin);
    text_bytes(&reader->envelope, "[", 1);
    text_integer(&reader->envelope, document->array_count);
    text_bytes(&reader->envelope, "]", 1);
    document->array_count++;
    reader->value_count += numbers->count;
    return add_nodes(reader, 2) ? kind : ARRAY_FAULT;
}

/* Reads a string or a key. */
static bool read_string(struct reader *reader)
{
    struct json_scan *scan = &reader->scan;
    const char *p = scan->p;
    if (!json_scan_string(scan))
        return false;
    const char *end = scan->p;
    while (scan->nul_allowed && (p = memchr(p, '\\', (size_t)(end - p)))) {
        const bool is_nul = end - p > 6 && memcmp(p, "\\u0000", 6) == 0;
        p += is_nul ? 6 : 2;
        if (!is_nul)
            continue;
        scan->p = p;
        replace_text(reader, p - 6);
        text_bytes(&reader->envelope, JSON_STRING_NUL, sizeof JSON_STRING_NUL - 1);
    }
    scan->p = end;
    return true;
}

/* Reads what follows a value in an array or object. *more: it was a ',', so another value follows.
 */
static bool read_separator(struct json_scan *scan, char close, bool *more)
{
    json_scan_space(scan);
    const char c = json_scan_peek(scan);
    *more = c == ',';
    if (c != ',' && c != close)
        return json_scan_expected(scan, close == ']' ? "',' or ']'" : "',' or '}'");
    scan->p++;
    if (*more)
        json_scan_space(scan);
    return true;
}

static bool read_array(struct reader *reader, int depth)
{
    struct json_scan *scan = &reader->scan;
    if (reader->plain.offset[depth] != (size_t)(scan->p - scan->text)) {
        const enum array_kind kind = read_numbers(reader, depth);
        if (kind != ARRAY_PLAIN)
            return kind == ARRAY_NUMBERS;
    }
    if (!add_nodes(reader, 1))
        return false;
    scan->p++;
    json_scan_space(scan);
    bool more;
    do {
        if (!read_value(reader, depth + 1) || !read_separator(scan, ']', &more))
            return false;
    } while (more);
    return true;
}

static bool read_object(struct reader *reader, int depth)
{
    struct json_scan *scan = &reader->scan;
    if (!add_nodes(reader, 1))
        return false;
    scan->p++;
    json_scan_space(scan);
    if (json_scan_peek(scan) == '}') {
        scan->p++;
        return true;
    }
    bool more;
    do {
        if (json_scan_peek(scan) != '"')
            return json_scan_expected(scan, "a key in quotes");
        if (!read_string(reader))
            return false;
        json_scan_space(scan);
        if (json_scan_peek(scan) != ':')
            return json_scan_expected(scan, "':' after a key");
        scan->p++;
        json_scan_space(scan);
        if (!read_value(reader, depth + 1) || !read_separator(scan, '}', &more))
            return false;
    } while (more);
    return true;
}

static bool read_number(struct reader *reader)
{
    struct json_scan *scan = &reader->scan;
    const char *begin = scan->p;
    char shorter[JSON_NUMBER_BYTES_MAX + 1];
    size_t size;
    const char *after = json_shorten_number(begin, scan->end, shorter, &size);
    if (!after)
        return json_scan_bad_number(scan);
    scan->p = after;
    if (after - begin > CJSON_NUMBER_BYTES_MAX) {
        replace_text(reader, begin);
        text_bytes(&reader->envelope, shorter, size);
    }
    return add_nodes(reader, 1);
}

/* Reads a value that is inside `depth` arrays and objects. */
static bool read_value(struct reader *reader, int depth)
{
    struct json_scan *scan = &reader->scan;
    const char c = json_scan_peek(scan);
    if ((c == '{' || c == '[') && depth >= JSON_DEPTH_MAX)
        return json_scan_fail(scan, scan->p, "nested deeper than 64");
    if (c == '{')
        return read_object(reader, depth);
    if (c == '[')
        return read_array(reader, depth);
    if (c == '"')
        return read_string(reader) && add_nodes(reader, 1);
    if (c == '-' || c == 'N' || c == 'I' || json_scan_is_digit(c))
        return read_number(reader);
    return json_scan_literal(scan) && add_nodes(reader, 1);
}

/* Reads the text, which must be exactly one value, into the envelope and the arrays. */
static bool read_text(struct reader *reader)
{
    struct json_scan *scan = &reader->scan;
    if (scan->p == scan->end)
        return fault_set(scan->fault, FAULT_JSON,
                         "the body is empty; expected a JSON value at byte 0");
    if (scan->end - scan->p >= 3 && memcmp(scan->p, "\xEF\xBB\xBF", 3) == 0)
        return json_scan_fail(scan, scan->p, "JSON has no byte order mark; there is one");
    json_scan_space(scan);
    if (!read_value(reader, 0))
        return false;
    json_scan_space(scan);
    if (scan->p != scan->end)
        return json_scan_expected(scan, "the end of the text");
    replace_text(reader, scan->end);
    return reader->envelope.failed == FAULT_NONE || fault_no_memory(scan->fault);
}

/* The most elements that the arrays of a text can have: each element follows a '[' or a ','. */
static size_t count_elements_max(const char *text, size_t size)
{
    typedef uint8_t bytes __attribute__((vector_size(16)));
    size_t count = 0;
    size_t i = 0;
    while (size - i >= sizeof(bytes)) {
        bytes counts = { 0 }; /* of at most 255 steps, each of which adds at most 1 to a byte */
        for (int step = 0; step < 255 && size - i >= sizeof(bytes); step++, i += sizeof(bytes)) {
            bytes block;
            memcpy(&block, text + i, sizeof block);
            counts -= (bytes)((block == ',') | (block == '['));
        }
        for (size_t j = 0; j < sizeof(bytes); j++)
            count += counts[j];
    }
    for (; i < size; i++)
        count += text[i] == ',' || text[i] == '[';
    return count;
}

static bool parse_envelope(struct json_document *document, const struct text *envelope,
                           struct fault *fault)
{
    document->root = cJSON_ParseWithLengthOpts(envelope->data, envelope->used, NULL, false);
    if (!document->root)
        return fault_no_memory(fault);
    return json_check_duplicates(document->root, fault);
}

static bool reserve_nodes(const struct reader *reader, struct memory_share *memory)
{
    return memory_reserve(memory, (size_t)reader->node_count * NODE_BYTES)
           || fault_no_memory(reader->scan.fault);
}

bool json_read(struct json_document *document, const char *text, size_t size,
               const struct json_options *options, struct fault *fault)
{
    *document = (struct json_document){ 0 };
    struct reader reader = {
        .scan = { .text = text,
                  .end = text + size,
                  .p = text,
                  .nonfinite_allowed = options->nonfinite_allowed,
                  .nul_allowed = options->nul_is_kept,
                  .fault = fault },
        .document = document,
        .node_count_max = options->values_max ? options->values_max : JSON_ENVELOPE_VALUES_MAX,
        .copied = text,
    };
    memset(&reader.plain, 0xFF, sizeof reader.plain); /* an offset that no text has */
    text_init(&reader.envelope, SIZE_MAX);
    const size_t elements_max = count_elements_max(text, size);
    const size_t values_bytes = (elements_max + 1) * sizeof *document->values;
    reader.envelope.memory = options->memory;
    if (memory_reserve(options->memory, values_bytes))
        document->values = malloc(values_bytes);
    const bool done = document->values
                          ? read_text(&reader) && reserve_nodes(&reader, options->memory)
                                && parse_envelope(document, &reader.envelope, fault)
                          : fault_no_memory(fault);
    text_free(&reader.envelope);
    if (!done)
        json_free(document);
    return done;
}

void json_free(struct json_document *document)
{
    if (!document)
        return;
    cJSON_Delete(document->root);
    free(document->arrays);
    free(document->values);
    *document = (struct json_document){ 0 };
}
