/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_llama4.c - the whole pass of Llama 4's text compared with POST /v1/trace. It is
 * written out of llama4/modeling_llama4.py of Hugging Face transformers, src/transformers/models/,
 * at 000c33fdfde1; the rest of its blocks is Llama's (forward_llama.h). */
#include "fixture.h"
#include "forward_llama.h"
#include "forward_parts.h"
#include "test.h"

enum { EXPERTS = 4, EXPERT_SIZE = 12 };

#define FEED LLAMA_BLOCK "feed_forward."

/* The expert with the largest score, but for that one; -1: none is left out. */
static int largest(const double scores[EXPERTS], int without)
{
    int best = -1;
    for (int e = 0; e < EXPERTS; e++)
        if (e != without && (best < 0 || scores[e] > scores[best]))
            best = e;
    return best;
}

/* x . matrix number number of a tensor [experts, in, out]. */
static struct rows in_out_product(struct rows x, const char *name, int number, int layer,
                                  int64_t out)
{
    const struct rows matrices = published_tensor(name, layer);
    const struct rows y = published_rows(x.count, out);
    const double *matrix = matrices.data + number * matrices.columns;
    assert_int_equal(matrices.columns, x.columns * out);
    for (int64_t o = 0; o < x.count * out; o++)
        for (int64_t c = 0; c < x.columns; c++)
            y.data[o] += x.data[o / out * x.columns + c] * matrix[c * out + o % out];
    return y;
}

/* Llama4TextExperts of the rows that Llama4Router has
 * scaled; those of experts that are not chosen are 0, and so is what such an expert computes. */
static struct rows llama4_expert(struct rows row, int number, int layer)
{
    const struct rows up =
        in_out_product(row, FEED "experts.gate_up_proj", number, layer, 2 * (int64_t)EXPERT_SIZE);
    const struct rows gate = forward_activation(published_split(up, 1, 0, EXPERT_SIZE), "silu");
    return in_out_product(forward_multiply(published_split(up, 1, EXPERT_SIZE, EXPERT_SIZE), gate),
                          FEED "experts.down_proj", number, layer, row.columns);
}

/* Llama4TextMoe with num_experts_per_tok 2. */
static struct rows llama4_row(struct rows row, const double scores[EXPERTS], int layer)
{
    struct rows sum = decoder_gated(row, FEED "shared_expert.", "silu", layer);
    const int first = largest(scores, -1);
    const int chosen[] = { first, largest(scores, first) };
    for (int i = 0; i < 2; i++) {
        const struct rows scaled = forward_scale(row, 1 / (1 + exp(-scores[chosen[i]])));
        sum = forward_add(sum, llama4_expert(scaled, chosen[i], layer));
    }
    return sum;
}

/* Llama4TextDecoderLayer: the first layer is dense, as interleave_moe_layer_step 2 says. */
static struct rows llama4_feed_forward(struct rows x, int layer)
{
    if (layer % 2 == 0)
        return decoder_gated(x, FEED, "silu", layer);
    const struct rows scores = published_linear(x, FEED "router", layer);
    struct rows y = published_rows(0, x.columns);
    for (int64_t i = 0; i < x.count; i++) {
        const struct rows row =
            llama4_row(forward_slice(x, i, 1), scores.data + i * EXPERTS, layer);
        y = i == 0 ? row : forward_join(y, row);
    }
    return y;
}

/* Llama4TextL2Norm of each head, whose mean is that of its squares. */
static void l2_norm(struct rows x)
{
    for (int64_t i = 0; i < x.count * x.columns; i += 4) {
        double sum = 0;
        for (int64_t c = i; c < i + 4; c++)
            sum += x.data[c] * x.data[c];
        const double scale = forward_parts_norm_scale(1 / sqrt(sum / 4 + 1e-6));
        for (int64_t c = i; c < i + 4; c++)
            x.data[c] *= scale;
    }
}

/* Llama4TextAttention with no_rope_layers [1, 0, 1]: a layer with rotary embedding has qk_norm,
 * the other one attn_temperature_tuning, of an attn_scale of 0.5 and a floor_scale of 4. */
static void llama4_rotated(struct decoder_projections projections, int layer)
{
    const struct rows q = projections.q;
    if (layer != 1) {
        l2_norm(q);
        l2_norm(projections.k);
        return;
    }
    for (int64_t i = 0; i < q.count * q.columns; i++)
        q.data[i] *= log1p(floor(((double)(i / q.columns) + 1) / 4)) * 0.5 + 1;
}

/* Llama4TextModel: create_chunked_causal_mask() for layers with rotary embedding. */
static void pass_llama4(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.layers = 3;
    llama.attention.attention.chunk = 4;
    llama.attention.is_every_two = true;
    llama.attention.theta = 500;
    llama.attention.rotated = llama4_rotated;
    llama.full_every = 2;
    llama.feed_forward = llama4_feed_forward;
    llama_pass(forward, &llama);
}

#define LLAMA4_TENSORS                                                                             \
    FEED "router.weight 4x16*2, " FEED "experts.gate_up_proj 4x16x24, " FEED                       \
         "experts.down_proj 4x12x16, " FEED "shared_expert.gate_proj.weight 12x16, " FEED          \
         "shared_expert.up_proj.weight 12x16, " FEED "shared_expert.down_proj.weight 16x12, " FEED \
         "gate_proj.weight 20x16, " FEED "up_proj.weight 20x16, " FEED                             \
         "down_proj.weight 16x20, " LLAMA_EMBEDDING LLAMA_PROJECTIONS LLAMA_NORMS LLAMA_LAST_NORM  \
             LLAMA_HEAD

#define LLAMA4_FIELDS                                                                              \
    ",\"head_dim\":4,\"num_local_experts\":4,\"num_experts_per_tok\":2,"                           \
    "\"rms_norm_eps\":1e-06,\"rope_theta\":500.0,\"attention_chunk_size\":4,\"attn_scale\":0.5,"   \
    "\"floor_scale\":4,\"intermediate_size_mlp\":20"

TEST(llama4)
{
    llama_check("llama4_text",
                LLAMA_CONFIG("llama4_text", "3",
                             LLAMA4_FIELDS ",\"no_rope_layer_interval\":2,\"no_rope_layers\":[],"
                                           "\"interleave_moe_layer_step\":2"),
                LLAMA4_TENSORS, 3, pass_llama4);
    llama_check("llama4",
                "{\"model_type\":\"llama4\",\"vision_config\":{\"model_type\":"
                "\"llama4_vision_model\",\"hidden_size\":8},\"text_config\":" LLAMA_CONFIG(
                    "llama4_text", "3",
                    LLAMA4_FIELDS ",\"no_rope_layers\":[1,0,1],\"moe_layers\":[1],"
                                  "\"attn_temperature_tuning\":4,\"layer_types\":"
                                  "[\"chunked_attention\",\"full_attention\","
                                  "\"chunked_attention\"]") "}",
                LLAMA4_TENSORS, 3, pass_llama4);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
