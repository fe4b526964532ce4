/* session_file_make.c - see session_file_read.h: a session of what was read and checked. */
#include "session/session_file_read.h"

#include "model/model_config.h"
#include "model/model_identity.h"
#include "session/session_groups.h"
#include "session/session_window.h"

#include <inttypes.h>
#include <string.h>

static bool check_shape(const struct session_file_layer *layer, const struct model *model,
                        struct fault *fault)
{
    const struct attn_layer *own = &model->layers[layer->number].layer;
    const struct session_shape *shape = &layer->shape;
    if (model->parameterless || layer->kv_len == 0
        || (shape->kv_heads == own->kv_heads && shape->head_dim == own->head_dim
            && shape->v_head_dim == own->v_head_dim))
        return true;
    return fault_set(fault, FAULT_SHAPE,
                     "layer %" PRId64 " of the session's file has %" PRId64 " heads of %" PRId64
                     " and %" PRId64 " columns; that of model '%s' has %" PRId64 " of %" PRId64
                     " and %" PRId64,
                     layer->number, shape->kv_heads, shape->head_dim, shape->v_head_dim,
                     model->name, own->kv_heads, own->head_dim, own->v_head_dim);
}

static bool check_model(const struct session_file_read *read, struct model *model,
                        struct fault *fault)
{
    char identity[SHA256_HEX_BYTES];
    if (!model_identity(model, identity, fault))
        return false;
    if (strcmp(identity, read->model_identity) != 0)
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

/* Room for the groups of int8, by as many as a long cache's pages have. */
static bool make_groups(struct session_rows *rows, const struct session_file_layer *from,
                        struct session_store *store, struct fault *fault)
{
    enum { PAGE_GROUPS = SESSION_PAGE_ROWS_MAX / ATTN_I8_ROWS };
    const char *numbers = from->entries[SESSION_FILE_GROUP_ROWS]->data;
    int64_t lengths[PAGE_GROUPS];
    for (int64_t first = 0, count; first < from->lengths.groups; first += count) {
        count = from->lengths.groups - first;
        if (count > PAGE_GROUPS)
            count = PAGE_GROUPS;
        memcpy(lengths, numbers + (size_t)first * sizeof *lengths, (size_t)count * sizeof *lengths);
        while (!session_groups_add(rows, session_store_budget(store), lengths, count, fault))
            if (fault->code != FAULT_FULL || !session_store_evict(store, rows->bytes_wanted))
                return false;
        fault->code = FAULT_NONE;
    }
    return true;
}

/* By as many rows as a long cache's pages have. */
static bool make_rows(struct session_rows *rows, int64_t kv_len, struct session_store *store,
                      struct fault *fault)
{
    while (rows->length < kv_len) {
        int64_t count = kv_len - rows->length;
        if (count > SESSION_PAGE_ROWS_MAX)
            count = SESSION_PAGE_ROWS_MAX;
        if (!session_store_begin_rows(store, rows, count, fault))
            return false;
        session_rows_end(rows, true);
    }
    return true;
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

static bool fill(struct session_layer *layer, const struct session_file_layer *from,
                 struct session_store *store, struct access_account *account, struct fault *fault)
{
    struct session_rows *rows = &layer->rows;
    rows->account = account;
    if (from->kv_len > 0) {
        rows->shape = from->shape;
        if ((rows->shape.dtype == ATTN_I8 && !make_groups(rows, from, store, fault))
            || !make_rows(rows, from->kv_len, store, fault))
            return false;
        for (int side = 0; side < session_file_side_count(rows->shape.dtype); side++)
            copy_side(rows, side, from->entries[side]->data);
    }
    session_layer_show(layer);
    return true;
}

static size_t layer_bytes(const struct session_file_layer *layer)
{
    struct session_shape shape = layer->shape;
    if (shape.dtype != ATTN_I8)
        return session_shape_bytes(&shape, layer->kv_len);
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
    session->sinks = read->sinks;
    session->ttl_ns = read->ttl_ns;
    session->is_evictable = read->is_evictable;
    for (int64_t i = 0; i < read->layer_count; i++)
        if (!fill(&session->layers[i], &read->layers[i], store, account, fault)) {
            session_release(session);
            return NULL;
        }
    for (int64_t i = 0; i < read->layer_count; i++)
        session_window_restore(session, &session->layers[i], read->layers[i].dropped);
    return session;
}
