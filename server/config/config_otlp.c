/* config_otlp.c - see config_otlp.h.
 *
 * The variables are those of
 * https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/. They have no flags: an operator of a
 * cluster sets them for all programs alike. */
#include "config/config_otlp.h"

#include "config/config_otlp_endpoint.h"
#include "config/config_otlp_resource.h"
#include "config/config_value.h"
#include "watch/log.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --------------------------------------------------------------- variables -- */

/* Milliseconds of OTEL_BSP_SCHEDULE_DELAY; a queue of 2048 records takes some megabytes. */
enum { DELAY_MS = 1000, DELAY_MS_MIN = 10, DELAY_MS_MAX = 600000 };
enum { QUEUE = 2048, QUEUE_MIN = 2, QUEUE_MAX = 65536 };
enum { TIMEOUT_MS = 10000, TIMEOUT_MS_MIN = 10, TIMEOUT_MS_MAX = 600000 };

/* An empty variable counts as none. */
static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text && text[0] ? text : NULL;
}

static void warn(const char *name, const char *text, const char *expected)
{
    log_line(LOG_WARNING, "variable not used", LOG_STRING("name", name), LOG_STRING("value", text),
             LOG_STRING("expected", expected));
}

static int64_t read_integer(const char *name, int64_t normal, int64_t least, int64_t most)
{
    int64_t value;
    const char *text = variable(name);
    if (!text)
        return normal;
    if (config_value_integer(text, &value) && value >= least && value <= most)
        return value;
    warn(name, text, "an integer within the bounds of API_OPERATING.md");
    return normal;
}

/* ----------------------------------------------------------------- sampler -- */

static const uint64_t BOUND_OF_ALL = UINT64_C(1) << TRACE_RATIO_BITS;

static uint64_t read_ratio(void)
{
    static const char NAME[] = "OTEL_TRACES_SAMPLER_ARG";
    double ratio = 1;
    const char *text = variable(NAME);
    if (text && (!config_value_decimal(text, &ratio) || ratio > 1)) {
        warn(NAME, text, "a decimal number from 0 to 1");
        ratio = 1;
    }
    return (uint64_t)(ratio * (double)BOUND_OF_ALL);
}

static struct trace_sampler read_sampler(void)
{
    static const char NAME[] = "OTEL_TRACES_SAMPLER";
    static const char NAMES[] = "parentbased_always_on|parentbased_always_off|"
                                "parentbased_traceidratio|always_on|always_off|traceidratio";
    const char *text = variable(NAME);
    int place = text ? config_value_choice(text, NAMES) : 0;
    if (place < 0) {
        warn(NAME, text, NAMES);
        place = 0;
    }
    const uint64_t bounds[] = { BOUND_OF_ALL, 0, place % 3 == 2 ? read_ratio() : 0 };
    return (struct trace_sampler){ .by_parent = place < 3, .bound = bounds[place % 3] };
}

/* ---------------------------------------------------------------- endpoint -- */

static bool is_off(void)
{
    const char *disabled = variable("OTEL_SDK_DISABLED");
    const char *exporter = variable("OTEL_TRACES_EXPORTER");
    return (disabled && strcasecmp(disabled, "true") == 0)
           || (exporter && strcmp(exporter, "otlp") != 0);
}

/* Whoever names gRPC has named the port of gRPC. JSON goes to the port of http/protobuf. */
static bool check_protocol(struct fault *fault)
{
    const char *name = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
    if (!variable(name))
        name = "OTEL_EXPORTER_OTLP_PROTOCOL";
    const char *text = variable(name);
    return !text || strcmp(text, "grpc") != 0
           || fault_set(fault, FAULT_OPTION,
                        "%s: 'grpc' came; attnd speaks OTLP over HTTP: expected http/json and the "
                        "port for it, 4318, or --otlp-endpoint with the address, or "
                        "OTEL_TRACES_EXPORTER=none",
                        name);
}

static bool read_endpoint(const struct config *config, struct span_options *options,
                          struct fault *fault)
{
    static const char TRACES[] = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    static const char ALL[] = "OTEL_EXPORTER_OTLP_ENDPOINT";
    if (config->otlp_endpoint)
        return config_otlp_endpoint_read(options, "--otlp-endpoint", config->otlp_endpoint, true,
                                         fault);
    const char *traces = variable(TRACES), *all = variable(ALL);
    if (is_off() || (!traces && !all))
        return true;
    if (!check_protocol(fault))
        return false;
    return traces ? config_otlp_endpoint_read(options, TRACES, traces, false, fault)
                  : config_otlp_endpoint_read(options, ALL, all, true, fault);
}

/* ---------------------------------------------------------------- resource -- */

/* One that cannot be used does not take the other with it. */
static void write_resource(struct span_options *options, const char *replica_name)
{
    static const char SERVICE[] = "OTEL_SERVICE_NAME", ATTRIBUTES[] = "OTEL_RESOURCE_ATTRIBUTES";
    const char *service = variable(SERVICE), *attributes = variable(ATTRIBUTES);
    char *out = options->resource;
    const size_t size = sizeof options->resource;
    if (service && !config_otlp_resource_write(out, size, service, NULL, replica_name)) {
        warn(SERVICE, service, "a name of at most 4 KiB");
        service = NULL;
    }
    if (!config_otlp_resource_write(out, size, service, attributes, replica_name)) {
        warn(ATTRIBUTES, attributes ? attributes : "",
             "name=value,name=value, percent-encoded, at most 32 of them and 4 KiB");
        config_otlp_resource_write(out, size, service, NULL, replica_name);
    }
}

/* --------------------------------------------------------------------- all -- */

bool config_otlp_settle(struct config *config, struct fault *fault)
{
    static const char TIMEOUT[] = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT";
    struct span_options *options = &config->spans;
    *options = (struct span_options){ .is_on = false };
    if (!read_endpoint(config, options, fault))
        return false;
    if (!options->is_on)
        return true;
    const int64_t ms = 1000000;
    options->sampler = read_sampler();
    options->queue_max = (int)read_integer("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE, QUEUE_MIN, QUEUE_MAX);
    options->delay_ns =
        ms * read_integer("OTEL_BSP_SCHEDULE_DELAY", DELAY_MS, DELAY_MS_MIN, DELAY_MS_MAX);
    options->timeout_ns = ms
                          * read_integer(variable(TIMEOUT) ? TIMEOUT : "OTEL_EXPORTER_OTLP_TIMEOUT",
                                         TIMEOUT_MS, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX);
    write_resource(options, config->replica_name);
    return true;
}
