/* session_file_make.c - see session_file_read.h: a session of what was read and checked. */
#include "session/session_file_read.h"

#include "model/model_config.h"
#include "model/model_identity.h"

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

/* Copies rows [first, first + count) of each head of a tensor behind the rows that are there. */
static void copy_side(const struct session_rows *rows, const char *numbers, bool of_values,
                      int64_t kv_len, int64_t first, int64_t count)
{
    const struct session_part *part = &rows->parts[rows->part_count - 1];
    const int64_t columns = of_values ? rows->shape.v_head_dim : rows->shape.head_dim;
    const size_t row_bytes = (size_t)columns * attn_dtype_size(rows->shape.dtype);
    char *to = of_values ? part->page->value : part->page->key;
    for (int64_t head = 0; head < rows->shape.kv_heads; head++) {
        const int64_t row = head * part->page->rows + part->row + first - part->first;
        memcpy(to + (size_t)row * row_bytes, numbers + (size_t)(head * kv_len + first) * row_bytes,
               (size_t)count * row_bytes);
    }
}

/* By as many rows as a long cache's pages have. */
static bool fill(struct session_layer *layer, const struct session_file_layer *from,
                 struct session_store *store, struct access_account *account, struct fault *fault)
{
    struct session_rows *rows = &layer->rows;
    rows->account = account;
    if (from->kv_len > 0)
        rows->shape = from->shape;
    for (int64_t first = 0, count; first < from->kv_len; first += count) {
        count = from->kv_len - first;
        if (count > SESSION_PAGE_ROWS_MAX)
            count = SESSION_PAGE_ROWS_MAX;
        if (!session_store_begin_rows(store, rows, count, fault))
            return false;
        copy_side(rows, from->entries[0]->data, false, from->kv_len, first, count);
        copy_side(rows, from->entries[1]->data, true, from->kv_len, first, count);
        session_rows_end(rows, true);
    }
    session_layer_show(layer);
    return true;
}

/* Of all layers. The file's bytes are there, so the sum does not overflow. */
static size_t bytes_of(const struct session_file_read *read)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < read->layer_count; i++)
        bytes += session_shape_bytes(&read->layers[i].shape, read->layers[i].kv_len);
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
    session->ttl_ns = read->ttl_ns;
    session->is_evictable = read->is_evictable;
    for (int64_t i = 0; i < read->layer_count; i++)
        if (!fill(&session->layers[i], &read->layers[i], store, account, fault)) {
            session_release(session);
            return NULL;
        }
    return session;
}
