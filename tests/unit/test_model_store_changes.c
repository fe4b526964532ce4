/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_store_changes.c - changing a directory of models: by many threads at once, and by a
 * process that is killed in the middle of it. */
#include "fill.h"
#include "made_model.h"
#include "models/model/model_guard.h"
#include "store_directory.h"
#include "telemetry/log.h"
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(put_and_delete)
{
    struct fault fault;
    struct model *old;
    bool created = false;
    struct model_store *store = store_open(NULL, 0);
    assert_true(store_put(store, "mine", 1, &created, &fault));
    assert_true(created);
    store_expect_served(store, "mine", 1);
    assert_true(model_store_resolve(store, NULL, "mine", &old, &fault));
    assert_string_equal(old->source, "mine.safetensors");
    assert_true(store_put(store, "mine", 2, &created, &fault));
    assert_false(created);
    store_expect_served(store, NULL, 2);
    assert_true(store_value_of(old) == 1.0f && !model_damage(old)); /* a request in flight */
    assert_int_equal(store_count_files(), 1);
    model_store_free(store);

    store = store_open(NULL, 0);
    store_expect_served(store, "mine", 2);
    assert_true(model_store_delete(store, "mine", &fault));
    assert_int_equal(store_count_files(), 0);
    store_expect_refused(store, "mine", FAULT_NOT_FOUND, "'mine'");
    assert_false(model_store_delete(store, "mine", &fault));
    assert_int_equal(fault.code, FAULT_NOT_FOUND);
    assert_true(store_put(store, "mine", 3, &created, &fault));
    assert_true(created);
    assert_int_equal(unlink(store_path("mine.safetensors")), 0);
    assert_true(model_store_delete(store, "mine", &fault)); /* somebody was faster */
    model_store_free(store);
    assert_true(store_value_of(old) == 1.0f);
    model_release(old);
}

TEST(put_refused)
{
    static const char *const BAD_NAMES[] = { "",   ".",  "..", "../x", "a/b",      ".a",
                                             "-a", "_a", "a ", "a\n",  "\xC3\xA9", "a%2f" };
    char longest[MODEL_NAME_MAX + 2];
    struct fault fault;
    struct model *model;
    bool created;
    struct model_store *store = store_open(NULL, 0);
    for (size_t i = 0; i < sizeof BAD_NAMES / sizeof BAD_NAMES[0]; i++) {
        assert_false(store_put(store, BAD_NAMES[i], 1, &created, &fault));
        assert_int_equal(fault.code, FAULT_OPTION);
        assert_false(model_store_delete(store, BAD_NAMES[i], &fault));
        assert_int_equal(fault.code, FAULT_NOT_FOUND);
    }
    memset(longest, 'a', sizeof longest);
    longest[MODEL_NAME_MAX + 1] = '\0';
    assert_false(store_put(store, longest, 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_OPTION);
    longest[MODEL_NAME_MAX] = '\0';
    assert_true(store_put(store, longest, 1, &created, &fault));
    assert_true(model_store_delete(store, longest, &fault));
    assert_false(store_put(store, "demo", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    assert_false(store_put(store, "sdpa", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);
    store_make_folder("later"); /* after the start */
    assert_false(store_put(store, "later", 1, &created, &fault));
    assert_int_equal(fault.code, FAULT_CONFLICT);

    assert_true(store_put(store, "mine", 1, &created, &fault));
    assert_false(model_store_put(store, "mine", "garbage!", 8, &created, &model, &fault));
    assert_int_equal(fault.code, FAULT_BINARY);
    store_expect_served(store, "mine", 1);
    assert_int_equal(store_count_files(), 2);
    model_store_free(store);
}

/* If a file is cut short under its model, requests get a 503. A new PUT repairs the model. */
TEST(damaged)
{
    struct fault fault;
    struct model *model;
    bool created;
    model_guard_install();
    struct model_store *store = store_open(NULL, 0);
    assert_true(store_put(store, "mine", 1, &created, &fault));
    assert_true(model_store_resolve(store, NULL, "mine", &model, &fault));
    assert_int_equal(truncate(store_path("mine.safetensors"), 0), 0);
    assert_true(store_value_of(model) == 0.0f && model_damage(model));
    model_release(model);
    store_expect_refused(store, "mine", FAULT_LOADING, "cut short");
    assert_true(store_put(store, "mine", 2, &created, &fault));
    store_expect_served(store, "mine", 2);
    model_store_free(store);
}

TEST(left_overs)
{
    store_write_text(".attnd-saving-1-0", "half");
    store_write_text(".attnd-saving-2-7", "in use");
    store_write_text(".other", "somebody's");
    const int used = open(store_path(".attnd-saving-2-7"), O_RDONLY);
    assert_int_equal(flock(used, LOCK_EX), 0);
    model_store_free(store_open(NULL, 0));
    assert_int_equal(access(store_path(".attnd-saving-1-0"), F_OK), -1);
    assert_int_equal(access(store_path(".attnd-saving-2-7"), F_OK), 0);
    assert_int_equal(access(store_path(".other"), F_OK), 0);
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
    struct model_store *store = store_open(NULL, 0);
    for (int i = 0;; i ^= 1) {
        if (!model_store_put(store, "saved", files[i], sizes[i], &created, &model, &fault))
            _exit(1);
        model_release(model);
    }
}

/* kill -9 at any moment leaves a whole file, the old one or the new one. */
TEST(crash)
{
    struct fill fill = { 20261121 };
    struct fault fault;
    bool created;
    struct model_store *store = store_open(NULL, 0);
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
        store = store_open(NULL, 0);
        assert_true(model_store_resolve(store, NULL, "saved", &model, &fault));
        const float *values = model->layers[0].layer.q_proj.weight;
        assert_true(values[0] == 1.0f || values[0] == 2.0f);
        for (int i = 1; i < CRASH_SIDE * CRASH_SIDE; i++)
            if (values[i] != values[0])
                fail_msg("round %d: a file of both", round);
        model_release(model);
        model_store_free(store);
        assert_int_equal(store_count_files(), 1);
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
            assert_true(
                store_put(shared->store, name, (float)(i % 3 * 1000 + i), &created, &fault));
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
        if (model_store_resolve(shared->store, NULL, name, &model, &fault)) {
            expect_whole(model, i % 3);
            model_release(model);
        } else {
            assert_int_equal(fault.code, FAULT_NOT_FOUND);
        }
        if (i % 16 > 0)
            continue;
        text_init(&text, 100000);
        model_store_describe_all(shared->store, NULL, &text);
        assert_true(text_finish(&text, &fault));
        text_free(&text);
        poll(NULL, 0, 1); /* the reader-writer lock of glibc prefers readers */
    }
    return NULL;
}

TEST(threads)
{
    pthread_t threads[THREADS];
    struct fault fault;
    struct shared shared = { store_open(NULL, 0), THREADS / 2 };
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i % 2 ? change : use, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    /* The disk and the table must agree. */
    struct model_store *again = store_open(NULL, 0);
    int on_disk = 0;
    for (int i = 0; i < 3; i++) {
        char name[] = { 'm', (char)('0' + i), '\0' };
        struct model *served, *saved;
        const bool is_served = model_store_resolve(shared.store, NULL, name, &served, &fault);
        assert_int_equal(model_store_resolve(again, NULL, name, &saved, &fault), is_served);
        if (!is_served)
            continue;
        assert_true(store_value_of(served) == store_value_of(saved));
        model_release(served);
        model_release(saved);
        on_disk++;
    }
    assert_int_equal(store_count_files(), on_disk);
    model_store_free(again);
    model_store_free(shared.store);
}

EACH_TEST(store_directory_make, store_directory_remove);

int main(void)
{
    log_configure(LOG_ERROR, LOG_TEXT);
    return test_run(NULL);
}
