/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_text.c - a GGUF file alone answers a text: stories260K, a real trained model, with the
 * tokenizer of its metadata, beside the folder that the file was made of and llama.cpp. */
#include "answer.h"
#include "fixture.h"
#include "gguf_stories.h"
#include "request_text.h"
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROMPT "Once upon a time, there was a little girl"
#define FILES  "examples/models/stories260K/"

/* The tokens of the prompt, and the 60 that llama.cpp, release v0.5.0 (MIT), continues it with
 * where it takes the best one each time; the same of the files in F32 and in Q8_0. */
#define GREEDY                                                                                     \
    "1,403,407,261,378,432,383,286,261,376,298,315,421,395,317,426,338,401,396,267,337,410,408,"   \
    "419,292,411,322,265,282,295,433,426,385,328,432,358,394,261,370,432,352,266,268,388,426,338," \
    "391,266,267,337,335,312,432,398,312,286,267,414,270,333,415,426,13,438,310,439,419,357,336,"  \
    "432,313,438,310"

/* Copies a file to one of the directory. */
static void copy_file(const char *from, const char *name)
{
    char bytes[1 << 16];
    const int in = open(from, O_RDONLY),
              out = open(fixture_path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t size; (size = read(in, bytes, sizeof bytes)) > 0;)
        assert_int_equal(write(out, bytes, (size_t)size), size);
    close(in);
    close(out);
}

/* Writes a file like stories.gguf in which `to` takes the place of a text of the same length: the
 * first one behind a text of its metadata. */
static void write_changed(const char *name, const char *behind, const char *from, const char *to)
{
    enum { HEAD_BYTES = 1 << 14 };
    static char head[HEAD_BYTES];
    char *stories = strdup(fixture_path("stories.gguf"));
    copy_file(stories, name);
    free(stories);
    const int file = open(fixture_path(name), O_RDWR);
    assert_int_equal(pread(file, head, HEAD_BYTES, 0), HEAD_BYTES);
    const char *key = memmem(head, HEAD_BYTES, behind, strlen(behind));
    assert_non_null(key);
    const char *place = memmem(key, (size_t)(head + HEAD_BYTES - key), from, strlen(from));
    assert_non_null(place);
    assert_int_equal(strlen(from), strlen(to));
    assert_int_equal(pwrite(file, to, strlen(to), place - head), strlen(to));
    close(file);
}

static int start(void **state)
{
    static const char *const NAMES[] = { "config.json", "model.safetensors", "tokenizer.json" };
    if (fixture_make_directory(state) != 0)
        return -1;
    gguf_stories_write("F32", fixture_path("stories.gguf"));
    gguf_stories_write("Q8_0", fixture_path("small.gguf"));
    write_changed("strange.gguf", "tokenizer.ggml.model", "llama", "other");
    write_changed("ends.gguf", "tokenizer.ggml.tokens",
                  "\xE2\x96\x81"
                  "to",
                  "<EOT>");
    assert_int_equal(mkdir(fixture_path("folder"), 0700), 0);
    for (int i = 0; i < 3; i++) {
        char from[64], to[32];
        snprintf(from, sizeof from, FILES "%s", NAMES[i]);
        snprintf(to, sizeof to, "folder/%s", NAMES[i]);
        copy_file(from, to);
    }
    fixture_serve("--models", directory);
    return 0;
}

static cJSON *ask(const char *path, const char *model, const char *fields)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",", model);
    request_text_add(&body, "%s}", fields);
    cJSON *answer = answer_post(&client, path, body.data);
    free(body.data);
    return answer;
}

TEST(described)
{
    cJSON *answer = answer_get(&client, "/v1/models/stories");
    answer_expect(answer, "tokenizer", JSON({"kind":"BPE","file":"stories.gguf","id_end":512}), 0);
    answer_expect(answer, "tokenizer_reason", "\"\"", 0);
    answer_expect(answer, "inputs", JSON(["text","tokens"]), 0);
    cJSON_Delete(answer);
}

TEST(tokens_of_the_folder)
{
    static const char TEXTS[] = "\"text\":\"" PROMPT ".\\n\\u00e9 \\u4f60  <s> Tim's\"";
    cJSON *ours = ask("/v1/tokenize", "stories", TEXTS);
    cJSON *theirs = ask("/v1/tokenize", "folder", TEXTS);
    answer_expect_equal(ours, theirs, "tokens");
    cJSON_Delete(ours);
    cJSON_Delete(theirs);
}

/* The same maps and predictions of a text, to the bit. */
TEST(traces_of_the_folder)
{
    static const char FIELDS[] =
        "\"text\":\"" PROMPT "\",\"outputs\":[\"weights\",\"predictions\"],\"layers\":[0,4]";
    cJSON *ours = ask("/v1/trace", "stories", FIELDS), *theirs = ask("/v1/trace", "folder", FIELDS);
    answer_expect_equal(ours, theirs, "tokens");
    answer_expect_equal(ours, theirs, "layers");
    answer_expect_equal(ours, theirs, "predictions");
    cJSON_Delete(ours);
    cJSON_Delete(theirs);
}

TEST(text_of_llama_cpp)
{
    static const char *const NAMES[] = { "stories", "small" };
    for (int i = 0; i < 2; i++) {
        cJSON *answer = ask("/v1/completions", NAMES[i],
                            "\"prompt\":\"" PROMPT "\",\"max_tokens\":60,\"temperature\":0");
        cJSON *whole = ask("/v1/detokenize", NAMES[i], "\"tokens\":[" GREEDY "]");
        const cJSON *choice = cJSON_GetObjectItem(answer, "choices")->child;
        const char *text = cJSON_GetObjectItem(choice, "text")->valuestring;
        const char *expected = cJSON_GetObjectItem(whole, "text")->valuestring;
        assert_memory_equal(expected, PROMPT, sizeof PROMPT - 1);
        assert_string_equal(text, expected + sizeof PROMPT - 1);
        assert_true(strlen(text) > 100);
        cJSON_Delete(answer);
        cJSON_Delete(whole);
    }
}

/* A token that is called so ends a text, though the file names another one. */
TEST(ends_by_name)
{
    cJSON *answer = ask("/v1/completions", "ends",
                        "\"prompt\":\"" PROMPT "\",\"max_tokens\":60,\"temperature\":0");
    cJSON *choice = cJSON_GetObjectItem(answer, "choices")->child;
    answer_expect(choice, "text", "\" named Lily. She loved\"", 0);
    answer_expect(choice, "finish_reason", "\"stop\"", 0);
    cJSON_Delete(answer);
}

/* A tokenizer that is not known leaves a model that takes tokens. */
TEST(refused_by_name)
{
    static const char TEXT[] = JSON({"model":"strange","text":"x"});
    const struct http_request request = {
        .method = "POST", .path = "/v1/trace", .body = TEXT, .body_size = sizeof TEXT - 1
    };
    answer_send_refused(&client, &request, 400, "field", "/text");
    cJSON *answer = answer_get(&client, "/v1/models/strange");
    answer_expect(answer, "tokenizer", "null", 0);
    answer_expect(answer, "tokenizer_reason",
                  "\"strange.gguf: tokenizer.ggml.model is 'other', which is not known here; "
                  "known: llama, gpt2, gemma4, bert, t5\"",
                  0);
    cJSON_Delete(answer);
    answer = ask("/v1/trace", "strange", "\"tokens\":[1,403],\"outputs\":[\"predictions\"]");
    cJSON_Delete(answer);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
