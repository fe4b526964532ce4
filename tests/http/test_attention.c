/* SPDX-License-Identifier: Apache-2.0 */
/* test_attention.c - POST /v1/attention: what it computes, and the form of its answers.
 *
 * Published numbers come first: a tutorial's four words, the tensors of a trained model, and small
 * cases whose answers stand in other projects' documentation. The other tests compare with the
 * textbook formulas in double precision, or compare two ways to ask for the same thing. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const double TOLERANCE = 1e-6;

#define WORDS "[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]"

/* Two queries, keys and values with published answers under a mask. */
#define TWO                                                                                        \
    "{\"model\":\"sdpa\",\"query\":[[1,0,0],[0,1,0]],\"key\":[[1,2,3],[4,5,6]],"                   \
    "\"value\":[[0,1,0],[1,0,1]]"

/* Three queries over four keys. */
#define FOUR        "{\"model\":\"sdpa\",\"query\":[[1,2],[0,1],[-1,1]],\"key\":[[1,0],[0,1],[1,1],[2,-1]]"
#define FOUR_VALUES ",\"value\":[[1,0],[0,1],[2,2],[-1,3]]"

struct example {
    const char *name, *request;
    const char *wanted[12]; /* member, numbers, member, numbers, ... */
};

static const struct example EXAMPLES[] = {
    { "a float mask",
      TWO ",\"mask\":[[0,-1e9],[0,0]]}",
      { "context", "[[0,1,0],[0.84967455,0.15032545,0.84967455]]", "weights",
        "[[[1,0],[0.15032545,0.84967455]]]" } },
    { "causal",
      TWO ",\"causal\":true}",
      { "context", "[[0,1,0],[0.84967455,0.15032545,0.84967455]]", "weights",
        "[[[1,0],[0.15032545,0.84967455]]]" } },
    { "not causal",
      TWO ",\"causal\":false}",
      { "context", "[[0.84967455,0.15032545,0.84967455],[0.84967455,0.15032545,0.84967455]]" } },
    { "the same mask as booleans",
      TWO ",\"mask\":[[true,false],[true,true]]}",
      { "context", "[[0,1,0],[0.84967455,0.15032545,0.84967455]]" } },
    { "null in a float mask forbids",
      TWO ",\"mask\":[[0,null],[0,0]]}",
      { "context", "[[0,1,0],[0.84967455,0.15032545,0.84967455]]" } },
    { "a mask with an axis for its one head",
      TWO ",\"mask\":[[[true,false],[true,true]]]}",
      { "context", "[[0,1,0],[0.84967455,0.15032545,0.84967455]]" } },
    { "every stage",
      TWO ",\"softcap\":2,\"mask\":[[0,null],[1.5,-0.5]],"
          "\"outputs\":[\"lse\",\"masked\",\"scores\",\"context\",\"softcapped\",\"weights\"]}",
      { "scores", "[[[0.5773502692,2.309401077],[1.154700538,2.886751346]]]", "softcapped",
        "[[[0.5618299027,1.63861058],[1.041473767,1.788750437]]]", "masked",
        "[[[0.5618299027,null],[2.541473767,1.288750437]]]", "weights",
        "[[[1,0],[0.7777709267,0.2222290733]]]", "lse", "[[0.5618299027,2.792797004]]", "context",
        "[[0,1,0],[0.2222290733,0.7777709267,0.2222290733]]" } },
    { "no softcap leaves the scores",
      TWO ",\"outputs\":[\"softcapped\",\"masked\"]}",
      { "softcapped", "[[[0.5773502692,2.309401077],[1.154700538,2.886751346]]]", "masked",
        "[[[0.5773502692,2.309401077],[1.154700538,2.886751346]]]" } },
    { "a scale of one's own",
      TWO ",\"scale\":0.5,\"outputs\":[\"scores\",\"lse\"]}",
      { "scores", "[[[0.5,2],[1,2.5]]]", "lse", "[[2.201413278,2.701413278]]" } },
    { "a scale of 0",
      TWO ",\"scale\":0,\"outputs\":[\"weights\",\"lse\"]}",
      { "weights", "[[[0.5,0.5],[0.5,0.5]]]", "lse", "[[0.6931471806,0.6931471806]]" } },
    { "key and value absent: self-attention",
      "{\"model\":\"sdpa\",\"query\":[[1,0],[0,1],[1,1],[2,-1]]}",
      { "context", "[[1.339523099,-0.1183420823],[0.7233801268,0.6420921802],[1,0.403354933],"
                   "[1.825936704,-0.7764073825]]" } },
    { "value absent: the keys",
      FOUR "}",
      { "context",
        "[[0.7989312266,0.7398448439],[0.7233801268,0.6420921802],[0.4759099427,0.798735585]]" } },
    { "a flat query is one row",
      "{\"model\":\"sdpa\",\"query\":[1,2],\"key\":[[1,0],[0,1],[1,1],[2,-1]],"
      "\"outputs\":[\"context\",\"weights\",\"lse\"]}",
      { "context", "[[0.7989312266,0.7398448439]]", "weights",
        "[[[0.1309854788,0.265653612,0.5387760705,0.06458483865]]]", "lse", "[[2.739775592]]" } },
    { "a row that may attend to nothing",
      FOUR FOUR_VALUES ",\"mask\":[[true,false,true,false],[false,false,false,false],"
                       "[true,true,true,true]],"
                       "\"outputs\":[\"context\",\"weights\",\"lse\",\"masked\"]}",
      { "context", "[[1.804429683,1.608859365],[0,0],[0.6517875143,1.205071721]]", "weights",
        "[[[0.1955703175,0,0.8044296825,0],[0,0,0,0],"
        "[0.1354191109,0.5570127093,0.2746455277,0.03292265203]]]",
        "lse", "[[2.338942065,null,1.292274003]]", "masked",
        "[[[0.7071067812,null,2.121320344,null],[null,null,null,null],"
        "[-0.7071067812,0.7071067812,0,-2.121320344]]]" } },
    { "kv_len, a number", FOUR FOUR_VALUES ",\"kv_len\":1}", { "context", "[[1,0],[1,0],[1,0]]" } },
    { "kv_len, one for each row",
      FOUR FOUR_VALUES ",\"kv_len\":[1,0,3],\"outputs\":[\"context\",\"weights\",\"lse\"]}",
      { "context", "[[1,0],[0,0],[0.7080200645,1.143966165]]", "weights",
        "[[[1,0,0,0],[0,0,0,0],[0.140029245,0.5759753452,0.2839954097,0]]]", "lse",
        "[[0.7071067812,null,1.258797204]]" } },
    { "kv_len 0",
      FOUR FOUR_VALUES ",\"kv_len\":0,\"outputs\":[\"context\",\"lse\"]}",
      { "context", "[[0,0],[0,0],[0,0]]", "lse", "[[null,null,null]]" } },
    { "windows",
      FOUR FOUR_VALUES ",\"window_left\":1,\"window_right\":0}",
      { "weights",
        "[[[1,0,0,0],[0.3302384507,0.6697615493,0,0],[0,0.6697615493,0.3302384507,0]]]" } },
    { "windows after past keys",
      FOUR FOUR_VALUES ",\"window_left\":0,\"window_right\":1,\"past_len\":1}",
      { "context", "[[1.339523099,1.669761549],[1.413289048,2.195570317],[-1,3]]" } },
    { "windows of -1 are none",
      FOUR ",\"window_left\":-1,\"window_right\":-1}",
      { "context",
        "[[0.7989312266,0.7398448439],[0.7233801268,0.6420921802],[0.4759099427,0.798735585]]" } },
    { "causal after one past key",
      FOUR FOUR_VALUES ",\"causal\":true,\"past_len\":1}",
      { "weights", "[[[0.3302384507,0.6697615493,0,0],[0.1977758146,0.4011120927,0.4011120927,0],"
                   "[0.1354191109,0.5570127093,0.2746455277,0.03292265203]]]" } },
    { "causal and a window past the last key",
      FOUR FOUR_VALUES ",\"causal\":true,\"past_len\":5,\"window_left\":2}",
      { "context", "[[-1,3],[0,0],[0,0]]" } },
    { "values wider than keys",
      "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[1],[1]],\"value\":[[1,2,3],[3,4,5]]}",
      { "context", "[[2,3,4]]" } },
    { "no queries",
      "{\"model\":\"demo\",\"query\":[],\"key\":" WORDS
      ",\"outputs\":[\"context\",\"weights\",\"lse\"]}",
      { "context", "[]", "weights", "[[]]", "lse", "[[]]" } },
    { "no keys",
      "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]],\"key\":[],"
      "\"outputs\":[\"context\",\"weights\",\"lse\"]}",
      { "context", "[[0,0,0],[0,0,0]]", "weights", "[[[],[]]]", "lse", "[[null,null]]" } },
    { "no keys on sdpa",
      "{\"model\":\"sdpa\",\"query\":[[1,2]],\"key\":[]}",
      { "context", "[[0,0]]", "weights", "[[[]]]" } },
    { "numbers in every form that JSON has",
      "{\"model\":\"sdpa\",\"query\":[[-0,1E0]],\"key\":[[0.0,1e+0],[0e5,10e-1]],"
      "\"value\":[[1e-400,2.50,-3E+2],[0.1e1,250e-2,-0.3e3]]}",
      { "context", "[[0.5,2.5,-300]]" } },
    { "a number at the end of float32",
      "{\"model\":\"sdpa\",\"query\":[[0]],\"value\":[[3.4028234e38,-3.4028234e38,1e-45]]}",
      { "context", "[[3.4028235e38,-3.4028235e38,1e-45]]" } },
};

TEST(tutorial)
{
    static const char *const context =
        "[[0.98522025,1.74174051,0.75652026],[0.90965265,1.40965265,0.5],"
        "[0.99851226,1.75849334,0.75998108],[0.99560386,1.90407309,0.90846923]]";
    cJSON *answer = answer_post(&client, PATH, "{\"model\":\"demo\",\"query\":" WORDS "}");
    answer_expect(answer, "context", context, TOLERANCE);
    answer_expect(answer, "model", "\"demo\"", 0);
    answer_expect(answer, "layer", "0", 0);
    answer_expect_members(answer, "model,layer,context,weights");
    const int64_t shape[] = { 1, 4, 4 };
    double *weights = answer_numbers(answer, "weights", 3, shape);
    for (int i = 0; i < 4; i++) {
        const double *row = weights + 4 * i;
        assert_true(fabs(row[0] + row[1] + row[2] + row[3] - 1) < TOLERANCE);
    }
    free(weights);
    cJSON_Delete(answer);

    answer = answer_post(&client, PATH,
                         "{\"layer\":0,\"outputs\":[\"context\"],\"query\":" WORDS ",\"key\":" WORDS
                         ",\"value\":" WORDS ",\"model\":\"demo\"}");
    answer_expect(answer, "context", context, TOLERANCE);
    answer_expect_members(answer, "model,layer,context");
    cJSON_Delete(answer);
}

TEST(examples)
{
    for (size_t i = 0; i < sizeof(EXAMPLES) / sizeof(EXAMPLES[0]); i++) {
        const struct example *example = &EXAMPLES[i];
        print_message("    %s\n", example->name);
        cJSON *answer = answer_post(&client, PATH, example->request);
        for (int w = 0; w < 12 && example->wanted[w]; w += 2)
            answer_expect(answer, example->wanted[w], example->wanted[w + 1], TOLERANCE);
        cJSON_Delete(answer);
    }
}

/* All ten keys are equal, so the context is the mean of the first values, as many as count. */
TEST(equal_keys)
{
    struct request_text text = { 0 };
    request_text_add(&text,
                     "{\"model\":\"sdpa\",\"query\":[[1,1,1,1],[1,1,1,1]],\"kv_len\":[2,6],");
    request_text_add(&text, "\"key\":[");
    for (int j = 0; j < 10; j++)
        request_text_add(&text, j ? ",[1,1,1,1]" : "[1,1,1,1]");
    request_text_add(&text, "],\"value\":[");
    for (int j = 0; j < 10; j++)
        request_text_add(&text, "%s[%d,%d,%d,%d]", j ? "," : "", 4 * j, 4 * j + 1, 4 * j + 2,
                         4 * j + 3);
    request_text_add(&text, "]}");
    cJSON *answer = answer_post(&client, PATH, text.data);
    answer_expect(answer, "context", "[[2,3,4,5],[10,11,12,13]]", TOLERANCE);
    cJSON_Delete(answer);
    free(text.data);
}

/* ---------------------------------------------------------------------- heads -- */

enum { Q_HEADS = 4, KV_HEADS = 2, Q_LEN = 3, KV_LEN = 5, HEAD_DIM = 2, V_HEAD_DIM = 3 };

struct grouped {
    float query[Q_HEADS][Q_LEN][HEAD_DIM];
    float key[KV_HEADS][KV_LEN][HEAD_DIM];
    float value[KV_HEADS][KV_LEN][V_HEAD_DIM];
};

/* Adds the heads as they are, [heads][rows][width], or side by side, [rows][heads * width]. */
static void add_heads(struct request_text *text, const char *name, const float *values, int heads,
                      int rows, int width, bool side_by_side)
{
    request_text_add(text, ",\"%s\":", name);
    if (side_by_side) {
        float joined[64];
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < rows; i++)
                memcpy(joined + (i * heads + h) * width, values + (h * rows + i) * width,
                       (size_t)width * sizeof(float));
        request_text_matrix(text, joined, rows, heads * width);
        return;
    }
    for (int h = 0; h < heads; h++) {
        request_text_add(text, h ? "," : "[");
        request_text_matrix(text, values + h * rows * width, rows, width);
    }
    request_text_add(text, "]");
}

/* The answer for query heads first .. first + count - 1. */
static cJSON *post_heads(const struct grouped *grouped, int first, int count, bool side_by_side)
{
    int kv_first = first * KV_HEADS / Q_HEADS;
    int kv_count = count == Q_HEADS ? KV_HEADS : 1;
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"causal\":true,\"past_len\":2,"
                            "\"outputs\":[\"context\",\"weights\",\"lse\"]");
    if (side_by_side)
        request_text_add(&text, ",\"q_heads\":%d,\"kv_heads\":%d", count, kv_count);
    add_heads(&text, "query", grouped->query[first][0], count, Q_LEN, HEAD_DIM, side_by_side);
    add_heads(&text, "key", grouped->key[kv_first][0], kv_count, KV_LEN, HEAD_DIM, side_by_side);
    add_heads(&text, "value", grouped->value[kv_first][0], kv_count, KV_LEN, V_HEAD_DIM,
              side_by_side);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, PATH, text.data);
    free(text.data);
    return answer;
}

/* Grouped heads, side by side or as [heads][length][width], get the same answer as each head asked
 * for alone. */
TEST(grouped_heads)
{
    struct grouped grouped;
    struct fill fill = { 7 };
    fill_floats(&fill, (float *)&grouped, sizeof(grouped) / sizeof(float), -1, 1);
    cJSON *rows = post_heads(&grouped, 0, Q_HEADS, true);
    cJSON *planes = post_heads(&grouped, 0, Q_HEADS, false);
    answer_expect_equal(rows, planes, "context");
    answer_expect_equal(rows, planes, "weights");
    answer_expect_equal(rows, planes, "lse");

    const int64_t shape[] = { Q_LEN, Q_HEADS * V_HEAD_DIM };
    const int64_t one_shape[] = { Q_LEN, V_HEAD_DIM };
    double *context = answer_numbers(rows, "context", 2, shape);
    for (int h = 0; h < Q_HEADS; h++) {
        cJSON *alone = post_heads(&grouped, h, 1, true);
        double *head = answer_numbers(alone, "context", 2, one_shape);
        for (int i = 0; i < Q_LEN; i++)
            for (int d = 0; d < V_HEAD_DIM; d++)
                assert_true(
                    fabs(context[(i * Q_HEADS + h) * V_HEAD_DIM + d] - head[i * V_HEAD_DIM + d])
                    < TOLERANCE);
        free(head);
        cJSON_Delete(alone);
    }
    free(context);
    cJSON_Delete(planes);
    cJSON_Delete(rows);
}

TEST(mask_by_head)
{
    cJSON *answer =
        answer_post(&client, PATH,
                    "{\"model\":\"sdpa\",\"q_heads\":2,\"kv_heads\":1,"
                    "\"query\":[[1,1],[1,1]],\"key\":[[1],[1]],\"value\":[[2],[4]],"
                    "\"mask\":[[[true,false],[true,true]],[[false,true],[false,false]]],"
                    "\"outputs\":[\"weights\",\"context\",\"lse\"]}");
    answer_expect(answer, "weights", "[[[1,0],[0.5,0.5]],[[0,1],[0,0]]]", TOLERANCE);
    answer_expect(answer, "context", "[[2,4],[3,0]]", TOLERANCE);
    answer_expect(answer, "lse", "[[1,1.6931471806],[1,null]]", TOLERANCE);
    cJSON_Delete(answer);
}

/* -------------------------------------------------------------------- outputs -- */

TEST(outputs_by_name)
{
    static const char *const names[] = { "context",    "weights", "scores",
                                         "softcapped", "masked",  "lse" };
    cJSON *all = answer_post(&client, PATH,
                             TWO ",\"causal\":true,\"softcap\":3,\"outputs\":[\"context\","
                                 "\"weights\",\"scores\",\"softcapped\",\"masked\",\"lse\"]}");
    answer_expect_members(all, "model,layer,context,weights,scores,softcapped,masked,lse");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char body[512], members[64];
        snprintf(body, sizeof(body), "%s,\"causal\":true,\"softcap\":3,\"outputs\":[\"%s\"]}", TWO,
                 names[i]);
        snprintf(members, sizeof(members), "model,layer,%s", names[i]);
        cJSON *one = answer_post(&client, PATH, body);
        answer_expect_members(one, members);
        answer_expect_equal(one, all, names[i]);
        cJSON_Delete(one);
    }
    cJSON_Delete(all);
}

/* The number of significant digits of the number at the start of text; *end is where the number
 * ends. */
static int digits_of(const char *text, const char **end)
{
    int count = 0, zeros = 0;
    for (; *text && strchr("-.0123456789", *text); text++) {
        if (*text == '0' && count == 0)
            continue;
        if (*text >= '0' && *text <= '9') {
            zeros = *text == '0' ? zeros + 1 : 0;
            count++;
        }
    }
    *end = text + strspn(text, "eE+-0123456789");
    return count - zeros;
}

/* Whether one digit fewer would read back as another float. */
static bool is_shortest(const char *number, int digits)
{
    float value = strtof(number, NULL);
    char shorter[40];
    snprintf(shorter, sizeof(shorter), "%.*e", digits > 1 ? digits - 2 : 0, (double)value);
    return digits <= 1 || strtof(shorter, NULL) != value;
}

/* There is one key, so the context is the value. Every float must come back unchanged, in as few
 * digits as it needs. */
TEST(shortest_numbers)
{
    enum { COUNT = 4000 };
    float values[COUNT];
    struct fill fill = { 11 };
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)fill_bits(&fill);
        memcpy(&values[i], &bits, sizeof(bits));
        if (!isfinite(values[i]) || i % 2)
            values[i] = ldexpf((float)(int32_t)bits, -31); /* ordinary magnitudes */
    }
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[1]],"
                            "\"outputs\":[\"context\"],\"value\":");
    request_text_matrix(&text, values, 1, COUNT);
    request_text_add(&text, "}");
    struct http_response response = http_client_post(&client, PATH, text.data);
    assert_int_equal(response.status, 200);
    const char *number = strstr(response.body, "[[");
    assert_non_null(number);
    number += 2;
    for (int i = 0; i < COUNT; i++) {
        const char *end;
        int digits = digits_of(number, &end);
        if (strtof(number, NULL) != values[i] || !is_shortest(number, digits))
            fail_msg("%.9g came back as %.*s", (double)values[i], (int)(end - number), number);
        number = end + 1;
    }
    http_response_free(&response);
    free(text.data);
}

/* --------------------------------------------------------------- other models -- */

/* One query of ten ones; matrices whose row i holds i + 1; keys of 2s, 3s and 4s. */
TEST(ten_ones)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"config\":{\"attention\":\"scaled_dot_product\"},\"parameters\":{");
    for (int p = 0; p < 3; p++) {
        request_text_add(&text, "%s\"%c_proj.bias\":[0,0,0,0,0,0,0,0,0,0],\"%c_proj.weight\":[",
                         p ? "," : "", "qkv"[p], "qkv"[p]);
        for (int i = 1; i <= 10; i++)
            request_text_add(&text, "%s[%d,%d,%d,%d,%d,%d,%d,%d,%d,%d]", i > 1 ? "," : "", i, i, i,
                             i, i, i, i, i, i, i);
        request_text_add(&text, "]");
    }
    request_text_add(&text, "}}");
    struct http_response response = http_client_send(
        &client, &(struct http_request){
                     .method = "PUT", .path = "/v1/models/ten_ones", .body = text.data });
    cJSON_Delete(answer_json(&response, 201));
    http_response_free(&response);

    cJSON *answer = answer_post(&client, PATH,
                                "{\"model\":\"ten_ones\",\"query\":[1,1,1,1,1,1,1,1,1,1],"
                                "\"key\":[[2,2,2,2,2,2,2,2,2,2],[3,3,3,3,3,3,3,3,3,3],"
                                "[4,4,4,4,4,4,4,4,4,4]],\"outputs\":[\"scores\",\"context\"]}");
    answer_expect(answer, "scores", "[[[24349.5379833,36524.30697494,48699.07596659]]]", 3e-7);
    answer_expect(answer, "context", "[[40,80,120,160,200,240,280,320,360,400]]", TOLERANCE);
    cJSON_Delete(answer);

    /* Without a name the request gets the only model that is not built in. */
    answer =
        answer_post(&client, PATH, "{\"query\":[1,1,1,1,1,1,1,1,1,1],\"outputs\":[\"context\"]}");
    answer_expect(answer, "model", "\"ten_ones\"", 0);
    cJSON_Delete(answer);
    free(text.data);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(fixture_start_with_directory, fixture_clear);
