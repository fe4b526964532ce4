/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_newer.c - whole passes of decoders that came out of Llama from 2024 on, compared with
 * POST /v1/trace. Each is written out of the family's modeling file in Hugging Face transformers,
 * src/transformers/models/, at the commit that stands with it, or out of the file that is named. */
#include "forward_llama.h"
#include "test.h"

#include "fixture.h"

/* config.json with no rms_norm_eps has the family's own, which would not show. */
#define EPS ",\"rms_norm_eps\":0.125"

static struct rows norm(struct rows x, const char *name, int layer)
{
    return forward_rms_norm(x, name, layer, 0.125, 0);
}

#define QKV_BIASES                                                                                 \
    LLAMA_ATTENTION "q_proj.bias 16, " LLAMA_ATTENTION "k_proj.bias 8, " LLAMA_ATTENTION           \
                    "v_proj.bias 8, "
#define GATED_BIASES                                                                               \
    LLAMA_BLOCK "mlp.gate_proj.bias 24, " LLAMA_BLOCK "mlp.up_proj.bias 24, " LLAMA_BLOCK          \
                "mlp.down_proj.bias 16, "

/* ----------------------------------------------------------------- SmolLM3 -- */

/* smollm3/modular_smollm3.py at 008e574391258: layers of a 0 in no_rope_layers are not rotated. */
static void pass_smollm3(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.layers = 4;
    llama.norm = norm;
    llama.attention.theta = 500;
    llama.full_every = 2;
    llama.head = NULL;
    llama_pass(forward, &llama);
}

TEST(smollm3)
{
    llama_check(
        "smollm3",
        LLAMA_CONFIG("smollm3", "4", EPS ",\"rope_theta\":500,\"no_rope_layers\":[1,0,1,0]"),
        LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS LLAMA_LAST_NORM, 4, pass_smollm3);
}

/* ------------------------------------------------------- OLMo 3 and EXAONE 4 -- */

/* olmo2/modular_olmo2.py at 008f5c8c29be, Olmo2Attention: norms over all heads of a row. */
static struct decoder_projections olmo3_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, 1, LLAMA_ATTENTION "q_norm.weight", layer, 0.125, 0);
    published_rms_norm(projections.k, 1, LLAMA_ATTENTION "k_norm.weight", layer, 0.125, 0);
    return projections;
}

#define NORMS_INSIDE                                                                               \
    LLAMA_NORM("post_attention_layernorm") ", " LLAMA_NORM("post_feedforward_layernorm") ", "

/* _compute_yarn_parameters() of modeling_rope_utils.py, for heads of 4 columns. */
static void yarn(double frequencies[2], double theta, double factor, double length)
{
    const double dim = 4, pi = acos(-1);
    const double low = fmax(floor(dim * log(length / (32 * 2 * pi)) / (2 * log(theta))), 0);
    const double high = fmin(ceil(dim * log(length / (1 * 2 * pi)) / (2 * log(theta))), dim - 1);
    for (int c = 0; c < 2; c++) {
        const double f = pow(theta, -2 * c / dim);
        const double ramp = fmin(fmax((c - low) / (low == high ? 0.001 : high - low), 0), 1);
        frequencies[c] = f / factor * ramp + f * (1 - ramp);
    }
}

/* olmo3/modular_olmo3.py of transformers 4.57: windows on three layers of four, and YaRN on the
 * others. */
static void pass_olmo3(struct forward *forward)
{
    double frequencies[2];
    struct llama llama = LLAMA;
    yarn(frequencies, 500, 4, 64);
    llama.layers = 4;
    llama.norm = norm;
    llama.project = olmo3_project;
    llama.block = llama_norms_after;
    llama.attention.theta = 500;
    llama.attention.attention.window = 3;
    llama.full_every = 4;
    llama.full_theta = 500;
    llama.full_frequencies = frequencies;
    llama.full_factor = 1.25;
    llama_pass(forward, &llama);
}

#define OLMO3_TENSORS                                                                              \
    LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED NORMS_INSIDE LLAMA_ATTENTION                     \
        "q_norm.weight 16, " LLAMA_ATTENTION "k_norm.weight 8, " LLAMA_LAST_NORM LLAMA_HEAD
#define YARN                                                                                       \
    "{\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":64,"                \
    "\"beta_fast\":32,\"beta_slow\":1,\"attention_factor\":1.25"

TEST(olmo3)
{
    llama_check("olmo3",
                LLAMA_CONFIG("olmo3", "4",
                             EPS ",\"sliding_window\":3,\"rope_theta\":500,\"rope_scaling\":" YARN
                                 "}"),
                OLMO3_TENSORS, 4, pass_olmo3);
}

/* The same in the newer form, for each type of layers and for all. */
TEST(olmo3_parameters)
{
    llama_check("olmo3_types",
                LLAMA_CONFIG("olmo3", "4",
                             EPS
                             ",\"sliding_window\":3,\"rope_parameters\":{\"full_attention\":" YARN
                             ",\"rope_theta\":500},\"sliding_attention\":{\"rope_type\":"
                             "\"default\",\"rope_theta\":500}}"),
                OLMO3_TENSORS, 4, pass_olmo3);
    llama_check("olmo3_flat",
                LLAMA_CONFIG("olmo3", "4",
                             EPS ",\"sliding_window\":3,\"rope_parameters\":" YARN
                                 ",\"rope_theta\":500}"),
                OLMO3_TENSORS, 4, pass_olmo3);
}

/* exaone4/modular_exaone4.py at 008e574391258, Exaone4Attention: norms of each head; of a model
 * with windows the other layers are not rotated. */
static struct decoder_projections head_norms_project(struct rows x, int layer)
{
    const struct decoder_projections projections = llama_project(x, layer);
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_norm.weight", layer, 0.125,
                       0);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_norm.weight", layer, 0.125,
                       0);
    return projections;
}

static struct llama exaone4(void)
{
    struct llama llama = LLAMA;
    llama.layers = 3;
    llama.norm = norm;
    llama.project = head_norms_project;
    llama.block = llama_norms_after;
    llama.head = NULL;
    return llama;
}

static void pass_exaone4_windows(struct forward *forward)
{
    struct llama llama = exaone4();
    llama.attention.attention.window = 3;
    llama.full_every = 3;
    llama_pass(forward, &llama);
}

static void pass_exaone4(struct forward *forward)
{
    const struct llama llama = exaone4();
    llama_pass(forward, &llama);
}

#define EXAONE4_TENSORS                                                                            \
    LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED NORMS_INSIDE LLAMA_HEAD_NORMS LLAMA_LAST_NORM

TEST(exaone4)
{
    llama_check("exaone4_windows",
                LLAMA_CONFIG("exaone4", "3",
                             EPS ",\"sliding_window\":3,\"sliding_window_pattern\":\"LLG\","
                                 "\"tie_word_embeddings\":true"),
                EXAONE4_TENSORS, 3, pass_exaone4_windows);
    llama_check(
        "exaone4",
        LLAMA_CONFIG("exaone4", "3", EPS ",\"sliding_window\":null,\"tie_word_embeddings\":true"),
        EXAONE4_TENSORS, 3, pass_exaone4);
}

/* --------------------------------------------------- Seed-OSS and ERNIE 4.5 -- */

static void pass_biases(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = norm;
    llama_pass(forward, &llama);
}

/* seed_oss/modular_seed_oss.py at 052b1dcdbe75, SeedOssAttention. */
TEST(seed_oss)
{
    llama_check("seed_oss",
                LLAMA_CONFIG("seed_oss", "2",
                             EPS ",\"head_dim\":4,\"attention_out_bias\":true,\"mlp_bias\":true"),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS QKV_BIASES LLAMA_ATTENTION
                "o_proj.bias 16, " LLAMA_GATED GATED_BIASES LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
                2, pass_biases);
}

/* ernie4_5/modular_ernie4_5.py at 016bc8ef0876, apply_rotary_pos_emb(): pairs of neighbours. */
static void pass_ernie4_5(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = norm;
    llama.attention.theta = 500;
    llama.attention.is_every_two = true;
    llama.head = NULL;
    llama_pass(forward, &llama);
}

TEST(ernie4_5)
{
    llama_check(
        "ernie4_5",
        LLAMA_CONFIG("ernie4_5", "2", EPS ",\"head_dim\":4,\"rope_theta\":500,\"use_bias\":true"),
        LLAMA_EMBEDDING LLAMA_PROJECTIONS QKV_BIASES LLAMA_ATTENTION
        "o_proj.bias 16, " LLAMA_GATED GATED_BIASES LLAMA_NORMS LLAMA_LAST_NORM,
        2, pass_ernie4_5);
}

/* --------------------------------------------------------------- GLM, GLM 4 -- */

/* phi3/modeling_phi3.py, Phi3MLP: gate_up_proj has the gate first. */
static struct rows glm_feed_forward(struct rows x, int layer)
{
    const struct rows up = published_linear(x, LLAMA_BLOCK "mlp.gate_up_proj", layer);
    const struct rows gate = forward_activation(published_split(up, 1, 0, 24), "silu");
    return published_linear(forward_multiply(published_split(up, 1, 24, 24), gate),
                            LLAMA_BLOCK "mlp.down_proj", layer);
}

/* glm4/modular_glm4.py at 08c532782ab8, Glm4DecoderLayer: Gemma 2's norms by other names. */
static struct rows glm4_norm(struct rows x, const char *name, int layer)
{
    static const char *const NAMES[][2] = {
        { LLAMA_BLOCK "post_attention_layernorm", LLAMA_BLOCK "post_self_attn_layernorm" },
        { LLAMA_BLOCK "pre_feedforward_layernorm", LLAMA_BLOCK "post_attention_layernorm" },
        { LLAMA_BLOCK "post_feedforward_layernorm", LLAMA_BLOCK "post_mlp_layernorm" },
    };
    for (int i = 0; i < 3; i++)
        if (strcmp(name, NAMES[i][0]) == 0)
            return norm(x, NAMES[i][1], layer);
    return norm(x, name, layer);
}

/* glm/modular_glm.py at 0325dc46d077: half of the columns, in pairs of neighbours. */
static struct llama glm(void)
{
    struct llama llama = LLAMA;
    llama.norm = norm;
    llama.feed_forward = glm_feed_forward;
    llama.attention.rotary_dim = 2;
    llama.attention.is_every_two = true;
    return llama;
}

static void pass_glm(struct forward *forward)
{
    const struct llama llama = glm();
    llama_pass(forward, &llama);
}

static void pass_glm4(struct forward *forward)
{
    struct llama llama = glm();
    llama.norm = glm4_norm;
    llama.block = llama_norms_around;
    llama_pass(forward, &llama);
}

#define GLM_TENSORS                                                                                \
    LLAMA_EMBEDDING LLAMA_PROJECTIONS QKV_BIASES LLAMA_NORMS LLAMA_BLOCK                           \
        "mlp.gate_up_proj.weight 48x16, " LLAMA_BLOCK                                              \
        "mlp.down_proj.weight 16x24, " LLAMA_LAST_NORM LLAMA_HEAD

TEST(glm)
{
    llama_check("glm", LLAMA_CONFIG("glm", "2", EPS ",\"head_dim\":4"), GLM_TENSORS, 2, pass_glm);
    llama_check("glm4", LLAMA_CONFIG("glm4", "2", EPS ",\"head_dim\":4"),
                LLAMA_NORM("post_self_attn_layernorm") ", " LLAMA_NORM("post_mlp_layernorm") ", " //
                GLM_TENSORS,
                2, pass_glm4);
}

/* --------------------------------------------------------------- InternLM2 -- */

/* Names of Meta in place of Llama's. */
static struct rows internlm2_norm(struct rows x, const char *name, int layer)
{
    return norm(x,
                strcmp(name, LLAMA_BLOCK "input_layernorm") == 0 ? LLAMA_BLOCK "attention_norm"
                : strcmp(name, "model.norm") == 0                ? name
                                                                 : LLAMA_BLOCK "ffn_norm",
                layer);
}

/* InternLM2Attention of OpenGVLab/InternVL's internvl/model/internlm2/modeling_internlm2.py at
 * 0c8993dcb824: for each key/value head its queries, its key, its value. */
static struct decoder_projections internlm2_project(struct rows x, int layer)
{
    const struct rows qkv = published_linear(x, LLAMA_BLOCK "attention.wqkv", layer);
    return (struct decoder_projections){ published_split(qkv, 2, 0, 8),
                                         published_split(qkv, 2, 8, 4),
                                         published_split(qkv, 2, 12, 4) };
}

static struct rows internlm2_feed_forward(struct rows x, int layer)
{
    const struct rows gate = published_linear(x, LLAMA_BLOCK "feed_forward.w1", layer);
    const struct rows up = published_linear(x, LLAMA_BLOCK "feed_forward.w3", layer);
    return published_linear(forward_multiply(forward_activation(gate, "silu"), up),
                            LLAMA_BLOCK "feed_forward.w2", layer);
}

static void pass_internlm2(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = internlm2_norm;
    llama.project = internlm2_project;
    llama.feed_forward = internlm2_feed_forward;
    llama.embedding = "model.tok_embeddings.weight";
    llama.output = LLAMA_BLOCK "attention.wo";
    llama.head = "output.weight";
    llama_pass(forward, &llama);
}

TEST(internlm2)
{
    llama_check("internlm2", LLAMA_CONFIG("internlm2", "2", EPS),
                "model.tok_embeddings.weight 40x16, " LLAMA_BLOCK
                "attention.wqkv.weight 32x16, " LLAMA_BLOCK "attention.wqkv.bias 32, " LLAMA_BLOCK
                "attention.wo.weight 16x16, " LLAMA_BLOCK "attention.wo.bias 16, " LLAMA_BLOCK
                "feed_forward.w1.weight 24x16, " LLAMA_BLOCK
                "feed_forward.w2.weight 16x24, " LLAMA_BLOCK
                "feed_forward.w3.weight 24x16, " LLAMA_NORM("attention_norm") ", " LLAMA_NORM(
                    "ffn_norm") ", " LLAMA_LAST_NORM ", output.weight 40x16",
                2, pass_internlm2);
}

/* ---------------------------------------------------------------- Mistral 3 -- */

/* mistral3/modular_mistral3.py, the text: mistral/modeling_mistral.py. */
static void pass_mistral3(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = norm;
    llama.attention.attention.window = 3;
    llama.attention.theta = 500;
    llama_pass(forward, &llama);
}

TEST(mistral3)
{
    llama_check("mistral3",
                "{\"model_type\":\"mistral3\",\"vision_config\":{\"model_type\":\"pixtral\","
                "\"hidden_size\":8},\"text_config\":" LLAMA_CONFIG(
                    "mistral", "2", EPS ",\"sliding_window\":3,\"rope_theta\":500") "}",
                LLAMA_TENSORS, 2, pass_mistral3);
}

/* ministral3/modular_ministral3.py at 00b364c707da, Ministral3Attention and
 * get_llama_4_attn_scale(): rotated queries grow. */
static void grow_queries(struct decoder_projections projections, int layer)
{
    (void)layer;
    for (int64_t i = 0; i < projections.q.count; i++)
        for (int64_t c = 0; c < projections.q.columns; c++)
            projections.q.data[i * projections.q.columns + c] *=
                1 + 0.5 * log(1 + floor((double)i / 4));
}

static void pass_ministral3(struct forward *forward)
{
    double frequencies[2];
    struct llama llama = LLAMA;
    yarn(frequencies, 500, 2, 4);
    llama.norm = norm;
    llama.attention.theta = 500;
    llama.attention.frequencies = frequencies;
    llama.attention.factor = 1;
    llama.attention.rotated = grow_queries;
    llama_pass(forward, &llama);
}

#define GROWING                                                                                    \
    EPS ",\"head_dim\":4,\"rope_parameters\":{\"rope_type\":\"yarn\",\"type\":\"yarn\","           \
        "\"rope_theta\":500,\"factor\":2,\"original_max_position_embeddings\":4,"                  \
        "\"max_position_embeddings\":262144,\"beta_fast\":32,\"beta_slow\":1,\"mscale\":1,"        \
        "\"mscale_all_dim\":1,\"llama_4_scaling_beta\":0.5}"

TEST(ministral3)
{
    llama_check("ministral3", LLAMA_CONFIG("ministral3", "2", GROWING), LLAMA_TENSORS, 2,
                pass_ministral3);
    llama_check("ministral3_vision",
                "{\"model_type\":\"mistral3\",\"vision_config\":{\"model_type\":\"pixtral\","
                "\"hidden_size\":8},\"text_config\":" LLAMA_CONFIG("ministral3", "2", GROWING) "}",
                LLAMA_TENSORS, 2, pass_ministral3);
}

/* ------------------------------------------------------ Arcee and Nemotron -- */

/* nemotron/modeling_nemotron.py at 001ccfcb920b, NemotronMLP. */
static struct rows nemotron_feed_forward(struct rows x, int layer)
{
    const struct rows up = published_linear(x, LLAMA_BLOCK "mlp.up_proj", layer);
    return published_linear(forward_activation(up, "relu2"), LLAMA_BLOCK "mlp.down_proj", layer);
}

static void pass_arcee(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = norm;
    llama.feed_forward = nemotron_feed_forward;
    llama_pass(forward, &llama);
}

#define UP_DOWN LLAMA_BLOCK "mlp.up_proj.weight 24x16, " LLAMA_BLOCK "mlp.down_proj.weight 16x24, "

TEST(arcee)
{
    llama_check("arcee", LLAMA_CONFIG("arcee", "2", EPS),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS UP_DOWN LLAMA_NORMS LLAMA_LAST_NORM LLAMA_HEAD, 2,
                pass_arcee);
}

/* LayerNorm1P: torch.nn.LayerNorm whose weight is one more than that in the file. */
static struct rows nemotron_norm(struct rows x, const char *name, int layer)
{
    char whole[96];
    snprintf(whole, sizeof whole, "%s.weight", name);
    const struct rows weight = published_tensor(whole, layer);
    struct rows more = published_rows(1, x.columns);
    snprintf(whole, sizeof whole, "%s.bias", name);
    for (int64_t c = 0; c < x.columns; c++)
        more.data[c] = weight.data[c] + 1;
    const struct rows y = forward_slice(x, 0, x.count);
    published_layer_norm(y, 0, y.columns, more.data, published_tensor(whole, layer).data, 0.125);
    return y;
}

static void pass_nemotron(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = nemotron_norm;
    llama.feed_forward = nemotron_feed_forward;
    llama.attention.rotary_dim = 2;
    llama_pass(forward, &llama);
}

TEST(nemotron)
{
    llama_check("nemotron", LLAMA_CONFIG("nemotron", "2", ",\"norm_eps\":0.125"),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS UP_DOWN LLAMA_NORMS LLAMA_BLOCK
                "input_layernorm.bias 16, " LLAMA_BLOCK
                "post_attention_layernorm.bias 16, model.norm.bias 16, " LLAMA_LAST_NORM LLAMA_HEAD,
                2, pass_nemotron);
}

/* ------------------------------------------------------------ HunYuan dense -- */

/* hunyuan_v1_dense/modular_hunyuan_v1_dense.py at 0233e509531a, HunYuanDenseV1Attention. */
static void hunyuan_norms(struct decoder_projections projections, int layer)
{
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "query_layernorm.weight", layer,
                       0.125, 0);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "key_layernorm.weight", layer,
                       0.125, 0);
}

static struct llama hunyuan(double theta)
{
    struct llama llama = LLAMA;
    llama.norm = norm;
    llama.attention.theta = theta;
    llama.attention.rotated = hunyuan_norms;
    return llama;
}

static void pass_hunyuan(struct forward *forward)
{
    const struct llama llama = hunyuan(500);
    llama_pass(forward, &llama);
}

/* HunYuanDenseV1RotaryEmbedding: alpha ^ (dim / (dim - 2)), of heads of 4 columns. */
static void pass_hunyuan_alpha(struct forward *forward)
{
    const struct llama llama = hunyuan(500 * 3.5 * 3.5);
    llama_pass(forward, &llama);
}

#define HUNYUAN_TENSORS                                                                            \
    LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_GATED LLAMA_NORMS LLAMA_ATTENTION                      \
        "query_layernorm.weight 4, " LLAMA_ATTENTION                                               \
        "key_layernorm.weight 4, " LLAMA_LAST_NORM LLAMA_HEAD

TEST(hunyuan)
{
    llama_check("hunyuan", LLAMA_CONFIG("hunyuan_v1_dense", "2", EPS ",\"rope_theta\":500"),
                HUNYUAN_TENSORS, 2, pass_hunyuan);
    llama_check("hunyuan_alpha",
                LLAMA_CONFIG("hunyuan_v1_dense", "2",
                             EPS ",\"rope_theta\":500,\"rope_scaling\":{\"type\":\"dynamic\","
                                 "\"alpha\":3.5,\"factor\":1.0,\"beta_fast\":32,\"beta_slow\":1,"
                                 "\"mscale\":1.0,\"mscale_all_dim\":1.0}"),
                HUNYUAN_TENSORS, 2, pass_hunyuan_alpha);
    llama_check("hunyuan_parameters",
                LLAMA_CONFIG("hunyuan_v1_dense", "2",
                             EPS ",\"rope_parameters\":{\"rope_type\":\"dynamic\","
                                 "\"rope_theta\":500,\"alpha\":3.5}"),
                HUNYUAN_TENSORS, 2, pass_hunyuan_alpha);
}

/* --------------------------------------------------------------------- Apertus -- */

/* XIELUActivation of activations.py at 008e57439125, in a file that says all of its numbers. */
static struct rows apertus_feed_forward(struct rows x, int layer)
{
    const struct rows up = published_linear(x, LLAMA_BLOCK "mlp.up_proj", layer);
    double alpha[2], beta = 0.5, eps = -1e-6;
    alpha[0] = log1p(exp(published_tensor(LLAMA_BLOCK "mlp.act_fn.alpha_p", layer).data[0]));
    alpha[1] = log1p(exp(published_tensor(LLAMA_BLOCK "mlp.act_fn.alpha_n", layer).data[0]));
    for (int64_t i = 0; i < up.count * up.columns; i++) {
        const double u = up.data[i];
        up.data[i] = u > 0 ? alpha[0] * u * u + beta * u
                           : (expm1(fmin(u, eps)) - u) * (beta + alpha[1]) + beta * u;
    }
    return published_linear(up, LLAMA_BLOCK "mlp.down_proj", layer);
}

/* apertus/modular_apertus.py at 008e57439125: Nemotron's feed-forward, norms of each head. */
static struct rows apertus_norm(struct rows x, const char *name, int layer)
{
    return norm(x,
                strstr(name, "input_layernorm")  ? LLAMA_BLOCK "attention_layernorm"
                : strstr(name, "post_attention") ? LLAMA_BLOCK "feedforward_layernorm"
                                                 : name,
                layer);
}

static void pass_apertus(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.norm = apertus_norm;
    llama.project = head_norms_project;
    llama.feed_forward = apertus_feed_forward;
    llama.attention.theta = 500;
    llama_pass(forward, &llama);
}

TEST(apertus)
{
    llama_check("apertus",
                LLAMA_CONFIG("apertus", "2",
                             EPS ",\"hidden_act\":\"xielu\",\"rope_parameters\":{"
                                 "\"rope_type\":\"default\",\"rope_theta\":500}"),
                LLAMA_EMBEDDING LLAMA_PROJECTIONS UP_DOWN LLAMA_HEAD_NORMS LLAMA_BLOCK
                "mlp.act_fn.alpha_p 1, " LLAMA_BLOCK "mlp.act_fn.alpha_n 1, " LLAMA_NORM(
                    "attention_layernorm") ", " LLAMA_NORM("feedforward_layernorm") ", " //
                LLAMA_LAST_NORM LLAMA_HEAD,
                2, pass_apertus);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
