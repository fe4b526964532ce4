/* wordpiece.c - the model WordPiece: the longest token that a word begins with, then the longest
 * that the rest begins with, and so on.
 *
 * Tokens inside a word have a prefix ("##") in the vocabulary. A word is one unknown token as a
 * whole where any part of it is in no token, or where it has too many characters. The walk in a
 * trie finds the longest token in one pass; tokens inside words begin at the node of the prefix.
 *
 * Source: models/wordpiece of Hugging Face tokenizers; Schuster, Nakajima, "Japanese and Korean
 * voice search", 2012. */
#include "tokenizer/model_vocabulary.h"
#include "tokenizer/unicode.h"

#include <string.h>

#define WHERE "model WordPiece"

struct wordpiece {
    struct trie trie;
    int32_t inner;   /* the node of the prefix; TRIE_NONE: no token has it */
    int32_t unknown; /* the id of the unknown token; -1: the vocabulary has none */
    const char *unknown_token;
    int64_t characters_max;
};

/* The longest token below the node that text begins with; its end is 0 where there is none. */
static struct model_token longest_token(const struct wordpiece *wordpiece, int32_t node,
                                        const char *text, int64_t size, struct work_limit *limit)
{
    struct model_token longest = { .id = -1 };
    int64_t i = 0;
    for (; i < size && node != TRIE_NONE; i++) {
        node = trie_step(&wordpiece->trie, node, (unsigned char)text[i]);
        if (node != TRIE_NONE && wordpiece->trie.nodes[node].value >= 0)
            longest = (struct model_token){ .id = wordpiece->trie.nodes[node].value,
                                            .end = (uint32_t)(i + 1) };
    }
    work_limit_spend(limit, i);
    return longest;
}

static bool add_unknown(const struct wordpiece *wordpiece, int64_t size,
                        struct model_output *output, struct fault *fault)
{
    if (wordpiece->unknown < 0)
        return fault_set(fault, FAULT_FIELD,
                         "the text has a word that is in no token, and the tokenizer's unk_token "
                         "%s is not in its vocabulary",
                         wordpiece->unknown_token);
    model_output_add(output, wordpiece->unknown, 0, (uint32_t)size);
    return true;
}

static bool encode(const void *state, const char *piece, int64_t size, struct model_output *output,
                   struct fault *fault)
{
    const struct wordpiece *wordpiece = state;
    if (size > wordpiece->characters_max
        && unicode_count(piece, (size_t)size) > wordpiece->characters_max)
        return add_unknown(wordpiece, size, output, fault);
    const int64_t first = output->count;
    for (int64_t at = 0; at < size;) {
        const struct model_token token = longest_token(
            wordpiece, at > 0 ? wordpiece->inner : TRIE_ROOT, piece + at, size - at, output->limit);
        if (output->limit->is_stopped)
            return work_limit_fault(fault);
        if (token.end == 0) {
            output->count = first;
            return add_unknown(wordpiece, size, output, fault);
        }
        model_output_add(output, token.id, (uint32_t)at, (uint32_t)(at + token.end));
        if (output->failed)
            return true;
        at += token.end;
    }
    return true;
}

bool wordpiece_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    struct wordpiece *wordpiece = pipeline_alloc(build, 1, sizeof *wordpiece);
    if (!wordpiece)
        return false;
    const char *prefix = NULL, *unknown_token = NULL;
    if (!pipeline_string(build, node, WHERE, "continuing_subword_prefix", true, &prefix)
        || !pipeline_string(build, node, WHERE, "unk_token", true, &unknown_token)
        || !pipeline_integer(build, node, WHERE, "max_input_chars_per_word", true, 0, INT32_MAX,
                             &wordpiece->characters_max)
        || !model_vocabulary_read(build, node, WHERE)
        || !model_vocabulary_trie(build, &wordpiece->trie))
        return false;
    wordpiece->inner = trie_walk(&wordpiece->trie, TRIE_ROOT, prefix, strlen(prefix));
    wordpiece->unknown = vocabulary_find(build->vocabulary, unknown_token, strlen(unknown_token));
    wordpiece->unknown_token = pipeline_strdup(build, unknown_token);
    *(struct model *)step = (struct model){ "WordPiece", encode, wordpiece };
    return wordpiece->unknown_token != NULL;
}
