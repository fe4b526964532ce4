/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h - an attention layer: projections around attention.
 *
 *     q = query . Wq^T + bq      k = key . Wk^T + bk      v = value . Wv^T + bv
 *     clamp q, k and v, if the layer has projected_max
 *     normalize q, k and v, if the layer has norms
 *     rotary embedding of q and k, if the layer has it; with norms_follow_rope before the norms
 *     context = attention(q, k, v), heads concatenated,
 *               times sigmoid(query . Wg^T + bg), if the layer has a gate, . Wo^T + bo
 *
 * struct attn_latent has what is otherwise where heads share one row of keys and values.
 *
 * Like a plan of attn.h, but in stages: a task of a stage may run at any time after all tasks of
 * the stage before have ended.
 *
 *     for (stage = 0; stage < plan.stage_count; stage++)
 *         for (task = 0; task < plan.task_count[stage]; task++)
 *             attn_layer_run(&plan, stage, task, scratch, workspace);
 *
 * The projection of a row has the same bits whatever other rows are projected with it. */
#ifndef ATTN_LAYER_H
#define ATTN_LAYER_H

#include "attn.h"
#include "given.h"
#include "linear.h"
#include "merge.h"
#include "rope.h"
#include "rows.h"
#include "select.h"
#include "weight_map.h"

/* Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2). A position has one row for the keys
 * and values of all heads:
 *
 *     row = [norm(r), the first rank columns; rotary embedding of the others]     r = key . Wk^T +
 * bk
 *
 * A head's key is [up . norm(r); those others], and its value v_up . norm(r). Neither is made: by
 * the law of products attention reads the rows themselves, with kv_heads 1, for the score is
 *
 *     [k_up . n; p] . row   where [n; p] is the head's part of q_proj . norm(q_down . query), p
 * rotated
 *
 * and v_up takes the weighted sum of rows to the head's context. The layer's head_dim is that of a
 * row, and its rope that of the columns from rank on; its k_proj and k_norm make rows, it has no
 * v_proj, no q_norm and no projected_max, and value is not read. */
struct attn_latent {
    int64_t rank;              /* 0: there is none of all this */
    struct attn_linear q_down; /* weight NULL: q_proj takes query itself */
    struct attn_norm q_norm;   /* of its rows; weight NULL: none */

    /* Of the first head, without a bias; so many numbers behind them are those of the next. */
    struct attn_linear k_up; /* out = rank, in = the columns of n: up, transposed */
    struct attn_linear v_up; /* out = v_head_dim, in = rank */
    int64_t k_up_step, v_up_step;
};

struct attn_layer {
    int64_t q_heads, kv_heads, head_dim, v_head_dim;
    struct attn_linear q_proj;    /* out = q_heads * head_dim */
    struct attn_linear k_proj;    /* out = kv_heads * head_dim */
    struct attn_linear v_proj;    /* out = kv_heads * v_head_dim */
    struct attn_linear gate_proj; /* out = q_heads * v_head_dim, with a q_proj of the same in;
                                     weight NULL: no gate. It has no gradient */
    struct attn_linear o_proj;    /* in = q_heads * v_head_dim */
    double projected_max; /* q, k and v are clamped to [-projected_max, projected_max] before norms;
                             0: no clamping. Finite */
    struct attn_norm q_norm, k_norm; /* of projected rows, before rotary embedding */
    struct attn_norm v_norm;
    bool norms_follow_rope; /* after it; not with projected_max */
    struct attn_rope rope;

    /* [head_dim], borrowed, or NULL for the dot product. If set, the score of q and k is scale *
     * additive_weight . tanh(q + k). With q_proj and k_proj this is the additive score of Bahdanau
     * et al. 2015; with both halves of one projection (attn_linear_split()) it is the concat score
     * of Luong et al. 2015. The general score of Luong et al. is a q_proj over [head_dim = d_key]
     * without additive_weight. */
    const float *additive_weight;

    struct attn_latent latent;
};

/* Number of columns of the layer's context. */
int64_t attn_layer_d_out(const struct attn_layer *layer);

/* Columns of a value as attention reads it and a cache keeps it: v_head_dim, or the rank. */
int64_t attn_layer_value_columns(const struct attn_layer *layer);

/* Keys and values that stay from call to call, as attention reads them: projected, normalized and
 * rotated to their positions. Rows [0, length) are there. The call's own rows of key and value
 * become those behind them, rounded to the cache's dtype, before its attention reads all rows. */
struct attn_layer_cache {
    /* [1, kv_heads, length + rows of the call, head_dim] and attn_layer_value_columns(), F32, F16
     * or BF16, with or without pages, or I8, whose pages with the call's rows are F32. The places
     * of the call's rows overlap nothing else of the call. Of a latent layer value may have 0
     * columns: values are then the first columns of key, which is not I8. */
    struct attn_tensor key, value;
    int64_t length;
};

/* One call of a layer, batch 1. Query row i is at position past_len + i, key j at kv_offset + j.
 * Dynamic scaling of a rotary embedding uses the length 1 + the largest of these positions, whether
 * or not kv_len hides that key. So with dynamic scaling, parts of the keys merge into the whole
 * only if every part has the same largest position, for example that of a query at the end of the
 * sequence. */
struct attn_layer_problem {
    const struct attn_layer *layer;
    struct attn_options options;

    /* [1, 1, length, columns]; if the projection is the identity, also [1, heads, length,
     * head_dim], already split into heads. The rows of a projected tensor are dense. F32; without
     * projection, norm and rotary embedding, any dtype that attn.h takes. */
    struct attn_tensor query, key, value;

    /* NULL: none. With a cache, key j of all its rows is at kv_offset + j, its lengths and masks
     * are those of attention over all rows, and key and value of the call have equally many,
     * perhaps none. */
    const struct attn_layer_cache *cache;

    union { /* as in attn.h, with a batch of 1 */
        struct attn_masking masking;
        struct {
            ATTN_MASKING_MEMBERS
        };
    };
    int64_t past_len;
    bool partial; /* the context is that before the output projection, behind the gate */

    /* Outputs, each dense or NULL, of output_dtype: F32, or any other number dtype if neither gate
     * nor o_proj follows the context. lse is F32 where output_dtype has 16 bits: it is a logarithm,
     * whose rounding to them would change what it weighs in a merge by percents. context is [q_len,
     * d_out], or of a partial call [q_heads, q_len, v_head_dim]; lse is [q_heads, q_len], a map
     * [q_heads, q_len, kv_len]. */
    enum attn_dtype output_dtype;
    union { /* as in attn.h */
        void *out[ATTN_OUTPUT_COUNT];
        struct {
#define X(NAME, name, columns, step) void *name; /* NOLINT(bugprone-macro-parentheses) */
            ATTN_OUTPUT_MAP(X)
#undef X
        };
    };

    /* NULL, or a reduced map of the weights instead of weights. The caller keeps it alive. */
    const struct attn_weight_map *weight_map;

    /* NULL, or attention to the keys that can matter alone. The caller keeps it alive. */
    const struct attn_selection *selection;

    /* NULL, or weights of some rows (given.h): [q_heads][q_len], NULL for a row that keeps its own.
     * Not with a selection, and not with any tensor of F64. A reduced map has a table of its own.
     * What the pointers point at may change until the stage of attention has run. */
    const float *const *given;

    const struct attn_kernels *kernels; /* NULL: the best table that this CPU can run */
};

enum { ATTN_LAYER_STAGES_MAX = 13 };

/* Borrows the problem's memory and the layer; owns nothing. */
struct attn_layer_plan {
    int stage_count;                           /* 0 if there is nothing to compute */
    int64_t task_count[ATTN_LAYER_STAGES_MAX]; /* of each stage, 1 or more */
    size_t scratch_bytes;   /* shared by all tasks of one run, 64-byte aligned; may be 0 */
    size_t workspace_bytes; /* needed besides by each running task, 64-byte aligned; may be 0 */

    struct attn_layer_problem problem; /* as it was given; of a merge, what both have */
    uint64_t own[192];                 /* as in struct attn_plan */
};

/* As attn_plan_init(): everything is checked here, and running cannot fail. *where names a field of
 * this header ("query.shape[3]"). */
enum attn_status attn_layer_plan_init(struct attn_layer_plan *plan,
                                      const struct attn_layer_problem *problem, const char **where);

void attn_layer_run(const struct attn_layer_plan *plan, int stage, int64_t task, void *scratch,
                    void *workspace);

/* As attn_plan_precision(), of attention and of the products around it that have one. */
enum attn_precision attn_layer_precision(const struct attn_layer_plan *plan);

/* Attention as the tasks of its stages see it: query, key and value projected, normalized and
 * rotated, and the context [1, q_heads, q_len, v_head_dim] before the output projection, whose data
 * is NULL where none is computed. Key and value of a latent layer are rows, and value has rank
 * columns. Views of the scratch, of the caller's memory where nothing prepares a tensor, or of the
 * cache, and of the plan, which must stay. The tensors may be read,
 * and the context changed, after the last stage before attn_layer_output_stage() has run, and
 * before scratch is used again. */
struct attn_problem attn_layer_attention(const struct attn_layer_plan *plan, void *scratch);

/* The stage of the output projection; stage_count where the plan has none. */
int attn_layer_output_stage(const struct attn_layer_plan *plan);

/* What a stage computes: a product of rows with parameters of the layer (those of query, key, value
 * and gate, or those of the output projection), or something else. */
enum attn_layer_product { ATTN_PRODUCT_NONE, ATTN_PRODUCT_INPUTS, ATTN_PRODUCT_OUTPUT };

enum attn_layer_product attn_layer_product(const struct attn_layer_plan *plan, int stage);

/* The same more finely, for those who count where the time goes: products, also those of a latent
 * layer; norms and rotary embedding of what was projected; steps on rows, as of a cache or a gate;
 * attention and its maps. */
enum attn_layer_part { ATTN_PART_PRODUCT, ATTN_PART_ROTARY, ATTN_PART_ROWS, ATTN_PART_ATTENTION };

enum attn_layer_part attn_layer_part(const struct attn_layer_plan *plan, int stage);

/* A plan and the scratch of one run of it. */
struct attn_layer_call {
    const struct attn_layer_plan *plan;
    void *scratch;
};

/* Run one stage of several calls together, instead of the tasks of each: the same product, of
 * layers whose parameters lie in the same memory (attn_layer_same_product()), with the same
 * kernels and the same precision. Each call gets the bits that it would get alone. A task needs the
 * workspace of one of the calls. */
bool attn_layer_same_product(const struct attn_layer *a, const struct attn_layer *b,
                             enum attn_layer_product product);
int64_t attn_layer_product_parameters(const struct attn_layer *layer,
                                      enum attn_layer_product product);

/* Rows of the call that go through the product; of several projections those of the longest. */
int64_t attn_layer_product_rows(const struct attn_layer_call *call,
                                enum attn_layer_product product);

int64_t attn_layer_product_tasks(const struct attn_layer_call *calls, int count,
                                 enum attn_layer_product product);
void attn_layer_product_run(const struct attn_layer_call *calls, int count,
                            enum attn_layer_product product, int64_t task, void *workspace);

/* Calls of the same product, or attention of few query rows over caches that begin with the same
 * keys, as forks of one cache do. Keys are then read from memory once for all calls: a task takes a
 * tile of them and runs it for one call after the other, while the tile is in a near cache. Each
 * call gets the bits that it would get alone. */

/* Whether there is something to gain. Holds for all pairs of some calls if it holds for the first
 * one and each of the others. */
bool attn_layer_runs_together(const struct attn_layer_plan *a, const struct attn_layer_plan *b,
                              int stage);

/* Below 0, 0 or above 0: an order of calls in which those of one product, and of them those whose
 * caches have the longest beginning in common, are neighbours. */
int attn_layer_compare_keys(const struct attn_layer_plan *a, const struct attn_layer_plan *b);

/* The workspace of a task: 64-byte aligned, and at least the largest of the calls. With some 64 KiB
 * more, rows of several calls meet the keys that they share together. */
struct attn_layer_room {
    void *workspace;
    size_t bytes;
};

/* The tasks of the stage of all calls, any two of which run together. One call alone has its own
 * tasks. */
int64_t attn_layer_together_tasks(const struct attn_layer_call *calls, int count, int stage);
void attn_layer_together_run(const struct attn_layer_call *calls, int count, int stage,
                             int64_t task, const struct attn_layer_room *room);

/* Merging the partial answers of a layer, then its output projection. merge.h has the formula. */

/* The partial answers to one call. */
struct attn_layer_merge {
    const struct attn_layer *layer; /* only its heads, v_head_dim and o_proj are used */
    const struct attn_part *parts;  /* context [q_heads, q_len, v_head_dim], lse [q_heads, q_len] */
    int64_t part_count;             /* 0 or more */
    int64_t q_len;

    /* Outputs, each dense F32 or NULL. */
    float *context; /* [q_len, d_out] */
    float *lse;     /* [q_heads, q_len] */

    const struct attn_kernels *kernels; /* of o_proj; NULL: the best table that this CPU can run */
};

/* Plan the merge; run it with attn_layer_run(). The plan borrows merge and the memory that merge
 * points at. *where names the field at fault. */
enum attn_status attn_layer_merge_plan_init(struct attn_layer_plan *plan,
                                            const struct attn_layer_merge *merge,
                                            const char **where);

#endif
