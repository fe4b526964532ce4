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
static struct rows lfm2_block(struct forward *forward, struct rows x, int layer)
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
    return forward_add(x, forward_edits_fed(kind, layer, lfm2_feed_forward(normed, layer)));
}

static void lfm2_pass(struct forward *forward)
{
    const struct rows embedding = published_tensor("model.embed_tokens.weight", 0);
    struct rows x = forward_embed(embedding, decoder_tokens(), decoder_length);
    for (int layer = 0; layer < 5; layer++)
        x = lfm2_block(forward, x, layer);
    forward->final_hidden_states = forward_rms_norm(x, "model.embedding_norm", 0, 1e-5, 0);
    forward->logits = forward_product(forward->final_hidden_states, embedding);
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

ALL_TESTS(fixture_make_directory, fixture_clear);
