/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_blooms.c - whole passes of BLOOM, Falcon and MPT, whose projections are fused and
 * whose positions are often ALiBi's, compared with POST /v1/trace.
 *
 * Each pass is written out of the forward() of the family's modeling file in Hugging Face
 * transformers 5.0.0.dev0, src/transformers/models/, as it stands in feisenyu/transformers_4573 at
 * e9d73c31189a. */
#include "fixture.h"
#include "forward_decoder.h"
#include "forward_edits.h"
#include "test.h"
#include "trace_client.h"

enum { HEADS = 4, HEAD_DIM = 4 };

static void check(const char *name, const char *config, const char *tensors,
                  void (*pass)(struct forward *forward))
{
    const struct decoder_case decoder = { name, config, tensors, 2, pass, NULL, 0, false, false };
    decoder_case_check(&decoder);
}

static struct rows embed(const char *name)
{
    return forward_embed(published_tensor(name, 0), decoder_tokens(), decoder_length);
}

static struct rows norm(struct rows x, const char *name, int layer)
{
    return forward_layer_norm(x, name, layer, 1e-5);
}

static void finish(struct forward *forward, struct rows x, const char *head)
{
    forward->final_hidden_states = x;
    forward->logits = forward_product(x, published_tensor(head, 0));
}

/* build_alibi_tensor() and build_mpt_alibi_tensor() of four heads: 1/4, 1/16, 1/64, 1/256. The
 * daemon counts the distance of query and key. */
static double alibi(int64_t head, int64_t query, int64_t key)
{
    return ldexp((double)(key - query), -2 * (int)(head + 1));
}

static const struct decoder_attention ALIBI = {
    .attention = { .heads = HEADS, .scale = 0.5, .causal = true, .bias = alibi },
};

/* Query, key and value of each head in turn. */
static struct decoder_projections split_by_head(struct rows qkv)
{
    return (struct decoder_projections){ published_split(qkv, HEADS, 0, HEAD_DIM),
                                         published_split(qkv, HEADS, HEAD_DIM, HEAD_DIM),
                                         published_split(qkv, HEADS, 2 * HEAD_DIM, HEAD_DIM) };
}

#define LINEAR(name, shape, size) name ".weight " shape ", " name ".bias " size ", "
#define NORM(name)                name ".weight 16, " name ".bias 16, "

/* ------------------------------------------------------------------- BLOOM -- */

static void pass_bloom(struct forward *forward)
{
    struct rows x = norm(embed("word_embeddings.weight"), "word_embeddings_layernorm", 0);
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, "h.#.input_layernorm", layer);
        const struct rows qkv =
            published_linear(inputs, "h.#.self_attention.query_key_value", layer);
        const struct rows attended = decoder_attend(forward, &ALIBI, x, inputs, split_by_head(qkv),
                                                    "h.#.self_attention.dense", layer);
        x = forward_add(x, attended);
        const struct rows normed = norm(x, "h.#.post_attention_layernorm", layer);
        x = forward_add(x, decoder_up_down(normed, "h.#.mlp.dense_h_to_4h", "gelu_pytorch_tanh",
                                           "h.#.mlp.dense_4h_to_h", layer));
    }
    finish(forward, norm(x, "ln_f", 0), "word_embeddings.weight");
}

#define BLOOM                                                                                      \
    NORM("word_embeddings_layernorm")                                                              \
    NORM("h.#.input_layernorm")                                                                    \
    LINEAR("h.#.self_attention.query_key_value", "48x16", "48")                                    \
    LINEAR("h.#.self_attention.dense", "16x16", "16")                                              \
    NORM("h.#.post_attention_layernorm")                                                           \
    LINEAR("h.#.mlp.dense_h_to_4h", "64x16", "64")                                                 \
    LINEAR("h.#.mlp.dense_4h_to_h", "16x64", "16") NORM("ln_f") "word_embeddings.weight 40x16"
#define BLOOM_CONFIG(more)                                                                         \
    "{\"model_type\":\"bloom\",\"hidden_size\":16,\"n_head\":4,\"n_layer\":2,\"vocab_size\":"      \
    "40" more "}"

TEST(bloom)
{
    check("bloom", BLOOM_CONFIG(""), BLOOM, pass_bloom);
}

/* Another residual, which the daemon does not compute. */
TEST(bloom_post_layernorm)
{
    static const char CONFIG[] = BLOOM_CONFIG(",\"apply_residual_connection_post_layernorm\":true");
    published_open(CONFIG, BLOOM, 2, "F32");
    published_save(fixture_path("bloom_post"), CONFIG);
    published_close();
    fixture_serve("--models", directory);
    trace_client_expect_none(&client, "bloom_post", "\"tokens\":[1]",
                             "apply_residual_connection_post_layernorm");
    fixture_stop(NULL);
}

/* ------------------------------------------------------------------ Falcon -- */

#define FALCON "transformer.h.#."

static struct rows falcon_feed_forward(struct rows x, int layer)
{
    return decoder_up_down(x, FALCON "mlp.dense_h_to_4h", "gelu", FALCON "mlp.dense_4h_to_h",
                           layer);
}

static struct rows falcon_attend(struct forward *forward, const struct decoder_attention *attention,
                                 struct rows x, struct rows inputs,
                                 struct decoder_projections projections, int layer)
{
    return decoder_attend(forward, attention, x, inputs, projections, FALCON "self_attention.dense",
                          layer);
}

static struct rows falcon_fused(struct rows x, int layer)
{
    return published_linear(x, FALCON "self_attention.query_key_value", layer);
}

/* multi_query and parallel_attn: one norm for both. */
static void pass_falcon_7b(struct forward *forward)
{
    const struct decoder_attention attention = {
        .attention = { .heads = HEADS, .kv_heads = 1, .scale = 0.5, .causal = true },
        .rotary_dim = HEAD_DIM,
        .theta = 10000,
    };
    struct rows x = embed("transformer.word_embeddings.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, FALCON "input_layernorm", layer);
        const struct rows qkv = falcon_fused(inputs, layer);
        const struct decoder_projections projections = { published_split(qkv, 1, 0, 16),
                                                         published_split(qkv, 1, 16, HEAD_DIM),
                                                         published_split(qkv, 1, 20, HEAD_DIM) };
        const struct rows attended =
            falcon_attend(forward, &attention, x, inputs, projections, layer);
        x = forward_add(x, forward_add(falcon_feed_forward(inputs, layer), attended));
    }
    finish(forward, norm(x, "transformer.ln_f", 0), "transformer.word_embeddings.weight");
}

/* new_decoder_architecture: a norm for each of both. */
static void pass_new_falcon(struct forward *forward, const char *head)
{
    const struct decoder_attention attention = {
        .attention = { .heads = HEADS, .kv_heads = 2, .scale = 0.5, .causal = true },
        .rotary_dim = HEAD_DIM,
        .theta = 10000,
    };
    struct rows x = embed("transformer.word_embeddings.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, FALCON "ln_attn", layer);
        const struct rows qkv = falcon_fused(inputs, layer);
        const struct decoder_projections projections = { published_split(qkv, 2, 0, 8),
                                                         published_split(qkv, 2, 8, HEAD_DIM),
                                                         published_split(qkv, 2, 12, HEAD_DIM) };
        const struct rows fed = falcon_feed_forward(norm(x, FALCON "ln_mlp", layer), layer);
        const struct rows attended =
            falcon_attend(forward, &attention, x, inputs, projections, layer);
        x = forward_add(x, forward_add(fed, attended));
    }
    finish(forward, norm(x, "transformer.ln_f", 0), head);
}

static void pass_falcon_40b(struct forward *forward)
{
    pass_new_falcon(forward, "lm_head.weight");
}

static void pass_refined_web(struct forward *forward)
{
    pass_new_falcon(forward, "transformer.word_embeddings.weight");
}

/* attention_logits = (attention_scores + alibi) * inv_norm_factor */
static double scaled_alibi(int64_t head, int64_t query, int64_t key)
{
    return alibi(head, query, key) * 0.5;
}

/* Neither multi_query nor parallel_attn. */
static void pass_falcon_rw(struct forward *forward)
{
    struct decoder_attention attention = ALIBI;
    attention.attention.bias = scaled_alibi;
    struct rows x = embed("transformer.word_embeddings.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, FALCON "input_layernorm", layer);
        x = forward_add(x, falcon_attend(forward, &attention, x, inputs,
                                         split_by_head(falcon_fused(inputs, layer)), layer));
        const struct rows normed = norm(x, FALCON "post_attention_layernorm", layer);
        x = forward_add(x, falcon_feed_forward(normed, layer));
    }
    finish(forward, norm(x, "transformer.ln_f", 0), "transformer.word_embeddings.weight");
}

#define FALCON_WEIGHTS(fused)                                                                      \
    FALCON "self_attention.query_key_value.weight " fused "x16, " FALCON                           \
           "self_attention.dense.weight 16x16, " FALCON "mlp.dense_h_to_4h.weight 64x16, " FALCON  \
           "mlp.dense_4h_to_h.weight 16x64, " NORM("transformer.ln_f")
#define FALCON_BIASES                                                                              \
    FALCON "self_attention.query_key_value.bias 48, " FALCON                                       \
           "self_attention.dense.bias 16, " FALCON "mlp.dense_h_to_4h.bias 64, " FALCON            \
           "mlp.dense_4h_to_h.bias 16, "
#define FALCON_EMBEDDING "transformer.word_embeddings.weight 40x16"
#define FALCON_CONFIG(more)                                                                        \
    "{\"model_type\":\"falcon\",\"hidden_size\":16,\"num_attention_heads\":4,"                     \
    "\"num_hidden_layers\":2,\"vocab_size\":40," more "}"

TEST(falcon)
{
    check("falcon_7b",
          FALCON_CONFIG("\"alibi\":false,\"bias\":false,\"multi_query\":true,"
                        "\"new_decoder_architecture\":false,\"parallel_attn\":true"),
          FALCON_WEIGHTS("24") NORM(FALCON "input_layernorm") FALCON_EMBEDDING, pass_falcon_7b);
    check("falcon_40b",
          FALCON_CONFIG("\"alibi\":false,\"bias\":false,\"multi_query\":true,\"num_kv_heads\":2,"
                        "\"new_decoder_architecture\":true,\"parallel_attn\":true,"
                        "\"tie_word_embeddings\":false"),
          FALCON_WEIGHTS("32") NORM(FALCON "ln_attn") NORM(FALCON "ln_mlp") FALCON_EMBEDDING
          ", lm_head.weight 40x16",
          pass_falcon_40b);
    check("refined_web",
          "{\"model_type\":\"RefinedWeb\",\"hidden_size\":16,\"n_head\":4,\"n_head_kv\":2,"
          "\"n_layer\":2,\"vocab_size\":40,\"alibi\":false,\"bias\":false,"
          "\"parallel_attn\":true}",
          FALCON_WEIGHTS("32") NORM(FALCON "ln_attn") NORM(FALCON "ln_mlp") FALCON_EMBEDDING,
          pass_refined_web);
    check("falcon_rw",
          FALCON_CONFIG("\"alibi\":true,\"bias\":true,\"multi_query\":false,"
                        "\"new_decoder_architecture\":false,\"parallel_attn\":false"),
          FALCON_WEIGHTS("48") FALCON_BIASES NORM(FALCON "input_layernorm")
              NORM(FALCON "post_attention_layernorm") FALCON_EMBEDDING,
          pass_falcon_rw);
}

/* --------------------------------------------------------------------- MPT -- */

#define MPT "transformer.blocks.#."

static void pass_mpt_of(struct forward *forward, const struct decoder_attention *attention,
                        struct rows x)
{
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, MPT "norm_1", layer);
        const struct rows qkv = published_linear(inputs, MPT "attn.Wqkv", layer);
        const struct decoder_projections projections = { published_split(qkv, 1, 0, 16),
                                                         published_split(qkv, 1, 16, 16),
                                                         published_split(qkv, 1, 32, 16) };
        x = forward_add(x, decoder_attend(forward, attention, x, inputs, projections,
                                          MPT "attn.out_proj", layer));
        x = forward_add(x, decoder_up_down(norm(x, MPT "norm_2", layer), MPT "ffn.up_proj", "gelu",
                                           MPT "ffn.down_proj", layer));
    }
    finish(forward, norm(x, "transformer.norm_f", 0), "transformer.wte.weight");
}

/* No part of it has a bias. */
static void pass_mpt(struct forward *forward)
{
    pass_mpt_of(forward, &ALIBI, embed("transformer.wte.weight"));
}

#define MPT_TENSORS(hidden)                                                                        \
    MPT "norm_1.weight 16, " MPT "norm_2.weight 16, " MPT "attn.Wqkv.weight 48x16, " MPT           \
        "attn.out_proj.weight 16x16, " MPT "ffn.up_proj.weight " hidden "x16, " MPT                \
        "ffn.down_proj.weight 16x" hidden ", transformer.norm_f.weight 16, "                       \
        "transformer.wte.weight 40x16"
#define MPT_CONFIG(more)                                                                           \
    "{\"model_type\":\"mpt\",\"d_model\":16,\"n_heads\":4,\"n_layers\":2,\"vocab_size\":40,"       \
    "\"max_seq_len\":64," more "}"

TEST(mpt)
{
    check("mpt", MPT_CONFIG("\"expansion_ratio\":4,\"attn_config\":{\"alibi\":true}"),
          MPT_TENSORS("64"), pass_mpt);
}

/* MPTModel and MPTForCausalLM of llmfoundry/models/mpt/modeling_mpt.py, mosaicml/llm-foundry at
 * 8c8dd48f7216: learned positions, biases, and logits that are scaled, then capped. */
static void pass_mpt_learned(struct forward *forward)
{
    struct decoder_attention attention = ALIBI;
    attention.attention.bias = NULL;
    pass_mpt_of(forward, &attention,
                forward_add(embed("transformer.wte.weight"),
                            forward_slice(published_tensor("transformer.wpe.weight", 0), 0,
                                          decoder_length)));
    for (int64_t i = 0; i < forward->logits.count * forward->logits.columns; i++)
        forward->logits.data[i] = 0.5 * tanh(forward->logits.data[i] * 0.25 / 0.5);
}

TEST(mpt_learned)
{
    check("mpt_learned",
          MPT_CONFIG("\"expansion_ratio\":2,\"no_bias\":false,\"learned_pos_emb\":true,"
                     "\"logit_scale\":\"inv_sqrt_d_model\",\"final_logit_softcapping\":0.5,"
                     "\"attn_config\":{\"alibi\":false,\"rope\":false}"),
          MPT_TENSORS("32") ", transformer.wpe.weight 64x16, transformer.norm_f.bias 16, " MPT
                            "norm_1.bias 16, " MPT "norm_2.bias 16, " MPT "attn.Wqkv.bias 48, " MPT
                            "attn.out_proj.bias 16, " MPT "ffn.up_proj.bias 32, " MPT
                            "ffn.down_proj.bias 16",
          pass_mpt_learned);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
