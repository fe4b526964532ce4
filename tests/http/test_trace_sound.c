/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_sound.c - sound as the input of a trace: samples and a WAV file of them give the same
 * bits, and the features that both become the same numbers. */
#include "answer.h"
#include "base/base64.h"
#include "fixture.h"
#include "operations/pass/sound.h"
#include "request_text.h"
#include "test.h"
#include "whisper_model.h"

#include <math.h>

enum { SAMPLES = 3000, HEAD_BYTES = 44 };

#define OUTPUTS ",\"outputs\":[\"hidden_states\",\"weights\"]"

static int16_t sample_at(int i)
{
    return (int16_t)(12000 * sin(i * 0.05) * cos(i * 0.001) + i % 97 * 20);
}

static void put_32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* A file of one channel and 16 bits, in base64. */
static void add_file(struct request_text *text, uint32_t rate, int count)
{
    static const unsigned char HEAD[HEAD_BYTES] = "RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0";
    const size_t size = HEAD_BYTES + 2 * (size_t)count, length = base64_length(size);
    unsigned char *bytes = malloc(size);
    char *digits = malloc(length + 1);
    assert_true(bytes && digits);
    memcpy(bytes, HEAD, HEAD_BYTES);
    put_32(bytes + 4, (uint32_t)size - 8);
    put_32(bytes + 24, rate);
    put_32(bytes + 28, 2 * rate);
    put_32(bytes + 32, 2 | 16 << 16);
    memcpy(bytes + 36, "data", 4);
    put_32(bytes + 40, 2 * (uint32_t)count);
    for (int i = 0; i < count; i++) {
        bytes[HEAD_BYTES + 2 * i] = (unsigned char)sample_at(i);
        bytes[HEAD_BYTES + 2 * i + 1] = (unsigned char)(sample_at(i) >> 8);
    }
    base64_encode(digits, (struct byte_slice){ bytes, size });
    digits[length] = '\0';
    request_text_add(text, "\"sound\":\"%s\"", digits);
    free(digits);
    free(bytes);
}

static void add_samples(struct request_text *text, int count)
{
    request_text_add(text, "\"sound\":[");
    for (int i = 0; i < count; i++)
        request_text_add(text, "%s%.9g", i > 0 ? "," : "", sample_at(i) / 32768.0);
    request_text_add(text, "]");
}

static void add_features(struct request_text *text)
{
    float samples[SAMPLES], features[WHISPER_FEATURES * WHISPER_FRAMES];
    struct arena arena;
    struct fault fault;
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = sample_at(i) / 32768.0f;
    arena_init(&arena, SIZE_MAX);
    assert_true(sound_features(features, WHISPER_FEATURES, WHISPER_FRAMES, samples, SAMPLES,
                               *attn_kernels_available(), &arena, &fault));
    arena_free(&arena);
    request_text_add(text, "\"features\":[");
    for (int i = 0; i < WHISPER_FEATURES * WHISPER_FRAMES; i++)
        request_text_add(text, "%s%.9g",
                         i % WHISPER_FRAMES > 0 ? ","
                         : i > 0                ? "],["
                                                : "[",
                         (double)features[i]);
    request_text_add(text, "]]");
}

/* The answer to a trace of the fields in text, which is freed. */
static char *answer_of(struct request_text *text)
{
    struct request_text body = { 0 };
    request_text_add(&body, "{\"model\":\"whisper\",\"decoder_tokens\":[2,5,9,3]" OUTPUTS ",%s}",
                     text->data);
    struct http_response response = http_client_post(&client, "/v1/trace", body.data);
    char *answer = response.body;
    assert_int_equal(response.status, 200);
    response.body = NULL;
    http_response_free(&response);
    free(body.data);
    free(text->data);
    return answer;
}

TEST(same_numbers)
{
    struct request_text file = { 0 }, samples = { 0 }, features = { 0 };
    add_file(&file, SOUND_RATE, SAMPLES);
    add_samples(&samples, SAMPLES);
    add_features(&features);
    char *of_file = answer_of(&file), *of_samples = answer_of(&samples);
    char *of_features = answer_of(&features);
    assert_string_equal(of_file, of_samples);
    cJSON *answer = cJSON_Parse(of_file), *given = cJSON_Parse(of_features);
    char *layers = cJSON_PrintUnformatted(cJSON_GetObjectItem(given, "layers"));
    answer_expect(answer, "layers", layers, 1e-5);
    cJSON_Delete(answer);
    cJSON_Delete(given);
    free(layers);
    free(of_file);
    free(of_samples);
    free(of_features);
}

/* As long as the model takes; silence follows what is shorter, also nothing at all. */
TEST(lengths)
{
    struct request_text full = { 0 }, none = { 0 }, silent = { 0 };
    add_samples(&full, WHISPER_SAMPLES);
    free(answer_of(&full));
    request_text_add(&none, "\"sound\":[]");
    request_text_add(&silent, "\"sound\":[0,0,0,0]");
    char *of_none = answer_of(&none), *of_silent = answer_of(&silent);
    assert_string_equal(of_none, of_silent);
    free(of_none);
    free(of_silent);
}

/* CPU time of a batch of so many requests, all with one sound or each with its own copy of it. */
static double seconds_of_batch(int requests, bool shared)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"model\":\"whisper\",\"layers\":[],\"outputs\":[\"embedding\"],"
                            "\"pooling\":\"mean\",");
    if (shared)
        add_file(&text, 16000, SAMPLES);
    request_text_add(&text, shared ? ",\"requests\":[" : "\"requests\":[");
    for (int i = 0; i < requests; i++) {
        request_text_add(&text, i > 0 ? ",{" : "{");
        if (!shared)
            add_file(&text, 16000, SAMPLES);
        request_text_add(&text, shared ? "\"decoder_tokens\":[2]}" : ",\"decoder_tokens\":[2]}");
    }
    request_text_add(&text, "]}");
    const double before = daemon_cpu_seconds(&server);
    cJSON *answer = answer_post(&client, "/v1/trace/batch", text.data);
    const double seconds = daemon_cpu_seconds(&server) - before;
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(answer, "results"), *result;
    cJSON_ArrayForEach(result, results)
        assert_true(cJSON_Compare(result, results->child, 1));
    assert_int_equal(cJSON_GetArraySize(results), requests);
    cJSON_Delete(answer);
    free(text.data);
    return seconds;
}

/* One sound is read once, however many requests have it: reading takes most of the time of a batch
 * whose requests have one each. */
TEST(shared_sound_is_read_once)
{
    const double shared = seconds_of_batch(400, true), own = seconds_of_batch(400, false);
    if (!(shared < 0.5 * own))
        fail_msg("%.3f s with one sound, %.3f s with 400", shared, own);
}

static void expect_fault(struct request_text *fields, const char *code, const char *words)
{
    struct request_text body = { 0 };
    request_text_add(&body, "{\"model\":\"whisper\",%s}", fields->data);
    struct http_response response = http_client_post(&client, "/v1/trace", body.data);
    answer_expect_fault(&response, 400, code, "/sound");
    if (!strstr(response.body, words))
        fail_msg("%s", response.body);
    http_response_free(&response);
    free(body.data);
    free(fields->data);
    *fields = (struct request_text){ 0 };
}

TEST(refused)
{
    static const struct {
        const char *field, *code, *words;
    } CASES[] = {
        { "\"sound\":\"UklGR\"", "binary", "no base64" },
        { "\"sound\":\"UklGRg==\"", "binary", "this is no WAV file" },
        { "\"sound\":true", "type", "samples, or a WAV file in base64" },
        { "\"sound\":[[0,0],[0,0]]", "shape", "2 dimensions; expected [samples]" },
        { "\"sound\":[0,1,2000]", "option", "sample 2 of sound is 2000; expected numbers from -1" },
        { "\"sound\":[0],\"features\":[[0]]", "field", "both sound and features" },
    };
    struct request_text fields = { 0 };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        request_text_add(&fields, "%s", CASES[i].field);
        expect_fault(&fields, CASES[i].code, CASES[i].words);
    }
    add_file(&fields, 44100, SAMPLES);
    expect_fault(&fields, "option", "44100 samples a second; expected 16000: resample it");
    add_samples(&fields, WHISPER_SAMPLES + 1);
    expect_fault(&fields, "length", "sound has 6401 samples; model 'whisper' takes at most 6400");
}

/* Of a model that takes text. */
TEST(no_sound)
{
    struct http_response response =
        http_client_post(&client, "/v1/trace", "{\"model\":\"stories260K\",\"sound\":[0]}");
    answer_expect_fault(&response, 400, "field", "/sound");
    assert_non_null(strstr(response.body, "model 'stories260K' takes no sound"));
    http_response_free(&response);
}

static int start(void **state)
{
    (void)state;
    char command[500];
    directory = daemon_directory_create();
    whisper_model_save(directory);
    snprintf(command, sizeof command, "cp -r examples/models/stories260K '%s'", directory);
    assert_int_equal(system(command), 0);
    fixture_serve("--models", directory);
    return 0;
}

static int stop(void **state)
{
    fixture_stop(state);
    return fixture_clear(state);
}

ALL_TESTS(start, stop);
