/* SPDX-License-Identifier: Apache-2.0 */
/* model_readout.h - how rows that leave a model become one vector, as plain data.
 *
 *     vector = unit(dense(... dense(pool(rows))))
 *     dense(x) = norm(activation(linear . x))
 *
 * Poolings are those of sentence-transformers, sentence_transformer/modules/pooling.py. */
#ifndef ATTND_MODEL_READOUT_H
#define ATTND_MODEL_READOUT_H

#include "linear.h"
#include "rows.h"

/* cls: the first row; last: the last one; max: of each column the largest; mean: the sum of the
 * rows divided by their number n; mean_sqrt_len: by the root of n; weightedmean: row i, from 1 on,
 * counts i times. */
#define MODEL_POOLING_MAP(X)                                                                       \
    X(CLS, cls)                                                                                    \
    X(MAX, max)                                                                                    \
    X(MEAN, mean)                                                                                  \
    X(MEAN_SQRT_LEN, mean_sqrt_len)                                                                \
    X(WEIGHTEDMEAN, weightedmean)                                                                  \
    X(LAST, last)

enum model_pooling {
#define X(NAME, name) MODEL_POOLING_##NAME,
    MODEL_POOLING_MAP(X)
#undef X
        MODEL_POOLING_COUNT
};

extern const char *const model_pooling_names[MODEL_POOLING_COUNT];

/* One layer over vectors. */
struct model_dense {
    struct attn_linear linear; /* weight NULL: none */
    enum attn_activation activation;
    struct attn_norm norm; /* weight NULL: none */
    bool is_unit;          /* then divided by its length */
    bool keeps, adds_kept; /* what enters a layer that keeps is added behind one that adds it */
};

/* Attention of one learnt query to all rows, in place of a pooling. A head's score of a row is the
 * product of both; values are [width][width], a row for each column of the pooled vector. */
struct model_probe {
    int64_t heads;
    const float *scores; /* [heads][width] */
    const float *values, *value_biases;
};

struct model_readout {
    int64_t width;                                    /* of the vector; 0: there is no readout */
    enum model_pooling poolings[MODEL_POOLING_COUNT]; /* side by side */
    int pooling_count;                                /* 0: there is a vector for each row */
    bool is_of_token; /* cls is not the first row, but that of the first token with this id; */
    int64_t token_id; /* -1: with the largest id */
    const struct model_probe *probe; /* NULL: none */
    const struct model_dense *dense; /* [dense_count] */
    int dense_count;
    bool is_unit; /* the vector is divided by its length */
};

/* What makes probabilities of the logits of classes. */
#define MODEL_CLASSES_MAP(X)                                                                       \
    X(NONE, none)                                                                                  \
    X(SOFTMAX, softmax)                                                                            \
    X(SIGMOID, sigmoid)

enum model_classes_activation {
#define X(NAME, name) MODEL_CLASSES_##NAME,
    MODEL_CLASSES_MAP(X)
#undef X
        MODEL_CLASSES_COUNT
};

extern const char *const model_classes_names[MODEL_CLASSES_COUNT];

/* A head over classes: readout makes their logits. */
struct model_classes {
    struct model_readout readout; /* width 0: there is no such head */
    int stream;                   /* whose rows it reads */
    bool is_of_rows;              /* each of them has classes */
    int64_t count;
    bool are_letters; /* or other parts of a text, one of which is no letter: a head for CTC */
    const float *layer_weights; /* [blocks + 1]: it reads the sum of the rows that enter each block
                                   and those that leave the last, weighted; NULL: these alone */
    const char *const *labels;  /* [count] */
    enum model_classes_activation activation;
};

/* The probabilities of count logits of one input. */
void model_classes_activate(enum model_classes_activation activation, const float *logits,
                            int64_t count, float *probabilities);

/* A text that stands before others. */
struct model_prompt {
    const char *name, *text;
};

/* What the files beside a checkpoint say of vectors (modules.json). */
struct model_vectors {
    struct model_readout readout; /* of the first stream; width 0: they say nothing */
    const char *source;           /* the file that says it */
    const char *reason;           /* why it is refused; NULL: it is not */
    const struct model_prompt *prompts;
    int prompt_count;
    bool leaves_prompt_out; /* the rows of a prompt are not pooled */
    int64_t length_max;     /* tokens that a text is cut to; 0: not said */
};

struct model;

/* How the rows of a stream become the model's own vector. NULL: they do not, for the reason, which
 * is one sentence without a full stop. */
const struct model_readout *model_find_readout(const struct model *model, int stream,
                                               const char **reason);

/* Tokens of the first stream that a text is cut to where its caller wants that: max_seq_length of
 * sentence-transformers, else what config.json says, and no more than there are positions for; 0:
 * any number. As it is: those that it may have where it is not cut. */
int64_t model_length_cut(const struct model *model);
int64_t model_length_whole(const struct model *model);

#endif
