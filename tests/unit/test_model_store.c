/* test_model_store.c - a directory of models: what is found in it, changing it, and a crash in
 * the middle of that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fill.h"
#include "log.h"
#include "made_model.h"
#include "model_guard.h"
#include "model_store.h"

#include <cjson/cJSON.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_BYTES 256

static char directory[PATH_BYTES];

/* ---------------------------------------------------------------- helpers -- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/attnd-store-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *in_directory(const char *name)
{
    static char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    made_model_write(in_directory(name), text, strlen(text));
}

static void write_model(const char *name, const char *config, float value)
{
    size_t size;
    void *bytes = made_model(config, "q_proj.weight 2x2", value, &size);
    made_model_write(in_directory(name), bytes, size);
    free(bytes);
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(in_directory(name), 0700), 0);
}

static struct model_store *open_store(const char *model_name, int failed_expected)
{
    const struct model_store_options options = { directory, model_name };
    struct model_store *store = NULL;
    struct fault fault;
    int failed_count = -1;
    if (!model_store_create(&store, &options, &failed_count, &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(failed_count, failed_expected);
    return store;
}

static float value_of(const struct model *model)
{
    return model->layers[0].layer.q_proj.weight[0];
}

/* The model's first parameter; NAN where it does not resolve. */
static void expect_served(struct model_store *store, const char *name, float value)
{
    struct model *model;
    struct fault fault;
    if (!model_store_resolve(store, name, &model, &fault))
        fail_msg("%s: %s", name ? name : "(none)", fault.message);
    if (value_of(model) != value)
        fail_msg("%s is %g, not %g", model->name, (double)value_of(model), (double)value);
    model_release(model);
}

static void expect_fault(struct model_store *store, const char *name, enum fault_code code,
                         const char *words)
{
    struct model *model;
    struct fault fault = { .code = FAULT_NONE };
    assert_false(model_store_resolve(store, name, &model, &fault));
    if (fault.code != code || !strstr(fault.message, words))
        fail_msg("%s: %s: %s", name ? name : "(none)", fault_code_name(fault.code), fault.message);
}

static bool put(struct model_store *store, const char *name, float value, bool *created,
                struct fault *fault)
{
    size_t size;
    struct model *model = NULL;
    void *bytes = made_model("{}", "q_proj.weight 2x2", value, &size);
    const bool good = model_store_put(store, name, bytes, size, created, &model, fault);
    if (good)
        assert_true(value_of(model) == value);
    model_release(model);
    free(bytes);
    return good;
}

static int count_files(void)
{
    DIR *stream = opendir(directory);
    int count = 0;
    assert_non_null(stream);
    while (readdir(stream))
        count++;
    closedir(stream);
    return count - 2; /* "." and ".." */
}

/* --------------------------------------------------------------- what is found -- */

static void test_built_in_only(void **state)
{
    const struct model_store_options options = { NULL, NULL };
    struct model_store *store;
    struct model *model;
    struct fault fault;
    int failed_count;
    bool created;
    (void)state;
    assert_true(model_store_create(&store, &options, &failed_count, &fault));
    assert_int_equal(failed_count, 0);
    assert_true(model_store_resolve(store, "demo", &model, &fault));
    model_release(model);
    assert_true(model_store_resolve(store, "sdpa", &model, &fault));
    model_release(model);
    expect_fault(store, NULL, FAULT_FIELD, "only built-in ones: demo, sdpa");
    expect_fault(store, "", FAULT_NOT_FOUND, "there are demo, sdpa");
    expect_fault(store, "Demo", FAULT_NOT_FOUND, "no model is called 'Demo'; there are demo, sdpa");
    assert_false(put(store, "mine", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_non_null(strstr(fault.message, "--models"));
    assert_false(model_store_delete(store, "demo", &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    model_store_free(store);
    model_store_free(NULL);
}

static void test_forms(void **state)
{
    (void)state;
    write_model("file.safetensors", "{}", 1);
    write_model("a.b-c_d.safetensors", "{}", 2);
    make_folder("folder");
    write_model("folder/model.safetensors", "{\"scale\":5}", 3);
    write_text("folder/config.json", "{\"attention\":\"dot\",\"causal\":true}");
    make_folder("metadata");
    write_model("metadata/model.safetensors", "{}", 4);
    make_folder("versions");
    make_folder("versions/2");
    write_model("versions/2/model.safetensors", "{}", 5);
    make_folder("versions/10");
    write_model("versions/10/model.safetensors", "{}", 6);
    make_folder("versions/99x");
    write_model(".hidden.safetensors", "{}", 7);
    write_text("_a.safetensors", "");
    write_text("README.md", "models");
    write_text("a b.safetensors", "");
    make_folder(".folder");
    struct model_store *store = open_store(NULL, 0);
    expect_served(store, "file", 1);
    expect_served(store, "a.b-c_d", 2);
    expect_served(store, "folder", 3);
    expect_served(store, "metadata", 4);
    expect_served(store, "versions", 6);
    expect_fault(store, "README", FAULT_NOT_FOUND, "'README'");
    expect_fault(store, ".hidden", FAULT_NOT_FOUND, "'.hidden'");
    expect_fault(store, NULL, FAULT_FIELD,
                 "it has to be one of a.b-c_d, file, folder, metadata, versions");
    struct model *model;
    struct fault fault;
    assert_true(model_store_resolve(store, "folder", &model, &fault));
    assert_true(model->layers[0].options.causal && model->layers[0].options.scale == 1.0f);
    assert_string_equal(model->source, in_directory("folder"));
    model_release(model);
    model_store_free(store);
}

static void test_only_one(void **state)
{
    (void)state;
    write_model("mine.safetensors", "{}", 1);
    struct model_store *store = open_store(NULL, 0);
    expect_served(store, NULL, 1);
    model_store_free(store);
}

/* The directory is itself a model, as KServe mounts one. */
static void test_directory_is_model(void **state)
{
    const struct model_store_options built_in_name = { directory, "demo" };
    const struct model_store_options bad_name = { directory, "a/b" };
    struct model_store *store;
    struct fault fault;
    int failed_count;
    bool created;
    (void)state;
    write_model("model.safetensors", "{}", 8);
    write_text("config.json", "{\"attention\":\"dot\"}");
    store = open_store(NULL, 0);
    expect_served(store, NULL, 8);
    expect_served(store, strrchr(directory, '/') + 1, 8);
    assert_false(put(store, "other", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_false(model_store_delete(store, strrchr(directory, '/') + 1, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    model_store_free(store);
    store = open_store("named", 0);
    expect_served(store, "named", 8);
    model_store_free(store);
    assert_false(model_store_create(&store, &built_in_name, &failed_count, &fault));
    assert_int_equal(fault.code, FAULT_OPTION);
    assert_false(model_store_create(&store, &bad_name, &failed_count, &fault));
    assert_int_equal(fault.code, FAULT_OPTION);
}

static void test_unavailable(void **state)
{
    struct text text;
    struct fault fault;
    (void)state;
    write_text("broken.safetensors", "not a file of this kind");
    write_text("empty.safetensors", "");
    make_folder("checkpoint");
    write_model("checkpoint/model.safetensors", "{}", 1);
    write_text("checkpoint/config.json", "{\"model_type\":\"llama\",\"hidden_size\":64}");
    make_folder("shards");
    write_text("shards/config.json", "{\"attention\":\"dot\"}");
    write_text("shards/model.safetensors.index.json", "{}");
    make_folder("nothing");
    write_model("good.safetensors", "{}", 9);
    struct model_store *store = open_store(NULL, 5);
    expect_served(store, "good", 9);
    expect_fault(store, "broken", FAULT_LOADING, "'broken' is not available: the header's length");
    expect_fault(store, "empty", FAULT_LOADING, "is empty");
    expect_fault(store, "checkpoint", FAULT_LOADING, "published checkpoint (model_type 'llama')");
    expect_fault(store, "shards", FAULT_LOADING, "in shards");
    expect_fault(store, "nothing", FAULT_LOADING, "no model.safetensors");
    text_init(&text, 100000);
    assert_true(model_store_describe(store, "broken", &text, &fault));
    cJSON *description = cJSON_ParseWithLength(text.data, text.used);
    assert_non_null(description);
    assert_string_equal(cJSON_GetObjectItem(description, "state")->valuestring, "UNAVAILABLE");
    assert_non_null(strstr(cJSON_GetObjectItem(description, "reason")->valuestring, "header"));
    cJSON_Delete(description);
    text_free(&text);
    model_store_free(store);
}

static void test_name_twice(void **state)
{
    struct fault fault;
    bool created;
    (void)state;
    write_model("twice.safetensors", "{}", 1);
    make_folder("twice");
    write_model("twice/model.safetensors", "{}", 2);
    write_model("demo.safetensors", "{}", 3);
    struct model_store *store = open_store(NULL, 2);
    expect_served(store, "twice", 2);
    expect_served(store, "demo", 2); /* the built-in one */
    assert_false(put(store, "twice", 4, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_false(model_store_delete(store, "twice", &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_int_equal(access(in_directory("twice/model.safetensors"), F_OK), 0);
    model_store_free(store);
}

static void test_no_directory(void **state)
{
    const struct model_store_options options = { "/no/such/directory", NULL };
    struct model_store *store;
    struct fault fault;
    int failed_count;
    (void)state;
    assert_false(model_store_create(&store, &options, &failed_count, &fault));
    assert_non_null(strstr(fault.message, "/no/such/directory"));
}

static void count_visit(void *context, const char *name, const struct model *model,
                        const char *reason)
{
    char *names = context;
    strcat(names, name);
    strcat(names, model ? " " : "! ");
    assert_true((model == NULL) == (reason != NULL));
}

static void test_listed(void **state)
{
    char names[200] = "";
    struct text text;
    struct fault fault;
    (void)state;
    write_model("zeta.safetensors", "{}", 1);
    write_text("alpha.safetensors", "x");
    struct model_store *store = open_store(NULL, 1);
    model_store_each(store, count_visit, names);
    assert_string_equal(names, "alpha! demo sdpa zeta ");
    text_init(&text, 100000);
    model_store_describe_all(store, &text);
    assert_true(text_finish(&text, &fault));
    cJSON *all = cJSON_ParseWithLength(text.data, text.used);
    const cJSON *models = cJSON_GetObjectItem(all, "models");
    assert_int_equal(cJSON_GetArraySize(models), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(models, i)), 10);
    cJSON_Delete(all);
    text_free(&text);
    text_init(&text, 1000);
    assert_false(model_store_describe(store, "nobody", &text, &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    text_free(&text);
    model_store_free(store);
}

/* --------------------------------------------------------------- changing -- */

static void test_put_and_delete(void **state)
{
    struct fault fault;
    struct model *old;
    bool created = false;
    (void)state;
    struct model_store *store = open_store(NULL, 0);
    assert_true(put(store, "mine", 1, &created, &fault));
    assert_true(created);
    expect_served(store, "mine", 1);
    assert_true(model_store_resolve(store, "mine", &old, &fault));
    assert_string_equal(old->source, in_directory("mine.safetensors"));
    assert_true(put(store, "mine", 2, &created, &fault));
    assert_false(created);
    expect_served(store, NULL, 2);
    assert_true(value_of(old) == 1.0f && !model_damaged(old)); /* a request in flight */
    assert_int_equal(count_files(), 1);
    model_store_free(store);

    store = open_store(NULL, 0);
    expect_served(store, "mine", 2);
    assert_true(model_store_delete(store, "mine", &fault));
    assert_int_equal(count_files(), 0);
    expect_fault(store, "mine", FAULT_NOT_FOUND, "'mine'");
    assert_false(model_store_delete(store, "mine", &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    assert_true(put(store, "mine", 3, &created, &fault));
    assert_true(created);
    assert_int_equal(unlink(in_directory("mine.safetensors")), 0);
    assert_true(model_store_delete(store, "mine", &fault)); /* somebody was faster */
    model_store_free(store);
    assert_true(value_of(old) == 1.0f);
    model_release(old);
}

static void test_put_refused(void **state)
{
    static const char *const BAD_NAMES[] = { "",   ".",  "..",  "../x", "a/b",      ".a",
                                             "-a", "_a", "a b", "a\n",  "\xC3\xA9", "a%2f" };
    char longest[MODEL_NAME_MAX + 2];
    struct fault fault;
    struct model *model;
    bool created;
    (void)state;
    struct model_store *store = open_store(NULL, 0);
    for (size_t i = 0; i < sizeof BAD_NAMES / sizeof BAD_NAMES[0]; i++) {
        assert_false(put(store, BAD_NAMES[i], 1, &created, &fault));
        assert_int_equal(fault.code, FAULT_OPTION);
        assert_false(model_store_delete(store, BAD_NAMES[i], &fault));
        assert_int_equal(fault.code, FAULT_NOT_FOUND);
    }
    memset(longest, 'a', sizeof longest);
    longest[MODEL_NAME_MAX + 1] = '\0';
    assert_false(put(store, longest, 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_OPTION);
    longest[MODEL_NAME_MAX] = '\0';
    assert_true(put(store, longest, 1, &created, &fault));
    assert_true(model_store_delete(store, longest, &fault));
    assert_false(put(store, "demo", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_false(put(store, "sdpa", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    make_folder("later"); /* after the start */
    assert_false(put(store, "later", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);

    assert_true(put(store, "mine", 1, &created, &fault));
    assert_false(model_store_put(store, "mine", "garbage!", 8, &created, &model, &fault));
    assert_int_equal(fault.code, FAULT_BINARY);
    expect_served(store, "mine", 1);
    assert_int_equal(count_files(), 2);
    model_store_free(store);
}

/* A file that was cut short under its model is 503, and a new PUT heals it. */
static void test_damaged(void **state)
{
    struct fault fault;
    struct model *model;
    bool created;
    (void)state;
    model_guard_install();
    struct model_store *store = open_store(NULL, 0);
    assert_true(put(store, "mine", 1, &created, &fault));
    assert_true(model_store_resolve(store, "mine", &model, &fault));
    assert_int_equal(truncate(in_directory("mine.safetensors"), 0), 0);
    assert_true(value_of(model) == 0.0f && model_damaged(model));
    model_release(model);
    expect_fault(store, "mine", FAULT_LOADING, "cut short");
    assert_true(put(store, "mine", 2, &created, &fault));
    expect_served(store, "mine", 2);
    model_store_free(store);
}

static void test_left_overs(void **state)
{
    (void)state;
    write_text(".attnd-saving-1-0", "half");
    write_text(".attnd-saving-2-7", "in use");
    write_text(".other", "somebody's");
    const int used = open(in_directory(".attnd-saving-2-7"), O_RDONLY);
    assert_int_equal(flock(used, LOCK_EX), 0);
    model_store_free(open_store(NULL, 0));
    assert_int_equal(access(in_directory(".attnd-saving-1-0"), F_OK), -1);
    assert_int_equal(access(in_directory(".attnd-saving-2-7"), F_OK), 0);
    assert_int_equal(access(in_directory(".other"), F_OK), 0);
    close(used);
}

/* ------------------------------------------------------------------ crash -- */

enum { CRASH_ROUNDS = 30, CRASH_SIDE = 400 };

static _Noreturn void save_without_end(void)
{
    struct fault fault;
    struct model *model;
    size_t sizes[2];
    bool created;
    void *files[2] = { made_model("{}", "q_proj.weight 400x400", 1, &sizes[0]),
                       made_model("{}", "q_proj.weight 400x400", 2, &sizes[1]) };
    struct model_store *store = open_store(NULL, 0);
    for (int i = 0;; i ^= 1) {
        if (!model_store_put(store, "saved", files[i], sizes[i], &created, &model, &fault))
            _exit(1);
        model_release(model);
    }
}

/* kill -9 at any moment leaves the old file or the new one, whole. */
static void test_crash(void **state)
{
    struct fill fill = { 20261121 };
    struct fault fault;
    bool created;
    (void)state;
    struct model_store *store = open_store(NULL, 0);
    size_t size;
    struct model *model;
    void *bytes = made_model("{}", "q_proj.weight 400x400", 1, &size);
    assert_true(model_store_put(store, "saved", bytes, size, &created, &model, &fault));
    model_release(model);
    model_store_free(store);
    free(bytes);
    for (int round = 0; round < CRASH_ROUNDS; round++) {
        int status;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0)
            save_without_end();
        assert_true(child > 0);
        poll(NULL, 0, 20 + (int)fill_below(&fill, 40));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        store = open_store(NULL, 0);
        assert_true(model_store_resolve(store, "saved", &model, &fault));
        const float *values = model->layers[0].layer.q_proj.weight;
        assert_true(values[0] == 1.0f || values[0] == 2.0f);
        for (int i = 1; i < CRASH_SIDE * CRASH_SIDE; i++)
            if (values[i] != values[0])
                fail_msg("round %d: a file of both", round);
        model_release(model);
        model_store_free(store);
        assert_int_equal(count_files(), 1);
    }
}

/* ---------------------------------------------------------------- threads -- */

enum { THREADS = 6, CHANGES = 60 };

struct shared {
    struct model_store *store;
    _Atomic int changing; /* threads that still change */
};

/* Each name has values of its own; every number of one model must be the same. */
static void expect_whole(const struct model *model, int name)
{
    const float *values = model->layers[0].layer.q_proj.weight;
    for (int i = 0; i < 4; i++)
        if (values[i] != values[0] || (int)values[0] / 1000 != name)
            fail_msg("model %s holds %g and %g", model->name, (double)values[0], (double)values[i]);
}

static void *change(void *context)
{
    struct shared *shared = context;
    struct fault fault;
    bool created;
    char name[] = "m0";
    for (int i = 0; i < CHANGES; i++) {
        name[1] = (char)('0' + i % 3);
        if (i % 7 == 6) {
            if (!model_store_delete(shared->store, name, &fault))
                assert_int_equal(fault.code, FAULT_NOT_FOUND);
        } else {
            assert_true(put(shared->store, name, (float)(i % 3 * 1000 + i), &created, &fault));
        }
    }
    atomic_fetch_sub(&shared->changing, 1);
    return NULL;
}

static void *use(void *context)
{
    struct shared *shared = context;
    struct fault fault;
    char name[] = "m0";
    for (int i = 0; atomic_load(&shared->changing) > 0; i++) {
        struct model *model;
        struct text text;
        name[1] = (char)('0' + i % 3);
        if (model_store_resolve(shared->store, name, &model, &fault)) {
            expect_whole(model, i % 3);
            model_release(model);
        } else {
            assert_int_equal(fault.code, FAULT_NOT_FOUND);
        }
        if (i % 16 > 0)
            continue;
        text_init(&text, 100000);
        model_store_describe_all(shared->store, &text);
        assert_true(text_finish(&text, &fault));
        text_free(&text);
        poll(NULL, 0, 1); /* the reader-writer lock of glibc prefers readers */
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t threads[THREADS];
    struct fault fault;
    (void)state;
    struct shared shared = { open_store(NULL, 0), THREADS / 2 };
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i % 2 ? change : use, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    /* Disk and table agree. */
    struct model_store *again = open_store(NULL, 0);
    int on_disk = 0;
    for (int i = 0; i < 3; i++) {
        char name[] = { 'm', (char)('0' + i), '\0' };
        struct model *served, *saved;
        const bool is_served = model_store_resolve(shared.store, name, &served, &fault);
        assert_int_equal(model_store_resolve(again, name, &saved, &fault), is_served);
        if (!is_served)
            continue;
        assert_true(value_of(served) == value_of(saved));
        model_release(served);
        model_release(saved);
        on_disk++;
    }
    assert_int_equal(count_files(), on_disk);
    model_store_free(again);
    model_store_free(shared.store);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in_only),
        STORE_TEST(test_forms),
        STORE_TEST(test_only_one),
        STORE_TEST(test_directory_is_model),
        STORE_TEST(test_unavailable),
        STORE_TEST(test_name_twice),
        cmocka_unit_test(test_no_directory),
        STORE_TEST(test_listed),
        STORE_TEST(test_put_and_delete),
        STORE_TEST(test_put_refused),
        STORE_TEST(test_damaged),
        STORE_TEST(test_left_overs),
        STORE_TEST(test_crash),
        STORE_TEST(test_threads),
    };
    log_configure(LOG_ERROR, LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
