/* connection_metrics.h - clients that left or were given up, and connections that were closed on
 * them, counted by reason. Thread-safe; takes no lock. */
#ifndef ATTND_CONNECTION_METRICS_H
#define ATTND_CONNECTION_METRICS_H

#include "text/text.h"

/* Why a request ended without its answer having been taken whole. */
enum request_end {
    REQUEST_LEFT_READING, /* the client left before its body was there */
    REQUEST_LEFT_WAITING, /* while it was queued or computed */
    REQUEST_LEFT_SENDING, /* while its answer was being sent */
    REQUEST_SLOW_READER,  /* it took too little of its answer for too long */
    REQUEST_STOPPED,      /* the daemon ended */
    REQUEST_END_COUNT
};

enum connection_end {
    CONNECTION_IDLE,        /* no request came for too long */
    CONNECTION_FOR_ANOTHER, /* the longest idle, where there were too many */
    CONNECTION_END_COUNT
};

void connection_metrics_cancelled(enum request_end why);
void connection_metrics_closed(enum connection_end why);

/* Their part of the page of /metrics. */
void connection_metrics_write(struct text *text);

#endif
