/* v1_reader.h - what reading a field of the native API needs: single values and arrays of numbers
 * with faults that name the field, what came and what was expected. */
#ifndef ATTND_V1_READER_H
#define ATTND_V1_READER_H

#include "infer/infer.h"
#include "text/json_element.h"

#define V1_INTEGER_MAX 9007199254740992.0 /* every integer up to it is a double */

struct v1_reader {
    const struct json_document *document;
    struct arena *arena;           /* of the request: owns the lists of integers */
    bool nonfinite_allowed;        /* NaN and infinities may come */
    struct infer_request *request; /* of an inference, which fields are read into; else NULL */
    struct infer_item *item;
    const char *name; /* of the field that is being read */
    char pointer[FAULT_POINTER_MAX];
    bool takes_deep; /* arrays of more than JSON_RANK_MAX levels, too */
    struct fault *fault;
};

/* The field, for faults at one of its elements. */
struct json_place v1_place(const struct v1_reader *reader);

/* Sets a fault that says what the field is and what was expected. Returns false. */
bool v1_wrong_type(struct v1_reader *reader, const cJSON *node, const char *expected);

/* The same for a field that there is not; says which of the known ones is nearest. */
bool v1_unknown_field(struct v1_reader *reader, const char *name, const char *const *known,
                      int known_count);

bool v1_read_bool(struct v1_reader *reader, const cJSON *node, bool *value);

/* A number in the range of a 32-bit float, as a double, which only an answer in double sees. */
bool v1_read_number(struct v1_reader *reader, const cJSON *node, double *value);
bool v1_read_float(struct v1_reader *reader, const cJSON *node, float *value);

/* An array of numbers of one shape; null, where it may come, is -INFINITY. */
bool v1_read_array(struct v1_reader *reader, const cJSON *node, bool null_allowed,
                   struct infer_array *array);

/* An integer of least or more; another number gets a fault of this code. */
bool v1_read_integer(struct v1_reader *reader, const cJSON *node, int64_t least,
                     enum fault_code code, int64_t *value);

/* An array of numbers of one shape, or NULL and a fault that names the first string, object or row
 * that is unlike the others; whether booleans and null may be there is the caller's to check. */
const struct json_numbers *v1_read_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected);

/* The same, also of numbers that a 32-bit float does not reach, which are infinite there. */
const struct json_numbers *v1_find_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected);

/* True where nonfinite_index is -1, or such numbers may come; type is what does not reach it. */
bool v1_expect_finite(struct v1_reader *reader, const struct json_numbers *numbers,
                      int64_t nonfinite_index, const char *type);

/* True where there is no boolean and, unless that is allowed, no null. */
bool v1_expect_numbers(struct v1_reader *reader, const struct json_numbers *numbers,
                       bool null_allowed);

/* The numbers where they lie, as F32. */
void v1_take_array(struct infer_array *array, const struct json_numbers *numbers);

/* The numbers as integers of 0 or more, in the arena; others get a fault of this code. */
bool v1_integers_of(struct v1_reader *reader, const struct json_numbers *numbers,
                    enum fault_code code, int64_t **values);

/* Makes name the field that the following faults speak of: sets reader->name, and reader->pointer
 * to
 * "/name" with its / and ~ escaped as RFC 6901 says. */
void v1_point_to(struct v1_reader *reader, const char *name);

#endif
