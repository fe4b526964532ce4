/* SPDX-License-Identifier: Apache-2.0 */
/* post_processor.c - the post-processors: the tokens that a template puts around a text and its
 * pair, and offsets without the spaces of their tokens.
 *
 * Source: processors/template of Hugging Face tokenizers. */
#include "models/tokenizer/added_tokens.h"
#include "models/tokenizer/byte_level.h"
#include "models/tokenizer/unicode.h"

#include <string.h>

/* ----------------------------------------------------------------- spaces -- */

/* Whether and how offsets leave out the spaces of a token. */
struct trim {
    bool is_on, adds_prefix_space;
};

static bool is_space(uint32_t code)
{
    return code == byte_level_character(' ') || unicode_is_whitespace(code);
}

/* Counts the spaces at the start of a token's text, and at its end. */
static void count_spaces(struct byte_slice text, int64_t *leading, int64_t *trailing)
{
    const char *bytes = text.data;
    bool is_leading = true;
    *leading = *trailing = 0;
    for (size_t at = 0; at < text.size;) {
        uint32_t code;
        at += unicode_decode(bytes + at, &code);
        const bool space = is_space(code);
        is_leading &= space;
        *leading += is_leading;
        *trailing = space ? *trailing + 1 : 0;
    }
}

static bool is_all_space(struct byte_slice text)
{
    const char *bytes = text.data;
    uint32_t code = ' ';
    for (size_t at = 0; at < text.size && is_space(code);)
        at += unicode_decode(bytes + at, &code);
    return is_space(code);
}

/* The text of a token: of an added one the bytes that were found, which may have spaces around the
 * token's own text. Where its own text is not among these bytes, they were normalized, or the model
 * gave the token for what it does not know. */
static struct byte_slice token_text(const struct encodings *encodings, const struct token *token)
{
    if (!encodings->added || !added_tokens_has(encodings->added, token->id))
        return vocabulary_text(encodings->vocabulary, token->id);
    bool strips;
    const struct byte_slice own = added_tokens_text(encodings->added, token->id, &strips);
    const struct byte_slice found = {
        (const char *)encodings->texts[token->sequence].data + token->start,
        (size_t)(token->end - token->start),
    };
    return memmem(found.data, found.size, own.data, own.size) || (strips && !is_all_space(found))
               ? found
               : own;
}

/* Moves the bounds of a token over characters of its sequence. */
static void trim_token(const struct encodings *encodings, struct token *token, int64_t leading,
                       int64_t trailing)
{
    if (!encodings->texts)
        return;
    const char *text = encodings->texts[token->sequence].data;
    const bool can_trim_end = token->end >= trailing;
    uint32_t code;
    for (int64_t i = 0; i < leading && token->start < token->end; i++)
        token->start += unicode_decode(text + token->start, &code);
    for (int64_t i = 0; i < trailing && can_trim_end && token->start < token->end; i++) {
        do
            token->end--;
        while (token->end > token->start && ((unsigned char)text[token->end] & 0xC0) == 0x80);
    }
}

/* As the reference does it. A single space at the start of the text was probably added by the
 * pre-tokenizer, so it is not taken from the offset. */
static void trim_offsets(const struct encodings *encodings, struct trim trim)
{
    for (int64_t i = 0; trim.is_on && i < encodings->count; i++)
        for (int64_t k = 0; k < encodings->lists[i].count; k++) {
            struct token *token = &encodings->lists[i].tokens[k];
            int64_t leading, trailing;
            count_spaces(token_text(encodings, token), &leading, &trailing);
            if (leading == 1 && trim.adds_prefix_space && (k == 0 || token->start == 0))
                leading = 0;
            trim_token(encodings, token, leading, trailing);
        }
}

static bool run_byte_level(const void *state, struct encodings *encodings, struct fault *fault)
{
    (void)fault;
    trim_offsets(encodings, *(const struct trim *)state);
    return true;
}

static const struct step_field BYTE_LEVEL_FIELDS[] = {
    { STEP_FIELD("add_prefix_space", STEP_BOOL, struct trim, adds_prefix_space) },
    { STEP_FIELD("trim_offsets", STEP_BOOL, struct trim, is_on) },
};

/* ----------------------------------------------------------- tokens to add -- */

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

/* ------------------------------------------------------- BERT and RoBERTa -- */

/* Puts a token before the list, -1: none, and one behind it, both of the type given. */
static bool put_around(struct encodings *encodings, struct token_list *list, int32_t before,
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

struct around {
    int32_t cls, sep;
    struct trim trim;
    bool is_roberta;
};

/* BERT: [CLS] text [SEP] pair [SEP], with type 1 behind the first [SEP]. RoBERTa: <s> text </s>
 * </s> pair </s>, all of type 0. */
static bool run_around(const void *state, struct encodings *encodings, struct fault *fault)
{
    const struct around *around = state;
    trim_offsets(encodings, around->trim);
    for (int64_t i = 0; i < encodings->count; i++) {
        struct token_list *list = &encodings->lists[i];
        const int32_t before = i == 0 ? around->cls : around->is_roberta ? around->sep : -1;
        const uint8_t type = i > 0 && !around->is_roberta;
        for (int64_t k = 0; k < list->count; k++)
            list->tokens[k].type = around->is_roberta ? 0 : list->tokens[k].type;
        if (encodings->special && !put_around(encodings, list, before, around->sep, type, fault))
            return false;
    }
    return true;
}

static const struct around ROBERTA = { .is_roberta = true };

static const struct step_field AROUND_FIELDS[] = {
    { STEP_FIELD("cls", STEP_TOKEN, struct around, cls) },
    { STEP_FIELD("sep", STEP_TOKEN, struct around, sep) },
    { STEP_FIELD("trim_offsets", STEP_BOOL, struct around, trim.is_on) },
    { STEP_FIELD("add_prefix_space", STEP_BOOL, struct around, trim.adds_prefix_space) },
};

/* ---------------------------------------------------------------- template -- */

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

static bool run_template(const void *state, struct encodings *encodings, struct fault *fault)
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
        if ((encodings->special || parts->list[i].sequence >= 0)
            && !put_part(encodings, &parts->list[i], &lists[count++], fault))
            return false;
    encodings->lists = lists;
    encodings->count = count;
    return true;
}

/* The ids of special_tokens.ID.ids. */
static bool read_ids(struct pipeline_build *build, const cJSON *tokens, const char *where,
                     const char *id, struct part *part)
{
    const cJSON *token = cJSON_GetObjectItemCaseSensitive(tokens, id);
    const cJSON *ids = cJSON_GetObjectItemCaseSensitive(token, "ids");
    const struct json_numbers *numbers = ids ? json_numbers_of(build->document, ids) : NULL;
    if (!numbers || numbers->rank != 1 || numbers->ragged_depth > 0)
        return pipeline_fail(build, where, "special_tokens has no ids of '%.60s'", id);
    int32_t *copy = pipeline_alloc(build, (size_t)numbers->count, sizeof *copy);
    if (!copy)
        return false;
    for (int64_t i = 0; i < numbers->count; i++) {
        const float value = numbers->values[i];
        if (!(value >= 0 && value <= (float)VOCABULARY_ID_MAX) || value != (float)(int32_t)value)
            return pipeline_fail(build, where, "special_tokens has an id of '%.60s' that is no id",
                                 id);
        copy[i] = (int32_t)value;
    }
    part->ids = copy;
    part->count = numbers->count;
    part->sequence = -1;
    return true;
}

struct part_fields {
    struct byte_slice id;
    int64_t type;
};

static const struct step_field PART_FIELDS[] = {
    { STEP_FIELD("id", STEP_STRING, struct part_fields, id) },
    { STEP_FIELD("type_id", STEP_INTEGER, struct part_fields, type), .most = TEMPLATE_TYPE_MAX },
};

static bool read_part(struct pipeline_build *build, const cJSON *node, const char *where,
                      const cJSON *tokens, struct part *part)
{
    const cJSON *sequence = cJSON_GetObjectItemCaseSensitive(node, "Sequence");
    const cJSON *token = cJSON_GetObjectItemCaseSensitive(node, "SpecialToken");
    const cJSON *fields = sequence ? sequence : token;
    struct part_fields read;
    if (!cJSON_IsObject(fields))
        return pipeline_fail(build, where,
                             "a part of a template is neither a Sequence nor a "
                             "SpecialToken");
    if (!pipeline_fields(build, fields, where, PART_FIELDS, 2, &read))
        return false;
    const char *id = read.id.data;
    part->type = (uint8_t)read.type;
    if (!sequence)
        return read_ids(build, tokens, where, id, part);
    part->sequence = strcmp(id, "B") == 0;
    return part->sequence == 1 || strcmp(id, "A") == 0
           || pipeline_fail(build, where, "a Sequence is '%.20s'; expected A or B", id);
}

static bool read_parts(struct pipeline_build *build, const cJSON *node, const char *where,
                       const char *key, const cJSON *tokens, struct parts *parts)
{
    const cJSON *list = pipeline_array(build, node, where, key), *item;
    if (!list)
        return false;
    parts->list = pipeline_alloc(build, (size_t)cJSON_GetArraySize(list), sizeof *parts->list);
    if (!parts->list)
        return false;
    cJSON_ArrayForEach(item, list) {
        struct part *part = &parts->list[parts->count++];
        if (!read_part(build, item, where, tokens, part))
            return false;
        if (part->sequence >= 0)
            parts->has[part->sequence] = true;
    }
    return true;
}

static bool finish_template(struct pipeline_build *build, const cJSON *node, const char *where,
                            void *state)
{
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(node, "special_tokens");
    const cJSON *pair = cJSON_GetObjectItemCaseSensitive(node, "pair");
    struct template *template = state;
    if (!read_parts(build, node, where, "single", tokens, &template->single)
        || (pair && !cJSON_IsNull(pair)
            && !read_parts(build, node, where, "pair", tokens, &template->pair)))
        return false;
    return !template->single.has[1] || pipeline_fail(build, where, "single has the Sequence B");
}

/* ------------------------------------------------------------------- table -- */

static const struct step_field SEQUENCE_FIELDS[] = { { STEP_VALUE("processors", STEP_STEPS) } };

static bool run_sequence(const void *state, struct encodings *encodings, struct fault *fault)
{
    const struct step_list *list = state;
    for (int64_t i = 0; i < list->count; i++)
        if (!list->steps[i].type->encodings(list->steps[i].state, encodings, fault))
            return false;
    return true;
}

static const struct step_type TYPES[] = {
    { "Sequence", .encodings = run_sequence, STEP_STATE(struct step_list, SEQUENCE_FIELDS) },
    { "TemplateProcessing", .encodings = run_template, .state_size = sizeof(struct template),
      .finish = finish_template },
    { "BertProcessing", .encodings = run_around, .state_size = sizeof(struct around),
      .fields = AROUND_FIELDS, .field_count = 2 },
    { "RobertaProcessing", .encodings = run_around, STEP_DEFAULTS(ROBERTA), .fields = AROUND_FIELDS,
      .field_count = 4 },
    { "ByteLevel", .encodings = run_byte_level, STEP_STATE(struct trim, BYTE_LEVEL_FIELDS) },
};

bool post_processor_read(struct pipeline_build *build, const cJSON *node, struct step *step)
{
    static const struct step_kind KIND = { "post_processor", TYPES, sizeof TYPES / sizeof *TYPES };
    return pipeline_step(build, node, &KIND, NULL, step);
}
