/* SPDX-License-Identifier: Apache-2.0 */
/* model_table.c - rows in a sorted array. */
#include "models/store/model_table.h"

#include "base/grow.h"
#include "base/names.h"

#include <stdlib.h>
#include <string.h>

bool model_table_reserve(struct model_table *table, struct fault *fault)
{
    struct model_row *rows =
        array_with_room(table->rows, table->count, &table->capacity, sizeof *rows);
    if (!rows)
        return fault_no_memory(fault);
    table->rows = rows;
    return true;
}

bool model_row_init(struct model_row *row, const char *name, int64_t version,
                    enum model_origin origin, struct model *model, const char *source,
                    const char *reason, struct fault *fault)
{
    *row = (struct model_row){
        .name = strdup(name),
        .version = version,
        .origin = origin,
        .state = model ? MODEL_READY : MODEL_FAILED,
        .model = model,
        .source = strdup(source),
        .reason = model ? NULL : strdup(reason),
    };
    if (row->name && row->source && (model || row->reason))
        return true;
    model_row_free(row);
    return fault_no_memory(fault);
}

void model_row_free(struct model_row *row)
{
    if (!row)
        return;
    model_retire(row->model);
    free(row->name);
    free(row->source);
    free(row->reason);
    free(row->refused);
    *row = (struct model_row){ .name = NULL };
}

/* The index of the first row whose name and version are not before these. */
static int64_t row_place(const struct model_table *table, const char *name, int64_t version)
{
    int64_t low = 0, high = table->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const struct model_row *row = &table->rows[middle];
        const int order = strcmp(row->name, name);
        if (order < 0 || (order == 0 && row->version < version))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_name_at(const struct model_table *table, int64_t place, const char *name)
{
    return place < table->count && strcmp(table->rows[place].name, name) == 0;
}

struct model_row *model_table_rows(const struct model_table *table, const char *name,
                                   int64_t *count)
{
    const int64_t first = row_place(table, name, 0);
    *count = 0;
    while (is_name_at(table, first + *count, name))
        (*count)++;
    return *count > 0 ? &table->rows[first] : NULL;
}

struct model_row *model_table_find(const struct model_table *table, const char *name)
{
    int64_t count;
    struct model_row *rows = model_table_rows(table, name, &count);
    for (int64_t i = count - 1; i >= 0; i--)
        if (!model_row_reason(&rows[i]))
            return &rows[i];
    return count > 0 ? &rows[count - 1] : NULL;
}

struct model_row *model_table_find_version(const struct model_table *table, const char *name,
                                           int64_t version)
{
    const int64_t place = row_place(table, name, version);
    return is_name_at(table, place, name) && table->rows[place].version == version
               ? &table->rows[place]
               : NULL;
}

bool model_row_is_default(const struct model_table *table, const struct model_row *row)
{
    return model_table_find(table, row->name) == row;
}

void model_table_set(struct model_table *table, const struct model_row *row, struct model_row *old)
{
    const int64_t place = row_place(table, row->name, row->version);
    struct model_row *rows = table->rows + place;
    *old = (struct model_row){ .name = NULL };
    if (is_name_at(table, place, row->name) && rows->version == row->version) {
        *old = *rows;
    } else {
        memmove(rows + 1, rows, (size_t)(table->count - place) * sizeof *rows);
        table->count++;
    }
    *rows = *row;
}

void model_table_take(struct model_table *table, struct model_row *row, struct model_row *old)
{
    *old = *row;
    table->count--;
    memmove(row, row + 1, (size_t)(table->rows + table->count - row) * sizeof *row);
}

void model_table_free(struct model_table *table)
{
    for (int64_t i = 0; i < table->count; i++)
        model_row_free(&table->rows[i]);
    free(table->rows);
    *table = (struct model_table){ .rows = NULL };
}

const char *model_row_state(const struct model_row *row)
{
    if (row->state == MODEL_LOADING)
        return "LOADING";
    return model_row_reason(row) ? "UNAVAILABLE" : "READY";
}

const char *model_row_reason(const struct model_row *row)
{
    if (!row->model)
        return row->reason;
    return model_damage(row->model);
}

void model_table_names(const struct model_table *table, const struct model_view *view, char *text,
                       size_t size)
{
    struct name_list list = name_list_in(text, size);
    for (int64_t i = 0; i < table->count; i++) {
        const struct model_row *row = &table->rows[i];
        if ((i == 0 || strcmp(row->name, row[-1].name) != 0) && model_view_shows(view, row->name))
            name_list_add(&list, row->name);
    }
    name_list_end(&list);
}
