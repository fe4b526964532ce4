/* SPDX-License-Identifier: Apache-2.0 */
/* format_safetensors.c - files of safetensors to messages: metadata as fields, and tensors.
 *
 * A tensor's name may be a path: "requests.12.key" is the key of item 12 of a list. The list is in
 * the metadata, or, where its row says that its members may be tensors, the tensors make it. A row
 * may say that its list is in the metadata with tensors beside it, and beside those of other rows:
 * "edits.0.add". */
#include "formats/format.h"

#include "formats/writer.h"

#include <inttypes.h>
#include <string.h>

/* A list whose items have tensors. */
struct tensor_list {
    const char *name;
    struct message items; /* each an object with room for the tensors of the file */
    bool is_of_metadata;
    bool is_no_list; /* but another value: a fault when it is read */
};

static bool is_name(const struct safetensors_entry *entry)
{
    return strlen(entry->name) == entry->name_length;
}

/* Splits a name such as "requests.12.key" at its second dot: returns "key", and sets the number.
 * NULL for any other name, and for a number that is not below count. */
static const char *split_path(const char *name, const char *list, int64_t count, int64_t *number)
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

static bool view_entry(const struct safetensors_entry *entry, const char *name,
                       struct tensor *tensor, struct value *value, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    *tensor = (struct tensor){
        .dtype = entry->dtype, .bytes = entry->data, .size = entry->size, .rank = entry->rank
    };
    safetensors_shape(entry, tensor->shape,
                      entry->rank < ARRAY_RANK_MAX ? entry->rank : ARRAY_RANK_MAX);
    *value = (struct value){ .name = name, .kind = VALUE_TENSOR, .tensor = tensor };
    fault_pointer_append(pointer, 0, entry->name);
    return is_name(entry)
           || fault_set_at(fault, pointer, FAULT_FIELD,
                           "the name of tensor '%.60s' holds a NUL character", entry->name);
}

/* -------------------------------------------------------------------- lists -- */

/* A tensor's name has dots where a pointer has slashes. */
static void point_to_path(char pointer[FAULT_POINTER_MAX], const char *name)
{
    fault_pointer_append(pointer, 0, name);
    for (char *c = pointer; *c; c++)
        *c = *c == '.' ? '/' : *c;
}

static bool of_no_item(const struct tensor_list *list, const struct safetensors_entry *entry,
                       struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    point_to_path(pointer, entry->name);
    if (list->items.count == 0)
        return fault_set_at(fault, pointer, FAULT_FIELD,
                            "there is a tensor '%.60s'; %s in __metadata__ has no items",
                            entry->name, list->name);
    return fault_set_at(fault, pointer, FAULT_FIELD,
                        "there is a tensor '%.60s'; expected those of %s.0 to %s.%" PRId64
                        ", as many as %s",
                        entry->name, list->name, list->name, list->items.count - 1,
                        list->is_of_metadata ? "__metadata__ lists" : "there are tensors");
}

/* What the metadata has under the name; NULL: nothing. */
static const struct value *find_value(const struct message *message, const char *name)
{
    for (int64_t i = 0; i < message->count; i++)
        if (strcmp(message->values[i].name, name) == 0)
            return &message->values[i];
    return NULL;
}

/* A list that tensors belong to has to be in the metadata. */
static bool check_tensors(const struct safetensors *file, const char *list, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    const size_t length = strlen(list);
    fault_pointer_append(pointer, 0, list);
    for (int64_t i = 0; i < file->entry_count; i++) {
        const char *name = file->entries[i].name;
        if (strncmp(name, list, length) == 0 && name[length] == '.')
            return fault_set_at(fault, pointer, FAULT_FIELD,
                                "%s is missing in __metadata__; there is a tensor '%.60s'", list,
                                name);
    }
    return true;
}

/* The list that tensors of this file may belong to; name stays NULL where there is none. */
static bool find_list(struct format_body *body, const struct field_table *table,
                      struct message *message, struct tensor_list *list, struct fault *fault)
{
    const struct message *items;
    const struct value *listed = table->list ? find_value(message, table->list) : NULL;
    if (listed) {
        list->name = table->list;
        list->is_of_metadata = true;
        list->is_no_list = !value_is_list(listed, &items);
        list->items = *items;
        return true;
    }
    if (table->list && !check_tensors(body->file, table->list, fault))
        return false;
    for (int i = 0; i < table->count && !list->name; i++)
        if (table->rows[i].kind == FIELD_LIST && (table->rows[i].flags & FIELD_TENSOR))
            list->name = table->rows[i].name;
    if (!list->name)
        return true;
    if (find_value(message, list->name)) {
        char pointer[FAULT_POINTER_MAX];
        fault_pointer_append(pointer, 0, list->name);
        return fault_set_at(fault, pointer, FAULT_DUPLICATE,
                            "%s stands in __metadata__; expected tensors", list->name);
    }
    int64_t number;
    for (int64_t i = 0; i < body->file->entry_count; i++)
        if (split_path(body->file->entries[i].name, list->name, body->file->entry_count, &number)
            && number >= list->items.count)
            list->items.count = number + 1;
    list->items.values =
        arena_calloc(body->arena, (size_t)list->items.count, sizeof *list->items.values);
    if (!list->items.values)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < list->items.count; i++)
        list->items.values[i].kind = VALUE_OBJECT;
    return true;
}

/* Gives each item room for its tensors behind the values that it has. */
static bool make_room(struct format_body *body, const struct tensor_list *list, int64_t *counts,
                      struct fault *fault)
{
    const struct safetensors *file = body->file;
    int64_t number;
    for (int64_t i = 0; i < file->entry_count; i++)
        if (split_path(file->entries[i].name, list->name, list->items.count, &number))
            counts[number]++;
    for (int64_t i = 0; i < list->items.count; i++) {
        struct value *item = &list->items.values[i];
        if (item->kind != VALUE_OBJECT || counts[i] == 0)
            continue;
        struct message *inner = &item->inner;
        struct value *values =
            arena_alloc(body->arena, (size_t)(inner->count + counts[i]) * sizeof *values);
        if (!values)
            return fault_no_memory(fault);
        if (inner->count > 0)
            memcpy(values, inner->values, (size_t)inner->count * sizeof *values);
        inner->values = values;
    }
    return true;
}

/* Adds a tensor to the item that its name leads to. An item that is no object has a fault of its
 * own, so its tensors are left. */
static bool add_to_item(const struct tensor_list *list, const struct safetensors_entry *entry,
                        struct tensor *tensor, struct fault *fault)
{
    int64_t number;
    const char *name = split_path(entry->name, list->name, list->items.count, &number);
    struct value value;
    if (!name)
        return of_no_item(list, entry, fault);
    if (!view_entry(entry, name, tensor, &value, fault))
        return false;
    struct value *item = &list->items.values[number];
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): split_path() found that it is there */
    if (item->kind == VALUE_OBJECT)
        item->inner.values[item->inner.count++] = value;
    return true;
}

static bool add_list(struct format_body *body, struct tensor_list *list, struct tensor *tensors,
                     struct message *message, struct fault *fault)
{
    int64_t *counts = arena_calloc(body->arena, (size_t)list->items.count, sizeof *counts);
    if (!counts)
        return fault_no_memory(fault);
    if (!make_room(body, list, counts, fault))
        return false;
    for (int64_t i = 0; i < body->file->entry_count; i++)
        if (!add_to_item(list, &body->file->entries[i], &tensors[i], fault))
            return false;
    if (!list->is_of_metadata && list->items.count > 0)
        message->values[message->count++] =
            (struct value){ .name = list->name, .kind = VALUE_LIST, .inner = list->items };
    return true;
}

/* --------------------------------------------------------------------- files -- */

/* A list in the metadata with tensors beside it; name NULL: the table has none. */
static bool find_beside(const struct format_body *body, const struct field_table *table,
                        const struct message *message, struct tensor_list *list,
                        struct fault *fault)
{
    const struct message *items;
    for (int i = 0; i < table->count && !list->name; i++)
        if (table->rows[i].kind == FIELD_LIST && (table->rows[i].flags & FIELD_BESIDE))
            list->name = table->rows[i].name;
    const struct value *listed = list->name ? find_value(message, list->name) : NULL;
    if (!listed)
        return !list->name || check_tensors(body->file, list->name, fault);
    list->is_of_metadata = true;
    list->is_no_list = !value_is_list(listed, &items);
    if (!list->is_no_list)
        list->items = *items;
    return true;
}

static bool is_of_list(const struct safetensors_entry *entry, const struct tensor_list *list)
{
    const size_t length = list->name ? strlen(list->name) : 0;
    return length > 0 && strncmp(entry->name, list->name, length) == 0
           && entry->name[length] == '.';
}

/* Reads the tensors of the one item, and of its list that tensors stand beside. */
static bool read_single(struct format_body *body, const struct field_table *table,
                        struct tensor *tensors, struct message *message, struct fault *fault)
{
    const struct safetensors *file = body->file;
    struct tensor_list beside = { .name = NULL };
    if (!find_beside(body, table, message, &beside, fault))
        return false;
    int64_t *counts = arena_calloc(body->arena, (size_t)beside.items.count, sizeof *counts);
    if (!counts)
        return fault_no_memory(fault);
    if (beside.items.count > 0 && !make_room(body, &beside, counts, fault))
        return false;
    for (int64_t i = 0; i < file->entry_count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        const bool is_beside = is_of_list(entry, &beside);
        if (is_beside && beside.is_no_list)
            continue; /* a fault when the list is read */
        if (is_beside ? !add_to_item(&beside, entry, &tensors[i], fault)
                      : !view_entry(entry, entry->name, &tensors[i],
                                    &message->values[message->count++], fault))
            return false;
    }
    return true;
}

/* Reads the tensors: those of a list where there is one, else those of the one item. */
static bool read_tensors(struct format_body *body, const struct field_table *table,
                         struct message *message, struct fault *fault)
{
    const struct safetensors *file = body->file;
    struct tensor_list list = { .name = NULL };
    struct tensor *tensors = arena_alloc(body->arena, (size_t)file->entry_count * sizeof *tensors);
    if (!tensors)
        return fault_no_memory(fault);
    if (!find_list(body, table, message, &list, fault))
        return false;
    if (list.is_no_list)
        return true;
    if (list.name)
        return add_list(body, &list, tensors, message, fault);
    return read_single(body, table, tensors, message, fault);
}

/* The header of the file holds names and dtypes, so it stays as long as the message. */
static bool read_file(struct format_body *body, const struct field_table *table,
                      struct message *message, struct fault *fault)
{
    struct safetensors *file = arena_calloc(body->arena, 1, sizeof *file);
    if (!file)
        return fault_no_memory(fault);
    if (!safetensors_read(file, body->bytes.data ? body->bytes.data : "", body->bytes.size, fault))
        return false;
    body->file = file;
    const size_t room = (size_t)(file->metadata_count + file->entry_count) + 1;
    *message = (struct message){ .values = arena_calloc(body->arena, room, sizeof(struct value)) };
    if (!message->values)
        return fault_no_memory(fault);
    return format_read_texts(body, table, "__metadata__", file->metadata, file->metadata_count,
                             message, fault)
           && read_tensors(body, table, message, fault);
}

const struct format format_safetensors = { .content_type = "application/x-safetensors",
                                           .keeps_bytes = true,
                                           .number_bytes = sizeof(double),
                                           .writer = &writer_safetensors,
                                           .read = read_file };
