/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_onnx.c - the node tests of ONNX Attention, over HTTP: model sdpa, every tensor as bytes.
 *
 * The files are those of conformance/test_onnx_attention.c. That test translates them for the
 * library; here the daemon does this itself: names, attributes and tensors are sent as they stand
 * in the file. */
#include "fixture.h"
#include "oip_client.h"
#include "tensor_file.h"
#include "test.h"

#include <glob.h>
#include <inttypes.h>

static const char *datatype_of(enum tensor_type type)
{
    static const char *const names[] = {
        [TENSOR_F32] = "FP32", [TENSOR_F16] = "FP16", [TENSOR_BOOL] = "BOOL", [TENSOR_I64] = "INT64"
    };
    return names[type];
}

static size_t size_of(const struct tensor *tensor)
{
    static const size_t sizes[] = {
        [TENSOR_F32] = 4, [TENSOR_F16] = 2, [TENSOR_BOOL] = 1, [TENSOR_I64] = 8
    };
    return (size_t)tensor->count * sizes[tensor->type];
}

/* The attributes as parameters: "\"is_causal\":1,...". */
static char *parameters_of(const struct tensor_file *file)
{
    cJSON *attributes = cJSON_Parse(tensor_file_metadata(file, "attributes"));
    assert_non_null(attributes);
    char *text = cJSON_PrintUnformatted(attributes);
    cJSON_Delete(attributes);
    text[strlen(text) - 1] = '\0';
    memmove(text, text + 1, strlen(text));
    return text;
}

static int64_t compare(const char *path, const char *name, const struct tensor *want,
                       const struct oip_tensor_answer *got)
{
    float *wanted = tensor_floats(want);
    double *numbers = oip_numbers(got);
    const double tolerance = want->type == TENSOR_F16 ? 1e-3 : 2e-6;
    int64_t wrong = 0;
    assert_string_equal(got->datatype, datatype_of(want->type));
    assert_int_equal(got->rank, want->rank);
    for (int i = 0; i < want->rank; i++)
        assert_int_equal(got->shape[i], want->shape[i]);
    for (int64_t i = 0; i < want->count; i++) {
        const double x = numbers[i], y = (double)wanted[i];
        if (isinf(y) ? x == y : fabs(x - y) <= tolerance * (1 + fabs(y)))
            continue;
        if (wrong++ == 0)
            print_error("%s: %s[%" PRId64 "] = %.9g, want %.9g\n", path, name, i, x, y);
    }
    free(wanted);
    free(numbers);
    return wrong;
}

static int64_t run_case(const char *path)
{
    struct tensor_file file;
    struct oip_request request = { 0 };
    int64_t wrong = 0;
    tensor_file_open(&file, path);
    for (const cJSON *item = file.header->child; item; item = item->next) {
        if (strncmp(item->string, "in.", 3) == 0) {
            const struct tensor tensor = tensor_file_get(&file, item->string);
            oip_add_binary(&request, item->string + 3, datatype_of(tensor.type), tensor.rank,
                           tensor.shape, tensor.data, size_of(&tensor));
        } else if (strncmp(item->string, "out.", 4) == 0) {
            oip_ask(&request, item->string + 4, JSON("binary_data":true));
        }
    }
    char *parameters = parameters_of(&file);
    request.parameters = parameters;
    struct oip_answer answer = oip_post(&client, "sdpa", &request);
    for (const cJSON *item = file.header->child; item; item = item->next)
        if (strncmp(item->string, "out.", 4) == 0) {
            const struct tensor want = tensor_file_get(&file, item->string);
            const struct oip_tensor_answer got = oip_output_of(&answer, item->string + 4);
            wrong += compare(path, item->string, &want, &got);
        }
    oip_answer_free(&answer);
    oip_request_free(&request);
    cJSON_free(parameters);
    tensor_file_close(&file);
    return wrong;
}

static void run_folder(const char *pattern, size_t count)
{
    glob_t found;
    int64_t wrong = 0;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        wrong += run_case(found.gl_pathv[i]);
    print_message("%zu cases of %s\n", found.gl_pathc, pattern);
    assert_int_equal(found.gl_pathc, count);
    globfree(&found);
    assert_int_equal(wrong, 0);
}

TEST(opset_23_and_24)
{
    run_folder("tests/conformance/onnx/attention/*.safetensors", 60);
}

TEST(opset_25)
{
    run_folder("tests/conformance/onnx/attention_opset25/*.safetensors", 7);
}

ALL_TESTS(fixture_start, fixture_stop);
