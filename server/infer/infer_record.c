/* infer_record.c - see infer_record.h. */
#include "infer/infer_record.h"

#include <string.h>

_Static_assert((int)REQUEST_MODEL_MAX == (int)MODEL_NAME_MAX, "a record holds any model's name");

static void set_model(struct request_record *record, const struct model *model)
{
    memcpy(record->model, model->name, sizeof record->model);
    record->version = model->version;
}

static void raise(int64_t *largest, int64_t value)
{
    if (value > *largest)
        *largest = value;
}

void infer_record(struct request_record *record, const struct infer_request *request)
{
    bool is_known = false;
    record->item_count = request->item_count;
    if (request->model)
        set_model(record, request->model);
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct infer_item *item = &request->items[i];
        if (!item->model)
            continue;
        if (!is_known) {
            set_model(record, item->model);
            record->layer = item->layer_index;
            is_known = true;
        }
        raise(&record->q_len, item->q_len);
        raise(&record->kv_len, item->kv_len_max);
        raise(&record->q_heads, item->layer.q_heads);
        raise(&record->kv_heads, item->layer.kv_heads);
        raise(&record->head_dim, item->layer.head_dim);
        raise(&record->v_head_dim, item->layer.v_head_dim);
    }
}
