/* v1_trace.c - reads the fields of a trace.
 *
 * One table holds every field. In a batch the fields beside "requests" are read once, into one
 * item, and the item of each request begins as a copy of it. */
#include "wire/v1_trace.h"

#include "config/config_value.h"
#include "text/json_string.h"
#include "wire/v1_weight_map.h"

#include <string.h>

/* The longest that a trace may be kept. */
#define KEEP_MAX_NS (INT64_C(24) * 3600 * 1000000000)

struct trace_reader {
    struct v1_reader values;  /* its item takes the weight map */
    struct infer_item mapped; /* that item */
    struct trace_item *item;
    bool is_of_session;
};

/* ------------------------------------------------------------------ values -- */

static bool read_integers(struct trace_reader *reader, const cJSON *node, bool negative_allowed,
                          const int64_t **list, int64_t *count)
{
    struct v1_reader *values = &reader->values;
    const char *expected = "a list of integers";
    int64_t *integers;
    const struct json_numbers *numbers = v1_read_numbers(values, node, expected);
    if (!numbers || !v1_expect_numbers(values, numbers, false))
        return false;
    if (numbers->rank != 1)
        return fault_set_at(values->fault, values->pointer, FAULT_TYPE,
                            "%s has %d levels; expected %s", values->name, numbers->rank, expected);
    if (!v1_integers_from(values, numbers, negative_allowed, FAULT_OPTION, &integers))
        return false;
    *list = integers;
    *count = numbers->count;
    return true;
}

/* An array of strings; the strings stay in the document. */
static bool read_names(struct trace_reader *reader, const cJSON *node, const char *const **list,
                       int64_t *count)
{
    struct v1_reader *values = &reader->values;
    const cJSON *name;
    const int size = cJSON_IsArray(node) ? cJSON_GetArraySize(node) : 0;
    if (!cJSON_IsArray(node) || (size && json_numbers_of(values->document, node)))
        return v1_wrong_type(values, node, "an array of strings");
    const char **names = arena_calloc(values->arena, (size_t)size, sizeof *names);
    if (!names)
        return fault_no_memory(values->fault);
    int64_t used = 0;
    cJSON_ArrayForEach(name, node)
    {
        if (!cJSON_IsString(name))
            return fault_set_at(values->fault, values->pointer, FAULT_TYPE,
                                "%s holds %s; expected strings", values->name,
                                json_kind(values->document, name));
        names[used++] = name->valuestring;
    }
    *list = names;
    *count = used;
    return true;
}

/* ------------------------------------------------------------------ fields -- */

static bool read_model(struct trace_reader *reader, const cJSON *node)
{
    if (reader->is_of_session)
        return v1_model_of_session(&reader->values);
    if (!cJSON_IsString(node))
        return v1_wrong_type(&reader->values, node, "a string");
    reader->item->model_name = node->valuestring;
    return true;
}

static bool read_text(struct trace_reader *reader, const cJSON *node)
{
    return v1_read_string(&reader->values, node, &reader->item->text);
}

static bool read_pair(struct trace_reader *reader, const cJSON *node)
{
    return v1_read_string(&reader->values, node, &reader->item->pair);
}

static bool read_decoder_text(struct trace_reader *reader, const cJSON *node)
{
    return v1_read_string(&reader->values, node, &reader->item->decoder_text);
}

static bool read_special(struct trace_reader *reader, const cJSON *node)
{
    bool special = true;
    const bool read = v1_read_bool(&reader->values, node, &special);
    reader->item->has_special = true;
    reader->item->no_special = !special;
    return read;
}

static bool read_tokens(struct trace_reader *reader, const cJSON *node)
{
    struct trace_item *item = reader->item;
    item->has_tokens = true;
    return read_integers(reader, node, false, &item->tokens, &item->token_count);
}

static bool read_token_types(struct trace_reader *reader, const cJSON *node)
{
    struct trace_item *item = reader->item;
    item->has_token_types = true;
    return read_integers(reader, node, false, &item->token_types, &item->token_type_count);
}

static bool read_decoder_tokens(struct trace_reader *reader, const cJSON *node)
{
    struct trace_item *item = reader->item;
    item->has_decoder_tokens = true;
    return read_integers(reader, node, false, &item->decoder_tokens, &item->decoder_token_count);
}

static bool read_pixels(struct trace_reader *reader, const cJSON *node)
{
    return v1_read_array(&reader->values, node, false, &reader->item->pixels);
}

static bool read_features(struct trace_reader *reader, const cJSON *node)
{
    return v1_read_array(&reader->values, node, false, &reader->item->features);
}

static bool read_embeddings(struct trace_reader *reader, const cJSON *node)
{
    return v1_read_array(&reader->values, node, false, &reader->item->embeddings);
}

static bool read_layers(struct trace_reader *reader, const cJSON *node)
{
    struct trace_item *item = reader->item;
    item->has_layers = true;
    return read_integers(reader, node, false, &item->layers, &item->layer_count);
}

static bool read_kinds(struct trace_reader *reader, const cJSON *node)
{
    struct trace_item *item = reader->item;
    item->has_kinds = true;
    return read_names(reader, node, &item->kinds, &item->kind_count);
}

/* Each name with a comma and a space before it. */
#define X(NAME, name) ", " #name
static const char output_names[] = TRACE_OUTPUT_MAP(X);
#undef X

static bool read_outputs(struct trace_reader *reader, const cJSON *node)
{
    const char *const *names;
    int64_t count;
    if (!read_names(reader, node, &names, &count))
        return false;
    reader->item->has_outputs = true;
    memset(reader->item->outputs, 0, sizeof reader->item->outputs);
    for (int64_t i = 0; i < count; i++) {
        int output = 0;
        while (output < TRACE_OUTPUT_COUNT && strcmp(trace_output_names[output], names[i]) != 0)
            output++;
        if (output == TRACE_OUTPUT_COUNT)
            return fault_set_at(reader->values.fault, reader->values.pointer, FAULT_OPTION,
                                "there is no output '%.60s'; expected any of %s", names[i],
                                output_names + 2);
        reader->item->outputs[output] = true;
    }
    return true;
}

static bool read_weight_map(struct trace_reader *reader, const cJSON *node)
{
    if (!v1_read_weight_map(&reader->values, node))
        return false;
    reader->item->has_weight_map = true;
    reader->item->weight_map = reader->mapped.weight_map;
    return true;
}

/* [[start, end], ...] */
static bool read_spans(struct trace_reader *reader, const cJSON *node)
{
    struct v1_reader *values = &reader->values;
    const char *expected = "a list of [start, end]";
    int64_t *ends;
    const struct json_numbers *numbers = v1_read_numbers(values, node, expected);
    if (!numbers || !v1_expect_numbers(values, numbers, false))
        return false;
    if (numbers->count > 0 && (numbers->rank != 2 || numbers->shape[1] != 2))
        return fault_set_at(values->fault, values->pointer, FAULT_TYPE, "spans is not %s",
                            expected);
    struct attn_map_range *spans =
        arena_calloc(values->arena, (size_t)numbers->count / 2, sizeof *spans);
    if (!spans)
        return fault_no_memory(values->fault);
    if (!v1_integers_of(values, numbers, FAULT_OPTION, &ends))
        return false;
    for (int64_t i = 0; i < numbers->count / 2; i++)
        spans[i] = (struct attn_map_range){ ends[2 * i], ends[2 * i + 1] };
    reader->item->spans = spans;
    reader->item->span_count = numbers->count / 2;
    return true;
}

static bool read_span_texts(struct trace_reader *reader, const cJSON *node)
{
    struct trace_item *item = reader->item;
    const char *const *names = NULL;
    int64_t count = 0;
    if (!read_names(reader, node, &names, &count))
        return false;
    struct byte_slice *texts = arena_calloc(reader->values.arena, (size_t)count, sizeof *texts);
    if (!texts)
        return fault_no_memory(reader->values.fault);
    for (int64_t i = 0; i < count; i++)
        if (!json_string_read(names[i], reader->values.arena, &texts[i]))
            return fault_no_memory(reader->values.fault);
    item->span_texts = texts;
    item->span_text_count = count;
    return true;
}

static bool read_rows(struct trace_reader *reader, const cJSON *node)
{
    struct trace_item *item = reader->item;
    item->has_rows = true;
    return read_integers(reader, node, true, &item->rows, &item->row_count);
}

static bool read_top_k_tokens(struct trace_reader *reader, const cJSON *node)
{
    return v1_read_integer(&reader->values, node, 1, FAULT_OPTION, &reader->item->top_k_tokens);
}

static bool read_positions(struct trace_reader *reader, const cJSON *node)
{
    struct trace_item *item = reader->item;
    item->has_positions = true;
    return read_integers(reader, node, true, &item->positions, &item->position_count);
}

static bool read_keep(struct trace_reader *reader, const cJSON *node)
{
    const struct v1_reader *values = &reader->values;
    int64_t *keep_ns = &reader->item->keep_ns;
    if (!cJSON_IsString(node))
        return v1_wrong_type(&reader->values, node, "a time such as \"5m\"");
    if (config_value_time(node->valuestring, keep_ns) && *keep_ns > 0 && *keep_ns <= KEEP_MAX_NS)
        return true;
    return fault_set_at(values->fault, values->pointer, FAULT_OPTION,
                        "keep is '%.40s'; expected a time above 0 and of at most 24h, such as "
                        "\"90s\", \"5m\" or \"1h\"",
                        node->valuestring);
}

static bool read_at(struct trace_reader *reader, const cJSON *node)
{
    return v1_read_integer(&reader->values, node, 0, FAULT_LENGTH, &reader->item->at);
}

static bool read_append(struct trace_reader *reader, const cJSON *node)
{
    bool appends = true;
    const bool read = v1_read_bool(&reader->values, node, &appends);
    reader->item->drops_rows = !appends;
    return read;
}

struct field {
    const char *name;
    bool (*read)(struct trace_reader *reader, const cJSON *node);
};

static const struct field fields[] = {
    { "model", read_model },
    { "text", read_text },
    { "pair", read_pair },
    { "special", read_special },
    { "tokens", read_tokens },
    { "token_types", read_token_types },
    { "decoder_text", read_decoder_text },
    { "decoder_tokens", read_decoder_tokens },
    { "pixels", read_pixels },
    { "features", read_features },
    { "embeddings", read_embeddings },
    { "layers", read_layers },
    { "kinds", read_kinds },
    { "outputs", read_outputs },
    { "weight_map", read_weight_map },
    { "spans", read_spans },
    { "span_texts", read_span_texts },
    { "rows", read_rows },
    { "top_k_tokens", read_top_k_tokens },
    { "positions", read_positions },
    { "keep", read_keep },
    { "at", read_at }, /* this one and those behind it are of sessions alone */
    { "append", read_append },
};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0], SESSION_FIELD_COUNT = 2 };

static int field_count(const struct trace_reader *reader)
{
    return FIELD_COUNT - (reader->is_of_session ? 0 : SESSION_FIELD_COUNT);
}

static bool unknown_field(struct trace_reader *reader, const char *name, bool batch)
{
    const char *known[FIELD_COUNT + 1];
    const int count = field_count(reader);
    for (int i = 0; i < count; i++)
        known[i] = fields[i].name;
    known[count] = "requests";
    return v1_unknown_field_of(&reader->values, name, known, count + (batch ? 1 : 0));
}

/* A field that is null counts as absent. */
static bool read_object(struct trace_reader *reader, const cJSON *object, bool batch,
                        bool has_requests)
{
    const cJSON *node;
    cJSON_ArrayForEach(node, object)
    {
        const int count = field_count(reader);
        int i = 0;
        if (has_requests && strcmp(node->string, "requests") == 0)
            continue;
        while (i < count && strcmp(fields[i].name, node->string) != 0)
            i++;
        v1_point_to(&reader->values, node->string);
        if (i == count)
            return unknown_field(reader, node->string, batch);
        if (!cJSON_IsNull(node) && !fields[i].read(reader, node))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------- requests -- */

static bool read_batch(struct trace_reader *reader, struct trace_request *request,
                       const cJSON *root, const struct trace_item *shared)
{
    struct v1_reader *values = &reader->values;
    const cJSON *requests, *node;
    int count;
    if (!v1_find_requests(values, root, "requests", TRACE_ITEMS_MAX, &requests, &count))
        return false;
    request->items = arena_calloc(&request->arena, (size_t)count, sizeof *request->items);
    if (!request->items)
        return fault_no_memory(values->fault);
    cJSON_ArrayForEach(node, requests)
    {
        struct trace_item *item = &request->items[request->item_count++];
        *item = *shared;
        reader->item = item;
        values->fault = &item->fault;
        read_object(reader, node, true, false);
    }
    return true;
}

bool v1_trace_read(struct trace_request *request, bool batch, const struct json_document *document,
                   struct fault *fault)
{
    struct trace_item shared = { .at = -1 };
    struct trace_reader reader = {
        .values = { .document = document,
                    .arena = &request->arena,
                    .nonfinite_allowed = request->nonfinite_allowed,
                    .fault = fault },
        .item = &shared,
        .is_of_session = request->is_of_session,
    };
    reader.values.item = &reader.mapped;
    request->batch = batch;
    if (!cJSON_IsObject(document->root))
        return fault_set(fault, FAULT_TYPE, "the body is %s; expected an object",
                         json_kind(document, document->root));
    if (!read_object(&reader, document->root, batch, batch))
        return false;
    if (batch)
        return read_batch(&reader, request, document->root, &shared);
    request->items = arena_calloc(&request->arena, 1, sizeof *request->items);
    if (!request->items)
        return fault_no_memory(fault);
    request->items[0] = shared;
    request->item_count = 1;
    return true;
}
