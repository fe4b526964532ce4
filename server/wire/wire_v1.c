/* wire_v1.c - see wire_v1.h.
 *
 * In a batch the fields beside its list are read once, into one item. The item of each request
 * begins as a copy of it. */
#include "wire/wire_v1.h"

#include "infer/infer_results.h"
#include "infer/infer_selection.h"
#include "wire/v1_fault.h"
#include "wire/v1_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------- requests -- */

/* Room for what is asked of each item, which begins as what all share. */
static bool make_asked(struct wire_v1_form *form, struct arena *arena, int count)
{
    const size_t bytes = form->more ? form->more->asked_bytes : 0;
    if (bytes == 0)
        return true;
    char *asked = arena_calloc(arena, (size_t)count, bytes);
    for (int i = 0; asked && i < count; i++)
        memcpy(asked + (size_t)i * bytes, form->asked, bytes);
    form->asked = asked;
    return asked != NULL || count == 0;
}

static bool read_list(struct v1_reader *reader, const cJSON *root, struct wire_v1_form *form,
                      const struct infer_item *shared)
{
    struct infer_request *request = reader->request;
    const cJSON *requests, *node;
    int count;
    if (!v1_find_requests(reader, root, form->list, INFER_ITEMS_MAX, &requests, &count))
        return false;
    request->items = arena_calloc(&request->arena, (size_t)count, sizeof *request->items);
    if (!request->items || !make_asked(form, &request->arena, count))
        return fault_no_memory(reader->fault);
    cJSON_ArrayForEach(node, requests)
    {
        if (form->asked)
            reader->asked =
                (char *)form->asked + (size_t)request->item_count * form->more->asked_bytes;
        struct infer_item *item = &request->items[request->item_count++];
        *item = *shared;
        reader->item = item;
        reader->fault = &item->fault;
        v1_read_object(reader, node, NULL);
    }
    return true;
}

bool wire_v1_read_form(struct infer_request *request, struct wire_v1_form *form,
                       const struct json_document *document, struct fault *fault)
{
    struct infer_item shared = {
        .outputs = { [ATTN_OUTPUT_CONTEXT] = true, [ATTN_OUTPUT_WEIGHTS] = true },
    };
    struct v1_reader reader = {
        .document = document,
        .arena = &request->arena,
        .nonfinite_allowed = request->nonfinite_allowed,
        .request = request,
        .item = &shared,
        .more = form->more,
        .asked = form->asked,
        .fault = fault,
    };
    if (!cJSON_IsObject(document->root))
        return fault_set(fault, FAULT_TYPE, "the body is %s; expected an object",
                         json_kind(document, document->root));
    if (!v1_read_object(&reader, document->root, form->list))
        return false;
    if (form->list
        && (!form->list_may_lack || cJSON_GetObjectItemCaseSensitive(document->root, form->list)))
        return read_list(&reader, document->root, form, &shared);
    request->items = arena_calloc(&request->arena, 1, sizeof *request->items);
    if (!request->items)
        return fault_no_memory(fault);
    request->items[0] = shared;
    request->item_count = 1;
    return true;
}

bool wire_v1_read(struct infer_request *request, bool batch, const struct json_document *document,
                  struct fault *fault)
{
    struct wire_v1_form form = { .list = batch ? "requests" : NULL };
    request->batch = batch;
    return wire_v1_read_form(request, &form, document, fault);
}

/* --------------------------------------------------------------- answers -- */

static void write_top_k(const struct infer_item *item, const int64_t shape[3], struct text *text)
{
    struct tensor_text indices = tensor_text_make(item->weight_map.indices, ATTN_F32, 3, shape);
    indices.is_integers = true;
    text_raw(text, "{\"indices\":");
    text_numbers(text, &indices);
    text_raw(text, ",\"values\":");
    text_tensor(text, item->results[ATTN_OUTPUT_WEIGHTS], 3, shape);
    text_raw(text, "}");
}

static void write_precision(const struct infer_item *item, struct text *text)
{
    if (!infer_precision(item))
        return;
    text_raw(text, ",\"precision\":");
    text_string(text, infer_precision(item));
}

static void write_mass_left(const struct infer_item *item, struct text *text)
{
    const int64_t shape[] = { item->layer.q_heads, item->q_len };
    text_raw(text, ",\"mass_left\":");
    text_tensor(text, item->selection.mass_left, 2, shape);
}

static void write_keys_read(const struct infer_item *item, struct text *text)
{
    int64_t read, seen;
    infer_selection_keys(item, &read, &seen);
    text_raw(text, ",\"keys_read\":");
    text_integer(text, read);
    text_raw(text, ",\"keys_seen\":");
    text_integer(text, seen);
}

void wire_v1_write_outputs(const struct infer_item *item, struct text *text)
{
    write_precision(item, text);
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        int64_t shape[3];
        if (!item->outputs[i])
            continue;
        const int rank = infer_output_shape(item, i, shape);
        text_raw(text, ",");
        text_key(text, infer_output_names[i]);
        if (i == ATTN_OUTPUT_WEIGHTS && infer_has_weight_map(item) && item->weight_map.top_k > 0)
            write_top_k(item, shape, text);
        else
            text_tensor(text, item->results[i], rank, shape);
    }
    if (item->has_selection) {
        write_mass_left(item, text);
        write_keys_read(item, text);
    }
}

void wire_v1_write_beside_tensors(const struct infer_item *item, struct text *text)
{
    write_precision(item, text);
    if (item->has_selection)
        write_keys_read(item, text);
}

static void write_item(const struct infer_item *item, struct text *text)
{
    text_raw(text, "{\"model\":");
    text_string(text, item->model->name);
    text_raw(text, ",\"layer\":");
    text_integer(text, item->layer_index);
    wire_v1_write_outputs(item, text);
    text_raw(text, "}");
}

void wire_v1_write(const struct infer_request *request, struct text *text)
{
    if (!request->batch) {
        write_item(&request->items[0], text);
        text_raw(text, "\n");
        return;
    }
    text_raw(text, "{\"results\":[");
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct infer_item *item = &request->items[i];
        if (i > 0)
            text_raw(text, ",");
        if (item->fault.code != FAULT_NONE)
            v1_fault_write(&item->fault, i, text);
        else
            write_item(item, text);
    }
    text_raw(text, "]}\n");
}
