/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_models.h - small GGUF files with random numbers, one for each architecture that has a name
 * in ggml's files, for comparing what they compute. The numbers of a tensor follow from its name,
 * so that a file is the same everywhere and need not be kept. */
#ifndef GGUF_MODELS_H
#define GGUF_MODELS_H

#include <stdbool.h>
#include <stdint.h>

struct gguf_write;

/* An encoder has hidden states and no logits. */
enum gguf_model_kind { GGUF_DECODER, GGUF_ENCODER, GGUF_ENCODER_DECODER };

struct gguf_model {
    const char *name;         /* of the model: "llama", "llama-experts" */
    const char *architecture; /* its general.architecture */
    const char *pairs;        /* "KEY TYPE VALUE, ..."; ".key" is one of the architecture's */
    const char *tensors;      /* "blk.#.attn_q.weight 64x64, ..."; # is made for each block */
    enum gguf_model_kind kind;
    int blocks;
};

enum { GGUF_MODEL_WORDS = 48, GGUF_MODEL_LENGTH = 12, GGUF_MODEL_DECODED = 4 };

/* The tokens that a model is asked about, and those of the decoder behind an encoder. */
extern const int32_t gguf_model_tokens[GGUF_MODEL_LENGTH];
extern const int32_t gguf_model_decoded[GGUF_MODEL_DECODED];

/* Model i; NULL behind the last. */
const struct gguf_model *gguf_model_at(int i);

/* The same of those models some of whose layers are no attention, which are the last of them. */
const struct gguf_model *gguf_model_hybrid(int i);

/* The model of this name; ends the test if there is none. */
const struct gguf_model *gguf_model_named(const char *name);

/* How matrices lie in the file; norms, biases, and rows of no whole blocks are always F32. */
struct gguf_model_form {
    const char *type; /* "F32" or another */
    bool is_widened;  /* F32, with the numbers that the type would leave of them */
};

void gguf_model_write(const struct gguf_model *model, struct gguf_model_form form,
                      const char *path);

/* The same to be written by the caller, who may add to it first, and frees it. */
struct gguf_write *gguf_model_make(const struct gguf_model *model, struct gguf_model_form form);

#endif
