/* SPDX-License-Identifier: Apache-2.0 */
/* spread.c [URL]... - one cache of keys and values that no single daemon has: it is spread over
 * all daemons that are named, and attention over it is the merge of their answers.
 *
 *     attnd --listen 127.0.0.1:8081 & attnd --listen 127.0.0.1:8082 &
 *     cc -O2 examples/sessions/spread.c examples/sessions/daemon.c \
 *         $(pkg-config --cflags --libs libcurl libcjson) -lm -o build/spread
 *     build/spread http://127.0.0.1:8081 http://127.0.0.1:8082
 *
 * A session at each daemon holds a part of the keys. A step appends one key and value to the part
 * whose turn it is, and sends the query to all: "partial" answers a context and its log-sum-exp.
 * POST /v1/attention/merge, at any of them, makes of these the context over all keys. At the end
 * the same step over the whole cache, in one request, says how much that differs. */
#include "daemon.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DAEMONS_MAX = 16, KEYS = 600, STEPS = 20, BLOCK = 50 };
enum { HEADS = 4, KEY_HEADS = 2, WIDTH = 16, QUERY_COLUMNS = HEADS * WIDTH };
enum { KEY_COLUMNS = KEY_HEADS * WIDTH, ROWS = KEYS + STEPS };

struct part {
    struct daemon daemon;
    char session[DAEMON_ID_BYTES];
    int length;
};

static float queries[STEPS][QUERY_COLUMNS], keys[ROWS][KEY_COLUMNS], values[ROWS][KEY_COLUMNS];

/* Numbers in [-2, 2), the same at each run. */
static void fill(float *numbers, int count, uint32_t seed)
{
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = (float)(seed >> 8) / (1 << 22) - 2;
    }
}

static cJSON *new_request(const char *output)
{
    cJSON *request = cJSON_CreateObject();
    cJSON_AddItemToObject(request, "outputs", cJSON_CreateStringArray(&output, 1));
    return request;
}

static void add_rows(cJSON *request, int from, int count)
{
    cJSON_AddItemToObject(request, "key", rows_to_json(keys[from], count, KEY_COLUMNS));
    cJSON_AddItemToObject(request, "value", rows_to_json(values[from], count, KEY_COLUMNS));
    cJSON_AddNumberToObject(request, "kv_heads", KEY_HEADS);
}

static void add_query(cJSON *request, int step)
{
    cJSON_AddItemToObject(request, "query", rows_to_json(queries[step], 1, QUERY_COLUMNS));
    cJSON_AddNumberToObject(request, "q_heads", HEADS);
}

static cJSON *ask(struct part *part, cJSON *request)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", part->session);
    return daemon_post(&part->daemon, path, request);
}

/* Blocks of the keys that are there at the beginning go to the parts in turn. Rows are appended by
 * a query that looks at them; its answer is of no use. */
static void share_out(struct part *parts, int part_count)
{
    for (int from = 0, turn = 0; from < KEYS; from += BLOCK, turn++) {
        struct part *part = &parts[turn % part_count];
        cJSON *request = new_request("lse");
        add_query(request, 0);
        add_rows(request, from, BLOCK);
        cJSON_AddNumberToObject(request, "at", part->length);
        cJSON_Delete(ask(part, request));
        part->length += BLOCK;
    }
}

/* The context over all keys of all parts; the step's own key goes to one of them. */
static void attend(struct part *parts, int part_count, int step, float context[QUERY_COLUMNS])
{
    cJSON *merge = cJSON_CreateObject(), *answers = cJSON_AddArrayToObject(merge, "parts");
    cJSON_AddStringToObject(merge, "model", "sdpa");
    for (int i = 0; i < part_count; i++) {
        cJSON *request = new_request("context"), *part = cJSON_CreateObject();
        add_query(request, step);
        cJSON_AddTrueToObject(request, "partial");
        if (step % part_count == i) {
            add_rows(request, KEYS + step, 1);
            cJSON_AddNumberToObject(request, "at", parts[i].length++);
        }
        cJSON *answer = ask(&parts[i], request);
        cJSON_AddItemToObject(part, "context", cJSON_DetachItemFromObject(answer, "context"));
        cJSON_AddItemToObject(part, "lse", cJSON_DetachItemFromObject(answer, "lse"));
        cJSON_AddItemToArray(answers, part);
        cJSON_Delete(answer);
    }
    cJSON *answer = daemon_post(&parts[0].daemon, "/v1/attention/merge", merge);
    rows_from_json(context, 1, QUERY_COLUMNS, cJSON_GetObjectItem(answer, "context"));
    cJSON_Delete(answer);
}

/* The same in one request that has all keys and values. */
static void attend_whole(struct daemon *daemon, int step, float context[QUERY_COLUMNS])
{
    cJSON *request = new_request("context");
    cJSON_AddStringToObject(request, "model", "sdpa");
    add_query(request, step);
    add_rows(request, 0, KEYS + step + 1);
    cJSON *answer = daemon_post(daemon, "/v1/attention", request);
    rows_from_json(context, 1, QUERY_COLUMNS, cJSON_GetObjectItem(answer, "context"));
    cJSON_Delete(answer);
}

int main(int argc, char **argv)
{
    static struct part parts[DAEMONS_MAX];
    static const char *const ONE[] = { "http://127.0.0.1:8080" };
    const char *const *urls = argc > 1 ? (const char *const *)argv + 1 : ONE;
    const int count = argc > 1 ? argc - 1 : 1;
    float merged[QUERY_COLUMNS], whole[QUERY_COLUMNS];
    double most = 0;

    if (count > DAEMONS_MAX)
        fail(urls[DAEMONS_MAX], "more daemons than spread.c takes");
    fill(queries[0], STEPS * QUERY_COLUMNS, 1);
    fill(keys[0], ROWS * KEY_COLUMNS, 2);
    fill(values[0], ROWS * KEY_COLUMNS, 3);
    for (int i = 0; i < count; i++) {
        daemon_open(&parts[i].daemon, urls[i]);
        daemon_make_session(&parts[i].daemon, "sdpa", parts[i].session);
    }
    share_out(parts, count);
    for (int step = 0; step < STEPS; step++) {
        attend(parts, count, step, merged);
        attend_whole(&parts[0].daemon, step, whole);
        for (int c = 0; c < QUERY_COLUMNS; c++)
            most = fmax(most, fabs((double)merged[c] - whole[c]));
    }
    for (int i = 0; i < count; i++) {
        printf("%d keys at %s\n", parts[i].length, urls[i]);
        daemon_delete(&parts[i].daemon, parts[i].session);
        daemon_close(&parts[i].daemon);
    }
    printf("largest difference to the whole: %.2g\n", most);
    return 0;
}
