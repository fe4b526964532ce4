/* older.h - how the older forms of tokenizer files become a pipeline.
 *
 * Before tokenizer.json a checkpoint had a vocabulary alone (vocab.txt; vocab.json and merges.txt;
 * tokenizer.model), and the code of its class in transformers knew the rest. Here each class is a
 * row of older_classes.c: the tokenizer.json that transformers makes of its files, as text in which
 * names stand for what comes from the files. older_fill.c writes the whole text, which is then read
 * as any tokenizer.json. So there is one engine, and a class is data.
 *
 * Source: convert_slow_tokenizer.py of https://github.com/huggingface/transformers. */
#ifndef ATTND_OLDER_H
#define ATTND_OLDER_H

#include "text/text.h"
#include "tokenizer/older_config.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/vocabulary.h"

/* What a class of transformers does with the file of a vocabulary. Lists are separated by spaces.
 */
struct older_class {
    const char *file;          /* the vocabulary's: "vocab.txt" */
    const char *names;         /* tokenizer_class of tokenizer_config.json, without "Fast" */
    const char *model_types;   /* of config.json, for a folder that names no class */
    const char *defaults;      /* fields that tokenizer_config.json leaves out: "sep_token=[SEP]" */
    const char *single, *pair; /* templates: see older_template.c */
    const char *text;          /* of the tokenizer.json; @names: see older_fill.c */

    /* Of tokenizer.model: the ids of transformers are head, the file's pieces without the first
     * `skipped`, and tail. A class whose head is NULL has the file's ids. */
    const char *head, *tail;
    int64_t skipped;
    const char *normalizers;   /* that come before the file's own: JSON, each with a comma behind */
    bool lowers_number_commas; /* pieces like "7," get 100 less */
};

/* The class of a folder whose vocabulary is in `file`; NULL: the fault names the class that is not
 * known. */
const struct older_class *older_class_find(const char *file, const struct older_config *config,
                                           struct fault *fault);

/* The value of a key in a list like "a=1 b=2". Returns false where it is not there; else copies it
 * to out, of size bytes. */
bool older_list_value(const char *list, const char *key, char *out, size_t size);

/* The next word of a list; NULL: there is none. *list moves on; *size is the word's. */
const char *older_list_next(const char **list, size_t *size);

/* A token that is found in a text before the model sees it. */
struct older_added {
    const char *text; /* in the config's documents, or in the arena */
    int64_t id;
    bool special, lstrip, rstrip, single_word, normalized;
};

struct older_merge {
    int32_t piece, left, right; /* ids */
};

/* A folder's tokenizer on its way to a tokenizer.json. */
struct older {
    const struct older_class *class;
    struct older_config config;
    char *vocabulary_file, *merges_file; /* malloc'd; NULL: there is none */
    size_t vocabulary_size, merges_size;
    struct sentencepiece sentencepiece;
    struct vocabulary vocabulary; /* the model's tokens */
    const char **merges;          /* of merges.txt: "left right"; in its file */
    int64_t merge_count, merge_capacity;
    double *scores; /* of Unigram, by id; malloc'd */
    int64_t unknown_id;
    struct older_added *added; /* malloc'd, by id */
    int64_t added_count, added_capacity;
    struct vocabulary added_texts; /* the index in `added` of each text */
    struct arena arena;
    struct fault *fault;
};

void older_free(struct older *older);

/* Reads the vocabulary's file, which is in older->vocabulary_file. */
bool older_read_lines(struct older *older);         /* vocab.txt */
bool older_read_pairs(struct older *older);         /* vocab.json, and merges.txt */
bool older_read_sentencepiece(struct older *older); /* tokenizer.model */

/* Collects the added tokens. */
bool older_read_added(struct older *older);

/* The merges of a BPE of SentencePiece, whose file has scores only: every way to make a piece of
 * two others, by the piece's score, malloc'd. NULL: the fault is set. */
struct older_merge *older_sentencepiece_merges(struct older *older, int64_t *count);

/* A special token by its role: what the config says, else the class's default, copied to the
 * arena; NULL: there is none. */
const char *older_token(struct older *older, const char *role);

/* A field that is true or false: what the config says, else the class's default, else false. */
bool older_flag(const struct older *older, const char *key);

/* The id of a token of the vocabulary or an added one; -1: there is none. */
int64_t older_id(const struct older *older, const char *token);

/* Writes the tokenizer.json. On false the fault is set. */
bool older_fill(struct older *older, struct text *text);

/* Parts of it. */
void older_write_string(struct text *text, const char *bytes, size_t size); /* JSON, quoted */
bool older_write_template(struct older *older, struct text *text);
bool older_write_sentencepiece(struct older *older, const char *part, struct text *text);

#endif
