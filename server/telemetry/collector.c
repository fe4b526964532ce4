/* collector.c - reads answers strictly and within bounds; resolves, connects and posts by a
 * deadline. */
#include "telemetry/collector.h"

#include "base/clock.h"
#include "base/version.h"
#include "json/json.h"
#include "json/text.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---------------------------------------------------------------- answers -- */

/* All that is not understood ends the connection: the next batch then gets a new one, and nothing
 * of this answer is taken for the next. */

enum { STATUS_LINE_MIN = 12, LENGTH_DIGITS_MAX = 9 };

/* The head of an answer while it is read. */
struct head {
    bool has_length, is_coded, is_bad;
    size_t length;
};

bool collector_answer_is_again(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

bool collector_answer_is_taken(int status)
{
    return status >= 200 && status < 300;
}

/* ------------------------------------------------------------------- head -- */

/* Reads "HTTP/1.1 200" of a line. No change of the protocol (101) was asked for. */
static bool read_status(struct collector_answer *answer, const char *line, size_t size)
{
    if (size < STATUS_LINE_MIN || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' '
        || (line[7] != '0' && line[7] != '1') || (size > STATUS_LINE_MIN && line[12] != ' '))
        return false;
    for (int i = 9; i < STATUS_LINE_MIN; i++)
        if (line[i] < '0' || line[i] > '9')
            return false;
    answer->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    answer->closes = line[7] == '0';
    return answer->status >= 100 && answer->status != 101 && answer->status <= 599;
}

/* Digits alone; false where there are others or too many. */
static bool read_digits(size_t *number, const char *text, size_t size)
{
    *number = 0;
    if (size == 0 || size > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = *number * 10 + (size_t)(text[i] - '0');
    }
    return true;
}

static bool is_name(const char *line, size_t size, const char *name)
{
    return size == strlen(name) && strncasecmp(line, name, size) == 0;
}

/* Two lengths, or one that is no number, make it unknown where the body ends. */
static void take_length(struct head *head, const char *value, size_t size)
{
    size_t length;
    const bool is_number = read_digits(&length, value, size);
    head->is_bad |= !is_number || (head->has_length && length != head->length);
    head->has_length = true;
    head->length = length;
}

/* Retry-After may also be a date, which is not read: the wait is then the exporter's own. */
static void take_retry_after(struct collector_answer *answer, const char *value, size_t size)
{
    size_t seconds = COLLECTOR_RETRY_AFTER_MAX_S, digits = 0;
    while (digits < size && value[digits] >= '0' && value[digits] <= '9')
        digits++;
    if (digits < size || (size <= LENGTH_DIGITS_MAX && !read_digits(&seconds, value, size)))
        return;
    answer->retry_after_s =
        seconds < COLLECTOR_RETRY_AFTER_MAX_S ? (int)seconds : COLLECTOR_RETRY_AFTER_MAX_S;
}

static void take_header(struct collector_answer *answer, struct head *head, const char *line,
                        size_t size)
{
    const char *colon = memchr(line, ':', size);
    if (!colon || colon == line) {
        head->is_bad = true;
        return;
    }
    const size_t name_size = (size_t)(colon - line);
    const char *value = colon + 1, *end = line + size;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    const size_t value_size = (size_t)(end - value);
    if (is_name(line, name_size, "Content-Length"))
        take_length(head, value, value_size);
    else if (is_name(line, name_size, "Retry-After"))
        take_retry_after(answer, value, value_size);
    else if (is_name(line, name_size, "Transfer-Encoding"))
        head->is_coded = true;
    else if (is_name(line, name_size, "Connection") && !is_name(value, value_size, "keep-alive"))
        answer->closes = true;
}

/* The head with the empty line at its end. */
static bool read_head(struct collector_answer *answer, struct head *head, const char *bytes,
                      size_t size)
{
    const char *line = bytes, *end = bytes + size;
    const char *line_end = memmem(line, size, "\r\n", 2);
    if (!read_status(answer, line, (size_t)(line_end - line)))
        return false;
    for (line = line_end + 2;; line = line_end + 2) {
        line_end = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (line_end == line)
            return true;
        take_header(answer, head, line, (size_t)(line_end - line));
    }
}

/* Heads with a status of 100 to 199 go before the answer, whether they were asked for or not
 * (RFC 9110, 15.2). */
static enum collector_reading read_heads(struct collector_answer *answer, struct head *head,
                                         const char *bytes, size_t size)
{
    size_t begins_at = 0;
    do {
        const char *head_end = memmem(bytes + begins_at, size - begins_at, "\r\n\r\n", 4);
        if (!head_end)
            return size < COLLECTOR_ANSWER_BYTES_MAX ? COLLECTOR_MORE : COLLECTOR_BAD;
        const size_t ends_at = (size_t)(head_end - bytes) + 4;
        *answer = (struct collector_answer){ .body_at = ends_at };
        *head = (struct head){ .has_length = false };
        if (!read_head(answer, head, bytes + begins_at, ends_at - begins_at))
            return COLLECTOR_BAD;
        begins_at = ends_at;
    } while (answer->status < 200);
    return COLLECTOR_DONE;
}

/* ----------------------------------------------------------------- answer -- */

enum collector_reading collector_answer_read(struct collector_answer *answer, const char *bytes,
                                             size_t size)
{
    struct collector_answer read;
    struct head head;
    const enum collector_reading reading = read_heads(&read, &head, bytes, size);
    if (reading != COLLECTOR_DONE)
        return reading;
    if (read.status == 204 || read.status == 304)
        head = (struct head){ .has_length = true, .is_bad = head.is_bad };
    if (head.is_bad || head.is_coded || !head.has_length
        || head.length > COLLECTOR_ANSWER_BYTES_MAX - read.body_at) {
        read.closes = true;
    } else {
        if (size - read.body_at < head.length)
            return COLLECTOR_MORE;
        read.body_size = head.length;
        read.closes |= size - read.body_at > head.length;
    }
    *answer = read;
    return COLLECTOR_DONE;
}

/* By the JSON mapping a 64-bit integer is a string; readers take a number too. */
static uint64_t count_of(const cJSON *node)
{
    uint64_t count = 0;
    size_t digits;
    if (cJSON_IsNumber(node) && json_whole(node, &count))
        return count;
    return cJSON_IsString(node)
                   && read_digits(&digits, node->valuestring, strlen(node->valuestring))
               ? digits
               : 0;
}

uint64_t collector_answer_rejected(const char *body, size_t size,
                                   char message[COLLECTOR_MESSAGE_MAX])
{
    static const struct json_options OPTIONS = { .values_max = 256 };
    struct json_document document;
    struct fault fault;
    message[0] = '\0';
    if (size == 0 || !json_read(&document, body, size, &OPTIONS, &fault))
        return 0;
    const cJSON *partial = cJSON_GetObjectItemCaseSensitive(document.root, "partialSuccess");
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(partial, "errorMessage");
    const uint64_t count = count_of(cJSON_GetObjectItemCaseSensitive(partial, "rejectedSpans"));
    if (cJSON_IsString(said))
        text_copy(message, COLLECTOR_MESSAGE_MAX, said->valuestring);
    json_free(&document);
    return count;
}

/* ------------------------------------------------------------- connection -- */

enum { NS_PER_MS = 1000000, ADDRESSES_MAX = 8 };

static bool fail(char reason[COLLECTOR_REASON_MAX], const char *what, const char *why)
{
    snprintf(reason, COLLECTOR_REASON_MAX, "%.20s: %.90s", what, why);
    return false;
}

/* ------------------------------------------------------------------- time -- */

/* The sooner of a deadline and the end of all calls. */
static int64_t soonest(const struct collector *collector, int64_t deadline_ns)
{
    const int64_t ends_ns = atomic_load(collector->ends_ns);
    return ends_ns != 0 && ends_ns < deadline_ns ? ends_ns : deadline_ns;
}

/* Waits for events on a descriptor, or -1. Once the end has been set, collector->wake stays
 * readable and is watched no more. False: the deadline has passed. */
static bool wait_for(struct collector *collector, int descriptor, short events, int64_t deadline_ns)
{
    for (;;) {
        const int64_t left_ns = soonest(collector, deadline_ns) - clock_now_ns();
        const bool ends = atomic_load(collector->ends_ns) != 0;
        const int64_t left_ms = left_ns / NS_PER_MS + 1;
        struct pollfd watched[] = { { .fd = descriptor, .events = events },
                                    { .fd = ends ? -1 : collector->wake, .events = POLLIN } };
        if (left_ns <= 0)
            return false;
        if (poll(watched, 2, left_ms < INT_MAX ? (int)left_ms : INT_MAX) > 0
            && watched[0].revents != 0)
            return true;
    }
}

void collector_wait(struct collector *collector, int64_t until_ns)
{
    while (atomic_load(collector->ends_ns) == 0 && clock_now_ns() < until_ns) {
        const int64_t left_ms = (until_ns - clock_now_ns()) / NS_PER_MS + 1;
        struct pollfd watched = { .fd = collector->wake, .events = POLLIN };
        poll(&watched, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
    }
}

/* ------------------------------------------------------------- connection -- */

void collector_close(struct collector *collector)
{
    if (collector->socket >= 0)
        close(collector->socket);
    collector->socket = -1;
}

/* Returns 0 or an errno. */
static int connect_to(struct collector *collector, const struct addrinfo *address,
                      int64_t deadline_ns)
{
    int error = 0;
    socklen_t size = sizeof error;
    collector->socket =
        socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (collector->socket < 0)
        return errno;
    if (connect(collector->socket, address->ai_addr, address->ai_addrlen) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        const bool came = wait_for(collector, collector->socket, POLLOUT, deadline_ns);
        error = !came ? ETIMEDOUT : 0;
        if (came && getsockopt(collector->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error)
        collector_close(collector);
    else
        setsockopt(collector->socket, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return error;
}

/* Tries the addresses of the host in turn; each may take an equal part of the time. */
static bool open_connection(struct collector *collector, int64_t deadline_ns,
                            char reason[COLLECTOR_REASON_MAX])
{
    const struct span_options *options = collector->options;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICSERV
                                                | (options->host_is_name ? 0 : AI_NUMERICHOST) };
    struct addrinfo *found = NULL;
    char port[8];
    int count = 0, error = EHOSTUNREACH;
    if (clock_now_ns() >= soonest(collector, deadline_ns))
        return fail(reason, "connect", strerror(ETIMEDOUT));
    snprintf(port, sizeof port, "%d", options->port);
    const int result = getaddrinfo(options->host, port, &hints, &found);
    if (result != 0)
        return fail(reason, "resolve", gai_strerror(result));
    for (const struct addrinfo *at = found; at && count < ADDRESSES_MAX; at = at->ai_next)
        count++;
    for (const struct addrinfo *at = found; at && count > 0 && error; at = at->ai_next, count--) {
        const int64_t now_ns = clock_now_ns();
        error = connect_to(collector, at, now_ns + (deadline_ns - now_ns) / count);
    }
    freeaddrinfo(found);
    return error == 0 || fail(reason, "connect", strerror(error));
}

/* A kept connection on which something has come, be it the end, is not used again. */
static bool is_usable(const struct collector *collector)
{
    char byte;
    return collector->socket >= 0 && recv(collector->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0
           && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* ---------------------------------------------------------------- request -- */

static bool send_whole(struct collector *collector, const char *bytes, size_t size, int flags,
                       int64_t deadline_ns, char reason[COLLECTOR_REASON_MAX])
{
    while (size > 0) {
        const ssize_t sent = send(collector->socket, bytes, size, MSG_NOSIGNAL | flags);
        if (sent >= 0) {
            bytes += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN) {
            if (!wait_for(collector, collector->socket, POLLOUT, deadline_ns))
                return fail(reason, "send", strerror(ETIMEDOUT));
        } else if (errno != EINTR) {
            return fail(reason, "send", strerror(errno));
        }
    }
    return true;
}

static bool send_request(struct collector *collector, const char *body, size_t size,
                         int64_t deadline_ns, char reason[COLLECTOR_REASON_MAX])
{
    const struct span_options *options = collector->options;
    const bool is_v6 = strchr(options->host, ':') != NULL;
    char head[SPAN_TARGET_MAX + SPAN_HOST_MAX + 256];
    const int length = snprintf(
        head, sizeof head,
        "POST %s HTTP/1.1\r\nHost: %s%s%s:%d\r\nUser-Agent: attnd/" ATTND_VERSION
        "\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
        options->target, is_v6 ? "[" : "", options->host, is_v6 ? "]" : "", options->port, size);
    return send_whole(collector, head, (size_t)length, MSG_MORE, deadline_ns, reason)
           && send_whole(collector, body, size, 0, deadline_ns, reason);
}

/* ----------------------------------------------------------------- answer -- */

static bool receive(struct collector *collector, int64_t deadline_ns,
                    struct collector_answer *answer, char reason[COLLECTOR_REASON_MAX])
{
    collector->used = 0;
    for (;;) {
        if (!wait_for(collector, collector->socket, POLLIN, deadline_ns))
            return fail(reason, "answer", strerror(ETIMEDOUT));
        const ssize_t came = recv(collector->socket, collector->bytes + collector->used,
                                  COLLECTOR_ANSWER_BYTES_MAX - collector->used, MSG_DONTWAIT);
        if (came == 0)
            return fail(reason, "answer", "the collector closed the connection");
        if (came < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (came < 0)
            return fail(reason, "answer", strerror(errno));
        collector->used += (size_t)came;
        switch (collector_answer_read(answer, collector->bytes, collector->used)) {
        case COLLECTOR_DONE:
            return true;
        case COLLECTOR_BAD:
            return fail(reason, "answer", "it is no HTTP/1.1");
        case COLLECTOR_MORE:
            break;
        }
    }
}

/* A collector may answer before it has read all, and close: its answer counts even where sending
 * has failed. */
static bool exchange(struct collector *collector, const char *body, size_t size,
                     int64_t deadline_ns, struct collector_answer *answer,
                     char reason[COLLECTOR_REASON_MAX])
{
    char ignored[COLLECTOR_REASON_MAX];
    if (send_request(collector, body, size, deadline_ns, reason))
        return receive(collector, deadline_ns, answer, reason);
    const bool answered = receive(collector, deadline_ns, answer, ignored);
    if (answered)
        answer->closes = true;
    return answered;
}

/* Collectors close connections that are idle, and one may do so while a request is on its way: so a
 * request over a kept connection that gets no byte of an answer is sent again over a new one. */
bool collector_post(struct collector *collector, const char *body, size_t size,
                    struct collector_answer *answer, char reason[COLLECTOR_REASON_MAX])
{
    const int64_t deadline_ns = clock_now_ns() + collector->options->timeout_ns;
    bool done = false;
    collector->used = 0;
    if (is_usable(collector)) {
        done = exchange(collector, body, size, deadline_ns, answer, reason);
        if (!done && (collector->used > 0 || clock_now_ns() >= soonest(collector, deadline_ns))) {
            collector_close(collector);
            return false;
        }
    }
    if (!done) {
        collector_close(collector);
        done = open_connection(collector, deadline_ns, reason)
               && exchange(collector, body, size, deadline_ns, answer, reason);
    }
    if (!done || answer->closes)
        collector_close(collector);
    return done;
}
