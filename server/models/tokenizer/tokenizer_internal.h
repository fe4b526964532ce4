/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_internal.h - what a tokenizer is made of, for the files that build one. */
#ifndef ATTND_TOKENIZER_INTERNAL_H
#define ATTND_TOKENIZER_INTERNAL_H

#include "models/tokenizer/pipeline.h"

struct added_tokens;

struct tokenizer {
    struct arena arena;
    const char *file;             /* that it was read from */
    struct vocabulary vocabulary; /* of the model and of the added tokens */
    int64_t vocabulary_end;       /* 1 + the largest id without the added tokens */
    struct added_tokens *added;   /* see added_tokens.h */
    struct step normalizer, pre_tokenizer, model, post_processor, decoder;
    struct regex **regexes;
    int64_t regex_count;
};

/* An empty tokenizer, which tokenizer_free() frees; NULL: no memory. */
struct tokenizer *tokenizer_new(void);

/* Builds the whole pipeline from the text of a tokenizer.json, which is not kept. */
bool tokenizer_read_json(struct tokenizer *tokenizer, const char *text, size_t size,
                         struct fault *fault);

/* The same from its tree. file names the file in messages, and must outlive the tokenizer. */
bool tokenizer_build(struct tokenizer *tokenizer, const char *file, const cJSON *root,
                     const struct json_document *document, struct fault *fault);

struct legacy;

/* The same from a legacy form, with the model's lists where lists is not NULL. */
bool tokenizer_build_legacy(struct tokenizer *tokenizer, struct legacy *legacy, const char *file,
                            struct model_lists *lists);

/* Puts the file's name before a message that does not have it. Returns false. */
bool tokenizer_name_file(struct fault *fault, const char *file);

enum { TOKENIZER_FILE_BYTES_MAX = 64 << 20 };

/* Reads a file of a folder. *bytes is malloc'd, the caller's, with a NUL byte behind its size; NULL
 * where the folder has no such file, which is no fault. The fault names the file: it is too large,
 * not a regular file, or cannot be read. */
bool tokenizer_file_read(const char *directory, const char *name, char **bytes, size_t *size,
                         struct fault *fault);

#endif
