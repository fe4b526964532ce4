/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_deltas.c - whole passes of decoders whose other layers are gated delta rules, compared
 * with POST /v1/trace. Each is written out of the family's modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. */
#include "answer.h"
#include "fixture.h"
#include "forward_edits.h"
#include "forward_hybrid.h"
#include "forward_llama.h"
#include "request_text.h"
#include "test.h"

#define KIND "linear_attention"

/* Large enough that rows of heads which happen to be near 0 are not made long. */
#define EPS 0.01

/* Heads of linear attention, and their columns. */
enum { K_HEADS = 2, V_HEADS = 4, K_DIM = 8, V_DIM = 6, KEYS = 16, VALUES = 24, SHARED = 2 };
enum { LAYERS = 4, EXPERTS = 4, HEAD_DIM = 16 };

/* What differs between the families. */
struct family {
    const char *model; /* what the names of its layers begin with */
    bool is_mixed;     /* in_proj_qkvz and in_proj_ba, else a tensor for each */
    struct rows (*feed_forward)(struct rows x, int layer);
    bool (*is_attention)(int layer);
};

static const char *in_layer(const struct family *family, const char *name)
{
    static char names[8][160];
    static int next;
    char *whole = names[next++ % 8];
    snprintf(whole, sizeof names[0], "%slayers.#.%s", family->model, name);
    return whole;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* torch.cat of columns. */
static struct rows beside(struct rows a, struct rows b)
{
    struct rows y = published_rows(a.count, a.columns + b.columns);
    for (int64_t i = 0; i < a.count; i++) {
        memcpy(y.data + i * y.columns, a.data + i * a.columns, (size_t)a.columns * sizeof *y.data);
        memcpy(y.data + i * y.columns + a.columns, b.data + i * b.columns,
               (size_t)b.columns * sizeof *y.data);
    }
    return y;
}

/* --------------------------------------------------------------- the delta rule -- */

/* qwen3_next/modeling_qwen3_next.py at 01cdc6081c75: l2norm(). */
static void l2norm(double *x, int64_t columns)
{
    double sum = 1e-6;
    for (int64_t c = 0; c < columns; c++)
        sum += x[c] * x[c];
    for (int64_t c = 0; c < columns; c++)
        x[c] /= sqrt(sum);
}

/* torch_recurrent_gated_delta_rule() with use_qk_l2norm_in_kernel, of one head of one sequence; q,
 * k and v begin at its columns. */
static void recurrent_gated_delta_rule(struct rows q, struct rows k, struct rows v, const double *g,
                                       const double *beta, double *out)
{
    double state[K_DIM][V_DIM] = { { 0 } };
    for (int64_t t = 0; t < q.count; t++) {
        double q_t[K_DIM], k_t[K_DIM];
        memcpy(q_t, q.data + t * q.columns, sizeof q_t);
        memcpy(k_t, k.data + t * k.columns, sizeof k_t);
        l2norm(q_t, K_DIM);
        l2norm(k_t, K_DIM);
        for (int c = 0; c < V_DIM; c++) {
            double memory = 0, read = 0;
            for (int d = 0; d < K_DIM; d++) {
                state[d][c] *= exp(g[t * V_HEADS]);
                memory += state[d][c] * k_t[d];
            }
            const double delta = (v.data[t * v.columns + c] - memory) * beta[t * V_HEADS];
            for (int d = 0; d < K_DIM; d++) {
                state[d][c] += k_t[d] * delta;
                read += state[d][c] * q_t[d] / sqrt(K_DIM);
            }
            out[t * VALUES + c] = read;
        }
    }
}

/* What the projections of a layer are: queries, keys and values side by side, and the others. */
struct projected {
    struct rows qkv, z, b, a;
};

/* Columns of one part of mixed ones: [k heads][all parts], part of count columns at first. */
static struct rows part_of(struct rows x, int64_t first, int64_t count)
{
    const int64_t group = x.columns / K_HEADS;
    struct rows y = published_split(x, 1, first, count);
    for (int64_t h = 1; h < K_HEADS; h++)
        y = beside(y, published_split(x, 1, h * group + first, count));
    return y;
}

/* fix_query_key_value_ordering() */
static struct projected project_mixed(const struct family *family, struct rows x, int layer)
{
    const struct rows qkvz =
        published_linear(x, in_layer(family, "linear_attn.in_proj_qkvz"), layer);
    const struct rows ba = published_linear(x, in_layer(family, "linear_attn.in_proj_ba"), layer);
    const int64_t values = (int64_t)SHARED * V_DIM;
    const struct rows qk = beside(part_of(qkvz, 0, K_DIM), part_of(qkvz, K_DIM, K_DIM));
    return (struct projected){ beside(qk, part_of(qkvz, 2 * K_DIM, values)),
                               part_of(qkvz, 2 * K_DIM + values, values), part_of(ba, 0, SHARED),
                               part_of(ba, SHARED, SHARED) };
}

/* qwen3_5/modeling_qwen3_5.py at 009e78d6e89f, Qwen3_5GatedDeltaNet. */
static struct projected project_apart(const struct family *family, struct rows x, int layer)
{
    return (
        struct projected){ published_linear(x, in_layer(family, "linear_attn.in_proj_qkv"), layer),
                           published_linear(x, in_layer(family, "linear_attn.in_proj_z"), layer),
                           published_linear(x, in_layer(family, "linear_attn.in_proj_b"), layer),
                           published_linear(x, in_layer(family, "linear_attn.in_proj_a"), layer) };
}

/* Qwen3NextRMSNormGated of each head: the norm, its weight, then the gate. */
static struct rows gated_norm(const struct family *family, struct rows x, struct rows z, int layer)
{
    const struct rows heads = forward_view(x, V_DIM);
    const struct rows normed =
        forward_rms_norm(heads, in_layer(family, "linear_attn.norm"), layer, EPS, 0);
    return forward_multiply(forward_view(normed, VALUES), forward_activation(z, "silu"));
}

/* Qwen3NextGatedDeltaNet.forward() */
static struct rows delta_net(const struct family *family, struct rows x, int layer)
{
    const struct projected p =
        family->is_mixed ? project_mixed(family, x, layer) : project_apart(family, x, layer);
    const struct rows mixed = forward_activation(
        forward_hybrid_convolve(p.qkv, in_layer(family, "linear_attn.conv1d"), layer), "silu");
    const struct rows a_log = published_tensor(in_layer(family, "linear_attn.A_log"), layer);
    const struct rows dt_bias = published_tensor(in_layer(family, "linear_attn.dt_bias"), layer);
    struct rows g = published_rows(x.count, V_HEADS), beta = published_rows(x.count, V_HEADS);
    struct rows y = published_rows(x.count, VALUES);
    for (int64_t i = 0; i < x.count * V_HEADS; i++) {
        const int64_t h = i % V_HEADS;
        beta.data[i] = sigmoid(p.b.data[i]);
        g.data[i] = -exp(a_log.data[h]) * log1p(exp(p.a.data[i] + dt_bias.data[h]));
    }
    for (int64_t h = 0; h < V_HEADS; h++) {
        struct rows q = mixed, k = mixed, v = mixed;
        q.data += h / SHARED * K_DIM; /* repeat_interleave() */
        k.data += KEYS + h / SHARED * K_DIM;
        v.data += 2 * KEYS + h * V_DIM;
        recurrent_gated_delta_rule(q, k, v, g.data + h, beta.data + h, y.data + h * V_DIM);
    }
    return published_linear(gated_norm(family, y, p.z, layer),
                            in_layer(family, "linear_attn.out_proj"), layer);
}

/* ------------------------------------------------------------------- attention -- */

/* Qwen3NextAttention: q_proj has of each head its query and its gate; a quarter of a head is
 * turned. */
static struct rows attend(struct forward *forward, const struct family *family, struct rows x,
                          struct rows inputs, int layer)
{
    const struct rows both = forward_view(
        published_linear(inputs, in_layer(family, "self_attn.q_proj"), layer), 2 * HEAD_DIM);
    struct decoder_projections p = {
        forward_view(published_split(both, 1, 0, HEAD_DIM), LLAMA_HEADS * HEAD_DIM),
        published_linear(inputs, in_layer(family, "self_attn.k_proj"), layer),
        published_linear(inputs, in_layer(family, "self_attn.v_proj"), layer)
    };
    struct rows gates =
        forward_view(published_split(both, 1, HEAD_DIM, HEAD_DIM), LLAMA_HEADS * HEAD_DIM);
    struct decoder_attention attention = LLAMA.attention;
    for (int64_t i = 0; i < gates.count * gates.columns; i++)
        gates.data[i] = sigmoid(gates.data[i]);
    attention.attention.gates = gates;
    attention.attention.scale = 1 / sqrt(HEAD_DIM);
    attention.rotary_dim = HEAD_DIM / 4;
    attention.theta = 10000;
    published_rms_norm(p.q, LLAMA_HEADS, in_layer(family, "self_attn.q_norm.weight"), layer, EPS,
                       1);
    published_rms_norm(p.k, LLAMA_KV_HEADS, in_layer(family, "self_attn.k_norm.weight"), layer, EPS,
                       1);
    return decoder_attend(forward, &attention, x, inputs, p, in_layer(family, "self_attn.o_proj"),
                          layer);
}

/* ---------------------------------------------------------------- feed-forwards -- */

/* Qwen3NextSparseMoeBlock of a row, with the two of EXPERTS that it takes most of, normalized. */
static struct rows mix_row(const struct family *family, struct rows row, int layer)
{
    const struct rows scores = published_linear(row, in_layer(family, "mlp.gate"), layer);
    struct rows sum = published_rows(1, row.columns);
    int best = 0, second = -1;
    for (int e = 1; e < EXPERTS; e++)
        best = scores.data[e] > scores.data[best] ? e : best;
    for (int e = 0; e < EXPERTS; e++)
        if (e != best && (second < 0 || scores.data[e] > scores.data[second]))
            second = e;
    for (int i = 0; i < 2; i++) {
        const int e = i == 0 ? best : second, other = i == 0 ? second : best;
        char begin[96];
        snprintf(begin, sizeof begin, "%s%d.", in_layer(family, "mlp.experts."), e);
        sum = forward_add(sum, forward_scale(decoder_gated(row, begin, "silu", layer),
                                             sigmoid(scores.data[e] - scores.data[other])));
    }
    const double gate =
        published_linear(row, in_layer(family, "mlp.shared_expert_gate"), layer).data[0];
    return forward_add(sum, forward_scale(decoder_gated(row, in_layer(family, "mlp.shared_expert."),
                                                        "silu", layer),
                                          sigmoid(gate)));
}

static struct rows mix(const struct family *family, struct rows x, int layer)
{
    struct rows y = mix_row(family, forward_slice(x, 0, 1), layer);
    for (int64_t i = 1; i < x.count; i++)
        y = forward_join(y, mix_row(family, forward_slice(x, i, 1), layer));
    return y;
}

/* ------------------------------------------------------------------------ a pass -- */

static bool is_fourth(int layer)
{
    return layer % 4 == 3;
}

/* Qwen3NextDecoderLayer; the norms of Qwen3NextRMSNorm add 1 to their weight. */
static struct rows block(struct forward *forward, const struct family *family, struct rows x,
                         int layer)
{
    const char *kind = family->is_attention(layer) ? "self" : KIND;
    x = forward_edits_enter(kind, layer, layer, x);
    const struct rows inputs =
        forward_rms_norm(x, in_layer(family, "input_layernorm"), layer, EPS, 1);
    const struct rows mixed =
        family->is_attention(layer)
            ? attend(forward, family, x, inputs, layer)
            : forward_hybrid_add(forward, kind, layer, x, inputs, delta_net(family, inputs, layer));
    x = forward_add(x, mixed);
    const struct rows normed =
        forward_rms_norm(x, in_layer(family, "post_attention_layernorm"), layer, EPS, 1);
    const struct rows fed =
        family->feed_forward ? family->feed_forward(normed, layer) : mix(family, normed, layer);
    return forward_add(x, forward_edits_fed(kind, layer, fed));
}

static void run_pass(struct forward *forward, const struct family *family, const char *head)
{
    char name[96];
    snprintf(name, sizeof name, "%sembed_tokens.weight", family->model);
    const struct rows embedding = published_tensor(name, 0);
    struct rows x = forward_embed(embedding, decoder_tokens(), decoder_length);
    for (int layer = 0; layer < LAYERS; layer++)
        x = block(forward, family, x, layer);
    snprintf(name, sizeof name, "%snorm", family->model);
    forward->final_hidden_states = forward_rms_norm(x, name, 0, EPS, 1);
    forward->logits =
        forward_product(forward->final_hidden_states, head ? published_tensor(head, 0) : embedding);
}

static void check(const char *name, const char *config, const char *tensors,
                  void (*pass)(struct forward *forward), const char *dtype, int64_t length)
{
    const struct decoder_case decoder = { .name = name,
                                          .config = config,
                                          .tensors = tensors,
                                          .layers = LAYERS,
                                          .pass = pass,
                                          .dtype = dtype,
                                          .length = length };
    decoder_case_check(&decoder);
}

#define SIZES                                                                                      \
    "\"hidden_size\":16,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"      \
    "\"vocab_size\":40,\"num_hidden_layers\":4,\"linear_num_key_heads\":2,"                        \
    "\"linear_num_value_heads\":4,\"linear_key_head_dim\":8,\"linear_value_head_dim\":6,"          \
    "\"linear_conv_kernel_dim\":4,\"rms_norm_eps\":0.01,\"hidden_act\":\"silu\","
#define ATTENTION(m, n)                                                                            \
    m "layers." n ".self_attn.q_proj.weight 128x16, " m "layers." n                                \
      ".self_attn.k_proj.weight 32x16, " m "layers." n ".self_attn.v_proj.weight 32x16, " m        \
      "layers." n ".self_attn.o_proj.weight 16x64, " m "layers." n                                 \
      ".self_attn.q_norm.weight 16, " m "layers." n ".self_attn.k_norm.weight 16, "
#define DELTA(m, n)                                                                                \
    m "layers." n ".linear_attn.conv1d.weight 56x1x4*2, " m "layers." n ".linear_attn.A_log 4, " m \
      "layers." n ".linear_attn.dt_bias 4, " m "layers." n ".linear_attn.norm.weight 6*2, " m      \
      "layers." n ".linear_attn.out_proj.weight 16x24, "
#define MIXED(m, n)                                                                                \
    DELTA(m, n)                                                                                    \
    m "layers." n ".linear_attn.in_proj_qkvz.weight 80x16, " m "layers." n                         \
      ".linear_attn.in_proj_ba.weight 8x16, "
#define APART(m, n)                                                                                \
    DELTA(m, n)                                                                                    \
    m "layers." n ".linear_attn.in_proj_qkv.weight 56x16, " m "layers." n                          \
      ".linear_attn.in_proj_z.weight 24x16, " m "layers." n                                        \
      ".linear_attn.in_proj_b.weight 4x16, " m "layers." n ".linear_attn.in_proj_a.weight 4x16, "
#define AROUND(m)                                                                                  \
    m "embed_tokens.weight 40x16*3, " m "layers.#.input_layernorm.weight 16, " m                   \
      "layers.#.post_attention_layernorm.weight 16, " m "norm.weight 16"
#define GATED_MLP(begin, size)                                                                     \
    begin "gate_proj.weight " size "x16, " begin "up_proj.weight " size "x16, " begin              \
          "down_proj.weight 16x" size ", "
#define MIXTURE(m)                                                                                 \
    m "layers.#.mlp.gate.weight 4x16*2, " m                                                        \
      "layers.#.mlp.shared_expert_gate.weight 1x16*2, " GATED_MLP(                                 \
          m "layers.#.mlp.experts.0.", "12") GATED_MLP(m "layers.#.mlp.experts.1.", "12")          \
          GATED_MLP(m "layers.#.mlp.experts.2.", "12")                                             \
              GATED_MLP(m "layers.#.mlp.experts.3.", "12")                                         \
                  GATED_MLP(m "layers.#.mlp.shared_expert.", "10")
#define MIXTURE_FIELDS                                                                             \
    "\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":12,"                    \
    "\"shared_expert_intermediate_size\":10,"

/* --------------------------------------------------------------------- families -- */

static void pass_qwen3_next(struct forward *forward)
{
    static const struct family family = { "model.", true, NULL, is_fourth };
    run_pass(forward, &family, "lm_head.weight");
}

#define QWEN3_NEXT                                                                                 \
    MIXED("model.", "0")                                                                           \
    MIXED("model.", "1")                                                                           \
    MIXED("model.", "2") ATTENTION("model.", "3") MIXTURE("model.") AROUND("model.") LLAMA_HEAD

#define QWEN3_NEXT_CONFIG                                                                          \
    "{\"model_type\":\"qwen3_next\"," SIZES MIXTURE_FIELDS                                         \
    "\"norm_topk_prob\":true,\"mlp_only_layers\":[],\"decoder_sparse_step\":1,"                    \
    "\"full_attention_interval\":4,\"partial_rotary_factor\":0.25,\"rope_theta\":10000.0}"

TEST(qwen3_next)
{
    check("qwen3_next", QWEN3_NEXT_CONFIG, QWEN3_NEXT, pass_qwen3_next, NULL, 0);
}

/* More rows than one panel has, in sixteen bits. */
TEST(qwen3_next_of_many_tokens)
{
    check("qwen3_next_long",
          "{\"model_type\":\"qwen3_next\"," SIZES MIXTURE_FIELDS "\"rope_theta\":10000.0}",
          QWEN3_NEXT, pass_qwen3_next, "F16", 600);
}

/* Attention in layers 1 and 3, dense feed-forwards, tied embeddings. */
static bool is_odd(int layer)
{
    return layer % 2 == 1;
}

static struct rows text_feed_forward(struct rows x, int layer)
{
    return decoder_gated(x, "model.layers.#.mlp.", "silu", layer);
}

static void pass_qwen3_5_text(struct forward *forward)
{
    static const struct family family = { "model.", false, text_feed_forward, is_odd };
    run_pass(forward, &family, NULL);
}

TEST(qwen3_5_text)
{
    check(
        "qwen3_5_text",
        "{\"model_type\":\"qwen3_5_text\"," SIZES
        "\"intermediate_size\":24,\"attn_output_gate\":true,\"layer_types\":[\"linear_attention\","
        "\"full_attention\",\"linear_attention\",\"full_attention\"],\"rope_parameters\":{"
        "\"rope_type\":\"default\",\"rope_theta\":10000.0,\"partial_rotary_factor\":0.25,"
        "\"mrope_interleaved\":true,\"mrope_section\":[1,0,0]},\"tie_word_embeddings\":true}",
        APART("model.", "0") ATTENTION("model.", "1") APART("model.", "2") ATTENTION("model.", "3")
            GATED_MLP("model.layers.#.mlp.", "24") AROUND("model."),
        pass_qwen3_5_text, NULL, 0);
}

static struct rows whole_feed_forward(struct rows x, int layer)
{
    return decoder_gated(x, "model.language_model.layers.#.mlp.", "silu", layer);
}

static void pass_qwen3_5(struct forward *forward)
{
    static const struct family family = { "model.language_model.", false, whole_feed_forward,
                                          is_fourth };
    run_pass(forward, &family, "lm_head.weight");
}

/* Of the whole model its text. */
TEST(qwen3_5)
{
    check("qwen3_5",
          "{\"model_type\":\"qwen3_5\",\"tie_word_embeddings\":false,\"image_token_id\":38,"
          "\"vision_config\":{\"depth\":2},\"text_config\":{\"model_type\":\"qwen3_5_text\"," SIZES
          "\"intermediate_size\":24,\"full_attention_interval\":4,\"mlp_only_layers\":[],"
          "\"tie_word_embeddings\":false}}",
          APART("model.language_model.", "0") APART("model.language_model.", "1")
              APART("model.language_model.", "2") ATTENTION("model.language_model.", "3")
                  GATED_MLP("model.language_model.layers.#.mlp.", "24")
                      AROUND("model.language_model.") LLAMA_HEAD
          ", model.visual.pos_embed.weight 4x16, mtp.norm.weight 16",
          pass_qwen3_5, NULL, 0);
}

static void pass_qwen3_5_moe(struct forward *forward)
{
    static const struct family family = { "model.language_model.", false, NULL, is_fourth };
    run_pass(forward, &family, "lm_head.weight");
}

TEST(qwen3_5_moe)
{
    check("qwen3_5_moe",
          "{\"model_type\":\"qwen3_5_moe\",\"text_config\":{\"model_type\":\"qwen3_5_moe_"
          "text\"," SIZES MIXTURE_FIELDS "\"tie_word_embeddings\":false}}",
          APART("model.language_model.", "0") APART("model.language_model.", "1")
              APART("model.language_model.", "2") ATTENTION("model.language_model.", "3")
                  MIXTURE("model.language_model.") AROUND("model.language_model.") LLAMA_HEAD,
          pass_qwen3_5_moe, NULL, 0);
}

/* ---------------------------------------------------------------- gated attention -- */

#define LAYER_3 "{\"model\":\"qwen3_next\",\"layer\":3,"

static void expect_refused(const char *path, const char *body, const char *pointer)
{
    struct http_response response = http_client_post(&client, path, body);
    answer_expect_fault(&response, 400, "option", pointer);
    assert_non_null(strstr(response.body, "has a gate of its context"));
    http_response_free(&response);
}

/* The layer alone answers what it adds in a pass; a gate has no gradient, and what a value adds
 * depends on the row. */
TEST(a_layer_with_a_gate)
{
    published_open(QWEN3_NEXT_CONFIG, QWEN3_NEXT, LAYERS, "F32");
    published_save(fixture_path("qwen3_next"), QWEN3_NEXT_CONFIG);
    fixture_serve("--models", directory);
    cJSON *trace = answer_post(&client, "/v1/trace",
                               "{\"model\":\"qwen3_next\",\"tokens\":[3,1,4,1,5],\"layers\":[3],"
                               "\"outputs\":[\"inputs\",\"attention_output\"]}");
    const cJSON *layer = cJSON_GetObjectItem(trace, "layers")->child;
    char *inputs = cJSON_PrintUnformatted(cJSON_GetObjectItem(layer, "inputs"));
    struct request_text body = { .data = NULL };
    request_text_add(&body, LAYER_3 "\"query\":%s}", inputs);
    cJSON *answer = answer_post(&client, "/v1/attention", body.data);
    assert_true(cJSON_Compare(cJSON_GetObjectItem(answer, "context"),
                              cJSON_GetObjectItem(layer, "attention_output"), true));
    expect_refused("/v1/trace", "{\"model\":\"qwen3_next\",\"tokens\":[3],\"outputs\":[\"norms\"]}",
                   "/outputs");
    free(body.data);
    body = (struct request_text){ .data = NULL };
    request_text_add(&body, LAYER_3 "\"query\":%s,\"context_gradient\":%s}", inputs, inputs);
    expect_refused("/v1/attention/gradients", body.data, "/layer");
    free(body.data);
    free(inputs);
    cJSON_Delete(answer);
    cJSON_Delete(trace);
    fixture_stop(NULL);
    published_close();
}

ALL_TESTS(fixture_make_directory, fixture_clear);
