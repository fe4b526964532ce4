/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - a JSON body: checked strictly, with its tensors read straight from the text and a cJSON
 * tree of the small rest.
 *
 * A cJSON node takes 64 bytes, so a body with a million numbers would become a list of 64 MB.
 * Therefore json_read() walks the text once. It checks the grammar of RFC 8259 to the letter (cJSON
 * accepts more), reads every array whose leaves are numbers, booleans or null into one block of
 * floats, and gives cJSON only the rest of the text, the envelope, in which each such array is
 * replaced by [index].
 *
 * json_read() checks the grammar, UTF-8, the nesting, that the text is exactly one value, that no
 * object has a key twice (the fault has the RFC 6901 pointer of the second one), and the number of
 * values in the envelope. It only notes ragged rows, numbers that are not finite and mixed kinds:
 * the field that takes the array decides whether that is a fault. */
#ifndef ATTND_JSON_H
#define ATTND_JSON_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/fault.h"

#include <cjson/cJSON.h>

/* clang's analyzer, which reads one file at a time, learns here that NULL is of no type. */
#ifdef __clang_analyzer__
#define cJSON_IsArray(NODE)  ((NODE) != NULL && (cJSON_IsArray)(NODE))
#define cJSON_IsNumber(NODE) ((NODE) != NULL && (cJSON_IsNumber)(NODE))
#define cJSON_IsObject(NODE) ((NODE) != NULL && (cJSON_IsObject)(NODE))
#define cJSON_IsString(NODE) ((NODE) != NULL && (cJSON_IsString)(NODE))
#endif

enum {
    JSON_DEPTH_MAX = 64,                /* nested arrays and objects */
    JSON_RANK_MAX = 8,                  /* of an array of numbers; one of more levels is_deep */
    JSON_ENVELOPE_VALUES_MAX = 1000000, /* values of a file that become cJSON nodes */
    JSON_REQUEST_VALUES_MAX = 262144    /* the same for a request: 30 MB of nodes */
};

/* An array of numbers in the text. values holds its elements in row-major order: numbers rounded
 * correctly to float32, true and false as 1 and 0, null as -INFINITY. [] has rank 1 and shape {0};
 * [[],[]] has rank 2 and shape {2, 0}. */
struct json_numbers {
    float *values;
    int64_t count;
    int rank;
    int64_t shape[JSON_RANK_MAX];
    size_t offset;    /* of its '[' in the text */
    const char *text; /* its '[', while the text that json_read() was given is there */

    bool has_number, has_bool, has_null;
    int64_t first_number, first_bool, first_null; /* index of the first such element */
    bool is_deep;            /* has more than JSON_RANK_MAX levels; rank and shape tell the first */
    int64_t nonfinite_index; /* of the first number beyond float32's range, or NaN or Infinity where
                                these are allowed; -1: none */

    /* For rows of unequal length or depth: the indices that lead to the first row at fault, at most
     * JSON_RANK_MAX of them, and what is wrong with that row: "has 1 columns; row 0 has 2".
     * ragged_depth counts the indices; 0: not ragged. */
    int ragged_depth;
    int64_t ragged_index[JSON_RANK_MAX];
    char ragged_message[96];
};

struct json_document {
    cJSON *root;
    struct json_numbers *arrays;
    int64_t array_count;
    float *values; /* the elements of all arrays, in one block */
};

struct memory_share;
struct json_options {
    bool nonfinite_allowed;      /* take NaN, Infinity and -Infinity in arrays of numbers */
    bool nul_is_kept;            /* U+0000 in strings: see json_string_read(). Else it is a fault */
    int values_max;              /* 0: JSON_ENVELOPE_VALUES_MAX */
    struct memory_share *memory; /* the request's; NULL: none */
};

/* Reads size bytes of text, which needs no NUL byte at its end and is not kept. Where it returns
 * false, the fault is json (with the byte offset of the first error), duplicate, too_large or
 * memory, and the document is empty. A number of the tree that is beyond the range of double is
 * infinite there. */
bool json_read(struct json_document *document, const char *text, size_t size,
               const struct json_options *options, struct fault *fault);

void json_free(struct json_document *document);

/* The array of numbers that a node of the tree stands for; NULL where the node is anything else. An
 * empty array is an array of numbers. */
const struct json_numbers *json_numbers_of(const struct json_document *document, const cJSON *node);

/* A string of cJSON ends at its first NUL byte, so json_read() refuses U+0000 unless its caller
 * sets nul_is_kept. Then it writes each U+0000 as these two bytes, which are no UTF-8 and so stand
 * for nothing else (the Java virtual machine does the same). */
#define JSON_STRING_NUL "\xC0\x80"

/* The bytes of a string that json_read() wrote with nul_is_kept. They are in the string itself, or
 * in the arena where it has U+0000. False: no memory. */
bool json_string_read(const char *string, struct arena *arena, struct byte_slice *bytes);

/* What a node is, for a fault: "a string", "an array of numbers", "null". Where document is NULL,
 * every array is "an array". */
const char *json_kind(const struct json_document *document, const cJSON *node);

/* Whether a number is a whole one from 0 and below 2^53, which a double holds exactly; it is then
 * in *value, which else stays as it is. */
bool json_whole(const cJSON *node, uint64_t *value);

/* Checks that every number in node is within the range of a 64-bit float, and in arrays of
 * numbers of a 32-bit float. Where not, returns false with a fault whose pointer leads from node to
 * the number or the array. Where document is NULL, arrays of numbers are not checked. */
bool json_check_finite(const struct json_document *document, const cJSON *node,
                       struct fault *fault);

/* The children of an array of numbers and of rows of numbers, which may be ragged: of each the
 * count of its numbers, -1 for a number that is a child itself. sizes may be NULL. Returns how many
 * children there are; -1: a row holds rows. The text is there. */
int64_t json_numbers_children(const struct json_numbers *numbers, int64_t *sizes);

/* Reads the elements of an array again, as correctly rounded doubles, from the text that
 * json_read() was given. Returns the index of the first number that is not finite, -1 where all are
 * finite. */
int64_t json_read_doubles(const char *text, const struct json_numbers *numbers, double *values);

#endif
