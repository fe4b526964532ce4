/* SPDX-License-Identifier: Apache-2.0 */
/* windowed.c - see windowed.h. */
#include "windowed.h"
#include "test.h"

#include "answer.h"
#include "fill.h"
#include "request_text.h"
#include "session_client.h"
#include "tensor_body.h"

enum { Q_HEADS = 4, KV_HEADS = 2, HEAD_DIM = 8, STEP_MAX = 700 };
enum { Q_COLUMNS = Q_HEADS * HEAD_DIM, KV_COLUMNS = KV_HEADS * HEAD_DIM };

static struct fill numbers = { 11 };
static float keys[WINDOWED_ROWS_MAX * KV_COLUMNS], values[WINDOWED_ROWS_MAX * KV_COLUMNS];

void windowed_fill(void)
{
    fill_floats(&numbers, keys, WINDOWED_ROWS_MAX * KV_COLUMNS, -2, 2);
    fill_floats(&numbers, values, WINDOWED_ROWS_MAX * KV_COLUMNS, -1, 1);
}

int64_t windowed_below(int64_t count)
{
    return fill_below(&numbers, count);
}

void windowed_make(struct http_client *client, const struct windowed *s)
{
    const char *dtype = s->dtype ? s->dtype : "f32";
    char body[200];
    snprintf(body, sizeof body,
             "{\"model\":\"sdpa\",\"id\":\"%s\",\"dtype\":\"%s\",\"window\":%d,\"first_keys\":%d}",
             s->id, dtype, (int)s->window, (int)s->first_keys);
    session_make(client, body);
    snprintf(body, sizeof body, "{\"model\":\"sdpa\",\"id\":\"%s\",\"dtype\":\"%s\"}",
             s->beside ? s->beside : "", dtype);
    if (s->beside)
        session_make(client, body);
}

static void add_query(struct request_text *text, const float *query, int64_t rows,
                      const char *outputs)
{
    request_text_add(text, "{\"q_heads\":%d,\"kv_heads\":%d,\"outputs\":[%s],\"query\":", Q_HEADS,
                     KV_HEADS, outputs);
    request_text_matrix(text, query, rows, Q_COLUMNS);
}

static void add_rows(struct request_text *text, int64_t first, int64_t count)
{
    assert_true(first + count <= WINDOWED_ROWS_MAX);
    request_text_add(text, ",\"key\":");
    request_text_matrix(text, keys + first * KV_COLUMNS, count, KV_COLUMNS);
    request_text_add(text, ",\"value\":");
    request_text_matrix(text, values + first * KV_COLUMNS, count, KV_COLUMNS);
}

static void add_mask(struct request_text *text, const struct windowed *s, int64_t past,
                     int64_t rows, int64_t kv_len)
{
    char *row = malloc(6 * (size_t)kv_len + 1);
    assert_non_null(row);
    request_text_add(text, ",\"mask\":[");
    for (int64_t i = 0; i < rows; i++) {
        char *end = row;
        for (int64_t k = 0; k < kv_len; k++) {
            const bool sees = k < s->first_keys || k > past + i - s->window;
            end = stpcpy(end, sees ? "true," : "false,");
        }
        end[kv_len > 0 ? -1 : 0] = '\0';
        request_text_add(text, "%s[%s]", i > 0 ? "," : "", row);
    }
    request_text_add(text, "]");
    free(row);
}

void windowed_append(struct http_client *client, struct windowed *s, int64_t rows)
{
    const char *const ids[] = { s->id, s->beside };
    struct request_text text = { .data = NULL };
    static const float query[STEP_MAX * Q_COLUMNS];
    add_query(&text, query, rows < STEP_MAX ? rows : 1, "\"lse\"");
    add_rows(&text, s->length + rows <= WINDOWED_ROWS_MAX ? s->length : 0, rows);
    request_text_add(&text, "}");
    for (int i = 0; i < 2 && ids[i]; i++)
        cJSON_Delete(session_post(client, ids[i], "attention", text.data, 200));
    s->length += rows;
    free(text.data);
}

char *windowed_rows(int64_t at, int64_t rows)
{
    struct request_text text = { .data = NULL };
    float query[Q_COLUMNS] = { 0 };
    add_query(&text, query, 1, "\"lse\"");
    add_rows(&text, at, rows);
    request_text_add(&text, ",\"at\":%d}", (int)at);
    return text.data;
}

static const char OUTPUTS[] = "\"context\",\"weights\",\"lse\"";

/* As a file, because maps of many keys are long. */
static struct http_response ask_session(struct http_client *client, const char *id,
                                        const char *body)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    return tensor_body_post_json(client, path, body);
}

/* The same rows where nothing is ever gone. */
static struct http_response ask_beside(struct http_client *client, const struct windowed *s,
                                       const float *query, int64_t past, int64_t rows, int64_t at,
                                       bool is_causal)
{
    struct request_text text = { .data = NULL };
    struct http_response answer;
    add_query(&text, query, rows, OUTPUTS);
    add_rows(&text, s->beside ? past : 0, s->beside ? rows : past + rows);
    add_mask(&text, s, past, rows, past + rows);
    request_text_add(&text, is_causal ? ",\"causal\":true" : "");
    if (s->beside) {
        request_text_add(&text, at >= 0 ? ",\"at\":%d}" : "}", (int)at);
        answer = ask_session(client, s->beside, text.data);
    } else {
        request_text_add(&text, ",\"model\":\"sdpa\",\"past_len\":%d}", (int)past);
        answer = tensor_body_post_json(client, "/v1/attention", text.data);
    }
    free(text.data);
    return answer;
}

void windowed_step(struct http_client *client, struct windowed *s, int64_t past, int64_t rows,
                   int64_t at, bool is_causal)
{
    struct request_text text = { .data = NULL };
    static float query[STEP_MAX * Q_COLUMNS];
    assert_true(rows <= STEP_MAX);
    fill_floats(&numbers, query, rows * Q_COLUMNS, -2, 2);
    add_query(&text, query, rows, OUTPUTS);
    add_rows(&text, past, rows);
    if (at >= 0)
        request_text_add(&text, ",\"at\":%d", (int)at);
    request_text_add(&text, is_causal ? ",\"causal\":true}" : "}");
    struct http_response answer = ask_session(client, s->id, text.data);
    struct http_response want = ask_beside(client, s, query, past, rows, at, is_causal);
    cJSON *header = tensor_body_header(&answer);
    tensor_body_expect_equal(&answer, header, &want, "context");
    tensor_body_expect_equal(&answer, header, &want, "weights");
    tensor_body_expect_equal(&answer, header, &want, "lse");
    if (at < 0)
        s->length = past + rows;
    const cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    assert_int_equal(atoll(cJSON_GetObjectItem(metadata, "layer_kv_len")->valuestring), s->length);
    cJSON_Delete(header);
    http_response_free(&answer);
    http_response_free(&want);
    free(text.data);
}

cJSON *windowed_look(struct http_client *client, const char *id)
{
    struct request_text text = { .data = NULL };
    float query[Q_COLUMNS];
    for (int i = 0; i < Q_COLUMNS; i++)
        query[i] = (float)(i % 7) - 3;
    add_query(&text, query, 1, OUTPUTS);
    request_text_add(&text, "}");
    cJSON *answer = session_post(client, id, "attention", text.data, 200);
    free(text.data);
    return answer;
}
