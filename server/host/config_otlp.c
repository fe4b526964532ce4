/* SPDX-License-Identifier: Apache-2.0 */
/* config_otlp.c - the variables of OpenTelemetry, the address of a collector, what describes this
 * daemon.
 *
 * The variables are those of
 * https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/. They have no flags: an operator of a
 * cluster sets them for all programs alike. */
#include "host/config_otlp.h"

#include "base/version.h"
#include "host/config_value.h"
#include "telemetry/log.h"
#include "telemetry/span_record.h"
#include "json/text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --------------------------------------------------------------- endpoint -- */

enum { PORT_OF_HTTP = 80, PORT_MAX = 65535 };

/* The address as a fault shows it: what may have a password in it is not for the log. */
static const char *shown(const char *url)
{
    return strchr(url, '@') ? "...@..." : url;
}

static bool refuse(struct fault *fault, const char *label, const char *url)
{
    return fault_set(fault, FAULT_OPTION,
                     "%s: '%.80s' came; expected the address of an OpenTelemetry collector for "
                     "OTLP over HTTP, as in http://127.0.0.1:4318",
                     label, shown(url));
}

/* Spaces and control characters would end the line of a request. */
static bool is_visible(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* The host without brackets. */
static bool take_host(struct span_options *options, const char *text, size_t size)
{
    unsigned char address[16];
    const bool is_bracketed = size > 2 && text[0] == '[' && text[size - 1] == ']';
    if (is_bracketed) {
        text++;
        size -= 2;
    }
    if (size == 0 || size > SPAN_HOST_MAX)
        return false;
    memcpy(options->host, text, size);
    options->host[size] = '\0';
    if (is_bracketed) {
        options->host_is_name = false;
        return inet_pton(AF_INET6, options->host, address) == 1;
    }
    options->host_is_name = inet_pton(AF_INET, options->host, address) != 1;
    return strpbrk(options->host, ":@[]") == NULL;
}

/* The port behind a colon; none is that of HTTP. */
static bool take_port(struct span_options *options, const char *text, size_t size)
{
    char digits[8] = "";
    int64_t port;
    options->port = PORT_OF_HTTP;
    if (size == 0)
        return true;
    if (text[0] != ':' || size > sizeof digits)
        return false;
    memcpy(digits, text + 1, size - 1);
    if (!config_value_integer(digits, &port) || port < 1 || port > PORT_MAX)
        return false;
    options->port = (int)port;
    return true;
}

static bool take_target(struct span_options *options, const char *path, bool is_base)
{
    static const char TRACES[] = "v1/traces";
    const size_t size = strlen(path);
    const size_t end_size = sizeof TRACES - 1;
    const bool has_end = size > end_size && path[size - end_size - 1] == '/'
                         && strcmp(path + size - end_size, TRACES) == 0;
    const bool has_slash = size > 0 && path[size - 1] == '/';
    const int length =
        snprintf(options->target, sizeof options->target, "%s%s%s", path,
                 has_slash || (has_end && size > 0) || (!is_base && size > 0) ? "" : "/",
                 is_base && !has_end ? TRACES : "");
    return length < (int)sizeof options->target && !strpbrk(path, is_base ? "?#" : "#");
}

bool config_otlp_endpoint_read(struct span_options *options, const char *label, const char *url,
                               bool is_base, struct fault *fault)
{
    static const char SCHEME[] = "http://";
    if (strncasecmp(url, "https://", 8) == 0)
        return fault_set(fault, FAULT_OPTION,
                         "%s: '%.80s' came; spans are sent over plain http:// alone. Let a "
                         "collector run beside attnd, as in http://127.0.0.1:4318, and send them "
                         "on by TLS",
                         label, shown(url));
    if (strncasecmp(url, SCHEME, sizeof SCHEME - 1) != 0 || !is_visible(url))
        return refuse(fault, label, url);
    const char *host = url + sizeof SCHEME - 1;
    const size_t size = strcspn(host, "/?#");
    const size_t brackets = host[0] == '[' ? strcspn(host, "]") : 0;
    const size_t host_size = brackets + strcspn(host + brackets, ":/?#");
    if (host_size > size || !take_host(options, host, host_size)
        || !take_port(options, host + host_size, size - host_size)
        || (host[size] && host[size] != '/') || !take_target(options, host + size, is_base))
        return refuse(fault, label, url);
    options->is_on = true;
    return true;
}

/* --------------------------------------------------------------- resource -- */

enum { ATTRIBUTES_MAX = 32, ATTRIBUTES_BYTES_MAX = 4096 };

struct attributes {
    struct {
        const char *name, *value;
    } all[ATTRIBUTES_MAX];
    int count;
    char bytes[ATTRIBUTES_BYTES_MAX]; /* where they lie */
};

static const char *find(const struct attributes *attributes, const char *name)
{
    for (int i = 0; i < attributes->count; i++)
        if (strcmp(attributes->all[i].name, name) == 0)
            return attributes->all[i].value;
    return NULL;
}

static int digit(char character)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *at = character ? strchr(digits, character) : NULL;
    return at ? (int)(at - digits) % 16 : -1;
}

/* Undoes %2C and the like in place. False for a broken escape, or one of NUL. */
static bool decode(char *text)
{
    char *out = text;
    for (const char *p = text; *p; p++) {
        if (*p != '%') {
            *out++ = *p;
            continue;
        }
        const int high = digit(p[1]), low = high < 0 ? -1 : digit(p[2]);
        if (low < 0 || high + low == 0)
            return false;
        *out++ = (char)(high << 4 | low);
        p += 2;
    }
    *out = '\0';
    return true;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t size = strlen(text);
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t'))
        size--;
    text[size] = '\0';
    return text;
}

/* Of two with one name the first counts. */
static bool add(struct attributes *attributes, char *member)
{
    char *equals = strchr(member, '=');
    if (!equals)
        return false;
    *equals = '\0';
    char *name = trim(member), *value = trim(equals + 1);
    if (!name[0] || attributes->count == ATTRIBUTES_MAX || !decode(name) || !decode(value))
        return false;
    if (find(attributes, name))
        return true;
    attributes->all[attributes->count].name = name;
    attributes->all[attributes->count++].value = value;
    return true;
}

static bool read(struct attributes *attributes, const char *text)
{
    attributes->count = 0;
    const size_t size = strlen(text) + 1;
    if (size > sizeof attributes->bytes)
        return false;
    char *rest = memcpy(attributes->bytes, text, size);
    for (char *member = strsep(&rest, ","); member; member = strsep(&rest, ","))
        if (trim(member)[0] && !add(attributes, member))
            return false;
    return true;
}

static bool is_own(const char *name)
{
    return strcmp(name, "service.name") == 0 || strcmp(name, "service.version") == 0
           || strcmp(name, "service.instance.id") == 0;
}

bool config_otlp_resource_write(char *out, size_t out_size, const char *service_name,
                                const char *attributes, const char *instance)
{
    struct attributes given;
    struct text text = text_in(out, out_size);
    struct fault fault;
    if (!read(&given, attributes ? attributes : ""))
        return false;
    const char *given_name = find(&given, "service.name");
    const char *given_instance = find(&given, "service.instance.id");
    const char *name = service_name ? service_name : given_name;
    text_bytes(&text, "[", 1);
    span_json_string(&text, "service.name", name ? name : "attnd");
    text_bytes(&text, ",", 1);
    span_json_string(&text, "service.version", ATTND_VERSION);
    text_bytes(&text, ",", 1);
    span_json_string(&text, "service.instance.id", given_instance ? given_instance : instance);
    for (int i = 0; i < given.count; i++) {
        if (is_own(given.all[i].name))
            continue;
        text_bytes(&text, ",", 1);
        span_json_string(&text, given.all[i].name, given.all[i].value);
    }
    text_bytes(&text, "]", 1);
    if (!text_finish(&text, &fault))
        return false;
    out[text.used] = '\0';
    return true;
}

/* -------------------------------------------------------------- variables -- */

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
