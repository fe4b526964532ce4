/* SPDX-License-Identifier: Apache-2.0 */
/* twin.c - starts twins, translates identifiers and writes down what differs. */
#include "twin.h"
#include "test.h"

#include "daemon.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TWINS_MAX = 64, PAIRS_MAX = 4096, ID_LEAST = 8, ID_MOST = 64, SHOWN = 400, LIST_MAX = 80 };

/* An identifier of the daemon and the twin's own in its place. */
struct pair {
    char own[ID_MOST + 1], twin[ID_MOST + 1];
};

struct twin {
    int port; /* of the daemon that it is the twin of; 0: a free place */
    struct daemon daemon;
    char *directories[LIST_MAX]; /* copies; freed with the twin */
    int directory_count;
    struct pair pairs[PAIRS_MAX];
    int pair_count;
};

static struct twin *twins[TWINS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool is_inside; /* a request of ours has no twin */
static int compared_count, differ_count;
static bool is_counting;

static FILE *open_log(void)
{
    const char *path = getenv("ATTND_TEST_TWIN_LOG");
    return path ? fopen(path, "a") : stderr;
}

static void close_log(FILE *log)
{
    if (log && log != stderr)
        fclose(log);
}

/* When the program ends. */
static void write_counts(void)
{
    FILE *log = open_log();
    if (log)
        fprintf(log, "%s: %d answers compared, %d differ\n", program_invocation_short_name,
                compared_count, differ_count);
    close_log(log);
}

static struct twin *find_twin(int port)
{
    for (int i = 0; i < TWINS_MAX; i++)
        if (twins[i] && twins[i]->port == port)
            return twins[i];
    return NULL;
}

/* ---------------------------------------------------------------- starting -- */

/* A copy of the directory, if the argument is one. */
static char *copy_directory(struct twin *twin, const char *argument)
{
    struct stat status;
    char command[2 * 4096];
    if (stat(argument, &status) != 0 || !S_ISDIR(status.st_mode))
        return (char *)(uintptr_t)argument;
    char *copy = daemon_directory_create();
    snprintf(command, sizeof command, "cp -a '%s/.' '%s'", argument, copy);
    assert_int_equal(system(command), 0);
    return twin->directories[twin->directory_count++] = copy;
}

/* Starts the program of ATTND_TEST_TWIN in place of that of ATTND. */
static void start_program(struct twin *twin, const struct daemon_options *options)
{
    char *own = getenv("ATTND") ? strdup(getenv("ATTND")) : NULL;
    setenv("ATTND", getenv("ATTND_TEST_TWIN"), 1);
    is_inside = true;
    daemon_start(&twin->daemon, options);
    is_inside = false;
    if (own)
        setenv("ATTND", own, 1);
    else
        unsetenv("ATTND");
    free(own);
}

/* Whether the daemon listens on a port that its arguments name: the twin cannot. */
static bool names_port(char *const *arguments)
{
    for (char *const *argument = arguments; *argument; argument++) {
        const char *port = strncmp(*argument, "--listen", 8) == 0 && argument[1]
                               ? strrchr(argument[1], ':')
                               : NULL;
        if (port && strcmp(port, ":0") != 0)
            return true;
    }
    return false;
}

void twin_start(int port, char *const *arguments, const char *const *environment)
{
    const char *list[LIST_MAX] = { NULL };
    int count = 0, place = 0;
    if (is_inside || !getenv("ATTND_TEST_TWIN") || names_port(arguments))
        return;
    while (place < TWINS_MAX && twins[place])
        place++;
    assert_true(place < TWINS_MAX);
    struct twin *twin = calloc(1, sizeof *twin);
    assert_non_null(twin);
    if (!is_counting)
        is_counting = atexit(write_counts) == 0;
    for (char *const *argument = arguments + 1; *argument && count < LIST_MAX - 1; argument++)
        list[count++] = copy_directory(twin, *argument);
    start_program(twin, &(struct daemon_options){
                            .arguments = list, .environment = environment, .listen_count = 1 });
    twin->port = port;
    twins[place] = twin;
}

void twin_stop(int port)
{
    if (is_inside)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < TWINS_MAX; i++)
        if (twins[i] && twins[i]->port == port) {
            struct twin *twin = twins[i];
            twins[i] = NULL;
            is_inside = true;
            daemon_kill(&twin->daemon);
            is_inside = false;
            for (int d = 0; d < twin->directory_count; d++)
                daemon_directory_remove(twin->directories[d]);
            free(twin);
        }
    pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------- identifiers -- */

/* A copy of the bytes with the identifiers of the twin; free it. All have the length of ours. */
static char *translate(const struct twin *twin, const char *bytes, size_t size)
{
    char *copy = calloc(1, size + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    for (int i = 0; i < twin->pair_count; i++) {
        const size_t length = strlen(twin->pairs[i].own);
        for (char *at = copy;
             (at = memmem(at, size - (size_t)(at - copy), twin->pairs[i].own, length));
             at += length)
            memcpy(at, twin->pairs[i].twin, length);
    }
    return copy;
}

/* The run of hexadecimal digits around a place; its length. */
static size_t run_around(const char *bytes, size_t size, size_t at, size_t *begin)
{
    size_t end = at;
    *begin = at;
    while (*begin > 0 && isxdigit((unsigned char)bytes[*begin - 1]))
        --*begin;
    while (end < size && isxdigit((unsigned char)bytes[end]))
        end++;
    return end - *begin;
}

/* Notes the identifiers around two places, if they are such, and moves both behind them. */
static bool pass_identifiers(struct twin *twin, const struct http_response *own, size_t *at,
                             const struct http_response *other, size_t *other_at)
{
    size_t begin, other_begin;
    const size_t length = run_around(own->body, own->body_size, *at, &begin);
    if (length < ID_LEAST || length > ID_MOST || twin->pair_count == PAIRS_MAX
        || run_around(other->body, other->body_size, *other_at, &other_begin) != length)
        return false;
    struct pair *pair = &twin->pairs[twin->pair_count++];
    memcpy(pair->own, own->body + begin, length);
    memcpy(pair->twin, other->body + other_begin, length);
    *at = begin + length;
    *other_at = other_begin + length;
    return true;
}

/* Whether the place is in the value of a JSON member that says a time. */
static bool is_time(const char *body, size_t at)
{
    static const char *const ENDS[] = { "_ms\":", "_ns\":", "_seconds\":", "expires\":" };
    size_t colon = at;
    while (colon > 0 && body[colon] != ',' && body[colon] != '{' && at - colon < 64)
        colon--;
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++)
        if (memmem(body + colon, at - colon, ENDS[i], strlen(ENDS[i])))
            return true;
    return false;
}

static size_t end_of_value(const struct http_response *response, size_t at)
{
    while (at < response->body_size && response->body[at] != ',' && response->body[at] != '}')
        at++;
    return at;
}

/* Whether the bodies say alike; else *at is where they differ. Notes identifiers. */
static bool bodies_agree(struct twin *twin, const struct http_response *own,
                         const struct http_response *other, size_t *at)
{
    size_t other_at = *at = 0;
    while (*at < own->body_size && other_at < other->body_size) {
        if (own->body[*at] == other->body[other_at]) {
            ++*at, ++other_at;
        } else if (is_time(own->body, *at)) {
            *at = end_of_value(own, *at);
            other_at = end_of_value(other, other_at);
        } else if (!pass_identifiers(twin, own, at, other, &other_at)) {
            return false;
        }
    }
    return *at == own->body_size && other_at == other->body_size;
}

/* --------------------------------------------------------------- comparing -- */

static void write_difference(const struct http_request *request, const struct http_response *own,
                             const struct http_response *other, size_t at)
{
    FILE *log = open_log();
    const size_t from = at > SHOWN / 4 ? at - SHOWN / 4 : 0;
    assert_non_null(log);
    fprintf(log,
            "%s: %s\n  request: %.*s\n  own  %ld, %zu bytes, at %zu: %.*s\n  twin %ld, %zu bytes: "
            "%.*s\n",
            program_invocation_short_name, request->path, SHOWN, request->body ? request->body : "",
            own->status, own->body_size, at, SHOWN, own->body_size > from ? own->body + from : "",
            other->status, other->body_size, SHOWN,
            other->body_size > from ? other->body + from : "");
    close_log(log);
}

static bool types_differ(const struct http_response *own, const struct http_response *other)
{
    char type[128] = "", other_type[128] = "";
    http_response_header(own, "Content-Type", type, sizeof type);
    http_response_header(other, "Content-Type", other_type, sizeof other_type);
    return strcmp(type, other_type) != 0;
}

/* The request as the twin is asked it: free its path and body. */
static struct http_request translate_request(const struct twin *twin,
                                             const struct http_request *request)
{
    struct http_request same = *request;
    same.path = translate(twin, request->path, strlen(request->path));
    if (request->body) {
        const size_t size = request->body_size ? request->body_size : strlen(request->body);
        same.body = translate(twin, request->body, size);
    }
    return same;
}

static struct http_response ask_twin(const struct twin *twin, const struct http_client_tls *tls,
                                     const struct http_request *request)
{
    struct http_client client;
    is_inside = true;
    http_client_init(&client, twin->daemon.port);
    client.tls = tls;
    struct http_response response = http_client_send(&client, request);
    http_client_free(&client);
    is_inside = false;
    return response;
}

/* Whether the answer counts or times what came before: metrics and statistics. */
static bool is_count(const char *path)
{
    return strstr(path, "metrics") || strstr(path, "/stats") || strcmp(path, "/readyz") == 0
           || strcmp(path, "/v2/health/ready") == 0;
}

void twin_compare(const struct http_client *client, const struct http_request *request,
                  const struct http_response *response)
{
    if (is_inside || !getenv("ATTND_TEST_TWIN") || is_count(request->path))
        return;
    pthread_mutex_lock(&lock);
    struct twin *twin = find_twin(client->port);
    struct http_request same = { 0 };
    if (twin)
        same = translate_request(twin, request);
    pthread_mutex_unlock(&lock);
    if (!twin)
        return;
    struct http_response other = ask_twin(twin, client->tls, &same);
    pthread_mutex_lock(&lock);
    size_t at;
    const bool agree = bodies_agree(twin, response, &other, &at);
    compared_count++;
    if (!agree || response->status != other.status || types_differ(response, &other)) {
        differ_count++;
        write_difference(request, response, &other, at);
    }
    pthread_mutex_unlock(&lock);
    http_response_free(&other);
    free((char *)(uintptr_t)same.path);
    free((char *)(uintptr_t)same.body);
}
