/* forward_hybrid.c - see forward_hybrid.h. */
#include "forward_hybrid.h"
#include "test.h"

#include "answer.h"
#include "edited_client.h"
#include "fixture.h"
#include "forward_edits.h"
#include "forward_parts.h"
#include "request_text.h"

struct rows forward_hybrid_add(struct forward *forward, const char *kind, int layer,
                               struct rows hidden_states, struct rows inputs, struct rows output)
{
    forward_edits_layer(kind, layer);
    output = forward_edits_output(forward_parts_context(layer, 1, output));
    forward_add_layer(forward, (struct forward_layer){ .kind = kind,
                                                       .hidden_states = hidden_states,
                                                       .inputs = inputs,
                                                       .maps.context = output });
    return output;
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

/* ----------------------------------------------------------------------- edits -- */

/* $K is the kind of a layer. */
static const char *const EDITS[] = {
    "[{\"kind\":\"$K\",\"at\":\"hidden_states\",\"scale\":0.75,\"rows\":[[0,3]]},"
    "{\"kind\":\"$K\",\"at\":\"attention_output\",\"add\":$W,\"rows\":[1,-1]},"
    "{\"kind\":\"$K\",\"at\":\"feed_forward\",\"scale\":-0.5,\"rows\":[0,5]}]",
    "[{\"kind\":\"$K\",\"at\":\"attention_output\",\"mean\":true,\"rows\":[2]},"
    "{\"kind\":\"$K\",\"at\":\"hidden_states\",\"set\":$2W,\"rows\":[0,3]},"
    "{\"kind\":\"self\",\"at\":\"attention_output\",\"scale\":0}]",
    "[{\"kind\":\"self\",\"at\":\"head\",\"heads\":[1,2],\"scale\":-0.5,\"rows\":[[0,4]]},"
    "{\"kind\":\"$K\",\"at\":\"hidden_states\",\"scale\":0.75,\"rows\":[[0,3]]}]",
};

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

void forward_hybrid_expect(const struct decoder_case *decoder, const char *fields,
                           const struct forward *forward)
{
    const char *last = "";
    for (int i = 0; i < forward->layer_count; i++) {
        const struct forward_layer *layer = &forward->layers[i];
        if (layer->heads > 0 || strcmp(layer->kind, last) == 0)
            continue;
        last = layer->kind;
        expect_no_attention(decoder->name, fields, layer, i);
        for (size_t e = 0; e < sizeof EDITS / sizeof EDITS[0]; e++) {
            char *edits = edits_of_kind(EDITS[e], layer->kind);
            edited_client_expect_one(decoder->name, fields, edits, forward, i, decoder->pass);
            free(edits);
        }
    }
    expect_refused(decoder->name, fields, "\"outputs\":[\"rollout\"]", "/outputs", "rollout");
}
