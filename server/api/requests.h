/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h - GET /v1/requests/{request}: how far a call in flight has come. */
#ifndef ATTND_REQUESTS_H
#define ATTND_REQUESTS_H

struct exchange;

void requests_get(struct exchange *exchange);

#endif
