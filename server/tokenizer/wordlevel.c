/* wordlevel.c - the model WordLevel: every piece is one token, or the unknown one.
 *
 * Source: models/wordlevel of Hugging Face tokenizers. */
#include "tokenizer/model_vocabulary.h"

#include <string.h>

#define WHERE "model WordLevel"

struct wordlevel {
    struct trie trie; /* of the model's own tokens: not the added ones */
    int32_t unknown;  /* -1: the vocabulary has none */
    const char *unknown_token;
};

static bool encode(const void *state, const char *piece, int64_t size, struct model_output *output,
                   struct fault *fault)
{
    const struct wordlevel *wordlevel = state;
    const int32_t found = trie_find(&wordlevel->trie, piece, (size_t)size);
    const int32_t id = found >= 0 ? found : wordlevel->unknown;
    if (id < 0)
        return fault_set(fault, FAULT_FIELD,
                         "the text has a word that is no token, and the tokenizer's unk_token %s "
                         "is not in its vocabulary",
                         wordlevel->unknown_token);
    model_output_add(output, id, 0, (uint32_t)size);
    return true;
}

bool wordlevel_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    struct wordlevel *wordlevel = pipeline_alloc(build, 1, sizeof *wordlevel);
    const char *unknown_token = NULL;
    if (!wordlevel || !pipeline_string(build, node, WHERE, "unk_token", true, &unknown_token)
        || !model_vocabulary_read(build, node, WHERE)
        || !model_vocabulary_trie(build, &wordlevel->trie))
        return false;
    wordlevel->unknown = vocabulary_find(build->vocabulary, unknown_token, strlen(unknown_token));
    wordlevel->unknown_token = pipeline_strdup(build, unknown_token);
    *(struct model *)step = (struct model){ "WordLevel", encode, wordlevel };
    return wordlevel->unknown_token != NULL;
}
