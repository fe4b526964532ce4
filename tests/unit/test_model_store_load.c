/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_store_load.c - loading a model again from a directory, and taking one out of service.
 */
#include "store_directory.h"
#include "telemetry/log.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static void expect_not_loaded(struct model_store *store, const char *name, const char *config,
                              enum fault_code code, const char *words)
{
    struct fault fault;
    assert_false(model_store_load(store, name, config, &fault));
    if (!strstr(fault.message, words))
        fail_msg("no '%s' in: %s", words, fault.message);
    assert_int_equal(fault.code, code);
}

static void expect_loaded(struct model_store *store, const char *name, const char *config,
                          float value)
{
    struct fault fault = { .code = FAULT_NONE };
    if (!model_store_load(store, name, config, &fault))
        fail_msg("%s", fault.message);
    store_expect_served(store, name, value);
}

struct wanted {
    const char *name, *state;
    bool found;
};

static void look(void *context, const struct model_listing *listing)
{
    struct wanted *wanted = context;
    if (strcmp(listing->name, wanted->name) != 0)
        return;
    wanted->found = true;
    assert_string_equal(listing->state, wanted->state);
}

static void expect_state(struct model_store *store, const char *name, const char *state)
{
    struct wanted wanted = { name, state, false };
    model_store_each(store, NULL, look, &wanted);
    assert_true(wanted.found);
}

/* A file that came or changed after the start. */
TEST(load_of_a_file)
{
    struct model_store *store = store_open(NULL, 0);
    expect_not_loaded(store, "late", NULL, FAULT_NOT_FOUND,
                      "neither 'late' nor 'late.safetensors' or 'late.gguf'");
    store_write_model("late.safetensors", "{}", 1);
    expect_loaded(store, "late", NULL, 1);
    unlink(store_path("late.safetensors"));
    store_write_model("late.safetensors", "{}", 2);
    store_expect_served(store, "late", 1);
    expect_loaded(store, "late", NULL, 2);
    expect_state(store, "late", "READY");
    model_store_free(store);
}

/* The old model goes on serving if the new file is bad or gone. */
TEST(a_failed_load)
{
    store_write_model("kept.safetensors", "{}", 3);
    struct model_store *store = store_open(NULL, 0);
    unlink(store_path("kept.safetensors"));
    expect_not_loaded(store, "kept", NULL, FAULT_NOT_FOUND, "'kept.safetensors'");
    store_expect_served(store, "kept", 3);
    store_write_text("kept.safetensors", "not one");
    expect_not_loaded(store, "kept", NULL, FAULT_BINARY, "model 'kept' was not loaded: ");
    store_expect_served(store, "kept", 3);
    expect_state(store, "kept", "READY");

    /* A model that was never good is listed with its reason. It is served as soon as its file is
     * good. */
    store_write_text("new.safetensors", "not one");
    expect_not_loaded(store, "new", NULL, FAULT_BINARY, "model 'new' was not loaded: ");
    expect_state(store, "new", "UNAVAILABLE");
    store_expect_refused(store, "new", FAULT_LOADING, "not available: a safetensors file");
    unlink(store_path("new.safetensors"));
    store_write_model("new.safetensors", "{}", 4);
    expect_loaded(store, "new", NULL, 4);

    store_make_folder("empty");
    expect_not_loaded(store, "empty", NULL, FAULT_BINARY, "no model.safetensors");
    expect_state(store, "empty", "UNAVAILABLE");
    model_store_free(store);
}

/* A folder as it was downloaded, with files that the daemon does not read. */
TEST(other_forms)
{
    store_make_folder("other");
    store_write_text("other/config.json", JSON({"model_type":"llama"}));
    struct model_store *store = store_open(NULL, 1);
    expect_not_loaded(store, "other", NULL, FAULT_BINARY, "nor its index and shards");
    store_write_text("other/model.onnx", "?");
    expect_not_loaded(store, "other", NULL, FAULT_BINARY, "its 'model.onnx' is an ONNX graph");
    store_write_text("other/optimizer.pt", "?");
    store_write_text("other/pytorch_model.bin", "?");
    expect_not_loaded(store, "other", NULL, FAULT_BINARY,
                      "its 'pytorch_model.bin' is a pickle of PyTorch, which is not read: save the "
                      "model as safetensors");
    store_write_text("other/.hidden.gguf", "?");
    expect_not_loaded(store, "other", NULL, FAULT_BINARY, "its 'pytorch_model.bin'");
    store_write_text("other/mmproj-tiny.gguf", "?");
    expect_not_loaded(store, "other", NULL, FAULT_BINARY, "its 'pytorch_model.bin'");
    store_write_text("other/tiny.Q8_0.gguf", "?");
    expect_not_loaded(store, "other", NULL, FAULT_BINARY, "the file does not begin with GGUF");
    store_write_text("other/tiny.Q4_K_M.gguf", "?");
    expect_not_loaded(store, "other", NULL, FAULT_BINARY,
                      "the directory holds several GGUF files, 'tiny.Q4_K_M.gguf' and "
                      "'tiny.Q8_0.gguf'");
    expect_state(store, "other", "UNAVAILABLE");
    store_expect_refused(store, "other", FAULT_LOADING, "tiny.Q4_K_M.gguf");

    /* If there are safetensors beside them, those files are ignored. */
    unlink(store_path("other/config.json"));
    store_write_model("other/model.safetensors", "{}", 3);
    expect_loaded(store, "other", NULL, 3);

    /* A file of another format under the name of a safetensors file. */
    store_write_text("renamed.safetensors", "GGUF\xFF...and so on");
    expect_not_loaded(store, "renamed", NULL, FAULT_BINARY, "version");
    store_write_text("zipped.safetensors", "PK\3\4....and so on");
    expect_not_loaded(store, "zipped", NULL, FAULT_BINARY, "this is a zip archive, as PyTorch");
    model_store_free(store);
}

TEST(load_of_a_folder)
{
    store_make_folder("folder");
    store_write_model("folder/model.safetensors", "{}", 5);
    struct model_store *store = store_open(NULL, 0);
    store_expect_served(store, "folder", 5);
    unlink(store_path("folder/model.safetensors"));
    store_write_model("folder/model.safetensors", "{}", 6);
    expect_loaded(store, "folder", NULL, 6);
    /* As at the start of the daemon: the folder counts before a file of the same name. */
    store_write_model("folder.safetensors", "{}", 7);
    expect_loaded(store, "folder", NULL, 6);
    model_store_free(store);
}

TEST(load_of_the_one_model)
{
    store_write_text("config.json", "{}");
    store_write_model("model.safetensors", "{}", 8);
    struct model_store *store = store_open("only", 0);
    unlink(store_path("model.safetensors"));
    store_write_model("model.safetensors", "{}", 9);
    store_expect_served(store, "only", 8);
    expect_loaded(store, "only", NULL, 9);
    expect_not_loaded(store, "model", NULL, FAULT_NOT_FOUND, "'model'");
    model_store_free(store);
}

/* The config holds until the model is loaded without one. */
TEST(load_with_a_config)
{
    struct fault fault;
    struct model *model;
    store_write_model("m.safetensors", "{}", 1);
    struct model_store *store = store_open(NULL, 0);
    expect_loaded(store, "m", JSON({"causal":true}), 1);
    assert_true(model_store_resolve(store, NULL, "m", &model, &fault));
    assert_true(model->layers[0].options.causal);
    model_release(model);
    expect_not_loaded(store, "m", JSON({"causal":1}), FAULT_TYPE, "causal");
    expect_not_loaded(store, "m", "{", FAULT_JSON, "model 'm' was not loaded: ");
    expect_loaded(store, "m", NULL, 1);
    assert_true(model_store_resolve(store, NULL, "m", &model, &fault));
    assert_false(model->layers[0].options.causal);
    model_release(model);
    model_store_free(store);
}

TEST(unload)
{
    struct fault fault;
    struct model *model;
    store_write_model("m.safetensors", "{}", 2);
    struct model_store *store = store_open(NULL, 0);
    assert_true(model_store_resolve(store, NULL, "m", &model, &fault));
    assert_true(model_store_unload(store, "m", &fault));
    assert_true(store_value_of(model) == 2.0f); /* a request in flight */
    model_release(model);
    store_expect_refused(store, "m", FAULT_LOADING, "unloaded");
    expect_state(store, "m", "UNAVAILABLE");
    assert_int_equal(store_count_files(), 1);
    assert_true(model_store_unload(store, "m", &fault));
    expect_loaded(store, "m", NULL, 2);
    assert_false(model_store_unload(store, "nobody", &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    assert_true(model_store_unload(store, "m", &fault));
    assert_true(model_store_delete(store, "m", &fault));
    assert_int_equal(store_count_files(), 0);
    model_store_free(store);
}

TEST(built_in_ones_stay)
{
    struct fault fault;
    struct model_store *store = store_open(NULL, 0);
    const struct model_store_options none = { .directory = NULL };
    struct model_store *without;
    int failed_count;
    assert_true(model_store_create(&without, &none, &failed_count, &fault));
    static const char *const BUILT_IN[] = { "demo", "sdpa" };
    for (int i = 0; i < 2; i++) {
        expect_not_loaded(store, BUILT_IN[i], NULL, FAULT_CONFLICT, "built in");
        expect_not_loaded(without, BUILT_IN[i], NULL, FAULT_CONFLICT, "built in");
        assert_false(model_store_unload(store, BUILT_IN[i], &fault));
        assert_int_equal(fault.code, FAULT_CONFLICT);
        expect_state(store, BUILT_IN[i], "READY");
    }
    expect_not_loaded(without, "m", NULL, FAULT_NOT_FOUND, "'m'");
    static const char *const BAD_NAMES[] = { "", ".", "..", "../x", "a/b", ".a", "a " };
    for (size_t i = 0; i < sizeof BAD_NAMES / sizeof BAD_NAMES[0]; i++)
        expect_not_loaded(store, BAD_NAMES[i], NULL, FAULT_NOT_FOUND, "Request for unknown model");
    model_store_free(without);
    model_store_free(store);
}

/* ------------------------------------------------------------ many at once -- */

enum { THREADS = 5, ROUNDS = 40 };

static struct model_store *shared;
static _Atomic int served_count;

/* A model in a listing has one of three states, and has either a model or a reason. */
static void look_at_all(void *context, const struct model_listing *listing)
{
    _Atomic int *wrong_count = context;
    const bool ready = strcmp(listing->state, "READY") == 0;
    const bool known = ready || strcmp(listing->state, "LOADING") == 0
                       || strcmp(listing->state, "UNAVAILABLE") == 0;
    if (!known || ready != (listing->model != NULL) || ready != (listing->reason == NULL))
        atomic_fetch_add(wrong_count, 1);
}

static _Atomic int wrong_count;

/* Several threads load, unload and put one name. It is always whole: it serves a value that was
 * written, or says that it is unavailable. */
static void *change(void *context)
{
    const int thread = *(const int *)context;
    struct fault fault;
    for (int i = 0; i < ROUNDS; i++) {
        struct model *model;
        bool created;
        if (thread == 0)
            model_store_load(shared, "m", NULL, &fault);
        else if (thread == 1)
            model_store_unload(shared, "m", &fault);
        else if (thread == 2)
            store_put(shared, "m", (float)(1 + i % 3), &created, &fault);
        else if (thread == 3)
            model_store_each(shared, NULL, look_at_all, &wrong_count);
        else if (model_store_resolve(shared, NULL, "m", &model, &fault)) {
            const float value = store_value_of(model);
            atomic_fetch_add(&served_count, value == 1 || value == 2 || value == 3 ? 1 : -ROUNDS);
            model_release(model);
        } else if (fault.code != FAULT_LOADING)
            atomic_fetch_add(&served_count, -ROUNDS);
    }
    return NULL;
}

TEST(many_change_one)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    store_write_model("m.safetensors", "{}", 1);
    shared = store_open(NULL, 0);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, change, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&served_count) >= 0);
    assert_int_equal(atomic_load(&wrong_count), 0);
    struct fault fault;
    assert_true(model_store_load(shared, "m", NULL, &fault));
    store_expect_served(shared, "m", 1 + (ROUNDS - 1) % 3);
    assert_int_equal(store_count_files(), 1);
    model_store_free(shared);
}

EACH_TEST(store_directory_make, store_directory_remove);

int main(void)
{
    log_configure(LOG_ERROR, LOG_TEXT);
    return test_run(NULL);
}
