/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_hub.c - directories as other programs leave them: the cache of Hugging Face's hub,
 * Meta's and Mistral's own releases, and a file of llama.cpp. */
#include "published.h"
#include "store_directory.h"
#include "telemetry/log.h"
#include "test.h"

#include <unistd.h>

#define HUB   "models--someone--tiny"
#define OLDER HUB "/snapshots/0123abcd"
#define NEWER HUB "/snapshots/89abcdef"

/* A link at path, relative to the directory, to target. */
static void link_to(const char *path, const char *target)
{
    assert_int_equal(symlink(target, store_path(path)), 0);
}

static void make_folders(void)
{
    static const char *const FOLDERS[] = { HUB, HUB "/blobs", HUB "/refs", HUB "/snapshots" };
    for (size_t i = 0; i < sizeof FOLDERS / sizeof FOLDERS[0]; i++)
        store_make_folder(FOLDERS[i]);
}

/* A snapshot of one file. The name in the snapshot is a link to a blob of its own. */
static void make_snapshot(const char *snapshot, const char *blob, float value)
{
    char path[128], target[128];
    store_make_folder(snapshot);
    snprintf(path, sizeof path, HUB "/blobs/%s", blob);
    store_write_model(path, "{}", value);
    snprintf(path, sizeof path, "%s/model.safetensors", snapshot);
    snprintf(target, sizeof target, "../../blobs/%s", blob);
    link_to(path, target);
}

TEST(snapshots)
{
    make_folders();
    make_snapshot(OLDER, "5ca1ab1e", 1);
    struct model_store *store = store_open(NULL, 0);
    store_expect_served(store, HUB, 1); /* the only one */

    make_snapshot(NEWER, "0ddba11", 2);
    model_store_rescan(store, NULL);
    store_expect_served(store, HUB, 1); /* it is not said which, so the old one stays */

    store_write_text(HUB "/refs/main", "89abcdef");
    model_store_rescan(store, NULL);
    store_expect_served(store, HUB, 2);
    store_write_text(HUB "/refs/main", "0123abcd\n");
    model_store_rescan(store, NULL);
    store_expect_served(store, HUB, 1);
    model_store_free(store);

    store_write_text(HUB "/refs/main", "../../../etc");
    store = store_open(NULL, 1);
    store_expect_refused(store, HUB, FAULT_LOADING, "the directory holds no model.safetensors");
    model_store_free(store);
}

/* The models' directory is the folder of one model. */
TEST(one_model)
{
    const struct model_store_options options = { store_path(HUB), NULL };
    char directory[512];
    struct model_store_options copy = options;
    struct model_store *store;
    struct fault fault;
    int failed;
    snprintf(directory, sizeof directory, "%s", options.directory);
    copy.directory = directory;
    make_folders();
    make_snapshot(OLDER, "5ca1ab1e", 3);
    assert_true(model_store_create(&store, &copy, &failed, &fault));
    assert_int_equal(failed, 0);
    store_expect_served(store, HUB, 3);
    store_expect_served(store, NULL, 3);
    model_store_free(store);

    /* The snapshots folder alone cannot be the directory: the blobs are outside it. */
    snprintf(directory, sizeof directory, "%s", store_path(HUB "/snapshots"));
    assert_true(model_store_create(&store, &copy, &failed, &fault));
    assert_int_equal(failed, 1);
    store_expect_refused(store, "0123abcd", FAULT_LOADING, "leads out of the models' directory");
    model_store_free(store);
}

#define SHARD "model-00002-of-00002.safetensors"

/* A shard may be a link, as long as it stays in the models' directory. */
TEST(shards)
{
    static const char CONFIG[] =
        "{\"model_type\":\"opt\",\"hidden_size\":8,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":2,\"enable_bias\":false}";
    char from[512], outside[600];
    make_folders();
    published_open(CONFIG,
                   "decoder.layers.#.self_attn.q_proj.weight 8x8, "
                   "decoder.layers.#.self_attn.k_proj.weight 8x8, "
                   "decoder.layers.#.self_attn.v_proj.weight 8x8, "
                   "decoder.layers.#.self_attn.out_proj.weight 8x8",
                   2, "F32");
    published_save_shards(store_path(OLDER), CONFIG);
    const float value =
        (float)published_tensor("decoder.layers.#.self_attn.q_proj.weight", 0).data[0];
    snprintf(from, sizeof from, "%s", store_path(OLDER "/" SHARD));
    assert_int_equal(rename(from, store_path(HUB "/blobs/b10b")), 0);
    link_to(OLDER "/" SHARD, "../../blobs/b10b");
    struct model_store *store = store_open(NULL, 0);
    store_expect_served(store, HUB, value);
    model_store_free(store);

    snprintf(outside, sizeof outside, "%s-outside", store_directory);
    snprintf(from, sizeof from, "%s", store_path(HUB "/blobs/b10b"));
    assert_int_equal(rename(from, outside), 0);
    link_to(HUB "/blobs/b10b", outside);
    store = store_open(NULL, 1);
    store_expect_refused(store, HUB, FAULT_LOADING,
                         "this is a symbolic link that leads out of the directory");
    model_store_free(store);
    unlink(outside);
    published_close();
}

/* params.json and consolidated.safetensors alone, and beside the files that are read first. */
TEST(params)
{
    static const char PARAMS[] = JSON({"dim":8,"n_layers":1,"n_heads":2,"vocab_size":32000});
    char from[512];
    struct model *model;
    struct fault fault;
    published_open(PARAMS,
                   "layers.#.attention.wq.weight 8x8, layers.#.attention.wk.weight 8x8, "
                   "layers.#.attention.wv.weight 8x8, layers.#.attention.wo.weight 8x8",
                   1, "F32");
    published_save(store_path("m"), PARAMS);
    published_close();
    static const char *const RENAMED[][2] = { { "m/config.json", "m/params.json" },
                                              { "m/model.safetensors",
                                                "m/consolidated.safetensors" } };
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s", store_path(RENAMED[i][0]));
        assert_int_equal(rename(from, store_path(RENAMED[i][1])), 0);
    }
    struct model_store *store = store_open(NULL, 0);
    assert_true(model_store_resolve(store, NULL, "m", &model, &fault));
    assert_true(model->layers[0].layer.rope.interleaved);
    model_release(model);
    store_write_model("m/model.safetensors", "{}", 7);
    model_store_rescan(store, NULL);
    store_expect_served(store, "m", 7);
    model_store_free(store);
}

TEST(gguf)
{
    struct fault fault;
    bool created;
    store_write_text("tiny.Q4_0.gguf", "GGUF");
    store_write_text("both.gguf", "GGUF");
    store_write_text("notes.bin", "nobody's");
    store_write_model("both.safetensors", "{}", 4);
    struct model_store *store = store_open(NULL, 1);
    store_expect_served(store, "both", 4);
    store_expect_refused(store, "tiny.Q4_0", FAULT_LOADING, "the file is cut");
    assert_false(model_store_load(store, "tiny.Q4_0", NULL, &fault));
    assert_non_null(strstr(fault.message, "the file is cut"));
    assert_false(model_store_load(store, "notes", NULL, &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    assert_true(store_put(store, "tiny.Q4_0", 5, &created, &fault));
    store_expect_served(store, "tiny.Q4_0", 5);
    model_store_rescan(store, NULL);
    store_expect_served(store, "tiny.Q4_0", 5);
    assert_true(model_store_delete(store, "tiny.Q4_0", &fault));
    model_store_rescan(store, NULL);
    store_expect_refused(store, "tiny.Q4_0", FAULT_LOADING, "the file is cut");
    assert_true(model_store_delete(store, "tiny.Q4_0", &fault));
    assert_int_not_equal(access(store_path("tiny.Q4_0.gguf"), F_OK), 0);
    model_store_free(store);
}

EACH_TEST(store_directory_make, store_directory_remove);

int main(void)
{
    log_configure(LOG_ERROR, LOG_TEXT);
    return test_run(NULL);
}
