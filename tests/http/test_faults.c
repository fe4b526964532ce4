/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults.c - well-formed JSON that asks for something impossible, and requests that are wrong
 * before the daemon looks at their body.
 *
 * Most cases are in one table: the body, and the status, code and pointer of the HTTP contract. All
 * requests go over one connection, which must survive them. */
#include "answer.h"
#include "fixture.h"
#include "test.h"

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});

#define DEMO(fields) "{\"model\":\"demo\"," fields "}"
#define SDPA(fields) "{\"model\":\"sdpa\"," fields "}"
/* Two queries of two columns, which are also the keys, and then more fields. */
#define WITH(fields) "{\"model\":\"sdpa\",\"query\":[[1,2],[3,4]]," fields "}"

struct refusal {
    const char *body;
    long status;
    const char *code;
    const char *pointer; /* NULL: any; "x*": begins with x */
};

static const struct refusal REFUSALS[] = {
    /* the whole */
    { "[]", 400, "type|field", NULL },
    { "[[1,2]]", 400, "type|field", NULL },
    { "1", 400, "type|field", NULL },
    { "true", 400, "type|field", NULL },
    { "null", 400, "type|field", NULL },
    { "\"query\"", 400, "type|field", NULL },
    { "{}", 400, "field", NULL },
    { SDPA("\"key\":[[1]]"), 400, "field", NULL },
    /* model and layer */
    { "{\"query\":[[1,0,0]]}", 400, "field", NULL }, /* no model but the built-in ones */
    { "{\"model\":\"\",\"query\":[[1]]}", 404, "not_found", "/model" },
    { "{\"model\":\"nobody\",\"query\":[[1]]}", 404, "not_found", "/model" },
    { "{\"model\":\"Demo\",\"query\":[[1]]}", 404, "not_found", "/model" },
    { "{\"model\":\"../demo\",\"query\":[[1]]}", 404, "not_found", "/model" },
    { "{\"model\":\"\x7f\xC3\xA9\xF0\x9F\x98\x80\",\"query\":[[1]]}", 404, "not_found", "/model" },
    { "{\"model\":1,\"query\":[[1]]}", 400, "type", "/model" },
    { "{\"model\":[\"demo\"],\"query\":[[1]]}", 400, "type", "/model" },
    { DEMO("\"query\":[[1,0,0]],\"layer\":1"), 404, "not_found", "/layer" },
    { SDPA("\"query\":[[1,0,0]],\"layer\":1"), 404, "not_found", "/layer" },
    { DEMO("\"query\":[[1,0,0]],\"layer\":1e9"), 404, "not_found", "/layer" },
    { DEMO("\"query\":[[1,0,0]],\"layer\":1e30"), 404, "not_found", "/layer" },
    { DEMO("\"query\":[[1,0,0]],\"layer\":\"0\""), 400, "type", "/layer" },
    { DEMO("\"query\":[[1,0,0]],\"layer\":0.5"), 400, "type|option", "/layer" },
    /* names that do not exist */
    { DEMO("\"query\":[[1,0,0]],\"querry\":1"), 400, "field", "/querry" },
    { DEMO("\"query\":[[1,0,0]],\"Query\":1"), 400, "field", "/Query" },
    { DEMO("\"query\":[[1,0,0]],\"q\":1"), 400, "field", "/q" },
    { DEMO("\"query\":[[1,0,0]],\"a/b~\":1"), 400, "field", "/a~1b~0" },
    { DEMO("\"query\":[[1,0,0]],\"\":1"), 400, "field", "/" },
    { DEMO("\"query\":[[1,0,0]],\"requests\":[]"), 400, "field", "/requests" },
    /* one number for each head, positions, and dropout */
    { DEMO("\"query\":[[1,0,0]],\"dropout\":1"), 400, "option", "/dropout" },
    { DEMO("\"query\":[[1,0,0]],\"dropout\":-0.1"), 400, "option", "/dropout" },
    { DEMO("\"query\":[[1,0,0]],\"dropout\":true"), 400, "type", "/dropout" },
    { DEMO("\"query\":[[1,0,0]],\"normalizer\":\"entmax\""), 400, "option", "/normalizer" },
    { DEMO("\"query\":[[1,0,0]],\"normalizer\":false"), 400, "type", "/normalizer" },
    { DEMO("\"query\":[[1,0,0]],\"precision\":\"exact\""), 400, "option", "/precision" },
    { DEMO("\"query\":[[1,0,0]],\"precision\":3"), 400, "type", "/precision" },
    { DEMO("\"query\":[[1,0,0]],\"normalizer\":\"sparsemax\",\"partial\":true"), 400, "option",
      "/partial" },
    { DEMO("\"query\":[[1,0,0]],\"seed\":-1"), 400, "option", "/seed" },
    { DEMO("\"query\":[[1,0,0]],\"seed\":1.5"), 400, "option", "/seed" },
    { DEMO("\"query\":[[1,0,0]],\"seed\":\"a\""), 400, "type", "/seed" },
    { DEMO("\"query\":[[1,0,0]],\"alibi_slopes\":[1,2]"), 400, "shape", "/alibi_slopes" },
    { DEMO("\"query\":[[1,0,0]],\"alibi_slopes\":[]"), 400, "shape", "/alibi_slopes" },
    { DEMO("\"query\":[[1,0,0]],\"alibi_slopes\":[[1]]"), 400, "shape", "/alibi_slopes" },
    { DEMO("\"query\":[[1,0,0]],\"alibi_slopes\":1"), 400, "type", "/alibi_slopes" },
    { DEMO("\"query\":[[1,0,0]],\"alibi_slopes\":[null]"), 400, "type", "/alibi_slopes/0" },
    { DEMO("\"query\":[[1,0,0]],\"alibi_slopes\":[1e39]"), 400, "nonfinite", "/alibi_slopes/0" },
    { SDPA("\"query\":[[1,0]],\"q_heads\":2,\"sinks\":[1]"), 400, "shape", "/sinks" },
    { DEMO("\"query\":[[1,0,0]],\"sinks\":[true]"), 400, "type", "/sinks/0" },
    { DEMO("\"query\":[[1,0,0]],\"sinks\":\"1\""), 400, "type", "/sinks" },
    { DEMO("\"query\":[[1,0,0]],\"partial\":1"), 400, "type", "/partial" },
    { DEMO("\"query\":[[1,0,0]],\"kv_offset\":-1"), 400, "length", "/kv_offset" },
    { DEMO("\"query\":[[1,0,0]],\"kv_offset\":0.5"), 400, "length", "/kv_offset" },
    { DEMO("\"query\":[[1,0,0]],\"kv_offset\":[1]"), 400, "type", "/kv_offset" },
    /* types of tensors */
    { SDPA("\"query\":null"), 400, "type|field", "/query" },
    { SDPA("\"query\":true"), 400, "type", "/query" },
    { SDPA("\"query\":\"[[1]]\""), 400, "type", "/query" },
    { SDPA("\"query\":{}"), 400, "type", "/query" },
    { SDPA("\"query\":1"), 400, "type", "/query" },
    { SDPA("\"query\":[[\"1\"]]"), 400, "type", "/query*" },
    { SDPA("\"query\":[[1,\"2\"]]"), 400, "type", "/query*" },
    { SDPA("\"query\":[[1,{}]]"), 400, "type", "/query*" },
    { SDPA("\"query\":[[1],{}]"), 400, "type", "/query*" },
    { SDPA("\"query\":[[true]]"), 400, "type", "/query*" },
    { SDPA("\"query\":[[1,true]]"), 400, "type", "/query*" },
    { SDPA("\"query\":[[null]]"), 400, "type|nonfinite", "/query*" },
    { SDPA("\"query\":[[1,null]]"), 400, "type|nonfinite", "/query*" },
    { SDPA("\"query\":[[1]],\"key\":\"\""), 400, "type", "/key" },
    { SDPA("\"query\":[[1]],\"key\":[[true]]"), 400, "type", "/key*" },
    { SDPA("\"query\":[[1]],\"value\":{}"), 400, "type", "/value" },
    { SDPA("\"query\":[[1]],\"value\":[[null]]"), 400, "type|nonfinite", "/value*" },
    /* shapes of tensors */
    { SDPA("\"query\":[[1,2],[3]]"), 400, "ragged", "/query*" },
    { SDPA("\"query\":[[1],[2,3]]"), 400, "ragged", "/query*" },
    { SDPA("\"query\":[[1],2]"), 400, "ragged", "/query*" },
    { SDPA("\"query\":[1,[2]]"), 400, "ragged", "/query*" },
    { SDPA("\"query\":[[1],[]]"), 400, "ragged", "/query*" },
    { SDPA("\"query\":[[1],[[2]]]"), 400, "ragged", "/query*" },
    { SDPA("\"query\":[[[1],[2]],[[3]]]"), 400, "ragged", "/query*" },
    { SDPA("\"query\":[[1]],\"key\":[[1],[2,3]]"), 400, "ragged", "/key*" },
    { SDPA("\"query\":[[1]],\"value\":[[1,2],[3]]"), 400, "ragged", "/value*" },
    { SDPA("\"query\":[[]]"), 400, "shape", "/query" },
    { SDPA("\"query\":[[],[]]"), 400, "shape", "/query" },
    { DEMO("\"query\":[[]]"), 400, "shape", "/query" },
    { SDPA("\"query\":[[[[1]]]]"), 400, "shape", "/query" },
    { DEMO("\"query\":[[[1,0,0]]]"), 400, "shape", "/query" },
    { DEMO("\"query\":[[1,0,0,0,0]]"), 400, "shape", "/query" },
    { DEMO("\"query\":[1,0]"), 400, "shape", "/query" },
    { DEMO("\"query\":[[1,0,0]],\"key\":[[1,0]]"), 400, "shape", "/key" },
    { DEMO("\"query\":[[1,0,0]],\"value\":[[1,0]]"), 400, "shape", "/value" },
    { SDPA("\"query\":[[1,2]],\"key\":[[1]]"), 400, "shape", "/key" },
    { SDPA("\"query\":[[1,2]],\"key\":[[1,2,3]]"), 400, "shape", "/key" },
    { SDPA("\"query\":[[1]],\"key\":[[1],[2]],\"value\":[[1]]"), 400, "shape", "/value" },
    { SDPA("\"query\":[[1]],\"key\":[[1]],\"value\":[[1],[2]]"), 400, "shape", "/value" },
    { SDPA("\"query\":[[1]],\"key\":[[1]],\"value\":[]"), 400, "shape", "/value" },
    { SDPA("\"query\":[[1]],\"value\":[[]]"), 400, "shape", "/value" },
    /* heads */
    { SDPA("\"query\":[[1,2,3]],\"q_heads\":2,\"kv_heads\":1"), 400, "shape|option", "/q*" },
    { SDPA("\"query\":[[1,2,3,4]],\"key\":[[1,2,3]],\"q_heads\":2,\"kv_heads\":2"), 400,
      "shape|option", "/k*" },
    { SDPA("\"query\":[[1,2,3,4]],\"key\":[[1,2,3]],\"q_heads\":4,\"kv_heads\":3"), 400,
      "shape|option", NULL },
    { SDPA("\"query\":[[1,2]],\"q_heads\":0"), 400, "option|type|shape", "/q_heads" },
    { SDPA("\"query\":[[1,2]],\"q_heads\":-1"), 400, "option|type|shape", "/q_heads" },
    { SDPA("\"query\":[[1,2]],\"q_heads\":0.5"), 400, "option|type", "/q_heads" },
    { SDPA("\"query\":[[1,2]],\"q_heads\":\"2\""), 400, "type", "/q_heads" },
    { SDPA("\"query\":[[1,2]],\"q_heads\":1e300"), 400, "option|type|shape", "/q_heads" },
    { SDPA("\"query\":[[1,2]],\"kv_heads\":0"), 400, "option|type|shape", "/kv_heads" },
    { SDPA("\"query\":[[[1]],[[1]],[[1]]],\"key\":[[[1]],[[1]]]"), 400, "shape", "/k*" },
    { SDPA("\"query\":[[[1]],[[1]]],\"key\":[[[1]],[[1]]],\"value\":[[[1]]]"), 400, "shape",
      "/value" },
    /* masks */
    { WITH("\"mask\":true"), 400, "type", "/mask" },
    { WITH("\"mask\":\"causal\""), 400, "type", "/mask" },
    { WITH("\"mask\":{}"), 400, "type", "/mask" },
    { WITH("\"mask\":[[\"a\"]]"), 400, "type", "/mask*" },
    { WITH("\"mask\":[[true,1],[true,true]]"), 400, "type", "/mask*" },
    { WITH("\"mask\":[[true,null],[true,true]]"), 400, "type", "/mask*" },
    { WITH("\"mask\":[[true,true],[true]]"), 400, "ragged", "/mask*" },
    { WITH("\"mask\":[true,true]"), 400, "shape", "/mask" },
    { WITH("\"mask\":[[true],[true]]"), 400, "shape", "/mask" },
    { WITH("\"mask\":[[true,true]]"), 400, "shape", "/mask" },
    { WITH("\"mask\":[[0,0,0],[0,0,0]]"), 400, "shape", "/mask" },
    { WITH("\"mask\":[[0,0],[0,0],[0,0]]"), 400, "shape", "/mask" },
    { WITH("\"mask\":[[[0,0],[0,0]],[[0,0],[0,0]]]"), 400, "shape", "/mask" },
    { WITH("\"mask\":[[[[0,0],[0,0]]]]"), 400, "shape", "/mask" },
    { WITH("\"mask\":[[0,1e39],[0,0]]"), 400, "nonfinite", "/mask*" },
    { WITH("\"mask\":[[0,-1e400],[0,0]]"), 400, "nonfinite", "/mask*" },
    /* options */
    { WITH("\"causal\":1"), 400, "type", "/causal" },
    { WITH("\"causal\":\"true\""), 400, "type", "/causal" },
    { WITH("\"causal\":[true]"), 400, "type", "/causal" },
    { WITH("\"kv_len\":-1"), 400, "length|option", "/kv_len" },
    { WITH("\"kv_len\":1.5"), 400, "type|length|option", "/kv_len" },
    { WITH("\"kv_len\":1e300"), 400, "type|length|option|nonfinite", "/kv_len" },
    { WITH("\"kv_len\":\"2\""), 400, "type", "/kv_len" },
    { WITH("\"kv_len\":true"), 400, "type", "/kv_len" },
    { WITH("\"kv_len\":[1]"), 400, "shape|length", "/kv_len" },
    { WITH("\"kv_len\":[1,2,3]"), 400, "shape|length", "/kv_len" },
    { WITH("\"kv_len\":[[1,2]]"), 400, "shape|length|type", "/kv_len" },
    { WITH("\"kv_len\":[1,-2]"), 400, "length|option", "/kv_len*" },
    { WITH("\"kv_len\":[1,0.5]"), 400, "type|length|option", "/kv_len*" },
    { WITH("\"kv_len\":[true,true]"), 400, "type", "/kv_len*" },
    { WITH("\"kv_len\":[1,null]"), 400, "type|length|nonfinite", "/kv_len*" },
    { WITH("\"kv_len\":[1,1e39]"), 400, "type|length|option|nonfinite", "/kv_len*" },
    { WITH("\"past_len\":\"1\""), 400, "type", "/past_len" },
    { WITH("\"past_len\":0.5"), 400, "type|length|option", "/past_len" },
    { WITH("\"past_len\":1e30"), 400, "type|length|option", "/past_len" },
    { WITH("\"past_len\":[1]"), 400, "type", "/past_len" },
    { WITH("\"window_left\":-2"), 400, "option|length", "/window_left" },
    { WITH("\"window_left\":1.5"), 400, "type|option", "/window_left" },
    { WITH("\"window_left\":\"1\""), 400, "type", "/window_left" },
    { WITH("\"window_right\":-2"), 400, "option|length", "/window_right" },
    { WITH("\"window_right\":1e30"), 400, "type|option|length", "/window_right" },
    { WITH("\"window_right\":false"), 400, "type", "/window_right" },
    { WITH("\"scale\":\"0.5\""), 400, "type", "/scale" },
    { WITH("\"scale\":[1]"), 400, "type", "/scale" },
    { WITH("\"scale\":1e400"), 400, "nonfinite|option", "/scale" },
    { WITH("\"scale\":1e39"), 400, "nonfinite|option", "/scale" },
    { WITH("\"softcap\":-1"), 400, "option", "/softcap" },
    { WITH("\"softcap\":true"), 400, "type", "/softcap" },
    { WITH("\"softcap\":1e400"), 400, "nonfinite|option", "/softcap" },
    { WITH("\"outputs\":\"context\""), 400, "type", "/outputs" },
    { WITH("\"outputs\":{}"), 400, "type", "/outputs" },
    { WITH("\"outputs\":[1]"), 400, "type", "/outputs*" },
    { WITH("\"outputs\":[[\"context\"]]"), 400, "type", "/outputs*" },
    { WITH("\"outputs\":[\"context\",null]"), 400, "type", "/outputs*" },
    { WITH("\"outputs\":[\"contexts\"]"), 400, "option", "/outputs*" },
    { WITH("\"outputs\":[\"context\",\"Weights\"]"), 400, "option", "/outputs*" },
    { WITH("\"outputs\":[\"\"]"), 400, "option", "/outputs*" },
    /* numbers that no float holds */
    { SDPA("\"query\":[[1e400]]"), 400, "nonfinite", "/query*" },
    { SDPA("\"query\":[[1e39]]"), 400, "nonfinite", "/query*" },
    { SDPA("\"query\":[[-3.5e38]]"), 400, "nonfinite", "/query*" },
    { SDPA("\"query\":[[1]],\"key\":[[1e400]]"), 400, "nonfinite", "/key*" },
    { SDPA("\"query\":[[1]],\"value\":[[1,-1e999999999999]]"), 400, "nonfinite", "/value*" },
    { SDPA("\"query\":[[NaN]]"), 400, "json|nonfinite", NULL },
    { SDPA("\"query\":[[Infinity]]"), 400, "json|nonfinite", NULL },
    { SDPA("\"query\":[[-Infinity]]"), 400, "json|nonfinite", NULL },
    { SDPA("\"query\":[[nan]]"), 400, "json", NULL },
    { SDPA("\"query\":[[inf]]"), 400, "json", NULL },
    { SDPA("\"query\":[[-inf]]"), 400, "json", NULL },
    { WITH("\"scale\":NaN"), 400, "json|nonfinite", NULL },
};

TEST(refusals)
{
    for (size_t i = 0; i < sizeof(REFUSALS) / sizeof(REFUSALS[0]); i++) {
        const struct refusal *r = &REFUSALS[i];
        answer_refused(&client, PATH, r->body, r->status, r->code, r->pointer);
    }
    struct http_response response = http_client_post(&client, PATH, GOOD);
    assert_int_equal(response.status, 200);
    assert_false(response.on_new_connection);
    http_response_free(&response);
}

/* A message names the field, what came and what the daemon expected. */
TEST(messages)
{
    static const struct {
        const char *body;
        const char *words[4];
    } cases[] = {
        { DEMO("\"query\":[[1,2,3,4,5]]"), { "query has 5 columns; model 'demo' takes 3" } },
        { DEMO("\"querry\":[[1,0,0]]"), { "querry", "query" } },
        { DEMO("\"query\":[[1,0,0]],\"windowleft\":1"), { "windowleft", "window_left" } },
        { DEMO("\"query\":[[1,0,0]],\"outputs\":[\"wieghts\"]"), { "wieghts", "weights" } },
        { "{\"model\":\"nobody\",\"query\":[[1]]}", { "nobody", "demo", "sdpa" } },
        { DEMO("\"query\":[[1,0,0],[1,0,0],[1,0]]"), { "query", "2", "3" } },
        { SDPA("\"query\":[[1]],\"causal\":\"no\""), { "causal", "true or false" } },
        { SDPA("\"query\":[[1]],\"weight_map\":{\"topk\":1}"), { "topk", "top_k" } },
        { SDPA("\"key\":[[1]]"), { "query" } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_response response = http_client_post(&client, PATH, cases[i].body);
        cJSON *fault = cJSON_Parse(response.body);
        const char *message = cJSON_GetStringValue(cJSON_GetObjectItem(fault, "error"));
        assert_non_null(message);
        for (int w = 0; w < 4 && cases[i].words[w]; w++)
            if (!strstr(message, cases[i].words[w]))
                fail_msg("expected \"%s\" in: %s", cases[i].words[w], message);
        cJSON_Delete(fault);
        http_response_free(&response);
    }
}

/* ----------------------------------------------------------- paths and methods -- */

TEST(unknown_paths)
{
    static const char *const paths[] = {
        "/v1",
        "/v1/",
        "/v1/attentions",
        "/v1/attention/",
        "/v1/attention/batch/",
        "/v1/attention/batches",
        "//v1/attention",
        "/v1//attention",
        "/v1/attention%2Fbatch",
        "/v1/./attention",
        "/v1/../v1/attention",
        "/V1/attention",
        "/v1/attention;x",
        "/v1/models/demo/x",
        "/v1/models/demo%00",
        "/livez/",
        "/readyz/x",
        "/index.html",
        "/%",
        "/%zz",
        "/%ff",
        "/explorer",
        "/explorer/app",
        /* not in this version */
        "/v1/softmax/0",
        "/openapi.json/x",
        "/v2/models/demo/generate",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct http_response response = http_client_get(&client, paths[i]);
        if (response.status != 404)
            fprintf(stderr, "GET %s\n", paths[i]);
        answer_expect_fault(&response, 404, "not_found", NULL);
        http_response_free(&response);
        response = http_client_post(&client, paths[i], GOOD);
        if (response.status != 404)
            fprintf(stderr, "POST %s\n", paths[i]);
        answer_expect_fault(&response, 404, "not_found", NULL);
        assert_false(response.on_new_connection);
        http_response_free(&response);
    }
}

TEST(wrong_methods)
{
    static const struct {
        const char *path, *wrong, *allowed;
    } cases[] = {
        { "/v1/attention", "GET", "POST" },
        { "/v1/attention", "PUT", "POST" },
        { "/v1/attention", "DELETE", "POST" },
        { "/v1/attention", "PATCH", "POST" },
        { "/v1/attention", "BREW", "POST" },
        { "/v1/attention", "post", "POST" },
        { "/v1/attention/batch", "GET", "POST" },
        { "/v1/models", "POST", "GET" },
        { "/v1/models", "DELETE", "GET" },
        { "/v1/models/demo", "POST", "GET" },
        { "/v1/models/demo", "POST", "PUT" },
        { "/v1/models/demo", "PATCH", "DELETE" },
        { "/livez", "POST", "GET" },
        { "/readyz", "DELETE", "GET" },
        { "/metrics", "PUT", "GET" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char allow[128] = "";
        const char *body = strcmp(cases[i].wrong, "GET") == 0 ? NULL : GOOD;
        struct http_response response = http_client_send(
            &client, &(struct http_request){
                         .method = cases[i].wrong, .path = cases[i].path, .body = body });
        if (response.status != 405)
            fprintf(stderr, "%s %s\n", cases[i].wrong, cases[i].path);
        answer_expect_fault(&response, 405, "method", NULL);
        assert_non_null(http_response_header(&response, "Allow", allow, sizeof(allow)));
        if (!strstr(allow, cases[i].allowed) || strstr(allow, cases[i].wrong))
            fail_msg("%s %s: Allow is %s", cases[i].wrong, cases[i].path, allow);
        http_response_free(&response);
    }
}

/* -------------------------------------------------------------- content headers -- */

TEST(content_headers)
{
    static const struct {
        const char *header;
        long status;
        const char *code;
    } cases[] = {
        { "Content-Type: application/json", 200, NULL },
        { "Content-Type: application/json; charset=utf-8", 200, NULL },
        { "Content-Type: application/json;charset=UTF-8", 200, NULL },
        { "Content-Type: Application/JSON", 200, NULL },
        { "Content-Type: application/x-www-form-urlencoded", 200, NULL },
        { "Content-Type:", 200, NULL },
        { "Content-Type: text/plain", 415, "content_type" },
        { "Content-Type: application/xml", 415, "content_type" },
        { "Content-Type: application/jsonp", 415, "content_type" },
        { "Content-Type: application/octet-stream", 415, "content_type" },
        { "Content-Type: multipart/form-data; boundary=x", 415, "content_type" },
        { "Content-Type: application/x-safetensors", 400, "binary" }, /* it is JSON */
        { "Content-Type: \"\"", 415, "content_type" },
        { "Content-Encoding: gzip", 400, "encoding" }, /* the body is not gzip */
        { "Content-Encoding: deflate", 400, "encoding" },
        { "Content-Encoding: identity", 200, NULL },
        { "Content-Encoding: br", 415, "encoding" },
        { "Content-Encoding: words", 415, "encoding" },
        { "Content-Encoding: gzip, deflate", 415, "encoding" },
        { "X-Timeout-Ms: 60000", 200, NULL },
        { "X-Timeout-Ms: soon", 400, "option" },
        { "X-Timeout-Ms: -1", 400, "option" },
        { "X-Timeout-Ms: 0x10", 400, "option" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const headers[] = { cases[i].header, NULL };
        struct http_response response = http_client_send(
            &client, &(struct http_request){ .path = PATH, .body = GOOD, .headers = headers });
        if (response.status != cases[i].status)
            fprintf(stderr, "%s\n", cases[i].header);
        if (cases[i].status == 200)
            cJSON_Delete(answer_json(&response, 200));
        else
            answer_expect_fault(&response, cases[i].status, cases[i].code, NULL);
        assert_false(response.on_new_connection);
        http_response_free(&response);
    }
}

/* --json-nonfinite=allow takes the words NaN, Infinity and -Infinity, and numbers
 * beyond float32. */
TEST(nonfinite_allowed)
{
    struct daemon other;
    struct http_client lenient;
    daemon_start_with(&other, "--json-nonfinite", "allow", NULL);
    http_client_init(&lenient, other.port);
    cJSON *answer = answer_post(&lenient, PATH,
                                SDPA("\"query\":[[1]],\"key\":[[1],[2]],\"value\":[[3],[NaN]],"
                                     "\"mask\":[[0,-Infinity]]"));
    answer_expect(answer, "context", "[[3]]", 0);
    cJSON_Delete(answer);
    answer = answer_post(&lenient, PATH,
                         SDPA("\"query\":[[1]],\"value\":[[1e400,Infinity,-Infinity,NaN,2]]"));
    answer_expect(answer, "context", "[[null,null,null,null,2]]", 0);
    cJSON_Delete(answer);
    answer_refused(&lenient, PATH, SDPA(JSON("query":[[nan]])), 400, "json", NULL);
    answer_refused(&lenient, PATH, SDPA(JSON("query":[[+Infinity]])), 400, "json", NULL);
    answer_refused(&lenient, PATH, SDPA(JSON("query":[[Infinit]])), 400, "json", NULL);
    http_client_free(&lenient);
    daemon_stop(&other);
}

static int start(void **state)
{
    fixture_start(state);
    cJSON_Delete(answer_post(&client, PATH, GOOD)); /* the connection that must last */
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
