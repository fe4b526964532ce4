/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenize.c - POST /v1/tokenize and /v1/detokenize: what a small tokenizer makes of texts,
 * and faults. That real tokenizers are executed to the letter is tested in
 * tests/unit/test_tokenizer_*.c and tests/conformance. */
#include "answer.h"
#include "fixture.h"
#include "test.h"
#include "word_model.h"

#include <sys/stat.h>

/* The space that ByteLevel puts before a text is a token of the text without a byte of it. */
static const char byte_tokenizer[] =
    "{\"version\":\"1.0\",\"added_tokens\":["
    "{\"id\":2,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true}],\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true},"
    "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"<s>\",2],\"cls\":[\"<s>\",2],"
    "\"trim_offsets\":true,\"add_prefix_space\":true},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\u0120\":0,\"a\":1,\"<s>\":2},\"merges\":[]}}";

static int start(void **state)
{
    fixture_make_directory(state);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    word_model_make(fixture_path("bare"), NULL);
    word_model_make(fixture_path("bytes"), byte_tokenizer);
    word_model_make(fixture_path("wrong"), JSON({"version":"1.0","model":{"type":"Runes"}}));
    fixture_serve("--models", directory);
    return 0;
}

/* The answer is this text; both are compared without blanks at the end. */
static void expect_answer(const char *path, const char *request, const char *wanted)
{
    struct http_response response = http_client_post(&client, path, request);
    if (response.status != 200 || strcmp(response.body, wanted) != 0)
        fail_msg("%s: %d %s", request, (int)response.status, response.body);
    http_response_free(&response);
}

static void expect_fault(const char *path, const char *request, long status, const char *code,
                         const char *pointer, const char *words)
{
    struct http_response response = http_client_post(&client, path, request);
    cJSON *fault = cJSON_Parse(response.body);
    const cJSON *at = cJSON_GetObjectItemCaseSensitive(fault, "pointer");
    if (response.status != status
        || strcmp(cJSON_GetObjectItemCaseSensitive(fault, "code")->valuestring, code) != 0
        || strcmp(at ? at->valuestring : "", pointer) != 0 || !strstr(response.body, words))
        fail_msg("%s: %d %s", request, (int)response.status, response.body);
    cJSON_Delete(fault);
    http_response_free(&response);
}

#define CLS "{\"id\":1,\"text\":\"[CLS]\",\"special\":true}"
#define SEP "{\"id\":2,\"text\":\"[SEP]\",\"special\":true}"

TEST(texts)
{
    expect_answer("/v1/tokenize", "{\"model\":\"words\",\"text\":\"The cats sat.\"}",
                  "{\"model\":\"words\",\"tokens\":[" CLS
                  ",{\"id\":3,\"text\":\"the\",\"start\":0,\"end\":3}"
                  ",{\"id\":4,\"text\":\"cat\",\"start\":4,\"end\":7}"
                  ",{\"id\":7,\"text\":\"##s\",\"start\":7,\"end\":8}"
                  ",{\"id\":5,\"text\":\"sat\",\"start\":9,\"end\":12}"
                  ",{\"id\":6,\"text\":\".\",\"start\":12,\"end\":13}," SEP "]}\n");
    expect_answer("/v1/tokenize",
                  "{\"model\":\"words\",\"text\":\"\\u00e9 cat\",\"special\":false}",
                  "{\"model\":\"words\",\"tokens\":["
                  "{\"id\":0,\"text\":\"[UNK]\",\"start\":0,\"end\":2}"
                  ",{\"id\":4,\"text\":\"cat\",\"start\":3,\"end\":6}]}\n");
    expect_answer("/v1/tokenize", "{\"model\":\"words\",\"text\":\"\"}",
                  "{\"model\":\"words\",\"tokens\":[" CLS "," SEP "]}\n");
    expect_answer("/v1/tokenize",
                  "{\"model\":\"words\",\"text\":\"\",\"special\":false,\"pair\":null}",
                  "{\"model\":\"words\",\"tokens\":[]}\n");
}

/* U+0000 is a character like others: clean_text drops it, and places count it. */
TEST(nul)
{
    expect_answer("/v1/tokenize",
                  "{\"model\":\"words\",\"text\":\"a\\u0000 cat\",\"special\":false}",
                  "{\"model\":\"words\",\"tokens\":["
                  "{\"id\":0,\"text\":\"[UNK]\",\"start\":0,\"end\":1}"
                  ",{\"id\":4,\"text\":\"cat\",\"start\":3,\"end\":6}]}\n");
}

TEST(pair)
{
    expect_answer("/v1/tokenize", "{\"model\":\"words\",\"text\":\"cat\",\"pair\":\"on mat\"}",
                  "{\"model\":\"words\",\"tokens\":["
                  "{\"id\":1,\"text\":\"[CLS]\",\"special\":true}"
                  ",{\"id\":4,\"text\":\"cat\",\"start\":0,\"end\":3,\"sequence\":0}"
                  ",{\"id\":2,\"text\":\"[SEP]\",\"special\":true}"
                  ",{\"id\":8,\"text\":\"on\",\"start\":0,\"end\":2,\"sequence\":1}"
                  ",{\"id\":9,\"text\":\"mat\",\"start\":3,\"end\":6,\"sequence\":1}"
                  ",{\"id\":2,\"text\":\"[SEP]\",\"special\":true}]}\n");
}

/* Tokens of a text have places, empty ones too; tokens of the template have none. The numbers are
 * those of the reference implementation, tokenizers 0.22.2. */
TEST(empty_places)
{
    expect_answer("/v1/tokenize", "{\"model\":\"bytes\",\"text\":\"a\"}",
                  "{\"model\":\"bytes\",\"tokens\":["
                  "{\"id\":2,\"text\":\"<s>\",\"special\":true}"
                  ",{\"id\":0,\"text\":\"Ġ\",\"start\":0,\"end\":0}"
                  ",{\"id\":1,\"text\":\"a\",\"start\":0,\"end\":1}"
                  ",{\"id\":2,\"text\":\"<s>\",\"special\":true}]}\n");
    expect_answer("/v1/tokenize",
                  "{\"model\":\"bytes\",\"text\":\"\",\"pair\":\"<s>\",\"special\":false}",
                  "{\"model\":\"bytes\",\"tokens\":["
                  "{\"id\":2,\"text\":\"<s>\",\"start\":0,\"end\":3,\"sequence\":1"
                  ",\"special\":true}]}\n");
    expect_answer("/v1/tokenize",
                  "{\"model\":\"bytes\",\"text\":\"\",\"pair\":\"a\",\"special\":false}",
                  "{\"model\":\"bytes\",\"tokens\":["
                  "{\"id\":0,\"text\":\"Ġ\",\"start\":0,\"end\":0,\"sequence\":1}"
                  ",{\"id\":1,\"text\":\"a\",\"start\":0,\"end\":1,\"sequence\":1}]}\n");
}

TEST(back)
{
    expect_answer("/v1/detokenize", "{\"model\":\"words\",\"tokens\":[1,3,4,7,5,6,2]}",
                  "{\"model\":\"words\",\"text\":\"the cats sat.\"}\n");
    expect_answer("/v1/detokenize", "{\"model\":\"words\",\"tokens\":[1,3,2],\"special\":true}",
                  "{\"model\":\"words\",\"text\":\"[CLS] the [SEP]\"}\n");
    expect_answer("/v1/detokenize", "{\"model\":\"words\",\"tokens\":[]}",
                  "{\"model\":\"words\",\"text\":\"\"}\n");
}

TEST(faults)
{
    const char *path = "/v1/tokenize";
    expect_fault(path, JSON({"model":"words"}), 400, "field", "/text", "text is missing");
    expect_fault(path, "{\"text\":\"a\"}", 400, "field", "/model",
                 "model is missing; there are bare, bytes, demo, sdpa, words, wrong");
    expect_fault(path, JSON({"model":"words","text":7}), 400, "type", "/text", "a string");
    expect_fault(path, "{\"model\":\"words\",\"text\":\"a\",\"pairs\":\"b\"}", 400, "field",
                 "/pairs", "pair");
    expect_fault(path, "{\"model\":\"words\",\"prompt\":\"a\"}", 400, "field", "/prompt",
                 "there is no field 'prompt'; expected any of model, text, pair, special\"");
    expect_fault(path, JSON({"model":"none","text":"a"}), 404, "not_found", "/model", "none");
    expect_fault(path, "{\"model\":\"bare\",\"text\":\"a\"}", 400, "option", "/model",
                 "has no tokenizer");
    expect_fault(path, JSON({"model":"wrong","text":"a"}), 400, "option", "/model", "Runes");
    expect_fault(path, "{\"model\":\"sdpa\",\"text\":\"a\"}", 400, "option", "/model",
                 "has no tokenizer");
    expect_fault(path, "[]", 400, "type", "", "expected an object");
    expect_fault(path, JSON({"model":"words","text":"\ud800"}), 400, "json", "", "");
    path = "/v1/detokenize";
    expect_fault(path, "{\"model\":\"words\",\"tokens\":[3,10]}", 400, "option", "/tokens/1",
                 "tokens[1] is 10");
    expect_fault(path, JSON({"model":"words","tokens":[3,0.5]}), 400, "option", "/tokens/1", "");
    expect_fault(path, JSON({"model":"words","tokens":[[3]]}), 400, "type", "/tokens", "");
    expect_fault(path, JSON({"model":"words","tokens":"3"}), 400, "type", "/tokens", "");
    expect_fault(path, JSON({"model":"words"}), 400, "field", "/tokens", "tokens is missing");
}

/* A model whose tokenizer is refused still answers attention, and says why it has none. */
static void expect_model(const char *name, const char *words)
{
    char path[64];
    snprintf(path, sizeof path, "/v1/models/%s", name);
    struct http_response response = http_client_get(&client, path);
    if (response.status != 200 || !strstr(response.body, words))
        fail_msg("%s: %d %s", name, (int)response.status, response.body);
    http_response_free(&response);
}

TEST(models)
{
    expect_model("words", "\"tokenizer\":{\"kind\":\"WordPiece\",\"file\":\"tokenizer.json\","
                          "\"id_end\":10},\"tokenizer_reason\":\"\"");
    expect_model("bare", JSON("tokenizer":null,"tokenizer_reason":""));
    expect_model("wrong", "\"tokenizer\":null,\"tokenizer_reason\":\"tokenizer.json");
    cJSON *answer = answer_post(&client, "/v1/attention",
                                "{\"model\":\"wrong\",\"query\":[[1,2,3,4,5,6,7,8]]}");
    cJSON_Delete(answer);
}

/* A request without a model is about the only one that is not built in, whatever the call. */
TEST(only_model)
{
    static const char *const CALLS[][2] = {
        { "/v1/attention", "{\"query\":[[1,2,3,4,5,6,7,8]],\"outputs\":[\"lse\"]}" },
        { "/v1/attention/batch", "{\"requests\":[{\"query\":[[1,2,3,4,5,6,7,8]]}]}" },
        { "/v1/attention/gradients",
          "{\"query\":[[1,2,3,4,5,6,7,8]],\"context_gradient\":[[1,1,1,1,1,1,1,1]]}" },
        { "/v1/tokenize", "{\"text\":\"cat\"}" },
        { "/v1/tokenize", "{\"model\":null,\"text\":\"cat\"}" },
        { "/v1/detokenize", "{\"tokens\":[4]}" },
        { "/v1/trace", "{\"text\":\"cat\",\"outputs\":[\"lse\"]}" },
        { "/v1/trace", "{\"model\":null,\"tokens\":[4],\"outputs\":[\"lse\"]}" },
        { "/v1/trace/batch", "{\"requests\":[{\"text\":\"cat\"},{\"tokens\":[4]}]}" },
        { "/v1/sessions", "{\"ttl\":\"1s\"}" },
    };
    enum { CALL_COUNT = sizeof CALLS / sizeof CALLS[0] };
    for (int i = 0; i < CALL_COUNT; i++) {
        struct http_response response = http_client_post(&client, CALLS[i][0], CALLS[i][1]);
        if (!strstr(response.body, "model is missing; there are")
            || !strstr(response.body, "/model\""))
            fail_msg("%s %s: %s", CALLS[i][0], CALLS[i][1], response.body);
        http_response_free(&response);
    }
    fixture_stop(NULL);
    assert_int_equal(mkdir(fixture_path("only"), 0755), 0);
    word_model_make(fixture_path("only/words"), word_model_tokenizer);
    fixture_serve("--models", fixture_path("only"));
    for (int i = 0; i < CALL_COUNT; i++) {
        struct http_response response = http_client_post(&client, CALLS[i][0], CALLS[i][1]);
        if ((response.status != 200 && response.status != 201)
            || !strstr(response.body, "\"model\":\"words\"") || strstr(response.body, "\"error\""))
            fail_msg("%s %s: %d %s", CALLS[i][0], CALLS[i][1], (int)response.status, response.body);
        http_response_free(&response);
    }
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
