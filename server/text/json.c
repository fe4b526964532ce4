/* json.c - see json.h.
 *
 * The reader walks over the text once. Objects, strings and plain arrays are only checked;
 * json_array.c reads each array of numbers, which its index replaces in a copy of the text. cJSON
 * then gets a text that is known to be right, so where cJSON fails there is no memory.
 *
 * Whether an array is one of numbers is known only at its end. So each array is first read as an
 * array of numbers. Where a string or an object turns up in it, all arrays around that are
 * remembered as plain, and the text is read again from the outermost of them. The second time the
 * text before the string is read without another failure, and the text after it was not read yet:
 * so no byte is read more than twice. */
#include "text/json.h"

#include "base/grow.h"
#include "text/json_array.h"
#include "text/json_duplicates.h"
#include "text/json_numbers.h"
#include "text/json_string.h"
#include "text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Some builds of cJSON 1.7.15 refuse numbers of more than 63 bytes, so longer ones are shortened.
 */
enum { CJSON_NUMBER_BYTES_MAX = 63 };

/* Memory of a node with a short name, with what malloc() adds to both. */
enum { NODE_BYTES = sizeof(cJSON) + 48 };

struct reader {
    struct json_scan scan;
    struct json_document *document;
    struct json_plain_arrays plain;
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

static enum json_array_kind read_numbers(struct reader *reader, int depth)
{
    struct json_scan *scan = &reader->scan;
    struct json_document *document = reader->document;
    const char *begin = scan->p;
    struct json_numbers *numbers = next_numbers(reader);
    if (!numbers) {
        fault_no_memory(scan->fault);
        return JSON_ARRAY_FAULT;
    }
    const enum json_array_kind kind = json_array_read(
        scan, depth, document->values + reader->value_count, numbers, &reader->plain);
    if (kind != JSON_ARRAY_NUMBERS)
        return kind;
    if (numbers->rank == 1 && numbers->count == 0) /* [] stays what it is */
        return add_nodes(reader, 1) ? kind : JSON_ARRAY_FAULT;
    replace_text(reader, begin);
    text_bytes(&reader->envelope, "[", 1);
    text_integer(&reader->envelope, document->array_count);
    text_bytes(&reader->envelope, "]", 1);
    document->array_count++;
    reader->value_count += numbers->count;
    return add_nodes(reader, 2) ? kind : JSON_ARRAY_FAULT;
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
        const enum json_array_kind kind = read_numbers(reader, depth);
        if (kind != JSON_ARRAY_PLAIN)
            return kind == JSON_ARRAY_NUMBERS;
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
    return json_duplicates_check(document->root, fault);
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

const struct json_numbers *json_numbers_of(const struct json_document *document, const cJSON *node)
{
    static const struct json_numbers EMPTY = { .rank = 1, .nonfinite_index = -1 };
    if (!cJSON_IsArray(node))
        return NULL;
    const cJSON *child = node->child;
    if (!child)
        return &EMPTY;
    if (child->next || !cJSON_IsNumber(child))
        return NULL;
    /* A plain array has a string or an object in it; so the only number of this one is an index. */
    const int64_t index = (int64_t)child->valuedouble;
    if (index < 0 || index >= document->array_count)
        return NULL;
    return &document->arrays[index];
}

bool json_whole(const cJSON *node, uint64_t *value)
{
    const double number = cJSON_IsNumber(node) ? node->valuedouble : -1;
    if (!(number >= 0 && number < 9007199254740992.0) || number != (double)(uint64_t)number)
        return false;
    *value = (uint64_t)number;
    return true;
}

const char *json_kind(const struct json_document *document, const cJSON *node)
{
    return document && json_numbers_of(document, node) ? "an array of numbers"
           : cJSON_IsArray(node)                       ? "an array"
           : cJSON_IsObject(node)                      ? "an object"
           : cJSON_IsString(node)                      ? "a string"
           : cJSON_IsBool(node)                        ? "a boolean"
           : cJSON_IsNumber(node)                      ? "a number"
                                                       : "null";
}
