/* SPDX-License-Identifier: Apache-2.0 */
/* test_edits_faults.c - edits, targets and comparisons that POST /v1/trace refuses: each fault says
 * which edit and which of its members. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"
#include "traced_families.h"
#include "traced_model.h"

static const char PATH[] = "/v1/trace";

struct refusal {
    const char *edit; /* number 1 of the list */
    long status;
    const char *code, *pointer; /* behind /edits/1 */
};

/* llama has 3 layers of 4 heads and 16 columns; the request has 3 tokens. */
static const struct refusal OF_LLAMA[] = {
    { "{}", 400, "field", "" },
    { "{\"rows\":[0]}", 400, "field", "" },
    { "{\"scale\":1,\"mean\":true}", 400, "field", "" },
    { "{\"hide\":[],\"hide_texts\":[]}", 400, "field", "" },
    { "{\"scale\":1,\"x\":2}", 400, "field", "/x" },
    { "{\"scale\":1,\"from\":{\"trace\":\"a\",\"y\":1}}", 400, "field", "/from/y" },
    { "{\"scale\":1,\"at\":\"keys\"}", 400, "option", "/at" },
    { "{\"scale\":1,\"kind\":\"cross\"}", 400, "option", "/kind" },
    { "{\"scale\":1,\"heads\":[4]}", 400, "option", "/heads/0" },
    { "{\"scale\":1,\"heads\":[0,-1]}", 400, "option", "/heads/1" },
    { "{\"scale\":1,\"heads\":[0],\"at\":\"hidden_states\"}", 400, "option", "/heads" },
    { "{\"scale\":1,\"rows\":[0,3]}", 400, "option", "/rows/1" },
    { "{\"scale\":1,\"rows\":[-4]}", 400, "option", "/rows/0" },
    { "{\"scale\":1,\"rows\":[[1,4]]}", 400, "option", "/rows/0" },
    { "{\"scale\":1,\"rows\":[[2,1]]}", 400, "option", "/rows/0" },
    { "{\"scale\":1,\"rows\":[[-1,1]]}", 400, "option", "/rows/0" },
    { "{\"scale\":1,\"rows\":[0.5]}", 400, "option", "/rows/0" },
    { "{\"hide\":[[0,4]]}", 400, "option", "/hide/0" },
    { "{\"hide\":[[0,1],[2,1]]}", 400, "option", "/hide/1" },
    { "{\"hide\":[[-1,1]]}", 400, "option", "/hide/0" },
    { "{\"hide_texts\":[\"a\"]}", 400, "option", "/hide_texts/0" },
    { "{\"hide\":[],\"at\":\"embeddings\"}", 400, "option", "/hide" },
    { "{\"weights\":\"self\",\"at\":\"feed_forward\"}", 400, "option", "/weights" },
    { "{\"weights\":\"last\"}", 400, "option", "/weights" },
    { "{\"scale\":1,\"times\":2}", 400, "option", "/times" },
    { "{\"scale\":1,\"at\":\"embeddings\",\"layers\":[0]}", 400, "option", "/layers" },
    { "{\"scale\":1,\"layers\":[3]}", 404, "not_found", "/layers/0" },
    { "{\"scale\":1,\"layers\":[0,-1]}", 404, "not_found", "/layers/1" },
    { "{\"from\":{\"trace\":\"none\"}}", 404, "not_found", "/from/trace" },
    { "{\"from\":{}}", 400, "field", "/from/trace" },
    { "{\"add\":[1]}", 400, "shape", "/add" },
    { "{\"add\":[[1,2,3,4]]}", 400, "shape", "/add" },
    { "{\"add\":[1,2,3,4],\"at\":\"hidden_states\"}", 400, "shape", "/add" },
    { "{\"set\":[[1,2,3,4]]}", 400, "shape", "/set" },
    { "{\"set\":[1,2,3,4],\"rows\":[0]}", 400, "shape", "/set" },
    { "{\"weights\":[[1,2,3]]}", 400, "shape", "/weights" },
    { "{\"weights\":[[1,2]],\"rows\":[0]}", 400, "shape", "/weights" },
    { "{\"add\":[1,2,3,1e39]}", 400, "nonfinite", "/add*" },
    { "{\"set\":[[1,2,3,1e400]],\"rows\":[0]}", 400, "nonfinite", "/set*" },
    { "{\"scale\":1e39}", 400, "nonfinite", "/scale" },
    { "{\"add\":[1,2,3,4],\"times\":-1e39}", 400, "nonfinite", "/times" },
    { "{\"scale\":\"a\"}", 400, "type", "/scale" },
    { "{\"mean\":1}", 400, "type", "/mean" },
    { "{\"rows\":3,\"scale\":1}", 400, "type", "/rows" },
    { "7", 400, "type", "" },
};

static void expect_refused(const char *members, const char *edit, long status, const char *code,
                           const char *pointer)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{%s,\"edits\":[{\"scale\":1,\"kind\":\"%s\"},", members,
                     strstr(members, "t5") ? "decoder" : "self");
    request_text_add(&body, "%s]}", edit);
    answer_refused(&client, PATH, body.data, status, code, pointer);
    free(body.data);
}

TEST(edits_refused)
{
    for (size_t i = 0; i < sizeof OF_LLAMA / sizeof OF_LLAMA[0]; i++) {
        char pointer[64];
        snprintf(pointer, sizeof pointer, "/edits/1%s", OF_LLAMA[i].pointer);
        fprintf(stderr, "%s\n", OF_LLAMA[i].edit);
        expect_refused("\"model\":\"llama\",\"tokens\":[1,2,3]", OF_LLAMA[i].edit,
                       OF_LLAMA[i].status, OF_LLAMA[i].code, pointer);
    }
}

/* A member of a list that is not what the list is of: what came, and what was expected. */
TEST(members_of_lists)
{
    static const struct {
        const char *edit, *says;
    } CASES[] = {
        { "\"hide\":[[0,1e20]]", "hide[0] is [0, 1.00000002e+20]; expected a range [first, end)" },
        { "\"hide\":[1]", "hide[0] is 1; expected a range" },
        { "\"scale\":1,\"rows\":[0,[0,1,2]]",
          "rows[1] is a list of 3 numbers; expected an integer or a range [first, end)" },
        { "\"scale\":1,\"heads\":[0.5]", "heads[0] is 0.5; expected an integer up to 16777216" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char body[160];
        snprintf(body, sizeof body, "{\"model\":\"llama\",\"tokens\":[1,2],\"edits\":[{%s}]}",
                 CASES[i].edit);
        struct http_response response = http_client_post(&client, PATH, body);
        if (response.status != 400 || !strstr(response.body, CASES[i].says))
            fail_msg("%s: %ld %s", body, response.status, response.body);
        http_response_free(&response);
    }
}

/* t5's layers are 0 and 1 of the encoder, 2 and 3 of the decoder, 4 and 5 of cross-attention. */
TEST(kinds_refused)
{
    static const struct refusal OF_T5[] = {
        { "{\"scale\":1}", 400, "field", "" },
        { "{\"scale\":1,\"kind\":\"self\"}", 400, "option", "/kind" },
        { "{\"scale\":1,\"kind\":\"cross\",\"layers\":[4,2]}", 400, "option", "/layers/1" },
        { "{\"scale\":1,\"kind\":\"cross\",\"at\":\"hidden_states\"}", 400, "option", "/at" },
        { "{\"scale\":1,\"kind\":\"cross\",\"at\":\"feed_forward\"}", 400, "option", "/at" },
        { "{\"scale\":1,\"kind\":\"cross\",\"at\":\"embeddings\"}", 400, "option", "/at" },
        { "{\"weights\":\"self\",\"kind\":\"cross\"}", 400, "option", "/weights" },
        { "{\"weights\":\"previous\",\"kind\":\"cross\"}", 400, "option", "/weights" },
        { "{\"scale\":1,\"kind\":\"cross\",\"rows\":[2]}", 400, "option", "/rows/0" },
        { "{\"hide\":[[2,4]],\"kind\":\"cross\"}", 400, "option", "/hide/0" },
        { "{\"hide\":[[1,3]],\"kind\":\"decoder\"}", 400, "option", "/hide/0" },
    };
    for (size_t i = 0; i < sizeof OF_T5 / sizeof OF_T5[0]; i++) {
        char pointer[64];
        snprintf(pointer, sizeof pointer, "/edits/1%s", OF_T5[i].pointer);
        fprintf(stderr, "%s\n", OF_T5[i].edit);
        expect_refused("\"model\":\"t5\",\"tokens\":[1,2,3],\"decoder_tokens\":[0,4]",
                       OF_T5[i].edit, OF_T5[i].status, OF_T5[i].code, pointer);
    }
}

/* -------------------------------------------------------------- beside the edits -- */

struct whole {
    const char *members;
    long status;
    const char *code, *pointer;
};

#define LLAMA "\"model\":\"llama\",\"tokens\":[1,2,3]"

static const struct whole WHOLE[] = {
    { LLAMA ",\"edits\":{}", 400, "type", "/edits" },
    { LLAMA ",\"edits\":\"a\"", 400, "type", "/edits" },
    { LLAMA ",\"edits\":[1]", 400, "type", "/edits*" },
    { LLAMA ",\"states\":true", 400, "option", "/states" },
    { LLAMA ",\"compare\":true", 400, "option", "/compare" },
    { LLAMA ",\"targets\":[{}]", 400, "field", "/targets/0/token" },
    { LLAMA ",\"targets\":[{\"token\":40}]", 400, "option", "/targets/0/token" },
    { LLAMA ",\"targets\":[{\"token\":\"a\"}]", 400, "option", "/targets/0/token" },
    { LLAMA ",\"targets\":[{\"token\":1},{\"token\":1,\"against\":40}]", 400, "option",
      "/targets/1/against" },
    { LLAMA ",\"targets\":[{\"token\":1,\"position\":3}]", 400, "option", "/targets/0/position" },
    { LLAMA ",\"targets\":[{\"token\":1,\"position\":-4}]", 400, "option", "/targets/0/position" },
    { LLAMA ",\"targets\":[{\"token\":1,\"x\":1}]", 400, "field", "/targets/0/x" },
    { LLAMA ",\"targets\":1", 400, "type", "/targets" },
    { "\"model\":\"bert\",\"tokens\":[1,2],\"outputs\":[\"logprobs\"]", 400, "option", "/outputs" },
    { "\"model\":\"vit\",\"embeddings\":[[0,0,0,0,0,0,0,0,0,0,0,1]],\"targets\":[{\"token\":1}]",
      400, "option", "/targets" },
};

TEST(others_refused)
{
    for (size_t i = 0; i < sizeof WHOLE / sizeof WHOLE[0]; i++) {
        char body[512];
        fprintf(stderr, "%s\n", WHOLE[i].members);
        snprintf(body, sizeof body, "{%s}", WHOLE[i].members);
        answer_refused(&client, PATH, body, WHOLE[i].status, WHOLE[i].code, WHOLE[i].pointer);
    }
}

static void expect_count(const char *name, const char *element, int count, bool is_refused)
{
    struct request_text body = { .data = NULL };
    char pointer[32];
    request_text_add(&body, "{" LLAMA ",\"layers\":[],\"%s\":[", name);
    for (int i = 0; i < count; i++)
        request_text_add(&body, "%s%s", i > 0 ? "," : "", element);
    request_text_add(&body, "]}");
    snprintf(pointer, sizeof pointer, "/%s", name);
    if (is_refused)
        answer_refused(&client, PATH, body.data, 400, "option", pointer);
    else
        cJSON_Delete(answer_post(&client, PATH, body.data));
    free(body.data);
}

TEST(at_most_1024)
{
    expect_count("edits", "{\"scale\":1}", 1024, false);
    expect_count("edits", "{\"scale\":1}", 1025, true);
    expect_count("targets", "{\"token\":1}", 1024, false);
    expect_count("targets", "{\"token\":1}", 1025, true);
}

/* ---------------------------------------------------------------- rows of a trace -- */

static void keep(char *id, size_t size, const char *model, const char *more)
{
    char body[256];
    snprintf(body, sizeof body, "{\"model\":\"%s\",\"tokens\":[1,2,3,4],\"keep\":\"1m\"%s}", model,
             more);
    cJSON *answer = answer_post(&client, PATH, body);
    snprintf(id, size, "%s",
             cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "trace")));
    cJSON_Delete(answer);
}

static void expect_from_refused(const char *id, const char *members, const char *rows, long status,
                                const char *code, const char *pointer)
{
    char edit[256];
    snprintf(edit, sizeof edit, "{\"rows\":%s,\"from\":{\"trace\":\"%s\"%s}}", rows, id, members);
    fprintf(stderr, "%s\n", edit);
    expect_refused(LLAMA, edit, status, code, pointer);
}

TEST(rows_of_a_trace_refused)
{
    char id[65], path[128];
    keep(id, sizeof id, "llama", "");
    expect_from_refused(id, "", "[0]", 400, "option", "/edits/1/from/trace");
    keep(id, sizeof id, "bert", ",\"states\":true");
    expect_from_refused(id, "", "[0]", 400, "option", "/edits/1/from/trace");
    keep(id, sizeof id, "llama", ",\"states\":true");
    expect_from_refused(id, ",\"layer\":3", "[0]", 404, "not_found", "/edits/1/from/layer");
    expect_from_refused(id, ",\"rows\":[1,2]", "[0]", 400, "shape", "/edits/1/from/rows*");
    expect_from_refused(id, ",\"rows\":[1,2]", "[0,1,2]", 400, "shape", "/edits/1/from/rows*");
    expect_from_refused(id, ",\"rows\":[4]", "[0]", 400, "shape", "/edits/1/from/rows*");
    snprintf(path, sizeof path, "/v1/traces/%s", id);
    struct http_response response =
        http_client_send(&client, &(struct http_request){ .method = "DELETE", .path = path });
    assert_int_equal(response.status, 204);
    http_response_free(&response);
    expect_from_refused(id, "", "[0]", 410, "gone", "/edits/1/from/trace");
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return -1;
    traced_model_save(directory);
    traced_families_save(directory);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
