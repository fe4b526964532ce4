/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_store.c - which models a directory holds, and which of them are served. */
#include "made_model.h"
#include "store_directory.h"
#include "telemetry/log.h"
#include "test.h"

#include <cjson/cJSON.h>
#include <unistd.h>

TEST_WITH(built_in_only, NULL, NULL)
{
    const struct model_store_options options = { NULL, NULL };
    struct model_store *store;
    struct model *model;
    struct fault fault;
    int failed_count;
    bool created;
    assert_true(model_store_create(&store, &options, &failed_count, &fault));
    assert_int_equal(failed_count, 0);
    assert_true(model_store_resolve(store, NULL, "demo", &model, &fault));
    model_release(model);
    assert_true(model_store_resolve(store, NULL, "sdpa", &model, &fault));
    model_release(model);
    store_expect_refused(store, NULL, FAULT_FIELD, "only built-in ones: demo, sdpa");
    store_expect_refused(store, "", FAULT_NOT_FOUND, "there are demo, sdpa");
    store_expect_refused(store, "Demo", FAULT_NOT_FOUND,
                         "Request for unknown model: 'Demo' is not found; there are demo, sdpa");
    assert_false(store_put(store, "mine", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_non_null(strstr(fault.message, "--models"));
    assert_false(model_store_delete(store, "demo", &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    model_store_free(store);
    model_store_free(NULL);
}

TEST(forms)
{
    store_write_model("file.safetensors", "{}", 1);
    store_write_model("a.b-c_d.safetensors", "{}", 2);
    store_make_folder("folder");
    store_write_model("folder/model.safetensors", JSON({"scale":5}), 3);
    store_write_text("folder/config.json", JSON({"attention":"dot","causal":true}));
    store_make_folder("metadata");
    store_write_model("metadata/model.safetensors", "{}", 4);
    store_make_folder("versions");
    store_make_folder("versions/2");
    store_write_model("versions/2/model.safetensors", "{}", 5);
    store_make_folder("versions/10");
    store_write_model("versions/10/model.safetensors", "{}", 6);
    store_make_folder("versions/99x");
    store_write_model(".hidden.safetensors", "{}", 7);
    store_write_text("README.md", "models");
    store_make_folder(".folder");
    struct model_store *store = store_open(NULL, 0);
    store_expect_served(store, "file", 1);
    store_expect_served(store, "a.b-c_d", 2);
    store_expect_served(store, "folder", 3);
    store_expect_served(store, "metadata", 4);
    store_expect_served(store, "versions", 6);
    store_expect_refused(store, "README", FAULT_NOT_FOUND, "'README'");
    store_expect_refused(store, ".hidden", FAULT_NOT_FOUND, "'.hidden'");
    store_expect_refused(store, NULL, FAULT_FIELD,
                         "there are a.b-c_d, demo, file, folder, metadata, sdpa, versions");
    struct model *model;
    struct fault fault;
    assert_true(model_store_resolve(store, NULL, "folder", &model, &fault));
    assert_true(model->layers[0].options.causal && model->layers[0].options.scale == 1.0f);
    assert_string_equal(model->source, "folder");
    model_release(model);
    model_store_free(store);
}

/* A model is served under the name of its folder or file. One whose name no model can have counts
 * as failed; folders that hold no model are passed over. */
TEST(names)
{
    static const char *const GOOD[] = { "my gpt2", "bart-6+6", "gpt2 (1)", "a@b~d", "1" };
    static const char *const BAD[] = { "_a", "-a", "a=b", "\xC3\xA9", "a#b", "a%20b", "a " };
    static const char *const NO_MODELS[] = { "lost+found", "datasets--a--b", "spaces--a",
                                             "_notes" };
    char path[100];
    struct fault fault;
    bool created;
    for (int i = 0; i < 5; i++) {
        store_make_folder(GOOD[i]);
        snprintf(path, sizeof path, "%s/config.json", GOOD[i]);
        store_write_text(path, JSON({"attention":"dot"}));
        snprintf(path, sizeof path, "%s/model.safetensors", GOOD[i]);
        store_write_model(path, "{}", (float)i);
    }
    for (int i = 0; i < 7; i++) {
        snprintf(path, sizeof path, "%s.safetensors", BAD[i]);
        store_write_model(path, "{}", 1);
    }
    store_make_folder("_folder");
    store_write_model("_folder/model.safetensors", "{}", 1);
    for (int i = 0; i < 4; i++)
        store_make_folder(NO_MODELS[i]);
    store_write_text("_b.gguf", "");
    struct model_store *store = store_open(NULL, 9);
    for (int i = 0; i < 5; i++)
        store_expect_served(store, GOOD[i], (float)i);
    assert_non_null(strstr(model_store_failed_names(store), "_a, _b, _folder, "));
    for (int i = 0; i < 7; i++)
        store_expect_refused(store, BAD[i], FAULT_NOT_FOUND, "is not found");
    assert_true(store_put(store, "x (2)", 7, &created, &fault));
    assert_true(model_store_rescan(store, NULL));
    store_expect_served(store, "my gpt2", 0);
    store_expect_served(store, "x (2)", 7);
    model_store_free(store);
}

TEST(only_one)
{
    store_write_model("mine.safetensors", "{}", 1);
    struct model_store *store = store_open(NULL, 0);
    store_expect_served(store, NULL, 1);
    model_store_free(store);
}

/* The directory is itself a model, as KServe mounts one. */
TEST(directory_is_model)
{
    const struct model_store_options built_in_name = { store_directory, "demo" };
    const struct model_store_options bad_name = { store_directory, "a/b" };
    struct model_store *store;
    struct fault fault;
    int failed_count;
    bool created;
    store_write_model("model.safetensors", "{}", 8);
    store_write_text("config.json", JSON({"attention":"dot"}));
    store = store_open(NULL, 0);
    store_expect_served(store, NULL, 8);
    store_expect_served(store, strrchr(store_directory, '/') + 1, 8);
    assert_false(store_put(store, "other", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_false(model_store_delete(store, strrchr(store_directory, '/') + 1, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    model_store_free(store);
    store = store_open("named", 0);
    store_expect_served(store, "named", 8);
    model_store_free(store);
    assert_false(model_store_create(&store, &built_in_name, &failed_count, &fault));
    assert_int_equal(fault.code, FAULT_OPTION);
    assert_false(model_store_create(&store, &bad_name, &failed_count, &fault));
    assert_int_equal(fault.code, FAULT_OPTION);
}

TEST(unavailable)
{
    struct text text;
    struct fault fault;
    store_write_text("broken.safetensors", "not a file of this kind");
    store_write_text("empty.safetensors", "");
    store_make_folder("checkpoint");
    store_write_model("checkpoint/model.safetensors", "{}", 1);
    store_write_text("checkpoint/config.json", JSON({"model_type":"llama","hidden_size":64}));
    store_make_folder("shards");
    store_write_text("shards/config.json", JSON({"attention":"dot"}));
    store_write_text("shards/model.safetensors.index.json", "{}");
    store_make_folder("nothing");
    store_write_model("good.safetensors", "{}", 9);
    struct model_store *store = store_open(NULL, 5);
    store_expect_served(store, "good", 9);
    store_expect_refused(
        store, "broken", FAULT_LOADING,
        "'broken' is not available: this is text, perhaps the answer to a download");
    store_expect_refused(store, "empty", FAULT_LOADING, "is empty");
    store_expect_refused(store, "checkpoint", FAULT_LOADING,
                         "model_type 'llama' has other tensors");
    store_expect_refused(store, "shards", FAULT_LOADING, "has no weight_map");
    store_expect_refused(store, "nothing", FAULT_LOADING, "no model.safetensors");
    text_init(&text, 100000);
    assert_true(model_store_describe(store, NULL, "broken", &text, &fault));
    cJSON *description = cJSON_ParseWithLength(text.data, text.used);
    assert_non_null(description);
    assert_string_equal(cJSON_GetObjectItem(description, "state")->valuestring, "UNAVAILABLE");
    assert_non_null(strstr(cJSON_GetObjectItem(description, "reason")->valuestring, "text"));
    cJSON_Delete(description);
    text_free(&text);
    model_store_free(store);
}

/* What may stand in the place of a file of a model, in a folder of its own. */
static const struct {
    const char *name, *file, *text, *says;
} WRONG_FILES[] = {
    { "pointer", "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:4",
      "this is a pointer of git-lfs; expected a safetensors file: fetch the file that it "
      "stands "
      "for: git lfs pull" },
    { "page", "model.safetensors", "\n <!DOCTYPE html><html><head>",
      "this is an HTML page; expected a safetensors file: download the file, not the page" },
    { "pickle", "model.safetensors",
      "\x80\2\x8a\nl\xfc\x9c"
      "F\xf9 j",
      "this is a pickle of PyTorch; expected a safetensors file: save the model as "
      "safetensors" },
    { "said", "model.safetensors", "Entry not found",
      "this is text, perhaps the answer to a download that failed" },
    { "lone", "model-00002-of-00003.safetensors", "x",
      "the directory holds 'model-00002-of-00003.safetensors', a shard, and not the index that "
      "names all shards, model.safetensors.index.json: download that too" },
    { "named", "weights.safetensors", "x", "'weights.safetensors' is the whole model, rename" },
    { "config", "config.json", "<html>", "the directory holds no model.safetensors" },
    { "marked", "model.safetensors", "\xEF\xBB\xBF<!doctype HTML><html>", "this is an HTML page" },
    { "packed", "model.safetensors",
      "\x1f\x8b\x08\x08"
      "abcdefghijkl",
      "this is a file packed by gzip; expected a safetensors file: unpack it: gunzip" },
    { "adapter", "adapter_model.safetensors", "x",
      "the directory holds 'adapter_model.safetensors', an adapter of PEFT, and not its "
      "model: merge both" },
    { "index", "model.safetensors.index.json", "version https://git-lfs.github.com/spec/v1\n",
      "model.safetensors.index.json is a pointer of git-lfs: fetch the file" },
    { "shards", "model.safetensors.index.json",
      "{\"weight_map\":", "model.safetensors.index.json: malformed JSON: expected a value" },
};
enum { WRONG_COUNT = sizeof WRONG_FILES / sizeof WRONG_FILES[0] };

/* It is said, and what to do about it. */
TEST(wrong_files)
{
    char path[100];
    for (int i = 0; i < WRONG_COUNT; i++) {
        store_make_folder(WRONG_FILES[i].name);
        snprintf(path, sizeof path, "%s/config.json", WRONG_FILES[i].name);
        store_write_text(path, JSON({"attention":"dot"}));
        snprintf(path, sizeof path, "%s/%s", WRONG_FILES[i].name, WRONG_FILES[i].file);
        store_write_text(path, WRONG_FILES[i].text);
    }
    size_t size;
    void *bytes = made_model("{}", "q_proj.weight 2x2", 1, &size);
    store_make_folder("both");
    store_write_text("both/config.json", " <HTML>");
    store_write_model("both/model.safetensors", "{}", 1);
    store_make_folder("without");
    const char *attnd = memmem(bytes, size, "attnd", 5);
    assert_non_null(attnd);
    memcpy((char *)bytes + (attnd - (char *)bytes), "other", 5);
    made_model_write(store_path("without/model.safetensors"), bytes, size);
    made_model_write(store_path("alone.safetensors"), bytes, size);
    made_model_write(store_path("model.safetensors"), bytes, size);
    free(bytes);
    store_make_folder("publisher");
    store_make_folder("publisher/name");
    store_write_model("publisher/name/model.safetensors", "{}", 1);
    struct model_store *store = store_open(NULL, 17);
    for (int i = 0; i < WRONG_COUNT; i++)
        store_expect_refused(store, WRONG_FILES[i].name, FAULT_LOADING, WRONG_FILES[i].says);
    store_expect_refused(store, "both", FAULT_LOADING, "config.json is an HTML page: download");
    store_expect_refused(store, "without", FAULT_LOADING,
                         "config.json is missing beside the model's file");
    store_expect_refused(store, "alone", FAULT_LOADING,
                         "the file has no config: there is no \"attnd\" in its __metadata__");
    /* The directory may be the model itself. */
    store_expect_refused(store, "model", FAULT_LOADING,
                         "config.json is missing beside the model's file");
    store_expect_refused(store, "publisher", FAULT_LOADING,
                         "its folder 'name' does: move that one up, or give");
    model_store_free(store);
}

/* A config.json that is no JSON, and one that says of no family that it is its own. */
TEST(wrong_config)
{
    static const char *const CASES[][3] = {
        { "cut", "{\"model_type\":", "config.json: malformed JSON: expected a value" },
        { "huge", "{\"model_type\":\"llama\",\"rope_theta\":1e999}", "config.json: " },
        { "silent", "{\"hidden_size\":64}",
          "config has no field 'hidden_size'; where this is a published checkpoint: its "
          "config.json has neither model_type nor architectures" },
        { "typo", "{\"attention\":\"dot\",\"q_heeds\":1}", "q_heeds" },
    };
    for (int i = 0; i < 4; i++) {
        char path[100];
        store_make_folder(CASES[i][0]);
        snprintf(path, sizeof path, "%s/config.json", CASES[i][0]);
        store_write_text(path, CASES[i][1]);
        snprintf(path, sizeof path, "%s/model.safetensors", CASES[i][0]);
        store_write_model(path, "{}", 1);
    }
    struct model_store *store = store_open(NULL, 4);
    for (int i = 0; i < 4; i++)
        store_expect_refused(store, CASES[i][0], FAULT_LOADING, CASES[i][2]);
    model_store_free(store);
}

static void make_link(const char *folder, const char *name)
{
    char path[100];
    store_make_folder(folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink("../blobs/0123", store_path(path)), 0);
}

/* A copy of the hub's cache has links to blobs that were not copied. */
TEST(broken_links)
{
    make_link("model", "model.safetensors");
    make_link("index", "model.safetensors.index.json");
    make_link("own", "consolidated.safetensors");
    make_link("config", "config.json");
    store_write_model("config/model.safetensors", "{}", 1);
    make_link("tokenizer", "tokenizer.json");
    store_write_model("tokenizer/model.safetensors", "{}", 1);
    store_write_text("tokenizer/config.json", JSON({"attention":"dot"}));
    struct model_store *store = store_open(NULL, 4);
    store_expect_refused(store, "model", FAULT_LOADING,
                         "'model.safetensors' is a link that leads nowhere: put the file there");
    store_expect_refused(store, "index", FAULT_LOADING,
                         "'model.safetensors.index.json' is a link that leads nowhere");
    store_expect_refused(store, "own", FAULT_LOADING,
                         "'consolidated.safetensors' is a link that leads nowhere");
    store_expect_refused(store, "config", FAULT_LOADING,
                         "'config.json' is a link that leads nowhere");
    struct model *model;
    struct fault fault;
    assert_true(model_store_resolve(store, NULL, "tokenizer", &model, &fault));
    assert_null(model->tokenizer);
    assert_non_null(model->tokenizer_reason);
    assert_non_null(
        strstr(model->tokenizer_reason, "tokenizer.json: is a link that leads nowhere"));
    model_release(model);
    model_store_free(store);
}

TEST(name_twice)
{
    struct fault fault;
    bool created;
    store_write_model("twice.safetensors", "{}", 1);
    store_make_folder("twice");
    store_write_model("twice/model.safetensors", "{}", 2);
    store_write_model("demo.safetensors", "{}", 3);
    struct model_store *store = store_open(NULL, 2);
    store_expect_served(store, "twice", 2);
    store_expect_served(store, "demo", 2); /* the built-in one */
    assert_false(store_put(store, "twice", 4, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_false(model_store_delete(store, "twice", &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_int_equal(access(store_path("twice/model.safetensors"), F_OK), 0);
    model_store_free(store);
}

TEST_WITH(no_directory, NULL, NULL)
{
    const struct model_store_options options = { "/no/such/directory", NULL };
    struct model_store *store;
    struct fault fault;
    int failed_count;
    assert_false(model_store_create(&store, &options, &failed_count, &fault));
    assert_non_null(strstr(fault.message, "/no/such/directory"));
}

static void count_visit(void *context, const struct model_listing *listing)
{
    char *names = context;
    strcat(names, listing->name);
    strcat(names, listing->model ? " " : "! ");
    assert_true((listing->model == NULL) == (listing->reason != NULL));
    assert_string_equal(listing->state, listing->model ? "READY" : "UNAVAILABLE");
}

TEST(listed)
{
    char names[200] = "";
    struct text text;
    struct fault fault;
    store_write_model("zeta.safetensors", "{}", 1);
    store_write_text("alpha.safetensors", "x");
    struct model_store *store = store_open(NULL, 1);
    model_store_each(store, NULL, count_visit, names);
    assert_string_equal(names, "alpha! demo sdpa zeta ");
    text_init(&text, 100000);
    model_store_describe_all(store, NULL, &text);
    assert_true(text_finish(&text, &fault));
    cJSON *all = cJSON_ParseWithLength(text.data, text.used);
    const cJSON *models = cJSON_GetObjectItem(all, "models");
    assert_int_equal(cJSON_GetArraySize(models), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(models, i)), 23);
    cJSON_Delete(all);
    text_free(&text);
    text_init(&text, 1000);
    assert_false(model_store_describe(store, NULL, "nobody", &text, &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    text_free(&text);
    model_store_free(store);
}

EACH_TEST(store_directory_make, store_directory_remove);

int main(void)
{
    log_configure(LOG_ERROR, LOG_TEXT);
    return test_run(NULL);
}
