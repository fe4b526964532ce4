/* v1_fields.h - the fields of a request of the native API, read one by one. */
#ifndef ATTND_V1_FIELDS_H
#define ATTND_V1_FIELDS_H

#include "infer.h"
#include "json.h"

struct v1_reader {
    const struct json_document *document;
    struct infer_request *request;
    struct infer_item *item;
    const char *name; /* of the field that is being read */
    char pointer[FAULT_POINTER_MAX];
    struct fault *fault;
};

/* What a JSON value is, in words: "an array of numbers". */
const char *v1_kind_of(const struct v1_reader *reader, const cJSON *node);

/* Sets a fault that says what the field is and what was expected. Returns false. */
bool v1_wrong_type(struct v1_reader *reader, const cJSON *node, const char *expected);

/* The same for a field that there is not; says which of the known ones is nearest. */
bool v1_unknown_field(struct v1_reader *reader, const char *name, const char *const *known,
                      int known_count);

/* An array of numbers of one shape; null, where it may come, is -INFINITY. */
bool v1_read_array(struct v1_reader *reader, const cJSON *node, bool null_allowed,
                   struct infer_array *array);

/* An integer of least or more; another number gets a fault of this code. */
bool v1_read_integer(struct v1_reader *reader, const cJSON *node, int64_t least,
                     enum fault_code code, int64_t *value);

/* An array of numbers of one shape, or NULL and a fault; what its leaves may be is the caller's to
 * check. */
const struct json_numbers *v1_read_numbers(struct v1_reader *reader, const cJSON *node,
                                           const char *expected);

/* The numbers as integers of 0 or more, in the request's arena; others get a fault of this code. */
bool v1_integers_of(struct v1_reader *reader, const struct json_numbers *numbers,
                    enum fault_code code, int64_t **values);
bool v1_read_model(struct v1_reader *reader, const cJSON *node);
bool v1_read_layer(struct v1_reader *reader, const cJSON *node);

/* Reads the field called field, which there is, into reader->item; the faults speak of
 * reader->name at reader->pointer. */
bool v1_read_option(struct v1_reader *reader, const char *field, const cJSON *node);

/* Turns to the field called name: sets reader->name and the pointer to it. */
void v1_turn_to(struct v1_reader *reader, const char *name);

/* Reads every field of an object into reader->item; "requests" is passed over where
 * the object is a batch. null is as good as absent. */
bool v1_read_object(struct v1_reader *reader, const cJSON *object, bool has_requests);

#endif
