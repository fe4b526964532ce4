/* SPDX-License-Identifier: Apache-2.0 */
/* test_completions_texts.c - texts of completions: stops across tokens and characters, what is
 * echoed, tokens that share a string, ids without a token, tokens that end a text, and what faults
 * call the prompt. */
#include "answer.h"
#include "fixture.h"
#include "published.h"
#include "request_text.h"
#include "tensor_file.h"
#include "test.h"
#include "word_model.h"

#include <stdlib.h>
#include <sys/stat.h>

#define PATH "/v1/completions"

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!found)
        fail_msg("no member %s: %s", name, cJSON_PrintUnformatted(object));
    return found;
}

static const cJSON *choice_of(const cJSON *answer, int i)
{
    return cJSON_GetArrayItem(member(answer, "choices"), i);
}

static const char *string_of(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(member(object, name));
}

static const cJSON *list_of(const cJSON *answer, const char *list)
{
    return member(member(choice_of(answer, 0), "logprobs"), list);
}

static cJSON *ask(const char *model, const char *fields)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",", model);
    request_text_add(&body, "%s}", fields);
    cJSON *answer = answer_post(&client, PATH, body.data);
    free(body.data);
    return answer;
}

/* ------------------------------------------------------------------- bytes as tokens -- */

/* A tokenizer whose tokens are bytes of "é" (c3 a9) and "€" (e2 82 ac), letters and a space. */
static const char BYTES_TOKENIZER[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"trim_offsets\":true,\"use_regex\":false},\"post_processor\":null,\"decoder\":{\"type\":"
    "\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
    "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
    "\"byte_fallback\":false,\"vocab\":{\"a\":0,\"b\":1,\"\xc3\x83\":2,\"\xc2\xa9\":3,\"\xc3\xa2\":"
    "4,\"\xc4\xa4\":5,\"\xc2\xac\":6,\"\xc4\xa0\":7,\"c\":8,\"d\":9},\"merges\":[]}}";

/* What a list of strings stands for, as bytes; each string of a token is read as
 * server/API_COMPLETIONS.md says. */
static size_t read_bytes(const cJSON *strings, char *bytes)
{
    const cJSON *string;
    size_t used = 0;
    cJSON_ArrayForEach(string, strings) {
        const char *text = string->valuestring;
        if (strncmp(text, "bytes:\\x", 8) == 0) {
            bytes[used++] = (char)strtol(text + 8, NULL, 16);
            assert_int_equal(strlen(text), 10);
        } else {
            assert_int_equal(strlen(text), 1);
            bytes[used++] = text[0];
        }
    }
    bytes[used] = '\0';
    return used;
}

/* Bytes that are no character are U+FFFD each in a text, but a truncated character is one. These
 * texts are compared without either. */
static void keep_whole(const char *bytes, char *text)
{
    while (*bytes) {
        if (strncmp(bytes, "\xc3\xa9", 2) == 0) {
            text = stpncpy(text, bytes, 2);
            bytes += 2;
        } else if (strncmp(bytes, "\xe2\x82\xac", 3) == 0) {
            text = stpncpy(text, bytes, 3);
            bytes += 3;
        } else if (strncmp(bytes, "\xef\xbf\xbd", 3) == 0) {
            bytes += 3;
        } else {
            if ((unsigned char)*bytes < 0x80)
                *text++ = *bytes;
            bytes++;
        }
    }
    *text = '\0';
}

/* The text ends before the first stop string, whose bytes may be in several tokens; the list has
 * every token up to the one that completes it. */
static int expect_stop(int seed, const char *stops, const char *const *list)
{
    char fields[300], all[200], bytes[200], want[200], got[200];
    const char *first = NULL;
    size_t end = 0;
    snprintf(fields, sizeof fields,
             "\"prompt\":\"ab\",\"max_tokens\":60,\"temperature\":2,\"seed\":%d,\"logprobs\":0",
             seed);
    cJSON *whole = ask("bytes", fields);
    read_bytes(list_of(whole, "tokens"), all);
    for (int i = 0; list[i]; i++) {
        const char *found = strstr(all, list[i]);
        const size_t found_end = found ? (size_t)(found - all) + strlen(list[i]) : SIZE_MAX;
        if (found && (!first || found_end < end || (found_end == end && found < first))) {
            first = found;
            end = found_end;
        }
    }
    snprintf(fields + strlen(fields), sizeof fields - strlen(fields), ",\"stop\":%s", stops);
    cJSON *stopped = ask("bytes", fields);
    const size_t count = read_bytes(list_of(stopped, "tokens"), bytes);
    assert_string_equal(string_of(choice_of(stopped, 0), "finish_reason"),
                        first ? "stop" : "length");
    assert_int_equal(count, first ? end : strlen(all));
    assert_memory_equal(bytes, all, count);
    assert_int_equal(member(member(stopped, "usage"), "completion_tokens")->valueint, count);
    assert_int_equal(member(member(stopped, "usage"), "prompt_tokens")->valueint, 2);
    if (first)
        all[first - all] = '\0';
    keep_whole(all, want);
    keep_whole(string_of(choice_of(stopped, 0), "text"), got);
    assert_string_equal(got, want);
    cJSON_Delete(stopped);
    cJSON_Delete(whole);
    return first != NULL;
}

TEST(stops_across_tokens_and_characters)
{
    static const char *const E[] = { "\xc3\xa9", NULL };
    static const char *const BOTH[] = { "\xe2\x82\xac", "\xc3\xa9", NULL };
    static const char *const WORDS[] = { "a b", " \xc3\xa9", "bb", NULL };
    int stopped = 0;
    for (int seed = 0; seed < 40; seed++) {
        stopped += expect_stop(seed, "\"\xc3\xa9\"", E);
        stopped += expect_stop(seed, "[\"\xe2\x82\xac\",\"\\u00e9\"]", BOTH);
        stopped += expect_stop(seed, "[\"a b\",\" \xc3\xa9\",\"bb\"]", WORDS);
    }
    assert_true(stopped > 10 && stopped < 120);
}

/* ---------------------------------------------------------------------------- echo -- */

TEST(echo_of_ids_and_special_tokens)
{
    static const char FIELDS[] =
        "\"prompt\":[1,403,407,2,261,378],\"max_tokens\":0,\"echo\":true,\"logprobs\":0";
    cJSON *answer = ask("stories260K", FIELDS);
    const cJSON *tokens = list_of(answer, "tokens");
    assert_int_equal(cJSON_GetArraySize(tokens), 6);
    assert_string_equal(cJSON_GetArrayItem(tokens, 0)->valuestring, "<s>");
    assert_string_equal(cJSON_GetArrayItem(tokens, 3)->valuestring, "</s>");
    assert_string_equal(string_of(choice_of(answer, 0), "text"), "Once upon a time");
    answer_expect(member(choice_of(answer, 0), "logprobs"), "text_offset", "[0,0,4,9,9,11]", 0);
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(list_of(answer, "token_logprobs"), 0)));
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(list_of(answer, "top_logprobs"), 0)));
    assert_int_equal(member(member(answer, "usage"), "prompt_tokens")->valueint, 6);
    assert_int_equal(member(member(answer, "usage"), "completion_tokens")->valueint, 0);
    assert_int_equal(member(member(answer, "usage"), "total_tokens")->valueint, 6);
    cJSON_Delete(answer);
}

/* Sums over all prompts, with the special tokens that the template puts before each. */
TEST(usage_of_many)
{
    cJSON *answer =
        ask("stories260K", "\"prompt\":[\"Once upon a time\",\"One day\",\"a\"],\"max_tokens\":3");
    cJSON *tokens[3];
    static const char *const TEXTS[] = { "Once upon a time", "One day", "a" };
    int prompt = 0;
    for (int i = 0; i < 3; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"model\":\"stories260K\",\"text\":\"%s\"}", TEXTS[i]);
        tokens[i] = answer_post(&client, "/v1/tokenize", body);
        prompt += cJSON_GetArraySize(member(tokens[i], "tokens"));
        assert_int_equal(member(choice_of(answer, i), "index")->valueint, i);
        cJSON_Delete(tokens[i]);
    }
    assert_int_equal(member(member(answer, "usage"), "prompt_tokens")->valueint, prompt);
    assert_int_equal(member(member(answer, "usage"), "completion_tokens")->valueint, 9);
    assert_int_equal(member(member(answer, "usage"), "total_tokens")->valueint, prompt + 9);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------- equal strings -- */

/* At a text's start "\u2581a" and "a" add the same: the more probable has the string. */
TEST(tokens_of_one_string)
{
    enum { MANY = 100 };
    cJSON *answer = ask("stories260K", "\"prompt\":[1],\"max_tokens\":1,\"logprobs\":100");
    cJSON *trace = answer_post(&client, "/v1/trace",
                               "{\"model\":\"stories260K\",\"tokens\":[1],\"layers\":[],"
                               "\"outputs\":[\"predictions\"],\"top_k_tokens\":100}");
    const cJSON *top = cJSON_GetArrayItem(list_of(answer, "top_logprobs"), 0);
    const cJSON *token, *best = cJSON_GetArrayItem(member(trace, "predictions"), 0);
    const cJSON *entry = top->child;
    const char *names[MANY];
    int count = 0, numbered = 0;
    cJSON_ArrayForEach(token, member(best, "tokens")) {
        char name[64];
        const char *text = string_of(token, "text");
        const char *own = strncmp(text, "\xe2\x96\x81", 3) == 0 ? text + 3 : text;
        bool is_taken = false;
        for (int i = 0; i < count; i++)
            is_taken = is_taken || strcmp(names[i], own) == 0;
        snprintf(name, sizeof name, "token_id:%d", member(token, "id")->valueint);
        assert_non_null(entry);
        if (strncmp(text, "<0x", 3) != 0)
            assert_string_equal(entry->string, is_taken ? name : own);
        assert_true(entry->valuedouble == member(token, "logprob")->valuedouble);
        numbered += is_taken;
        names[count++] = own;
        entry = entry->next;
    }
    assert_null(entry);
    assert_int_equal(count, MANY);
    assert_true(numbered > 0);
    cJSON_Delete(trace);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------- ids without a token -- */

/* A tokenizer without the ids 4, 8 and 9, which the model has rows for: vocabularies are padded. */
static void make_gaps(void)
{
    static const char REST[] = "\"sat\":5,\".\":6,\"##s\":7}}}";
    char *tokenizer = strdup(word_model_tokenizer);
    strcpy(strstr(tokenizer, "\"cat\":4"), REST);
    word_model_make(fixture_path("gaps"), tokenizer);
    free(tokenizer);
}

TEST(ids_without_a_token_add_nothing)
{
    int gaps = 0;
    for (int seed = 0; seed < 5; seed++) {
        char fields[160], want[400] = "";
        const cJSON *string;
        snprintf(fields, sizeof fields,
                 "\"prompt\":[3,4],\"max_tokens\":30,\"temperature\":2,\"seed\":%d,"
                 "\"echo\":true,\"logprobs\":0",
                 seed);
        cJSON *answer = ask("gaps", fields);
        cJSON_ArrayForEach(string, list_of(answer, "tokens")) {
            const bool is_gap = strncmp(string->valuestring, "token_id:", 9) == 0;
            gaps += is_gap;
            if (!is_gap && string->valuestring[0] != '[')
                strcat(want, string->valuestring);
        }
        assert_int_equal(cJSON_GetArraySize(list_of(answer, "tokens")), 32);
        assert_string_equal(string_of(choice_of(answer, 0), "text"), want);
        cJSON_Delete(answer);
    }
    assert_true(gaps > 10);
}

/* ----------------------------------------------------------------------- end tokens -- */

/* The token that "words" goes on with behind "the cat", and its text. */
static int next_id;
static char next_text[32];

static void write_model(const char *name, const char *file, const char *format, bool is_id)
{
    char content[256], path[96];
    word_model_make(fixture_path(name), word_model_tokenizer);
    if (!file)
        return;
    if (is_id)
        snprintf(content, sizeof content, format, next_id);
    else
        snprintf(content, sizeof content, format, next_text);
    snprintf(path, sizeof path, "%s/%s", name, file);
    daemon_directory_write(directory, path, content, strlen(content));
}

/* config.json with one member more. */
static void write_config(const char *name)
{
    char content[1024], path[96];
    word_model_make(fixture_path(name), word_model_tokenizer);
    snprintf(content, sizeof content, "{\"eos_token_id\":%d,%s", next_id, word_model_config + 1);
    snprintf(path, sizeof path, "%s/config.json", name);
    daemon_directory_write(directory, path, content, strlen(content));
}

static void find_next(void)
{
    cJSON *trace = answer_post(&client, "/v1/trace",
                               "{\"model\":\"words\",\"text\":\"the cat\",\"layers\":[],"
                               "\"outputs\":[\"predictions\"],\"top_k_tokens\":1}");
    const cJSON *best = cJSON_GetArrayItem(member(trace, "predictions"), 0);
    next_id = member(member(best, "tokens")->child, "id")->valueint;
    snprintf(next_text, sizeof next_text, "%s", string_of(member(best, "tokens")->child, "text"));
    cJSON_Delete(trace);
}

static void expect_end(const char *model, const char *reason)
{
    cJSON *answer =
        ask(model, "\"prompt\":\"the cat\",\"max_tokens\":3,\"logprobs\":1,\"echo\":true");
    const bool is_stop = strcmp(reason, "stop") == 0;
    const int count = cJSON_GetArraySize(list_of(answer, "tokens"));
    fprintf(stderr, "%s\n", model);
    assert_string_equal(string_of(choice_of(answer, 0), "finish_reason"), reason);
    assert_int_equal(count, 4 + (is_stop ? 1 : 3)); /* [CLS] the cat [SEP] */
    assert_int_equal(member(member(answer, "usage"), "completion_tokens")->valueint,
                     is_stop ? 1 : 3);
    if (is_stop)
        assert_string_equal(string_of(choice_of(answer, 0), "text"), "the cat");
    assert_int_equal(cJSON_GetArraySize(list_of(answer, "token_logprobs")), count);
    assert_int_equal(cJSON_GetArraySize(list_of(answer, "top_logprobs")), count);
    assert_int_equal(cJSON_GetArraySize(list_of(answer, "text_offset")), count);
    cJSON_Delete(answer);
}

TEST(end_tokens_of_each_file)
{
    static const char *const ENDING[] = { "config", "generation", "generation_list", "tokenizer",
                                          "tokenizer_object" };
    for (size_t i = 0; i < sizeof ENDING / sizeof ENDING[0]; i++)
        expect_end(ENDING[i], "stop");
    expect_end("words", "length");
    expect_end("broken", "length");
}

/* -------------------------------------------------------------------------- faults -- */

#define LINEAR(name, shape, width) name ".weight " shape ", " name ".bias " width ", "
#define NORM(name)                 name ".weight 16, " name ".bias 16, "

/* A model of six positions. */
static void make_short(const char *name)
{
    static const char CONFIG[] =
        "{\"model_type\":\"gpt2\",\"n_embd\":16,\"n_head\":4,\"n_layer\":2,"
        "\"n_positions\":6,\"vocab_size\":10}";
    char path[64];
    assert_int_equal(mkdir(fixture_path(name), 0755), 0);
    published_open(CONFIG,
                   "wte.weight 10x16, wpe.weight 6x16, " NORM("h.#.ln_1") LINEAR(
                       "h.#.attn.c_attn", "16x48", "48") LINEAR("h.#.attn.c_proj", "16x16", "16")
                       NORM("h.#.ln_2") LINEAR("h.#.mlp.c_fc", "16x64", "64")
                           LINEAR("h.#.mlp.c_proj", "64x16", "16") "ln_f.weight 16, ln_f.bias 16",
                   2, "F32");
    published_save(fixture_path(name), CONFIG);
    published_close();
    snprintf(path, sizeof path, "%s/tokenizer.json", name);
    daemon_directory_write(directory, path, word_model_tokenizer, strlen(word_model_tokenizer));
}

static void expect_words(const char *fields, const char *code, const char *pointer,
                         const char *says)
{
    char body[300];
    snprintf(body, sizeof body, "{\"model\":\"short\",%s}", fields);
    struct http_response response = http_client_post(&client, PATH, body);
    answer_expect_fault(&response, 400, code, pointer);
    if (!strstr(response.body, says))
        fail_msg("%s does not say '%s'", response.body, says);
    http_response_free(&response);
}

/* A fault is about the field that was sent. */
TEST(faults_call_it_prompt)
{
    expect_words("\"prompt\":\"the cat sat on the cats\"", "length", "/prompt",
                 "prompt has 9 tokens; ");
    expect_words("\"prompt\":[\"the\",\"the cat sat on the cats\"]", "length", "/prompt/1",
                 "prompt has 9 tokens; ");
    expect_words("\"prompt\":[[1,1,1,1,1,1,1]],\"max_tokens\":0", "length", "/prompt/0",
                 "prompt has 7 tokens; ");
    expect_words("\"prompt\":[1,10]", "option", "/prompt/1", "of prompt has the id 10");
    struct http_response response =
        http_client_post(&client, PATH, "{\"model\":\"mute\",\"prompt\":\"a\"}");
    answer_expect_fault(&response, 400, "field", "/prompt");
    assert_non_null(strstr(response.body, "send ids of tokens"));
    http_response_free(&response);
}

/* A copy: a link would lead out of the directory of models. */
static void copy_stories(void)
{
    static const char *const FILES[] = { "config.json", "model.safetensors", "tokenizer.json" };
    assert_int_equal(mkdir(fixture_path("stories260K"), 0755), 0);
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        char from[96], to[96];
        size_t size;
        snprintf(from, sizeof from, "examples/models/stories260K/%s", FILES[i]);
        snprintf(to, sizeof to, "stories260K/%s", FILES[i]);
        unsigned char *bytes = tensor_read_bytes(from, &size);
        daemon_directory_write(directory, to, bytes, size);
        free(bytes);
    }
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    word_model_make(fixture_path("words"), word_model_tokenizer);
    fixture_serve("--models", directory);
    find_next();
    fixture_stop(state);
    word_model_make(fixture_path("bytes"), BYTES_TOKENIZER);
    word_model_make(fixture_path("mute"), NULL);
    make_short("short");
    make_gaps();
    write_config("config");
    write_model("generation", "generation_config.json", "{\"eos_token_id\":%d}", true);
    write_model("generation_list", "generation_config.json", "{\"eos_token_id\":[99,%d]}", true);
    write_model("tokenizer", "tokenizer_config.json", "{\"eos_token\":\"%s\"}", false);
    write_model("tokenizer_object", "tokenizer_config.json",
                "{\"eos_token\":{\"content\":\"%s\",\"special\":true}}", false);
    write_model("broken", "generation_config.json", "{\"eos_token_id\":%d", true);
    copy_stories();
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
