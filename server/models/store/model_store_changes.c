/* SPDX-License-Identifier: Apache-2.0 */
/* model_store_changes.c - puts, deletes, loads and unloads models, and scans the directory again.
 *
 * The long part of a PUT, checking and writing and syncing the new file, is done before "changing"
 * is taken.
 *
 * "changing" is held from reading a name's files until their model is in the table, so that no PUT
 * replaces the files in between. It is taken for one name at a time, so that a PUT waits for one
 * model and not for all. Only a holder of "changing" writes to the table, so a holder reads the
 * table without "lock". */
#include "host/file_save.h"
#include "models/store/model_gguf_files.h"
#include "models/store/model_open.h"
#include "models/store/model_paths.h"
#include "models/store/model_report.h"
#include "models/store/model_store_internal.h"
#include "telemetry/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How a model's files are read. */
struct reading {
    const char *config; /* NULL: the model's own */
    bool is_forced;     /* also files that have not changed, and those of an unloaded model */
};

/* Puts row in the table, which then owns it. On false row is freed. */
static bool set_row(struct model_store *store, struct model_row *row, struct fault *fault)
{
    struct model_row old = { .name = NULL };
    pthread_rwlock_wrlock(&store->lock);
    const bool good = model_table_reserve(&store->table, fault);
    if (good) {
        model_table_set(&store->table, row, &old);
        model_store_count(store);
    }
    pthread_rwlock_unlock(&store->lock);
    model_row_free(good ? &old : row);
    return good;
}

/* Puts a row without a model into the table: failed, unloaded or loading. */
static bool set_absent(struct model_store *store, const struct model_place *place,
                       enum model_state state, const char *reason, struct fault *fault)
{
    struct model_row row;
    if (!model_store_row(&row, place, NULL, reason, fault))
        return false;
    row.state = state;
    return set_row(store, &row, fault);
}

/* Notes why the row keeps serving its model and not what is on disk. Without memory the reason is
 * lost. */
static void set_refused(struct model_store *store, struct model_row *row, uint64_t fingerprint,
                        const char *reason)
{
    char *copy = strdup(reason);
    pthread_rwlock_wrlock(&store->lock);
    free(row->refused);
    row->refused = copy;
    row->fingerprint = fingerprint;
    pthread_rwlock_unlock(&store->lock);
}

static void remove_version(struct model_store *store, struct model_row *row)
{
    struct model_row old;
    pthread_rwlock_wrlock(&store->lock);
    model_table_take(&store->table, row, &old);
    model_store_count(store);
    pthread_rwlock_unlock(&store->lock);
    log_line(LOG_INFO, "model removed", LOG_STRING("name", old.name),
             LOG_NUMBER("version", old.version));
    model_row_free(&old);
}

/* ---------------------------------------------------------------- reading -- */

static bool is_usable(const struct model_row *row)
{
    return row && !model_row_reason(row);
}

static bool read_and_set(struct model_store *store, const struct model_place *place,
                         const char *config, struct fault *fault)
{
    struct model_row row;
    struct model *model;
    return model_store_read(store, &model, place, config, fault)
           && model_store_row(&row, place, model, NULL, fault) && set_row(store, &row, fault);
}

/* Notes that a place could not be read: its old model keeps serving, or its row has failed. */
static void set_failed(struct model_store *store, const struct model_place *place,
                       const char *reason)
{
    struct fault no_memory;
    struct model_row *row = model_table_find_version(&store->table, place->name, place->version);
    if (is_usable(row)) {
        set_refused(store, row, place->fingerprint, reason);
    } else if (!set_absent(store, place, MODEL_FAILED, reason, &no_memory) && row) {
        pthread_rwlock_wrlock(&store->lock);
        row->state = MODEL_FAILED;
        pthread_rwlock_unlock(&store->lock);
    }
    log_line(LOG_WARNING, "model not loaded", LOG_STRING("name", place->name),
             LOG_NUMBER("version", place->version), LOG_STRING("source", place->source),
             LOG_STRING("reason", reason));
}

/* Loads one version, unless it is served as it is on disk or was unloaded. A file that cannot be
 * read is no 404, for the request named a model that exists. */
static bool refresh_place(struct model_store *store, const struct model_place *place,
                          const struct reading *reading, struct fault *fault)
{
    const struct model_row *row =
        model_table_find_version(&store->table, place->name, place->version);
    struct fault reason = { .code = FAULT_NONE };
    const bool serves = is_usable(row);
    const bool is_same = serves && !row->refused && row->fingerprint == place->fingerprint;
    const bool is_unloaded = row && row->state == MODEL_UNLOADED;
    if (!reading->is_forced && (is_same || is_unloaded))
        return true;
    if (!serves && !set_absent(store, place, MODEL_LOADING, "it is being loaded", fault))
        return false;
    if (!read_and_set(store, place, reading->config, &reason)) {
        fault_set(fault, reason.code == FAULT_NOT_FOUND ? FAULT_BINARY : reason.code,
                  "model '%s' was not loaded: %s", place->name, reason.message);
        set_failed(store, place, serves ? fault->message : reason.message);
        return false;
    }
    log_line(LOG_INFO, "model loaded", LOG_STRING("name", place->name),
             LOG_NUMBER("version", place->version), LOG_STRING("source", place->source));
    row = model_table_find_version(&store->table, place->name, place->version);
    model_report_log_tokenizer(row->name, row->model);
    return true;
}

static bool is_on_disk(const struct model_directory *directory, const struct model_row *row)
{
    for (int64_t i = 0; i < directory->count; i++)
        if (directory->places[i].version == row->version)
            return true;
    return false;
}

/* Takes out the versions whose files were removed. Keeps one that can be used where other versions
 * are on disk and none of them can. */
static void drop_removed_versions(struct model_store *store,
                                  const struct model_directory *directory, const char *name)
{
    bool another_serves = false;
    int64_t count;
    struct model_row *rows = model_table_rows(&store->table, name, &count);
    for (int64_t i = 0; i < count; i++)
        another_serves = another_serves || (is_on_disk(directory, &rows[i]) && is_usable(&rows[i]));
    for (int64_t i = count - 1; i >= 0; i--) {
        rows = model_table_rows(&store->table, name, &count);
        if (is_on_disk(directory, &rows[i]))
            continue;
        if (directory->count > 0 && !another_serves && is_usable(&rows[i])) {
            set_refused(store, &rows[i], 0,
                        "its files are gone; it serves until another version loads");
            another_serves = true;
        } else {
            remove_version(store, &rows[i]);
        }
    }
}

/* Loads a name's versions from the highest down, so that the fault is that of the highest. The
 * caller holds "changing". */
static bool refresh_name(struct model_store *store, const struct model_directory *directory,
                         const char *name, const struct reading *reading, struct fault *fault)
{
    bool good = true;
    for (int64_t i = directory->count - 1; i >= 0; i--) {
        struct fault another;
        good =
            refresh_place(store, &directory->places[i], reading, good ? fault : &another) && good;
    }
    drop_removed_versions(store, directory, name);
    return good;
}

/* ------------------------------------------------------ loading, unloading -- */

/* Finds where the model of that name is on disk. The caller holds "changing". */
static bool find_places(struct model_store *store, const char *name,
                        struct model_directory *directory, struct fault *fault)
{
    const struct model_row *row = model_table_find(&store->table, name);
    if (row && row->origin == MODEL_BUILT_IN)
        return fault_set(fault, FAULT_CONFLICT, "model '%s' is built in, and always served", name);
    if (!store->directory || !model_paths_name_good(name) || (!row && store->is_one_model))
        return model_store_unknown(store, NULL, name, fault);
    if (!model_directory_find(directory, store->directory, name, store->is_one_model, fault))
        return false;
    if (directory->count > 0)
        return true;
    model_directory_free(directory);
    return fault_set(fault, FAULT_NOT_FOUND,
                     "the models' directory has neither '%s' nor '%s.safetensors' or '%s.gguf'",
                     name, name, name);
}

bool model_store_load(struct model_store *store, const char *name, const char *config,
                      struct fault *fault)
{
    const struct reading reading = { config, true };
    struct model_directory directory;
    pthread_mutex_lock(&store->changing);
    bool good = find_places(store, name, &directory, fault);
    if (good) {
        good = refresh_name(store, &directory, name, &reading, fault);
        model_directory_free(&directory);
    }
    pthread_mutex_unlock(&store->changing);
    return good;
}

/* The caller holds "changing". */
static bool unload_name(struct model_store *store, const char *name, struct fault *fault)
{
    int64_t count;
    struct model_row *rows = model_table_rows(&store->table, name, &count);
    if (count == 0)
        return model_store_unknown(store, NULL, name, fault);
    if (rows->origin == MODEL_BUILT_IN)
        return fault_set(fault, FAULT_CONFLICT, "model '%s' is built in, and always served", name);
    for (int64_t i = 0; i < count; i++) {
        const struct model_row *row = &model_table_rows(&store->table, name, &count)[i];
        const struct model_place place = {
            .name = name,
            .version = row->version,
            .is_folder = row->origin == MODEL_FOLDER,
            .source = row->source,
        };
        if (!set_absent(store, &place, MODEL_UNLOADED, "unloaded", fault))
            return false;
    }
    return true;
}

bool model_store_unload(struct model_store *store, const char *name, struct fault *fault)
{
    pthread_mutex_lock(&store->changing);
    const bool good = unload_name(store, name, fault);
    pthread_mutex_unlock(&store->changing);
    return good;
}

/* --------------------------------------------------------- the whole of it -- */

/* Brings one name up to date with what is on disk now, which may differ from the listing. */
static void rescan_name(struct model_store *store, const char *name)
{
    static const struct reading reading = { NULL, false };
    struct model_directory directory;
    struct fault fault;
    pthread_mutex_lock(&store->changing);
    const struct model_row *row = model_table_find(&store->table, name);
    if ((!row || row->origin != MODEL_BUILT_IN)
        && model_directory_find(&directory, store->directory, name, store->is_one_model, &fault)) {
        refresh_name(store, &directory, name, &reading, &fault);
        model_directory_free(&directory);
    }
    pthread_mutex_unlock(&store->changing);
}

/* Copies the first name after name that is not built in to next; "": there is none. */
static void next_name(struct model_store *store, const char *name, char next[MODEL_NAME_MAX + 1])
{
    next[0] = '\0';
    pthread_rwlock_rdlock(&store->lock);
    for (int64_t i = 0; i < store->table.count && !next[0]; i++) {
        const struct model_row *row = &store->table.rows[i];
        if (row->origin != MODEL_BUILT_IN && strcmp(row->name, name) > 0)
            memcpy(next, row->name, strlen(row->name) + 1);
    }
    pthread_rwlock_unlock(&store->lock);
}

static bool is_listed(const struct model_directory *directory, const char *name)
{
    for (int64_t i = 0; i < directory->count; i++)
        if (strcmp(directory->places[i].name, name) == 0)
            return true;
    return false;
}

/* First the names that the directory has, then the names that only the table has. */
static void rescan_names(struct model_store *store, const struct model_directory *directory,
                         bool (*should_stop)(void))
{
    char name[MODEL_NAME_MAX + 1] = "", next[MODEL_NAME_MAX + 1];
    for (int64_t i = 0; !store->is_one_model && i < directory->count; i++) {
        if (i > 0 && strcmp(directory->places[i].name, directory->places[i - 1].name) == 0)
            continue;
        if (should_stop && should_stop())
            return;
        if (model_store_has_name(&directory->places[i]))
            rescan_name(store, directory->places[i].name);
    }
    for (next_name(store, name, next); next[0]; next_name(store, name, next)) {
        if (should_stop && should_stop())
            return;
        if (store->is_one_model || !is_listed(directory, next))
            rescan_name(store, next);
        memcpy(name, next, sizeof name);
    }
}

/* Notes at every model that serves why it may not be what is on disk. */
static void refuse_all(struct model_store *store, const char *reason)
{
    log_line(LOG_WARNING, "models not read again", LOG_STRING("reason", reason));
    struct fault shown;
    fault_set(&shown, FAULT_LOADING, "%s", reason);
    model_paths_hide(store->directory, &shown);
    pthread_mutex_lock(&store->changing);
    for (int64_t i = 0; i < store->table.count; i++) {
        struct model_row *row = &store->table.rows[i];
        if (row->origin != MODEL_BUILT_IN && is_usable(row))
            set_refused(store, row, row->fingerprint, shown.message);
    }
    pthread_mutex_unlock(&store->changing);
}

bool model_store_rescan(struct model_store *store, bool (*should_stop)(void))
{
    struct model_directory directory;
    struct fault fault;
    if (!store->directory)
        return true;
    if (!model_directory_scan(&directory, store->directory, NULL, &fault)) {
        refuse_all(store, fault.message);
        return false;
    }
    const bool is_alike = directory.is_one_model == store->is_one_model;
    if (is_alike)
        rescan_names(store, &directory, should_stop);
    else
        refuse_all(store, "the models' directory has become one model, or is no longer one");
    model_directory_free(&directory);
    return is_alike;
}

/* ----------------------------------------------------------- PUT and DELETE -- */

static struct file_folder models_folder(const struct model_store *store)
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

static bool check_model_bytes(const char *name, const void *bytes, size_t size, struct fault *fault)
{
    struct model *model;
    if (!model_create(&model, name, "", bytes, size, NULL, NULL, NULL, fault))
        return false;
    model_release(model);
    return true;
}

/* Puts the saved file and its model in place, on disk and in the table. */
static bool swap_in_file(struct model_store *store, struct model_row *row, struct file_save *save,
                         bool *created, struct fault *fault)
{
    const struct file_folder folder = models_folder(store);
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
    if (good && !swap_in_file(store, &row, save, created, fault)) {
        model_row_free(&row);
        good = false;
    }
    if (good)
        *model = made;
    else
        model_release(made);
    return good;
}

/* A safetensors file would be served in place of a GGUF file of the same name. */
static bool check_no_safetensors(const struct model_store *store, const char *name,
                                 struct fault *fault)
{
    char *path;
    if (asprintf(&path, "%s/%s.safetensors", store->directory, name) < 0)
        return fault_no_memory(fault);
    const bool is_there = access(path, F_OK) == 0;
    free(path);
    return !is_there
           || fault_set(fault, FAULT_CONFLICT,
                        "model '%s' is the file '%s.safetensors', and the body is a GGUF file: "
                        "delete the model first",
                        name, name);
}

bool model_store_put(struct model_store *store, const char *name, const void *bytes, size_t size,
                     bool *created, struct model **model, struct fault *fault)
{
    const struct file_folder folder = models_folder(store);
    const struct byte_slice whole = { bytes, size };
    struct file_save save;
    char *path;
    if (!check_put(store, name, fault) || !check_model_bytes(name, bytes, size, fault))
        return false;
    const bool is_gguf = size >= 4 && memcmp(bytes, "GGUF", 4) == 0;
    if (is_gguf && !check_no_safetensors(store, name, fault))
        return false;
    if (asprintf(&path, "%s/%s%s", store->directory, name, is_gguf ? ".gguf" : ".safetensors") < 0)
        return fault_no_memory(fault);
    bool good = file_save_begin(&save, &folder, &whole, 1, fault);
    if (good) {
        good = save_and_swap_in(store, name, path, &save, created, model, fault);
        file_save_free(&save);
    }
    free(path);
    return good;
}

/* Refuses a file of another form, or one of several: no PUT has written it. */
static bool check_ours(const struct model_store *store, const struct model_row *row,
                       struct fault *fault)
{
    const char *ending = strrchr(row->source, '.');
    const char *slash = strrchr(row->source, '/');
    struct model_gguf_name name;
    return (ending && strcmp(ending, ".safetensors") == 0)
           || (model_gguf_name(slash ? slash + 1 : row->source, &name) && name.count == 1)
           || fault_set(fault, FAULT_CONFLICT,
                        "model '%s' is the file '%s', which is not the whole of a safetensors or "
                        "GGUF file and is removed on disk, not over HTTP",
                        row->name, model_paths_relative(store->directory, row->source));
}

/* The caller holds "changing". */
static bool remove_model(struct model_store *store, const char *name, struct model_row *old,
                         struct fault *fault)
{
    const struct file_folder folder = models_folder(store);
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
    const bool good = remove_model(store, name, &old, fault);
    pthread_mutex_unlock(&store->changing);
    model_row_free(&old);
    return good;
}
