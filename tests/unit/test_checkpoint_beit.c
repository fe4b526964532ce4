/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_beit.c - BEiT by its own config.json and names, with and without the relative
 * position bias of patches.
 *
 * Written out of beit/modeling_beit.py of Hugging Face transformers, src/transformers/models/,
 * at 0004a3c206a3: BeitSelfAttention, BeitRelativePositionBias and BeitEncoder. The index of the
 * bias is computed here as there, by coordinates and their differences. */
#include "published.h"
#include "test.h"

enum { WINDOW_HEIGHT = 2, WINDOW_WIDTH = 3, AREA = WINDOW_HEIGHT * WINDOW_WIDTH, HEADS = 3 };

#define ATTENTION "beit.encoder.layer.#.attention."
#define TABLE     "relative_position_bias.relative_position_bias_table"
#define TENSORS                                                                                    \
    PUBLISHED_LINEARS_BUT_KEY(ATTENTION, "attention.query", "attention.key", "attention.value",    \
                              "output.dense", "12")
#define FIELDS                                                                                     \
    "{\"model_type\":\"beit\",\"hidden_size\":12,\"num_attention_heads\":3,"                       \
    "\"num_hidden_layers\":2,\"image_size\":[32,48],\"patch_size\":[16,16]"

static int bias_layer; /* whose table bias() reads; -1: none */
static bool bias_is_shared;

/* relative_position_index[i][j] */
static int64_t index_of(int64_t i, int64_t j)
{
    const int64_t count = (2 * WINDOW_HEIGHT - 1) * (2 * WINDOW_WIDTH - 1) + 3;
    int64_t coords[2][AREA + 1];
    for (int64_t y = 0, n = 1; y < WINDOW_HEIGHT; y++)
        for (int64_t x = 0; x < WINDOW_WIDTH; x++, n++) {
            coords[0][n] = y;
            coords[1][n] = x;
        }
    if (i == 0 && j == 0)
        return count - 1;
    if (j == 0)
        return count - 2;
    if (i == 0)
        return count - 3;
    return (coords[0][i] - coords[0][j] + WINDOW_HEIGHT - 1) * (2 * WINDOW_WIDTH - 1)
           + (coords[1][i] - coords[1][j] + WINDOW_WIDTH - 1);
}

static double bias(int64_t head, int64_t query, int64_t key)
{
    const int64_t at = index_of(query, key) * HEADS + head;
    double sum = 0;
    if (bias_layer >= 0)
        sum += published_tensor(ATTENTION "attention." TABLE, bias_layer).data[at];
    if (bias_is_shared)
        sum += published_tensor("beit.encoder." TABLE, 0).data[at];
    return sum;
}

static void expect(int layer)
{
    const struct published_attention attention = { .heads = HEADS, .scale = 0.5, .bias = bias };
    const struct rows hidden = published_input(12);
    assert_int_equal(hidden.count, AREA + 1);
    struct published_answer answer =
        published_attend(&attention, published_linear(hidden, ATTENTION "attention.query", layer),
                         published_linear(hidden, ATTENTION "attention.key", layer),
                         published_linear(hidden, ATTENTION "attention.value", layer));
    answer.context = published_linear(answer.context, ATTENTION "output.dense", layer);
    published_expect(layer, "self", hidden, hidden, &answer);
}

/* Every combination of the flags, each with the tables that it asks for. */
TEST(beit)
{
    static const char *const TABLES[] = { "", ", " ATTENTION "attention." TABLE " 18x3",
                                          ", beit.encoder." TABLE " 18x3" };
    for (int way = 0; way < 4; way++) {
        const bool is_own = way & 1, is_shared = way & 2;
        char config[384], tensors[1024];
        snprintf(config, sizeof config,
                 FIELDS ",\"use_relative_position_bias\":%s,"
                        "\"use_shared_relative_position_bias\":%s}",
                 is_own ? "true" : "false", is_shared ? "true" : "false");
        snprintf(tensors, sizeof tensors, "%s%s%s", TENSORS, TABLES[is_own ? 1 : 0],
                 TABLES[is_shared ? 2 : 0]);
        published_open(config, tensors, 2, way == 3 ? "F16" : "F32");
        for (int layer = 0; layer < 2; layer++) {
            bias_layer = is_own ? layer : -1;
            bias_is_shared = is_shared;
            expect(layer);
        }
        published_close();
    }
}

/* The bias fits only the picture size of the config. */
TEST(positions)
{
    struct fault fault;
    published_open(FIELDS ",\"use_shared_relative_position_bias\":true}",
                   TENSORS ", beit.encoder." TABLE " 18x3", 2, "F32");
    const struct model_relative_bias *got = &published_model()->layers[1].relative_bias;
    assert_true(model_bias_check(got, 0, 7, 0, 7, &fault));
    assert_true(model_bias_check(got, 6, 1, 3, 4, &fault));
    assert_false(model_bias_check(got, 1, 7, 0, 7, &fault));
    assert_int_equal(fault.code, FAULT_LENGTH);
    assert_string_equal(fault.pointer, "/query");
    assert_non_null(strstr(fault.message, "a class token and 2 by 3 patches"));
    assert_false(model_bias_check(got, 0, 7, -1, 7, &fault));
    assert_string_equal(fault.pointer, "/key");
    assert_false(model_bias_check(got, INT64_MAX - 2, 7, 0, 7, &fault));
    published_close();
}
