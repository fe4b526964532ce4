/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_deepseek.c - whole passes of decoders with DeepSeek's mixtures of experts compared
 * with POST /v1/trace. Each is written out of the family's modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it; the rest of their
 * blocks is Llama's (forward_llama.h). */
#include "answer.h"
#include "fixture.h"
#include "forward_fp8.h"
#include "forward_latent.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
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

/* masked_fill() of the groups that are not among the chosen ones, with -inf as in
 * modeling_deepseek.py beside DeepSeek-V3; transformers has 0 there, which is more than a number
 * with a negative bias. */
static void leave_groups(double choice[EXPERTS], const double scores[GROUPS])
{
    bool chosen[GROUPS] = { false };
    for (int i = 0; i < CHOSEN_GROUPS; i++)
        chosen[largest(scores, chosen, GROUPS)] = true;
    for (int e = 0; e < EXPERTS; e++)
        if (!chosen[e / GROUP])
            choice[e] = -INFINITY;
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

/* How a family chooses experts and weighs them. */
struct routing {
    void (*route)(const double *logits, const double *bias, double scale, bool is_grouped,
                  double weights[EXPERTS]);
    bool has_bias, is_grouped;
    double scale;
};

static struct rows mix(struct rows x, int layer, const struct routing *routing)
{
    const struct rows logits = published_linear(x, MLP "gate", layer);
    const double *bias =
        routing->has_bias ? published_tensor(MLP "gate.e_score_correction_bias", layer).data : NULL;
    struct rows y = published_rows(0, x.columns);
    assert_int_equal(logits.columns, EXPERTS);
    for (int64_t i = 0; i < x.count; i++) {
        double weights[EXPERTS];
        routing->route(logits.data + i * EXPERTS, bias, routing->scale, routing->is_grouped,
                       weights);
        const struct rows row = mix_row(forward_slice(x, i, 1), weights, layer);
        y = i == 0 ? row : forward_join(y, row);
    }
    return y;
}

static const struct routing GROUPED = { route_sigmoids, true, true, 1.75 };
static const struct routing UNGROUPED = { route_sigmoids, true, false, 1 };

/* Glm4MoeDecoderLayer with a first_k_dense_replace of 1. */
static struct rows grouped_feed_forward(struct rows x, int layer)
{
    return layer < 1 ? llama_feed_forward(x, layer) : mix(x, layer, &GROUPED);
}

static struct rows ungrouped_feed_forward(struct rows x, int layer)
{
    return mix(x, layer, &UNGROUPED);
}

#define EXPERT(e)                                                                                  \
    MLP "experts." e ".gate_proj.weight 12x16, " MLP "experts." e ".up_proj.weight 12x16, " MLP    \
        "experts." e ".down_proj.weight 16x12, "
#define EXPERT_TENSORS MLP "gate.e_score_correction_bias 8, " V2_EXPERT_TENSORS
#define V2_EXPERT_TENSORS                                                                          \
    MLP "gate.weight 8x16*2, " EXPERT("0") EXPERT("1") EXPERT("2") EXPERT("3") EXPERT("4")         \
        EXPERT("5") EXPERT("6") EXPERT("7") MLP "shared_experts.gate_proj.weight 20x16, " MLP      \
                                                "shared_experts.up_proj.weight 20x16, " MLP        \
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

#define GLM_CONFIG                                                                                 \
    LLAMA_CONFIG("glm4_moe", "3",                                                                  \
                 GROUP_FIELDS GLM_FIELDS ",\"use_qk_norm\":true,\"attention_bias\":true")
#define GLM_TENSORS EXPERT_TENSORS LLAMA_GATED GLM_BIASES LLAMA_HEAD_NORMS GLM_AROUND

TEST(glm4_moe)
{
    llama_check("glm4_moe", GLM_CONFIG, GLM_TENSORS, 3, pass_glm);
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

/* ---------------------------------------------------------------- DeepSeek -- */

static struct latent latent;

static struct decoder_projections v3_project(struct rows x, int layer)
{
    return latent_project(&latent, x, layer);
}

static struct rows fp8_feed_forward(struct rows x, int layer)
{
    const struct rows gate =
        forward_activation(forward_fp8_linear(x, MLP "gate_proj", layer), "silu");
    const struct rows up = forward_fp8_linear(x, MLP "up_proj", layer);
    return forward_fp8_linear(forward_multiply(gate, up), MLP "down_proj", layer);
}

static void pass_latent(struct forward *forward, int layers, const double mscales[2], bool has_down,
                        struct rows (*feed_forward)(struct rows x, int layer))
{
    struct llama llama = LLAMA;
    latent = (struct latent){
        .has_down = has_down,
        .linear = feed_forward == fp8_feed_forward ? forward_fp8_linear : published_linear,
    };
    latent_set_yarn(&latent, mscales[0], mscales[1]);
    llama.layers = layers;
    llama.attention.rotary_dim = 0;
    llama.attention.attention.kv_heads = LATENT_HEADS;
    llama.attention.attention.scale = latent.scale;
    llama.project = v3_project;
    llama.feed_forward = feed_forward;
    llama_pass(forward, &llama);
}

static void pass_v3(struct forward *forward)
{
    pass_latent(forward, 3, (const double[]){ 1, 0.707 }, true, grouped_feed_forward);
}

#define AROUND_TENSORS LLAMA_EMBEDDING LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD

TEST(deepseek_v3)
{
    llama_check("deepseek_v3",
                LATENT_CONFIG("deepseek_v3", "3",
                              GROUP_FIELDS LATENT_YARN("1.0", "0.707") ",\"q_lora_rank\":7"),
                EXPERT_TENSORS LLAMA_GATED LATENT_TENSORS LATENT_DOWN AROUND_TENSORS, 3, pass_v3);
}

static void pass_v3_fp8(struct forward *forward)
{
    pass_latent(forward, 2, (const double[]){ 1, 1 }, true, fp8_feed_forward);
}

#define FP8(name, shape, scales)                                                                   \
    name ".weight " shape ":F8_E4M3, " name ".weight_scale_inv " scales ", "

/* As DeepSeek-V3 is published, in dense blocks alone. */
TEST(deepseek_v3_fp8)
{
    llama_check(
        "deepseek_v3_fp8",
        LATENT_CONFIG(
            "deepseek_v3", "2",
            LATENT_YARN("1.0", "1.0") ",\"q_lora_rank\":14,\"first_k_dense_replace\":2,"
                                      "\"quantization_config\":{\"activation_scheme\":\"dynamic\","
                                      "\"fmt\":\"e4m3\",\"quant_method\":\"fp8\","
                                      "\"weight_block_size\":[12,7]}"),
        FP8(LLAMA_ATTENTION "q_a_proj", "14x16", "2x3") LLAMA_ATTENTION
        "q_a_layernorm.weight 14, " FP8(LLAMA_ATTENTION "q_b_proj", "40x14", "4x2")
            FP8(LLAMA_ATTENTION "kv_a_proj_with_mqa", "14x16", "2x3") LLAMA_ATTENTION
        "kv_a_layernorm.weight 8, " FP8(LLAMA_ATTENTION "kv_b_proj", "36x8", "3x2") LLAMA_ATTENTION
        "o_proj.weight 16x20, " FP8(MLP "gate_proj", "24x16", "2x3")
            FP8(MLP "up_proj", "24x16", "2x3") FP8(MLP "down_proj", "16x24", "2x4") AROUND_TENSORS,
        2, pass_v3_fp8);
}

/* modeling_deepseek.py beside moonshotai's Kimi-K2-Instruct is DeepSeek's, with one group. */
static void pass_kimi(struct forward *forward)
{
    pass_latent(forward, 2, (const double[]){ 1, 1 }, true, ungrouped_feed_forward);
}

#define KIMI_CONFIG                                                                                \
    LATENT_CONFIG(                                                                                 \
        "kimi_k2", "2",                                                                            \
        EXPERT_FIELDS LATENT_YARN("1.0", "1.0") ",\"q_lora_rank\":7,\"n_group\":1,"                \
                                                "\"topk_group\":1,\"first_k_dense_replace\":0,"    \
                                                "\"routed_scaling_factor\":1.0,"                   \
                                                "\"topk_method\":\"noaux_tc\"")
#define KIMI_TENSORS EXPERT_TENSORS LATENT_TENSORS LATENT_DOWN AROUND_TENSORS

TEST(kimi_k2)
{
    llama_check("kimi_k2", KIMI_CONFIG, KIMI_TENSORS, 2, pass_kimi);
}

/* More rows than one chunk of any stage has. */
TEST(kimi_k2_of_many_tokens)
{
    static const struct decoder_case LONG = { "kimi_k2_long", KIMI_CONFIG, KIMI_TENSORS, 2,
                                              pass_kimi,      "F16",       600,          false,
                                              false };
    decoder_case_check(&LONG);
}

/* --------------------------------------------------------------- DeepSeek V2 -- */

/* deepseek_v2/modeling_deepseek_v2.py at 0233e509531a, DeepseekV2Moe.route_tokens_to_experts(): the
 * softmax of all, not divided by the sum of the chosen ones. */
static void route_softmax(const double *logits, const double *bias, double scale, bool is_grouped,
                          double weights[EXPERTS])
{
    double choice[EXPERTS], of_groups[GROUPS], all = 0;
    bool chosen[EXPERTS] = { false };
    assert_null(bias);
    for (int e = 0; e < EXPERTS; e++)
        all += exp(logits[e]);
    for (int e = 0; e < EXPERTS; e++)
        choice[e] = exp(logits[e]) / all;
    for (int g = 0; g < GROUPS; g++)
        of_groups[g] = fmax(choice[g * GROUP], choice[g * GROUP + 1]);
    if (is_grouped)
        leave_groups(choice, of_groups);
    choose(choice, chosen);
    for (int e = 0; e < EXPERTS; e++)
        weights[e] = chosen[e] ? scale * exp(logits[e]) / all : 0;
}

static struct rows v2_feed_forward(struct rows x, int layer)
{
    static const struct routing GROUPS_OF_SOFTMAX = { route_softmax, false, true, 3 };
    return layer < 1 ? llama_feed_forward(x, layer) : mix(x, layer, &GROUPS_OF_SOFTMAX);
}

static struct rows lite_feed_forward(struct rows x, int layer)
{
    static const struct routing GREEDY = { route_softmax, false, false, 1 };
    return mix(x, layer, &GREEDY);
}

static void pass_v2(struct forward *forward)
{
    pass_latent(forward, 2, (const double[]){ 1, 1 }, true, v2_feed_forward);
}

static void pass_lite(struct forward *forward)
{
    pass_latent(forward, 2, (const double[]){ 0.707, 0.707 }, false, lite_feed_forward);
}

#define V2_FIELDS                                                                                  \
    ",\"n_routed_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":12,"              \
    "\"n_shared_experts\":2,\"norm_topk_prob\":false,\"scoring_func\":\"softmax\","                \
    "\"n_group\":4,\"topk_group\":2,\"moe_layer_freq\":1"

TEST(deepseek_v2)
{
    llama_check("deepseek_v2",
                LATENT_CONFIG("deepseek_v2", "2",
                              V2_FIELDS LATENT_YARN(
                                  "1.0", "1.0") ",\"q_lora_rank\":7,\"first_k_dense_replace\":1,"
                                                "\"topk_method\":\"group_limited_greedy\","
                                                "\"routed_scaling_factor\":3.0"),
                V2_EXPERT_TENSORS LLAMA_GATED LATENT_TENSORS LATENT_DOWN AROUND_TENSORS, 2,
                pass_v2);
}

TEST(deepseek_v2_lite)
{
    static const struct decoder_case LITE = {
        "deepseek_v2_lite",
        LATENT_CONFIG("deepseek_v2", "2",
                      V2_FIELDS LATENT_YARN("0.707", "0.707") ",\"q_lora_rank\":null,"
                                                              "\"first_k_dense_replace\":0,"
                                                              "\"topk_method\":\"greedy\","
                                                              "\"routed_scaling_factor\":1.0"),
        V2_EXPERT_TENSORS LATENT_TENSORS LATENT_QUERIES AROUND_TENSORS,
        2,
        pass_lite,
        "F16",
        0,
        false,
        false,
    };
    decoder_case_check(&LITE);
}

/* ----------------------------------------------------------------- its layers -- */

#define V3_ALONE LATENT_CONFIG("deepseek_v3", "2", ",\"q_lora_rank\":7")

/* A call of one layer, and what such a layer refuses. */
TEST(calls_of_a_latent_layer)
{
    static const char ROW[] = "[[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]]";
    char body[512];
    published_open(V3_ALONE, LATENT_TENSORS LATENT_DOWN LLAMA_LAST_NORM, 2, "F32");
    published_save(fixture_path("latent"), V3_ALONE);
    fixture_serve("--models", directory);
    cJSON *described = answer_get(&client, "/v1/models/latent");
    const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(described, "layers"), 1);
    answer_expect(layer, "kv_heads", "1", 0);
    answer_expect(layer, "head_dim", "14", 0);
    answer_expect(layer, "v_head_dim", "5", 0);
    cJSON_Delete(described);
    snprintf(body, sizeof body, "{\"model\":\"latent\",\"layer\":1,\"query\":%s,\"key\":%s}", ROW,
             ROW);
    cJSON_Delete(answer_post(&client, "/v1/attention", body));
    snprintf(body, sizeof body,
             "{\"model\":\"latent\",\"layer\":1,\"query\":%s,\"key\":%s,\"value\":%s}", ROW, ROW,
             ROW);
    answer_refused(&client, "/v1/attention", body, 400, "option", "/value");
    snprintf(body, sizeof body,
             "{\"model\":\"latent\",\"layer\":1,\"query\":%s,\"context_gradient\":%s}", ROW, ROW);
    answer_refused(&client, "/v1/attention/gradients", body, 400, "option", NULL);
    fixture_stop(NULL);
    published_close();
}

/* --------------------------------------------------------------- their sessions -- */

enum { SESSION_ROWS = 70 };

static void add_rows(struct request_text *text, uint64_t seed, int rows)
{
    request_text_add(text, "{\"layer\":1,\"input\":");
    request_text_random(text, seed, rows, 16);
    request_text_add(text, ",\"outputs\":[\"context\",\"weights\",\"lse\"]}");
}

static void expect_value_columns(struct session_bytes file, int columns)
{
    const char *numbers;
    cJSON *header = session_bytes_header(file, &numbers);
    const cJSON *tensor = cJSON_GetObjectItem(header, "layers.1.value");
    const cJSON *shape = cJSON_GetObjectItem(tensor, "shape");
    assert_int_equal(cJSON_GetArrayItem(shape, 2)->valueint, columns);
    tensor = cJSON_GetObjectItem(header, "layers.1.key");
    shape = cJSON_GetObjectItem(tensor, "shape");
    assert_int_equal(cJSON_GetArrayItem(shape, 0)->valueint, 1);
    assert_int_equal(cJSON_GetArrayItem(shape, 2)->valueint, LATENT_RANK + LATENT_ROTATED);
    cJSON_Delete(header);
}

/* A session has the rows of a latent layer and, but in int8, no values beside them. Its file makes
 * the same session. */
TEST(sessions_of_a_latent_layer)
{
    static const char *const DTYPES[] = { "f32", "f16", "bf16", "int8" };
    char body[128];
    published_open(V3_ALONE, LATENT_TENSORS LATENT_DOWN LLAMA_LAST_NORM, 2, "F32");
    published_save(fixture_path("latent"), V3_ALONE);
    fixture_serve("--models", directory);
    for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++) {
        struct request_text first = { .data = NULL }, next = { .data = NULL };
        add_rows(&first, 1, SESSION_ROWS);
        add_rows(&next, 2, 3);
        snprintf(body, sizeof body, "{\"model\":\"latent\",\"id\":\"a\",\"dtype\":\"%s\"}",
                 DTYPES[i]);
        session_make(&client, body);
        cJSON_Delete(session_post(&client, "a", "attention", first.data, 200));
        struct session_bytes file = session_bytes_get(&client, "a");
        expect_value_columns(file, strcmp(DTYPES[i], "int8") == 0 ? LATENT_RANK : 0);
        session_bytes_put(&client, "copy", file, 201);
        cJSON *one = session_post(&client, "a", "attention", next.data, 200);
        cJSON *other = session_post(&client, "copy", "attention", next.data, 200);
        session_expect_same(one, other);
        cJSON_Delete(one);
        cJSON_Delete(other);
        session_bytes_free(&file);
        session_delete(&client, "a", 204);
        session_delete(&client, "copy", 204);
        free(first.data);
        free(next.data);
    }
    fixture_stop(NULL);
    published_close();
}

/* ------------------------------------------------------------- their completions -- */

enum { PROMPT = 5, MADE = 6 };

/* The most probable token after the first count ids. */
static cJSON *predict(const char *model, const int *ids, int count)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body,
                     "{\"model\":\"%s\",\"layers\":[],\"outputs\":[\"predictions\"],"
                     "\"top_k_tokens\":1,\"tokens\":[",
                     model);
    for (int i = 0; i < count; i++)
        request_text_add(&body, "%s%d", i > 0 ? "," : "", ids[i]);
    request_text_add(&body, "]}");
    cJSON *traced = answer_post(&client, "/v1/trace", body.data);
    const cJSON *last = cJSON_GetArrayItem(cJSON_GetObjectItem(traced, "predictions"), 0);
    cJSON *token = cJSON_Duplicate(cJSON_GetArrayItem(cJSON_GetObjectItem(last, "tokens"), 0), 1);
    cJSON_Delete(traced);
    free(body.data);
    return token;
}

/* A text token by token, from rows kept, is that of the most probable tokens of whole passes. */
static void expect_completion(const char *model)
{
    int ids[PROMPT + MADE] = { 3, 5, 8, 2, 7 };
    char body[160];
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"prompt\":[3,5,8,2,7],\"max_tokens\":%d,\"temperature\":0,"
             "\"logprobs\":1}",
             model, MADE);
    cJSON *answer = answer_post(&client, "/v1/completions", body);
    const cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "choices"), 0);
    const cJSON *logprobs = cJSON_GetObjectItem(choice, "logprobs");
    const cJSON *made = cJSON_GetObjectItem(logprobs, "tokens");
    assert_int_equal(cJSON_GetArraySize(made), MADE);
    for (int i = 0; i < MADE; i++) {
        char name[32];
        cJSON *token = predict(model, ids, PROMPT + i);
        ids[PROMPT + i] = cJSON_GetObjectItem(token, "id")->valueint;
        snprintf(name, sizeof name, "token_id:%d", ids[PROMPT + i]);
        assert_string_equal(cJSON_GetArrayItem(made, i)->valuestring, name);
        assert_true(fabs(cJSON_GetObjectItem(token, "logprob")->valuedouble
                         - cJSON_GetArrayItem(cJSON_GetObjectItem(logprobs, "token_logprobs"), i)
                               ->valuedouble)
                    < 1e-5);
        cJSON_Delete(token);
    }
    cJSON_Delete(answer);
}

TEST(completions)
{
    published_open(GLM_CONFIG, GLM_TENSORS, 3, "F32");
    published_save(fixture_path("glm"), GLM_CONFIG);
    published_close();
    published_open(KIMI_CONFIG, KIMI_TENSORS, 2, "F32");
    published_save(fixture_path("kimi"), KIMI_CONFIG);
    fixture_serve("--models", directory);
    expect_completion("glm");
    expect_completion("kimi");
    fixture_stop(NULL);
    published_close();
}

ALL_TESTS(fixture_make_directory, fixture_clear);
