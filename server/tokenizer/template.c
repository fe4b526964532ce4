/* template.c - a text, and its pair, between the tokens that a model was trained with.
 *
 * Source: processors/template of Hugging Face tokenizers. */
#include "tokenizer/template.h"

#include <string.h>

#define WHERE "post_processor TemplateProcessing"

enum { TEMPLATE_TYPE_MAX = 255 };

/* A piece of a template: a sequence, or tokens that are added. */
struct part {
    int sequence;       /* 0: the text; 1: the pair; -1: the tokens */
    const int32_t *ids; /* [count] */
    int64_t count;
    uint8_t type;
};

struct parts {
    struct part *list;
    int64_t count;
    bool has[2]; /* sequences */
};

struct template
{
    struct parts single, pair;
};

/* ------------------------------------------------------------- processing -- */

static bool add_token(const struct encodings *encodings, struct token_list *list, int32_t id,
                      uint8_t type, struct fault *fault)
{
    if (!vocabulary_text(encodings->vocabulary, id).data)
        return fault_set(fault, FAULT_OPTION,
                         "the template of the tokenizer adds the id %d, which no token has", id);
    list->tokens[list->count++] = (struct token){ .id = id, .is_special = true, .type = type };
    return true;
}

static bool new_list(const struct encodings *encodings, int64_t count, struct token_list *list,
                     struct fault *fault)
{
    list->count = 0;
    list->tokens = arena_alloc(encodings->arena, (size_t)count * sizeof *list->tokens);
    return list->tokens || fault_no_memory(fault);
}

bool template_put_around(struct encodings *encodings, struct token_list *list, int32_t before,
                         int32_t behind, uint8_t type, struct fault *fault)
{
    struct token_list larger;
    if (!new_list(encodings, list->count + 2, &larger, fault)
        || (before >= 0 && !add_token(encodings, &larger, before, type, fault)))
        return false;
    if (list->count > 0)
        memcpy(larger.tokens + larger.count, list->tokens,
               (size_t)list->count * sizeof *list->tokens);
    larger.count += list->count;
    *list = larger;
    return add_token(encodings, list, behind, type, fault);
}

static bool put_part(const struct encodings *encodings, const struct part *part,
                     struct token_list *out, struct fault *fault)
{
    if (part->sequence < 0) {
        if (!new_list(encodings, part->count, out, fault))
            return false;
        for (int64_t i = 0; i < part->count; i++)
            if (!add_token(encodings, out, part->ids[i], part->type, fault))
                return false;
        return true;
    }
    const struct token_list *list = &encodings->lists[part->sequence];
    if (!new_list(encodings, list->count, out, fault))
        return false;
    for (; out->count < list->count; out->count++) {
        out->tokens[out->count] = list->tokens[out->count];
        out->tokens[out->count].type = part->type;
    }
    return true;
}

static bool process(const void *state, struct encodings *encodings, bool special,
                    struct fault *fault)
{
    const struct template *template = state;
    const struct parts *parts = encodings->count == 1 ? &template->single : &template->pair;
    if (encodings->count > 2)
        return fault_set(fault, FAULT_OPTION, "the tokenizer has a template behind a template");
    if (encodings->count == 2 && !parts->has[1])
        return fault_set_at(fault, "/pair", FAULT_OPTION,
                            "the template of the model's tokenizer takes no pair");
    struct token_list *lists = arena_calloc(encodings->arena, (size_t)parts->count, sizeof *lists);
    if (!lists)
        return fault_no_memory(fault);
    int64_t count = 0;
    for (int64_t i = 0; i < parts->count; i++)
        if ((special || parts->list[i].sequence >= 0)
            && !put_part(encodings, &parts->list[i], &lists[count++], fault))
            return false;
    encodings->lists = lists;
    encodings->count = count;
    return true;
}

/* ---------------------------------------------------------------- reading -- */

/* The ids of special_tokens.ID.ids. */
static bool read_ids(struct pipeline_build *build, const cJSON *tokens, const char *id,
                     struct part *part)
{
    const cJSON *token = cJSON_GetObjectItemCaseSensitive(tokens, id);
    const cJSON *ids = cJSON_GetObjectItemCaseSensitive(token, "ids");
    const struct json_numbers *numbers = ids ? json_numbers_of(build->document, ids) : NULL;
    if (!numbers || numbers->rank != 1 || numbers->ragged_depth > 0)
        return pipeline_fail(build, WHERE, "special_tokens has no ids of '%.60s'", id);
    int32_t *copy = pipeline_alloc(build, (size_t)numbers->count, sizeof *copy);
    if (!copy)
        return false;
    for (int64_t i = 0; i < numbers->count; i++) {
        const float value = numbers->values[i];
        if (!(value >= 0 && value <= (float)VOCABULARY_ID_MAX) || value != (float)(int32_t)value)
            return pipeline_fail(build, WHERE, "special_tokens has an id of '%.60s' that is no id",
                                 id);
        copy[i] = (int32_t)value;
    }
    part->ids = copy;
    part->count = numbers->count;
    part->sequence = -1;
    return true;
}

static bool read_part(struct pipeline_build *build, const cJSON *node, const cJSON *tokens,
                      struct part *part)
{
    const cJSON *sequence = cJSON_GetObjectItemCaseSensitive(node, "Sequence");
    const cJSON *token = cJSON_GetObjectItemCaseSensitive(node, "SpecialToken");
    const cJSON *fields = sequence ? sequence : token;
    const char *id = NULL;
    int64_t type = 0;
    if (!cJSON_IsObject(fields))
        return pipeline_fail(build, WHERE,
                             "a part of a template is neither a Sequence nor a "
                             "SpecialToken");
    if (!pipeline_string(build, fields, WHERE, "id", true, &id)
        || !pipeline_integer(build, fields, WHERE, "type_id", true, 0, TEMPLATE_TYPE_MAX, &type))
        return false;
    part->type = (uint8_t)type;
    if (!sequence)
        return read_ids(build, tokens, id, part);
    part->sequence = strcmp(id, "B") == 0;
    return part->sequence == 1 || strcmp(id, "A") == 0
           || pipeline_fail(build, WHERE, "a Sequence is '%.20s'; expected A or B", id);
}

static bool read_parts(struct pipeline_build *build, const cJSON *node, const char *key,
                       const cJSON *tokens, struct parts *parts)
{
    const cJSON *list = pipeline_array(build, node, WHERE, key), *item;
    if (!list)
        return false;
    parts->list = pipeline_alloc(build, (size_t)cJSON_GetArraySize(list), sizeof *parts->list);
    if (!parts->list)
        return false;
    cJSON_ArrayForEach(item, list)
    {
        struct part *part = &parts->list[parts->count++];
        if (!read_part(build, item, tokens, part))
            return false;
        if (part->sequence >= 0)
            parts->has[part->sequence] = true;
    }
    return true;
}

bool template_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(node, "special_tokens");
    const cJSON *pair = cJSON_GetObjectItemCaseSensitive(node, "pair");
    struct template *template = pipeline_alloc(build, 1, sizeof *template);
    if (!template || !read_parts(build, node, "single", tokens, &template->single)
        || (pair && !cJSON_IsNull(pair)
            && !read_parts(build, node, "pair", tokens, &template->pair)))
        return false;
    if (template->single.has[1])
        return pipeline_fail(build, WHERE, "single has the Sequence B");
    *(struct post_processor *)step = (struct post_processor){ process, template };
    return true;
}
