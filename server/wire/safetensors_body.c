/* safetensors_body.c - see safetensors_body.h. */
#include "wire/safetensors_body.h"

#include "base/dtype.h"
#include "formats/accept.h"
#include "service/service.h"
#include "wire/oip_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ----------------------------------------------------------- the headers -- */

bool safetensors_forms_is_answer(const struct exchange *exchange, bool is_body)
{
    static const char *const TYPES[] = { SAFETENSORS_TYPE, "application/json" };
    return accept_choose(exchange_header(exchange, HTTP_HEADER_ACCEPT), TYPES, 2, is_body ? 0 : 1)
           == 0;
}

bool safetensors_forms_read(struct safetensors_forms *forms, const struct exchange *exchange,
                            const char *types, struct fault *fault)
{
    forms->is_body = strcasecmp(exchange_body_type(exchange), SAFETENSORS_TYPE) == 0;
    forms->is_answer = safetensors_forms_is_answer(exchange, forms->is_body);
    return forms->is_body || service_takes_json(exchange, types, fault);
}

/* ---------------------------------------------------------- the metadata -- */

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static bool is_json(const char *text, size_t size)
{
    const struct json_options options = { .values_max = JSON_REQUEST_VALUES_MAX };
    struct json_document document;
    struct fault fault;
    const bool good = json_read(&document, text, size, &options, &fault);
    json_free(&document);
    return good || fault.code == FAULT_MEMORY; /* the next allocation reports it */
}

/* Writes a member of the object. "format" is skipped: libraries that write such files add it by
 * themselves, and it means nothing here. */
static bool write_member(struct text *text, const struct safetensors_pair *pair, const char *place,
                         const char *const *texts, struct v1_reader *reader)
{
    v1_point_to(reader, pair->key);
    if (strcmp(pair->key, "format") == 0)
        return true;
    if (strlen(pair->key) != pair->key_length || strlen(pair->value) != pair->value_length)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                            "'%.60s' in %s holds a NUL character", pair->key, place);
    text_raw(text, text->used > 1 ? "," : "");
    text_key(text, pair->key);
    if (is_among(pair->key, texts)) {
        text_string(text, pair->value);
        return true;
    }
    if (!is_json(pair->value, pair->value_length))
        return fault_set_at(reader->fault, reader->pointer, FAULT_TYPE,
                            "%.60s in %s is '%.60s'; expected the field's value as JSON", pair->key,
                            place, pair->value);
    text_bytes(text, pair->value, pair->value_length);
    return true;
}

bool safetensors_body_fields(struct v1_reader *reader, const struct safetensors_pair *pairs,
                             int64_t pair_count, const char *place, const char *const *texts,
                             struct text *json)
{
    bool good = true;
    text_raw(json, "{");
    for (int64_t i = 0; good && i < pair_count; i++)
        good = write_member(json, &pairs[i], place, texts, reader);
    text_raw(json, "}");
    return good && text_finish(json, reader->fault);
}

/* ----------------------------------------------------------- the tensors -- */

enum { DIMENSION_MAX = INT32_MAX };

static bool wrong_dtype(struct v1_reader *reader, const struct safetensors_entry *entry,
                        const char *expected)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_DTYPE, "%s is %s; expected %s",
                        reader->name, entry->dtype, expected);
}

bool safetensors_body_twice(struct v1_reader *reader)
{
    return fault_set_at(reader->fault, reader->pointer, FAULT_DUPLICATE,
                        "%s is a tensor and stands in __metadata__ too", reader->name);
}

static bool read_shape(struct v1_reader *reader, const struct safetensors_entry *entry,
                       struct array *array)
{
    uint64_t shape[ARRAY_RANK_MAX];
    if (entry->rank > ARRAY_RANK_MAX)
        return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                            "%s has %" PRId64 " dimensions; expected at most %d", reader->name,
                            entry->rank, ARRAY_RANK_MAX);
    safetensors_shape(entry, shape, entry->rank);
    array->rank = (int)entry->rank;
    for (int i = 0; i < array->rank; i++) {
        if (shape[i] > DIMENSION_MAX) /* only where another dimension is 0 */
            return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                                "dimension %d of %s is %" PRIu64 "; expected at most %d", i,
                                reader->name, shape[i], DIMENSION_MAX);
        array->shape[i] = (int64_t)shape[i];
    }
    return true;
}

/* A boolean is a byte that is 0 or 1. */
static bool check_booleans(struct v1_reader *reader, const struct safetensors_entry *entry)
{
    const unsigned char *bytes = entry->data;
    for (size_t i = 0; i < entry->size; i++)
        if (bytes[i] > 1)
            return fault_set_at(reader->fault, reader->pointer, FAULT_BINARY,
                                "element %zu of %s is the byte %u; expected 0 or 1", i,
                                reader->name, bytes[i]);
    return true;
}

bool safetensors_body_numbers(struct v1_reader *reader, const struct safetensors_entry *entry,
                              bool may_be_bool, struct array *array)
{
    enum attn_dtype dtype;
    if (array->data)
        return safetensors_body_twice(reader);
    if (!dtype_find(entry->dtype, &dtype) || (dtype == ATTN_BOOL && !may_be_bool))
        return wrong_dtype(reader, entry, may_be_bool ? DTYPE_ALL : DTYPE_NUMBERS);
    if (!read_shape(reader, entry, array) || (dtype == ATTN_BOOL && !check_booleans(reader, entry)))
        return false;
    array->dtype = dtype;
    array->data = entry->data;
    if ((uintptr_t)entry->data % attn_dtype_size(dtype) == 0)
        return true;
    void *copy = arena_alloc(reader->arena, entry->size);
    if (!copy)
        return fault_no_memory(reader->fault);
    array->data = memcpy(copy, entry->data, entry->size);
    return true;
}

bool safetensors_body_integers(struct v1_reader *reader, const struct safetensors_entry *entry,
                               struct array *shape, int64_t **integers)
{
    char name[16];
    snprintf(name, sizeof name, "%sINT%.2s", entry->dtype[0] == 'U' ? "U" : "", entry->dtype + 1);
    const struct oip_datatype *datatype =
        strchr("IU", entry->dtype[0]) ? oip_datatype_find(name) : NULL;
    if (!datatype)
        return wrong_dtype(reader, entry, "I64, I32 or another integer");
    if (!read_shape(reader, entry, shape))
        return false;
    const size_t count = entry->size / datatype->size;
    *integers = arena_calloc(reader->arena, count, sizeof **integers);
    if (!*integers)
        return fault_no_memory(reader->fault);
    for (size_t i = 0; i < count; i++)
        (*integers)[i] =
            oip_datatype_integer(datatype, (const char *)entry->data + i * datatype->size);
    return true;
}
