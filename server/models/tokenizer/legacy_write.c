/* SPDX-License-Identifier: Apache-2.0 */
/* legacy_write.c - writes the tokenizer.json of a legacy form.
 *
 * The text of the class is copied, with " for `, and each name in it that begins with @ gives way
 * to a value:
 *
 *     @added                the added tokens
 *     @every                every token of the vocabulary, as an added one
 *     @vocab, @merges       the model's
 *     @template             the class's template
 *     @pre, @normalizer     the steps of a GGUF file's tokenizer.ggml.pre
 *     @unknown              the unknown token's id
 *     @flag:KEY             a field of tokenizer_config.json that is true, false or null
 *     @token:ROLE           a special token
 *     @optional:ROLE        the same, or null where there is none
 *     @entry:ROLE           a special token and its id
 *     @sentencepiece:PART   a step that the file of SentencePiece says */
#include "models/tokenizer/gguf_pre.h"
#include "models/tokenizer/legacy.h"

#include "base/base64.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xE2\x96\x81"

enum { NAME_BYTES = 64 };

static const char *bool_text(bool value)
{
    return value ? "true" : "false";
}

static void write_slice(struct text *text, struct byte_slice slice)
{
    text_string_bytes(text, slice.data, slice.size);
}

/* A part of a class's text. */
static void write_raw(struct text *text, const char *part, size_t size)
{
    for (const char *end = part + size; part < end;) {
        const char *quote = memchr(part, '`', (size_t)(end - part));
        text_bytes(text, part, (size_t)((quote ? quote : end) - part));
        text_raw(text, quote ? "\"" : "");
        part = quote ? quote + 1 : end;
    }
}

static void write_quoted(struct text *text, const char *part)
{
    write_raw(text, part, strlen(part));
}

/* ------------------------------------------------------------------- tokens -- */

static void write_added(const struct legacy *legacy, struct text *text)
{
    text_raw(text, "[");
    for (int64_t i = 0; i < legacy->added_count; i++) {
        const struct legacy_added *added = &legacy->added[i];
        text_format(text,
                    "%s{\"special\":%s,\"lstrip\":%s,\"rstrip\":%s,\"single_word\":%s,"
                    "\"normalized\":%s,\"id\":%lld,\"content\":",
                    i > 0 ? "," : "", bool_text(added->special), bool_text(added->lstrip),
                    bool_text(added->rstrip), bool_text(added->single_word),
                    bool_text(added->normalized), (long long)added->id);
        text_string(text, added->text);
        text_raw(text, "}");
    }
    text_raw(text, "]");
}

static bool is_special(const struct legacy *legacy, struct byte_slice token)
{
    for (int64_t i = 0; i < legacy->added_count; i++) {
        const struct legacy_added *added = &legacy->added[i];
        if (strlen(added->text) == token.size && memcmp(added->text, token.data, token.size) == 0)
            return added->special;
    }
    return false;
}

/* The tokens of a vocabulary that is looked for in a text wherever it stands. */
static void write_every(const struct legacy *legacy, struct text *text)
{
    const char *comma = "[";
    for (int64_t id = 0; id < legacy->vocabulary.id_end; id++) {
        const struct byte_slice token = vocabulary_text(&legacy->vocabulary, id);
        if (!token.data || token.size == 0
            || vocabulary_find(&legacy->vocabulary, token.data, token.size) != id)
            continue;
        text_format(text,
                    "%s{\"special\":%s,\"lstrip\":false,\"rstrip\":false,"
                    "\"single_word\":false,\"normalized\":false,\"id\":%lld,\"content\":",
                    comma, bool_text(is_special(legacy, token)), (long long)id);
        write_slice(text, token);
        text_raw(text, "}");
        comma = ",";
    }
    text_raw(text, *comma == '[' ? "[]" : "]");
}

/* skips_doubles: an id whose text another id has too is left out, so that the last one counts. */
static void write_vocabulary(const struct legacy *legacy, bool skips_doubles, struct text *text)
{
    const char *comma = "{";
    for (int64_t id = 0; id < legacy->vocabulary.id_end; id++) {
        const struct byte_slice token = vocabulary_text(&legacy->vocabulary, id);
        if (!token.data
            || (skips_doubles
                && vocabulary_find(&legacy->vocabulary, token.data, token.size) != id))
            continue;
        text_raw(text, comma);
        write_slice(text, token);
        text_format(text, ":%lld", (long long)id);
        comma = ",";
    }
    text_raw(text, *comma == '{' ? "{}" : "}");
}

static void write_merges(const struct legacy *legacy, struct text *text)
{
    text_raw(text, "[");
    for (int64_t i = 0; i < legacy->merge_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        text_string(text, legacy->merges[i]);
    }
    text_raw(text, "]");
}

static void write_flag(const struct legacy *legacy, const char *key, struct text *text)
{
    char value[NAME_BYTES];
    const cJSON *field = legacy_config_field(&legacy->config, key);
    if (cJSON_IsBool(field))
        text_raw(text, bool_text(cJSON_IsTrue(field)));
    else if (legacy_list_value(legacy->class->defaults, key, value, sizeof value))
        text_raw(text, value);
    else
        text_raw(text, "false");
}

static bool write_token(struct legacy *legacy, const char *role, bool with_id, struct text *text)
{
    const char *token = legacy_token(legacy, role);
    const int64_t id = token ? legacy_id(legacy, token) : -1;
    if (!token || (with_id && id < 0))
        return fault_set(legacy->fault, FAULT_FIELD, "the %s %s is not in the vocabulary", role,
                         token ? token : "");
    text_raw(text, with_id ? "[" : "");
    text_string(text, token);
    if (with_id)
        text_format(text, ",%lld]", (long long)id);
    return true;
}

static bool write_optional(struct legacy *legacy, const char *role, struct text *text)
{
    if (legacy_token(legacy, role))
        return write_token(legacy, role, false, text);
    text_raw(text, "null");
    return true;
}

/* ----------------------------------------------------------------- template -- */

/* A template is a list of words, "cls_token:0 $A:0 sep_token:0". A word is a part and its token
 * type: $A is the text, $B the pair; a role is the special token that has it; anything else is a
 * token. "add_bos_token?bos_token:0" is there only where the field add_bos_token is true. */
enum { WORDS_MAX = 16, PART_BYTES = NAME_BYTES };

struct word {
    char part[PART_BYTES];
    const char *token; /* NULL: a sequence */
    int type;
};

struct words {
    struct word list[WORDS_MAX];
    int count;
};

static bool add_word(struct legacy *legacy, const char *text, size_t size, struct words *words)
{
    struct word *word = &words->list[words->count];
    const char *question = memchr(text, '?', size);
    char flag[PART_BYTES];
    if (question) {
        snprintf(flag, sizeof flag, "%.*s", (int)(question - text), text);
        size -= (size_t)(question + 1 - text);
        text = question + 1;
        if (!legacy_flag(legacy, flag))
            return true;
    }
    const char *colon = memrchr(text, ':', size);
    snprintf(word->part, sizeof word->part, "%.*s", (int)(colon - text), text);
    word->type = (int)strtol(colon + 1, NULL, 10);
    const char *token = word->part[0] == '$' ? NULL : legacy_token(legacy, word->part);
    word->token = token || word->part[0] == '$' ? token : word->part;
    if (word->token && legacy_id(legacy, word->token) < 0)
        return fault_set(legacy->fault, FAULT_FIELD,
                         "the token %s, which is put around each text, is not in the vocabulary",
                         word->token);
    words->count++;
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
static void write_tokens(struct legacy *legacy, struct text *text, const struct words *words)
{
    text_raw(text, "\"special_tokens\":{");
    const char *comma = "";
    for (int i = 0; i < words->count; i++) {
        const char *token = words->list[i].token;
        bool is_new = token != NULL;
        for (int k = 0; k < i && is_new; k++)
            is_new = !words->list[k].token || strcmp(words->list[k].token, token) != 0;
        if (!is_new)
            continue;
        text_raw(text, comma);
        comma = ",";
        text_key(text, token);
        text_raw(text, "{\"id\":");
        text_string(text, token);
        text_format(text, ",\"ids\":[%lld],\"tokens\":[", (long long)legacy_id(legacy, token));
        text_string(text, token);
        text_raw(text, "]}");
    }
    text_raw(text, "}}");
}

static bool write_template(struct legacy *legacy, struct text *text)
{
    const char *lists[] = { legacy->class->single, legacy->class->pair };
    struct words templates[2] = { 0 };
    for (int i = 0; i < 2; i++) {
        size_t size;
        for (const char *word; (word = legacy_list_next(&lists[i], &size));)
            if (!add_word(legacy, word, size, &templates[i]))
                return false;
    }

    if (templates[1].count == 2) {
        text_raw(text, "null"); /* no token is added */
        return true;
    }
    text_raw(text, "{\"type\":\"TemplateProcessing\",");
    write_words(text, "single", &templates[0]);
    write_words(text, "pair", &templates[1]);
    write_tokens(legacy, text, &templates[1]);
    return true;
}

/* ------------------------------------------------------------ SentencePiece -- */

/* SentencePiece maps characters by its charsmap, takes away spaces at both ends and all but one of
 * several (remove_extra_whitespaces), puts a space before the text (add_dummy_prefix), writes each
 * space as U+2581 and then runs its model over the whole text. Each of these is a step here, as
 * transformers has them: normalizers, or the pre-tokenizer Metaspace for files that take away
 * spaces, and for a tokenizer_config.json whose "legacy" is false. The latter puts the space before
 * the first part of a text alone, and not behind a special token. */

static void write_base64(struct text *text, struct byte_slice bytes)
{
    const size_t length = base64_length(bytes.size);
    char *digits = text_reserve(text, length);
    if (digits) {
        base64_encode(digits, bytes);
        text->used += length;
    }
}

/* A class's own normalizers: "?FLAG{...}," is there where the flag is true, "?!FLAG{...}," where it
 * is not. */
static void write_own_normalizers(const struct legacy *legacy, struct text *text)
{
    for (const char *at = legacy->class->normalizers; at && *at;) {
        bool wanted = true;
        if (*at == '?') {
            const bool negated = at[1] == '!';
            const char *name = at + 1 + negated, *brace = strchr(name, '{');
            char flag[NAME_BYTES];
            snprintf(flag, sizeof flag, "%.*s", (int)(brace - name), name);
            wanted = legacy_flag(legacy, flag) != negated;
            at = brace;
        }
        const char *end = strstr(at, "},?");
        const char *plain_end = strstr(at, "},{");
        end = plain_end && (!end || plain_end < end) ? plain_end : end;
        const size_t size = end ? (size_t)(end - at) + 2 : strlen(at);
        if (wanted)
            write_raw(text, at, size);
        at += size;
    }
}

/* Whether a pre-tokenizer takes the place of the normalizers of spaces. Where there is one space
 * between two words at most, no piece goes over a space, and words can be looked at one by one. */
static bool splits_words(const struct legacy *legacy)
{
    const struct sentencepiece *model = &legacy->sentencepiece;
    return model->removes_extra_whitespaces && model->escapes_whitespaces
           && model->splits_at_whitespace;
}

static bool is_metaspace(const struct legacy *legacy)
{
    return legacy->sentencepiece.escapes_whitespaces
           && (splits_words(legacy)
               || cJSON_IsFalse(legacy_config_field(&legacy->config, "legacy")));
}

/* tokenizer_config.json may change what the file says of the space before a text. */
static bool adds_prefix(const struct legacy *legacy)
{
    const cJSON *field = legacy_config_field(&legacy->config, "add_prefix_space");
    return cJSON_IsBool(field) ? cJSON_IsTrue(field) : legacy->sentencepiece.adds_prefix;
}

static void write_normalizer(const struct legacy *legacy, struct text *text)
{
    const struct sentencepiece *model = &legacy->sentencepiece;
    const bool splits = splits_words(legacy);
    write_quoted(text, "{`type`:`Sequence`,`normalizers`:[");
    write_own_normalizers(legacy, text);
    if (model->charsmap.size > 0) {
        write_quoted(text, "{`type`:`Precompiled`,`precompiled_charsmap`:`");
        write_base64(text, model->charsmap);
        text_raw(text, "\"},");
    }
    if (model->removes_extra_whitespaces)
        write_quoted(text, splits
                               ? "{`type`:`Strip`,`strip_left`:false,`strip_right`:true},{`type`:"
                                 "`Replace`,`pattern`:{`Regex`:` {2,}`},`content`:`" SPACE "`},"
                               : "{`type`:`Strip`,`strip_left`:true,`strip_right`:true},{`type`:"
                                 "`Replace`,`pattern`:{`Regex`:` {2,}`},`content`:` `},");
    if (!is_metaspace(legacy) && adds_prefix(legacy))
        write_quoted(text, model->escapes_whitespaces ? "{`type`:`Prepend`,`prepend`:`" SPACE "`},"
                                                      : "{`type`:`Prepend`,`prepend`:` `},");
    if (!is_metaspace(legacy) && model->escapes_whitespaces)
        write_quoted(text, "{`type`:`Replace`,`pattern`:{`String`:` `},`content`:`" SPACE "`},");
    if (text->used > 0 && text->data[text->used - 1] == ',')
        text->used--;
    text_raw(text, "]}");
}

/* split_by_punct is a field of DeBERTa-v2's. */
static void write_pre_tokenizer(const struct legacy *legacy, struct text *text)
{
    const bool is_legacy = !cJSON_IsFalse(legacy_config_field(&legacy->config, "legacy"));
    const char *scheme = !adds_prefix(legacy) ? "never" : is_legacy ? "always" : "first";
    const bool splits_punctuation = legacy_flag(legacy, "split_by_punct");
    if (splits_punctuation)
        write_quoted(text, "{`type`:`Sequence`,`pretokenizers`:["
                           "{`type`:`Punctuation`,`behavior`:`Isolated`}");
    text_raw(text, splits_punctuation && is_metaspace(legacy) ? "," : "");
    if (is_metaspace(legacy))
        text_format(text,
                    "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE
                    "\",\"prepend_scheme\":\"%s\",\"split\":%s}",
                    scheme, bool_text(splits_words(legacy)));
    text_raw(text, splits_punctuation ? "]}" : is_metaspace(legacy) ? "" : "null");
}

static void write_decoder(const struct legacy *legacy, struct text *text)
{
    write_quoted(text,
                 "{`type`:`Sequence`,`decoders`:[{`type`:`Replace`,`pattern`:{`String`:`" SPACE
                 "`},`content`:` `},");
    if (legacy->sentencepiece.byte_fallback)
        write_quoted(text, "{`type`:`ByteFallback`},");
    write_quoted(text, "{`type`:`Fuse`}");
    if (adds_prefix(legacy))
        write_quoted(text, ",{`type`:`Strip`,`content`:` `,`start`:1,`stop`:0}");
    text_raw(text, "]}");
}

static void write_unigram(const struct legacy *legacy, struct text *text)
{
    text_format(text, "{\"type\":\"Unigram\",\"unk_id\":%lld,\"byte_fallback\":%s,\"vocab\":",
                (long long)legacy->unknown_id, bool_text(legacy->sentencepiece.byte_fallback));
    for (int64_t id = 0; id < legacy->vocabulary.id_end; id++) {
        text_raw(text, id > 0 ? ",[" : "[[");
        write_slice(text, vocabulary_text(&legacy->vocabulary, id));
        text_format(text, ",%.17g]", legacy->scores[id]);
    }
    text_raw(text, "]}");
}

static bool write_bpe(struct legacy *legacy, struct text *text)
{
    int64_t count;
    struct model_merge *merges = legacy_sentencepiece_merges(legacy, &count);
    if (!merges)
        return false;
    text_format(text, "{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":%s,\"unk_token\":",
                bool_text(legacy->sentencepiece.byte_fallback));
    write_slice(text, vocabulary_text(&legacy->vocabulary, legacy->unknown_id));
    text_raw(text, ",\"vocab\":");
    write_vocabulary(legacy, false, text);
    text_raw(text, ",\"merges\":[");
    for (int64_t i = 0; i < count; i++) {
        text_raw(text, i > 0 ? ",[" : "[");
        write_slice(text, vocabulary_text(&legacy->vocabulary, merges[i].left));
        text_raw(text, ",");
        write_slice(text, vocabulary_text(&legacy->vocabulary, merges[i].right));
        text_raw(text, "]");
    }
    text_raw(text, "]}");
    free(merges);
    return true;
}

static bool write_sentencepiece(struct legacy *legacy, const char *part, struct text *text)
{
    if (strcmp(part, "model") == 0 && legacy->sentencepiece.model == SENTENCEPIECE_BPE)
        return write_bpe(legacy, text);
    if (strcmp(part, "normalizer") == 0)
        write_normalizer(legacy, text);
    else if (strcmp(part, "pre_tokenizer") == 0)
        write_pre_tokenizer(legacy, text);
    else if (strcmp(part, "decoder") == 0)
        write_decoder(legacy, text);
    else
        write_unigram(legacy, text);
    return true;
}

/* --------------------------------------------------------------- whole text -- */

/* Writes what a name, without its @, stands for. */
static bool write_value(struct legacy *legacy, const char *name, struct text *text)
{
    const char *colon = strchr(name, ':');
    const char *rest = colon ? colon + 1 : "";
    if (strcmp(name, "added") == 0)
        write_added(legacy, text);
    else if (strcmp(name, "every") == 0)
        write_every(legacy, text);
    else if (strcmp(name, "vocab") == 0)
        write_vocabulary(legacy, true, text);
    else if (strcmp(name, "merges") == 0)
        write_merges(legacy, text);
    else if (strcmp(name, "template") == 0)
        return write_template(legacy, text);
    else if (strcmp(name, "pre") == 0)
        gguf_pre_write(legacy->pre, text);
    else if (strcmp(name, "normalizer") == 0)
        gguf_pre_write_normalizer(legacy->pre, text);
    else if (strcmp(name, "unknown") == 0)
        text_integer(text, legacy->unknown_id);
    else if (strncmp(name, "optional:", 9) == 0)
        return write_optional(legacy, rest, text);
    else if (strncmp(name, "flag:", 5) == 0)
        write_flag(legacy, rest, text);
    else if (strncmp(name, "token:", 6) == 0 || strncmp(name, "entry:", 6) == 0)
        return write_token(legacy, rest, name[0] == 'e', text);
    else
        return write_sentencepiece(legacy, rest, text);
    return true;
}

bool legacy_write(struct legacy *legacy, struct text *text)
{
    const char *from = legacy->class->text;
    for (const char *at; (at = strchr(from, '@'));) {
        write_raw(text, from, (size_t)(at - from));
        const size_t size = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_:");
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)size, at + 1);
        if (!write_value(legacy, name, text))
            return false;
        from = at + 1 + size;
    }
    write_quoted(text, from);
    return text_finish(text, legacy->fault);
}
