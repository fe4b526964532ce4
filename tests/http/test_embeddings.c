/* SPDX-License-Identifier: Apache-2.0 */
/* test_embeddings.c - POST /v1/embeddings, /embed and /embed_all: the vectors of traces to the bit,
 * in the forms of OpenAI and of text-embeddings-inference.
 *
 * Requests marked TEI are those of text-embeddings-inference's README.md and docs/source/en/
 * quick_tour.md (Apache-2.0), as they stand. */
#include "answer.h"
#include "fixture.h"
#include "forward_bert.h"
#include "forward_llama.h"
#include "request_text.h"
#include "test.h"
#include "vector_case.h"
#include "word_model.h"

#include "base/base64.h"

#include <sys/stat.h>

static const char CONFIG[] =
    JSON({"model_type":"bert","hidden_size":12,"num_attention_heads":2,"num_hidden_layers":2,"intermediate_size":20,"vocab_size":40,"max_position_embeddings":16});

#define TENSORS                                                                                    \
    BERT_EMBEDDINGS("", 2, 12, FORWARD_NORM)                                                       \
    BERT_BLOCK("encoder.layer.#.", 12, 20, FORWARD_NORM)

/* The name that TEI's documentation calls every model. */
#define MODEL "text-embeddings-inference"

static void make_model(const char *name, const char *modules, const char *pooling)
{
    const char *folder = fixture_path(name);
    published_save(folder, CONFIG);
    vector_write(folder, "tokenizer.json", word_model_tokenizer);
    vector_write(folder, "modules.json", modules);
    vector_write(folder, "1_Pooling/config.json", pooling);
    vector_write(folder, "config_sentence_transformers.json",
                 JSON({"prompts":{"query":"the cat ","passage":""},"default_prompt_name":null}));
    vector_write(folder, "sentence_bert_config.json",
                 JSON({"max_seq_length":8,"do_lower_case":false}));
}

static int start(void **state)
{
    fixture_make_directory(state);
    published_open(CONFIG, TENSORS, FORWARD_BERT_LAYERS, "F32");
    make_model(MODEL,
               JSON([{"type":"sentence_transformers.models.Transformer"},{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},{"path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]),
                      JSON({"word_embedding_dimension":12,"pooling_mode_mean_tokens":true}));
    fixture_serve("--models", directory);
    return 0;
}

static int stop(void **state)
{
    published_close();
    return fixture_clear(state);
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

/* The vector of a trace with these fields, which "normalize" follows. */
static cJSON *trace_vector(const char *model, const char *fields)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, JSON({"model":"%s","layers":[],"outputs":["embedding"],%s}), model,
                                  fields);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    cJSON *vector = cJSON_DetachItemFromObjectCaseSensitive(answer, "embedding");
    assert_non_null(vector);
    cJSON_Delete(answer);
    free(body.data);
    return vector;
}

static void expect_vector(const cJSON *vector, const char *fields)
{
    cJSON *want = trace_vector(MODEL, fields);
    if (!cJSON_Compare(vector, want, 1))
        fail_msg("%s: the vector differs from that of a trace", fields);
    cJSON_Delete(want);
}

static void expect_usage(const cJSON *answer, int tokens)
{
    char want[64];
    snprintf(want, sizeof want, JSON({"prompt_tokens":%d,"total_tokens":%d}), tokens, tokens);
    answer_expect(answer, "usage", want, 0);
}

/* ---------------------------------------------------------------------- OpenAI -- */

/* TEI's curl of docs/source/en/quick_tour.md. */
TEST(openai)
{
    cJSON *answer =
        answer_post(&client, "/v1/embeddings",
                    "{\n    \"input\": \"What is Deep Learning?\",\n    \"model\": "
                    "\"text-embeddings-inference\",\n    \"encoding_format\": \"float\"\n  }");
    answer_expect_members(answer, "object,data,model,usage");
    const cJSON *data = member(answer, "data"), *first = cJSON_GetArrayItem(data, 0);
    assert_int_equal(cJSON_GetArraySize(data), 1);
    answer_expect_members(first, "object,index,embedding");
    answer_expect(first, "object", "\"embedding\"", 0);
    answer_expect(first, "index", "0", 0);
    answer_expect(answer, "object", "\"list\"", 0);
    answer_expect(answer, "model", "\"" MODEL "\"", 0);
    expect_vector(member(first, "embedding"), "\"text\":\"What is Deep Learning?\"");
    expect_usage(answer, 7);
    cJSON_Delete(answer);
}

/* Every form of input, in its order; each text has the bits that it has alone. */
TEST(openai_lists)
{
    cJSON *answer =
        answer_post(&client, "/v1/embeddings",
                    JSON({"input":["the cats sat on mats.","on","the cats sat on mats."]}));
    const cJSON *data = member(answer, "data");
    static const char *const TEXTS[] = { "\"text\":\"the cats sat on mats.\"", "\"text\":\"on\"",
                                         "\"text\":\"the cats sat on mats.\"" };
    assert_int_equal(cJSON_GetArraySize(data), 3);
    for (int i = 0; i < 3; i++)
        expect_vector(member(cJSON_GetArrayItem(data, i), "embedding"), TEXTS[i]);
    expect_usage(answer, 10 + 3 + 10);
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/embeddings", JSON({"input":[1,3,4,2]}));
    assert_int_equal(cJSON_GetArraySize(member(answer, "data")), 1);
    expect_vector(member(cJSON_GetArrayItem(member(answer, "data"), 0), "embedding"),
                  "\"tokens\":[1,3,4,2]");
    expect_usage(answer, 4);
    cJSON_Delete(answer);
    answer = answer_post(&client, "/v1/embeddings", JSON({"input":[[1,3,4,2],[5]],"user":"me"}));
    data = member(answer, "data");
    expect_vector(member(cJSON_GetArrayItem(data, 0), "embedding"), "\"tokens\":[1,3,4,2]");
    expect_vector(member(cJSON_GetArrayItem(data, 1), "embedding"), "\"tokens\":[5]");
    cJSON_Delete(answer);
}

/* Little-endian floats, the same numbers. The body is what npm's openai 6.49.0 sends for an
 * embeddings.create({model, input}). */
TEST(openai_base64)
{
    cJSON *answer = answer_post(
        &client, "/v1/embeddings",
        JSON({"model":"text-embeddings-inference","input":"the cat","encoding_format":"base64"}));
    const cJSON *text = member(cJSON_GetArrayItem(member(answer, "data"), 0), "embedding");
    assert_true(cJSON_IsString(text));
    float numbers[16];
    assert_int_equal(base64_decode(text->valuestring, strlen(text->valuestring),
                                   (unsigned char *)text->valuestring),
                     12 * sizeof(float));
    memcpy(numbers, text->valuestring, 12 * sizeof(float));
    cJSON *want = trace_vector(MODEL, "\"text\":\"the cat\"");
    for (int c = 0; c < 12; c++)
        assert_true(numbers[c] == (float)cJSON_GetArrayItem(want, c)->valuedouble);
    cJSON_Delete(want);
    cJSON_Delete(answer);
}

/* The first numbers, then divided by their length. */
TEST(openai_dimensions)
{
    cJSON *answer = answer_post(&client, "/v1/embeddings",
                                JSON({"input":"the cat","dimensions":4,"pooling":"max"}));
    const cJSON *vector = member(cJSON_GetArrayItem(member(answer, "data"), 0), "embedding");
    expect_vector(vector,
                  "\"text\":\"the cat\",\"pooling\":\"max\",\"dimensions\":4,\"normalize\":true");
    double length = 0;
    for (const cJSON *number = vector->child; number; number = number->next)
        length += number->valuedouble * number->valuedouble;
    assert_true(fabs(sqrt(length) - 1) < 1e-6);
    cJSON_Delete(answer);
}

TEST(openai_refused)
{
    static const struct {
        const char *body;
        long status;
        const char *code, *pointer;
    } CASES[] = {
        { JSON({"model":"text-embeddings-inference"}), 400, "field", "/input" },
          { JSON({"input":[]}), 400, "option", "/input" },
            { JSON({"input":7}), 400, "type", "/input" },
              { JSON({"input":["a",1]}), 400, "type", "/input" },
                { JSON({"input":{"text":"a"}}), 400, "type", "/input" },
                  { JSON({"input":[[1],2]}), 400, "type", "/input" },
                    { JSON({"input":[1,40]}), 400, "option", "/input/1" },
                      { JSON({"input":[[1],[1,40]]}), 400, "option", "/input/1/1" },
                        { JSON({"input":[1.5]}), 400, "option", "/input/0" },
                          { JSON({"input":[[1],[]]}), 400, "option", "/input/1" },
                            { JSON({"input":["on","the the the the the the the the the the the the the the the the"]}),
                                    400, "length", "/input/1" },
                              { JSON({"input":"on","dimensions":13}), 400, "option",
                                     "/dimensions" },
                                { JSON({"input":"on","dimensions":0}), 400, "option",
                                       "/dimensions" },
                                  { JSON({"input":"on","encoding_format":"int8"}), 400, "option",
                                         "/encoding_format" },
                                    { JSON({"input":"on","pooling":"median"}), 400, "option",
                                           "/pooling" },
                                      { JSON({"input":"on","model":"text-embedding-3-small"}), 404,
                                             "not_found", "/model" },
                                        { JSON({"input":"on","model":"demo"}), 400, "option",
                                               "/model" },
                                          { JSON({"input":"on","stream":true}), 400, "field",
                                                 "/stream" },
                                        };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        answer_refused(&client, "/v1/embeddings", CASES[i].body, CASES[i].status, CASES[i].code,
                       CASES[i].pointer);
}

TEST(too_many)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"input\":[");
    for (int i = 0; i < 1024; i++)
        request_text_add(&body, "\"on\",");
    request_text_add(&body, "\"on\"]}");
    answer_refused(&client, "/v1/embeddings", body.data, 400, "option", "/input");
    memcpy(strstr(body.data, "\"on\","), "     ", 5);
    cJSON *answer = answer_post(&client, "/v1/embeddings", body.data);
    const cJSON *data = member(answer, "data");
    assert_int_equal(cJSON_GetArraySize(data), 1024);
    expect_vector(member(cJSON_GetArrayItem(data, 1023), "embedding"), "\"text\":\"on\"");
    free(body.data);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------------- TEI -- */

TEST(embed)
{
    cJSON *answer = post_list("/embed", "{\"inputs\":\"What is Deep Learning?\"}"); /* TEI */
    assert_int_equal(cJSON_GetArraySize(answer), 1);
    expect_vector(cJSON_GetArrayItem(answer, 0), "\"text\":\"What is Deep Learning?\"");
    cJSON_Delete(answer);
    answer =
        post_list("/embed", "{\"inputs\":[\"Today is a nice day\", \"I like you\"]}"); /* TEI */
    assert_int_equal(cJSON_GetArraySize(answer), 2);
    expect_vector(cJSON_GetArrayItem(answer, 0), "\"text\":\"Today is a nice day\"");
    expect_vector(cJSON_GetArrayItem(answer, 1), "\"text\":\"I like you\"");
    cJSON_Delete(answer);
    answer = post_list("/embed", JSON({"inputs":"the cat","normalize":false,"truncate":null,"prompt_name":null,"dimensions":null}));
    expect_vector(cJSON_GetArrayItem(answer, 0), "\"text\":\"the cat\",\"normalize\":false");
    cJSON_Delete(answer);
    answer = post_list("/embed", JSON({"inputs":[[1,3,2],[4]],"dimensions":3}));
    expect_vector(cJSON_GetArrayItem(answer, 0), "\"tokens\":[1,3,2],\"dimensions\":3");
    cJSON_Delete(answer);
}

/* The rows of a trace of the same input. */
static void expect_rows(const cJSON *rows, const char *fields)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",\"layers\":[],\"outputs\":[\"hidden_states\"],%s}",
                     MODEL, fields);
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    if (!cJSON_Compare(rows, member(answer, "final_hidden_states"), 1))
        fail_msg("%s: the rows differ from those of a trace", fields);
    cJSON_Delete(answer);
    free(body.data);
}

TEST(embed_all)
{
    cJSON *answer = post_list("/embed_all", "{\"inputs\":\"What is Deep Learning?\"}");
    assert_int_equal(cJSON_GetArraySize(answer), 1);
    expect_rows(cJSON_GetArrayItem(answer, 0), "\"text\":\"What is Deep Learning?\"");
    cJSON_Delete(answer);
    answer =
        post_list("/embed_all", "{\"inputs\":[\"sat\",\"on mats\"],\"prompt_name\":\"query\"}");
    assert_int_equal(cJSON_GetArraySize(answer), 2);
    expect_rows(cJSON_GetArrayItem(answer, 0), "\"text\":\"the cat sat\"");
    expect_rows(cJSON_GetArrayItem(answer, 1), "\"text\":\"the cat on mats\"");
    cJSON_Delete(answer);
    answer = post_list("/embed_all", "{\"inputs\":[\"the cats sat on mats. cat\"],"
                                     "\"truncate\":true,\"truncation_direction\":\"Left\"}");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(answer, 0)), 8);
    expect_rows(cJSON_GetArrayItem(answer, 0), "\"tokens\":[1,5,8,9,7,6,4,2]");
    cJSON_Delete(answer);
    answer = post_list("/embed_all", "{\"inputs\":[[1,3,2],[4]]}");
    expect_rows(cJSON_GetArrayItem(answer, 0), "\"tokens\":[1,3,2]");
    expect_rows(cJSON_GetArrayItem(answer, 1), "\"tokens\":[4]");
    cJSON_Delete(answer);
    answer_refused(&client, "/embed_all", "{\"inputs\":\"sat\",\"normalize\":true}", 400, "field",
                   "/normalize");
    answer_refused(&client, "/embed_all", "{\"truncate\":true}", 400, "field", "/inputs");
    answer_refused(&client, "/embed_all", "{\"inputs\":[[1],[1,99]]}", 400, "option",
                   "/inputs/1/1");
}

/* The cosine of two texts, from their vectors of any length. */
static double cosine(const char *first, const char *second)
{
    char body[256];
    double dot = 0, squares[2] = { 0, 0 };
    snprintf(body, sizeof body, "{\"inputs\":[\"%s\",\"%s\"],\"normalize\":false}", first, second);
    cJSON *vectors = post_list("/embed", body);
    for (int i = 0; i < 12; i++) {
        const double a = cJSON_GetArrayItem(cJSON_GetArrayItem(vectors, 0), i)->valuedouble;
        const double b = cJSON_GetArrayItem(cJSON_GetArrayItem(vectors, 1), i)->valuedouble;
        dot += a * b;
        squares[0] += a * a;
        squares[1] += b * b;
    }
    cJSON_Delete(vectors);
    return dot / sqrt(squares[0] * squares[1]);
}

static void expect_number(const cJSON *list, int i, double want)
{
    assert_true(fabs(cJSON_GetArrayItem(list, i)->valuedouble - want) < 1e-6);
}

static void similarity_refused(const char *body, const char *code, const char *pointer)
{
    answer_refused(&client, "/similarity", body, 400, code, pointer);
}

TEST(similarity)
{
    cJSON *answer =
        post_list("/similarity", "{\"inputs\":{\"source_sentence\":\"the cat\",\"sentences\":"
                                 "[\"on mats\",\"the cat\",\"the cats sat on mats. cat\"]}}");
    assert_int_equal(cJSON_GetArraySize(answer), 3);
    expect_number(answer, 0, cosine("the cat", "on mats"));
    expect_number(answer, 1, 1);
    expect_number(answer, 2, cosine("the cat", "the cats sat on mats. cat"));
    cJSON_Delete(answer);
    answer =
        post_list("/similarity", "{\"inputs\":{\"sentences\":[\"sat\"],\"source_sentence\":\"on\"},"
                                 "\"parameters\":{\"truncate\":false,\"prompt_name\":\"query\"}}");
    expect_number(answer, 0, cosine("the cat on", "the cat sat"));
    cJSON_Delete(answer);
#define LONG  "\"the cats sat on mats. cat the cats sat on mats. cat\""
#define WHOLE ",\"parameters\":{\"truncate\":false}}"
    similarity_refused("{\"inputs\":{\"source_sentence\":\"on\",\"sentences\":[\"sat\"," LONG
                       "]}" WHOLE,
                       "length", "/inputs/sentences/1");
    similarity_refused("{\"inputs\":{\"source_sentence\":" LONG ",\"sentences\":[\"sat\"]}" WHOLE,
                       "length", "/inputs/source_sentence");
    similarity_refused("{\"inputs\":{\"source_sentence\":\"on\",\"sentences\":[]}}", "option",
                       "/inputs/sentences");
    similarity_refused("{\"inputs\":{\"source_sentence\":\"on\",\"sentences\":[1]}}", "type",
                       "/inputs/sentences");
    similarity_refused("{\"inputs\":{\"sentences\":[\"on\"]}}", "field", "/inputs/source_sentence");
    similarity_refused("{\"inputs\":{\"source_sentence\":\"on\"}}", "field", "/inputs/sentences");
    similarity_refused("{\"inputs\":{\"source_sentence\":\"on\",\"sentences\":[\"sat\"]},"
                       "\"parameters\":{\"prompt_name\":\"no\"}}",
                       "option", "/parameters/prompt_name");
}

/* What npm's @huggingface/inference 4.13.30 sends for a featureExtraction({endpointUrl, inputs,
 * normalize, truncate, truncation_direction}). */
TEST(embed_of_client)
{
    cJSON *answer = post_list(
        "/embed",
        "{\"inputs\":[\"That is\",\"a happy "
        "person\"],\"normalize\":false,\"truncate\":true,\"truncation_direction\":\"Left\"}");
    expect_vector(cJSON_GetArrayItem(answer, 0), "\"text\":\"That is\",\"normalize\":false");
    expect_vector(cJSON_GetArrayItem(answer, 1), "\"text\":\"a happy person\",\"normalize\":false");
    cJSON_Delete(answer);
}

/* max_seq_length is 8: two tokens of the template and six of the text, its first or last ones. */
TEST(embed_cuts)
{
    static const struct {
        const char *more, *tokens;
    } CASES[] = {
        { "", "\"tokens\":[1,3,4,7,5,8,9,2]" },
        { ",\"truncate\":true,\"truncation_direction\":\"Right\"", "\"tokens\":[1,3,4,7,5,8,9,2]" },
        { ",\"truncation_direction\":\"Left\"", "\"tokens\":[1,5,8,9,7,6,4,2]" },
        { ",\"truncation_direction\":\"left\"", "\"tokens\":[1,5,8,9,7,6,4,2]" },
        { ",\"truncate\":false", "\"tokens\":[1,3,4,7,5,8,9,7,6,4,2]" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char body[256];
        snprintf(body, sizeof body,
                 JSON({"inputs":["the cats sat on mats. cat"]%s}), CASES[i].more);
        cJSON *answer = post_list("/embed", body);
        expect_vector(cJSON_GetArrayItem(answer, 0), CASES[i].tokens);
        cJSON_Delete(answer);
    }
    cJSON *answer = post_list("/embed", JSON({"inputs":[3,4,5,6,7,8,9,3,4,5]}));
    expect_vector(cJSON_GetArrayItem(answer, 0), "\"tokens\":[3,4,5,6,7,8,9,3]");
    cJSON_Delete(answer);
}

TEST(embed_prompts)
{
    cJSON *answer = post_list("/embed", JSON({"inputs":["sat","on mats"],"prompt_name":"query"}));
    expect_vector(cJSON_GetArrayItem(answer, 0), "\"text\":\"the cat sat\"");
    expect_vector(cJSON_GetArrayItem(answer, 1), "\"text\":\"the cat on mats\"");
    cJSON_Delete(answer);
    answer = post_list("/embed", JSON({"inputs":"sat","prompt_name":"passage"}));
    expect_vector(cJSON_GetArrayItem(answer, 0), "\"text\":\"sat\"");
    cJSON_Delete(answer);
    answer_refused(&client, "/embed",
                   JSON({"inputs":"sat","prompt_name":"clustering"}), 400, "option",
                        "/prompt_name");
    answer_refused(&client, "/embed",
                   JSON({"inputs":[1,2],"prompt_name":"query"}), 400, "option", "/prompt_name");
}

TEST(embed_refused)
{
    answer_refused(&client, "/embed", JSON({"input":"sat"}), 400, "field", "/input");
    answer_refused(&client, "/embed", JSON({"inputs":[]}), 400, "option", "/inputs");
    answer_refused(&client, "/embed",
                   JSON({"inputs":["on","\u0000"],"truncation_direction":"up"}), 400, "option",
                        "/truncation_direction");
    answer_refused(&client, "/embed", JSON({"inputs":[[1],[1,99]]}), 400, "option", "/inputs/1/1");
    answer_refused(
        &client, "/embed",
        JSON({"inputs":["on",
                   "the the the the the the the the the the the the the the the the the"],"truncate":false}),
             400, "length", "/inputs/1");
}

/* include_prompt false: what INSTRUCTOR leaves out of its mean, [CLS] and the prompt. */
TEST(prompt_left_out)
{
    static const int ids[FORWARD_BERT_TOKENS] = { 1, 3, 4, 5, 8, 9, 2 };
    static const int types[FORWARD_BERT_TOKENS] = { 0 };
    static const int positions[FORWARD_BERT_TOKENS] = { 0, 1, 2, 3, 4, 5, 6 };
    make_model("instructor", JSON([{"type":"Transformer"},{"path":"1_Pooling","type":"Pooling"}]),
                                   JSON({"word_embedding_dimension":12,"pooling_mode_mean_tokens":true,"include_prompt":false}));
    fixture_stop(NULL);
    fixture_serve("--models", directory);
    const struct rows rows =
        forward_bert(&(struct forward_bert){ "", "gelu", 1e-12, ids, types, positions, 0, 0 })
            .final_hidden_states;
    const struct rows want = vector_pool(rows, "mean", 3);
    cJSON *answer = post_list("/embed", JSON({"model":"instructor","inputs":"sat on mat","prompt_name":"query","normalize":false}));
    const cJSON *number = cJSON_GetArrayItem(answer, 0)->child;
    for (int c = 0; c < 12; c++, number = number->next)
        if (!(fabs(number->valuedouble - want.data[c]) < 1e-5 * (1 + fabs(want.data[c]))))
            fail_msg("number %d is %.9g, not %.9g", c, number->valuedouble, want.data[c]);
    cJSON_Delete(answer);
    /* Two models make vectors now: which one has to be said. */
    struct http_response response = http_client_post(&client, "/embed", JSON({"inputs":"sat"}));
    assert_non_null(strstr(response.body, "this can be asked of instructor, " MODEL "\""));
    answer_expect_fault(&response, 400, "field", "/model");
    http_response_free(&response);
}

/* A model that turns its columns has positions for any text. TEI cuts one to
 * max_position_embeddings where sentence_bert_config.json does not say to what, and refuses what is
 * longer. */
static void make_rotary(const char *name)
{
    static const char config[] = LLAMA_CONFIG("llama", "2", ",\"max_position_embeddings\":6");
    published_close();
    published_open(config, LLAMA_TENSORS, 2, "F32");
    published_save(fixture_path(name), config);
    vector_write(fixture_path(name), "tokenizer.json", word_model_tokenizer);
    published_close();
    published_open(CONFIG, TENSORS, FORWARD_BERT_LAYERS, "F32");
}

static void expect_length_refused(const char *path, const char *body, const char *pointer)
{
    struct http_response response = http_client_post(&client, path, body);
    assert_non_null(strstr(response.body, "has 11 tokens; model 'rotary' is for texts of at "
                                          "most 6, as its config.json says"));
    answer_expect_fault(&response, 400, "length", pointer);
    http_response_free(&response);
}

TEST(rotary_cuts)
{
#define ASKED "\"model\":\"rotary\",\"pooling\":\"mean\""
    make_rotary("rotary");
    fixture_stop(NULL);
    fixture_serve("--models", directory, "--answer-max", "1MiB");
    cJSON *answer = post_list("/embed", "{" ASKED ",\"inputs\":\"the cats sat on mats. cat\"}");
    cJSON *want = trace_vector("rotary", "\"pooling\":\"mean\",\"normalize\":true,"
                                         "\"tokens\":[1,3,4,7,5,2]");
    assert_true(cJSON_Compare(cJSON_GetArrayItem(answer, 0), want, 1));
    cJSON_Delete(want);
    cJSON_Delete(answer);
    expect_length_refused(
        "/embed", "{" ASKED ",\"truncate\":false,\"inputs\":[\"the cats sat on mats. cat\"]}",
        "/inputs/0");
    expect_length_refused("/v1/embeddings", "{" ASKED ",\"input\":\"the cats sat on mats. cat\"}",
                          "/input");

    /* A hundred thousand characters take no time, and their tokens are no part of the answer. */
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{" ASKED ",\"inputs\":\"");
    for (int i = 0; i < 25000; i++)
        request_text_add(&body, "the ");
    request_text_add(&body, "\"}");
    cJSON_Delete(post_list("/embed", body.data));
    free(body.data);
    answer = answer_get(&client, "/v1/models/rotary");
    answer_expect(answer, "state", "\"READY\"", 0);
    cJSON_Delete(answer);
}

/* The answer has no tokens: a long text with a short vector is no long answer. */
TEST(tokens_are_not_answered)
{
    static const char config[] = LLAMA_CONFIG("llama", "2", "");
    published_close();
    published_open(config, LLAMA_TENSORS, 2, "F32");
    published_save(fixture_path("endless"), config);
    published_close();
    published_open(CONFIG, TENSORS, FORWARD_BERT_LAYERS, "F32");
    fixture_stop(NULL);
    fixture_serve("--models", directory, "--answer-max", "64KiB");
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"endless\",\"pooling\":\"mean\",\"input\":[3");
    for (int i = 0; i < 1500; i++)
        request_text_add(&body, ",%d", 3 + i % 8);
    request_text_add(&body, "]}");
    cJSON_Delete(answer_post(&client, "/v1/embeddings", body.data));
    free(body.data);

    /* A hundred vectors would be: what helps is said. */
    body = (struct request_text){ .data = NULL };
    request_text_add(&body, "{\"model\":\"endless\",\"pooling\":\"mean\",\"input\":[[3]");
    for (int i = 0; i < 100; i++)
        request_text_add(&body, ",[%d]", 3 + i % 8);
    request_text_add(&body, "]}");
    struct http_response response = http_client_post(&client, "/v1/embeddings", body.data);
    assert_non_null(strstr(response.body, "ask for fewer inputs at once"));
    answer_expect_fault(&response, 413, "answer_too_large", NULL);
    http_response_free(&response);
    free(body.data);
}

/* Texts whose items fit into the budget, and whose plans never do. */
TEST(never_fits)
{
    static const char *const PATHS[][2] = { { "/v1/embeddings", "input" }, { "/embed", "inputs" } };
    char value[32];
    fixture_stop(NULL);
    fixture_serve("--models", directory, "--memory-max", "8MiB");
    for (int p = 0; p < 2; p++) {
        struct request_text body = { .data = NULL };
        request_text_add(&body, "{\"model\":\"" MODEL "\",\"%s\":[", PATHS[p][1]);
        for (int i = 0; i < 1000; i++)
            request_text_add(&body, i > 0 ? ",\"on\"" : "\"on\"");
        request_text_add(&body, "]}");
        struct http_response response = http_client_post(&client, PATHS[p][0], body.data);
        assert_null(http_response_header(&response, "Retry-After", value, sizeof value));
        answer_expect_fault(&response, 413, "too_large", NULL);
        http_response_free(&response);
        free(body.data);
    }
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, stop);
