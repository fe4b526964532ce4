/* request_record.h - what one request did, as plain data: for its line in the log, its
 * Server-Timing header and the metrics.
 *
 * Every exchange has one (exchange_record()). Whoever serves the request fills in what it learns,
 * on the thread that may answer at that time; once the exchange has been answered it is read only.
 * Nothing of a payload is ever in it. */
#ifndef ATTND_REQUEST_RECORD_H
#define ATTND_REQUEST_RECORD_H

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum { REQUEST_MODEL_MAX = 128, REQUEST_TIMING_MAX = 192 };

struct request_record {
    /* Of an inference as far as it was read and planned. A batch may be of several models, then
     * these are the first one's; each shape is the largest among its items. */
    char model[REQUEST_MODEL_MAX + 1]; /* "": none */
    int64_t version, layer;
    int64_t item_count; /* 0: it came to none, and nothing above and below counts */
    int64_t q_len, kv_len, q_heads, kv_heads, head_dim, v_head_dim; /* 0: does not apply */

    int64_t cost_ns; /* predicted time of one worker; 0: it was not planned */
    double flops;    /* of what is computed, multiplications and additions */

    bool was_job; /* it came to a worker, or waited for one: then the durations count */
    int64_t parse_ns, queue_ns, compute_ns, write_ns;
    int64_t total_ns; /* from the first byte of the request until its answer was complete */

    int route;             /* metrics_route() */
    enum fault_code fault; /* that it is answered with */
};

/* When a job came to each of its steps, on the monotonic clock; 0: it did not. The first is that of
 * its request's first byte. */
struct request_clock {
    int64_t started_ns, submitted_ns, begun_ns, parsed_ns, computed_ns;
};

/* The durations of a job whose answer was complete at written_ns. Steps that did not come to
 * be took no time. */
void request_record_durations(struct request_record *record, const struct request_clock *clock,
                              int64_t written_ns);

/* The value of Server-Timing (https://www.w3.org/TR/server-timing/), in milliseconds: the four
 * durations, where there are any, and the total. */
void request_record_timing(const struct request_record *record, int64_t total_ns,
                           char timing[REQUEST_TIMING_MAX]);

#endif
