/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_mixtures.c - whole passes of decoders with mixtures of experts compared with POST
 * /v1/trace. Each is written out of the family's modeling file in Hugging Face transformers,
 * src/transformers/models/, at the commit that stands with it; the rest of their blocks is
 * Llama's (forward_llama.h). Mixtral as published is in test_trace_llamas.c. */
#include "fixture.h"
#include "forward_llama.h"
#include "test.h"

#define MLP         LLAMA_BLOCK "mlp."
#define SPARSE_MOE  LLAMA_BLOCK "block_sparse_moe."
#define EXPERTS     4
#define EXPERT_SIZE 12

/* What a family's sparse block does with one row. */
struct mixture {
    const char *router;
    void (*route)(const double scores[EXPERTS], double weights[EXPERTS]); /* 0: not chosen */
    struct rows (*expert)(struct rows row, int number, int layer);
    struct rows (*shared)(struct rows row, int layer); /* NULL: none */
};

/* The expert with the largest score, but for that one; -1: none is left out. */
static int largest(const double scores[EXPERTS], int without)
{
    int best = -1;
    for (int e = 0; e < EXPERTS; e++)
        if (e != without && (best < 0 || scores[e] > scores[best]))
            best = e;
    return best;
}

/* torch.topk of the softmax over all experts: norm_topk_prob false. */
static void route(const double scores[EXPERTS], double weights[EXPERTS])
{
    const int first = largest(scores, -1), second = largest(scores, first);
    double all = 0;
    for (int e = 0; e < EXPERTS; e++)
        all += exp(scores[e]);
    weights[first] = exp(scores[first]) / all;
    weights[second] = exp(scores[second]) / all;
}

/* norm_topk_prob, or the softmax of the chosen ones alone. */
static void route_normalized(const double scores[EXPERTS], double weights[EXPERTS])
{
    route(scores, weights);
    double sum = 0;
    for (int e = 0; e < EXPERTS; e++)
        sum += weights[e];
    for (int e = 0; e < EXPERTS; e++)
        weights[e] /= sum;
}

/* The weighted sum of what the chosen experts compute. */
static struct rows mix_row(const struct mixture *mixture, struct rows row, const double *scores,
                           int layer)
{
    double weights[EXPERTS] = { 0 };
    struct rows sum = published_rows(1, row.columns);
    mixture->route(scores, weights);
    for (int e = 0; e < EXPERTS; e++)
        if (weights[e] > 0)
            sum = forward_add(sum, forward_scale(mixture->expert(row, e, layer), weights[e]));
    return mixture->shared ? forward_add(sum, mixture->shared(row, layer)) : sum;
}

static struct rows mix(const struct mixture *mixture, struct rows x, int layer)
{
    const struct rows scores = published_linear(x, mixture->router, layer);
    struct rows y = published_rows(0, x.columns);
    assert_int_equal(scores.columns, EXPERTS);
    for (int64_t i = 0; i < x.count; i++) {
        const struct rows row =
            mix_row(mixture, forward_slice(x, i, 1), scores.data + i * EXPERTS, layer);
        y = i == 0 ? row : forward_join(y, row);
    }
    return y;
}

/* Qwen3MoeMLP, one of experts. */
static struct rows gated_expert(struct rows row, int number, int layer)
{
    char begin[96];
    snprintf(begin, sizeof begin, MLP "experts.%d.", number);
    return decoder_gated(row, begin, "silu", layer);
}

/* Matrix number index of a tensor [EXPERTS, out, in]. */
static struct rows matrix_of(const char *name, int layer, int index, int64_t out)
{
    const struct rows whole = published_tensor(name, layer);
    return forward_view(forward_slice(whole, index, 1), whole.columns / out);
}

/* The same where one tensor has gate and up of all experts, and another one down. */
static struct rows stacked_expert(struct rows row, const char *input, const char *output,
                                  int number, int layer)
{
    const struct rows up =
        forward_product(row, matrix_of(input, layer, number, 2 * (int64_t)EXPERT_SIZE));
    const struct rows gate = forward_activation(published_split(up, 1, 0, EXPERT_SIZE), "silu");
    return forward_product(forward_multiply(gate, published_split(up, 1, EXPERT_SIZE, EXPERT_SIZE)),
                           matrix_of(output, layer, number, row.columns));
}

#define EXPERT(e)                                                                                  \
    MLP "experts." e ".gate_proj.weight 12x16, " MLP "experts." e ".up_proj.weight 12x16, " MLP    \
        "experts." e ".down_proj.weight 16x12, "
#define EXPERT_TENSORS MLP "gate.weight 4x16*2, " EXPERT("0") EXPERT("1") EXPERT("2") EXPERT("3")

#define EXPERT_FIELDS ",\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":12"

/* -------------------------------------------------------------------- Qwen 3 -- */

/* qwen3_moe/modeling_qwen3_moe.py at 00d4b3d2142c, Qwen3MoeAttention. */
static struct decoder_projections qwen3_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_norm.weight", layer, 1e-6, 0);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_norm.weight", layer, 1e-6,
                       0);
    return projections;
}

/* Qwen3MoeSparseMoeBlock. */
static struct rows qwen3_mix(struct rows x, int layer)
{
    const struct mixture mixture = { .router = MLP "gate", .route = route, .expert = gated_expert };
    return mix(&mixture, x, layer);
}

/* Qwen3MoeDecoderLayer where mlp_only_layers has layer 1. */
static struct rows qwen3_feed_forward(struct rows x, int layer)
{
    return layer == 1 ? llama_feed_forward(x, layer) : qwen3_mix(x, layer);
}

static struct rows qwen3_normalized(struct rows x, int layer)
{
    const struct mixture mixture = { .router = MLP "gate",
                                     .route = route_normalized,
                                     .expert = gated_expert };
    return mix(&mixture, x, layer);
}

static struct rows qwen3_expert(struct rows row, int number, int layer)
{
    return stacked_expert(row, MLP "experts.gate_up_proj", MLP "experts.down_proj", number, layer);
}

static struct rows qwen3_stacked(struct rows x, int layer)
{
    const struct mixture mixture = { .router = MLP "gate", .route = route, .expert = qwen3_expert };
    return mix(&mixture, x, layer);
}

static void pass_qwen3(struct forward *forward, int layers,
                       struct rows (*feed_forward)(struct rows x, int layer))
{
    struct llama llama = LLAMA;
    llama.layers = layers;
    llama.project = qwen3_project;
    llama.feed_forward = feed_forward;
    llama_pass(forward, &llama);
}

static void pass_some_dense(struct forward *forward)
{
    pass_qwen3(forward, 3, qwen3_feed_forward);
}

static void pass_normalized(struct forward *forward)
{
    pass_qwen3(forward, 2, qwen3_normalized);
}

static void pass_stacked(struct forward *forward)
{
    pass_qwen3(forward, 2, qwen3_stacked);
}

#define QWEN3_AROUND                                                                               \
    LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_HEAD_NORMS LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD

TEST(qwen3_moe)
{
    llama_check("qwen3_moe",
                LLAMA_CONFIG("qwen3_moe", "3",
                             EXPERT_FIELDS ",\"head_dim\":4,\"mlp_only_layers\":[1],"
                                           "\"norm_topk_prob\":false"),
                EXPERT_TENSORS LLAMA_GATED QWEN3_AROUND, 3, pass_some_dense);
}

TEST(qwen3_moe_normalized)
{
    llama_check(
        "qwen3_moe_normalized",
        LLAMA_CONFIG("qwen3_moe", "2", EXPERT_FIELDS ",\"head_dim\":4,\"norm_topk_prob\":true"),
        EXPERT_TENSORS QWEN3_AROUND, 2, pass_normalized);
}

#define STACKED(up, down) up " 4x24x16, " down " 4x16x12, "

/* qwen3_moe/modular_qwen3_moe.py at 00d4b3d2142c and after: Qwen3MoeExperts. */
TEST(qwen3_moe_stacked)
{
    llama_check(
        "qwen3_moe_stacked", LLAMA_CONFIG("qwen3_moe", "2", EXPERT_FIELDS ",\"head_dim\":4"),
        MLP "gate.weight 4x16*2, " STACKED(MLP "experts.gate_up_proj", MLP "experts.down_proj")
            QWEN3_AROUND,
        2, pass_stacked);
}

/* ------------------------------------------------------------------- Mixtral -- */

/* conversion_mapping.py at 000c33fdfde1, "mixtral": as MixtralExperts of transformers 5 has them.
 */
static struct rows mixtral_feed_forward(struct rows x, int layer)
{
    const struct mixture mixture = { .router = MLP "gate",
                                     .route = route_normalized,
                                     .expert = qwen3_expert };
    return mix(&mixture, x, layer);
}

static void pass_mixtral(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.feed_forward = mixtral_feed_forward;
    llama_pass(forward, &llama);
}

TEST(mixtral_stacked)
{
    llama_check(
        "mixtral_stacked",
        LLAMA_CONFIG("mixtral", "2",
                     ",\"num_local_experts\":4,\"num_experts_per_tok\":2,\"rope_theta\":10000.0,"
                     "\"rms_norm_eps\":1e-06"),
        MLP "gate.weight 4x16*2, " STACKED(MLP "experts.gate_up_proj", MLP "experts.down_proj")
            LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
        2, pass_mixtral);
}

/* -------------------------------------------------------------------- Qwen 2 -- */

/* qwen2_moe/modeling_qwen2_moe.py at 00a3f9386614, Qwen2MoeSparseMoeBlock: what every row has
 * besides. */
static struct rows qwen2_shared(struct rows row, int layer)
{
    const double gate = published_linear(row, MLP "shared_expert_gate", layer).data[0];
    return forward_scale(decoder_gated(row, MLP "shared_expert.", "silu", layer),
                         1 / (1 + exp(-gate)));
}

/* Qwen2MoeDecoderLayer with a decoder_sparse_step of 2. */
static struct rows qwen2_feed_forward(struct rows x, int layer)
{
    const struct mixture mixture = {
        .router = MLP "gate", .route = route, .expert = gated_expert, .shared = qwen2_shared
    };
    return (layer + 1) % 2 == 0 ? mix(&mixture, x, layer) : llama_feed_forward(x, layer);
}

static void pass_qwen2(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.feed_forward = qwen2_feed_forward;
    llama_pass(forward, &llama);
}

#define QWEN2_TENSORS                                                                              \
    EXPERT_TENSORS LLAMA_GATED LLAMA_ATTENTION                                                     \
        "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION "v_proj.bias 8, " MLP \
        "shared_expert.gate_proj.weight 20x16, " MLP "shared_expert.up_proj.weight 20x16, " MLP    \
        "shared_expert.down_proj.weight 16x20, " MLP                                               \
        "shared_expert_gate.weight 1x16*2, " LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_NORMS         \
            LLAMA_LAST_NORM LLAMA_HEAD

#define QWEN2_CONFIG                                                                               \
    LLAMA_CONFIG("qwen2_moe", "2",                                                                 \
                 EXPERT_FIELDS ",\"shared_expert_intermediate_size\":20,"                          \
                               "\"decoder_sparse_step\":2,\"norm_topk_prob\":false")

TEST(qwen2_moe)
{
    llama_check("qwen2_moe", QWEN2_CONFIG, QWEN2_TENSORS, 2, pass_qwen2);
}

/* More rows than one panel of the shared expert has. */
TEST(qwen2_moe_of_many_tokens)
{
    static const struct decoder_case LONG = {
        "qwen2_moe_long", QWEN2_CONFIG, QWEN2_TENSORS, 2, pass_qwen2, "F16", 600, false, false
    };
    decoder_case_check(&LONG);
}

/* --------------------------------------------------------------------- OLMoE -- */

/* olmoe/modeling_olmoe.py at 00dcc6dda6f6, OlmoeAttention: norms over all heads of a row. */
static struct decoder_projections olmoe_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, 1, LLAMA_ATTENTION "q_norm.weight", layer, 1e-6, 0);
    published_rms_norm(projections.k, 1, LLAMA_ATTENTION "k_norm.weight", layer, 1e-6, 0);
    return projections;
}

/* OlmoeSparseMoeBlock is Qwen3MoeSparseMoeBlock. */
static void pass_olmoe(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.project = olmoe_project;
    llama.feed_forward = qwen3_mix;
    llama_pass(forward, &llama);
}

TEST(olmoe)
{
    llama_check("olmoe",
                LLAMA_CONFIG("olmoe", "2",
                             ",\"num_experts\":4,\"num_experts_per_tok\":2,\"clip_qkv\":null,"
                             "\"norm_topk_prob\":false,\"rms_norm_eps\":1e-06"),
                EXPERT_TENSORS LLAMA_ATTENTION "q_norm.weight 16, " LLAMA_ATTENTION
                                               "k_norm.weight 8, " LLAMA_EMBEDDING LLAMA_PROJECTIONS
                                                   LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
                2, pass_olmoe);
}

/* ------------------------------------------------------------------- Granite -- */

/* granitemoe/modeling_granitemoe.py at 013458c1caaa, GraniteMoeMoE: input_linear, chunk(2),
 * output_linear. */
static struct rows granite_expert(struct rows row, int number, int layer)
{
    return stacked_expert(row, SPARSE_MOE "input_linear.weight", SPARSE_MOE "output_linear.weight",
                          number, layer);
}

/* GraniteMoeTopKGating: the softmax of the chosen ones alone. */
static struct rows granite_feed_forward(struct rows x, int layer)
{
    const struct mixture mixture = { .router = SPARSE_MOE "router.layer",
                                     .route = route_normalized,
                                     .expert = granite_expert };
    return mix(&mixture, x, layer);
}

static void pass_granite(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.attention.attention.scale = 0.3;
    llama.embedding_scale = 3;
    llama.residual_scale = 0.7;
    llama.feed_forward = granite_feed_forward;
    llama.head = NULL;
    llama_pass(forward, &llama);
    forward->logits = forward_scale(forward->logits, 1.0 / 5);
}

TEST(granitemoe)
{
    llama_check("granitemoe",
                LLAMA_CONFIG("granitemoe", "2",
                             ",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                             "\"attention_multiplier\":0.3,\"embedding_multiplier\":3.0,"
                             "\"residual_multiplier\":0.7,\"logits_scaling\":5.0,"
                             "\"tie_word_embeddings\":true"),
                SPARSE_MOE "router.layer.weight 4x16*2, " STACKED(SPARSE_MOE "input_linear.weight",
                                                                  SPARSE_MOE "output_linear.weight")
                    LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_NORMS LLAMA_LAST_NORM,
                2, pass_granite);
}

/* ----------------------------------------------------------------------- Phi -- */

/* phimoe/modeling_phimoe.py at 008f5c8c29be, sparsemixer() with a jitter_eps of 0.1: the weight of
 * the largest score but for that of without. */
static double sparsemixer(const double scores[EXPERTS], int without)
{
    const double most = scores[largest(scores, without)];
    double sum = 0;
    for (int e = 0; e < EXPERTS; e++)
        if (e != without && (most - scores[e]) / fmax(fabs(scores[e]), most) <= 2 * 0.1)
            sum += exp(scores[e] - most);
    return 1 / sum;
}

static void route_phimoe(const double scores[EXPERTS], double weights[EXPERTS])
{
    const int first = largest(scores, -1);
    weights[first] = sparsemixer(scores, -1);
    weights[largest(scores, first)] = sparsemixer(scores, first);
}

/* PhimoeBlockSparseTop2MLP */
static struct rows phimoe_expert(struct rows row, int number, int layer)
{
    char names[3][96];
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], SPARSE_MOE "experts.%d.w%d", number, i + 1);
    const struct rows gate = forward_activation(published_linear(row, names[0], layer), "silu");
    const struct rows up = published_linear(row, names[2], layer);
    return published_linear(forward_multiply(gate, up), names[1], layer);
}

static struct rows phimoe_feed_forward(struct rows x, int layer)
{
    const struct mixture mixture = { .router = SPARSE_MOE "gate",
                                     .route = route_phimoe,
                                     .expert = phimoe_expert };
    return mix(&mixture, x, layer);
}

/* PhimoeDecoderLayer: torch.nn.LayerNorm. PhimoeForCausalLM with lm_head_bias. */
static void pass_phimoe(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = llama_layer_norm;
    llama.feed_forward = phimoe_feed_forward;
    llama_pass(forward, &llama);
    forward->logits = forward_add_row(forward->logits, published_tensor("lm_head.bias", 0));
}

#define PHIMOE_EXPERT(e)                                                                           \
    SPARSE_MOE "experts." e ".w1.weight 12x16, " SPARSE_MOE "experts." e                           \
               ".w2.weight 16x12, " SPARSE_MOE "experts." e ".w3.weight 12x16, "

TEST(phimoe)
{
    llama_check(
        "phimoe",
        LLAMA_CONFIG("phimoe", "2",
                     ",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                     "\"attention_bias\":true,\"lm_head_bias\":true,"
                     "\"rope_theta\":10000.0,\"router_jitter_noise\":0.1"),
        SPARSE_MOE "gate.weight 4x16, " PHIMOE_EXPERT("0") PHIMOE_EXPERT("1") PHIMOE_EXPERT("2")
            PHIMOE_EXPERT("3") LLAMA_ATTENTION
        "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION
        "v_proj.bias 8, " LLAMA_ATTENTION "o_proj.bias 16, " LLAMA_BLOCK
        "input_layernorm.bias 16, " LLAMA_BLOCK
        "post_attention_layernorm.bias 16, model.norm.bias 16, lm_head.bias 40, " LLAMA_EMBEDDING
            LLAMA_PROJECTIONS LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
        2, pass_phimoe);
}

/* ------------------------------------------------------------------- GPT-OSS -- */

/* x . matrix + bias of an expert whose matrix is [in, out]. */
static struct rows in_out_product(struct rows x, const char *name, int number, int layer,
                                  int64_t out)
{
    char bias[128];
    const struct rows matrices = published_tensor(name, layer);
    struct rows y = published_rows(x.count, out);
    snprintf(bias, sizeof bias, "%s_bias", name);
    const double *added = published_tensor(bias, layer).data + number * out;
    const double *matrix = matrices.data + number * matrices.columns;
    assert_int_equal(matrices.columns, x.columns * out);
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t o = 0; o < out; o++) {
            y.data[i * out + o] = added[o];
            for (int64_t c = 0; c < x.columns; c++)
                y.data[i * out + o] += x.data[i * x.columns + c] * matrix[c * out + o];
        }
    return y;
}

/* gpt_oss/modeling_gpt_oss.py at 00d4b3d2142c, GptOssExperts with a limit of 0.25. */
static struct rows gpt_oss_expert(struct rows row, int number, int layer)
{
    const struct rows both =
        in_out_product(row, MLP "experts.gate_up_proj", number, layer, 2 * (int64_t)EXPERT_SIZE);
    const struct rows gated = published_rows(1, EXPERT_SIZE);
    for (int64_t c = 0; c < EXPERT_SIZE; c++) {
        const double gate = fmin(both.data[2 * c], 0.25);
        const double up = fmax(-0.25, fmin(both.data[2 * c + 1], 0.25));
        gated.data[c] = (up + 1) * gate / (1 + exp(-1.702 * gate));
    }
    return in_out_product(gated, MLP "experts.down_proj", number, layer, row.columns);
}

/* GptOssTopKRouter: a softmax of the chosen scores. */
static struct rows gpt_oss_feed_forward(struct rows x, int layer)
{
    const struct mixture mixture = { .router = MLP "router",
                                     .route = route_normalized,
                                     .expert = gpt_oss_expert };
    return mix(&mixture, x, layer);
}

/* modeling_rope_utils.py at the same commit, _compute_yarn_parameters() with truncate false, of 8
 * columns, and the factor of cosine and sine. */
static double yarn_frequencies(double frequencies[4])
{
    const double base = 150000, factor = 32, length = 4096;
    const double turns[2] = { 32, 1 };
    double ends[2];
    for (int i = 0; i < 2; i++)
        ends[i] = 8 * log(length / (turns[i] * 2 * M_PI)) / (2 * log(base));
    for (int c = 0; c < 4; c++) {
        const double plain = 1 / pow(base, c / 4.0);
        const double ramp = fmin(fmax((c - ends[0]) / (ends[1] - ends[0]), 0), 1);
        frequencies[c] = plain / factor * ramp + plain * (1 - ramp);
    }
    return 0.1 * log(factor) + 1;
}

/* GptOssDecoderLayer: every other layer has a window, from the first on. */
static void pass_gpt_oss(struct forward *forward)
{
    double frequencies[4];
    struct llama llama = LLAMA;
    llama.attention.attention.scale = 1 / sqrt(8);
    llama.attention.attention.window = 3;
    llama.attention.rotary_dim = 8;
    llama.attention.frequencies = frequencies;
    llama.attention.factor = yarn_frequencies(frequencies);
    llama.full_every = 2;
    llama.full_theta = 150000;
    llama.full_frequencies = frequencies;
    llama.full_factor = llama.attention.factor;
    llama.has_sinks = true;
    llama.feed_forward = gpt_oss_feed_forward;
    llama_pass(forward, &llama);
}

#define GPT_OSS_TENSORS                                                                            \
    LLAMA_ATTENTION                                                                                \
    "q_proj.weight 32x16, " LLAMA_ATTENTION "k_proj.weight 16x16, " LLAMA_ATTENTION                \
    "v_proj.weight 16x16, " LLAMA_ATTENTION "o_proj.weight 16x32, " LLAMA_ATTENTION                \
    "q_proj.bias 32, " LLAMA_ATTENTION "k_proj.bias 16, " LLAMA_ATTENTION                          \
    "v_proj.bias 16, " LLAMA_ATTENTION "o_proj.bias 16, " LLAMA_ATTENTION "sinks 4*3, " MLP        \
    "router.weight 4x16*2, " MLP "router.bias 4, " MLP "experts.gate_up_proj 4x16x24, " MLP        \
    "experts.gate_up_proj_bias 4x24, " MLP "experts.down_proj 4x12x16, " MLP                       \
    "experts.down_proj_bias 4x16, " LLAMA_EMBEDDING LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD

#define GPT_OSS_CONFIG(more)                                                                       \
    LLAMA_CONFIG("gpt_oss", "2",                                                                   \
                 ",\"head_dim\":8,\"num_local_experts\":4,\"num_experts_per_tok\":2,"              \
                 "\"sliding_window\":3,\"rms_norm_eps\":1e-06,\"swiglu_limit\":0.25" more)

#define GPT_OSS_ROPE                                                                               \
    ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":32.0,\"beta_fast\":32.0,"                \
    "\"beta_slow\":1.0,\"original_max_position_embeddings\":4096,\"truncate\":false}"

TEST(gpt_oss)
{
    llama_check("gpt_oss", GPT_OSS_CONFIG(GPT_OSS_ROPE), GPT_OSS_TENSORS, 2, pass_gpt_oss);
}

/* The scaling that GptOssConfig has by itself, and layers by their types. */
TEST(gpt_oss_defaults)
{
    static const struct decoder_case F16 = {
        "gpt_oss_f16",
        GPT_OSS_CONFIG(",\"layer_types\":[\"sliding_attention\",\"full_attention\"]"),
        GPT_OSS_TENSORS,
        2,
        pass_gpt_oss,
        "F16",
        0,
        false,
        false,
    };
    decoder_case_check(&F16);
}

/* ------------------------------------------------------------- GPT-OSS, MXFP4 -- */

/* convert_moe_packed_tensors() of transformers' integrations/mxfp4.py at 00d4b3d2142c: matrix
 * number index of [experts, out, blocks, 16], two numbers in a byte, the first in its lower half;
 * as rows [out, 32 * blocks]. */
static struct rows mxfp4_matrix(const char *name, int index, int layer, int64_t out)
{
    static const double VALUES[8] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
    char names[2][128];
    snprintf(names[0], sizeof names[0], "%s_blocks", name);
    snprintf(names[1], sizeof names[1], "%s_scales", name);
    const struct rows blocks = published_tensor(names[0], layer);
    const struct rows scales = published_tensor(names[1], layer);
    const int64_t columns = scales.columns / out * 32;
    const double *bytes = blocks.data + index * blocks.columns;
    const double *exponents = scales.data + index * scales.columns;
    const struct rows matrix = published_rows(out, columns);
    for (int64_t i = 0; i < out * columns; i++) {
        const int byte = (int)bytes[i / 2], nibble = i % 2 ? byte >> 4 : byte & 15;
        matrix.data[i] =
            ldexp(nibble & 8 ? -VALUES[nibble & 7] : VALUES[nibble], (int)exponents[i / 32] - 127);
    }
    return matrix;
}

static struct rows with_bias(struct rows x, const char *name, int number, int layer)
{
    return forward_add_row(x, forward_slice(published_tensor(name, layer), number, 1));
}

/* GptOssExperts of 32 columns, with a limit of 0.25. */
static struct rows mxfp4_expert(struct rows row, int number, int layer)
{
    const struct rows both =
        with_bias(forward_product(row, mxfp4_matrix(MLP "experts.gate_up_proj", number, layer, 64)),
                  MLP "experts.gate_up_proj_bias", number, layer);
    const struct rows gated = published_rows(1, 32);
    for (int64_t c = 0; c < 32; c++) {
        const double gate = fmin(both.data[2 * c], 0.25);
        const double up = fmax(-0.25, fmin(both.data[2 * c + 1], 0.25));
        gated.data[c] = (up + 1) * gate / (1 + exp(-1.702 * gate));
    }
    return with_bias(
        forward_product(gated, mxfp4_matrix(MLP "experts.down_proj", number, layer, 32)),
        MLP "experts.down_proj_bias", number, layer);
}

static struct rows mxfp4_feed_forward(struct rows x, int layer)
{
    const struct mixture mixture = { .router = MLP "router",
                                     .route = route_normalized,
                                     .expert = mxfp4_expert };
    return mix(&mixture, x, layer);
}

static void pass_mxfp4(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.attention.attention.scale = 1 / sqrt(8);
    llama.attention.attention.window = 3;
    llama.attention.rotary_dim = 8;
    llama.full_every = 2;
    llama.full_theta = 10000;
    llama.has_sinks = true;
    llama.feed_forward = mxfp4_feed_forward;
    llama_pass(forward, &llama);
}

#define MXFP4_TENSORS                                                                              \
    "model.embed_tokens.weight 40x32, model.norm.weight 32, lm_head.weight "                       \
    "40x32, " LLAMA_ATTENTION "q_proj.weight 32x32, " LLAMA_ATTENTION                              \
    "k_proj.weight 16x32, " LLAMA_ATTENTION "v_proj.weight 16x32, " LLAMA_ATTENTION                \
    "o_proj.weight 32x32, " LLAMA_ATTENTION "sinks 4*3, " LLAMA_BLOCK                              \
    "input_layernorm.weight 32, " LLAMA_BLOCK "post_attention_layernorm.weight 32, " MLP           \
    "router.weight 4x32, " MLP "router.bias 4, " MLP                                               \
    "experts.gate_up_proj_blocks 4x64x1x16:U8, " MLP                                               \
    "experts.gate_up_proj_scales 4x64x1:SCALES, " MLP "experts.gate_up_proj_bias 4x64, " MLP       \
    "experts.down_proj_blocks 4x32x1x16:U8, " MLP "experts.down_proj_scales 4x32x1:SCALES, " MLP   \
    "experts.down_proj_bias 4x32"

TEST(gpt_oss_mxfp4)
{
    llama_check("gpt_oss_mxfp4",
                "{\"model_type\":\"gpt_oss\",\"hidden_size\":32,\"intermediate_size\":32,"
                "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":40,"
                "\"num_hidden_layers\":2,\"head_dim\":8,\"num_local_experts\":4,"
                "\"num_experts_per_tok\":2,\"sliding_window\":3,\"rms_norm_eps\":1e-06,"
                "\"swiglu_limit\":0.25,\"attention_bias\":false,\"rope_theta\":10000.0,"
                "\"rope_parameters\":{\"rope_type\":\"default\"},"
                "\"quantization_config\":{\"quant_method\":\"mxfp4\","
                "\"modules_to_not_convert\":[\"model.layers.*.self_attn\"]}}",
                MXFP4_TENSORS, 2, pass_mxfp4);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
