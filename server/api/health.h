/* SPDX-License-Identifier: Apache-2.0 */
/* health.h - whether the daemon is alive and whether it is ready: GET /livez and /readyz, and the
 * same under /v2/health. */
#ifndef ATTND_HEALTH_H
#define ATTND_HEALTH_H

#include "http/http.h"

void health_live(struct exchange *exchange);
void health_ready(struct exchange *exchange);

#endif
