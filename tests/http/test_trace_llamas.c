/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_llamas.c - whole passes of Llama, Mistral, Mixtral, Qwen, Phi-3, Granite and
 * StarCoder2 compared with POST /v1/trace. Each is written out of the family's modeling file in the
 * tree that forward_llama.h names. */
#include "answer.h"
#include "fixture.h"
#include "forward_llama.h"
#include "test.h"

/* ------------------------------------------------------------------- Llama -- */

static void pass_llama(struct forward *forward)
{
    llama_pass(forward, &LLAMA);
}

TEST(llama)
{
    llama_check("llama", LLAMA_CONFIG("llama", "2", ""), LLAMA_TENSORS, 2, pass_llama);
}

static void check_llama(const char *name, const char *dtype, int64_t length)
{
    const struct decoder_case decoder = {
        name, LLAMA_CONFIG("llama", "2", ""), LLAMA_TENSORS, 2, pass_llama, dtype, length, false,
        false
    };
    decoder_case_check(&decoder);
}

TEST(llama_of_f16)
{
    check_llama("llama_f16", "F16", 0);
}

/* More rows than one panel of a feed-forward has. */
TEST(llama_of_many_tokens)
{
    check_llama("llama_long", "F32", 300);
}

static struct rows coarse_norm(struct rows x, const char *name, int layer)
{
    return forward_rms_norm(x, name, layer, 0.125, 0);
}

static void pass_tied(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = coarse_norm;
    llama.head = NULL;
    llama.attention.theta = 500;
    llama_pass(forward, &llama);
}

#define QKV_BIASES                                                                                 \
    LLAMA_ATTENTION "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION           \
                    "v_proj.bias 8, "
#define BIASES                                                                                     \
    QKV_BIASES LLAMA_ATTENTION "o_proj.bias 16, " LLAMA_BLOCK                                      \
                               "mlp.gate_proj.bias 24, " LLAMA_BLOCK                               \
                               "mlp.up_proj.bias 24, " LLAMA_BLOCK "mlp.down_proj.bias 16, "

/* tie_word_embeddings, biases everywhere, and an rms_norm_eps that shows. */
TEST(llama_tied)
{
    llama_check("tied",
                LLAMA_CONFIG("llama", "2",
                             ",\"tie_word_embeddings\":true,\"attention_bias\":true,"
                             "\"mlp_bias\":true,\"rms_norm_eps\":0.125,\"rope_theta\":500.0"),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS BIASES LLAMA_LAST_NORM, 2,
                pass_tied);
}

static void pass_odd(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.attention.attention.heads = 3;
    llama.attention.attention.kv_heads = 1;
    llama.attention.attention.scale = 1 / sqrt(10);
    llama.attention.rotary_dim = 10;
    llama_pass(forward, &llama);
}

/* Widths that no vector divides, and heads that are wider together than the model. */
TEST(llama_of_odd_widths)
{
    llama_check("odd",
                "{\"model_type\":\"llama\",\"hidden_size\":19,\"intermediate_size\":27,"
                "\"num_attention_heads\":3,\"num_key_value_heads\":1,\"head_dim\":10,"
                "\"vocab_size\":43,\"num_hidden_layers\":2}",
                "model.embed_tokens.weight 43x19, " LLAMA_ATTENTION
                "q_proj.weight 30x19, " LLAMA_ATTENTION "k_proj.weight 10x19, " LLAMA_ATTENTION
                "v_proj.weight 10x19, " LLAMA_ATTENTION "o_proj.weight 19x30, " LLAMA_BLOCK
                "mlp.gate_proj.weight 27x19, " LLAMA_BLOCK "mlp.up_proj.weight 27x19, " LLAMA_BLOCK
                "mlp.down_proj.weight 19x27, " LLAMA_BLOCK "input_layernorm.weight 19, " LLAMA_BLOCK
                "post_attention_layernorm.weight 19, model.norm.weight 19, lm_head.weight 43x19",
                2, pass_odd);
}

static void pass_wide(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.attention.attention.scale = 0.05;
    llama.attention.rotary_dim = 16;
    llama_pass(forward, &llama);
}

/* More rows and columns than one panel of the feed-forward has. Scores are scaled down, because
 * rounding errors of large scores are large errors of weights. */
TEST(wide_rows)
{
    static const struct decoder_case WIDE = {
        "wide",
        "{\"model_type\":\"granite\",\"hidden_size\":256,\"intermediate_size\":688,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
        "\"vocab_size\":40,\"num_hidden_layers\":2,\"attention_multiplier\":0.05,"
        "\"tie_word_embeddings\":false}",
        "model.embed_tokens.weight 40x256, " LLAMA_ATTENTION
        "q_proj.weight 64x256, " LLAMA_ATTENTION "k_proj.weight 32x256, " LLAMA_ATTENTION
        "v_proj.weight 32x256, " LLAMA_ATTENTION "o_proj.weight 256x64, " LLAMA_BLOCK
        "mlp.gate_proj.weight 688x256, " LLAMA_BLOCK "mlp.up_proj.weight 688x256, " LLAMA_BLOCK
        "mlp.down_proj.weight 256x688, " LLAMA_BLOCK "input_layernorm.weight 256, " LLAMA_BLOCK
        "post_attention_layernorm.weight 256, model.norm.weight 256, lm_head.weight 40x256",
        2,
        pass_wide,
        NULL,
        300,
        false,
        false,
    };
    decoder_case_check(&WIDE);
}

static void pass_12(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.layers = 12;
    llama_pass(forward, &llama);
}

static void pass_32(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.layers = 32;
    llama_pass(forward, &llama);
}

TEST(llama_of_12_layers)
{
    llama_check("llama12", LLAMA_CONFIG("llama", "12", ""), LLAMA_TENSORS, 12, pass_12);
}

TEST(llama_of_32_layers)
{
    llama_check("llama32", LLAMA_CONFIG("llama", "32", ""), LLAMA_TENSORS, 32, pass_32);
}

/* --------------------------------------------------------- Mistral, Mixtral -- */

static void pass_windows(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.attention.attention.window = 3;
    llama_pass(forward, &llama);
}

TEST(mistral)
{
    llama_check("mistral", LLAMA_CONFIG("mistral", "2", ",\"sliding_window\":3"), LLAMA_TENSORS, 2,
                pass_windows);
}

enum { EXPERTS = 4 };
#define EXPERT LLAMA_BLOCK "block_sparse_moe.experts."

/* MixtralExperts: one of them, of one row. */
static struct rows expert(struct rows x, int number, int layer)
{
    char names[3][96];
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], EXPERT "%d.w%d", number, i + 1);
    const struct rows gate = forward_activation(published_linear(x, names[0], layer), "silu");
    const struct rows up = published_linear(x, names[2], layer);
    return published_linear(forward_multiply(gate, up), names[1], layer);
}

/* MixtralTopKRouter: the softmax over all experts, of which the two largest are divided by their
 * sum. */
static struct rows mixtral_feed_forward(struct rows x, int layer)
{
    const struct rows scores = published_linear(x, LLAMA_BLOCK "block_sparse_moe.gate", layer);
    struct rows y = published_rows(0, x.columns);
    for (int64_t i = 0; i < x.count; i++) {
        const double *row = scores.data + i * EXPERTS;
        int first = 0, second = -1;
        for (int e = 1; e < EXPERTS; e++)
            first = row[e] > row[first] ? e : first;
        for (int e = 0; e < EXPERTS; e++)
            if (e != first && (second < 0 || row[e] > row[second]))
                second = e;
        const double both = exp(row[first]) + exp(row[second]);
        const struct rows one = forward_slice(x, i, 1);
        const struct rows sum =
            forward_add(forward_scale(expert(one, first, layer), exp(row[first]) / both),
                        forward_scale(expert(one, second, layer), exp(row[second]) / both));
        y = i == 0 ? sum : forward_join(y, sum);
    }
    return y;
}

static void pass_mixtral(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.attention.theta = 1e6;
    llama.feed_forward = mixtral_feed_forward;
    llama_pass(forward, &llama);
}

#define EXPERT_TENSORS(e)                                                                          \
    EXPERT e ".w1.weight 24x16, " EXPERT e ".w2.weight 16x24, " EXPERT e ".w3.weight 24x16, "

TEST(mixtral)
{
    llama_check("mixtral",
                LLAMA_CONFIG("mixtral", "2",
                             ",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                             "\"rms_norm_eps\":1e-06"),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_BLOCK
                "block_sparse_moe.gate.weight 4x16, " EXPERT_TENSORS("0") EXPERT_TENSORS("1")
                    EXPERT_TENSORS("2") EXPERT_TENSORS("3") LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
                2, pass_mixtral);
}

/* -------------------------------------------------------------------- Qwen -- */

TEST(qwen2)
{
    llama_check("qwen2", LLAMA_CONFIG("qwen2", "2", ""),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS QKV_BIASES LLAMA_LAST_NORM
                    LLAMA_HEAD,
                2, pass_llama);
}

static struct decoder_projections qwen3_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_norm.weight", layer, 1e-6, 0);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_norm.weight", layer, 1e-6,
                       0);
    return projections;
}

static void pass_qwen3(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.project = qwen3_project;
    llama.head = NULL;
    llama_pass(forward, &llama);
}

TEST(qwen3)
{
    llama_check(
        "qwen3", LLAMA_CONFIG("qwen3", "2", ",\"head_dim\":4,\"tie_word_embeddings\":true"),
        LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS LLAMA_HEAD_NORMS LLAMA_LAST_NORM,
        2, pass_qwen3);
}

/* ------------------------------------------------------------------- Phi-3 -- */

static struct decoder_projections phi3_project(struct rows x, int layer)
{
    const struct rows qkv = published_linear(x, LLAMA_ATTENTION "qkv_proj", layer);
    return (struct decoder_projections){ published_split(qkv, 1, 0, 16),
                                         published_split(qkv, 1, 16, 8),
                                         published_split(qkv, 1, 24, 8) };
}

static struct rows phi3_feed_forward(struct rows x, int layer)
{
    const struct rows up = published_linear(x, LLAMA_BLOCK "mlp.gate_up_proj", layer);
    const struct rows gate = forward_activation(published_split(up, 1, 0, 24), "silu");
    return published_linear(forward_multiply(published_split(up, 1, 24, 24), gate),
                            LLAMA_BLOCK "mlp.down_proj", layer);
}

static void pass_phi3(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.project = phi3_project;
    llama.feed_forward = phi3_feed_forward;
    llama.attention.attention.window = 3;
    llama_pass(forward, &llama);
}

TEST(phi3)
{
    llama_check("phi3", LLAMA_CONFIG("phi3", "2", ",\"rms_norm_eps\":1e-06,\"sliding_window\":3"),
                LLAMA_EMBEDDING LLAMA_ATTENTION
                "qkv_proj.weight 32x16, " LLAMA_ATTENTION "o_proj.weight 16x16, " LLAMA_BLOCK
                "mlp.gate_up_proj.weight 48x16, " LLAMA_BLOCK
                "mlp.down_proj.weight 16x24, " LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
                2, pass_phi3);
}

/* ----------------------------------------------------------------- Granite -- */

/* GraniteModel, GraniteDecoderLayer, GraniteForCausalLM: four factors. */
static void pass_granite(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.attention.attention.scale = 0.3;
    llama.embedding_scale = 3;
    llama.residual_scale = 0.7;
    llama_pass(forward, &llama);
    forward->logits = forward_scale(forward->logits, 1.0 / 5);
}

TEST(granite)
{
    llama_check("granite",
                LLAMA_CONFIG("granite", "2",
                             ",\"attention_multiplier\":0.3,\"embedding_multiplier\":3.0,"
                             "\"residual_multiplier\":0.7,\"logits_scaling\":5.0,"
                             "\"tie_word_embeddings\":false"),
                LLAMA_TENSORS, 2, pass_granite);
}

/* -------------------------------------------------------------- StarCoder2 -- */

/* Starcoder2MLP */
static struct rows starcoder2_feed_forward(struct rows x, int layer)
{
    const struct rows up = published_linear(x, LLAMA_BLOCK "mlp.c_fc", layer);
    return published_linear(forward_activation(up, "gelu_pytorch_tanh"), LLAMA_BLOCK "mlp.c_proj",
                            layer);
}

/* Starcoder2DecoderLayer: Mistral's, with torch.nn.LayerNorm. */
static void pass_starcoder2(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = llama_layer_norm;
    llama.feed_forward = starcoder2_feed_forward;
    llama.attention.attention.window = 3;
    llama.head = NULL;
    llama_pass(forward, &llama);
}

TEST(starcoder2)
{
    llama_check("starcoder2", LLAMA_CONFIG("starcoder2", "2", ",\"sliding_window\":3"),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS QKV_BIASES LLAMA_ATTENTION
                "o_proj.bias 16, " LLAMA_BLOCK "mlp.c_fc.weight 24x16, " LLAMA_BLOCK
                "mlp.c_fc.bias 24, " LLAMA_BLOCK "mlp.c_proj.weight 16x24, " LLAMA_BLOCK
                "mlp.c_proj.bias 16, " LLAMA_NORMS LLAMA_BLOCK
                "input_layernorm.bias 16, " LLAMA_BLOCK
                "post_attention_layernorm.bias 16, model.norm.bias 16, " LLAMA_LAST_NORM,
                2, pass_starcoder2);
}

/* ------------------------------------------------------------- a family not known -- */

TEST(reformer)
{
    published_open(LLAMA_CONFIG("llama", "1", ""), LLAMA_TENSORS, 1, "F32");
    published_save(fixture_path("reformer"), LLAMA_CONFIG("reformer", "1", ""));
    published_close();
    fixture_serve("--models", directory);
    cJSON *model = answer_get(&client, "/v1/models/reformer");
    const char *reason = cJSON_GetObjectItem(model, "reason")->valuestring;
    answer_expect(model, "state", "\"UNAVAILABLE\"", 0);
    answer_expect(model, "trace", "false", 0);
    assert_non_null(strstr(reason, "model_type 'reformer' is not known here"));
    struct http_response response =
        http_client_post(&client, "/v1/trace", "{\"model\":\"reformer\",\"tokens\":[1]}");
    assert_true(response.status >= 400);
    assert_non_null(strstr(response.body, "model_type 'reformer' is not known here"));
    http_response_free(&response);
    cJSON_Delete(model);
    fixture_stop(NULL);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
