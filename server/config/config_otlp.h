/* config_otlp.h - where the spans of requests are sent, and which: --otlp-endpoint and the
 * variables of OpenTelemetry. */
#ifndef ATTND_CONFIG_OTLP_H
#define ATTND_CONFIG_OTLP_H

#include "base/fault.h"
#include "config/config.h"

/* Sets config->spans; config->replica_name must be settled. The flag turns spans on, or else
 * OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT. False where the endpoint
 * cannot be used: what its owner wants sent would be lost. Any other variable that cannot be used
 * is logged as a warning and has its default, as the specification of OpenTelemetry wants it. */
bool config_otlp_settle(struct config *config, struct fault *fault);

#endif
