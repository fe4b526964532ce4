/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_align.c - heads of cross attention that follow the input from left to right, as
 * generation_config.json of Whisper lists them: "alignment_heads": [[block, head], ...]. A file
 * that is not there, or has another list, says nothing. */
#include "models/checkpoint/checkpoint.h"
#include "models/model/model_forward.h"
#include "models/model/model_storage.h"
#include "json/json.h"

#include <string.h>

/* The layer of cross attention of a block of the decoder that has this head; -1: there is none. */
static int64_t find_layer(const struct model *model, int64_t block, int64_t head)
{
    const struct model_forward *forward = model->forward;
    if (!forward || !forward->is_encoder_decoder || block < 0
        || block >= forward->streams[1].block_count)
        return -1;
    const int64_t layer = forward->streams[1].blocks[block].cross_layer;
    return layer >= 0 && head >= 0 && head < model->layers[layer].layer.q_heads ? layer : -1;
}

/* Whether head i is one before it; a list of heads that differ is no longer than the model is. */
static bool is_listed(const int64_t (*heads)[2], int64_t i)
{
    for (int64_t earlier = 0; earlier < i; earlier++)
        if (heads[earlier][0] == heads[i][0] && heads[earlier][1] == heads[i][1])
            return true;
    return false;
}

static bool take_heads(struct model *model, const struct json_numbers *numbers, struct fault *fault)
{
    const int64_t count = numbers->shape[0];
    int64_t(*heads)[2] = arena_calloc(&model->storage->arena, (size_t)count, sizeof *heads);
    if (!heads)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < count; i++) {
        const int64_t block = (int64_t)numbers->values[2 * i];
        const int64_t head = (int64_t)numbers->values[2 * i + 1];
        heads[i][0] = find_layer(model, block, head);
        heads[i][1] = head;
        if (heads[i][0] < 0 || is_listed((const int64_t(*)[2])heads, i))
            return true;
    }
    model->align_heads = (const int64_t(*)[2])heads;
    model->align_head_count = count;
    return true;
}

bool checkpoint_align_set(struct model *model, const char *text, const char *refused,
                          struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = true };
    struct json_document document;
    struct fault ignored = { .code = FAULT_NONE };
    if (refused || !text || !json_read(&document, text, strlen(text), &options, &ignored))
        return true;
    const cJSON *node = cJSON_IsObject(document.root)
                            ? cJSON_GetObjectItemCaseSensitive(document.root, "alignment_heads")
                            : NULL;
    const struct json_numbers *numbers = node ? json_numbers_of(&document, node) : NULL;
    const bool is_list = numbers && numbers->rank == 2 && numbers->shape[0] > 0
                         && numbers->shape[1] == 2 && !numbers->is_deep
                         && numbers->ragged_depth <= 0 && numbers->nonfinite_index < 0;
    const bool good = !is_list || take_heads(model, numbers, fault);
    json_free(&document);
    return good;
}
