/* schema_check.h - whether JSON fits a JSON Schema (2020-12), as far as our OpenAPI document goes.
 *
 * A keyword that the checker does not know fails the test: nothing is taken to fit unseen. */
#ifndef SCHEMA_CHECK_H
#define SCHEMA_CHECK_H

#include <cjson/cJSON.h>

#include <stdbool.h>

/* The node itself, or what its "$ref": "#/a/b" leads to in document. NULL stays NULL. */
const cJSON *schema_follow(const cJSON *document, const cJSON *node);

bool schema_fits(const cJSON *document, const cJSON *schema, const cJSON *value);

/* Fails the test where value does not fit; what is said then. */
void schema_expect(const cJSON *document, const cJSON *schema, const cJSON *value,
                   const char *what);

#endif
