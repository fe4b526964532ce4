/* SPDX-License-Identifier: Apache-2.0 */
/* legacy_read.c - the files of legacy forms that are text: configs, vocabularies, and the added
 * tokens that they name. */
#include "models/tokenizer/legacy.h"

#include "base/grow.h"
#include "models/tokenizer/unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- lists -- */

const char *legacy_list_next(const char **list, size_t *size)
{
    const char *word = *list + strspn(*list, " ");
    *size = strcspn(word, " ");
    *list = word + *size;
    return *size > 0 ? word : NULL;
}

bool legacy_list_value(const char *list, const char *key, char *out, size_t size)
{
    const size_t key_size = strlen(key);
    size_t word_size;
    for (const char *word; (word = legacy_list_next(&list, &word_size));) {
        if (word_size <= key_size || memcmp(word, key, key_size) != 0 || word[key_size] != '=')
            continue;
        snprintf(out, size, "%.*s", (int)(word_size - key_size - 1), word + key_size + 1);
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------ config -- */

const cJSON *legacy_config_field(const struct legacy_config *config, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(config->tokenizer.root, key);
}

/* The text of a node that is a token: a string, or an object with "content". */
static const char *text_of(const cJSON *node)
{
    const cJSON *content =
        cJSON_IsObject(node) ? cJSON_GetObjectItemCaseSensitive(node, "content") : node;
    return cJSON_GetStringValue(content);
}

const char *legacy_config_token(const struct legacy_config *config, const char *role)
{
    const char *newer = text_of(legacy_config_field(config, role));
    const char *map = text_of(cJSON_GetObjectItemCaseSensitive(config->special.root, role));
    const bool is_newer = legacy_config_field(config, "added_tokens_decoder") != NULL;
    const char *first = is_newer ? newer : map;
    return first ? first : is_newer ? map : newer;
}

enum { VALUE_BYTES = 64 };

const char *legacy_token(struct legacy *legacy, const char *role)
{
    const char *token = legacy_config_token(&legacy->config, role);
    char value[VALUE_BYTES];
    if (token || !legacy_list_value(legacy->class->defaults, role, value, sizeof value))
        return token;
    return arena_strdup(&legacy->arena, value);
}

bool legacy_flag(const struct legacy *legacy, const char *key)
{
    const cJSON *field = legacy_config_field(&legacy->config, key);
    char value[VALUE_BYTES];
    if (cJSON_IsBool(field))
        return cJSON_IsTrue(field);
    return legacy_list_value(legacy->class->defaults, key, value, sizeof value)
           && strcmp(value, "true") == 0;
}

int64_t legacy_id(const struct legacy *legacy, const char *token)
{
    const int32_t id = vocabulary_find(&legacy->vocabulary, token, strlen(token));
    if (id != VOCABULARY_NONE)
        return id;
    const int32_t index = vocabulary_find(&legacy->added_texts, token, strlen(token));
    return index == VOCABULARY_NONE ? -1 : legacy->added[index].id;
}

/* ------------------------------------------------------------ vocabularies -- */

/* The next line of a text, which moves on behind it. Lines end at "\n", "\r" or "\r\n", as Python's
 * text files have them. */
static struct byte_slice next_line(char **text, size_t *left)
{
    size_t size = 0;
    while (size < *left && (*text)[size] != '\n' && (*text)[size] != '\r')
        size++;
    const struct byte_slice line = { *text, size };
    const bool is_pair = *left - size > 1 && memcmp(*text + size, "\r\n", 2) == 0;
    const size_t step = size + (size < *left) + is_pair;
    *text += step;
    *left -= step;
    return line;
}

static bool is_utf8(const char *text, size_t size)
{
    return unicode_find_invalid(text, size) == size;
}

/* One token a line; the line's number, from 0, is the id. Of equal tokens the last one counts. */
bool legacy_read_lines(struct legacy *legacy)
{
    char *text = legacy->vocabulary_file;
    size_t left = legacy->vocabulary_size;
    for (int64_t id = 0; left > 0; id++) {
        const struct byte_slice line = next_line(&text, &left);
        if (!is_utf8(line.data, line.size))
            return fault_set(legacy->fault, FAULT_FIELD, "line %" PRId64 " is not UTF-8", id + 1);
        if (!vocabulary_add(&legacy->vocabulary, line.data, line.size, id, legacy->fault))
            return false;
    }
    return true;
}

/* Two tokens with one space between them a line. A line that begins with "#version" is none. */
static bool read_merges(struct legacy *legacy)
{
    char *text = legacy->merges_file;
    size_t left = legacy->merges_size;
    for (int64_t number = 1; left > 0; number++) {
        char *merge = text;
        const size_t size = next_line(&text, &left).size;
        merge[size] = '\0';
        if (size == 0 || strncmp(merge, "#version", 8) == 0)
            continue;
        const char *space = memchr(merge, ' ', size);
        if (!space || strchr(space + 1, ' ') || strlen(merge) != size)
            return fault_set(legacy->fault, FAULT_FIELD,
                             "merges.txt: line %" PRId64 " is not two tokens", number);
        if (!is_utf8(merge, size))
            return fault_set(legacy->fault, FAULT_FIELD,
                             "merges.txt: line %" PRId64 " is not UTF-8", number);
        const char **merges = array_with_room(legacy->merges, legacy->merge_count,
                                              &legacy->merge_capacity, sizeof *merges);
        if (!merges)
            return fault_no_memory(legacy->fault);
        legacy->merges = merges;
        merges[legacy->merge_count++] = merge;
    }
    return true;
}

static bool add_tokens(struct legacy *legacy, const struct json_document *document)
{
    if (!cJSON_IsObject(document->root))
        return fault_set(legacy->fault, FAULT_TYPE, "the file is %s; expected an object of ids",
                         json_kind(document, document->root));
    const cJSON *token;
    cJSON_ArrayForEach(token, document->root) {
        struct byte_slice text;
        if (!json_string_read(token->string, &legacy->arena, &text))
            return fault_no_memory(legacy->fault);
        const double id = cJSON_IsNumber(token) ? token->valuedouble : -1;
        if (!(id >= 0 && id <= VOCABULARY_ID_MAX) || id != (double)(int64_t)id)
            return fault_set(legacy->fault, FAULT_FIELD, "%s is %s; expected an id", token->string,
                             json_kind(document, token));
        if (!vocabulary_add(&legacy->vocabulary, text.data, text.size, (int64_t)id, legacy->fault))
            return false;
    }
    return true;
}

bool legacy_read_pairs(struct legacy *legacy)
{
    const char *refused = legacy->class->refused;
    const bool has_merges = strstr(legacy->class->text, "@merges") != NULL;
    if (has_merges && !legacy->merges_file)
        return fault_set(legacy->fault, FAULT_OPTION, "there is no merges.txt beside it");
    if (refused && legacy_flag(legacy, refused))
        return fault_set(legacy->fault, FAULT_OPTION,
                         "tokenizer_config.json sets %s, which is not read here", refused);
    const struct json_options options = { .nul_is_kept = true };
    struct json_document document;
    if (!json_read(&document, legacy->vocabulary_file, legacy->vocabulary_size, &options,
                   legacy->fault))
        return false;
    const bool good = add_tokens(legacy, &document);
    json_free(&document);
    return good && (!has_merges || read_merges(legacy));
}

/* ------------------------------------------------------------ added tokens -- */

/* The tokens that are found in a text before the model sees it.
 *
 * Several files name them. What a newer file says of a token counts: added_tokens_decoder of
 * tokenizer_config.json has all there is to know; SentencePiece's control and user-defined pieces
 * are added tokens; the special tokens by role come next; added_tokens.json has texts and ids only.
 * A special token that has no id in any file is left out, unless its class numbers it. */
static const char *const ROLES[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token" };

/* Adds a token unless its text is there already. */
static bool put(struct legacy *legacy, struct legacy_added token)
{
    const size_t size = strlen(token.text);
    if (size == 0 || vocabulary_find(&legacy->added_texts, token.text, size) != VOCABULARY_NONE)
        return true;
    struct legacy_added *added =
        array_with_room(legacy->added, legacy->added_count, &legacy->added_capacity, sizeof *added);
    if (!added)
        return fault_no_memory(legacy->fault);
    legacy->added = added;
    if (!vocabulary_add(&legacy->added_texts, token.text, size, legacy->added_count, legacy->fault))
        return false;
    added[legacy->added_count++] = token;
    return true;
}

static bool is_true(const cJSON *node, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(node, key));
}

static struct legacy_added described(const cJSON *node, const char *text, int64_t id, bool special)
{
    return (struct legacy_added){ .text = text,
                                  .id = id,
                                  .special = special,
                                  .lstrip = is_true(node, "lstrip"),
                                  .rstrip = is_true(node, "rstrip"),
                                  .single_word = is_true(node, "single_word"),
                                  .normalized = is_true(node, "normalized") };
}

static bool put_decoder(struct legacy *legacy)
{
    const cJSON *list = legacy_config_field(&legacy->config, "added_tokens_decoder"), *node;
    cJSON_ArrayForEach(node, list) {
        const char *text = text_of(node);
        char *end;
        const long long id = strtoll(node->string ? node->string : "", &end, 10);
        if (!text || *end || !node->string || id < 0 || id > VOCABULARY_ID_MAX)
            return fault_set(legacy->fault, FAULT_FIELD,
                             "tokenizer_config.json: added_tokens_decoder has an entry that is no "
                             "id and token");
        if (!put(legacy, described(node, text, id, is_true(node, "special"))))
            return false;
    }
    return true;
}

/* SentencePiece's unknown and control pieces are special; user-defined ones are not. */
static bool put_pieces(struct legacy *legacy)
{
    for (int64_t i = 0; i < legacy->sentencepiece.piece_count; i++) {
        const struct sentencepiece_piece *piece = &legacy->sentencepiece.pieces[i];
        const bool is_special =
            piece->type == SENTENCEPIECE_CONTROL || piece->type == SENTENCEPIECE_UNKNOWN;
        if (!is_special && piece->type != SENTENCEPIECE_USER_DEFINED)
            continue;
        const int32_t id = vocabulary_find(&legacy->vocabulary, piece->text.data, piece->text.size);
        char *text = arena_alloc(&legacy->arena, piece->text.size + 1);
        if (!text)
            return fault_no_memory(legacy->fault);
        memcpy(text, piece->text.data, piece->text.size);
        text[piece->text.size] = '\0';
        if (id != VOCABULARY_NONE
            && !put(legacy, (struct legacy_added){ .text = text, .id = id, .special = is_special }))
            return false;
    }
    return true;
}

/* The id behind those of the vocabulary and of the tokens that are added so far. */
static int64_t next_id(const struct legacy *legacy)
{
    int64_t next = legacy->vocabulary.id_end;
    for (int64_t i = 0; i < legacy->added_count; i++)
        if (legacy->added[i].id >= next)
            next = legacy->added[i].id + 1;
    return next;
}

/* The id of a special token: the vocabulary's, or that of added_tokens.json. */
static int64_t special_id(const struct legacy *legacy, const char *text)
{
    const int64_t id = legacy_id(legacy, text);
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(legacy->config.added.root, text);
    if (id >= 0)
        return id;
    return cJSON_IsNumber(node)             ? (int64_t)node->valuedouble
           : legacy->class->numbers_missing ? next_id(legacy)
                                            : -1;
}

static bool put_special(struct legacy *legacy, const cJSON *node, const char *text, bool lstrip)
{
    const int64_t id = text ? special_id(legacy, text) : -1;
    if (id < 0)
        return true;
    struct legacy_added token = described(node, text, id, true);
    token.lstrip = token.lstrip || (lstrip && !cJSON_IsObject(node));
    return put(legacy, token);
}

static bool put_roles(struct legacy *legacy)
{
    for (size_t i = 0; i < sizeof ROLES / sizeof ROLES[0]; i++) {
        const char *role = ROLES[i];
        const cJSON *node = cJSON_GetObjectItemCaseSensitive(legacy->config.special.root, role);
        node = node ? node : legacy_config_field(&legacy->config, role);
        const bool is_mask =
            strcmp(role, "mask_token") == 0 && legacy_flag(legacy, "mask_takes_space");
        if (!put_special(legacy, node, legacy_token(legacy, role), is_mask))
            return false;
    }
    const cJSON *lists[] = {
        cJSON_GetObjectItemCaseSensitive(legacy->config.special.root, "additional_special_tokens"),
        legacy_config_field(&legacy->config, "additional_special_tokens"),
    };
    for (int i = 0; i < 2; i++) {
        const cJSON *node;
        cJSON_ArrayForEach(node, lists[i]) {
            if (!put_special(legacy, node, text_of(node), false))
                return false;
        }
    }
    return true;
}

static bool put_added_file(struct legacy *legacy)
{
    const cJSON *node;
    cJSON_ArrayForEach(node, legacy->config.added.root) {
        const double id = cJSON_IsNumber(node) ? node->valuedouble : -1;
        if (!(id >= 0 && id <= VOCABULARY_ID_MAX))
            return fault_set(legacy->fault, FAULT_FIELD,
                             "added_tokens.json: %s is no token with an id", node->string);
        if (!put(legacy, (struct legacy_added){
                             .text = node->string, .id = (int64_t)id, .normalized = true }))
            return false;
    }
    return true;
}

static int by_id(const void *a, const void *b)
{
    const struct legacy_added *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

bool legacy_read_added(struct legacy *legacy)
{
    if (!put_decoder(legacy) || !put_pieces(legacy) || !put_roles(legacy)
        || !put_added_file(legacy))
        return false;
    if (legacy->added_count > 0)
        qsort(legacy->added, (size_t)legacy->added_count, sizeof *legacy->added, by_id);
    vocabulary_free(&legacy->added_texts);
    for (int64_t i = 0; i < legacy->added_count; i++)
        if (!vocabulary_add(&legacy->added_texts, legacy->added[i].text,
                            strlen(legacy->added[i].text), i, legacy->fault))
            return false;
    return true;
}

void legacy_free(struct legacy *legacy)
{
    json_free(&legacy->config.tokenizer);
    json_free(&legacy->config.special);
    json_free(&legacy->config.added);
    json_free(&legacy->config.model);
    free(legacy->vocabulary_file);
    free(legacy->merges_file);
    free(legacy->sentencepiece.pieces);
    vocabulary_free(&legacy->vocabulary);
    vocabulary_free(&legacy->added_texts);
    free(legacy->merges);
    free(legacy->scores);
    free(legacy->added);
    arena_free(&legacy->arena);
}
