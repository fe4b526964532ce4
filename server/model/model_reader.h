/* model_reader.h - reading a model's config field by field, with the way back to each in messages.
 *
 * An object is a table of names and of the functions that read their values. Everything that can
 * fail sets the reader's fault and returns false. */
#ifndef ATTND_MODEL_READER_H
#define ATTND_MODEL_READER_H

#include "model/model_config.h"

enum { MODEL_READER_FIELDS_MAX = 16 }; /* of one object */

/* Where a field is read to. */
struct model_reader {
    struct model_config *config;
    const struct json_document *document; /* that has what is read, for its lists of numbers */
    const char *name;                     /* of the field being read */
    char pointer[FAULT_POINTER_MAX];      /* to it */
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

/* The pointer's text goes on with "/name", / and ~ escaped as RFC 6901 says. */
void model_reader_point_to(struct model_reader *reader, const char *name);

/* The fault of a field that what does not have; nearest may be NULL. Returns false. */
bool model_reader_unknown(struct model_reader *reader, const char *what, const char *nearest);

/* Reads every field that object has; what is its name in messages. */
bool model_reader_object(struct model_reader *reader, const cJSON *object, const char *what,
                         const struct model_reader_field *fields, int field_count);

#endif
