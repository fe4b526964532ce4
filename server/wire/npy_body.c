/* npy_body.c - see npy_body.h. */
#include "wire/npy_body.h"

#include "formats/accept.h"
#include "wire/safetensors_body.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum { VALUE_BYTES = 256 }; /* of a parameter of an address, at most */

/* ----------------------------------------------------------- the headers -- */

/* Copies a field of the address. "outputs", a list of names, is written as JSON. */
static bool keep_field(struct npy_forms *forms, const char *name, const char *value,
                       struct arena *arena)
{
    char json[2 * VALUE_BYTES * 3 + 8];
    struct text text = text_in(json, sizeof json);
    if (strcmp(name, "outputs") == 0) {
        for (const char *at = value;; at++) {
            const size_t length = strcspn(at, ",");
            text_raw(&text, at == value ? "[" : ",");
            text_string_bytes(&text, at, length);
            at += length;
            if (!*at)
                break;
        }
        text_raw(&text, "]");
        json[text.used] = '\0';
        value = json;
    }
    const char *kept = arena_strdup(arena, value);
    if (!kept)
        return false;
    forms->fields[forms->field_count++] = (struct safetensors_pair){
        .key = name, .value = kept, .key_length = strlen(name), .value_length = strlen(kept)
    };
    return true;
}

static bool read_fields(struct npy_forms *forms, const struct exchange *exchange,
                        const char *const *names, int name_count, struct arena *arena,
                        struct fault *fault)
{
    char value[VALUE_BYTES];
    if (!exchange_check_query(exchange, names, name_count, fault))
        return false;
    forms->fields = arena_calloc(arena, (size_t)name_count, sizeof *forms->fields);
    if (!forms->fields)
        return fault_no_memory(fault);
    for (int i = 0; i < name_count; i++)
        if (exchange_query(exchange, names[i], value, sizeof value)
            && !keep_field(forms, names[i], value, arena))
            return fault_no_memory(fault);
    return true;
}

bool npy_forms_read(struct npy_forms *forms, const struct exchange *exchange,
                    const char *const *names, int name_count, struct arena *arena,
                    struct fault *fault)
{
    static const char *const TYPES[] = { NPY_TYPE, SAFETENSORS_TYPE, "application/json" };
    const char *type = exchange_body_type(exchange);
    forms->is_body = strcasecmp(type, NPY_TYPE) == 0;
    const int usual = forms->is_body ? 0 : strcasecmp(type, SAFETENSORS_TYPE) == 0 ? 1 : 2;
    forms->is_answer =
        accept_choose(exchange_header(exchange, HTTP_HEADER_ACCEPT), TYPES, 3, usual) == 0;
    return !forms->is_body || read_fields(forms, exchange, names, name_count, arena, fault);
}

/* -------------------------------------------------------------- the body -- */

bool npy_body_fields(struct v1_reader *reader, const struct npy_forms *forms, struct text *json)
{
    static const char *const TEXTS[] = { "model", "normalizer", "precision", NULL };
    return safetensors_body_fields(reader, forms->fields, forms->field_count, "the address", TEXTS,
                                   json);
}

bool npy_body_numbers(struct v1_reader *reader, struct byte_slice body, struct array *array)
{
    struct npy_array file;
    if (!npy_read(&file, body, reader->fault))
        return false;
    /* As text a few bytes could otherwise ask for any number of []. */
    if (file.count == 0 && file.shape[0] > 0)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "the .npy file has no numbers and %" PRId64 " rows; expected none",
                         file.shape[0]);
    *array = (struct array){ .dtype = file.dtype, .rank = file.rank, .data = file.data };
    for (int i = 0; i < file.rank; i++)
        array->shape[i] = file.shape[i];
    if ((uintptr_t)file.data % attn_dtype_size(file.dtype) == 0)
        return true;
    void *copy = arena_alloc(reader->arena, file.size);
    if (!copy)
        return fault_no_memory(reader->fault);
    array->data = memcpy(copy, file.data, file.size);
    return true;
}

/* ------------------------------------------------------------- the answer -- */

bool npy_answer_make(struct call *call, struct arena *arena, const struct array *array,
                     struct fault *fault)
{
    size_t size = attn_dtype_size(array->dtype);
    struct byte_slice *parts = arena_calloc(arena, 2, sizeof *parts);
    if (!parts)
        return fault_no_memory(fault);
    npy_write_head(&call->text, array->dtype, array->rank, array->shape);
    if (!text_finish(&call->text, fault))
        return false;
    for (int i = 0; i < array->rank; i++)
        size *= (size_t)array->shape[i]; /* no overflow: they are in memory */
    parts[0] = (struct byte_slice){ call->text.data, call->text.used };
    parts[1] = (struct byte_slice){ array->data, size };
    call->parts = parts;
    call->part_count = size > 0 ? 2 : 1;
    call->content_type = NPY_TYPE;
    return true;
}
