/* SPDX-License-Identifier: Apache-2.0 */
/* openapi_agreement.h - the OpenAPI document and the daemon take and refuse the same bodies. */
#ifndef OPENAPI_AGREEMENT_H
#define OPENAPI_AGREEMENT_H

#include "openapi_document.h"

/* Sends the body with values of other types in the place of each member, and of the first element
 * of each array, one at a time. Where the document refuses such a body, so must the daemon; where
 * it takes one, the daemon must find no wrong type in it. The body is as it was in the end. */
void openapi_change_parts(struct http_client *client, const struct openapi_call *call, cJSON *body);

/* Each of the properties of a schema, at least so many, must be a field that the daemon knows at
 * this path: it gets a value that suits no field, and the daemon must not say that the field is
 * unknown. What `own`, the schema of this request, has as null alone is none of its fields. */
void openapi_expect_fields(struct http_client *client, const char *schema, const char *own,
                           const char *path, int least);

#endif
