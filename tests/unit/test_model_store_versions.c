/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_store_versions.c - numbered versions of a model, and reading the directory again.
 *
 * Every version has one value in all its parameters, so the value shows which version answers. */
#include "fault_expect.h"
#include "store_directory.h"
#include "telemetry/log.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

/* Puts a new file in place of the old one. Does not write new bytes into the mapped file. */
static void replace(const char *name, float value)
{
    unlink(store_path(name));
    store_write_model(name, "{}", value);
}

static void write_version(const char *folder, float value)
{
    char file[100];
    store_make_folder(folder);
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    store_write_model(file, "{}", value);
}

/* Breaks the file of a version whose folder exists. */
static void break_version(const char *folder)
{
    char file[100];
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    unlink(store_path(file));
    store_write_text(file, "not one");
}

static void expect_version(struct model_store *store, const char *name, const char *version,
                           float value)
{
    struct model *model;
    struct fault fault;
    if (!model_store_resolve_version(store, NULL, name, version, &model, &fault))
        fail_msg("%s/%s: %s", name, version, fault.message);
    assert_true(store_value_of(model) == value);
    if (version[0])
        assert_true(model->version == strtoll(version, NULL, 10));
    model_release(model);
}

static void expect_no_version(struct model_store *store, const char *name, const char *version,
                              enum fault_code code, const char *words)
{
    struct model *model;
    struct fault fault = { .code = FAULT_NONE };
    assert_false(model_store_resolve_version(store, NULL, name, version, &model, &fault));
    fault_expect(version, &fault, code, words, NULL);
}

struct listed {
    char text[2000];
};

/* "name/version:state[*][ refused: reason]" of each model that is not built in. * marks the
 * default. */
static void list(void *context, const struct model_listing *listing)
{
    struct listed *listed = context;
    const size_t used = strlen(listed->text);
    if (strcmp(listing->name, "demo") == 0 || strcmp(listing->name, "sdpa") == 0)
        return;
    snprintf(listed->text + used, sizeof listed->text - used, "%s%s/%d:%s%s%s", used > 0 ? " " : "",
             listing->name, (int)listing->version, listing->state, listing->is_default ? "*" : "",
             listing->refused ? "!" : "");
}

static void expect_listed(struct model_store *store, const char *expected)
{
    struct listed listed = { "" };
    model_store_each(store, NULL, list, &listed);
    assert_string_equal(listed.text, expected);
}

static void expect_versions(struct model_store *store, const char *name, const char *expected)
{
    struct text text;
    struct fault fault;
    text_init(&text, 1000);
    model_store_versions(store, name, &text);
    text_raw(&text, "");
    assert_true(text_finish(&text, &fault));
    assert_int_equal(text.used, strlen(expected));
    assert_memory_equal(text.data, expected, text.used);
    text_free(&text);
}

TEST(all_are_there)
{
    store_make_folder("m");
    write_version("m/2", 2);
    write_version("m/10", 10);
    write_version("m/1", 1);
    write_version("m/03", 3);     /* no number: a leading zero */
    write_version("m/0", 4);      /* no number */
    write_version("m/9x", 5);     /* no number */
    store_write_text("m/11", ""); /* no folder */
    struct model_store *store = store_open(NULL, 0);
    expect_listed(store, "m/1:READY m/2:READY m/10:READY*");
    expect_versions(store, "m", JSON(["1","2","10"]));
    expect_versions(store, "demo", JSON(["1"]));
    expect_versions(store, "nobody", "[]");
    store_expect_served(store, "m", 10);
    store_expect_served(store, NULL, 10); /* one model, though it has three versions */
    expect_version(store, "m", "", 10);
    expect_version(store, "m", "1", 1);
    expect_version(store, "m", "2", 2);
    expect_version(store, "m", "10", 10);
    static const char *const NONE[] = {
        "3",
        "03",
        "0",
        "9",
        "02",
        "+1",
        "-1",
        " 1",
        "1 ",
        "1.0",
        "x",
        "11",
        "18446744073709551617",
        "99999999999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++)
        expect_no_version(store, "m", NONE[i], FAULT_NOT_FOUND, "it has 1, 2, 10");
    expect_no_version(store, "nobody", "1", FAULT_NOT_FOUND, "'nobody'");
    model_store_free(store);
}

/* A new version that is broken is listed with its reason. The highest good version serves. */
TEST(a_broken_one_is_passed_over)
{
    store_make_folder("m");
    write_version("m/1", 1);
    write_version("m/2", 2);
    store_make_folder("m/3"); /* empty */
    write_version("m/4", 4);
    break_version("m/4");
    struct model_store *store = store_open(NULL, 2);
    expect_listed(store, "m/1:READY m/2:READY* m/3:UNAVAILABLE m/4:UNAVAILABLE");
    store_expect_served(store, "m", 2);
    expect_versions(store, "m", JSON(["1","2"]));
    expect_no_version(store, "m", "3", FAULT_LOADING, "no model.safetensors");
    expect_no_version(store, "m", "4", FAULT_LOADING, "safetensors file begins");
    model_store_free(store);
}

TEST(load_and_unload)
{
    struct fault fault;
    store_make_folder("m");
    write_version("m/1", 1);
    struct model_store *store = store_open(NULL, 0);
    write_version("m/2", 2);
    store_expect_served(store, "m", 1);
    assert_true(model_store_load(store, "m", NULL, &fault));
    expect_listed(store, "m/1:READY m/2:READY*");

    assert_true(model_store_unload(store, "m", &fault));
    expect_listed(store, "m/1:UNAVAILABLE m/2:UNAVAILABLE*");
    expect_no_version(store, "m", "1", FAULT_LOADING, "unloaded");
    model_store_rescan(store, NULL); /* what was unloaded stays so */
    expect_listed(store, "m/1:UNAVAILABLE m/2:UNAVAILABLE*");

    write_version("m/3", 3);
    break_version("m/3");
    assert_false(model_store_load(store, "m", NULL, &fault));
    assert_non_null(strstr(fault.message, "safetensors file begins"));
    expect_listed(store, "m/1:READY m/2:READY* m/3:UNAVAILABLE");
    model_store_free(store);
}

static bool always(void)
{
    return true;
}

/* Files that are new, changed or gone. A file that has not changed stays the same model. */
TEST(rescan)
{
    struct model *before, *after;
    struct fault fault;
    store_write_model("kept.safetensors", "{}", 1);
    store_write_model("changed.safetensors", "{}", 2);
    store_write_model("gone.safetensors", "{}", 3);
    store_make_folder("folder");
    store_write_model("folder/model.safetensors", "{}", 4);
    struct model_store *store = store_open(NULL, 0);
    struct model *held;
    assert_true(model_store_resolve(store, NULL, "kept", &before, &fault));
    assert_true(model_store_resolve(store, NULL, "gone", &held, &fault));

    replace("changed.safetensors", 20);
    unlink(store_path("gone.safetensors"));
    store_write_model("new.safetensors", "{}", 5);
    store_write_text("folder/config.json", JSON({"causal":true}));
    store_write_model("demo.safetensors", "{}", 6); /* the name of a built-in one */
    model_store_rescan(store, always);
    store_expect_served(store, "changed", 2);
    model_store_rescan(store, NULL);
    expect_listed(store, "changed/1:READY* folder/1:READY* kept/1:READY* new/1:READY*");
    store_expect_served(store, "changed", 20);
    store_expect_served(store, "new", 5);
    store_expect_refused(store, "gone", FAULT_NOT_FOUND, "'gone'");
    assert_true(store_value_of(held) == 3.0f); /* a request in flight */
    model_release(held);
    assert_true(model_store_resolve(store, NULL, "kept", &after, &fault));
    assert_ptr_equal(before, after);
    model_release(before);
    model_release(after);
    assert_true(model_store_resolve(store, NULL, "folder", &after, &fault));
    assert_true(after->layers[0].options.causal);
    model_release(after);
    model_store_free(store);
}

/* The file on disk is broken. The old model serves, and the listing says so until the file is
 * repaired. */
TEST(rescan_of_a_broken_one)
{
    store_write_model("m.safetensors", "{}", 1);
    struct model_store *store = store_open(NULL, 0);
    unlink(store_path("m.safetensors"));
    store_write_text("m.safetensors", "not one");
    store_write_text("n.safetensors", "nor this");
    for (int i = 0; i < 2; i++) {
        model_store_rescan(store, NULL);
        expect_listed(store, "m/1:READY*! n/1:UNAVAILABLE*");
        store_expect_served(store, "m", 1);
    }
    replace("m.safetensors", 2);
    replace("n.safetensors", 3);
    model_store_rescan(store, NULL);
    expect_listed(store, "m/1:READY* n/1:READY*");
    store_expect_served(store, "m", 2);
    store_expect_served(store, "n", 3);
    model_store_free(store);
}

/* Clients must not learn where the models lie on disk. */
static void expect_no_path(void *context, const struct model_listing *listing)
{
    (void)context;
    if (listing->refused) {
        assert_non_null(strstr(listing->refused, "directory '.': No such file"));
        assert_null(strstr(listing->refused, store_directory));
    }
}

/* A new version whose files are broken takes the place of the old version on disk. The old
 * version goes on serving. */
TEST(rescan_of_versions)
{
    store_make_folder("m");
    write_version("m/1", 1);
    write_version("m/2", 2);
    struct model_store *store = store_open(NULL, 0);
    write_version("m/3", 3);
    break_version("m/3");
    unlink(store_path("m/1/model.safetensors"));
    rmdir(store_path("m/1"));
    unlink(store_path("m/2/model.safetensors"));
    rmdir(store_path("m/2"));
    model_store_rescan(store, NULL);
    expect_listed(store, "m/2:READY*! m/3:UNAVAILABLE");
    store_expect_served(store, "m", 2);
    replace("m/3/model.safetensors", 3);
    model_store_rescan(store, NULL);
    expect_listed(store, "m/3:READY*");
    unlink(store_path("m/3/model.safetensors"));
    rmdir(store_path("m/3"));
    rmdir(store_path("m"));
    model_store_rescan(store, NULL);
    expect_listed(store, "");
    model_store_free(store);
}

/* Without the directory all models go on serving. The listing gives the reason until the
 * directory is back. */
TEST(rescan_without_the_directory)
{
    char away[512];
    store_write_model("m.safetensors", "{}", 1);
    struct model_store *store = store_open(NULL, 0);
    snprintf(away, sizeof away, "%s-away", store_directory);
    assert_int_equal(rename(store_directory, away), 0);
    const bool was_read = model_store_rescan(store, NULL);
    assert_int_equal(rename(away, store_directory), 0);
    assert_false(was_read);
    expect_listed(store, "m/1:READY*!");
    model_store_each(store, NULL, expect_no_path, NULL);
    store_expect_served(store, "m", 1);
    assert_true(model_store_rescan(store, NULL));
    expect_listed(store, "m/1:READY*");
    model_store_free(store);
}

/* A PUT is not read again, because it already equals what is on disk. */
TEST(rescan_after_a_put)
{
    struct model *before, *after;
    struct fault fault;
    bool created;
    struct model_store *store = store_open(NULL, 0);
    assert_true(store_put(store, "m", 7, &created, &fault));
    assert_true(model_store_resolve(store, NULL, "m", &before, &fault));
    model_store_rescan(store, NULL);
    assert_true(model_store_resolve(store, NULL, "m", &after, &fault));
    assert_ptr_equal(before, after);
    model_release(before);
    model_release(after);
    model_store_free(store);
}

TEST(rescan_of_the_one_model)
{
    const struct model_store_options none = { NULL, NULL };
    struct model_store *store;
    struct fault fault;
    int failed_count;
    store_write_text("config.json", "{}");
    store_write_model("model.safetensors", "{}", 8);
    store = store_open("only", 0);
    replace("model.safetensors", 9);
    model_store_rescan(store, NULL);
    expect_listed(store, "only/1:READY*");
    store_expect_served(store, "only", 9);
    unlink(store_path("config.json")); /* a directory of models, it seems */
    model_store_rescan(store, NULL);
    expect_listed(store, "only/1:READY*!");
    model_store_free(store);
    assert_true(model_store_create(&store, &none, &failed_count, &fault));
    model_store_rescan(store, NULL);
    expect_listed(store, "");
    model_store_free(store);
}

/* A link may lead to another place in the directory, but not out of it. */
TEST(links)
{
    char outside[100], target[200];
    strcpy(outside, store_directory);
    strcat(outside, "-outside");
    assert_int_equal(mkdir(outside, 0700), 0);
    store_write_model("good.safetensors", "{}", 1);
    snprintf(target, sizeof target, "%s/m.safetensors", outside);
    assert_int_equal(rename(store_path("good.safetensors"), target), 0);
    store_write_model("good.safetensors", "{}", 1);
    assert_int_equal(symlink("good.safetensors", store_path("inside.safetensors")), 0);
    assert_int_equal(symlink(target, store_path("outside.safetensors")), 0);
    assert_int_equal(symlink(outside, store_path("folder")), 0);
    store_make_folder("config");
    store_write_model("config/model.safetensors", "{}", 2);
    assert_int_equal(symlink(target, store_path("config/config.json")), 0);
    store_make_folder("of-versions");
    store_make_folder("of-versions/1");
    assert_int_equal(symlink(target, store_path("of-versions/1/model.safetensors")), 0);
    struct model_store *store = store_open(NULL, 4);
    store_expect_served(store, "inside", 1);
    store_expect_refused(store, "outside", FAULT_LOADING, "leads out of the models' directory");
    store_expect_refused(store, "outside", FAULT_LOADING, "'outside.safetensors' leads");
    store_expect_refused(store, "config", FAULT_LOADING, "config.json' leads out");
    store_expect_refused(store, "of-versions", FAULT_LOADING, "model.safetensors' leads out");
    store_expect_refused(store, "folder", FAULT_LOADING, "'folder' leads out");
    model_store_free(store);
    unlink(target);
    rmdir(outside);
}

EACH_TEST(store_directory_make, store_directory_remove);

int main(void)
{
    log_configure(LOG_ERROR, LOG_TEXT);
    return test_run(NULL);
}
