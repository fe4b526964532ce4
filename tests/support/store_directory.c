/* SPDX-License-Identifier: Apache-2.0 */
/* store_directory.c - see store_directory.h. */
#include "store_directory.h"
#include "test.h"

#include "fault_expect.h"
#include "made_model.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>

char store_directory[64];

/* ---------------------------------------------------------------- helpers -- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

int store_directory_make(void **state)
{
    snprintf(store_directory, sizeof store_directory, "/tmp/attnd-store-XXXXXX");
    return mkdtemp(store_directory) ? 0 : -1;
}

int store_directory_remove(void **state)
{
    return nftw(store_directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *store_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", store_directory, name);
    return path;
}

void store_write_text(const char *name, const char *text)
{
    made_model_write(store_path(name), text, strlen(text));
}

void store_write_model(const char *name, const char *config, float value)
{
    size_t size;
    void *bytes = made_model(config, "q_proj.weight 2x2", value, &size);
    made_model_write(store_path(name), bytes, size);
    free(bytes);
}

void store_make_folder(const char *name)
{
    assert_int_equal(mkdir(store_path(name), 0700), 0);
}

struct model_store *store_open(const char *model_name, int failed_expected)
{
    const struct model_store_options options = { store_directory, model_name };
    struct model_store *store = NULL;
    struct fault fault;
    int failed_count = -1;
    if (!model_store_create(&store, &options, &failed_count, &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(failed_count, failed_expected);
    return store;
}

float store_value_of(const struct model *model)
{
    return *(const float *)model->layers[0].layer.q_proj.weight;
}

/* The name must resolve to a model whose first parameter is value. */
void store_expect_served(struct model_store *store, const char *name, float value)
{
    struct model *model;
    struct fault fault;
    if (!model_store_resolve(store, NULL, name, &model, &fault))
        fail_msg("%s: %s", name ? name : "(none)", fault.message);
    if (store_value_of(model) != value)
        fail_msg("%s is %g, not %g", model->name, (double)store_value_of(model), (double)value);
    model_release(model);
}

void store_expect_refused(struct model_store *store, const char *name, enum fault_code code,
                          const char *words)
{
    struct model *model;
    struct fault fault = { .code = FAULT_NONE };
    assert_false(model_store_resolve(store, NULL, name, &model, &fault));
    fault_expect(name ? name : "(none)", &fault, code, words, NULL);
}

bool store_put(struct model_store *store, const char *name, float value, bool *created,
               struct fault *fault)
{
    size_t size;
    struct model *model = NULL;
    void *bytes = made_model("{}", "q_proj.weight 2x2", value, &size);
    const bool good = model_store_put(store, name, bytes, size, created, &model, fault);
    if (good)
        assert_true(store_value_of(model) == value);
    model_release(model);
    free(bytes);
    return good;
}

int store_count_files(void)
{
    DIR *stream = opendir(store_directory);
    int count = 0;
    assert_non_null(stream);
    while (readdir(stream))
        count++;
    closedir(stream);
    return count - 2; /* "." and ".." */
}
