/* SPDX-License-Identifier: Apache-2.0 */
/* test_edits_sessions.c - edits of traces that go on from a session, at every place: rows are those
 * of the request, keys count from the first token on, and the caches carry the edited pass. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "test.h"
#include "traced_model.h"
#include "word_model.h"

enum { FIRST = 5, NEXT = 8, TOKENS = 11, WIDTH = TRACED_WIDTH, LAYERS = TRACED_LAYERS };

/* Tokens [first, end) of llama's, and more members behind them. */
static char *body_of(int first, int end, const char *more)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"tokens\":[");
    for (int i = first; i < end; i++)
        request_text_add(&body, "%s%d", i > first ? "," : "", i * 7 % TRACED_TOKENS);
    request_text_add(&body, "]%s", more);
    request_text_add(&body, "}");
    return body.data;
}

static cJSON *whole_of(const char *more)
{
    struct request_text members = { .data = NULL };
    request_text_add(&members, ",\"model\":\"llama\"%s", more);
    char *body = body_of(0, TOKENS, members.data);
    cJSON *answer = answer_post(&client, "/v1/trace", body);
    free(members.data);
    free(body);
    return answer;
}

static cJSON *piece_of(int first, int end, const char *more)
{
    char *body = body_of(first, end, more);
    cJSON *answer = session_post(&client, "s", "trace", body, 200);
    free(body);
    return answer;
}

/* ------------------------------------------------------------------ one and in pieces -- */

/* Rows [first, end) of the rows of the whole trace. */
static void expect_rows(const cJSON *piece, const cJSON *whole, const char *name, int first,
                        int end, const char *what)
{
    const int64_t shape[] = { end - first, WIDTH }, whole_shape[] = { TOKENS, WIDTH };
    double *got = answer_numbers(piece, name, 2, shape);
    double *want = answer_numbers(whole, name, 2, whole_shape);
    for (int i = 0; i < (end - first) * WIDTH; i++)
        if (!(fabs(got[i] - want[first * WIDTH + i]) <= 2e-5 * (1 + fabs(want[first * WIDTH + i]))))
            fail_msg("%s: %s: number %d of rows from %d is %.9g, not %.9g", what, name, i, first,
                     got[i], want[first * WIDTH + i]);
    free(got);
    free(want);
}

static void expect_piece(const cJSON *piece, const cJSON *whole, int first, int end,
                         const char *what)
{
    for (int i = 0; i < LAYERS; i++) {
        const cJSON *layer = cJSON_GetArrayItem(cJSON_GetObjectItem(piece, "layers"), i);
        const cJSON *all = cJSON_GetArrayItem(cJSON_GetObjectItem(whole, "layers"), i);
        expect_rows(layer, all, "hidden_states", first, end, what);
        expect_rows(layer, all, "attention_output", first, end, what);
    }
    expect_rows(piece, whole, "final_hidden_states", first, end, what);
}

#define ROWS_OUT ",\"outputs\":[\"hidden_states\",\"attention_output\"]"

/* Edits of the second request of three: of rows [FIRST, NEXT) of the whole, 0 to 2 of its own. What
 * comes behind it is not edited, but reads what the caches hold. */
static void expect_session(const char *of_piece, const char *of_whole)
{
    char more[1200];
    snprintf(more, sizeof more, ROWS_OUT ",\"edits\":%s", of_whole);
    cJSON *whole = whole_of(more), *plain = whole_of(ROWS_OUT);
    session_make(&client, "{\"model\":\"llama\",\"id\":\"s\"}");
    cJSON *piece = piece_of(0, FIRST, ROWS_OUT);
    expect_piece(piece, plain, 0, FIRST, "unedited");
    cJSON_Delete(piece);
    snprintf(more, sizeof more, ROWS_OUT ",\"edits\":%s", of_piece);
    piece = piece_of(FIRST, NEXT, more);
    expect_piece(piece, whole, FIRST, NEXT, of_piece);
    cJSON_Delete(piece);
    piece = piece_of(NEXT, TOKENS, ROWS_OUT);
    expect_piece(piece, whole, NEXT, TOKENS, of_piece);
    cJSON_Delete(piece);
    session_delete(&client, "s", 204);
    cJSON_Delete(plain);
    cJSON_Delete(whole);
}

#define VECTOR "[1,0.5,0,0,-1,0,0,2,0,0,0,0.25,0,0,0,1]"
#define OTHER  "[0,0,1,0,0,0.5,0,0,0,-2,0,0,0,0,1,0]"

static const struct {
    const char *of_piece, *of_whole;
} SAME[] = {
    { "[{\"hide\":[[1,3]]}]", "[{\"hide\":[[1,3]],\"rows\":[[5,8]]}]" },
    { "[{\"hide\":[[0,5]],\"rows\":[-1],\"heads\":[0,3],\"layers\":[0,1]}]",
      "[{\"hide\":[[0,5]],\"rows\":[7],\"heads\":[0,3],\"layers\":[0,1]}]" },
    { "[{\"hide\":[[0,8]],\"rows\":[1],\"layers\":[1]}]",
      "[{\"hide\":[[0,8]],\"rows\":[6],\"layers\":[1]}]" },
    { "[{\"weights\":\"first\",\"layers\":[0]},{\"weights\":\"self\",\"layers\":[1]},"
      "{\"weights\":\"previous\",\"layers\":[2]},{\"hide\":[[0,2]]}]",
      "[{\"weights\":\"first\",\"layers\":[0],\"rows\":[[5,8]]},{\"weights\":\"self\",\"layers\":"
      "[1],\"rows\":[[5,8]]},{\"weights\":\"previous\",\"layers\":[2],\"rows\":[[5,8]]},"
      "{\"hide\":[[0,2]],\"rows\":[[5,8]]}]" },
    { "[{\"weights\":[[1,0,0,0,0.5,0.5,2,3]],\"rows\":[0]},{\"weights\":\"uniform\",\"rows\":[2]}]",
      "[{\"weights\":[[1,0,0,0,0.5,0.5,2,3,4,5,6]],\"rows\":[5]},{\"weights\":\"uniform\","
      "\"rows\":[7]}]" },
    { "[{\"scale\":0,\"heads\":[1]},{\"add\":" VECTOR ",\"rows\":[1],\"times\":-2}]",
      "[{\"scale\":0,\"heads\":[1],\"rows\":[[5,8]]},{\"add\":" VECTOR
      ",\"rows\":[6],\"times\":-2}]" },
    { "[{\"at\":\"embeddings\",\"add\":" VECTOR ",\"rows\":[0]},{\"at\":\"embeddings\",\"scale\":"
      "2}]",
      "[{\"at\":\"embeddings\",\"add\":" VECTOR ",\"rows\":[5]},{\"at\":\"embeddings\",\"scale\":2,"
      "\"rows\":[[5,8]]}]" },
    { "[{\"at\":\"hidden_states\",\"set\":[" VECTOR "," OTHER "],\"rows\":[2,0],\"layers\":[1]}]",
      "[{\"at\":\"hidden_states\",\"set\":[" VECTOR "," OTHER "],\"rows\":[5,7],\"layers\":[1]}]" },
    { "[{\"at\":\"attention_output\",\"scale\":0,\"layers\":[0,2]},"
      "{\"at\":\"attention_output\",\"add\":" OTHER "}]",
      "[{\"at\":\"attention_output\",\"scale\":0,\"layers\":[0,2],\"rows\":[[5,8]]},"
      "{\"at\":\"attention_output\",\"add\":" OTHER ",\"rows\":[[5,8]]}]" },
    { "[{\"at\":\"feed_forward\",\"set\":[" VECTOR "," OTHER "," VECTOR "]}]",
      "[{\"at\":\"feed_forward\",\"set\":[" VECTOR "," OTHER "," VECTOR "],\"rows\":[5,6,7]}]" },
};

TEST(every_place)
{
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++)
        expect_session(SAME[i].of_piece, SAME[i].of_whole);
}

/* Rows of a kept trace, by the numbers of the request's rows or by their own. */
TEST(rows_of_a_trace)
{
    char of_piece[400], of_whole[400];
    cJSON *kept = whole_of(",\"keep\":\"1m\",\"states\":true,\"edits\":[{\"at\":\"embeddings\","
                           "\"mean\":true}]");
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(kept, "trace"));
    snprintf(of_piece, sizeof of_piece,
             "[{\"at\":\"hidden_states\",\"layers\":[1],\"from\":{\"trace\":\"%s\"}},"
             "{\"rows\":[1],\"from\":{\"trace\":\"%s\",\"layer\":0,\"rows\":[-1]}}]",
             id, id);
    snprintf(of_whole, sizeof of_whole,
             "[{\"at\":\"hidden_states\",\"layers\":[1],\"rows\":[[5,8]],\"from\":{\"trace\":"
             "\"%s\",\"rows\":[[0,3]]}},"
             "{\"rows\":[6],\"from\":{\"trace\":\"%s\",\"layer\":0,\"rows\":[10]}}]",
             id, id);
    expect_session(of_piece, of_whole);
    cJSON_Delete(kept);
}

/* The mean is over the rows of the pass, which are the request's. */
TEST(mean_is_of_the_request)
{
    const int64_t shape[] = { NEXT - FIRST, WIDTH };
    session_make(&client, "{\"model\":\"llama\",\"id\":\"s\"}");
    cJSON_Delete(piece_of(0, FIRST, ""));
    cJSON *plain = piece_of(FIRST, NEXT, ROWS_OUT ",\"append\":false,\"layers\":[0]");
    cJSON *edited = piece_of(FIRST, NEXT,
                             ROWS_OUT ",\"layers\":[0],\"edits\":[{\"at\":"
                                      "\"embeddings\",\"mean\":true,\"rows\":[1]}]");
    double *rows = answer_numbers(cJSON_GetArrayItem(cJSON_GetObjectItem(plain, "layers"), 0),
                                  "hidden_states", 2, shape);
    double *got = answer_numbers(cJSON_GetArrayItem(cJSON_GetObjectItem(edited, "layers"), 0),
                                 "hidden_states", 2, shape);
    for (int c = 0; c < WIDTH; c++) {
        const double mean = (rows[c] + rows[WIDTH + c] + rows[2 * WIDTH + c]) / 3;
        assert_true(fabs(got[WIDTH + c] - mean) <= 1e-6);
        assert_true(got[c] == rows[c] && got[2 * WIDTH + c] == rows[2 * WIDTH + c]);
    }
    free(rows);
    free(got);
    cJSON_Delete(edited);
    cJSON_Delete(plain);
    session_delete(&client, "s", 204);
}

/* Texts are looked for in the request's; keys of the past have none. */
TEST(texts_of_the_request)
{
    cJSON *answers[2];
    for (int i = 0; i < 2; i++) {
        session_make(&client, "{\"model\":\"words\",\"id\":\"w\"}");
        cJSON_Delete(session_post(&client, "w", "trace", "{\"text\":\"the cat\"}", 200));
        session_refused(&client, "w", "trace",
                        "{\"text\":\"sat on\",\"edits\":[{\"hide_texts\":[\"cat\"]}]}", 400,
                        "option", "is not in the text");
        answers[i] = session_post(&client, "w", "trace",
                                  i == 0 ? "{\"text\":\"sat on mat\",\"edits\":[{\"hide_texts\":"
                                           "[\"on\"]}]}"
                                         : "{\"text\":\"sat on mat\",\"edits\":[{\"hide\":[[5,6]]}]"
                                           "}",
                                  200);
        session_delete(&client, "w", 204);
    }
    answer_expect_equal(answers[0], answers[1], "tokens");
    answer_expect_equal(answers[0], answers[1], "layers");
    cJSON_Delete(answers[0]);
    cJSON_Delete(answers[1]);
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    traced_model_save(directory);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
