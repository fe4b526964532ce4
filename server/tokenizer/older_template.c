/* older_template.c - writes a class's template as a TemplateProcessing of tokenizer.json.
 *
 * A template is a list of words, "cls_token:0 $A:0 sep_token:0". A word is a part and its token
 * type: $A is the text, $B the pair; a role is the special token that has it; anything else is a
 * token. "add_bos_token?bos_token:0" is there only where the field add_bos_token is true. */
#include "tokenizer/older.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 16, PART_BYTES = 64 };

struct word {
    char part[PART_BYTES];
    const char *token; /* NULL: a sequence */
    int type;
};

struct words {
    struct word list[WORDS_MAX];
    int count;
};

static bool resolve(struct older *older, const char *text, size_t size, struct words *words)
{
    struct word *word = &words->list[words->count];
    const char *question = memchr(text, '?', size);
    char flag[PART_BYTES];
    if (question) {
        snprintf(flag, sizeof flag, "%.*s", (int)(question - text), text);
        size -= (size_t)(question + 1 - text);
        text = question + 1;
        if (!older_flag(older, flag))
            return true;
    }
    const char *colon = memrchr(text, ':', size);
    snprintf(word->part, sizeof word->part, "%.*s", (int)(colon - text), text);
    word->type = (int)strtol(colon + 1, NULL, 10);
    const char *token = word->part[0] == '$' ? NULL : older_token(older, word->part);
    word->token = token || word->part[0] == '$' ? token : word->part;
    if (word->token && older_id(older, word->token) < 0)
        return fault_set(older->fault, FAULT_FIELD,
                         "the token %s, which is put around each text, is not in the vocabulary",
                         word->token);
    words->count++;
    return true;
}

static bool read_words(struct older *older, const char *list, struct words *words)
{
    words->count = 0;
    size_t size;
    for (const char *text; (text = older_list_next(&list, &size));)
        if (!resolve(older, text, size, words))
            return false;
    return true;
}

static void write_words(struct text *text, const char *key, const struct words *words)
{
    text_key(text, key);
    text_raw(text, "[");
    for (int i = 0; i < words->count; i++) {
        const struct word *word = &words->list[i];
        text_raw(text, i > 0 ? "," : "");
        text_format(text, "{\"%s\":{\"id\":", word->token ? "SpecialToken" : "Sequence");
        text_string(text, word->token ? word->token : word->part + 1);
        text_format(text, ",\"type_id\":%d}}", word->type);
    }
    text_raw(text, "],");
}

/* Each token of the pair's template, which has all of the other one's. */
static void write_tokens(struct older *older, struct text *text, const struct words *words)
{
    text_raw(text, "\"special_tokens\":{");
    bool is_first = true;
    for (int i = 0; i < words->count; i++) {
        const char *token = words->list[i].token;
        bool is_new = token != NULL;
        for (int k = 0; k < i && is_new; k++)
            is_new = !words->list[k].token || strcmp(words->list[k].token, token) != 0;
        if (!is_new)
            continue;
        text_raw(text, is_first ? "" : ",");
        is_first = false;
        text_key(text, token);
        text_raw(text, "{\"id\":");
        text_string(text, token);
        text_format(text, ",\"ids\":[%lld],\"tokens\":[", (long long)older_id(older, token));
        text_string(text, token);
        text_raw(text, "]}");
    }
    text_raw(text, "}}");
}

bool older_write_template(struct older *older, struct text *text)
{
    struct words single, pair;
    if (!read_words(older, older->class->single, &single)
        || !read_words(older, older->class->pair, &pair))
        return false;
    if (pair.count == 2) {
        text_raw(text, "null"); /* no token is added */
        return true;
    }
    text_raw(text, "{\"type\":\"TemplateProcessing\",");
    write_words(text, "single", &single);
    write_words(text, "pair", &pair);
    write_tokens(older, text, &pair);
    return true;
}
