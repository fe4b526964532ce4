/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_trace.c - whole passes over the Open Inference Protocol, with the names of exports to
 * ONNX: input_ids in, last_hidden_state out.
 *
 * Each row of a batch must have the numbers that POST /v1/trace answers for the row alone, to the
 * last bit, also where other rows are longer and attention_mask hides the padding. What the numbers
 * are is the matter of test_trace_*.c. The requests are laid out as Triton's own client does it
 * (oip_client.h). */
#include "fixture.h"
#include "hybrid_model.h"
#include "oip_client.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"

enum { ROWS = 3, LENGTH = 7, PADDING = 1, VOCABULARY = 40 };

static const int LENGTHS[ROWS] = { 7, 4, 1 };
static const int64_t SHAPE[] = { ROWS, LENGTH };

static int64_t ids[ROWS][LENGTH], mask[ROWS][LENGTH];

static void fill(void)
{
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < LENGTH; i++) {
            mask[row][i] = i < LENGTHS[row];
            ids[row][i] = i < LENGTHS[row] ? 3 + 5 * i + row : PADDING;
        }
}

/* ------------------------------------------------------------- comparisons -- */

/* The trace of one row alone: {"model":...,"tokens":[...]} and more. */
static cJSON *trace_row(const char *model, int row, const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",\"tokens\":[", model);
    for (int i = 0; i < LENGTHS[row]; i++)
        request_text_add(&body, "%s%d", i > 0 ? "," : "", (int)ids[row][i]);
    request_text_add(&body, "]%s}", more);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

static const float *floats_of(const struct oip_answer *answer, const char *name, int rank,
                              const int64_t *shape)
{
    const struct oip_tensor_answer tensor = oip_output_of(answer, name);
    assert_string_equal(tensor.datatype, "FP32");
    assert_int_equal(tensor.rank, rank);
    assert_memory_equal(tensor.shape, shape, (size_t)rank * sizeof *shape);
    assert_non_null(tensor.bytes);
    float *copy = malloc(tensor.size + 1); /* for alignment */
    assert_non_null(copy);
    memcpy(copy, tensor.bytes, tensor.size);
    for (int64_t i = 0; i < tensor.count; i++)
        assert_true(isfinite(copy[i]));
    return copy;
}

/* The first rows of an entry of the batch: those of the trace. */
static void expect_rows(const struct oip_answer *answer, const char *name, int row,
                        const cJSON *traced, const char *member, int64_t columns)
{
    const int64_t shape[] = { ROWS, LENGTH, columns }, own[] = { LENGTHS[row], columns };
    const float *got = floats_of(answer, name, 3, shape);
    double *want = answer_numbers(traced, member, 2, own);
    for (int64_t i = 0; i < own[0] * columns; i++)
        if (got[row * LENGTH * columns + i] != (float)want[i])
            fail_msg("%s: number %d of row %d is %.9g, not %.9g", name, (int)i, row,
                     (double)got[row * LENGTH * columns + i], want[i]);
    free((void *)got);
    free(want);
}

/* The weights of an entry of the batch: those of the trace, and 0 for keys that are hidden. */
static void expect_weights(const struct oip_answer *answer, const char *name, int row,
                           const cJSON *traced)
{
    const int64_t n = LENGTHS[row], own[] = { TRACED_HEADS, n, n };
    const int64_t shape[] = { ROWS, TRACED_HEADS, LENGTH, LENGTH };
    const float *got = floats_of(answer, name, 4, shape);
    double *want = answer_numbers(traced, "weights", 3, own);
    for (int64_t h = 0; h < TRACED_HEADS; h++)
        for (int64_t q = 0; q < n; q++)
            for (int64_t k = 0; k < LENGTH; k++) {
                const float number = got[((row * TRACED_HEADS + h) * LENGTH + q) * LENGTH + k];
                const float wanted = k < n ? (float)want[(h * n + q) * n + k] : 0;
                assert_true(number == wanted);
            }
    free((void *)got);
    free(want);
}

/* Logits and the logarithms of probabilities differ by one number for all tokens. */
static void expect_logits(const struct oip_answer *answer, int row, const cJSON *traced)
{
    const int64_t shape[] = { ROWS, LENGTH, VOCABULARY };
    const float *got = floats_of(answer, "logits", 3, shape);
    const cJSON *prediction, *token;
    cJSON_ArrayForEach(prediction, cJSON_GetObjectItem(traced, "predictions")) {
        const int position = cJSON_GetObjectItem(prediction, "position")->valueint;
        const float *logits = got + ((int64_t)row * LENGTH + position) * VOCABULARY;
        double sum = 0;
        for (int i = 0; i < VOCABULARY; i++)
            sum += exp((double)logits[i]);
        cJSON_ArrayForEach(token, cJSON_GetObjectItem(prediction, "tokens")) {
            const double want = cJSON_GetObjectItem(token, "logprob")->valuedouble;
            const int id = cJSON_GetObjectItem(token, "id")->valueint;
            assert_true(fabs((double)logits[id] - log(sum) - want) < 1e-5);
        }
    }
    free((void *)got);
}

static void expect_row(const struct oip_answer *answer, const char *model, int row)
{
    char more[256] = "", name[32];
    size_t used = (size_t)snprintf(more, sizeof more,
                                   ",\"outputs\":[\"weights\",\"hidden_states\",\"predictions\"],"
                                   "\"top_k_tokens\":40,\"positions\":[");
    for (int i = 0; i < LENGTHS[row]; i++)
        used += (size_t)snprintf(more + used, sizeof more - used, "%s%d", i > 0 ? "," : "", i);
    snprintf(more + used, sizeof more - used, "]");
    cJSON *traced = trace_row(model, row, more);
    for (int layer = 0; layer < TRACED_LAYERS; layer++) {
        const cJSON *of_layer = cJSON_GetArrayItem(cJSON_GetObjectItem(traced, "layers"), layer);
        snprintf(name, sizeof name, "hidden_states.%d", layer);
        expect_rows(answer, name, row, of_layer, "hidden_states", TRACED_WIDTH);
        snprintf(name, sizeof name, "attentions.%d", layer);
        expect_weights(answer, name, row, of_layer);
    }
    expect_rows(answer, "last_hidden_state", row, traced, "final_hidden_states", TRACED_WIDTH);
    expect_rows(answer, "hidden_states.3", row, traced, "final_hidden_states", TRACED_WIDTH);
    expect_logits(answer, row, traced);
    cJSON_Delete(traced);
}

/* ------------------------------------------------------------------ batches -- */

static struct oip_request padded(void)
{
    struct oip_request request = { 0 };
    oip_add_binary(&request, "input_ids", "INT64", 2, SHAPE, ids, sizeof ids);
    oip_add_binary(&request, "attention_mask", "INT64", 2, SHAPE, mask, sizeof mask);
    return request;
}

TEST(padded_rows_are_as_alone)
{
    static const char *const NAMES[] = {
        "last_hidden_state", "logits",          "attentions.0",    "attentions.1",   "attentions.2",
        "hidden_states.0",   "hidden_states.1", "hidden_states.2", "hidden_states.3"
    };
    static const char *const MODELS[] = { "bert", "llama" };
    for (int m = 0; m < 2; m++) {
        struct oip_request request = padded();
        for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
            oip_ask(&request, NAMES[i], "\"binary_data\":true");
        struct oip_answer answer = oip_post(&client, MODELS[m], &request);
        for (int row = 0; row < ROWS; row++)
            expect_row(&answer, MODELS[m], row);
        oip_answer_free(&answer);
        oip_request_free(&request);
    }
}

/* So too where layers keep a state, which padding at the end cannot reach. */
TEST(padded_rows_of_a_hybrid_are_as_alone)
{
    static const char MORE[] = ",\"layers\":[4],\"outputs\":[\"hidden_states\",\"predictions\"],"
                               "\"top_k_tokens\":40";
    struct oip_request request = padded();
    oip_ask(&request, "last_hidden_state", "\"binary_data\":true");
    oip_ask(&request, "hidden_states.4", "\"binary_data\":true");
    oip_ask(&request, "logits", "\"binary_data\":true");
    struct oip_answer answer = oip_post(&client, "lfm2", &request);
    for (int row = 0; row < ROWS; row++) {
        cJSON *traced = trace_row("lfm2", row, MORE);
        const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(traced, "layers"), 0);
        expect_rows(&answer, "last_hidden_state", row, traced, "final_hidden_states", TRACED_WIDTH);
        expect_rows(&answer, "hidden_states.4", row, layer, "hidden_states", TRACED_WIDTH);
        expect_logits(&answer, row, traced);
        cJSON_Delete(traced);
    }
    oip_answer_free(&answer);
    oip_request_free(&request);
    answer_refused(&client, "/v2/models/lfm2/infer",
                   JSON({"inputs":[{"name":"input_ids","shape":[1,3],"datatype":"INT64",
                                    "data":[3,4,5]},{"name":"attention_mask","shape":[1,3],
                                    "datatype":"INT64","data":[1,0,1]}]}),
                                             400, "option", "/inputs/1");
}

/* Edits come as text of JSON: a parameter is no list. They are of each row of the batch. */
TEST(edited_rows_are_as_alone)
{
    static const int64_t shape[] = { ROWS, LENGTH, TRACED_WIDTH };
#define EDITS                                                                                      \
    JSON([{"layers":[0],"heads":[1],"rows":[0],"scale":0.5},{"layers":[1],"hide":[[0,1]]}])
    for (int m = 0; m < 2; m++) {
        const char *model = m == 0 ? "bert" : "llama";
        struct oip_request request = padded(), plain = padded();
        char parameters[300] = "\"edits\":\"";
        for (const char *c = EDITS; *c; c++)
            snprintf(parameters + strlen(parameters), 3, *c == '"' ? "\\%c" : "%c", *c);
        request.parameters = strcat(parameters, "\"");
        oip_ask(&request, "last_hidden_state", "\"binary_data\":true");
        oip_ask(&plain, "last_hidden_state", "\"binary_data\":true");
        struct oip_answer answer = oip_post(&client, model, &request);
        for (int row = 0; row < ROWS; row++) {
            cJSON *traced =
                trace_row(model, row, ",\"outputs\":[\"hidden_states\"],\"edits\":" EDITS);
            expect_rows(&answer, "last_hidden_state", row, traced, "final_hidden_states",
                        TRACED_WIDTH);
            cJSON_Delete(traced);
        }
        struct oip_answer unedited = oip_post(&client, model, &plain);
        const float *one = floats_of(&answer, "last_hidden_state", 3, shape);
        const float *other = floats_of(&unedited, "last_hidden_state", 3, shape);
        assert_memory_not_equal(one, other, sizeof(float) * LENGTH * TRACED_WIDTH);
        free((void *)one);
        free((void *)other);
        oip_answer_free(&unedited);
        oip_answer_free(&answer);
        oip_request_free(&request);
        oip_request_free(&plain);
    }
}

/* tritonclient's infer() without outputs, which asks for bytes: what a text encoder is sent. */
TEST(default_outputs)
{
    const int64_t rows[] = { ROWS, LENGTH, TRACED_WIDTH }, logits[] = { ROWS, LENGTH, VOCABULARY };
    static int64_t types[ROWS][LENGTH];
    struct oip_request request = padded();
    oip_add_binary(&request, "token_type_ids", "INT64", 2, SHAPE, types, sizeof types);
    request.parameters = JSON("binary_data_output":true);
    struct oip_answer answer = oip_post(&client, "bert", &request);
    answer_expect(answer.json, "model_name", "\"bert\"", 0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer.json, "outputs")), 2);
    free((void *)floats_of(&answer, "last_hidden_state", 3, rows));
    free((void *)floats_of(&answer, "logits", 3, logits));
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* The same numbers in JSON, from INT32, and with the version in the path. */
TEST(json_and_int32)
{
    static const int64_t shape[] = { 1, 3 };
    static const int32_t three[] = { 3, 8, 13 };
    struct oip_request json = { 0 }, bytes = { 0 };
    oip_add_json(&json, "input_ids", "INT64", "[1,3]", "[[3,8,13]]");
    oip_ask(&json, "last_hidden_state", NULL);
    oip_add_binary(&bytes, "input_ids", "INT32", 2, shape, three, sizeof three);
    oip_ask(&bytes, "last_hidden_state", NULL);
    struct oip_answer one = oip_post(&client, "bert", &json);
    struct oip_answer other = oip_post(&client, "bert/versions/1", &bytes);
    assert_true(cJSON_Compare(cJSON_GetObjectItem(one.json, "outputs"),
                              cJSON_GetObjectItem(other.json, "outputs"), true));
    const struct oip_tensor_answer tensor = oip_output_of(&one, "last_hidden_state");
    double *got = oip_numbers(&tensor);
    cJSON *traced = answer_post(&client, "/v1/trace",
                                "{\"model\":\"bert\",\"tokens\":[3,8,13],\"layers\":[],"
                                "\"outputs\":[\"hidden_states\"]}");
    const int64_t own[] = { 3, TRACED_WIDTH };
    double *want = answer_numbers(traced, "final_hidden_states", 2, own);
    for (int i = 0; i < 3 * TRACED_WIDTH; i++)
        assert_true((float)got[i] == (float)want[i]);
    free(got);
    free(want);
    cJSON_Delete(traced);
    oip_answer_free(&one);
    oip_answer_free(&other);
    oip_request_free(&json);
    oip_request_free(&bytes);
}

/* What an export of a decoder also takes. */
TEST(position_ids)
{
    int64_t positions[ROWS][LENGTH];
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < LENGTH; i++)
            positions[row][i] = mask[row][i] ? i : 1;
    struct oip_request request = padded();
    oip_add_binary(&request, "position_ids", "INT64", 2, SHAPE, positions, sizeof positions);
    oip_ask(&request, "logits", JSON("classification":2));
    struct oip_answer answer = oip_post(&client, "llama", &request);
    const struct oip_tensor_answer tensor = oip_output_of(&answer, "logits");
    assert_string_equal(tensor.datatype, "BYTES");
    assert_int_equal(tensor.shape[2], 2);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* Padding before a decoder's tokens hides keys, and leaves all numbers finite. */
TEST(hidden_first_tokens)
{
    static const int64_t shape[] = { 1, 4 }, tokens[] = { 1, 1, 5, 6 }, hidden[] = { 0, 0, 1, 1 };
    const int64_t maps[] = { 1, TRACED_HEADS, 4, 4 };
    struct oip_request request = { 0 };
    oip_add_binary(&request, "input_ids", "INT64", 2, shape, tokens, sizeof tokens);
    oip_add_binary(&request, "attention_mask", "INT64", 2, shape, hidden, sizeof hidden);
    oip_ask(&request, "attentions.2", JSON("binary_data":true));
    struct oip_answer answer = oip_post(&client, "llama", &request);
    const float *weights = floats_of(&answer, "attentions.2", 4, maps);
    for (int h = 0; h < TRACED_HEADS; h++)
        assert_true(weights[h * 16 + 12] == 0 && weights[h * 16 + 13] == 0
                    && weights[h * 16 + 14] > 0);
    free((void *)weights);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

/* ------------------------------------------------------------ other families -- */

/* Compares outputs of a batch of one with members of a trace; the last list ends with NULL. */
static void expect_outputs(const char *model, const char *inputs, const char *fields,
                           const char *const (*outputs)[3])
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"inputs\":[%s],\"outputs\":[", inputs);
    for (int i = 0; outputs[i][0]; i++)
        request_text_add(&body, "%s{\"name\":\"%s\"}", i > 0 ? "," : "", outputs[i][0]);
    request_text_add(&body, "]}");
    char path[64];
    snprintf(path, sizeof path, "/v2/models/%s/infer", model);
    struct oip_answer answer = oip_answer_of(http_client_post(&client, path, body.data));
    free(body.data);
    body = (struct request_text){ .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",%s,\"outputs\":[\"weights\",\"hidden_states\"]}",
                     model, fields);
    cJSON *traced = answer_post(&client, "/v1/trace", body.data);
    for (int i = 0; outputs[i][0]; i++) {
        const struct oip_tensor_answer tensor = oip_output_of(&answer, outputs[i][0]);
        const cJSON *of = outputs[i][1] ? cJSON_GetArrayItem(cJSON_GetObjectItem(traced, "layers"),
                                                             atoi(outputs[i][1]))
                                        : traced;
        double *got = oip_numbers(&tensor);
        double *want = answer_numbers(of, outputs[i][2], tensor.rank - 1, tensor.shape + 1);
        assert_int_equal(tensor.shape[0], 1);
        for (int64_t k = 0; k < tensor.count; k++)
            assert_true((float)got[k] == (float)want[k]);
        free(got);
        free(want);
    }
    cJSON_Delete(traced);
    oip_answer_free(&answer);
    free(body.data);
}

TEST(encoder_decoder)
{
    static const char *const OUTPUTS[][3] = {
        { "last_hidden_state", NULL, "final_hidden_states" },
        { "encoder_last_hidden_state", NULL, "encoder_hidden_states" },
        { "encoder_hidden_states.2", NULL, "encoder_hidden_states" },
        { "encoder_attentions.1", "1", "weights" },
        { "decoder_attentions.0", "2", "weights" },
        { "cross_attentions.1", "5", "weights" },
        { "decoder_hidden_states.1", "3", "hidden_states" },
        { NULL },
    };
    expect_outputs("t5",
                   "{\"name\":\"input_ids\",\"shape\":[1,3],\"datatype\":\"INT64\",\"data\":"
                   "[4,17,39]},{\"name\":\"decoder_input_ids\",\"shape\":[1,2],\"datatype\":"
                   "\"INT64\",\"data\":[0,30]},{\"name\":\"decoder_attention_mask\",\"shape\":"
                   "[1,2],\"datatype\":\"INT64\",\"data\":[1,1]}",
                   "\"tokens\":[4,17,39],\"decoder_tokens\":[0,30]", OUTPUTS);
    expect_outputs("t5",
                   "{\"name\":\"input_ids\",\"shape\":[1,1],\"datatype\":\"INT64\",\"data\":[4]}",
                   "\"tokens\":[4]", OUTPUTS);
}

/* In a trace of CLIP's pictures the layers of its texts are left out. */
TEST(pixels)
{
    static const char *const OUTPUTS[][3] = {
        { "last_hidden_state", NULL, "final_hidden_states" },
        { "attentions.1", "1", "weights" },
        { "hidden_states.0", "0", "hidden_states" },
        { NULL },
    };
    struct request_text inputs = { .data = NULL }, fields = { .data = NULL };
    request_text_add(&inputs, "{\"name\":\"pixel_values\",\"shape\":[1,3,6,6],\"datatype\":"
                              "\"FP32\",\"data\":[");
    request_text_add(&fields, "\"pixels\":[");
    for (int i = 0; i < 108; i++) {
        const char *end = i % 36 == 35 ? "]]" : i % 6 == 5 ? "]" : "";
        const char *begin = i % 36 == 0 ? "[[" : i % 6 == 0 ? "[" : "";
        request_text_add(&inputs, "%s%d", i > 0 ? "," : "", i % 7);
        request_text_add(&fields, "%s%s%d%s", i > 0 ? "," : "", begin, i % 7, end);
    }
    request_text_add(&inputs, "]}");
    request_text_add(&fields, "]");
    expect_outputs("vit", inputs.data, fields.data, OUTPUTS);
    expect_outputs("clip", inputs.data, fields.data, OUTPUTS);
    expect_outputs("clip",
                   "{\"name\":\"input_ids\",\"shape\":[1,3],\"datatype\":\"INT64\",\"data\":"
                   "[38,7,39]}",
                   "\"tokens\":[38,7,39]", OUTPUTS);
    free(inputs.data);
    free(fields.data);
}

static int start(void **state)
{
    fixture_make_directory(state);
    traced_model_save(directory);
    traced_families_save(directory);
    hybrid_model_make(fixture_path("lfm2"));
    fixture_serve("--models", directory);
    fill();
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
