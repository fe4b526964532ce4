/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_head_weights.c - weights of a model's heads by name, as head_weights.json beside its
 * config says: {"name": [[0.5, 0, ...], ...]}, a row for each layer. */
#include "models/checkpoint/checkpoint.h"
#include "models/model/model_storage.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 1024 };

/* Takes one member; NULL, or why it is refused. */
static const char *take(struct model_head_weights *weights, const struct json_document *document,
                        const cJSON *node, struct arena *arena)
{
    const struct json_numbers *numbers = json_numbers_of(document, node);
    if (!numbers || numbers->rank != 2 || numbers->is_deep || numbers->ragged_depth > 0)
        return "is no list of rows of numbers, all of one length";
    if (numbers->has_bool || numbers->has_null || numbers->nonfinite_index >= 0)
        return "has something else than finite numbers";
    float *values = arena_calloc(arena, (size_t)numbers->count, sizeof *values);
    weights->name = arena_strdup(arena, node->string);
    if (!values || !weights->name)
        return "finds no memory";
    if (numbers->count > 0)
        memcpy(values, numbers->values, (size_t)numbers->count * sizeof *values);
    weights->values = values;
    weights->layers = numbers->shape[0];
    weights->heads = numbers->shape[1];
    return NULL;
}

/* Takes all members, or none with a reason. */
static bool take_all(struct model *model, const struct json_document *document, char *reason,
                     size_t reason_size)
{
    struct arena *arena = &model->storage->arena;
    const int count = cJSON_GetArraySize(document->root);
    const cJSON *node;
    int64_t taken = 0;
    if (!cJSON_IsObject(document->root) || count > NAMES_MAX) {
        snprintf(reason, reason_size, "it is no object of at most %d names", NAMES_MAX);
        return false;
    }
    struct model_head_weights *list = arena_calloc(arena, (size_t)count, sizeof *list);
    if (!list)
        return false;
    cJSON_ArrayForEach(node, document->root) {
        const char *refused = take(&list[taken++], document, node, arena);
        if (!refused)
            continue;
        snprintf(reason, reason_size, "'%.60s' %s", node->string, refused);
        return false;
    }
    model->head_weights = list;
    model->head_weight_count = taken;
    return true;
}

bool checkpoint_head_weights_set(struct model *model, const char *text, const char *refused,
                                 struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = false };
    struct json_document document;
    struct fault unread = { .code = FAULT_NONE };
    char reason[160] = "";
    if (refused) {
        snprintf(reason, sizeof reason, "%.150s", refused);
    } else if (text && !json_read(&document, text, strlen(text), &options, &unread)) {
        snprintf(reason, sizeof reason, "%.150s", unread.message);
    } else if (text) {
        take_all(model, &document, reason, sizeof reason);
        json_free(&document);
    }
    if (!reason[0])
        return true;
    model->head_weights_reason = arena_strdup(&model->storage->arena, reason);
    return model->head_weights_reason || fault_no_memory(fault);
}
