/* SPDX-License-Identifier: Apache-2.0 */
/* test_published_gradients.c - gradients of published checkpoints, under the tensor names of their
 * own files, and a fused F16 tensor that is large enough to be converted only when it is needed.
 *
 * The tests compare each gradient with finite differences, in double, of the loss sum(context *
 * context_gradient). The attention of each family is written after its modeling file in Hugging
 * Face transformers, at the commit that is named with it. */
#include "fixture.h"
#include "published_client.h"
#include "published_fused.h"
#include "test.h"

static struct rows hidden, outer; /* the input, and the context's gradient */

/* Rows with other numbers than those of published_input(). */
static struct rows other_rows(int64_t columns)
{
    return published_split(published_input(2 * columns), 1, columns, columns);
}

/* Asks the open checkpoint for gradients; more has further fields. The rows are hidden and
 * outer. */
static cJSON *post_gradients(const char *model, int layer, const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",\"layer\":%d", model, layer);
    published_add_rows(&body, "query", hidden);
    published_add_rows(&body, "context_gradient", outer);
    request_text_add(&body, "%s}", more);
    cJSON *answer = answer_post(&client, "/v1/attention/gradients", body.data);
    free(body.data);
    return answer;
}

static double dot(struct rows context)
{
    double sum = 0;
    assert_int_equal(context.columns, outer.columns);
    for (int64_t i = 0; i < outer.count * outer.columns; i++)
        sum += context.data[i] * outer.data[i];
    return sum;
}

/* Checks that the numbers called name in holder are the derivatives of loss with respect to
 * rows. */
static void expect_derivatives(const cJSON *holder, const char *name, struct rows rows, int rank,
                               double (*loss)(void))
{
    static const double STEP = 1e-4;
    const int64_t shape[] = { rows.count, rows.columns };
    double *got = answer_numbers(holder, name, rank, rank == 1 ? &shape[1] : shape);
    for (int64_t i = 0; i < rows.count * rows.columns; i++) {
        const double kept = rows.data[i];
        rows.data[i] = kept + STEP;
        const double above = loss();
        rows.data[i] = kept - STEP;
        const double below = loss();
        rows.data[i] = kept;
        const double want = (above - below) / (2 * STEP);
        if (!(fabs(got[i] - want) <= 5e-5 * (1 + fabs(want))))
            fail_msg("%s[%d] is %.9g, not %.9g", name, (int)i, got[i], want);
    }
    free(got);
}

static void expect_parameter(const cJSON *answer, const char *name, int rank, double (*loss)(void))
{
    expect_derivatives(cJSON_GetObjectItem(answer, "parameters"), name, published_tensor(name, 0),
                       rank, loss);
}

/* ------------------------------------------------------------------ norms -- */

#define AT "model.layers.0.self_attn."

/* qwen3/modeling_qwen3.py at 9ee3f431c32e, Qwen3Attention. */
static double qwen3_loss(void)
{
    const struct published_attention attention = {
        .heads = 2, .kv_heads = 1, .scale = 0.5, .causal = true
    };
    const struct rows q = published_linear(hidden, AT "q_proj", 0);
    const struct rows k = published_linear(hidden, AT "k_proj", 0);
    published_rms_norm(q, 2, AT "q_norm.weight", 0, 1e-6, 0);
    published_rms_norm(k, 1, AT "k_norm.weight", 0, 1e-6, 0);
    published_rotate_half(q, 2, 4, 10000);
    published_rotate_half(k, 1, 4, 10000);
    const struct published_answer answer =
        published_attend(&attention, q, k, published_linear(hidden, AT "v_proj", 0));
    return dot(published_linear(answer.context, AT "o_proj", 0));
}

TEST(norms)
{
    static const char CONFIG[] =
        "{\"model_type\":\"qwen3\",\"hidden_size\":6,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":1,\"head_dim\":4,\"num_hidden_layers\":1}";
    published_open(CONFIG,
                   AT "q_proj.weight 8x6, " AT "k_proj.weight 4x6, " AT "v_proj.weight 4x6, " AT
                      "o_proj.weight 6x8, " AT "q_norm.weight 4, " AT "k_norm.weight 4",
                   1, "F32");
    published_save(fixture_path("qwen3"), CONFIG);
    hidden = published_input(6);
    outer = other_rows(6);
    fixture_serve("--models", directory);
    cJSON *answer = post_gradients("qwen3", 0, "");
    answer_expect_members(cJSON_GetObjectItem(answer, "parameters"),
                          AT "q_proj.weight," AT "k_proj.weight," AT "v_proj.weight," AT
                             "o_proj.weight," AT "q_norm.weight," AT "k_norm.weight");
    expect_parameter(answer, AT "q_norm.weight", 1, qwen3_loss);
    expect_parameter(answer, AT "k_norm.weight", 1, qwen3_loss);
    expect_parameter(answer, AT "q_proj.weight", 2, qwen3_loss);
    expect_parameter(answer, AT "k_proj.weight", 2, qwen3_loss);
    expect_derivatives(answer, "input", hidden, 2, qwen3_loss);
    cJSON_Delete(answer);
    fixture_stop(state);
    published_close();
}

/* Gradients of weights have several tasks here. */
TEST(equal_on_one_worker_and_on_several)
{
    static const char CONFIG[] =
        "{\"model_type\":\"qwen3\",\"hidden_size\":270,\"num_attention_heads\":3,"
        "\"num_key_value_heads\":1,\"head_dim\":100,\"num_hidden_layers\":1}";
    cJSON *answers[2];
    published_open(CONFIG,
                   AT "q_proj.weight 300x270, " AT "k_proj.weight 100x270, " AT
                      "v_proj.weight 100x270, " AT "o_proj.weight 270x300, " AT
                      "q_norm.weight 100, " AT "k_norm.weight 100",
                   1, "F32");
    published_save(fixture_path("wide"), CONFIG);
    hidden = published_input(270);
    outer = other_rows(270);
    for (int i = 0; i < 2; i++) {
        fixture_serve("--models", directory, "--workers", i ? "4" : "1");
        answers[i] = post_gradients("wide", 0, "");
        fixture_stop(state);
    }
    answer_expect_equal(answers[0], answers[1], "parameters");
    answer_expect_equal(answers[0], answers[1], "input");
    cJSON_Delete(answers[0]);
    cJSON_Delete(answers[1]);
    published_close();
}

/* ------------------------------------------------------- relative positions -- */

#define BLOCK "encoder.block.%d.layer.0.SelfAttention."
#define TABLE "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"

static double t5_bias(int64_t head, int64_t query, int64_t key)
{
    const int bucket = published_t5_bucket(key - query, true, 8, 5);
    return published_tensor(TABLE, 0).data[bucket * 2 + head]
           + (key == 3 ? 0.5 : 0); /* from the request's mask */
}

/* t5/modeling_t5.py at 001359e316a8, T5Attention of block 1, with the table of block 0. */
static double t5_loss(void)
{
    const struct published_attention attention = { .heads = 2, .scale = 1, .bias = t5_bias };
    char name[4][96];
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof name[i], BLOCK "%c", 1, "qkvo"[i]);
    const struct published_answer answer = published_attend(
        &attention, published_linear(hidden, name[0], 0), published_linear(hidden, name[1], 0),
        published_linear(hidden, name[2], 0));
    return dot(published_linear(answer.context, name[3], 0));
}

#define T5_LAYER                                                                                   \
    "encoder.block.#.layer.0.SelfAttention.q.weight 6x8, "                                         \
    "encoder.block.#.layer.0.SelfAttention.k.weight 6x8, "                                         \
    "encoder.block.#.layer.0.SelfAttention.v.weight 6x8, "                                         \
    "encoder.block.#.layer.0.SelfAttention.o.weight 8x6, " TABLE " 8x2"

/* A mask beside the bias has its own gradient, whether it is one for all heads or one for each
 * head. */
TEST(relative_positions)
{
    static const char CONFIG[] =
        "{\"model_type\":\"t5\",\"d_model\":8,\"d_kv\":3,\"num_heads\":2,\"num_layers\":2,"
        "\"relative_attention_num_buckets\":8,\"relative_attention_max_distance\":5}";
    static const int64_t SHAPES[2][3] = { { 7, 7 }, { 2, 7, 7 } };
#define ROW  "[0,0,0,0.5,0,0,0]"
#define MASK "[" ROW "," ROW "," ROW "," ROW "," ROW "," ROW "," ROW "]"
    published_open(CONFIG, T5_LAYER, 2, "F32");
    published_save(fixture_path("t5"), CONFIG);
    hidden = published_input(8);
    outer = other_rows(8);
    fixture_serve("--models", directory);
    cJSON *answer = post_gradients("t5", 1, ",\"mask\":" MASK);
    expect_parameter(answer, TABLE, 2, t5_loss);
    expect_parameter(answer, "encoder.block.1.layer.0.SelfAttention.q.weight", 2, t5_loss);
    expect_derivatives(answer, "input", hidden, 2, t5_loss);
    cJSON *of_each = post_gradients("t5", 1, ",\"mask\":[" MASK "," MASK "]");
    double *one = answer_numbers(answer, "mask", 2, SHAPES[0]);
    double *each = answer_numbers(of_each, "mask", 3, SHAPES[1]);
    for (int n = 0; n < 49; n++)
        assert_true(fabs(one[n] - each[n] - each[49 + n]) < 1e-5);
    assert_true(fabs(one[0]) > 1e-4);
    free(one), free(each);
    cJSON_Delete(answer);
    cJSON_Delete(of_each);
    /* Without a mask of numbers the answer has no gradient of a mask. */
    answer = post_gradients("t5", 1, ",\"causal\":true");
    assert_null(cJSON_GetObjectItem(answer, "mask"));
    assert_non_null(cJSON_GetObjectItem(cJSON_GetObjectItem(answer, "parameters"), TABLE));
    cJSON_Delete(answer);
    fixture_stop(state);
    published_close();
}

/* ----------------------------------------------------------- a fused copy -- */

/* phi3/modeling_phi3.py. A part of the F16 tensor has so many numbers that the daemon converts it
 * only when it is needed. There is room for the copy of one layer alone, so the daemon gives it
 * back when it needs the copy of the other layer. */
TEST(fused_copy)
{
    enum { WIDTH = 288, HEADS = 2, HEAD_DIM = WIDTH / HEADS };
    static const char CONFIG[] =
        "{\"model_type\":\"phi3\",\"hidden_size\":288,\"num_attention_heads\":2,"
        "\"num_key_value_heads\":2,\"num_hidden_layers\":2,\"sliding_window\":null}";
    const struct published_fused phi3 = {
        .qkv = "model.layers.#.self_attn.qkv_proj",
        .output = "model.layers.#.self_attn.o_proj",
        .groups = 1,
        .queries = WIDTH,
        .keys = WIDTH,
        .rotary_dim = HEAD_DIM,
        .theta = 10000,
        .attention = { .heads = HEADS, .scale = 1 / sqrt((double)HEAD_DIM), .causal = true },
    };
    published_open(CONFIG,
                   "model.layers.#.self_attn.qkv_proj.weight 864x288, "
                   "model.layers.#.self_attn.o_proj.weight 288x288",
                   2, "F16");
    published_save(fixture_path("phi3"), CONFIG);
    /* Four parts of 288 * 288 floats are 1 327 104 bytes. */
    fixture_serve("--models", directory, "--model-memory-max", "1400KiB");
    hidden = published_input(WIDTH);
    for (int i = 0; i < 4; i++) {
        const struct published_answer answer = published_fused_answer(&phi3, hidden, i % 2);
        published_expect_answer(&client, "phi3", i % 2, hidden, hidden, "", &answer, HEADS);
    }
    fixture_stop(state);
    published_close();
}

ALL_TESTS(fixture_make_directory, fixture_clear);
