/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_aborted.c - clients that leave in every phase of a call on a session: in the
 * headers, before and in the body, behind it, while the call is computed, while it waits for its
 * turn. The session goes on: a call that ends late appends all of its rows or none, and the next
 * one is answered. Nothing stays behind: no page, no memory. */
#include "answer.h"
#include "fixture.h"
#include "problem_count.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"

enum { BASE_ROWS = 4096, HEADS = 64, QUERIES = 32, ABORTED = 600, HEAD_BYTES = 256 };
enum { MIB = 1 << 20, ENDED_MAX = 8192, ENDED_BYTES = 320 }; /* the ids that have ended */

static struct request_text slow; /* a call of some milliseconds that appends one row */
static const char QUICK[] = JSON({"query":[[1]],"key":[[1]],"outputs":["lse"]});

/* Sends the first bytes of a call, of both its parts together. */
static void begin(struct http_raw *raw, const char *id, const char *body, double share)
{
    char head[HEAD_BYTES];
    const size_t size = strlen(body);
    const size_t head_size =
        (size_t)snprintf(head, sizeof head,
                         "POST /v1/sessions/%s/attention HTTP/1.1\r\nHost: x\r\n"
                         "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                         id, size);
    const size_t sent = (size_t)(share * (double)(head_size + size));
    http_raw_connect(raw, server.port);
    http_raw_send(raw, head, sent < head_size ? sent : head_size);
    if (sent > head_size)
        http_raw_send(raw, body, sent - head_size);
}

static void leave_in(const char *id, const char *body, double share)
{
    struct http_raw raw;
    begin(&raw, id, body, share);
    http_raw_close(&raw);
}

/* One that is computed, and others behind it that wait; they leave in some order. */
static void leave_waiting(const char *id, uint64_t number)
{
    struct http_raw raws[4];
    for (int i = 0; i < 4; i++)
        begin(&raws[i], id, i == 0 ? slow.data : QUICK, 1);
    for (int i = 0; i < 4; i++)
        http_raw_close(&raws[number % 2 ? i : 3 - i]);
}

static int leave_somehow(const char *id, uint64_t number)
{
    switch (number % 8) {
    case 0: /* in the headers */
        leave_in(id, QUICK, 0.3);
        return 0;
    case 1: { /* between both */
        struct http_raw raw;
        begin(&raw, id, QUICK, 0.999);
        http_raw_close(&raw);
        return 0;
    }
    case 2: /* in the body */
        leave_in(id, slow.data, (double)(number / 8 % 97 + 1) / 98);
        return 0;
    case 3:
    case 4: /* behind the body, at once */
        leave_in(id, number % 8 == 3 ? QUICK : slow.data, 1);
        return 1;
    case 5: { /* while it is computed, or later */
        struct http_raw raw;
        begin(&raw, id, slow.data, 1);
        daemon_pause(0.0005 * (double)(number / 8 % 8));
        http_raw_close(&raw);
        return 1;
    }
    default: /* while it waits */
        leave_waiting(id, number / 8);
        return 4;
    }
}

/* A call behind those that were left: it finds their rows, each whole or not at all. */
static void expect_alive(const char *id, int left)
{
    cJSON *answer = session_post(&client, id, "attention", QUICK, 200);
    const int kv_len = cJSON_GetObjectItem(answer, "kv_len")->valueint;
    assert_in_range(kv_len, BASE_ROWS + 1, BASE_ROWS + 1 + left);
    cJSON_Delete(answer);
    /* What another connection brought may be read behind it. */
    assert_in_range((int)session_number(&client, id, "kv_len"), kv_len, BASE_ROWS + 1 + left);
}

static void abort_many(uint64_t first, uint64_t count)
{
    char id[24], body[48];
    for (uint64_t i = first; i < first + count; i++) {
        snprintf(id, sizeof id, "x%u", (unsigned)i);
        snprintf(body, sizeof body, JSON({"id":"%s"}), id);
        cJSON_Delete(session_post(&client, "base", "fork", body, 201));
        const int left = leave_somehow(id, i);
        if (i % 3 == 0)
            expect_alive(id, left);
        session_delete(&client, id, 204);
    }
}

TEST(aborted)
{
    const uint64_t count = problem_count(ABORTED);
    struct request_text rows = { .data = NULL };
    session_make(&client, JSON({"model":"sdpa","id":"base"}));
    request_text_add(&rows, "{\"outputs\":[\"lse\"],\"query\":[[1]],\"key\":");
    request_text_digits(&rows, BASE_ROWS, 1);
    request_text_add(&rows, "}");
    cJSON_Delete(session_post(&client, "base", "attention", rows.data, 200));
    free(rows.data);
    request_text_add(&slow,
                     "{\"q_heads\":%d,\"kv_heads\":1,\"key\":[[1]],\"outputs\":[\"lse\"],"
                     "\"query\":",
                     HEADS);
    request_text_digits(&slow, QUERIES, HEADS);
    request_text_add(&slow, "}");
    abort_many(0, count / 2);
    const size_t before = daemon_memory_bytes(&server);
    abort_many(count / 2, count - count / 2);
    session_delete(&client, "base", 204);
    session_wait_until_empty(&client);
    const size_t after = daemon_memory_bytes(&server);
    const uint64_t ended = count / 2 < ENDED_MAX ? count / 2 : ENDED_MAX;
    print_message("    %u aborted; resident: %.1f MiB, then %.1f\n", (unsigned)count,
                  (double)before / MIB, (double)after / MIB);
    if (daemon_slowness() == 1) /* a sanitizer of the daemon keeps what was freed */
        assert_in_range(after, 0, before + before / 100 + MIB / 2 + ended * ENDED_BYTES);
    /* What was not measured whole is not learnt from. */
    assert_true(answer_metric(&client, "attnd_cost_actual_seconds_total")
                < daemon_cpu_seconds(&server) + 1);
    free(slow.data);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
