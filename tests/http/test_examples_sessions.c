/* SPDX-License-Identifier: Apache-2.0 */
/* test_examples_sessions.c - runs the programs in examples/sessions against daemons: one story told
 * in three ways is the story of the model, beams have the probabilities that a trace without a
 * session gives them, and a cache that is spread over daemons answers as the whole. */
#include "answer.h"
#include "example.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"

enum { SPREAD = 3, BEAMS = 4, BEAM_TOKENS_MAX = 64 };

static struct daemon others[SPREAD - 1];

/* Compiles a program of the folder with what it shares with the others. */
static char *build(const char *name)
{
    char sources[200];
    snprintf(sources, sizeof sources,
             "examples/sessions/%s.c examples/sessions/text.c examples/sessions/daemon.c", name);
    return example_build(directory, name, sources);
}

/* The ids must be those of greedy decoding, to the end of the text. */
static void expect_greedy(const char *output)
{
    cJSON *ids = example_greedy_ids();
    const char *at = output;
    const cJSON *id;
    cJSON_ArrayForEach(id, ids) {
        char *end;
        assert_int_equal(strtol(at, &end, 10), id->valueint);
        assert_true(end > at);
        at = end;
    }
    assert_string_equal(at, "\n");
    cJSON_Delete(ids);
}

static void expect_story(const char *name)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    char command[512], *program = build(name);
    snprintf(command, sizeof command, "%s --ids", program);
    example_run(command, &server, output);
    expect_greedy(output);
    example_run(program, &server, output);
    assert_memory_equal(output, "Once upon a time, there was a little girl named Lily. ", 54);
    snprintf(command, sizeof command, "tell() { %s \"$1\" 'Tom and his dog'; }; tell", program);
    example_run(command, &server, output);
    assert_memory_equal(output, "Tom and his dog, Max, ", 22);
    free(program);
    session_wait_until_empty(&client);
}

TEST(story)
{
    expect_story("story");
}

TEST(layers)
{
    expect_story("layers");
}

/* The same text by fewer requests than tokens. */
TEST(speculative)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    char command[512], *program;
    int tokens = 0, requests = 0;
    expect_story("speculative");
    program = build("speculative");
    snprintf(command, sizeof command, "tell() { %s \"$1\" 2>&1 >/dev/null; }; tell", program);
    example_run(command, &server, output);
    assert_int_equal(sscanf(output, "%d tokens in %d requests", &tokens, &requests), 2);
    assert_int_equal(tokens, 256);
    assert_in_range(requests, 1, 200);
    free(program);
}

/* ------------------------------------------------------------------------- beams -- */

struct beam {
    double logprob;
    int tokens[BEAM_TOKENS_MAX];
    int count;
};

/* Reads a line "-10.8475 1 274 287"; returns where it ends. */
static const char *read_beam(const char *line, struct beam *beam)
{
    char *end;
    beam->logprob = strtod(line, &end);
    for (beam->count = 0; *end == ' '; beam->count++) {
        assert_true(beam->count < BEAM_TOKENS_MAX);
        beam->tokens[beam->count] = (int)strtol(end, &end, 10);
    }
    assert_int_equal(*end, '\n');
    return end + 1;
}

/* The log of the probability of the tokens behind the beginning, by one trace of all of them. */
static double logprob_of(const struct beam *beam, int beginning)
{
    struct request_text body = { 0 };
    double sum = 0;
    request_text_add(&body,
                     "{\"model\":\"stories260K\",\"layers\":[],\"outputs\":[\"predictions\"],"
                     "\"top_k_tokens\":512,\"tokens\":[");
    for (int i = 0; i < beam->count; i++)
        request_text_add(&body, "%s%d", i > 0 ? "," : "", beam->tokens[i]);
    request_text_add(&body, "],\"positions\":[");
    for (int i = beginning; i < beam->count; i++)
        request_text_add(&body, "%s%d", i > beginning ? "," : "", i - 1);
    request_text_add(&body, "]}");
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    const cJSON *prediction = cJSON_GetObjectItem(answer, "predictions")->child;
    for (int i = beginning; i < beam->count; i++, prediction = prediction->next) {
        const cJSON *token = cJSON_GetObjectItem(prediction, "tokens")->child;
        while (token && cJSON_GetObjectItem(token, "id")->valueint != beam->tokens[i])
            token = token->next;
        assert_non_null(token);
        sum += cJSON_GetObjectItem(token, "logprob")->valuedouble;
    }
    cJSON_Delete(answer);
    free(body.data);
    return sum;
}

/* The tokens that both begin with. */
static int common(const struct beam *one, const struct beam *other)
{
    int count = 0;
    while (count < one->count && one->tokens[count] == other->tokens[count])
        count++;
    return count;
}

TEST(beams)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    struct beam beams[BEAMS];
    char command[512], *program = build("beams");
    const char *at = output;
    snprintf(command, sizeof command, "%s --ids", program);
    example_run(command, &server, output);
    cJSON *answer =
        answer_post(&client, "/v1/tokenize", "{\"model\":\"stories260K\",\"text\":\"Tom had\"}");
    const int beginning = cJSON_GetArraySize(cJSON_GetObjectItem(answer, "tokens"));
    cJSON_Delete(answer);
    for (int b = 0; b < BEAMS; b++) {
        at = read_beam(at, &beams[b]);
        assert_int_equal(beams[b].count, beginning + 24);
        const double want = logprob_of(&beams[b], beginning);
        if (fabs(beams[b].logprob - want) > 1e-3)
            fail_msg("beam %d has %.4f; the trace says %.6f", b, beams[b].logprob, want);
        assert_true(b == 0 || beams[b].logprob <= beams[b - 1].logprob);
        /* Another text, and of one stem: its session was forked on the way. */
        for (int other = 0; other < b; other++)
            assert_in_range(common(&beams[other], &beams[b]), beginning + 1, beams[b].count - 1);
    }
    assert_string_equal(at, "");
    example_run(program, &server, output);
    assert_non_null(strstr(output, "Tom had a boy named Tim. "));
    free(program);
    session_wait_until_empty(&client);
}

/* ------------------------------------------------------------------------ spread -- */

/* The tolerance is that of merging floats: the context's numbers are below 2. */
TEST(spread)
{
    static char output[EXAMPLE_OUTPUT_BYTES];
    static const int LENGTHS[SPREAD] = { 207, 207, 206 };
    char command[512], want[100];
    char *program =
        example_build(directory, "spread", "examples/sessions/spread.c examples/sessions/daemon.c");
    snprintf(command, sizeof command, "%s http://127.0.0.1:%d http://127.0.0.1:%d", program,
             others[0].port, others[1].port);
    example_run(command, &server, output);
    for (int i = 0; i < SPREAD; i++) {
        snprintf(want, sizeof want, "%d keys at http://127.0.0.1:%d\n", LENGTHS[i],
                 i < SPREAD - 1 ? others[i].port : server.port);
        assert_non_null(strstr(output, want));
    }
    const char *last = strstr(output, "largest difference to the whole: ");
    assert_non_null(last);
    const double difference = strtod(last + 33, NULL);
    print_message("    %s", last);
    assert_true(difference < 2e-6);
    free(program);
    session_wait_until_empty(&client);
}

static int start(void **state)
{
    fixture_make_directory(state);
    for (int i = 0; i < SPREAD - 1; i++)
        daemon_start(&others[i], NULL);
    return fixture_start_with_examples(state);
}

static int clear(void **state)
{
    for (int i = 0; i < SPREAD - 1; i++)
        daemon_kill(&others[i]);
    return fixture_clear(state);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, clear);
