/* SPDX-License-Identifier: Apache-2.0 */
/* openapi.h - GET /openapi.json. */
#ifndef ATTND_OPENAPI_H
#define ATTND_OPENAPI_H

#include "http/http.h"

void openapi_get(struct exchange *exchange);

#endif
