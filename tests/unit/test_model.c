/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c - built-in models, models from disk, and models whose files are cut short,
 * written into or replaced while they are in use. */
#include "made_model.h"
#include "models/model/model.h"
#include "models/model/model_describe.h"
#include "models/model/model_guard.h"
#include "models/store/model_open.h"
#include "test.h"

#include <cjson/cJSON.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(built_in)
{
    struct model *model;
    struct fault fault;
    struct text text;
    assert_true(model_create_demo(&model, &fault));
    const struct attn_linear *q_proj = &model->layers[0].layer.q_proj;
    const float *weight = q_proj->weight;
    assert_true(q_proj->in_out && weight[2] == 2.0f && weight[7] == 1.0f);
    assert_int_equal(model->parameter_count, 27);
    assert_true(model->built_in && !model->parameterless && !model_damage(model));
    model_release(model_retain(model));
    text_init(&text, 100000);
    model_describe(model, &text);
    assert_true(text_finish(&text, &fault));
    cJSON *description = cJSON_ParseWithLength(text.data, text.used);
    assert_non_null(description);
    assert_string_equal(cJSON_GetObjectItem(description, "state")->valuestring, "READY");
    cJSON_Delete(description);
    text_free(&text);
    model_release(model);

    assert_true(model_create_sdpa(&model, &fault));
    assert_true(model->built_in && model->parameterless);
    assert_int_equal(model->layer_count, 1);
    model_release(model);
    model_release(NULL);
}

TEST(stories260k)
{
    struct model *model;
    struct fault fault;
    if (!model_load(&model, "stories260K", "here", "examples/models/stories260K/model.safetensors",
                    "examples/models/stories260K/config.json", &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(model->layer_count, 5);
    assert_int_equal(model->parameter_count, 5 * (2 * 64 * 64 + 2 * 32 * 64));
    assert_int_equal(model->total_parameter_count, 260032);
    assert_string_equal(model->dtype, "F32");
    assert_string_equal(model->source, "here");
    for (int i = 0; i < 5; i++) {
        const struct model_layer *layer = &model->layers[i];
        assert_true(layer->layer.q_heads == 8 && layer->layer.kv_heads == 4);
        assert_true(layer->layer.head_dim == 8 && layer->layer.v_head_dim == 8);
        assert_true(layer->d_query == 64 && layer->d_key == 64);
        assert_true(layer->d_value == 64 && layer->d_out == 64);
        assert_true(layer->options.causal && layer->layer.rope.interleaved);
        assert_true(layer->layer.rope.dim == 8 && layer->layer.o_proj.out == 64);
    }
    model_release(model);
}

TEST(files)
{
    struct model *model;
    struct fault fault;
    assert_false(model_load(&model, "m", "s", "no/such/file", NULL, &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    assert_false(model_load(&model, "m", "s", "tests", NULL, &fault));
    assert_non_null(strstr(fault.message, "not a regular file"));
    assert_false(model_load(&model, "m", "s", "/dev/null", NULL, &fault));
    assert_false(model_load(&model, "m", "s", "examples/models/stories260K/model.safetensors",
                            "no/such/config", &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    assert_false(model_load(&model, "m", "s", "examples/models/stories260K/model.safetensors", NULL,
                            &fault));
    assert_int_equal(fault.code, FAULT_FIELD);
}

/* Sets the time of a file's last change to a time that no other test here uses. */
static void set_time(int file, time_t second)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = second } };
    assert_int_equal(futimens(file, times), 0);
}

/* The file of a served model is cut short. Then its parameters are read. */
TEST(cut_short)
{
    char path[] = "/tmp/attnd-test-XXXXXX";
    struct model *model, *other;
    struct fault fault;
    struct text text;
    size_t size;
    float sum = 0;
    const int file = mkstemp(path);
    void *bytes = made_model("{}", "q_proj.weight 300x400", 2, &size);
    assert_true(file >= 0);
    model_guard_install();
    made_model_write(path, bytes, size);
    assert_true(model_load(&model, "m", path, path, NULL, &fault));
    assert_true(model_load(&other, "n", "examples/models/stories260K",
                           "examples/models/stories260K/model.safetensors",
                           "examples/models/stories260K/config.json", &fault));
    assert_null(model_damage(model));
    assert_int_equal(ftruncate(file, 8192), 0);
    const float *weight = model->layers[0].layer.q_proj.weight;
    for (int i = 300 * 400 - 1; i >= 0; i--)
        sum += weight[i];
    assert_true(model_damage(model) && !model_damage(other));
    assert_true(sum > 0 && sum < 2 * 8192 / 4);
    assert_true(weight[300 * 400 - 1] == 0.0f && weight[0] == 2.0f);
    text_init(&text, 100000);
    model_describe(model, &text);
    assert_true(text_finish(&text, &fault));
    assert_non_null(memmem(text.data, text.used, "UNAVAILABLE", 11));
    text_free(&text);
    model_release(model);
    model_release(other);
    close(file);
    unlink(path);
    free(bytes);
}

/* A program changes a small file without removing any of its pages. The cases say what is
 * reported about the model, also where it was opened by a link that then leads elsewhere. */
TEST(written_into)
{
    static const struct {
        off_t cut_by; /* below 0: grown */
        bool is_overwritten;
        const char *words;
    } CASES[] = {
        { 0, false, NULL },
        { 1, false, "cut short" },
        { -1, false, "written into" },
        { 0, true, "written into" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char path[] = "/tmp/attnd-test-XXXXXX", link[sizeof path + 5];
        struct model *model;
        struct fault fault;
        size_t size;
        const int file = mkstemp(path);
        void *bytes = made_model("{}", "q_proj.weight 3x4", 2, &size);
        assert_true(file >= 0);
        snprintf(link, sizeof link, "%s.link", path);
        made_model_write(path, bytes, size);
        set_time(file, 1);
        assert_int_equal(symlink(path, link), 0);
        assert_true(model_load(&model, "m", link, link, NULL, &fault));
        assert_int_equal(unlink(link), 0);
        assert_int_equal(symlink("/dev/null", link), 0);
        assert_null(model_damage(model));
        if (CASES[i].cut_by)
            assert_int_equal(ftruncate(file, (off_t)size - CASES[i].cut_by), 0);
        if (CASES[i].is_overwritten)
            assert_int_equal(pwrite(file, "1234", 4, (off_t)size - 4), 4);
        const char *damage = model_damage(model);
        assert_true(CASES[i].words ? damage && strstr(damage, CASES[i].words) : !damage);
        assert_int_equal(ftruncate(file, (off_t)size), 0);
        set_time(file, 1);
        assert_ptr_equal(model_damage(model), damage); /* it stays */
        model_release(model);
        close(file);
        unlink(link);
        unlink(path);
        free(bytes);
    }
}

/* Renaming another file over a mapped file, or unlinking it, does not affect the mapping. */
TEST(replaced)
{
    char path[] = "/tmp/attnd-test-XXXXXX", other[] = "/tmp/attnd-test-XXXXXX";
    struct model *model;
    struct fault fault;
    size_t size;
    const int file = mkstemp(path), other_file = mkstemp(other);
    void *bytes = made_model("{}", "q_proj.weight 3x4", 2, &size);
    assert_true(file >= 0 && other_file >= 0);
    made_model_write(path, bytes, size);
    assert_true(model_load(&model, "m", path, path, NULL, &fault));
    assert_int_equal(rename(other, path), 0);
    assert_null(model_damage(model));
    assert_int_equal(unlink(path), 0);
    assert_null(model_damage(model));
    assert_true(((const float *)model->layers[0].layer.q_proj.weight)[11] == 2.0f);
    model_release(model);
    close(file);
    close(other_file);
    free(bytes);
}
