/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_trace_faults.c - whole passes over the Open Inference Protocol: what the metadata lists,
 * what is refused and how, and what counts. */
#include "fixture.h"
#include "hybrid_model.h"
#include "oip_client.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"

/* Inputs of attention go on asking for attention. */
TEST(attention_is_as_before)
{
    struct oip_request request = { .parameters = "\"layer\":1" };
    oip_add_json(&request, "query", "FP32", "[1,16]", "[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,2]");
    struct oip_answer answer = oip_post(&client, "bert", &request);
    assert_int_equal(oip_output_of(&answer, "context").shape[1], TRACED_WIDTH);
    assert_int_equal(oip_output_of(&answer, "weights").shape[0], TRACED_HEADS);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

static bool has_tensor(const cJSON *tensors, const char *name, const char *shape)
{
    const cJSON *tensor;
    bool found = false;
    cJSON_ArrayForEach(tensor, tensors) {
        if (strcmp(cJSON_GetObjectItem(tensor, "name")->valuestring, name) != 0)
            continue;
        answer_expect(tensor, cJSON_GetObjectItem(tensor, "dims") ? "dims" : "shape", shape, 0);
        found = true;
    }
    return found;
}

TEST(metadata)
{
    static const char *const PATHS[] = { "/v2/models/bert", "/v2/models/bert/config" };
    static const char *const KEYS[][2] = { { "inputs", "outputs" }, { "input", "output" } };
    for (int i = 0; i < 2; i++) {
        cJSON *metadata = answer_get(&client, PATHS[i]);
        const cJSON *inputs = cJSON_GetObjectItem(metadata, KEYS[i][0]);
        const cJSON *outputs = cJSON_GetObjectItem(metadata, KEYS[i][1]);
        assert_true(has_tensor(inputs, "query", "[-1,-1,16]"));
        assert_true(has_tensor(inputs, "input_ids", "[-1,-1]"));
        assert_true(has_tensor(inputs, "attention_mask", "[-1,-1]"));
        assert_true(has_tensor(inputs, "token_type_ids", "[-1,-1]"));
        assert_true(has_tensor(outputs, "context", "[-1,-1,16]"));
        assert_true(has_tensor(outputs, "last_hidden_state", "[-1,-1,16]"));
        assert_true(has_tensor(outputs, "logits", "[-1,-1,40]"));
        assert_true(has_tensor(outputs, "attentions.2", "[-1,4,-1,-1]"));
        assert_false(has_tensor(outputs, "attentions.3", ""));
        cJSON_Delete(metadata);
    }
    cJSON *vit = answer_get(&client, "/v2/models/vit");
    assert_true(has_tensor(cJSON_GetObjectItem(vit, "inputs"), "pixel_values", "[-1,3,6,6]"));
    assert_false(has_tensor(cJSON_GetObjectItem(vit, "inputs"), "input_ids", ""));
    assert_false(has_tensor(cJSON_GetObjectItem(vit, "outputs"), "hidden_states.2", ""));
    cJSON_Delete(vit);
    cJSON *hybrid = answer_get(&client, "/v2/models/lfm2");
    const cJSON *of_hybrid = cJSON_GetObjectItem(hybrid, "outputs");
    assert_true(has_tensor(of_hybrid, "attentions.1", "[-1,4,-1,-1]"));
    assert_false(has_tensor(of_hybrid, "attentions.0", "")); /* a convolution */
    assert_true(has_tensor(of_hybrid, "hidden_states.0", "[-1,-1,16]"));
    cJSON_Delete(hybrid);
    cJSON *clip = answer_get(&client, "/v2/models/clip");
    assert_true(has_tensor(cJSON_GetObjectItem(clip, "inputs"), "input_ids", "[-1,-1]"));
    assert_true(has_tensor(cJSON_GetObjectItem(clip, "inputs"), "pixel_values", "[-1,3,6,6]"));
    assert_true(has_tensor(cJSON_GetObjectItem(clip, "outputs"), "attentions.1", "[-1,-1,-1,-1]"));
    assert_false(has_tensor(cJSON_GetObjectItem(clip, "outputs"), "hidden_states.2", ""));
    cJSON_Delete(clip);
    cJSON *t5 = answer_get(&client, "/v2/models/t5");
    assert_true(
        has_tensor(cJSON_GetObjectItem(t5, "outputs"), "cross_attentions.1", "[-1,2,-1,-1]"));
    cJSON_Delete(t5);
}

#define INPUT(name, shape, data)                                                                   \
    "{\"name\":\"" name "\",\"shape\":" shape ",\"datatype\":\"INT64\",\"data\":" data "}"
#define BODY(inputs) "{\"inputs\":[" inputs "]}"
#define IDS          INPUT("input_ids", "[1,2]", "[3,4]")
#define EDITED(text) "{\"parameters\":{\"edits\":" text "},\"inputs\":[" IDS "]}"

TEST(refused)
{
    static const struct oip_fault FAULTS[] = {
        { "demo", BODY(IDS), 400, "option", "/inputs", "cannot be traced" },
        { "sdpa", BODY(IDS), 400, "option", "/inputs", "the model has no parameters" },
        { "bert", BODY(INPUT("input_ids", "[2]", "[3,4]")), 400, "shape", "/inputs/0/shape",
          "Expected [-1,-1], got [2]" },
        { "bert", BODY(INPUT("input_ids", "[1,2]", "[3,40]")), 400, "option", "/inputs/0",
          "is 40 at element 1; model 'bert' takes 0 to 39" },
        { "bert", BODY(INPUT("input_ids", "[1,2]", "[3,-1]")), 400, "option", "/inputs/0",
          "is -1 at element 1" },
        { "bert", BODY(INPUT("input_ids", "[0,2]", "[]")), 400, "shape", "/inputs/0",
          "a batch of 0" },
        { "bert", BODY(IDS "," INPUT("attention_mask", "[1,3]", "[1,1,1]")), 400, "shape",
          "/inputs/1", "has 3 tokens; input 'input_ids' has 2" },
        { "bert", BODY(IDS "," INPUT("attention_mask", "[2,2]", "[1,1,1,1]")), 400, "shape",
          "/inputs/1", "batch size does not match" },
        { "bert", BODY(INPUT("attention_mask", "[1,2]", "[1,1]")), 400, "field", "/inputs",
          "missing required input 'input_ids'" },
        { "bert", BODY(IDS "," INPUT("token_type_ids", "[1,2]", "[0,2]")), 400, "option",
          "/inputs/1", "takes 0 to 1" },
        { "llama", BODY(IDS "," INPUT("token_type_ids", "[1,2]", "[0,0]")), 400, "field",
          "/inputs/1/name", "unexpected inference input 'token_type_ids'" },
        { "llama", BODY(IDS "," INPUT("position_ids", "[1,2]", "[0,2]")), 400, "option",
          "/inputs/1", "is 2 at element 1" },
        { "bert", BODY(IDS "," INPUT("query", "[1,2]", "[0,2]")), 400, "field", "/inputs/1/name",
          "unexpected inference input 'query'" },
        { "bert", "{\"inputs\":[" IDS "],\"outputs\":[{\"name\":\"pooler_output\"}]}", 400, "field",
          "/outputs/0/name", "unexpected inference output 'pooler_output'" },
        { "bert", "{\"inputs\":[" IDS "],\"outputs\":[{\"name\":\"weights\"}]}", 400, "field",
          "/outputs/0/name", "unexpected inference output 'weights'" },
        { "t5",
          BODY(IDS "," INPUT("decoder_input_ids", "[1,2]",
                             "[0,3]") "," INPUT("decoder_attention_mask", "[1,2]", "[0,1]")),
          400, "option", "/inputs/2", "only tokens at the end can be hidden" },
        { "t5", BODY(IDS "," INPUT("decoder_attention_mask", "[1,1]", "[1]")), 400, "field",
          "/inputs/1", "came without the tokens" },
        { "bert",
          "{\"inputs\":[{\"name\":\"input_ids\",\"shape\":[1,1],\"datatype\":\"FP32\","
          "\"data\":[1]}]}",
          400, "dtype", "/inputs/0/datatype", "expects 'INT64'" },
        { "bert", EDITED("3"), 400, "type", "/parameters/edits", "edits is a number" },
        { "bert", EDITED("\"[{\""), 400, "type", "/parameters/edits",
          "expected the field's value as JSON" },
        { "bert", EDITED("\"{}\""), 400, "type", "/parameters/edits", "edits is an object" },
        { "bert", EDITED("\"[{\\\"scale\\\":0,\\\"at\\\":\\\"haed\\\"}]\""), 400, "option",
          "/parameters/edits/0/at", "head" },
        { "bert", EDITED("\"[{\\\"scale\\\":0,\\\"heads\\\":[9]}]\""), 400, "option",
          "/parameters/edits/0/heads/0", "9" },
        { "bert", "{\"parameters\":{\"edit\":\"[]\"},\"inputs\":[" IDS "]}", 400, "field",
          "/parameters/edit", "edits" },
    };
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++)
        oip_refused(&client, &FAULTS[i]);
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"inputs\":[{\"name\":\"input_ids\",\"shape\":[1,65],\"datatype\":"
                            "\"INT64\",\"data\":[");
    for (int i = 0; i < 65; i++)
        request_text_add(&body, i > 0 ? ",3" : "3");
    request_text_add(&body, "]}]}");
    oip_refused(&client, &(struct oip_fault){ "bert", body.data, 400, "length", "/inputs/0",
                                              "has positions for 64" });
    free(body.data);
}

/* The counts of a model: batches and their items, and the failures. */
static void counts_of(const char *model, int *executions, int *items, int *failures)
{
    char path[64];
    snprintf(path, sizeof path, "/v2/models/%s/stats", model);
    cJSON *answer = answer_get(&client, path);
    const cJSON *stats = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "model_stats"), 0);
    const cJSON *fail = cJSON_GetObjectItem(cJSON_GetObjectItem(stats, "inference_stats"), "fail");
    *executions = cJSON_GetObjectItem(stats, "execution_count")->valueint;
    *items = cJSON_GetObjectItem(stats, "inference_count")->valueint;
    *failures = cJSON_GetObjectItem(fail, "count")->valueint;
    cJSON_Delete(answer);
}

/* A batch counts as one execution of its model, and one that is refused as a failure. */
TEST(statistics)
{
    int executions, items, failures, more_executions, more_items, more_failures;
    struct oip_request request = { 0 };
    oip_add_json(&request, "input_ids", "INT64", "[3,1]", "[3,4,5]");
    counts_of("bert", &executions, &items, &failures);
    struct oip_answer answer = oip_post(&client, "bert", &request);
    oip_refused(&client, &(struct oip_fault){ "bert", BODY(INPUT("input_ids", "[1,1]", "[40]")),
                                              400, "option", "/inputs/0", "is 40" });
    counts_of("bert", &more_executions, &more_items, &more_failures);
    assert_int_equal(more_executions, executions + 1);
    assert_int_equal(more_items, items + 3);
    assert_int_equal(more_failures, failures + 1);
    oip_answer_free(&answer);
    oip_request_free(&request);
}

static int start(void **state)
{
    fixture_make_directory(state);
    traced_model_save(directory);
    traced_families_save(directory);
    hybrid_model_make(fixture_path("lfm2"));
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
