/* access_metrics.h - what the keys use, for GET /metrics. */
#ifndef ATTND_ACCESS_METRICS_H
#define ATTND_ACCESS_METRICS_H

#include "access/access_keys.h"

/* Writes it by the names of keys; nothing where keys is NULL. */
void access_metrics_write(struct access_keys *keys, struct text *text);

#endif
