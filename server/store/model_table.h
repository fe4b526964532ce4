/* model_table.h - the store's rows, sorted by name and version. Not thread-safe:
 * model_store*.c hold the locks. */
#ifndef ATTND_MODEL_TABLE_H
#define ATTND_MODEL_TABLE_H

#include "model/model.h"

enum model_origin { MODEL_BUILT_IN, MODEL_FILE, MODEL_FOLDER };

enum model_state { MODEL_READY, MODEL_FAILED, MODEL_UNLOADED, MODEL_LOADING };

/* A version of a name: a model, or the reason why there is none. */
struct model_row {
    char *name;
    int64_t version;
    enum model_origin origin;
    enum model_state state;
    struct model *model;   /* one reference is the row's; NULL unless the state is MODEL_READY */
    char *source, *reason; /* reason is NULL where there is a model */
    char *refused;         /* why what is on disk does not serve in the model's place, or NULL */
    uint64_t fingerprint;  /* of what was last read from disk, whether it serves or not */
};

struct model_table {
    struct model_row *rows;
    int64_t count, capacity;
};

/* Room for one more row, so that model_table_set() cannot fail. */
bool model_table_reserve(struct model_table *table, struct fault *fault);

/* A row of its own copies, READY, or FAILED where model is NULL: reason then says why. The model's
 * reference passes to the row, also on false. */
bool model_row_init(struct model_row *row, const char *name, int64_t version,
                    enum model_origin origin, struct model *model, const char *source,
                    const char *reason, struct fault *fault);
void model_row_free(struct model_row *row);

/* The rows of a name lie together: the first of them, and how many there are. */
struct model_row *model_table_rows(const struct model_table *table, const char *name,
                                   int64_t *count);

/* What the name alone stands for: its highest version that can be used, or where there is none its
 * highest; NULL where there is none of that name. */
struct model_row *model_table_find(const struct model_table *table, const char *name);

/* NULL where the name has no such version. */
struct model_row *model_table_find_version(const struct model_table *table, const char *name,
                                           int64_t version);

/* Puts row in place, which then belongs to the table; *old is the row it replaces, for the caller
 * to free, or zeroed. There must be room. */
void model_table_set(struct model_table *table, const struct model_row *row, struct model_row *old);

/* Takes a row of the table out; it is then the caller's. */
void model_table_take(struct model_table *table, struct model_row *row, struct model_row *old);

void model_table_free(struct model_table *table);

/* Whether the row is what its name alone stands for. */
bool model_row_is_default(const struct model_table *table, const struct model_row *row);

/* "READY", "LOADING" or "UNAVAILABLE". */
const char *model_row_state(const struct model_row *row);

/* Why a row's model cannot be used; NULL where it can. */
const char *model_row_reason(const struct model_row *row);

/* "demo, sdpa, tiny and 12 more": the names, each once, cut at size. */
void model_table_names(const struct model_table *table, char *text, size_t size);

#endif
