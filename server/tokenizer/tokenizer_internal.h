/* tokenizer_internal.h - what a tokenizer is made of, for the files that build one. */
#ifndef ATTND_TOKENIZER_INTERNAL_H
#define ATTND_TOKENIZER_INTERNAL_H

#include "tokenizer/pipeline.h"

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

/* Reads the older forms from a folder: vocab.txt; vocab.json and merges.txt; tokenizer.model. Where
 * the folder has none of them, returns true and the tokenizer has no model. */
bool tokenizer_read_older(struct tokenizer *tokenizer, const char *directory, struct fault *fault);

#endif
