/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_gemmas.c - whole passes of Gemma 1 to 3, OLMo, Cohere and StableLM compared with
 * POST /v1/trace. They put their norms in other places than Llama does. Each is written out of the
 * family's modeling file in the tree that forward_llama.h names. */
#include "fixture.h"
#include "forward_llama.h"
#include "test.h"

#define FOUR_NORMS                                                                                 \
    LLAMA_NORMS LLAMA_NORM("pre_feedforward_layernorm") ", " LLAMA_NORM(                           \
        "post_feedforward_layernorm") ", "
#define TIED LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED

/* ------------------------------------------------------------------- Gemma -- */

static struct rows gemma_norm(struct rows x, const char *name, int layer)
{
    return forward_rms_norm(x, name, layer, 1e-6, 1);
}

static struct rows gemma_feed_forward(struct rows x, int layer)
{
    return decoder_gated(x, LLAMA_BLOCK "mlp.", "gelu_pytorch_tanh", layer);
}

static struct llama gemma(void)
{
    struct llama llama = LLAMA;
    llama.norm = gemma_norm;
    llama.feed_forward = gemma_feed_forward;
    llama.embedding_scale = sqrt(16);
    llama.head = NULL;
    return llama;
}

static void pass_gemma(struct forward *forward)
{
    const struct llama llama = gemma();
    llama_pass(forward, &llama);
}

TEST(gemma)
{
    llama_check("gemma", LLAMA_CONFIG("gemma", "2", ",\"head_dim\":4"),
                TIED LLAMA_NORMS LLAMA_LAST_NORM, 2, pass_gemma);
}

/* Capped scores and logits, and a window on layers of even number. */
static void pass_gemma2(struct forward *forward)
{
    struct llama llama = gemma();
    llama.block = llama_norms_around;
    llama.attention.attention.scale = 1 / sqrt(7);
    llama.attention.attention.softcap = 2;
    llama.attention.attention.window = 3;
    llama.full_every = 2;
    llama.full_theta = 10000;
    llama_pass(forward, &llama);
    for (int64_t i = 0; i < forward->logits.count * forward->logits.columns; i++)
        forward->logits.data[i] = 3 * tanh(forward->logits.data[i] / 3);
}

TEST(gemma2)
{
    llama_check("gemma2",
                LLAMA_CONFIG("gemma2", "2",
                             ",\"head_dim\":4,\"query_pre_attn_scalar\":7,\"sliding_window\":3,"
                             "\"attn_logit_softcapping\":2.0,\"final_logit_softcapping\":3.0"),
                TIED FOUR_NORMS LLAMA_LAST_NORM, 2, pass_gemma2);
}

static struct decoder_projections gemma3_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_norm.weight", layer, 1e-6, 1);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_norm.weight", layer, 1e-6,
                       1);
    return projections;
}

static struct llama gemma3(void)
{
    struct llama llama = gemma();
    llama.layers = 3;
    llama.block = llama_norms_around;
    llama.project = gemma3_project;
    llama.attention.attention.scale = 0.25;
    llama.full_every = 3;
    llama.full_theta = 1e6;
    return llama;
}

static void pass_gemma3(struct forward *forward)
{
    struct llama llama = gemma3();
    llama.attention.attention.window = 3;
    llama_pass(forward, &llama);
}

#define GEMMA3 TIED FOUR_NORMS LLAMA_HEAD_NORMS LLAMA_LAST_NORM
#define GEMMA3_FIELDS                                                                              \
    ",\"head_dim\":4,\"query_pre_attn_scalar\":16,\"sliding_window\":3,"                           \
    "\"rope_theta\":1000000,\"rope_local_base_freq\":10000,\"sliding_window_pattern\":3"

TEST(gemma3)
{
    llama_check("gemma3", LLAMA_CONFIG("gemma3_text", "3", GEMMA3_FIELDS), GEMMA3, 3, pass_gemma3);
}

/* EmbeddingGemma sees keys nearer than sliding_window / 2 + 1 in windows, else all. It predicts no
 * tokens. */
static void pass_embedding_gemma(struct forward *forward)
{
    struct llama llama = gemma3();
    llama.attention.attention.causal = false;
    llama.attention.attention.reach = 1;
    llama_pass(forward, &llama);
    forward->logits.data = NULL;
}

TEST(embedding_gemma)
{
    static const struct decoder_case GEMMA = {
        "embedding_gemma",
        LLAMA_CONFIG("gemma3_text", "3", GEMMA3_FIELDS ",\"use_bidirectional_attention\":true"),
        GEMMA3,
        3,
        pass_embedding_gemma,
        NULL,
        0,
        true,
        false,
    };
    decoder_case_check(&GEMMA);
}

/* -------------------------------------------------------------------- OLMo -- */

/* OlmoLayerNorm has no parameters. */
static struct rows olmo_norm(struct rows x, const char *name, int layer)
{
    double ones[16];
    const struct rows y = forward_scale(x, 1);
    (void)name, (void)layer;
    for (int c = 0; c < 16; c++)
        ones[c] = 1;
    published_layer_norm(y, 0, 16, ones, NULL, 1e-5);
    return y;
}

static struct decoder_projections olmo_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_clamp(projections.q, 0.75);
    published_clamp(projections.k, 0.75);
    published_clamp(projections.v, 0.75);
    return projections;
}

static void pass_olmo(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = olmo_norm;
    llama.project = olmo_project;
    llama_pass(forward, &llama);
}

TEST(olmo)
{
    llama_check("olmo", LLAMA_CONFIG("olmo", "2", ",\"clip_qkv\":0.75"),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED "lm_head.weight 40x16", 2, pass_olmo);
}

static struct rows olmo2_norm(struct rows x, const char *name, int layer)
{
    return forward_rms_norm(x, name, layer, 0.125, 0);
}

static struct decoder_projections olmo2_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, 1, LLAMA_ATTENTION "q_norm.weight", layer, 0.125, 0);
    published_rms_norm(projections.k, 1, LLAMA_ATTENTION "k_norm.weight", layer, 0.125, 0);
    return projections;
}

static void pass_olmo2(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = olmo2_norm;
    llama.project = olmo2_project;
    llama.block = llama_norms_after;
    llama_pass(forward, &llama);
}

TEST(olmo2)
{
    llama_check(
        "olmo2", LLAMA_CONFIG("olmo2", "2", ",\"rms_norm_eps\":0.125"),
        LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED
            LLAMA_NORM("post_attention_layernorm") ", " LLAMA_NORM(
                "post_feedforward_layernorm") ", " LLAMA_ATTENTION
                                              "q_norm.weight 16, " LLAMA_ATTENTION
                                              "k_norm.weight 8, " LLAMA_LAST_NORM LLAMA_HEAD,
        2, pass_olmo2);
}

/* ------------------------------------------------------------------ Cohere -- */

/* CohereLayerNorm of (heads, head_dim). */
static void norm_heads(struct rows x, int64_t heads, const double *weight)
{
    for (int64_t h = 0; h < heads; h++)
        published_layer_norm(x, h * 4, 4, weight + h * 4, NULL, 1e-5);
}

static struct decoder_projections cohere_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    norm_heads(projections.q, LLAMA_HEADS,
               published_tensor(LLAMA_ATTENTION "q_norm.weight", layer).data);
    norm_heads(projections.k, LLAMA_KV_HEADS,
               published_tensor(LLAMA_ATTENTION "k_norm.weight", layer).data);
    return projections;
}

static struct llama cohere(void)
{
    struct llama llama = LLAMA;
    llama.norm = llama_layer_norm;
    llama.block = llama_parallel;
    llama.attention.is_every_two = true;
    llama.head = NULL;
    return llama;
}

static void pass_cohere(struct forward *forward)
{
    struct llama llama = cohere();
    llama.project = cohere_project;
    llama_pass(forward, &llama);
    forward->logits = forward_scale(forward->logits, 0.5);
}

TEST(cohere)
{
    llama_check("cohere",
                LLAMA_CONFIG("cohere", "2",
                             ",\"use_qk_norm\":true,\"logit_scale\":0.5,\"rope_theta\":10000.0"),
                TIED LLAMA_NORM("input_layernorm") ", " LLAMA_ATTENTION
                                                   "q_norm.weight 4x4, " LLAMA_ATTENTION
                                                   "k_norm.weight 2x4, " LLAMA_LAST_NORM,
                2, pass_cohere);
}

/* Layers without a window are not rotated. The logit_scale is the one that a config.json without
 * it means. */
static void pass_cohere2(struct forward *forward)
{
    struct llama llama = cohere();
    llama.attention.attention.window = 3;
    llama.full_every = 2;
    llama_pass(forward, &llama);
    forward->logits = forward_scale(forward->logits, 0.0625);
}

TEST(cohere2)
{
    llama_check("cohere2",
                LLAMA_CONFIG("cohere2", "2",
                             ",\"sliding_window\":3,\"sliding_window_pattern\":2,"
                             "\"rope_theta\":10000.0"),
                TIED LLAMA_NORM("input_layernorm") ", " LLAMA_LAST_NORM, 2, pass_cohere2);
}

/* ---------------------------------------------------------------- StableLM -- */

#define NORM_BIASES                                                                                \
    LLAMA_BLOCK "input_layernorm.bias 16, " LLAMA_BLOCK                                            \
                "post_attention_layernorm.bias 16, model.norm.bias 16, "

static void pass_stablelm(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = llama_layer_norm;
    llama.attention.rotary_dim = 2;
    llama_pass(forward, &llama);
}

#define QKV_BIASES                                                                                 \
    LLAMA_ATTENTION "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION           \
                    "v_proj.bias 8, "

TEST(stablelm)
{
    llama_check(
        "stablelm",
        LLAMA_CONFIG("stablelm", "2", ",\"partial_rotary_factor\":0.5,\"use_qkv_bias\":true"),
        LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS NORM_BIASES QKV_BIASES
            LLAMA_LAST_NORM LLAMA_HEAD,
        2, pass_stablelm);
}

/* StableLmLayerNormPerHead: a module for each head. */
static void norm_modules(struct rows x, int heads, const char *begin, int layer)
{
    for (int h = 0; h < heads; h++) {
        char name[96];
        snprintf(name, sizeof name, "%s.norms.%d.weight", begin, h);
        published_layer_norm(x, h * 4, 4, published_tensor(name, layer).data, NULL, 1e-5);
    }
}

static struct decoder_projections stablelm_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    norm_modules(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_layernorm", layer);
    norm_modules(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_layernorm", layer);
    return projections;
}

static void pass_stablelm2(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = llama_layer_norm;
    llama.block = llama_parallel;
    llama.project = stablelm_project;
    llama.attention.rotary_dim = 2;
    llama_pass(forward, &llama);
}

#define MODULE(name, number) LLAMA_ATTENTION name ".norms." number ".weight 4, "

TEST(stablelm2)
{
    llama_check("stablelm2",
                LLAMA_CONFIG("stablelm", "2",
                             ",\"partial_rotary_factor\":0.5,\"qk_layernorm\":true,"
                             "\"use_parallel_residual\":true"),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORM(
                    "input_layernorm") ", " LLAMA_BLOCK
                                       "input_layernorm.bias 16, model.norm.bias 16, " MODULE(
                                           "q_layernorm", "0") MODULE("q_layernorm", "1")
                                           MODULE("q_layernorm", "2") MODULE("q_layernorm", "3")
                                               MODULE("k_layernorm", "0") MODULE("k_layernorm", "1")
                                                   LLAMA_LAST_NORM LLAMA_HEAD,
                2, pass_stablelm2);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
