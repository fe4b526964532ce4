/* SPDX-License-Identifier: Apache-2.0 */
/* model_store.c - loads the models at the start, and finds a model by its name. */
#include "base/names.h"
#include "host/file_save.h"
#include "models/model/model_continue.h"
#include "models/model/model_describe.h"
#include "models/store/model_open.h"
#include "models/store/model_paths.h"
#include "models/store/model_store_internal.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------- loading -- */

bool model_store_read(const struct model_store *store, struct model **model,
                      const struct model_place *place, const char *config, struct fault *fault)
{
    const char *source = model_paths_relative(store->directory, place->source);
    struct fault reason = { .code = FAULT_NONE };
    const struct model_files files = {
        .path = place->path,
        .config_path = place->config_path,
        .config = config,
        .is_folder = place->is_folder,
        .root = place->root,
    };
    if (place->problem)
        fault_set(&reason, FAULT_BINARY, "%s", place->problem);
    else if (model_load_files(model, place->name, source, &files, &reason)) {
        (*model)->version = place->version;
        return true;
    }
    *model = NULL;
    *fault = reason;
    model_paths_hide(store->directory, fault);
    return false;
}

bool model_store_row(struct model_row *row, const struct model_place *place, struct model *model,
                     const char *reason, struct fault *fault)
{
    const enum model_origin origin = place->is_folder ? MODEL_FOLDER : MODEL_FILE;
    const bool good = model_row_init(row, place->name, place->version, origin, model, place->source,
                                     reason, fault);
    row->fingerprint = place->fingerprint;
    return good;
}

/* Puts row in the table, which then owns it. On false row is freed. */
static bool add_row(struct model_store *store, struct model_row *row, struct fault *fault)
{
    struct model_row old;
    if (!model_table_reserve(&store->table, fault)) {
        model_row_free(row);
        return false;
    }
    model_table_set(&store->table, row, &old);
    model_row_free(&old);
    return true;
}

static bool add_built_in(struct model_store *store,
                         bool (*create)(struct model **model, struct fault *fault),
                         struct fault *fault)
{
    struct model *model;
    struct model_row row;
    return create(&model, fault)
           && model_row_init(&row, model->name, model->version, MODEL_BUILT_IN, model,
                             model->source, NULL, fault)
           && add_row(store, &row, fault);
}

static void log_passed_over(const struct model_place *place, const char *reason)
{
    log_line(LOG_WARNING, "model passed over", LOG_STRING("name", place->name),
             LOG_STRING("source", place->source), LOG_STRING("reason", reason));
}

bool model_store_has_name(const struct model_place *place)
{
    if (model_paths_name_good(place->name))
        return true;
    log_passed_over(place, place->problem);
    return false;
}

/* A name is listed once, so a second place of the same name is only logged. */
static bool is_taken(struct model_store *store, const struct model_place *place)
{
    const struct model_row *row = model_table_find(&store->table, place->name);
    if (!row || (row->origin == MODEL_FOLDER && place->is_folder))
        return false;
    log_passed_over(place, row->origin == MODEL_BUILT_IN ? "a built-in model has this name"
                           : row->origin == MODEL_FOLDER
                               ? "a directory has this name too, and is served"
                               : "another file has this name too, and is served");
    return true;
}

/* *is_served: the place is now a model that serves. False: no memory. */
static bool load_place(struct model_store *store, const struct model_place *place, bool *is_served,
                       struct fault *fault)
{
    struct fault reason = { .code = FAULT_NONE };
    struct model *model;
    struct model_row row;
    *is_served = false;
    if (!model_store_has_name(place) || is_taken(store, place))
        return true;
    *is_served = model_store_read(store, &model, place, NULL, &reason);
    return model_store_row(&row, place, model, reason.message, fault)
           && add_row(store, &row, fault);
}

/* Loads all places; the store keeps the names of those that do not serve. */
static bool load_places(struct model_store *store, const struct model_directory *directory,
                        int *failed_count, struct fault *fault)
{
    struct name_list failed = name_list_in(store->failed_names, sizeof store->failed_names);
    for (int64_t i = 0; i < directory->count; i++) {
        const struct model_place *place = &directory->places[i];
        char shown[MODEL_NAME_MAX + 1];
        bool is_served;
        if (!load_place(store, place, &is_served, fault))
            return false;
        if (is_served)
            continue;
        (*failed_count)++;
        name_list_add(&failed,
                      model_paths_name_good(place->name)
                          ? place->name
                          : name_show(shown, sizeof shown, place->name, strlen(place->name)));
    }
    name_list_end(&failed);
    return true;
}

const char *model_store_failed_names(const struct model_store *store)
{
    return store->failed_names;
}

static bool load_directory(struct model_store *store, const struct model_store_options *options,
                           int *failed_count, struct fault *fault)
{
    struct model_directory directory;
    const char *name = options->model_name;
    if (name && (!model_paths_name_good(name) || model_table_find(&store->table, name)))
        return fault_set(fault, FAULT_OPTION,
                         "the model's name is '%.140s'; expected " MODEL_PATHS_NAME_RULE
                         ", and neither demo nor sdpa",
                         name);
    file_save_clean(options->directory);
    if (!model_directory_scan(&directory, options->directory, name, fault))
        return false;
    store->is_one_model = directory.is_one_model;
    if (name && !directory.is_one_model)
        log_line(LOG_WARNING, "model name not used", LOG_STRING("name", name),
                 LOG_STRING("reason", "the models' directory has no config.json of its own"));
    const bool good = load_places(store, &directory, failed_count, fault);
    model_directory_free(&directory);
    return good;
}

bool model_store_create(struct model_store **store, const struct model_store_options *options,
                        int *failed_count, struct fault *fault)
{
    struct model_store *made = calloc(1, sizeof *made);
    *failed_count = 0;
    if (!made)
        return fault_no_memory(fault);
    made->directory = options->directory;
    pthread_rwlock_init(&made->lock, NULL);
    pthread_mutex_init(&made->changing, NULL);
    if (!add_built_in(made, model_create_demo, fault)
        || !add_built_in(made, model_create_sdpa, fault)
        || (options->directory && !load_directory(made, options, failed_count, fault))) {
        model_store_free(made);
        return false;
    }
    model_store_count(made);
    *store = made;
    return true;
}

void model_store_count(const struct model_store *store)
{
    int64_t ready_count = 0, failed_count = 0;
    for (int64_t i = 0; i < store->table.count; i++) {
        ready_count += store->table.rows[i].state == MODEL_READY;
        failed_count += store->table.rows[i].state == MODEL_FAILED;
    }
    metrics_gauge_set(METRICS_MODELS_READY, ready_count);
    metrics_gauge_set(METRICS_MODELS_FAILED, failed_count);
}

void model_store_free(struct model_store *store)
{
    if (!store)
        return;
    model_table_free(&store->table);
    pthread_mutex_destroy(&store->changing);
    pthread_rwlock_destroy(&store->lock);
    free(store);
}

/* --------------------------------------------------------------- finding -- */

/* The words are Triton's, because its clients look for them. */
bool model_store_unknown(const struct model_store *store, const struct model_view *view,
                         const char *name, struct fault *fault)
{
    char names[MODEL_STORE_NAMES_BYTES];
    model_table_names(&store->table, view, names, sizeof names);
    return fault_set(fault, FAULT_NOT_FOUND,
                     "Request for unknown model: '%.60s' is not found; there are %s", name, names);
}

/* The row of a name, or of the only model that is not built in. */
static const struct model_row *find_row(const struct model_store *store,
                                        const struct model_view *view, const char *name,
                                        struct fault *fault)
{
    const struct model_row *only = NULL;
    int64_t count = 0;
    char names[MODEL_STORE_NAMES_BYTES];
    if (name) {
        const struct model_row *row =
            model_view_shows(view, name) ? model_table_find(&store->table, name) : NULL;
        if (!row)
            model_store_unknown(store, view, name, fault);
        return row;
    }
    for (int64_t i = 0; i < store->table.count; i++) {
        const struct model_row *row = &store->table.rows[i];
        if (row->origin != MODEL_BUILT_IN && model_row_is_default(&store->table, row)
            && model_view_shows(view, row->name)) {
            only = row;
            count++;
        }
    }
    if (count == 1)
        return only;
    model_table_names(&store->table, view, names, sizeof names);
    fault_set(fault, FAULT_FIELD, "model is missing; %s %s",
              count == 0 ? "there are only built-in ones:" : "there are", names);
    return NULL;
}

static const struct model_row *find_version(const struct model_store *store,
                                            const struct model_view *view, const char *name,
                                            const char *version, struct fault *fault)
{
    char numbers[MODEL_STORE_NAMES_BYTES], number[MODEL_PATHS_VERSION_DIGITS_MAX + 1];
    int64_t count;
    const struct model_row *found = find_row(store, view, name, fault);
    if (!found || !version[0])
        return found;
    found = model_table_find_version(&store->table, name, model_paths_version(version));
    if (found)
        return found;
    const struct model_row *rows = model_table_rows(&store->table, name, &count);
    struct name_list list = name_list_in(numbers, sizeof numbers);
    for (int64_t i = 0; i < count; i++) {
        snprintf(number, sizeof number, "%" PRId64, rows[i].version);
        name_list_add(&list, number);
    }
    name_list_end(&list);
    fault_set(fault, FAULT_NOT_FOUND,
              "Request for unknown model: '%.60s' version %.40s is not found; it has %s", name,
              version, numbers);
    return NULL;
}

bool model_store_resolve(struct model_store *store, const struct model_view *view, const char *name,
                         struct model **model, struct fault *fault)
{
    return model_store_resolve_version(store, view, name, "", model, fault);
}

bool model_store_resolve_version(struct model_store *store, const struct model_view *view,
                                 const char *name, const char *version, struct model **model,
                                 struct fault *fault)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct model_row *row = find_version(store, view, name, version, fault);
    const char *reason = row ? model_row_reason(row) : NULL;
    const bool good = row && !reason;
    if (good)
        *model = model_retain(row->model);
    else if (row)
        fault_set(fault, FAULT_LOADING, "model '%s' is not available: %s", row->name, reason);
    pthread_rwlock_unlock(&store->lock);
    return good;
}

static void describe_row(const struct model_store *store, const struct model_row *row,
                         struct text *text)
{
    if (row->model)
        model_describe(row->model, text);
    else
        model_describe_absent(row->name, model_paths_relative(store->directory, row->source),
                              model_row_state(row), row->reason, text);
}

/* The models that completions takes, in the form of OpenAI. */
static void describe_data(const struct model_store *store, const struct model_view *view,
                          struct text *text)
{
    bool some = false;
    for (int64_t i = 0; i < store->table.count; i++) {
        const struct model_row *row = &store->table.rows[i];
        if (!model_row_is_default(&store->table, row) || !model_view_shows(view, row->name)
            || model_row_reason(row) || model_complete_reason(row->model))
            continue;
        text_raw(text, some ? ",{" : "{");
        model_describe_openai(row->name, row->model->created_s, text);
        text_raw(text, "}");
        some = true;
    }
}

void model_store_describe_all(struct model_store *store, const struct model_view *view,
                              struct text *text)
{
    bool some = false;
    text_raw(text, "{\"models\":[");
    pthread_rwlock_rdlock(&store->lock);
    for (int64_t i = 0; i < store->table.count; i++) {
        const struct model_row *row = &store->table.rows[i];
        if (!model_row_is_default(&store->table, row) || !model_view_shows(view, row->name))
            continue;
        text_raw(text, some ? "," : "");
        describe_row(store, row, text);
        some = true;
    }
    text_raw(text, "],\"object\":\"list\",\"data\":[");
    describe_data(store, view, text);
    pthread_rwlock_unlock(&store->lock);
    text_raw(text, "]}");
}

bool model_store_describe(struct model_store *store, const struct model_view *view,
                          const char *name, struct text *text, struct fault *fault)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct model_row *row = find_row(store, view, name, fault);
    if (row) {
        describe_row(store, row, text);
        text->used -= text->used > 0; /* its last brace: four members follow */
        text_raw(text, ",");
        model_describe_openai(row->name, row->model ? row->model->created_s : 0, text);
        text_raw(text, "}");
    }
    pthread_rwlock_unlock(&store->lock);
    return row != NULL;
}

void model_store_versions(struct model_store *store, const char *name, struct text *text)
{
    int64_t count;
    bool some = false;
    text_raw(text, "[");
    pthread_rwlock_rdlock(&store->lock);
    const struct model_row *rows = model_table_rows(&store->table, name, &count);
    for (int64_t i = 0; i < count; i++) {
        if (model_row_reason(&rows[i]))
            continue;
        text_raw(text, some ? ",\"" : "\"");
        text_integer(text, rows[i].version);
        text_raw(text, "\"");
        some = true;
    }
    pthread_rwlock_unlock(&store->lock);
    text_raw(text, "]");
}

void model_store_each(struct model_store *store, const struct model_view *view,
                      void (*visit)(void *context, const struct model_listing *listing),
                      void *context)
{
    pthread_rwlock_rdlock(&store->lock);
    for (int64_t i = 0; i < store->table.count; i++) {
        const struct model_row *row = &store->table.rows[i];
        if (!model_view_shows(view, row->name))
            continue;
        const char *reason = model_row_reason(row);
        const struct model_listing listing = {
            .name = row->name,
            .version = row->version,
            .is_default = model_row_is_default(&store->table, row),
            .state = model_row_state(row),
            .model = reason ? NULL : row->model,
            .reason = reason,
            .refused = reason ? NULL : row->refused,
        };
        visit(context, &listing);
    }
    pthread_rwlock_unlock(&store->lock);
}
