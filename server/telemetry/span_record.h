/* SPDX-License-Identifier: Apache-2.0 */
/* span_record.h - one answered request as plain data for its spans, and as OTLP's JSON. */
#ifndef ATTND_SPAN_RECORD_H
#define ATTND_SPAN_RECORD_H

#include "telemetry/metrics_inference.h"
#include "telemetry/trace_context.h"
#include "json/text.h"

/* One answered request, as plain data for its spans.
 *
 * A record has a fixed size and owns nothing, so that a queue of records has a fixed size too. It
 * never holds anything of a payload. Times are on the monotonic clock. */

/* The stages of an inference, in their order. Each one that took time is a span. */
#define SPAN_STAGE_MAP(X)                                                                          \
    X(RECEIVE, "receive") /* from the first byte of the request to its place in the queue */       \
    X(QUEUE, "queue")                                                                              \
    X(PARSE, "parse")                                                                              \
    X(COMPUTE, "compute")                                                                          \
    X(WRITE, "write") /* of the answer, in memory */                                               \
    X(SEND, "send")   /* until the kernel has all of it */

enum span_stage {
#define X(name, text) SPAN_##name,
    SPAN_STAGE_MAP(X)
#undef X
        SPAN_STAGE_COUNT
};

enum { SPAN_METHOD_MAX = 16, SPAN_PATH_MAX = 256, SPAN_REQUEST_ID_MAX = 128 };

struct span_record {
    struct trace_context context;
    int64_t began_ns, ended_ns;
    int64_t stage_ns[SPAN_STAGE_COUNT]; /* their sum is at most the whole; 0: there was none */

    const char *route;     /* its pattern, which stays until the daemon ends; NULL: none */
    enum fault_code fault; /* FAULT_LEFT: the client had no whole answer */
    int status;            /* of the answer */
    bool is_tls, is_http_1_0;
    int64_t bytes_in, bytes_out;                       /* of the bodies */
    int64_t version, layer, item_count, q_len, kv_len; /* as in struct request_record */

    char method[SPAN_METHOD_MAX];
    char request_id[SPAN_REQUEST_ID_MAX + 1];
    char model[REQUEST_MODEL_MAX + 1]; /* "": none */
    char path[SPAN_PATH_MAX];
    char state[TRACE_STATE_MAX + 1]; /* tracestate; last, because most have none */
};

/* Sets the stages of a job from its durations, began_ns and ended_ns. */
void span_record_stages(struct span_record *record, const struct request_record *request);

/* How many spans a record is. */
int span_record_count(const struct span_record *record);

/* Spans as OTLP writes them in JSON.
 *
 * An ExportTraceServiceRequest of opentelemetry-proto, by the JSON mapping of
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hexadecimal, 64-bit
 * integers are strings, enumerations are numbers. The attributes have the names of the semantic
 * conventions for HTTP; those of attnd's own begin with "attnd.". */

/* What precedes the first span and follows the last; resource is a JSON array of attributes.
 * The caller writes a comma between two records. */
void span_json_begin(struct text *text, const char *resource);
void span_json_end(struct text *text);

/* Writes the spans of one record: the request's, and one for each stage. unix_ns is what a time on
 * the monotonic clock lacks to be one of the Unix epoch. */
enum { SPAN_JSON_BYTES_MAX = 8192 }; /* of one record */
void span_json_write(struct text *text, const struct span_record *record, int64_t unix_ns);

/* Writes {"key":name,"value":...} of a string. */
void span_json_string(struct text *text, const char *name, const char *value);
#endif
