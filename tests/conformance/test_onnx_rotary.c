/* SPDX-License-Identifier: Apache-2.0 */
/* test_onnx_rotary.c - the node tests of the ONNX operator RotaryEmbedding, opset 23.
 *
 * Each case runs as it is, 4-D, and once more with its heads side by side, 3-D. */
#include "rope.h"
#include "tensor_file.h"
#include "test.h"

#include <glob.h>

static int64_t attribute(const struct tensor_file *file, const char *name)
{
    cJSON *attributes = cJSON_Parse(tensor_file_metadata(file, "attributes"));
    assert_non_null(attributes);
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(attributes, name);
    const int64_t number = value != NULL ? value->valueint : 0;
    cJSON_Delete(attributes);
    return number;
}

/* Makes heads columns of a row, or the other way round. */
static void transpose(const int64_t shape[4], bool to_rows, const float *from, float *to)
{
    const int64_t heads = shape[1], length = shape[2], columns = shape[3];
    for (int64_t b = 0; b < shape[0]; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < length; i++) {
                const int64_t cut = ((b * heads + h) * length + i) * columns;
                const int64_t row = ((b * length + i) * heads + h) * columns;
                memcpy(to + (to_rows ? row : cut), from + (to_rows ? cut : row),
                       (size_t)columns * sizeof(float));
            }
}

static int count_wrong(const char *path, const float *got, const float *want, int64_t count)
{
    int wrong = 0;
    for (int64_t i = 0; i < count; i++)
        wrong += !(fabs((double)got[i] - (double)want[i]) <= 1e-6);
    if (wrong > 0)
        print_error("%s: %d numbers differ\n", path, wrong);
    return wrong;
}

static int64_t *position_ids(const struct tensor_file *file, const int64_t shape[4])
{
    struct tensor tensor;
    if (!tensor_file_find(file, "in.position_ids", &tensor))
        return NULL;
    assert_int_equal(tensor.count, shape[0] * shape[2]);
    int64_t *ids = malloc((size_t)tensor.count * sizeof *ids);
    assert_non_null(ids);
    for (int64_t i = 0; i < tensor.count; i++)
        ids[i] = tensor_integer(&tensor, i);
    return ids;
}

static int run_case(const char *path)
{
    struct tensor_file file;
    tensor_file_open(&file, path);
    const struct tensor input = tensor_file_get(&file, "in.X");
    const struct tensor cosines = tensor_file_get(&file, "in.cos_cache");
    const struct tensor sines = tensor_file_get(&file, "in.sin_cache");
    const struct tensor output = tensor_file_get(&file, "out.Y");
    const int64_t *s = input.shape;
    assert_string_equal(tensor_file_metadata(&file, "op"), "RotaryEmbedding");
    assert_int_equal(input.rank, 4);
    float *x = tensor_floats(&input), *want = tensor_floats(&output);
    float *rows = tensor_floats(&input), *got = tensor_floats(&input);
    float *cos_cache = tensor_floats(&cosines), *sin_cache = tensor_floats(&sines);
    int64_t *ids = position_ids(&file, s);
    struct attn_rotary_embedding rotary = {
        .input = attn_tensor_dense(x, ATTN_F32, s[0], s[1], s[2], s[3]),
        .output = attn_tensor_dense(got, ATTN_F32, s[0], s[1], s[2], s[3]),
        .cos_cache = cos_cache,
        .sin_cache = sin_cache,
        .position_ids = ids,
        .position_count = cosines.shape[0],
        .dim = attribute(&file, "rotary_embedding_dim"),
        .interleaved = attribute(&file, "interleaved") != 0,
    };
    assert_int_equal(attn_rotary_embedding(&rotary, NULL), ATTN_OK);
    int wrong = count_wrong(path, got, want, input.count);
    transpose(s, true, x, rows);
    rotary.input = attn_tensor_rows(rows, ATTN_F32, s[0], s[1], s[2], s[3], s[1] * s[3]);
    rotary.output = rotary.input; /* in place */
    assert_int_equal(attn_rotary_embedding(&rotary, NULL), ATTN_OK);
    transpose(s, false, rows, got);
    wrong += count_wrong(path, got, want, input.count);
    float *const all[] = { x, want, rows, got, cos_cache, sin_cache };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    free(ids);
    tensor_file_close(&file);
    return wrong;
}

TEST(cases)
{
    glob_t found;
    int wrong = 0;
    assert_int_equal(glob("tests/conformance/onnx/rotary_embedding/*.safetensors", 0, NULL, &found),
                     0);
    assert_int_equal(found.gl_pathc, 6);
    for (size_t i = 0; i < found.gl_pathc; i++)
        wrong += run_case(found.gl_pathv[i]);
    globfree(&found);
    assert_int_equal(wrong, 0);
}
