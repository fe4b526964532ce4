/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h - the steps of a pipeline, and how each is made from its node in tokenizer.json.
 *
 * A step is a function and a state, which lies in the tokenizer's arena and never changes once it
 * is made. Per kind of step (normalizer, pre-tokenizer, model, post-processor, decoder) one table
 * has a row for each type that is known: its name, its function, and the fields of its node. A type
 * that is not in the table is a fault that names it. */
#ifndef ATTND_PIPELINE_H
#define ATTND_PIPELINE_H

#include "models/tokenizer/pieces.h"
#include "models/tokenizer/regex.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/vocabulary.h"
#include "json/json.h"

/* ------------------------------------------------------------------ steps -- */

struct step_type;

struct step {
    const struct step_type *type; /* its row; NULL: there is no step */
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

struct added_tokens;

/* The encodings of a text and its pair: one list for each at first; a template makes of them one
 * list for each part of the template. In the arena. */
struct encodings {
    struct token_list *lists;
    int64_t count;
    bool special; /* add the template's tokens */
    struct arena *arena;
    const struct vocabulary *vocabulary;
    const struct added_tokens *added; /* NULL: there are none */
    const struct byte_slice *texts;   /* by sequence; NULL where added is NULL */
    struct work_limit *limit;         /* of both texts */
};

/* The texts of tokens on their way to one text. Each is UTF-8. */
struct decoder_texts {
    struct byte_slice *texts;
    int64_t count;
    struct arena *arena;
    struct work_limit *limit;
};

/* What a decoder makes of text i of several; .data is NULL where there is no memory, or the request
 * is over. */
typedef struct byte_slice decoder_change(const void *state, struct byte_slice text, int64_t i,
                                         const struct decoder_texts *texts);

/* ------------------------------------------------------------------ lists -- */

/* A merge of BPE: the tokens of a pair, and the one that they become. */
struct model_merge {
    int32_t left, right, merged;
};

/* What is long of a model, where its node does not have it. */
struct model_lists {
    struct vocabulary *vocabulary;    /* its tokens, which the model's reader takes away */
    const double *scores;             /* of Unigram, by id; finite */
    double lowest_score;              /* of those that text can become */
    const struct model_merge *merges; /* of BPE, by rank; no token is empty */
    int64_t merge_count;
};

/* ----------------------------------------------------------------- fields -- */

/* What the readers of nodes share. */
struct pipeline_build {
    const char *file; /* "tokenizer.json", for messages */
    const struct json_document *document;
    struct arena *arena; /* lives as long as the tokenizer */
    struct regex **regexes;
    int64_t regex_count, regex_capacity; /* freed with the tokenizer */
    struct vocabulary *vocabulary;       /* the model's reader fills it */
    struct model_lists *lists;           /* NULL: the model's node has all */
    struct fault *fault;
};

enum step_field_kind {
    STEP_BOOL,      /* bool */
    STEP_INTEGER,   /* int64_t, from least to most */
    STEP_STRING,    /* struct byte_slice in the arena, with a NUL byte behind it and none in it */
    STEP_CHARACTER, /* the same, of one character */
    STEP_CHOICE,    /* int: an index of names */
    STEP_PATTERN,   /* struct step_pattern */
    STEP_MATCHER,   /* the same; an empty text is the expression that matches between all
                       characters, as the empty text does */
    STEP_TOKEN,     /* int32_t, the id in ["[SEP]", 102] */
    STEP_STEPS      /* struct step_list: steps of the kind whose node this is */
};

/* A field of a node, and its place in the state. */
struct step_field {
    const char *name;
    enum step_field_kind kind;
    size_t offset;            /* in the state */
    bool is_optional;         /* absent or null leaves the state as it was; else that is a fault */
    int64_t least, most;      /* of STEP_INTEGER */
    const char *const *names; /* of STEP_CHOICE; NULL ends the list */
};

/* A field {"String": "..."} or {"Regex": "..."}: regex is NULL, or literal.data is. */
struct step_pattern {
    struct byte_slice literal;
    const struct regex *regex;
};

struct step_list {
    struct step *steps;
    int64_t count;
};

/* A row of a kind's table. One of the functions is there, by the kind. */
struct step_type {
    const char *name; /* the node's "type" */

    /* A normalizer changes the bytes of every piece that is not an added token. A pre-tokenizer
     * cuts each into smaller ones, and may change bytes too. The first is given all pieces; the
     * others are those of pieces_rewrite() and pieces_split(), with the test of the former or NULL.
     */
    bool (*pieces)(const void *state, struct pieces *pieces, struct fault *fault);
    pieces_change *rewrite, *split;
    pieces_test *changes;

    /* A model makes tokens of a piece of text. The vocabulary holds the tokens of the model, and of
     * the file's added tokens those that the model's vocabulary does not have. */
    bool (*model)(const void *state, const char *piece, int64_t size, struct model_output *output,
                  struct fault *fault);

    /* A post-processor. Where there are two encodings and its template has no pair, the fault is of
     * "/pair". */
    bool (*encodings)(const void *state, struct encodings *encodings, struct fault *fault);

    /* A decoder replaces or joins all texts, or changes each by itself. */
    bool (*texts)(const void *state, struct decoder_texts *texts, struct fault *fault);
    decoder_change *text;

    size_t state_size;    /* 0: it has no state */
    const void *defaults; /* the state before the fields are read; NULL: zeroes */
    const struct step_field *fields;
    size_t field_count;

    /* Does what the fields do not say, after they were read; NULL: nothing is left to do. */
    bool (*finish)(struct pipeline_build *build, const cJSON *node, const char *where, void *state);

    /* Makes the state of a step in place of the five members above; NULL: they say it. */
    bool (*read)(struct pipeline_build *build, const cJSON *node, struct step *step);
};

/* Members of rows. A field of a state that is one value has no member: STEP_VALUE. */
#define STEP_FIELD(field, type, state, member)                                                     \
    .name = (field), .kind = (type), .offset = offsetof(state, member)
#define STEP_VALUE(field, type) .name = (field), .kind = (type)
#define STEP_STATE(state, list)                                                                    \
    .state_size = sizeof(state), .fields = (list), .field_count = sizeof(list) / sizeof(list)[0]
#define STEP_DEFAULTS(object) .state_size = sizeof(object), .defaults = &(object)

struct step_kind {
    const char *name; /* for messages: "normalizer" */
    const struct step_type *types;
    size_t type_count;
};

/* Reads a node by the row of its "type", which is `type` where the node has none; NULL: it must
 * have one. A node that is absent or null is not given to it. */
bool pipeline_step(struct pipeline_build *build, const cJSON *node, const struct step_kind *kind,
                   const char *type, struct step *step);

/* Reads fields of a node into a state. where is the kind of step, see pipeline_fail(); none of the
 * fields is STEP_STEPS. */
bool pipeline_fields(struct pipeline_build *build, const cJSON *node, const char *where,
                     const struct step_field *fields, size_t count, void *state);

/* The array `key` of a node, which has objects, or nothing, in it; NULL: the fault is set. */
const cJSON *pipeline_array(struct pipeline_build *build, const cJSON *node, const char *where,
                            const char *key);

/* Compiles a pattern that the tokenizer owns; NULL: the fault is set. */
const struct regex *pipeline_regex(struct pipeline_build *build, const char *pattern, size_t size);

/* Memory in the build's arena, cleared; NULL: the fault is set. */
void *pipeline_alloc(struct pipeline_build *build, size_t count, size_t size);

/* Sets the fault and returns false; the message begins with the file's name and where, the kind of
 * step ("tokenizer.json: normalizer Replace: ..."). */
bool pipeline_fail(struct pipeline_build *build, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads a model's "vocab", an object of tokens and their ids, into the build's vocabulary, or takes
 * that of the lists. */
bool pipeline_vocabulary(struct pipeline_build *build, const cJSON *node, const char *where);

/* Adds one token of a model, with a fault that says where. */
bool pipeline_add_token(struct pipeline_build *build, const char *where, struct byte_slice text,
                        int64_t id);

/* The ids of the tokens of single bytes, "<0x00>" and so on; -1: the vocabulary has no such token.
 */
void pipeline_byte_tokens(const struct pipeline_build *build, int32_t ids[256]);

/* -------------------------------------------------------------------- kinds -- */

bool normalizer_read(struct pipeline_build *build, const cJSON *node, struct step *step);
bool pre_tokenizer_read(struct pipeline_build *build, const cJSON *node, struct step *step);
bool model_read(struct pipeline_build *build, const cJSON *node, struct step *step);
bool post_processor_read(struct pipeline_build *build, const cJSON *node, struct step *step);
bool decoder_read(struct pipeline_build *build, const cJSON *node, struct step *step);

/* Run a normalizer or a pre-tokenizer, and a decoder. */
bool pipeline_run(const struct step *step, struct pieces *pieces, struct fault *fault);
bool decoder_run(const struct step *step, struct decoder_texts *texts, struct fault *fault);

/* Whether the decoder is, or has among its steps, one of this type. */
bool decoder_has(const struct step *step, const char *type);

/* Of ByteLevel, the bytes of a token; out has room for its size. Of ByteFallback, the byte that a
 * token stands for; -1: none. */
size_t decoder_token_bytes(char *out, struct byte_slice token);
int decoder_token_byte(struct byte_slice token);

/* The members of the row of BPE. */
bool bpe_read(struct pipeline_build *build, const cJSON *node, struct step *step);
bool bpe_encode(const void *state, const char *piece, int64_t size, struct model_output *output,
                struct fault *fault);

#endif
