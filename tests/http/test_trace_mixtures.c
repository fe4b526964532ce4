/* test_trace_mixtures.c - whole passes of decoders with mixtures of experts compared with POST
 * /v1/trace. Each is written out of the family's modeling file in Hugging Face transformers,
 * src/transformers/models/, at the commit that stands with it; the rest of their blocks is
 * Llama's (forward_llama.h). Mixtral is in test_trace_llamas.c. */
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

ALL_TESTS(fixture_make_directory, fixture_clear);
