/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_sdpa.c - the model sdpa, which is ONNX Attention, in JSON: the cases that the files of
 * test_oip_onnx.c do not have. */
#include "base/dtype.h"
#include "fill.h"
#include "fixture.h"
#include "oip_client.h"
#include "test.h"

#define Q_DATA "[1,0,0,1,1,1,0.5,-1]"
#define K_DATA "[1,2,-1,0.5,0,1,2,2]"
#define V_DATA "[1,2,3,4,5,6,7,8]"

static struct oip_answer ask_sdpa(const char *shape, const char *parameters)
{
    struct oip_request request = { .parameters = parameters };
    oip_add_json(&request, "Q", "FP32", shape, Q_DATA);
    oip_add_json(&request, "K", "FP32", shape, K_DATA);
    oip_add_json(&request, "V", "FP32", shape, V_DATA);
    struct oip_answer answer = oip_post(&client, "sdpa", &request);
    oip_request_free(&request);
    return answer;
}

/* [batch, heads, length, head_dim] and [batch, length, heads * head_dim] are the same numbers if
 * there is one head. The answer has only Y unless the request names more. */
TEST(sdpa_forms)
{
    struct oip_answer four = ask_sdpa("[2,1,2,2]", NULL);
    struct oip_answer three = ask_sdpa("[2,2,2]", JSON("q_num_heads":1,"kv_num_heads":1));
    struct oip_answer flags = ask_sdpa("[2,1,2,2]", JSON("is_causal":true));
    struct oip_answer numbers = ask_sdpa("[2,1,2,2]", JSON("is_causal":1,"softmax_precision":1));
    const struct oip_tensor_answer y4 = oip_output_of(&four, "Y"), y3 = oip_output_of(&three, "Y");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(four.json, "outputs")), 1);
    assert_int_equal(y4.rank, 4);
    assert_int_equal(y3.rank, 3);
    double *a = oip_numbers(&y4), *b = oip_numbers(&y3);
    assert_memory_equal(a, b, 8 * sizeof *a);
    answer_expect_equal(flags.json, numbers.json, "outputs");
    /* By hand: scores [1, -1] / sqrt(2) give the first row the weights 0.804 and 0.196. */
    const double w = 1 / (1 + exp(-2 / sqrt(2)));
    assert_true(fabs(a[0] - (w * 1 + (1 - w) * 3)) < 1e-6);
    free(a);
    free(b);
    oip_answer_free(&four);
    oip_answer_free(&three);
    oip_answer_free(&flags);
    oip_answer_free(&numbers);
}

/* Keys beyond the end of a mask's last axis are forbidden. A mask of any rank broadcasts. */
TEST(sdpa_masks)
{
    static const struct {
        const char *datatype, *shape, *data;
    } masks[] = {
        { "BOOL", "[1]", "[true]" },      { "FP32", "[2,1,1,2]", "[0,0,0,0]" },
        { "BF16", "[2,2]", "[0,0,0,0]" }, { "FP16", "[1,1,2]", "[0,0]" },
        { "FP32", "[]", "[0]" },
    };
    struct oip_answer want = ask_sdpa("[2,1,2,2]", NULL);
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        struct oip_request request = { 0 };
        oip_add_json(&request, "Q", "FP32", "[2,1,2,2]", Q_DATA);
        oip_add_json(&request, "K", "FP32", "[2,1,2,2]", K_DATA);
        oip_add_json(&request, "V", "FP32", "[2,1,2,2]", V_DATA);
        oip_add_json(&request, "attn_mask", masks[i].datatype, masks[i].shape, masks[i].data);
        struct oip_answer answer = oip_post(&client, "sdpa", &request);
        answer_expect_equal(answer.json, want.json, "outputs");
        oip_answer_free(&answer);
        oip_request_free(&request);
    }
    oip_answer_free(&want);
    static const double second[] = { 3, 4, 3, 4 }; /* key 1 alone */
    struct oip_request request = { 0 };
    oip_add_json(&request, "Q", "FP32", "[1,1,2,2]", "[1,0,0,1]");
    oip_add_json(&request, "K", "FP32", "[1,1,3,2]", "[1,2,-1,0.5,9,9]");
    oip_add_json(&request, "V", "FP32", "[1,1,3,2]", "[1,2,3,4,5,6]");
    oip_add_json(&request, "attn_mask", "FP32", "[2,2]", "[null,0,null,0]");
    struct oip_answer answer = oip_post(&client, "sdpa", &request);
    oip_expect_numbers(&answer, "Y", "FP32", 4, (const int64_t[]){ 1, 1, 2, 2 }, second, 0);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* softmax(q . k^T / sqrt(WIDTH)) . v in double; the weights too. */
enum { ROWS = 5, KEYS = 7, WIDTH = 4 };

static void attend(const double *q, const double *k, const double *v, double *y, double *weights)
{
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int j = 0; j < KEYS; j++) {
            double score = 0;
            for (int d = 0; d < WIDTH; d++)
                score += q[i * WIDTH + d] * k[j * WIDTH + d];
            weights[i * KEYS + j] = exp(score / sqrt(WIDTH));
            sum += weights[i * KEYS + j];
        }
        for (int d = 0; d < WIDTH; d++)
            y[i * WIDTH + d] = 0;
        for (int j = 0; j < KEYS; j++) {
            weights[i * KEYS + j] /= sum;
            for (int d = 0; d < WIDTH; d++)
                y[i * WIDTH + d] += weights[i * KEYS + j] * v[j * WIDTH + d];
        }
    }
}

static void narrow(const char *datatype, const double *values, int count, unsigned char *bytes)
{
    for (int i = 0; i < count; i++) {
        const float value = (float)values[i];
        if (strcmp(datatype, "FP64") == 0)
            memcpy(bytes + 8 * i, &values[i], 8);
        else if (strcmp(datatype, "FP32") == 0)
            memcpy(bytes + 4 * i, &value, 4);
        else
            dtype_write(bytes + 2 * i, strcmp(datatype, "FP16") == 0 ? ATTN_F16 : ATTN_BF16, &value,
                        1);
    }
}

/* The daemon computes with the numbers as the datatype holds them; all of these datatypes hold
 * these numbers exactly. It rounds the answer once. */
TEST(datatypes)
{
    static const struct {
        const char *datatype, *parameters;
        int size;
        double tolerance; /* for numbers of magnitude 1 */
    } kinds[] = {
        { "FP64", "\"binary_data_output\":true,\"qk_matmul_output_mode\":3", 8, 1e-15 },
        { "FP32",
          "\"binary_data_output\":true,\"qk_matmul_output_mode\":3,\"softmax_precision\":11", 4,
          0x1.01p-25 },
        { "FP32", "\"binary_data_output\":true,\"qk_matmul_output_mode\":3", 4, 1e-6 },
        { "FP16", "\"binary_data_output\":true,\"qk_matmul_output_mode\":3", 2, 0x1.01p-12 },
        { "BF16", "\"binary_data_output\":true,\"qk_matmul_output_mode\":3", 2, 0x1.01p-9 },
    };
    struct fill fill = { 9 };
    double q[ROWS * WIDTH], k[KEYS * WIDTH], v[KEYS * WIDTH];
    double y[ROWS * WIDTH], weights[ROWS * KEYS];
    for (int i = 0; i < KEYS * WIDTH; i++) {
        k[i] = (double)fill_below(&fill, 128) / 64 - 1;
        v[i] = (double)fill_below(&fill, 128) / 64 - 1;
        if (i < ROWS * WIDTH)
            q[i] = (double)fill_below(&fill, 128) / 64 - 1;
    }
    attend(q, k, v, y, weights);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        static const int64_t rows[] = { 1, 1, ROWS, WIDTH }, keys[] = { 1, 1, KEYS, WIDTH };
        unsigned char bytes[KEYS * WIDTH * 8];
        struct oip_request request = { .parameters = kinds[i].parameters };
        narrow(kinds[i].datatype, q, ROWS * WIDTH, bytes);
        oip_add_binary(&request, "Q", kinds[i].datatype, 4, rows, bytes,
                       (size_t)(ROWS * WIDTH * kinds[i].size));
        narrow(kinds[i].datatype, k, KEYS * WIDTH, bytes);
        oip_add_binary(&request, "K", kinds[i].datatype, 4, keys, bytes,
                       (size_t)(KEYS * WIDTH * kinds[i].size));
        narrow(kinds[i].datatype, v, KEYS * WIDTH, bytes);
        oip_add_binary(&request, "V", kinds[i].datatype, 4, keys, bytes,
                       (size_t)(KEYS * WIDTH * kinds[i].size));
        oip_ask(&request, "Y", NULL);
        oip_ask(&request, "qk_matmul_output", NULL);
        struct oip_answer answer = oip_post(&client, "sdpa", &request);
        oip_expect_numbers(&answer, "Y", kinds[i].datatype, 4, rows, y, kinds[i].tolerance);
        oip_expect_numbers(&answer, "qk_matmul_output", kinds[i].datatype, 4,
                           (const int64_t[]){ 1, 1, ROWS, KEYS }, weights, kinds[i].tolerance);
        oip_answer_free(&answer);
        oip_request_free(&request);
    }
}

/* Values may have their own type (T2 of the operator), and present_value has it too. */
TEST(values_of_another_datatype)
{
    static const int64_t one[] = { 1, 1, 1, 1 }, two[] = { 1, 1, 2, 1 };
    static const double query = 0, keys[] = { 5, -7 }, past = 1.0 / 3, now = 3,
                        present[] = { past, now };
    static const double mean = (1.0 / 3 + 3) / 2;
    unsigned char query_bytes[4], key_bytes[2][4];
    struct oip_request request = { .parameters = NULL };
    narrow("FP32", &query, 1, query_bytes);
    narrow("FP32", &keys[0], 1, key_bytes[0]);
    narrow("FP32", &keys[1], 1, key_bytes[1]);
    oip_add_binary(&request, "Q", "FP32", 4, one, query_bytes, 4);
    oip_add_binary(&request, "past_key", "FP32", 4, one, key_bytes[0], 4);
    oip_add_binary(&request, "K", "FP32", 4, one, key_bytes[1], 4);
    oip_add_binary(&request, "past_value", "FP64", 4, one, &past, 8);
    oip_add_binary(&request, "V", "FP64", 4, one, &now, 8);
    oip_ask(&request, "Y", JSON("binary_data":true));
    oip_ask(&request, "present_key", JSON("binary_data":true));
    oip_ask(&request, "present_value", JSON("binary_data":true));
    struct oip_answer answer = oip_post(&client, "sdpa", &request);
    oip_expect_numbers(&answer, "Y", "FP32", 4, one, &mean, 1e-7);
    oip_expect_numbers(&answer, "present_key", "FP32", 4, two, keys, 0);
    oip_expect_numbers(&answer, "present_value", "FP64", 4, two, present, 0);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* JSON too has all digits of a double. */
TEST(doubles_as_text)
{
    struct oip_request request = { 0 };
    oip_add_json(&request, "Q", "FP64", "[1,1,1,1]", "[1]");
    oip_add_json(&request, "K", "FP64", "[1,1,2,1]", "[1,2]");
    oip_add_json(&request, "V", "FP64", "[1,1,2,1]", "[0,1]");
    struct oip_answer answer = oip_post(&client, "sdpa", &request);
    const double want = 1 / (1 + exp(-1));
    oip_expect_numbers(&answer, "Y", "FP64", 4, (const int64_t[]){ 1, 1, 1, 1 }, &want, 2e-16);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

TEST(an_empty_batch)
{
    struct oip_request request = { 0 };
    oip_add_json(&request, "Q", "FP32", "[0,2,3,4]", "[]");
    oip_add_json(&request, "K", "FP32", "[0,1,5,4]", "[]");
    oip_add_json(&request, "V", "FP32", "[0,1,5,6]", "[]");
    oip_ask(&request, "Y", NULL);
    oip_ask(&request, "qk_matmul_output", NULL);
    struct oip_answer answer = oip_post(&client, "sdpa", &request);
    oip_expect_numbers(&answer, "Y", "FP32", 4, (const int64_t[]){ 0, 2, 3, 6 }, NULL, 0);
    oip_expect_numbers(&answer, "qk_matmul_output", "FP32", 4, (const int64_t[]){ 0, 2, 3, 5 },
                       NULL, 0);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* ---------------------------------------------------------------- faults -- */

#define SDPA(more)                                                                                 \
    "{\"inputs\":[{\"name\":\"Q\",\"shape\":[1,2,1,2],\"datatype\":\"FP32\",\"data\":[1,0,0,1]},"  \
    "{\"name\":\"K\",\"shape\":[1,1,2,2],\"datatype\":\"FP32\",\"data\":[1,0,0,1]},"               \
    "{\"name\":\"V\",\"shape\":[1,1,2,2],\"datatype\":\"FP32\",\"data\":[1,0,0,1]}" more "}"

static const struct oip_fault FAULTS[] = {
    { "sdpa", "{\"inputs\":[{\"name\":\"K\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}",
      400, "field", "/inputs",
      "expected 3 inputs but got 1 inputs for model 'sdpa'. Got input(s) ['K'], but missing "
      "required input(s) ['Q','V']" },
    { "sdpa",
      SDPA(",{\"name\":\"attn_mask\",\"shape\":[3,2],\"datatype\":\"BOOL\",\"data\":[1,1,1,"
           "1,1,1]}]"),
      400, "shape", "/inputs/3/shape", "broadcasts to [1,2,1,2], got [3,2]" },
    { "sdpa",
      SDPA(",{\"name\":\"attn_mask\",\"shape\":[1,3],\"datatype\":\"BOOL\",\"data\":[1,1,1]}]"),
      400, "shape", "/inputs/3/shape", "attn_mask" },
    { "sdpa",
      SDPA(",{\"name\":\"past_key\",\"shape\":[1,1,0,2],\"datatype\":\"FP32\",\"data\":[]}]"), 400,
      "field", "/inputs", "past_value" },
    { "sdpa",
      SDPA(",{\"name\":\"past_key\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,1]},"
           "{\"name\":\"past_value\",\"shape\":[1,1,2,2],\"datatype\":\"FP32\",\"data\":[1,1,1,1]}"
           "]"),
      400, "shape", "/inputs/4/shape", "Expected [1,1,1,2], got [1,1,2,2]" },
    { "sdpa",
      SDPA(",{\"name\":\"nonpad_kv_seqlen\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[3]}]"),
      400, "length", "/inputs/3", "input 'nonpad_kv_seqlen' is 3" },
    { "sdpa",
      SDPA(",{\"name\":\"nonpad_kv_seqlen\",\"shape\":[2],\"datatype\":\"INT64\",\"data\":[1,1]}]"),
      400, "shape", "/inputs/3/shape", "Expected [1], got [2]" },
    { "sdpa", SDPA("],\"parameters\":{\"q_num_heads\":3}"), 400, "option",
      "/parameters/q_num_heads", "q_num_heads is 3; Q has 2" },
    { "sdpa", SDPA("],\"parameters\":{\"qk_matmul_output_mode\":4}"), 400, "option",
      "/parameters/qk_matmul_output_mode", "qk_matmul_output_mode is 4" },
    { "sdpa", SDPA("],\"parameters\":{\"softmax_precision\":3}"), 400, "option",
      "/parameters/softmax_precision", "softmax_precision is 3" },
    { "sdpa", SDPA("],\"parameters\":{\"is_causal\":2}"), 400, "type", "/parameters/is_causal",
      "is_causal is a number" },
    { "sdpa",
      "{\"inputs\":[{\"name\":\"Q\",\"shape\":[1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
      "{\"name\":\"K\",\"shape\":[1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
      "{\"name\":\"V\",\"shape\":[1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]}]}",
      400, "field", "/parameters", "q_num_heads" },
    { "sdpa",
      "{\"parameters\":{\"q_num_heads\":2,\"kv_num_heads\":2},\"inputs\":["
      "{\"name\":\"Q\",\"shape\":[1,1,3],\"datatype\":\"FP32\",\"data\":[1,0,1]},"
      "{\"name\":\"K\",\"shape\":[1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
      "{\"name\":\"V\",\"shape\":[1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]}]}",
      400, "shape", "/inputs/0", "input 'Q' has 3 columns" },
    { "sdpa",
      "{\"inputs\":[{\"name\":\"Q\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
      "{\"name\":\"K\",\"shape\":[1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
      "{\"name\":\"V\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]}]}",
      400, "shape", "/inputs/1/shape", "input 'K'" },
    { "sdpa",
      "{\"inputs\":[{\"name\":\"Q\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
      "{\"name\":\"K\",\"shape\":[1,1,1,3],\"datatype\":\"FP32\",\"data\":[1,0,1]},"
      "{\"name\":\"V\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]}]}",
      400, "shape", "/inputs/1/shape", "Expected [1,1,1,2], got [1,1,1,3]" },
    { "sdpa",
      "{\"inputs\":[{\"name\":\"Q\",\"shape\":[1,3,1,1],\"datatype\":\"FP32\",\"data\":[1,0,1]},"
      "{\"name\":\"K\",\"shape\":[1,2,1,1],\"datatype\":\"FP32\",\"data\":[1,0]},"
      "{\"name\":\"V\",\"shape\":[1,2,1,1],\"datatype\":\"FP32\",\"data\":[1,0]}]}",
      400, "shape", "/inputs/1", "not a multiple" },
    { "sdpa",
      "{\"inputs\":[{\"name\":\"Q\",\"shape\":[1,1,1,0],\"datatype\":\"FP32\",\"data\":[]},"
      "{\"name\":\"K\",\"shape\":[1,1,1,0],\"datatype\":\"FP32\",\"data\":[]},"
      "{\"name\":\"V\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]}]}",
      400, "shape", "/inputs/0", "input 'Q' has no" },
    { "sdpa",
      "{\"inputs\":[{\"name\":\"Q\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
      "{\"name\":\"K\",\"shape\":[1,1,1,2],\"datatype\":\"FP16\",\"data\":[1,0]},"
      "{\"name\":\"V\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]}]}",
      400, "dtype", "/inputs/1", "'FP16'" },
};

/* FP64 is computed in double, from the doubles in the text; so are scale and softcap. A number
 * beyond the range of its datatype is refused. */
TEST(range_of_datatypes)
{
    static const struct {
        const char *datatype, *data;
        double score; /* 0: refused */
    } cases[] = {
        { "FP64", "[0.3]", 0.3 * 0.1 }, { "FP64", "[1e300]", 1e300 * 0.1 },
        { "FP64", "[1e309]", 0 },       { "FP16", "[65504]", 6552 },
        { "FP16", "[-65520]", 0 },      { "BF16", "[3.38e38]", 3.38e37 },
        { "BF16", "[3.4e38]", 0 },      { "FP32", "[3.4e38]", 3.4e37 },
        { "FP32", "[3.5e38]", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct oip_request request = { .parameters = "\"scale\":0.1" };
        oip_add_json(&request, "Q", cases[i].datatype, "[1,1,1,1]", cases[i].data);
        oip_add_json(&request, "K", cases[i].datatype, "[1,1,1,1]", "[1]");
        oip_add_json(&request, "V", cases[i].datatype, "[1,1,1,1]", "[1]");
        oip_ask(&request, "qk_matmul_output", NULL);
        if (cases[i].score == 0) {
            const struct oip_fault fault = {
                "sdpa", NULL, 400, "nonfinite", "/inputs/0/data/0", cases[i].datatype
            };
            struct http_response response = oip_send(&client, "sdpa", &request);
            oip_expect_fault(&response, &fault);
            http_response_free(&response);
        } else {
            static const int64_t shape[] = { 1, 1, 1, 1 };
            struct oip_answer answer = oip_post(&client, "sdpa", &request);
            const double tolerance = cases[i].datatype[2] == '6'   ? 1e-15
                                     : cases[i].datatype[0] == 'B' ? 1e-2
                                                                   : 1e-3;
            oip_expect_numbers(&answer, "qk_matmul_output", cases[i].datatype, 4, shape,
                               &cases[i].score, tolerance);
            oip_answer_free(&answer);
        }
        oip_request_free(&request);
    }
}

TEST(faults)
{
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++)
        oip_refused(&client, &FAULTS[i]);
}

ALL_TESTS(fixture_start, fixture_stop);
