/* model_store_changes.c - puts and deletes a model.
 *
 * The long part of a PUT, checking and writing and syncing the new file, is done before "changing"
 * is taken. */
#include "host/file_save.h"
#include "store/model_open.h"
#include "store/model_paths.h"
#include "store/model_store_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct file_folder folder_of(const struct model_store *store)
{
    return (struct file_folder){ store->directory, "models' directory", 0640 };
}

static bool is_folder_on_disk(const struct model_store *store, const char *name)
{
    struct stat status;
    char *path;
    if (asprintf(&path, "%s/%s", store->directory, name) < 0)
        return false;
    const bool is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    free(path);
    return is_folder;
}

/* Refuses models that neither PUT nor DELETE may change. */
static bool check_changeable(struct model_store *store, const char *name, struct fault *fault)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct model_row *row = model_table_find(&store->table, name);
    const bool is_built_in = row && row->origin == MODEL_BUILT_IN;
    const bool is_folder = row && row->origin == MODEL_FOLDER;
    pthread_rwlock_unlock(&store->lock);
    if (is_built_in)
        return fault_set(fault, FAULT_CONFLICT,
                         "model '%s' is built in; it can be neither replaced nor removed", name);
    if (is_folder || (store->directory && is_folder_on_disk(store, name)))
        return fault_set(fault, FAULT_CONFLICT,
                         "model '%s' is a directory, which is changed on disk and not over HTTP",
                         name);
    return true;
}

static bool check_put(struct model_store *store, const char *name, struct fault *fault)
{
    if (!model_paths_name_good(name))
        return fault_set(fault, FAULT_OPTION,
                         "a model cannot be called '%.60s'; expected " MODEL_PATHS_NAME_RULE, name);
    if (!check_changeable(store, name, fault))
        return false;
    if (!store->directory)
        return fault_set(fault, FAULT_CONFLICT,
                         "there is no directory to save models in (--models DIR)");
    if (store->is_one_model)
        return fault_set(fault, FAULT_CONFLICT,
                         "the models' directory is itself one model; there is no place for others");
    return true;
}

static bool check_bytes(const char *name, const void *bytes, size_t size, struct fault *fault)
{
    struct model *model;
    if (!model_create(&model, name, "", bytes, size, NULL, NULL, NULL, fault))
        return false;
    model_release(model);
    return true;
}

/* Puts the saved file and its model in place, on disk and in the table. */
static bool swap_in(struct model_store *store, struct model_row *row, struct file_save *save,
                    bool *created, struct fault *fault)
{
    const struct file_folder folder = folder_of(store);
    struct model_row old = { .name = NULL };
    pthread_mutex_lock(&store->changing);
    pthread_rwlock_wrlock(&store->lock);
    bool good = model_table_reserve(&store->table, fault);
    pthread_rwlock_unlock(&store->lock);
    good = good && check_changeable(store, row->name, fault)
           && file_save_commit(save, &folder, row->source, fault);
    if (good) {
        pthread_rwlock_wrlock(&store->lock);
        model_table_set(&store->table, row, &old);
        model_store_count(store);
        pthread_rwlock_unlock(&store->lock);
        *created = old.name == NULL;
    }
    pthread_mutex_unlock(&store->changing);
    model_row_free(&old);
    return good;
}

/* Loads the model from the temporary file: a mapping stays valid when its file is renamed. */
static bool save_and_swap_in(struct model_store *store, const char *name, const char *path,
                             struct file_save *save, bool *created, struct model **model,
                             struct fault *fault)
{
    struct model *made;
    struct model_row row;
    if (!model_load(&made, name, model_paths_relative(store->directory, path), save->temporary,
                    NULL, fault)) {
        model_paths_hide(store->directory, fault);
        return false;
    }
    if (!model_rename_file(made, path, fault)) {
        model_release(made);
        return false;
    }
    model_retain(made);
    bool good = model_row_init(&row, name, made->version, MODEL_FILE, made, path, NULL, fault);
    row.fingerprint = model_directory_fingerprint(save->temporary);
    if (good && !swap_in(store, &row, save, created, fault)) {
        model_row_free(&row);
        good = false;
    }
    if (good)
        *model = made;
    else
        model_release(made);
    return good;
}

bool model_store_put(struct model_store *store, const char *name, const void *bytes, size_t size,
                     bool *created, struct model **model, struct fault *fault)
{
    const struct file_folder folder = folder_of(store);
    const struct byte_slice whole = { bytes, size };
    struct file_save save;
    char *path;
    if (!check_put(store, name, fault) || !check_bytes(name, bytes, size, fault))
        return false;
    if (asprintf(&path, "%s/%s.safetensors", store->directory, name) < 0)
        return fault_no_memory(fault);
    bool good = file_save_begin(&save, &folder, &whole, 1, fault);
    if (good) {
        good = save_and_swap_in(store, name, path, &save, created, model, fault);
        file_save_free(&save);
    }
    free(path);
    return good;
}

/* Refuses a file of another form: no PUT has written it. */
static bool check_ours(const struct model_store *store, const struct model_row *row,
                       struct fault *fault)
{
    const char *ending = strrchr(row->source, '.');
    return (ending && strcmp(ending, ".safetensors") == 0)
           || fault_set(fault, FAULT_CONFLICT,
                        "model '%s' is the file '%s', which is no safetensors file and is removed "
                        "on disk, not over HTTP",
                        row->name, model_paths_relative(store->directory, row->source));
}

/* The caller holds "changing". */
static bool remove_row(struct model_store *store, const char *name, struct model_row *old,
                       struct fault *fault)
{
    const struct file_folder folder = folder_of(store);
    pthread_rwlock_rdlock(&store->lock);
    const struct model_row *row = model_table_find(&store->table, name);
    if (!row)
        model_store_unknown(store, NULL, name, fault);
    pthread_rwlock_unlock(&store->lock);
    /* Only a holder of "changing" takes rows away, so the row stays. */
    if (!row || !check_changeable(store, name, fault) || !check_ours(store, row, fault)
        || !file_save_remove(&folder, row->source, fault))
        return false;
    pthread_rwlock_wrlock(&store->lock);
    model_table_take(&store->table, model_table_find(&store->table, name), old);
    model_store_count(store);
    pthread_rwlock_unlock(&store->lock);
    return true;
}

bool model_store_delete(struct model_store *store, const char *name, struct fault *fault)
{
    struct model_row old = { .name = NULL };
    pthread_mutex_lock(&store->changing);
    const bool good = remove_row(store, name, &old, fault);
    pthread_mutex_unlock(&store->changing);
    model_row_free(&old);
    return good;
}
