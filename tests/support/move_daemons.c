/* SPDX-License-Identifier: Apache-2.0 */
/* move_daemons.c - see move_daemons.h. */
#include "move_daemons.h"

#include "answer.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"

struct daemon next;
struct http_client second;
char next_url[64];

void move_start_next(const char *const *more)
{
    const char *arguments[16] = { "--models", "examples/models", "--replica", "next" };
    for (int i = 4; more && (arguments[i] = *more); i++)
        more++;
    daemon_start(&next, &(struct daemon_options){ .arguments = arguments });
    http_client_init(&second, next.port);
    snprintf(next_url, sizeof next_url, "http://127.0.0.1:%d", next.port);
}

void move_stop_next(void)
{
    http_client_free(&second);
    daemon_stop(&next);
}

int move_clear(void **state)
{
    daemon_kill(&next);
    return fixture_clear(state);
}

char *move_rows_text(uint64_t seed, int rows, bool appends, int at)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"append\":%s,\"query\":", appends ? "true" : "false");
    request_text_random(&text, seed, 2, 8);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, seed + 1, rows, 8);
    request_text_add(&text, ",\"value\":");
    request_text_random(&text, seed + 2, rows, 8);
    if (at >= 0)
        request_text_add(&text, ",\"at\":%d", at);
    request_text_add(&text, ",\"outputs\":[\"context\",\"lse\"]}");
    return text.data;
}

cJSON *move_post_rows(struct http_client *to, const char *id, uint64_t seed, int rows, bool appends)
{
    char *text = move_rows_text(seed, rows, appends, -1);
    cJSON *answer = session_post(to, id, "attention", text, 200);
    free(text);
    return answer;
}

cJSON *move_look(struct http_client *at, const char *id)
{
    return move_post_rows(at, id, 900, 1, false);
}

void move_make(const char *id, const char *settings, int rows)
{
    char body[200];
    snprintf(body, sizeof body, JSON({"model":"sdpa","id":"%s"%s}), id, settings);
    session_make(&client, body);
    if (rows > 0)
        cJSON_Delete(move_post_rows(&client, id, (uint64_t)rows, rows, true));
}

int move_count(struct http_client *at)
{
    cJSON *list = answer_get(at, "/v1/sessions");
    const int total = cJSON_GetObjectItem(list, "total")->valueint;
    cJSON_Delete(list);
    return total;
}

void move_wait(int moved, int stay)
{
    char line[64];
    snprintf(line, sizeof line, "sessions moved count=%d stay=%d", moved, stay);
    free(daemon_log_with(&server, line));
}
