/* SPDX-License-Identifier: Apache-2.0 */
/* test_completions.c - POST /v1/completions: the requests of lm-evaluation-harness and of captum,
 * as their source sends and reads them; greedy texts against traces; draws against their law. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answer.h"
#include "fixture.h"
#include "published.h"
#include "session_client.h"
#include "word_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH    "/v1/completions"
#define STORIES "\"model\":\"stories260K\""

enum { SEEDS = 2000, MANY = 1024, STEPS = 24 };

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!found)
        fail_msg("no member %s", name);
    return found;
}

static const cJSON *choice_of(const cJSON *answer, int i)
{
    return cJSON_GetArrayItem(member(answer, "choices"), i);
}

static const char *text_of(const cJSON *answer, int i)
{
    return member(choice_of(answer, i), "text")->valuestring;
}

static const cJSON *logprobs_of(const cJSON *answer, const char *list)
{
    return member(member(choice_of(answer, 0), "logprobs"), list);
}

static double number_at(const cJSON *list, int i)
{
    const cJSON *number = cJSON_GetArrayItem(list, i);
    assert_true(cJSON_IsNumber(number));
    return number->valuedouble;
}

static double largest_of(const cJSON *object)
{
    const cJSON *number;
    double largest = -INFINITY;
    cJSON_ArrayForEach(number, object)
        largest = fmax(largest, number->valuedouble);
    return largest;
}

static cJSON *ask(const char *fields)
{
    char body[1024];
    snprintf(body, sizeof body, "{" STORIES ",%s}", fields);
    return answer_post(&client, PATH, body);
}

/* ---------------------------------------------------------------- the harness -- */

/* The tokens of "<s>Once upon a time", and behind them three that are less probable: context and
 * continuation, as the harness joins them. */
#define CONTEXT      "1,403,407,261,378"
#define CONTEXT_SIZE 5
static const char harness[] = "{" STORIES ",\"prompt\":[[" CONTEXT ",432,406,284]],"
                              "\"temperature\":0,\"max_tokens\":1,\"logprobs\":1,\"seed\":1234,"
                              "\"echo\":true}";

/* What parse_logprobs() of lm_eval/models/openai_completions.py makes of an answer: the sum of
 * [ctxlen:-1], and whether each of them is the largest of its top_logprobs. */
static double parse_logprobs(const cJSON *answer, int ctxlen, bool *is_greedy, int *count)
{
    const cJSON *own = logprobs_of(answer, "token_logprobs");
    const cJSON *top = logprobs_of(answer, "top_logprobs");
    double sum = 0;
    *is_greedy = true;
    *count = 0;
    for (int i = ctxlen; i < cJSON_GetArraySize(own) - 1; i++, ++*count) {
        sum += number_at(own, i);
        if (number_at(own, i) != largest_of(cJSON_GetArrayItem(top, i)))
            *is_greedy = false;
    }
    return sum;
}

static cJSON *trace_logprobs(const char *tokens)
{
    char body[256];
    snprintf(body, sizeof body,
             "{" STORIES ",\"tokens\":[%s],\"layers\":[],\"outputs\":[\"logprobs\"]}", tokens);
    return answer_post(&client, "/v1/trace", body);
}

static void test_harness(void **state)
{
    (void)state;
    bool is_greedy, is_best = true;
    int count;
    cJSON *answer = answer_post(&client, PATH, harness);
    cJSON *trace = trace_logprobs(CONTEXT ",432,406,284");
    const double sum = parse_logprobs(answer, CONTEXT_SIZE, &is_greedy, &count);
    const cJSON *own = logprobs_of(answer, "token_logprobs");
    const cJSON *traced = member(trace, "logprobs");
    double traced_sum = 0;
    assert_int_equal(count, 3);
    assert_int_equal(cJSON_GetArraySize(own), cJSON_GetArraySize(traced) + 1);
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(own, 0)));
    for (int i = 1; i < cJSON_GetArraySize(traced); i++) {
        const cJSON *token = cJSON_GetArrayItem(traced, i);
        assert_true(number_at(own, i) == member(token, "logprob")->valuedouble);
        if (i >= CONTEXT_SIZE) {
            traced_sum += member(token, "logprob")->valuedouble;
            is_best = is_best && member(token, "rank")->valueint == 1;
        }
    }
    assert_true(sum == traced_sum);
    assert_int_equal(is_greedy, is_best);
    cJSON_Delete(trace);
    cJSON_Delete(answer);
}

/* generate_until of the harness. */
static void test_harness_generates(void **state)
{
    (void)state;
    cJSON *answer = ask("\"prompt\":[[" CONTEXT "]],\"max_tokens\":20,\"temperature\":0,"
                        "\"stop\":[\" girl\",\"</s>\"],\"seed\":1234");
    assert_string_equal(text_of(answer, 0), ", there was a little");
    assert_string_equal(member(choice_of(answer, 0), "finish_reason")->valuestring, "stop");
    cJSON_Delete(answer);
}

/* --------------------------------------------------------------------- captum -- */

/* get_logprobs() of captum's VLLMProvider: of each of the last tokens exactly one entry. */
static void test_captum(void **state)
{
    (void)state;
    cJSON *models = answer_get(&client, "/v1/models");
    assert_string_equal(member(cJSON_GetArrayItem(member(models, "data"), 0), "id")->valuestring,
                        "stories260K");
    cJSON_Delete(models);
    cJSON *answer = ask("\"prompt\":\"Once upon a time, there was\",\"temperature\":0.0,"
                        "\"max_tokens\":1,\"prompt_logprobs\":0");
    const cJSON *list = member(choice_of(answer, 0), "prompt_logprobs");
    const int size = cJSON_GetArraySize(list);
    cJSON *trace = answer_post(&client, "/v1/trace",
                               "{" STORIES ",\"text\":\"Once upon a time, there was\","
                               "\"layers\":[],\"outputs\":[\"logprobs\"]}");
    assert_int_equal(size, cJSON_GetArraySize(member(trace, "logprobs")));
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(list, 0)));
    for (int i = 1; i < size; i++) {
        const cJSON *probs = cJSON_GetArrayItem(list, i);
        const cJSON *token = cJSON_GetArrayItem(member(trace, "logprobs"), i);
        assert_int_equal(cJSON_GetArraySize(probs), 1);
        assert_int_equal(atoi(probs->child->string), member(token, "id")->valueint);
        answer_expect_equal(probs->child, token, "logprob");
        answer_expect_equal(probs->child, token, "rank");
    }
    cJSON_Delete(trace);
    cJSON_Delete(answer);
}

/* --------------------------------------------------------------------- greedy -- */

/* Each token is the most probable one of a trace of all before it, with its log-prob. */
static void test_greedy(void **state)
{
    (void)state;
    char tokens[1024] = CONTEXT, body[1200];
    size_t used = strlen(tokens);
    cJSON *answer = ask("\"prompt\":[" CONTEXT "],\"max_tokens\":24,\"logprobs\":3");
    const cJSON *own = logprobs_of(answer, "token_logprobs");
    const cJSON *top = logprobs_of(answer, "top_logprobs");
    assert_int_equal(cJSON_GetArraySize(own), STEPS);
    for (int i = 0; i < STEPS; i++) {
        snprintf(body, sizeof body,
                 "{" STORIES ",\"tokens\":[%s],\"layers\":[],\"outputs\":[\"predictions\"],"
                 "\"top_k_tokens\":3}",
                 tokens);
        cJSON *trace = answer_post(&client, "/v1/trace", body);
        const cJSON *best = member(cJSON_GetArrayItem(member(trace, "predictions"), 0), "tokens");
        const double want = member(best->child, "logprob")->valuedouble;
        assert_true(fabs(number_at(own, i) - want) <= 1e-5 * (1 + fabs(want)));
        assert_true(number_at(own, i) == largest_of(cJSON_GetArrayItem(top, i)));
        assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(top, i)), 3);
        used += (size_t)snprintf(tokens + used, sizeof tokens - used, ",%d",
                                 member(best->child, "id")->valueint);
        cJSON_Delete(trace);
    }
    cJSON_Delete(answer);
    snprintf(body, sizeof body, "{" STORIES ",\"tokens\":[%s]}", tokens);
    cJSON *text = answer_post(&client, "/v1/detokenize", body);
    answer = ask("\"prompt\":[" CONTEXT "],\"max_tokens\":24,\"echo\":true");
    assert_string_equal(text_of(answer, 0), member(text, "text")->valuestring);
    cJSON_Delete(text);
    cJSON_Delete(answer);
}

/* The same bits as those of a session that is traced token by token. */
static void test_bits_of_session(void **state)
{
    (void)state;
    char fields[200] = "\"tokens\":[" CONTEXT "]";
    cJSON *answer = ask("\"prompt\":[" CONTEXT "],\"max_tokens\":24,\"logprobs\":1");
    session_make(&client, "{" STORIES ",\"id\":\"bits\"}");
    for (int i = 0; i < STEPS; i++) {
        char body[300];
        snprintf(body, sizeof body,
                 "{%s,\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":1}", fields);
        cJSON *trace = session_post(&client, "bits", "trace", body, 200);
        const cJSON *best =
            member(cJSON_GetArrayItem(member(trace, "predictions"), 0), "tokens")->child;
        assert_true(number_at(logprobs_of(answer, "token_logprobs"), i)
                    == member(best, "logprob")->valuedouble);
        snprintf(fields, sizeof fields, "\"tokens\":[%d]", member(best, "id")->valueint);
        cJSON_Delete(trace);
    }
    session_delete(&client, "bits", 204);
    cJSON_Delete(answer);
}

/* Strings one behind the other are the text, and each begins where its offset says. */
static void test_offsets(void **state)
{
    (void)state;
    cJSON *answer =
        ask("\"prompt\":\"One d\xc3\xa4y \xe2\x82\xac\",\"max_tokens\":6,\"logprobs\":0,"
            "\"echo\":true");
    const cJSON *tokens = logprobs_of(answer, "tokens");
    const cJSON *offsets = logprobs_of(answer, "text_offset");
    int bytes = 0;
    assert_string_equal(cJSON_GetArrayItem(tokens, 0)->valuestring, "<s>");
    for (int i = 1, at = 0; i < cJSON_GetArraySize(tokens); i++) {
        const char *string = cJSON_GetArrayItem(tokens, i)->valuestring;
        assert_int_equal((int)number_at(offsets, i), at);
        if (strncmp(string, "bytes:\\x", 8) == 0) {
            bytes++;
            at += string[8] == 'a' && string[9] == 'c'; /* the last byte of the euro sign, */
            at += string[8] == 'a' && string[9] == '4'; /* and of the umlaut */
        } else
            for (const char *p = string; *p; p++)
                at += (*p & 0xC0) != 0x80;
    }
    assert_true(bytes == 0 || bytes == 2 || bytes == 3 || bytes == 5);
    assert_memory_equal(text_of(answer, 0), "One d\xc3\xa4y \xe2\x82\xac", 12);
    cJSON_Delete(answer);
}

/* ----------------------------------------------------------------------- stops -- */

static void test_stop_across_tokens(void **state)
{
    (void)state;
    cJSON *answer = ask("\"prompt\":\"Once upon a time\",\"max_tokens\":20,\"logprobs\":0,"
                        "\"stop\":[\"nowhere\",\"tle gi\"]");
    const cJSON *tokens = logprobs_of(answer, "tokens");
    const int count = cJSON_GetArraySize(tokens);
    assert_string_equal(text_of(answer, 0), ", there was a lit");
    assert_string_equal(cJSON_GetArrayItem(tokens, count - 1)->valuestring, "ir");
    assert_int_equal(member(member(answer, "usage"), "completion_tokens")->valueint, count);
    cJSON_Delete(answer);
}

/* ---------------------------------------------------------------------- drawing -- */

static void test_equal_seeds(void **state)
{
    (void)state;
    static const char FIELDS[] = "\"prompt\":[\"Once\",\"One day\"],\"max_tokens\":12,"
                                 "\"temperature\":1.3,\"top_p\":0.9,\"seed\":-7,\"logprobs\":2";
    cJSON *one = ask(FIELDS), *two = ask(FIELDS);
    cJSON *single = ask("\"prompt\":\"One day\",\"max_tokens\":12,\"temperature\":1.3,"
                        "\"top_p\":0.9,\"seed\":-7,\"logprobs\":2");
    answer_expect_equal(one, two, "choices");
    assert_string_equal(text_of(single, 0), text_of(one, 1));
    answer_expect_equal(choice_of(single, 0), choice_of(one, 1), "logprobs");
    cJSON_Delete(one);
    cJSON_Delete(two);
    cJSON_Delete(single);
}

/* Of a daemon with a sanitizer fewer, so that the test ends in its time. */
static int seed_count(void)
{
    return daemon_slowness() > 1 ? SEEDS / 10 : SEEDS;
}

/* How often each of the ten most probable first tokens is drawn, of so many seeds. */
static void draw(const char *fields, const cJSON *top, int *counts, int *others)
{
    char body[256];
    *others = 0;
    for (int seed = 0; seed < seed_count(); seed++) {
        snprintf(body, sizeof body,
                 "\"prompt\":\"Once upon a time, there was a\",\"max_tokens\":1,\"logprobs\":0,"
                 "\"seed\":%d,%s",
                 seed, fields);
        cJSON *answer = ask(body);
        const char *token = cJSON_GetArrayItem(logprobs_of(answer, "tokens"), 0)->valuestring;
        const cJSON *one;
        int i = 0;
        cJSON_ArrayForEach(one, top) {
            if (strcmp(one->string, token) == 0)
                break;
            i++;
        }
        if (one)
            counts[i]++;
        else
            ++*others;
        cJSON_Delete(answer);
    }
}

/* 5.5 standard deviations, of ten counts: a right sampler fails less than once in 10^6 choices of
 * seeds. */
static void test_frequencies(void **state)
{
    (void)state;
    const int seeds = seed_count();
    int counts[10] = { 0 }, others, i = 0;
    cJSON *answer = ask("\"prompt\":\"Once upon a time, there was a\",\"max_tokens\":1,"
                        "\"logprobs\":10");
    const cJSON *top = cJSON_GetArrayItem(logprobs_of(answer, "top_logprobs"), 0), *one;
    assert_int_equal(cJSON_GetArraySize(top), 10);
    draw("\"temperature\":1", top, counts, &others);
    cJSON_ArrayForEach(one, top) {
        const double p = exp(one->valuedouble);
        const double bound = 5.5 * sqrt(seeds * p * (1 - p)) + 1;
        if (fabs(counts[i] - seeds * p) > bound)
            fail_msg("'%s' was drawn %d times of %d; its probability is %g", one->string, counts[i],
                     seeds, p);
        i++;
    }
    cJSON_Delete(answer);
}

/* Tokens behind the sum are never drawn, and all before it are. */
static void test_top_p(void **state)
{
    (void)state;
    int counts[10] = { 0 }, others, kept = 0;
    double sum = 0;
    cJSON *answer = ask("\"prompt\":\"Once upon a time, there was a\",\"max_tokens\":1,"
                        "\"logprobs\":10");
    const cJSON *top = cJSON_GetArrayItem(logprobs_of(answer, "top_logprobs"), 0), *one;
    cJSON_ArrayForEach(one, top) {
        if (sum < 0.75) {
            sum += exp(one->valuedouble);
            kept++;
        }
    }
    assert_true(sum >= 0.75 && kept < 10);
    draw("\"temperature\":1,\"top_p\":0.75", top, counts, &others);
    assert_int_equal(others, 0);
    for (int i = 0; i < 10; i++)
        assert_true(i < kept ? counts[i] > 0 : counts[i] == 0);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------- many prompts -- */

static void test_many(void **state)
{
    (void)state;
    const int many = daemon_slowness() > 1 ? MANY / 16 : MANY; /* in the time that a client waits */
    char *body = malloc(MANY * 24 + 200);
    size_t used = (size_t)sprintf(body, "{" STORIES ",\"max_tokens\":2,\"prompt\":[");
    for (int i = 0; i < many; i++)
        used += (size_t)sprintf(body + used, "%s[1,%d,%d]", i > 0 ? "," : "", 400 + i % 100,
                                260 + i / 100);
    sprintf(body + used, "]}");
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = PATH, .body = body, .timeout_seconds = 240 });
    cJSON *answer = answer_json(&response, 200);
    http_response_free(&response);
    assert_int_equal(cJSON_GetArraySize(member(answer, "choices")), many);
    for (int i = 0; i < many; i += 97) {
        sprintf(body, "\"max_tokens\":2,\"prompt\":[1,%d,%d]", 400 + i % 100, 260 + i / 100);
        cJSON *single = ask(body);
        assert_int_equal(member(choice_of(answer, i), "index")->valueint, i);
        assert_string_equal(text_of(single, 0), text_of(answer, i));
        cJSON_Delete(single);
    }
    cJSON_Delete(answer);
    free(body);
}

/* A client that leaves: its call ends, and nothing stays of it. */
static void test_leaves(void **state)
{
    (void)state;
    struct http_raw raw;
    char body[200], head[200];
    snprintf(body, sizeof body, "{" STORIES ",\"prompt\":\"Once\",\"max_tokens\":%d}",
             daemon_slowness() > 1 ? 1000 : 20000); /* more would be too much for its deadline */
    snprintf(head, sizeof head,
             "POST " PATH " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n",
             strlen(body));
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, head) && http_raw_send_text(&raw, body));
    answer_wait_for_metric(&client, "attnd_session_bytes", 1, 1e12);
    http_raw_close(&raw);
    answer_wait_for_active(&client, 0);
    answer_wait_for_metric(&client, "attnd_session_bytes", 0, 0);
}

/* ------------------------------------------------------------------------ faults -- */

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *code, *pointer;
        long status;
    } REFUSED[] = {
        { "\"prompt\":\"a\",\"n\":2", "option", "/n", 400 },
        { "\"prompt\":\"a\",\"best_of\":2", "option", "/best_of", 400 },
        { "\"prompt\":\"a\",\"stream\":true", "option", "/stream", 400 },
        { "\"prompt\":\"a\",\"stream_options\":{}", "option", "/stream_options", 400 },
        { "\"prompt\":\"a\",\"suffix\":\"b\"", "option", "/suffix", 400 },
        { "\"prompt\":\"a\",\"presence_penalty\":1", "option", "/presence_penalty", 400 },
        { "\"prompt\":\"a\",\"frequency_penalty\":-1", "option", "/frequency_penalty", 400 },
        { "\"prompt\":\"a\",\"logit_bias\":{\"1\":1}", "option", "/logit_bias", 400 },
        { "\"prompt\":\"a\",\"temperature\":2.5", "option", "/temperature", 400 },
        { "\"prompt\":\"a\",\"temperature\":-1", "option", "/temperature", 400 },
        { "\"prompt\":\"a\",\"top_p\":0", "option", "/top_p", 400 },
        { "\"prompt\":\"a\",\"top_p\":1.5", "option", "/top_p", 400 },
        { "\"prompt\":\"a\",\"seed\":0.5", "option", "/seed", 400 },
        { "\"prompt\":\"a\",\"logprobs\":101", "option", "/logprobs", 400 },
        { "\"prompt\":\"a\",\"prompt_logprobs\":-1", "option", "/prompt_logprobs", 400 },
        { "\"prompt\":\"a\",\"max_tokens\":-1", "option", "/max_tokens", 400 },
        { "\"prompt\":\"a\",\"max_tokens\":1000000000", "answer_too_large", "/max_tokens", 413 },
        { "\"prompt\":\"a\",\"stop\":\"\"", "option", "/stop", 400 },
        { "\"prompt\":\"a\",\"stop\":1", "type", "/stop", 400 },
        { "\"prompt\":\"a\",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"0\","
          "\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\"]",
          "option", "/stop", 400 },
        { "\"prompt\":\"a\",\"messages\":[]", "field", "/messages", 400 },
        { "\"max_tokens\":1", "field", "/prompt", 400 },
        { "\"prompt\":null", "field", "/prompt", 400 },
        { "\"prompt\":1", "type", "/prompt", 400 },
        { "\"prompt\":[\"a\",1]", "type", "/prompt", 400 },
        { "\"prompt\":[1,[2]]", "type", "/prompt", 400 },
        { "\"prompt\":[[[1]]]", "type", "/prompt", 400 },
        { "\"prompt\":[true]", "type", "/prompt", 400 },
        { "\"prompt\":[]", "option", "/prompt", 400 },
        { "\"prompt\":[[]]", "option", "/prompt/0", 400 },
        { "\"prompt\":[[1],[]]", "option", "/prompt/1", 400 },
        { "\"prompt\":[1,512]", "option", "/prompt/1", 400 },
        { "\"prompt\":[[1],[1,-1]]", "option", "/prompt/1/1", 400 },
        { "\"prompt\":[1.5]", "option", "/prompt/0", 400 },
    };
    char body[512];
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        snprintf(body, sizeof body, "{" STORIES ",%s}", REFUSED[i].fields);
        answer_refused(&client, PATH, body, REFUSED[i].status, REFUSED[i].code, REFUSED[i].pointer);
    }
    answer_refused(&client, PATH, "{\"model\":\"demo\",\"prompt\":\"a\"}", 400, "option", "/model");
    cJSON *answer = ask("\"prompt\":\"a\",\"n\":1,\"best_of\":1,\"stream\":false,\"suffix\":null,"
                        "\"presence_penalty\":0,\"frequency_penalty\":0.0,\"logit_bias\":{},"
                        "\"user\":\"me\",\"stream_options\":null,\"max_tokens\":0,\"echo\":true");
    assert_string_equal(text_of(answer, 0), "a");
    cJSON_Delete(answer);
}

/* --------------------------------------------------------------------- end tokens -- */

#define LINEAR(name, shape, width) name ".weight " shape ", " name ".bias " width ", "
#define NORM(name)                 name ".weight 16, " name ".bias 16, "

/* A model of 16 positions and without a tokenizer. */
static void make_short(const char *folder)
{
    static const char CONFIG[] =
        "{\"model_type\":\"gpt2\",\"n_embd\":16,\"n_head\":4,\"n_layer\":2,"
        "\"n_positions\":16,\"vocab_size\":40}";
    assert_int_equal(mkdir(folder, 0755), 0);
    published_open(CONFIG,
                   "wte.weight 40x16, wpe.weight 16x16, " NORM("h.#.ln_1") LINEAR(
                       "h.#.attn.c_attn", "16x48", "48") LINEAR("h.#.attn.c_proj", "16x16", "16")
                       NORM("h.#.ln_2") LINEAR("h.#.mlp.c_fc", "16x64", "64")
                           LINEAR("h.#.mlp.c_proj", "64x16", "16") "ln_f.weight 16, ln_f.bias 16",
                   2, "F32");
    published_save(folder, CONFIG);
    published_close();
}

static int start_words(void **state)
{
    static const char ENDS[] = "{\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9]}";
    fixture_make_directory(state);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    daemon_directory_write(directory, "words/generation_config.json", ENDS, sizeof ENDS - 1);
    make_short(fixture_path("short"));
    fixture_serve("--models", directory);
    return 0;
}

/* Posts a prompt of so many ids. */
static void expect_room(int length, const char *more, int count, const char *pointer)
{
    char body[256];
    size_t used = (size_t)sprintf(body, "{\"model\":\"short\"%s,\"prompt\":[", more);
    for (int i = 0; i < length; i++)
        used += (size_t)sprintf(body + used, "%s%d", i > 0 ? "," : "", i);
    sprintf(body + used, "]}");
    if (pointer) {
        answer_refused(&client, PATH, body, 400, "length", pointer);
        return;
    }
    cJSON *answer = answer_post(&client, PATH, body);
    assert_int_equal(member(member(answer, "usage"), "completion_tokens")->valueint, count);
    cJSON_Delete(answer);
}

static void test_room(void **state)
{
    (void)state;
    expect_room(10, "", 6, NULL);
    expect_room(10, ",\"max_tokens\":6", 6, NULL);
    expect_room(10, ",\"max_tokens\":7", 0, "/max_tokens");
    expect_room(16, ",\"max_tokens\":0", 0, NULL);
    expect_room(16, "", 0, "/max_tokens");
    expect_room(17, ",\"max_tokens\":0", 0, "/prompt");
}

static void test_without_tokenizer(void **state)
{
    (void)state;
    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"short\",\"prompt\":[7,8],\"max_tokens\":0,"
                                "\"echo\":true,\"logprobs\":0}");
    assert_string_equal(text_of(answer, 0), "");
    answer_expect(member(choice_of(answer, 0), "logprobs"), "tokens",
                  "[\"token_id:7\",\"token_id:8\"]", 0);
    answer_expect(member(choice_of(answer, 0), "logprobs"), "text_offset", "[0,0]", 0);
    cJSON_Delete(answer);
    answer_refused(&client, PATH, "{\"model\":\"short\",\"prompt\":\"a\"}", 400, "field",
                   "/prompt");
}

static void test_end_tokens(void **state)
{
    (void)state;
    cJSON *answer =
        answer_post(&client, PATH, "{\"model\":\"words\",\"prompt\":\"the cat\",\"logprobs\":0}");
    assert_string_equal(text_of(answer, 0), "");
    assert_string_equal(member(choice_of(answer, 0), "finish_reason")->valuestring, "stop");
    assert_int_equal(cJSON_GetArraySize(logprobs_of(answer, "tokens")), 1);
    cJSON_Delete(answer);
    cJSON *model = answer_get(&client, "/v1/models/words");
    answer_expect(model, "id", "\"words\"", 0);
    answer_expect(model, "object", "\"model\"", 0);
    answer_expect(model, "owned_by", "\"attnd\"", 0);
    assert_true(member(model, "created")->valuedouble > 1e9);
    cJSON_Delete(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_harness),
        cmocka_unit_test(test_harness_generates),
        cmocka_unit_test(test_captum),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_bits_of_session),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_stop_across_tokens),
        cmocka_unit_test(test_equal_seeds),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_top_p),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_stops_cleanly),
    };
    const struct CMUnitTest words[] = {
        cmocka_unit_test(test_end_tokens),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_without_tokenizer),
        cmocka_unit_test(test_stops_cleanly),
    };
    const int failed = cmocka_run_group_tests(tests, fixture_start_with_examples, fixture_clear);
    return failed + cmocka_run_group_tests(words, start_words, fixture_clear);
}
