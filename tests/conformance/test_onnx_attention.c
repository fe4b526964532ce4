/* SPDX-License-Identifier: Apache-2.0 */
/* test_onnx_attention.c - the node tests of the ONNX operator Attention, opset 23 to 25.
 *
 * The translation of the operator to struct attn_problem, which is the whole of
 * this file, follows its specification:
 *
 *   3-D inputs     rows of heads * head_dim columns: a choice of strides
 *   past_key       goes before K on the length axis; the queries come after it
 *   nonpad_kv_seqlen   hides the keys past it and says where the last query stands:
 *                  past_len = nonpad_kv_seqlen - q_len
 *   attn_mask      broadcasts from the right; its last axis may be shorter than the keys
 *   qk_matmul_output_mode   0 scores, 1 softcapped, 2 masked, 3 weights */
#include "attention_case.h"
#include "kernel_tables.h"
#include "number.h"
#include "tensor_file.h"
#include "test.h"

#include <glob.h>
#include <inttypes.h>

enum { CASES = 67, CASES_OPSET_25 = 7 };

/* One case being run: the file, its attributes, and copies that must be freed. */
struct onnx_case {
    struct tensor_file file;
    cJSON *attributes;
    struct attention_case memory; /* its buffers and problem; not its own inputs */
    int64_t *past_len, *kv_len;
    enum attn_dtype dtype;   /* of all its tensors of numbers, as the library sees them */
    bool is_half, is_rank_3; /* as they are stored */
};

static double attribute(const struct onnx_case *c, const char *name, double otherwise)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(c->attributes, name);
    return value != NULL ? value->valuedouble : otherwise;
}

/* A view of input or output name as [batch, heads, length, head_dim] in fresh memory. */
static struct attn_tensor view(struct onnx_case *c, const struct tensor *tensor, int64_t heads)
{
    float *floats = tensor_floats(tensor);
    void *data =
        attention_case_alloc(&c->memory, (size_t)tensor->count * attn_dtype_size(c->dtype));
    for (int64_t i = 0; i < tensor->count; i++)
        number_set(data, c->dtype, i, (double)floats[i]);
    free(floats);
    const int64_t *shape = tensor->shape;
    if (tensor->rank == 4)
        return attn_tensor_dense(data, c->dtype, shape[0], shape[1], shape[2], shape[3]);
    assert_int_equal(tensor->rank, 3);
    assert_int_equal(shape[2] % heads, 0);
    return attn_tensor_rows(data, c->dtype, shape[0], heads, shape[1], shape[2] / heads, shape[2]);
}

/* present = past, then new, on the length axis. */
static struct attn_tensor with_past(struct onnx_case *c, struct attn_tensor now, const char *name,
                                    int64_t *past_length)
{
    struct tensor stored;
    *past_length = 0;
    if (!tensor_file_find(&c->file, name, &stored))
        return now;
    const struct attn_tensor past = view(c, &stored, now.shape[1]);
    *past_length = past.shape[2];
    struct attn_tensor both =
        attention_case_tensor(&c->memory, c->dtype, LAYOUT_DENSE, now.shape[0], now.shape[1],
                              past.shape[2] + now.shape[2], now.shape[3]);
    for (int64_t b = 0; b < both.shape[0]; b++)
        for (int64_t h = 0; h < both.shape[1]; h++)
            for (int64_t l = 0; l < both.shape[2]; l++)
                for (int64_t d = 0; d < both.shape[3]; d++)
                    number_put(&both, b, h, l, d,
                               l < past.shape[2] ? number_at(&past, b, h, l, d)
                                                 : number_at(&now, b, h, l - past.shape[2], d));
    return both;
}

/* The mask as it is, with the missing axes added in front. */
static void set_mask(struct onnx_case *c)
{
    struct tensor stored;
    struct attn_problem *problem = &c->memory.problem;
    if (!tensor_file_find(&c->file, "in.attn_mask", &stored))
        return;
    int64_t shape[4] = { 1, 1, 1, 1 };
    for (int i = 0; i < stored.rank; i++)
        shape[4 - stored.rank + i] = stored.shape[i];
    const bool is_bool = stored.type == TENSOR_BOOL;
    problem->mask = attention_case_tensor(&c->memory, is_bool ? ATTN_BOOL : c->dtype, LAYOUT_DENSE,
                                          shape[0], shape[1], shape[2], shape[3]);
    if (is_bool) {
        memcpy(problem->mask.data, stored.data, (size_t)stored.count);
        return;
    }
    float *floats = tensor_floats(&stored);
    for (int64_t i = 0; i < stored.count; i++)
        number_set(problem->mask.data, c->dtype, i, (double)floats[i]);
    free(floats);
}

static void set_lengths(struct onnx_case *c, int64_t past_length)
{
    struct tensor nonpad;
    struct attn_problem *problem = &c->memory.problem;
    const int64_t batch = problem->query.shape[0], q_len = problem->query.shape[2];
    c->past_len = attention_case_alloc(&c->memory, (size_t)batch * sizeof *c->past_len);
    c->kv_len = attention_case_alloc(&c->memory, (size_t)batch * sizeof *c->kv_len);
    const bool has_nonpad = tensor_file_find(&c->file, "in.nonpad_kv_seqlen", &nonpad);
    for (int64_t b = 0; b < batch; b++) {
        c->past_len[b] = past_length;
        if (has_nonpad) {
            c->kv_len[b] = tensor_integer(&nonpad, b);
            c->past_len[b] = c->kv_len[b] - q_len;
        }
    }
    problem->past_len = c->past_len;
    if (has_nonpad)
        problem->kv_len = c->kv_len;
}

static void set_options(struct onnx_case *c)
{
    struct attn_options *options = &c->memory.problem.options;
    *options = attn_options_default(c->memory.problem.query.shape[3]);
    options->scale = attribute(c, "scale", options->scale);
    options->softcap = attribute(c, "softcap", 0);
    options->causal = attribute(c, "is_causal", 0) != 0;
    options->window_left = (int64_t)attribute(c, "left_window_size", -1);
    options->window_right = (int64_t)attribute(c, "right_window_size", -1);
}

static void expect_known_names(const struct onnx_case *c)
{
    static const char *const known =
        " q_num_heads kv_num_heads scale softcap is_causal qk_matmul_output_mode "
        "left_window_size right_window_size in.Q in.K in.V in.attn_mask in.past_key "
        "in.past_value in.nonpad_kv_seqlen out.Y out.present_key out.present_value "
        "out.qk_matmul_output __metadata__ ";
    const cJSON *const objects[] = { c->attributes, c->file.header };
    for (size_t i = 0; i < 2; i++)
        for (const cJSON *item = objects[i]->child; item != NULL; item = item->next) {
            char word[64];
            snprintf(word, sizeof word, " %s ", item->string);
            if (strstr(known, word) == NULL)
                fail_msg("%s: nobody translates %s", c->file.path, item->string);
        }
}

/* Makes the tensors F64, or keeps them as they are stored. */
static void onnx_case_open(struct onnx_case *c, const char *path, bool in_double)
{
    memset(c, 0, sizeof *c);
    tensor_file_open(&c->file, path);
    c->attributes = cJSON_Parse(tensor_file_metadata(&c->file, "attributes"));
    assert_non_null(c->attributes);
    expect_known_names(c);
    struct attn_problem *problem = &c->memory.problem;
    const int64_t q_heads = (int64_t)attribute(c, "q_num_heads", 0);
    const int64_t kv_heads = (int64_t)attribute(c, "kv_num_heads", 0);
    const struct tensor query = tensor_file_get(&c->file, "in.Q");
    const struct tensor key = tensor_file_get(&c->file, "in.K");
    const struct tensor value = tensor_file_get(&c->file, "in.V");
    int64_t past_length, past_length_of_value;
    c->is_half = query.type == TENSOR_F16;
    c->dtype = in_double ? ATTN_F64 : c->is_half ? ATTN_F16 : ATTN_F32;
    c->is_rank_3 = query.rank == 3;
    problem->query = view(c, &query, q_heads);
    problem->key = with_past(c, view(c, &key, kv_heads), "in.past_key", &past_length);
    problem->value =
        with_past(c, view(c, &value, kv_heads), "in.past_value", &past_length_of_value);
    assert_int_equal(past_length, past_length_of_value);
    set_options(c);
    set_mask(c);
    set_lengths(c, past_length);
}

static void onnx_case_close(struct onnx_case *c)
{
    attention_case_free(&c->memory);
    cJSON_Delete(c->attributes);
    tensor_file_close(&c->file);
}

/* Compares got with the stored output; a stored F16 was rounded to 11 bits. */
static int64_t compare(struct onnx_case *c, const char *name, const struct attn_tensor *got)
{
    struct tensor stored;
    if (!tensor_file_find(&c->file, name, &stored))
        return 0;
    const struct attn_tensor want = view(c, &stored, got->shape[1]);
    const double tolerance = c->is_half ? 1e-3 : 2e-6;
    int64_t wrong = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(got->shape[i], want.shape[i]);
    for (int64_t b = 0; b < got->shape[0]; b++)
        for (int64_t h = 0; h < got->shape[1]; h++)
            for (int64_t i = 0; i < got->shape[2]; i++)
                for (int64_t j = 0; j < got->shape[3]; j++) {
                    const double x = number_at(got, b, h, i, j);
                    const double y = number_at(&want, b, h, i, j);
                    if (isinf(y) ? x == y : fabs(x - y) <= tolerance * (1 + fabs(y)))
                        continue;
                    if (wrong++ == 0)
                        print_error("%s: %s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                                    "] = %.9g, want %.9g\n",
                                    c->file.path, name, b, h, i, j, x, y);
                }
    return wrong;
}

/* Runs a case on one table of kernels; returns the number of wrong elements. */
static int64_t run_case(const char *path, const struct attn_kernels *kernels, bool in_double)
{
    struct onnx_case c;
    onnx_case_open(&c, path, in_double);
    struct attn_problem *problem = &c.memory.problem;
    const int mode = (int)attribute(&c, "qk_matmul_output_mode", 0);
    assert_in_range(mode, 0, 3);
    struct tensor map;
    const bool wants_map = tensor_file_find(&c.file, "out.qk_matmul_output", &map);
    const unsigned maps[4] = { OUT_SCORES, OUT_SOFTCAPPED, OUT_MASKED, OUT_WEIGHTS };
    struct attn_tensor *const outputs[4] = { &problem->scores, &problem->softcapped,
                                             &problem->masked, &problem->weights };
    problem->kernels = kernels;
    const enum attn_dtype dtypes[OUT_COUNT] = {
        c.dtype, c.dtype, c.dtype, c.dtype, c.dtype, c.dtype
    };
    attention_case_outputs_of(&c.memory, OUT_CONTEXT | (wants_map ? maps[mode] : 0),
                              c.is_rank_3 ? LAYOUT_ROWS : LAYOUT_DENSE, dtypes);
    attention_run(problem);
    int64_t wrong = compare(&c, "out.Y", &problem->context);
    wrong += compare(&c, "out.present_key", &problem->key);
    wrong += compare(&c, "out.present_value", &problem->value);
    if (wants_map)
        wrong += compare(&c, "out.qk_matmul_output", outputs[mode]);
    onnx_case_close(&c);
    return wrong;
}

/* Runs the cases in the dtype of the files on every table of kernels, and in double. */
static void run_folder(const char *pattern, size_t count)
{
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    int failed = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
            if (run_case(path, *k, false) > 0) {
                print_error("%s: %s differs\n", attn_kernels_name(*k), path);
                failed++;
            }
        if (run_case(path, NULL, true) > 0) {
            print_error("in double: %s differs\n", path);
            failed++;
        }
    }
    print_message("%zu cases of %s on every table and in double, %d failed\n", found.gl_pathc,
                  pattern, failed);
    assert_int_equal(found.gl_pathc, count);
    globfree(&found);
    assert_int_equal(failed, 0);
}

TEST(opset_23_and_24)
{
    run_folder("tests/conformance/onnx/attention/*.safetensors", CASES - CASES_OPSET_25);
}

TEST(opset_25)
{
    run_folder("tests/conformance/onnx/attention_opset25/*.safetensors", CASES_OPSET_25);
}
