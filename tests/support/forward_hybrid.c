/* SPDX-License-Identifier: Apache-2.0 */
/* forward_hybrid.c - see forward_hybrid.h. */
#include "forward_hybrid.h"
#include "test.h"

#include "answer.h"
#include "edited_client.h"
#include "fixture.h"
#include "forward_edits.h"
#include "forward_parts.h"
#include "openapi_document.h"
#include "request_text.h"

struct rows forward_hybrid_add(struct forward *forward, const char *kind, int layer,
                               struct rows hidden_states, struct rows inputs, struct rows output)
{
    forward_edits_layer(kind, layer);
    output = forward_edits_output(forward_parts_context(layer, 1, output));
    *forward_layer_at(forward, layer) = (struct forward_layer){
        .kind = kind, .hidden_states = hidden_states, .inputs = inputs, .maps.context = output
    };
    return output;
}

struct rows forward_hybrid_add_beside(struct forward *forward, const char *kind, int layer,
                                      struct rows hidden_states, struct rows inputs,
                                      struct rows output)
{
    output = forward_hybrid_add(forward, kind, layer, hidden_states, inputs, output);
    forward_layer_at(forward, layer)->is_beside = true;
    return output;
}

void forward_hybrid_add_fed(struct forward *forward, struct rows hidden_states)
{
    forward_add_layer(
        forward, (struct forward_layer){ .kind = "feed_forward", .hidden_states = hidden_states });
}

struct rows forward_hybrid_convolve(struct rows x, const char *name, int layer)
{
    char weight[160], bias[160];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const struct rows taps = published_tensor(weight, layer);
    const bool has_bias = published_has(bias, layer);
    struct rows y = published_rows(x.count, x.columns);
    assert_int_equal(taps.count, x.columns);
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t c = 0; c < x.columns; c++) {
            double *sum = &y.data[i * x.columns + c];
            *sum = has_bias ? published_tensor(bias, layer).data[c] : 0;
            for (int64_t t = 0; t < taps.columns; t++) {
                const int64_t row = i - (taps.columns - 1) + t;
                if (row >= 0)
                    *sum += taps.data[c * taps.columns + t] * x.data[row * x.columns + c];
            }
        }
    return y;
}

static const char *mamba_name(const struct hybrid_mamba *mamba, const char *name)
{
    static char whole[160];
    snprintf(whole, sizeof whole, "%s%s", mamba->begin, name);
    return whole;
}

/* What leaves the recurrence; convolved is x, b and c of each row. */
static struct rows mamba_scan(const struct hybrid_mamba *mamba, struct rows convolved,
                              struct rows dt, int layer)
{
    const int64_t inner = convolved.columns - 2 * mamba->groups * mamba->state;
    const int64_t dim = inner / mamba->heads;
    const struct rows logs = published_tensor(mamba_name(mamba, "A_log"), layer);
    const struct rows bias = published_tensor(mamba_name(mamba, "dt_bias"), layer);
    const struct rows skip = published_tensor(mamba_name(mamba, "D"), layer);
    struct rows y = published_rows(convolved.count, inner);
    const struct rows state = published_rows(inner, mamba->state);
    for (int64_t i = 0; i < y.count; i++)
        for (int64_t c = 0; c < inner; c++) {
            const int64_t head = c / dim, group = head / (mamba->heads / mamba->groups);
            const double *x = convolved.data + i * convolved.columns;
            const double *b = x + inner + group * mamba->state;
            const double *read = b + mamba->groups * mamba->state;
            const double step = log1p(exp(dt.data[i * dt.columns + head] + bias.data[head]));
            double *sum = &y.data[i * inner + c], *s = state.data + c * mamba->state;
            *sum = skip.data[head] * x[c];
            for (int64_t n = 0; n < mamba->state; n++) {
                s[n] = exp(-exp(logs.data[head]) * step) * s[n] + step * b[n] * x[c];
                *sum += read[n] * s[n];
            }
        }
    return y;
}

static struct rows mamba_norm(const struct hybrid_mamba *mamba, struct rows x, int layer)
{
    const struct rows weight = published_tensor(mamba_name(mamba, "norm.weight"), layer);
    const int64_t part = x.columns / mamba->norm_groups;
    struct rows y = published_rows(x.count, x.columns);
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t c = 0; c < x.columns; c++) {
            const double *first = x.data + i * x.columns + c / part * part;
            double squares = 0;
            for (int64_t k = 0; k < part; k++)
                squares += first[k] * first[k] / (double)part;
            y.data[i * x.columns + c] =
                weight.data[c] * x.data[i * x.columns + c] / sqrt(squares + mamba->eps);
        }
    return y;
}

struct rows forward_hybrid_mamba(struct rows x, const struct hybrid_mamba *mamba, int layer)
{
    const struct rows all = published_linear(x, mamba_name(mamba, "in_proj"), layer);
    const int64_t shared = mamba->groups * mamba->state;
    const int64_t inner = (all.columns - 2 * shared - mamba->heads) / 2;
    const int64_t sizes[] = { inner, inner, shared, shared, mamba->heads };
    for (int64_t i = 0; mamba->multipliers && i < all.count; i++)
        for (int64_t part = 0, c = 0; part < 5; part++)
            for (int64_t k = 0; k < sizes[part]; k++, c++)
                all.data[i * all.columns + c] *= mamba->multipliers[part];
    const struct rows gate = forward_activation(published_split(all, 1, 0, inner), "silu");
    const struct rows convolved = forward_activation(
        forward_hybrid_convolve(published_split(all, 1, inner, inner + 2 * shared),
                                mamba_name(mamba, "conv1d"), layer),
        "silu");
    const struct rows dt = published_split(all, 1, all.columns - mamba->heads, mamba->heads);
    struct rows y = mamba_scan(mamba, convolved, dt, layer);
    if (mamba->norm_is_first && mamba->norm_groups > 0)
        y = mamba_norm(mamba, y, layer);
    y = forward_multiply(y, gate);
    if (!mamba->norm_is_first && mamba->norm_groups > 0)
        y = mamba_norm(mamba, y, layer);
    return published_linear(y, mamba_name(mamba, "out_proj"), layer);
}

/* ----------------------------------------------------------------------- edits -- */

/* $K is the kind of a layer. */
static const char *const EDITS[] = {
    "[{\"kind\":\"$K\",\"at\":\"hidden_states\",\"scale\":0.75,\"rows\":[[0,3]]},"
    "{\"kind\":\"$K\",\"at\":\"attention_output\",\"add\":$W,\"rows\":[1,-1]},"
    "{\"kind\":\"$K\",\"at\":\"feed_forward\",\"scale\":-0.5,\"rows\":[0,5]}]",
    "[{\"kind\":\"$K\",\"at\":\"attention_output\",\"mean\":true,\"rows\":[2]},"
    "{\"kind\":\"$K\",\"at\":\"hidden_states\",\"set\":$2W,\"rows\":[0,3]},"
    "{\"kind\":\"self\",\"at\":\"attention_output\",\"scale\":0}]",
    ("[{\"kind\":\"self\",\"at\":\"head\",\"heads\":[1,2],\"scale\":-0.5,\"rows\":[[0,4]]},"
     "{\"kind\":\"$K\",\"at\":\"hidden_states\",\"scale\":0.75,\"rows\":[[0,3]]}]"),
};

/* Of a layer beside attention, which shares the block's other places with it. */
static const char *const EDITS_BESIDE[] = {
    "[{\"kind\":\"self\",\"at\":\"hidden_states\",\"scale\":0.75,\"rows\":[[0,3]]},"
    "{\"kind\":\"$K\",\"at\":\"attention_output\",\"add\":$W,\"rows\":[1,-1]},"
    "{\"kind\":\"self\",\"at\":\"feed_forward\",\"scale\":-0.5,\"rows\":[0,5]}]",
    "[{\"kind\":\"$K\",\"at\":\"attention_output\",\"mean\":true,\"rows\":[2]},"
    "{\"kind\":\"self\",\"at\":\"attention_output\",\"scale\":0}]",
    "[{\"kind\":\"self\",\"at\":\"head\",\"heads\":[1,2],\"scale\":-0.5,\"rows\":[[0,4]]},"
    "{\"kind\":\"$K\",\"at\":\"attention_output\",\"set\":$2W,\"rows\":[0,3]}]",
};
enum { EDITS_COUNT = 3 };

/* The template with the kind in place of each $K, to be freed. */
static char *edits_of_kind(const char *template, const char *kind)
{
    struct request_text text = { .data = NULL };
    for (const char *at; (at = strstr(template, "$K")); template = at + 2)
        request_text_add(&text, "%.*s%s", (int)(at - template), template, kind);
    request_text_add(&text, "%s", template);
    return text.data;
}

static void expect_refused(const char *model, const char *fields, const char *more,
                           const char *pointer, const char *words)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",", model);
    request_text_add(&body, "%s,%s}", fields, more);
    struct http_response response = http_client_post(&client, "/v1/trace", body.data);
    answer_expect_fault(&response, 400, "option", pointer);
    if (!strstr(response.body, words))
        fail_msg("%s has not '%s'", response.body, words);
    http_response_free(&response);
    free(body.data);
}

/* What a layer beside attention has not of its own. */
static void expect_no_places(const char *model, const char *fields, const char *kind)
{
    static const char *const PLACES[] = { "hidden_states", "feed_forward", "embeddings" };
    char more[256];
    for (int i = 0; i < 3; i++) {
        snprintf(more, sizeof more, "\"edits\":[{\"kind\":\"%s\",\"at\":\"%s\",\"scale\":0}]", kind,
                 PLACES[i]);
        expect_refused(model, fields, more, "/edits/0/at", "stand beside attention");
    }
}

/* What a layer without attention has not. */
static void expect_no_attention(const char *model, const char *fields,
                                const struct forward_layer *layer, int number)
{
    char more[256], kind[64];
    snprintf(kind, sizeof kind, "kind '%s'", layer->kind);
    snprintf(more, sizeof more, "\"layers\":[%d]", number);
    expect_refused(model, fields, more, "/layers", kind);
    snprintf(more, sizeof more, "\"kinds\":[\"%s\"],\"outputs\":[\"scores\"]", layer->kind);
    expect_refused(model, fields, more, "/kinds", kind);
    snprintf(more, sizeof more, "\"edits\":[{\"kind\":\"%s\",\"hide\":[[0,1]]}]", layer->kind);
    expect_refused(model, fields, more, "/edits/0*", layer->kind);
    snprintf(more, sizeof more, "\"edits\":[{\"kind\":\"%s\",\"heads\":[0],\"scale\":0}]",
             layer->kind);
    expect_refused(model, fields, more, "/edits/0*", layer->kind);
    snprintf(more, sizeof more, JSON({"model":"%s","layer":%d,"query":[[1]]}), model, number);
    struct http_response response = http_client_post(&client, "/v1/attention", more);
    answer_expect_fault(&response, 400, "option", "/layer");
    assert_non_null(strstr(response.body, kind));
    http_response_free(&response);
}

/* What the model is said to be is as the OpenAPI document has it, with kinds of its layers. */
static void expect_described(const char *model)
{
    char path[96];
    snprintf(path, sizeof path, "/v1/models/%s", model);
    const struct openapi_call call = {
        .method = "GET", .pattern = "/v1/models/{model}", .path = path, .status = 200
    };
    struct http_response response = http_client_get(&client, path);
    openapi_document = answer_get(&client, "/openapi.json");
    openapi_seen = cJSON_CreateObject();
    openapi_expect_described(&call, &response);
    cJSON_Delete(openapi_document);
    cJSON_Delete(openapi_seen);
    openapi_document = openapi_seen = NULL;
}

void forward_hybrid_expect(const struct decoder_case *decoder, const char *fields,
                           const struct forward *forward)
{
    const char *last = "";
    expect_described(decoder->name);
    for (int i = 0; i < forward->layer_count; i++) {
        const struct forward_layer *layer = &forward->layers[i];
        if (layer->heads > 0 || strcmp(layer->kind, last) == 0)
            continue;
        last = layer->kind;
        expect_no_attention(decoder->name, fields, layer, i);
        if (layer->is_beside)
            expect_no_places(decoder->name, fields, layer->kind);
        for (int e = 0; e < EDITS_COUNT; e++) {
            char *edits = edits_of_kind(layer->is_beside ? EDITS_BESIDE[e] : EDITS[e], layer->kind);
            edited_client_expect_one(decoder->name, fields, edits, forward, i, decoder->pass);
            free(edits);
        }
    }
    expect_refused(decoder->name, fields, "\"outputs\":[\"rollout\"]", "/outputs", "rollout");
}
