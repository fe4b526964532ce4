/* pipeline.h - the kinds of steps of a pipeline, and how each is made from its node in
 * tokenizer.json.
 *
 * A step is a function and a state, which lies in the tokenizer's arena and never changes once it
 * is made. Per kind of step there is one list of the types that are known, a name and the function
 * that reads the node; a type that is not in the list is a fault that names it. */
#ifndef ATTND_PIPELINE_H
#define ATTND_PIPELINE_H

#include "text/json.h"
#include "tokenizer/pieces.h"
#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

/* ------------------------------------------------------------------ steps -- */

/* Changes the bytes of every piece that is not an added token. */
struct normalizer {
    bool (*normalize)(const void *state, struct pieces *pieces, struct fault *fault);
    const void *state;
};

/* Cuts every piece that is not an added token into smaller ones; may change bytes too. */
struct pre_tokenizer {
    bool (*pre_tokenize)(const void *state, struct pieces *pieces, struct fault *fault);
    const void *state;
};

/* A token of one piece: its id and the bytes of the piece that it stands for. */
struct model_token {
    int32_t id;
    uint32_t start, end;
};

/* What a model writes, of one text. */
struct model_output {
    struct model_token *tokens;
    int64_t count, capacity;
    struct arena *arena;
    struct work_limit *limit; /* of the text */
    void *scratch;            /* see model_output_scratch() */
    size_t scratch_size;
    void *memo; /* the model's own, NULL at first: what it keeps from piece to piece of one text */
    bool failed;
};

/* Appends a token; a lack of memory is remembered in output->failed. */
void model_output_add(struct model_output *output, int32_t id, uint32_t start, uint32_t end);

/* Memory of size bytes, aligned to 64, not cleared, valid until the next call; NULL: no memory. */
void *model_output_scratch(struct model_output *output, size_t size);

/* Makes tokens of a piece of text. The vocabulary holds the tokens of the model, and of the file's
 * added tokens those that the model's vocabulary does not have. */
struct model {
    const char *kind; /* "BPE" */
    bool (*encode)(const void *state, const char *piece, int64_t size, struct model_output *output,
                   struct fault *fault);
    const void *state;
};

struct added_tokens;

/* The encodings of a text and its pair: one list for each at first; a template makes of them one
 * list for each part of the template. In the arena. */
struct encodings {
    struct token_list *lists;
    int64_t count;
    struct arena *arena;
    const struct vocabulary *vocabulary;
    const struct added_tokens *added; /* NULL: there are none */
    const struct byte_slice *texts;   /* by sequence; NULL where added is NULL */
    struct work_limit *limit;         /* of both texts */
};

/* special: add the template's tokens. Where count is 2 and the template has no pair, the fault is
 * of "/pair". */
struct post_processor {
    bool (*process)(const void *state, struct encodings *encodings, bool special,
                    struct fault *fault);
    const void *state;
};

/* The texts of tokens on their way to one text; a decoder replaces or joins them. Each is UTF-8. */
struct decoder_texts {
    struct byte_slice *texts;
    int64_t count;
    struct arena *arena;
    struct work_limit *limit;
};

struct decoder {
    bool (*decode)(const void *state, struct decoder_texts *texts, struct fault *fault);
    const void *state;
};

/* ---------------------------------------------------------------- building -- */

/* What the readers of nodes share. */
struct pipeline_build {
    const char *file; /* "tokenizer.json", for messages */
    const struct json_document *document;
    struct arena *arena; /* lives as long as the tokenizer */
    struct regex **regexes;
    int64_t regex_count, regex_capacity; /* freed with the tokenizer */
    struct vocabulary *vocabulary;       /* the model's reader fills it */
    struct fault *fault;
};

/* Compiles a pattern that the tokenizer owns; NULL: the fault is set. */
const struct regex *pipeline_regex(struct pipeline_build *build, const char *pattern, size_t size);

/* Memory in the build's arena, cleared; NULL: the fault is set. */
void *pipeline_alloc(struct pipeline_build *build, size_t count, size_t size);
char *pipeline_strdup(struct pipeline_build *build, const char *text);

/* Sets the fault and returns false; the message begins with the file's name and where, the kind of
 * step ("tokenizer.json: normalizer Replace: ..."). */
bool pipeline_fail(struct pipeline_build *build, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fields of a node. `where` is as in pipeline_fail(). An absent field or null leaves *value as it
 * was and is fine unless `required` is true; another type is a fault. Strings lie in the document,
 * NUL-terminated; one with U+0000 is a fault. */
bool pipeline_bool(struct pipeline_build *build, const cJSON *node, const char *where,
                   const char *key, bool required, bool *value);
bool pipeline_string(struct pipeline_build *build, const cJSON *node, const char *where,
                     const char *key, bool required, const char **value);
bool pipeline_integer(struct pipeline_build *build, const cJSON *node, const char *where,
                      const char *key, bool required, int64_t min, int64_t max, int64_t *value);

/* A required string of one character. */
bool pipeline_character(struct pipeline_build *build, const cJSON *node, const char *where,
                        const char *key, uint32_t *code);

/* The array `key` of a Sequence; NULL: the fault is set. */
const cJSON *pipeline_array(struct pipeline_build *build, const cJSON *node, const char *where,
                            const char *key);

/* A field {"String": "..."} or {"Regex": "..."}: exactly one of *literal and *regex is set. */
bool pipeline_pattern(struct pipeline_build *build, const cJSON *node, const char *where,
                      const char *key, const char **literal, const struct regex **regex);

/* A type of a step: its name in the file, and the function that makes a step of its node. `step`
 * is the struct of the kind. */
struct pipeline_type {
    const char *name;
    bool (*read)(struct pipeline_build *build, const cJSON *node, void *step);
};

/* Reads a node by the function of its "type", which is `name` where the node has none; NULL: it
 * must have one. kind is for messages: "normalizer". */
bool pipeline_read(struct pipeline_build *build, const cJSON *node, const char *kind,
                   const char *name, const struct pipeline_type *types, size_t type_count,
                   void *step);

/* Each reads a node of its kind; a file of each kind has the list of its types. A node that is
 * absent or null is not given to them. */
bool normalizer_read(struct pipeline_build *build, const cJSON *node, struct normalizer *step);
bool pre_tokenizer_read(struct pipeline_build *build, const cJSON *node,
                        struct pre_tokenizer *step);
bool model_read(struct pipeline_build *build, const cJSON *node, struct model *step);
bool post_processor_read(struct pipeline_build *build, const cJSON *node,
                         struct post_processor *step);
bool decoder_read(struct pipeline_build *build, const cJSON *node, struct decoder *step);

/* The types of models. An older file has no "type"; model_read() then tells it by its fields. */
bool bpe_read(struct pipeline_build *build, const cJSON *node, void *step);
bool wordpiece_read(struct pipeline_build *build, const cJSON *node, void *step);
bool unigram_read(struct pipeline_build *build, const cJSON *node, void *step);
bool wordlevel_read(struct pipeline_build *build, const cJSON *node, void *step);

#endif
