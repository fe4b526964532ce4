/* SPDX-License-Identifier: Apache-2.0 */
/* test_trained_model.c - stories260K, a real trained model, served from examples/models.
 *
 * The answers of its attention layers must equal the tensors that another implementation computed
 * (tests/conformance/stories260K): rotary embedding, grouped heads, causal mask and output
 * projection together. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "tensor_file.h"
#include "test.h"

enum { LENGTH = 64, WIDTH = 64, HEADS = 8 };

static const double TOLERANCE = 1e-5;

static void expect_near(const double *got, const float *want, int64_t count, const char *name)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - (double)want[i]) <= TOLERANCE * (1 + fabs((double)want[i]))))
            fail_msg("%s[%d] is %.9g, not %.9g", name, (int)i, got[i], (double)want[i]);
}

static float *layer_tensor(const struct tensor_file *file, const char *name, int64_t count)
{
    struct tensor tensor = tensor_file_get(file, name);
    assert_int_equal(tensor.count, count);
    return tensor_floats(&tensor);
}

static cJSON *post_rows(int layer, const float *rows, int64_t first, int64_t count, bool named)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{%s\"layer\":%d,\"past_len\":%d,\"query\":",
                     named ? "\"model\":\"stories260K\"," : "", layer, (int)first);
    request_text_matrix(&text, rows + first * WIDTH, count, WIDTH);
    request_text_add(&text, ",\"key\":");
    request_text_matrix(&text, rows, first + count, WIDTH);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, "/v1/attention", text.data);
    free(text.data);
    return answer;
}

static void test_layer(int layer)
{
    char path[128], wanted_layer[16];
    snprintf(path, sizeof(path), "tests/conformance/stories260K/layer%d.safetensors", layer);
    snprintf(wanted_layer, sizeof(wanted_layer), "%d", layer);
    struct tensor_file file;
    tensor_file_open(&file, path);
    float *x = layer_tensor(&file, "x", LENGTH * WIDTH);
    float *out = layer_tensor(&file, "out", LENGTH * WIDTH);
    float *weights = layer_tensor(&file, "weights", HEADS * LENGTH * LENGTH);
    const int64_t context_shape[] = { LENGTH, WIDTH };
    const int64_t weights_shape[] = { HEADS, LENGTH, LENGTH };

    cJSON *answer = post_rows(layer, x, 0, LENGTH, true);
    answer_expect(answer, "model", "\"stories260K\"", 0);
    answer_expect(answer, "layer", wanted_layer, 0);
    double *got = answer_numbers(answer, "context", 2, context_shape);
    expect_near(got, out, LENGTH * WIDTH, "context");
    free(got);
    got = answer_numbers(answer, "weights", 3, weights_shape);
    expect_near(got, weights, HEADS * LENGTH * LENGTH, "weights");
    free(got);
    cJSON_Delete(answer);

    /* The query is the last four rows alone, as a decoder asks. Their positions come from
     * past_len. */
    const int64_t last_shape[] = { 4, WIDTH };
    answer = post_rows(layer, x, LENGTH - 4, 4, false);
    answer_expect(answer, "model", "\"stories260K\"", 0);
    got = answer_numbers(answer, "context", 2, last_shape);
    expect_near(got, out + (LENGTH - 4) * WIDTH, 4 * WIDTH, "context of the last rows");
    free(got);
    cJSON_Delete(answer);
    free(x), free(out), free(weights);
    tensor_file_close(&file);
}

TEST(layer_0)
{
    test_layer(0);
}

TEST(layer_2)
{
    test_layer(2);
}

TEST(layer_4)
{
    test_layer(4);
}

TEST(description)
{
    struct http_response response = http_client_get(&client, "/v1/models/stories260K");
    cJSON *model = answer_json(&response, 200);
    answer_expect(model, "name", "\"stories260K\"", 0);
    answer_expect(model, "state", "\"READY\"", 0);
    answer_expect(model, "causal", "true", 0);
    answer_expect(model, "attention", "\"scaled_dot_product\"", 0);
    answer_expect(model, "trace", "true", 0);
    answer_expect(model, "tokenizer", JSON({"kind":"BPE","file":"tokenizer.json","id_end":512}), 0);
    const cJSON *layers = cJSON_GetObjectItem(model, "layers");
    assert_int_equal(cJSON_GetArraySize(layers), 5);
    for (int i = 0; i < 5; i++) {
        const cJSON *layer = cJSON_GetArrayItem(layers, i);
        answer_expect_members(layer, "index,kind,d_query,d_key,d_value,d_out,q_heads,kv_heads,"
                                     "head_dim,v_head_dim,options");
        assert_int_equal(cJSON_GetObjectItem(layer, "index")->valueint, i);
        answer_expect(layer, "q_heads", "8", 0);
        answer_expect(layer, "kv_heads", "4", 0);
        answer_expect(layer, "head_dim", "8", 0);
        answer_expect(layer, "d_query", "64", 0);
        answer_expect(layer, "d_out", "64", 0);
    }
    cJSON_Delete(model);
    http_response_free(&response);
}

TEST(refused)
{
    answer_refused(&client, "/v1/attention", "{\"layer\":5,\"query\":[[1]]}", 404, "not_found",
                   "/layer");
    answer_refused(&client, "/v1/attention", "{\"layer\":4,\"query\":[[1]]}", 400, "shape",
                   "/query");
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_examples, fixture_clear);
