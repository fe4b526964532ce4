/* SPDX-License-Identifier: Apache-2.0 */
/* trace_client.c - see trace_client.h. */
#include "trace_client.h"
#include "test.h"

#include "answer.h"
#include "daemon.h"
#include "edited_laws.h"
#include "effects_client.h"
#include "reading_client.h"
#include "request_text.h"

/* Of a row, relative in the 2-norm, also after more than 12 layers; of a weight; of a logarithm; of
 * a row and a weight where scores are sharp. */
static const double ROW_TOLERANCE = 1e-5, DEEP_ROW_TOLERANCE = 3e-5;
static const double WEIGHT_TOLERANCE = 3e-6, LOG_TOLERANCE = 1e-4;
static const double SHARP_TOLERANCE = 5e-4;

/* Of an edited pass, times 1 + its largest score. */
static const double EDITED_TOLERANCE = 1e-5;

/* Laws of edits and effects take some hundred passes, so they are held to models of few rows and
 * layers; under a sanitizer test_edits and test_effects hold them for three families. */
enum { LAW_ROWS_MAX = 128, LAW_LAYERS_MAX = 12 };

static bool has_laws(const struct forward *want, int64_t rows)
{
    return rows <= LAW_ROWS_MAX && want->layer_count <= LAW_LAYERS_MAX && daemon_slowness() <= 1;
}

/* Of the trace that is compared now. */
static struct {
    double row_tolerance, weight_tolerance, logarithm_tolerance;
    double row, weight, logarithm;
    bool is_edited;
} worst;

/* ----------------------------------------------------------------- numbers -- */

static double norm(const double *row, int64_t columns)
{
    double sum = 0;
    for (int64_t c = 0; c < columns; c++)
        sum += row[c] * row[c];
    return sqrt(sum);
}

static void expect_rows(const cJSON *answer, const char *where, const char *name, struct rows want)
{
    const int64_t shape[] = { want.count, want.columns };
    double *got = answer_numbers(answer, name, 2, shape);
    for (int64_t i = 0; i < want.count; i++) {
        double *row = got + i * want.columns;
        const double scale = norm(want.data + i * want.columns, want.columns);
        for (int64_t c = 0; c < want.columns; c++)
            row[c] -= want.data[i * want.columns + c];
        worst.row = fmax(worst.row, norm(row, want.columns) / (scale > 0 ? scale : 1));
        if (!(norm(row, want.columns) <= worst.row_tolerance * scale))
            fail_msg("%s: %s: row %d differs by %.3g of its norm", where, name, (int)i,
                     norm(row, want.columns) / scale);
    }
    free(got);
}

static void expect_each(const cJSON *answer, const char *where, const char *name, int rank,
                        const int64_t *shape, const double *want, double tolerance, double *largest)
{
    int64_t count = 1;
    double *got = answer_numbers(answer, name, rank, shape);
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    for (int64_t i = 0; i < count; i++) {
        if (got[i] != want[i])
            *largest = fmax(*largest, fabs(got[i] - want[i]));
        if (got[i] != want[i] && !(fabs(got[i] - want[i]) <= tolerance))
            fail_msg("%s: %s[%d] is %.9g, not %.9g", where, name, (int)i, got[i], want[i]);
    }
    free(got);
}

/* ------------------------------------------------------------------ layers -- */

static void add_member(struct request_text *body, const char *name, const cJSON *value)
{
    char *text = cJSON_PrintUnformatted(value);
    assert_non_null(text);
    request_text_add(body, ",\"%s\":", name);
    request_text_add(body, "%s", text);
    free(text);
}

/* The weights that POST /v1/attention answers for the layer's inputs. */
static void expect_same_attention(struct http_client *client, const char *model, int layer,
                                  const cJSON *traced)
{
    struct request_text body = { .data = NULL };
    const cJSON *keys = cJSON_GetObjectItemCaseSensitive(traced, "key_inputs");
    request_text_add(&body, "{\"model\":\"%s\",\"layer\":%d,\"outputs\":[\"weights\",\"lse\"]",
                     model, layer);
    add_member(&body, "query", cJSON_GetObjectItemCaseSensitive(traced, "inputs"));
    if (keys)
        add_member(&body, "key", keys);
    request_text_add(&body, "}");
    cJSON *answer = answer_post(client, "/v1/attention", body.data);
    answer_expect_equal(answer, traced, "weights");
    answer_expect_equal(answer, traced, "lse");
    cJSON_Delete(answer);
    free(body.data);
}

/* Of a layer without attention. */
static void expect_no_maps(const cJSON *traced, const char *where, const struct forward_layer *want)
{
    static const char *const NAMES[] = { "weights", "lse",    "scores",
                                         "masked",  "inputs", "attention_output" };
    for (int i = 0; i < (want->inputs.data ? 4 : 6); i++)
        if (cJSON_GetObjectItemCaseSensitive(traced, NAMES[i]))
            fail_msg("%s has %s", where, NAMES[i]);
}

bool trace_client_is_hybrid(const struct forward *want)
{
    for (int i = 0; i < want->layer_count; i++)
        if (want->layers[i].heads == 0)
            return true;
    return false;
}

static void expect_layer(struct http_client *client, const char *model, int layer,
                         const cJSON *traced, const struct forward_layer *want)
{
    char where[96];
    const int64_t rows = want->hidden_states.count;
    const int64_t keys = want->key_inputs.data ? want->key_inputs.count : rows;
    const int64_t shape[] = { want->heads, rows, keys };
    snprintf(where, sizeof where, "%s, layer %d (%s)", model, layer, want->kind);
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(traced, "layer");
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(traced, "kind");
    assert_true(cJSON_IsNumber(number) && cJSON_IsString(kind));
    assert_int_equal(number->valueint, layer);
    assert_string_equal(kind->valuestring, want->kind);
    expect_rows(traced, where, "hidden_states", want->hidden_states);
    if (want->inputs.data)
        expect_rows(traced, where, "inputs", want->inputs);
    if (want->maps.context.data && want->heads == 0)
        expect_rows(traced, where, "attention_output", want->maps.context);
    if (want->heads == 0) {
        expect_no_maps(traced, where, want);
        return;
    }
    if (want->key_inputs.data)
        expect_rows(traced, where, "key_inputs", want->key_inputs);
    expect_each(traced, where, "weights", 3, shape, want->maps.weights, worst.weight_tolerance,
                &worst.weight);
    expect_each(traced, where, "lse", 2, shape, want->maps.lse, worst.logarithm_tolerance,
                &worst.logarithm);
    expect_rows(traced, where, "attention_output", want->maps.context);
    if (!worst.is_edited)
        expect_same_attention(client, model, layer, traced);
}

static cJSON *trace(struct http_client *client, const char *model, const char *fields,
                    const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",", model);
    request_text_add(&body, "%s,%s}", fields, more);
    cJSON *answer = answer_post(client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

/* The same answer comes where the rows of the first layer take the place of the embedding of the
 * model's first stack. */
static void expect_same_from_embeddings(struct http_client *client, const char *model,
                                        const char *fields, const cJSON *traced, bool is_refused)
{
    static const char *const REPLACED[] = { "tokens", "token_types", "pixels", "features",
                                            "sound" };
    struct request_text text = { .data = NULL };
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(traced, "layers"), 0);
    request_text_add(&text, "{\"model\":\"%s\",", model);
    request_text_add(&text, "%s,%s}", fields, TRACE_OUTPUTS);
    cJSON *request = cJSON_Parse(text.data);
    assert_non_null(request);
    for (size_t i = 0; i < sizeof REPLACED / sizeof REPLACED[0]; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(request, REPLACED[i]);
    assert_true(cJSON_AddItemToObject(
        request, "embeddings",
        cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(first, "hidden_states"), true)));
    char *body = cJSON_PrintUnformatted(request);
    if (is_refused) {
        struct http_response response = http_client_post(client, "/v1/trace", body);
        assert_int_equal(response.status, 400);
        assert_non_null(strstr(response.body, "its layers read the tokens themselves"));
        http_response_free(&response);
        cJSON_Delete(request);
        free(body);
        free(text.data);
        return;
    }
    cJSON *answer = answer_post(client, "/v1/trace", body);
    answer_expect_equal(answer, traced, "layers");
    answer_expect_equal(answer, traced, "final_hidden_states");
    cJSON_Delete(answer);
    cJSON_Delete(request);
    free(body);
    free(text.data);
}

static void expect(struct http_client *client, const char *model, const char *fields,
                   const struct forward *want)
{
    cJSON *answer = trace(client, model, fields, TRACE_OUTPUTS);
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(answer, "layers");
    assert_int_equal(cJSON_GetArraySize(layers), want->layer_count);
    worst.row = worst.weight = worst.logarithm = 0;
    for (int i = 0; i < want->layer_count; i++)
        expect_layer(client, model, want->first_layer + i, cJSON_GetArrayItem(layers, i),
                     &want->layers[i]);
    expect_rows(answer, model, "final_hidden_states", want->final_hidden_states);
    if (want->encoder_hidden_states.data)
        expect_rows(answer, model, "encoder_hidden_states", want->encoder_hidden_states);
    print_message("%s: rows %.1e, weights %.1e, lse %.1e\n", model, worst.row, worst.weight,
                  worst.logarithm);
    if (!trace_client_is_hybrid(want))
        reading_client_expect(client, model, fields, want, worst.weight_tolerance);
    if (want->first_layer == 0 && !worst.is_edited)
        expect_same_from_embeddings(client, model, fields, answer, want->reads_tokens);
    if (!worst.is_edited && !trace_client_is_hybrid(want)
        && has_laws(want, want->final_hidden_states.count))
        edited_laws_expect(client, model, fields);
    cJSON_Delete(answer);
}

void trace_client_expect(struct http_client *client, const char *model, const char *fields,
                         const struct forward *want)
{
    worst.row_tolerance = want->layer_count > 12 ? DEEP_ROW_TOLERANCE : ROW_TOLERANCE;
    worst.weight_tolerance = WEIGHT_TOLERANCE;
    worst.logarithm_tolerance = LOG_TOLERANCE;
    expect(client, model, fields, want);
}

void trace_client_expect_edited(struct http_client *client, const char *model, const char *fields,
                                const struct forward *want)
{
    double largest = 0;
    for (int i = 0; i < want->layer_count; i++)
        largest = fmax(largest, want->layers[i].maps.largest_score);
    worst.row_tolerance = worst.weight_tolerance = EDITED_TOLERANCE * (1 + largest);
    worst.logarithm_tolerance = LOG_TOLERANCE;
    worst.is_edited = true;
    expect(client, model, fields, want);
    worst.is_edited = false;
}

void trace_client_expect_sharp(struct http_client *client, const char *model, const char *fields,
                               const struct forward *want)
{
    double largest = 0;
    for (int i = 0; i < want->layer_count; i++)
        largest = fmax(largest, want->layers[i].maps.largest_score);
    print_message("%s: scores to %.1f\n", model, largest);
    assert_true(largest > 16 && largest <= 64);
    worst.row_tolerance = worst.weight_tolerance = SHARP_TOLERANCE;
    worst.logarithm_tolerance = 64 * SHARP_TOLERANCE;
    expect(client, model, fields, want);
}

/* ------------------------------------------------------------- predictions -- */

/* The tokens of one position: in order, each with its own logarithm, and none that is left out is
 * more probable. */
static void expect_position(const char *model, const cJSON *tokens, const double *want,
                            int64_t columns)
{
    const int count = cJSON_GetArraySize(tokens);
    double least = 0;
    assert_int_equal(count, 5);
    for (int i = 0; i < count; i++) {
        const cJSON *token = cJSON_GetArrayItem(tokens, i);
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(token, "id");
        const cJSON *got = cJSON_GetObjectItemCaseSensitive(token, "logprob");
        assert_true(cJSON_IsNumber(id) && cJSON_IsNumber(got));
        assert_true(id->valueint >= 0 && id->valueint < columns);
        worst.logarithm = fmax(worst.logarithm, fabs(got->valuedouble - want[id->valueint]));
        if (!(fabs(got->valuedouble - want[id->valueint]) <= LOG_TOLERANCE))
            fail_msg("%s: the logprob of token %d is %.9g, not %.9g", model, id->valueint,
                     got->valuedouble, want[id->valueint]);
        assert_true(got->valuedouble <= least);
        least = got->valuedouble;
    }
    int more_probable = 0;
    for (int64_t c = 0; c < columns; c++)
        more_probable += want[c] > least + LOG_TOLERANCE;
    assert_true(more_probable < count);
}

void trace_client_expect_predictions(struct http_client *client, const char *model,
                                     const char *fields, const int *positions, int count,
                                     const struct forward *want)
{
    char list[256], more[512];
    const struct rows probable = forward_log_softmax(want->logits);
    snprintf(more, sizeof more, "\"outputs\":[\"predictions\"],\"top_k_tokens\":5,\"positions\":%s",
             trace_client_list(list, sizeof list, positions, count));
    cJSON *answer = trace(client, model, fields, more);
    const cJSON *predictions = cJSON_GetObjectItemCaseSensitive(answer, "predictions");
    assert_int_equal(cJSON_GetArraySize(predictions), count);
    worst.logarithm = 0;
    for (int i = 0; i < count; i++) {
        const cJSON *item = cJSON_GetArrayItem(predictions, i);
        const cJSON *position = cJSON_GetObjectItemCaseSensitive(item, "position");
        assert_true(cJSON_IsNumber(position) && position->valueint == positions[i]);
        expect_position(model, cJSON_GetObjectItemCaseSensitive(item, "tokens"),
                        probable.data + positions[i] * probable.columns, probable.columns);
    }
    print_message("%s: logprobs %.1e\n", model, worst.logarithm);
    if (count > 0 && has_laws(want, want->logits.count) && !trace_client_is_hybrid(want)
        && !strstr(fields, "\"edits\""))
        effects_client_expect_kinds(client, model, fields, positions[0]);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------ others -- */

void trace_client_expect_none(struct http_client *client, const char *model, const char *fields,
                              const char *words)
{
    char path[256];
    struct request_text body = { .data = NULL };
    snprintf(path, sizeof path, "/v1/models/%s", model);
    cJSON *answer = answer_get(client, path);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(answer, "trace")));
    const cJSON *reason = cJSON_GetObjectItemCaseSensitive(answer, "trace_reason");
    assert_true(cJSON_IsString(reason));
    if (!strstr(reason->valuestring, words))
        fail_msg("'%s' has not '%s'", reason->valuestring, words);
    cJSON_Delete(answer);
    request_text_add(&body, JSON({"model":"%s",%s}), model, fields);
    struct http_response response = http_client_post(client, "/v1/trace", body.data);
    if (response.status != 400 || !strstr(response.body, words))
        fail_msg("%ld %s has not '%s'", response.status, response.body, words);
    http_response_free(&response);
    free(body.data);
}

void trace_client_expect_inputs(struct http_client *client, const char *model, const char *inputs)
{
    char path[256];
    snprintf(path, sizeof path, "/v1/models/%s", model);
    cJSON *answer = answer_get(client, path);
    answer_expect(answer, "inputs", inputs, 0);
    cJSON_Delete(answer);
}

const char *trace_client_list(char *text, size_t size, const int *ids, int64_t count)
{
    size_t used = 0;
    for (int64_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%d", i > 0 ? ',' : '[', ids[i]);
    assert_true(count > 0 && used + 2 <= size);
    memcpy(text + used, "]", 2);
    return text;
}
