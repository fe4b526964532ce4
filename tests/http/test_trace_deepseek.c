/* test_trace_deepseek.c - whole passes of decoders with DeepSeek's mixtures of experts compared
 * with POST /v1/trace. Each is written out of the family's modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it; the rest of their
 * blocks is Llama's (forward_llama.h). */
#include "fixture.h"
#include "forward_llama.h"
#include "test.h"

#define MLP LLAMA_BLOCK "mlp."
enum { EXPERTS = 8, GROUPS = 4, GROUP = EXPERTS / GROUPS, CHOSEN_GROUPS = 2, CHOSEN = 3 };

/* ------------------------------------------------------------------- experts -- */

/* torch.topk of numbers that are not yet chosen: the place of the largest. */
static int largest(const double *numbers, const bool *chosen, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (!chosen[i] && (best < 0 || numbers[i] > numbers[best]))
            best = i;
    return best;
}

/* masked_fill() of the groups that are not among the chosen ones. */
static void leave_groups(double choice[EXPERTS], const double scores[GROUPS])
{
    bool chosen[GROUPS] = { false };
    for (int i = 0; i < CHOSEN_GROUPS; i++)
        chosen[largest(scores, chosen, GROUPS)] = true;
    for (int e = 0; e < EXPERTS; e++)
        if (!chosen[e / GROUP])
            choice[e] = 0;
}

static void choose(const double choice[EXPERTS], bool chosen[EXPERTS])
{
    for (int i = 0; i < CHOSEN; i++)
        chosen[largest(choice, chosen, EXPERTS)] = true;
}

/* glm4_moe/modeling_glm4_moe.py at 000c33fdfde1, Glm4MoeMoE.route_tokens_to_experts(). */
static void route_sigmoids(const double *logits, const double *bias, double scale, bool is_grouped,
                           double weights[EXPERTS])
{
    double choice[EXPERTS], of_groups[GROUPS], sum = 1e-20;
    bool chosen[EXPERTS] = { false };
    for (int e = 0; e < EXPERTS; e++)
        choice[e] = 1 / (1 + exp(-logits[e])) + bias[e];
    for (int g = 0; g < GROUPS; g++) /* groups of two: topk(2).sum() is of all */
        of_groups[g] = choice[g * GROUP] + choice[g * GROUP + 1];
    if (is_grouped)
        leave_groups(choice, of_groups);
    choose(choice, chosen);
    for (int e = 0; e < EXPERTS; e++)
        sum += chosen[e] ? 1 / (1 + exp(-logits[e])) : 0;
    for (int e = 0; e < EXPERTS; e++)
        weights[e] = chosen[e] ? scale / (1 + exp(-logits[e])) / sum : 0;
}

/* The weighted sum of what the chosen experts compute of one row, and the shared experts. */
static struct rows mix_row(struct rows row, const double weights[EXPERTS], int layer)
{
    char begin[96];
    struct rows sum = decoder_gated(row, MLP "shared_experts.", "silu", layer);
    for (int e = 0; e < EXPERTS; e++) {
        snprintf(begin, sizeof begin, MLP "experts.%d.", e);
        if (weights[e] > 0)
            sum = forward_add(sum,
                              forward_scale(decoder_gated(row, begin, "silu", layer), weights[e]));
    }
    return sum;
}

static struct rows mix(struct rows x, int layer, double scale, bool is_grouped)
{
    const struct rows logits = published_linear(x, MLP "gate", layer);
    const double *bias = published_tensor(MLP "gate.e_score_correction_bias", layer).data;
    struct rows y = published_rows(0, x.columns);
    assert_int_equal(logits.columns, EXPERTS);
    for (int64_t i = 0; i < x.count; i++) {
        double weights[EXPERTS];
        route_sigmoids(logits.data + i * EXPERTS, bias, scale, is_grouped, weights);
        const struct rows row = mix_row(forward_slice(x, i, 1), weights, layer);
        y = i == 0 ? row : forward_join(y, row);
    }
    return y;
}

/* Glm4MoeDecoderLayer with a first_k_dense_replace of 1. */
static struct rows grouped_feed_forward(struct rows x, int layer)
{
    return layer < 1 ? llama_feed_forward(x, layer) : mix(x, layer, 1.75, true);
}

static struct rows ungrouped_feed_forward(struct rows x, int layer)
{
    return mix(x, layer, 1, false);
}

#define EXPERT(e)                                                                                  \
    MLP "experts." e ".gate_proj.weight 12x16, " MLP "experts." e ".up_proj.weight 12x16, " MLP    \
        "experts." e ".down_proj.weight 16x12, "
#define EXPERT_TENSORS                                                                             \
    MLP "gate.weight 8x16*2, " MLP "gate.e_score_correction_bias 8, " EXPERT("0") EXPERT("1")      \
        EXPERT("2") EXPERT("3") EXPERT("4") EXPERT("5") EXPERT("6") EXPERT("7") MLP                \
        "shared_experts.gate_proj.weight 20x16, " MLP "shared_experts.up_proj.weight 20x16, " MLP  \
        "shared_experts.down_proj.weight 16x20, "

#define EXPERT_FIELDS                                                                              \
    ",\"n_routed_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":12,"              \
    "\"n_shared_experts\":1,\"norm_topk_prob\":true"
#define GROUP_FIELDS                                                                               \
    EXPERT_FIELDS ",\"n_group\":4,\"topk_group\":2,\"routed_scaling_factor\":1.75,"                \
                  "\"first_k_dense_replace\":1"

/* ----------------------------------------------------------------- GLM-4.5 -- */

/* Glm4MoeAttention with use_qk_norm; half of a head is rotated. */
static struct decoder_projections glm_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_norm.weight", layer, 1e-6, 0);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_norm.weight", layer, 1e-6,
                       0);
    return projections;
}

static void pass_glm(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.layers = 3;
    llama.attention.rotary_dim = 2;
    llama.project = glm_project;
    llama.feed_forward = grouped_feed_forward;
    llama_pass(forward, &llama);
}

static void pass_glm_ungrouped(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.attention.rotary_dim = 2;
    llama.feed_forward = ungrouped_feed_forward;
    llama_pass(forward, &llama);
}

#define GLM_AROUND LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD
#define GLM_BIASES                                                                                 \
    LLAMA_ATTENTION "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION           \
                    "v_proj.bias 8, "
#define GLM_FIELDS                                                                                 \
    ",\"head_dim\":4,\"partial_rotary_factor\":0.5,\"rms_norm_eps\":1e-06,"                        \
    "\"num_nextn_predict_layers\":1"

TEST(glm4_moe)
{
    llama_check("glm4_moe",
                LLAMA_CONFIG("glm4_moe", "3",
                             GROUP_FIELDS GLM_FIELDS
                             ",\"use_qk_norm\":true,\"attention_bias\":true"),
                EXPERT_TENSORS LLAMA_GATED GLM_BIASES LLAMA_HEAD_NORMS GLM_AROUND, 3, pass_glm);
}

TEST(glm4_moe_of_one_group)
{
    llama_check("glm4_moe_of_one_group",
                LLAMA_CONFIG("glm4_moe", "2",
                             EXPERT_FIELDS GLM_FIELDS
                             ",\"use_qk_norm\":false,\"first_k_dense_replace\":0,"
                             "\"rope_parameters\":{\"rope_type\":\"default\","
                             "\"partial_rotary_factor\":0.5,\"rope_theta\":10000.0}"),
                EXPERT_TENSORS GLM_AROUND, 2, pass_glm_ungrouped);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
