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
    record->total_ns = written_ns - clock->started_ns;
}

/* Appends "name;dur=1.234": integers, because printf() takes five times as long for doubles. */
static int append_duration(char timing[REQUEST_TIMING_MAX], int used, const char *name,
                           int64_t duration_ns)
{
    const long long us = (duration_ns + 500) / 1000;
    const int length = snprintf(timing + used, REQUEST_TIMING_MAX - (size_t)used,
                                "%s;dur=%lld.%03lld", name, us / 1000, us % 1000);
    return used + length < REQUEST_TIMING_MAX ? used + length : REQUEST_TIMING_MAX - 1;
}

void request_record_timing(const struct request_record *record, int64_t total_ns,
                           char timing[REQUEST_TIMING_MAX])
{
    int used = 0;
    if (record->was_job) {
        used = append_duration(timing, used, "parse", record->parse_ns);
        used = append_duration(timing, used, ", queue", record->queue_ns);
        used = append_duration(timing, used, ", compute", record->compute_ns);
        used = append_duration(timing, used, ", write", record->write_ns);
    }
    append_duration(timing, used, record->was_job ? ", total" : "total", total_ns);
}
