/* SPDX-License-Identifier: Apache-2.0 */
/* test_embedding.c - the vector of a trace: poolings, and the modules of sentence-transformers
 * beside a checkpoint, against the same in double (vector_case.h). */
#include "answer.h"
#include "fixture.h"
#include "forward_bert.h"
#include "gguf_models.h"
#include "request_text.h"
#include "test.h"
#include "vector_case.h"

#include <signal.h>

enum { WIDTH = 12 };

static const int IDS[FORWARD_BERT_TOKENS] = { 2, 17, 39, 5, 5, 30, 3 };
static const int TYPES[FORWARD_BERT_TOKENS] = { 0 };
static const int POSITIONS[FORWARD_BERT_TOKENS] = { 0, 1, 2, 3, 4, 5, 6 };

#define TOKENS "\"tokens\":[2,17,39,5,5,30,3]"

static const char CONFIG[] =
    JSON({"model_type":"bert","hidden_size":12,"num_attention_heads":2,"num_hidden_layers":2,"intermediate_size":20,"vocab_size":40,"max_position_embeddings":16});

/* dense and narrow are what Dense modules have. */
#define TENSORS                                                                                    \
    BERT_EMBEDDINGS("", 2, 12, FORWARD_NORM)                                                       \
    BERT_BLOCK("encoder.layer.#.", 12, 20, FORWARD_NORM)                                           \
    FORWARD_LINEAR("dense", 10, 12)                                                                \
    FORWARD_TENSOR("narrow.weight", 6x10)                                                          \
    FORWARD_TENSOR("pair.weight", 8x24)
#define POOLER FORWARD_LINEAR("pooler.dense", 12, 12)

/* Opens the model's tensors and returns the rows that leave it. */
static struct rows open_model(const char *tensors)
{
    published_open(CONFIG, tensors, FORWARD_BERT_LAYERS, "F32");
    return forward_bert(&(struct forward_bert){ "", "gelu", 1e-12, IDS, TYPES, POSITIONS, 0, 0 })
        .final_hidden_states;
}

static const char *make_folder(const char *name)
{
    const char *path = fixture_path(name);
    published_save(path, CONFIG);
    return path;
}

static void close_model(void)
{
    fixture_stop(NULL);
    published_close();
}

/* --------------------------------------------------------------------- poolings -- */

/* BertPooler: what the checkpoint says, where nothing lies beside it. */
TEST(pooler)
{
    const struct rows rows = open_model(TENSORS POOLER);
    make_folder("pooled");
    fixture_serve("--models", directory);
    const struct rows first = vector_pool(rows, "cls", 0);
    vector_expect(&client, "pooled", TOKENS, "embedding",
                  forward_activation(published_linear(first, "pooler.dense", 0), "tanh"));
    close_model();
}

/* Each pooling that a request can ask for; none of the checkpoint's layers follows it. */
TEST(poolings)
{
    static const char *const NAMES[][2] = { { "cls", "cls" },
                                            { "max", "max" },
                                            { "mean", "mean" },
                                            { "mean_sqrt_len", "mean_sqrt_len_tokens" },
                                            { "weightedmean", "weightedmean" },
                                            { "last", "lasttoken" } };
    const struct rows rows = open_model(TENSORS POOLER);
    make_folder("poolings");
    fixture_serve("--models", directory);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        char fields[128];
        snprintf(fields, sizeof fields, TOKENS ",\"pooling\":\"%s\"", NAMES[i][0]);
        vector_expect(&client, "poolings", fields, "embedding", vector_pool(rows, NAMES[i][1], 0));
        snprintf(fields, sizeof fields, TOKENS ",\"pooling\":\"%s\",\"normalize\":true",
                 NAMES[i][0]);
        vector_expect(&client, "poolings", fields, "embedding",
                      vector_unit(vector_pool(rows, NAMES[i][1], 0)));
    }
    close_model();
}

/* ---------------------------------------------------------------------- modules -- */

#define MODULE(n, kind)                                                                            \
    "{\"idx\":" #n ",\"name\":\"" #n "\",\"path\":\"" #n "_" kind                                  \
    "\",\"type\":\"sentence_transformers.models." kind "\"}"
#define MODULES(more)                                                                              \
    "[{\"idx\":0,\"name\":\"0\",\"path\":\"\","                                                    \
    "\"type\":\"sentence_transformers.models.Transformer\"}" more "]"

/* all-MiniLM-L6-v2's: Pooling and Normalize. */
TEST(sentence_transformers)
{
    const struct rows rows = open_model(TENSORS POOLER);
    const char *folder = make_folder("minilm");
    vector_write(folder, "modules.json",
                 MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Normalize")));
    vector_write(folder, "1_Pooling/config.json",
                 JSON({"word_embedding_dimension":12,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true,"pooling_mode_max_tokens":false,"pooling_mode_mean_sqrt_len_tokens":false}));
    fixture_serve("--models", directory);
    const struct rows mean = vector_pool(rows, "mean", 0);
    vector_expect(&client, "minilm", TOKENS, "embedding", vector_unit(mean));
    vector_expect(&client, "minilm", TOKENS ",\"normalize\":true", "embedding", vector_unit(mean));
    vector_expect(&client, "minilm", TOKENS ",\"normalize\":false", "embedding", mean);
    vector_expect(&client, "minilm", TOKENS ",\"dimensions\":5", "embedding",
                  vector_unit(vector_cut(mean, 5)));
    vector_expect(&client, "minilm", TOKENS ",\"dimensions\":5,\"normalize\":false", "embedding",
                  vector_cut(mean, 5));
    vector_expect(&client, "minilm", TOKENS ",\"pooling\":\"cls\"", "embedding",
                  vector_pool(rows, "cls", 0));
    close_model();
}

/* Every flag of the older form of Pooling alone, and two of them side by side. */
TEST(pooling_flags)
{
    static const char *const FLAGS[] = { "cls_token",           "max_tokens",
                                         "mean_tokens",         "mean_sqrt_len_tokens",
                                         "weightedmean_tokens", "lasttoken" };
    static const char *const MODES[] = { "cls",          "max",      "mean", "mean_sqrt_len_tokens",
                                         "weightedmean", "lasttoken" };
    const struct rows rows = open_model(TENSORS);
    char name[32], text[256];
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "flag%d", i);
        const char *folder = make_folder(name);
        vector_write(folder, "modules.json", MODULES("," MODULE(1, "Pooling")));
        snprintf(text, sizeof text,
                 JSON({"word_embedding_dimension":12,"pooling_mode_mean_tokens":false,"pooling_mode_%s":true}),
                      FLAGS[i]);
        if (i == 2) /* a file of before there were others */
            snprintf(text, sizeof text, JSON({"word_embedding_dimension":12}));
        vector_write(folder, "1_Pooling/config.json", text);
    }
    const char *folder = make_folder("both");
    vector_write(folder, "1_Pooling/config.json", /* without modules.json */
                 JSON({"word_embedding_dimension":12,"pooling_mode_lasttoken":true,"pooling_mode_cls_token":true}));
    fixture_serve("--models", directory);
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "flag%d", i);
        vector_expect(&client, name, TOKENS, "embedding", vector_pool(rows, MODES[i], 0));
    }
    vector_expect(&client, "both", TOKENS, "embedding",
                  vector_join(vector_pool(rows, "cls", 0), vector_pool(rows, "lasttoken", 0)));
    close_model();
}

/* Of all files that the model is of. */
static int64_t parameters_of(const char *model)
{
    char path[100];
    snprintf(path, sizeof path, "/v1/models/%s", model);
    cJSON *description = answer_get(&client, path);
    const int64_t count =
        (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(description, "total_parameter_count"));
    cJSON_Delete(description);
    return count;
}

/* Dense with its default activation and with none, the newer names of modules, and modes in the
 * order of their list. */
TEST(dense)
{
    const struct rows rows = open_model(TENSORS);
    const char *folder = make_folder("dense");
    vector_write(folder, "modules.json",
                 MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense") "," MODULE(
                     3, "Dense") "," MODULE(4, "Normalize")));
    vector_write(folder, "1_Pooling/config.json",
                 JSON({"embedding_dimension":12,"pooling_mode":"mean","include_prompt":true}));
    vector_write(folder, "2_Dense/config.json", JSON({"in_features":12,"out_features":10}));
    vector_write_dense(folder, "2_Dense", "dense");
    vector_write(folder, "3_Dense/config.json",
                 JSON({"in_features":10,"out_features":6,"bias":false,"activation_function":"torch.nn.modules.linear.Identity"}));
    vector_write_dense(folder, "3_Dense", "narrow");
    folder = make_folder("pair");
    vector_write(folder, "modules.json",
                 "[{\"type\":\"sentence_transformers.base.modules.transformer.Transformer\"},"
                 "{\"path\":\"1_Pooling\",\"type\":"
                 "\"sentence_transformers.sentence_transformer.modules.pooling.Pooling\"},"
                 "{\"path\":\"2_Normalize\",\"type\":"
                 "\"sentence_transformers.base.modules.normalize.Normalize\"},"
                 "{\"path\":\"3_Dense\",\"type\":"
                 "\"sentence_transformers.base.modules.dense.Dense\"}]");
    vector_write(folder, "1_Pooling/config.json",
                 JSON({"embedding_dimension":12,"pooling_mode":["max","cls"]}));
    vector_write(folder, "3_Dense/config.json",
                 JSON({"in_features":24,"out_features":8,"bias":false,"activation_function":"torch.nn.modules.activation.GELU"}));
    vector_write_dense(folder, "3_Dense", "pair");
    make_folder("plain");
    fixture_serve("--models", directory);
    assert_int_equal(parameters_of("dense"), parameters_of("plain") + 12 * 10 + 10 + 10 * 6);
    assert_int_equal(parameters_of("pair"), parameters_of("plain") + 24 * 8);
    struct rows want = published_linear(vector_pool(rows, "mean", 0), "dense", 0);
    want = forward_product(forward_activation(want, "tanh"), published_tensor("narrow.weight", 0));
    vector_expect(&client, "dense", TOKENS, "embedding", vector_unit(want));
    vector_expect(&client, "dense", TOKENS ",\"normalize\":false", "embedding", want);
    vector_expect(&client, "dense", TOKENS ",\"dimensions\":2", "embedding",
                  vector_unit(vector_cut(want, 2)));
    want = vector_join(vector_pool(rows, "max", 0), vector_pool(rows, "cls", 0));
    want = forward_product(vector_unit(want), published_tensor("pair.weight", 0));
    vector_expect(&client, "pair", TOKENS, "embedding", forward_activation(want, "gelu"));
    close_model();
}

static void expect_nulls(const cJSON *vector, int nulls)
{
    const cJSON *number;
    int count = 0;
    cJSON_ArrayForEach(number, vector)
        count += cJSON_IsNull(number);
    assert_int_equal(count, nulls);
}

/* A parameter that is no number makes numbers that are none: null in JSON, NaN where there are
 * floats. Where the vector is divided by its length, all are. */
TEST(no_numbers)
{
    open_model(TENSORS);
    const char *folder = make_folder("broken");
    vector_write(folder, "modules.json", MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")));
    vector_write(folder, "1_Pooling/config.json", JSON({"embedding_dimension":12}));
    vector_write(folder, "2_Dense/config.json", JSON({"in_features":12,"out_features":10}));
    vector_write_dense(folder, "2_Dense", "dense");
    vector_break(folder, "2_Dense/model.safetensors", "linear.bias");
    fixture_serve("--models", directory);
    struct http_response response = http_client_post(
        &client, "/embed", JSON({"model":"broken","inputs":[2,17,39],"normalize":false}));
    assert_int_equal(response.status, 200);
    cJSON *answer = cJSON_Parse(response.body);
    http_response_free(&response);
    expect_nulls(answer->child, 1);
    assert_true(cJSON_IsNull(answer->child->child));
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/embeddings", JSON({"model":"broken","input":[2,17,39]}));
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(answer, "data");
    expect_nulls(cJSON_GetObjectItemCaseSensitive(data->child, "embedding"), 10);
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/embeddings",
                         JSON({"model":"broken","input":[2,17,39],"encoding_format":"base64"}));
    data = cJSON_GetObjectItemCaseSensitive(answer, "data");
    assert_int_equal(
        strlen(cJSON_GetObjectItemCaseSensitive(data->child, "embedding")->valuestring),
        56); /* of 40 bytes */
    cJSON_Delete(answer);
    close_model();
}

/* The pooling of the model's description. */
static bool is_pooling(const char *model, const char *pooling)
{
    char path[64];
    snprintf(path, sizeof path, "/v1/models/%s", model);
    cJSON *answer = answer_get(&client, path);
    const cJSON *embedding = cJSON_GetObjectItemCaseSensitive(answer, "embedding");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(embedding, "pooling");
    const bool is_it = list && strcmp(list->child->valuestring, pooling) == 0;
    cJSON_Delete(answer);
    return is_it;
}

/* At SIGHUP a module that has changed is a change of the model. */
TEST(changed_module)
{
    const struct rows rows = open_model(TENSORS);
    const char *folder = make_folder("changed");
    vector_write(folder, "modules.json", MODULES("," MODULE(1, "Pooling")));
    vector_write(folder, "1_Pooling/config.json", JSON({"word_embedding_dimension":12}));
    fixture_serve("--models", directory);
    assert_true(is_pooling("changed", "mean"));
    vector_write(fixture_path("changed"), "1_Pooling/config.json",
                 JSON({"word_embedding_dimension":12,"pooling_mode":"max"}));
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    for (int i = 0; i < 1000 * daemon_slowness() && !is_pooling("changed", "max"); i++)
        daemon_pause(0.01);
    vector_expect(&client, "changed", TOKENS, "embedding", vector_pool(rows, "max", 0));
    close_model();
}

/* ------------------------------------------------------------------------- GGUF -- */

/* llama.cpp's enum llama_pooling_type: 0 none, 1 mean, 2 cls, 3 last, 4 rank. */
TEST(gguf)
{
    static const struct {
        const char *from, *to, *pooling;
    } CASES[] = {
        { "I 2", "I 1", "mean" }, { "I 2", "I 2", "cls" }, { "I 2", "I 3", "last" },
        { "I 2", "I 4", NULL },   { "I 2", "I 0", NULL },
    };
    const struct gguf_model_form form = { .type = "F32" };
    for (int i = 0; i < 5; i++) {
        struct gguf_model model = *gguf_model_named("bert");
        char name[32], pairs[1024];
        const char *at = strstr(model.pairs, ".pooling_type ");
        assert_non_null(at);
        snprintf(pairs, sizeof pairs, "%.*s.pooling_type %s%s", (int)(at - model.pairs),
                 model.pairs, CASES[i].to, at + strlen(".pooling_type ") + strlen(CASES[i].from));
        model.pairs = pairs;
        snprintf(name, sizeof name, "pooled%d.gguf", i);
        gguf_model_write(&model, form, fixture_path(name));
    }
    fixture_serve("--models", directory);
    for (int i = 0; i < 5; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 JSON({"model":"pooled%d","layers":[],"outputs":["embedding"],"tokens":[1,2,3,4]}),
                                                    i);
        struct http_response response = http_client_post(&client, "/v1/trace", body);
        if (!CASES[i].pooling) {
            answer_expect_fault(&response, 400, "option", "/outputs");
            http_response_free(&response);
            continue;
        }
        cJSON *own = answer_json(&response, 200);
        snprintf(body, sizeof body,
                 JSON({"model":"pooled%d","layers":[],"outputs":["embedding"],"tokens":[1,2,3,4],"pooling":"%s"}), i,
                                 CASES[i].pooling);
        cJSON *asked = answer_post(&client, "/v1/trace", body);
        assert_true(cJSON_Compare(cJSON_GetObjectItemCaseSensitive(own, "embedding"),
                                  cJSON_GetObjectItemCaseSensitive(asked, "embedding"), 1));
        cJSON_Delete(asked);
        cJSON_Delete(own);
        http_response_free(&response);
    }
    fixture_stop(NULL);
}

/* ---------------------------------------------------------------------- refused -- */

static void expect_refused(const char *model, const char *more, const char *pointer,
                           const char *words)
{
    char body[256];
    snprintf(body, sizeof body,
             JSON({"model":"%s","layers":[],"outputs":["embedding"]%s}), model, more);
    struct http_response response = http_client_post(&client, "/v1/trace", body);
    if (!strstr(response.body, words))
        fail_msg("%s has not '%s'", response.body, words);
    answer_expect_fault(&response, 400, "option", pointer);
    http_response_free(&response);
}

static const struct {
    const char *modules, *pooling, *dense, *words;
} BROKEN[] = {
    { "{}", NULL, NULL, "modules.json is an object; expected a list of modules" },
    { "[", NULL, NULL, "JSON" },
    { "[{\"type\":\"sentence_transformers.models.CLIPModel\",\"path\":\"\"}]", NULL, NULL,
      "a module 'sentence_transformers.models.CLIPModel' at its beginning" },
    { MODULES(""), NULL, NULL, "modules.json has no module Pooling" },
    { MODULES("," MODULE(1, "Pooling")), NULL, NULL, "'1_Pooling/config.json' is missing" },
    { MODULES("," MODULE(1, "Pooling")), "{", NULL, "1_Pooling/config.json: malformed JSON" },
    { MODULES("," MODULE(1, "Pooling")), "[]", NULL,
      "1_Pooling/config.json is an array of numbers; expected an object" },
    { MODULES(",{\"type\":\"Pooling\",\"path\":\"\"}"), NULL, NULL,
      "the path of its module 'Pooling' is empty, so its config.json would be the model's own" },
    { MODULES("," MODULE(1, "Pooling") ",{\"type\":\"Dense\",\"path\":\"\"}"),
      "{\"embedding_dimension\":12}", NULL, "the path of its module 'Dense' is empty" },
    { "[{\"type\":7}]", NULL, NULL, "modules.json's type is 7; expected a string" },
    { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")), "{\"embedding_dimension\":12}", "x",
      "2_Dense/config.json: malformed JSON" },
    { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")), "{\"embedding_dimension\":12}",
      "{\"in_features\":\"12\"}", "2_Dense/config.json's in_features is a string; expected" },
    { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")), "{\"embedding_dimension\":12}",
      "{\"in_features\":12}", "has out_features 0; expected 1 or more" },
    { MODULES("," MODULE(1, "Pooling")),
      JSON({"word_embedding_dimension":13}), NULL,
           "is of rows of 13 columns; those of the model have 12" },
      { MODULES("," MODULE(1, "Pooling")),
        JSON({"embedding_dimension":12,"pooling_mode":"median"}), NULL,
             "1_Pooling/config.json's pooling_mode 'median' is not computed "
             "here" },
        { MODULES("," MODULE(1, "Pooling")),
          JSON({"word_embedding_dimension":12,"pooling_mode_mean_tokens":1}), NULL,
               "1_Pooling/config.json's pooling_mode_mean_tokens is 1; expected "
               "true or false" },
          { MODULES("," MODULE(1, "Pooling") "," MODULE(1, "Pooling")),
            JSON({"word_embedding_dimension":12}), NULL,
                 "modules.json has two modules of Pooling" },
            { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "LSTM")),
              JSON({"word_embedding_dimension":12}), NULL,
                   "a module 'sentence_transformers.models.LSTM'" },
              { MODULES(",{\"type\":\"Pooling\",\"path\":\"../1_Pooling\"}"), NULL, NULL,
                "the path '../1_Pooling' of a module is no plain name" },
              { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")),
                JSON({"word_embedding_dimension":12}), NULL, "'2_Dense/config.json' is missing" },
                { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")),
                  JSON({"word_embedding_dimension":12}),
                      JSON({"in_features":11,"out_features":10}),
                           "has in_features 11; what enters it has 12 numbers" },
                      { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")),
                        JSON({"word_embedding_dimension":12}),
                            JSON({"in_features":12,"out_features":11}),
                                 "'linear.weight' of its Dense is not of 11 outputs" },
                            { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")),
                              JSON({"word_embedding_dimension":12}),
                                  JSON({"in_features":12,"out_features":10,"activation_function":"torch.nn.modules.activation.ELU"}),
                                       "2_Dense/config.json's activation_function "
                                       "'torch.nn.modules.activation.ELU' is "
                                       "not computed here" },
                                  { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")),
                                    JSON({"word_embedding_dimension":12}),
                                        JSON({"in_features":12,"out_features":10,"activation_function":"."}),
                                             "is not computed here" },
                                        { MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense")),
                                          JSON({"word_embedding_dimension":12}),
                                              JSON({"in_features":12,"out_features":10,"use_residual":true}),
                                                   "2_Dense/config.json: a Dense with use_residual "
                                                   "is not computed here" },
                                         };
enum { BROKEN_COUNT = sizeof BROKEN / sizeof BROKEN[0] };

/* What is not understood is a reason, and traces answer all the same. */
TEST(broken_modules)
{
    const struct rows rows = open_model(TENSORS POOLER);
    char name[32];
    for (int i = 0; i < BROKEN_COUNT; i++) {
        snprintf(name, sizeof name, "broken%d", i);
        const char *folder = make_folder(name);
        vector_write(folder, "modules.json", BROKEN[i].modules);
        if (BROKEN[i].pooling)
            vector_write(folder, "1_Pooling/config.json", BROKEN[i].pooling);
        if (BROKEN[i].dense) {
            vector_write(folder, "2_Dense/config.json", BROKEN[i].dense);
            vector_write_dense(folder, "2_Dense", "dense");
        }
    }
    fixture_serve("--models", directory);
    for (int i = 0; i < BROKEN_COUNT; i++) {
        snprintf(name, sizeof name, "broken%d", i);
        expect_refused(name, "," TOKENS, "/outputs", BROKEN[i].words);
        vector_expect(&client, name, TOKENS ",\"pooling\":\"mean\"", "embedding",
                      vector_pool(rows, "mean", 0));
    }
    close_model();
}

/* So are files of settings and prompts. */
TEST(broken_settings)
{
    static const char *const FILES[][3] = {
        { "sentence_bert_config.json", "{\"max_seq_length\":\"512\"}",
          "sentence_bert_config.json's max_seq_length is a string; expected a number" },
        { "sentence_bert_config.json", "{", "sentence_bert_config.json: malformed JSON" },
        { "config_sentence_transformers.json", "[1]",
          "config_sentence_transformers.json is an array of numbers; expected an object" },
    };
    char name[32];
    open_model(TENSORS POOLER);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "settings%d", i);
        vector_write(make_folder(name), FILES[i][0], FILES[i][1]);
    }
    fixture_serve("--models", directory);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "settings%d", i);
        expect_refused(name, "," TOKENS, "/outputs", FILES[i][2]);
    }
    close_model();
}

TEST(refused)
{
    open_model(TENSORS);
    make_folder("bare");
    fixture_serve("--models", directory);
    expect_refused("bare", "," TOKENS, "/outputs",
                   "there is no modules.json beside it, and no pooler in its file; say it with");
    expect_refused("bare", ",\"tokens\":[],\"pooling\":\"mean\"", "/tokens", "there are no rows");
    expect_refused("bare", "," TOKENS ",\"pooling\":\"mean\",\"dimensions\":13", "/dimensions",
                   "dimensions is 13; an embedding of model 'bare' has 12 numbers");
    expect_refused("bare", "," TOKENS ",\"pooling\":\"mean\",\"dimensions\":0", "/dimensions", "0");
    expect_refused("bare", "," TOKENS ",\"pooling\":\"median\"", "/pooling", "weightedmean");
    close_model();
}

/* ------------------------------------------------------------------------- laws -- */

static const cJSON *embedding_of(const cJSON *answer)
{
    const cJSON *embedding = cJSON_GetObjectItemCaseSensitive(answer, "embedding");
    assert_true(cJSON_IsArray(embedding));
    return embedding;
}

/* Each input of a batch has the bits that it has alone, whatever pooling its neighbours have. */
TEST(batches)
{
    static const char *const INPUTS[] = { TOKENS, "\"tokens\":[5]",
                                          "\"tokens\":[7,7,9,30],\"pooling\":\"max\"",
                                          "\"tokens\":[30,1],\"normalize\":false",
                                          "\"tokens\":[30,1,2],\"dimensions\":3" };
    struct request_text body = { .data = NULL };
    open_model(TENSORS);
    const char *folder = make_folder("dense");
    vector_write(
        folder, "modules.json",
        MODULES("," MODULE(1, "Pooling") "," MODULE(2, "Dense") "," MODULE(3, "Normalize")));
    vector_write(folder, "1_Pooling/config.json", JSON({"word_embedding_dimension":12}));
    vector_write(folder, "2_Dense/config.json", JSON({"in_features":12,"out_features":10}));
    vector_write_dense(folder, "2_Dense", "dense");
    fixture_serve("--models", directory);
    request_text_add(
        &body, "{\"model\":\"dense\",\"layers\":[],\"outputs\":[\"embedding\"],\"requests\":[");
    for (int i = 0; i < 15; i++)
        request_text_add(&body, "%s{%s}", i > 0 ? "," : "", INPUTS[i % 5]);
    request_text_add(&body, "]}");
    cJSON *answer = answer_post(&client, "/v1/trace/batch", body.data);
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(answer, "results");
    assert_int_equal(cJSON_GetArraySize(results), 15);
    for (int i = 0; i < 15; i++) {
        char alone[256];
        snprintf(alone, sizeof alone,
                 JSON({"model":"dense","layers":[],"outputs":["embedding"],%s}), INPUTS[i % 5]);
        cJSON *single = answer_post(&client, "/v1/trace", alone);
        assert_true(cJSON_Compare(cJSON_GetArrayItem(results, i), single, 1));
        cJSON_Delete(single);
    }
    free(body.data);
    cJSON_Delete(answer);
    close_model();
}

/* A vector beside the one of the same pass without edits, which is that of a pass without them. */
TEST(edits)
{
    open_model(TENSORS POOLER);
    make_folder("pooled");
    fixture_serve("--models", directory);
    cJSON *plain = answer_post(
        &client, "/v1/trace",
        JSON({"model":"pooled","layers":[],"outputs":["embedding"],"tokens":[2,17,39,5,5,30,3]}));
    cJSON *edited = answer_post(
        &client, "/v1/trace",
        JSON({"model":"pooled","layers":[1],"outputs":["embedding","weights"],"tokens":[2,17,39,5,5,30,3],"compare":true,"edits":[{"layers":[0],"heads":[1],"scale":0}]}));
    answer_expect_members(edited, "model,tokens,layers,embedding,base_embedding");
    assert_true(cJSON_Compare(cJSON_GetObjectItemCaseSensitive(edited, "base_embedding"),
                              embedding_of(plain), 1));
    assert_false(cJSON_Compare(embedding_of(edited), embedding_of(plain), 1));
    cJSON_Delete(plain);
    cJSON_Delete(edited);
    close_model();
}

ALL_TESTS(fixture_make_directory, fixture_clear);
