/* SPDX-License-Identifier: Apache-2.0 */
/* test_gguf_models.c - what the daemon computes with GGUF files, beside what llama.cpp computes
 * with the same files (tests/conformance/README.md): a generated model of each architecture, and
 * one in each type of blocks, by their logits, or by the last hidden states of an encoder. */
#include "answer.h"
#include "fixture.h"
#include "gguf_models.h"
#include "gguf_quantize.h"
#include "gguf_write.h"
#include "request_text.h"
#include "tensor_file.h"
#include "test.h"

#include <inttypes.h>

enum { NAME_BYTES = 64 };

/* llama.cpp reads GELU from a table of half floats: 11 bits of the argument and of the value. */
static const double TOLERANCE = 2e-4, TOLERANCE_GELU = 5e-3;
static const char *const GELU[] = { "gemma",
                                    "gemma2",
                                    "gemma3",
                                    "gemma3-scaled",
                                    "gemma-embedding",
                                    "gemma4",
                                    "gemma4-experts",
                                    "phi2",
                                    "phi2-separate",
                                    "gpt2",
                                    "gptneox",
                                    "gptneox-serial",
                                    "bloom",
                                    "falcon",
                                    "falcon-40b",
                                    "starcoder2",
                                    "bert",
                                    "t5",
                                    "mpt",
                                    "modern-bert",
                                    "jina-bert-v2",
                                    "bert-without-types" };

/* llama.cpp does not compute what is published: Phi-3.5 MoE's LayerNorm and its SparseMixer, which
 * test_gguf_newer.c has; windows of Phi-3; and the tied head of T5, before which rows are divided
 * by the root of their width. */
static const char *const DIFFER[] = { "phimoe", "phi3-window", "t5-ungated" };

/* llama.cpp rounds the ends of YaRN's ramp, and gpt-oss does not. With this beta_slow the last end
 * is where llama.cpp's rounds to, at 4 of the model's pairs: 128 positions / (2 pi 1000^(4 / 8)).
 * The first is before all pairs in both. */
static const double ROUNDED_BETA_SLOW = 0.644214;

static struct tensor_file stored;

static bool is_among(const char *name, const char *const *names, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return i < count;
}

#define IS_AMONG(name, names) is_among(name, names, sizeof(names) / sizeof(names)[0])

/* ---------------------------------------------------------------- requests -- */

static void add_tokens(struct request_text *body, const char *name, const int32_t *tokens,
                       int count)
{
    request_text_add(body, ",\"%s\":[", name);
    for (int i = 0; i < count; i++)
        request_text_add(body, i > 0 ? ",%d" : "%d", tokens[i]);
    request_text_add(body, "]");
}

/* Asks for a trace of the tokens: the predictions of all words at all positions, or the hidden
 * states. */
static struct http_response trace(const char *name, enum gguf_model_kind kind)
{
    struct request_text body = { .data = NULL };
    const int positions = kind == GGUF_ENCODER_DECODER ? GGUF_MODEL_DECODED : GGUF_MODEL_LENGTH;
    request_text_add(&body, "{\"model\":\"%s\",\"layers\":[]", name);
    add_tokens(&body, "tokens", gguf_model_tokens, GGUF_MODEL_LENGTH);
    if (kind == GGUF_ENCODER_DECODER)
        add_tokens(&body, "decoder_tokens", gguf_model_decoded, GGUF_MODEL_DECODED);
    request_text_add(&body, ",\"outputs\":[\"%s\"]",
                     kind == GGUF_ENCODER ? "hidden_states" : "predictions");
    request_text_add(&body, ",\"top_k_tokens\":%d", GGUF_MODEL_WORDS);
    for (int i = 0; kind != GGUF_ENCODER && i < positions; i++)
        request_text_add(&body, i > 0 ? ",%d" : ",\"positions\":[%d", i);
    request_text_add(&body, kind == GGUF_ENCODER ? "}" : "]}");
    const struct http_response response = http_client_post(&client, "/v1/trace", body.data);
    free(body.data);
    return response;
}

/* ------------------------------------------------------------- differences -- */

/* The largest difference of the log-probs of all words at all positions; -1: one is missing. */
static double predictions_difference(const cJSON *answer, const float *logits, int64_t count)
{
    const cJSON *predictions = cJSON_GetObjectItemCaseSensitive(answer, "predictions"), *entry;
    double largest = 0;
    int64_t position = 0;
    cJSON_ArrayForEach(entry, predictions) {
        const float *row = logits + position++ * GGUF_MODEL_WORDS;
        const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(entry, "tokens"), *token;
        double sum = 0;
        for (int i = 0; i < GGUF_MODEL_WORDS; i++)
            sum += exp(row[i]);
        cJSON_ArrayForEach(token, tokens) {
            const int id = cJSON_GetObjectItemCaseSensitive(token, "id")->valueint;
            const double logprob = cJSON_GetObjectItemCaseSensitive(token, "logprob")->valuedouble;
            largest = fmax(largest, fabs(logprob - (row[id] - log(sum))));
        }
        if (cJSON_GetArraySize(tokens) != GGUF_MODEL_WORDS)
            return -1;
    }
    return position == count ? largest : -1;
}

static double states_difference(const cJSON *answer, const float *states, const int64_t *shape)
{
    double *numbers = answer_numbers(answer, "final_hidden_states", 2, shape), largest = 0;
    for (int64_t i = 0; i < shape[0] * shape[1]; i++)
        largest = fmax(largest, fabs(numbers[i] - states[i]));
    free(numbers);
    return largest;
}

/* Whether the daemon's numbers for its model `name` are those stored under `stored_name`. */
static bool agrees(const char *name, const char *stored_name, enum gguf_model_kind kind,
                   double tolerance)
{
    struct http_response response = trace(name, kind);
    if (response.status != 200) {
        print_error("%s: %s\n", name, response.body);
        http_response_free(&response);
        return false;
    }
    cJSON *answer = answer_json(&response, 200);
    const struct tensor tensor = tensor_file_get(&stored, stored_name);
    float *numbers = tensor_floats(&tensor);
    const double largest = kind == GGUF_ENCODER
                               ? states_difference(answer, numbers, tensor.shape)
                               : predictions_difference(answer, numbers, tensor.shape[0]);
    free(numbers);
    cJSON_Delete(answer);
    http_response_free(&response);
    const bool good = largest >= 0 && largest <= tolerance;
    if (!good)
        print_error("%s: a difference of %g\n", name, largest);
    return good;
}

/* The same of the vector of an encoder. */
static bool vector_agrees(const struct gguf_model *model)
{
    char stored_name[NAME_BYTES];
    struct request_text body = { .data = NULL };
    snprintf(stored_name, sizeof stored_name, "%s vector", model->name);
    request_text_add(&body, "{\"model\":\"%s\",\"layers\":[],\"outputs\":[\"embedding\"]",
                     model->name);
    add_tokens(&body, "tokens", gguf_model_tokens, GGUF_MODEL_LENGTH);
    request_text_add(&body, "}");
    cJSON *answer = answer_post(&client, "/v1/trace", body.data);
    const struct tensor tensor = tensor_file_get(&stored, stored_name);
    float *want = tensor_floats(&tensor);
    double *numbers = answer_numbers(answer, "embedding", 1, &tensor.shape[1]), largest = 0;
    for (int64_t i = 0; i < tensor.shape[1]; i++)
        largest = fmax(largest, fabs(numbers[i] - want[i]));
    const double tolerance = IS_AMONG(model->name, GELU) ? TOLERANCE_GELU : TOLERANCE;
    if (!(largest <= tolerance))
        print_error("%s: a vector with a difference of %g\n", model->name, largest);
    free(numbers);
    free(want);
    free(body.data);
    cJSON_Delete(answer);
    return largest <= tolerance;
}

/* ------------------------------------------------------------------- tests -- */

TEST(architectures)
{
    int failed = 0;
    for (int i = 0; gguf_model_at(i); i++) {
        const struct gguf_model *model = gguf_model_at(i);
        if (!IS_AMONG(model->name, DIFFER))
            failed += !agrees(model->name, model->name, model->kind,
                              IS_AMONG(model->name, GELU) ? TOLERANCE_GELU : TOLERANCE);
    }
    assert_int_equal(failed, 0);
}

TEST(vectors)
{
    int failed = 0;
    for (int i = 0; gguf_model_at(i); i++)
        if (gguf_model_at(i)->kind == GGUF_ENCODER)
            failed += !vector_agrees(gguf_model_at(i));
    assert_int_equal(failed, 0);
}

TEST(types_of_blocks)
{
    int failed = 0;
    for (int i = 1; gguf_block_at(i); i++) {
        char name[NAME_BYTES], stored_name[NAME_BYTES];
        snprintf(name, sizeof name, "wide-%s", gguf_block_at(i)->name);
        snprintf(stored_name, sizeof stored_name, "llama-wide %s", gguf_block_at(i)->name);
        failed += !agrees(name, stored_name, GGUF_DECODER, TOLERANCE);
    }
    assert_int_equal(failed, 0);
}

/* Blocks give the bits of the same numbers in F32 on kernels that have no fixed point, whatever an
 * architecture does with its rows. */
TEST(blocks_as_floats)
{
    int failed = 0;
    fixture_stop(NULL);
    fixture_serve("--models", directory, "--kernels", "generic");
    for (int i = 0; gguf_model_at(i); i++) {
        const struct gguf_model *model = gguf_model_at(i);
        char blocks[NAME_BYTES], floats[NAME_BYTES];
        snprintf(blocks, sizeof blocks, "%s-blocks", model->name);
        snprintf(floats, sizeof floats, "%s-floats", model->name);
        struct http_response one = trace(blocks, model->kind), other = trace(floats, model->kind);
        const char *begin = strstr(one.body, "\"tokens\""),
                   *other_begin = strstr(other.body, "\"tokens\"");
        if (one.status != 200 || other.status != 200 || strcmp(begin, other_begin) != 0) {
            print_error("%s: %.300s\n%.300s\n", model->name, one.body, other.body);
            failed++;
        }
        http_response_free(&one);
        http_response_free(&other);
    }
    fixture_stop(NULL);
    fixture_serve("--models", directory);
    assert_int_equal(failed, 0);
}

TEST(not_read)
{
    struct http_response response = trace("mamba", GGUF_DECODER);
    assert_int_equal(response.status, 503);
    assert_non_null(strstr(response.body, "general.architecture is 'mamba', which is not read"));
    http_response_free(&response);
}

/* ------------------------------------------------------------------- files -- */

static void write_model(const struct gguf_model *model, struct gguf_model_form form,
                        const char *begin, const char *end)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s.gguf", begin, end);
    struct gguf_write *file = gguf_model_make(model, form);
    if (strcmp(model->name, "gpt-oss") == 0)
        gguf_write_number(file, "gpt-oss.rope.scaling.yarn_beta_slow", 'f', ROUNDED_BETA_SLOW);
    gguf_write_file(file, fixture_path(name));
    gguf_write_free(file);
}

static void write_mamba(void)
{
    static const struct gguf_model mamba = { .name = "mamba",
                                             .architecture = "mamba",
                                             .pairs = "",
                                             .tensors = "token_embd.weight 48x64, " };
    write_model(&mamba, (struct gguf_model_form){ "F32", false }, "mamba", "");
}

static int start(void **state)
{
    if (fixture_make_directory(state) != 0)
        return 1;
    for (int i = 0; gguf_model_at(i); i++) {
        const struct gguf_model *model = gguf_model_at(i);
        write_model(model, (struct gguf_model_form){ "F32", false }, model->name, "");
        write_model(model, (struct gguf_model_form){ "Q8_0", false }, model->name, "-blocks");
        write_model(model, (struct gguf_model_form){ "Q8_0", true }, model->name, "-floats");
    }
    for (int i = 1; gguf_block_at(i); i++)
        write_model(gguf_model_named("llama-wide"),
                    (struct gguf_model_form){ gguf_block_at(i)->name, false }, "wide-",
                    gguf_block_at(i)->name);
    write_mamba();
    tensor_file_open(&stored, "tests/conformance/gguf/llama_cpp.safetensors");
    fixture_serve("--models", directory);
    return 0;
}

static int stop(void **state)
{
    tensor_file_close(&stored);
    return fixture_stop(state);
}

ALL_TESTS(start, stop);
