/* wire_gradient.c - see wire_gradient.h. */
#include "wire/wire_gradient.h"

#include "infer/infer_gradient.h"
#include "wire/wire_v1.h"

bool wire_gradient_read(struct infer_request *request, const struct json_document *document,
                        struct fault *fault)
{
    request->gradients = true;
    return wire_v1_read(request, false, document, fault);
}

static void write_parameter(const struct infer_item *item, enum model_projection projection,
                            bool is_bias, bool *is_first, struct text *text)
{
    const struct model_tensor *tensor = infer_gradient_tensor(item, projection, is_bias);
    const float *values = item->gradient->parameters[projection][is_bias];
    if (!values)
        return;
    if (!*is_first)
        text_raw(text, ",");
    *is_first = false;
    text_key(text, tensor->name);
    text_tensor(text, values, tensor->rank, tensor->shape);
}

static void write_member(const char *name, const float *values, int rank, const int64_t *shape,
                         struct text *text)
{
    text_raw(text, ",");
    text_key(text, name);
    text_tensor(text, values, rank, shape);
}

void wire_gradient_write(const struct infer_request *request, struct text *text)
{
    static const char *const names[INFER_INPUT_COUNT] = { "query", "key", "value" };
    struct infer_item *item = &request->items[0];
    const struct infer_gradient *gradient = item->gradient;
    bool is_first = true;
    int64_t shape[3];
    infer_gradient_finish(item);
    text_raw(text, "{\"model\":");
    text_string(text, item->model->name);
    text_raw(text, ",\"layer\":");
    text_integer(text, item->layer_index);
    for (int i = 0; i < INFER_INPUT_COUNT; i++) {
        const int rank = infer_gradient_shape(item, i, shape);
        write_member(names[i], gradient->inputs[i], rank, shape, text);
    }
    if (gradient->input) {
        const int rank = infer_gradient_shape(item, INFER_QUERY, shape);
        write_member("input", gradient->input, rank, shape, text);
    }
    if (gradient->mask) {
        const int rank = infer_gradient_mask_shape(item, shape);
        write_member("mask", gradient->mask, rank, shape, text);
    }
    shape[0] = item->layer.q_heads;
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        if (gradient->per_head[i])
            write_member(attn_per_head_fields[i].name, gradient->per_head[i], 1, shape, text);
    text_raw(text, ",\"parameters\":{");
    for (int i = 0; i < MODEL_TENSOR_COUNT; i++) {
        write_parameter(item, i, false, &is_first, text);
        write_parameter(item, i, true, &is_first, text);
    }
    text_raw(text, "}}\n");
}
