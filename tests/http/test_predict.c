/* SPDX-License-Identifier: Apache-2.0 */
/* test_predict.c - POST /predict and POST /rerank: the logits of traces, in the form of
 * text-embeddings-inference.
 *
 * Requests marked TEI are those of its README.md and docs/source/en/quick_tour.md (Apache-2.0), as
 * they stand. */
#include "answer.h"
#include "fixture.h"
#include "forward_bert.h"
#include "request_text.h"
#include "test.h"
#include "vector_case.h"
#include "word_model.h"

#define SIZES                                                                                      \
    "\"hidden_size\":12,\"num_attention_heads\":2,\"num_hidden_layers\":2,"                        \
    "\"intermediate_size\":20,\"vocab_size\":40,\"max_position_embeddings\":32"
#define TENSORS                                                                                    \
    FORWARD_TENSOR("bert.embeddings.word_embeddings.weight", 40x12)                                \
    FORWARD_TENSOR("bert.embeddings.position_embeddings.weight", 32x12)                            \
    FORWARD_TENSOR("bert.embeddings.token_type_embeddings.weight", 2x12)                           \
    FORWARD_NORM("bert.embeddings.LayerNorm", 12)                                                  \
    BERT_BLOCK("bert.encoder.layer.#.", 12, 20, FORWARD_NORM)                                      \
    FORWARD_LINEAR("bert.pooler.dense", 12, 12)

static void make_model(const char *name, const char *head, const char *more)
{
    char config[512], tensors[4096];
    snprintf(config, sizeof config,
             "{\"model_type\":\"bert\",\"architectures\":[\"%s\"]," SIZES "%s}", head, more);
    snprintf(tensors, sizeof tensors, "%s%s", TENSORS,
             strcmp(name, "ranker") == 0 ? FORWARD_LINEAR("classifier", 1, 12)
                                         : FORWARD_LINEAR("classifier", 3, 12));
    published_open(config, tensors, 2, "F32");
    published_save(fixture_path(name), config);
    published_close();
    vector_write(fixture_path(name), "tokenizer.json", word_model_tokenizer);
}

/* Two models of classes and one of ranks; a model of vectors would not be in the way. */
static int start(void **state)
{
    fixture_make_directory(state);
    make_model("moods", "BertForSequenceClassification",
               ",\"id2label\":{\"0\":\"sad\",\"1\":\"calm\",\"2\":\"glad\"}");
    make_model("many", "BertForSequenceClassification",
               ",\"problem_type\":\"multi_label_classification\"");
    make_model("ranker", "BertForSequenceClassification", "");
    make_model("entities", "BertForTokenClassification", "");
    fixture_serve("--models", directory);
    return 0;
}

/* ------------------------------------------------------------------------ help -- */

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!found)
        fail_msg("there is no %s", name);
    return found;
}

static cJSON *post_list(const char *path, const char *body)
{
    struct http_response response = http_client_post(&client, path, body);
    if (response.status != 200)
        fail_msg("%s: %ld %s", body, response.status, response.body);
    cJSON *answer = cJSON_Parse(response.body);
    assert_true(cJSON_IsArray(answer));
    http_response_free(&response);
    return answer;
}

static cJSON *trace_logits(const char *model, const char *fields)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, JSON({"model":"%s","layers":[],"outputs":["logits"],%s}), model,
                                  fields);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    free(body.data);
    return answer;
}

/* Each class once with the number that the trace has for it, the highest first. */
static void expect_predictions(const cJSON *predictions, const char *model, const char *fields,
                               const char *numbers)
{
    cJSON *trace = trace_logits(model, fields);
    const cJSON *labels = member(trace, "labels"), *prediction;
    double before = INFINITY;
    assert_int_equal(cJSON_GetArraySize(predictions), cJSON_GetArraySize(labels));
    cJSON_ArrayForEach(prediction, predictions) {
        const double score = member(prediction, "score")->valuedouble;
        int i = 0;
        answer_expect_members(prediction, "score,label");
        while (strcmp(cJSON_GetArrayItem(labels, i)->valuestring,
                      member(prediction, "label")->valuestring)
               != 0)
            i++;
        assert_true(cJSON_GetArrayItem(member(trace, numbers), i)->valuedouble == score);
        assert_true(score < before);
        before = score;
    }
    cJSON_Delete(trace);
}

/* --------------------------------------------------------------------- predict -- */

/* The body is TEI's, which has no model: only one may have classes then. */
TEST(single)
{
    answer_refused(&client, "/predict", "{\"inputs\":\"I like you.\"}", 400, "field", "/model");
    cJSON *answer = post_list("/predict", JSON({"model":"moods","inputs":"I like you."}));
    expect_predictions(answer, "moods", "\"text\":\"I like you.\"", "probabilities");
    cJSON_Delete(answer);
    answer = post_list("/predict", JSON({"model":"moods","inputs":["I like you."]}));
    expect_predictions(answer, "moods", "\"text\":\"I like you.\"", "probabilities");
    cJSON_Delete(answer);
    answer = post_list(
        "/predict", JSON({"model":"moods","inputs":["the cat","sat on mats"],"raw_scores":true}));
    expect_predictions(answer, "moods", "\"text\":\"the cat\",\"pair\":\"sat on mats\"", "logits");
    cJSON_Delete(answer);
    answer = post_list("/predict", JSON({"model":"many","inputs":"the cat"}));
    expect_predictions(answer, "many", "\"text\":\"the cat\"", "probabilities");
    cJSON_Delete(answer);
}

TEST(batch)
{
    cJSON *answer = post_list(
        "/predict",
        JSON({"model":"moods","inputs":[["I like you."],["I hate pineapples"],["the cat","sat"]],"truncate":true,"truncation_direction":"Right","raw_scores":false}));
    assert_int_equal(cJSON_GetArraySize(answer), 3);
    expect_predictions(cJSON_GetArrayItem(answer, 0), "moods", "\"text\":\"I like you.\"",
                       "probabilities");
    expect_predictions(cJSON_GetArrayItem(answer, 1), "moods", "\"text\":\"I hate pineapples\"",
                       "probabilities");
    expect_predictions(cJSON_GetArrayItem(answer, 2), "moods",
                       "\"text\":\"the cat\",\"pair\":\"sat\"", "probabilities");
    cJSON_Delete(answer);
}

TEST(predict_refused)
{
    static const struct {
        const char *body, *code, *pointer;
        long status;
    } CASES[] = {
        { JSON({"model":"moods"}), "field", "/inputs", 400 },
          { JSON({"model":"moods","inputs":[]}), "option", "/inputs", 400 },
            { JSON({"model":"moods","inputs":["a","b","c"]}), "option", "/inputs", 400 },
              { JSON({"model":"moods","inputs":[["a"],["a","b","c"]]}), "option", "/inputs", 400 },
                  { JSON({"model":"moods","inputs":[["a"],"b"]}), "type", "/inputs", 400 },
                      { JSON({"model":"moods","inputs":["a",["b"]]}), "type", "/inputs", 400 },
                          { JSON({"model":"moods","inputs":[1,2]}), "type", "/inputs", 400 },
                            { JSON({"model":"moods","inputs":[["a"],[]]}), "option", "/inputs", 400 },
                                { JSON({"model":"entities","inputs":"a"}), "option", "/model",
                                       400 },
                                  { JSON({"model":"demo","inputs":"a"}), "option", "/model", 400 },
                                    { JSON({"model":"nobody","inputs":"a"}), "not_found", "/model",
                                           404 },
                                      { JSON({"model":"moods","inputs":"a","top_k":1}), "field",
                                             "/top_k", 400 },
                                        { JSON({"model":"moods","inputs":[["on"],["the the the the the the the the the the the the the the the the the the the the the the the the the the the the the the the"]],"truncate":false}),
                                                "length", "/inputs/1", 400 },
                                        };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        answer_refused(&client, "/predict", CASES[i].body, CASES[i].status, CASES[i].code,
                       CASES[i].pointer);
}

/* ---------------------------------------------------------------------- rerank -- */

/* The only model of one class is found; scores are sigmoids of what a trace of the pair has. */
static void expect_ranks(const cJSON *ranks, const char *query, const char *const *texts, int count,
                         const char *numbers, bool has_text)
{
    double before = INFINITY;
    bool seen[8] = { false };
    const cJSON *rank;
    assert_int_equal(cJSON_GetArraySize(ranks), count);
    cJSON_ArrayForEach(rank, ranks) {
        const int i = member(rank, "index")->valueint;
        const double score = member(rank, "score")->valuedouble;
        char fields[256];
        answer_expect_members(rank, has_text ? "index,text,score" : "index,score");
        assert_true(i >= 0 && i < count && !seen[i] && score <= before);
        seen[i] = true;
        before = score;
        if (has_text)
            assert_string_equal(member(rank, "text")->valuestring, texts[i]);
        snprintf(fields, sizeof fields, "\"text\":\"%s\",\"pair\":\"%s\"", query, texts[i]);
        cJSON *trace = trace_logits("ranker", fields);
        assert_true(member(trace, numbers)->child->valuedouble == score);
        cJSON_Delete(trace);
    }
}

TEST(rerank)
{
    static const char *const TEI[] = { "Deep Learning is not...", "Deep learning is..." };
    cJSON *answer = post_list(
        "/rerank", "{\"query\":\"What is Deep Learning?\", \"texts\": [\"Deep Learning is "
                   "not...\", \"Deep learning is...\"], \"raw_scores\": false}"); /* TEI */
    expect_ranks(answer, "What is Deep Learning?", TEI, 2, "probabilities", false);
    cJSON_Delete(answer);
    answer = post_list("/rerank", "{\"query\": \"What is Deep Learning?\", \"texts\": [\"Deep "
                                  "Learning is not...\", \"Deep learning is...\"]}"); /* TEI */
    expect_ranks(answer, "What is Deep Learning?", TEI, 2, "probabilities", false);
    cJSON_Delete(answer);
    static const char *const TEXTS[] = { "mat", "the cat sat on mats.", "on", "cat", "the mats" };
    answer =
        post_list("/rerank", JSON({"query":"the cat","texts":["mat","the cat sat on mats.","on","cat","the mats"],"raw_scores":true,"return_text":true,"truncate":null,"truncation_direction":"Left"}));
    expect_ranks(answer, "the cat", TEXTS, 5, "logits", true);
    cJSON_Delete(answer);
}

/* Of equal scores the later text is first, as in TEI: an ascending sort, turned around. */
TEST(ties)
{
    cJSON *answer = post_list("/rerank", JSON({"query":"cat","texts":["on","on","on"]}));
    for (int i = 0; i < 3; i++)
        assert_int_equal(member(cJSON_GetArrayItem(answer, i), "index")->valueint, 2 - i);
    cJSON_Delete(answer);
}

/* A pair of 40 tokens in 32 places: 3 of the template, 29 of the longer text and the query. */
TEST(rerank_cuts)
{
    struct request_text text = { .data = NULL }, cut = { .data = NULL };
    request_text_add(&cut, "\"tokens\":[1,4,5,2");
    for (int i = 0; i < 35; i++)
        request_text_add(&text, "%s", i % 2 == 0 ? "the " : "on ");
    for (int i = 0; i < 27; i++)
        request_text_add(&cut, ",%d", i % 2 == 0 ? 3 : 8);
    request_text_add(&cut, ",2],\"token_types\":[0,0,0,0");
    for (int i = 0; i < 28; i++)
        request_text_add(&cut, ",1");
    request_text_add(&cut, "]");
    struct request_text body = { .data = NULL };
    request_text_add(&body, JSON({"query":"cat sat","texts":["%s"],"raw_scores":true}), text.data);
    cJSON *answer = post_list("/rerank", body.data);
    cJSON *trace = trace_logits("ranker", cut.data);
    assert_true(member(trace, "logits")->child->valuedouble
                == member(answer->child, "score")->valuedouble);
    cJSON_Delete(trace);
    cJSON_Delete(answer);
    free(body.data);
    free(cut.data);
    free(text.data);
}

TEST(rerank_refused)
{
    static const struct {
        const char *body, *code, *pointer;
        long status;
    } CASES[] = {
        { JSON({"texts":["a"]}), "field", "/query", 400 },
          { JSON({"query":"a"}), "field", "/texts", 400 },
            { JSON({"query":"a","texts":[]}), "option", "/texts", 400 },
              { JSON({"query":"a","texts":"b"}), "type", "/texts", 400 },
                { JSON({"query":["a"],"texts":["b"]}), "type", "/query", 400 },
                  { JSON({"query":"a","texts":[["b"]]}), "type", "/texts", 400 },
                      { JSON({"query":"a","texts":["b"],"model":"moods"}), "option", "/model",
                              400 },
                        { JSON({"query":"a","texts":["b"],"top_n":1}), "field", "/top_n", 400 },
                          { JSON({"query":"a","texts":["b"],"return_text":1}), "type",
                                  "/return_text", 400 },
                            { JSON({"query":"the","texts":["a","the the the the the the the the the the the the the the the the the the the the the the the the the the the the the the the"],"truncate":false}),
                                 "length", "/texts/1", 400 },
                          };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        answer_refused(&client, "/rerank", CASES[i].body, CASES[i].status, CASES[i].code,
                       CASES[i].pointer);
}

/* A query that is small in the body, and not before each of many texts. */
TEST(query_of_many_texts)
{
    enum { TEXTS = 1024, WORDS = 4096 };
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"query\":\"");
    for (int i = 0; i < WORDS; i++)
        request_text_add(&body, "the ");
    request_text_add(&body, "on\",\"texts\":[");
    for (int i = 0; i < TEXTS; i++)
        request_text_add(&body, i > 0 ? ",\"\"" : "\"\"");
    request_text_add(&body, "]}");
    answer_refused(&client, "/rerank", body.data, 413, "too_large", "/query");
    free(body.data);
}

/* The class of a parameter that is no number has no score, and is the last. */
TEST(no_numbers)
{
    vector_break(fixture_path("moods"), "model.safetensors", "classifier.bias");
    fixture_stop(NULL);
    fixture_serve("--models", directory);
    cJSON *answer = post_list("/predict", JSON({"model":"moods","inputs":"on","raw_scores":true}));
    assert_int_equal(cJSON_GetArraySize(answer), 3);
    assert_true(cJSON_IsNumber(member(cJSON_GetArrayItem(answer, 1), "score")));
    assert_true(cJSON_IsNull(member(cJSON_GetArrayItem(answer, 2), "score")));
    cJSON_Delete(answer);
}

/* Pairs whose items fit into the budget, and whose plans never do. */
TEST(never_fits)
{
    struct request_text body = { .data = NULL };
    char value[32];
    fixture_stop(NULL);
    fixture_serve("--models", directory, "--memory-max", "8MiB");
    request_text_add(&body, "{\"model\":\"ranker\",\"query\":\"the\",\"texts\":[");
    for (int i = 0; i < 1000; i++)
        request_text_add(&body, i > 0 ? ",\"on\"" : "\"on\"");
    request_text_add(&body, "]}");
    struct http_response response = http_client_post(&client, "/rerank", body.data);
    assert_null(http_response_header(&response, "Retry-After", value, sizeof value));
    answer_expect_fault(&response, 413, "too_large", NULL);
    http_response_free(&response);
    free(body.data);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
