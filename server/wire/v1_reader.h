/* v1_reader.h - reads the values of a field of the native API: single values and arrays of numbers,
 * with faults that name the field, what came and what was expected. */
#ifndef ATTND_V1_READER_H
#define ATTND_V1_READER_H

#include "base/bytes.h"
#include "infer/infer.h"
#include "text/json_element.h"

#define V1_INTEGER_MAX 9007199254740992.0 /* 2^53: a double holds every integer up to it */

struct v1_reader;

struct v1_field {
    const char *name;
    bool (*read)(struct v1_reader *reader, const cJSON *node);
};

/* What an endpoint takes beside the fields of every inference, or reads in its own way: they go
 * where reader->asked points. */
struct v1_more {
    const struct v1_field *fields;
    int field_count;    /* at most V1_MORE_MAX */
    const char *tensor; /* of a safetensors body, too; its struct array is at the offset of asked */
    size_t tensor_offset;
    size_t asked_bytes;
};

enum { V1_MORE_MAX = 16 };

struct v1_reader {
    const struct json_document *document;
    struct arena *arena;           /* of the request: owns the lists of integers */
    bool nonfinite_allowed;        /* NaN and infinities may come */
    struct infer_request *request; /* of an inference; else NULL */
    struct infer_item *item;
    const struct v1_more *more; /* NULL: nothing */
    void *asked;                /* of the item, by more */
    const char *name;           /* of the field that is being read */
    char pointer[FAULT_POINTER_MAX];
    bool takes_deep; /* accepts arrays of more than JSON_RANK_MAX levels, too */
    struct fault *fault;
};

/* The field as json_element.h takes it, for faults at one of its elements. */
struct json_place v1_place(const struct v1_reader *reader);

/* Sets a fault that says what kind of value came and what was expected. Returns false. */
bool v1_wrong_type(struct v1_reader *reader, const cJSON *node, const char *expected);

/* Sets the fault of an unknown field, which names the nearest of the known ones. Returns false. */
bool v1_unknown_field(struct v1_reader *reader, const char *name, const char *const *known,
                      int known_count);

/* The fault for the field model in a call on a session, whose model it has. Returns false. */
bool v1_model_of_session(const struct v1_reader *reader);

/* The same, but lists the known ones where none is near. */
bool v1_unknown_field_of(struct v1_reader *reader, const char *name, const char *const *known,
                         int known_count);

/* Reads every member of an object by these fields into reader->asked. A member that is null counts
 * as absent; no object, NULL, has none. */
bool v1_read_fields(struct v1_reader *reader, const cJSON *object, const struct v1_field *fields,
                    int count);

/* Reads a string, which may have U+0000 where the body was read with nul_is_kept. */
bool v1_read_string(struct v1_reader *reader, const cJSON *node, struct byte_slice *bytes);

/* Finds the array of a batch, whose name is mostly "requests", with at most items_max elements,
 * all of them objects. */
bool v1_find_requests(struct v1_reader *reader, const cJSON *root, const char *name, int items_max,
                      const cJSON **requests, int *count);

bool v1_read_bool(struct v1_reader *reader, const cJSON *node, bool *value);

/* Reads a number in the range of a 32-bit float, as a double. Only an answer in double shows digits
 * beyond those of a float. */
bool v1_read_number(struct v1_reader *reader, const cJSON *node, double *value);
bool v1_read_float(struct v1_reader *reader, const cJSON *node, float *value);

/* Reads an array of numbers whose rows have equal lengths. null, if allowed, is -INFINITY. */
bool v1_read_array(struct v1_reader *reader, const cJSON *node, bool null_allowed,
                   struct array *array);

/* Reads an integer from least to V1_INTEGER_MAX; any other number is a fault of this code. */
bool v1_read_integer(struct v1_reader *reader, const cJSON *node, int64_t least,
                     enum fault_code code, int64_t *value);

/* Finds the numbers of an array whose rows have equal lengths; or returns NULL, with a fault that
 * names the first string, object or row that does not fit. The caller checks whether booleans and
 * null may be among them. */
const struct json_numbers *v1_read_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected);

/* The same, but numbers beyond the range of a 32-bit float are infinite and not a fault. */
const struct json_numbers *v1_find_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected);

/* True where nonfinite_index is -1 or the reader allows such numbers; else a fault that says that
 * the number is beyond the range of type. */
bool v1_expect_finite(struct v1_reader *reader, const struct json_numbers *numbers,
                      int64_t nonfinite_index, const char *type);

/* True where there is no boolean and, unless null_allowed, no null; else a fault. */
bool v1_expect_numbers(struct v1_reader *reader, const struct json_numbers *numbers,
                       bool null_allowed);

/* Makes array a view of the numbers, as F32. */
void v1_take_array(struct array *array, const struct json_numbers *numbers);

/* Copies the numbers into the arena as integers of 0 or more; any other number is a fault of this
 * code. */
bool v1_integers_of(struct v1_reader *reader, const struct json_numbers *numbers,
                    enum fault_code code, int64_t **values);

/* The same, but negative integers may be allowed. */
bool v1_integers_from(struct v1_reader *reader, const struct json_numbers *numbers,
                      bool negative_allowed, enum fault_code code, int64_t **values);

/* Makes name the field that faults speak of from now on: sets reader->name, and reader->pointer to
 * "/name" with its / and ~ escaped (RFC 6901). */
void v1_point_to(struct v1_reader *reader, const char *name);

/* The field of that name; NULL: there is none. */
const struct v1_field *v1_find_field(const struct v1_field *fields, int count, const char *name);

#endif
