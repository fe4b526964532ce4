/* SPDX-License-Identifier: Apache-2.0 */
/* legacy.h - how the forms of tokenizer files before tokenizer.json become a pipeline.
 *
 * Before tokenizer.json a checkpoint had a vocabulary alone (vocab.txt; vocab.json and merges.txt;
 * tokenizer.model), and the code of its class in transformers knew the rest. Here each class is a
 * row of legacy_classes.c: the tokenizer.json that transformers makes of its files, as text in
 * which names stand for what comes from the files. legacy_write.c writes the whole text, which is
 * then read as any tokenizer.json. So there is one engine, and a class is data.
 *
 * Source: convert_slow_tokenizer.py of https://github.com/huggingface/transformers. */
#ifndef ATTND_LEGACY_H
#define ATTND_LEGACY_H

#include "models/tokenizer/pipeline.h"
#include "json/json.h"
#include "json/text.h"

/* ------------------------------------------------------------------ config -- */

/* What the small files beside a vocabulary say of its tokenizer. Each document is empty where the
 * folder does not have its file.
 *
 * Source: the reading of these files in transformers, tokenization_utils_base.py. */
struct legacy_config {
    struct json_document tokenizer; /* tokenizer_config.json */
    struct json_document special;   /* special_tokens_map.json */
    struct json_document added;     /* added_tokens.json */
    struct json_document model;     /* config.json */
};

/* A field of tokenizer_config.json; NULL: it is not there. */
const cJSON *legacy_config_field(const struct legacy_config *config, const char *key);

/* A special token by its role ("cls_token"): a string, or an object with its "content"; NULL: no
 * file has it. Where tokenizer_config.json lists the tokens that were added to the vocabulary it is
 * the newer file; else special_tokens_map.json counts before it. */
const char *legacy_config_token(const struct legacy_config *config, const char *role);

/* ----------------------------------------------------------------- classes -- */

/* What a class of transformers does with the file of a vocabulary. Lists are separated by spaces.
 */
struct legacy_class {
    const char *file;          /* the vocabulary's: "vocab.txt" */
    const char *names;         /* tokenizer_class of tokenizer_config.json, without "Fast" */
    const char *model_types;   /* of config.json, for a folder that names no class */
    const char *defaults;      /* fields that tokenizer_config.json leaves out: "sep_token=[SEP]" */
    const char *single, *pair; /* templates: see legacy_write.c */
    const char *text;          /* of the tokenizer.json; @names and `: see legacy_write.c */

    /* Of tokenizer.model: the ids of transformers are head, the file's pieces without the first
     * `skipped`, and tail. A class whose head is NULL has the file's ids. */
    const char *head, *tail;
    int64_t skipped;
    const char *normalizers;   /* that come before the file's own: JSON, each with a comma behind */
    bool lowers_number_commas; /* pieces like "7," get 100 less */
    const char *refused;       /* a flag that none of the steps says; NULL: none */
    bool numbers_missing;      /* a special token that no file has an id for gets the next one */
};

/* The class of a folder whose vocabulary is in `file`; NULL: the fault names the class that is not
 * known. */
const struct legacy_class *legacy_class_find(const char *file, const struct legacy_config *config,
                                             struct fault *fault);

/* The value of a key in a list like "a=1 b=2". Returns false where it is not there; else copies it
 * to out, of size bytes. */
bool legacy_list_value(const char *list, const char *key, char *out, size_t size);

/* The next word of a list; NULL: there is none. *list moves on; *size is the word's. */
const char *legacy_list_next(const char **list, size_t *size);

/* ----------------------------------------------------------- SentencePiece -- */

enum sentencepiece_type {
    SENTENCEPIECE_NORMAL = 1,
    SENTENCEPIECE_UNKNOWN,
    SENTENCEPIECE_CONTROL,
    SENTENCEPIECE_USER_DEFINED,
    SENTENCEPIECE_UNUSED,
    SENTENCEPIECE_BYTE
};

enum sentencepiece_model { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE = 2 };

struct sentencepiece_piece {
    struct byte_slice text; /* UTF-8, in the file; not empty */
    float score;            /* finite */
    int64_t type;           /* enum sentencepiece_type */
};

/* What a tokenizer.model says. The texts lie in the bytes of the file.
 *
 * Source: sentencepiece_model.proto of https://github.com/google/sentencepiece; the numbers of the
 * fields and the defaults are its own. */
struct sentencepiece {
    struct sentencepiece_piece *pieces; /* malloc'd; their index is their id */
    int64_t piece_count, piece_capacity;
    int64_t model; /* enum sentencepiece_model */
    int64_t unknown_id;
    bool byte_fallback;
    bool whitespace_is_suffix, splits_at_whitespace;
    struct byte_slice charsmap; /* precompiled; empty: characters stay as they are */
    bool adds_prefix, removes_extra_whitespaces, escapes_whitespaces;
};

/* --------------------------------------------------------------- tokenizers -- */

/* A token that is found in a text before the model sees it. */
struct legacy_added {
    const char *text; /* in the config's documents, or in the arena */
    int64_t id;
    bool special, lstrip, rstrip, single_word, normalized;
};

/* A folder's tokenizer on its way to a tokenizer.json. */
struct legacy {
    const struct legacy_class *class;
    struct legacy_config config;
    char *vocabulary_file, *merges_file; /* malloc'd; NULL: there is none */
    size_t vocabulary_size, merges_size;
    struct sentencepiece sentencepiece; /* pieces are malloc'd */
    struct vocabulary vocabulary;       /* the model's tokens */
    const char **merges;                /* of merges.txt: "left right"; in its file */
    int64_t merge_count, merge_capacity;
    double *scores; /* of Unigram, by id; malloc'd */
    int64_t unknown_id;
    struct legacy_added *added; /* malloc'd, by id */
    int64_t added_count, added_capacity;
    struct vocabulary added_texts; /* the index in `added` of each text */
    const struct gguf_pre *pre;    /* of a GGUF file, see gguf_pre.h; else NULL */
    struct arena arena;
    struct fault *fault;
};

void legacy_free(struct legacy *legacy);

/* Reads the vocabulary's file, which is in legacy->vocabulary_file. */
bool legacy_read_lines(struct legacy *legacy);         /* vocab.txt */
bool legacy_read_pairs(struct legacy *legacy);         /* vocab.json, and merges.txt */
bool legacy_read_sentencepiece(struct legacy *legacy); /* tokenizer.model */

/* Collects the added tokens. */
bool legacy_read_added(struct legacy *legacy);

/* The merges of a BPE of SentencePiece, whose file has scores only: every way to make a piece of
 * two others, by the piece's score, malloc'd. NULL: the fault is set. */
struct model_merge *legacy_sentencepiece_merges(struct legacy *legacy, int64_t *count);

/* A special token by its role: what the config says, else the class's default, copied to the
 * arena; NULL: there is none. */
const char *legacy_token(struct legacy *legacy, const char *role);

/* A field that is true or false: what the config says, else the class's default, else false. */
bool legacy_flag(const struct legacy *legacy, const char *key);

/* The id of a token of the vocabulary or an added one; -1: there is none. */
int64_t legacy_id(const struct legacy *legacy, const char *token);

/* Writes the tokenizer.json. On false the fault is set. */
bool legacy_write(struct legacy *legacy, struct text *text);

#endif
