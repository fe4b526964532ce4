/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf.c - GGUF files as models of a daemon: where they may lie, how they are put, replaced
 * and damaged, what is said of them, and what is refused. */
#include "answer.h"
#include "fixture.h"
#include "gguf_models.h"
#include "gguf_write.h"
#include "made_model.h"
#include "request_text.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

static const char TOKENS[] = "\"tokens\":[1,5,9,13,2,40,47,0]";

static char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", fixture_path(name));
    return path;
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(fixture_path(name), 0755), 0);
}

static struct gguf_write *make(const char *model, const char *type)
{
    return gguf_model_make(gguf_model_named(model), (struct gguf_model_form){ type, false });
}

static void write_model(const char *model, const char *type, const char *name)
{
    gguf_model_write(gguf_model_named(model), (struct gguf_model_form){ type, false },
                     path_of(name));
}

/* The body of an answer to a trace with these fields, from "layers" on. */
static char *read_trace(const char *model, const char *fields)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, "{\"model\":\"%s\",%s,%s}", model, TOKENS, fields);
    struct http_response response = http_client_post(&client, "/v1/trace", body.data);
    free(body.data);
    if (response.status != 200)
        fail_msg("%s: %s", model, response.body);
    char *rest = strdup(strstr(response.body, "\"layers\""));
    assert_non_null(rest);
    http_response_free(&response);
    return rest;
}

static char *trace(const char *model)
{
    return read_trace(model, "\"outputs\":[\"weights\",\"hidden_states\"]");
}

static void expect_same(const char *model, const char *other)
{
    char *one = trace(model), *two = trace(other);
    assert_string_equal(one, two);
    free(one);
    free(two);
}

static void expect_description(const char *model, const char *name, const char *json)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/models/%s", model);
    cJSON *answer = answer_get(&client, path);
    answer_expect(answer, name, json, 0);
    cJSON_Delete(answer);
}

/* The model is listed, cannot be used, and its reason has these words. */
static void expect_unavailable(const char *model, const char *words)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/models/%s", model);
    cJSON *answer = answer_get(&client, path);
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(answer, "reason"));
    answer_expect(answer, "state", "\"UNAVAILABLE\"", 0);
    if (!strstr(reason, words))
        fail_msg("%s: no '%s' in '%s'", model, words, reason);
    cJSON_Delete(answer);
}

/* What reads a matrix by columns or rows, of heads that are narrower than a block: to the bit what
 * the same numbers in F32 give, on kernels that have no fixed point. */
TEST(readings_of_blocks)
{
    static const char *const FIELDS[] = {
        "\"outputs\":[\"norms\"]",
        "\"outputs\":[\"contributions\"],\"targets\":[{\"token\":9,\"against\":3}]",
        "\"outputs\":[\"lens\"]",
        "\"outputs\":[\"rollout\",\"logprobs\",\"embedding\"],\"pooling\":\"mean\"",
        "\"outputs\":[\"hidden_states\"],\"edits\":[{\"layers\":[0],\"heads\":[1],\"scale\":0}]",
    };
    static const char *const TYPES[] = { "Q4_K", "Q8_0", "IQ4_XS", "MXFP4" };
    for (size_t t = 0; t < sizeof TYPES / sizeof TYPES[0]; t++) {
        const struct gguf_model *model = gguf_model_named("llama-wide");
        gguf_model_write(model, (struct gguf_model_form){ TYPES[t], false },
                         path_of("blocks.gguf"));
        gguf_model_write(model, (struct gguf_model_form){ TYPES[t], true }, path_of("floats.gguf"));
        fixture_serve("--models", directory, "--kernels", "generic");
        for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
            char *one = read_trace("blocks", FIELDS[i]), *two = read_trace("floats", FIELDS[i]);
            assert_string_equal(one, two);
            free(one);
            free(two);
        }
        fixture_stop(NULL);
    }
}

/* attnd model show says what the file or its parts hold, and what the model is. */
static void expect_shown(const char *name, const char *const *words)
{
    const char *const arguments[] = { "model", "show", path_of(name), NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    assert_int_equal(result.exit_code, 0);
    for (; *words; words++)
        if (!strstr(result.output, *words))
            fail_msg("no '%s' in %s", *words, result.output);
    daemon_result_free(&result);
}

TEST(shown)
{
    static const char *const WHOLE[] = {
        "\nGGUF version 3, 1 file, ",
        "\n    general.architecture = llama\n",
        "\n    llama.rope.freq_base = 1000\n",
        "\n    tokenizer.ggml.tokens = array of string, 2 of them\n",
        "\n    blk.1.attn_k.weight  Q8_0 [32,64] 2176 bytes\n",
        "\nlayers: 2\n",
        NULL
    };
    static const char *const PARTS[] = { "\nGGUF version 3, 2 parts, ",
                                         "\n    blk.1.attn_k.weight  Q8_0 [32,64] 2176 bytes\n",
                                         NULL };
    struct gguf_write *file = make("llama", "Q8_0");
    gguf_write_texts(file, "tokenizer.ggml.tokens", (const char *const[]){ "a", "b" }, 2);
    gguf_write_file(file, path_of("whole.gguf"));
    gguf_write_split(file, path_of("parts"), 2);
    gguf_write_free(file);
    make_folder("folder");
    write_model("llama", "Q8_0", "folder/any.gguf");
    expect_shown("whole.gguf", WHOLE);
    expect_shown("parts-00001-of-00002.gguf", PARTS);
    expect_shown("folder", PARTS + 1);
}

/* EmbeddingGemma's layers behind its pooling would change the vector. */
TEST(layers_behind_the_pooling)
{
    static const float NUMBERS[64 * 32];
    struct gguf_write *file = make("gemma-embedding", "F32");
    gguf_write_tensor(file, "dense_2.weight", "F32", 2, (int64_t[]){ 32, 64 }, NUMBERS);
    gguf_write_file(file, path_of("dense.gguf"));
    gguf_write_free(file);
    write_model("gemma-embedding", "F32", "plain.gguf");
    fixture_serve("--models", directory);
    free(read_trace("plain", "\"outputs\":[\"embedding\"]"));
    free(read_trace("dense", "\"outputs\":[\"embedding\"],\"pooling\":\"mean\""));
    answer_refused(&client, "/v1/trace",
                   "{\"model\":\"dense\",\"tokens\":[1,2],\"outputs\":[\"embedding\"]}", 400,
                   "option", "/outputs");
    cJSON *answer = answer_get(&client, "/v1/models/dense");
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(answer, "embedding_reason"));
    assert_non_null(strstr(reason, "dense_2.weight"));
    cJSON_Delete(answer);
    fixture_stop(NULL);
}

TEST(no_gradients_of_blocks)
{
    write_model("llama", "Q8_0", "blocks.gguf");
    fixture_serve("--models", directory);
    struct request_text body = { .data = NULL };
    for (int i = 0; i < 2; i++) {
        request_text_add(&body, i == 0 ? "{\"model\":\"blocks\",\"layer\":1,\"query\":[["
                                       : "],\"context_gradient\":[[");
        for (int c = 0; c < 64; c++)
            request_text_add(&body, c > 0 ? ",%d" : "%d", c % 3);
        request_text_add(&body, "]");
    }
    request_text_add(&body, "]}");
    answer_refused(&client, "/v1/attention/gradients", body.data, 400, "dtype", NULL);
    free(body.data);
    fixture_stop(NULL);
}

/* ------------------------------------------------------------------- places -- */

TEST(places)
{
    write_model("llama", "F32", "alone.gguf");
    make_folder("named");
    write_model("llama", "F32", "named/model.gguf");
    write_model("qwen2", "F32", "named/another.gguf");
    make_folder("only");
    write_model("llama", "F32", "only/some-name.F32.gguf");
    write_model("llama", "F32", "only/mmproj-some-name.gguf");
    make_folder("two");
    write_model("llama", "F32", "two/a.gguf");
    write_model("llama", "F32", "two/b.gguf");
    make_folder("models--someone--tiny");
    make_folder("models--someone--tiny/snapshots");
    make_folder("models--someone--tiny/snapshots/abc");
    write_model("llama", "F32", "models--someone--tiny/snapshots/abc/tiny.Q8.gguf");
    write_model("llama", "F32", "capital.GGUF");
    make_folder("capital-only");
    write_model("llama", "F32", "capital-only/Tiny.Gguf");
    write_model("llama", "F32", "capital-only/mmproj-Tiny.GGUF");
    write_model("qwen2", "F32", "both.GGUF");
    write_model("llama", "F32", "both.gguf");
    make_folder("publisher");
    make_folder("publisher/repository");
    write_model("llama", "F32", "publisher/repository/tiny.gguf");
    struct gguf_write *file = make("llama", "F32");
    gguf_write_split(file, path_of("parts"), 3);
    make_folder("folder-of-parts");
    gguf_write_split(file, path_of("folder-of-parts/any"), 2);
    gguf_write_free(file);
    fixture_serve("--models", directory);
    static const char *const SAME[] = {
        "named",   "only",         "models--someone--tiny", "parts",
        "capital", "capital-only", "folder-of-parts",       "both"
    };
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++)
        expect_same("alone", SAME[i]);
    expect_unavailable("publisher", "its folder 'repository' does: move that one up");
    expect_unavailable("two", "several GGUF files, 'a.gguf' and 'b.gguf'");
    expect_description("alone", "source", "\"alone.gguf\"");
    expect_description("alone", "format", "\"gguf\"");
    expect_description("alone", "dtype", "\"F32\"");
    expect_description("parts", "source", "\"parts-00001-of-00003.gguf\"");
    expect_description("capital", "source", "\"capital.GGUF\"");
    expect_description("both", "source", "\"both.gguf\"");
    fixture_stop(NULL);
}

/* Two parts of which the first says that they have so many tensors. */
static void write_parts(const struct gguf_write *file, const char *name, int32_t said)
{
    static const char KEY[] = "split.tensors.count";
    char first[512];
    char bytes[4096];
    gguf_write_split(file, path_of(name), 2);
    snprintf(first, sizeof first, "%s-00001-of-00002.gguf", path_of(name));
    FILE *stream = fopen(first, "r+b");
    assert_non_null(stream);
    const size_t size = fread(bytes, 1, sizeof bytes, stream);
    const char *key = memmem(bytes, size, KEY, sizeof KEY - 1);
    assert_non_null(key);
    assert_int_equal(fseek(stream, key - bytes + (long)sizeof KEY - 1 + 4, SEEK_SET), 0);
    assert_int_equal(fwrite(&said, sizeof said, 1, stream), 1);
    assert_int_equal(fclose(stream), 0);
}

TEST(parts_that_do_not_belong_together)
{
    struct gguf_write *file = make("llama", "F32"), *other = make("qwen2", "F32");
    gguf_write_split(file, path_of("missing"), 3);
    assert_int_equal(unlink(path_of("missing-00002-of-00003.gguf")), 0);
    gguf_write_split(file, path_of("mixed"), 3);
    gguf_write_split(other, path_of("other"), 2);
    char from[512];
    snprintf(from, sizeof from, "%s", path_of("other-00002-of-00002.gguf"));
    assert_int_equal(rename(from, path_of("mixed-00002-of-00003.gguf")), 0);
    gguf_write_split(file, path_of("renamed"), 2);
    snprintf(from, sizeof from, "%s", path_of("renamed-00001-of-00002.gguf"));
    assert_int_equal(rename(from, path_of("renamed.gguf")), 0);
    write_parts(file, "negative", -1);
    write_parts(file, "more", 1000);
    gguf_write_free(file);
    gguf_write_free(other);
    fixture_serve("--models", directory);
    expect_unavailable("negative", "split.tensors.count is -1");
    expect_unavailable("more", "split.tensors.count is 1000");
    expect_unavailable("missing",
                       "'missing-00002-of-00003.gguf', a part of the model: cannot open");
    expect_unavailable("mixed", "'mixed-00002-of-00003.gguf', a part of the model: the file says "
                                "that it is part 2 of 2");
    expect_unavailable("other", "'other-00002-of-00002.gguf', a part of the model: cannot open");
    expect_unavailable("renamed", "its name must end with '-00001-of-00002.gguf'");
    fixture_stop(NULL);
}

/* --------------------------------------------------------- put, load, damage -- */

static struct http_response put(const char *model, const struct gguf_write *file)
{
    static const char *const HEADERS[] = { "Content-Type: application/octet-stream", NULL };
    char path[128];
    size_t size;
    void *bytes = gguf_write_bytes(file, &size);
    snprintf(path, sizeof path, "/v1/models/%s", model);
    const struct http_request request = {
        .method = "PUT", .path = path, .body = bytes, .body_size = size, .headers = HEADERS
    };
    const struct http_response response = http_client_send(&client, &request);
    free(bytes);
    return response;
}

static long send_delete(const char *path)
{
    const struct http_request request = { .method = "DELETE", .path = path };
    struct http_response response = http_client_send(&client, &request);
    const long status = response.status;
    http_response_free(&response);
    return status;
}

TEST(put_and_delete)
{
    struct gguf_write *file = make("llama", "Q8_0");
    write_model("llama", "Q8_0", "there.gguf");
    fixture_serve("--models", directory, "--model-control", "explicit");
    struct http_response response = put("mine", file);
    assert_int_equal(response.status, 201);
    http_response_free(&response);
    expect_same("there", "mine");
    expect_description("mine", "source", "\"mine.gguf\"");
    expect_description("mine", "dtype", "\"Q8_0\"");
    assert_int_equal(access(path_of("mine.gguf"), F_OK), 0);
    response = put("mine", file);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    assert_int_equal(send_delete("/v1/models/mine"), 204);
    assert_int_not_equal(access(path_of("mine.gguf"), F_OK), 0);

    response = http_client_send(
        &client, &(struct http_request){
                     .method = "PUT",
                     .path = "/v1/models/typed",
                     .body = JSON({"config":{},"parameters":{"q_proj.weight":[[1,0],[0,1]]}}) });
    assert_int_equal(response.status, 201);
    http_response_free(&response);
    response = put("typed", file);
    answer_expect_fault(&response, 409, "conflict", NULL);
    http_response_free(&response);
    gguf_write_free(file);

    /* A part comes alone. */
    file = make("llama", "F32");
    gguf_write_integer(file, "split.no", 'H', 0);
    gguf_write_integer(file, "split.count", 'H', 2);
    response = put("part", file);
    answer_expect_fault(&response, 400, "binary", NULL);
    assert_non_null(strstr(response.body, "part 1 of 2"));
    http_response_free(&response);
    gguf_write_free(file);
    fixture_stop(NULL);
}

TEST(replaced_and_damaged)
{
    write_model("llama", "F32", "model.gguf");
    struct gguf_write *file = make("llama", "F32");
    gguf_write_split(file, path_of("parts"), 2);
    gguf_write_free(file);
    fixture_serve("--models", directory, "--model-control", "explicit");
    char *first = trace("model");
    write_model("llama", "F16", "new.gguf");
    char from[512];
    snprintf(from, sizeof from, "%s", path_of("new.gguf"));
    assert_int_equal(rename(from, path_of("model.gguf")), 0);
    struct http_response response =
        http_client_post(&client, "/v2/repository/models/model/load", "{}");
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    expect_description("model", "dtype", "\"F16\"");
    char *second = trace("model");
    assert_string_not_equal(first, second);
    free(first);
    free(second);

    /* A file that is cut while it is mapped: the whole one, and a part that is not the first. */
    assert_int_equal(truncate(path_of("model.gguf"), 4096), 0);
    answer_refused(&client, "/v1/trace", "{\"model\":\"model\",\"tokens\":[1,2]}", 503, "loading",
                   NULL);
    expect_unavailable("model", "cut short while it was mapped");
    assert_int_equal(truncate(path_of("parts-00002-of-00002.gguf"), 4096), 0);
    answer_refused(&client, "/v1/trace", "{\"model\":\"parts\",\"tokens\":[1,2]}", 503, "loading",
                   NULL);
    fixture_stop(NULL);
}

/* ------------------------------------------------------------------ refused -- */

static void write_refused(const char *name, void (*change)(struct gguf_write *file))
{
    struct gguf_write *file = make("llama", "F32");
    change(file);
    gguf_write_file(file, path_of(name));
    gguf_write_free(file);
}

static void add_unknown_tensor(struct gguf_write *file)
{
    static const float NUMBERS[64];
    gguf_write_tensor(file, "blk.0.attn_gate.weight", "F32", 1, (int64_t[]){ 64 }, NUMBERS);
}

static void add_temperature(struct gguf_write *file)
{
    gguf_write_number(file, "llama.attention.temperature_scale", 'f', 0.1);
}

static void add_values(struct gguf_write *file)
{
    gguf_write_integer(file, "llama.attention.key_length", 'I', 16);
    gguf_write_integer(file, "llama.attention.value_length", 'I', 32);
}

static void add_scaling(struct gguf_write *file)
{
    gguf_write_text(file, "llama.rope.scaling.type", "spiral");
}

static void add_long_list(struct gguf_write *file)
{
    static const float NUMBERS[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    gguf_write_tensor(file, "rope_factors_long.weight", "F32", 1, (int64_t[]){ 8 }, NUMBERS);
}

static void add_second_name(struct gguf_write *file)
{
    static const float NUMBERS[64];
    gguf_write_tensor(file, "blk.00.attn_norm.weight", "F32", 1, (int64_t[]){ 64 }, NUMBERS);
}

static void write_bare(const char *name, const char *architecture, const char *type)
{
    static const unsigned char BLOCKS[66];
    struct gguf_write *file = gguf_write_create(3);
    if (architecture)
        gguf_write_text(file, "general.architecture", architecture);
    gguf_write_blocks(file, "token_embd.weight", type, 2, (int64_t[]){ 1, 256 }, BLOCKS);
    gguf_write_file(file, path_of(name));
    gguf_write_free(file);
}

TEST(refused)
{
    write_refused("unknown-tensor.gguf", add_unknown_tensor);
    write_refused("temperature.gguf", add_temperature);
    write_refused("values.gguf", add_values);
    write_refused("scaling.gguf", add_scaling);
    write_refused("long-list.gguf", add_long_list);
    write_refused("second-name.gguf", add_second_name);
    write_bare("rwkv.gguf", "rwkv6", "F32");
    write_bare("qwen4.gguf", "qwen4", "F32");
    write_bare("nameless.gguf", NULL, "F32");
    write_bare("keyless.gguf", "llama", "F32");
    made_model_write(path_of("page.gguf"), "<html>", 6);
    fixture_serve("--models", directory);
    expect_unavailable("unknown-tensor", "a tensor 'blk.0.attn_gate.weight'");
    expect_unavailable("temperature", "'llama.attention.temperature_scale'");
    expect_unavailable("values", "'llama.attention.value_length'");
    expect_unavailable("scaling", "rope.scaling.type is 'spiral'; expected none, linear");
    expect_unavailable("long-list",
                       "'rope_factors_long.weight' and no 'rope_factors_short.weight'");
    expect_unavailable("second-name", "a tensor 'blk.00.attn_norm.weight'");
    expect_unavailable("rwkv", "general.architecture is 'rwkv6', which is not read");
    expect_unavailable("qwen4", "the nearest that is is 'qwen2'");
    expect_unavailable("nameless", "no general.architecture");
    expect_unavailable("keyless", "has no 'llama.block_count', which is num_hidden_layers");
    expect_unavailable("page", "an HTML page");
    fixture_stop(NULL);
}

/* An own config names the tensors of a GGUF file as they are there. */
TEST(own_config)
{
    write_model("llama", "F32", "own.gguf");
    fixture_serve("--models", directory, "--model-control", "explicit");
    struct http_response response = http_client_post(
        &client, "/v2/repository/models/own/load",
        "{\"parameters\":{\"config\":\"{\\\"q_heads\\\":4,\\\"kv_heads\\\":2,\\\"tensors\\\":{"
        "\\\"q_proj.weight\\\":\\\"blk.1.attn_q.weight\\\","
        "\\\"k_proj.weight\\\":\\\"blk.1.attn_k.weight\\\"}}\"}}");
    if (response.status != 200)
        fail_msg("%s", response.body);
    http_response_free(&response);
    cJSON *answer = answer_get(&client, "/v1/models/own");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(answer, "layers")), 1);
    answer_expect(answer, "format", "\"gguf\"", 0);
    cJSON_Delete(answer);
    fixture_stop(NULL);
}

/* Of a type that is not computed the tensor is named, and attention answers where it has others. */
TEST(unread_type)
{
    static const char NAME[] = "blk.1.ffn_down.weight";
    enum { IQ2_XXS = 16 };
    size_t size;
    struct gguf_write *file = make("llama-wide", "Q4_K");
    unsigned char *bytes = gguf_write_bytes(file, &size);
    unsigned char *name = memmem(bytes, size, NAME, sizeof NAME - 1);
    assert_non_null(name);
    name[sizeof NAME - 1 + 4 + 2 * 8] = IQ2_XXS; /* behind its rank and two dimensions */
    made_model_write(path_of("some.gguf"), bytes, size);
    free(bytes);
    gguf_write_free(file);
    fixture_serve("--models", directory);
    expect_description("some", "state", "\"READY\"");
    cJSON *answer = answer_get(&client, "/v1/models/some");
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(answer, "trace_reason"));
    assert_non_null(strstr(reason, "is IQ2_XXS; a parameter is F32, F16, BF16 or F64, Q8_0"));
    cJSON_Delete(answer);
    fixture_stop(NULL);
}

EACH_TEST(fixture_make_directory, fixture_clear);
