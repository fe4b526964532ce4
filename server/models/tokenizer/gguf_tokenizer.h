/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_tokenizer.h - the metadata of a GGUF file on their way to a tokenizer.
 *
 * A GGUF file keeps a tokenizer as lists: tokens, their types and scores, merges. They become a
 * legacy form (legacy.h): the class is a row by "tokenizer.ggml.model", the flags and the special
 * tokens are its config, and the long lists go to the model as they are (model_lists), without a
 * text between.
 *
 * Source: src/llama-vocab.cpp of https://github.com/ggml-org/llama.cpp, commit 00ad355e009e. */
#ifndef ATTND_GGUF_TOKENIZER_H
#define ATTND_GGUF_TOKENIZER_H

#include "formats/gguf.h"
#include "models/tokenizer/gguf_pre.h"
#include "models/tokenizer/legacy.h"

#define GGUF_TOKENIZER "tokenizer.ggml."

/* How the tokens of a file are written. */
enum gguf_spelling {
    GGUF_AS_IS,
    GGUF_PHANTOM_SPACE /* U+2581 before whole words; what continues a word has no "##" */
};

struct gguf_tokens {
    const struct gguf *file;
    struct legacy *legacy; /* its vocabulary, pieces, scores and added tokens are filled */
    enum gguf_spelling spelling;
};

/* Reads tokens, types and scores. */
bool gguf_tokens_read(struct gguf_tokens *tokens);

/* Reads the merges of the file, malloc'd, the caller's. */
bool gguf_merges_read(const struct gguf_tokens *tokens, struct model_merge **merges,
                      int64_t *count);

/* Reads the charsmap into the arena of the legacy form; empty: the file has none. */
bool gguf_charsmap_read(const struct gguf_tokens *tokens, struct byte_slice *charsmap);

/* The array of a key; NULL: the file has none. The fault is another type than `element`, of which
 * GGUF_TYPE_COUNT stands for any. */
bool gguf_array_find(const struct gguf *file, const char *key, enum gguf_type element,
                     const struct gguf_value **array, struct fault *fault);

#endif
