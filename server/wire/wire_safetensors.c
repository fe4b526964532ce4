/* wire_safetensors.c - see wire_safetensors.h: reads a body.
 *
 * The metadata is rewritten as a JSON object and read like the fields of any call, so both forms
 * accept and refuse the same. Tensors are views of the body where they are aligned, else copies in
 * the request's arena. */
#include "wire/wire_safetensors.h"

#include "base/names.h"
#include "wire/safetensors_body.h"
#include "wire/wire_gradient.h"
#include "wire/wire_merge.h"
#include "wire/wire_v1.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* ------------------------------------------------------------------ forms -- */

bool wire_safetensors_begin(struct infer_call *call, const struct exchange *exchange,
                            struct fault *fault)
{
    struct safetensors_forms *forms = arena_calloc(&call->request.arena, 1, sizeof *forms);
    if (!forms)
        return fault_no_memory(fault);
    call->state = forms;
    return safetensors_forms_read(forms, exchange, fault);
}

bool wire_safetensors_is_body(const struct infer_call *call)
{
    const struct safetensors_forms *forms = call->state;
    return forms && forms->is_body;
}

bool wire_safetensors_is_answer(const struct infer_call *call)
{
    const struct safetensors_forms *forms = call->state;
    return forms && forms->is_answer;
}

/* Reads the metadata as the call's document. */
static bool read_metadata(struct v1_reader *reader, struct infer_call *call,
                          const struct safetensors *file)
{
    static const char *const TEXTS[] = { "model", "normalizer", "precision", NULL };
    struct text text;
    text_init(&text, SIZE_MAX);
    const bool good = safetensors_body_fields(reader, file, TEXTS, &text)
                      && infer_wire_read_json(call, text.data, text.used, reader->fault);
    text_free(&text);
    return good;
}

/* ----------------------------------------------------------- the tensors -- */

/* Reads one length for all query rows, or one for each. */
static bool read_kv_len(struct v1_reader *reader, const struct safetensors_entry *entry)
{
    struct infer_item *item = reader->item;
    struct infer_array shape = { .data = NULL };
    if (item->kv_len_count > 0)
        return safetensors_body_twice(reader);
    if (!safetensors_body_integers(reader, entry, &shape, &item->kv_len))
        return false;
    if (shape.rank > 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                            "kv_len has %d dimensions; expected none or one", shape.rank);
    const int64_t count = shape.rank == 0 ? 1 : shape.shape[0];
    for (int64_t i = 0; i < count; i++)
        if (item->kv_len[i] < 0)
            return fault_set_at(reader->fault, reader->pointer, FAULT_LENGTH,
                                "kv_len is %" PRId64 " at element %" PRId64 "; expected 0 or more",
                                item->kv_len[i], i);
    item->kv_len_count = count;
    item->kv_len_rows = shape.rank == 1 && count != 1;
    return true;
}

#define PER_HEAD_TENSOR(NAME, name, may_be_none)                                                   \
    { #name, offsetof(struct infer_item, per_head[ATTN_PER_HEAD_##NAME]) },

static const struct {
    const char *name;
    size_t offset; /* of its infer_array in struct infer_item */
} TENSORS[] = {
    { "query", offsetof(struct infer_item, query) },
    { "key", offsetof(struct infer_item, key) },
    { "value", offsetof(struct infer_item, value) },
    { "mask", offsetof(struct infer_item, mask) },
    { "kv_len", 0 },
    /* clang-format off */
    ATTN_PER_HEAD_MAP(PER_HEAD_TENSOR)
    /* clang-format on */
    { "context_gradient",
      offsetof(struct infer_item, context_gradient) }, /* for gradients alone, so it is the last */
};

enum { TENSOR_COUNT = sizeof TENSORS / sizeof TENSORS[0] };

static bool unknown_tensor(struct v1_reader *reader, int known_count)
{
    const char *known[TENSOR_COUNT + 1];
    for (int i = 0; i < known_count; i++)
        known[i] = TENSORS[i].name;
    if (reader->more)
        known[known_count++] = reader->more->tensor;
    const char *near = nearest_name(reader->name, known, known_count);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                        "there is no tensor '%.60s'%s%s%s", reader->name,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool read_tensor(struct v1_reader *reader, const struct safetensors_entry *entry)
{
    struct infer_item *item = reader->item;
    const int known_count = reader->request->gradients ? TENSOR_COUNT : TENSOR_COUNT - 1;
    const struct v1_more *more = reader->more;
    int i = 0;
    v1_point_to(reader, entry->name);
    if (more && strlen(more->tensor) == entry->name_length
        && strcmp(more->tensor, entry->name) == 0)
        return safetensors_body_numbers(
            reader, entry, false,
            (struct infer_array *)((char *)reader->asked + more->tensor_offset));
    while (i < known_count
           && (strlen(TENSORS[i].name) != entry->name_length
               || strcmp(TENSORS[i].name, entry->name) != 0))
        i++;
    if (i == known_count)
        return unknown_tensor(reader, known_count);
    if (strcmp(TENSORS[i].name, "kv_len") == 0)
        return read_kv_len(reader, entry);
    struct infer_array *array = (struct infer_array *)((char *)item + TENSORS[i].offset);
    const bool is_mask = array == &item->mask;
    if (!safetensors_body_numbers(reader, entry, is_mask, array))
        return false;
    if (is_mask)
        item->mask_is_bool = array->dtype == ATTN_BOOL;
    return true;
}

/* ---------------------------------------------------------------- the body -- */

/* Reads a body: its fields from the metadata, then its tensors. */
static bool read_body(struct infer_call *call, struct wire_v1_form *form,
                      bool (*read_fields)(struct infer_call *call, struct wire_v1_form *form,
                                          struct fault *fault),
                      bool (*read_tensors)(struct v1_reader *reader,
                                           const struct safetensors *file),
                      struct fault *fault)
{
    struct safetensors file;
    struct v1_reader reader = { .document = &call->base.document,
                                .arena = &call->request.arena,
                                .nonfinite_allowed = call->request.nonfinite_allowed,
                                .request = &call->request,
                                .fault = fault };
    if (!safetensors_read(&file, call->base.body.data ? call->base.body.data : "",
                          call->base.body.size, fault))
        return false;
    bool good = read_metadata(&reader, call, &file) && read_fields(call, form, fault);
    if (good) {
        reader.item = &call->request.items[0];
        reader.more = form ? form->more : NULL;
        reader.asked = form ? form->asked : NULL;
        good = read_tensors(&reader, &file);
    }
    safetensors_free(&file);
    return good;
}

static bool read_single_fields(struct infer_call *call, struct wire_v1_form *form,
                               struct fault *fault)
{
    (void)form;
    return wire_v1_read(&call->request, false, &call->base.document, fault);
}

static bool read_gradient_fields(struct infer_call *call, struct wire_v1_form *form,
                                 struct fault *fault)
{
    (void)form;
    return wire_gradient_read(&call->request, &call->base.document, fault);
}

static bool read_form_fields(struct infer_call *call, struct wire_v1_form *form,
                             struct fault *fault)
{
    const cJSON *root = call->base.document.root;
    if (form->list && cJSON_GetObjectItemCaseSensitive(root, form->list))
        return fault_set(fault, FAULT_FIELD,
                         "%s stands in __metadata__; expected a JSON body, or one step a file",
                         form->list);
    return wire_v1_read_form(&call->request, form, &call->base.document, fault);
}

static bool read_tensors(struct v1_reader *reader, const struct safetensors *file)
{
    for (int64_t i = 0; i < file->entry_count; i++)
        if (!read_tensor(reader, &file->entries[i]))
            return false;
    return true;
}

bool wire_safetensors_read(struct infer_call *call, bool gradients, struct fault *fault)
{
    return read_body(call, NULL, gradients ? read_gradient_fields : read_single_fields,
                     read_tensors, fault);
}

bool wire_safetensors_read_form(struct infer_call *call, struct wire_v1_form *form,
                                struct fault *fault)
{
    return read_body(call, form, read_form_fields, read_tensors, fault);
}

/* ----------------------------------------------------------------- a merge -- */

/* The array that a name such as "parts.12.lse" means; NULL for any other name. */
static struct infer_array *part_tensor(struct infer_item *item,
                                       const struct safetensors_entry *entry)
{
    static const char PREFIX[] = "parts.";
    const char *p = entry->name + sizeof PREFIX - 1;
    int64_t index = 0;
    if (strncmp(entry->name, PREFIX, sizeof PREFIX - 1) != 0
        || strlen(entry->name) != entry->name_length || (p[0] == '0' && p[1] != '.') || *p == '.')
        return NULL;
    for (; *p >= '0' && *p <= '9' && index < item->part_count; p++)
        index = index * 10 + (*p - '0');
    if (index >= item->part_count)
        return NULL;
    if (strcmp(p, ".context") == 0)
        return &item->parts[index].context;
    return strcmp(p, ".lse") == 0 ? &item->parts[index].lse : NULL;
}

/* Reads two tensors for each part, so the number of tensors gives that of the parts. */
static bool read_parts(struct v1_reader *reader, const struct safetensors *file)
{
    struct infer_item *item = reader->item;
    v1_point_to(reader, "parts");
    if (item->parts)
        return fault_set_at(reader->fault, reader->pointer, FAULT_DUPLICATE,
                            "parts stands in __metadata__; expected tensors");
    if (file->entry_count == 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "parts is missing");
    item->part_count = (file->entry_count + 1) / 2;
    item->parts = arena_calloc(reader->arena, (size_t)item->part_count, sizeof *item->parts);
    if (!item->parts)
        return fault_no_memory(reader->fault);
    for (int64_t i = 0; i < file->entry_count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        struct infer_array *array = part_tensor(item, entry);
        v1_point_to(reader, entry->name);
        if (!array)
            return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                                "there is a tensor '%.60s'; expected parts.0.context, parts.0.lse "
                                "and so on to parts.%" PRId64,
                                entry->name, item->part_count - 1);
        for (char *c = reader->pointer; *c; c++) /* faults of the plan point to "/parts/0/lse" */
            *c = *c == '.' ? '/' : *c;
        if (!safetensors_body_numbers(reader, entry, false, array))
            return false;
    }
    if (file->entry_count % 2 != 0)
        return fault_set_at(reader->fault, "/parts", FAULT_FIELD,
                            "a context or an lse is missing: there are %" PRId64 " tensors",
                            file->entry_count);
    return true;
}

static bool read_merge_fields(struct infer_call *call, struct wire_v1_form *form,
                              struct fault *fault)
{
    (void)form;
    return wire_merge_read_fields(&call->request, &call->base.document, fault);
}

bool wire_safetensors_read_merge(struct infer_call *call, struct fault *fault)
{
    return read_body(call, NULL, read_merge_fields, read_parts, fault);
}
