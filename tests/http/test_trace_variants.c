/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_variants.c - fields of config.json that change a whole pass: activations under the
 * names that count in a family, and norms that are shared or left out. The sources are those that
 * forward_llama.h and test_trace_decoders.c name. */
#include "fixture.h"
#include "forward_edits.h"
#include "forward_llama.h"
#include "test.h"

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

/* A block of Falcon and GPT-2. */
#define H_BLOCK                   "transformer.h.#."
#define LINEAR(name, shape, size) name ".weight " shape ", " name ".bias " size ", "
#define NORM(name)                name ".weight 16, " name ".bias 16, "

/* ------------------------------------------------------------------- Gemma -- */

static struct rows gemma_norm(struct rows x, const char *name, int layer)
{
    return forward_rms_norm(x, name, layer, 1e-6, 1);
}

static struct rows gemma_feed_forward(struct rows x, int layer)
{
    return decoder_gated(x, LLAMA_BLOCK "mlp.", "gelu_pytorch_tanh", layer);
}

static void pass_gemma(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = gemma_norm;
    llama.feed_forward = gemma_feed_forward;
    llama.embedding_scale = 4;
    llama.head = NULL;
    llama_pass(forward, &llama);
}

#define GEMMA LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS LLAMA_LAST_NORM

/* The first files say "gelu" and were trained with its approximation, as GemmaMLP of transformers
 * 4.38 to 4.56 knows: hidden_act does not count, and hidden_activation is the approximation unless
 * given. */
TEST(gemma_activation)
{
    llama_check("gemma_both",
                LLAMA_CONFIG("gemma", "2",
                             ",\"head_dim\":4,\"hidden_act\":\"gelu\","
                             "\"hidden_activation\":\"gelu_pytorch_tanh\""),
                GEMMA, 2, pass_gemma);
    llama_check("gemma_old", LLAMA_CONFIG("gemma", "2", ",\"head_dim\":4,\"hidden_act\":\"gelu\""),
                GEMMA, 2, pass_gemma);
}

/* ------------------------------------------------------------------- Llama -- */

static struct rows gelu_feed_forward(struct rows x, int layer)
{
    return decoder_gated(x, LLAMA_BLOCK "mlp.", "gelu", layer);
}

static void pass_gelu(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.feed_forward = gelu_feed_forward;
    llama_pass(forward, &llama);
}

TEST(llama_activation)
{
    llama_check("llama_gelu", LLAMA_CONFIG("llama", "2", ",\"hidden_act\":\"gelu\""), LLAMA_TENSORS,
                2, pass_gelu);
}

/* ------------------------------------------------------------------ Falcon -- */

/* FalconDecoderLayer with new_decoder_architecture and num_ln_in_parallel_attn 1, as Falcon 2: one
 * norm for both. */
static void pass_falcon2(struct forward *forward)
{
    const struct decoder_attention attention = {
        .attention = { .heads = 4, .kv_heads = 2, .scale = 0.5, .causal = true },
        .rotary_dim = 4,
        .theta = 10000,
    };
    struct rows x = embed("transformer.word_embeddings.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, H_BLOCK "input_layernorm", layer);
        const struct rows qkv =
            published_linear(inputs, H_BLOCK "self_attention.query_key_value", layer);
        const struct decoder_projections projections = { published_split(qkv, 2, 0, 8),
                                                         published_split(qkv, 2, 8, 4),
                                                         published_split(qkv, 2, 12, 4) };
        const struct rows attended = decoder_attend(forward, &attention, x, inputs, projections,
                                                    H_BLOCK "self_attention.dense", layer);
        const struct rows fed = decoder_up_down(inputs, H_BLOCK "mlp.dense_h_to_4h", "gelu",
                                                H_BLOCK "mlp.dense_4h_to_h", layer);
        x = forward_add(x, forward_add(fed, attended));
    }
    finish(forward, norm(x, "transformer.ln_f", 0), "transformer.word_embeddings.weight");
}

TEST(falcon2)
{
    llama_check("falcon2",
                "{\"model_type\":\"falcon\",\"hidden_size\":16,\"num_attention_heads\":4,"
                "\"num_hidden_layers\":2,\"vocab_size\":40,\"alibi\":false,\"bias\":false,"
                "\"multi_query\":true,\"num_kv_heads\":2,\"new_decoder_architecture\":true,"
                "\"parallel_attn\":true,\"num_ln_in_parallel_attn\":1,\"ffn_hidden_size\":24}",
                H_BLOCK "self_attention.query_key_value.weight 32x16, " H_BLOCK
                        "self_attention.dense.weight 16x16, " H_BLOCK
                        "mlp.dense_h_to_4h.weight 24x16, " H_BLOCK
                        "mlp.dense_4h_to_h.weight 16x24, " NORM("transformer.ln_f")
                            NORM(H_BLOCK "input_layernorm") "transformer.word_embeddings.weight "
                                                            "40x16",
                2, pass_falcon2);
}

/* --------------------------------------------------------------------- Phi -- */

#define PHI "model.layers.#."

/* A LayerNorm of each head, the same for all. */
static void norm_heads(struct rows x, const char *name, int layer)
{
    char weight[96], bias[96];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    for (int64_t first = 0; first < x.columns; first += 4)
        published_layer_norm(x, first, 4, published_tensor(weight, layer).data,
                             published_tensor(bias, layer).data, 1e-5);
}

/* PhiAttention with qk_layernorm. */
static void pass_phi(struct forward *forward)
{
    const struct decoder_attention attention = {
        .attention = { .heads = 4, .scale = 0.5, .causal = true },
        .rotary_dim = 2,
        .theta = 10000,
    };
    struct rows x = embed("model.embed_tokens.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, PHI "input_layernorm", layer);
        const struct decoder_projections projections =
            decoder_project(inputs, PHI "self_attn.", layer);
        norm_heads(projections.q, PHI "self_attn.q_layernorm", layer);
        norm_heads(projections.k, PHI "self_attn.k_layernorm", layer);
        const struct rows attended = decoder_attend(forward, &attention, x, inputs, projections,
                                                    PHI "self_attn.dense", layer);
        const struct rows fed =
            decoder_up_down(inputs, PHI "mlp.fc1", "gelu_new", PHI "mlp.fc2", layer);
        x = forward_add(forward_add(attended, fed), x);
    }
    finish(forward, norm(x, "model.final_layernorm", 0), "lm_head.weight");
    forward->logits = forward_add_row(forward->logits, published_tensor("lm_head.bias", 0));
}

TEST(phi_norms)
{
    llama_check(
        "phi_norms",
        "{\"model_type\":\"phi\",\"hidden_size\":16,\"intermediate_size\":24,"
        "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"qk_layernorm\":true,"
        "\"partial_rotary_factor\":0.5,\"vocab_size\":40}",
        "model.embed_tokens.weight 40x16, " NORM(PHI "input_layernorm") LINEAR(
            PHI "self_attn.q_proj", "16x16", "16") LINEAR(PHI "self_attn.k_proj", "16x16", "16")
            LINEAR(PHI "self_attn.v_proj", "16x16", "16")
                LINEAR(PHI "self_attn.dense", "16x16", "16") LINEAR(PHI "mlp.fc1", "24x16", "24")
                    LINEAR(PHI "mlp.fc2", "16x24", "16") NORM("model.final_layernorm") PHI
        "self_attn.q_layernorm.weight 4, " PHI "self_attn.q_layernorm.bias 4, " PHI
        "self_attn.k_layernorm.weight 4, " PHI "self_attn.k_layernorm.bias 4, "
        "lm_head.weight 40x16, lm_head.bias 40",
        2, pass_phi);
}

/* ------------------------------------------------------------------- GPT-2 -- */

static void pass_gpt2(struct forward *forward)
{
    const struct decoder_attention attention = {
        .attention = { .heads = 4, .scale = 0.5, .causal = true },
    };
    struct rows x = forward_add(
        embed("transformer.wte.weight"),
        forward_slice(published_tensor("transformer.wpe.weight", 0), 0, decoder_length));

    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = forward_layer_norm(x, H_BLOCK "ln_1", layer, 0.125);
        const struct rows qkv = published_conv1d(inputs, H_BLOCK "attn.c_attn", layer);
        forward_edits_layer("self", layer);
        struct published_answer maps =
            forward_edits_attend(&attention.attention, published_split(qkv, 1, 0, 16),
                                 published_split(qkv, 1, 16, 16), published_split(qkv, 1, 32, 16));
        maps.value_norms =
            forward_value_norms(&attention.attention, published_split(qkv, 1, 32, 16),
                                published_tensor(H_BLOCK "attn.c_proj.weight", layer), true);
        maps.context =
            forward_edits_output(published_conv1d(maps.context, H_BLOCK "attn.c_proj", layer));
        forward_add_layer(
            forward,
            (struct forward_layer){
                .kind = "self", .heads = 4, .hidden_states = x, .inputs = inputs, .maps = maps });
        x = forward_add(x, maps.context);
        const struct rows up = published_conv1d(forward_layer_norm(x, H_BLOCK "ln_2", layer, 0.125),
                                                H_BLOCK "mlp.c_fc", layer);
        const struct rows fed =
            published_conv1d(forward_activation(up, "relu"), H_BLOCK "mlp.c_proj", layer);
        x = forward_add(x, forward_edits_fed("self", layer, fed));
    }
    finish(forward, forward_layer_norm(x, "transformer.ln_f", 0, 0.125), "lm_head.weight");
}

/* n_inner, activation_function, layer_norm_epsilon and a head of its own. */
TEST(gpt2_fields)
{
    llama_check("gpt2_fields",
                "{\"model_type\":\"gpt2\",\"n_embd\":16,\"n_head\":4,\"n_layer\":2,"
                "\"n_positions\":16,\"vocab_size\":40,\"n_inner\":24,"
                "\"activation_function\":\"relu\",\"layer_norm_epsilon\":0.125,"
                "\"tie_word_embeddings\":false}",
                "transformer.wte.weight 40x16, transformer.wpe.weight 16x16, " NORM(H_BLOCK "ln_1")
                    NORM(H_BLOCK "ln_2") NORM("transformer.ln_f")
                        LINEAR(H_BLOCK "attn.c_attn", "16x48", "48")
                            LINEAR(H_BLOCK "attn.c_proj", "16x16", "16") LINEAR(H_BLOCK "mlp.c_fc",
                                                                                "16x24", "24")
                                LINEAR(H_BLOCK "mlp.c_proj", "24x16", "16") "lm_head.weight 40x16",
                2, pass_gpt2);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
