/* json_element.h - arrays of numbers as the fields that take them look at them: a fault names the
 * first element that does not belong there, and what it is. */
#ifndef ATTND_JSON_ELEMENT_H
#define ATTND_JSON_ELEMENT_H

#include "text/json.h"

/* Where an array is. */
struct json_place {
    const struct json_document *document;
    const char *pointer, *name; /* for faults: "/query", "query" */
    struct fault *fault;
};

/* The way to one element; none is known to those of arrays that are deep or ragged. */
struct json_element {
    int depth;
    int64_t index[JSON_DEPTH_MAX];
    const char *kind; /* "a string", "null", "true" */
};

/* The element that so many others come before. Of the first of its kind it says what it is, of
 * others that it is a number. */
struct json_element json_element_at(const struct json_numbers *numbers, int64_t index);

/* Sets a fault at the element. The message begins with its name, "query[0][1]", and goes on with
 * what format makes. Returns false. */
bool json_element_fault(const struct json_place *place, const struct json_element *element,
                        enum fault_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The array of numbers, booleans and null that node is, of rows that are all alike; NULL and a
 * fault where it is none. Where its shape does not matter it be deep. expected: "an array of
 * numbers".
 */
const struct json_numbers *json_element_array(const struct json_place *place, const cJSON *node,
                                              const char *expected, bool may_be_deep);

/* True where there is no boolean and, unless that is allowed, no null. */
bool json_element_expect_numbers(const struct json_place *place, const struct json_numbers *numbers,
                                 bool null_allowed);

/* True where nonfinite_index is -1; type is what that number does not fit in. */
bool json_element_expect_finite(const struct json_place *place, const struct json_numbers *numbers,
                                int64_t nonfinite_index, const char *type);

#endif
