/* older_added.c - the tokens that are found in a text before the model sees it.
 *
 * Several files name them. What a newer file says of a token counts: added_tokens_decoder of
 * tokenizer_config.json has all there is to know; SentencePiece's control and user-defined pieces
 * are added tokens; the special tokens by role come next; added_tokens.json has texts and ids only.
 * A special token that has no id in any file is left out. */
#include "tokenizer/older.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static const char *const ROLES[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token" };

enum { VALUE_BYTES = 64 };

const char *older_token(struct older *older, const char *role)
{
    const char *token = older_config_token(&older->config, role);
    char value[VALUE_BYTES];
    if (token || !older_list_value(older->class->defaults, role, value, sizeof value))
        return token;
    return arena_strdup(&older->arena, value);
}

bool older_flag(const struct older *older, const char *key)
{
    const cJSON *field = older_config_field(&older->config, key);
    char value[VALUE_BYTES];
    if (cJSON_IsBool(field))
        return cJSON_IsTrue(field);
    return older_list_value(older->class->defaults, key, value, sizeof value)
           && strcmp(value, "true") == 0;
}

int64_t older_id(const struct older *older, const char *token)
{
    const int32_t id = vocabulary_find(&older->vocabulary, token, strlen(token));
    if (id != VOCABULARY_NONE)
        return id;
    const int32_t index = vocabulary_find(&older->added_texts, token, strlen(token));
    return index == VOCABULARY_NONE ? -1 : older->added[index].id;
}

/* Adds a token unless its text is there already. */
static bool put(struct older *older, struct older_added token)
{
    const size_t size = strlen(token.text);
    if (size == 0 || vocabulary_find(&older->added_texts, token.text, size) != VOCABULARY_NONE)
        return true;
    struct older_added *added =
        array_with_room(older->added, older->added_count, &older->added_capacity, sizeof *added);
    if (!added)
        return fault_no_memory(older->fault);
    older->added = added;
    if (!vocabulary_add(&older->added_texts, token.text, size, older->added_count, older->fault))
        return false;
    added[older->added_count++] = token;
    return true;
}

static bool is_true(const cJSON *node, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(node, key));
}

static struct older_added described(const cJSON *node, const char *text, int64_t id, bool special)
{
    return (struct older_added){ .text = text,
                                 .id = id,
                                 .special = special,
                                 .lstrip = is_true(node, "lstrip"),
                                 .rstrip = is_true(node, "rstrip"),
                                 .single_word = is_true(node, "single_word"),
                                 .normalized = is_true(node, "normalized") };
}

static bool put_decoder(struct older *older)
{
    const cJSON *list = older_config_field(&older->config, "added_tokens_decoder"), *node;
    cJSON_ArrayForEach(node, list)
    {
        const char *text = older_config_text(node);
        char *end;
        const long long id = strtoll(node->string ? node->string : "", &end, 10);
        if (!text || *end || !node->string || id < 0 || id > VOCABULARY_ID_MAX)
            return fault_set(older->fault, FAULT_FIELD,
                             "tokenizer_config.json: added_tokens_decoder has an entry that is no "
                             "id and token");
        if (!put(older, described(node, text, id, is_true(node, "special"))))
            return false;
    }
    return true;
}

/* SentencePiece's unknown and control pieces are special; user-defined ones are not. */
static bool put_pieces(struct older *older)
{
    for (int64_t i = 0; i < older->sentencepiece.piece_count; i++) {
        const struct sentencepiece_piece *piece = &older->sentencepiece.pieces[i];
        const bool is_special =
            piece->type == SENTENCEPIECE_CONTROL || piece->type == SENTENCEPIECE_UNKNOWN;
        if (!is_special && piece->type != SENTENCEPIECE_USER_DEFINED)
            continue;
        const int32_t id = vocabulary_find(&older->vocabulary, piece->text.data, piece->text.size);
        char *text = arena_alloc(&older->arena, piece->text.size + 1);
        if (!text)
            return fault_no_memory(older->fault);
        memcpy(text, piece->text.data, piece->text.size);
        text[piece->text.size] = '\0';
        if (id != VOCABULARY_NONE
            && !put(older, (struct older_added){ .text = text, .id = id, .special = is_special }))
            return false;
    }
    return true;
}

/* The id of a special token: the vocabulary's, or that of added_tokens.json. */
static int64_t special_id(const struct older *older, const char *text)
{
    const int64_t id = older_id(older, text);
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(older->config.added.root, text);
    return id < 0 && cJSON_IsNumber(node) ? (int64_t)node->valuedouble : id;
}

static bool put_special(struct older *older, const cJSON *node, const char *text, bool lstrip)
{
    const int64_t id = text ? special_id(older, text) : -1;
    if (id < 0)
        return true;
    struct older_added token = described(node, text, id, true);
    token.lstrip = token.lstrip || (lstrip && !cJSON_IsObject(node));
    return put(older, token);
}

static bool put_roles(struct older *older)
{
    for (size_t i = 0; i < sizeof ROLES / sizeof ROLES[0]; i++) {
        const char *role = ROLES[i];
        const cJSON *node = cJSON_GetObjectItemCaseSensitive(older->config.special.root, role);
        node = node ? node : older_config_field(&older->config, role);
        const bool is_mask =
            strcmp(role, "mask_token") == 0 && older_flag(older, "mask_takes_space");
        if (!put_special(older, node, older_token(older, role), is_mask))
            return false;
    }
    const cJSON *lists[] = {
        cJSON_GetObjectItemCaseSensitive(older->config.special.root, "additional_special_tokens"),
        older_config_field(&older->config, "additional_special_tokens"),
    };
    for (int i = 0; i < 2; i++) {
        const cJSON *node;
        cJSON_ArrayForEach(node, lists[i]) if (!put_special(older, node, older_config_text(node),
                                                            false)) return false;
    }
    return true;
}

static bool put_added_file(struct older *older)
{
    const cJSON *node;
    cJSON_ArrayForEach(node, older->config.added.root)
    {
        const double id = cJSON_IsNumber(node) ? node->valuedouble : -1;
        if (!(id >= 0 && id <= VOCABULARY_ID_MAX))
            return fault_set(older->fault, FAULT_FIELD,
                             "added_tokens.json: %s is no token with an id", node->string);
        if (!put(older, (struct older_added){
                            .text = node->string, .id = (int64_t)id, .normalized = true }))
            return false;
    }
    return true;
}

static int by_id(const void *a, const void *b)
{
    const struct older_added *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

bool older_read_added(struct older *older)
{
    if (!put_decoder(older) || !put_pieces(older) || !put_roles(older) || !put_added_file(older))
        return false;
    if (older->added_count > 0)
        qsort(older->added, (size_t)older->added_count, sizeof *older->added, by_id);
    vocabulary_free(&older->added_texts);
    for (int64_t i = 0; i < older->added_count; i++)
        if (!vocabulary_add(&older->added_texts, older->added[i].text, strlen(older->added[i].text),
                            i, older->fault))
            return false;
    return true;
}
