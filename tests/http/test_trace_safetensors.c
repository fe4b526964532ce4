/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_safetensors.c - POST /v1/trace with safetensors files: the numbers are those of the
 * JSON form, to the last bit; other programs compare those with other implementations. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "tensor_body.h"
#include "tensor_file.h"
#include "test.h"
#include "traced_model.h"

static const char PATH[] = "/v1/trace";

/* The shape of nested lists, as text. */
static void shape_of(const cJSON *json, char *shape, size_t size, int64_t *count)
{
    size_t used = (size_t)snprintf(shape, size, "[");
    *count = 1;
    for (; cJSON_IsArray(json); json = json->child) {
        used += (size_t)snprintf(shape + used, size - used, "%s%d", used > 1 ? "," : "",
                                 cJSON_GetArraySize(json));
        *count *= cJSON_GetArraySize(json);
    }
    snprintf(shape + used, size - used, "]");
}

static const cJSON *first_leaf(const cJSON *json)
{
    while (cJSON_IsArray(json))
        json = json->child;
    return json;
}

/* Compares the leaves of nested lists with numbers; returns the first number that is left. */
static const void *expect_leaves(const cJSON *json, const void *numbers, bool is_integer)
{
    const cJSON *child;
    int64_t integer;
    float number;
    if (cJSON_IsArray(json)) {
        cJSON_ArrayForEach(child, json)
            numbers = expect_leaves(child, numbers, is_integer);
        return numbers;
    }
    assert_true(cJSON_IsNumber(json) || cJSON_IsNull(json));
    if (is_integer) {
        memcpy(&integer, numbers, sizeof integer);
        assert_true((double)integer == json->valuedouble);
        return (const char *)numbers + sizeof integer;
    }
    memcpy(&number, numbers, sizeof number);
    assert_true(cJSON_IsNull(json) ? number == -INFINITY : number == (float)json->valuedouble);
    return (const char *)numbers + sizeof number;
}

static void expect_tensor(const struct http_response *file, const cJSON *header, const char *name,
                          const cJSON *json, bool is_integer)
{
    char shape[64];
    int64_t count;
    shape_of(json, shape, sizeof shape, &count);
    assert_non_null(first_leaf(json));
    expect_leaves(json, tensor_body_find(file, header, name, is_integer ? "I64" : "F32", shape),
                  is_integer);
}

static void expect_metadata(const cJSON *header, const char *name, const cJSON *want)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(header, "__metadata__");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(metadata, name);
    assert_true(cJSON_IsString(value));
    cJSON *got = cJSON_Parse(value->valuestring);
    if (!cJSON_Compare(got, want, true))
        fail_msg("%s is %s", name, value->valuestring);
    cJSON_Delete(got);
}

static int expect_layer(const struct http_response *file, const cJSON *header, const cJSON *layer)
{
    const int number = cJSON_GetObjectItemCaseSensitive(layer, "layer")->valueint;
    const cJSON *member;
    int count = 0;
    char name[96];
    cJSON_ArrayForEach(member, layer) {
        if (strcmp(member->string, "layer") == 0 || strcmp(member->string, "kind") == 0)
            continue;
        snprintf(name, sizeof name, "layers.%d.%s", number, member->string);
        count++;
        if (cJSON_IsArray(member)) {
            expect_tensor(file, header, name, member, false);
            continue;
        }
        strcat(name, ".values");
        expect_tensor(file, header, name, cJSON_GetObjectItem(member, "values"), false);
        snprintf(name, sizeof name, "layers.%d.%s.indices", number, member->string);
        expect_tensor(file, header, name, cJSON_GetObjectItem(member, "indices"), true);
        count++;
    }
    return count;
}

/* One list of a member of each prediction's candidates. */
static cJSON *gathered(const cJSON *predictions, const char *member)
{
    cJSON *lists = cJSON_CreateArray();
    const cJSON *prediction, *token;
    cJSON_ArrayForEach(prediction, predictions) {
        cJSON *list = cJSON_CreateArray();
        cJSON_ArrayForEach(token, cJSON_GetObjectItem(prediction, "tokens"))
            cJSON_AddItemToArray(list, cJSON_Duplicate(cJSON_GetObjectItem(token, member), true));
        cJSON_AddItemToArray(lists, list);
    }
    return lists;
}

static int expect_predictions(const struct http_response *file, const cJSON *header,
                              const cJSON *predictions)
{
    cJSON *positions = cJSON_CreateArray(), *ids = gathered(predictions, "id");
    cJSON *logprobs = gathered(predictions, "logprob");
    const cJSON *prediction;
    cJSON_ArrayForEach(prediction, predictions)
        cJSON_AddItemToArray(positions,
                             cJSON_Duplicate(cJSON_GetObjectItem(prediction, "position"), true));
    expect_tensor(file, header, "predictions.positions", positions, true);
    expect_tensor(file, header, "predictions.ids", ids, true);
    expect_tensor(file, header, "predictions.logprobs", logprobs, false);
    cJSON_Delete(positions);
    cJSON_Delete(ids);
    cJSON_Delete(logprobs);
    return 3;
}

static cJSON *kinds_of(const cJSON *layers)
{
    cJSON *list = cJSON_CreateArray();
    const cJSON *layer;
    cJSON_ArrayForEach(layer, layers) {
        cJSON *kind = cJSON_CreateObject();
        for (int i = 0; i < 2; i++) {
            const char *name = i == 0 ? "layer" : "kind";
            cJSON_AddItemToObject(kind, name,
                                  cJSON_Duplicate(cJSON_GetObjectItem(layer, name), true));
        }
        cJSON_AddItemToArray(list, kind);
    }
    return list;
}

/* That a file holds what a JSON answer holds, and nothing else. */
static void expect_same(const struct http_response *file, const cJSON *json)
{
    cJSON *header = tensor_body_header(file);
    const cJSON *layers = cJSON_GetObjectItem(json, "layers"), *layer;
    const cJSON *predictions = cJSON_GetObjectItem(json, "predictions");
    const cJSON *rows = cJSON_GetObjectItem(json, "final_hidden_states");
    const cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    cJSON *kinds = kinds_of(layers);
    int count = 1;
    assert_string_equal(cJSON_GetObjectItem(metadata, "model")->valuestring,
                        cJSON_GetObjectItem(json, "model")->valuestring);
    if (cJSON_GetObjectItem(json, "tokens"))
        expect_metadata(header, "tokens", cJSON_GetObjectItem(json, "tokens"));
    if (cJSON_GetObjectItem(json, "spans"))
        expect_metadata(header, "spans", cJSON_GetObjectItem(json, "spans"));
    expect_metadata(header, "layers", kinds);
    cJSON_ArrayForEach(layer, layers)
        count += expect_layer(file, header, layer);
    if (predictions)
        count += expect_predictions(file, header, predictions);
    if (rows)
        expect_tensor(file, header, "final_hidden_states", rows, false);
    assert_int_equal(cJSON_GetArraySize(header), count + (rows ? 1 : 0));
    cJSON_Delete(kinds);
    cJSON_Delete(header);
}

static void same_in_both_forms(const char *body)
{
    cJSON *json = answer_post(&client, PATH, body);
    struct http_response file = tensor_body_post_json(&client, PATH, body);
    expect_same(&file, json);
    http_response_free(&file);
    cJSON_Delete(json);
}

TEST(answers)
{
    static const char *const BODIES[] = {
        "{\"model\":\"llama\",\"tokens\":[3,4,5,6]}",
        "{\"model\":\"bert\",\"tokens\":[3,4,5],\"layers\":[2,0],\"outputs\":[\"weights\","
        "\"lse\",\"scores\",\"masked\",\"inputs\",\"hidden_states\",\"attention_output\","
        "\"predictions\"],\"positions\":[1,-1]}",
        "{\"model\":\"llama\",\"tokens\":[3,4,5,6,7],\"weight_map\":{\"top_k\":2},"
        "\"outputs\":[\"weights\",\"hidden_states\",\"predictions\"],\"top_k_tokens\":7}",
        "{\"model\":\"llama\",\"tokens\":[3,4,5,6,7],\"spans\":[[0,2],[1,5]],\"rows\":[-1]}",
        "{\"model\":\"llama\",\"tokens\":[3],\"layers\":[],\"outputs\":[\"predictions\"]}",
        "{\"model\":\"llama\",\"tokens\":[3],\"layers\":[1],\"outputs\":[]}",
        "{\"model\":\"bert\",\"text\":\"cat \\\"sat\",\"layers\":[]}",
    };
    for (size_t i = 0; i < sizeof BODIES / sizeof BODIES[0]; i++)
        same_in_both_forms(BODIES[i]);
}

/* More tensors than one call of writev() takes in the daemon. */
TEST(many_tensors)
{
    same_in_both_forms(
        "{\"model\":\"stories260K\",\"tokens\":[1,403,407,261],\"outputs\":[\"weights\",\"lse\","
        "\"scores\",\"masked\",\"inputs\",\"hidden_states\",\"attention_output\","
        "\"predictions\"]}");
}

/* A table of scores under a name: what each member of a list is in JSON, beside the tensor. The
 * first of log-probs has no score. */
static void expect_table(const struct http_response *file, const cJSON *header, const char *name,
                         const cJSON *list)
{
    static const char *const MEMBERS[][2] = { { "positions", "position" },
                                              { "ids", "id" },
                                              { "ranks", "rank" },
                                              { "logprobs", "logprob" },
                                              { "differences", "difference" } };
    for (int i = 0; i < 5; i++) {
        const char *numbers = NULL;
        char path[64], shape[24];
        const cJSON *item;
        snprintf(path, sizeof path, "%s.%s", name, MEMBERS[i][0]);
        snprintf(shape, sizeof shape, "[%d]", cJSON_GetArraySize(list));
        numbers = tensor_body_find(file, header, path, i < 3 ? "I64" : "F32", shape);
        cJSON_ArrayForEach(item, list) {
            const cJSON *member = cJSON_GetObjectItemCaseSensitive(item, MEMBERS[i][1]);
            if (cJSON_IsNumber(member))
                expect_leaves(member, numbers, i < 3);
            numbers += i < 3 ? sizeof(int64_t) : sizeof(float);
        }
    }
}

/* The texts under a path of names in a string of the metadata are those of JSON. */
static void expect_texts(const cJSON *header, const char *name, const char *inner,
                         const cJSON *want)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(header, "__metadata__");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(metadata, name);
    assert_true(cJSON_IsString(value));
    cJSON *said = cJSON_Parse(value->valuestring);
    const cJSON *got = inner ? cJSON_GetObjectItemCaseSensitive(said, inner) : said;
    if (!cJSON_Compare(cJSON_GetObjectItemCaseSensitive(got, "texts"), want, true))
        fail_msg("%s has %s", name, value->valuestring);
    cJSON_Delete(said);
}

static cJSON *texts_of(const cJSON *list, const char *inner)
{
    cJSON *texts = cJSON_CreateArray();
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        const cJSON *of = inner ? cJSON_GetObjectItemCaseSensitive(item, inner) : item;
        cJSON *text = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(of, "text"), true);
        cJSON_AddItemToArray(texts, text ? text : cJSON_CreateNull());
    }
    return texts;
}

/* Targets, log-probs and what they are compared to, with the texts that JSON has. */
TEST(scores)
{
    static const char BODY[] =
        "{\"model\":\"story\",\"text\":\"One day\",\"layers\":[],\"top_k_tokens\":2,"
        "\"compare\":true,\"outputs\":[\"predictions\",\"logprobs\"],\"edits\":[{\"scale\":0}],"
        "\"targets\":[{\"token\":\",\"},{\"token\":3,\"position\":0,\"against\":\"a\"}]}";
    cJSON *json = answer_post(&client, PATH, BODY);
    struct http_response file = tensor_body_post_json(&client, PATH, BODY);
    cJSON *header = tensor_body_header(&file);
    const cJSON *targets = cJSON_GetObjectItem(json, "targets");
    const cJSON *logprobs = cJSON_GetObjectItem(json, "logprobs");
    cJSON *texts = texts_of(targets, NULL), *against = texts_of(targets, "against");
    cJSON *of_tokens = texts_of(logprobs, NULL), *logprob_tokens = gathered(logprobs, "text");
    cJSON *base = gathered(cJSON_GetObjectItem(json, "base_predictions"), "text");
    cJSON_DeleteItemFromArray(logprob_tokens, 0); /* the first token has none */
    expect_table(&file, header, "targets", targets);
    expect_texts(header, "targets", NULL, texts);
    expect_texts(header, "targets", "against", against);
    expect_table(&file, header, "logprobs", logprobs);
    expect_texts(header, "logprobs", NULL, of_tokens);
    expect_texts(header, "logprobs", "tokens", logprob_tokens);
    expect_metadata(header, "base_predictions", base);
    cJSON_Delete(texts), cJSON_Delete(against), cJSON_Delete(of_tokens);
    cJSON_Delete(logprob_tokens), cJSON_Delete(base);
    cJSON_Delete(header);
    cJSON_Delete(json);
    http_response_free(&file);
}

/* The members of this name of all items of a list, as a list. */
static cJSON *column_of(const cJSON *list, const char *name, int layer)
{
    cJSON *column = cJSON_CreateArray();
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        const cJSON *of =
            layer < 0 ? item : cJSON_GetArrayItem(cJSON_GetObjectItem(item, "layers"), layer);
        cJSON *member = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(of, name), true);
        assert_non_null(member);
        cJSON_AddItemToArray(column, member);
    }
    return column;
}

static void expect_column(const struct http_response *file, const cJSON *header, const char *path,
                          const cJSON *list, const char *name, int layer, bool is_integer)
{
    cJSON *column = column_of(list, name, layer);
    expect_tensor(file, header, path, column, is_integer);
    cJSON_Delete(column);
}

/* What is read of a pass: of each layer, and of targets. */
TEST(reading)
{
    static const char BODY[] =
        "{\"model\":\"llama\",\"tokens\":[3,4,5,3],\"layers\":[1],\"top_k_tokens\":2,"
        "\"outputs\":[\"lens\",\"norms\",\"rollout\",\"contributions\"],"
        "\"targets\":[{\"token\":7},{\"token\":3,\"against\":9}]}";
    cJSON *json = answer_post(&client, PATH, BODY);
    struct http_response file = tensor_body_post_json(&client, PATH, BODY);
    cJSON *header = tensor_body_header(&file);
    const cJSON *layer = cJSON_GetObjectItem(json, "layers")->child;
    const cJSON *lens = cJSON_GetObjectItem(layer, "lens"), *list;
    cJSON *ids = gathered(lens, "id"), *logprobs = gathered(lens, "logprob");
    expect_tensor(&file, header, "layers.1.norms", cJSON_GetObjectItem(layer, "norms"), false);
    expect_tensor(&file, header, "layers.1.rollout", cJSON_GetObjectItem(layer, "rollout"), false);
    expect_column(&file, header, "layers.1.lens.positions", lens, "position", -1, true);
    expect_tensor(&file, header, "layers.1.lens.ids", ids, true);
    expect_tensor(&file, header, "layers.1.lens.logprobs", logprobs, false);
    list = cJSON_GetObjectItem(lens->child, "targets");
    expect_column(&file, header, "layers.1.lens.targets.ids", list, "id", -1, true);
    expect_column(&file, header, "layers.1.lens.targets.ranks", list, "rank", -1, true);
    expect_column(&file, header, "layers.1.lens.targets.logprobs", list, "logprob", -1, false);
    list = cJSON_GetObjectItem(json, "contributions");
    expect_column(&file, header, "contributions.positions", list, "position", -1, true);
    expect_column(&file, header, "contributions.ids", list, "id", -1, true);
    expect_column(&file, header, "contributions.logits", list, "logit", -1, false);
    expect_column(&file, header, "contributions.embedding", list, "embedding", -1, false);
    expect_column(&file, header, "contributions.bias", list, "bias", -1, false);
    expect_column(&file, header, "contributions.layers.2.heads", list, "heads", 2, false);
    expect_column(&file, header, "contributions.layers.2.feed_forward", list, "feed_forward", 2,
                  false);
    cJSON_Delete(ids), cJSON_Delete(logprobs);
    cJSON_Delete(header);
    cJSON_Delete(json);
    http_response_free(&file);
}

TEST(kept)
{
    struct http_response file = tensor_body_post_json(
        &client, PATH, "{\"model\":\"llama\",\"tokens\":[3],\"keep\":\"60s\"}");
    cJSON *header = tensor_body_header(&file);
    char path[128];
    snprintf(
        path, sizeof path, "/v1/traces/%s",
        cJSON_GetObjectItem(cJSON_GetObjectItem(header, "__metadata__"), "trace")->valuestring);
    cJSON_Delete(answer_get(&client, path));
    cJSON_Delete(header);
    http_response_free(&file);
}

/* The same call in both forms; each is answered in both forms. */
static void same_body(const struct tensor_body *body, const char *metadata, const char *json)
{
    struct http_response plain = http_client_post(&client, PATH, json);
    struct http_response file_to_json =
        tensor_body_post(&client, PATH, body, metadata, 3, "application/json");
    struct http_response json_to_file = tensor_body_post_json(&client, PATH, json);
    struct http_response file_to_file = tensor_body_post(&client, PATH, body, metadata, 5, NULL);
    cJSON_Delete(answer_json(&plain, 200));
    assert_string_equal(file_to_json.body, plain.body);
    assert_int_equal(file_to_file.body_size, json_to_file.body_size);
    assert_memory_equal(file_to_file.body, json_to_file.body, json_to_file.body_size);
    http_response_free(&plain);
    http_response_free(&file_to_json);
    http_response_free(&json_to_file);
    http_response_free(&file_to_file);
}

TEST(bodies)
{
    static const int64_t TOKENS[] = { 3, 4, 5 }, ROWS[] = { -1 };
    static const int32_t TYPES[] = { 0, 1, 1 };
    static const unsigned char LAYERS[] = { 2, 0 };
    static const float HEADS[] = { 1, 0.5f, -2, 0 };
    static float embeddings[2][TRACED_WIDTH];
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "layers", "U8", "[2]", LAYERS, sizeof LAYERS);
    tensor_body_add(&body, "tokens", "I64", "[3]", TOKENS, sizeof TOKENS);
    tensor_body_add(&body, "token_types", "I32", "[3]", TYPES, sizeof TYPES);
    tensor_body_add(&body, "rows", "I64", "[1]", ROWS, sizeof ROWS);
    same_body(&body, "{\"model\":\"bert\",\"spans\":\"[[0,2]]\",\"format\":\"pt\"}",
              "{\"model\":\"bert\",\"tokens\":[3,4,5],\"token_types\":[0,1,1],\"layers\":[2,0],"
              "\"spans\":[[0,2]],\"rows\":[-1]}");
    body = (struct tensor_body){ .used = 0 };
    tensor_body_add(&body, "head_weights", "F32", "[1,4]", HEADS, sizeof HEADS);
    same_body(&body,
              "{\"model\":\"bert\",\"tokens\":\"[3,4,5]\",\"layers\":\"[1]\",\"spans\":\"[[0,2]]\","
              "\"row_spans\":\"[[0,3]]\"}",
              "{\"model\":\"bert\",\"tokens\":[3,4,5],\"layers\":[1],\"spans\":[[0,2]],"
              "\"row_spans\":[[0,3]],\"head_weights\":[[1,0.5,-2,0]]}");
    body = (struct tensor_body){ .used = 0 };
    for (int i = 0; i < TRACED_WIDTH; i++)
        embeddings[0][i] = 1, embeddings[1][i] = 0.5f;
    char *text = strdup("{\"model\":\"llama\",\"embeddings\":[[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
                        "[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]]}");
    tensor_body_add(&body, "embeddings", "F32", "[2,16]", embeddings, sizeof embeddings);
    same_body(&body, JSON({"model":"llama"}), text);
    free(text);
    body = (struct tensor_body){ .used = 0 };
    same_body(&body, "{\"model\":\"bert\",\"text\":\"cat \\\"sat\"}",
              "{\"model\":\"bert\",\"text\":\"cat \\\"sat\"}");
}

static void refused(const char *name, const char *dtype, const char *shape, const void *data,
                    size_t size, const char *metadata, const char *code, const char *pointer)
{
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, name, dtype, shape, data, size);
    struct http_response response = tensor_body_post(&client, PATH, &body, metadata, 0, NULL);
    answer_expect_fault(&response, 400, code, pointer);
    http_response_free(&response);
}

TEST(refused)
{
    static const int64_t IDS[] = { 3, -1, 99 };
    static const char MODEL[] = JSON({"model":"bert"});
    refused("tokens", "I64", "[2]", IDS, 16, MODEL, "option", "/tokens");
    refused("tokens", "I64", "[1,1]", IDS, 8, MODEL, "shape", "/tokens");
    refused("tokens", "F32", "[2]", IDS, 8, MODEL, "dtype", "/tokens");
    refused("tokens", "I64", "[1]", IDS + 2, 8, MODEL, "option", "/tokens/0");
    refused("tokens", "I64", "[1]", IDS, 8, "{\"model\":\"bert\",\"tokens\":\"[1]\"}", "duplicate",
            "/tokens");
    refused("token", "I64", "[1]", IDS, 8, MODEL, "field", "/token");
    refused("embeddings", "BOOL", "[1]", IDS, 1, MODEL, "dtype", "/embeddings");
    refused("embeddings", "F32", "[1]", IDS, 4, MODEL, "shape", "/embeddings");
    refused("tokens", "I64", "[1]", IDS, 8, JSON({"model":"bert","layers":"x"}), "type", "/layers");
    refused("tokens", "I64", "[1]", IDS, 8, JSON({"model":"bert","lse":"1"}), "field", "/lse");
}

/* A fault names the number that came, also one that no token's id can hold. */
TEST(large_id)
{
    static const int64_t ID = INT64_C(1) << 40;
    struct tensor_body body = { .used = 0 };
    tensor_body_add(&body, "tokens", "I64", "[1]", &ID, sizeof ID);
    struct http_response response =
        tensor_body_post(&client, PATH, &body, JSON({"model":"bert"}), 0, NULL);
    answer_expect_fault(&response, 400, "option", "/tokens/0");
    assert_non_null(strstr(response.body, "has the id 1099511627776;"));
    http_response_free(&response);
}

/* A batch is JSON in and out. */
TEST(batches_are_json)
{
    struct http_response response = tensor_body_post_json(
        &client, "/v1/trace/batch", "{\"model\":\"bert\",\"requests\":[{\"tokens\":[3]}]}");
    cJSON_Delete(answer_json(&response, 200));
    http_response_free(&response);
}

static const char TOKENIZER[] =
    "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
    "\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"?\":0,\"cat\":5,\"\\\"sat\":9},"
    "\"unk_token\":\"?\"}}";

/* A file of the trained model, into the folder of a model. */
static void copy(const char *model, const char *name)
{
    char from[96], to[96];
    size_t size;
    snprintf(from, sizeof from, "examples/models/stories260K/%s", name);
    snprintf(to, sizeof to, "%s/%s", model, name);
    unsigned char *bytes = tensor_read_bytes(from, &size);
    daemon_directory_write(directory, to, (const char *)bytes, size);
    free(bytes);
}

static int start(void **state)
{
    fixture_make_directory(state);
    traced_model_save(directory);
    copy("stories260K", "config.json");
    copy("stories260K", "model.safetensors");
    copy("story", "config.json");
    copy("story", "model.safetensors");
    copy("story", "tokenizer.json");
    daemon_directory_write(directory, "bert/tokenizer.json", TOKENIZER, sizeof TOKENIZER - 1);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
