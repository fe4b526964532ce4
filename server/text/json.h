/* json.h - a JSON body: a strict pass, tensors straight from the text, and a
 * cJSON tree of the small rest.
 *
 * A cJSON node is 64 bytes, so a body with a million numbers would build a list
 * of 64 MB. json_read() therefore walks the text once: it checks the grammar of
 * RFC 8259 to the letter (cJSON's is wider), reads every array whose leaves are
 * numbers, booleans or null into one block of floats, and hands cJSON only the
 * envelope that is left, in which each such array is the placeholder [index].
 *
 * What is checked here: grammar, UTF-8, nesting, exactly one value, no key twice
 * in one object (RFC 6901 pointer of the second one), the number of envelope
 * values. What is only noted, for the field that takes the array to judge: ragged
 * rows, numbers that are not finite, mixed kinds. */
#ifndef ATTND_JSON_H
#define ATTND_JSON_H

#include "base/fault.h"

#include <cjson/cJSON.h>

enum {
    JSON_DEPTH_MAX = 64,                /* nested arrays and objects */
    JSON_RANK_MAX = 8,                  /* of an array of numbers; a larger one is_deep */
    JSON_ENVELOPE_VALUES_MAX = 1000000, /* values that become cJSON nodes, of a file */
    JSON_REQUEST_VALUES_MAX = 262144    /* the same of a request: 30 MB of them */
};

/* An array of numbers as it stood in the text. Elements are row-major in values:
 * numbers rounded correctly to float32; true and false as 1 and 0; null as
 * -INFINITY. [] has rank 1 and shape {0}; [[],[]] rank 2 and shape {2, 0}. */
struct json_numbers {
    float *values;
    int64_t count;
    int rank;
    int64_t shape[JSON_RANK_MAX];
    size_t offset; /* of its '[' in the text */

    bool has_number, has_bool, has_null;
    int64_t first_number, first_bool, first_null; /* the place of the first such element */
    bool
        is_deep; /* it has more than JSON_RANK_MAX levels, of which rank and shape tell the first */
    int64_t nonfinite_index; /* first number beyond float32's range, or NaN or Infinity where these
                                are allowed; -1: none */

    /* Rows of unequal length or unequal depth: the first ragged_depth indices, at the most
     * JSON_RANK_MAX, of the first row at fault, and a clause that says what is wrong with it: "has
     * 1 columns; row 0 has 2". ragged_depth 0: not ragged. */
    int ragged_depth;
    int64_t ragged_index[JSON_RANK_MAX];
    char ragged_message[96];
};

struct json_document {
    cJSON *root;
    struct json_numbers *arrays;
    int64_t array_count;
    float *values; /* all arrays' elements, one block */
};

struct memory_share;
struct json_options {
    bool nonfinite_allowed;      /* take NaN, Infinity and -Infinity in arrays of numbers */
    int values_max;              /* 0: JSON_ENVELOPE_VALUES_MAX */
    struct memory_share *memory; /* of the request; NULL: none */
};

/* Reads size bytes of text. On false the fault is json (with the byte offset of
 * the first error), duplicate, too_large or memory, and the document is empty.
 * text need not end with a NUL byte; it is not kept. A number of the tree that is
 * beyond the range of double is infinite there. */
bool json_read(struct json_document *document, const char *text, size_t size,
               const struct json_options *options, struct fault *fault);

void json_free(struct json_document *document);

/* The array that a node of the tree stands for; NULL where the node is no array
 * of numbers. The empty array is one. */
const struct json_numbers *json_numbers_of(const struct json_document *document, const cJSON *node);

/* "a string", "an array of numbers", "null": what a node is, to say so in a fault. Without its
 * document every array is "an array". */
const char *json_kind(const struct json_document *document, const cJSON *node);

/* False, with a fault that points from node to it, where a number there is beyond the range of a
 * 64-bit float, or in an array of numbers beyond that of a 32-bit float. Without the document
 * arrays of numbers are passed over. */
bool json_check_finite(const struct json_document *document, const cJSON *node,
                       struct fault *fault);

/* The elements of an array once more, from the text that json_read() was given, as doubles rounded
 * correctly. Returns the index of the first number that is not finite, -1 where all are. */
int64_t json_read_doubles(const char *text, const struct json_numbers *numbers, double *values);

#endif
