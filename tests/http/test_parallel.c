/* SPDX-License-Identifier: Apache-2.0 */
/* test_parallel.c - many connections that all wait at the same moment.
 *
 * libmicrohttpd's own epoll threads stall when exactly 128 connections of one thread are ready. So
 * the crowds have just below, exactly, and above that size. Each request is parked behind a slow
 * one, and the test checks every answer. Then the tests compare bits: they are the same whatever
 * the number of workers and the load. */
#include "answer.h"
#include "daemon.h"
#include "endless.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention";

static struct daemon server;

/* ---------------------------------------------------------------------- crowds -- */

enum { CROWD_MAX = 256, ROUNDS = 30 };

/* The connection that sends i gets i back. */
static void crowd_round(struct http_crowd *crowd, int round)
{
    static char bodies[CROWD_MAX][128];
    struct http_request requests[CROWD_MAX];
    struct http_response responses[CROWD_MAX];
    for (int i = 0; i < crowd->count; i++) {
        snprintf(bodies[i], sizeof(bodies[i]),
                 "{\"model\":\"sdpa\",\"query\":[[1]],\"value\":[[%d,%d]]}", i, round);
        requests[i] = (struct http_request){ .path = PATH, .body = bodies[i] };
    }
    http_crowd_send(crowd, requests, responses);
    for (int i = 0; i < crowd->count; i++) {
        char wanted[64];
        snprintf(wanted, sizeof(wanted), "[[%d,%d]]", i, round);
        cJSON *answer = answer_json(&responses[i], 200);
        answer_expect(answer, "context", wanted, 0);
        assert_true(responses[i].on_new_connection == (round == 0));
        cJSON_Delete(answer);
        http_response_free(&responses[i]);
    }
}

/* All connections wait for each other between rounds, so a stall of a second in any round shows in
 * the sum. */
TEST(crowds)
{
    static const int counts[] = { 127, 128, 129, 256 };
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct http_crowd crowd;
        http_crowd_init(&crowd, server.port, counts[c]);
        double start = daemon_now();
        for (int round = 0; round < ROUNDS; round++)
            crowd_round(&crowd, round);
        double seconds = daemon_now() - start;
        print_message("    %d connections: %.0f requests a second\n", counts[c],
                      counts[c] * ROUNDS / seconds);
        assert_true(seconds < 20 * daemon_slowness());
        http_crowd_free(&crowd);
    }
}

/* A worker is busy all the time, so that the crowd waits behind its request. */
TEST(crowds_parked)
{
    static const int counts[] = { 127, 128, 129, 256 };
    struct http_client client;
    struct endless ahead;
    http_client_init(&client, server.port);
    endless_begin_any(&ahead, &client);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (int round = 0; round < 3; round++) {
            struct http_crowd crowd;
            http_crowd_init(&crowd, server.port, counts[c]);
            double start = daemon_now();
            crowd_round(&crowd, 0);
            assert_true(daemon_now() - start < 10 * daemon_slowness());
            http_crowd_free(&crowd);
        }
    endless_end(&ahead);
    http_client_free(&client);
}

/* ------------------------------------------------------------------------ bits -- */

enum { SAMPLES = 8 };

static char *sample_body(int sample)
{
    static const int sizes[SAMPLES][4] = {
        /* queries, keys, heads, head_dim */
        { 1, 1, 1, 3 },   { 7, 300, 2, 5 },   { 65, 129, 4, 16 },  { 130, 97, 1, 64 },
        { 16, 16, 8, 8 }, { 33, 1000, 1, 1 }, { 300, 300, 2, 32 }, { 2, 4000, 4, 12 }
    };
    struct request_text text = { 0 };
    const int *size = sizes[sample];
    request_text_add(&text,
                     "{\"model\":\"sdpa\",\"q_heads\":%d,\"kv_heads\":%d,\"causal\":%s,"
                     "\"past_len\":%d,\"outputs\":[\"context\",\"lse\"],\"query\":",
                     size[2], size[2], sample % 2 ? "true" : "false", size[1] / 2);
    request_text_random(&text, (uint64_t)sample, size[0], size[2] * size[3]);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, (uint64_t)sample + 100, size[1], size[2] * size[3]);
    request_text_add(&text, "}");
    return text.data;
}

/* Several connections send every body at once. Each answer must equal the answer to the body
 * alone. */
static void expect_in_a_crowd(int port, char *const *bodies, int count, char *const *answers)
{
    enum { COPIES = 6 };
    struct http_crowd crowd;
    struct http_request requests[SAMPLES * COPIES];
    struct http_response responses[SAMPLES * COPIES];
    http_crowd_init(&crowd, port, count * COPIES);
    for (int i = 0; i < count * COPIES; i++)
        requests[i] = (struct http_request){ .path = PATH, .body = bodies[i % count] };
    http_crowd_send(&crowd, requests, responses);
    for (int i = 0; i < count * COPIES; i++) {
        assert_int_equal(responses[i].status, 200);
        assert_string_equal(responses[i].body, answers[i % count]);
        http_response_free(&responses[i]);
    }
    http_crowd_free(&crowd);
}

/* The answers have the same text every time: alone, in a crowd, and on daemons with other numbers
 * of workers. */
static void expect_equal_bits(char *const *bodies, int count)
{
    static const char *const workers[] = { "1", "4", "3" };
    char *answers[SAMPLES] = { NULL };
    for (size_t w = 0; w < sizeof(workers) / sizeof(workers[0]); w++) {
        struct daemon other;
        struct http_client client;
        daemon_start_with(&other, "--models", "examples/models", "--workers", workers[w], NULL);
        http_client_init(&client, other.port);
        for (int i = 0; i < count; i++) {
            struct http_response response = http_client_post(&client, PATH, bodies[i]);
            assert_int_equal(response.status, 200);
            if (w == 0)
                answers[i] = strdup(response.body);
            assert_string_equal(response.body, answers[i]);
            http_response_free(&response);
        }
        expect_in_a_crowd(other.port, bodies, count, answers);
        http_client_free(&client);
        daemon_stop(&other);
    }
    for (int i = 0; i < count; i++)
        free(answers[i]);
}

TEST(stops_cleanly)
{
    daemon_stop(&server);
}

TEST(equal_bits)
{
    char *bodies[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        bodies[i] = sample_body(i);
    expect_equal_bits(bodies, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        free(bodies[i]);
}

/* The same through a model's projections, whose products could be split by rows. */
TEST(equal_bits_of_a_model)
{
    static const int lengths[] = { 1, 2, 33, 150 };
    enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
    char *bodies[COUNT];
    for (int i = 0; i < COUNT; i++) {
        struct request_text text = { 0 };
        request_text_add(&text, "{\"model\":\"stories260K\",\"layer\":3,\"query\":");
        request_text_random(&text, (uint64_t)i + 50, lengths[i], 64);
        request_text_add(&text, "}");
        bodies[i] = text.data;
    }
    expect_equal_bits(bodies, COUNT);
    for (int i = 0; i < COUNT; i++)
        free(bodies[i]);
}

static int start(void **state)
{
    daemon_start_with(&server, DAEMON_PATIENT, NULL);
    return 0;
}

static int clear(void **state)
{
    daemon_kill(&server);
    return 0;
}

ALL_TESTS(start, clear);
