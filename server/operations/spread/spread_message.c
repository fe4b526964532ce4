/* SPDX-License-Identifier: Apache-2.0 */
/* spread_message.c - see spread_message.h. */
#include "operations/spread/spread_message.h"

#include "base/dtype.h"
#include "formats/safetensors.h"
#include "json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------- rows -- */

bool spread_rows_count(const struct array *array, const char *name, int64_t *count,
                       struct fault *fault)
{
    char pointer[16];
    snprintf(pointer, sizeof pointer, "/%s", name);
    *count = array->rank >= 2 ? array->shape[array->rank - 2] : 0;
    if (array_is_empty(array) || array->rank == 2 || array->rank == 3)
        return true;
    return fault_set_at(fault, pointer, FAULT_SHAPE,
                        "%s has %d dimensions; expected [length][columns] or "
                        "[heads][length][head_dim]",
                        name, array->rank);
}

static int64_t heads_of(const struct array *array)
{
    return array->rank == 3 ? array->shape[0] : 1;
}

static int64_t columns_of(const struct array *array)
{
    return array->rank >= 2 ? array->shape[array->rank - 1] : 0;
}

size_t spread_row_bytes(const struct array *key, const struct array *value, enum attn_dtype dtype)
{
    return (size_t)(heads_of(key) * columns_of(key) + heads_of(value) * columns_of(value))
           * attn_dtype_size(dtype);
}

/* ----------------------------------------------------------------- writing -- */

enum { PAIRS_MAX = 16, VALUE_BYTES = 40, NAME_BYTES = 40 };

struct message_pairs {
    struct safetensors_pair pairs[PAIRS_MAX];
    char values[PAIRS_MAX][VALUE_BYTES];
    int64_t count;
};

static void add_text(struct message_pairs *to, const char *key, const char *value)
{
    to->pairs[to->count++] = (struct safetensors_pair){ .key = key, .value = value };
}

static void add_integer(struct message_pairs *to, const char *key, int64_t value)
{
    char *text = to->values[to->count];
    snprintf(text, VALUE_BYTES, "%" PRId64, value);
    add_text(to, key, text);
}

static void add_number(struct message_pairs *to, const char *key, double value)
{
    char *text = to->values[to->count];
    snprintf(text, VALUE_BYTES, "%.17g", value);
    add_text(to, key, text);
}

static void add_asked(struct message_pairs *to, const struct infer_item *asked)
{
    add_text(to, "outputs", "[\"context\"]");
    add_text(to, "partial", "true");
    add_integer(to, "past_len", asked->past_len);
    if (asked->has_causal)
        add_text(to, "causal", asked->causal ? "true" : "false");
    if (asked->has_window_left)
        add_integer(to, "window_left", asked->window_left);
    if (asked->has_window_right)
        add_integer(to, "window_right", asked->window_right);
    if (asked->has_scale)
        add_number(to, "scale", asked->scale);
    if (asked->has_softcap)
        add_number(to, "softcap", asked->softcap);
    if (asked->q_heads > 0)
        add_integer(to, "q_heads", asked->q_heads);
    if (asked->kv_heads > 0)
        add_integer(to, "kv_heads", asked->kv_heads);
}

/* What the items have beside the call, as JSON. */
static bool write_items(struct text *text, const struct spread_batch *batch, int peer)
{
    bool is_first = true;
    text_raw(text, "[");
    for (int64_t i = 0; i < batch->count; i++) {
        const struct spread_item *item = &batch->items[i];
        const struct spread_range *range = &batch->spread->ranges[item->range];
        if (item->peer != peer)
            continue;
        text_raw(text, is_first ? "{" : ",{");
        is_first = false;
        text_key(text, "session");
        text_string(text, range->id);
        text_format(text, ",\"at\":%" PRId64 ",\"kv_offset\":%" PRId64 "}", item->at, range->first);
    }
    text_raw(text, "]");
    text_bytes(text, "", 1);
    return text->failed == FAULT_NONE;
}

/* One of the tensors of a message: rows of an array. */
struct message_rows {
    const struct array *array;
    int64_t first, count;
};

struct message_tensors {
    struct safetensors_tensor *tensors;
    struct message_rows *rows;
    char (*names)[NAME_BYTES];
    int64_t count;
};

static bool make_tensors(struct message_tensors *to, struct arena *arena, int64_t item_count)
{
    const size_t most = 3 * (size_t)item_count;
    *to = (struct message_tensors){
        .tensors = arena_calloc(arena, most, sizeof *to->tensors),
        .rows = arena_calloc(arena, most, sizeof *to->rows),
        .names = arena_calloc(arena, most, sizeof *to->names),
    };
    return to->tensors && to->rows && to->names;
}

static void add_tensor(struct message_tensors *to, int64_t number, const char *what,
                       const struct array *array, int64_t first, int64_t count)
{
    struct safetensors_tensor *tensor = &to->tensors[to->count];
    char *name = to->names[to->count];
    snprintf(name, NAME_BYTES, "requests.%" PRId64 ".%s", number, what);
    *tensor = (struct safetensors_tensor){ .name = name,
                                           .rank = array->rank,
                                           .dtype = dtype_name(array->dtype) };
    for (int i = 0; i < array->rank; i++)
        tensor->shape[i] = array->shape[i];
    if (array->rank >= 2)
        tensor->shape[array->rank - 2] = count;
    to->rows[to->count++] = (struct message_rows){ array, first, count };
}

static int64_t query_rows(const struct array *query)
{
    return query->rank >= 2 ? query->shape[query->rank - 2] : query->shape[0] > 0;
}

static void add_item(struct message_tensors *to, int64_t number, const struct infer_item *asked,
                     const struct spread_item *item)
{
    if (item->is_asked)
        add_tensor(to, number, "query", &asked->query, 0, query_rows(&asked->query));
    if (item->rows == 0)
        return;
    add_tensor(to, number, "key", &asked->key, item->row, item->rows);
    add_tensor(to, number, "value", &asked->value, item->row, item->rows);
}

static void write_rows(struct text *text, const struct message_rows *rows)
{
    const struct array *array = rows->array;
    if (array->rank < 2) {
        text_bytes(text, array->data, (size_t)array->shape[0] * attn_dtype_size(array->dtype));
        return;
    }
    const size_t row_bytes = (size_t)columns_of(array) * attn_dtype_size(array->dtype);
    const size_t head_bytes = (size_t)array->shape[array->rank - 2] * row_bytes;
    for (int64_t head = 0; head < heads_of(array); head++)
        text_bytes(text,
                   (const char *)array->data + (size_t)head * head_bytes
                       + (size_t)rows->first * row_bytes,
                   (size_t)rows->count * row_bytes);
}

bool spread_message_write(const struct spread_batch *batch, int peer, struct text *text,
                          struct fault *fault)
{
    struct message_pairs pairs = { .count = 0 };
    struct message_tensors tensors;
    struct text list;
    int64_t number = 0;
    if (!make_tensors(&tensors, batch->arena, batch->count))
        return fault_no_memory(fault);
    for (int64_t i = 0; i < batch->count; i++)
        if (batch->items[i].peer == peer)
            add_item(&tensors, number++, batch->asked, &batch->items[i]);
    text_init(&list, SIZE_MAX);
    add_asked(&pairs, batch->asked);
    bool good = write_items(&list, batch, peer) || fault_no_memory(fault);
    if (good)
        add_text(&pairs, "requests", list.data);
    good = good
           && safetensors_write_head(text, tensors.tensors, tensors.count, pairs.pairs, pairs.count,
                                     fault);
    text_free(&list);
    for (int64_t i = 0; good && i < tensors.count; i++)
        write_rows(text, &tensors.rows[i]);
    return good && text_finish(text, fault);
}

/* ----------------------------------------------------------------- reading -- */

static int64_t query_heads(const struct infer_item *asked)
{
    const struct array *query = &asked->query;
    return query->rank == 3 ? query->shape[0] : asked->q_heads > 0 ? asked->q_heads : 1;
}

size_t spread_message_answer_bytes(const struct spread_batch *batch, int peer,
                                   int64_t value_columns)
{
    enum { OTHERS_BYTES = 1 << 16, ITEM_BYTES = 4096 };
    const int64_t rows = batch->asked->query.data ? query_rows(&batch->asked->query) : 0;
    const int64_t numbers = rows * query_heads(batch->asked) * (value_columns + 1);
    size_t bytes = OTHERS_BYTES;
    for (int64_t i = 0; i < batch->count; i++)
        if (batch->items[i].peer == peer)
            bytes += ITEM_BYTES + (size_t)numbers * sizeof(float);
    return bytes;
}

static void copy_member(const cJSON *object, const char *name, char *out, size_t size)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    text_copy(out, size, cJSON_IsString(member) ? member->valuestring : "");
}

static void take_refusal(const cJSON *object, struct spread_refusal *refusal)
{
    copy_member(object, "code", refusal->code, sizeof refusal->code);
    copy_member(object, "error", refusal->message, sizeof refusal->message);
    copy_member(object, "pointer", refusal->pointer, sizeof refusal->pointer);
}

static bool not_understood(struct fault *fault)
{
    return fault_set(fault, FAULT_PEER, "its answer is not understood");
}

/* A tensor of F32 with these dimensions, or any where *shape is -1. */
static bool take_tensor(const struct safetensors *file, int64_t number, const char *what,
                        struct array *into, int rank, struct arena *arena, struct fault *fault)
{
    char name[NAME_BYTES];
    uint64_t shape[3];
    snprintf(name, sizeof name, "results.%" PRId64 ".%s", number, what);
    const struct safetensors_entry *entry = safetensors_find(file, name);
    if (!entry || strcmp(entry->dtype, "F32") != 0 || entry->rank != rank)
        return not_understood(fault);
    safetensors_shape(entry, shape, rank);
    void *values = arena_alloc(arena, entry->size);
    if (!values)
        return fault_no_memory(fault);
    memcpy(values, entry->data, entry->size);
    *into = (struct array){ .data = values, .dtype = ATTN_F32, .rank = rank };
    for (int i = 0; i < rank; i++) {
        if (shape[i] > INT32_MAX)
            return not_understood(fault);
        into->shape[i] = (int64_t)shape[i];
    }
    return true;
}

/* Parts of one call have one shape, which the merge checks but for rows that are no rows. */
static bool take_part(const struct spread_batch *batch, const struct safetensors *file,
                      int64_t number, struct spread_item *item, struct fault *fault)
{
    struct infer_part *part = &item->part;
    const struct infer_item *asked = batch->asked;
    if (!item->is_asked)
        return true;
    if (!take_tensor(file, number, "context", &part->context, 3, batch->arena, fault)
        || !take_tensor(file, number, "lse", &part->lse, 2, batch->arena, fault))
        return false;
    return (part->context.shape[0] == query_heads(asked)
            && part->context.shape[1] == query_rows(&asked->query) && part->context.shape[2] > 0
            && part->lse.shape[0] == part->context.shape[0]
            && part->lse.shape[1] == part->context.shape[1])
           || not_understood(fault);
}

/* The results as they stand in __metadata__, one for each item of the peer. */
static bool take_results(const struct spread_batch *batch, const struct spread_request *request,
                         const struct safetensors *file, const cJSON *results,
                         struct spread_refusal *refusal, struct fault *fault)
{
    const cJSON *result = results ? results->child : NULL;
    int64_t number = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        struct spread_item *item = &batch->items[i];
        if (item->peer != request->peer)
            continue;
        if (!cJSON_IsObject(result))
            return not_understood(fault);
        if (cJSON_GetObjectItemCaseSensitive(result, "error")) {
            refusal->item = i;
            take_refusal(result, refusal);
            return false;
        }
        if (!take_part(batch, file, number++, item, fault))
            return false;
        result = result->next;
    }
    return true;
}

bool spread_message_read(const struct spread_batch *batch, const struct spread_request *request,
                         struct spread_refusal *refusal, struct fault *fault)
{
    struct safetensors file;
    struct json_document document;
    const struct json_options options = { .nonfinite_allowed = true };
    *refusal = (struct spread_refusal){ .item = -1 };
    if (!safetensors_read(&file, request->answer, request->answer_size, fault))
        return fault->code == FAULT_MEMORY ? false : not_understood(fault);
    const struct safetensors_pair *pair = safetensors_metadata(&file, "results");
    bool good = pair && json_read(&document, pair->value, pair->value_length, &options, fault);
    if (good) {
        good = take_results(batch, request, &file, document.root, refusal, fault);
        json_free(&document);
    } else {
        not_understood(fault);
    }
    safetensors_free(&file);
    return good;
}

void spread_message_read_refusal(const struct spread_request *request,
                                 struct spread_refusal *refusal)
{
    struct json_document document;
    struct fault unused;
    const struct json_options options = { .nonfinite_allowed = true };
    *refusal = (struct spread_refusal){ .status = request->status, .item = -1 };
    if (!json_read(&document, request->answer, request->answer_size, &options, &unused))
        return;
    if (cJSON_IsObject(document.root))
        take_refusal(document.root, refusal);
    json_free(&document);
}

int64_t spread_message_number(const struct spread_request *request, const char *name)
{
    struct json_document document;
    struct fault unused;
    uint64_t number = 0;
    const struct json_options options = { .nonfinite_allowed = true };
    if (!json_read(&document, request->answer, request->answer_size, &options, &unused))
        return -1;
    const cJSON *member = cJSON_IsObject(document.root)
                              ? cJSON_GetObjectItemCaseSensitive(document.root, name)
                              : NULL;
    const bool is_there = member && json_whole(member, &number);
    json_free(&document);
    return is_there ? (int64_t)number : -1;
}
