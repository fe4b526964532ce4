/* model_reader.h - reads a model's config field by field, and points at the field in messages.
 *
 * A table describes an object: the names of its fields and the function that reads each. A function
 * that fails sets the reader's fault and returns false. */
#ifndef ATTND_MODEL_READER_H
#define ATTND_MODEL_READER_H

#include "model/model_config.h"

enum { MODEL_READER_FIELDS_MAX = 16 }; /* of one object */

/* Where fields are read from and to. */
struct model_reader {
    struct model_config *config;
    const struct json_document *document; /* of the fields, for their lists of numbers */
    const char *name;                     /* of the field being read */
    char pointer[FAULT_POINTER_MAX];      /* to that field */
    struct fault *fault;
};

struct model_reader_field {
    const char *name;
    bool (*read)(struct model_reader *reader, const cJSON *node);
};

bool model_reader_wrong_type(struct model_reader *reader, const cJSON *node, const char *expected);

bool model_reader_integer(struct model_reader *reader, const cJSON *node, int64_t least,
                          int64_t most, int64_t *value);
bool model_reader_number(struct model_reader *reader, const cJSON *node, double *value);
bool model_reader_float(struct model_reader *reader, const cJSON *node, float *value);
bool model_reader_bool(struct model_reader *reader, const cJSON *node, bool *value);

/* Appends "/name" to the pointer, with / and ~ escaped (RFC 6901), and sets the reader's name. */
void model_reader_point_to(struct model_reader *reader, const char *name);

/* Sets the fault of a field that the object called what does not have, and returns false. nearest
 * may be NULL. */
bool model_reader_unknown(struct model_reader *reader, const char *what, const char *nearest);

/* Reads every field that object has. what is the object's name in messages. */
bool model_reader_object(struct model_reader *reader, const cJSON *object, const char *what,
                         const struct model_reader_field *fields, int field_count);

#endif
