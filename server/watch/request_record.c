/* request_record.c - see request_record.h. */
#include "watch/request_record.h"

#include "text/text.h"

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

/* Appends "name;dur=1.234". Not by printf(), which is slower where libquadmath is loaded, as
 * OpenBLAS does: these five numbers would take a tenth of a small request's time. */
static void append_duration(struct text *text, const char *name, int64_t duration_ns)
{
    text_raw(text, name);
    text_raw(text, ";dur=");
    text_decimal(text, (duration_ns + 500) / 1000, 3);
}

void request_record_timing(const struct request_record *record, int64_t total_ns,
                           char timing[REQUEST_TIMING_MAX])
{
    struct text text = text_in(timing, REQUEST_TIMING_MAX);
    if (record->was_job) {
        append_duration(&text, "parse", record->parse_ns);
        append_duration(&text, ", queue", record->queue_ns);
        append_duration(&text, ", compute", record->compute_ns);
        append_duration(&text, ", write", record->write_ns);
    }
    append_duration(&text, record->was_job ? ", total" : "total", total_ns);
    timing[text.used] = '\0';
}
