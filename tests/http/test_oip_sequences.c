/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_sequences.c - sequences of the Open Inference Protocol, as clients of Triton send them:
 * keys and values stay in the daemon. Every answer must have the bits of one request that brings
 * the whole past itself: past_key and past_value of ONNX Attention, or all rows as key and value.
 */
#include "base/dtype.h"
#include "fill.h"
#include "fixture.h"
#include "oip_client.h"
#include "session_client.h"
#include "shared_region.h"
#include "test.h"

#define BINARY "\"binary_data\":true"

static struct fill numbers = { 7 };

static void expect_same(const struct oip_answer *one, const struct oip_answer *other,
                        const char *name)
{
    const struct oip_tensor_answer a = oip_output_of(one, name), b = oip_output_of(other, name);
    assert_non_null(a.bytes);
    assert_int_equal(a.rank, b.rank);
    assert_memory_equal(a.shape, b.shape, (size_t)a.rank * sizeof *a.shape);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.bytes, b.bytes, a.size);
}

/* --------------------------------------------------------------- ONNX Attention -- */

enum {
    Q_HEADS = 4,
    KV_HEADS = 2,
    DIM = 8,
    V_DIM = 5,
    ROWS_MAX = 300,
    KEY_BYTES_MAX = KV_HEADS * ROWS_MAX * DIM * 4,
};

/* Rows of all heads, [heads][length][columns], as a client keeps them. */
struct kept {
    unsigned char bytes[KEY_BYTES_MAX];
    int64_t length;
};

static void append(struct kept *kept, const unsigned char *rows, int64_t count, size_t row)
{
    static struct kept joined;
    const size_t old = (size_t)kept->length * row, more = (size_t)count * row;
    for (size_t h = 0; h < KV_HEADS; h++) {
        memcpy(joined.bytes + h * (old + more), kept->bytes + h * old, old);
        memcpy(joined.bytes + h * (old + more) + old, rows + h * more, more);
    }
    joined.length = kept->length + count;
    *kept = joined;
}

static void fill_rows(unsigned char *bytes, int64_t count, enum attn_dtype dtype)
{
    for (int64_t i = 0; i < count; i++) {
        const float value = fill_float(&numbers, -1, 1);
        dtype_write(bytes + (size_t)i * attn_dtype_size(dtype), dtype, &value, 1);
    }
}

/* One step of a sequence, with `count` keys behind the past; the same as one request with all. */
struct step {
    const char *datatype, *parameters;
    enum attn_dtype dtype;
    int64_t q_len, count;
    bool has_mask;
};

static void add_inputs(struct oip_request *request, const struct step *step,
                       unsigned char *const rows[3], const bool *mask, int64_t total)
{
    const int64_t heads[3] = { Q_HEADS, KV_HEADS, KV_HEADS }, columns[3] = { DIM, DIM, V_DIM };
    const int64_t mask_shape[] = { step->q_len, total };
    for (int i = 0; i < 3; i++) {
        const char name[] = { "QKV"[i], '\0' };
        const int64_t shape[] = { 1, heads[i], i == 0 ? step->q_len : step->count, columns[i] };
        oip_add_binary(request, name, step->datatype, 4, shape, rows[i],
                       (size_t)(shape[1] * shape[2] * shape[3]) * attn_dtype_size(step->dtype));
    }
    if (step->has_mask)
        oip_add_binary(request, "attn_mask", "BOOL", 2, mask_shape, mask,
                       (size_t)(step->q_len * total));
    oip_ask(request, "Y", BINARY);
    oip_ask(request, "qk_matmul_output", BINARY);
}

static void run_step(const struct step *step, struct kept past[2], const char *sequence)
{
    static unsigned char rows[3][KEY_BYTES_MAX];
    static bool mask[16 * ROWS_MAX];
    unsigned char *const all[3] = { rows[0], rows[1], rows[2] };
    const int64_t there = past[0].length, total = there + step->count;
    const size_t size = attn_dtype_size(step->dtype);
    char parameters[200];
    fill_rows(rows[0], Q_HEADS * step->q_len * DIM, step->dtype);
    fill_rows(rows[1], KV_HEADS * step->count * DIM, step->dtype);
    fill_rows(rows[2], KV_HEADS * step->count * V_DIM, step->dtype);
    for (int64_t i = 0; i < step->q_len * total; i++)
        mask[i] = fill_below(&numbers, 3) > 0;
    struct oip_request of_sequence = { .parameters = parameters };
    struct oip_request whole = { .parameters = step->parameters };
    snprintf(parameters, sizeof parameters, "%s%s%s", step->parameters,
             step->parameters[0] ? "," : "", sequence);
    add_inputs(&of_sequence, step, all, mask, total);
    add_inputs(&whole, step, all, mask, total);
    for (int i = 0; i < 2; i++) {
        const int64_t shape[] = { 1, KV_HEADS, there, i == 0 ? DIM : V_DIM };
        oip_add_binary(&whole, i == 0 ? "past_key" : "past_value", step->datatype, 4, shape,
                       past[i].bytes, (size_t)(shape[1] * shape[2] * shape[3]) * size);
    }
    struct oip_answer got = oip_post(&client, "sdpa", &of_sequence);
    struct oip_answer want = oip_post(&client, "sdpa", &whole);
    expect_same(&got, &want, "Y");
    expect_same(&got, &want, "qk_matmul_output");
    append(&past[0], rows[1], step->count, DIM * size);
    append(&past[1], rows[2], step->count, V_DIM * size);
    oip_answer_free(&got);
    oip_answer_free(&want);
    oip_request_free(&of_sequence);
    oip_request_free(&whole);
}

static void expect_dtype(enum attn_dtype dtype)
{
    cJSON *session = answer_get(&client, "/v1/sessions/sdpa:12");
    answer_expect(session, "dtype",
                  dtype == ATTN_F32   ? "\"f32\""
                  : dtype == ATTN_F16 ? "\"f16\""
                                      : "\"bf16\"",
                  0);
    cJSON_Delete(session);
}

static void run_sequence(const char *datatype, enum attn_dtype dtype)
{
    static const char *const PARAMETERS[] = { "", "\"is_causal\":1", "\"softcap\":2,\"scale\":0.5",
                                              "\"is_causal\":1,\"left_window_size\":9" };
    static struct kept past[2];
    past[0].length = past[1].length = 0;
    for (int i = 0; i < 24; i++) {
        const struct step step = {
            .datatype = datatype,
            .dtype = dtype,
            .parameters = PARAMETERS[fill_below(&numbers, 4)],
            .q_len = 1 + fill_below(&numbers, 4),
            .count = i == 7   ? 90
                     : i == 0 ? 3
                              : fill_below(&numbers, 4), /* 0: a look */
            .has_mask = fill_below(&numbers, 3) == 0,
        };
        run_step(&step, past,
                 i == 0    ? "\"sequence_id\":12,\"sequence_start\":true,\"sequence_end\":false"
                 : i == 23 ? "\"sequence_id\":12,\"sequence_start\":false,\"sequence_end\":true"
                           : "\"sequence_id\":12,\"sequence_start\":false,\"sequence_end\":false");
        if (i == 0)
            expect_dtype(dtype);
    }
    session_get(&client, "sdpa:12", 410);
}

TEST(onnx_attention)
{
    run_sequence("FP32", ATTN_F32);
    run_sequence("FP16", ATTN_F16);
    run_sequence("BF16", ATTN_BF16);
}

/* ------------------------------------------------------------- models with layers -- */

enum { WIDTH = 64, TOKENS = 40 };

/* A model with layers: rows enter a layer, and each attends to those before it and to itself. */
TEST(layers)
{
    static float rows[5][TOKENS * WIDTH];
    static const int LENGTHS[] = { 9, 1, 1, 20, 1, 8 };
    char parameters[160];
    int past = 0;
    fill_floats(&numbers, rows[0], 5 * TOKENS * WIDTH, -1, 1);
    for (int i = 0; i < 6; past += LENGTHS[i++]) {
        const int64_t shape[] = { 1, LENGTHS[i], WIDTH }, all[] = { 1, past + LENGTHS[i], WIDTH };
        for (int layer = 0; layer < 5; layer++) {
            struct oip_request step = { .parameters = parameters }, whole = { 0 };
            snprintf(parameters, sizeof parameters,
                     "\"sequence_id\":\"story\",\"sequence_start\":%s,\"sequence_end\":false,"
                     "\"layer\":%d",
                     i == 0 && layer == 0 ? "true" : "false", layer);
            oip_add_binary(&step, "query", "FP32", 3, shape, rows[layer] + past * WIDTH,
                           (size_t)(LENGTHS[i] * WIDTH) * sizeof(float));
            oip_ask(&step, "context", BINARY);
            oip_ask(&step, "weights", BINARY);
            struct oip_answer got = oip_post(&client, "stories260K", &step);
            snprintf(parameters, sizeof parameters, "\"causal\":true,\"layer\":%d,\"past_len\":%d",
                     layer, past);
            whole.parameters = parameters;
            oip_add_binary(&whole, "query", "FP32", 3, shape, rows[layer] + past * WIDTH,
                           (size_t)(LENGTHS[i] * WIDTH) * sizeof(float));
            oip_add_binary(&whole, "key", "FP32", 3, all, rows[layer],
                           (size_t)(all[1] * WIDTH) * sizeof(float));
            oip_ask(&whole, "context", BINARY);
            oip_ask(&whole, "weights", BINARY);
            struct oip_answer want = oip_post(&client, "stories260K", &whole);
            expect_same(&got, &want, "context");
            expect_same(&got, &want, "weights");
            oip_answer_free(&got);
            oip_answer_free(&want);
            oip_request_free(&step);
            oip_request_free(&whole);
        }
    }
    session_delete(&client, "stories260K:story", 204);
}

/* -------------------------------------------------------------------- shared memory -- */

/* All tensors of a sequence in a region. */
TEST(regions)
{
    static const char *const FLAGS[] = { "\"sequence_start\":true", "\"sequence_start\":false",
                                         "\"sequence_end\":true" };
    char text[4][200], parameters[100];
    struct shared_region memory;
    shared_region_make(&memory, "sequence", 8192);
    shared_region_register(&client, "sequence", &memory);
    fill_floats(&numbers, (float *)(void *)memory.bytes, 96, -1, 1);
    for (int i = 0; i < 3; i++) {
        struct oip_request placed = { .parameters = parameters };
        struct oip_request plain = { .parameters = parameters };
        const int64_t shape[] = { 1, 2, 1, 4 };
        for (int part = 0; part < 3; part++) {
            const char name[] = { "QKV"[part], '\0' };
            const size_t offset = (size_t)(3 * i + part) * 32;
            oip_add_placed(&placed, name, "FP32", "[1,2,1,4]",
                           shared_region_parameters(text[part], "sequence", offset, 32));
            oip_add_binary(&plain, name, "FP32", 4, shape, memory.bytes + offset, 32);
        }
        oip_ask(&placed, "Y", shared_region_parameters(text[3], "sequence", 4096, 32));
        oip_ask(&plain, "Y", BINARY);
        snprintf(parameters, sizeof parameters, JSON("sequence_id":"there",%s), FLAGS[i]);
        struct oip_answer got = oip_post(&client, "sdpa", &placed);
        snprintf(parameters, sizeof parameters, JSON("sequence_id":"here",%s), FLAGS[i]);
        struct oip_answer want = oip_post(&client, "sdpa", &plain);
        assert_memory_equal(memory.bytes + 4096, oip_output_of(&want, "Y").bytes, 32);
        oip_answer_free(&got);
        oip_answer_free(&want);
        oip_request_free(&placed);
        oip_request_free(&plain);
    }
    shared_region_unregister(&client, NULL);
    shared_region_remove(&memory);
    session_wait_until_empty(&client);
}

static int start(void **state)
{
    fixture_serve("--models", "examples/models", "--shared-memory-prefix", SHARED_PREFIX);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
