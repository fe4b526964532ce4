/* health.h - GET /livez, /readyz and /metrics. */
#ifndef ATTND_HEALTH_H
#define ATTND_HEALTH_H

#include "http.h"

void health_live(struct exchange *exchange);
void health_ready(struct exchange *exchange);
void health_metrics(struct exchange *exchange);

#endif
