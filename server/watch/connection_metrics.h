/* connection_metrics.h - requests that ended before their client had the whole answer, and idle
 * connections that the daemon closed, counted by reason. Thread-safe; takes no lock. */
#ifndef ATTND_CONNECTION_METRICS_H
#define ATTND_CONNECTION_METRICS_H

#include "text/text.h"

/* Why a request ended before its client had the whole answer. */
enum request_end {
    REQUEST_LEFT_READING, /* the client left before its whole body had arrived */
    REQUEST_LEFT_WAITING, /* the client left while the request was queued or computed */
    REQUEST_LEFT_SENDING, /* the client left while its answer was being sent */
    REQUEST_SLOW_READER,  /* the client took its answer too slowly for too long */
    REQUEST_STOPPED,      /* the daemon stopped first */
    REQUEST_END_COUNT
};

enum connection_end {
    CONNECTION_IDLE,        /* no request came for too long */
    CONNECTION_FOR_ANOTHER, /* too many were open, and this one had been idle the longest */
    CONNECTION_END_COUNT
};

void connection_metrics_cancelled(enum request_end why);
void connection_metrics_closed(enum connection_end why);

/* Writes all of them, for GET /metrics. */
void connection_metrics_write(struct text *text);

#endif
