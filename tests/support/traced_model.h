/* SPDX-License-Identifier: Apache-2.0 */
/* traced_model.h - two small checkpoints for tests of POST /v1/trace that ask for no numbers:
 * "bert", whose head predicts masked tokens, and "llama", which takes sequences of any length. */
#ifndef TRACED_MODEL_H
#define TRACED_MODEL_H

enum {
    TRACED_LAYERS = 3,
    TRACED_HEADS = 4,
    TRACED_WIDTH = 16,
    TRACED_TOKENS = 40,   /* of the vocabulary */
    TRACED_POSITIONS = 64 /* of bert */
};

/* Writes both into a directory of models. */
void traced_model_save(const char *directory);

/* Writes a list of so many token ids, which follow from first; returns the text. */
const char *traced_model_tokens(char *text, unsigned long size, int first, int count);

#endif
