/* session_fields.c - see session_fields.h. */
#include "wire/session_fields.h"

#include "wire/v1_fields.h"

#include <stddef.h>

static struct session_asked *of(struct v1_reader *reader)
{
    return reader->asked;
}

static bool read_session(struct v1_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "the id of a session, a string");
    of(reader)->id = node->valuestring;
    return true;
}

static bool read_owner(struct v1_reader *reader, const cJSON *node)
{
    if (!cJSON_IsString(node))
        return v1_wrong_type(reader, node, "the name of a key, a string");
    of(reader)->owner = node->valuestring;
    return true;
}

static bool read_model(struct v1_reader *reader, const cJSON *node)
{
    (void)node;
    return v1_model_of_session(reader);
}

static bool read_layer(struct v1_reader *reader, const cJSON *node)
{
    of(reader)->has_layer = true;
    return v1_read_layer(reader, node);
}

static bool read_past_len(struct v1_reader *reader, const cJSON *node)
{
    of(reader)->has_past_len = true;
    return v1_read_integer(reader, node, 0, FAULT_LENGTH, &reader->item->past_len);
}

static bool read_input(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_array(reader, node, false, &of(reader)->input);
}

static bool read_at(struct v1_reader *reader, const cJSON *node)
{
    return v1_read_integer(reader, node, 0, FAULT_LENGTH, &of(reader)->at);
}

static bool read_append(struct v1_reader *reader, const cJSON *node)
{
    of(reader)->has_append = true;
    return v1_read_bool(reader, node, &of(reader)->append);
}

static bool read_outputs(struct v1_reader *reader, const cJSON *node)
{
    of(reader)->has_outputs = true;
    return v1_read_outputs(reader, node);
}

static bool read_select(struct v1_reader *reader, const cJSON *node)
{
    const cJSON *epsilon = cJSON_GetObjectItemCaseSensitive(node, "epsilon");
    struct attn_selection *selection = &reader->item->selection;
    if (!cJSON_IsObject(node))
        return v1_wrong_type(reader, node, "an object such as {\"epsilon\": 1e-3}");
    if (cJSON_GetArraySize(node) != 1 || !cJSON_IsNumber(epsilon))
        return fault_set_at(reader->fault, "/select", FAULT_TYPE,
                            "select has no number epsilon, or more than that; expected an object "
                            "such as {\"epsilon\": 1e-3}");
    reader->item->has_selection = true;
    selection->epsilon = epsilon->valuedouble;
    return (selection->epsilon >= 0 && selection->epsilon < 1)
           || fault_set_at(reader->fault, "/select/epsilon", FAULT_OPTION,
                           "epsilon is %g; expected the share of the softmax that may be left, "
                           "from 0 to below 1",
                           selection->epsilon);
}

static const struct v1_field FIELDS[] = {
    { "model", read_model },
    { "layer", read_layer },
    { "past_len", read_past_len },
    { "input", read_input },
    { "at", read_at },
    { "append", read_append },
    { "outputs", read_outputs },
    { "select", read_select },
    { "session", read_session }, /* of items alone, so these are the last */
    { "owner", read_owner },
};

enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0], OF_ITEMS = 2 };

const struct v1_more session_fields_of_path = {
    .fields = FIELDS,
    .field_count = FIELD_COUNT - OF_ITEMS,
    .tensor = "input",
    .tensor_offset = offsetof(struct session_asked, input),
    .asked_bytes = sizeof(struct session_asked),
};

const struct v1_more session_fields_of_items = {
    .fields = FIELDS,
    .field_count = FIELD_COUNT,
    .tensor = "input",
    .tensor_offset = offsetof(struct session_asked, input),
    .asked_bytes = sizeof(struct session_asked),
};

/* ------------------------------------------------------------------ what it means -- */

/* Rows that enter a layer are its query, key and value, and see what is before them. */
static bool settle_input(const struct session_asked *asked, struct infer_item *item,
                         struct fault *fault)
{
    const char *other = item->query.data   ? "query"
                        : item->key.data   ? "key"
                        : item->value.data ? "value"
                                           : NULL;
    if (other)
        return fault_set_at(fault, "/input", FAULT_FIELD,
                            "input and %s both came; input is query, key and value in one", other);
    item->query = asked->input;
    item->is_input = true;
    if (!item->has_causal)
        item->has_causal = item->causal = true;
    return true;
}

/* Keys without a query are appended, and nothing is attended to: a query of no rows, in as many
 * heads as the keys have. */
static void settle_no_query(const struct session_asked *asked, struct infer_item *item)
{
    static const float NONE;
    item->query =
        (struct infer_array){ .data = &NONE, .dtype = ATTN_F32, .rank = 1, .shape = { 0 } };
    if (item->q_heads == 0)
        item->q_heads = item->key.rank == 3 ? item->key.shape[0] : item->kv_heads;
    for (int i = 0; i < ATTN_OUTPUT_COUNT && !asked->has_outputs; i++)
        item->outputs[i] = false;
}

bool session_fields_settle(const struct session_asked *asked, struct infer_item *item,
                           struct session_step *step, struct fault *fault)
{
    step->has_layer = asked->has_layer;
    step->has_past_len = asked->has_past_len;
    step->at = asked->at;
    step->appends = !asked->has_append || asked->append;
    if (asked->input.data && !settle_input(asked, item, fault))
        return false;
    if (!item->query.data && item->key.data)
        settle_no_query(asked, item);
    if (!item->query.data)
        return fault_set_at(fault, "/query", FAULT_FIELD,
                            "query is missing; expected input, query, or key and value with or "
                            "without it");
    if (item->value.data && !item->key.data)
        return fault_set_at(fault, "/key", FAULT_FIELD,
                            "key is missing; value came. Without both nothing is appended");
    step->has_rows = item->key.data || item->is_input;
    step->cache.wants_bounds = item->has_selection && item->selection.epsilon > 0;
    if (item->has_selection && !asked->has_outputs)
        item->outputs[ATTN_OUTPUT_WEIGHTS] = false;
    return step->has_rows || !asked->has_append || !asked->append
           || fault_set_at(fault, "/append", FAULT_OPTION,
                           "append is true, but neither input nor key came");
}
