/* SPDX-License-Identifier: Apache-2.0 */
/* test_batching.c - requests whose rows are projected together.
 *
 * An answer has the same bits as the answer of a daemon that computes each request alone. Some
 * tests set a delay that is longer than the test. Then the daemon makes a batch when it is full and
 * not before, so the test knows which requests share a batch. A request that leaves the batch or
 * runs out of time does not harm the others. */
#include "answer.h"
#include "daemon.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention";

enum { SAMPLES = 16, D_MODEL = 256, COPIES = 4, ROUNDS = 3 };

static char *directory;
static char *bodies[SAMPLES];  /* bodies of 1, 2, 3 or 1 rows */
static char *answers[SAMPLES]; /* the answers without batches */

/* ------------------------------------------------------------------------ a daemon -- */

static void start(struct daemon *server, const char *batch_max, const char *batch_delay)
{
    daemon_start_with(server, "--models", directory, "--workers", "2", "--batch-max", batch_max,
                      "--batch-delay", batch_delay, NULL);
}

/* Waits until so many requests are in the queue or are being computed. */
static void wait_for_jobs(struct http_client *client, int count)
{
    answer_wait_for_metric(client, "attnd_queue_jobs", count, count);
}

static void expect_answer(struct http_response *response, int sample)
{
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, answers[sample]);
    http_response_free(response);
}

/* Sends count requests at once. Their samples are first, first + step and so on. */
static void send_crowd(int port, int count, int first, int step)
{
    enum { COUNT_MAX = SAMPLES * COPIES };
    struct http_crowd crowd;
    struct http_request requests[COUNT_MAX];
    struct http_response responses[COUNT_MAX];
    http_crowd_init(&crowd, port, count);
    for (int i = 0; i < count; i++)
        requests[i] =
            (struct http_request){ .path = PATH, .body = bodies[(first + i * step) % SAMPLES] };
    http_crowd_send(&crowd, requests, responses);
    for (int i = 0; i < count; i++)
        expect_answer(&responses[i], (first + i * step) % SAMPLES);
    http_crowd_free(&crowd);
}

/* --------------------------------------------------------------------------- tests -- */

TEST(same_bits_by_default)
{
    struct daemon server;
    daemon_start_with(&server, "--models", directory, "--workers", "2", NULL);
    for (int round = 0; round < ROUNDS; round++)
        send_crowd(server.port, SAMPLES * COPIES, round, 1);
    daemon_stop(&server);
}

TEST(same_bits_in_any_batch)
{
    static const char *const sizes[] = { "2", "7", "64" };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct daemon server;
        struct http_client client;
        start(&server, sizes[i], "20ms");
        http_client_init(&client, server.port);
        for (int round = 0; round < ROUNDS; round++)
            send_crowd(server.port, SAMPLES * COPIES, round, 1);
        assert_true(answer_metric(&client, "attnd_batch_requests_sum")
                    > answer_metric(&client, "attnd_batch_requests_count"));
        assert_true(answer_metric(&client, "attnd_batch_rows_sum")
                    <= atof(sizes[i]) * answer_metric(&client, "attnd_batch_rows_count"));
        http_client_free(&client);
        daemon_stop(&server);
    }
}

/* Eight rows fill two batches: one for query, key and value, and one for the output. */
TEST(full_batch_does_not_wait)
{
    struct daemon server;
    struct http_client client;
    start(&server, "8", "60s");
    http_client_init(&client, server.port);
    send_crowd(server.port, 8, 0, 4);
    assert_int_equal((int)answer_metric(&client, "attnd_batch_rows_count"), 2);
    assert_int_equal((int)answer_metric(&client, "attnd_batch_rows_sum"), 16);
    assert_int_equal((int)answer_metric(&client, "attnd_batch_requests_bucket{le=\"4\"}"), 0);
    assert_int_equal((int)answer_metric(&client, "attnd_batch_requests_bucket{le=\"8\"}"), 2);
    assert_true(answer_metric(&client, "attnd_inference_flops_total{model=\"wide\","
                                       "route=\"/v1/attention\"}")
                >= 8 * 4 * 2.0 * D_MODEL * D_MODEL);
    http_client_free(&client);
    daemon_stop(&server);
}

TEST(leaving_a_batch)
{
    static const char *const hurry[] = { "Content-Type: application/json", "X-Timeout-Ms: 300",
                                         NULL };
    struct daemon server;
    struct http_client client;
    struct http_background waiting[2];
    struct http_raw raw;
    char head[160];
    start(&server, "8", "60s");
    http_client_init(&client, server.port);
    for (int i = 0; i < 2; i++)
        http_background_start(&waiting[i], server.port,
                              &(struct http_request){ .path = PATH, .body = bodies[4 * i] });
    wait_for_jobs(&client, 2);

    snprintf(head, sizeof(head),
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", PATH,
             strlen(bodies[8]));
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head) && http_raw_send_text(&raw, bodies[8]));
    wait_for_jobs(&client, 3);
    http_raw_close(&raw);
    wait_for_jobs(&client, 2);

    struct http_response late = http_client_send(
        &client, &(struct http_request){ .path = PATH, .body = bodies[12], .headers = hurry });
    assert_int_equal(late.status, 504);
    http_response_free(&late);
    wait_for_jobs(&client, 2);
    assert_int_equal((int)answer_metric(&client, "attnd_batch_rows_count"), 0);

    send_crowd(server.port, 6, 0, 4);
    for (int i = 0; i < 2; i++) {
        struct http_response response = http_background_join(&waiting[i]);
        expect_answer(&response, 4 * i);
    }
    assert_int_equal((int)answer_metric(&client, "attnd_batch_rows_sum"), 16);
    http_client_free(&client);
    daemon_stop(&server);
}

/* A request that waits when the daemon is told to stop is still answered. */
TEST(drain)
{
    struct daemon server;
    struct http_client client;
    struct http_background waiting[3];
    start(&server, "64", "1s");
    http_client_init(&client, server.port);
    for (int i = 0; i < 3; i++)
        http_background_start(&waiting[i], server.port,
                              &(struct http_request){ .path = PATH, .body = bodies[i] });
    wait_for_jobs(&client, 3);
    http_client_free(&client);
    daemon_stop(&server);
    for (int i = 0; i < 3; i++) {
        struct http_response response = http_background_join(&waiting[i]);
        expect_answer(&response, i);
    }
}

/* The hard cap on the drain also ends the requests that wait for a batch. */
TEST(drain_cap)
{
    struct daemon server;
    struct http_client client;
    struct http_background waiting;
    daemon_start_with(&server, "--models", directory, "--batch-delay", "60s", "--drain-max",
                      "200ms", NULL);
    http_client_init(&client, server.port);
    http_background_start(&waiting, server.port,
                          &(struct http_request){ .path = PATH, .body = bodies[0] });
    wait_for_jobs(&client, 1);
    http_client_free(&client);
    daemon_stop(&server);
    struct http_response response = http_background_join(&waiting);
    assert_int_equal(response.status, 503);
    http_response_free(&response);
}

/* ----------------------------------------------------------------------- the group -- */

static void compute_alone(void)
{
    struct daemon server;
    struct http_client client;
    start(&server, "1", "0s");
    http_client_init(&client, server.port);
    for (int i = 0; i < SAMPLES; i++) {
        struct request_text text = { 0 };
        request_text_add(&text, "{\"model\":\"wide\",\"outputs\":[\"context\",\"lse\"],\"query\":");
        request_text_random(&text, (uint64_t)i, i % 4 == 3 ? 1 : i % 4 + 1, D_MODEL);
        request_text_add(&text, "}");
        bodies[i] = text.data;
        struct http_response response = http_client_post(&client, PATH, bodies[i]);
        assert_int_equal(response.status, 200);
        answers[i] = strdup(response.body);
        http_response_free(&response);
    }
    assert_int_equal((int)answer_metric(&client, "attnd_batch_rows_count"), 0);
    http_client_free(&client);
    daemon_stop(&server);
}

static int set_up(void **state)
{
    char path[512], columns[16];
    directory = daemon_directory_create();
    snprintf(path, sizeof(path), "%s/wide.safetensors", directory);
    snprintf(columns, sizeof(columns), "%d", D_MODEL);
    struct daemon_result made = daemon_command(
        (const char *const[]){ "model", "new", "--d-model", columns, "--q-heads", "4", path, NULL },
        NULL);
    const int exit_code = made.exit_code;
    daemon_result_free(&made);
    if (exit_code == 0)
        compute_alone();
    return exit_code;
}

static int tear_down(void **state)
{
    for (int i = 0; i < SAMPLES; i++) {
        free(bodies[i]);
        free(answers[i]);
    }
    daemon_directory_remove(directory);
    return 0;
}

ALL_TESTS(set_up, tear_down);
