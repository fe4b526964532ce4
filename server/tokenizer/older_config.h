/* older_config.h - what the small files beside a vocabulary say of its tokenizer:
 * tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json.
 *
 * Source: the reading of these files in transformers, tokenization_utils_base.py. */
#ifndef ATTND_OLDER_CONFIG_H
#define ATTND_OLDER_CONFIG_H

#include "text/json.h"

/* Each document is empty where the folder does not have its file. */
struct older_config {
    struct json_document tokenizer; /* tokenizer_config.json */
    struct json_document special;   /* special_tokens_map.json */
    struct json_document added;     /* added_tokens.json */
    struct json_document model;     /* config.json */
};

/* The fault names the file. The caller frees the config, also where this returned false. */
bool older_config_read(struct older_config *config, const char *directory, struct fault *fault);
void older_config_free(struct older_config *config);

/* A field of tokenizer_config.json; NULL: it is not there. */
const cJSON *older_config_field(const struct older_config *config, const char *key);

/* A special token by its role ("cls_token"): a string, or an object with its "content"; NULL: no
 * file has it. Where tokenizer_config.json lists the tokens that were added to the vocabulary it is
 * the newer file; else special_tokens_map.json counts before it. */
const char *older_config_token(const struct older_config *config, const char *role);

/* The text of a node that is a token: a string, or an object with "content". */
const char *older_config_text(const cJSON *node);

/* A string of config.json; NULL: there is none. */
const char *older_config_model(const struct older_config *config, const char *key);

#endif
