/* older_sentencepiece.c - the pipeline that a tokenizer.model says, in the words of tokenizer.json.
 *
 * SentencePiece maps characters by its charsmap, takes away spaces at both ends and all but one of
 * several (remove_extra_whitespaces), puts a space before the text (add_dummy_prefix), writes each
 * space as U+2581 and then runs its model over the whole text. Each of these is a step here, as
 * transformers has them: normalizers, or the pre-tokenizer Metaspace for files that take away
 * spaces, and for a tokenizer_config.json whose "legacy" is false. The latter puts the space before
 * the first part of a text alone, and not behind a special token. */
#include "tokenizer/older.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xE2\x96\x81"

enum { TOKEN_BYTES = 64 };

/* ------------------------------------------------------------------ reading -- */

static bool add(struct older *older, const char *text, size_t size, double score)
{
    const int64_t id = older->vocabulary.id_end;
    older->scores[id] = score;
    return vocabulary_add(&older->vocabulary, text, size, id, older->fault);
}

/* The tokens of a class's head or tail: "<unk>NOTUSED=-100"; "<extra_id_*>" is one token for each
 * of extra_ids numbers, the last one first. */
static bool add_list(struct older *older, const char *list)
{
    size_t size;
    for (const char *word; list && (word = older_list_next(&list, &size));) {
        const char *star = memchr(word, '*', size), *equals = memchr(word, '=', size);
        char token[TOKEN_BYTES];
        if (!star) {
            const double score = equals ? strtod(equals + 1, NULL) : 0;
            if (!add(older, word, equals ? (size_t)(equals - word) : size, score))
                return false;
            continue;
        }
        const cJSON *field = older_config_field(&older->config, "extra_ids");
        const double extra = cJSON_IsNumber(field) ? field->valuedouble : 100;
        if (!(extra >= 0 && extra <= 1000))
            return fault_set(older->fault, FAULT_OPTION, "extra_ids is %g; the most is 1000",
                             extra);
        for (int i = (int)extra - 1; i >= 0; i--) {
            const int token_size = snprintf(token, sizeof token, "%.*s%d%.*s", (int)(star - word),
                                            word, i, (int)(word + size - star - 1), star + 1);
            if (!add(older, token, (size_t)token_size, 0))
                return false;
        }
    }
    return true;
}

/* Whether the piece is digits before a comma at its end: transformers lowers the scores of these
 * for ALBERT, so that "7," becomes two tokens. */
static bool is_number_comma(struct byte_slice text)
{
    const char *bytes = text.data;
    return text.size > 1 && bytes[text.size - 1] == ',' && bytes[text.size - 2] >= '0'
           && bytes[text.size - 2] <= '9';
}

bool older_read_sentencepiece(struct older *older)
{
    const struct byte_slice file = { older->vocabulary_file, older->vocabulary_size };
    struct sentencepiece *model = &older->sentencepiece;
    const struct older_class *class = older->class;
    if (!sentencepiece_read(model, file, older->fault))
        return false;
    enum { LIST_TOKENS_MAX = 1100 };
    older->scores = calloc((size_t)model->piece_count + LIST_TOKENS_MAX, sizeof(double));
    if (!older->scores)
        return fault_no_memory(older->fault);
    if (!add_list(older, class->head))
        return false;
    for (int64_t i = class->skipped; i < model->piece_count; i++) {
        const struct sentencepiece_piece *piece = &model->pieces[i];
        const bool lowers = class->lowers_number_commas && is_number_comma(piece->text);
        if (!add(older, piece->text.data, piece->text.size, (double)piece->score - 100 * lowers))
            return false;
    }
    if (!add_list(older, class->tail))
        return false;
    const struct byte_slice unknown = model->pieces[model->unknown_id].text;
    older->unknown_id = vocabulary_find(&older->vocabulary, unknown.data, unknown.size);
    return older->unknown_id >= 0
           || fault_set(older->fault, FAULT_FIELD, "the unknown piece has no id");
}

/* ------------------------------------------------------------------ writing -- */

static void write_base64(struct text *text, struct byte_slice bytes)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *data = bytes.data;
    for (size_t i = 0; i < bytes.size; i += 3) {
        const size_t left = bytes.size - i;
        const unsigned group = (unsigned)data[i] << 16 | (left > 1 ? data[i + 1] : 0u) << 8
                               | (left > 2 ? data[i + 2] : 0u);
        const char digits[] = { DIGITS[group >> 18], DIGITS[group >> 12 & 63],
                                left > 1 ? DIGITS[group >> 6 & 63] : '=',
                                left > 2 ? DIGITS[group & 63] : '=' };
        text_bytes(text, digits, 4);
    }
}

/* A class's own normalizers: "?FLAG{...}," is there where the flag is true, "?!FLAG{...}," where it
 * is not. */
static void write_own_normalizers(const struct older *older, struct text *text)
{
    for (const char *at = older->class->normalizers; at && *at;) {
        bool wanted = true;
        if (*at == '?') {
            const bool negated = at[1] == '!';
            const char *name = at + 1 + negated, *brace = strchr(name, '{');
            char flag[TOKEN_BYTES];
            snprintf(flag, sizeof flag, "%.*s", (int)(brace - name), name);
            wanted = older_flag(older, flag) != negated;
            at = brace;
        }
        const char *end = strstr(at, "},?");
        const char *plain_end = strstr(at, "},{");
        end = plain_end && (!end || plain_end < end) ? plain_end : end;
        const size_t size = end ? (size_t)(end - at) + 2 : strlen(at);
        if (wanted)
            text_bytes(text, at, size);
        at += size;
    }
}

/* Whether a pre-tokenizer takes the place of the normalizers of spaces. Where there is one space
 * between two words at most, no piece goes over a space, and words can be looked at one by one. */
static bool splits_words(const struct older *older)
{
    const struct sentencepiece *model = &older->sentencepiece;
    return model->removes_extra_whitespaces && model->escapes_whitespaces
           && model->splits_at_whitespace;
}

static bool is_metaspace(const struct older *older)
{
    return older->sentencepiece.escapes_whitespaces
           && (splits_words(older) || cJSON_IsFalse(older_config_field(&older->config, "legacy")));
}

/* tokenizer_config.json may change what the file says of the space before a text. */
static bool adds_prefix(const struct older *older)
{
    const cJSON *field = older_config_field(&older->config, "add_prefix_space");
    return cJSON_IsBool(field) ? cJSON_IsTrue(field) : older->sentencepiece.adds_prefix;
}

static void write_normalizer(const struct older *older, struct text *text)
{
    const struct sentencepiece *model = &older->sentencepiece;
    text_raw(text, "{\"type\":\"Sequence\",\"normalizers\":[");
    write_own_normalizers(older, text);
    if (model->charsmap.size > 0) {
        text_raw(text, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        write_base64(text, model->charsmap);
        text_raw(text, "\"},");
    }
    if (model->removes_extra_whitespaces)
        text_format(text,
                    "{\"type\":\"Strip\",\"strip_left\":%s,\"strip_right\":true},"
                    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"%s\"},",
                    splits_words(older) ? "false" : "true", splits_words(older) ? SPACE : " ");
    if (!is_metaspace(older) && adds_prefix(older))
        text_raw(text, model->escapes_whitespaces ? "{\"type\":\"Prepend\",\"prepend\":\"" SPACE
                                                    "\"},"
                                                  : "{\"type\":\"Prepend\",\"prepend\":\" \"},");
    if (!is_metaspace(older) && model->escapes_whitespaces)
        text_raw(text, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                       "\"content\":\"" SPACE "\"},");
    if (text->used > 0 && text->data[text->used - 1] == ',')
        text->used--;
    text_raw(text, "]}");
}

static void write_pre_tokenizer(const struct older *older, struct text *text)
{
    const bool is_legacy = !cJSON_IsFalse(older_config_field(&older->config, "legacy"));
    const char *scheme = !adds_prefix(older) ? "never" : is_legacy ? "always" : "first";
    if (is_metaspace(older))
        text_format(text,
                    "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE
                    "\",\"prepend_scheme\":\"%s\",\"split\":%s}",
                    scheme, splits_words(older) ? "true" : "false");
    else
        text_raw(text, "null");
}

static void write_decoder(const struct older *older, struct text *text)
{
    text_raw(text, "{\"type\":\"Sequence\",\"decoders\":["
                   "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" SPACE "\"},"
                   "\"content\":\" \"},");
    if (older->sentencepiece.byte_fallback)
        text_raw(text, "{\"type\":\"ByteFallback\"},");
    text_raw(text, "{\"type\":\"Fuse\"}");
    if (adds_prefix(older))
        text_raw(text, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    text_raw(text, "]}");
}

static void write_unigram(const struct older *older, struct text *text)
{
    text_format(text, "{\"type\":\"Unigram\",\"unk_id\":%lld,\"byte_fallback\":%s,\"vocab\":",
                (long long)older->unknown_id,
                older->sentencepiece.byte_fallback ? "true" : "false");
    for (int64_t id = 0; id < older->vocabulary.id_end; id++) {
        const struct byte_slice token = vocabulary_text(&older->vocabulary, id);
        text_raw(text, id > 0 ? ",[" : "[[");
        older_write_string(text, token.data, token.size);
        text_format(text, ",%.17g]", older->scores[id]);
    }
    text_raw(text, "]}");
}

static bool write_bpe(struct older *older, struct text *text)
{
    int64_t count;
    struct older_merge *merges = older_sentencepiece_merges(older, &count);
    if (!merges)
        return false;
    const struct byte_slice unknown = vocabulary_text(&older->vocabulary, older->unknown_id);
    text_format(text, "{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":%s,\"unk_token\":",
                older->sentencepiece.byte_fallback ? "true" : "false");
    older_write_string(text, unknown.data, unknown.size);
    for (int64_t id = 0; id < older->vocabulary.id_end; id++) {
        const struct byte_slice token = vocabulary_text(&older->vocabulary, id);
        text_raw(text, id > 0 ? "," : ",\"vocab\":{");
        older_write_string(text, token.data, token.size);
        text_format(text, ":%lld", (long long)id);
    }
    text_raw(text, "},\"merges\":[");
    for (int64_t i = 0; i < count; i++) {
        const struct byte_slice left = vocabulary_text(&older->vocabulary, merges[i].left);
        const struct byte_slice right = vocabulary_text(&older->vocabulary, merges[i].right);
        text_raw(text, i > 0 ? ",[" : "[");
        older_write_string(text, left.data, left.size);
        text_raw(text, ",");
        older_write_string(text, right.data, right.size);
        text_raw(text, "]");
    }
    text_raw(text, "]}");
    free(merges);
    return true;
}

bool older_write_sentencepiece(struct older *older, const char *part, struct text *text)
{
    if (strcmp(part, "normalizer") == 0)
        write_normalizer(older, text);
    else if (strcmp(part, "pre_tokenizer") == 0)
        write_pre_tokenizer(older, text);
    else if (strcmp(part, "decoder") == 0)
        write_decoder(older, text);
    else if (older->sentencepiece.model == SENTENCEPIECE_BPE)
        return write_bpe(older, text);
    else
        write_unigram(older, text);
    return true;
}
