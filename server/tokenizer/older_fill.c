/* older_fill.c - writes the tokenizer.json of an older form.
 *
 * The text of the class is copied, and each name in it that begins with @ gives way to a value:
 *
 *     @added                the added tokens
 *     @vocab, @merges       the model's
 *     @template             the class's template
 *     @flag:KEY             a field of tokenizer_config.json that is true, false or null
 *     @token:ROLE           a special token
 *     @entry:ROLE           a special token and its id
 *     @sentencepiece:PART   a step that the file of SentencePiece says */
#include "tokenizer/older.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64 };

void older_write_string(struct text *text, const char *bytes, size_t size)
{
    text_raw(text, "\"");
    size_t from = 0;
    for (size_t at = 0; at < size; at++) {
        const unsigned char byte = (unsigned char)bytes[at];
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        text_bytes(text, bytes + from, at - from);
        text_format(text, "\\u%04x", byte);
        from = at + 1;
    }
    text_bytes(text, bytes + from, size - from);
    text_raw(text, "\"");
}

static void write_bool(struct text *text, const char *key, bool value)
{
    text_key(text, key);
    text_raw(text, value ? "true," : "false,");
}

static void write_added(const struct older *older, struct text *text)
{
    text_raw(text, "[");
    for (int64_t i = 0; i < older->added_count; i++) {
        const struct older_added *added = &older->added[i];
        text_raw(text, i > 0 ? ",{" : "{");
        write_bool(text, "special", added->special);
        write_bool(text, "lstrip", added->lstrip);
        write_bool(text, "rstrip", added->rstrip);
        write_bool(text, "single_word", added->single_word);
        write_bool(text, "normalized", added->normalized);
        text_format(text, "\"id\":%lld,\"content\":", (long long)added->id);
        older_write_string(text, added->text, strlen(added->text));
        text_raw(text, "}");
    }
    text_raw(text, "]");
}

/* An id whose text another id has too is left out: the last one counts. */
static void write_vocabulary(const struct older *older, struct text *text)
{
    const char *comma = "{";
    for (int64_t id = 0; id < older->vocabulary.id_end; id++) {
        const struct byte_slice token = vocabulary_text(&older->vocabulary, id);
        if (!token.data || vocabulary_find(&older->vocabulary, token.data, token.size) != id)
            continue;
        text_raw(text, comma);
        older_write_string(text, token.data, token.size);
        text_format(text, ":%lld", (long long)id);
        comma = ",";
    }
    text_raw(text, *comma == '{' ? "{}" : "}");
}

static void write_merges(const struct older *older, struct text *text)
{
    text_raw(text, "[");
    for (int64_t i = 0; i < older->merge_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        older_write_string(text, older->merges[i], strlen(older->merges[i]));
    }
    text_raw(text, "]");
}

static void write_flag(const struct older *older, const char *key, struct text *text)
{
    char value[NAME_BYTES];
    const cJSON *field = older_config_field(&older->config, key);
    if (cJSON_IsBool(field))
        text_raw(text, cJSON_IsTrue(field) ? "true" : "false");
    else if (older_list_value(older->class->defaults, key, value, sizeof value))
        text_raw(text, value);
    else
        text_raw(text, "false");
}

static bool write_token(struct older *older, const char *role, bool with_id, struct text *text)
{
    const char *token = older_token(older, role);
    const int64_t id = token ? older_id(older, token) : -1;
    if (!token || (with_id && id < 0))
        return fault_set(older->fault, FAULT_FIELD, "the %s %s is not in the vocabulary", role,
                         token ? token : "");
    text_raw(text, with_id ? "[" : "");
    older_write_string(text, token, strlen(token));
    if (with_id)
        text_format(text, ",%lld]", (long long)id);
    return true;
}

/* Writes what a name, without its @, stands for. */
static bool write_value(struct older *older, const char *name, struct text *text)
{
    const char *colon = strchr(name, ':');
    const char *rest = colon ? colon + 1 : "";
    if (strcmp(name, "added") == 0)
        write_added(older, text);
    else if (strcmp(name, "vocab") == 0)
        write_vocabulary(older, text);
    else if (strcmp(name, "merges") == 0)
        write_merges(older, text);
    else if (strcmp(name, "template") == 0)
        return older_write_template(older, text);
    else if (strncmp(name, "flag:", 5) == 0)
        write_flag(older, rest, text);
    else if (strncmp(name, "token:", 6) == 0 || strncmp(name, "entry:", 6) == 0)
        return write_token(older, rest, name[0] == 'e', text);
    else
        return older_write_sentencepiece(older, rest, text);
    return true;
}

bool older_fill(struct older *older, struct text *text)
{
    const char *from = older->class->text;
    for (const char *at; (at = strchr(from, '@'));) {
        text_bytes(text, from, (size_t)(at - from));
        const size_t size = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_:");
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)size, at + 1);
        if (!write_value(older, name, text))
            return false;
        from = at + 1 + size;
    }
    text_raw(text, from);
    return text_finish(text, older->fault);
}
