/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tokens.c - the lists of a tokenizer in a GGUF file: tokens, types, scores, merges. */
#include "models/tokenizer/gguf_tokenizer.h"

#include "models/tokenizer/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\xE2\x96\x81"

enum {
    TOKEN_BYTES_MAX = 1 << 25, /* of all tokens; 10^6 published ones have some 10^7 */
    MERGE_COUNT_MAX = 1 << 23,
    CHARSMAP_BYTES_MAX = 1 << 24,
    ADDED_COUNT_MAX = 1 << 18, /* tokens that are found in a text */
    ADDED_BYTES_MAX = 1024,    /* of one of them */
    SHOWN = 60
};

bool gguf_array_find(const struct gguf *file, const char *key, enum gguf_type element,
                     const struct gguf_value **array, struct fault *fault)
{
    *array = gguf_find(file, key);
    return !*array
           || ((*array)->type == GGUF_ARRAY
               && (element == GGUF_TYPE_COUNT || (*array)->element_type == element))
           || fault_set(fault, FAULT_TYPE, "%s is %s; expected an array of %s", key,
                        gguf_type_name(*array),
                        element == GGUF_STRING ? "strings"
                        : element == GGUF_I32  ? "i32"
                                               : "numbers");
}

static struct byte_slice text_at(const struct gguf_value *array, int64_t i)
{
    const struct gguf_value element = gguf_element(array, i);
    struct byte_slice text = { "", 0 };
    const char *data;
    if (gguf_text(&element, &data, &text.size))
        text.data = data;
    return text;
}

static int64_t integer_at(const struct gguf_value *array, int64_t i)
{
    const struct gguf_value element = gguf_element(array, i);
    int64_t integer = -1;
    return gguf_integer(&element, &integer) ? integer : -1;
}

/* ------------------------------------------------------------------ tokens -- */

/* The texts of a file's tokens, with one of the ggml library's own for an empty one. */
static bool read_text(const struct gguf_tokens *tokens, const struct gguf_value *array, int64_t id,
                      struct byte_slice *text)
{
    struct legacy *legacy = tokens->legacy;
    *text = text_at(array, id);
    if (unicode_find_invalid(text->data, text->size) < text->size)
        return fault_set(legacy->fault, FAULT_FIELD,
                         GGUF_TOKENIZER "tokens[%" PRId64 "] is not UTF-8", id);
    if (text->size > 0)
        return true;
    char name[32];
    snprintf(name, sizeof name, "[EMPTY_%" PRId64 "]", id);
    text->data = arena_strdup(&legacy->arena, name);
    text->size = strlen(name);
    return text->data || fault_no_memory(legacy->fault);
}

static bool is_bracketed(struct byte_slice text)
{
    const char *bytes = text.data;
    return bytes[0] == '[' && bytes[text.size - 1] == ']';
}

/* A token of WordPiece as vocab.txt has it: "##" before what continues a word. Older converters
 * leave "[unused7]" as it is. */
static bool respell(struct legacy *legacy, int64_t type, struct byte_slice *text)
{
    const size_t space = sizeof SPACE - 1;
    if (type == SENTENCEPIECE_CONTROL)
        return true;
    if (text->size > space && memcmp(text->data, SPACE, space) == 0) {
        text->data = (const char *)text->data + space;
        text->size -= space;
        return true;
    }
    if (type != SENTENCEPIECE_NORMAL || is_bracketed(*text))
        return true;
    char *inner = arena_alloc(&legacy->arena, text->size + 2);
    if (!inner)
        return fault_no_memory(legacy->fault);
    memset(inner, '#', 2);
    memcpy(inner + 2, text->data, text->size);
    *text = (struct byte_slice){ inner, text->size + 2 };
    return true;
}

static bool add_token(const struct gguf_tokens *tokens, const struct sentencepiece_piece *piece,
                      int64_t id)
{
    struct legacy *legacy = tokens->legacy;
    const struct byte_slice text = piece->text;
    const int32_t other = vocabulary_find(&legacy->vocabulary, text.data, text.size);
    if (other != VOCABULARY_NONE)
        return fault_set(legacy->fault, FAULT_DUPLICATE,
                         GGUF_TOKENIZER "tokens has '%.*s' twice, at %d and %" PRId64,
                         text.size < SHOWN ? (int)text.size : SHOWN, (const char *)text.data, other,
                         id);
    return vocabulary_add(&legacy->vocabulary, text.data, text.size, id, legacy->fault);
}

/* The types and the scores have one element for each token, or are not there. */
static bool find_beside(const struct gguf_tokens *tokens, const char *key, enum gguf_type element,
                        int64_t count, const struct gguf_value **array)
{
    struct fault *fault = tokens->legacy->fault;
    if (!gguf_array_find(tokens->file, key, element, array, fault))
        return false;
    return !*array || (*array)->count == count
           || fault_set(fault, FAULT_FIELD,
                        "%s has %" PRId64 " elements; " GGUF_TOKENIZER "tokens has %" PRId64, key,
                        (*array)->count, count);
}

static bool read_type(const struct gguf_tokens *tokens, const struct gguf_value *types, int64_t id,
                      int64_t *type)
{
    *type = types ? integer_at(types, id) : SENTENCEPIECE_NORMAL;
    if (*type == 0) /* undefined */
        *type = SENTENCEPIECE_UNUSED;
    return (*type >= SENTENCEPIECE_NORMAL && *type <= SENTENCEPIECE_BYTE)
           || fault_set(tokens->legacy->fault, FAULT_OPTION,
                        GGUF_TOKENIZER "token_type[%" PRId64 "] is %" PRId64 "; expected 0 to %d",
                        id, *type, SENTENCEPIECE_BYTE);
}

static bool read_score(const struct gguf_tokens *tokens, const struct gguf_value *scores,
                       int64_t id, float *score)
{
    const struct gguf_value element = gguf_element(scores, id);
    double number = NAN;
    if (!gguf_number(&element, &number) || !isfinite((float)number))
        return fault_set(tokens->legacy->fault, FAULT_NONFINITE,
                         GGUF_TOKENIZER "scores[%" PRId64 "] is not a finite number", id);
    *score = (float)number;
    return true;
}

/* Reads token `id`, whose text follows `*bytes` bytes of others. */
static bool read_token(struct gguf_tokens *tokens, const struct gguf_value *const lists[3],
                       int64_t id, size_t *bytes)
{
    struct legacy *legacy = tokens->legacy;
    struct sentencepiece_piece *piece = &legacy->sentencepiece.pieces[id];
    if (!read_text(tokens, lists[0], id, &piece->text)
        || !read_type(tokens, lists[1], id, &piece->type)
        || (lists[2] && !read_score(tokens, lists[2], id, &piece->score))
        || (tokens->spelling == GGUF_PHANTOM_SPACE && !respell(legacy, piece->type, &piece->text)))
        return false;
    legacy->scores[id] = (double)piece->score;
    *bytes += piece->text.size;
    if (*bytes > TOKEN_BYTES_MAX)
        return fault_set(legacy->fault, FAULT_TOO_LARGE,
                         GGUF_TOKENIZER "tokens has more than %d bytes", TOKEN_BYTES_MAX);
    return add_token(tokens, piece, id);
}

/* Names of tokens that end a text. They are special whatever type a file gives them, as in
 * llama.cpp: older converters have left some of them as a user's or as text. */
static const char *const ENDS[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<turn|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    ("<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"),
};

enum { END_COUNT = sizeof ENDS / sizeof *ENDS };
_Static_assert((int)END_COUNT <= (int)TOKENIZER_ENDS_MAX, "they have room");

static bool is_end(struct byte_slice text)
{
    for (int i = 0; i < END_COUNT; i++)
        if (strlen(ENDS[i]) == text.size && memcmp(ENDS[i], text.data, text.size) == 0)
            return true;
    return false;
}

int tokenizer_ends(const struct tokenizer *tokenizer, int32_t ids[TOKENIZER_ENDS_MAX])
{
    int count = 0;
    const bool ends_messages = tokenizer && tokenizer_find(tokenizer, "<|return|>") >= 0
                               && tokenizer_find(tokenizer, "<|call|>") >= 0;
    for (int i = 0; i < END_COUNT && tokenizer; i++) {
        const int32_t id = tokenizer_find(tokenizer, ENDS[i]);
        if (id >= 0 && tokenizer_is_special(tokenizer, id)
            && !(ends_messages && strcmp(ENDS[i], "<|end|>") == 0))
            ids[count++] = id;
    }
    return count;
}

/* Control and unknown tokens are special; those that a user has defined are only found. */
static bool is_special(const struct sentencepiece_piece *piece)
{
    return piece->type == SENTENCEPIECE_CONTROL || piece->type == SENTENCEPIECE_UNKNOWN
           || is_end(piece->text);
}

static bool is_found(const struct sentencepiece_piece *piece)
{
    return piece->type == SENTENCEPIECE_USER_DEFINED || is_special(piece);
}

static bool add_found(struct legacy *legacy)
{
    const struct sentencepiece *model = &legacy->sentencepiece;
    int64_t count = 0;
    for (int64_t id = 0; id < model->piece_count; id++)
        count += is_found(&model->pieces[id]);
    if (count > ADDED_COUNT_MAX)
        return fault_set(legacy->fault, FAULT_TOO_LARGE,
                         GGUF_TOKENIZER "token_type has %" PRId64
                                        " tokens that are found in a text; expected at most %d",
                         count, ADDED_COUNT_MAX);
    legacy->added = calloc((size_t)count + 1, sizeof *legacy->added);
    if (!legacy->added)
        return fault_no_memory(legacy->fault);
    for (int64_t id = 0; id < model->piece_count; id++) {
        const struct sentencepiece_piece *piece = &model->pieces[id];
        if (!is_found(piece))
            continue;
        const struct byte_slice text = vocabulary_text(&legacy->vocabulary, id);
        if (text.size > ADDED_BYTES_MAX || memchr(text.data, 0, text.size))
            return fault_set(legacy->fault, FAULT_FIELD,
                             GGUF_TOKENIZER "tokens[%" PRId64
                                            "] has %zu bytes and the type %" PRId64
                                            "; expected at most %d, and none that is 0",
                             id, text.size, piece->type, ADDED_BYTES_MAX);
        legacy->added[legacy->added_count++] = (struct legacy_added){
            .text = text.data,
            .id = id,
            .special = is_special(piece),
        };
    }
    return true;
}

bool gguf_tokens_read(struct gguf_tokens *tokens)
{
    struct legacy *legacy = tokens->legacy;
    const struct gguf_value *lists[3];
    if (!gguf_array_find(tokens->file, GGUF_TOKENIZER "tokens", GGUF_STRING, &lists[0],
                         legacy->fault))
        return false;
    const int64_t count = lists[0] ? lists[0]->count : 0;
    if (count == 0 || count > VOCABULARY_ID_MAX)
        return fault_set(legacy->fault, FAULT_FIELD,
                         GGUF_TOKENIZER "tokens has %" PRId64 " elements; expected 1 to %d", count,
                         VOCABULARY_ID_MAX);
    if (!find_beside(tokens, GGUF_TOKENIZER "token_type", GGUF_I32, count, &lists[1])
        || !find_beside(tokens, GGUF_TOKENIZER "scores", GGUF_TYPE_COUNT, count, &lists[2]))
        return false;
    legacy->sentencepiece.pieces = calloc((size_t)count, sizeof *legacy->sentencepiece.pieces);
    legacy->scores = calloc((size_t)count, sizeof *legacy->scores);
    if (!legacy->sentencepiece.pieces || !legacy->scores)
        return fault_no_memory(legacy->fault);
    legacy->sentencepiece.piece_count = count;
    size_t bytes = 0;
    for (int64_t id = 0; id < count; id++)
        if (!read_token(tokens, lists, id, &bytes))
            return false;
    return add_found(legacy);
}

/* ------------------------------------------------------------------ merges -- */

/* The token of a part of a merge. Where tokens are text, converters write a token of U+2581 alone
 * that a user has defined with spaces. */
static int32_t find_part(const struct gguf_tokens *tokens, const char *text, size_t size)
{
    const struct vocabulary *vocabulary = &tokens->legacy->vocabulary;
    const int32_t id = vocabulary_find(vocabulary, text, size);
    const size_t space = sizeof SPACE - 1;
    char spaces[ADDED_BYTES_MAX];
    if (id != VOCABULARY_NONE || size % space != 0 || size / space > sizeof spaces)
        return id;
    for (size_t i = 0; i < size; i += space)
        if (memcmp(text + i, SPACE, space) != 0)
            return VOCABULARY_NONE;
    memset(spaces, ' ', size / space);
    return vocabulary_find(vocabulary, spaces, size / space);
}

static bool no_token(const struct gguf_tokens *tokens, int64_t rank, const char *text, size_t size)
{
    return fault_set(tokens->legacy->fault, FAULT_FIELD,
                     GGUF_TOKENIZER "merges[%" PRId64
                                    "] has '%.*s', which is not in " GGUF_TOKENIZER "tokens",
                     rank, size < SHOWN ? (int)size : SHOWN, text);
}

/* Reads "left right", with one space, which may begin the left part. */
static bool read_merge(const struct gguf_tokens *tokens, const struct gguf_value *array,
                       int64_t rank, struct text *joined, struct model_merge *merge)
{
    const struct byte_slice both = text_at(array, rank);
    const char *text = both.data,
               *space = both.size > 1 ? memchr(text + 1, ' ', both.size - 1) : NULL;
    const size_t left = space ? (size_t)(space - text) : 0;
    const size_t right = space ? both.size - left - 1 : 0;
    if (right == 0)
        return fault_set(tokens->legacy->fault, FAULT_FIELD,
                         GGUF_TOKENIZER "merges[%" PRId64
                                        "] is '%.*s'; expected two tokens with a space between",
                         rank, both.size < SHOWN ? (int)both.size : SHOWN, text);
    joined->used = 0;
    text_bytes(joined, text, left);
    text_bytes(joined, space + 1, right);
    if (!text_finish(joined, tokens->legacy->fault))
        return false;
    merge->left = find_part(tokens, text, left);
    merge->right = find_part(tokens, space + 1, right);
    merge->merged = find_part(tokens, joined->data, joined->used);
    if (merge->left == VOCABULARY_NONE)
        return no_token(tokens, rank, text, left);
    if (merge->right == VOCABULARY_NONE)
        return no_token(tokens, rank, space + 1, right);
    return merge->merged != VOCABULARY_NONE || no_token(tokens, rank, joined->data, joined->used);
}

bool gguf_merges_read(const struct gguf_tokens *tokens, struct model_merge **merges, int64_t *count)
{
    const struct gguf_value *array;
    struct fault *fault = tokens->legacy->fault;
    if (!gguf_array_find(tokens->file, GGUF_TOKENIZER "merges", GGUF_STRING, &array, fault))
        return false;
    if (!array)
        return fault_set(fault, FAULT_FIELD, GGUF_TOKENIZER "merges is missing");
    if (array->count > MERGE_COUNT_MAX)
        return fault_set(fault, FAULT_TOO_LARGE,
                         GGUF_TOKENIZER "merges has %" PRId64 " elements; expected at most %d",
                         array->count, MERGE_COUNT_MAX);
    *merges = calloc((size_t)array->count + 1, sizeof **merges);
    if (!*merges)
        return fault_no_memory(fault);
    struct text joined;
    text_init(&joined, SIZE_MAX);
    bool good = true;
    for (*count = 0; *count < array->count && good; ++*count)
        good = read_merge(tokens, array, *count, &joined, &(*merges)[*count]);
    text_free(&joined);
    return good;
}

/* ---------------------------------------------------------------- charsmap -- */

bool gguf_charsmap_read(const struct gguf_tokens *tokens, struct byte_slice *charsmap)
{
    static const char KEY[] = GGUF_TOKENIZER "precompiled_charsmap";
    struct fault *fault = tokens->legacy->fault;
    const struct gguf_value *array = gguf_find(tokens->file, KEY);
    *charsmap = (struct byte_slice){ NULL, 0 };
    if (!array)
        return true;
    if (array->type != GGUF_ARRAY
        || (array->element_type != GGUF_U8 && array->element_type != GGUF_I8))
        return fault_set(fault, FAULT_TYPE, "%s is %s; expected an array of u8", KEY,
                         gguf_type_name(array));
    if (array->count > CHARSMAP_BYTES_MAX)
        return fault_set(fault, FAULT_TOO_LARGE, "%s has %" PRId64 " bytes; expected at most %d",
                         KEY, array->count, CHARSMAP_BYTES_MAX);
    unsigned char *bytes = arena_alloc(&tokens->legacy->arena, (size_t)array->count + 1);
    if (!bytes)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < array->count; i++)
        bytes[i] = (unsigned char)integer_at(array, i);
    *charsmap = (struct byte_slice){ bytes, (size_t)array->count };
    return true;
}
