/* v1_fields.h - the fields of a request of the native API, read one by one. */
#ifndef ATTND_V1_FIELDS_H
#define ATTND_V1_FIELDS_H

#include "wire/v1_reader.h"

bool v1_read_model(struct v1_reader *reader, const cJSON *node);
bool v1_read_layer(struct v1_reader *reader, const cJSON *node);
bool v1_read_outputs(struct v1_reader *reader, const cJSON *node);

/* Reads the field called field, which must be one of the table, into reader->item. Faults name
 * reader->name at reader->pointer, which another protocol may have set. */
bool v1_read_option(struct v1_reader *reader, const char *field, const cJSON *node);

/* Reads every field of an object into reader->item, and those of reader->more. list: the object is
 * a batch, and its array of that name is skipped; else NULL. A field that is null counts as absent.
 */
bool v1_read_object(struct v1_reader *reader, const cJSON *object, const char *list);

#endif
