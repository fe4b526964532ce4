/* config_otlp_resource.h - what describes this daemon to an OpenTelemetry collector. */
#ifndef ATTND_CONFIG_OTLP_RESOURCE_H
#define ATTND_CONFIG_OTLP_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the JSON array of the resource's attributes, with its NUL: those of attributes, the text
 * of OTEL_RESOURCE_ATTRIBUTES, and service.name (service_name, else theirs, else "attnd"),
 * service.version, and service.instance.id (theirs, else instance). service_name and attributes may
 * be NULL. False where attributes has not the form "name=value,name=value", or too much. */
bool config_otlp_resource_write(char *out, size_t out_size, const char *service_name,
                                const char *attributes, const char *instance);

#endif
