/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_check.c - every precondition of attn.h has its status and names its field.
 *
 * There is one valid problem, and one table for each kind of field. Each line of a table breaks
 * one thing and says what the plan must answer. A plan is only made, not run, so the memory is
 * never read and the sizes may be absurd. */
#include "attn.h"
#include "test.h"

#include "base/internal.h"

#include <limits.h>

enum { BATCH = 2, Q_HEADS = 4, KV_HEADS = 2, Q_LEN = 3, KV_LEN = 5, HEAD_DIM = 8, V_HEAD_DIM = 6 };

static float numbers[BATCH * Q_HEADS * KV_LEN * HEAD_DIM];
static float outputs[6][BATCH * Q_HEADS * Q_LEN * HEAD_DIM];
static int64_t kv_len[BATCH], row_kv_len[BATCH * Q_LEN], past_len[BATCH];

static struct attn_problem valid_problem(void)
{
    struct attn_problem problem = { .options = attn_options_default(HEAD_DIM) };
    problem.query = attn_tensor_dense(numbers, ATTN_F32, BATCH, Q_HEADS, Q_LEN, HEAD_DIM);
    problem.key = attn_tensor_dense(numbers, ATTN_F32, BATCH, KV_HEADS, KV_LEN, HEAD_DIM);
    problem.value = attn_tensor_dense(numbers, ATTN_F32, BATCH, KV_HEADS, KV_LEN, V_HEAD_DIM);
    problem.mask = attn_tensor_dense(numbers, ATTN_F32, BATCH, Q_HEADS, Q_LEN, KV_LEN);
    for (int b = 0; b < BATCH; b++) {
        kv_len[b] = KV_LEN + b; /* one past the end: hides nothing */
        past_len[b] = -b;       /* and one before the beginning: no fault either */
    }
    for (int i = 0; i < BATCH * Q_LEN; i++)
        row_kv_len[i] = i;
    problem.kv_len = kv_len;
    problem.row_kv_len = row_kv_len;
    problem.past_len = past_len;
    problem.context = attn_tensor_dense(outputs[0], ATTN_F32, BATCH, Q_HEADS, Q_LEN, V_HEAD_DIM);
    problem.lse = attn_tensor_dense(outputs[1], ATTN_F32, BATCH, Q_HEADS, Q_LEN, 1);
    problem.scores = attn_tensor_dense(outputs[2], ATTN_F32, BATCH, Q_HEADS, Q_LEN, KV_LEN);
    problem.softcapped = attn_tensor_dense(outputs[3], ATTN_F32, BATCH, Q_HEADS, Q_LEN, KV_LEN);
    problem.masked = attn_tensor_dense(outputs[4], ATTN_F32, BATCH, Q_HEADS, Q_LEN, KV_LEN);
    problem.weights = attn_tensor_dense(outputs[5], ATTN_F32, BATCH, Q_HEADS, Q_LEN, KV_LEN);
    return problem;
}

static void expect(const struct attn_problem *problem, enum attn_status status, const char *field)
{
    struct attn_plan plan;
    const char *where = "nothing";
    const enum attn_status got = attn_plan_init(&plan, problem, &where);
    if (got != status || (status != ATTN_OK && strcmp(where, field) != 0)) {
        print_error("%s at %s, want %s at %s\n", attn_status_name(got), where,
                    attn_status_name(status), field);
        fail();
    }
    assert_int_equal(attn_plan_init(&plan, problem, NULL), status);
}

TEST(valid)
{
    const struct attn_problem problem = valid_problem();
    expect(&problem, ATTN_OK, "");
}

/* ------------------------------------------------------------- integers -- */

struct integer_fault {
    size_t offset; /* of an int64_t in struct attn_problem */
    int64_t value;
    enum attn_status status;
    const char *field;
};

/* clang-format off */
#define SHAPE(tensor, i, value)  { offsetof(struct attn_problem, tensor.shape[i]), value, \
                                   ATTN_ERR_SHAPE, #tensor ".shape[" #i "]" }
#define STRIDE(tensor, value)    { offsetof(struct attn_problem, tensor.stride[3]), value, \
                                   ATTN_ERR_STRIDE, #tensor ".stride[3]" }
#define STRIDE_OF(tensor, i, value) { offsetof(struct attn_problem, tensor.stride[i]), value, \
                                   ATTN_ERR_STRIDE, #tensor ".stride[" #i "]" }
#define OPTION(name, value)      { offsetof(struct attn_problem, options.name), value, \
                                   ATTN_ERR_OPTION, "options." #name }
/* clang-format on */

static const struct integer_fault INTEGER_FAULTS[] = {
    SHAPE(query, 0, -1),
    SHAPE(query, 1, 0),
    SHAPE(query, 1, -4),
    SHAPE(query, 2, -1),
    SHAPE(query, 3, 0),
    SHAPE(query, 3, -8),
    SHAPE(key, 0, 1), /* keys do not broadcast by their shape, but by stride 0 */
    SHAPE(key, 0, 3),
    SHAPE(key, 1, 0),
    SHAPE(key, 1, -2),
    SHAPE(key, 2, -1),
    SHAPE(key, 3, 7),
    SHAPE(key, 3, 9),
    SHAPE(value, 0, 3),
    SHAPE(value, 1, 1),
    SHAPE(value, 1, 4),
    SHAPE(value, 2, 4),
    SHAPE(value, 2, 6),
    SHAPE(value, 3, 0),
    SHAPE(value, 3, -1),
    SHAPE(mask, 0, 3),
    SHAPE(mask, 1, 2), /* a mask has query heads, not key heads */
    SHAPE(mask, 2, 2),
    SHAPE(mask, 3, 6),
    SHAPE(mask, 3, 0),
    SHAPE(mask, 3, -1),
    SHAPE(mask, 0, -1),
    SHAPE(context, 0, 1),
    SHAPE(context, 1, 2),
    SHAPE(context, 2, 4),
    SHAPE(context, 3, 8),
    SHAPE(lse, 0, 3),
    SHAPE(lse, 1, 1),
    SHAPE(lse, 2, 2),
    SHAPE(lse, 3, 5),
    SHAPE(scores, 1, 2),
    SHAPE(scores, 3, 4),
    SHAPE(softcapped, 2, 2),
    SHAPE(softcapped, 3, 6),
    SHAPE(masked, 0, 1),
    SHAPE(masked, 3, 1), /* outputs do not broadcast */
    SHAPE(weights, 2, 4),
    SHAPE(weights, 3, 4),
    STRIDE(query, 2),
    STRIDE(query, 0),
    STRIDE(key, 2),
    STRIDE(value, -1),
    STRIDE(context, 2),
    STRIDE(scores, 3),
    STRIDE(softcapped, 0),
    STRIDE(masked, 2),
    STRIDE(weights, 2),
    STRIDE_OF(query, 1, -1), /* only a mask is read backwards */
    STRIDE_OF(key, 2, -8),
    STRIDE_OF(value, 0, -1),
    STRIDE_OF(context, 0, 0), /* two rows in one place */
    STRIDE_OF(weights, 1, 0),
    STRIDE_OF(lse, 2, 0),
    STRIDE_OF(masked, 2, -5),
    OPTION(window_left, -2),
    OPTION(window_left, INT64_MIN),
    OPTION(window_right, -2),
    OPTION(chunk, -1),
    { offsetof(struct attn_problem, key.shape[1]), 3, ATTN_ERR_HEADS, "key.shape[1]" },
    { offsetof(struct attn_problem, key.shape[1]), 8, ATTN_ERR_HEADS, "key.shape[1]" },
    /* None of these is a fault. */
    { offsetof(struct attn_problem, mask.shape[0]), 1, ATTN_OK, "" },
    { offsetof(struct attn_problem, mask.shape[1]), 1, ATTN_OK, "" },
    { offsetof(struct attn_problem, mask.shape[2]), 1, ATTN_OK, "" },
    { offsetof(struct attn_problem, mask.shape[3]), 1, ATTN_OK, "" },
    { offsetof(struct attn_problem, mask.shape[3]), 4, ATTN_OK, "" }, /* ends before the keys */
    { offsetof(struct attn_problem, mask.shape[3]), 2, ATTN_OK, "" },
    { offsetof(struct attn_problem, mask.stride[3]), 2, ATTN_OK, "" },
    { offsetof(struct attn_problem, mask.stride[3]), 0, ATTN_OK, "" },
    { offsetof(struct attn_problem, mask.stride[3]), -1, ATTN_OK, "" },
    { offsetof(struct attn_problem, key.stride[0]), 0, ATTN_OK, "" },
    { offsetof(struct attn_problem, key.stride[1]), 0, ATTN_OK, "" },
    { offsetof(struct attn_problem, value.stride[2]), 0, ATTN_OK, "" },
    { offsetof(struct attn_problem, options.window_left), INT64_MAX, ATTN_OK, "" },
    { offsetof(struct attn_problem, options.window_right), 0, ATTN_OK, "" },
    { offsetof(struct attn_problem, options.chunk), INT64_MAX, ATTN_OK, "" },
};

TEST(integers)
{
    for (size_t i = 0; i < sizeof INTEGER_FAULTS / sizeof INTEGER_FAULTS[0]; i++) {
        const struct integer_fault *fault = &INTEGER_FAULTS[i];
        struct attn_problem problem = valid_problem();
        memcpy((char *)&problem + fault->offset, &fault->value, sizeof fault->value);
        expect(&problem, fault->status, fault->field);
    }
}

/* --------------------------------------------------------------- dtypes -- */

static const struct {
    size_t offset;
    const char *field;
} TENSORS[] = {
    { offsetof(struct attn_problem, query), "query.dtype" },
    { offsetof(struct attn_problem, key), "key.dtype" },
    { offsetof(struct attn_problem, value), "value.dtype" },
    { offsetof(struct attn_problem, mask), "mask.dtype" },
    { offsetof(struct attn_problem, context), "context.dtype" },
    { offsetof(struct attn_problem, lse), "lse.dtype" },
    { offsetof(struct attn_problem, scores), "scores.dtype" },
    { offsetof(struct attn_problem, softcapped), "softcapped.dtype" },
    { offsetof(struct attn_problem, masked), "masked.dtype" },
    { offsetof(struct attn_problem, weights), "weights.dtype" },
};

TEST(dtypes)
{
    static const enum attn_dtype dtypes[] = { ATTN_F64, ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_BOOL };
    for (size_t t = 0; t < sizeof TENSORS / sizeof TENSORS[0]; t++)
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
            struct attn_problem problem = valid_problem();
            struct attn_tensor *tensor =
                (struct attn_tensor *)(void *)((char *)&problem + TENSORS[t].offset);
            const bool is_mask = tensor == &problem.mask;
            tensor->dtype = dtypes[d];
            if (dtypes[d] != ATTN_BOOL || is_mask)
                expect(&problem, ATTN_OK, "");
            else
                expect(&problem, ATTN_ERR_DTYPE, TENSORS[t].field);
        }
}

TEST(absent_tensors)
{
    static const char *const fields[] = { "query.data", "key.data", "value.data" };
    for (size_t t = 0; t < sizeof TENSORS / sizeof TENSORS[0]; t++) {
        struct attn_problem problem = valid_problem();
        struct attn_tensor *tensor =
            (struct attn_tensor *)(void *)((char *)&problem + TENSORS[t].offset);
        memset(tensor->shape, 0x55, sizeof tensor->shape); /* not looked at where it is absent */
        if (t < 3)
            problem = valid_problem();
        tensor->data = NULL;
        expect(&problem, t < 3 ? ATTN_ERR_NO_DATA : ATTN_OK, t < 3 ? fields[t] : "");
    }
    struct attn_problem problem = valid_problem();
    problem.kv_len = problem.row_kv_len = problem.past_len = NULL;
    expect(&problem, ATTN_OK, "");
}

/* -------------------------------------------------------------- options -- */

TEST(scale_and_softcap)
{
    static const struct {
        double scale, softcap;
        enum attn_status status;
        const char *field;
    } cases[] = {
        { 0.0f, 0.0f, ATTN_OK, "" },
        { -2.0f, 1e-30f, ATTN_OK, "" },
        { 3e38f, 3e38f, ATTN_OK, "" },
        { NAN, 0.0f, ATTN_ERR_OPTION, "options.scale" },
        { INFINITY, 0.0f, ATTN_ERR_OPTION, "options.scale" },
        { -INFINITY, 0.0f, ATTN_ERR_OPTION, "options.scale" },
        { 1.0f, NAN, ATTN_ERR_OPTION, "options.softcap" },
        { 1.0f, INFINITY, ATTN_ERR_OPTION, "options.softcap" },
        { 1.0f, -1.0f, ATTN_ERR_OPTION, "options.softcap" },
        { 1.0f, -1e-40f, ATTN_ERR_OPTION, "options.softcap" },
        { 1.0f, 1e-44, ATTN_OK, "" }, /* what a float can hold, subnormal or not */
        { 1e39, 0.0f, ATTN_ERR_OPTION, "options.scale" },
        { 1.0f, 1e39, ATTN_ERR_OPTION, "options.softcap" },
        { 1.0f, 1e-60, ATTN_ERR_OPTION, "options.softcap" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attn_problem problem = valid_problem();
        problem.options.scale = cases[i].scale;
        problem.options.softcap = cases[i].softcap;
        expect(&problem, cases[i].status, cases[i].field);
    }
}

TEST(softmax_precision)
{
    struct attn_problem problem = valid_problem();
    for (int dtype = ATTN_F32; dtype <= ATTN_BOOL; dtype++) {
        problem.options.softmax_precision = (enum attn_dtype)dtype;
        expect(&problem, dtype == ATTN_BOOL ? ATTN_ERR_OPTION : ATTN_OK,
               "options.softmax_precision");
    }
}

TEST(lengths)
{
    struct attn_problem problem = valid_problem();
    kv_len[BATCH - 1] = -1;
    expect(&problem, ATTN_ERR_LENGTH, "kv_len");
    problem = valid_problem();
    row_kv_len[BATCH * Q_LEN - 1] = -1;
    expect(&problem, ATTN_ERR_LENGTH, "row_kv_len");
    problem = valid_problem();
    kv_len[0] = INT64_MAX;
    row_kv_len[0] = INT64_MAX;
    past_len[0] = -1000000;
    past_len[1] = 1000000;
    expect(&problem, ATTN_OK, "");
    kv_len[0] = INT64_MIN;
    expect(&problem, ATTN_ERR_LENGTH, "kv_len");
}

/* The sums past_len + i and p + window may not fit into int64_t. Such a position is refused or
 * does no harm, and never gives a wrong result. The sanitized build sees an overflow. */
TEST(extreme_past_len)
{
    static const int64_t extremes[] = { INT64_MAX, INT64_MIN, INT64_MAX / 2, INT64_MIN / 2 };
    static _Alignas(64) unsigned char workspace[1 << 20];
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        struct attn_problem problem = valid_problem();
        struct attn_plan plan;
        const char *where = "nothing";
        memset(&problem.mask, 0, sizeof problem.mask);
        problem.row_kv_len = NULL;
        problem.options.causal = true;
        past_len[0] = past_len[1] = extremes[i];
        if (attn_plan_init(&plan, &problem, &where) != ATTN_OK) {
            assert_string_equal(where, "past_len");
            continue;
        }
        assert_true(plan.workspace_bytes <= sizeof workspace);
        for (int64_t task = 0; task < plan.task_count; task++)
            attn_plan_run(&plan, task, workspace);
        assert_true(outputs[5][0] == (extremes[i] > 0 ? 1.0f / KV_LEN : 0.0f));
    }
}

/* ---------------------------------------------------------------- sizes -- */

TEST(too_large)
{
    const int64_t huge = INT64_C(1) << 40;
    struct attn_plan plan;
    struct attn_problem problem = { .options = attn_options_default(HEAD_DIM) };
    problem.query = attn_tensor_dense(numbers, ATTN_F32, 1, 1, 1, huge);
    problem.key = attn_tensor_dense(numbers, ATTN_F32, 1, 1, huge, huge);
    problem.value = attn_tensor_dense(numbers, ATTN_F32, 1, 1, huge, huge);
    const char *where = "";
    assert_int_equal(attn_plan_init(&plan, &problem, &where), ATTN_ERR_TOO_LARGE);

    problem = valid_problem();
    problem.query.stride[0] = INT64_MAX;
    assert_int_equal(attn_plan_init(&plan, &problem, &where), ATTN_ERR_TOO_LARGE);
    assert_non_null(strstr(where, "query"));

    problem = valid_problem();
    problem.value.stride[2] = INT64_MAX / 3; /* the last element's offset overflows */
    assert_int_equal(attn_plan_init(&plan, &problem, &where), ATTN_ERR_TOO_LARGE);
    assert_non_null(strstr(where, "value"));
}

/* One number for each query head: what it may be, and what not. */
TEST(per_head_numbers)
{
    float slopes[Q_HEADS] = { 0.5f, -0.5f, 0.0f, 1e30f };
    float sinks[Q_HEADS] = { 0.5f, -INFINITY, 0.0f, -1e30f };
    struct attn_problem problem = valid_problem();
    problem.alibi_slopes = slopes;
    problem.sinks = sinks;
    problem.kv_offset = INT64_MIN;
    expect(&problem, ATTN_OK, "");
    static const float bads[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < 3; i++) {
        slopes[Q_HEADS - 1] = bads[i];
        expect(&problem, ATTN_ERR_OPTION, "alibi_slopes");
    }
    slopes[Q_HEADS - 1] = 1.0f;
    for (int i = 0; i < 2; i++) {
        sinks[Q_HEADS - 1] = bads[i];
        expect(&problem, ATTN_ERR_OPTION, "sinks");
    }
}

TEST(empty_lengths)
{
    struct attn_plan plan;
    struct attn_problem problem = { .options = attn_options_default(HEAD_DIM) };
    problem.query = attn_tensor_dense(numbers, ATTN_F32, BATCH, Q_HEADS, 0, HEAD_DIM);
    problem.key = attn_tensor_dense(numbers, ATTN_F32, BATCH, KV_HEADS, KV_LEN, HEAD_DIM);
    problem.value = attn_tensor_dense(numbers, ATTN_F32, BATCH, KV_HEADS, KV_LEN, V_HEAD_DIM);
    problem.context = attn_tensor_dense(outputs[0], ATTN_F32, BATCH, Q_HEADS, 0, V_HEAD_DIM);
    assert_int_equal(attn_plan_init(&plan, &problem, NULL), ATTN_OK);
    assert_int_equal(plan.task_count, 0);

    problem.query = attn_tensor_dense(numbers, ATTN_F32, BATCH, Q_HEADS, Q_LEN, HEAD_DIM);
    problem.key = attn_tensor_dense(numbers, ATTN_F32, BATCH, KV_HEADS, 0, HEAD_DIM);
    problem.value = attn_tensor_dense(numbers, ATTN_F32, BATCH, KV_HEADS, 0, V_HEAD_DIM);
    problem.context = attn_tensor_dense(outputs[0], ATTN_F32, BATCH, Q_HEADS, Q_LEN, V_HEAD_DIM);
    assert_int_equal(attn_plan_init(&plan, &problem, NULL), ATTN_OK);
    assert_true(plan.task_count > 0);
}

TEST(workspace_does_not_grow)
{
    size_t bytes[6];
    for (int i = 0; i < 2; i++) {
        const int64_t length = i == 0 ? 1000 : 1000000;
        struct attn_plan plan;
        struct attn_problem problem = { .options = attn_options_default(64) };
        problem.query = attn_tensor_dense(numbers, ATTN_F32, 1, 4, 100, 64);
        problem.key = attn_tensor_dense(numbers, ATTN_F32, 1, 2, length, 64);
        problem.value = problem.key;
        problem.context = attn_tensor_dense(outputs, ATTN_F32, 1, 4, 100, 64);
        problem.weights = attn_tensor_dense(outputs, ATTN_F32, 1, 4, 100, length);
        assert_int_equal(attn_plan_init(&plan, &problem, NULL), ATTN_OK);
        bytes[i] = plan.workspace_bytes;
        problem.weights.dtype = ATTN_BF16;
        assert_int_equal(attn_plan_init(&plan, &problem, NULL), ATTN_OK);
        bytes[2 + i] = plan.workspace_bytes;
        problem.weights.dtype = ATTN_F64;
        assert_int_equal(attn_plan_init(&plan, &problem, NULL), ATTN_OK);
        bytes[4 + i] = plan.workspace_bytes;
    }
    for (int i = 0; i < 6; i += 2) {
        assert_int_equal(bytes[i], bytes[i + 1]);
        assert_true(bytes[i] <= 256 * 1024);
    }
}

/* ---------------------------------------------------- names and helpers -- */

TEST(status_names)
{
    assert_string_equal(attn_status_name(ATTN_OK), "ATTN_OK");
    assert_string_equal(attn_status_name(ATTN_ERR_SHAPE), "ATTN_ERR_SHAPE");
    assert_string_equal(attn_status_name(ATTN_ERR_TOO_LARGE), "ATTN_ERR_TOO_LARGE");
    assert_string_equal(attn_status_message(ATTN_ERR_TOO_LARGE), "the sizes overflow");
    assert_string_equal(attn_status_message(ATTN_OK), "success");
}

TEST(tensor_helpers)
{
    assert_int_equal(attn_dtype_size(ATTN_F64), 8);
    assert_int_equal(attn_dtype_size(ATTN_F32), 4);
    assert_int_equal(attn_dtype_size(ATTN_F16), 2);
    assert_int_equal(attn_dtype_size(ATTN_BF16), 2);
    assert_int_equal(attn_dtype_size(ATTN_BOOL), 1);
    const struct attn_tensor dense = attn_tensor_dense(numbers, ATTN_F32, 2, 3, 5, 7);
    const int64_t dense_shape[4] = { 2, 3, 5, 7 }, dense_stride[4] = { 105, 35, 7, 1 };
    assert_ptr_equal(dense.data, numbers);
    assert_memory_equal(dense.shape, dense_shape, sizeof dense_shape);
    assert_memory_equal(dense.stride, dense_stride, sizeof dense_stride);
    const struct attn_tensor rows = attn_tensor_rows(numbers, ATTN_BF16, 2, 3, 5, 7, 100);
    const int64_t rows_stride[4] = { 500, 7, 100, 1 };
    assert_int_equal(rows.dtype, ATTN_BF16);
    assert_memory_equal(rows.shape, dense_shape, sizeof dense_shape);
    assert_memory_equal(rows.stride, rows_stride, sizeof rows_stride);
    const struct attn_options options = attn_options_default(64);
    assert_true(options.scale == 0.125f && options.softcap == 0.0f && !options.causal);
    assert_true(options.window_left == -1 && options.window_right == -1);
}

TEST(kernel_tables)
{
    const struct attn_kernels *const *tables = attn_kernels_available();
    assert_non_null(tables[0]);
    int count = 0;
    for (; tables[count] != NULL; count++) {
        const char *name = attn_kernels_name(tables[count]);
        assert_true(strcmp(name, "generic") == 0 || strcmp(name, "avx2") == 0
                    || strcmp(name, "avx512") == 0 || strcmp(name, "avx512_vnni") == 0
                    || strcmp(name, "avx512_bf16") == 0 || strcmp(name, "neon_bf16") == 0);
    }
    assert_string_equal(attn_kernels_name(tables[count - 1]), "generic");
    struct attn_plan plan;
    struct attn_problem problem = valid_problem();
    assert_int_equal(attn_plan_init(&plan, &problem, NULL), ATTN_OK);
    assert_ptr_equal(attn_plan_full(&plan)->kernels, tables[0]);
    problem.kernels = tables[count - 1];
    assert_int_equal(attn_plan_init(&plan, &problem, NULL), ATTN_OK);
    assert_ptr_equal(attn_plan_full(&plan)->kernels, tables[count - 1]);
}
