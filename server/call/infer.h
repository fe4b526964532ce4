/* SPDX-License-Identifier: Apache-2.0 */
/* infer.h - what a client asks for and what it gets, as plain data.
 *
 * A request is a list of items, each an attention of its own lengths; a single call is a list of
 * one. An operation fills in what was asked (the first half of an item), infer_plan() adds what
 * that means for the model (the second half), tasks compute, and the operation says the results.
 * Nothing here knows HTTP or JSON. */
#ifndef ATTND_INFER_H
#define ATTND_INFER_H

#include "base/arena.h"
#include "base/array.h"
#include "base/fault.h"
#include "layer.h"
#include "models/model/model.h"

enum {
    INFER_ITEMS_MAX = 16384, /* of a batch; a planned item takes some 4 KB */
};

/* What a client calls the outputs: the names of ATTN_OUTPUT_MAP. */
extern const char *const infer_output_names[ATTN_OUTPUT_COUNT];

/* A partial answer, to be merged with others. */
struct infer_part {
    struct array context, lse;
};

struct infer_item;

/* Where the keys and values of an item go to, and what its rows attend to besides (layer.h). */
struct infer_cache {
    int64_t length;                   /* keys that are there */
    bool wants_bounds;                /* for a selection: open also sets */
    const struct attn_bounds *bounds; /* [bounds_count], of keys that are there */
    int64_t bounds_count;

    /* Gives a view with room for rows more, once the layer's shapes are known; it stays as long as
     * the request, also where the item is planned again. False, with the fault. */
    bool (*open)(struct infer_cache *cache, const struct attn_layer *layer, int64_t rows,
                 const struct attn_layer_cache **view, struct fault *fault);

    /* In place of open, of a layer that keeps a state of so many numbers and no keys: where the
     * state before the rows is, NULL for zeros, and where that behind them goes. Both stay as
     * those of open do. NULL: there is none. */
    bool (*open_state)(struct infer_cache *cache, int64_t numbers, int64_t rows,
                       const float **before, float **after, struct fault *fault);

    /* Sets which keys rows may see, of a cache that hides some: first_keys and last_keys. False,
     * with the fault. NULL: it hides none. */
    bool (*hide)(struct infer_cache *cache, const struct infer_item *item,
                 struct attn_masking *masking, struct fault *fault);
};

struct infer_item {
    /* As asked. An absent field is NULL, or its has_ flag is false. */
    const char *model_name; /* no effect where the operation sets model, below, itself */
    int64_t layer_index;
    struct array query, key, value; /* without key: query; without value: key */
    bool is_input;     /* the query is rows that enter the layer, which the client calls input */
    struct array mask; /* added to the scores; -INFINITY forbids. BOOL: true may attend */
    bool mask_is_bool; /* has no gradient; JSON's booleans are numbers here already */
    struct array context_gradient;
    struct integers kv_len; /* one length for all rows, or a list with one for each query row */
    int64_t past_len;
    struct array per_head[ATTN_PER_HEAD_COUNT]; /* one number for each query head */
    struct attn_masking masking; /* kv_offset, and for sdpa a view of the mask for one batch item;
                                    infer_masking.c plans the rest from the fields above */
    bool context_by_heads;       /* [q_heads][q_len][v_head_dim]; only without parameters */
    bool partial;                /* answer the context before the output projection, and lse */
    bool has_layer, has_past_len, has_outputs;
    bool has_causal, causal;
    bool has_scale, has_softcap, has_window_left, has_window_right;
    double scale, softcap;
    float dropout; /* 0: off */
    uint64_t seed;
    enum attn_normalizer normalizer;
    enum attn_dtype softmax_precision; /* F64: compute all in double */
    bool has_precision;                /* its answer says which it has */
    enum attn_precision precision;
    int64_t window_left, window_right;
    int64_t q_heads, kv_heads; /* 0: absent */
    bool outputs[ATTN_OUTPUT_COUNT];
    struct infer_part *parts; /* merge these; NULL: attention */
    int64_t part_count;
    struct infer_cache *cache; /* NULL: none; not for gradients and merges */
    bool has_selection;
    struct attn_selection selection; /* epsilon; infer_plan() sets the rest */
    bool has_weight_map;
    struct attn_weight_map weight_map; /* infer_plan() sets its outputs */

    /* As planned. */
    struct fault fault;  /* this item's own; if set, ignore what is below */
    struct model *model; /* retained */
    bool layer_held;     /* by model_hold_layer() */
    struct attn_layer layer;
    struct attn_layer_merge merge; /* the plan of a merge points at it */
    struct attn_layer_plan plan;
    struct infer_gradient *gradient; /* used in place of plan for gradients, else NULL */
    int64_t q_len, kv_len_max, d_out;
    size_t answer_bytes;          /* of its part of the answer, at most */
    enum attn_dtype answer_dtype; /* that of the query as it arrived; F32 if partial */
    enum attn_dtype result_dtype; /* of all results but lse, see infer_output_dtype() */
    const float *bias; /* [q_heads][q_len][kv_len], the mask with the relative position bias of the
                          model; NULL: it has none, or none is planned yet */
    float *bias_sum;   /* the same where it is to be filled before the first stage; NULL: it is */
    struct attn_tensor bias_mask; /* and the mask that is a part of it */
    float *projected; /* [q_len][q_proj.out] and [kv_len][k_proj.out], query and key projected for
                         a bias that depends on them (infer_distances.h); NULL: there is none */
    const float *const *given;        /* [q_heads][q_len], given weights (given.h); NULL: none */
    void *results[ATTN_OUTPUT_COUNT]; /* NULL if not asked for; values of a top_k map */
    void *scratch;
    void *workspaces; /* one for each worker slot, if the workers' own are too small */
};

struct infer_request {
    struct arena *arena; /* owns all that the items point at, except the models */
    struct infer_item *items;
    int64_t item_count;
    struct model *model; /* of all items, retained; NULL: each item has its own */
    bool batch;          /* the answer is a list; a fault of an item fails that item alone */
    bool gradients;      /* the answer is gradients, not attention */
    bool joined;         /* all items have one shape, and their results are contiguous */
    size_t number_bytes; /* of a number in the answer, at most; 0: as text */
};

/* What planning needs from the daemon. */
struct access_key;
struct model_store;
struct infer_limits {
    struct model_store *store;
    const struct access_key *key; /* of the request; NULL: no keys are in use */
    const struct attn_kernels *kernels;
    enum attn_precision precision; /* of items whose request and model name none */
    int worker_count;       /* tasks of a request that run at once; more workers may come later */
    size_t workspace_bytes; /* of a worker */
    size_t answer_bytes_max;
    size_t scratch_bytes_max;     /* of one request */
    bool (*is_over)(void *owner); /* whether nobody wants the answer any more; NULL: not known */
    void *owner;
};

/* Resolves models, checks every shape and option, plans, and allocates results and scratch in the
 * arena. An item that fails has its fault (pointer relative to the item: "/query"). False only for
 * a fault of the request as a whole. */
bool infer_plan(struct infer_request *request, const struct infer_limits *limits,
                struct fault *fault);

/* Plans attention of one layer for a caller that runs several layers one after the other and has
 * memory for all of them: the item has its model, whose layer is held, and its query, and may have
 * results, indices and pooled numbers of a weight map, and bias with projected. What it lacks is
 * allocated, except for scratch and workspaces. The item may be planned again, with another layer.
 */
bool infer_plan_layer(struct infer_request *request, struct infer_item *item,
                      const struct infer_limits *limits, struct fault *fault);

/* The name of the precision that the planned item has; NULL if its request names none, or if
 * nothing is computed that has one. */
const char *infer_precision(const struct infer_item *item);

/* The shape of an output in the answer; returns its rank. */
int infer_output_shape(const struct infer_item *item, enum attn_output output, int64_t shape[3]);

/* The dtype of an output of an answer of this dtype: lse, a logarithm, is never rounded to 16 bits.
 */
enum attn_dtype infer_output_dtype(enum attn_dtype dtype, enum attn_output output);

/* Releases models and the arena. */
void infer_request_free(struct infer_request *request);

#endif
