/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_pre.h - what "tokenizer.ggml.pre" of a GGUF file stands for.
 *
 * A GGUF file has the tokens and the merges of a byte-level BPE, but of its pre-tokenizer only a
 * name, which the converter of llama.cpp gives to the tokenizer.json it knows. Here each name is a
 * row: the steps of that tokenizer.json.
 *
 * Source: src/llama-vocab.cpp and conversion of https://github.com/ggml-org/llama.cpp, commit
 * 00ad355e009e; where it quotes the pattern of the tokenizer.json beside its own, the former. */
#ifndef ATTND_GGUF_PRE_H
#define ATTND_GGUF_PRE_H

#include "json/text.h"

enum { GGUF_PRE_STEPS_MAX = 7 };

/* How the pieces of a text are found. */
struct gguf_pre {
    const char *names;      /* of tokenizer.ggml.pre, separated by spaces */
    const char *normalizer; /* its type; NULL: none */

    /* In order. One that begins with "#" is a step by its name, see gguf_pre.c; any other is a
     * pattern, whose matches are pieces as what lies between them is. NULL ends a shorter list. */
    const char *steps[GGUF_PRE_STEPS_MAX];

    bool ignores_merges;   /* a piece that is a token is that token */
    bool adds_bos;         /* where the file does not say */
    bool adds_sep;         /* between a text and its pair, as RoBERTa does */
    bool mask_takes_space; /* that is before it */
    bool is_text;          /* tokens are text with U+2581 for spaces, not bytes */
};

/* NULL: the name is not known. */
const struct gguf_pre *gguf_pre_find(const char *name, size_t size);

/* Write the two steps as nodes of a tokenizer.json. */
void gguf_pre_write_normalizer(const struct gguf_pre *pre, struct text *text);
void gguf_pre_write(const struct gguf_pre *pre, struct text *text);

#endif
