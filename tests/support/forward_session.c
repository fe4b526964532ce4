/* SPDX-License-Identifier: Apache-2.0 */
/* forward_session.c - see forward_session.h. */
#include "forward_session.h"
#include "test.h"

#include "request_text.h"
#include "session_client.h"
#include "trace_client.h"

/* Of numbers of one row: rows of few tokens are computed in another order than those of many. */
static const double TOLERANCE = 2e-5;

/* The numbers of a piece's row must be the first ones of the row of the whole, within a tolerance
 * of the row's largest number. */
static void expect_close_row(const cJSON *row, const cJSON *want)
{
    double largest = 1;
    const cJSON *number;
    cJSON_ArrayForEach(number, want)
        largest = fmax(largest, fabs(number->valuedouble));
    want = want->child;
    cJSON_ArrayForEach(number, row) {
        assert_non_null(want);
        assert_true(fabs(number->valuedouble - want->valuedouble) <= TOLERANCE * largest);
        want = want->next;
    }
}

/* Rows of a piece against the rows of the whole, from row first on. */
static void expect_close_rows(const cJSON *rows, const cJSON *whole, int64_t first)
{
    const cJSON *row = NULL, *want = cJSON_GetArrayItem(whole, (int)first);
    assert_true(cJSON_IsArray(rows));
    cJSON_ArrayForEach(row, rows) {
        assert_non_null(want);
        expect_close_row(row, want);
        want = want->next;
    }
}

static void expect_close_layer(const cJSON *layer, const cJSON *whole, int64_t first)
{
    static const char *const NAMES[] = { "inputs", "hidden_states", "attention_output" };
    const cJSON *head, *weights = cJSON_GetObjectItem(whole, "weights");
    for (int i = 0; i < 3; i++)
        if (cJSON_GetObjectItem(whole, NAMES[i]))
            expect_close_rows(cJSON_GetObjectItem(layer, NAMES[i]),
                              cJSON_GetObjectItem(whole, NAMES[i]), first);
    if (!weights) /* it has no attention */
        return;
    const cJSON *of_whole = weights->child;
    cJSON_ArrayForEach(head, cJSON_GetObjectItem(layer, "weights")) {
        expect_close_rows(head, of_whole, first);
        of_whole = of_whole->next;
    }
    of_whole = cJSON_GetObjectItem(whole, "lse")->child;
    cJSON_ArrayForEach(head, cJSON_GetObjectItem(layer, "lse")) {
        const cJSON *number, *want = cJSON_GetArrayItem(of_whole, (int)first);
        cJSON_ArrayForEach(number, head) {
            const double bound = TOLERANCE * fmax(1, fabs(want->valuedouble));
            assert_true(fabs(number->valuedouble - want->valuedouble) <= bound);
            want = want->next;
        }
        of_whole = of_whole->next;
    }
}

/* The rows that entered a layer, in a session of their own. A layer whose keys are those of an
 * earlier one, which came before, finds them there. */
static void expect_attention(struct http_client *client, const cJSON *layer, int64_t first)
{
    struct request_text body = { .data = NULL };
    char *inputs = cJSON_PrintUnformatted(cJSON_GetObjectItem(layer, "inputs"));
    const bool shares = cJSON_HasObjectItem(layer, "key_inputs");
    request_text_add(&body, "{\"layer\":%d,\"outputs\":[\"weights\",\"lse\"],",
                     cJSON_GetObjectItem(layer, "layer")->valueint);
    if (shares) {
        request_text_add(&body, "\"past_len\":%d,", (int)first);
        request_text_add(&body, "\"query\":%s}", inputs);
    } else {
        request_text_add(&body, "\"input\":%s}", inputs);
    }
    cJSON *answer = session_post(client, "layers", "attention", body.data, 200);
    static const char *const NAMES[] = { "weights", "lse" };
    for (int i = 0; i < 2; i++)
        assert_true(cJSON_Compare(cJSON_GetObjectItem(answer, NAMES[i]),
                                  cJSON_GetObjectItem(layer, NAMES[i]), true));
    cJSON_Delete(answer);
    free(inputs);
    free(body.data);
}

static void send_piece(struct http_client *client, const int *tokens, int64_t first, int64_t count,
                       const cJSON *whole)
{
    char list[1024];
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"at\":%d,\"tokens\":%s," TRACE_OUTPUTS "}", (int)first,
                     trace_client_list(list, sizeof list, tokens + first, count));
    cJSON *answer = session_post(client, "tokens", "trace", body.data, 200);
    assert_int_equal(cJSON_GetObjectItem(answer, "kv_len")->valueint, first + count);
    const cJSON *layer = NULL;
    const cJSON *of_whole = cJSON_GetObjectItem(whole, "layers")->child;
    cJSON_ArrayForEach(layer, cJSON_GetObjectItem(answer, "layers")) {
        expect_close_layer(layer, of_whole, first);
        if (cJSON_GetObjectItem(layer, "weights"))
            expect_attention(client, layer, first);
        of_whole = of_whole->next;
    }
    assert_null(of_whole);
    expect_close_rows(cJSON_GetObjectItem(answer, "final_hidden_states"),
                      cJSON_GetObjectItem(whole, "final_hidden_states"), first);
    cJSON_Delete(answer);
    free(body.data);
}

static void make(struct http_client *client, const char *model, const char *id)
{
    char body[160];
    snprintf(body, sizeof body, JSON({"model":"%s","id":"%s"}), model, id);
    session_make(client, body);
}

void forward_session_expect(struct http_client *client, const char *model, const int *tokens,
                            int64_t count, const cJSON *whole)
{
    static const int64_t PIECES[] = { 3, 1, 1, 4, 1 };
    int64_t first = 0;
    make(client, model, "tokens");
    make(client, model, "layers");
    for (int i = 0; first < count; i++) {
        const int64_t piece = PIECES[i % (int)(sizeof PIECES / sizeof PIECES[0])];
        const int64_t left = count - first;
        send_piece(client, tokens, first, piece < left ? piece : left, whole);
        first += piece < left ? piece : left;
    }
    session_delete(client, "tokens", 204);
    session_delete(client, "layers", 204);
}

void forward_session_refused(struct http_client *client, const char *model)
{
    make(client, model, "tokens");
    session_refused(client, "tokens", "trace", JSON({"tokens":[1]}), 400, "option", "cannot go on");
    session_delete(client, "tokens", 204);
}
