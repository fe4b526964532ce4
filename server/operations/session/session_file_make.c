/* SPDX-License-Identifier: Apache-2.0 */
/* session_file_make.c - makes a session from a file that was read and checked, in whole pages. */
#include "operations/session/session_file_read.h"

#include "models/model/model.h"
#include "models/model/model_config.h"

#include <inttypes.h>
#include <string.h>

static bool check_shape(const struct session_file_layer *layer, const struct model *model,
                        struct fault *fault)
{
    const struct attn_layer *own = &model->layers[layer->number].layer;
    const struct session_shape *shape = &layer->shape;
    const bool is_any = model->parameterless && shape->v_head_dim > 0;
    const int64_t numbers = model_state_numbers(model, layer->number);
    if (layer->is_state != model->layers[layer->number].lacks_attention
        || (layer->is_state && layer->kv_len > 0 && shape->head_dim != numbers))
        return fault_set(fault, FAULT_SHAPE,
                         "layer %" PRId64 " of the session's file has %s; that of model '%s', of "
                         "the kind '%s', keeps a state of %" PRId64 " numbers",
                         layer->number, layer->is_state ? "states of another size" : "keys",
                         model->name, model_layer_kind(&model->layers[layer->number]), numbers);
    if (layer->is_state)
        return true;
    if (is_any || layer->kv_len == 0
        || (shape->kv_heads == own->kv_heads && shape->head_dim == own->head_dim
            && shape->v_head_dim == session_value_columns(own, shape->dtype)))
        return true;
    return fault_set(
        fault, FAULT_SHAPE,
        "layer %" PRId64 " of the session's file has %" PRId64 " heads of %" PRId64 " and %" PRId64
        " columns; that of model '%s' has %" PRId64 " of %" PRId64 " and %" PRId64,
        layer->number, shape->kv_heads, shape->head_dim, shape->v_head_dim, model->name,
        own->kv_heads, own->head_dim, session_value_columns(own, shape->dtype));
}

static bool check_model(const struct session_file_read *read, struct model *model,
                        struct fault *fault)
{
    char identity[SHA256_HEX_BYTES];
    if (read->model_identity && !model_identity(model, identity, fault))
        return false;
    if (read->model_identity && strcmp(identity, read->model_identity) != 0)
        return fault_set_at(fault, "/model_sha256", FAULT_CONFLICT,
                            "the session's file belongs to another model '%.60s' than the one that "
                            "is here: its parameters or its config are others",
                            model->name);
    for (int64_t i = 0; i < read->layer_count; i++) {
        if (read->layers[i].number >= model->layer_count)
            return fault_set(fault, FAULT_NOT_FOUND,
                             "the session's file has layer %" PRId64 "; model '%s' has %" PRId64
                             ", counted from 0",
                             read->layers[i].number, model->name, model->layer_count);
        if (!check_shape(&read->layers[i], model, fault))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------- the numbers -- */

/* A file that is made into a layer's rows. */
struct making {
    const struct session_file_layer *from;
    int64_t first_keys; /* evicted positions are behind them */
    struct session_rows *rows;
    struct session_store *store;
};

/* Evicted positions, at their place. */
static bool skip(const struct making *making, struct fault *fault)
{
    struct session_rows *rows = making->rows;
    if (making->from->gone == 0 || rows->dropped > 0 || rows->length < making->first_keys)
        return true;
    return session_rows_skip(rows, making->from->gone) || fault_no_memory(fault);
}

/* How many of the groups from the first one on go into one page: evicted positions lie between two.
 */
static int64_t count_groups(const struct making *making, int64_t first, int64_t *lengths,
                            int64_t most)
{
    const char *numbers = making->from->entries[SESSION_FILE_GROUP_ROWS]->data;
    const int64_t left = making->from->lengths.groups - first;
    const bool comes_hole = making->from->gone > 0 && making->rows->dropped == 0;
    int64_t count = 0, rows = making->rows->length;
    for (; count < left && count < most; rows += lengths[count++]) {
        if (comes_hole && count > 0 && rows == making->first_keys)
            break;
        memcpy(&lengths[count], numbers + (size_t)(first + count) * sizeof *lengths,
               sizeof *lengths);
    }
    return count;
}

/* Room for the groups of int8, by as many as the cache's pages have. */
static bool make_groups(const struct making *making, struct fault *fault)
{
    int64_t lengths[SESSION_PAGE_ROWS_MAX / ATTN_I8_ROWS];
    const int64_t most = session_rows_page_rows_max(making->rows) / ATTN_I8_ROWS;
    for (int64_t first = 0, count; first < making->from->lengths.groups; first += count) {
        if (!skip(making, fault))
            return false;
        count = count_groups(making, first, lengths, most);
        if (!session_store_add_groups(making->store, making->rows, lengths, count, fault))
            return false;
    }
    return skip(making, fault);
}

/* By as many rows as the cache's pages have. */
static bool make_rows(const struct making *making, int64_t end, struct fault *fault)
{
    struct session_rows *rows = making->rows;
    while (rows->length < end) {
        int64_t count = end - rows->length;
        if (count > session_rows_page_rows_max(rows))
            count = session_rows_page_rows_max(rows);
        if (!session_store_begin_rows(making->store, rows, count, fault))
            return false;
        session_rows_end(rows, true);
    }
    return true;
}

/* Room for all rows. */
static bool make_all(const struct making *making, struct fault *fault)
{
    const bool has_groups = making->rows->shape.dtype == ATTN_I8;
    const int64_t before = !has_groups && making->from->gone > 0 ? making->first_keys : 0;
    return (!has_groups || make_groups(making, fault)) && make_rows(making, before, fault)
           && skip(making, fault) && make_rows(making, making->from->kv_len, fault);
}

static void copy_side(const struct session_rows *rows, int side, const char *numbers)
{
    size_t bytes;
    for (int64_t head = 0; head < rows->shape.kv_heads; head++)
        for (int64_t i = 0; i < rows->part_count; i++) {
            char *to = session_file_run(rows, i, side, head, &bytes);
            if (to)
                memcpy(to, numbers, bytes);
            numbers += bytes;
        }
}

/* One state after the other, as appends have made them. */
static bool fill_states(struct session_rows *rows, const struct session_file_layer *from,
                        struct session_store *store, struct fault *fault)
{
    const size_t bytes = (size_t)from->shape.head_dim * sizeof(float);
    const char *lengths = from->entries[SESSION_FILE_STATE_AT]->data;
    const char *states = from->entries[SESSION_FILE_STATE]->data;
    rows->shape = from->shape;
    for (int64_t i = 0, at; i < from->lengths.rows; i++) {
        memcpy(&at, lengths + (size_t)i * sizeof at, sizeof at);
        if (!session_store_begin_rows(store, rows, at - rows->length, fault))
            return false;
        memcpy(session_state_after(rows), states + (size_t)i * bytes, bytes);
        session_rows_end(rows, true);
    }
    return true;
}

static bool fill(const struct session *session, struct session_layer *layer,
                 const struct session_file_layer *from, struct session_store *store,
                 struct fault *fault)
{
    struct session_rows *rows = &layer->rows;
    const struct making making = { from, session->first_keys, rows, store };
    rows->page_rows_max = session_window_page_rows(session);
    if (from->is_state && !fill_states(rows, from, store, fault))
        return false;
    if (from->kv_len > 0 && !from->is_state) {
        rows->shape = from->shape;
        if (!make_all(&making, fault))
            return false;
        for (int side = 0; side < SESSION_FILE_SIDE_COUNT; side++)
            if (session_file_has_side(rows->shape.dtype, false, side))
                copy_side(rows, side, from->entries[side]->data);
    }
    session_layer_show(layer);
    return true;
}

static size_t layer_bytes(const struct session_file_layer *layer)
{
    struct session_shape shape = layer->shape;
    if (shape.dtype != ATTN_I8)
        return session_shape_bytes(&shape, layer->lengths.rows);
    const size_t groups = session_shape_bytes(&shape, layer->lengths.groups * ATTN_I8_ROWS);
    shape.dtype = ATTN_F32;
    return groups + session_shape_bytes(&shape, layer->lengths.rest > 0 ? SESSION_PAGE_ROWS : 0);
}

/* Of all layers. The file's bytes are there, so the sum does not overflow. */
static size_t bytes_of(const struct session_file_read *read)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < read->layer_count; i++)
        bytes += layer_bytes(&read->layers[i]);
    return bytes;
}

struct session *session_file_make(const struct session_file_read *read, struct model *model,
                                  struct session_store *store, struct access_account *account,
                                  struct fault *fault)
{
    int64_t numbers[MODEL_LAYERS_MAX];
    if (!check_model(read, model, fault) || !session_store_make_room(store, bytes_of(read), fault))
        return NULL;
    for (int64_t i = 0; i < read->layer_count; i++)
        numbers[i] = read->layers[i].number;
    struct session *session = session_create(model, numbers, read->layer_count);
    if (!session)
        return fault_no_memory(fault), NULL;
    session->dtype = read->dtype;
    session->kv_len_max = read->kv_len_max;
    session->window = read->window;
    session->first_keys = read->first_keys;
    session->ttl_ns = read->ttl_ns;
    session->is_evictable = read->is_evictable;
    session->digest = read->digest ? strdup(read->digest) : NULL;
    if (read->digest && !session->digest) {
        session_release(session);
        return fault_no_memory(fault), NULL;
    }
    for (int64_t i = 0; i < read->layer_count; i++) {
        session->layers[i].rows.account = account;
        if (!fill(session, &session->layers[i], &read->layers[i], store, fault)) {
            session_release(session);
            return NULL;
        }
    }
    return session;
}
