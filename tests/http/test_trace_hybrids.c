/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_hybrids.c - whole passes of decoders some of whose layers are no attention, compared
 * with POST /v1/trace. Each is written out of the family's modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it; the rest of their
 * blocks is Llama's (forward_llama.h). */
#include "fixture.h"
#include "forward_edits.h"
#include "forward_hybrid.h"
#include "forward_llama.h"
#include "hybrid_model.h"
#include "test.h"

static void hybrid_check(const char *name, const char *config, const char *tensors, int layers,
                         void (*pass)(struct forward *forward))
{
    const struct decoder_case decoder = {
        .name = name, .config = config, .tensors = tensors, .layers = layers, .pass = pass
    };
    decoder_case_check(&decoder);
}

/* ---------------------------------------------------------------------- LFM2 -- */

/* lfm2/modeling_lfm2.py at 0096ba4f66d4. */

static bool lfm2_is_attention(int layer)
{
    return layer == 1 || layer == 3;
}

/* Lfm2ShortConv: in_proj makes B, C and x. */
static struct rows lfm2_convolve(struct rows x, int layer)
{
    const struct rows all = published_linear(x, LLAMA_BLOCK "conv.in_proj", layer);
    const struct rows b = published_split(all, 1, 0, 16), c = published_split(all, 1, 16, 16);
    const struct rows u = forward_multiply(b, published_split(all, 1, 32, 16));
    const struct rows y =
        forward_multiply(c, forward_hybrid_convolve(u, LLAMA_BLOCK "conv.conv", layer));
    return published_linear(y, LLAMA_BLOCK "conv.out_proj", layer);
}

static struct decoder_projections lfm2_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_layernorm.weight", layer,
                       1e-5, 0);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_layernorm.weight", layer,
                       1e-5, 0);
    return projections;
}

/* Lfm2MLP */
static struct rows lfm2_feed_forward(struct rows x, int layer)
{
    const struct rows gate = forward_activation(published_linear(x, LFM2_MLP "w1", layer), "silu");
    const struct rows up = published_linear(x, LFM2_MLP "w3", layer);
    return published_linear(forward_multiply(gate, up), LFM2_MLP "w2", layer);
}

/* Lfm2DecoderLayer */
static struct rows lfm2_block(struct forward *forward, struct rows x, int layer,
                              struct rows (*feed_forward)(struct rows x, int layer))
{
    const char *kind = lfm2_is_attention(layer) ? "self" : "convolution";
    struct decoder_attention attention = LLAMA.attention;
    attention.theta = 1000000;
    x = forward_edits_enter(kind, layer, layer, x);
    const struct rows inputs = forward_rms_norm(x, LLAMA_BLOCK "operator_norm", layer, 1e-5, 0);
    const struct rows mixed =
        lfm2_is_attention(layer)
            ? decoder_attend(forward, &attention, x, inputs, lfm2_project(inputs, layer),
                             LLAMA_ATTENTION "out_proj", layer)
            : forward_hybrid_add(forward, kind, layer, x, inputs, lfm2_convolve(inputs, layer));
    x = forward_add(x, mixed);
    const struct rows normed = forward_rms_norm(x, LLAMA_BLOCK "ffn_norm", layer, 1e-5, 0);
    return forward_add(x, forward_edits_fed(kind, layer, feed_forward(normed, layer)));
}

static void lfm2_pass_of(struct forward *forward,
                         struct rows (*feed_forward)(struct rows x, int layer))
{
    const struct rows embedding = published_tensor("model.embed_tokens.weight", 0);
    struct rows x = forward_embed(embedding, decoder_tokens(), decoder_length);
    for (int layer = 0; layer < 5; layer++)
        x = lfm2_block(forward, x, layer, feed_forward);
    forward->final_hidden_states = forward_rms_norm(x, "model.embedding_norm", 0, 1e-5, 0);
    forward->logits = forward_product(forward->final_hidden_states, embedding);
}

static void lfm2_pass(struct forward *forward)
{
    lfm2_pass_of(forward, lfm2_feed_forward);
}

TEST(lfm2)
{
    hybrid_check("lfm2", LFM2_CONFIG, LFM2_TENSORS, LFM2_LAYERS, lfm2_pass);
}

/* By layer_types, with biases. */
TEST(lfm2_with_biases)
{
    hybrid_check("lfm2_biases",
                 LLAMA_CONFIG("lfm2", "5",
                              ",\"norm_eps\":1e-05,\"conv_bias\":true,\"layer_types\":[\"conv\","
                              "\"full_attention\",\"conv\",\"full_attention\",\"conv\"]"),
                 LFM2_CONVOLUTION("0", LFM2_BIAS("0")) LFM2_ATTENTION("1")
                     LFM2_CONVOLUTION("2", LFM2_BIAS("2")) LFM2_ATTENTION("3")
                         LFM2_CONVOLUTION("4", LFM2_BIAS("4")) LFM2_REST,
                 5, lfm2_pass);
}

/* ------------------------------------------------------------------ LFM2's experts -- */

/* lfm2_moe/modular_lfm2_moe.py at e9702f25318e. */

/* Lfm2MoeExperts: one expert, of [2 * 12, 16] and [16, 12], or of three tensors. */
static struct rows lfm2_expert(struct rows row, int expert, int layer)
{
    char name[96];
    if (published_has(LFM2_MLP "experts.gate_up_proj", layer)) {
        const struct rows up = published_tensor(LFM2_MLP "experts.gate_up_proj", layer);
        const struct rows down = published_tensor(LFM2_MLP "experts.down_proj", layer);
        const struct rows both =
            forward_product(row, forward_view(forward_slice(up, expert, 1), 16));
        const struct rows gate = forward_activation(published_split(both, 1, 0, 12), "silu");
        return forward_product(forward_multiply(gate, published_split(both, 1, 12, 12)),
                               forward_view(forward_slice(down, expert, 1), 12));
    }
    snprintf(name, sizeof name, LFM2_MLP "experts.%d.w1", expert);
    const struct rows gate = forward_activation(published_linear(row, name, layer), "silu");
    snprintf(name, sizeof name, LFM2_MLP "experts.%d.w3", expert);
    const struct rows up = published_linear(row, name, layer);
    snprintf(name, sizeof name, LFM2_MLP "experts.%d.w2", expert);
    return published_linear(forward_multiply(gate, up), name, layer);
}

/* One row of Lfm2MoeSparseMoeBlock: so many of four experts, by their sigmoids and the bias. */
static struct rows lfm2_experts_row(struct rows row, int layer, int chosen, double scale)
{
    const struct rows scores = published_linear(row, LFM2_MLP "gate", layer);
    const bool has_bias = published_has(LFM2_MLP "expert_bias", layer);
    double sigmoids[4], choice[4], sum = 1e-6;
    bool is_chosen[4] = { false };
    for (int e = 0; e < 4; e++) {
        sigmoids[e] = 1 / (1 + exp(-scores.data[e]));
        choice[e] = sigmoids[e];
        if (has_bias)
            choice[e] += published_tensor(LFM2_MLP "expert_bias", layer).data[e];
    }
    for (int i = 0; i < chosen; i++) {
        int best = -1;
        for (int e = 0; e < 4; e++)
            if (!is_chosen[e] && (best < 0 || choice[e] > choice[best]))
                best = e;
        is_chosen[best] = true;
        sum += sigmoids[best];
    }
    struct rows y = published_rows(1, row.columns);
    for (int e = 0; e < 4; e++)
        if (is_chosen[e])
            y = forward_add(y,
                            forward_scale(lfm2_expert(row, e, layer), scale * sigmoids[e] / sum));
    return y;
}

static struct rows lfm2_experts(struct rows x, int layer, int chosen, double scale)
{
    struct rows y = lfm2_experts_row(forward_slice(x, 0, 1), layer, chosen, scale);
    for (int64_t i = 1; i < x.count; i++)
        y = forward_join(y, lfm2_experts_row(forward_slice(x, i, 1), layer, chosen, scale));
    return y;
}

/* The first block has one feed-forward. */
static struct rows lfm2_moe_feed_forward(struct rows x, int layer)
{
    return layer < 1 ? lfm2_feed_forward(x, layer) : lfm2_experts(x, layer, 2, 1.5);
}

static void lfm2_moe_pass(struct forward *forward)
{
    lfm2_pass_of(forward, lfm2_moe_feed_forward);
}

TEST(lfm2_moe)
{
    hybrid_check("lfm2_moe", LFM2_MOE_CONFIG, LFM2_MOE_TENSORS, LFM2_LAYERS, lfm2_moe_pass);
}

/* All four experts without a bias, in two tensors; of some rows all sigmoids are so small that what
 * is added to their sum counts. */
static struct rows lfm2_all_experts(struct rows x, int layer)
{
    return lfm2_experts(x, layer, 4, 1);
}

static void lfm2_all_experts_pass(struct forward *forward)
{
    lfm2_pass_of(forward, lfm2_all_experts);
}

TEST(lfm2_moe_of_all_experts)
{
    hybrid_check("lfm2_moe_all",
                 LLAMA_CONFIG("lfm2_moe", "5",
                              LFM2_MOE_FIELDS ",\"num_dense_layers\":0,\"num_experts_per_tok\":4,"
                                              "\"use_expert_bias\":false"),
                 LFM2_LAYERS_BEFORE_MLP LFM2_MLP "gate.weight 4x16*100, " LFM2_MLP
                                                 "experts.gate_up_proj 4x24x16, " LFM2_MLP
                                                 "experts.down_proj 4x16x12, " LFM2_NORMS,
                 LFM2_LAYERS, lfm2_all_experts_pass);
}

/* --------------------------------------------------------------------- Mamba-2 -- */

/* What a family's blocks are beside their norms before each part. */
struct hybrid {
    int layers;
    const char *norms[2], *last_norm;
    double eps, residual_scale, embedding_scale, logit_divisor; /* 0: 1 */
    bool (*is_attention)(int layer);
    struct decoder_attention attention;
    struct rows (*mix)(struct rows x, int layer);
    struct rows (*feed_forward)(struct rows x, int layer);
};

static double or_one(double number)
{
    return number > 0 ? number : 1;
}

static struct rows hybrid_block(struct forward *forward, const struct hybrid *hybrid, struct rows x,
                                int layer)
{
    const char *kind = hybrid->is_attention(layer) ? "self" : "mamba";
    const double scale = or_one(hybrid->residual_scale);
    x = forward_edits_enter(kind, layer, layer, x);
    const struct rows inputs = forward_rms_norm(x, hybrid->norms[0], layer, hybrid->eps, 0);
    const struct rows mixed =
        hybrid->is_attention(layer)
            ? decoder_attend(forward, &hybrid->attention, x, inputs, llama_project(inputs, layer),
                             LLAMA_ATTENTION "o_proj", layer)
            : forward_hybrid_add(forward, kind, layer, x, inputs, hybrid->mix(inputs, layer));
    x = forward_add(x, forward_scale(mixed, scale));
    const struct rows normed = forward_rms_norm(x, hybrid->norms[1], layer, hybrid->eps, 0);
    const struct rows fed = forward_edits_fed(kind, layer, hybrid->feed_forward(normed, layer));
    return forward_add(x, forward_scale(fed, scale));
}

static void hybrid_pass(struct forward *forward, const struct hybrid *hybrid)
{
    struct rows x = forward_embed(published_tensor("model.embed_tokens.weight", 0),
                                  decoder_tokens(), decoder_length);
    x = forward_scale(x, or_one(hybrid->embedding_scale));
    for (int layer = 0; layer < hybrid->layers; layer++)
        x = hybrid_block(forward, hybrid, x, layer);
    forward->final_hidden_states = forward_rms_norm(x, hybrid->last_norm, 0, hybrid->eps, 0);
    forward->logits = forward_scale(
        forward_product(forward->final_hidden_states, published_tensor("lm_head.weight", 0)),
        1 / or_one(hybrid->logit_divisor));
}

/* BambaMixer of bamba/modular_bamba.py at 024072ac6f92, also of granitemoehybrid. */
static struct rows bamba_mix(struct rows x, int layer)
{
    static const struct hybrid_mamba MAMBA_2 = { .begin = LLAMA_BLOCK "mamba.",
                                                 .heads = 4,
                                                 .groups = 2,
                                                 .state = 6,
                                                 .norm_groups = 1,
                                                 .eps = 1e-5 };
    return forward_hybrid_mamba(x, &MAMBA_2, layer);
}

static bool is_second_or_fourth(int layer)
{
    return layer == 1 || layer == 3;
}

static struct hybrid hybrid_of(const struct hybrid *hybrid)
{
    struct hybrid of = *hybrid;
    of.layers = 4;
    of.eps = 1e-5;
    of.is_attention = is_second_or_fourth;
    of.attention = LLAMA.attention;
    of.mix = bamba_mix;
    return of;
}

/* ----------------------------------------------------------------------- Bamba -- */

static struct rows bamba_feed_forward(struct rows x, int layer)
{
    return decoder_gated(x, LLAMA_BLOCK "feed_forward.", "silu", layer);
}

/* BambaDecoderLayer; half of a head is rotated. */
static void bamba_pass(struct forward *forward)
{
    static const struct hybrid BAMBA = { .norms = { LLAMA_BLOCK "input_layernorm",
                                                    LLAMA_BLOCK "pre_ff_layernorm" },
                                         .last_norm = "model.final_layernorm",
                                         .feed_forward = bamba_feed_forward };
    struct hybrid bamba = hybrid_of(&BAMBA);
    bamba.attention.rotary_dim = 2;
    hybrid_pass(forward, &bamba);
}

TEST(bamba)
{
    hybrid_check("bamba", BAMBA_CONFIG, BAMBA_TENSORS, 4, bamba_pass);
}

/* ------------------------------------------------------------- Granite MoE hybrid -- */

/* granitemoehybrid/modular_granitemoehybrid.py at 023633dd6387. */

/* GraniteMoeSharedMLP: input_linear, chunk(2). */
static struct rows granite_shared(struct rows x, int layer)
{
    const struct rows up = published_linear(x, LLAMA_BLOCK "shared_mlp.input_linear", layer);
    const struct rows gate = forward_activation(published_split(up, 1, 0, 24), "silu");
    return published_linear(forward_multiply(gate, published_split(up, 1, 24, 24)),
                            LLAMA_BLOCK "shared_mlp.output_linear", layer);
}

/* One row of GraniteMoeSharedMoE: the softmax of the two largest of four. */
static struct rows granite_row(struct rows row, int layer)
{
    const struct rows scores =
        published_linear(row, LLAMA_BLOCK "block_sparse_moe.router.layer", layer);
    const struct rows input =
        published_tensor(LLAMA_BLOCK "block_sparse_moe.input_linear.weight", layer);
    const struct rows output =
        published_tensor(LLAMA_BLOCK "block_sparse_moe.output_linear.weight", layer);
    int best[2] = { 0, -1 };
    for (int e = 1; e < 4; e++)
        best[0] = scores.data[e] > scores.data[best[0]] ? e : best[0];
    for (int e = 0; e < 4; e++)
        if (e != best[0] && (best[1] < 0 || scores.data[e] > scores.data[best[1]]))
            best[1] = e;
    struct rows sum = published_rows(1, row.columns);
    for (int i = 0; i < 2; i++) {
        const struct rows in = forward_view(forward_slice(input, best[i], 1), 16);
        const struct rows out = forward_view(forward_slice(output, best[i], 1), 12);
        const struct rows up = forward_product(row, in);
        const struct rows gate = forward_activation(published_split(up, 1, 0, 12), "silu");
        const double weight = 1 / (1 + exp(scores.data[best[1 - i]] - scores.data[best[i]]));
        sum = forward_add(
            sum, forward_scale(
                     forward_product(forward_multiply(gate, published_split(up, 1, 12, 12)), out),
                     weight));
    }
    return sum;
}

static struct rows granite_mix(struct rows x, int layer)
{
    struct rows y = granite_row(forward_slice(x, 0, 1), layer);
    for (int64_t i = 1; i < x.count; i++)
        y = forward_join(y, granite_row(forward_slice(x, i, 1), layer));
    return forward_add(y, granite_shared(x, layer));
}

static const struct hybrid GRANITE = { .norms = { LLAMA_BLOCK "input_layernorm",
                                                  LLAMA_BLOCK "post_attention_layernorm" },
                                       .last_norm = "model.norm",
                                       .residual_scale = 0.22,
                                       .embedding_scale = 12,
                                       .logit_divisor = 8,
                                       .feed_forward = granite_shared };

/* Granite 4.0 H Micro and the like: no experts, no positions. */
static void granite_pass(struct forward *forward)
{
    struct hybrid granite = hybrid_of(&GRANITE);
    granite.attention.attention.scale = 0.25;
    granite.attention.rotary_dim = 0;
    hybrid_pass(forward, &granite);
}

TEST(granitemoehybrid_without_experts)
{
    hybrid_check("granite_h", GRANITE_CONFIG, GRANITE_TENSORS, 4, granite_pass);
}

static void granite_experts_pass(struct forward *forward)
{
    struct hybrid granite = hybrid_of(&GRANITE);
    granite.attention.attention.scale = 0.25;
    granite.feed_forward = granite_mix;
    hybrid_pass(forward, &granite);
}

TEST(granitemoehybrid)
{
    hybrid_check("granite_h_experts", GRANITE_EXPERTS_CONFIG, GRANITE_EXPERTS_TENSORS, 4,
                 granite_experts_pass);
}

/* ------------------------------------------------------------------- Nemotron-H -- */

/* nemotron_h/modular_nemotron_h.py at 008d9e9577b0: blocks of one part each, M - * E M *. */

#define MIXER "backbone.layers.#.mixer."

static struct rows nemotron_mamba(struct rows x, int layer)
{
    static const struct hybrid_mamba MAMBA_2 = {
        .begin = MIXER, .heads = 4, .groups = 2, .state = 6, .norm_groups = 2, .eps = 1e-5
    };
    return forward_hybrid_mamba(x, &MAMBA_2, layer);
}

/* NemotronHMLP behind begin. */
static struct rows nemotron_mlp(struct rows x, const char *begin, int layer)
{
    char up[96], down[96];
    snprintf(up, sizeof up, MIXER "%sup_proj", begin);
    snprintf(down, sizeof down, MIXER "%sdown_proj", begin);
    return published_linear(forward_activation(published_linear(x, up, layer), "relu2"), down,
                            layer);
}

/* One row of NemotronHMoE: the two of three experts whose sigmoid with the bias is largest, by
 * sigmoids that sum to 1, times routed_scaling_factor. */
static struct rows nemotron_row(struct rows row, int layer)
{
    const struct rows scores = published_linear(row, MIXER "gate", layer);
    const struct rows bias = published_tensor(MIXER "gate.e_score_correction_bias", layer);
    double sigmoids[3], sum = 0;
    int least = 0;
    for (int e = 0; e < 3; e++) {
        sigmoids[e] = 1 / (1 + exp(-scores.data[e]));
        if (sigmoids[e] + bias.data[e] < sigmoids[least] + bias.data[least])
            least = e;
    }
    for (int e = 0; e < 3; e++)
        sum += e != least ? sigmoids[e] : 0;
    struct rows y = nemotron_mlp(row, "shared_experts.", layer);
    for (int e = 0; e < 3; e++) {
        char begin[32];
        snprintf(begin, sizeof begin, "experts.%d.", e);
        if (e != least)
            y = forward_add(
                y, forward_scale(nemotron_mlp(row, begin, layer), 2.5 * sigmoids[e] / sum));
    }
    return y;
}

static struct rows nemotron_experts(struct rows x, int layer)
{
    struct rows y = nemotron_row(forward_slice(x, 0, 1), layer);
    for (int64_t i = 1; i < x.count; i++)
        y = forward_join(y, nemotron_row(forward_slice(x, i, 1), layer));
    return y;
}

static const char NEMOTRON[] = "M-*EM*";

/* NemotronHBlock; attention knows no positions. */
static struct rows nemotron_block(struct forward *forward, struct rows x, int layer)
{
    const char letter = NEMOTRON[layer];
    const char *kind = letter == 'M' ? "mamba" : letter == '*' ? "self" : "feed_forward";
    struct decoder_attention attention = LLAMA.attention;
    attention.rotary_dim = 0;
    x = forward_edits_enter(kind, layer, layer, x);
    const struct rows normed = forward_rms_norm(x, "backbone.layers.#.norm", layer, 1e-5, 0);
    if (letter == 'M')
        return forward_add(
            x, forward_hybrid_add(forward, kind, layer, x, normed, nemotron_mamba(normed, layer)));
    if (letter == '*')
        return forward_add(x, decoder_attend(forward, &attention, x, normed,
                                             decoder_project(normed, MIXER, layer), MIXER "o_proj",
                                             layer));
    forward_hybrid_add_fed(forward, x);
    const struct rows fed =
        letter == 'E' ? nemotron_experts(normed, layer) : nemotron_mlp(normed, "", layer);
    return forward_add(x, forward_edits_fed(kind, layer, fed));
}

static void nemotron_pass(struct forward *forward)
{
    struct rows x = forward_embed(published_tensor("backbone.embeddings.weight", 0),
                                  decoder_tokens(), decoder_length);
    for (int layer = 0; layer < 6; layer++)
        x = nemotron_block(forward, x, layer);
    forward->final_hidden_states = forward_rms_norm(x, "backbone.norm_f", 0, 1e-5, 0);
    forward->logits =
        forward_product(forward->final_hidden_states, published_tensor("lm_head.weight", 0));
}

TEST(nemotron_h)
{
    hybrid_check("nemotron_h", NEMOTRON_CONFIG, NEMOTRON_TENSORS, 6, nemotron_pass);
}

TEST(nemotron_h_by_types)
{
    hybrid_check("nemotron_h_types",
                 LLAMA_CONFIG("nemotron_h", "6",
                              NEMOTRON_FIELDS
                              ",\"layers_block_type\":[\"linear_attention\",\"mlp\","
                              "\"full_attention\",\"moe\",\"mamba\",\"attention\"]"),
                 NEMOTRON_TENSORS, 6, nemotron_pass);
}

/* ------------------------------------------------------------------- Falcon-H1 -- */

/* falcon_h1/modeling_falcon_h1.py at 001f85b38fb4. Layers are attention of all blocks, then the
 * mixers beside it. */

struct falcon {
    struct hybrid_mamba mamba;
    double attention_in, attention_out, key, mamba_in, mamba_out, gate, down, embedding, head;
};

static const double FALCON_COLUMNS[] = { 0.75, 1.25, 0.5, 1.5, 0.625 };

/* FalconH1MLP */
static struct rows falcon_feed_forward(const struct falcon *falcon, struct rows x, int layer)
{
    const struct rows gate = published_linear(x, LLAMA_BLOCK "feed_forward.gate_proj", layer);
    const struct rows up = published_linear(x, LLAMA_BLOCK "feed_forward.up_proj", layer);
    const struct rows both =
        forward_multiply(up, forward_activation(forward_scale(gate, falcon->gate), "silu"));
    return published_linear(both, LLAMA_BLOCK "feed_forward.down_proj", layer);
}

/* FalconH1DecoderLayer */
static struct rows falcon_block(struct forward *forward, const struct falcon *falcon, struct rows x,
                                int layer)
{
    x = forward_edits_enter("self", layer, layer, x);
    const struct rows normed = forward_rms_norm(x, LLAMA_BLOCK "input_layernorm", layer, 1e-5, 0);
    const struct rows inputs = forward_scale(normed, falcon->attention_in);
    struct decoder_projections projections = llama_project(inputs, layer);
    projections.k = forward_scale(projections.k, falcon->key);
    const struct rows attended = decoder_attend(forward, &LLAMA.attention, x, inputs, projections,
                                                LLAMA_ATTENTION "o_proj", layer);
    const struct rows entering = forward_scale(normed, falcon->mamba_in);
    const struct rows mixed =
        forward_hybrid_add_beside(forward, "mamba", FALCON_BLOCKS + layer, x, entering,
                                  forward_hybrid_mamba(entering, &falcon->mamba, layer));
    x = forward_add(x, forward_add(forward_scale(mixed, falcon->mamba_out),
                                   forward_scale(attended, falcon->attention_out)));
    const struct rows fed = falcon_feed_forward(
        falcon, forward_rms_norm(x, LLAMA_BLOCK "pre_ff_layernorm", layer, 1e-5, 0), layer);
    return forward_add(x, forward_scale(forward_edits_fed("self", layer, fed), falcon->down));
}

static void falcon_pass(struct forward *forward, const struct falcon *falcon)
{
    struct rows x = forward_embed(published_tensor("model.embed_tokens.weight", 0),
                                  decoder_tokens(), decoder_length);
    x = forward_scale(x, falcon->embedding);
    for (int layer = 0; layer < FALCON_BLOCKS; layer++)
        x = falcon_block(forward, falcon, x, layer);
    forward->final_hidden_states = forward_rms_norm(x, "model.final_layernorm", 0, 1e-5, 0);
    forward->logits = forward_scale(
        forward_product(forward->final_hidden_states, published_tensor("lm_head.weight", 0)),
        falcon->head);
}

#define FALCON_MAMBA .begin = LLAMA_BLOCK "mamba.", .heads = 4, .groups = 2, .state = 6, .eps = 1e-5

static void falcon_check(const char *name, const char *config, const char *tensors,
                         void (*pass)(struct forward *forward))
{
    const struct decoder_case decoder = { .name = name,
                                          .config = config,
                                          .tensors = tensors,
                                          .layers = 2 * FALCON_BLOCKS,
                                          .pass = pass };
    decoder_case_check_blocks(&decoder, FALCON_BLOCKS);
}

/* As Falcon-H1-0.5B: with all multipliers, without a norm. */
static void falcon_multiplied_pass(struct forward *forward)
{
    static const struct falcon FALCON = { .mamba = { FALCON_MAMBA, .multipliers = FALCON_COLUMNS },
                                          .attention_in = 0.875,
                                          .attention_out = 0.9375,
                                          .key = 0.625,
                                          .mamba_in = 1.25,
                                          .mamba_out = 0.375,
                                          .gate = 0.8125,
                                          .down = 0.5625,
                                          .embedding = 2.5,
                                          .head = 0.75 };
    falcon_pass(forward, &FALCON);
}

TEST(falcon_h1)
{
    falcon_check("falcon_h1", FALCON_CONFIG, FALCON_TENSORS(FALCON_NONE, ""),
                 falcon_multiplied_pass);
}

/* Without multipliers, with a norm of each group before the gate; all projections have biases. */
static void falcon_normed_pass(struct forward *forward)
{
    static const struct falcon FALCON = { .mamba = { FALCON_MAMBA, .norm_groups = 2,
                                                     .norm_is_first = true },
                                          .attention_in = 1,
                                          .attention_out = 1,
                                          .key = 1,
                                          .mamba_in = 1,
                                          .mamba_out = 1,
                                          .gate = 1,
                                          .down = 1,
                                          .embedding = 1,
                                          .head = 1 };
    falcon_pass(forward, &FALCON);
}

TEST(falcon_h1_with_norms_and_biases)
{
    falcon_check(
        "falcon_h1_norms",
        LLAMA_CONFIG("falcon_h1", "2", FALCON_FIELDS FALCON_BIASES ",\"mamba_rms_norm\":true"),
        FALCON_TENSORS(FALCON_BIAS, LLAMA_BLOCK "mamba.norm.weight 32, "), falcon_normed_pass);
}

/* The same norm behind the gate, and multipliers of biases. */
static void falcon_gated_pass(struct forward *forward)
{
    static const struct falcon FALCON = { .mamba = { FALCON_MAMBA, .norm_groups = 2,
                                                     .multipliers = FALCON_COLUMNS },
                                          .attention_in = 0.875,
                                          .attention_out = 0.9375,
                                          .key = 0.625,
                                          .mamba_in = 1.25,
                                          .mamba_out = 0.375,
                                          .gate = 0.8125,
                                          .down = 0.5625,
                                          .embedding = 2.5,
                                          .head = 0.75 };
    falcon_pass(forward, &FALCON);
}

TEST(falcon_h1_with_norms_behind_gates)
{
    falcon_check("falcon_h1_gates",
                 LLAMA_CONFIG("falcon_h1", "2",
                              FALCON_FIELDS FALCON_MULTIPLIERS FALCON_BIASES
                              ",\"mamba_rms_norm\":true,\"mamba_norm_before_gate\":false"),
                 FALCON_TENSORS(FALCON_BIAS, LLAMA_BLOCK "mamba.norm.weight 32, "),
                 falcon_gated_pass);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
