/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_norms.c - published decoders that norm or clip their projections, each in its own
 * way.
 *
 * Each family's attention is written out of the forward() of its modeling file in Hugging Face
 * transformers, src/transformers/models/, at the commit that stands with it. */
#include "published_rotary.h"
#include "test.h"

enum { WIDTH = 16, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 4 };

static const double EPS = 0.125;

#define AT "model.layers.#.self_attn."
/* q_proj, k_proj and v_proj of hidden, and what comes after them. */
struct projected {
    struct rows hidden, q, k, v;
};

static struct projected project(int layer)
{
    const struct rows hidden = published_input(WIDTH);
    return (struct projected){ hidden, published_linear(hidden, AT "q_proj", layer),
                               published_linear(hidden, AT "k_proj", layer),
                               published_linear(hidden, AT "v_proj", layer) };
}

static void expect(const struct projected *projected, int layer, int64_t window)
{
    const struct published_attention attention = {
        .heads = HEADS, .kv_heads = KV_HEADS, .scale = 0.5, .causal = true, .window = window
    };
    struct published_answer answer =
        published_attend(&attention, projected->q, projected->k, projected->v);
    answer.context = published_linear(answer.context, AT "o_proj", layer);
    published_expect(layer, "self", projected->hidden, projected->hidden, &answer);
}

static void rotate_half(const struct projected *projected, int64_t dim)
{
    published_rotate_half(projected->q, HEADS, dim, 10000);
    published_rotate_half(projected->k, KV_HEADS, dim, 10000);
}

/* olmo/modeling_olmo.py at 38e888f527a5, OlmoAttention: clamp_() of all three. */
TEST(olmo_clip)
{
    published_open(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"olmo\",\"clip_qkv\":0.25"),
                   PUBLISHED_GROUPED, 2, "F32");
    for (int layer = 0; layer < 2; layer++) {
        const struct projected projected = project(layer);
        published_clamp(projected.q, 0.25);
        published_clamp(projected.k, 0.25);
        published_clamp(projected.v, 0.25);
        rotate_half(&projected, HEAD_DIM);
        expect(&projected, layer, 0);
    }
    published_close();
}

/* olmo2/modeling_olmo2.py at 000c33fdfde1, Olmo2Attention: q_norm(q_proj(x)) over all heads. */
TEST(olmo2)
{
    published_open(PUBLISHED_GROUPED_CONFIG("\"model_type\":\"olmo2\",\"rms_norm_eps\":0.125"),
                   PUBLISHED_GROUPED ", " AT "q_norm.weight 16, " AT "k_norm.weight 8", 2, "F32");
    for (int layer = 0; layer < 2; layer++) {
        const struct projected projected = project(layer);
        published_rms_norm(projected.q, 1, AT "q_norm.weight", layer, EPS, 0);
        published_rms_norm(projected.k, 1, AT "k_norm.weight", layer, EPS, 0);
        rotate_half(&projected, HEAD_DIM);
        expect(&projected, layer, 0);
    }
    published_close();
}

/* A LayerNorm for each of heads, of weights that lie one after the other. */
static void norm_heads(struct rows x, int64_t heads, const double *weight)
{
    for (int64_t h = 0; h < heads; h++)
        published_layer_norm(x, h * HEAD_DIM, HEAD_DIM, weight + h * HEAD_DIM, NULL, EPS);
}

/* cohere/modeling_cohere.py at 015bfeb86891, CohereAttention with use_qk_norm: CohereLayerNorm of
 * (heads, head_dim). */
TEST(cohere)
{
    published_open(PUBLISHED_GROUPED_CONFIG(
                       "\"model_type\":\"cohere\",\"use_qk_norm\":true,\"layer_norm_eps\":0.125"),
                   PUBLISHED_GROUPED ", " AT "q_norm.weight 4x4, " AT "k_norm.weight 2x4", 2,
                   "F16");
    for (int layer = 0; layer < 2; layer++) {
        const struct projected projected = project(layer);
        norm_heads(projected.q, HEADS, published_tensor(AT "q_norm.weight", layer).data);
        norm_heads(projected.k, KV_HEADS, published_tensor(AT "k_norm.weight", layer).data);
        published_rotate_every_two(projected.q, HEADS, HEAD_DIM, 10000);
        published_rotate_every_two(projected.k, KV_HEADS, HEAD_DIM, 10000);
        expect(&projected, layer, 0);
    }
    published_close();
}

/* cohere2/modeling_cohere2.py at 015bfeb86891, Cohere2Attention: no norms, and only layers with a
 * window are rotated. */
TEST(cohere2)
{
    static const char *const WHICH[] = {
        "\"sliding_window_pattern\":2", "\"layer_types\":[\"sliding_attention\",\"full_attention\"]"
    };
    for (int i = 0; i < 2; i++) {
        char config[320];
        snprintf(config, sizeof config,
                 PUBLISHED_GROUPED_CONFIG("\"model_type\":\"cohere2\",\"sliding_window\":3,%s"),
                 WHICH[i]);
        published_open(config, PUBLISHED_GROUPED, 2, "F32");
        const struct projected turned = project(0), plain = project(1);
        published_rotate_every_two(turned.q, HEADS, HEAD_DIM, 10000);
        published_rotate_every_two(turned.k, KV_HEADS, HEAD_DIM, 10000);
        expect(&turned, 0, 3);
        expect(&plain, 1, 0);
        published_close();
    }
}

/* The weights of StableLmLayerNormPerHead, a tensor for each head. */
static void norm_modules(struct rows x, int64_t heads, const char *begin, int layer)
{
    for (int h = 0; h < heads; h++) {
        char name[96];
        snprintf(name, sizeof name, "%s.norms.%d.weight", begin, h);
        published_layer_norm(x, h * HEAD_DIM, HEAD_DIM, published_tensor(name, layer).data, NULL,
                             EPS);
    }
}

/* stablelm/modeling_stablelm.py at 00dcc6dda6f6, StableLmAttention with qk_layernorm. */
TEST(stablelm)
{
    published_open(PUBLISHED_GROUPED_CONFIG(
                       "\"model_type\":\"stablelm\",\"qk_layernorm\":true,\"layer_norm_eps\":0.125,"
                       "\"partial_rotary_factor\":0.5"),
                   PUBLISHED_GROUPED
                   ", " AT "q_layernorm.norms.0.weight 4, " AT "q_layernorm.norms.1.weight 4, " AT
                   "q_layernorm.norms.2.weight 4, " AT "q_layernorm.norms.3.weight 4, " AT
                   "k_layernorm.norms.0.weight 4, " AT "k_layernorm.norms.1.weight 4",
                   2, "F32");
    for (int layer = 0; layer < 2; layer++) {
        const struct projected projected = project(layer);
        const struct model_tensor *tensor = published_model()->layers[layer].tensors[MODEL_K_NORM];
        assert_string_equal(tensor->name + strlen("model.layers.0."),
                            "self_attn.k_layernorm.norms.*.weight");
        assert_true(tensor->rank == 2 && tensor->shape[0] == KV_HEADS && tensor->shape[1] == 4);
        norm_modules(projected.q, HEADS, AT "q_layernorm", layer);
        norm_modules(projected.k, KV_HEADS, AT "k_layernorm", layer);
        rotate_half(&projected, 2);
        expect(&projected, layer, 0);
    }
    published_close();
}

/* One LayerNorm for all heads, with a bias. */
static void norm_alike(struct rows x, int64_t heads, const char *begin, int layer)
{
    char weight[96], bias[96];
    snprintf(weight, sizeof weight, "%s.weight", begin);
    snprintf(bias, sizeof bias, "%s.bias", begin);
    for (int64_t h = 0; h < heads; h++)
        published_layer_norm(x, h * HEAD_DIM, HEAD_DIM, published_tensor(weight, layer).data,
                             published_tensor(bias, layer).data, EPS);
}

/* phi/modeling_phi.py at 0faeaf39a917, PhiAttention with qk_layernorm: nn.LayerNorm(head_dim). */
TEST(phi)
{
    const struct published_attention attention = {
        .heads = HEADS, .kv_heads = KV_HEADS, .scale = 0.5, .causal = true
    };
    published_open(PUBLISHED_GROUPED_CONFIG(
                       "\"model_type\":\"phi\",\"qk_layernorm\":true,\"layer_norm_eps\":0.125,"
                       "\"partial_rotary_factor\":0.5"),
                   AT "q_proj.weight 16x16, " AT "q_proj.bias 16, " AT "k_proj.weight 8x16, " AT
                      "k_proj.bias 8, " AT "v_proj.weight 8x16, " AT "v_proj.bias 8, " AT
                      "dense.weight 16x16, " AT "dense.bias 16, " AT "q_layernorm.weight 4, " AT
                      "q_layernorm.bias 4, " AT "k_layernorm.weight 4, " AT "k_layernorm.bias 4",
                   2, "F32");
    const struct projected projected = project(1);
    norm_alike(projected.q, HEADS, AT "q_layernorm", 1);
    norm_alike(projected.k, KV_HEADS, AT "k_layernorm", 1);
    rotate_half(&projected, 2);
    struct published_answer answer =
        published_attend(&attention, projected.q, projected.k, projected.v);
    answer.context = published_linear(answer.context, AT "dense", 1);
    published_expect(1, "self", projected.hidden, projected.hidden, &answer);
    published_close();
}
