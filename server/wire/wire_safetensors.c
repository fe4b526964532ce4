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
    return safetensors_forms_read(forms, exchange, SAFETENSORS_OR_JSON, fault);
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
    const bool good = safetensors_body_fields(reader, file->metadata, file->metadata_count,
                                              "__metadata__", TEXTS, &text)
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

/* name is that of the entry, or its end behind the item's place. */
static bool read_tensor(struct v1_reader *reader, const struct safetensors_entry *entry,
                        const char *name)
{
    struct infer_item *item = reader->item;
    const int known_count = reader->request->gradients ? TENSOR_COUNT : TENSOR_COUNT - 1;
    const struct v1_more *more = reader->more;
    const bool has_nul = strlen(entry->name) != entry->name_length;
    int i = 0;
    v1_point_to(reader, name);
    if (more && !has_nul && strcmp(more->tensor, name) == 0)
        return safetensors_body_numbers(
            reader, entry, false,
            (struct infer_array *)((char *)reader->asked + more->tensor_offset));
    while (i < known_count && (has_nul || strcmp(TENSORS[i].name, name) != 0))
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

/* ------------------------------------------------------------------ items -- */

/* A tensor's name has dots where a pointer has slashes. */
static void point_to_dotted(struct v1_reader *reader, const char *name)
{
    v1_point_to(reader, name);
    for (char *c = reader->pointer; *c; c++)
        *c = *c == '.' ? '/' : *c;
}

/* Splits a name such as "requests.12.key" at its second dot: returns "key", and sets the number.
 * NULL for any other name, and for a number of no item. */
static const char *split_name(const char *name, const char *list, int64_t count, int64_t *number)
{
    const size_t length = strlen(list);
    const char *p = name + length + 1;
    if (strncmp(name, list, length) != 0 || name[length] != '.' || (p[0] == '0' && p[1] != '.')
        || *p == '.')
        return NULL;
    for (*number = 0; *p >= '0' && *p <= '9' && *number < count; p++)
        *number = *number * 10 + (*p - '0');
    return *number < count && *p == '.' ? p + 1 : NULL;
}

static bool of_no_item(struct v1_reader *reader, const struct safetensors_entry *entry,
                       const char *list)
{
    const int64_t count = reader->request->item_count;
    point_to_dotted(reader, entry->name);
    if (count == 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "there is a tensor '%.60s'; %s in __metadata__ has no items",
                            entry->name, list);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                        "there is a tensor '%.60s'; expected those of %s.0 to %s.%" PRId64
                        ", such as %s.0.query, as many as __metadata__ lists",
                        entry->name, list, list, count - 1, list);
}

/* Reads tensors of items. A fault of one is its item's own, as in JSON; an item that has a fault
 * already keeps it. */
static bool read_items_tensors(struct v1_reader *reader, const struct safetensors *file,
                               const struct wire_v1_form *form)
{
    struct infer_request *request = reader->request;
    struct fault *fault = reader->fault;
    for (int64_t i = 0; i < file->entry_count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        int64_t number;
        const char *name = split_name(entry->name, form->list, request->item_count, &number);
        reader->fault = fault;
        if (!name)
            return of_no_item(reader, entry, form->list);
        reader->item = &request->items[number];
        reader->asked = (char *)form->asked + (size_t)number * form->more->asked_bytes;
        reader->fault = &reader->item->fault;
        if (reader->fault->code == FAULT_NONE)
            read_tensor(reader, entry, name);
    }
    reader->fault = fault;
    return true;
}

static bool read_tensors(struct v1_reader *reader, const struct safetensors *file,
                         const struct wire_v1_form *form)
{
    if (form && form->list && cJSON_GetObjectItemCaseSensitive(reader->document->root, form->list))
        return read_items_tensors(reader, file, form);
    for (int64_t i = 0; i < file->entry_count; i++)
        if (!read_tensor(reader, &file->entries[i], file->entries[i].name))
            return false;
    return true;
}

/* ---------------------------------------------------------------- the body -- */

/* Reads a body: its fields from the metadata, then its tensors. */
static bool read_body(struct infer_call *call, struct wire_v1_form *form,
                      bool (*read_fields)(struct infer_call *call, struct wire_v1_form *form,
                                          struct fault *fault),
                      bool (*read_arrays)(struct v1_reader *reader, const struct safetensors *file,
                                          const struct wire_v1_form *form),
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
        reader.item = call->request.items;
        reader.more = form ? form->more : NULL;
        reader.asked = form ? form->asked : NULL;
        good = read_arrays(&reader, &file, form);
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
    return wire_v1_read_form(&call->request, form, &call->base.document, fault);
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
static bool read_parts(struct v1_reader *reader, const struct safetensors *file,
                       const struct wire_v1_form *form)
{
    struct infer_item *item = reader->item;
    (void)form;
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
        point_to_dotted(reader, entry->name); /* as the faults of the plan do */
        if (!array)
            return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                                "there is a tensor '%.60s'; expected parts.0.context, parts.0.lse "
                                "and so on to parts.%" PRId64,
                                entry->name, item->part_count - 1);
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
