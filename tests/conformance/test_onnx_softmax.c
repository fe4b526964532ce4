/* SPDX-License-Identifier: Apache-2.0 */
/* test_onnx_softmax.c - the node tests of the ONNX operators Softmax and LogSoftmax, opset 13. */
#include "softmax.h"
#include "tensor_file.h"
#include "test.h"

#include <glob.h>

/* The axis of a case, counted from the front; the operator's default is the last one. */
static int axis_of(const struct tensor_file *file, int rank)
{
    cJSON *attributes = cJSON_Parse(tensor_file_metadata(file, "attributes"));
    assert_non_null(attributes);
    const cJSON *axis = cJSON_GetObjectItemCaseSensitive(attributes, "axis");
    assert_int_equal(cJSON_GetArraySize(attributes), axis != NULL);
    const int value = axis != NULL ? axis->valueint : -1;
    cJSON_Delete(attributes);
    assert_in_range(value + rank, 0, 2 * rank - 1);
    return value < 0 ? value + rank : value;
}

static int run_case(const char *path, bool is_log)
{
    struct tensor_file file;
    tensor_file_open(&file, path);
    const struct tensor input = tensor_file_get(&file, "in.input");
    const struct tensor output = tensor_file_get(&file, "out.output");
    const int axis = axis_of(&file, input.rank);
    float *got = tensor_floats(&input), *want = tensor_floats(&output);
    struct attn_softmax softmax = {
        .input = got,
        .output = got,
        .outer = 1,
        .length = input.shape[axis],
        .inner = 1,
        .is_log = is_log,
    };
    int wrong = 0;
    assert_string_equal(tensor_file_metadata(&file, "op"), is_log ? "LogSoftmax" : "Softmax");
    assert_int_equal(input.count, output.count);
    for (int i = 0; i < axis; i++)
        softmax.outer *= input.shape[i];
    for (int i = axis + 1; i < input.rank; i++)
        softmax.inner *= input.shape[i];
    attn_softmax_run(&softmax, 0, softmax.outer * softmax.inner);
    for (int64_t i = 0; i < input.count; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 1e-6 * (1 + fabs((double)want[i]))))
            wrong++;
    if (wrong > 0)
        print_error("%s: %d numbers differ\n", path, wrong);
    free(got);
    free(want);
    tensor_file_close(&file);
    return wrong;
}

static void run_folder(const char *pattern, bool is_log, size_t count)
{
    glob_t found;
    int wrong = 0;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, count);
    for (size_t i = 0; i < found.gl_pathc; i++)
        wrong += run_case(found.gl_pathv[i], is_log);
    globfree(&found);
    assert_int_equal(wrong, 0);
}

TEST(softmax)
{
    run_folder("tests/conformance/onnx/softmax/softmax_*.safetensors", false, 7);
}

TEST(log_softmax)
{
    run_folder("tests/conformance/onnx/softmax/logsoftmax_*.safetensors", true, 7);
}
