/* attn.h - scaled dot-product attention on the CPU.
 *
 *     scores     = scale * query . key^T                       [q_len, kv_len]
 *     softcapped = softcap * tanh(scores / softcap)            if softcap > 0, else scores
 *     masked     = softcapped + mask                           causal, window, kv_len, ALiBi, yours
 *     weights    = softmax(masked), or sparsemax(masked)       row by row
 *     context    = weights . value                             [q_len, v_head_dim]
 *     lse        = log(sum(exp(masked)))                       row by row
 *
 * or, where the problem has an additive_weight v, scores = scale * v . tanh(query + key).
 *
 * The meaning is that of ONNX Attention, opset 23 to 25. Three steps:
 *
 *   1. Describe: fill a struct attn_problem with views of memory you own.
 *   2. Plan:     attn_plan_init() checks it once and sizes the workspace.
 *   3. Run:      attn_plan_run() once per task, from any thread. It cannot fail.
 *
 * A query row that may attend to nothing has weights 0, context 0 and lse
 * -INFINITY, never NaN. What a masked key or value holds, NaN and infinity
 * included, never reaches the context.
 *
 * The library does no I/O, starts no threads, reads no environment and
 * allocates no memory. Equal inputs give equal bits, however many threads run
 * the tasks and whichever outputs are asked for. */
#ifndef ATTN_H
#define ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---------------------------------------------------------------- status -- */

#define ATTN_STATUS_MAP(X)                                                                         \
    X(OK, "success")                                                                               \
    X(ERR_NO_DATA, "a required tensor has no data")                                                \
    X(ERR_DTYPE, "this tensor cannot have this dtype")                                             \
    X(ERR_SHAPE, "the shapes of these tensors do not agree")                                       \
    X(ERR_HEADS, "query heads must be a multiple of key/value heads")                              \
    X(ERR_STRIDE, "the last dimension of this tensor must be contiguous")                          \
    X(ERR_LENGTH, "a kv_len or past_len is out of range")                                          \
    X(ERR_OPTION, "an option is out of range")                                                     \
    X(ERR_TOO_LARGE, "the sizes overflow")

enum attn_status {
#define X(name, message) ATTN_##name,
    ATTN_STATUS_MAP(X)
#undef X
};

const char *attn_status_name(enum attn_status status);    /* "ATTN_ERR_SHAPE" */
const char *attn_status_message(enum attn_status status); /* a sentence */

/* --------------------------------------------------------------- tensors -- */

enum attn_dtype { ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16, ATTN_BOOL };

size_t attn_dtype_size(enum attn_dtype dtype); /* in bytes */

/* A view: someone else's memory, with a shape. A view never owns.
 *
 * Dimensions are [batch, heads, length, head_dim]. Any memory layout with a
 * contiguous head_dim is a choice of strides, so [batch, length, heads,
 * head_dim] needs no copy and no flag; stride 0 broadcasts. */
struct attn_tensor {
    void *data; /* NULL: this optional tensor is absent */
    enum attn_dtype dtype;
    int64_t shape[4];
    int64_t stride[4]; /* in elements, not bytes */
};

/* The dense row-major view of data. */
struct attn_tensor attn_tensor_dense(void *data, enum attn_dtype dtype, int64_t batch,
                                     int64_t heads, int64_t length, int64_t head_dim);

/* Rows of heads * head_dim columns, [batch, length, heads * head_dim] dense in
 * memory with row_stride elements from row to row, seen as
 * [batch, heads, length, head_dim]. */
struct attn_tensor attn_tensor_rows(void *data, enum attn_dtype dtype, int64_t batch, int64_t heads,
                                    int64_t length, int64_t head_dim, int64_t row_stride);

/* --------------------------------------------------------------- problem -- */

/* How masked scores become weights. lse is that of the softmax under both. */
enum attn_normalizer {
    ATTN_SOFTMAX,
    ATTN_SPARSEMAX, /* the nearest point of the simplex (Martins and Astudillo 2016): weights of
                       scores far below the greatest are 0. Parts of keys cannot be merged */
};

/* Query row i stands at position p = past_len + i; key j at position k = kv_offset + j. */
struct attn_options {
    double scale;         /* softmax scale, usually 1/sqrt(head_dim); finite, as a float too */
    double softcap;       /* 0: off; else positive and finite, as a float too */
    bool causal;          /* a row sees keys at k <= p */
    int64_t window_left;  /* a row sees keys at k >= p - window_left; -1: all before it */
    int64_t window_right; /* a row sees keys at k <= p + window_right; -1: all after it */

    /* Dropout of the weights (Srivastava et al. 2014), inverted: each weight becomes 0 with this
     * probability, else it is divided by 1 - dropout; what the weights then are makes the context.
     * lse is not touched. Which ones follows from seed, batch item, head, query row and the key's
     * position alone (Philox4x32-10). */
    float dropout; /* 0: off; below 1 */
    uint64_t seed;

    enum attn_normalizer normalizer;

    /* In what scores, softmax and sums are computed at the least (ONNX Attention,
     * softmax_precision). F64: all in double, as also where any tensor of the problem is F64. F32,
     * F16 and BF16: in float, which is finer than the last two ask for. */
    enum attn_dtype softmax_precision;
};

/* scale = 1/sqrt(head_dim), no cap, not causal, no window. */
struct attn_options attn_options_default(int64_t head_dim);

struct attn_problem {
    struct attn_options options;

    /* Each F32, F16, BF16 or F64. Computed with is float; where a tensor of the problem is F64 or
     * softmax_precision asks for it, double, throughout and by another, slower path. */
    struct attn_tensor query; /* [batch, q_heads,  q_len,  head_dim]   */
    struct attn_tensor key;   /* [batch, kv_heads, kv_len, head_dim]   */
    struct attn_tensor value; /* [batch, kv_heads, kv_len, v_head_dim] */

    /* Optional, [head_dim], the same for every head: additive scores (Bahdanau et al. 2015,
     * appendix A.1.2) in place of the dot product,
     *     scores = scale * sum over d of additive_weight[d] * tanh(query[d] + key[d])
     * where scale is usually 1. */
    const float *additive_weight;

    /* Optional. Each dimension is that of [batch, q_heads, q_len, kv_len] or 1,
     * which broadcasts; any stride. BOOL (one byte): true may attend. F32, F16,
     * BF16 or F64: added to the scores; -INFINITY forbids. Of more than one key and
     * fewer than kv_len, the mask forbids those past its end (ONNX Attention-24: the last
     * dimension "can also be shorter"); one is "broadcastable", and broadcasts. */
    struct attn_tensor mask;

    /* Optional lengths, each 0 or more. A length past kv_len hides nothing. */
    const int64_t *kv_len;     /* [batch]: keys j >= kv_len are hidden */
    const int64_t *row_kv_len; /* [batch, q_len]: the same for each query row */
    const int64_t *past_len;   /* [batch]: keys that come before query row 0; absent: 0.
                                  May be negative: then the first rows see nothing when causal */
    int64_t kv_offset;         /* the position of key 0, where the keys are a part of a longer
                                  sequence; of either sign. Lengths count keys, not positions */

    /* Optional, [q_heads], finite: attention with linear biases (Press, Smith and Lewis 2022). The
     * score of a key at position k gets -slope * |p - k|, with the masks. */
    const float *alibi_slopes;

    /* Optional, [q_heads], finite or -INFINITY: one more key with this score and no value (Xiao et
     * al. 2024). It counts in the softmax of a row and in its lse and shows in no map; a row that
     * sees nothing else has context 0 and lse = sink. -INFINITY: this head has none. */
    const float *sinks;

    /* Outputs, each optional, F32, F16, BF16 or F64: the same numbers, rounded to the nearest, ties
     * to even; what is too large becomes infinite. Each must not overlap any input or output. */
    struct attn_tensor context;    /* [batch, q_heads, q_len, v_head_dim] */
    struct attn_tensor lse;        /* [batch, q_heads, q_len, 1], natural logarithm */
    struct attn_tensor scores;     /* [batch, q_heads, q_len, kv_len], like the three below */
    struct attn_tensor softcapped; /* what a mask forbids is still a number in these two, */
    struct attn_tensor masked;     /* -INFINITY in this one, */
    struct attn_tensor weights;    /* and 0 in this one */

    const struct attn_kernels *kernels; /* NULL: the best this CPU can run */
};

/* ------------------------------------------------------------------ plan -- */

/* Read the first four fields, leave the rest alone. A plan borrows the
 * problem's memory and owns nothing, so there is nothing to free. */
struct attn_plan {
    int64_t task_count; /* tasks write disjoint rows of the outputs; 0 where there are no rows */
    size_t workspace_bytes; /* what one running task needs, 64-byte aligned; it does not grow with
                               kv_len */
    int64_t part_count;     /* 0, or tasks can be cut: see attn_plan_run_part() */
    size_t shared_bytes;    /* what all parts of a run share, 64-byte aligned */

    struct attn_problem problem;
    const struct attn_kernels *kernels;
    bool in_double;  /* rather than in float; then no kernels run but those that convert */
    int64_t q_tile;  /* query rows of one task at the most */
    int64_t width;   /* lanes of one tile: q_tile rounded up to whole vectors */
    int64_t kv_tile; /* keys of one step */
    int64_t q_tiles; /* tasks of one head */

    /* The rows of weights stay masked scores, for weight_map.c to make less of them. */
    bool keeps_scores;

    /* Of a few query rows (forward_decode.c). */
    bool is_decode;
    int64_t decode_heads,
        decode_tasks;           /* query heads of one task at the most, tasks of one group */
    int64_t chunk_keys, chunks; /* keys of one part, parts of one task */
    size_t state_bytes;         /* what one part leaves in shared */
};

/* Check the problem and choose how to run it. q_len and kv_len may be 0; heads,
 * head_dim and v_head_dim may not.
 * On failure *where names the field at fault ("key.shape[3]"), a constant
 * string, and the plan is not to be used; where may be NULL. */
enum attn_status attn_plan_init(struct attn_plan *plan, const struct attn_problem *problem,
                                const char **where);

/* Run task number task of plan->task_count, in any order, from any thread.
 * Tasks that run at the same time need a workspace each. */
void attn_plan_run(const struct attn_plan *plan, int64_t task, void *workspace);

/* Few query rows over many keys are few tasks. Where part_count is not 0 the same work, with the
 * same bits, can be had in more tasks, for whoever has threads for them: first part_count parts, in
 * any order; when all are done, task_count joins, in any order. Each needs a workspace as above. */
void attn_plan_run_part(const struct attn_plan *plan, int64_t part, void *shared, void *workspace);
void attn_plan_run_join(const struct attn_plan *plan, int64_t number, void *shared,
                        void *workspace);

/* --------------------------------------------------------------- kernels -- */

/* The tables of kernels that this CPU can run, best first, ended by NULL. */
const struct attn_kernels *const *attn_kernels_available(void);

const char *attn_kernels_name(const struct attn_kernels *kernels); /* "generic", "avx2", "avx512" */

#endif
