/* health.h - GET /livez and /readyz. */
#ifndef ATTND_HEALTH_H
#define ATTND_HEALTH_H

#include "http/http.h"

void health_live(struct exchange *exchange);
void health_ready(struct exchange *exchange);

#endif
