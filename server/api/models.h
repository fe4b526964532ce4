/* SPDX-License-Identifier: Apache-2.0 */
/* models.h - GET, PUT and DELETE /v1/models. */
#ifndef ATTND_MODELS_H
#define ATTND_MODELS_H

#include "http/http.h"

void models_list(struct exchange *exchange);
void models_get(struct exchange *exchange);
void models_put(struct exchange *exchange);
void models_delete(struct exchange *exchange);

#endif
