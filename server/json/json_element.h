/* SPDX-License-Identifier: Apache-2.0 */
/* json_element.h - checks of the tree: keys that stand twice, and arrays of numbers for the fields
 * that take them. A fault of an array names the first element that does not belong there, and says
 * what that element is. */
#ifndef ATTND_JSON_ELEMENT_H
#define ATTND_JSON_ELEMENT_H

#include "json/json.h"

/* Checks that no object of a tree, at most JSON_DEPTH_MAX deep, has a key twice. Where it returns
 * false, the fault is duplicate, with a pointer to the key, or memory. Keys are compared after
 * decoding: "a" and "\u0061" are the same. */
bool json_check_duplicates(const cJSON *root, struct fault *fault);

/* The field that an array belongs to. */
struct json_place {
    const char *pointer, *name; /* of the field, for faults: "/query", "query" */
    struct fault *fault;
};

/* The indices that lead to one element; none are known (depth 0) in arrays that are deep or ragged.
 */
struct json_element {
    int depth;
    int64_t index[JSON_DEPTH_MAX];
    const char *kind; /* "null", "true" */
};

/* The element at a row-major index. Its kind is exact for the first boolean and the first null of
 * an array; any other element is called a number. */
struct json_element json_element_at(const struct json_numbers *numbers, int64_t index);

/* Sets a fault at the element. The message begins with the element's name, "query[0][1]", followed
 * by the formatted text. Returns false. */
bool json_element_fault(const struct json_place *place, const struct json_element *element,
                        enum fault_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* True where all rows have equal shape, on at most JSON_RANK_MAX levels; else sets a fault. */
bool json_element_expect_rows(const struct json_place *place, const struct json_numbers *numbers);

/* True where the array has no boolean and, unless null_allowed, no null; else sets a fault. */
bool json_element_expect_numbers(const struct json_place *place, const struct json_numbers *numbers,
                                 bool null_allowed);

/* True where nonfinite_index is -1; else sets a fault that says that the number there does not fit
 * type, "a 32-bit float". */
bool json_element_expect_finite(const struct json_place *place, const struct json_numbers *numbers,
                                int64_t nonfinite_index, const char *type);

#endif
