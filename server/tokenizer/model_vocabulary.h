/* model_vocabulary.h - the vocabulary of a model's node in tokenizer.json. */
#ifndef ATTND_MODEL_VOCABULARY_H
#define ATTND_MODEL_VOCABULARY_H

#include "tokenizer/pipeline.h"
#include "tokenizer/trie.h"

/* Reads the node's "vocab", an object of tokens and their ids, into the build's vocabulary. `where`
 * is for messages: "model BPE". */
bool model_vocabulary_read(struct pipeline_build *build, const cJSON *node, const char *where);

/* Adds one token of a model, with a fault that says where. */
bool model_vocabulary_add(struct pipeline_build *build, const char *where, struct byte_slice text,
                          int64_t id);

/* Builds the trie of all tokens of the build's vocabulary; the values are their ids. Tokens of no
 * bytes are left out. */
bool model_vocabulary_trie(struct pipeline_build *build, struct trie *trie);

#endif
