/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward_mixtures.c - what stands around the attention of published decoders with
 * mixtures of experts. Sources are named beside the rows of checkpoint_mixtures.c. */
#include "forward_case.h"
#include "hybrid_model.h"
#include "test.h"

#define FIELDS                                                                                     \
    "\"hidden_size\":16,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                      \
    "\"num_hidden_layers\":2"
#define BLOCK "model.layers.#."
#define MLP   BLOCK "mlp."
#define AROUND                                                                                     \
    "model.embed_tokens.weight 30x16, model.norm.weight 16, lm_head.weight 30x16, " BLOCK          \
    "self_attn.q_proj.weight 16x16, " BLOCK "self_attn.k_proj.weight 8x16, " BLOCK                 \
    "self_attn.v_proj.weight 8x16, " BLOCK "self_attn.o_proj.weight 16x16, " BLOCK                 \
    "input_layernorm.weight 16, " BLOCK "post_attention_layernorm.weight 16, "
#define HEAD_NORMS BLOCK "self_attn.q_norm.weight 4, " BLOCK "self_attn.k_norm.weight 4, "
#define GATED(begin, size)                                                                         \
    begin "gate_proj.weight " size "x16, " begin "up_proj.weight " size "x16, " begin              \
          "down_proj.weight 16x" size ", "
#define EXPERTS(last)                                                                              \
    MLP "gate.weight 3x16, " GATED(MLP "experts.0.", "12") GATED(MLP "experts.1.", "12")           \
        GATED(MLP "experts.2.", last)

static const struct model_block *block_of(const struct model_forward *forward, int64_t index)
{
    assert_int_equal(forward->stream_count, 1);
    return &forward->streams[0].blocks[index];
}

static void expect_gated(const struct model_feed_forward *feed, const char *begin, int layer,
                         int64_t size)
{
    char name[128];
    snprintf(name, sizeof name, "%sgate_proj", begin);
    forward_case_expect_linear(&feed->gate, name, layer, size, 16);
    snprintf(name, sizeof name, "%sup_proj", begin);
    forward_case_expect_linear(&feed->up, name, layer, size, 16);
    snprintf(name, sizeof name, "%sdown_proj", begin);
    forward_case_expect_linear(&feed->down, name, layer, 16, size);
    assert_int_equal(feed->activation, ATTN_SILU);
}

#define QWEN3(more)                                                                                \
    "{\"model_type\":\"qwen3_moe\",\"num_experts\":3,\"num_experts_per_tok\":2" more "," FIELDS "}"

TEST(qwen3_moe)
{
    const struct model_forward *forward = forward_case_open(
        QWEN3(",\"decoder_sparse_step\":2"), AROUND HEAD_NORMS EXPERTS("12") GATED(MLP, "40"), 2);
    assert_null(block_of(forward, 0)->experts.router.weight);
    expect_gated(&block_of(forward, 0)->dense, MLP, 0, 40);
    const struct model_experts *experts = &block_of(forward, 1)->experts;
    assert_null(block_of(forward, 1)->dense.down.weight);
    assert_true(experts->count == 3 && experts->chosen == 2 && !experts->is_normalized);
    assert_null(experts->shared);
    forward_case_expect_linear(&experts->router, MLP "gate", 1, 3, 16);
    expect_gated(&experts->experts[2], MLP "experts.2.", 1, 12);
    published_close();

    forward = forward_case_open(
        QWEN3(",\"mlp_only_layers\":[1],\"norm_topk_prob\":true,\"decoder_sparse_step\":1"),
        AROUND HEAD_NORMS EXPERTS("12") GATED(MLP, "40"), 2);
    assert_true(block_of(forward, 0)->experts.is_normalized);
    assert_non_null(block_of(forward, 1)->dense.down.weight);
    published_close();

    /* Experts take turns in the same memory, which the first one measures. */
    forward_case_refused(QWEN3(""), AROUND HEAD_NORMS EXPERTS("20") "x.weight 1", 2,
                         "expert 2 of block 0 has 20 columns, and expert 0 has 12");
    forward_case_refused(QWEN3(""), AROUND HEAD_NORMS MLP "gate.weight 3x16", 2,
                         "no tensor 'model.layers.0.mlp.experts.0.up_proj.weight'");
}

/* Matrix number index of the tensor called name is what the pass has. */
static void expect_matrix(const struct attn_linear *linear, const char *name, int index,
                          int64_t first, int64_t out, int64_t in)
{
    const struct rows whole = published_tensor(name, 1);
    const double *expected = whole.data + index * whole.columns + first * in;
    assert_true(linear->out == out && linear->in == in && linear->dtype == ATTN_F32);
    for (int64_t i = 0; i < out * in; i++)
        assert_true(((const float *)linear->weight)[i] == (float)expected[i]);
}

static void expect_stacked(const struct model_experts *experts, const char *up, const char *down)
{
    for (int e = 0; e < 3; e++) {
        expect_matrix(&experts->experts[e].gate, up, e, 0, 12, 16);
        expect_matrix(&experts->experts[e].up, up, e, 12, 12, 16);
        expect_matrix(&experts->experts[e].down, down, e, 0, 16, 12);
    }
}

TEST(qwen3_moe_stacked)
{
    const struct model_forward *forward = forward_case_open(
        QWEN3(""),
        AROUND HEAD_NORMS MLP "gate.weight 3x16, " MLP "experts.gate_up_proj 3x24x16, " MLP
                              "experts.down_proj 3x16x12",
        2);
    expect_stacked(&block_of(forward, 1)->experts, MLP "experts.gate_up_proj",
                   MLP "experts.down_proj");
    published_close();
    forward_case_refused(QWEN3(""),
                         AROUND HEAD_NORMS MLP "gate.weight 3x16, " MLP
                                               "experts.gate_up_proj 2x24x16, " MLP
                                               "experts.down_proj 3x16x12",
                         2, "is not 3 matrices of 16 columns, one for each expert");
    forward_case_refused(QWEN3(""),
                         AROUND HEAD_NORMS MLP "gate.weight 3x16, " MLP
                                               "experts.gate_up_proj 3x24x16, " MLP
                                               "experts.down_proj 3x16x11",
                         2, "is not 3 matrices of 12 columns, one for each expert");
    forward_case_refused(QWEN3(""),
                         AROUND HEAD_NORMS MLP "gate.weight 3x16, " MLP
                                               "experts.gate_up_proj 3x25x16, " MLP
                                               "experts.down_proj 3x16x12",
                         2, "has 25 outputs");
    forward_case_refused(QWEN3(""),
                         AROUND HEAD_NORMS MLP "gate.weight 3x16, " MLP
                                               "experts.gate_up_proj 72x16, " MLP
                                               "experts.down_proj 3x16x12",
                         2, "is not 3 matrices of 16 columns, one for each expert");
}

TEST(qwen2_moe)
{
    static const char TENSORS[] =
        AROUND EXPERTS("12") GATED(MLP "shared_expert.", "20") MLP "shared_expert_gate.weight 1x16";
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"qwen2_moe\",\"num_experts\":3,\"num_experts_per_tok\":1,"
        "\"qkv_bias\":false," FIELDS "}",
        TENSORS, 2);
    const struct model_experts *experts = &block_of(forward, 1)->experts;
    assert_true(experts->count == 3 && experts->chosen == 1 && !experts->is_normalized);
    expect_gated(experts->shared, MLP "shared_expert.", 1, 20);
    forward_case_expect_linear(&experts->shared_gate, MLP "shared_expert_gate", 1, 1, 16);
    published_close();
    forward_case_refused(
        "{\"model_type\":\"qwen2_moe\",\"num_experts\":3,\"qkv_bias\":false," FIELDS "}", TENSORS,
        2, "3 experts (num_experts), of which 4 (num_experts_per_tok)");
}

TEST(olmoe)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"olmoe\",\"num_experts\":3,\"num_experts_per_tok\":3,"
        "\"norm_topk_prob\":true," FIELDS "}",
        AROUND EXPERTS("12") BLOCK "self_attn.q_norm.weight 16, " BLOCK "self_attn.k_norm.weight 8",
        2);
    const struct model_experts *experts = &block_of(forward, 1)->experts;
    assert_true(experts->count == 3 && experts->chosen == 3 && experts->is_normalized);
    expect_gated(&experts->experts[0], MLP "experts.0.", 1, 12);
    published_close();
}

#define SPARSE BLOCK "block_sparse_moe."

TEST(granitemoe)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"granitemoe\",\"num_local_experts\":3,\"embedding_multiplier\":12,"
        "\"residual_multiplier\":0.25,\"logits_scaling\":8," FIELDS "}",
        AROUND SPARSE "router.layer.weight 3x16, " SPARSE "input_linear.weight 3x24x16, " SPARSE
                      "output_linear.weight 3x16x12",
        2);
    const struct model_block *block = block_of(forward, 1);
    assert_true(block->experts.chosen == 2 && block->experts.is_normalized);
    forward_case_expect_linear(&block->experts.router, SPARSE "router.layer", 1, 3, 16);
    expect_stacked(&block->experts, SPARSE "input_linear.weight", SPARSE "output_linear.weight");
    assert_true(block->feed_forward.scale == 0.25 && forward->head.scale == 0.125);
    assert_true(forward->streams[0].embedding.scale == 12);
    published_close();
}

#define PHIMOE_EXPERT(e)                                                                           \
    SPARSE "experts." e ".w1.weight 12x16, " SPARSE "experts." e ".w2.weight 16x12, " SPARSE       \
           "experts." e ".w3.weight 12x16, "

TEST(phimoe)
{
    static const char TENSORS[] = AROUND SPARSE "gate.weight 3x16, " PHIMOE_EXPERT("0")
        PHIMOE_EXPERT("1") PHIMOE_EXPERT("2") BLOCK
        "input_layernorm.bias 16, " BLOCK "post_attention_layernorm.bias 16, model.norm.bias 16";
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"phimoe\",\"num_local_experts\":3,\"rms_norm_eps\":0.25," FIELDS "}",
        TENSORS, 2);
    const struct model_block *block = block_of(forward, 1);
    assert_int_equal(block->experts.routing, MODEL_ROUTING_SPARSEMIXER);
    assert_true(block->experts.jitter == 0.01);
    forward_case_expect_norm(&block->self.before, BLOCK "input_layernorm", 1, 0.25, true);
    forward_case_expect_linear(&block->experts.experts[1].down, SPARSE "experts.1.w2", 1, 16, 12);
    assert_null(forward->head.output.bias);
    published_close();
    forward_case_refused("{\"model_type\":\"phimoe\",\"num_local_experts\":3,"
                         "\"num_experts_per_tok\":1," FIELDS "}",
                         TENSORS, 2, "num_experts_per_tok is 1; expected 2");
}

#define GPT_OSS(more)                                                                              \
    "{\"model_type\":\"gpt_oss\",\"head_dim\":4,\"attention_bias\":false,"                         \
    "\"num_local_experts\":3,\"num_experts_per_tok\":2" more "," FIELDS "}"
#define GPT_OSS_AROUND                                                                             \
    AROUND BLOCK "self_attn.sinks 4, " MLP "router.weight 3x16, " MLP "router.bias 3, "

/* Column first, first + 2, ... of the matrices [in, out] of an expert are the outputs. */
static void expect_alternate(const struct attn_linear *linear, int index, int first)
{
    const struct rows whole = published_tensor(MLP "experts.gate_up_proj", 1);
    const struct rows bias = published_tensor(MLP "experts.gate_up_proj_bias", 1);
    assert_true(linear->out == 12 && linear->in == 16 && linear->in_out && linear->stride == 0);
    for (int i = 0; i < 16 * 12; i++)
        assert_true(((const float *)linear->weight)[i]
                    == (float)whole.data[index * whole.columns + 2 * i + first]);
    for (int i = 0; i < 12; i++)
        assert_true(linear->bias[i] == (float)bias.data[index * 24 + 2 * i + first]);
}

TEST(gpt_oss)
{
    static const char TENSORS[] = GPT_OSS_AROUND MLP
        "experts.gate_up_proj 3x16x24, " MLP "experts.gate_up_proj_bias 3x24, " MLP
        "experts.down_proj 3x12x16, " MLP "experts.down_proj_bias 3x16";
    const struct model_forward *forward = forward_case_open(GPT_OSS(""), TENSORS, 2);
    const struct model_experts *experts = &block_of(forward, 1)->experts;
    assert_true(experts->is_normalized && experts->chosen == 2);
    forward_case_expect_linear(&experts->router, MLP "router", 1, 3, 16);
    assert_non_null(experts->router.bias);
    for (int e = 0; e < 3; e++) {
        const struct model_feed_forward *expert = &experts->experts[e];
        expect_alternate(&expert->gate, e, 0);
        expect_alternate(&expert->up, e, 1);
        assert_true(expert->activation == ATTN_GELU_QUICK && expert->gated_limit == 7
                    && expert->gated_offset == 1);
        assert_true(expert->down.in == 12 && expert->down.out == 16 && expert->down.in_out);
        forward_case_expect(expert->down.bias - e * 16, MLP "experts.down_proj_bias", 1);
    }
    published_close();
    forward_case_refused(GPT_OSS(""),
                         GPT_OSS_AROUND MLP "experts.gate_up_proj 3x16x24, " MLP
                                            "experts.down_proj 3x12x16",
                         2, "no tensor 'model.layers.0.mlp.experts.gate_up_proj_bias'");
}

#define GLM_EXPERTS                                                                                \
    MLP "gate.weight 4x16, " MLP "gate.e_score_correction_bias 4, " GATED(MLP "experts.0.", "12")  \
        GATED(MLP "experts.1.", "12") GATED(MLP "experts.2.", "12") GATED(MLP "experts.3.", "12")
#define GLM(more)                                                                                  \
    "{\"model_type\":\"glm4_moe\",\"n_routed_experts\":4,\"num_experts_per_tok\":2," more FIELDS "}"

TEST(glm4_moe)
{
    static const char TENSORS[] =
        AROUND GLM_EXPERTS GATED(MLP "shared_experts.", "24") GATED(MLP, "40");
    const struct model_forward *forward =
        forward_case_open(GLM("\"first_k_dense_replace\":1,\"n_group\":2,\"topk_group\":1,"
                              "\"routed_scaling_factor\":2.5,"),
                          TENSORS, 2);
    assert_null(block_of(forward, 0)->experts.router.weight);
    expect_gated(&block_of(forward, 0)->dense, MLP, 0, 40);
    const struct model_experts *experts = &block_of(forward, 1)->experts;
    assert_int_equal(experts->routing, MODEL_ROUTING_SIGMOID);
    assert_true(experts->count == 4 && experts->chosen == 2 && experts->is_normalized);
    assert_true(experts->groups == 2 && experts->chosen_groups == 1);
    assert_true(experts->weight_scale == 2.5 && experts->choice_bias);
    expect_gated(experts->shared, MLP "shared_experts.", 1, 24);
    assert_null(experts->shared_gate.weight);
    published_close();

    forward = forward_case_open(
        GLM("\"first_k_dense_replace\":0,\"n_shared_experts\":null,\"norm_topk_prob\":false,"),
        AROUND GLM_EXPERTS, 2);
    experts = &block_of(forward, 0)->experts;
    assert_true(!experts->shared && experts->groups == 0 && !experts->is_normalized);
    published_close();
    forward_case_refused(GLM("\"n_group\":3,\"topk_group\":1,"), TENSORS, 2,
                         "4 experts in 3 groups (n_group)");
    forward_case_refused(GLM("\"n_group\":2,\"topk_group\":3,"), TENSORS, 2, "of which 3");
    forward_case_refused(GLM("\"n_group\":4,\"topk_group\":4,"), TENSORS, 2, "in 4 groups");
}

#define LATENT_AROUND                                                                              \
    "model.embed_tokens.weight 30x16, model.norm.weight 16, lm_head.weight 30x16, " BLOCK          \
    "self_attn.q_proj.weight 24x16, " BLOCK "self_attn.kv_a_proj_with_mqa.weight 10x16, " BLOCK    \
    "self_attn.kv_a_layernorm.weight 8, " BLOCK "self_attn.kv_b_proj.weight 32x8, " BLOCK          \
    "self_attn.o_proj.weight 16x16, " BLOCK "input_layernorm.weight 16, " BLOCK                    \
    "post_attention_layernorm.weight 16, "
#define V2_EXPERTS                                                                                 \
    MLP "gate.weight 4x16, " GATED(MLP "experts.0.", "12") GATED(MLP "experts.1.", "12")           \
        GATED(MLP "experts.2.", "12") GATED(MLP "experts.3.", "12")                                \
            GATED(MLP "shared_experts.", "24")
#define V2(more)                                                                                   \
    "{\"model_type\":\"deepseek_v2\",\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"n_"        \
    "group\":4,"                                                                                   \
    "\"topk_group\":2,\"routed_scaling_factor\":16,\"q_lora_rank\":null,\"kv_lora_rank\":8,"       \
    "\"qk_nope_head_dim\":4,\"qk_rope_head_dim\":2,\"v_head_dim\":4,\"hidden_size\":16,"           \
    "\"num_attention_heads\":4,\"num_hidden_layers\":2" more "}"

TEST(deepseek_v2)
{
    static const char TENSORS[] = LATENT_AROUND V2_EXPERTS;
    const struct model_forward *forward =
        forward_case_open(V2(",\"topk_method\":\"group_limited_greedy\""), TENSORS, 2);
    const struct model_experts *experts = &block_of(forward, 1)->experts;
    assert_int_equal(experts->routing, MODEL_ROUTING_SOFTMAX);
    assert_true(experts->groups == 4 && experts->chosen_groups == 2 && !experts->is_normalized);
    assert_true(experts->weight_scale == 16 && !experts->choice_bias);
    expect_gated(experts->shared, MLP "shared_experts.", 1, 24);
    published_close();
    forward = forward_case_open(V2(",\"topk_method\":\"greedy\""), TENSORS, 2);
    assert_int_equal(block_of(forward, 0)->experts.groups, 0);
    published_close();
    forward_case_refused(V2(",\"topk_method\":\"noaux_tc\""), TENSORS, 2,
                         "topk_method is 'noaux_tc'");
}

/* The first names are those of hybrid_model.h. lfm2_moe/configuration_lfm2_moe.py: tie_embedding
 * counts before tie_word_embeddings. */
#define LFM2_OF(more) LLAMA_CONFIG("lfm2_moe", "5", LFM2_MOE_FIELDS more)

TEST(lfm2_moe)
{
    const struct model_forward *forward =
        forward_case_open(LFM2_OF(",\"num_dense_layers\":1,\"num_experts_per_tok\":2,"
                                  "\"routed_scaling_factor\":1.5,\"norm_topk_prob\":false"),
                          LFM2_MOE_TENSORS, LFM2_LAYERS);
    assert_null(block_of(forward, 0)->experts.router.weight);
    forward_case_expect_linear(&block_of(forward, 0)->dense.up, LFM2_MLP "w3", 0, 24, 16);
    const struct model_experts *experts = &block_of(forward, 1)->experts;
    assert_int_equal(experts->routing, MODEL_ROUTING_SIGMOID);
    assert_true(experts->count == 4 && experts->chosen == 2 && !experts->is_normalized);
    assert_true(experts->weight_scale == 1.5 && experts->weight_sum_eps == 1e-6);
    forward_case_expect(experts->choice_bias, LFM2_MLP "expert_bias", 1);
    forward_case_expect_linear(&experts->experts[3].gate, LFM2_MLP "experts.3.w1", 1, 12, 16);
    forward_case_expect_linear(&experts->experts[3].down, LFM2_MLP "experts.3.w2", 1, 16, 12);
    assert_true(!experts->shared && experts->groups == 0);
    published_close();
    forward = forward_case_open(
        LFM2_OF(",\"num_dense_layers\":1,\"num_experts_per_tok\":1,\"use_expert_bias\":false,"
                "\"tie_embedding\":false,\"tie_word_embeddings\":true"),
        LFM2_MOE_TENSORS ", lm_head.weight 40x16", LFM2_LAYERS);
    experts = &block_of(forward, 4)->experts;
    assert_true(experts->is_normalized && !experts->choice_bias && experts->weight_scale == 1);
    forward_case_expect_linear(&forward->head.output, "lm_head", 0, 40, 16);
    published_close();
}

/* The defaults are two dense blocks, 4 of 32 experts, and a bias. */
TEST(lfm2_moe_refused)
{
    forward_case_refused(LFM2_OF(",\"num_dense_layers\":-1"), LFM2_MOE_TENSORS, LFM2_LAYERS,
                         "num_dense_layers");
    forward_case_refused(LFM2_OF(",\"num_experts_per_tok\":5"), LFM2_MOE_TENSORS, LFM2_LAYERS,
                         "4 experts (num_experts), of which 5");
    forward_case_refused(LFM2_OF(",\"use_expert_bias\":1"), LFM2_MOE_TENSORS, LFM2_LAYERS,
                         "use_expert_bias");
    forward_case_refused(LFM2_OF(""), LFM2_TENSORS, LFM2_LAYERS,
                         "no tensor 'model.layers.2.feed_forward.gate.weight'");
}
