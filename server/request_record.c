/* request_record.c - see request_record.h. */
#include "request_record.h"

#include <stdio.h>

void request_record_durations(struct request_record *record, const struct request_clock *clock,
                              int64_t written_ns)
{
    const int64_t begun_ns = clock->begun_ns ? clock->begun_ns : clock->computed_ns;
    const int64_t parsed_ns = clock->parsed_ns ? clock->parsed_ns : clock->computed_ns;
    record->was_job = true;
    record->queue_ns = begun_ns - clock->submitted_ns;
    record->parse_ns = parsed_ns - begun_ns;
    record->compute_ns = clock->computed_ns - parsed_ns;
    record->write_ns = written_ns - clock->computed_ns;
}

void request_record_timing(const struct request_record *record, int64_t total_ns,
                           char timing[REQUEST_TIMING_MAX])
{
    int used = 0;
    if (record->was_job)
        used = snprintf(timing, REQUEST_TIMING_MAX,
                        "parse;dur=%.3f, queue;dur=%.3f, compute;dur=%.3f, write;dur=%.3f, ",
                        (double)record->parse_ns / 1e6, (double)record->queue_ns / 1e6,
                        (double)record->compute_ns / 1e6, (double)record->write_ns / 1e6);
    snprintf(timing + used, REQUEST_TIMING_MAX - (size_t)used, "total;dur=%.3f",
             (double)total_ns / 1e6);
}
