/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - what a client asks of a trace and what it gets, as plain data.
 *
 * A trace is the whole pass of a model: text, tokens, pixels or features in, the numbers of every
 * layer asked for out. A request is a list of items, each with its own pass; a single call is a
 * list of one. An operation fills in what was asked (the first half of an item), trace_plan() adds
 * what that means for the model (the second half), tasks compute (pass.h), and the operation says
 * the results. Nothing here knows HTTP or JSON. */
#ifndef ATTND_TRACE_H
#define ATTND_TRACE_H

#include "base/bytes.h"
#include "call/infer.h"
#include "models/model/model_forward.h"
#include "models/tokenizer/tokenizer.h"
#include "operations/trace/contribution.h"
#include "operations/trace/mark.h"

enum {
    TRACE_ITEMS_MAX = 1024, /* of a batch */
    TRACE_TARGETS_MAX = 1024,
    TRACE_ID_MAX = 64, /* of the name of a kept trace */
};

/* What a client may ask for by name. */
#define TRACE_OUTPUT_MAP(X)                                                                        \
    X(WEIGHTS, weights)                                                                            \
    X(LSE, lse)                                                                                    \
    X(SCORES, scores)                                                                              \
    X(MASKED, masked)                                                                              \
    X(INPUTS, inputs)                                                                              \
    X(HIDDEN_STATES, hidden_states)                                                                \
    X(ATTENTION_OUTPUT, attention_output)                                                          \
    X(PREDICTIONS, predictions)                                                                    \
    X(LOGPROBS, logprobs)                                                                          \
    X(ROLLOUT, rollout)                                                                            \
    X(LENS, lens)                                                                                  \
    X(NORMS, norms)                                                                                \
    X(CONTRIBUTIONS, contributions)                                                                \
    X(EMBEDDING, embedding)                                                                        \
    X(CONTACTS, contacts)                                                                          \
    X(LOGITS, logits)                                                                              \
    X(ALIGN, align)

enum trace_output {
#define X(NAME, name) TRACE_OUTPUT_##NAME,
    TRACE_OUTPUT_MAP(X)
#undef X
        TRACE_OUTPUT_COUNT
};

/* What the answer has of one layer, in this order: name, and the output that asks for it.
 *
 *     weights           [heads][q][k], or the shape of the weight map
 *     lse               [heads][q]
 *     scores, masked    [heads][q][k]
 *     inputs            [q][d_query]: the rows that enter the projections of query (and key)
 *     key_inputs        [k][d_key]: of cross attention, and of a layer that shares its keys those
 *                       of the call
 *     hidden_states     [q][width]: the residual stream as it enters the layer's block
 *     attention_output  [q][d_out]: after the output projection, before the residual
 *     rollout           [rows][k]: of self-attention (rollout.h)
 *     norms             [heads][q][k], or the shape of the weight map (pass_norms.c)
 *
 * spans is asked for by the spans of the item: [heads][rows][spans], the sum of the weights of the
 * span's keys; of row_spans in place of rows, the sums over these rows. norm_spans is the same of
 * norms, which it replaces. */
#define TRACE_TENSOR_MAP(X)                                                                        \
    X(WEIGHTS, weights, WEIGHTS)                                                                   \
    X(LSE, lse, LSE)                                                                               \
    X(SCORES, scores, SCORES)                                                                      \
    X(MASKED, masked, MASKED)                                                                      \
    X(INPUTS, inputs, INPUTS)                                                                      \
    X(KEY_INPUTS, key_inputs, INPUTS)                                                              \
    X(HIDDEN_STATES, hidden_states, HIDDEN_STATES)                                                 \
    X(ATTENTION_OUTPUT, attention_output, ATTENTION_OUTPUT)                                        \
    X(SPANS, spans, COUNT)                                                                         \
    X(ROLLOUT, rollout, ROLLOUT)                                                                   \
    X(NORMS, norms, NORMS)                                                                         \
    X(NORM_SPANS, norm_spans, COUNT)

enum trace_tensor_name {
#define X(NAME, name, OUTPUT) TRACE_##NAME,
    TRACE_TENSOR_MAP(X)
#undef X
        TRACE_TENSOR_COUNT
};

extern const char *const trace_tensor_names[TRACE_TENSOR_COUNT];

/* Results: dense, row-major, F32. */
struct trace_tensor {
    const float *values; /* NULL: not in the answer; a tensor without numbers has an address */
    int rank;
    int64_t shape[3];
};

/* The tokens that the head predicts at some positions, the most probable first; among equal ones
 * the lower id first. */
struct trace_predictions {
    int64_t count;      /* positions */
    int64_t candidates; /* of each */
    int64_t *positions; /* [count], rows of the head's stream */
    int64_t *ids;       /* [count][candidates] */
    float *logprobs;    /* [count][candidates], natural logarithms */
    float *differences; /* [count][candidates], to the pass without edits; NULL: not asked for */
};

/* The log-prob of one token, by the row of the head's stream that predicts it. */
struct trace_score {
    int64_t row, id;
    float logprob;
    int64_t rank;     /* 1: the most probable; among equal ones the lower id is first */
    float difference; /* to the pass without edits, where that is asked for */
};

/* What the head would predict from the rows that leave a layer's block. */
struct trace_lens {
    struct trace_predictions tokens;
    struct trace_score *scores; /* [score_count], of targets at these positions; row is the place */
    int64_t score_count;        /* in tokens.positions, ascending */
    float *rows;                /* of the pass: [tokens.count][width], after the final norm */
};

/* One layer of the answer. Several may share the memory of key_inputs. */
struct trace_layer {
    int64_t number;   /* as in GET /v1/models/{model} */
    const char *kind; /* the same */
    bool is_answered[TRACE_TENSOR_COUNT];
    bool has_spans; /* they are summed up, for the answer of the layer or for span_scores */
    struct trace_tensor tensors[TRACE_TENSOR_COUNT]; /* values NULL: not in the answer */
    struct trace_lens *lens;                         /* NULL: none */
    const int64_t *norm_indices;                     /* as indices, of norms */
    const int64_t *indices; /* of a weight map with top_k, of the shape of weights; else NULL */
};

/* A token in a request: an id, or its text in the vocabulary. */
struct trace_choice {
    bool has;
    int64_t id;
    const char *text; /* NULL: the id came */
};

/* A token whose log-prob is asked for, perhaps against that of another. */
struct trace_target {
    struct trace_choice token, against;
    bool has_position;
    int64_t position; /* negative ones count from the end */
    int64_t score;    /* as planned: its number in the item's scores; that of against follows */
};

/* Which keys the tokens of a decoder go along (pass_align.c): of speech the path of align.h, of
 * texts the key with the largest mean weight. The row before a token is the one that predicts it.
 */
struct trace_align {
    const int64_t (*heads)[2]; /* [head_count]: layer and head */
    int64_t head_count, last_layer;
    bool is_speech;
    int64_t rows, keys; /* of the decoder, and those that are looked at */
    int64_t first_row;  /* that predicts a token of the answer */
    float *maps;        /* of the pass, [head_count][rows][keys] */
    float *copy;        /* [head_count][keys] */
    void *workspace;
    int64_t *places; /* [rows], from first_row on: the first key of speech, the key of texts */
    float *weights;  /* [rows], the same: the mean weight of texts */
    float *times;    /* [rows + 1], the same: seconds of speech at which the token begins */
};

/* The log-probs of all tokens of the head's stream, each by the row before it. */
struct trace_logprobs {
    int64_t count;                   /* tokens; the first has none */
    int64_t first;                   /* that of token i > 0 is number first + i - 1 of the scores */
    struct trace_predictions tokens; /* that are the most probable in place of each; count 0: not
                                        asked for */
};

/* One vector of the rows that leave a stream, or one of each. */
struct trace_vector {
    struct model_readout readout; /* as asked for; width 0: no vector is */
    int64_t first_row, row_count; /* the rows that are pooled */
    struct trace_tensor numbers;
};

/* One of the model's streams (model_forward.h), as planned and computed. */
struct trace_stream {
    int64_t length;           /* rows; 0 where the stream does not run */
    bool runs;                /* it has input, or is a decoder */
    bool is_given;            /* its first rows are the item's embeddings, as F32 */
    struct token_list tokens; /* of a stream of tokens that are known, else count 0. Where they came
                                 as ids, start and end are 0 */
    struct token_list encoded;  /* of the text that is tokenized; a decoder's tokens have the start
                                   token before them */
    struct token_list parts[2]; /* of a text with a pair in a batch: each without the template */
    struct trace_tensor rows;   /* that leave the stream, after its final norm; only if asked */
    struct trace_vector vector;
    const int64_t *span_rows; /* [span_row_count], ascending: rows that spans are asked of; */
    int64_t span_row_count;   /* NULL: all */
    const uint8_t *visible;   /* [length], of attention_mask: 0 hides the token from all rows; NULL:
                                 none is hidden */
};

struct pass;
struct kept_trace;

/* Tokens before those of an item, of which caches have the keys and values of every
 * layer; those of the item are appended. */
struct trace_past {
    int64_t length;
    struct infer_cache **caches; /* [model->layer_count] */
};

struct trace_item {
    /* As asked. An absent field is NULL or 0, or its has_ flag is false. text.data NULL: absent;
     * empty text has an address. Lists of ids may be empty too: has_ tells. */
    const char *model_name;
    const char *input_name; /* of text and tokens, in faults; NULL: their own. Not asked */
    struct byte_slice text, pair, decoder_text;
    bool has_special, no_special; /* "special": false */
    bool has_probe;               /* random tokens twice, in place of a text */
    int probe;                    /* the one that there is */
    bool has_tokens, has_token_types, has_decoder_tokens, has_attention_mask;
    const int64_t *tokens, *token_types, *decoder_tokens, *attention_mask;
    int64_t token_count, token_type_count, decoder_token_count, attention_mask_count;
    struct array pixels, features, embeddings; /* F32, or any dtype of numbers */
    struct array sound;                        /* samples, of a model of features in their place */
    bool sound_is_prepared;                    /* as the model takes it. No name of v1 */

    bool has_layers, has_kinds;
    const int64_t *layers;
    int64_t layer_count;
    const char *const *kinds;
    int64_t kind_count;
    bool has_outputs; /* else weights, or with spans the spans alone */
    bool outputs[TRACE_OUTPUT_COUNT];
    bool has_weight_map;
    struct attn_weight_map weight_map;  /* without outputs */
    const struct attn_map_range *spans; /* of the tokens of text; with rows, in place of weights */
    int64_t span_count;
    const struct byte_slice *span_texts; /* substrings of text, in place of spans */
    int64_t span_text_count;
    bool has_rows; /* of spans; else all rows */
    const int64_t *rows;
    int64_t row_count; /* negative rows count from the end */
    bool has_row_spans;
    const struct attn_map_range *row_spans; /* sums over rows too; not with rows */
    int64_t row_span_count;
    bool has_head_weights;         /* spans of all layers and heads, weighted, in one table */
    struct array head_weights;     /* [layers answered][heads]; or */
    const char *head_weights_name; /* the name of such beside the model */
    bool has_align_heads;
    const struct attn_map_range *align_heads; /* pairs of layer and head */
    int64_t align_head_count;
    int64_t top_k_tokens; /* 0: absent, which is 5 */
    bool has_positions;
    const int64_t *positions; /* of predictions; negative ones count from the end */
    int64_t position_count;
    bool logits;                     /* answer logits too; for the protocol, no name of v1 */
    bool final_rows;                 /* answer the rows that leave the streams; the same */
    bool has_pooling, has_normalize; /* of embedding; else it is as the model says */
    int pooling;                     /* enum model_pooling */
    bool normalize;
    int64_t dimensions;       /* of embedding: the first of them; 0: all */
    int64_t prompt_rows;      /* first rows that no embedding is of; no name of v1 */
    int64_t tokens_max;       /* tokens that text, pair or tokens are cut to; 0: they are not. No */
    bool cuts_first;          /* name of v1; the first ones go, not the last */
    bool hides_tokens;        /* the answer has none of them; no name of v1 */
    int64_t length_most;      /* tokens that the call takes at most; 0: any number. No name of v1 */
    int64_t keep_ns;          /* keep the trace for so long; 0: no */
    bool states;              /* and what rows are at every place, for edits of other traces */
    struct trace_edit *edits; /* planning makes them the item's own */
    int64_t edit_count;
    int64_t planned_edit_count; /* 0: they may be shared with other items, and hold nothing */
    bool compare;               /* to the pass without edits */
    struct trace_target *targets;
    int64_t target_count;
    bool has_targets;
    int64_t at;      /* of a session: the length that the client believes in; -1: absent */
    bool drops_rows; /* of a session: nothing is appended */
    const struct trace_past *past; /* set before the plan; NULL: none */

    /* As planned and computed. */
    struct fault fault;      /* this item's own; if set, ignore what is below */
    struct model *model;     /* retained */
    const void *sound_given; /* the data of sound, of which sound and features are made; NULL: they
                                are not */
    struct trace_stream streams[MODEL_STREAMS_MAX];
    struct trace_layer *answered; /* [answered_count], in the order of their numbers */
    int64_t answered_count;
    struct contribution *contributions; /* [contribution_count], of targets, at */
    int64_t contribution_count;
    int64_t *contribution_rows; /* [contribution_row_count], each once */
    int64_t contribution_row_count;
    struct trace_align *align;       /* NULL: not asked for */
    int64_t lens_count;              /* of layers of the answer that have one */
    const float *layer_weights;      /* [answered_count][heads], of head_weights; NULL: none */
    struct trace_tensor span_scores; /* [rows or row_spans][spans]; only if asked, */
    double *span_sums;               /* and the same before it is rounded */
    struct trace_tensor contacts;    /* [n - 2][n - 2] of n tokens, without the first and the last;
                                        only if asked */
    bool has_final_rows;             /* the streams' rows are in the answer */
    struct trace_predictions predictions;
    struct trace_score *scores; /* [score_count], of logprobs and targets */
    int64_t score_count;
    struct trace_logprobs logprobs;
    struct trace_item *base; /* the same without edits, beside it; NULL: none */
    struct infer_item *base_attention;
    struct trace_vector classes;    /* logits of classes, [count] or [rows][count] */
    struct trace_tensor logit_rows; /* [predictions.count][vocabulary]; only if asked */
    size_t answer_bytes;            /* of its part of the answer, at most */
    struct kept_trace
        *keeping; /* while the pass runs; NULL: the trace is not kept (kept_trace.h) */
    char kept[TRACE_ID_MAX + 1]; /* the name of the kept trace; "": none */
    struct pass *pass;           /* computes it */

    /* Of passes that start where another one has been. */
    struct pass_marks *marks;      /* which the pass fills; NULL: none */
    const struct pass_mark *start; /* it begins there; all items of a pass have the same; NULL: with
                                      the first step */
    const float *start_encoded;    /* of a start in a decoder: rows that left the encoder */
    bool is_narrow;                /* behind the last attention only this row is computed: */
    int64_t narrow_row;
};

/* Whether anything is asked of the head over the vocabulary. */
static inline bool trace_has_head(const struct trace_item *item)
{
    return item->predictions.count > 0 || item->score_count > 0 || item->lens_count > 0
           || item->contribution_count > 0;
}

/* Numbers of a row of logits that are tokens. */
static inline int64_t trace_vocabulary(const struct model_forward *forward)
{
    const int64_t out = forward->head.output.out;
    return forward->vocabulary > 0 && forward->vocabulary < out ? forward->vocabulary : out;
}

struct kept_store;
struct access_key;

struct trace_request {
    struct kept_store *kept;      /* where edits find kept traces, */
    const struct access_key *key; /* as this key may */
    void *asked;                  /* what else the operation was asked, its own */
    struct arena *arena;          /* owns all that the items point at, except the models */
    struct trace_item *items;
    int64_t item_count;
    bool batch;                 /* the answer is a list; a fault of an item fails that item alone */
    bool is_of_session;         /* the fields at and append are known, and model is not */
    bool joined;                /* all items have one shape, and their results are contiguous */
    size_t number_bytes;        /* of a number in the answer, at most; 0: as text */
    size_t tokenized_bytes;     /* of texts, so far */
    struct tokenizer_stop stop; /* for tokenizing texts; zeroed: nothing stops it */
    size_t searched_bytes;      /* of texts and tokens, for span_texts, so far */
    struct infer_request attention; /* an item for each item here: the layer that its pass is at */
};

#endif
