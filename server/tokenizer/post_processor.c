/* post_processor.c - the types of post-processors, and those that are no template: offsets without
 * the spaces of their tokens, and the tokens around a text of BERT and RoBERTa. */
#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/template.h"
#include "tokenizer/unicode.h"

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

static bool byte_level_process(const void *state, struct encodings *encodings, bool special,
                               struct fault *fault)
{
    (void)special, (void)fault;
    trim_offsets(encodings, *(const struct trim *)state);
    return true;
}

static bool byte_level_processor_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char where[] = "post_processor ByteLevel";
    struct trim *trim = pipeline_alloc(build, 1, sizeof *trim);
    *(struct post_processor *)step = (struct post_processor){ byte_level_process, trim };
    return trim
           && pipeline_bool(build, node, where, "add_prefix_space", true, &trim->adds_prefix_space)
           && pipeline_bool(build, node, where, "trim_offsets", true, &trim->is_on);
}

/* ------------------------------------------------------- BERT and RoBERTa -- */

struct around {
    int32_t cls, sep;
    struct trim trim;
    bool is_roberta;
};

/* BERT: [CLS] text [SEP] pair [SEP], with type 1 behind the first [SEP]. RoBERTa: <s> text </s>
 * </s> pair </s>, all of type 0. */
static bool around_process(const void *state, struct encodings *encodings, bool special,
                           struct fault *fault)
{
    const struct around *around = state;
    trim_offsets(encodings, around->trim);
    for (int64_t i = 0; i < encodings->count; i++) {
        struct token_list *list = &encodings->lists[i];
        const int32_t before = i == 0 ? around->cls : around->is_roberta ? around->sep : -1;
        const uint8_t type = i > 0 && !around->is_roberta;
        for (int64_t k = 0; k < list->count; k++)
            list->tokens[k].type = around->is_roberta ? 0 : list->tokens[k].type;
        if (special && !template_put_around(encodings, list, before, around->sep, type, fault))
            return false;
    }
    return true;
}

/* A field ["[SEP]", 102]. */
static bool read_token(struct pipeline_build *build, const cJSON *node, const char *where,
                       const char *key, int32_t *id)
{
    const cJSON *pair = cJSON_GetObjectItemCaseSensitive(node, key);
    const cJSON *text = cJSON_IsArray(pair) ? pair->child : NULL,
                *number = text ? text->next : NULL;
    if (!number || number->next || !cJSON_IsString(text) || !cJSON_IsNumber(number)
        || number->valuedouble < 0 || number->valuedouble > VOCABULARY_ID_MAX
        || number->valuedouble != (double)(int32_t)number->valuedouble)
        return pipeline_fail(build, where, "%s is not a token and its id", key);
    *id = (int32_t)number->valuedouble;
    return true;
}

static struct around *read_around(struct pipeline_build *build, const cJSON *node,
                                  const char *where, struct post_processor *step)
{
    struct around *around = pipeline_alloc(build, 1, sizeof *around);
    if (!around || !read_token(build, node, where, "cls", &around->cls)
        || !read_token(build, node, where, "sep", &around->sep))
        return NULL;
    *step = (struct post_processor){ around_process, around };
    return around;
}

static bool bert_processor_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    return read_around(build, node, "post_processor BertProcessing", step) != NULL;
}

static bool roberta_processor_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char where[] = "post_processor RobertaProcessing";
    struct around *around = read_around(build, node, where, step);
    if (!around)
        return false;
    around->is_roberta = true;
    return pipeline_bool(build, node, where, "trim_offsets", true, &around->trim.is_on)
           && pipeline_bool(build, node, where, "add_prefix_space", true,
                            &around->trim.adds_prefix_space);
}

/* --------------------------------------------------------------- sequence -- */

struct sequence {
    struct post_processor *steps;
    int64_t count;
};

static bool sequence_process(const void *state, struct encodings *encodings, bool special,
                             struct fault *fault)
{
    const struct sequence *sequence = state;
    for (int64_t i = 0; i < sequence->count; i++)
        if (!sequence->steps[i].process(sequence->steps[i].state, encodings, special, fault))
            return false;
    return true;
}

static bool sequence_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    const cJSON *list = pipeline_array(build, node, "post_processor Sequence", "processors"), *item;
    struct sequence *sequence = list ? pipeline_alloc(build, 1, sizeof *sequence) : NULL;
    if (!sequence)
        return false;
    sequence->steps =
        pipeline_alloc(build, (size_t)cJSON_GetArraySize(list), sizeof *sequence->steps);
    if (!sequence->steps)
        return false;
    cJSON_ArrayForEach(item, list)
    {
        if (!post_processor_read(build, item, &sequence->steps[sequence->count++]))
            return false;
    }
    *(struct post_processor *)step = (struct post_processor){ sequence_process, sequence };
    return true;
}

bool post_processor_read(struct pipeline_build *build, const cJSON *node,
                         struct post_processor *step)
{
    static const struct pipeline_type types[] = {
        { "Sequence", sequence_read },
        { "TemplateProcessing", template_read },
        { "BertProcessing", bert_processor_read },
        { "RobertaProcessing", roberta_processor_read },
        { "ByteLevel", byte_level_processor_read },
    };
    return pipeline_read(build, node, "post_processor", NULL, types, sizeof types / sizeof *types,
                         step);
}
