/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_gemma3n.c - the whole pass of Gemma 3n's text compared with POST /v1/trace. It is
 * written out of gemma3n/modeling_gemma3n.py of Hugging Face transformers,
 * src/transformers/models/, at 00aa0f5dc1cc. */
#include "answer.h"
#include "fixture.h"
#include "forward_decoder.h"
#include "forward_edits.h"
#include "request_text.h"
#include "test.h"

#include <math.h>

enum { LAYERS = 6, FIRST_SHARED = 4, WIDTH = 16, COLUMNS = 6, HEADS = 4, STREAMS = 3 };

static const double EPS = 1e-6;

#define ROOT  "model.language_model."
#define BLOCK ROOT "layers.#."
#define AT    BLOCK "self_attn."

/* layer_types: every other layer is full, and the last two have the keys of layers 2 and 3. */
static bool is_full(int layer)
{
    return layer % 2 == 1;
}

static int keys_of(int layer)
{
    return layer >= FIRST_SHARED ? layer - 2 : layer;
}

static struct rows norm(struct rows x, const char *name, int layer)
{
    return forward_rms_norm(x, name, layer, EPS, 0);
}

/* Gemma3nRMSNorm with with_scale False, of each head. */
static struct rows bare_norm(struct rows x, int64_t dim)
{
    const struct rows y = forward_slice(x, 0, x.count);
    for (int64_t i = 0; i < x.count * x.columns; i += dim) {
        double sum = 0;
        for (int64_t c = i; c < i + dim; c++)
            sum += x.data[c] * x.data[c];
        for (int64_t c = i; c < i + dim; c++)
            y.data[c] /= sqrt(sum / (double)dim + EPS);
    }
    return y;
}

/* Gemma3nTextAttention: a layer of the last ones has the keys and values of an earlier one. */
static struct rows attend(struct forward *forward, struct rows x, struct rows inputs,
                          struct rows key_inputs, int layer)
{
    const int of = keys_of(layer);
    const struct decoder_attention attention = {
        .attention = { .heads = HEADS,
                       .kv_heads = 2,
                       .scale = 1,
                       .causal = true,
                       .window = is_full(layer) ? 0 : 3 },
        .rotary_dim = 4,
        .theta = is_full(layer) ? 1000 : 500,
    };
    const struct rows q = published_linear(inputs, AT "q_proj", layer);
    const struct rows k = published_linear(key_inputs, AT "k_proj", of);
    const struct rows v = published_linear(key_inputs, AT "v_proj", of);
    published_rms_norm(q, HEADS, AT "q_norm.weight", layer, EPS, 0);
    published_rms_norm(k, 2, AT "k_norm.weight", of, EPS, 0);
    const struct rows y =
        decoder_attend(forward, &attention, x, inputs,
                       (struct decoder_projections){ q, k, bare_norm(v, 4) }, AT "o_proj", layer);
    if (layer >= FIRST_SHARED)
        forward_layer_at(forward, layer)->key_inputs = key_inputs;
    return y;
}

/* Gemma3nTextModel: project_per_layer_inputs() of one layer. */
static struct rows token_inputs(struct rows embedded, int layer)
{
    const struct rows table = published_tensor(ROOT "embed_tokens_per_layer.weight", 0);
    struct rows x = published_linear(embedded, ROOT "per_layer_model_projection", 0);
    x = forward_scale(published_split(x, 1, (int64_t)layer * COLUMNS, COLUMNS), 1 / sqrt(WIDTH));
    x = norm(x, ROOT "per_layer_projection_norm", 0);
    const struct rows tokens = forward_embed(table, decoder_tokens(), decoder_length);
    const struct rows own = published_split(tokens, 1, (int64_t)layer * COLUMNS, COLUMNS);
    return forward_scale(forward_add(x, forward_scale(own, sqrt(COLUMNS))), sqrt(0.5));
}

/* Gemma3nTextMLP: _gaussian_topk() where activation_sparsity is not 0. The multiplier is that of
 * 0.6, torch.distributions.Normal(0, 1).icdf(0.6). */
static struct rows feed_forward(struct rows x, int layer)
{
    static const double MULTIPLIER = 0.2533471031357997;
    const struct rows gate = published_linear(x, BLOCK "mlp.gate_proj", layer);
    for (int64_t i = 0; layer < 2 && i < gate.count; i++) {
        double *row = gate.data + i * gate.columns, mean = 0, variance = 0;
        for (int64_t c = 0; c < gate.columns; c++)
            mean += row[c] / (double)gate.columns;
        for (int64_t c = 0; c < gate.columns; c++)
            variance += (row[c] - mean) * (row[c] - mean) / (double)gate.columns;
        const double cutoff = mean + sqrt(variance) * MULTIPLIER;
        for (int64_t c = 0; c < gate.columns; c++)
            row[c] = fmax(row[c] - cutoff, 0);
    }
    const struct rows up = published_linear(x, BLOCK "mlp.up_proj", layer);
    x = forward_multiply(forward_activation(gate, "gelu_pytorch_tanh"), up);
    return published_linear(x, BLOCK "mlp.down_proj", layer);
}

/* ---------------------------------------------------------------------- AltUp -- */

/* Gemma3nTextAltUp: compute_router_modalities() of one row. */
static void modalities(struct rows x, int64_t row, int layer, double like[STREAMS])
{
    const struct rows normed = norm(forward_slice(x, row, 1), BLOCK "altup.router_norm", layer);
    const struct rows routed =
        published_linear(forward_scale(normed, 1.0 / WIDTH), BLOCK "altup.modality_router", layer);
    for (int a = 0; a < STREAMS; a++)
        like[a] = tanh(routed.data[a]);
}

/* predict(). */
static void predict(const struct rows hidden[STREAMS], struct rows predicted[STREAMS], int layer)
{
    const struct rows coefs = published_tensor(BLOCK "altup.prediction_coefs.weight", layer);
    double like[STREAMS];
    for (int j = 0; j < STREAMS; j++)
        predicted[j] = forward_slice(hidden[j], 0, hidden[j].count);
    for (int64_t i = 0; i < hidden[0].count; i++) {
        modalities(hidden[0], i, layer, like);
        for (int j = 0; j < STREAMS; j++)
            for (int a = 0; a < STREAMS; a++) {
                double coef = 0;
                for (int k = 0; k < STREAMS; k++)
                    coef += coefs.data[(j * STREAMS + a) * STREAMS + k] * like[k];
                for (int64_t c = 0; c < WIDTH; c++)
                    predicted[j].data[i * WIDTH + c] += coef * hidden[a].data[i * WIDTH + c];
            }
    }
}

/* correct(), with altup_coef_clip 0.3. */
static void correct(const struct rows predicted[STREAMS], struct rows activated,
                    struct rows hidden[STREAMS], int layer)
{
    const struct rows coefs = published_tensor(BLOCK "altup.correction_coefs.weight", layer);
    double like[STREAMS];
    for (int j = 0; j < STREAMS; j++)
        hidden[j] = forward_slice(predicted[j], 0, predicted[j].count);
    for (int64_t i = 0; i < activated.count; i++) {
        modalities(activated, i, layer, like);
        for (int j = 0; j < STREAMS; j++) {
            double coef = 1;
            for (int k = 0; k < STREAMS; k++)
                coef += fmax(-0.3, fmin(0.3, coefs.data[j * STREAMS + k])) * like[k];
            for (int64_t c = 0; c < WIDTH; c++)
                hidden[j].data[i * WIDTH + c] +=
                    coef * (activated.data[i * WIDTH + c] - predicted[0].data[i * WIDTH + c]);
        }
    }
}

/* A projected row as large as the first. */
static struct rows equalized(struct rows x, struct rows first)
{
    const struct rows y = forward_slice(x, 0, x.count);
    for (int64_t i = 0; i < x.count; i++) {
        double own = 0, target = 0;
        for (int64_t c = 0; c < WIDTH; c++) {
            own += x.data[i * WIDTH + c] * x.data[i * WIDTH + c] / WIDTH;
            target += first.data[i * WIDTH + c] * first.data[i * WIDTH + c] / WIDTH;
        }
        for (int64_t c = 0; c < WIDTH; c++)
            y.data[i * WIDTH + c] *= sqrt(target) / sqrt(fmax(own, 1e-5));
    }
    return y;
}

/* ---------------------------------------------------------------------- blocks -- */

/* Gemma3nTextLaurelBlock. */
static struct rows laurel(struct rows x, int layer)
{
    struct rows y = published_linear(x, BLOCK "laurel.linear_left", layer);
    y = published_linear(y, BLOCK "laurel.linear_right", layer);
    return forward_add(x, norm(y, BLOCK "laurel.post_laurel_norm", layer));
}

/* Gemma3nTextDecoderLayer. */
static void block(struct forward *forward, struct rows hidden[STREAMS], struct rows *embedded,
                  struct rows *inputs, int layer)
{
    struct rows predicted[STREAMS];
    predict(hidden, predicted, layer);
    if (layer == 0)
        predicted[0] = forward_edits_enter("self", 1, layer, predicted[0]);
    else
        predicted[0] = forward_edits_enter("self", layer, layer, predicted[0]);
    inputs[layer] = norm(predicted[0], BLOCK "input_layernorm", layer);
    const struct rows low = laurel(inputs[layer], layer);
    struct rows y = attend(forward, predicted[0], inputs[layer], inputs[keys_of(layer)], layer);
    struct rows x = forward_add(predicted[0], norm(y, BLOCK "post_attention_layernorm", layer));
    x = forward_scale(forward_add(x, low), 1 / sqrt(2));
    y = feed_forward(norm(x, BLOCK "pre_feedforward_layernorm", layer), layer);
    y = forward_edits_fed("self", layer, y);
    x = forward_add(x, norm(y, BLOCK "post_feedforward_layernorm", layer));
    correct(predicted, x, hidden, layer);
    const struct rows scale = published_tensor(BLOCK "altup.correct_output_scale", layer);
    x = forward_slice(hidden[0], 0, hidden[0].count);
    for (int64_t i = 0; i < x.count * WIDTH; i++)
        x.data[i] *= scale.data[i % WIDTH];
    x = forward_activation(published_linear(x, BLOCK "per_layer_input_gate", layer),
                           "gelu_pytorch_tanh");
    x = forward_multiply(x, token_inputs(*embedded, layer));
    x = published_linear(x, BLOCK "per_layer_projection", layer);
    x = norm(x, BLOCK "post_per_layer_input_norm", layer);
    for (int j = 1; j < STREAMS; j++)
        hidden[j] = forward_add(hidden[j], x);
}

/* Gemma3nForCausalLM with final_logit_softcapping 4. */
static void pass_gemma3n(struct forward *forward)
{
    static const char *const SPREAD[] = { ROOT "altup_projections.0", ROOT "altup_projections.1" };
    static const char *const JOIN[] = { ROOT "altup_unembed_projections.0",
                                        ROOT "altup_unembed_projections.1" };
    struct rows inputs[LAYERS], hidden[STREAMS];
    const struct rows table = published_tensor(ROOT "embed_tokens.weight", 0);
    struct rows embedded = forward_scale(forward_embed(table, decoder_tokens(), decoder_length), 4);
    forward->reads_tokens = true;
    embedded = forward_edits_embedded("self", embedded);
    hidden[0] = embedded;
    for (int j = 1; j < STREAMS; j++)
        hidden[j] = equalized(published_linear(embedded, SPREAD[j - 1], 0), embedded);
    for (int layer = 0; layer < LAYERS; layer++)
        block(forward, hidden, &embedded, inputs, layer);
    struct rows x = forward_slice(hidden[0], 0, hidden[0].count);
    for (int j = 1; j < STREAMS; j++)
        x = forward_add(x, equalized(published_linear(hidden[j], JOIN[j - 1], 0), hidden[0]));
    forward->final_hidden_states = norm(forward_scale(x, 1.0 / STREAMS), ROOT "norm", 0);
    forward->logits = forward_product(forward->final_hidden_states, table);
    for (int64_t i = 0; i < forward->logits.count * forward->logits.columns; i++)
        forward->logits.data[i] = 4 * tanh(forward->logits.data[i] / 4);
}

/* Layers that share keys have projections of their own in the file, which nothing reads. */
#define TENSORS                                                                                    \
    AT "q_proj.weight 16x16, " AT "k_proj.weight 8x16, " AT "v_proj.weight 8x16, " AT              \
       "o_proj.weight 16x16, " AT "q_norm.weight 4, " AT "k_norm.weight 4, " BLOCK                 \
       "mlp.gate_proj.weight 24x16, " BLOCK "mlp.up_proj.weight 24x16, " BLOCK                     \
       "mlp.down_proj.weight 16x24, " BLOCK "input_layernorm.weight 16, " BLOCK                    \
       "post_attention_layernorm.weight 16, " BLOCK "pre_feedforward_layernorm.weight 16, " BLOCK  \
       "post_feedforward_layernorm.weight 16, " BLOCK                                              \
       "post_per_layer_input_norm.weight 16, " BLOCK "per_layer_input_gate.weight 6x16, " BLOCK    \
       "per_layer_projection.weight 16x6, " BLOCK "altup.correct_output_scale 16, " BLOCK          \
       "altup.correction_coefs.weight 3x3, " BLOCK "altup.prediction_coefs.weight 9x3, " BLOCK     \
       "altup.modality_router.weight 3x16, " BLOCK "altup.router_norm.weight 16, " BLOCK           \
       "laurel.linear_left.weight 5x16, " BLOCK "laurel.linear_right.weight 16x5, " BLOCK          \
       "laurel.post_laurel_norm.weight 16, " ROOT "embed_tokens.weight 40x16, " ROOT               \
       "embed_tokens_per_layer.weight 40x36, " ROOT                                                \
       "per_layer_model_projection.weight 36x16, " ROOT                                            \
       "per_layer_projection_norm.weight 6, " ROOT "altup_projections.0.weight 16x16, " ROOT       \
       "altup_projections.1.weight 16x16, " ROOT "altup_unembed_projections.0.weight 16x16, " ROOT \
       "altup_unembed_projections.1.weight 16x16, " ROOT "norm.weight 16"

#define CONFIG                                                                                     \
    "{\"model_type\":\"gemma3n\",\"vision_config\":{\"model_type\":\"gemma3n_vision\"},"           \
    "\"audio_config\":null,\"tie_word_embeddings\":true,\"text_config\":{"                         \
    "\"model_type\":\"gemma3n_text\",\"hidden_size\":16,\"intermediate_size\":[24,24,24,24,24,24]" \
    ","                                                                                            \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":4,\"num_hidden_layers\":6,"  \
    "\"num_kv_shared_layers\":2,\"sliding_window\":3,"                                             \
    "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","             \
    "\"full_attention\",\"sliding_attention\",\"full_attention\"],"                                \
    "\"rope_theta\":1000.0,\"rope_local_base_freq\":500.0,\"hidden_size_per_layer_input\":6,"      \
    "\"vocab_size\":40,\"vocab_size_per_layer_input\":40,\"final_logit_softcapping\":4.0,"         \
    "\"activation_sparsity_pattern\":[0.6,0.6,0.0,0.0,0.0,0.0],\"altup_active_idx\":0,"            \
    "\"altup_coef_clip\":0.3,\"altup_correct_scale\":true,\"altup_num_inputs\":3,"                 \
    "\"laurel_rank\":5,\"rms_norm_eps\":1e-06}}"

TEST(gemma3n)
{
    static const struct decoder_case GEMMA3N = { "gemma3n", CONFIG, TENSORS, LAYERS, pass_gemma3n,
                                                 NULL,      0,      false,   true };
    decoder_case_check(&GEMMA3N);
}

/* Between layers a token has several rows, and the head is of one. */
TEST(refused)
{
    static const char *const OUTPUTS[] = { "lens", "contributions" };
    struct request_text body = { .data = NULL };
    fixture_serve("--models", directory);
    for (int i = 0; i < 2; i++) {
        request_text_add(&body,
                         "{\"model\":\"gemma3n\",\"tokens\":[1,2],\"outputs\":[\"%s\"],"
                         "\"targets\":[{\"position\":1,\"token\":2}]}",
                         OUTPUTS[i]);
        answer_refused(&client, "/v1/trace", body.data, 400, "option", "/outputs");
        free(body.data);
        body = (struct request_text){ .data = NULL };
    }
    answer_refused(&client, "/v1/trace", "{\"model\":\"gemma3n\",\"embeddings\":[[1]]}", 400,
                   "field", "/embeddings");
    fixture_stop(NULL);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
