/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_tensors.c - checkpoints in shards: complete ones, and ones whose index is wrong. */
#include "models/model/model_guard.h"
#include "published.h"
#include "store_directory.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#define FIRST  "m/model-00001-of-00002.safetensors"
#define SECOND "m/model-00002-of-00002.safetensors"
#define INDEX  "m/model.safetensors.index.json"

static const char CONFIG[] = "{\"model_type\":\"opt\",\"hidden_size\":8,\"num_attention_heads\":2,"
                             "\"num_hidden_layers\":2,\"enable_bias\":false}";
static const char TENSORS[] = "decoder.layers.#.self_attn.q_proj.weight 8x8, "
                              "decoder.layers.#.self_attn.k_proj.weight 8x8, "
                              "decoder.layers.#.self_attn.v_proj.weight 8x8, "
                              "decoder.layers.#.self_attn.out_proj.weight 8x8";

/* A copy of path, for a call that names another one too. */
static void path_of(char copy[256], const char *name)
{
    snprintf(copy, 256, "%s", store_path(name));
}

static void make_shards(void)
{
    published_open(CONFIG, TENSORS, 2, "F32");
    published_save_shards(store_path("m"), CONFIG);
}

static void expect_answer(int layer)
{
    const struct rows hidden = published_input(8);
    const struct published_attention attention = { .heads = 2, .scale = 0.5, .causal = true };
    struct published_answer answer = published_attend(
        &attention, published_linear(hidden, "decoder.layers.#.self_attn.q_proj", layer),
        published_linear(hidden, "decoder.layers.#.self_attn.k_proj", layer),
        published_linear(hidden, "decoder.layers.#.self_attn.v_proj", layer));
    answer.context = published_linear(answer.context, "decoder.layers.#.self_attn.out_proj", layer);
    published_expect(layer, "self", hidden, hidden, &answer);
}

static void expect_refused(const char *words)
{
    struct fault fault;
    if (published_load_shards(store_path("m"), &fault))
        fail_msg("loaded; expected '%s'", words);
    if (!strstr(fault.message, words))
        fail_msg("'%s'; expected '%s'", fault.message, words);
    published_close();
}

TEST(whole)
{
    struct fault fault;
    make_shards();
    expect_answer(1);
    if (!published_load_shards(store_path("m"), &fault))
        fail_msg("%s", fault.message);
    expect_answer(0);
    expect_answer(1);
    assert_int_equal(published_model()->parameter_count, 2 * 4 * 64);
    assert_string_equal(published_model()->dtype, "F32");
    assert_false(model_damage(published_model()));
    published_close();

    struct model_store *store = store_open(NULL, 0);
    struct model *model;
    if (!model_store_resolve(store, NULL, "m", &model, &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(model->layer_count, 2);
    model_release(model);
    model_store_free(store);
}

TEST(of_our_own_config)
{
    struct fault fault;
    make_shards();
    store_write_text("m/config.json",
                     "{\"layers\":2,\"q_heads\":2,\"tensors\":{\"layers.0.q_proj.weight\":"
                     "\"decoder.layers.0.self_attn.q_proj.weight\",\"layers.1.q_proj.weight\":"
                     "\"decoder.layers.1.self_attn.q_proj.weight\"}}");
    if (!published_load_shards(store_path("m"), &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(published_model()->layers[1].d_query, 8);
    published_close();
}

TEST(missing_shard)
{
    make_shards();
    assert_int_equal(unlink(store_path(SECOND)), 0);
    expect_refused("shard 'model-00002-of-00002.safetensors' of tensor "
                   "'decoder.layers.1.self_attn.q_proj.weight': cannot open");
}

TEST(cut_shard)
{
    make_shards();
    assert_int_equal(truncate(store_path(SECOND), 100), 0);
    expect_refused("shard 'model-00002-of-00002.safetensors' of tensor "
                   "'decoder.layers.1.self_attn.q_proj.weight': the header");
}

/* Wherever the shard was cut, the message names the shard and the tensor that the daemon looked
 * for in it. */
TEST(every_cut_of_a_shard)
{
    struct stat whole;
    make_shards();
    assert_int_equal(stat(store_path(SECOND), &whole), 0);
    for (off_t size = whole.st_size - 1; size >= 0; size--) {
        assert_int_equal(truncate(store_path(SECOND), size), 0);
        expect_refused("shard 'model-00002-of-00002.safetensors' of tensor "
                       "'decoder.layers.1.self_attn.q_proj.weight': ");
    }
    make_shards();
    assert_int_equal(truncate(store_path(SECOND), whole.st_size - 1), 0);
    expect_refused("': the tensors take 1024 bytes; 1023 follow the header: the file is cut");
}

/* A shard that a download still adds to, or that another file has overwritten. */
TEST(grown_shard)
{
    static const off_t MORE[] = { 1, 4, 4096, 1 << 20 };
    struct stat whole;
    for (size_t i = 0; i < sizeof MORE / sizeof MORE[0]; i++) {
        make_shards();
        assert_int_equal(stat(store_path(SECOND), &whole), 0);
        assert_int_equal(truncate(store_path(SECOND), whole.st_size + MORE[i]), 0);
        expect_refused("shard 'model-00002-of-00002.safetensors' of tensor "
                       "'decoder.layers.1.self_attn.q_proj.weight': the tensors take 1024 bytes; ");
    }
}

TEST(tensor_in_other_shard)
{
    char first[256], second[256];
    make_shards();
    path_of(first, FIRST);
    path_of(second, SECOND);
    assert_int_equal(rename(second, first), 0);
    expect_refused("shard 'model-00001-of-00002.safetensors' of tensor "
                   "'decoder.layers.0.self_attn.q_proj.weight': the file has no tensor of that "
                   "name");
}

/* Links that lead out of the directory are refused, links inside it are not. */
TEST(links)
{
    struct fault fault;
    char from[256], to[256];
    make_shards();
    path_of(from, SECOND);
    path_of(to, "m/another-name");
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(symlink("another-name", from), 0);
    if (!published_load_shards(store_path("m"), &fault))
        fail_msg("%s", fault.message);
    expect_answer(1);
    path_of(from, "outside.safetensors");
    assert_int_equal(rename(to, from), 0);
    path_of(to, SECOND);
    assert_int_equal(unlink(to), 0);
    assert_int_equal(symlink("../outside.safetensors", to), 0);
    expect_refused("this is a symbolic link that leads out of the directory");
}

TEST(index)
{
    static const struct {
        const char *text, *words;
    } INDICES[] = {
        { "{\"weight_map\":{\"a\":\"../b.safetensors\"}}",
          "shard '../b.safetensors' of tensor 'a': this is no name of a file beside the index" },
        { "{\"weight_map\":{\"a\":\"/etc/passwd\"}}",
          "shard '/etc/passwd' of tensor 'a': this is" },
        { "{\"weight_map\":{\"a\":\"..\"}}", "shard '..' of tensor 'a': this is no name" },
        { "{\"weight_map\":{\"a\":\"\"}}", "shard '' of tensor 'a': this is no name" },
        { "{\"weight_map\":{\"a\":7}}", "no name of a file for tensor 'a'" },
        { "{\"weight_map\":{}}", "has no weight_map" },
        { "{\"weight_map\":[]}", "has no weight_map" },
        { "[]", "has no weight_map" },
        { "{", "" },
    };
    for (size_t i = 0; i < sizeof INDICES / sizeof INDICES[0]; i++) {
        make_shards();
        store_write_text(INDEX, INDICES[i].text);
        expect_refused(INDICES[i].words);
    }
}

static float parameter(const struct attn_linear *linear, int64_t index)
{
    return ((const float *)linear->weight)[index];
}

/* If a shard is cut short under the model, the model no longer answers. Nothing crashes. */
TEST(cut_while_mapped)
{
    struct fault fault;
    model_guard_install(); /* over cmocka's own handler */
    make_shards();
    if (!published_load_shards(store_path("m"), &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(truncate(store_path(SECOND), 0), 0);
    const struct model_layer *layer = &published_model()->layers[1];
    volatile float sum = parameter(&layer->layer.q_proj, 0);
    sum = sum + parameter(&published_model()->layers[0].layer.q_proj, 0);
    assert_true(model_damage(published_model()));
    published_close();
}

/* A program that appends to a file has written into it, and may have written anywhere. But bytes
 * after those that the header describes are not part of the model. */
TEST(grown_while_mapped)
{
    struct fault fault;
    struct stat whole;
    make_shards();
    if (!published_load_shards(store_path("m"), &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(stat(store_path(SECOND), &whole), 0);
    assert_int_equal(truncate(store_path(SECOND), whole.st_size + (1 << 20)), 0);
    expect_answer(0);
    expect_answer(1);
    assert_non_null(strstr(model_damage(published_model()), "written into"));
    published_close();
}

/* Pages that still exist can be read, but no answer uses them. */
TEST(half_cut_while_mapped)
{
    enum { WIDTH = 64, TENSOR_BYTES = WIDTH * WIDTH * 4 };
    static const char WIDE[] = "{\"model_type\":\"opt\",\"hidden_size\":64,"
                               "\"num_attention_heads\":2,\"num_hidden_layers\":2,"
                               "\"enable_bias\":false}";
    struct fault fault;
    struct stat whole;
    model_guard_install(); /* over cmocka's own handler */
    published_open(WIDE,
                   "decoder.layers.#.self_attn.q_proj.weight 64x64, "
                   "decoder.layers.#.self_attn.k_proj.weight 64x64, "
                   "decoder.layers.#.self_attn.v_proj.weight 64x64, "
                   "decoder.layers.#.self_attn.out_proj.weight 64x64",
                   2, "F32");
    published_save_shards(store_path("m"), WIDE);
    if (!published_load_shards(store_path("m"), &fault))
        fail_msg("%s", fault.message);
    /* The second shard is layer 1, in the order of its projections. */
    assert_int_equal(stat(store_path(SECOND), &whole), 0);
    assert_int_equal(truncate(store_path(SECOND), whole.st_size - 2 * TENSOR_BYTES), 0);
    const struct attn_layer *layer = &published_model()->layers[1].layer;
    volatile float number = parameter(&layer->q_proj, 0);
    number = parameter(&layer->k_proj, WIDTH * WIDTH - 1);
    assert_true(number != 0);
    number = parameter(&layer->o_proj, WIDTH * WIDTH - 1);
    assert_true(number == 0);
    assert_non_null(strstr(model_damage(published_model()), "cut short"));
    published_close();
}

EACH_TEST(store_directory_make, store_directory_remove);
