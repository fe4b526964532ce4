/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_decoders.c - whole passes of GPT-2, GPT-Neo, GPT-J, GPT-NeoX, OPT and Phi compared
 * with POST /v1/trace.
 *
 * Each pass is written out of the forward() of the family's modeling file in Hugging Face
 * transformers 5.0.0.dev0, src/transformers/models/, as it stands in feisenyu/transformers_4573 at
 * e9d73c31189a. */
#include "fixture.h"
#include "forward_decoder.h"
#include "forward_edits.h"
#include "test.h"

enum { HEADS = 4, HEAD_DIM = 4 };

static const double EPS = 1e-5;

static const struct decoder_attention PLAIN = {
    .attention = { .heads = HEADS, .scale = 0.5, .causal = true },
};

static void check(const char *name, const char *config, const char *tensors, int layers,
                  void (*pass)(struct forward *forward))
{
    const struct decoder_case decoder = {
        name, config, tensors, layers, pass, NULL, 0, false, false
    };
    decoder_case_check(&decoder);
}

static struct rows embed(const char *name)
{
    return forward_embed(published_tensor(name, 0), decoder_tokens(), decoder_length);
}

static struct rows positions(const char *name, int64_t first)
{
    return forward_slice(published_tensor(name, 0), first, decoder_length);
}

static struct rows norm(struct rows x, const char *name, int layer)
{
    return forward_layer_norm(x, name, layer, EPS);
}

/* Fills in what leaves the last block, and its product with a head of this name. */
static void finish(struct forward *forward, struct rows x, const char *head)
{
    forward->final_hidden_states = x;
    forward->logits = forward_product(x, published_tensor(head, 0));
}

#define LINEAR(name, shape, size) name ".weight " shape ", " name ".bias " size ", "
#define NORM(name)                name ".weight 16, " name ".bias 16, "

/* ------------------------------------------------------------------- GPT-2 -- */

static void pass_gpt2_of(struct forward *forward, int layers)
{
    struct rows x = forward_add(embed("wte.weight"), positions("wpe.weight", 0));
    for (int layer = 0; layer < layers; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, "h.#.ln_1", layer);
        const struct rows qkv = published_conv1d(inputs, "h.#.attn.c_attn", layer);
        forward_edits_layer("self", layer);
        struct published_answer maps =
            forward_edits_attend(&PLAIN.attention, published_split(qkv, 1, 0, 16),
                                 published_split(qkv, 1, 16, 16), published_split(qkv, 1, 32, 16));
        maps.value_norms =
            forward_value_norms(&PLAIN.attention, published_split(qkv, 1, 32, 16),
                                published_tensor("h.#.attn.c_proj.weight", layer), true);
        maps.context =
            forward_edits_output(published_conv1d(maps.context, "h.#.attn.c_proj", layer));
        forward_add_layer(forward, (struct forward_layer){ .kind = "self",
                                                           .heads = HEADS,
                                                           .hidden_states = x,
                                                           .inputs = inputs,
                                                           .maps = maps });
        x = forward_add(x, maps.context);
        const struct rows up = forward_activation(
            published_conv1d(norm(x, "h.#.ln_2", layer), "h.#.mlp.c_fc", layer), "gelu_new");
        x = forward_add(
            x, forward_edits_fed("self", layer, published_conv1d(up, "h.#.mlp.c_proj", layer)));
    }
    finish(forward, norm(x, "ln_f", 0), "wte.weight");
}

static void pass_gpt2(struct forward *forward)
{
    pass_gpt2_of(forward, 2);
}

static void pass_gpt2_of_12(struct forward *forward)
{
    pass_gpt2_of(forward, 12);
}

static void pass_gpt2_of_32(struct forward *forward)
{
    pass_gpt2_of(forward, 32);
}

#define GPT2                                                                                       \
    "wte.weight 40x16, wpe.weight 16x16, " NORM("h.#.ln_1")                                        \
        LINEAR("h.#.attn.c_attn", "16x48", "48") LINEAR("h.#.attn.c_proj", "16x16", "16")          \
            NORM("h.#.ln_2") LINEAR("h.#.mlp.c_fc", "16x64", "64")                                 \
                LINEAR("h.#.mlp.c_proj", "64x16", "16") "ln_f.weight 16, ln_f.bias 16"
#define GPT2_CONFIG(layers)                                                                        \
    "{\"model_type\":\"gpt2\",\"n_embd\":16,\"n_head\":4,\"n_layer\":" layers                      \
    ",\"n_positions\":16,\"vocab_size\":40}"

TEST(gpt2)
{
    check("gpt2", GPT2_CONFIG("2"), GPT2, 2, pass_gpt2);
}

TEST(gpt2_of_12_layers)
{
    check("gpt2_12", GPT2_CONFIG("12"), GPT2, 12, pass_gpt2_of_12);
}

TEST(gpt2_of_32_layers)
{
    check("gpt2_32", GPT2_CONFIG("32"), GPT2, 32, pass_gpt2_of_32);
}

/* ----------------------------------------------------------------- GPT-Neo -- */

#define NEO "transformer.h.#."

/* GPTNeoBlock; a local layer sees window_size keys, its own among them, and scores are not scaled.
 */
static void pass_neo(struct forward *forward)
{
    static const bool is_local[] = { false, true, true, false };
    struct decoder_attention attention = PLAIN;
    attention.attention.scale = 1;
    struct rows x =
        forward_add(embed("transformer.wte.weight"), positions("transformer.wpe.weight", 0));
    for (int layer = 0; layer < 4; layer++) {
        attention.attention.window = is_local[layer] ? 3 : 0;
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, NEO "ln_1", layer);
        x = forward_add(x, decoder_attend(forward, &attention, x, inputs,
                                          decoder_project(inputs, NEO "attn.attention.", layer),
                                          NEO "attn.attention.out_proj", layer));
        x = forward_add(x, decoder_up_down(norm(x, NEO "ln_2", layer), NEO "mlp.c_fc", "gelu_new",
                                           NEO "mlp.c_proj", layer));
    }
    finish(forward, norm(x, "transformer.ln_f", 0), "transformer.wte.weight");
}

TEST(gpt_neo)
{
    check("gpt_neo",
          "{\"model_type\":\"gpt_neo\",\"hidden_size\":16,\"num_heads\":4,\"num_layers\":4,"
          "\"window_size\":3,\"vocab_size\":40,\"max_position_embeddings\":16,"
          "\"attention_types\":[[[\"global\",\"local\"],1],[[\"local\"],1],[[\"global\"],1]]}",
          "transformer.wte.weight 40x16, transformer.wpe.weight 16x16, " NORM(NEO "ln_1")
              NORM(NEO "ln_2") NEO
          "attn.attention.q_proj.weight 16x16, " NEO "attn.attention.k_proj.weight 16x16, " NEO
          "attn.attention.v_proj.weight 16x16, " LINEAR(NEO "attn.attention.out_proj", "16x16",
                                                        "16") LINEAR(NEO "mlp.c_fc", "64x16", "64")
              LINEAR(NEO "mlp.c_proj", "16x64", "16") "transformer.ln_f.weight 16, "
                                                      "transformer.ln_f.bias 16",
          4, pass_neo);
}

/* ---------------------------------------------------------- GPT-NeoX, GPT-J -- */

#define NEOX "gpt_neox.layers.#."

static void pass_neox(struct forward *forward, bool is_parallel)
{
    struct decoder_attention attention = PLAIN;
    attention.rotary_dim = 2;
    attention.theta = 10000;
    struct rows x = embed("gpt_neox.embed_in.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, NEOX "input_layernorm", layer);
        const struct rows qkv = published_linear(inputs, NEOX "attention.query_key_value", layer);
        const struct decoder_projections projections = {
            published_split(qkv, HEADS, 0, HEAD_DIM),
            published_split(qkv, HEADS, HEAD_DIM, HEAD_DIM),
            published_split(qkv, HEADS, 2 * HEAD_DIM, HEAD_DIM),
        };
        const struct rows attended =
            forward_add(x, decoder_attend(forward, &attention, x, inputs, projections,
                                          NEOX "attention.dense", layer));
        const struct rows normed =
            norm(is_parallel ? x : attended, NEOX "post_attention_layernorm", layer);
        x = forward_add(attended, decoder_up_down(normed, NEOX "mlp.dense_h_to_4h", "gelu",
                                                  NEOX "mlp.dense_4h_to_h", layer));
    }
    finish(forward, norm(x, "gpt_neox.final_layer_norm", 0), "embed_out.weight");
}

static void pass_neox_parallel(struct forward *forward)
{
    pass_neox(forward, true);
}

static void pass_neox_in_turn(struct forward *forward)
{
    pass_neox(forward, false);
}

#define NEOX_TENSORS                                                                               \
    "gpt_neox.embed_in.weight 40x16, " NORM(NEOX "input_layernorm")                                \
        NORM(NEOX "post_attention_layernorm")                                                      \
            LINEAR(NEOX "attention.query_key_value", "48x16", "48")                                \
                LINEAR(NEOX "attention.dense", "16x16", "16")                                      \
                    LINEAR(NEOX "mlp.dense_h_to_4h", "24x16", "24")                                \
                        LINEAR(NEOX "mlp.dense_4h_to_h", "16x24", "16")                            \
                            NORM("gpt_neox.final_layer_norm") "embed_out.weight 40x16"
#define NEOX_CONFIG(more)                                                                          \
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":16,\"num_attention_heads\":4,"                   \
    "\"num_hidden_layers\":2,\"intermediate_size\":24,\"vocab_size\":40,\"rotary_pct\":0.5" more   \
    "}"

TEST(gpt_neox)
{
    check("neox", NEOX_CONFIG(""), NEOX_TENSORS, 2, pass_neox_parallel);
    check("neox_in_turn", NEOX_CONFIG(",\"use_parallel_residual\":false"), NEOX_TENSORS, 2,
          pass_neox_in_turn);
}

#define GPTJ "transformer.h.#."

static void pass_gptj(struct forward *forward)
{
    const struct decoder_attention attention = {
        .attention = { .heads = 2, .scale = 1 / sqrt(8), .causal = true },
        .rotary_dim = 4,
        .theta = 10000,
        .is_every_two = true,
    };
    struct rows x = embed("transformer.wte.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, GPTJ "ln_1", layer);
        const struct rows attended = decoder_attend(forward, &attention, x, inputs,
                                                    decoder_project(inputs, GPTJ "attn.", layer),
                                                    GPTJ "attn.out_proj", layer);
        const struct rows fed =
            decoder_up_down(inputs, GPTJ "mlp.fc_in", "gelu_new", GPTJ "mlp.fc_out", layer);
        x = forward_add(forward_add(attended, fed), x);
    }
    finish(forward, norm(x, "transformer.ln_f", 0), "lm_head.weight");
    forward->logits = forward_add_row(forward->logits, published_tensor("lm_head.bias", 0));
}

TEST(gptj)
{
    check("gptj",
          "{\"model_type\":\"gptj\",\"n_embd\":16,\"n_head\":2,\"n_layer\":2,\"rotary_dim\":4,"
          "\"n_positions\":16,\"vocab_size\":40}",
          "transformer.wte.weight 40x16, " NORM(GPTJ "ln_1") GPTJ
          "attn.q_proj.weight 16x16, " GPTJ "attn.k_proj.weight 16x16, " GPTJ
          "attn.v_proj.weight 16x16, " GPTJ
          "attn.out_proj.weight 16x16, " LINEAR(GPTJ "mlp.fc_in", "64x16", "64")
              LINEAR(GPTJ "mlp.fc_out", "16x64", "16")
                  NORM("transformer.ln_f") "lm_head.weight 40x16, lm_head.bias 40",
          2, pass_gptj);
}

/* --------------------------------------------------------------------- OPT -- */

#define OPT "model.decoder.layers.#."

/* OPTDecoderLayer with and without do_layer_norm_before. */
static struct rows opt_block(struct forward *forward, struct rows x, bool is_before,
                             const char *activation, int layer)
{
    x = forward_edits_enter("self", layer, layer, x);
    const struct rows inputs = is_before ? norm(x, OPT "self_attn_layer_norm", layer) : x;
    x = forward_add(x, decoder_attend(forward, &PLAIN, x, inputs,
                                      decoder_project(inputs, OPT "self_attn.", layer),
                                      OPT "self_attn.out_proj", layer));
    if (!is_before)
        x = norm(x, OPT "self_attn_layer_norm", layer);
    const struct rows normed = is_before ? norm(x, OPT "final_layer_norm", layer) : x;
    x = forward_add(x, decoder_up_down(normed, OPT "fc1", activation, OPT "fc2", layer));
    return is_before ? x : norm(x, OPT "final_layer_norm", layer);
}

/* Positions begin at 2. */
static void pass_opt_of(struct forward *forward, const char *activation)
{
    struct rows x = forward_add(embed("model.decoder.embed_tokens.weight"),
                                positions("model.decoder.embed_positions.weight", 2));
    for (int layer = 0; layer < 2; layer++)
        x = opt_block(forward, x, true, activation, layer);
    finish(forward, norm(x, "model.decoder.final_layer_norm", 0),
           "model.decoder.embed_tokens.weight");
}

static void pass_opt(struct forward *forward)
{
    pass_opt_of(forward, "relu");
}

static void pass_galactica(struct forward *forward)
{
    pass_opt_of(forward, "gelu");
}

#define OPT_TENSORS                                                                                \
    "model.decoder.embed_positions.weight 18x16, " PUBLISHED_LINEARS(                              \
        OPT "self_attn.", "q_proj", "k_proj", "v_proj", "out_proj",                                \
        "16") ", " NORM(OPT "self_attn_layer_norm") LINEAR(OPT "fc1", "24x16", "24")               \
        LINEAR(OPT "fc2", "16x24", "16") NORM(OPT "final_layer_norm")
#define OPT_CONFIG(more)                                                                           \
    "{\"model_type\":\"opt\",\"hidden_size\":16,\"num_attention_heads\":4,"                        \
    "\"num_hidden_layers\":2,\"ffn_dim\":24,\"max_position_embeddings\":16,\"vocab_size\":40" more \
    "}"

TEST(opt)
{
    check("opt", OPT_CONFIG(""),
          OPT_TENSORS NORM(
              "model.decoder.final_layer_norm") "model.decoder.embed_tokens.weight 40x16",
          2, pass_opt);
}

/* As Galactica: only its norms have biases. */
TEST(galactica)
{
    check("galactica", OPT_CONFIG(",\"activation_function\":\"gelu\",\"enable_bias\":false"),
          "model.decoder.embed_positions.weight 18x16, " OPT "self_attn.q_proj.weight 16x16, " OPT
          "self_attn.k_proj.weight 16x16, " OPT "self_attn.v_proj.weight 16x16, " OPT
          "self_attn.out_proj.weight 16x16, " OPT "fc1.weight 24x16, " OPT
          "fc2.weight 16x24, " NORM(OPT "self_attn_layer_norm") NORM(OPT "final_layer_norm")
              NORM("model.decoder.final_layer_norm") "model.decoder.embed_tokens.weight 40x16",
          2, pass_galactica);
}

/* As OPT 350M: embeddings of another width, norms after, and no last norm. */
static void pass_opt_350m(struct forward *forward)
{
    struct rows x =
        published_linear(embed("model.decoder.embed_tokens.weight"), "model.decoder.project_in", 0);
    x = forward_add(x, positions("model.decoder.embed_positions.weight", 2));
    for (int layer = 0; layer < 2; layer++)
        x = opt_block(forward, x, false, "relu", layer);
    finish(forward, published_linear(x, "model.decoder.project_out", 0),
           "model.decoder.embed_tokens.weight");
    forward->final_hidden_states = x;
}

TEST(opt_350m)
{
    static const struct decoder_case CASE = {
        .name = "opt_350m",
        .config = OPT_CONFIG(",\"do_layer_norm_before\":false,\"word_embed_proj_dim\":12"),
        .tensors = OPT_TENSORS "model.decoder.project_in.weight 16x12, "
                               "model.decoder.project_out.weight 12x16, "
                               "model.decoder.embed_tokens.weight 40x12",
        .layers = 2,
        .pass = pass_opt_350m,
        .norms_follow = true,
    };
    decoder_case_check(&CASE);
}

/* --------------------------------------------------------------------- Phi -- */

#define PHI "model.layers.#."

static void pass_phi(struct forward *forward)
{
    struct decoder_attention attention = PLAIN;
    attention.attention.kv_heads = 2;
    attention.rotary_dim = 2;
    attention.theta = 10000;
    struct rows x = embed("model.embed_tokens.weight");
    for (int layer = 0; layer < 2; layer++) {
        x = forward_edits_enter("self", layer, layer, x);
        const struct rows inputs = norm(x, PHI "input_layernorm", layer);
        const struct rows attended = decoder_attend(
            forward, &attention, x, inputs, decoder_project(inputs, PHI "self_attn.", layer),
            PHI "self_attn.dense", layer);
        const struct rows fed =
            decoder_up_down(inputs, PHI "mlp.fc1", "gelu_new", PHI "mlp.fc2", layer);
        x = forward_add(forward_add(attended, fed), x);
    }
    finish(forward, norm(x, "model.final_layernorm", 0), "lm_head.weight");
    forward->logits = forward_add_row(forward->logits, published_tensor("lm_head.bias", 0));
}

TEST(phi)
{
    check("phi",
          "{\"model_type\":\"phi\",\"hidden_size\":16,\"intermediate_size\":24,"
          "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"num_hidden_layers\":2,"
          "\"partial_rotary_factor\":0.5,\"vocab_size\":40}",
          "model.embed_tokens.weight 40x16, " NORM(PHI "input_layernorm") LINEAR(
              PHI "self_attn.q_proj", "16x16", "16") LINEAR(PHI "self_attn.k_proj", "8x16", "8")
              LINEAR(PHI "self_attn.v_proj", "8x16", "8")
                  LINEAR(PHI "self_attn.dense", "16x16", "16") LINEAR(PHI "mlp.fc1", "24x16", "24")
                      LINEAR(PHI "mlp.fc2", "16x24", "16")
                          NORM("model.final_layernorm") "lm_head.weight 40x16, lm_head.bias 40",
          2, pass_phi);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
