/* SPDX-License-Identifier: Apache-2.0 */
/* schema_check.h - checks JSON against a JSON Schema (2020-12), for the keywords that our OpenAPI
 * document uses.
 *
 * A keyword that the checker does not know fails the test: nothing passes unchecked. */
#ifndef SCHEMA_CHECK_H
#define SCHEMA_CHECK_H

#include <cjson/cJSON.h>

#include <stdbool.h>

/* The node itself, or the node in document that its "$ref": "#/a/b" names. NULL stays NULL. */
const cJSON *schema_follow(const cJSON *document, const cJSON *node);

bool schema_fits(const cJSON *document, const cJSON *schema, const cJSON *value);

/* Fails the test if value does not fit, and says why. */
void schema_expect(const cJSON *document, const cJSON *schema, const cJSON *value,
                   const char *what);

#endif
