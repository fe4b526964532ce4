/* SPDX-License-Identifier: Apache-2.0 */
/* call_formats.c - reads Content-Type and Accept, and fields out of an address. */
#include "call/call_formats.h"

#include "call/service.h"
#include "formats/accept.h"
#include "json/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    VALUE_BYTES = 256, /* of a parameter of an address */
    FIELDS_MAX = 32,   /* parameters of an address */
    FORMATS_MAX = 8    /* of a path */
};

/* "a, b or c". */
static const char *list_types(const struct format *const *formats, char *text, size_t size)
{
    size_t used = 0;
    for (int i = 0; formats[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0           ? ""
                                 : formats[i + 1] ? ", "
                                                  : " or ",
                                 formats[i]->content_type);
    return text;
}

/* Names between commas, as JSON; out has 6 bytes for each of VALUE_BYTES, and 8 more. */
static void write_names(const char *value, char *out, size_t size)
{
    struct text text = text_in(out, size);
    for (const char *at = value;; at++) {
        const size_t length = strcspn(at, ",");
        text_raw(&text, at == value ? "[" : ",");
        text_string_bytes(&text, at, length);
        at += length;
        if (!*at)
            break;
    }
    text_raw(&text, "]");
    out[text.used] = '\0';
}

static bool read_address(const struct exchange *exchange, const struct field_table *table,
                         struct arena *arena, struct format_body *body, struct fault *fault)
{
    const char *names[FIELDS_MAX];
    char value[VALUE_BYTES], list[6 * VALUE_BYTES + 8];
    int count = 0;
    for (int i = 0; i < table->count && count < FIELDS_MAX; i++)
        if (table->rows[i].flags & FIELD_ADDRESS)
            names[count++] = table->rows[i].name;
    if (!exchange_check_query(exchange, names, count, fault))
        return false;
    struct safetensors_pair *pairs = arena_calloc(arena, (size_t)count, sizeof *pairs);
    if (!pairs)
        return fault_no_memory(fault);
    body->address = pairs;
    for (int i = 0; i < count; i++) {
        if (!exchange_query(exchange, names[i], value, sizeof value))
            continue;
        const bool is_list = field_find(table, NAMED_AS_FIELDS, names[i])->kind == FIELD_ENUM_SET;
        if (is_list)
            write_names(value, list, sizeof list);
        const char *kept = arena_strdup(arena, is_list ? list : value);
        if (!kept)
            return fault_no_memory(fault);
        pairs[body->address_count++] =
            (struct safetensors_pair){ names[i], kept, strlen(names[i]), strlen(kept) };
    }
    return true;
}

/* The format that Accept chooses. Of equal ones, of which it names some, that is the last of
 * formats that it names; where a wildcard means them, that of the body, else the first. */
static const struct format *choose_answer(const struct exchange *exchange,
                                          const struct format *const *formats,
                                          const struct format *of_body)
{
    const char *accept = exchange_header(exchange, HTTP_HEADER_ACCEPT);
    const char *types[FORMATS_MAX], *reversed[FORMATS_MAX];
    int count = 0, usual = 0;
    for (; formats[count]; count++) {
        types[count] = formats[count]->content_type;
        usual = formats[count] == of_body ? count : usual;
    }
    for (int i = 0; i < count; i++)
        reversed[i] = types[count - 1 - i];
    const int chosen = count - 1 - accept_choose(accept, reversed, count, count - 1 - usual);
    const bool is_named = chosen == usual || strcasestr(accept, types[chosen]);
    return formats[is_named ? chosen : accept_choose(accept, types, count, usual)];
}

bool call_formats_choose(const struct exchange *exchange, const struct format *const *formats,
                         const struct field_table *table, struct arena *arena,
                         struct format_body *body, const struct format **answer,
                         struct fault *fault)
{
    const char *type = exchange_body_type(exchange);
    char types[128];
    body->format = formats[0];
    for (int i = 1; formats[i]; i++)
        if (strcasecmp(type, formats[i]->content_type) == 0)
            body->format = formats[i];
    *answer = choose_answer(exchange, formats, body->format);
    if (body->format == formats[0] && !service_is_json(exchange))
        return service_takes_json(exchange, list_types(formats, types, sizeof types), fault);
    return !body->format->reads_address || read_address(exchange, table, arena, body, fault);
}

bool call_formats_read(struct call *call, struct format_body *body, const struct field_table *table,
                       struct message *message, struct fault *fault)
{
    if (!body->format)
        body->format = &format_json;
    body->bytes = call->body;
    body->memory = call->memory;
    return body->format->read(body, table, message, fault);
}
