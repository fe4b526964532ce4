/* SPDX-License-Identifier: Apache-2.0 */
/* test_cancellation.c - clients that leave while their request is read, queued or computed: the
 * daemon drops the work, counts that and logs it.
 *
 * There is one worker, and jobs that take far longer than any test. A request behind such a job
 * gets its answer only if the daemon has stopped the job. The tests check the order of events and
 * no durations. */
#include "answer.h"
#include "daemon.h"
#include "request_text.h"
#include "test.h"

#include <sys/socket.h>

static const char PATH[] = "/v1/attention";
static const char BATCH[] = "/v1/attention/batch";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});
static const char JOBS[] = "attnd_queue_jobs";
static const char LEFT_WAITING[] = "attnd_cancelled_total{reason=\"left_waiting\"}";
static const char LEFT_READING[] = "attnd_cancelled_total{reason=\"left_reading\"}";

static struct daemon server;
static struct http_client client;
static char *endless;    /* a batch that takes minutes */
static double cancelled; /* the number of cancelled requests so far */

enum leaving { LEAVE_BY_CLOSE, LEAVE_BY_RESET, LEAVE_HALF_CLOSED, LEAVING_COUNT };

static void leave(struct http_raw *raw, enum leaving how)
{
    if (how == LEAVE_BY_RESET)
        setsockopt(raw->socket, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
                   sizeof(struct linger));
    if (how == LEAVE_HALF_CLOSED)
        shutdown(raw->socket, SHUT_WR);
    else
        http_raw_close(raw);
}

/* Sends the first size bytes of a request with this body. */
static void begin_part(struct http_raw *raw, const char *method, const char *path, const char *id,
                       const char *body, size_t size)
{
    char head[256];
    snprintf(head, sizeof(head),
             "%s %s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\nContent-Length: %zu\r\n"
             "Content-Type: application/json\r\n\r\n",
             method, path, id, strlen(body));
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send(raw, body, size));
}

static void begin(struct http_raw *raw, const char *path, const char *id, const char *body)
{
    begin_part(raw, "POST", path, id, body, strlen(body));
}

/* The log soon says that the request with this id ended with this status. */
static void expect_logged(const char *id, int status)
{
    char field[64];
    snprintf(field, sizeof(field), "request_id=%s", id);
    char *log = daemon_log_with(&server, field);
    *strstr(log, field) = '\0';
    char *line = strrchr(log, '\n');
    const char *text = strstr(line ? line : log, "status=");
    assert_non_null(text);
    assert_int_equal(atoi(text + strlen("status=")), status);
    free(log);
}

static void expect_not_logged(const char *id)
{
    char *log = daemon_log(&server);
    assert_null(strstr(log, id));
    free(log);
}

static void expect_cancelled(const char *id)
{
    cancelled++;
    answer_wait_for_metric(&client, LEFT_WAITING, cancelled, cancelled);
    expect_logged(id, 499);
}

/* The queued request goes away while the request before it still runs. Then the running one goes
 * away too. */
TEST(queued_and_running)
{
    for (enum leaving how = 0; how < LEAVING_COUNT; how++) {
        struct http_raw running, queued, behind;
        char first[32], second[32], third[32];
        snprintf(first, sizeof(first), "running-%d", how);
        snprintf(second, sizeof(second), "queued-%d", how);
        snprintf(third, sizeof(third), "behind-%d", how);
        begin(&running, BATCH, first, endless);
        answer_wait_for_metric(&client, JOBS, 1, 1);
        begin(&queued, BATCH, second, endless);
        answer_wait_for_metric(&client, JOBS, 2, 2);
        leave(&queued, how);
        expect_cancelled(second);
        expect_not_logged(first);

        begin(&behind, PATH, third, GOOD);
        leave(&running, how);
        expect_cancelled(first);
        struct http_response response = http_raw_receive(&behind, 30 * daemon_slowness());
        assert_int_equal(response.status, 200);
        http_response_free(&response);
        http_raw_close(&behind);
        http_raw_close(&running);
        http_raw_close(&queued);
        answer_wait_for_metric(&client, JOBS, 0, 0);
    }
}

TEST(in_the_body)
{
    const double before = answer_metric(&client, LEFT_READING);
    for (enum leaving how = 0; how < LEAVING_COUNT; how++) {
        struct http_raw raw;
        char id[32];
        snprintf(id, sizeof(id), "reading-%d", how);
        begin_part(&raw, "POST", PATH, id, GOOD, 10);
        answer_wait_for_active(&client, 1);
        leave(&raw, how);
        answer_wait_for_metric(&client, LEFT_READING, before + how + 1, before + how + 1);
        expect_logged(id, 499);
        http_raw_close(&raw);
    }
    assert_true(answer_metric(&client, LEFT_WAITING) == cancelled);
}

/* The daemon finishes a load that has begun, and drops a load that has not begun. Either way the
 * model is whole or not there, and a client can put it again. */
TEST(model_load)
{
    enum { ROUNDS = 30 };
    static const char model[] =
        "{\"config\":{\"attention\":\"scaled_dot_product\",\"layers\":1,\"q_heads\":1,"
        "\"kv_heads\":1,\"head_dim\":1,\"v_head_dim\":1},\"parameters\":{"
        "\"q_proj.weight\":[[1]],\"k_proj.weight\":[[1]],\"v_proj.weight\":[[2]]}}";
    struct http_raw running;
    begin(&running, BATCH, "before-the-load", endless);
    answer_wait_for_metric(&client, JOBS, 1, 1);
    for (int i = 0; i < ROUNDS; i++) {
        struct http_raw raw;
        char id[32];
        snprintf(id, sizeof(id), "load-%d", i);
        begin_part(&raw, "PUT", "/v1/models/put", id, model, strlen(model));
        if (i % 3)
            daemon_pause(0.001 * i);
        leave(&raw, i % 2 ? LEAVE_BY_CLOSE : LEAVE_BY_RESET);
    }
    leave(&running, LEAVE_BY_CLOSE);
    answer_wait_for_metric(&client, "attnd_requests_active", 1, 1);
    expect_logged("before-the-load", 499);
    struct http_response response = http_client_get(&client, "/v1/models/put");
    assert_true(response.status == 200 || response.status == 404);
    http_response_free(&response);
    response = http_client_send(
        &client,
        &(struct http_request){ .method = "PUT", .path = "/v1/models/put", .body = model });
    assert_true(response.status == 200 || response.status == 201);
    http_response_free(&response);
    cJSON_Delete(answer_post(&client, PATH, "{\"model\":\"put\",\"query\":[[1]]}"));
}

static char *directory;

/* A batch in which an item of half a second comes again and again. */
static char *endless_batch(void)
{
    struct request_text text = { 0 };
    char *shared = request_text_slow(&client, 0.5, "");
    shared[strlen(shared) - 1] = '\0';
    request_text_add(&text, "%s,\"requests\":[{}", shared);
    for (int i = 0; i < 240; i++)
        request_text_add(&text, ",{}");
    request_text_add(&text, "]}");
    free(shared);
    return text.data;
}

static int start(void **state)
{
    directory = daemon_directory_create();
    daemon_start_with(&server, "--workers", "1", DAEMON_PATIENT, "--models", directory,
                      "--model-control", "explicit", "--answer-max", "8GiB", NULL);
    http_client_init(&client, server.port);
    endless = endless_batch();
    cancelled = answer_metric(&client, LEFT_WAITING);
    return 0;
}

static int stop(void **state)
{
    http_client_free(&client);
    daemon_stop(&server);
    daemon_directory_remove(directory);
    free(endless);
    return 0;
}

ALL_TESTS(start, stop);
