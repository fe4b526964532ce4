/* SPDX-License-Identifier: Apache-2.0 */
/* model_table.h - the store's rows, sorted by name and version. Not thread-safe: model_store*.c
 * hold the locks. */
#ifndef ATTND_MODEL_TABLE_H
#define ATTND_MODEL_TABLE_H

#include "models/store/model_store.h"

enum model_origin { MODEL_BUILT_IN, MODEL_FILE, MODEL_FOLDER };

enum model_state { MODEL_READY, MODEL_FAILED, MODEL_UNLOADED, MODEL_LOADING };

/* One version of a name: a model, or the reason why there is none. */
struct model_row {
    char *name;
    int64_t version;
    enum model_origin origin;
    enum model_state state;
    struct model *model;   /* one reference is the row's; NULL unless the state is MODEL_READY */
    char *source, *reason; /* reason is NULL where there is a model */
    char *refused; /* why the files now on disk do not serve instead of model; NULL: they do */
    uint64_t fingerprint; /* of the files last read, whether they serve or not */
};

struct model_table {
    struct model_row *rows;
    int64_t count, capacity;
};

/* Makes room for one more row, so that model_table_set() cannot fail. */
bool model_table_reserve(struct model_table *table, struct fault *fault);

/* Fills a row with copies of the strings. Its state is READY; where model is NULL it is FAILED, and
 * reason says why. The reference to model passes to the row, also on false. */
bool model_row_init(struct model_row *row, const char *name, int64_t version,
                    enum model_origin origin, struct model *model, const char *source,
                    const char *reason, struct fault *fault);
void model_row_free(struct model_row *row);

/* The first row of a name and how many rows the name has: they lie together. NULL: none. */
struct model_row *model_table_rows(const struct model_table *table, const char *name,
                                   int64_t *count);

/* The row that the name alone means: its highest version that can be used, else its highest
 * version. NULL: no row has the name. */
struct model_row *model_table_find(const struct model_table *table, const char *name);

/* NULL where the name has no such version. */
struct model_row *model_table_find_version(const struct model_table *table, const char *name,
                                           int64_t version);

/* Puts row in its place in the table, which then owns it. *old is the row that it replaces, the
 * caller's to free; zeroed: none. There must be room for a row. */
void model_table_set(struct model_table *table, const struct model_row *row, struct model_row *old);

/* Takes a row out of the table. *old is the row, the caller's to free. */
void model_table_take(struct model_table *table, struct model_row *row, struct model_row *old);

void model_table_free(struct model_table *table);

/* Whether the name alone means this row. */
bool model_row_is_default(const struct model_table *table, const struct model_row *row);

/* "READY", "LOADING" or "UNAVAILABLE". */
const char *model_row_state(const struct model_row *row);

/* Why a row's model cannot be used; NULL where it can. */
const char *model_row_reason(const struct model_row *row);

/* "demo, sdpa, tiny and 12 more": the names that a view shows, each once, cut at size. */
void model_table_names(const struct model_table *table, const struct model_view *view, char *text,
                       size_t size);

#endif
