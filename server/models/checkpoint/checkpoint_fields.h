/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_fields.h - reads fields of a published config.json, written as checkpoint_family.h
 * says. */
#ifndef ATTND_CHECKPOINT_FIELDS_H
#define ATTND_CHECKPOINT_FIELDS_H

#include "linear.h"
#include "json/json.h"

#include <string.h>

/* The name that field has in section, for %.*s in a message; the first where it has none. */
#define CHECKPOINT_FIELD_NAME(section, field)                                                      \
    (int)strcspn(checkpoint_field_name(section, field), "|="), checkpoint_field_name(section, field)
const char *checkpoint_field_name(const cJSON *section, const char *field); /* points into field */

/* Each reads field, which is "name|other_name=default". On false the fault names the field: type
 * for a value of another kind, option for one out of range. */
bool checkpoint_read_integer(const cJSON *section, const char *field, int64_t *value,
                             struct fault *fault); /* from 0 to INT32_MAX */
/* One integer for both, or a list of two. */
bool checkpoint_read_pair(const struct json_document *document, const cJSON *section,
                          const char *field, int64_t pair[2], struct fault *fault);
bool checkpoint_read_number(const cJSON *section, const char *field, double *value,
                            struct fault *fault); /* 0 or more, finite */
bool checkpoint_read_flag(const cJSON *section, const char *field, bool *value,
                          struct fault *fault);

/* What numbers are multiplied by: one above 0, 1 for a field of NULL; a list of count such, absent
 * or null: ones. */
bool checkpoint_read_factor(const cJSON *section, const char *field, double *factor,
                            struct fault *fault);
bool checkpoint_read_factors(const struct json_document *document, const cJSON *section,
                             const char *field, float *factors, int64_t count, struct fault *fault);

/* The same for a string of the section; null is the default. It lives as long as both. */
bool checkpoint_read_string(const cJSON *section, const char *field, const char **value,
                            struct fault *fault);

/* Says in a fault of the functions above that the field is one of this file. Faults that say
 * nothing of config.json stay. */
void checkpoint_fields_name_file(struct fault *fault, const char *file);

/* Reads an activation from field, "hidden_act=gelu". The fault names the field and the value. */
bool checkpoint_read_activation(const cJSON *section, const char *field,
                                enum attn_activation *activation, struct fault *fault);

/* The first object that "a|b.c" names in section; NULL: there is none. */
const cJSON *checkpoint_find_object(const cJSON *section, const char *names);

/* The first of "a|b|c" that section has and that is not null, 0 or false; NULL: there is none. */
const cJSON *checkpoint_find_set(const cJSON *section, const char *names);

#endif
