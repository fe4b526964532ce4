/* model_store.c - what the directory holds at the start, and finding a model by its name. */
#include "log.h"
#include "metrics.h"
#include "model_describe.h"
#include "model_directory.h"
#include "model_save.h"
#include "model_store_internal.h"

#include <stdlib.h>

enum { NAMES_BYTES = 200 };

/* --------------------------------------------------------------- loading -- */

static bool add_row(struct model_store *store, const char *name, enum model_origin origin,
                    struct model *model, const char *source, const char *reason,
                    struct fault *fault)
{
    struct model_row row, old;
    if (!model_row_init(&row, name, origin, model, source, reason, fault))
        return false;
    if (!model_table_reserve(&store->table, fault)) {
        model_row_free(&row);
        return false;
    }
    model_table_set(&store->table, &row, &old);
    model_row_free(&old);
    return true;
}

static bool add_built_in(struct model_store *store, struct fault *fault)
{
    struct model *demo, *sdpa;
    return model_create_demo(&demo, fault)
           && add_row(store, demo->name, MODEL_BUILT_IN, demo, demo->source, NULL, fault)
           && model_create_sdpa(&sdpa, fault)
           && add_row(store, sdpa->name, MODEL_BUILT_IN, sdpa, sdpa->source, NULL, fault);
}

/* A name that is taken cannot be listed again, so its second place is for the log. */
static bool is_taken(struct model_store *store, const struct model_place *place, int *failed_count)
{
    const struct model_row *row = model_table_find(&store->table, place->name);
    if (!row)
        return false;
    (*failed_count)++;
    log_line(LOG_WARNING, "model passed over", LOG_STRING("name", place->name),
             LOG_STRING("source", place->source),
             LOG_STRING("reason", row->origin == MODEL_BUILT_IN
                                      ? "a built-in model has this name"
                                      : "a directory has this name too, and is served"));
    return true;
}

static bool load_place(struct model_store *store, const struct model_place *place,
                       int *failed_count, struct fault *fault)
{
    struct fault reason = { .code = FAULT_NONE };
    struct model *model = NULL;
    if (is_taken(store, place, failed_count))
        return true;
    if (place->problem)
        fault_set(&reason, FAULT_NOT_FOUND, "%s", place->problem);
    else if (!model_load(&model, place->name, place->source, place->path, place->config_path,
                         &reason))
        model = NULL;
    *failed_count += model == NULL;
    return add_row(store, place->name, place->is_folder ? MODEL_FOLDER : MODEL_FILE, model,
                   place->source, reason.message, fault);
}

static bool load_directory(struct model_store *store, const struct model_store_options *options,
                           int *failed_count, struct fault *fault)
{
    struct model_directory directory;
    const char *name = options->model_name;
    if (name && (!model_directory_name_good(name) || model_table_find(&store->table, name)))
        return fault_set(fault, FAULT_OPTION,
                         "the model's name is '%.140s'; expected 1 to 128 letters, digits, '.', "
                         "'_' and '-', and neither demo nor sdpa",
                         name);
    model_save_clean(options->directory);
    if (!model_directory_scan(&directory, options->directory, name, fault))
        return false;
    store->is_one_model = directory.is_one_model;
    if (name && !directory.is_one_model)
        log_line(LOG_WARNING, "model name not used", LOG_STRING("name", name),
                 LOG_STRING("reason", "the models' directory has no config.json of its own"));
    bool good = true;
    for (int64_t i = 0; good && i < directory.count; i++)
        good = load_place(store, &directory.places[i], failed_count, fault);
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
    if (!add_built_in(made, fault)
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

bool model_store_unknown(const struct model_store *store, const char *name, struct fault *fault)
{
    char names[NAMES_BYTES];
    model_table_names(&store->table, true, names, sizeof names);
    return fault_set(fault, FAULT_NOT_FOUND, "no model is called '%.60s'; there are %s", name,
                     names);
}

/* The row of a name, or of the only model that is not built in. */
static const struct model_row *find_row(const struct model_store *store, const char *name,
                                        struct fault *fault)
{
    const struct model_row *only = NULL;
    int64_t count = 0;
    char names[NAMES_BYTES];
    if (name) {
        const struct model_row *row = model_table_find(&store->table, name);
        if (!row)
            model_store_unknown(store, name, fault);
        return row;
    }
    for (int64_t i = 0; i < store->table.count; i++)
        if (store->table.rows[i].origin != MODEL_BUILT_IN) {
            only = &store->table.rows[i];
            count++;
        }
    if (count == 1)
        return only;
    model_table_names(&store->table, count == 0, names, sizeof names);
    fault_set(fault, FAULT_FIELD, "model is missing; %s %s",
              count == 0 ? "there are only built-in ones:" : "it has to be one of", names);
    return NULL;
}

bool model_store_resolve(struct model_store *store, const char *name, struct model **model,
                         struct fault *fault)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct model_row *row = find_row(store, name, fault);
    const char *reason = row ? model_row_reason(row) : NULL;
    const bool good = row && !reason;
    if (good)
        *model = model_retain(row->model);
    else if (row)
        fault_set(fault, FAULT_LOADING, "model '%s' is not available: %s", row->name, reason);
    pthread_rwlock_unlock(&store->lock);
    return good;
}

static void describe_row(const struct model_row *row, struct text *text)
{
    if (row->model)
        model_describe(row->model, text);
    else
        model_describe_absent(row->name, row->source, model_row_state(row), row->reason, text);
}

void model_store_describe_all(struct model_store *store, struct text *text)
{
    text_raw(text, "{\"models\":[");
    pthread_rwlock_rdlock(&store->lock);
    for (int64_t i = 0; i < store->table.count; i++) {
        text_raw(text, i > 0 ? "," : "");
        describe_row(&store->table.rows[i], text);
    }
    pthread_rwlock_unlock(&store->lock);
    text_raw(text, "]}");
}

bool model_store_describe(struct model_store *store, const char *name, struct text *text,
                          struct fault *fault)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct model_row *row = find_row(store, name, fault);
    if (row)
        describe_row(row, text);
    pthread_rwlock_unlock(&store->lock);
    return row != NULL;
}

void model_store_each(struct model_store *store,
                      void (*visit)(void *context, const struct model_listing *listing),
                      void *context)
{
    pthread_rwlock_rdlock(&store->lock);
    for (int64_t i = 0; i < store->table.count; i++) {
        const struct model_row *row = &store->table.rows[i];
        const char *reason = model_row_reason(row);
        const struct model_listing listing = {
            .name = row->name,
            .state = model_row_state(row),
            .model = reason ? NULL : row->model,
            .reason = reason,
        };
        visit(context, &listing);
    }
    pthread_rwlock_unlock(&store->lock);
}
