/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_ends.c - the tokens that end a text, as the files beside a checkpoint say:
 * eos_token_id of generation_config.json and of config.json, a number or a list, and eos_token of
 * tokenizer_config.json. A file that is not there, or no JSON, says nothing. */
#include "models/checkpoint/checkpoint.h"
#include "models/model/model_storage.h"
#include "json/json.h"

#include <string.h>

enum { ENDS_MAX = 64 };

struct ends {
    int64_t ids[ENDS_MAX];
    int64_t count;
};

static void add_id(struct ends *ends, int64_t id)
{
    for (int64_t i = 0; i < ends->count; i++)
        if (ends->ids[i] == id)
            return;
    if (ends->count < ENDS_MAX)
        ends->ids[ends->count++] = id;
}

static void add_number(struct ends *ends, const cJSON *node)
{
    uint64_t id;
    if (cJSON_IsNumber(node) && json_whole(node, &id))
        add_id(ends, (int64_t)id);
}

/* A list of numbers is one of the document's. */
static void add_ids(struct ends *ends, const struct json_document *document, const cJSON *object)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, "eos_token_id");
    const struct json_numbers *list = node ? json_numbers_of(document, node) : NULL;
    add_number(ends, node);
    for (int64_t i = 0; list && i < list->count; i++)
        if (list->values[i] >= 0)
            add_id(ends, (int64_t)list->values[i]);
}

/* "</s>", or {"content": "</s>", ...}. */
static void add_text(struct ends *ends, const cJSON *root, const struct tokenizer *tokenizer,
                     checkpoint_find_token *find)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(root, "eos_token");
    if (cJSON_IsObject(node))
        node = cJSON_GetObjectItemCaseSensitive(node, "content");
    const int32_t id = tokenizer && cJSON_IsString(node) ? find(tokenizer, node->valuestring) : -1;
    if (id >= 0)
        add_id(ends, id);
}

static void add_file(struct ends *ends, const char *text, const struct tokenizer *tokenizer,
                     checkpoint_find_token *find)
{
    const struct json_options options = { .nonfinite_allowed = true };
    struct json_document document;
    struct fault ignored = { .code = FAULT_NONE };
    if (!text || !json_read(&document, text, strlen(text), &options, &ignored))
        return;
    if (cJSON_IsObject(document.root)) {
        add_ids(ends, &document, document.root);
        add_ids(ends, &document, cJSON_GetObjectItemCaseSensitive(document.root, "text_config"));
        add_text(ends, document.root, tokenizer, find);
    }
    json_free(&document);
}

bool checkpoint_ends_set(struct model *model, const char *const *texts, int count,
                         checkpoint_find_token *find, struct fault *fault)
{
    struct ends ends = { .count = 0 };
    for (int i = 0; i < count; i++)
        add_file(&ends, texts[i], model->tokenizer, find);
    int64_t *ids = arena_calloc(&model->storage->arena, (size_t)ends.count, sizeof *ids);
    if (!ids)
        return fault_no_memory(fault);
    memcpy(ids, ends.ids, (size_t)ends.count * sizeof *ids);
    model->end_ids = ids;
    model->end_id_count = ends.count;
    return true;
}
