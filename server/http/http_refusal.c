/* http_refusal.c - requests that are refused before their body has been read.
 *
 * libmicrohttpd can only close a connection of which a body has not been read, and the client's
 * next request needs a new one. To make that and to end it costs more than to read a short body
 * that is in the kernel's buffer already, and to drop it: such a one is read, beside all others,
 * and its client is told on a connection that lives. What is longer, or has for the greater part
 * still to come, is not waited for. */
#include "http/http_internal.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

enum {
    DROPPED_BYTES_MAX = 128 * 1024, /* reading more takes as long as a connection does */
    BUFFER_BYTES = 8 * 1024,        /* libmicrohttpd's, which may have read as much by now */
};

bool http_is_refused(const struct exchange *exchange)
{
    switch (exchange->fault.code) {
    case FAULT_FORBIDDEN:
    case FAULT_MEMORY:
    case FAULT_OVERLOADED:
    case FAULT_DEADLINE:
        return true;
    default:
        return false;
    }
}

/* Whether three quarters of the body lie in the kernel's buffer and in libmicrohttpd's. Of a new
 * connection the kernel takes 63 KB before anything is read, and the rest waits for that alone. */
static bool has_come(const struct exchange *exchange)
{
    int waiting_bytes = 0;
    if (exchange_header(exchange, HTTP_HEADER_EXPECT)
        || ioctl(http_connection_of(exchange->connection)->socket, SIOCINQ, &waiting_bytes) != 0)
        return false;
    return exchange->body_announced / 4 * 3 <= (size_t)waiting_bytes + BUFFER_BYTES;
}

bool http_is_before_body(const struct exchange *exchange)
{
    if (http_is_refused(exchange))
        return exchange->is_chunked || exchange->body_announced > DROPPED_BYTES_MAX
               || !has_come(exchange);
    switch (exchange->fault.code) {
    case FAULT_TOO_LARGE:
        return true;
    case FAULT_DRAINING:
        return exchange->body_announced > 0;
    default:
        return !exchange->is_framed;
    }
}
