/* span_json.h - spans as OTLP writes them in JSON.
 *
 * An ExportTraceServiceRequest of opentelemetry-proto, by the JSON mapping of
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hexadecimal, 64-bit
 * integers are strings, enumerations are numbers. The attributes have the names of the semantic
 * conventions for HTTP; those of attnd's own begin with "attnd.". */
#ifndef ATTND_SPAN_JSON_H
#define ATTND_SPAN_JSON_H

#include "spans/span_record.h"
#include "text/text.h"

/* What stands before the first span and behind the last; resource is a JSON array of attributes.
 * The caller writes a comma between two records. */
void span_json_begin(struct text *text, const char *resource);
void span_json_end(struct text *text);

/* Writes the spans of one record: the request's, and one for each stage. unix_ns is what a time on
 * the monotonic clock lacks to be one of the Unix epoch. */
enum { SPAN_JSON_BYTES_MAX = 8192 }; /* of one record */
void span_json_write(struct text *text, const struct span_record *record, int64_t unix_ns);

/* Writes {"key":name,"value":...} of a string or an integer. */
void span_json_string(struct text *text, const char *name, const char *value);
void span_json_integer(struct text *text, const char *name, int64_t value);

#endif
