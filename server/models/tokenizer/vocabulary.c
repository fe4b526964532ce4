/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.c - a block of texts, and a hash table of their ids. */
#include "models/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

struct vocabulary_token {
    uint32_t offset; /* in texts */
    int32_t size;    /* -1: no token has this id */
};

enum { VOCABULARY_TABLE_MIN = 1024 };

void vocabulary_free(struct vocabulary *vocabulary)
{
    free(vocabulary->tokens);
    free(vocabulary->texts);
    free(vocabulary->table);
    *vocabulary = (struct vocabulary){ 0 };
}

static uint64_t hash(const char *text, size_t size)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ size;
    for (; size >= 8; text += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    uint64_t word = 0;
    memcpy(&word, text, size);
    h = (h ^ word) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

/* The place in the table where the text is or belongs. */
static int64_t place(const struct vocabulary *vocabulary, const char *text, size_t size)
{
    const uint64_t mask = (uint64_t)vocabulary->table_size - 1;
    for (uint64_t i = hash(text, size) & mask;; i = (i + 1) & mask) {
        const int32_t id = vocabulary->table[i];
        if (id == VOCABULARY_NONE)
            return (int64_t)i;
        const struct vocabulary_token *token = &vocabulary->tokens[id];
        if ((size_t)token->size == size
            && memcmp(vocabulary->texts + token->offset, text, size) == 0)
            return (int64_t)i;
    }
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t size)
{
    return vocabulary->table_size > 0 ? vocabulary->table[place(vocabulary, text, size)]
                                      : VOCABULARY_NONE;
}

struct byte_slice vocabulary_text(const struct vocabulary *vocabulary, int64_t id)
{
    if (id < 0 || id >= vocabulary->id_end || vocabulary->tokens[id].size < 0)
        return (struct byte_slice){ NULL, 0 };
    const struct vocabulary_token *token = &vocabulary->tokens[id];
    return (struct byte_slice){ vocabulary->texts + token->offset, (size_t)token->size };
}

/* -------------------------------------------------------------- building -- */

/* Makes the table twice as large once it is half full. */
static bool grow_table(struct vocabulary *vocabulary)
{
    if (2 * (vocabulary->count + 1) <= vocabulary->table_size)
        return true;
    const int64_t size =
        vocabulary->table_size > 0 ? 2 * vocabulary->table_size : VOCABULARY_TABLE_MIN;
    int32_t *table = malloc((size_t)size * sizeof *table);
    if (!table)
        return false;
    memset(table, 0xFF, (size_t)size * sizeof *table);
    int32_t *old = vocabulary->table;
    const int64_t old_size = vocabulary->table_size;
    vocabulary->table = table;
    vocabulary->table_size = size;
    for (int64_t i = 0; i < old_size; i++) {
        if (old[i] == VOCABULARY_NONE)
            continue;
        const struct vocabulary_token *token = &vocabulary->tokens[old[i]];
        table[place(vocabulary, vocabulary->texts + token->offset, (size_t)token->size)] = old[i];
    }
    free(old);
    return true;
}

static bool grow_tokens(struct vocabulary *vocabulary, int64_t id)
{
    if (id >= vocabulary->tokens_capacity) {
        int64_t capacity = 2 * vocabulary->tokens_capacity;
        capacity = capacity > id + 64 ? capacity : id + 64;
        struct vocabulary_token *tokens =
            realloc(vocabulary->tokens, (size_t)capacity * sizeof *tokens);
        if (!tokens)
            return false;
        vocabulary->tokens = tokens;
        vocabulary->tokens_capacity = capacity;
    }
    for (; vocabulary->id_end <= id; vocabulary->id_end++)
        vocabulary->tokens[vocabulary->id_end] = (struct vocabulary_token){ 0, -1 };
    return true;
}

static bool grow_texts(struct vocabulary *vocabulary, size_t size)
{
    const int64_t needed = vocabulary->texts_size + (int64_t)size + 1;
    if (vocabulary->texts && needed <= vocabulary->texts_capacity)
        return true;
    const int64_t capacity = 2 * needed + 4096;
    char *texts = realloc(vocabulary->texts, (size_t)capacity);
    if (!texts)
        return false;
    vocabulary->texts = texts;
    vocabulary->texts_capacity = capacity;
    return true;
}

bool vocabulary_add(struct vocabulary *vocabulary, const char *text, size_t size, int64_t id,
                    struct fault *fault)
{
    if (id < 0 || id > VOCABULARY_ID_MAX)
        return fault_set(fault, FAULT_OPTION, "the token '%.60s' has id %lld; expected 0 to %d",
                         text, (long long)id, VOCABULARY_ID_MAX);
    if (size > INT32_MAX / 2 || vocabulary->texts_size + (int64_t)size >= UINT32_MAX)
        return fault_set(fault, FAULT_TOO_LARGE, "the tokens are longer than %lld bytes in all",
                         (long long)UINT32_MAX);
    const struct byte_slice other = vocabulary_text(vocabulary, id);
    if (other.data)
        return fault_set(fault, FAULT_DUPLICATE,
                         "the tokens '%.60s' and '%.60s' have the same id, %lld",
                         (const char *)other.data, text, (long long)id);
    if (!grow_tokens(vocabulary, id) || !grow_texts(vocabulary, size) || !grow_table(vocabulary))
        return fault_no_memory(fault);
    char *copy = vocabulary->texts + vocabulary->texts_size;
    memcpy(copy, text, size);
    copy[size] = '\0';
    vocabulary->table[place(vocabulary, text, size)] = (int32_t)id;
    vocabulary->tokens[id] =
        (struct vocabulary_token){ (uint32_t)vocabulary->texts_size, (int32_t)size };
    vocabulary->texts_size += (int64_t)size + 1;
    vocabulary->count++;
    return true;
}
