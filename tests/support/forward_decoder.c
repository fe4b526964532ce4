/* SPDX-License-Identifier: Apache-2.0 */
/* forward_decoder.c - see forward_decoder.h. */
#include "forward_decoder.h"
#include "test.h"

#include "answer.h"
#include "edited_client.h"
#include "edited_laws.h"
#include "fixture.h"
#include "forward_edits.h"
#include "forward_hybrid.h"
#include "forward_session.h"
#include "reading_client.h"
#include "request_text.h"
#include "trace_client.h"

enum { VOCABULARY = 40, LENGTH_DEFAULT = 11, LENGTH_MAX = 1024, FIRST_TOKENS = 6 };

/* Passes of more rows or layers are not compared with edits. */
enum { EDITED_LENGTH_MAX = 16, EDITED_LAYERS_MAX = 12 };

int64_t decoder_length;

/* Tokens that come again, the first and the last of the vocabulary among them. */
const int *decoder_tokens(void)
{
    static int tokens[LENGTH_MAX];
    for (int i = 0; i < LENGTH_MAX; i++)
        tokens[i] = i == 3 ? VOCABULARY - 1 : (i * i * 7 + i / 5 * 3) % VOCABULARY;
    return tokens;
}

/* ---------------------------------------------------------------- one block -- */

static void rotate(const struct decoder_attention *attention, struct rows x, int64_t heads)
{
    double frequencies[64];
    const double *by = attention->frequencies ? attention->frequencies : frequencies;
    const double factor = attention->frequencies ? attention->factor : 1;
    if (attention->rotary_dim == 0)
        return;
    published_frequencies(frequencies, attention->rotary_dim, attention->theta);
    if (attention->is_every_two)
        published_rotate_every_two_by(x, heads, attention->rotary_dim, by, factor);
    else
        published_rotate_half_by(x, heads, attention->rotary_dim, by, factor);
}

struct rows decoder_attend(struct forward *forward, const struct decoder_attention *attention,
                           struct rows hidden_states, struct rows inputs,
                           struct decoder_projections projections, const char *output, int layer)
{
    const int64_t heads = attention->attention.heads;
    const int64_t kv_heads = attention->attention.kv_heads ? attention->attention.kv_heads : heads;
    rotate(attention, projections.q, heads);
    rotate(attention, projections.k, kv_heads);
    if (attention->rotated)
        attention->rotated(projections, layer);
    forward_edits_layer("self", layer);
    const struct published_answer maps = forward_attend(
        &attention->attention, projections.q, projections.k, projections.v, output, layer);
    *forward_layer_at(forward, layer) = (struct forward_layer){ .kind = "self",
                                                                .heads = heads,
                                                                .hidden_states = hidden_states,
                                                                .inputs = inputs,
                                                                .maps = maps };
    return maps.context;
}

static struct rows linear_behind(struct rows x, const char *begin, const char *name, int layer)
{
    char whole[160];
    snprintf(whole, sizeof whole, "%s%s", begin, name);
    return published_linear(x, whole, layer);
}

struct decoder_projections decoder_project(struct rows x, const char *begin, int layer)
{
    return (struct decoder_projections){ linear_behind(x, begin, "q_proj", layer),
                                         linear_behind(x, begin, "k_proj", layer),
                                         linear_behind(x, begin, "v_proj", layer) };
}

struct rows decoder_gated(struct rows x, const char *begin, const char *activation, int layer)
{
    const struct rows gate =
        forward_activation(linear_behind(x, begin, "gate_proj", layer), activation);
    const struct rows up = linear_behind(x, begin, "up_proj", layer);
    return linear_behind(forward_multiply(gate, up), begin, "down_proj", layer);
}

struct rows decoder_up_down(struct rows x, const char *up, const char *activation, const char *down,
                            int layer)
{
    x = published_linear(forward_activation(published_linear(x, up, layer), activation), down,
                         layer);
    return forward_edits_fed("self", layer, x);
}

/* --------------------------------------------------------------- comparing -- */

static cJSON *trace(const char *model, const char *fields)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",%s," TRACE_OUTPUTS "}", model, fields);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

/* The rows of whole that first has too must be equal. */
static void expect_same_rows(const cJSON *first, const cJSON *whole)
{
    const cJSON *row = NULL, *of_whole = whole ? whole->child : NULL;
    cJSON_ArrayForEach(row, first) {
        assert_non_null(of_whole);
        assert_true(cJSON_Compare(row, of_whole, true));
        of_whole = of_whole->next;
    }
}

/* A causal model's rows do not change by a bit when tokens are put behind them. */
static void expect_causal(const cJSON *first, const cJSON *whole)
{
    static const char *const NAMES[] = { "inputs", "hidden_states", "attention_output" };
    const cJSON *layer = NULL, *of_whole = cJSON_GetObjectItem(whole, "layers")->child;
    cJSON_ArrayForEach(layer, cJSON_GetObjectItem(first, "layers")) {
        for (int i = 0; i < 3; i++)
            expect_same_rows(cJSON_GetObjectItem(layer, NAMES[i]),
                             cJSON_GetObjectItem(of_whole, NAMES[i]));
        const cJSON *head = NULL, *lse = cJSON_GetObjectItem(of_whole, "lse");
        const cJSON *head_of_whole = lse ? lse->child : NULL;
        cJSON_ArrayForEach(head, cJSON_GetObjectItem(layer, "lse")) {
            expect_same_rows(head, head_of_whole);
            head_of_whole = head_of_whole->next;
        }
        of_whole = of_whole->next;
    }
    expect_same_rows(cJSON_GetObjectItem(first, "final_hidden_states"),
                     cJSON_GetObjectItem(whole, "final_hidden_states"));
}

/* Texts answer in a batch, to the bit, what they answer alone. */
static void expect_batch(const char *model, const char *first_fields, const char *whole_fields,
                         const cJSON *first, const cJSON *whole)
{
    struct request_text body = { .data = NULL };
    const cJSON *const alone[] = { first, whole, first };
    request_text_add(&body, "{\"model\":\"%s\"," TRACE_OUTPUTS ",\"requests\":[{%s},{%s},{%s}]}",
                     model, first_fields, whole_fields, first_fields);
    cJSON *answer = answer_post(&client, "/v1/trace/batch", body.data);
    free(body.data);
    const cJSON *results = cJSON_GetObjectItem(answer, "results");
    assert_int_equal(cJSON_GetArraySize(results), 3);
    for (int i = 0; i < 3; i++)
        assert_true(cJSON_Compare(cJSON_GetArrayItem(results, i), alone[i], true));
    cJSON_Delete(answer);
}

static void expect_laws(const char *model, const char *first_fields, const char *whole_fields,
                        bool is_causal)
{
    cJSON *first = trace(model, first_fields), *whole = trace(model, whole_fields);
    if (is_causal) {
        expect_causal(first, whole);
        forward_session_expect(&client, model, decoder_tokens(), decoder_length, whole);
    } else {
        forward_session_refused(&client, model);
    }
    expect_batch(model, first_fields, whole_fields, first, whole);
    cJSON_Delete(first);
    cJSON_Delete(whole);
}

/* Lens and contributions. Two of the models cap their logits. */
static void expect_reading(const struct decoder_case *decoder, const char *fields,
                           const struct forward *forward)
{
    const double softcap = strcmp(decoder->name, "gemma2") == 0        ? 3
                           : strcmp(decoder->name, "gemma4") == 0      ? 4
                           : strcmp(decoder->name, "mpt_learned") == 0 ? 0.5
                                                                       : 0;
    reading_client_expect_lens(decoder->name, fields, forward, decoder->pass);
    if (decoder_length <= EDITED_LENGTH_MAX) /* each part is a pass in double */
        reading_client_expect_contributions(decoder->name, fields, NULL, forward, softcap,
                                            decoder->pass);
}

void decoder_case_check(const struct decoder_case *decoder)
{
    decoder_case_check_blocks(decoder, decoder->layers);
}

void decoder_case_check_blocks(const struct decoder_case *decoder, int blocks)
{
    static struct forward forward;
    static char list[6 * LENGTH_MAX], whole[6 * LENGTH_MAX], first[128];
    decoder_length = decoder->length > 0 ? decoder->length : LENGTH_DEFAULT;
    const int positions[] = { 0, 4, (int)decoder_length - 1 };
    assert_true(decoder_length <= LENGTH_MAX);
    memset(&forward, 0, sizeof forward);
    published_open(decoder->config, decoder->tensors, blocks,
                   decoder->dtype ? decoder->dtype : "F32");
    published_save(fixture_path(decoder->name), decoder->config);
    decoder->pass(&forward);
    const bool is_hybrid = trace_client_is_hybrid(&forward);
    assert_int_equal(forward.layer_count, decoder->layers);
    snprintf(whole, sizeof whole, "\"tokens\":%s",
             trace_client_list(list, sizeof list, decoder_tokens(), decoder_length));
    snprintf(first, sizeof first, "\"tokens\":%s",
             trace_client_list(list, sizeof list, decoder_tokens(), FIRST_TOKENS));
    fixture_serve("--models", directory);
    trace_client_expect(&client, decoder->name, whole, &forward);
    if (forward.logits.data)
        trace_client_expect_predictions(&client, decoder->name, whole, positions, 3, &forward);
    expect_laws(decoder->name, first, whole, !decoder->is_bidirectional);
    if (!is_hybrid)
        reading_client_expect_repeats(decoder->name, whole, decoder_tokens(), decoder_length,
                                      &forward);
    if (forward.logits.data && decoder->layers <= EDITED_LAYERS_MAX && !decoder->norms_follow)
        expect_reading(decoder, whole, &forward);
    if (decoder_length <= EDITED_LENGTH_MAX && !is_hybrid)
        edited_laws_expect_prefix(&client, decoder->name, decoder_tokens(), decoder_length);
    if (decoder_length <= EDITED_LENGTH_MAX && decoder->layers <= EDITED_LAYERS_MAX && !is_hybrid)
        edited_client_expect(decoder->name, whole, &forward, decoder->pass);
    if (is_hybrid)
        forward_hybrid_expect(decoder, whole, &forward);
    fixture_stop(NULL);
    published_close();
}
