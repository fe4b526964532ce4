/* SPDX-License-Identifier: Apache-2.0 */
/* test_softmax.c - POST /v1/softmax: published numbers, laws of softmax, and faults. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "tensor_file.h"
#include "test.h"

#include <glob.h>

static const char PATH[] = "/v1/softmax";

struct example {
    const char *request, *output;
};

static const struct example EXAMPLES[] = {
    { "{\"input\":[1,2,3]}", "[0.09003057317,0.2447284711,0.6652409558]" },
    { "{\"input\":[[1,2],[3,4]]}", "[[0.2689414214,0.7310585786],[0.2689414214,0.7310585786]]" },
    { "{\"input\":[[1,2],[3,4]],\"axis\":0}",
      "[[0.119202922,0.119202922],[0.880797078,0.880797078]]" },
    { "{\"input\":[[1,2],[3,4]],\"axis\":-2,\"kv_len\":null}",
      "[[0.119202922,0.119202922],[0.880797078,0.880797078]]" },
    /* The masked softmax of Dive into Deep Learning, with a length for each batch or for each
     * row. */
    { "{\"input\":[[[1,1,1,9],[2,2,2,9]],[[3,3,3,9],[4,4,4,9]]],\"kv_len\":[2,3]}",
      "[[[0.5,0.5,0,0],[0.5,0.5,0,0]],"
      "[[0.333333333,0.333333333,0.333333333,0],[0.333333333,0.333333333,0.333333333,0]]]" },
    { "{\"input\":[[[1,1,1,9],[2,2,2,9]],[[3,3,3,9],[4,4,4,4]]],\"kv_len\":[[1,0],[2,4]]}",
      "[[[1,0,0,0],[0,0,0,0]],[[0.5,0.5,0,0],[0.25,0.25,0.25,0.25]]]" },
    { "{\"input\":[[5,5],[6,6]],\"kv_len\":1}", "[[1,0],[1,0]]" },
    { "{\"input\":[5,5,5],\"kv_len\":[2],\"axis\":0}", "[0.5,0.5,0]" },
    { "{\"input\":[[null,0],[null,null]]}", "[[0,1],[0,0]]" },
    { "{\"input\":[[[[[[[[1,1]]]]]]]],\"axis\":7}", "[[[[[[[[0.5,0.5]]]]]]]]" },
    { "{\"input\":[[[[[[[[1,1]]]]]]]],\"axis\":-8}", "[[[[[[[[1,1]]]]]]]]" },
    { "{\"input\":[3e38,-3e38]}", "[1,0]" },
    { "{\"input\":[7]}", "[1]" },
    { "{\"input\":[]}", "[]" },
    { "{\"input\":[[],[]],\"axis\":0}", "[[],[]]" },
};

TEST(examples)
{
    for (size_t i = 0; i < sizeof EXAMPLES / sizeof EXAMPLES[0]; i++) {
        cJSON *answer = answer_post(&client, PATH, EXAMPLES[i].request);
        answer_expect(answer, "output", EXAMPLES[i].output, 1e-7);
        answer_expect_members(answer, "output");
        cJSON_Delete(answer);
    }
}

static void add_nested(struct request_text *text, const float **values, int rank,
                       const int64_t *shape)
{
    request_text_add(text, "[");
    for (int64_t i = 0; i < shape[0]; i++) {
        if (i > 0)
            request_text_add(text, ",");
        if (rank == 1)
            request_text_add(text, "%.9g", (double)*(*values)++);
        else
            add_nested(text, values, rank - 1, shape + 1);
    }
    request_text_add(text, "]");
}

static void run_onnx_case(const char *path)
{
    struct tensor_file file;
    struct request_text text = { 0 };
    tensor_file_open(&file, path);
    const struct tensor input = tensor_file_get(&file, "in.input");
    const struct tensor output = tensor_file_get(&file, "out.output");
    cJSON *attributes = cJSON_Parse(tensor_file_metadata(&file, "attributes"));
    const cJSON *axis = cJSON_GetObjectItemCaseSensitive(attributes, "axis");
    float *given = tensor_floats(&input), *wanted = tensor_floats(&output);
    const float *next = given;
    request_text_add(&text, "{\"input\":");
    add_nested(&text, &next, input.rank, input.shape);
    if (axis)
        request_text_add(&text, ",\"axis\":%d", axis->valueint);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, PATH, text.data);
    double *got = answer_numbers(answer, "output", input.rank, input.shape);
    for (int64_t i = 0; i < input.count; i++)
        if (!(fabs(got[i] - (double)wanted[i]) <= 1e-6))
            fail_msg("%s: number %d is %.9g, want %.9g", path, (int)i, got[i], (double)wanted[i]);
    free(got);
    cJSON_Delete(answer);
    cJSON_Delete(attributes);
    free(text.data);
    free(given);
    free(wanted);
    tensor_file_close(&file);
}

TEST(onnx)
{
    glob_t found;
    assert_int_equal(glob("tests/conformance/onnx/softmax/softmax_*.safetensors", 0, NULL, &found),
                     0);
    assert_int_equal(found.gl_pathc, 7);
    for (size_t i = 0; i < found.gl_pathc; i++)
        run_onnx_case(found.gl_pathv[i]);
    globfree(&found);
}

/* There are more rows than one task takes, and the axis is not the last. The columns sum to 1 and
 * equal those of the transposed request. */
TEST(many_tasks)
{
    enum { ROWS = 300, COLUMNS = 200 };
    static float values[ROWS * COLUMNS], transposed[COLUMNS * ROWS];
    const int64_t shape[] = { ROWS, COLUMNS }, turned[] = { COLUMNS, ROWS };
    struct request_text text = { 0 }, other = { 0 };
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            values[i * COLUMNS + j] = (float)((i * 37 + j * 101) % 61) / 8.0f;
            transposed[j * ROWS + i] = values[i * COLUMNS + j];
        }
    request_text_add(&text, "{\"axis\":0,\"input\":");
    request_text_matrix(&text, values, ROWS, COLUMNS);
    request_text_add(&text, "}");
    request_text_add(&other, "{\"input\":");
    request_text_matrix(&other, transposed, COLUMNS, ROWS);
    request_text_add(&other, "}");
    cJSON *answer = answer_post(&client, PATH, text.data);
    cJSON *again = answer_post(&client, PATH, other.data);
    double *one = answer_numbers(answer, "output", 2, shape);
    double *two = answer_numbers(again, "output", 2, turned);
    for (int j = 0; j < COLUMNS; j++) {
        double sum = 0;
        for (int i = 0; i < ROWS; i++) {
            assert_true(one[i * COLUMNS + j] == two[j * ROWS + i]);
            sum += one[i * COLUMNS + j];
        }
        assert_true(fabs(sum - 1) < 1e-6);
    }
    free(one);
    free(two);
    cJSON_Delete(answer);
    cJSON_Delete(again);
    free(text.data);
    free(other.data);
}

struct refusal {
    const char *request, *code, *pointer;
};

static const struct refusal REFUSALS[] = {
    { "", "json", "" },
    { "[1,2]", "type", "" },
    { "{}", "field", "/input" },
    { "{\"input\":null}", "field", "/input" },
    { "{\"inputs\":[1]}", "field", "/inputs" },
    { "{\"input\":[1],\"model\":\"sdpa\"}", "field", "/model" },
    { "{\"input\":[1],\"input\":[1]}", "duplicate", "/input" },
    { "{\"input\":1}", "type", "/input" },
    { "{\"input\":[true]}", "type", "/input/0" },
    { "{\"input\":[\"1\"]}", "type", "/input/0" },
    { "{\"input\":[[1,2],[3]]}", "ragged", "/input/1" },
    { "{\"input\":[1e39]}", "nonfinite", "/input/0" },
    { "{\"input\":[1],\"axis\":1}", "option", "/axis" },
    { "{\"input\":[1],\"axis\":-2}", "option", "/axis" },
    { "{\"input\":[1],\"axis\":0.5}", "option", "/axis" },
    { "{\"input\":[1],\"axis\":-1e300}", "option", "/axis" },
    { "{\"input\":[1],\"axis\":\"last\"}", "type", "/axis" },
    { "{\"input\":[[1,2]],\"kv_len\":3}", "length", "/kv_len" },
    { "{\"input\":[[1,2]],\"kv_len\":-1}", "length", "/kv_len" },
    { "{\"input\":[[1,2]],\"kv_len\":0.5}", "length", "/kv_len" },
    { "{\"input\":[[1,2]],\"kv_len\":[3]}", "length", "/kv_len" },
    { "{\"input\":[[1,2]],\"kv_len\":[1,1]}", "shape", "/kv_len" },
    { "{\"input\":[[1,2]],\"kv_len\":[[1,1]]}", "shape", "/kv_len" },
    { "{\"input\":[[1,2]],\"kv_len\":[]}", "shape", "/kv_len" },
    { "{\"input\":[[1,2]],\"kv_len\":[true]}", "type", "/kv_len/0" },
    { "{\"input\":[[1,2]],\"kv_len\":\"1\"}", "type", "/kv_len" },
    { "{\"input\":[[1,2]],\"kv_len\":1,\"axis\":0}", "option", "/kv_len" },
};

TEST(refusals)
{
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        print_message("    %s\n", REFUSALS[i].request);
        answer_refused(&client, PATH, REFUSALS[i].request, 400, REFUSALS[i].code,
                       REFUSALS[i].pointer);
    }
}

TEST(answer_too_large)
{
    struct daemon small = { 0 };
    struct http_client to_small;
    const float zeros[65] = { 0 };
    daemon_start_with(&small, "--answer-max", "1024", NULL);
    http_client_init(&to_small, small.port);
    for (int count = 64; count <= 65; count++) {
        struct request_text text = { 0 };
        request_text_add(&text, "{\"input\":");
        request_text_matrix(&text, zeros, 1, count);
        request_text_add(&text, "}");
        if (count == 64)
            cJSON_Delete(answer_post(&to_small, PATH, text.data));
        else
            answer_refused(&to_small, PATH, text.data, 413, "answer_too_large", "");
        free(text.data);
    }
    http_client_free(&to_small);
    daemon_stop(&small);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start, fixture_clear);
