/* SPDX-License-Identifier: Apache-2.0 */
/* endless.c - see endless.h. */
#include "endless.h"
#include "test.h"

#include "answer.h"
#include "request_text.h"

static const char JOBS[] = "attnd_queue_jobs";
static const char COST[] = "attnd_queue_cost_seconds";

enum { HEADS = 64, KEYS = 131072, ROWS_ANY = 4096, ITEMS_ANY = 16 };

char *endless_text(int64_t rows, int items)
{
    struct request_text text = { 0 };
    request_text_add(&text,
                     "{\"model\":\"sdpa\",\"q_heads\":%d,\"kv_heads\":1,\"outputs\":[\"lse\"],"
                     "\"query\":",
                     HEADS);
    request_text_digits(&text, rows, HEADS);
    request_text_add(&text, ",\"key\":");
    request_text_digits(&text, KEYS, 1);
    for (int i = 0; i < items; i++)
        request_text_add(&text, i == 0 ? ",\"requests\":[{}" : ",{}");
    request_text_add(&text, items > 0 ? "]}" : "}");
    return text.data;
}

void endless_begin_with(struct endless *endless, struct http_client *client, const char *header,
                        int64_t rows, int items)
{
    char head[256];
    const double jobs = answer_metric(client, JOBS), cost_s = answer_metric(client, COST);
    endless->client = client;
    char *body = endless_text(rows, items);
    const size_t size = strlen(body);
    snprintf(head, sizeof head,
             "POST /v1/attention/batch HTTP/1.1\r\nHost: localhost\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n",
             size, header);
    http_raw_connect(&endless->raw, client->port);
    assert_true(http_raw_send_text(&endless->raw, head));
    assert_true(http_raw_send(&endless->raw, body, size));
    free(body);
    answer_wait_for_metric(client, JOBS, jobs + 1, jobs + 1);
    answer_wait_for_metric(client, COST, cost_s + 1, INFINITY);
    /* What is left becomes less with each task, and once where it has been read. */
    for (int i = 0; i < 3; i++)
        answer_wait_for_metric(client, COST, cost_s, nextafter(answer_metric(client, COST), 0));
}

void endless_begin(struct endless *endless, struct http_client *client, int64_t rows, int items)
{
    endless_begin_with(endless, client, "", rows, items);
}

void endless_begin_any(struct endless *endless, struct http_client *client)
{
    endless_begin(endless, client, ROWS_ANY, ITEMS_ANY);
}

void endless_leave(struct endless *endless)
{
    http_raw_close(&endless->raw);
}

void endless_end(struct endless *endless)
{
    const double jobs = answer_metric(endless->client, JOBS);
    assert_true(jobs >= 1);
    endless_leave(endless);
    answer_wait_for_metric(endless->client, JOBS, 0, jobs - 1);
}
