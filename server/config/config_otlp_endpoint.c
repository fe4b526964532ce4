/* config_otlp_endpoint.c - see config_otlp_endpoint.h. */
#include "config/config_otlp_endpoint.h"

#include "config/config_value.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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
