/* session_body.c - see session_body.h. */
#include "wire/session_body.h"

#include "config/config_value.h"
#include "session/session_file_words.h"
#include "wire/v1_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct session_body *of(struct v1_reader *reader)
{
    return reader->asked;
}

/* ----------------------------------------------------------------------- fields -- */

static bool read_model(struct v1_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "a string");
    of(reader)->model_name = node->valuestring;
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return one < other ? -1 : one > other;
}

static bool read_layers(struct v1_reader *reader, const cJSON *node)
{
    struct session_body *body = of(reader);
    const struct json_numbers *numbers = v1_read_numbers(reader, node, "an array of layer numbers");
    if (!numbers || !v1_expect_numbers(reader, numbers, false))
        return false;
    if (numbers->rank != 1 || numbers->count == 0)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "layers is %s; expected a list of layer numbers, such as [0,1]",
                            numbers->count == 0 ? "empty" : "no flat list");
    if (!v1_integers_of(reader, numbers, FAULT_OPTION, &body->layers))
        return false;
    body->layer_count = numbers->count;
    qsort(body->layers, (size_t)body->layer_count, sizeof *body->layers, compare_numbers);
    for (int64_t i = 1; i < body->layer_count; i++)
        if (body->layers[i] == body->layers[i - 1])
            return fault_set_at(reader->fault, reader->pointer, FAULT_DUPLICATE,
                                "layers has %" PRId64 " twice", body->layers[i]);
    return true;
}

static bool read_dtype(struct v1_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "\"f32\", \"f16\", \"bf16\" or \"int8\"");
    const struct session_file_dtype *dtype = session_file_dtype_named(node->valuestring);
    if (dtype) {
        of(reader)->dtype = dtype->dtype;
        return true;
    }
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "there is no dtype '%.40s'; expected f32, f16, bf16 or int8",
                        node->valuestring);
}

static bool read_kv_len_max(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_integer(reader, node, 1, FAULT_LENGTH, &of(reader)->kv_len_max);
}

static bool read_ttl(struct v1_reader *reader, const cJSON *node)
{
    int64_t *ttl_ns = &of(reader)->ttl_ns;
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "a time such as \"10m\"");
    if (config_value_time(node->valuestring, ttl_ns) && *ttl_ns > 0
        && *ttl_ns <= SESSION_TTL_MAX_NS)
        return true;
    return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                        "ttl is '%.40s'; expected a time above 0 and of at most 24h, such as "
                        "\"90s\", \"10m\" or \"1h\"",
                        node->valuestring);
}

static bool read_evictable(struct v1_reader *reader, const cJSON *node)
{
    of(reader)->has_evictable = true;
    return v1_read_bool(reader, node, &of(reader)->is_evictable);
}

static bool read_id(struct v1_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "a string");
    of(reader)->id = node->valuestring;
    return session_id_check(node->valuestring, reader->fault);
}

static bool read_kv_len(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_integer(reader, node, 0, FAULT_LENGTH, &of(reader)->kv_len);
}

static bool read_window(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_integer(reader, node, 1, FAULT_OPTION, &of(reader)->window);
}

static bool read_first_keys(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_integer(reader, node, 0, FAULT_OPTION, &of(reader)->first_keys);
}

/* ----------------------------------------------------------------------- bodies -- */

static const struct v1_field CREATE[] = {
    { "model", read_model },
    { "layers", read_layers },
    { "dtype", read_dtype },
    { "kv_len_max", read_kv_len_max },
    { "ttl", read_ttl },
    { "evictable", read_evictable },
    { "id", read_id },
    { "window", read_window },
    { "first_keys", read_first_keys },
};

static const struct v1_field CHANGE[] = { { "ttl", read_ttl }, { "evictable", read_evictable } };

static const struct v1_field FORK[] = { { "id", read_id }, { "ttl", read_ttl } };

static const struct v1_field TRUNCATE[] = { { "kv_len", read_kv_len } };

static bool read_body(struct session_body *body, const struct json_document *document,
                      const struct v1_field *fields, int count, struct arena *arena,
                      struct fault *fault)
{
    *body = (struct session_body){ .dtype = ATTN_F32, .kv_len_max = INT64_MAX, .kv_len = -1 };
    struct v1_reader reader = {
        .document = document, .arena = arena, .asked = body, .fault = fault
    };
    if (document->root && !cJSON_IsObject(document->root))
        return fault_set(fault, FAULT_TYPE, "the body is %s; expected an object",
                         json_kind(document, document->root));
    return v1_read_fields(&reader, document->root, fields, count);
}

bool session_body_read_create(struct session_body *body, const struct json_document *document,
                              struct arena *arena, struct fault *fault)
{
    return read_body(body, document, CREATE, sizeof CREATE / sizeof CREATE[0], arena, fault)
           && (body->window > 0 || body->first_keys == 0
               || fault_set_at(fault, "/first_keys", FAULT_OPTION,
                               "first_keys is %" PRId64
                               " without a window; without one all keys are "
                               "seen",
                               body->first_keys));
}

bool session_body_read_change(struct session_body *body, const struct json_document *document,
                              struct arena *arena, struct fault *fault)
{
    return read_body(body, document, CHANGE, sizeof CHANGE / sizeof CHANGE[0], arena, fault);
}

bool session_body_read_fork(struct session_body *body, const struct json_document *document,
                            struct arena *arena, struct fault *fault)
{
    return read_body(body, document, FORK, sizeof FORK / sizeof FORK[0], arena, fault);
}

bool session_body_read_truncate(struct session_body *body, const struct json_document *document,
                                struct arena *arena, struct fault *fault)
{
    return read_body(body, document, TRUNCATE, 1, arena, fault)
           && (body->kv_len >= 0
               || fault_set_at(fault, "/kv_len", FAULT_FIELD,
                               "kv_len is missing; expected the length to go back to"));
}
