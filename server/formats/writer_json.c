/* SPDX-License-Identifier: Apache-2.0 */
/* writer_json.c - answers as JSON, straight into the text of the answer. */
#include "formats/format.h"
#include "formats/writer.h"

#include "json/json_numbers.h"

#include <string.h>

struct json_writer {
    struct writer base; /* first */
    bool has_before;    /* a member, in the object or list that is open */
    bool is_group;      /* of names that may need escapes */
    uint64_t lists;     /* a bit for each open level, the innermost first: it is a list */
};

static struct json_writer *json_of(struct writer *writer)
{
    return (struct json_writer *)writer;
}

static struct writer *json_begin(const struct format_body *body, struct text *text,
                                 struct fault *fault)
{
    struct json_writer *writer = arena_calloc(body->arena, 1, sizeof *writer);
    if (!writer) {
        fault_no_memory(fault);
        return NULL;
    }
    writer->base = (struct writer){ &writer_json, body->arena, text, fault, .parts = NULL };
    return &writer->base;
}

/* Writes what comes before a value and returns where that begins, with room for `more` bytes of it;
 * the caller counts both (json_wrote()). NULL: the text has failed. Nothing in the daemon's own
 * names needs an escape. */
static char *json_before(struct writer *writer, const char *name, size_t more)
{
    struct json_writer *json = json_of(writer);
    const size_t size = name ? strlen(name) : 0;
    char *p = text_reserve(writer->text, size + 4 + more);
    if (!p)
        return NULL;
    if (json->has_before)
        *p++ = ',';
    json->has_before = true;
    if (name) {
        *p++ = '"';
        p = (char *)memcpy(p, name, size + 1) + size;
        *p++ = '"';
        *p++ = ':';
    }
    return p;
}

static void json_wrote(struct writer *writer, const char *end)
{
    writer->text->used = (size_t)(end - writer->text->data);
}

static struct text *json_member(struct writer *writer, const char *name)
{
    const bool is_group = json_of(writer)->is_group;
    const char *p = json_before(writer, is_group ? NULL : name, 0);
    if (p)
        json_wrote(writer, p);
    if (name && is_group)
        text_key(writer->text, name);
    return writer->text;
}

static void json_open(struct writer *writer, const char *name, bool is_list)
{
    struct json_writer *json = json_of(writer);
    const bool is_in_list = json->lists & 1;
    char *p = json_before(writer, is_in_list ? NULL : name, 1);
    if (p) {
        *p++ = is_list ? '[' : '{';
        json_wrote(writer, p);
    }
    json->lists = json->lists << 1 | is_list;
    json->has_before = false;
}

static void json_object(struct writer *writer, const char *name)
{
    json_open(writer, name, false);
}

static void json_list(struct writer *writer, const char *name)
{
    json_open(writer, name, true);
}

static void json_group(struct writer *writer, const char *name)
{
    json_open(writer, name, false);
    json_of(writer)->is_group = true;
}

static void json_end(struct writer *writer)
{
    struct json_writer *json = json_of(writer);
    text_bytes(writer->text, (json->lists & 1) ? "]" : "}", 1);
    json->lists >>= 1;
    json->has_before = true;
    json->is_group = false;
}

static void json_string(struct writer *writer, const char *name, const char *value)
{
    struct text *text = json_member(writer, name);
    if (value)
        text_string(text, value);
    else
        text_raw(text, "null");
}

static void json_flag(struct writer *writer, const char *name, bool value)
{
    text_raw(json_member(writer, name), value ? "true" : "false");
}

static void json_integer(struct writer *writer, const char *name, int64_t value)
{
    text_integer(json_member(writer, name), value);
}

static void json_array(struct writer *writer, const char *name, const struct array *array)
{
    struct text *text = json_member(writer, name);
    if (array->dtype == ATTN_F64 && array->rank == 0) {
        char number[JSON_DOUBLE_BYTES_MAX + 1];
        number[json_write_double(number, *(const double *)array->data)] = '\0';
        text_raw(text, number);
    } else if (array->dtype == ATTN_F64) {
        const struct tensor_text tensor =
            tensor_text_make(array->data, array->dtype, array->rank, array->shape);
        text_numbers(text, &tensor);
    } else {
        text_tensor(text, array->data, array->rank, array->shape);
    }
}

static void json_indices(struct writer *writer, const char *name, const int64_t *values, int rank,
                         const int64_t *shape)
{
    struct tensor_text tensor = tensor_text_make(values, ATTN_F32, rank, shape);
    tensor.is_integers = true;
    text_numbers(json_member(writer, name), &tensor);
}

/* The text itself remembers what failed. */
static bool json_finish(struct writer *writer)
{
    text_raw(writer->text, "\n");
    return true;
}

const struct writer_kind writer_json = {
    .content_type = "application/json",
    .begin = json_begin,
    .object = json_object,
    .list = json_list,
    .group = json_group,
    .end = json_end,
    .string = json_string,
    .flag = json_flag,
    .integer = json_integer,
    .array = json_array,
    .indices = json_indices,
    .finish = json_finish,
};
