/* SPDX-License-Identifier: Apache-2.0 */
/* stub_collector.c - see stub_collector.h. */
#include "stub_collector.h"
#include "test.h"

#include "daemon.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, WAIT_S = 20 };

struct stub_private {
    const char *const *answers;
    int listener;
    int ends[2]; /* a pipe, whose end ends the thread */
    pthread_t thread;
    pthread_mutex_t mutex;
    struct stub_post posts[STUB_POSTS_MAX];
    int post_count; /* under mutex */
    char buffer[BUFFER_BYTES];
};

/* ------------------------------------------------------------------- thread -- */

/* Waits until there is something to do on the descriptor. False: the thread has to end. */
static bool wait_for(const struct stub_private *stub, int descriptor, short events)
{
    struct pollfd watched[] = { { .fd = descriptor, .events = events },
                                { .fd = stub->ends[0], .events = POLLIN } };
    while (poll(watched, 2, -1) < 1)
        ;
    return watched[1].revents == 0;
}

static const char *answer_now(struct stub_private *stub)
{
    pthread_mutex_lock(&stub->mutex);
    int number = stub->post_count;
    pthread_mutex_unlock(&stub->mutex);
    for (int i = 0; i < number; i++)
        if (!stub->answers[i + 1])
            number = i;
    return stub->answers[number];
}

static void keep(struct stub_private *stub, size_t head_size, size_t body_size)
{
    pthread_mutex_lock(&stub->mutex);
    if (stub->post_count < STUB_POSTS_MAX)
        stub->posts[stub->post_count++] = (struct stub_post){
            .head = strndup(stub->buffer, head_size),
            .body = strndup(stub->buffer + head_size, body_size),
            .came = daemon_now(),
        };
    pthread_mutex_unlock(&stub->mutex);
}

/* Reads one post whole. False: the connection has ended. */
static bool read_post(struct stub_private *stub, int connection)
{
    size_t used = 0, whole = SIZE_MAX;
    while (used < whole) {
        if (!wait_for(stub, connection, POLLIN) || used == BUFFER_BYTES - 1)
            return false;
        const ssize_t came =
            recv(connection, stub->buffer + used, BUFFER_BYTES - 1 - used, MSG_DONTWAIT);
        if (came <= 0)
            return false;
        used += (size_t)came;
        stub->buffer[used] = '\0';
        const char *end = strstr(stub->buffer, "\r\n\r\n");
        const char *length = strcasestr(stub->buffer, "Content-Length: ");
        if (end && length && length < end)
            whole = (size_t)(end - stub->buffer) + 4 + strtoul(length + 16, NULL, 10);
    }
    const size_t head_size = (size_t)(strstr(stub->buffer, "\r\n\r\n") - stub->buffer) + 4;
    keep(stub, head_size, whole - head_size);
    return true;
}

static bool send_endless(struct stub_private *stub, int connection)
{
    static const char BYTES[4096] = "x";
    while (wait_for(stub, connection, POLLOUT))
        if (send(connection, BYTES, sizeof BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return false;
    return false;
}

/* False: the connection is over. */
static bool serve_post(struct stub_private *stub, int connection)
{
    const char *answer = answer_now(stub);
    if (strcmp(answer, STUB_SILENT) == 0) {
        wait_for(stub, connection, POLLRDHUP);
        keep(stub, 0, 0);
        return false;
    }
    if (!read_post(stub, connection))
        return false;
    if (strcmp(answer, STUB_ENDLESS) == 0)
        return send_endless(stub, connection);
    return strcmp(answer, STUB_CLOSES) != 0
           && send(connection, answer, strlen(answer), MSG_NOSIGNAL) > 0
           && strstr(answer, "\r\nConnection: close\r\n") == NULL;
}

static void *stub_thread(void *context)
{
    struct stub_private *stub = context;
    while (wait_for(stub, stub->listener, POLLIN)) {
        const int connection = accept(stub->listener, NULL, NULL);
        while (connection >= 0 && serve_post(stub, connection))
            ;
        if (connection >= 0)
            close(connection);
    }
    return NULL;
}

/* ------------------------------------------------------------------- callers -- */

void stub_collector_start(struct stub_collector *stub, const char *const *answers)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    struct stub_private *private = calloc(1, sizeof *private);
    assert_non_null(private);
    private->answers = answers;
    pthread_mutex_init(&private->mutex, NULL);
    private->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(private->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(private->listener, 8), 0);
    assert_int_equal(getsockname(private->listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pipe(private->ends), 0);
    *stub = (struct stub_collector){ ntohs(address.sin_port), private };
    assert_int_equal(pthread_create(&private->thread, NULL, stub_thread, private), 0);
}

void stub_collector_stop(struct stub_collector *stub)
{
    struct stub_private *private = stub->private;
    close(private->ends[1]);
    pthread_join(private->thread, NULL);
    close(private->ends[0]);
    close(private->listener);
    for (int i = 0; i < private->post_count; i++) {
        free(private->posts[i].head);
        free(private->posts[i].body);
    }
    pthread_mutex_destroy(&private->mutex);
    free(private);
    stub->private = NULL;
}

int stub_collector_count(struct stub_collector *stub)
{
    pthread_mutex_lock(&stub->private->mutex);
    const int count = stub->private->post_count;
    pthread_mutex_unlock(&stub->private->mutex);
    return count;
}

const struct stub_post *stub_collector_post(struct stub_collector *stub, int n)
{
    const double until = daemon_now() + WAIT_S * daemon_slowness();
    while (stub_collector_count(stub) <= n) {
        if (daemon_now() > until)
            fail_msg("post %d did not come", n);
        daemon_pause(0.005);
    }
    return &stub->private->posts[n];
}

static const cJSON *member(const cJSON *of, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(of, name);
    if (!found)
        fail_msg("no %s in %s", name, cJSON_PrintUnformatted(of));
    return found;
}

static bool has_trace(const cJSON *spans, const char *trace_id)
{
    const cJSON *span;
    cJSON_ArrayForEach(span, spans) {
        if (strcmp(cJSON_GetStringValue(member(span, "traceId")), trace_id) == 0)
            return true;
    }
    return false;
}

const cJSON *stub_collector_spans(struct stub_collector *stub, const char *trace_id, cJSON **whole)
{
    for (int n = 0;; n++) {
        const struct stub_post *post = stub_collector_post(stub, n);
        *whole = cJSON_Parse(post->body);
        if (!*whole)
            fail_msg("no JSON: %s", post->body);
        const cJSON *resource = cJSON_GetArrayItem(member(*whole, "resourceSpans"), 0);
        const cJSON *scope = cJSON_GetArrayItem(member(resource, "scopeSpans"), 0);
        const cJSON *spans = member(scope, "spans");
        if (has_trace(spans, trace_id))
            return spans;
        cJSON_Delete(*whole);
    }
}
