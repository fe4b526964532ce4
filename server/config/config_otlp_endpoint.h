/* config_otlp_endpoint.h - the address of an OpenTelemetry collector, as it is typed. */
#ifndef ATTND_CONFIG_OTLP_ENDPOINT_H
#define ATTND_CONFIG_OTLP_ENDPOINT_H

#include "base/fault.h"
#include "spans/span_options.h"

/* Reads "http://collector:4318" or "http://[::1]:4318/prefix" into host, port and target, and turns
 * the spans on. With is_base the target is the path with /v1/traces behind it, unless it ends so;
 * else it is the path as it stands. label is the flag or variable, for the fault. */
bool config_otlp_endpoint_read(struct span_options *options, const char *label, const char *url,
                               bool is_base, struct fault *fault);

#endif
