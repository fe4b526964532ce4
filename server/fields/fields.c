/* SPDX-License-Identifier: Apache-2.0 */
/* fields.c - reads messages by tables: names, objects, lists and items. */
#include "base/names.h"
#include "fields/field.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KNOWN_MAX = 64 };

/* ----------------------------------------------------------------- names -- */

const char *field_name(const struct field *field, enum field_naming naming)
{
    switch (naming) {
    case NAMED_AS_PARAMETERS:
        return (field->flags & FIELD_PARAMETER) ? field->name : NULL;
    case NAMED_AS_ONNX:
        return field->onnx;
    default:
        return field->name;
    }
}

const struct field *field_find(const struct field_table *table, enum field_naming naming,
                               const char *name)
{
    for (int i = 0; table && i < table->count; i++) {
        const char *own = field_name(&table->rows[i], naming);
        if (own && strcmp(own, name) == 0)
            return &table->rows[i];
    }
    return NULL;
}

bool field_is_text(const struct field_table *table, const char *name)
{
    const struct field *field = field_find(table, NAMED_AS_FIELDS, name);
    return field
           && (field->kind == FIELD_STRING || field->kind == FIELD_BYTES
               || field->kind == FIELD_ENUM);
}

void field_point_to(struct field_reader *reader, const char *prefix, const char *name)
{
    const size_t used = strlen(prefix);
    reader->name = name;
    memcpy(reader->pointer, prefix, used + 1);
    fault_pointer_append(reader->pointer, used, name);
}

/* ---------------------------------------------------------- unknown names -- */

/* A message that is being read. */
struct reading {
    struct field_reader reader;
    struct field_target target, more;
    const char *prefix; /* of pointers */
    const char *list;   /* a name that is read elsewhere; NULL: none */
};

/* The rows that may come as a tensor, or all rows and the list. */
static int list_known(const struct reading *reading, bool is_tensor, const char **known)
{
    const struct field_table *tables[] = { reading->target.table, reading->more.table };
    int count = 0;
    for (int t = 0; t < 2; t++)
        for (int i = 0; tables[t] && i < tables[t]->count; i++) {
            const struct field *row = &tables[t]->rows[i];
            const char *name = field_name(row, reading->reader.naming);
            assert(count < KNOWN_MAX - 1);
            if (name && (!is_tensor || (row->flags & FIELD_TENSOR))
                && (t == 0 || !field_find(tables[0], reading->reader.naming, name)))
                known[count++] = name;
        }
    if (reading->list && !is_tensor)
        known[count++] = reading->list;
    return count;
}

static bool unknown_name(const struct reading *reading, const char *name, bool is_tensor)
{
    const struct field_reader *reader = &reading->reader;
    const enum field_policy policy = reading->target.table->policy;
    const char *what = is_tensor                           ? "tensor"
                       : reader->naming == NAMED_AS_FIELDS ? "field"
                                                           : "parameter";
    const char *known[KNOWN_MAX];
    const int count = list_known(reading, is_tensor, known);
    const char *nearest = nearest_name(name, known, count);
    if (nearest)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "there is no %s '%.60s'; did you mean '%s'?", what, name, nearest);
    if (policy == FIELDS_LENIENT)
        return true;
    if (policy == FIELDS_STRICT)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "there is no %s '%.60s'",
                            what, name);
    char text[FAULT_MESSAGE_MAX] = "";
    size_t used = 0;
    for (int i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", known[i]);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                        "there is no %s '%.60s'; expected any of %s", what, name, text);
}

/* ----------------------------------------------------------------- values -- */

static bool read_message(const struct field_reader *like, const struct message *message,
                         struct field_target target, struct field_target more, const char *prefix,
                         const char *list);

static const struct field_target NOWHERE;

/* The members go to the place of the field. An object replaces one that came for all items. */
static bool read_object(struct field_reader *reader, const struct value *value, void *place)
{
    const struct field_table *table = reader->field->inner;
    char prefix[FAULT_POINTER_MAX];
    if (value->kind != VALUE_OBJECT)
        return field_wrong_type(reader, value, "an object");
    memcpy(prefix, reader->pointer, sizeof prefix);
    memset(place, 0, table->bytes);
    return read_message(reader, &value->inner, (struct field_target){ table, place }, NOWHERE,
                        prefix, NULL);
}

static bool is_missing(struct field_reader *reader, const char *prefix, const char *name)
{
    field_point_to(reader, prefix, name);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s is missing", name);
}

/* Reads an element of FIELD_LIST, whose place is the pointer of the reader. */
static bool read_element(struct field_reader *reader, const struct value *value, void *element)
{
    const struct field_table *table = reader->field->inner;
    char prefix[FAULT_POINTER_MAX];
    if (value->kind != VALUE_OBJECT)
        return field_wrong_type(reader, value, reader->field->expected);
    memcpy(prefix, reader->pointer, sizeof prefix);
    if (!read_message(reader, &value->inner, (struct field_target){ table, element }, NOWHERE,
                      prefix, NULL))
        return false;
    for (int i = 0; i < table->count; i++) {
        const char *name = table->rows[i].name;
        if ((table->rows[i].flags & FIELD_REQUIRED) && !message_member(&value->inner, name))
            return is_missing(reader, prefix, name);
    }
    return true;
}

static bool read_list(struct field_reader *reader, const struct value *value, void *into)
{
    const struct field *field = reader->field;
    const struct message *list;
    char pointer[FAULT_POINTER_MAX], name[64];
    if (!value_is_list(value, &list))
        return field_wrong_type(reader, value, "an array of objects");
    char *element = arena_calloc(reader->arena, (size_t)list->count, field->inner->bytes);
    if (!element)
        return fault_no_memory(reader->fault);
    *(void **)((char *)into + field->offset) = element;
    *(int64_t *)((char *)into + field->count) = list->count;
    memcpy(pointer, reader->pointer, sizeof pointer);
    for (int64_t i = 0; i < list->count; i++, element += field->inner->bytes) {
        char index[24];
        snprintf(index, sizeof index, "%" PRId64, i);
        snprintf(name, sizeof name, "%.30s[%s]", field->name, index);
        field_point_to(reader, pointer, index);
        reader->name = name;
        reader->field = field;
        if (!read_element(reader, &list->values[i], element))
            return false;
    }
    return true;
}

static bool read_value(struct field_reader *reader, const struct value *value, void *into)
{
    const struct field *field = reader->field;
    void *place = (char *)into + field->offset;
    switch (field->kind) {
    case FIELD_ARRAY:
    case FIELD_MASK:
        return field_read_array(reader, value, into);
    case FIELD_LENGTHS:
        return field_read_lengths(reader, value, place);
    case FIELD_STRINGS:
        return field_read_strings(reader, value, place, (int64_t *)((char *)into + field->count));
    case FIELD_INTEGERS:
    case FIELD_INDICES:
        return field_read_integers(reader, value, field->expected, place,
                                   (int64_t *)((char *)into + field->count));
    case FIELD_PAIR:
        return field_read_pair(reader, value, place);
    case FIELD_OBJECT:
        return read_object(reader, value, place);
    case FIELD_LIST:
        return read_list(reader, value, into);
    case FIELD_OWN:
        return field->own(reader, value, into);
    case FIELD_ELSEWHERE:
        return true;
    case FIELD_REFUSED:
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s", field->expected);
    default:
        return field_read_single(reader, value, place);
    }
}

static bool read_field(struct reading *reading, const struct value *value)
{
    struct field_reader *reader = &reading->reader;
    const bool is_tensor = value->kind == VALUE_TENSOR;
    const struct field *field = field_find(reading->more.table, reader->naming, value->name);
    void *into = field ? reading->more.into : reading->target.into;
    if (!field)
        field = field_find(reading->target.table, reader->naming, value->name);
    field_point_to(reader, reading->prefix, value->name);
    if (value->kind == VALUE_NULL && (field || reading->target.table->policy == FIELDS_LENIENT))
        return true;
    if (!field || (is_tensor && !(field->flags & FIELD_TENSOR)))
        return unknown_name(reading, value->name, is_tensor);
    reader->field = field;
    if (!read_value(reader, value, into))
        return false;
    if (field->has && field->kind != FIELD_MASK)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): no table is read into NULL */
        *(bool *)((char *)into + field->has) = true;
    return !field->check || field->check(reader, (char *)into + field->offset);
}

static bool read_absent(struct reading *reading, const struct field *field)
{
    static const struct value ABSENT = { .kind = VALUE_NULL };
    struct field_reader *reader = &reading->reader;
    if (field->flags & FIELD_REQUIRED)
        return is_missing(reader, reading->prefix, field->name);
    field_point_to(reader, reading->prefix, field->name);
    reader->field = field;
    return field->kind != FIELD_OWN || field->own(reader, &ABSENT, reading->target.into);
}

/* Reads a table that is in_order. */
static bool read_in_order(struct reading *reading, const struct message *message)
{
    const struct field_table *table = reading->target.table;
    for (int64_t i = 0; i < message->count; i++) {
        const struct value *value = &message->values[i];
        field_point_to(&reading->reader, reading->prefix, value->name);
        if (!field_find(table, reading->reader.naming, value->name)
            && !unknown_name(reading, value->name, value->kind == VALUE_TENSOR))
            return false;
    }
    for (int i = 0; i < table->count; i++) {
        const struct field *field = &table->rows[i];
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a row is never at NULL */
        const bool good = message_member(message, field->name)
                              ? read_field(reading, message_find(message, field->name))
                              : read_absent(reading, field);
        if (!good)
            return false;
    }
    return true;
}

static bool read_message(const struct field_reader *like, const struct message *message,
                         struct field_target target, struct field_target more, const char *prefix,
                         const char *list)
{
    struct reading reading = {
        .reader = *like, .target = target, .more = more, .prefix = prefix, .list = list
    };
    if (target.table->in_order)
        return read_in_order(&reading, message);
    for (int64_t i = 0; i < message->count; i++) {
        const struct value *value = &message->values[i];
        if ((!list || strcmp(value->name, list) != 0) && !read_field(&reading, value))
            return false;
    }
    return true;
}

bool fields_read(const struct field_reader *reader, const struct message *message,
                 struct field_target target, struct field_target more)
{
    return read_message(reader, message, target, more, reader->prefix ? reader->prefix : "",
                        target.table->list);
}

/* ------------------------------------------------------------------ items -- */

/* An element that is no object is a fault of the whole list. */
static bool check_objects(struct field_reader *reader, const struct message *list, const char *name)
{
    char pointer[FAULT_POINTER_MAX], index[24];
    memcpy(pointer, reader->pointer, sizeof pointer);
    for (int64_t i = 0; i < list->count; i++) {
        if (list->values[i].kind == VALUE_OBJECT)
            continue;
        snprintf(index, sizeof index, "%" PRId64, i);
        field_point_to(reader, pointer, index);
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%s[%" PRId64 "] is %s; expected an object", name, i,
                            value_words(&list->values[i]));
    }
    return true;
}

static bool find_items(struct field_reader *reader, const struct message *message,
                       const struct field_table *table, const struct message **items)
{
    const struct value *value = message_find(message, table->list);
    field_point_to(reader, "", table->list);
    if (!value)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s is missing",
                            table->list);
    if (!value_is_list(value, items))
        return field_wrong_type(reader, value, "an array of requests");
    if ((*items)->count > table->items_max)
        return fault_set_at(reader->fault, reader->pointer, FAULT_TOO_LARGE,
                            "%s has %d items; at most %d are taken, send several batches",
                            table->list, (int)(*items)->count, table->items_max);
    return check_objects(reader, *items, table->list);
}

/* Copies of what was read for all items. */
static bool make_copies(struct arena *arena, struct field_target like, int64_t count, void **copies)
{
    const size_t bytes = like.into ? like.table->bytes : 0;
    *copies = like.into ? arena_alloc(arena, (size_t)count * bytes) : NULL;
    for (int64_t i = 0; *copies && i < count; i++)
        memcpy((char *)*copies + (size_t)i * bytes, like.into, bytes);
    return *copies || !like.into;
}

static struct field_target nth_target(struct field_target like, void *copies, int64_t n)
{
    return like.table
               ? (struct field_target){ like.table, (char *)copies + (size_t)n * like.table->bytes }
               : NOWHERE;
}

static bool read_list_items(const struct field_reader *like, const struct message *message,
                            struct field_items *items)
{
    struct field_reader reader = *like;
    const struct message *list = NULL;
    if (!find_items(&reader, message, items->target.table, &list))
        return false;
    items->count = list->count;
    if (!make_copies(reader.arena, items->target, list->count, &items->items)
        || !make_copies(reader.arena, items->more, list->count, &items->more_items))
        return fault_no_memory(like->fault);
    for (int64_t i = 0; i < list->count; i++) {
        const struct value *value = &list->values[i];
        const struct field_target target = nth_target(items->target, items->items, i);
        struct field_target more = nth_target(items->more, items->more_items, i);
        reader.fault = (struct fault *)((char *)target.into + items->fault_offset);
        if (!more.into)
            more = (struct field_target){ items->more.table, target.into };
        read_message(&reader, &value->inner, target, more, "", NULL);
    }
    return true;
}

bool fields_read_items(const struct field_reader *reader, const struct message *message,
                       struct field_items *items)
{
    const char *list = items->target.table->list;
    struct field_target more = items->more;
    if (!more.into)
        more.into = items->target.into;
    if (!fields_read(reader, message, items->target, more))
        return false;
    items->is_list = list && (!items->list_may_lack || message_find(message, list));
    if (items->is_list)
        return read_list_items(reader, message, items);
    items->count = 1;
    return (make_copies(reader->arena, items->target, 1, &items->items)
            && make_copies(reader->arena, items->more, 1, &items->more_items))
           || fault_no_memory(reader->fault);
}
