/* layer.h - an attention layer: projections around attention.
 *
 *     q = query . Wq^T + bq      k = key . Wk^T + bk      v = value . Wv^T + bv
 *     q, k and v clamped, where the layer does so; then q and k normed, where it has norms
 *     rotary embedding of q and k, where the layer has it
 *     context = attention(q, k, v), heads concatenated, . Wo^T + bo
 *
 * Like a plan of attn.h, but in stages: every task of a stage may run at any
 * time after the last task of the stage before it has ended.
 *
 *     for (stage = 0; stage < plan.stage_count; stage++)
 *         for (task = 0; task < plan.task_count[stage]; task++)
 *             attn_layer_run(&plan, stage, task, scratch, workspace);
 *
 * Where a row is projected to is the same to the bit whatever other rows are projected with it. */
#ifndef ATTN_LAYER_H
#define ATTN_LAYER_H

#include "attn.h"
#include "rope.h"
#include "weight_map.h"

/* y = x . weight^T + bias. Borrowed memory, dense, row-major. */
struct attn_linear {
    const void *weight; /* [out, in], or [in, out] where in_out; NULL: the identity, y = x */
    const float *bias;  /* [out], or NULL */
    int64_t out;
    int64_t in;
    bool in_out;
    int64_t stride;        /* numbers from one row of weight to the next; 0: the rows are dense */
    enum attn_dtype dtype; /* of weight: F32, or F16 or BF16, of which what comes out is, to the
                              bit, what comes out of the same numbers as F32 */
};

/* The first columns inputs of joined as one projection and the rest as another, both over joined's
 * memory, 0 < columns < joined->in:
 *
 *     joined([a; b]) = left(a) + right(b)
 *
 * The bias goes to left. */
void attn_linear_split(const struct attn_linear *joined, int64_t columns, struct attn_linear *left,
                       struct attn_linear *right);

/* Which numbers of a row of heads a norm takes together, and which weights they have. */
enum attn_norm_scope {
    ATTN_NORM_HEAD,  /* each head by itself; weight and bias [head_dim], the same for all heads */
    ATTN_NORM_HEADS, /* each head by itself; [heads, head_dim] */
    ATTN_NORM_ROW,   /* all heads of the row together; [heads * head_dim] */
};

/* y = weight * x / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019), or where is_centred x less its
 * mean in place of x (Ba et al. 2016, LayerNorm); plus bias. Numbers that are all 0 stay 0 where
 * eps is above 0, else they become NaN. */
struct attn_norm {
    const float *weight; /* borrowed; NULL: no norm */
    double eps;          /* 0 or more, finite */
    const float *bias;   /* borrowed; NULL: none */
    enum attn_norm_scope scope;
    bool is_centred;
};

struct attn_layer {
    int64_t q_heads, kv_heads, head_dim, v_head_dim;
    struct attn_linear q_proj; /* out = q_heads * head_dim */
    struct attn_linear k_proj; /* out = kv_heads * head_dim */
    struct attn_linear v_proj; /* out = kv_heads * v_head_dim */
    struct attn_linear o_proj; /* in = q_heads * v_head_dim */
    double projected_max; /* projected queries, keys and values are clamped to what lies between
                             it and its negative, before norms; 0: they are not. Finite */
    struct attn_norm q_norm, k_norm; /* of projected rows, before they are turned */
    struct attn_rope rope;

    /* [head_dim], borrowed, or NULL for the dot product. With it the score of q and k is
     * scale * additive_weight . tanh(q + k): with q_proj and k_proj the additive score of Bahdanau
     * et al. 2015, with both halves of one projection (attn_linear_split()) the concat score of
     * Luong et al. 2015, whose general score is a q_proj over [head_dim = d_key] without it. */
    const float *additive_weight;
};

/* Columns of the context that the layer gives. */
int64_t attn_layer_d_out(const struct attn_layer *layer);

/* One call of a layer, batch 1. Query row i is at position past_len + i, key j at kv_offset + j.
 * The length that dynamic scaling of a rotary embedding goes by is one more than the last of these
 * positions, hidden by kv_len or not. So with it parts of keys merge into the whole where every
 * part has that position, as with a query at the end of the sequence. */
struct attn_layer_problem {
    const struct attn_layer *layer;
    struct attn_options options;

    /* [1, 1, length, columns]; where the projection is the identity also
     * [1, heads, length, head_dim] already cut into heads. The rows of a tensor
     * that is projected are dense. F32; where there is neither a projection nor
     * a norm nor a rotary embedding any dtype that attn.h takes. */
    struct attn_tensor query, key, value;

    struct attn_tensor mask;   /* as in attn.h, to [1, q_heads, q_len, kv_len] */
    const int64_t *kv_len;     /* [1] or NULL */
    const int64_t *row_kv_len; /* [q_len] or NULL */
    int64_t past_len;
    int64_t kv_offset;
    const float *alibi_slopes; /* [q_heads] or NULL, as in attn.h */
    const float *sinks;        /* the same */
    bool partial;              /* the context stops before the output projection */

    /* Outputs, each dense or NULL, of output_dtype: F32, or where no o_proj follows the context any
     * other dtype of numbers. */
    enum attn_dtype output_dtype;
    void *context; /* [q_len, d_out]; partial: [q_heads, q_len, v_head_dim] */
    void *lse;     /* [q_heads, q_len] */
    void *scores;  /* [q_heads, q_len, kv_len], like the three below */
    void *softcapped;
    void *masked;
    void *weights;

    /* The weights again, smaller, or NULL; not beside weights. It stays with the caller. */
    const struct attn_weight_map *weight_map;

    const struct attn_kernels *kernels; /* NULL: the best this CPU can run */
};

enum { ATTN_LAYER_STAGES_MAX = 5 };

/* Borrows the problem's memory and the layer; owns nothing. Read the first four
 * fields, leave the rest alone. */
struct attn_layer_plan {
    int stage_count;                           /* 0 where there is nothing to compute */
    int64_t task_count[ATTN_LAYER_STAGES_MAX]; /* of each stage, 1 or more */
    size_t scratch_bytes;   /* shared by all tasks of one run, 64-byte aligned; may be 0 */
    size_t workspace_bytes; /* what one running task needs besides, 64-byte aligned; may be 0 */

    struct attn_layer_problem problem;
    const struct attn_layer_merge *merge; /* of merge.h; NULL: a call of attention */
    struct attn_plan attention;           /* its tensors in scratch are bound when a task runs */
    int stage_kind[ATTN_LAYER_STAGES_MAX];
    size_t q_offset, k_offset, v_offset, context_offset, shared_offset; /* into scratch, in bytes */
    bool keeps_projected[2]; /* query and key also as they are before norm and rotary embedding, */
    size_t projected_offset[2]; /* there: what gradients need, */
    bool keeps_lse;             /* and lse, there */
    size_t lse_offset;
};

/* As attn_plan_init(): everything is checked here and running cannot fail.
 * *where names the field ("query.shape[3]"), in the words of this header. */
enum attn_status attn_layer_plan_init(struct attn_layer_plan *plan,
                                      const struct attn_layer_problem *problem, const char **where);

void attn_layer_run(const struct attn_layer_plan *plan, int stage, int64_t task, void *scratch,
                    void *workspace);

/* What a stage is: a product of rows with parameters of the layer, those of query, key and value or
 * those of the output projection, or anything else. */
enum attn_layer_product { ATTN_PRODUCT_NONE, ATTN_PRODUCT_INPUTS, ATTN_PRODUCT_OUTPUT };

enum attn_layer_product attn_layer_product(const struct attn_layer_plan *plan, int stage);

/* A plan that is being run. */
struct attn_layer_call {
    const struct attn_layer_plan *plan;
    void *scratch;
};

/* A stage of several calls as one, in place of the tasks of each: the same product, of layers that
 * have it in the same memory (attn_layer_same_product()), and of the same kernels. Each call gets
 * the bits that it gets alone. A task needs the workspace of one of the calls. */
bool attn_layer_same_product(const struct attn_layer *a, const struct attn_layer *b,
                             enum attn_layer_product product);
int64_t attn_layer_product_parameters(const struct attn_layer *layer,
                                      enum attn_layer_product product);

/* Rows of a call that go through it, of query, key and value those of the longest. */
int64_t attn_layer_product_rows(const struct attn_layer_call *call,
                                enum attn_layer_product product);

int64_t attn_layer_product_tasks(const struct attn_layer_call *calls, int count,
                                 enum attn_layer_product product);
void attn_layer_product_run(const struct attn_layer_call *calls, int count,
                            enum attn_layer_product product, int64_t task, void *workspace);

#endif
