/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_t5.c - traces of T5 and its copies, beside their source in double.
 *
 * "The source" is models/t5/modeling_t5.py of Hugging Face transformers 4.34. */
#include "answer.h"
#include "edited_client.h"
#include "fixture.h"
#include "forward_block.h"
#include "reading_client.h"
#include "test.h"
#include "trace_client.h"

enum { WIDTH = 12, TOKENS = 6, TARGETS = 4 };

static const int IDS[TOKENS] = { 4, 17, 39, 5, 5, 2 };
static const int TARGET_IDS[TARGETS] = { 0, 30, 8, 11 };
static int layers = 2, heads = 2;
static const int POSITIONS[] = { 0, 2, 3 };

#define FIELDS "\"tokens\":[4,17,39,5,5,2],\"decoder_tokens\":[0,30,8,11]"

/* Serves the open checkpoint and compares its trace and its predictions. */
static void compare(const char *name, const char *config, const struct forward *want)
{
    published_save(fixture_path(name), config);
    fixture_serve("--models", directory);
    trace_client_expect_inputs(&client, name, JSON(["tokens","decoder"]));
    trace_client_expect(&client, name, FIELDS, want);
    trace_client_expect_predictions(&client, name, FIELDS, POSITIONS,
                                    sizeof POSITIONS / sizeof POSITIONS[0], want);
    fixture_stop(NULL);
    published_close();
}

#define T5_NORM(name) name ".weight 12*4, "
#define T5_ATTENTION(begin)                                                                        \
    FORWARD_TENSOR(begin "q.weight", 6x12)                                                         \
    FORWARD_TENSOR(begin "k.weight", 6x12)                                                         \
    FORWARD_TENSOR(begin "v.weight", 6x12)                                                         \
    FORWARD_TENSOR(begin "o.weight", 12x6)
#define T5_PLAIN(begin)                                                                            \
    FORWARD_TENSOR(begin "DenseReluDense.wi.weight", 20x12)                                        \
    FORWARD_TENSOR(begin "DenseReluDense.wo.weight", 12x20)
#define T5_GATED(begin)                                                                            \
    FORWARD_TENSOR(begin "DenseReluDense.wi_0.weight", 20x12)                                      \
    FORWARD_TENSOR(begin "DenseReluDense.wi_1.weight", 20x12)                                      \
    FORWARD_TENSOR(begin "DenseReluDense.wo.weight", 12x20)
#define T5_BIAS(stack)                                                                             \
    FORWARD_TABLE(stack ".block.0.layer.0.SelfAttention.relative_attention_bias.weight", 8x2)
#define T5_TENSORS(feed_forward)                                                                   \
    FORWARD_TABLE("shared.weight", 40x12)                                                          \
    T5_BIAS("encoder")                                                                             \
    T5_ATTENTION("encoder.block.#.layer.0.SelfAttention.")                                         \
    T5_NORM("encoder.block.#.layer.0.layer_norm")                                                  \
    feed_forward("encoder.block.#.layer.1.") T5_NORM("encoder.block.#.layer.1.layer_norm")         \
        T5_NORM("encoder.final_layer_norm") T5_BIAS("decoder")                                     \
            T5_ATTENTION("decoder.block.#.layer.0.SelfAttention.")                                 \
                T5_NORM("decoder.block.#.layer.0.layer_norm")                                      \
                    T5_ATTENTION("decoder.block.#.layer.1.EncDecAttention.")                       \
                        T5_NORM("decoder.block.#.layer.1.layer_norm")                              \
                            feed_forward("decoder.block.#.layer.2.")                               \
                                T5_NORM("decoder.block.#.layer.2.layer_norm")                      \
                                    T5_NORM("decoder.final_layer_norm")
#define T5_HEAD FORWARD_TENSOR("lm_head.weight", 40x12)

#define T5_CONFIG(type, more)                                                                      \
    "{\"model_type\":\"" type "\",\"d_model\":12,\"d_kv\":3,\"num_heads\":2,\"num_layers\":2,"     \
    "\"d_ff\":20,\"vocab_size\":40,\"relative_attention_num_buckets\":8,"                          \
    "\"relative_attention_max_distance\":5,\"decoder_start_token_id\":0" more "}"

static double t5_bias(const char *stack, bool bidirectional, int64_t head, int64_t query,
                      int64_t key)
{
    char name[96];
    snprintf(name, sizeof name, "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
             stack);
    return published_tensor(name, 0)
        .data[published_t5_bucket(key - query, bidirectional, 8, 5) * heads + head];
}

static double t5_encoder_bias(int64_t head, int64_t query, int64_t key)
{
    return t5_bias("encoder", true, head, query, key);
}

static double t5_decoder_bias(int64_t head, int64_t query, int64_t key)
{
    return t5_bias("decoder", false, head, query, key);
}

#define T5_NAMES(begin) .q = begin ".q", .k = begin ".k", .v = begin ".v", .output = begin ".o"
#define T5_ENCODER      "encoder.block.#.layer."
#define T5_DECODER      "decoder.block.#.layer."

/* T5Stack; T5DenseGatedActDense where is_gated, else T5DenseActDense. */
static struct forward t5(const char *activation, bool is_gated)
{
    struct forward want = { .layer_count = 0 };
    const struct forward_block encoder = {
        .self = { .kind = "encoder",
                  T5_NAMES(T5_ENCODER "0.SelfAttention"),
                  .norm = T5_ENCODER "0.layer_norm",
                  .of = { .heads = heads, .scale = 1, .bias = t5_encoder_bias } },
        .up = is_gated ? T5_ENCODER "1.DenseReluDense.wi_0" : T5_ENCODER "1.DenseReluDense.wi",
        .gate = is_gated ? T5_ENCODER "1.DenseReluDense.wi_1" : NULL,
        .down = T5_ENCODER "1.DenseReluDense.wo",
        .norm = T5_ENCODER "1.layer_norm",
        .activation = activation,
        .is_norm_first = true,
        .is_rms = true,
        .eps = 1e-6,
    };
    const struct forward_block decoder = {
        .self = { .kind = "decoder",
                  .first_layer = layers,
                  T5_NAMES(T5_DECODER "0.SelfAttention"),
                  .norm = T5_DECODER "0.layer_norm",
                  .of = { .heads = heads, .scale = 1, .causal = true, .bias = t5_decoder_bias } },
        .cross = { .kind = "cross",
                   .first_layer = 2 * layers,
                   T5_NAMES(T5_DECODER "1.EncDecAttention"),
                   .norm = T5_DECODER "1.layer_norm",
                   .of = { .heads = heads, .scale = 1 } },
        .up = is_gated ? T5_DECODER "2.DenseReluDense.wi_0" : T5_DECODER "2.DenseReluDense.wi",
        .gate = is_gated ? T5_DECODER "2.DenseReluDense.wi_1" : NULL,
        .down = T5_DECODER "2.DenseReluDense.wo",
        .norm = T5_DECODER "2.layer_norm",
        .activation = activation,
        .is_norm_first = true,
        .is_rms = true,
        .eps = 1e-6,
    };
    struct rows x = forward_embed(published_tensor("shared.weight", 0), IDS, TOKENS);
    for (int layer = 0; layer < layers; layer++)
        x = forward_block_run(&want, &encoder, x, FORWARD_NONE, layer);
    want.encoder_hidden_states = forward_rms_norm(x, "encoder.final_layer_norm", 0, 1e-6, 0);
    x = forward_embed(published_tensor("shared.weight", 0), TARGET_IDS, TARGETS);
    for (int layer = 0; layer < layers; layer++)
        x = forward_block_run(&want, &decoder, x, want.encoder_hidden_states, layer);
    want.final_hidden_states = forward_rms_norm(x, "decoder.final_layer_norm", 0, 1e-6, 0);
    return want;
}

/* The first files have a table of positions for cross-attention that the source does not read. */
#define T5_UNREAD                                                                                  \
    FORWARD_TABLE("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", 8x2)

static void pass_t5(struct forward *forward)
{
    *forward = t5("relu", false);
    forward->logits = forward_product(forward_scale(forward->final_hidden_states, 1 / sqrt(WIDTH)),
                                      published_tensor("shared.weight", 0));
}

/* Where the table is tied, rows are scaled before it. */
TEST(t5)
{
    static const char CONFIG[] = T5_CONFIG("t5", "");
    published_open(CONFIG, T5_TENSORS(T5_PLAIN) T5_UNREAD, layers, "F32");
    struct forward want;
    pass_t5(&want);
    compare("t5", CONFIG, &want);
}

/* Hidden keys beside a relative bias, and weights that no bias changes. */
static const char *const EDITS[] = {
    "[{\"kind\":\"encoder\",\"hide\":[[1,3]],\"heads\":[1],\"rows\":[-1,[2,4]]},"
    "{\"kind\":\"decoder\",\"hide\":[[0,1]],\"rows\":[1,-1]},"
    "{\"kind\":\"cross\",\"hide\":[[5,6]],\"heads\":[0]}]",
    "[{\"kind\":\"encoder\",\"weights\":\"uniform\",\"layers\":[1]},"
    "{\"kind\":\"encoder\",\"hide\":[[0,2]],\"layers\":[1],\"rows\":[3]},"
    "{\"kind\":\"decoder\",\"weights\":\"first\",\"heads\":[0]},"
    "{\"kind\":\"cross\",\"weights\":$2K,\"rows\":[0,1]}]",
    "[{\"kind\":\"decoder\",\"mean\":true,\"heads\":[1]},"
    "{\"kind\":\"encoder\",\"at\":\"embeddings\",\"add\":$W},"
    "{\"kind\":\"decoder\",\"at\":\"feed_forward\",\"scale\":0,\"layers\":[2]},"
    "{\"kind\":\"cross\",\"set\":$2H,\"rows\":[0,3],\"layers\":[4]}]",
};

TEST(t5_edited)
{
    static const char CONFIG[] = T5_CONFIG("t5", "");
    published_open(CONFIG, T5_TENSORS(T5_PLAIN) T5_UNREAD, layers, "F32");
    struct forward want;
    pass_t5(&want);
    published_save(fixture_path("t5"), CONFIG);
    fixture_serve("--models", directory);
    reading_client_expect_lens("t5", FIELDS, &want, pass_t5);
    reading_client_expect_contributions("t5", FIELDS, NULL, &want, 0, pass_t5);
    for (size_t i = 0; i < sizeof EDITS / sizeof EDITS[0]; i++)
        edited_client_expect_one("t5", FIELDS, EDITS[i], &want, 2 * layers, pass_t5);
    fixture_stop(NULL);
    published_close();
}

/* "gated-gelu" means gelu_new, in config and source of T5 v1.1. */
TEST(t5_of_v1_1)
{
    static const char CONFIG[] = T5_CONFIG("t5", ",\"feed_forward_proj\":\"gated-gelu\","
                                                 "\"tie_word_embeddings\":false");
    published_open(CONFIG, T5_TENSORS(T5_GATED) T5_HEAD, layers, "F32");
    struct forward want = t5("gelu_new", true);
    want.logits = forward_product(want.final_hidden_states, published_tensor("lm_head.weight", 0));
    compare("v1_1", CONFIG, &want);
}

/* What T5 v1.1 says in its config is MT5's default. */
TEST(mt5)
{
    static const char CONFIG[] = T5_CONFIG("mt5", "");
    published_open(CONFIG, T5_TENSORS(T5_GATED) T5_HEAD, layers, "F16");
    struct forward want = t5("gelu_new", true);
    want.logits = forward_product(want.final_hidden_states, published_tensor("lm_head.weight", 0));
    compare("mt5", CONFIG, &want);
}

/* 64 columns and random weights: the last place of a large score is many last places of its weight,
 * and the layers behind it multiply the difference. */
#define SHARP_ATTENTION(begin, gain)                                                               \
    begin "q.weight 64x64" gain ", " begin "k.weight 64x64, " begin "v.weight 64x64, " begin       \
          "o.weight 64x64, "
#define SHARP_PLAIN(begin)                                                                         \
    begin "DenseReluDense.wi.weight 128x64, " begin "DenseReluDense.wo.weight 64x128, "
#define SHARP_BIAS(stack)                                                                          \
    stack ".block.0.layer.0.SelfAttention.relative_attention_bias.weight 8x4, "
#define SHARP_NORM(name) name ".weight 64, "
#define SHARP_TENSORS(gain)                                                                        \
    "shared.weight 40x64, " SHARP_BIAS("encoder")                                                  \
        SHARP_ATTENTION("encoder.block.#.layer.0.SelfAttention.", gain) SHARP_NORM(                \
            "encoder.block.#.layer.0.layer_norm") SHARP_PLAIN("encoder.block.#.layer.1.")          \
            SHARP_NORM("encoder.block.#.layer.1.layer_norm")                                       \
                SHARP_NORM("encoder.final_layer_norm") SHARP_BIAS("decoder")                       \
                    SHARP_ATTENTION("decoder.block.#.layer.0.SelfAttention.", gain)                \
                        SHARP_NORM("decoder.block.#.layer.0.layer_norm")                           \
                            SHARP_ATTENTION("decoder.block.#.layer.1.EncDecAttention.", gain)      \
                                SHARP_NORM("decoder.block.#.layer.1.layer_norm")                   \
                                    SHARP_PLAIN("decoder.block.#.layer.2.")                        \
                                        SHARP_NORM("decoder.block.#.layer.2.layer_norm")           \
                                            SHARP_NORM("decoder.final_layer_norm")

TEST(sharp_scores)
{
    static const char CONFIG[] =
        "{\"model_type\":\"t5\",\"d_model\":64,\"d_kv\":16,\"num_heads\":4,\"num_layers\":5,"
        "\"d_ff\":128,\"vocab_size\":40,\"relative_attention_num_buckets\":8,"
        "\"relative_attention_max_distance\":5,\"decoder_start_token_id\":0}";
    static const char *const TENSORS[] = { SHARP_TENSORS("*2"), SHARP_TENSORS("*5") };
    static const char *const NAMES[] = { "sharp", "sharper" };
    layers = 5;
    heads = 4;
    for (int i = 0; i < 2; i++) {
        published_open(CONFIG, TENSORS[i], layers, "F32");
        const struct forward want = t5("relu", false);
        published_save(fixture_path(NAMES[i]), CONFIG);
        fixture_serve("--models", directory);
        trace_client_expect_sharp(&client, NAMES[i], FIELDS, &want);
        fixture_stop(NULL);
        published_close();
    }
    layers = heads = 2;
}

EACH_TEST(fixture_make_directory, fixture_clear);
