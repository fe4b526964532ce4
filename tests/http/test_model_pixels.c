/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_pixels.c - what a model's description says of its inputs: which a trace takes, and how
 * a picture becomes pixels, by preprocessor_config.json or by the family. */
#include "answer.h"
#include "fixture.h"
#include "forward_block.h"
#include "published_client.h"
#include "test.h"
#include "word_model.h"

enum { LAYERS = 1 };

#define VIT_LAYER "encoder.layer.#."
#define VIT(patches, channels)                                                                     \
    FORWARD_TABLE("embeddings.cls_token", 1x1x12)                                                  \
    FORWARD_LINEAR("embeddings.patch_embeddings.projection", 12, channels##x2x2)                   \
    FORWARD_TENSOR("embeddings.position_embeddings", 1x##patches##x12)                             \
    FORWARD_LINEAR(VIT_LAYER "attention.attention.query", 12, 12)                                  \
    FORWARD_LINEAR(VIT_LAYER "attention.attention.key", 12, 12)                                    \
    FORWARD_LINEAR(VIT_LAYER "attention.attention.value", 12, 12)                                  \
    FORWARD_LINEAR(VIT_LAYER "attention.output.dense", 12, 12)                                     \
    FORWARD_NORM(VIT_LAYER "layernorm_before", 12)                                                 \
    FORWARD_NORM(VIT_LAYER "layernorm_after", 12)                                                  \
    FORWARD_LINEAR(VIT_LAYER "intermediate.dense", 20, 12)                                         \
    FORWARD_LINEAR(VIT_LAYER "output.dense", 12, 20)                                               \
    FORWARD_NORM("layernorm", 12)
#define DEIT VIT(11, 3) FORWARD_TABLE("embeddings.distillation_token", 1x1x12)
#define CONFIG(type, more)                                                                         \
    "{\"model_type\":\"" type "\",\"hidden_size\":12,\"num_attention_heads\":2,"                   \
    "\"num_hidden_layers\":1,\"intermediate_size\":20,\"patch_size\":2" more "}"
#define SQUARE    CONFIG("vit", ",\"image_size\":6")
#define RECTANGLE CONFIG("vit", ",\"image_size\":[4,6],\"num_channels\":2")

static void save(const char *name, const char *config, const char *tensors, const char *file)
{
    char path[100];
    published_open(config, tensors, LAYERS, "F32");
    published_save(fixture_path(name), config);
    snprintf(path, sizeof path, "%s/preprocessor_config.json", name);
    if (file)
        daemon_directory_write(directory, path, file, strlen(file));
    published_close();
}

static cJSON *describe(const char *name)
{
    char path[100];
    snprintf(path, sizeof path, "/v1/models/%s", name);
    return answer_get(&client, path);
}

static void expect(const char *name, const char *inputs, const char *pixels)
{
    cJSON *model = describe(name);
    answer_expect(model, "inputs", inputs, 0);
    answer_expect(model, "pixels", pixels, 1e-8);
    cJSON_Delete(model);
}

#define PIXELS(mean, std, crop, source)                                                            \
    "{\"channels\":3,\"height\":6,\"width\":6,\"patch\":2,\"mean\":" mean ",\"std\":" std          \
    ",\"crop\":" crop ",\"source\":\"" source "\",\"reason\":\"\"}"
#define OF_FILE "preprocessor_config.json"

TEST(inputs)
{
    expect("words", JSON(["text","tokens"]), "null");
    expect("demo", "[]", "null");
    expect("sdpa", "[]", "null");
}

TEST(families)
{
    expect("plain", JSON(["pixels"]), PIXELS("[0.5,0.5,0.5]", "[0.5,0.5,0.5]", "false", "family"));
    expect("deit", "[\"pixels\"]",
           PIXELS("[0.485,0.456,0.406]", "[0.229,0.224,0.225]", "true", "family"));
    expect("channels", "[\"pixels\"]",
           "{\"channels\":2,\"height\":4,\"width\":6,\"patch\":2,\"mean\":[0.5,0.5],"
           "\"std\":[0.5,0.5],\"crop\":false,\"source\":\"family\",\"reason\":\"\"}");
}

/* Files as they are published, and each of the steps that they may leave out. */
static const struct {
    const char *name, *file, *pixels;
} FILES[] = {
    { "clip",
      "{\"crop_size\":224,\"do_center_crop\":true,\"do_normalize\":true,\"do_resize\":true,"
      "\"feature_extractor_type\":\"CLIPFeatureExtractor\","
      "\"image_mean\":[0.48145466,0.4578275,0.40821073],"
      "\"image_std\":[0.26862954,0.26130258,0.27577711],\"resample\":3,\"size\":224}",
      PIXELS("[0.48145466,0.4578275,0.40821073]", "[0.26862954,0.26130258,0.27577711]", "true",
             OF_FILE) },
    { "newer",
      "{\"do_normalize\":true,\"do_rescale\":true,\"do_resize\":true,\"image_mean\":[0,0.5,1],"
      "\"image_processor_type\":\"ViTImageProcessor\",\"image_std\":[1,2,0.25],"
      "\"rescale_factor\":0.00392156862745098,\"size\":{\"height\":224,\"width\":224}}",
      PIXELS("[0,0.5,1]", "[1,2,0.25]", "false", OF_FILE) },
    { "number", "{\"image_mean\":0.25,\"image_std\":0.75}",
      PIXELS("[0.25,0.25,0.25]", "[0.75,0.75,0.75]", "false", OF_FILE) },
    { "nulls", "{\"image_mean\":null,\"do_center_crop\":null}",
      PIXELS("[0.5,0.5,0.5]", "[0.5,0.5,0.5]", "false", OF_FILE) },
    { "not_normalized", "{\"do_normalize\":false,\"image_mean\":[1,2,3]}",
      PIXELS("[0,0,0]", "[1,1,1]", "false", OF_FILE) },
    { "not_rescaled", "{\"do_rescale\":false,\"image_mean\":[51,102,153],\"image_std\":255}",
      PIXELS("[0.2,0.4,0.6]", "[1,1,1]", "false", OF_FILE) },
    { "half_scale", "{\"rescale_factor\":0.00784313725490196,\"image_mean\":1,\"image_std\":2}",
      PIXELS("[0.5,0.5,0.5]", "[1,1,1]", "false", OF_FILE) },
};

TEST(files)
{
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
        expect(FILES[i].name, "[\"pixels\"]", FILES[i].pixels);
}

/* What cannot be read leaves what the family has, and the reason; the model answers. */
static const struct {
    const char *name, *file, *reason;
} REFUSED[] = {
    { "no_json", "{\"image_mean\":", "byte" },
    { "a_list", "[]", "expected an object" },
    { "two", "{\"image_mean\":[0.5,0.5]}", "image_mean is an array of numbers; expected a number" },
    { "words_in_it", "{\"image_std\":\"0.5\"}", "image_std is a string" },
    { "truth", "{\"image_mean\":[true,0,0]}", "image_mean is" },
    { "zero", "{\"image_std\":[0.5,0,0.5]}", "image_std is 0; expected more than 0" },
    { "no_factor", "{\"rescale_factor\":0}", "rescale_factor is 0" },
    { "flag", "{\"do_normalize\":1}", "do_normalize" },
    { "twice", "{\"image_mean\":0.5,\"image_mean\":0.5}", "image_mean" },
};

TEST(refused)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        cJSON *model = describe(REFUSED[i].name);
        const cJSON *pixels = cJSON_GetObjectItemCaseSensitive(model, "pixels");
        answer_expect(model, "state", "\"READY\"", 0);
        answer_expect(pixels, "mean", "[0.5,0.5,0.5]", 0);
        answer_expect(pixels, "std", "[0.5,0.5,0.5]", 0);
        answer_expect(pixels, "source", "\"family\"", 0);
        const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(pixels, "reason"));
        if (!reason || !strstr(reason, REFUSED[i].reason))
            fail_msg("%s: '%s' has not '%s'", REFUSED[i].name, reason ? reason : "",
                     REFUSED[i].reason);
        cJSON_Delete(model);
    }
}

static int start(void **state)
{
    fixture_make_directory(state);
    word_model_make(fixture_path("words"), word_model_tokenizer);
    save("plain", SQUARE, VIT(10, 3), NULL);
    save("deit", CONFIG("deit", ",\"image_size\":6"), DEIT, NULL);
    save("channels", RECTANGLE, VIT(7, 2), NULL);
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
        save(FILES[i].name, SQUARE, VIT(10, 3), FILES[i].file);
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++)
        save(REFUSED[i].name, SQUARE, VIT(10, 3), REFUSED[i].file);
    fixture_serve("--models", directory);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
