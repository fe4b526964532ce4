/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_hybrids.c - GGUF files of decoders some of whose layers are no attention trace as the
 * same checkpoints in safetensors, whose traces test_trace_hybrids.c compares with their source.
 *
 * llama.cpp departs from what is published in these things. It divides the norms of all mixers into
 * as many groups as these have, and those of Granite and Bamba are of the row. And it takes the eps
 * of Nemotron-H from attention.layer_norm_rms_epsilon, which no part of the published model reads,
 * where a file has both. The sum that weights of LFM2's experts are divided by is at least 6e-5
 * there, and as published 1e-6 more. Of Falcon-H1 it leaves out a bias of attn_output, which no
 * published model has, and the norm of a mixer is behind its gate whatever was published.
 *
 * Names of tensors and keys are those of gguf-py/gguf/constants.py of llama.cpp, and what the
 * converter changes is what conversion/lfm2.py, granite.py, nemotron.py, falcon_h1.py and mamba.py
 * do there. */
#include "fixture.h"
#include "gguf_family.h"
#include "gguf_models.h"
#include "gguf_write.h"
#include "hybrid_model.h"
#include "published.h"
#include "test.h"

#include <unistd.h>

#define SIZES(layers)                                                                              \
    "I:block_count=" layers " I:embedding_length=16 I:attention.head_count=4 "                     \
    "I:context_length=64 I:vocab_size=40 "

/* -------------------------------------------------------------------- LFM2 -- */

#define LFM2_KEYS                                                                                  \
    SIZES("5")                                                                                     \
    GGUF_RMS("1e-5")                                                                               \
    "I:feed_forward_length=24 l:attention.head_count_kv=0,2,0,2,0 "                                \
    "I:shortconv.l_cache=3 f:rope.freq_base=1e6 "
#define LFM2_NAMES                                                                                 \
    "token_embd.weight=model.embed_tokens.weight "                                                 \
    "token_embd_norm.weight=model.embedding_norm.weight " GGUF_QK("", "")                          \
        GGUF_IN_BLOCK("attn_v.weight", "self_attn.v_proj.weight")                                  \
            GGUF_IN_BLOCK("attn_output.weight", "self_attn.out_proj.weight")                       \
                GGUF_IN_BLOCK("attn_q_norm.weight", "self_attn.q_layernorm.weight")                \
                    GGUF_IN_BLOCK("attn_k_norm.weight", "self_attn.k_layernorm.weight")            \
                        GGUF_IN_BLOCK("attn_norm.weight", "operator_norm.weight")                  \
                            GGUF_IN_BLOCK("ffn_norm.weight", "ffn_norm.weight")                    \
                                GGUF_IN_BLOCK("shortconv.in_proj.weight", "conv.in_proj.weight")   \
                                    GGUF_IN_BLOCK("shortconv.conv.weight", "conv.conv.weight")     \
                                        GGUF_IN_BLOCK("shortconv.out_proj.weight",                 \
                                                      "conv.out_proj.weight")
#define LFM2_MLP_NAMES(layer)                                                                      \
    "blk." layer ".ffn_gate.weight=model.layers." layer ".feed_forward.w1.weight blk." layer       \
    ".ffn_up.weight=model.layers." layer ".feed_forward.w3.weight blk." layer                      \
    ".ffn_down.weight=model.layers." layer ".feed_forward.w2.weight "

TEST(lfm2)
{
    static const struct gguf_family FAMILY = {
        .name = "lfm2",
        .config = LFM2_CONFIG,
        .tensors = LFM2_TENSORS,
        .twin = { .architecture = "lfm2",
                  .keys = LFM2_KEYS,
                  .tensors = LFM2_NAMES LFM2_MLP_NAMES("#"),
                  .layers = 5 },
    };
    gguf_family_check(&FAMILY);
}

TEST(lfm2_moe)
{
    static const struct gguf_family FAMILY = {
        .name = "lfm2_moe",
        .config = LFM2_MOE_UNSCALED_CONFIG,
        .tensors = LFM2_MOE_TENSORS,
        .twin = { .architecture = "lfm2moe",
                  .keys = LFM2_KEYS "I:expert_count=4 I:expert_used_count=2 "
                                    "I:expert_feed_forward_length=12 I:expert_gating_func=2 "
                                    "I:leading_dense_block_count=1",
                  .tensors = LFM2_NAMES LFM2_MLP_NAMES("0")
                      GGUF_IN_BLOCK("ffn_gate_inp.weight", "feed_forward.gate.weight")
                          GGUF_IN_BLOCK("exp_probs_b.bias", "feed_forward.expert_bias")
                              GGUF_IN_BLOCK("ffn_gate_exps.weight",
                                            "feed_forward.experts.@.w1.weight/stack:4")
                                  GGUF_IN_BLOCK("ffn_up_exps.weight",
                                                "feed_forward.experts.@.w3.weight/stack:4")
                                      GGUF_IN_BLOCK("ffn_down_exps.weight",
                                                    "feed_forward.experts.@.w2.weight/stack:4"),
                  .layers = 5 },
    };
    gguf_family_check(&FAMILY);
}

/* ----------------------------------------------------------- Granite, Bamba -- */

#define MAMBA_KEYS                                                                                 \
    "I:ssm.conv_kernel=4 I:ssm.state_size=6 I:ssm.group_count=2 I:ssm.inner_size=32 "              \
    "I:ssm.time_step_rank=4 "
#define MAMBA_NAMES_BUT_RATES(of)                                                                  \
    "blk.#.ssm_in.weight=" of "in_proj.weight blk.#.ssm_conv1d.weight=" of                         \
    "conv1d.weight blk.#.ssm_conv1d.bias=" of "conv1d.bias blk.#.ssm_dt.bias=" of                  \
    "dt_bias blk.#.ssm_d=" of "D blk.#.ssm_norm.weight=" of "norm.weight blk.#.ssm_out.weight=" of \
    "out_proj.weight "
#define MAMBA_NAMES(of) "blk.#.ssm_a=" of "A_log/rates " MAMBA_NAMES_BUT_RATES(of)
#define BLOCK           "model.layers.#."
#define SHARED          BLOCK "shared_mlp."
#define EXPERTS         BLOCK "block_sparse_moe."
#define KEYS                                                                                       \
    SIZES("4")                                                                                     \
    GGUF_RMS("1e-5") MAMBA_KEYS "I:feed_forward_length=24 l:attention.head_count_kv=0,2,0,2 "
#define GRANITE_KEYS                                                                               \
    KEYS "f:attention.scale=0.25 f:embedding_scale=12 f:residual_scale=0.22 f:logit_scale=8 "
#define GRANITE_AROUND GGUF_AROUND GGUF_QK("/pairs:4", "/pairs:2") GGUF_VO GGUF_NORMS
#define GRANITE_NAMES  GRANITE_AROUND MAMBA_NAMES(BLOCK "mamba.")
#define SHARED_NAMES(end)                                                                          \
    "blk.#.ffn_gate" end ".weight=" SHARED "input_linear.weight/rows:0:24 blk.#.ffn_up" end        \
    ".weight=" SHARED "input_linear.weight/rows:24:24 blk.#.ffn_down" end ".weight=" SHARED        \
    "output_linear.weight "

TEST(granite_without_experts)
{
    static const struct gguf_family FAMILY = {
        .name = "granite_h",
        .config = GRANITE_CONFIG,
        .tensors = GRANITE_TENSORS,
        .twin = { .architecture = "granitehybrid",
                  .keys = GRANITE_KEYS "?:rope.scaling.finetuned=0",
                  .tensors = GRANITE_NAMES SHARED_NAMES(""),
                  .layers = 4 },
        .tolerance = 1e-5,
    };
    gguf_family_check(&FAMILY);
}

/* A file that does not say so is rotated. */
TEST(granite)
{
    static const struct gguf_family FAMILY = {
        .name = "granite_h_experts",
        .config = GRANITE_EXPERTS_CONFIG,
        .tensors = GRANITE_EXPERTS_TENSORS,
        .twin = { .architecture = "granitehybrid",
                  .keys = GRANITE_KEYS "I:expert_count=4 I:expert_used_count=2 "
                                       "I:expert_shared_feed_forward_length=24",
                  .tensors = GRANITE_NAMES SHARED_NAMES(
                      "_shexp") "blk.#.ffn_gate_inp.weight=" EXPERTS
                                "router.layer.weight blk.#.ffn_gate_exps.weight=" EXPERTS
                                "input_linear.weight/rows:0:12:16 blk.#.ffn_up_exps.weight=" EXPERTS
                                "input_linear.weight/rows:12:12:16 "
                                "blk.#.ffn_down_exps.weight=" EXPERTS
                                "output_linear.weight/rows:0:16:12",
                  .layers = 4 },
        .tolerance = 1e-5,
    };
    gguf_family_check(&FAMILY);
}

/* Bamba has the same architecture, half of a head that is turned, and nothing that scales. The
 * pairs here are those that it turns. The converter puts columns side by side that are half a head
 * apart, so of a published file with its order other pairs are turned, in llama.cpp as here. */
TEST(bamba)
{
    static const struct gguf_family FAMILY = {
        .name = "bamba",
        .config = BAMBA_CONFIG,
        .tensors = BAMBA_TENSORS,
        .twin = { .architecture = "granitehybrid",
                  .keys = KEYS "I:rope.dimension_count=2 ?:rope.scaling.finetuned=1",
                  .tensors =
                      "token_embd.weight=model.embed_tokens.weight "
                      "output_norm.weight=model.final_layernorm.weight "
                      "output.weight=lm_head.weight " GGUF_QK("/pairs:8", "/pairs:4")
                          GGUF_VO GGUF_BOTH_IN_BLOCK("attn_norm", "input_layernorm")
                              GGUF_BOTH_IN_BLOCK("ffn_norm", "pre_ff_layernorm")
                                  GGUF_BOTH_IN_BLOCK("ffn_gate", "feed_forward.gate_proj")
                                      GGUF_BOTH_IN_BLOCK("ffn_up", "feed_forward.up_proj")
                                          GGUF_BOTH_IN_BLOCK("ffn_down", "feed_forward.down_proj")
                                              MAMBA_NAMES(BLOCK "mamba."),
                  .layers = 4 },
        .tolerance = 1e-5,
    };
    gguf_family_check(&FAMILY);
}

/* --------------------------------------------------------------- Falcon-H1 -- */

/* Without multipliers, which the converter puts into the tensors. The norm before the feed-forward
 * has no ".weight" behind its name. */
TEST(falcon_h1)
{
    static const struct gguf_family FAMILY = {
        .name = "falcon_h1",
        .config = LLAMA_CONFIG(
            "falcon_h1", "2",
            FALCON_FIELDS FALCON_BIASES
            ",\"mamba_rms_norm\":true,\"mamba_norm_before_gate\":false,\"rope_theta\":500"),
        .tensors = FALCON_TENSORS(FALCON_BIAS, BLOCK "mamba.norm.weight 32, "),
        .twin = { .architecture = "falcon-h1",
                  .keys = SIZES("2") GGUF_RMS("1e-5") MAMBA_KEYS
                  "I:feed_forward_length=24 I:attention.head_count_kv=2 I:attention.key_length=4 "
                  "I:attention.value_length=4 f:rope.freq_base=500",
                  .tensors =
                      "token_embd.weight=model.embed_tokens.weight "
                      "output_norm.weight=model.final_layernorm.weight "
                      "output.weight=lm_head.weight " GGUF_QK("", "")
                          GGUF_VO GGUF_IN_BLOCK("attn_norm.weight", "input_layernorm.weight")
                              GGUF_IN_BLOCK("ffn_norm", "pre_ff_layernorm.weight")
                                  GGUF_BOTH_IN_BLOCK("ffn_gate", "feed_forward.gate_proj")
                                      GGUF_BOTH_IN_BLOCK("ffn_up", "feed_forward.up_proj")
                                          GGUF_BOTH_IN_BLOCK("ffn_down", "feed_forward.down_proj")
                                              MAMBA_NAMES(BLOCK "mamba.")
                                                  GGUF_IN_BLOCK("ssm_in.bias", "mamba.in_proj.bias")
                                                      GGUF_IN_BLOCK("ssm_out.bias",
                                                                    "mamba.out_proj.bias"),
                  .layers = 2 },
    };
    gguf_family_check(&FAMILY);
}

/* -------------------------------------------------------------- Nemotron-H -- */

#define MIXER "backbone.layers.#.mixer."

#define NEMOTRON_KEYS                                                                              \
    GGUF_RMS("1e-2")                                                                               \
    GGUF_LAYER_NORM("1e-5")                                                                        \
    MAMBA_KEYS "I:attention.key_length=4 I:attention.value_length=4 I:expert_count=3 "             \
               "I:expert_used_count=2 I:expert_group_count=1 f:expert_weights_scale=2.5 "          \
               "?:expert_weights_norm=1 "
#define NEMOTRON_NAMES                                                                             \
    "token_embd.weight=backbone.embeddings.weight "                                                \
    "output_norm.weight=backbone.norm_f.weight output.weight=lm_head.weight "                      \
    "blk.#.attn_norm.weight=backbone.layers.#.norm.weight "                                        \
    "blk.#.attn_q.weight=" MIXER "q_proj.weight blk.#.attn_k.weight=" MIXER                        \
    "k_proj.weight blk.#.attn_v.weight=" MIXER "v_proj.weight blk.#.attn_output.weight=" MIXER     \
    "o_proj.weight blk.#.ffn_up.weight=" MIXER "up_proj.weight blk.#.ffn_down.weight=" MIXER       \
    "down_proj.weight blk.#.ffn_gate_inp.weight=" MIXER                                            \
    "gate.weight blk.#.exp_probs_b.bias=" MIXER                                                    \
    "gate.e_score_correction_bias blk.#.ffn_up_exps.weight=" MIXER                                 \
    "experts.@.up_proj.weight/stack:3 blk.#.ffn_down_exps.weight=" MIXER                           \
    "experts.@.down_proj.weight/stack:3 blk.#.ffn_up_shexp.weight=" MIXER                          \
    "shared_experts.up_proj.weight blk.#.ffn_down_shexp.weight=" MIXER                             \
    "shared_experts.down_proj.weight " MAMBA_NAMES(MIXER)

static const struct gguf_family NEMOTRON_H = {
    .name = "nemotron",
    .config = NEMOTRON_CONFIG,
    .tensors = NEMOTRON_TENSORS,
    .twin = { .architecture = "nemotron_h_moe",
              .keys = SIZES("6") NEMOTRON_KEYS "l:attention.head_count_kv=0,0,2,0,0,2 "
                                               "l:feed_forward_length=0,24,0,12,0,0",
              .tensors = NEMOTRON_NAMES,
              .layers = 6 },
};

TEST(nemotron_h)
{
    gguf_family_check(&NEMOTRON_H);
}

/* A block behind the last has attention and experts, and what predicts a further token. */
TEST(nemotron_h_with_a_further_block)
{
    struct gguf_family family = NEMOTRON_H;
    family.name = "nemotron_next";
    family.twin.keys =
        SIZES("7") NEMOTRON_KEYS "l:attention.head_count_kv=0,0,2,0,0,2,2 "
                                 "l:feed_forward_length=0,24,0,12,0,0,12 I:nextn_predict_layers=1";
    family.twin.tensors = NEMOTRON_NAMES
        "blk.6.attn_norm.weight=backbone.layers.2.norm.weight "
        "blk.6.attn_q.weight=backbone.layers.2.mixer.q_proj.weight "
        "blk.6.attn_k.weight=backbone.layers.2.mixer.k_proj.weight "
        "blk.6.attn_v.weight=backbone.layers.2.mixer.v_proj.weight "
        "blk.6.attn_output.weight=backbone.layers.2.mixer.o_proj.weight "
        "blk.6.post_attention_norm.weight=backbone.layers.3.norm.weight "
        "blk.6.ffn_gate_inp.weight=backbone.layers.3.mixer.gate.weight "
        "blk.6.ffn_up_exps.weight=backbone.layers.3.mixer.experts.@.up_proj.weight/stack:3 "
        "blk.6.nextn.eh_proj.weight=backbone.layers.2.mixer.q_proj.weight "
        "blk.6.nextn.enorm.weight=backbone.layers.3.norm.weight";
    gguf_family_check(&family);
}

/* ----------------------------------------------------------------- refused -- */

static void expect_refused(struct gguf_write *file, const char *reason)
{
    gguf_write_file(file, fixture_path("refused.gguf"));
    gguf_write_free(file);
    fixture_serve("--models", directory);
    struct http_response response =
        http_client_post(&client, "/v1/trace", "{\"model\":\"refused\",\"tokens\":[1,2]}");
    assert_int_equal(response.status, 503);
    if (!strstr(response.body, reason))
        fail_msg("'%s' is not in %s", reason, response.body);
    http_response_free(&response);
    fixture_stop(NULL);
    unlink(fixture_path("refused.gguf"));
}

static struct gguf_write *generated(const struct gguf_model *model)
{
    return gguf_model_make(model, (struct gguf_model_form){ "F32", false });
}

/* A generated file to which a flag that is false or, where the type is 'I', a 7 is added. */
static struct gguf_write *with_key(const char *name, const char *key, char type)
{
    struct gguf_write *file = generated(gguf_model_named(name));
    gguf_write_integer(file, key, type, type == 'I' ? 7 : 0);
    return file;
}

/* The same where a part of its keys is another one. */
static struct gguf_write *with_other(const char *name, const char *part, const char *other)
{
    struct gguf_model model = *gguf_model_named(name);
    const char *at = strstr(model.pairs, part);
    char *pairs = malloc(strlen(model.pairs) + strlen(other) + 1);
    assert_true(at && pairs);
    sprintf(pairs, "%.*s%s%s", (int)(at - model.pairs), model.pairs, other, at + strlen(part));
    model.pairs = pairs;
    struct gguf_write *file = generated(&model);
    free(pairs);
    return file;
}

TEST(not_computed)
{
    expect_refused(with_key("lfm2", "lfm2.attention.causal", '?'),
                   "has false under 'lfm2.attention.causal'");
    expect_refused(with_key("lfm2", "lfm2.attention.sliding_window", 'I'),
                   "has a number under 'lfm2.attention.sliding_window'");
    expect_refused(with_key("granitehybrid", "granitehybrid.attention.output_scale", 'I'),
                   "'granitehybrid.attention.output_scale', which is not computed here");
    expect_refused(with_other("lfm2moe", "expert_gating_func I 2", "expert_gating_func I 1"),
                   "has no sigmoids under 'lfm2moe.expert_gating_func'");
    expect_refused(with_other("lfm2", "( 0 2 0 2", "( 0 2 0 1"),
                   "has no single number for layers of attention under "
                   "'lfm2.attention.head_count_kv'");
    expect_refused(with_other("granitehybrid", "finetuned ? 0", "finetuned I 7"),
                   "has no flag under 'granitehybrid.rope.scaling.finetuned'");
    expect_refused(with_other("nemotron_h",
                              ".attention.layer_norm_rms_epsilon f 1e-5, "
                              ".attention.layer_norm_epsilon f 1e-5, ",
                              ""),
                   "has no 'nemotron_h.attention.layer_norm_epsilon'");
}

/* A state that grows by itself. The file has A_log in place of what is made of it. */
TEST(rates_above_0)
{
    static const struct gguf_twin TWIN = {
        .architecture = "granitehybrid",
        .keys = GRANITE_KEYS "?:rope.scaling.finetuned=0",
        .tensors = "blk.#.ssm_a=" BLOCK "mamba.A_log " GRANITE_AROUND MAMBA_NAMES_BUT_RATES(
            BLOCK "mamba.") SHARED_NAMES(""),
        .layers = 4,
    };
    published_open(GRANITE_CONFIG, GRANITE_TENSORS, 4, "F32");
    gguf_twin_write(&TWIN, fixture_path("growing.gguf"));
    published_close();
    fixture_serve("--models", directory);
    struct http_response response =
        http_client_post(&client, "/v1/trace", "{\"model\":\"growing\",\"tokens\":[1,2]}");
    assert_int_equal(response.status, 400);
    if (!strstr(response.body, "by its tensor 'rates'; expected none above 0"))
        fail_msg("%s", response.body);
    http_response_free(&response);
    fixture_stop(NULL);
}

/* What a mixture computes in fewer columns than a row has. */
TEST(latent_experts)
{
    struct gguf_model model = *gguf_model_named("nemotron_h_moe");
    static const char LATENT[] = "blk.1.ffn_latent_down.weight 32x64, ";
    char *tensors = malloc(strlen(model.tensors) + sizeof LATENT);
    assert_non_null(tensors);
    sprintf(tensors, "%s%s", model.tensors, LATENT);
    model.tensors = tensors;
    struct gguf_write *file = generated(&model);
    free(tensors);
    expect_refused(file, "a tensor 'blk.1.ffn_latent_down.weight', and what that changes");
}

ALL_TESTS(fixture_make_directory, fixture_clear);
