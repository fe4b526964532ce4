/* span_record.c - see span_record.h. */
#include "spans/span_record.h"

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

void span_record_stages(struct span_record *record, const struct request_record *request)
{
    const int64_t in_job_ns =
        request->queue_ns + request->parse_ns + request->compute_ns + request->write_ns;
    const int64_t stages_ns[SPAN_STAGE_COUNT] = {
        [SPAN_RECEIVE] = request->total_ns - in_job_ns,
        [SPAN_QUEUE] = request->queue_ns,
        [SPAN_PARSE] = request->parse_ns,
        [SPAN_COMPUTE] = request->compute_ns,
        [SPAN_WRITE] = request->write_ns,
        /* cppcheck-suppress ctuuninitvar ; the caller has set both */
        [SPAN_SEND] = record->ended_ns - record->began_ns - request->total_ns,
    };
    int64_t left_ns = record->ended_ns - record->began_ns;
    for (int i = 0; i < SPAN_STAGE_COUNT; i++) {
        const bool took_time = request->was_job && stages_ns[i] > 0;
        record->stage_ns[i] = took_time ? least(stages_ns[i], left_ns) : 0;
        left_ns -= record->stage_ns[i];
    }
}

int span_record_count(const struct span_record *record)
{
    int count = 1;
    for (int i = 0; i < SPAN_STAGE_COUNT; i++)
        count += record->stage_ns[i] > 0;
    return count;
}
