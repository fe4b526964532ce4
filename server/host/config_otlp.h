/* SPDX-License-Identifier: Apache-2.0 */
/* config_otlp.h - where the spans of requests are sent, and which: --otlp-endpoint and the
 * variables of OpenTelemetry. */
#ifndef ATTND_CONFIG_OTLP_H
#define ATTND_CONFIG_OTLP_H

#include "base/fault.h"
#include "host/config.h"
#include "telemetry/trace_context.h"

#include <stdbool.h>
#include <stddef.h>

/* --------------------------------------------------------------- endpoint -- */

/* Reads "http://collector:4318" or "http://[::1]:4318/prefix" into host, port and target, and turns
 * the spans on. With is_base the target is the path with /v1/traces behind it, unless it ends so;
 * else it is the path as it stands. label is the flag or variable, for the fault. */
bool config_otlp_endpoint_read(struct span_options *options, const char *label, const char *url,
                               bool is_base, struct fault *fault);

/* --------------------------------------------------------------- resource -- */

/* Writes the JSON array of the resource's attributes, with its NUL: those of attributes, the text
 * of OTEL_RESOURCE_ATTRIBUTES, and service.name (service_name, else theirs, else "attnd"),
 * service.version, and service.instance.id (theirs, else instance). service_name and attributes may
 * be NULL. False where attributes has not the form "name=value,name=value", or too much. */
bool config_otlp_resource_write(char *out, size_t out_size, const char *service_name,
                                const char *attributes, const char *instance);

/* -------------------------------------------------------------- variables -- */

/* Sets config->spans; config->replica_name must be settled. The flag turns spans on, or else
 * OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT. False where the endpoint
 * cannot be used: what its owner wants sent would be lost. Any other variable that cannot be used
 * is logged as a warning and has its default, as the specification of OpenTelemetry wants it. */
bool config_otlp_settle(struct config *config, struct fault *fault);

#endif
